"""Streams, and what they keep alive.

Rules: closing a stream never waits, and its work completes (contract S3). An object that was promised
to a copy on a stream is let go once the stream is seen to be idle: at a query, at a synchronize, or
when more than ``_SWEEP_AT`` of them have gathered; more than ``_WAIT_AT`` are not gathered, the
next promise waits first (contract S6).
"""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    SupportsIndex,
    Tuple,
    Type,
)

from . import _abi, _arguments, _foreign_stream, _keep, _wait
from ._arguments import Address
from ._backend import Backend
from ._device import Device, MemoryStatistics, statistics
from ._errors import LlaisysError, closed, refused
from ._event import Event, same_type
from ._host_function import HostFunctions
from ._slots import Destructor, StreamSlots
from ._types import DeviceType

_SWEEP_AT = 64
_WAIT_AT = 1024


class _Orphan(NamedTuple):
    """A stream that was closed while promised objects were in use."""

    backend: Backend
    ordinal: int
    handle: int
    owned: bool
    adoption: Optional[_foreign_stream.Adoption]
    tickets: List[int]


#: Closed streams that are destroyed, and their objects let go, once their work is done.
_orphans: Dict[int, _Orphan] = {}
_orphan_numbers: Iterator[int] = itertools.count()


def _sweep_orphans() -> None:
    for number in list(_orphans):
        orphan = _orphans.get(number)
        if orphan is None or not orphan.backend.known_idle(orphan.ordinal, orphan.handle):
            continue
        if _orphans.pop(number, None) is not None:
            if orphan.owned:
                orphan.backend.call_quietly("destroy_stream", orphan.ordinal, orphan.handle)
            if orphan.adoption is not None:
                orphan.adoption.let_go()
            _keep.let_go(orphan.tickets)


class Stream:
    """A queue of work that a device does in order.

    Args:
        device: the device that does the work.
        non_blocking: whether it is independent of the device's default stream; by default it is
            ordered with that one.
        priority: a number in ``device.priority_range``, into which it is clamped; lower is sooner.

    The object owns the stream: it is destroyed by :meth:`close`, at the end of a ``with`` block, or
    when the object goes. That never waits; work that was enqueued completes.

    Every method may be called from any thread.
    """

    __slots__ = (
        "_device",
        "_owned",
        "_adoption",
        "_handles",
        "_tickets",
        "_slots",
        "_functions",
        "__weakref__",
    )

    def __init__(
        self,
        device: Device,
        *,
        non_blocking: bool = False,
        priority: Optional[SupportsIndex] = None,
    ) -> None:
        if _orphans:
            _sweep_orphans()
        backend, ordinal = device.backend, device.ordinal
        if non_blocking or priority is not None:
            flags = _abi.STREAM_NON_BLOCKING if non_blocking else _abi.STREAM_BLOCKING
            wanted = _arguments.int32(priority or 0, "Stream", "priority")
            handle = backend.handle("create_stream_with", ordinal, flags, wanted)
        else:
            handle = backend.handle("create_stream", ordinal)
        self._start(device, handle, owned=True)

    def _start(
        self,
        device: Device,
        handle: int,
        *,
        owned: bool,
        adoption: Optional[_foreign_stream.Adoption] = None,
    ) -> None:
        self._device = device
        self._owned = owned
        self._adoption = adoption
        self._tickets: Dict[int, None] = {}
        self._slots = StreamSlots(device.backend, handle)
        self._functions = HostFunctions()
        # One element while open: `list.pop` gives it to exactly one of several closers.
        self._handles = [handle]

    @classmethod
    def default(cls, device: Device) -> "Stream":
        """The default stream of a device; closing this object leaves the stream as it is."""
        stream = cls.__new__(cls)
        stream._start(device, 0, owned=False)
        return stream

    @classmethod
    def adopt(cls, stream: Any, device: Optional[Device] = None) -> "Stream":
        """A stream of another library as one of ours, without owning it.

        Args:
            stream: an object with the ``__cuda_stream__`` protocol, a PyTorch stream
                (``cuda_stream``), a CuPy stream (``ptr``), or a native handle as a number. It is kept
                alive until this object is closed; whose handle was given as a number must stay
                until then.
            device: of which type the handle is, NVIDIA by default, and, for a default stream that
                does not say it itself, of which device.

        Closing leaves the stream as it is. Work that is enqueued here is ordered with what the other
        library enqueues.

        Raises:
            InvalidHandleError, DriverError: it is no live stream.
            InvalidValueError: it is a stream of another device than ``device``.
        """
        if _orphans:
            _sweep_orphans()
        handle = _foreign_stream.handle_of(stream, "Stream.adopt")
        is_default = handle == 0
        if isinstance(stream, Stream):
            device = device or stream.device
        elif device is None or device.type == DeviceType.NVIDIA:
            is_default = handle in (0, _foreign_stream.LEGACY_DEFAULT)
        kind = DeviceType.NVIDIA if device is None else device.type
        adoption: Optional[_foreign_stream.Adoption] = None
        if is_default:
            named = _foreign_stream.ordinal_of(stream)
            if isinstance(stream, Stream):
                named = stream.device.ordinal
            elif named is None:
                if device is None:
                    raise refused("Stream.adopt", "which device's default stream? give `device`")
                named = device.ordinal
            handle, own = 0, Device(kind, named)
        else:
            backend = Device(kind, 0).backend if device is None else device.backend
            ordinal, adoption = _foreign_stream.adopt(backend, handle, stream)
            own = Device(kind, ordinal)
        if device is not None and device != own:
            raise refused("Stream.adopt", f"the stream is of {own!r}, not of {device!r}")
        adopted = cls.__new__(cls)
        adopted._start(own, handle, owned=False, adoption=adoption)
        return adopted

    def _handle(self, operation: str) -> int:
        try:
            return self._handles[0]
        except IndexError:
            raise closed(operation, "stream") from None

    def __repr__(self) -> str:
        if not self._handles:
            return f"<Stream of {self._device!r}, closed>"
        return f"<Stream {self._handles[0]:#x} of {self._device!r}>"

    @property
    def device(self) -> Device:
        """The device that does the work."""
        return self._device

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._handles

    @property
    def native_handle(self) -> int:
        """The vendor's own handle, a ``CUstream`` on NVIDIA; 0 for the default stream.

        ``torch.cuda.ExternalStream(stream.native_handle)`` works. It is good until the stream is
        closed.
        """
        return self._handle("Stream.native_handle")

    @property
    def __cuda_stream__(self) -> Callable[[], Tuple[int, int]]:
        """The protocol by which CUDA libraries for Python take a stream in; NVIDIA only."""
        if self._device.type != DeviceType.NVIDIA:
            raise AttributeError(f"a stream of {self._device!r} is no CUDA stream")
        return lambda: (0, self.native_handle)

    def wait(self, event: Event) -> None:
        """Has what comes after on this stream wait for the record that the event has now.

        The event may be of another device of the same type. Waits for nothing itself; an event that
        was never recorded holds nothing up.
        """
        handle = self._handle("Stream.wait")
        same_type("Stream.wait", self._device, event.device)
        self._device.backend.call(
            "stream_wait_event", self._device.ordinal, handle, event._get("Stream.wait")
        )

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Has ``function()`` called once, in the stream's order; what comes after waits for it.

        It is called on a thread of its own, never on the caller's, and must not wait for a device, a
        stream or an event: that raises :class:`NotPermittedError`. What it raises is raised by
        :meth:`synchronize`. At the end of the interpreter, functions that the stream has not come to
        are not called.
        """
        handle = self._handle("Stream.launch_host_function")
        given: object = function
        if not callable(given):
            raise TypeError(f"a {type(given).__name__} cannot be called")
        self._functions.launch(self._device.backend, self._device.ordinal, handle, function)

    def memory_statistics(self) -> MemoryStatistics:
        """Where the memory that was allocated on this stream went (see :meth:`Buffer.allocate`)."""
        handle = self._handle("Stream.memory_statistics")
        return statistics(
            self._device.backend.describe(
                _abi.LlaisysMemoryStatistics,
                "get_stream_memory_statistics",
                self._device.ordinal,
                handle,
            )
        )

    def set_slot(
        self, key: SupportsIndex, value: Address, destructor: Optional[Destructor] = None
    ) -> None:
        """Keeps a value (a number: an address, a handle) for this stream; 0 takes it away.

        C code on the stream finds it under the same key. ``destructor(value)`` is called once: when
        the value is replaced or taken away, or before the stream is destroyed. A default stream
        keeps no values.

        Args:
            key: see :func:`slot_key`.
        """
        self._handle("Stream.set_slot")
        number = _arguments.key(key, "Stream.set_slot")
        address = _arguments.address(value, "Stream.set_slot", "value")
        self._slots.set(number, address, destructor)

    def get_slot(self, key: SupportsIndex) -> int:
        """The value that is kept for this stream under the key; 0 when there is none."""
        handle = self._handle("Stream.get_slot")
        number = _arguments.key(key, "Stream.get_slot")
        return self._device.backend.handle("get_stream_slot", handle, number)

    def query(self) -> bool:
        """Whether everything enqueued is done. Never waits."""
        handle = self._handle("Stream.query")
        tickets = list(self._tickets)
        ready = self._device.backend.stream_query(self._device.ordinal, handle)
        if ready:
            self._let_go(tickets)
        return ready

    def synchronize(self) -> None:
        """Waits until everything that was enqueued before is done.

        Ctrl-C interrupts the wait within a tenth of a second; the work goes on. What a host function
        raised is raised here.
        """
        handle = self._handle("Stream.synchronize")
        tickets = list(self._tickets)
        _wait.for_stream(self._device.backend, self._device.ordinal, handle)
        self._let_go(tickets)
        self._functions.raise_failure()

    def close(self) -> None:
        """Destroys the stream at once; its work completes. Closing again does nothing.

        Of a stream that is not ours it only lets go.
        """
        try:
            handle = self._handles.pop()
        except IndexError:
            return
        if _orphans:
            _sweep_orphans()
        backend, ordinal, adoption = self._device.backend, self._device.ordinal, self._adoption
        tickets = list(self._tickets)
        try:
            self._slots.end()
        finally:
            if tickets and not backend.known_idle(ordinal, handle):
                orphan = _Orphan(backend, ordinal, handle, self._owned, adoption, tickets)
                _orphans[next(_orphan_numbers)] = orphan
            else:
                self._let_go(tickets)
                if adoption is not None:
                    adoption.let_go()
                if self._owned:
                    backend.call("destroy_stream", ordinal, handle)

    def __enter__(self) -> "Stream":
        self._handle("Stream.__enter__")
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except BaseException:
            pass

    def _make_room(self) -> None:
        """Before something is promised: keeps the number of kept objects bounded."""
        if len(self._tickets) >= _SWEEP_AT:
            try:
                if self.query() or len(self._tickets) < _WAIT_AT:
                    return
            except LlaisysError:
                return
            self.synchronize()

    def _keep(self, value: object) -> None:
        """After a copy was enqueued: keeps what it uses until the stream has passed.

        Only after it: the stream may look idle between a keep and its copy.
        """
        self._tickets[_keep.keep(value)] = None

    def _let_go(self, tickets: List[int]) -> None:
        for ticket in tickets:
            self._tickets.pop(ticket, None)
        _keep.let_go(tickets)
