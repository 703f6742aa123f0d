"""Events: points in streams that can be asked about, waited for and measured between.

Rule: an event knows its device; it may be used from any thread, outlives the streams that it was
recorded on, and may be closed while it is not reached yet (contract V1–V3).
"""

from __future__ import annotations

from ctypes import c_int64
from typing import TYPE_CHECKING

from . import _abi, _wait
from ._device import Device
from ._errors import refused
from ._owner import Owner

if TYPE_CHECKING:
    from ._stream import Stream


class Event(Owner[int]):
    """A point in a stream; never recorded at first.

    Args:
        device: the device whose streams it will be recorded on.
        timing: whether it remembers when it was reached, for :meth:`elapsed_ns`.
        blocking: whether a wait for it sleeps; by default it spins, which is faster and busier.

    It is destroyed by :meth:`close`, at the end of a ``with`` block, or when the object goes. Waits
    that were enqueued for it stay.
    """

    __slots__ = ("_device", "_timing")

    _noun = "event"

    def __init__(self, device: Device, *, timing: bool = False, blocking: bool = False) -> None:
        self._device = device
        self._timing = bool(timing)
        flags = _abi.EVENT_TIMING if timing else _abi.EVENT_NONE
        flags |= _abi.EVENT_BLOCKING_WAIT if blocking else _abi.EVENT_NONE
        self._own(device.backend.handle("create_event", device.ordinal, flags))

    def __repr__(self) -> str:
        return f"<Event of {self._device!r}{self._state}>"

    @property
    def device(self) -> Device:
        """The device whose streams it can be recorded on."""
        return self._device

    @property
    def timing(self) -> bool:
        """Whether it remembers when it was reached."""
        return self._timing

    @property
    def native_handle(self) -> int:
        """The vendor's own event, a ``CUevent`` on NVIDIA; good until this one is closed."""
        handle = self._get("Event.native_handle")
        return self._device.backend.handle("get_native_event", handle)

    def record(self, stream: "Stream") -> None:
        """Puts the event behind the work that the stream has now; an earlier record is forgotten.

        Raises:
            InvalidValueError: the stream is of another device.
        """
        handle = self._get("Event.record")
        same_type("Event.record", self._device, stream.device)
        self._device.backend.call(
            "record_event", stream.device.ordinal, handle, stream._handle("Event.record")
        )

    def query(self) -> bool:
        """Whether it was reached; one that was never recorded counts as reached. Never waits."""
        handle = self._get("Event.query")
        return self._device.backend.event_query(self._device.ordinal, handle)

    def synchronize(self) -> None:
        """Waits until it is reached; Ctrl-C interrupts the wait, not the work."""
        handle = self._get("Event.synchronize")
        _wait.for_event(self._device.backend, self._device.ordinal, handle)

    def elapsed_ns(self, end: "Event") -> int:
        """Nanoseconds from this event to ``end``; negative when ``end`` was reached first.

        Raises:
            TimingDisabledError: one was made without ``timing=True``.
            NotRecordedError: one was never recorded.
            NotReadyError: one is not reached yet.
        """
        start_handle = self._get("Event.elapsed_ns")
        end_handle = end._get("Event.elapsed_ns")
        same_type("Event.elapsed_ns", self._device, end.device)
        device = self._device
        elapsed: int = device.backend.answer(
            c_int64, "event_elapsed", device.ordinal, start_handle, end_handle
        )
        return elapsed

    def close(self) -> None:
        """Destroys the event, also one that is not reached yet. Closing again does nothing."""
        handle = self._take()
        if handle is not None:
            self._device.backend.call("destroy_event", self._device.ordinal, handle)

    def __del__(self) -> None:
        try:
            handle = self._take()
            if handle is not None:
                self._device.backend.call_quietly("destroy_event", self._device.ordinal, handle)
        except BaseException:
            pass


def same_type(operation: str, one: Device, other: Device) -> None:
    """Refuses two things of different kinds of device, whose handles mean nothing to each other."""
    if one.type != other.type:
        raise refused(operation, f"{one!r} and {other!r} are of different kinds")
