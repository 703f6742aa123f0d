"""Python integers on their way into C.

Rule: ctypes cuts an integer down to the width of its C type without a word; so every integer is
checked here first, and what does not fit raises before C is called (contract M3, case 20).
"""

from __future__ import annotations

import ctypes
from operator import index
from typing import SupportsIndex, Union

from ._errors import InvalidDeviceError, refused
from ._types import MemcpyKind, Status

#: What is taken for a raw pointer or handle: an integer, ``None`` for NULL, or a ``c_void_p``.
Address = Union[int, None, ctypes.c_void_p]

_UINT64 = 2**64
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def size(value: SupportsIndex, operation: str, name: str = "size") -> int:
    """A number of bytes, ``0 <= value < 2**64``."""
    number = index(value)
    if number < 0:
        raise refused(operation, f"`{name}` is {number}, a negative number of bytes")
    if number >= _UINT64:
        raise refused(operation, f"`{name}` is {number} bytes, which does not fit 64 bits")
    return number


def address(value: Address, operation: str, name: str) -> int:
    """A pointer or a handle as a number; NULL is 0."""
    if value is None:
        return 0
    number = (value.value or 0) if isinstance(value, ctypes.c_void_p) else index(value)
    if not 0 <= number < _UINT64:
        raise refused(operation, f"`{name}` is {number}, which is no address")
    return number


def int32(value: SupportsIndex, operation: str, name: str) -> int:
    """A number that C takes as ``int32_t``."""
    number = index(value)
    if not _INT32_MIN <= number <= _INT32_MAX:
        raise refused(operation, f"`{name}` is {number}, which does not fit 32 bits")
    return number


def uint32(value: SupportsIndex, operation: str, name: str) -> int:
    """A number that C takes as ``uint32_t``; whether it means something is C's to say."""
    number = index(value)
    if not 0 <= number < 2**32:
        raise refused(operation, f"`{name}` is {number}, which does not fit 32 bits")
    return number


def ordinal(value: SupportsIndex, operation: str) -> int:
    """A device ordinal that C can be asked about; whether the device exists is C's to say."""
    number = index(value)
    if not _INT32_MIN <= number <= _INT32_MAX:
        message = f"device {number} does not exist; it does not fit 32 bits"
        raise InvalidDeviceError(Status.INVALID_DEVICE, operation, message)
    return number


def kind_of_the_twelve(value: SupportsIndex, operation: str) -> int:
    """A copy kind of LLAISYS's own table; whether another number is one is C's to say."""
    number = int32(value, operation, "kind")
    if number == MemcpyKind.INFERRED:
        # The extended table, which is used underneath, would take it.
        raise refused(operation, f"kind {number} is not one of 0..=3")
    return number & 0xFFFFFFFF


def key(value: SupportsIndex, operation: str) -> int:
    """The key of a user slot: any number of 64 bits."""
    number = index(value)
    if not 0 <= number < _UINT64:
        raise refused(operation, f"`key` is {number}, which does not fit 64 bits")
    return number
