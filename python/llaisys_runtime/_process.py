"""What concerns the library as a whole: its versions, its plugins, the thread's last-error slot."""

from __future__ import annotations

import os
from ctypes import byref, c_int32
from typing import Optional, Tuple, Union

from . import _arguments
from ._errors import LlaisysError
from ._library import library
from ._types import DeviceType


def library_path() -> str:
    """The path of the library that is in use; a bare name when the system's loader found it."""
    return library().path


def library_version() -> str:
    """The version of the library, for people."""
    opened = library()
    return opened.text(opened.llaisysGetVersion())


def abi_version() -> Tuple[int, int]:
    """The version of the library's ABI as (major, minor)."""
    number = library().llaisysGetAbiVersion()
    return number >> 16, number & 0xFFFF


def load_backend(path: Union[str, "os.PathLike[str]"]) -> DeviceType:
    """Loads a backend from a file, for the rest of the process, and returns its device type.

    Raises:
        BackendRefusedError, AbiMismatchError, ...: it cannot be used, with the reason.
    """
    opened = library()
    device_type = c_int32()
    unread = opened.unread()
    status = opened.llaisysLoadBackend(os.fsencode(path), byref(device_type))
    if status:
        raise opened.failure(status, "llaisysLoadBackend", unread)
    return DeviceType(device_type.value)


def device_type_name(type: int) -> str:
    """The short name of a device type, for example ``nvidia``; ``unknown`` for one without."""
    opened = library()
    number = _arguments.int32(type, "device_type_name", "type")
    return opened.text(opened.llaisysDeviceTypeName(number))


def peek_last_error() -> Optional[LlaisysError]:
    """The unread failure in this thread's last-error slot, not raised; it stays there.

    This package reads its own failures at once and raises them. What is found here was left by C code
    on this thread.
    """
    return library().peek_failure()


def take_last_error() -> Optional[LlaisysError]:
    """The same, and clears the slot."""
    return library().take_failure()
