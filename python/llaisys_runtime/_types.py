"""The integers of the C ABI under their names.

Rule: a number that this package does not know is still a value of its enum (a newer library, a
plugin of another kind); it compares equal to its number and is called ``UNKNOWN_<number>``.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
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
    """The direction of a copy: H is host memory, D is device memory, source first.

    ``INFERRED``, where the pointers tell, is the extended table's; LLAISYS's own has the other four.
    """

    H2H = 0
    H2D = 1
    D2H = 2
    D2D = 3
    INFERRED = 4


class MemoryKind(_OpenIntEnum):
    """What the memory at an address is (see :func:`pointer_attributes`)."""

    #: Ordinary host memory.
    PAGEABLE = 0
    #: Device memory.
    DEVICE = 1
    #: Pinned host memory, a :class:`HostBuffer`'s for example.
    PINNED = 2
    #: One address for host and device, a :class:`ManagedBuffer`'s for example.
    MANAGED = 3
    #: Ordinary host memory that was pinned afterwards, by :func:`register_host` for example.
    REGISTERED = 4


class MemoryAdvice(IntEnum):
    """How managed memory will be used (see :meth:`ManagedBuffer.advise`)."""

    #: It is mostly read: copies on several devices are fine.
    SET_READ_MOSTLY = 1
    UNSET_READ_MOSTLY = 2
    #: It should live at the location.
    SET_PREFERRED_LOCATION = 3
    UNSET_PREFERRED_LOCATION = 4
    #: The location will access it: keep it mapped there.
    SET_ACCESSED_BY = 5
    UNSET_ACCESSED_BY = 6


class LinkKind(_OpenIntEnum):
    """What a copy between two devices takes (see :meth:`Device.peer_link`)."""

    #: The two are one device.
    SAME_DEVICE = 0
    #: Staged through host memory.
    THROUGH_HOST = 1
    PCIE = 2
    #: NVLink, or what the vendor calls its own.
    NVLINK = 3
    #: Both are views of the same host memory.
    SHARED_MEMORY = 4


class Support(_OpenIntEnum):
    """How an operation is there (see :meth:`Device.supports`)."""

    #: Not at all: it raises :class:`NotSupportedError`.
    UNSUPPORTED = 0
    #: The backend does it.
    NATIVE = 1
    #: The runtime does it with other operations of the backend.
    EMULATED = 2


class Capability(IntFlag):
    """What a device has (``Device.properties.capabilities``)."""

    DEVICE_MEMORY_IS_HOST_MEMORY = 1
    DEVICE_INFORMATION = 1 << 1
    STREAM_QUERY = 1 << 2
    HOST_FUNCTIONS = 1 << 3
    POINTER_QUERY = 1 << 4
    STREAM_OPTIONS = 1 << 5
    FOREIGN_STREAMS = 1 << 6
    EVENTS = 1 << 7
    STREAM_ORDERED_MEMORY = 1 << 8
    MANAGED_MEMORY = 1 << 9
    HOST_REGISTRATION = 1 << 10
    FILL = 1 << 11
    PITCHED_COPIES = 1 << 12
    BATCHED_COPIES = 1 << 13
    PEERS = 1 << 14
    MEMORY_POOL = 1 << 15


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
    NOT_RECORDED = 18
    TIMING_DISABLED = 19
