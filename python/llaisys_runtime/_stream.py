"""Streams, and what they keep alive.

Rules: closing a stream never waits, and its work completes (contract S3). An object that was promised
to a copy on a stream is let go once the stream is seen to be idle: at a query, at a synchronize, or
when more than ``_SWEEP_AT`` of them have gathered; more than ``_WAIT_AT`` are not gathered, the
next promise waits first (contract S6).
"""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Dict, Iterator, List, NamedTuple, Optional, Type

from . import _keep, _wait
from ._backend import Backend
from ._device import Device
from ._errors import LlaisysError, closed

_SWEEP_AT = 64
_WAIT_AT = 1024


class _Orphan(NamedTuple):
    """A stream that was closed while promised objects were in use."""

    backend: Backend
    ordinal: int
    handle: int
    owned: bool
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
            _keep.let_go(orphan.tickets)


class Stream:
    """A queue of work that a device does in order.

    ``Stream(device)`` makes a blocking stream: one that is ordered with the device's default stream.
    The object owns it: it is destroyed by :meth:`close`, at the end of a ``with`` block, or when the
    object goes. That never waits; work that was enqueued completes.

    Every method may be called from any thread.
    """

    __slots__ = ("_device", "_owned", "_handles", "_tickets", "__weakref__")

    def __init__(self, device: Device) -> None:
        if _orphans:
            _sweep_orphans()
        self._start(device, device.backend.create_stream(device.ordinal), owned=True)

    def _start(self, device: Device, handle: int, *, owned: bool) -> None:
        self._device = device
        self._owned = owned
        self._tickets: Dict[int, None] = {}
        # One element while open: `list.pop` gives it to exactly one of several closers.
        self._handles = [handle]

    @classmethod
    def default(cls, device: Device) -> "Stream":
        """The default stream of a device; closing this object leaves the stream as it is."""
        stream = cls.__new__(cls)
        stream._start(device, 0, owned=False)
        return stream

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

        Ctrl-C interrupts the wait within a tenth of a second; the work goes on.
        """
        handle = self._handle("Stream.synchronize")
        tickets = list(self._tickets)
        _wait.for_stream(self._device.backend, self._device.ordinal, handle)
        self._let_go(tickets)

    def close(self) -> None:
        """Destroys the stream at once; its work completes. Closing again does nothing."""
        try:
            handle = self._handles.pop()
        except IndexError:
            return
        if _orphans:
            _sweep_orphans()
        backend, ordinal = self._device.backend, self._device.ordinal
        tickets = list(self._tickets)
        if tickets and not backend.known_idle(ordinal, handle):
            orphan = _Orphan(backend, ordinal, handle, self._owned, tickets)
            _orphans[next(_orphan_numbers)] = orphan
            return
        self._let_go(tickets)
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
