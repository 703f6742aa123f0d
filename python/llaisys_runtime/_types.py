"""The integers of the C ABI under their names.

Rule: a number that this package does not know is still a value of its enum (a newer library, a
plugin of another kind); it compares equal to its number and is called ``UNKNOWN_<number>``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Optional, Type, TypeVar

_E = TypeVar("_E", bound="_OpenIntEnum")


class _OpenIntEnum(IntEnum):
    """An ``IntEnum`` that has a member for every number that fits an ``int32_t``."""

    @classmethod
    def _missing_(cls: Type[_E], value: object) -> Optional[_E]:
        if not isinstance(value, int) or not -(2**31) <= value < 2**31:
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}" if value >= 0 else f"UNKNOWN_MINUS_{-value}"
        member._value_ = value
        # As `enum.Flag` does it: the first one made for a number stays the only one.
        known: _E = cls._value2member_map_.setdefault(value, member)  # type: ignore[assignment]
        return known


class DeviceType(_OpenIntEnum):
    """A kind of device. CPU and NVIDIA are LLAISYS's; the others are reserved for their vendors.

    A plugin of another kind gets its number when it is loaded (see :func:`load_backend`).
    """

    CPU = 0
    NVIDIA = 1
    CAMBRICON = 2
    ASCEND = 3
    METAX = 4
    MOORE = 5
    ILUVATAR = 6
    KUNLUN = 7
    HYGON = 8
    QY = 9
    ALI = 10


class MemcpyKind(IntEnum):
    """The direction of a copy: H is host memory, D is device memory, source first."""

    H2H = 0
    H2D = 1
    D2H = 2
    D2D = 3


class Status(_OpenIntEnum):
    """What came of a call. Each value but ``SUCCESS`` has an exception class of its own."""

    SUCCESS = 0
    INVALID_VALUE = 1
    INVALID_HANDLE = 2
    INVALID_DEVICE = 3
    OUT_OF_MEMORY = 4
    NOT_SUPPORTED = 5
    NOT_READY = 6
    NOT_PERMITTED = 7
    DEVICE_LOST = 8
    DRIVER_UNAVAILABLE = 9
    DRIVER_TOO_OLD = 10
    BACKEND_UNAVAILABLE = 11
    BACKEND_REFUSED = 12
    ABI_MISMATCH = 13
    FORKED = 14
    SHUTDOWN = 15
    DRIVER_ERROR = 16
    INTERNAL = 17
