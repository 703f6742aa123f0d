"""User slots: a value of the user's for a thread and device, or for a stream (a cuBLAS handle, say).

Rules: values are numbers, as in C, and C code finds them under the same keys. A destructor is a Python
callable that runs exactly once. C never holds one: Python runs it while its interpreter is alive, when
the value is replaced or taken away, when the thread ends, at exit for the main thread, and before the
stream is destroyed.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _abi
from ._backend import Backend

#: Called with the value when its time is over.
Destructor = Callable[[int], object]

_no_destructor: Any = _abi.SlotDestructor()
_keys: List[Any] = []


def slot_key() -> int:
    """A new key for user slots that no other part of the process has: an address that is ours."""
    place = ctypes.c_ubyte()
    _keys.append(place)  # for good
    return ctypes.addressof(place)


class _Value:
    """A value with its destructor. When it goes, the destructor has run."""

    __slots__ = ("_endings",)

    def __init__(self, value: int, destructor: Destructor) -> None:
        # One element until it ran.
        self._endings: List[Tuple[Destructor, int]] = [(destructor, value)]

    def end(self) -> None:
        try:
            destructor, value = self._endings.pop()
        except IndexError:
            return
        destructor(value)

    def __del__(self) -> None:
        try:
            self.end()
        except BaseException:
            pass


class StreamSlots:
    """The values of one stream."""

    __slots__ = ("_backend", "_handle", "_values", "__weakref__")

    def __init__(self, backend: Backend, handle: int) -> None:
        self._backend = backend
        self._handle = handle
        self._values: Dict[int, _Value] = {}

    def set(self, key: int, value: int, destructor: Optional[Destructor]) -> None:
        """Keeps a value under the key; 0 takes it away."""
        self._backend.call("set_stream_slot", self._handle, key, value, _no_destructor)
        old = self._values.pop(key, None)
        if value and destructor is not None:
            _run_at_exit()
            _streams.add(self)
            self._values[key] = _Value(value, destructor)
        if old is not None:
            old.end()

    def end(self) -> None:
        """Before the stream goes: runs every destructor, then raises the first failure."""
        failures: List[BaseException] = []
        while self._values:
            try:
                key, value = self._values.popitem()
            except KeyError:
                break
            try:
                value.end()
            except BaseException as failure:
                failures.append(failure)
            self._backend.call_quietly("set_stream_slot", self._handle, key, None, _no_destructor)
        if failures:
            raise failures[0]


#: Those that had values once, as long as their streams are there.
_streams: "weakref.WeakSet[StreamSlots]" = weakref.WeakSet()


class _ThreadValues(threading.local):
    """This thread's values; they end with the thread."""

    def __init__(self) -> None:
        self.values: Dict[Tuple[int, int, int], _ThreadValue] = {}


class _ThreadValue(_Value):
    """A value that C forgets first, so that it never finds one that was destroyed."""

    __slots__ = ("_backend", "_place")

    def __init__(
        self, backend: Backend, place: Tuple[int, int], value: int, destructor: Destructor
    ) -> None:
        super().__init__(value, destructor)
        self._backend, self._place = backend, place

    def forget(self) -> None:
        self._backend.call_quietly("set_thread_slot", *self._place, None, _no_destructor)

    def __del__(self) -> None:
        try:
            if self._endings:
                self.forget()
                self.end()
        except BaseException:
            pass


_thread = _ThreadValues()
_watched: List[bool] = []


def set_for_thread(
    backend: Backend, ordinal: int, key: int, value: int, destructor: Optional[Destructor]
) -> None:
    """Keeps a value for this thread and device; 0 takes it away."""
    backend.call("set_thread_slot", ordinal, key, value, _no_destructor)
    _run_at_exit()
    values, where = _thread.values, (int(backend.device_type), ordinal, key)
    old = values.pop(where, None)
    if value and destructor is not None:
        values[where] = _ThreadValue(backend, (ordinal, key), value, destructor)
    if old is not None:
        old.end()


def _run_at_exit() -> None:
    if not _watched:
        _watched.append(True)
        atexit.register(_end_all)


def _end_all() -> None:
    """At exit, on the main thread, while the interpreter is whole."""
    for slots in list(_streams):
        try:
            slots.end()
        except Exception:
            pass
    values = _thread.values
    while values:
        _, value = values.popitem()
        try:
            value.forget()
            value.end()
        except Exception:
            pass
