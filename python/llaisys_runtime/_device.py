"""Devices: which there are, what they are, how much memory they have.

Rule: looking at a device makes no context on it (contract D4).
"""

from __future__ import annotations

from ctypes import byref
from typing import List, NamedTuple, Optional, SupportsIndex, Tuple

from . import _abi, _arguments, _wait
from ._backend import Backend, backend, device_count, sized
from ._errors import InvalidDeviceError, LlaisysError
from ._library import library
from ._types import DeviceType, Status


class DeviceProperties(NamedTuple):
    """What a device is. What is not known is 0 or empty."""

    #: The name, for people.
    name: str
    #: The vendor's name.
    vendor: str
    #: The vendor's identifier of this very device, 16 bytes; all zero where there is none.
    uuid: bytes
    #: The PCI address as ``dddd:bb:dd.f``.
    pci_address: str
    #: Streaming multiprocessors of a GPU, usable logical processors of a CPU.
    processor_count: int
    #: Memory of the device in bytes; on a CPU what the process may use.
    total_memory: int
    #: The driver's version as 1000 × major + 10 × minor; 0 without a driver.
    driver_version: int
    #: The compute capability of a CUDA device as (major, minor); (0, 0) elsewhere.
    compute_capability: Tuple[int, int]


class MemoryInfo(NamedTuple):
    """The memory of a device at one moment, in bytes."""

    #: What can still be allocated; ``None`` where that cannot be told without making a context.
    free: Optional[int]
    #: What the device has.
    total: int


class Candidate(NamedTuple):
    """A backend that was looked at, and what came of it."""

    #: ``SUCCESS`` when it is in use, otherwise why it is not.
    status: Status
    #: The device type that it serves; of a refused one possibly unknown.
    device_type: DeviceType
    #: Its short name, for example ``nvidia``.
    name: str
    #: Its file; empty for the one that is built in.
    path: str
    #: Its own version.
    version: str
    #: Who made the devices.
    vendor: str
    #: Why it is in use or not, for people.
    reason: str


class Device:
    """One device: a type and an ordinal. Two objects for the same device are equal.

    Raises:
        InvalidDeviceError: there is no device with this ordinal.
        LlaisysError: there is no device of this type, with the reason.
    """

    __slots__ = ("_backend", "_ordinal")

    def __init__(self, type: int = DeviceType.CPU, ordinal: SupportsIndex = 0) -> None:
        number = _arguments.int32(type, "Device", "type")
        self._ordinal = _arguments.ordinal(ordinal, "Device")
        self._backend = backend(number)
        count = device_count(number)
        if not 0 <= self._ordinal < count:
            message = f"{self.type.name} device {self._ordinal} does not exist; there are {count}"
            raise InvalidDeviceError(Status.INVALID_DEVICE, "Device", message)

    @property
    def type(self) -> DeviceType:
        """The kind of device."""
        return self._backend.device_type

    @property
    def ordinal(self) -> int:
        """Which device of its kind, from 0."""
        return self._ordinal

    @property
    def backend(self) -> Backend:
        """The backend's table; for this package's own use."""
        return self._backend

    def __repr__(self) -> str:
        return f"Device({self.type.name}, {self._ordinal})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self.type, self._ordinal) == (other.type, other._ordinal)

    def __hash__(self) -> int:
        return hash((int(self.type), self._ordinal))

    @property
    def properties(self) -> DeviceProperties:
        """What the device is."""
        found = sized(_abi.LlaisysDeviceProperties)
        self._backend.call("get_device_properties", self._ordinal, byref(found))
        text = self._backend.library.text
        return DeviceProperties(
            name=text(found.name),
            vendor=text(found.vendor),
            uuid=bytes(found.uuid),
            pci_address=text(found.pci_address),
            processor_count=found.processor_count,
            total_memory=found.total_memory,
            driver_version=found.driver_version,
            compute_capability=(found.compute_capability_major, found.compute_capability_minor),
        )

    def memory_info(self) -> MemoryInfo:
        """The device's memory now."""
        found = sized(_abi.LlaisysMemoryInfo)
        self._backend.call("get_memory_info", self._ordinal, byref(found))
        free = None if found.free == _abi.UNKNOWN_BYTES else found.free
        return MemoryInfo(free, found.total)

    def synchronize(self) -> None:
        """Waits for all work of the device; Ctrl-C interrupts the wait, not the work."""
        _wait.for_device(self._backend, self._ordinal)


def devices(type: Optional[int] = None) -> List[Device]:
    """Every device that can be used, of one type or of all; an empty list when there is none."""
    if type is not None:
        types = [_arguments.int32(type, "devices", "type")]
    else:
        types = sorted(
            {int(found.device_type) for found in candidates() if found.status == Status.SUCCESS}
        )
    result: List[Device] = []
    for number in types:
        try:
            result += [Device(number, ordinal) for ordinal in range(device_count(number))]
        except LlaisysError:
            # No device of this type: `unavailable_reason` says why.
            continue
    return result


def unavailable_reason(type: int) -> Optional[LlaisysError]:
    """Why there is no device of a type, not raised; ``None`` when there is one, or no reason."""
    try:
        device_count(_arguments.int32(type, "unavailable_reason", "type"))
    except LlaisysError as reason:
        return reason
    return None


def candidates() -> List[Candidate]:
    """Every backend that was looked at, in that order, and why it is in use or not."""
    opened = library()
    result: List[Candidate] = []
    for index in range(opened.llaisysGetCandidateCount()):
        found = sized(_abi.LlaisysCandidate)
        unread = opened.unread()
        status = opened.llaisysGetCandidate(index, byref(found))
        if status:
            raise opened.failure(status, "llaisysGetCandidate", unread)
        result.append(
            Candidate(
                status=Status(found.status),
                device_type=DeviceType(found.device_type),
                name=opened.text(found.name),
                path=opened.text(found.path),
                version=opened.text(found.version),
                vendor=opened.text(found.vendor),
                reason=opened.text(found.reason),
            )
        )
    return result
