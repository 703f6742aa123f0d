"""Devices: which there are, what they are, how much memory they have.

Rule: looking at a device makes no context on it (contract D4).
"""

from __future__ import annotations

from ctypes import byref, c_int32
from typing import Any, List, NamedTuple, Optional, SupportsIndex, Tuple

from . import _abi, _arguments, _slots, _wait
from ._arguments import Address
from ._backend import Backend, backend, device_count, sized
from ._errors import InvalidDeviceError, LlaisysError, refused
from ._library import library
from ._slots import Destructor
from ._types import Capability, DeviceType, LinkKind, Status, Support


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
    #: The version of the vendor's runtime library in this process, as ``driver_version``.
    runtime_version: int
    #: The last-level cache (L2 of a GPU) in bytes.
    l2_cache_size: int
    #: The processors' top clock in kHz.
    clock_rate: int
    #: Whether the device shares the host's memory physically.
    integrated: bool
    #: What this very device has.
    capabilities: Capability
    #: What a CPU can compute with, for example ``("avx2", "avx512f")``; empty on a GPU.
    cpu_features: Tuple[str, ...]


class MemoryInfo(NamedTuple):
    """The memory of a device at one moment, in bytes."""

    #: What can still be allocated; ``None`` where that cannot be told without making a context.
    free: Optional[int]
    #: What the device has.
    total: int


class MemoryStatistics(NamedTuple):
    """Where the memory of a device, or of a stream, went; sizes in bytes."""

    #: Handed out and not freed.
    used: int
    #: Held from the driver, used or cached; at least ``used``.
    reserved: int
    #: The most that ``used`` was since the last reset.
    peak: int
    #: The number of blocks that are handed out.
    live: int
    #: Allocations since the start.
    allocations: int
    #: Frees since the start.
    frees: int
    #: Allocations that failed for want of memory.
    failures: int
    #: The limit set for the device; ``None`` without one.
    limit: Optional[int]


class PeerLink(NamedTuple):
    """How one device reaches the memory of another."""

    #: Whether the device can read and write the peer's memory directly.
    can_access: bool
    #: Whether that is switched on.
    enabled: bool
    #: What a copy between the two takes.
    kind: LinkKind
    #: The vendor's rank of the link, 0 is best; only to compare links of one machine.
    performance_rank: int
    #: Whether atomic operations work over the link.
    native_atomics: bool


class PriorityRange(NamedTuple):
    """The priorities that streams of a device can have; a lower number is served first."""

    #: The number of those who are served last.
    least: int
    #: The number of those who are served first; ``greatest <= least``.
    greatest: int


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
        found = self._backend.describe(
            _abi.LlaisysDeviceProperties, "get_device_properties", self._ordinal
        )
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
            runtime_version=found.runtime_version,
            l2_cache_size=found.l2_cache_size,
            clock_rate=found.clock_rate,
            integrated=bool(found.integrated),
            capabilities=Capability(found.capabilities),
            cpu_features=tuple(text(found.cpu_features).split()),
        )

    def supports(self, operation: str) -> Support:
        """How an operation of the extended table (``"memset_async"``, say) is there.

        Raises:
            InvalidValueError: the table has no operation of this name.
        """
        # C takes a text up to its NUL.
        name = operation.encode().replace(b"\0", b"\\0")
        return Support(self._backend.answer(c_int32, "get_operation_support", name))

    def memory_info(self) -> MemoryInfo:
        """The device's memory now."""
        found = self._backend.describe(_abi.LlaisysMemoryInfo, "get_memory_info", self._ordinal)
        free = None if found.free == _abi.UNKNOWN_BYTES else found.free
        return MemoryInfo(free, found.total)

    def memory_statistics(self) -> MemoryStatistics:
        """Where the device's memory went that was allocated through this runtime."""
        return statistics(
            self._backend.describe(
                _abi.LlaisysMemoryStatistics, "get_memory_statistics", self._ordinal
            )
        )

    def reset_peak(self) -> None:
        """Begins ``memory_statistics().peak`` anew at what is used now."""
        self._backend.call("reset_peak_memory", self._ordinal)

    def set_memory_limit(self, limit: Optional[SupportsIndex]) -> None:
        """Limits what may be used of the device, in bytes; ``None`` takes the limit away.

        What is used already stays. An allocation above the limit is an :class:`OutOfMemoryError`.
        """
        number = _abi.NO_LIMIT
        if limit is not None:
            number = _arguments.size(limit, "set_memory_limit", "limit")
        self._backend.call("set_memory_limit", self._ordinal, number)

    def trim(self, keep: SupportsIndex = 0) -> None:
        """Gives cached memory back to the driver until at most ``keep`` bytes are cached."""
        number = _arguments.size(keep, "trim_memory", "keep")
        self._backend.call("trim_memory", self._ordinal, number)

    def peer_link(self, peer: "Device") -> PeerLink:
        """How this device reaches the memory of another one of its type."""
        found = self._backend.describe(
            _abi.LlaisysPeerLink, "get_peer_link", self._ordinal, self._peer("get_peer_link", peer)
        )
        return PeerLink(
            can_access=bool(found.can_access),
            enabled=bool(found.enabled),
            kind=LinkKind(found.kind),
            performance_rank=found.performance_rank,
            native_atomics=bool(found.native_atomics),
        )

    def enable_peer_access(self, peer: "Device") -> None:
        """Lets kernels on this device use the memory of another one of its type. Again is fine.

        Copies between devices need no such call.
        """
        number = self._peer("enable_peer_access", peer)
        self._backend.call("enable_peer_access", self._ordinal, number)

    def _peer(self, operation: str, peer: "Device") -> int:
        if peer.type != self.type:
            raise refused(operation, f"{self!r} and {peer!r} are of different kinds")
        return peer.ordinal

    @property
    def priority_range(self) -> PriorityRange:
        """The priorities that streams of this device can have."""
        least, greatest = c_int32(), c_int32()
        outputs = byref(least), byref(greatest)
        self._backend.call("get_stream_priority_range", self._ordinal, *outputs)
        return PriorityRange(least.value, greatest.value)

    def set_thread_slot(
        self, key: SupportsIndex, value: Address, destructor: Optional[Destructor] = None
    ) -> None:
        """Keeps a value (a number: an address, a handle) for this thread and device; 0 takes it away.

        C code on this thread finds it under the same key. ``destructor(value)`` is called once, on
        this thread: when the value is replaced or taken away, when the thread ends, or at exit for
        the main thread; not for a thread that is still there at exit.

        Args:
            key: see :func:`slot_key`.
        """
        number = _arguments.key(key, "set_thread_slot")
        address = _arguments.address(value, "set_thread_slot", "value")
        _slots.set_for_thread(self._backend, self._ordinal, number, address, destructor)

    def get_thread_slot(self, key: SupportsIndex) -> int:
        """The value that this thread keeps for the device under the key; 0 when there is none."""
        number = _arguments.key(key, "get_thread_slot")
        return self._backend.handle("get_thread_slot", self._ordinal, number)

    def synchronize(self) -> None:
        """Waits for all work of the device; Ctrl-C interrupts the wait, not the work."""
        _wait.for_device(self._backend, self._ordinal)


def statistics(found: Any) -> MemoryStatistics:
    """C's struct as ours."""
    return MemoryStatistics(
        used=found.used,
        reserved=found.reserved_bytes,
        peak=found.peak,
        live=found.live,
        allocations=found.allocations,
        frees=found.frees,
        failures=found.failures,
        limit=None if found.limit == _abi.NO_LIMIT else found.limit,
    )


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
