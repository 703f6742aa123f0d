"""Python functions in the order of a stream (contract H1).

Rule: nothing of Python runs on the stream's own thread, which may outlive the interpreter. The stream
posts a semaphore and then takes a mutex, both with plain functions of libc. A Python thread waits for
the semaphore, calls the function, and opens the mutex. At exit every mutex is opened: what was not
called by then is not called.

A mutex ends up taken by the stream's thread, which is how it began; so it is used again.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections import deque
from ctypes import c_void_p
from typing import Any, Callable, Deque, Dict, List, Optional

from . import _abi, _wait
from ._backend import Backend

#: More than glibc and musl need for a semaphore or a mutex.
_ROOM = 64
_LAUNCH = "launch_host_function"

_libc: Any = ctypes.CDLL(None)
_post: Any = _abi.HostFunction(ctypes.cast(_libc.sem_post, c_void_p).value or 0)
# Not a second semaphore: a wait for one ends early when a signal arrives on the stream's thread.
_take: Any = _abi.HostFunction(ctypes.cast(_libc.pthread_mutex_lock, c_void_p).value or 0)


class _Call:
    """A function that a stream comes to, and what holds the stream until it has returned."""

    __slots__ = ("function", "_semaphore", "_mutex", "_shut", "is_whole")

    def __init__(self) -> None:
        self.function: Optional[Callable[[], object]] = None
        self._semaphore = ctypes.create_string_buffer(_ROOM)
        self._mutex = ctypes.create_string_buffer(_ROOM)
        _libc.sem_init(self._semaphore, 0, 0)
        _libc.pthread_mutex_init(self._mutex, None)
        _libc.pthread_mutex_lock(self._mutex)
        #: Whether the stream will come to both.
        self.is_whole = True
        #: One element until the stream may go on.
        self._shut: List[bool] = []
        # Never freed: when the stream has left the mutex can be told by nobody.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def prepare(self, function: Callable[[], object]) -> None:
        self.function = function
        self._shut.append(True)

    def enqueue(self, backend: Backend, ordinal: int, handle: int) -> None:
        """Puts both on the stream, which may come to them at any time from now on."""
        try:
            backend.call(_LAUNCH, ordinal, handle, _post, ctypes.addressof(self._semaphore))
        except BaseException:
            self.function, self.is_whole = None, False
            _libc.sem_post(self._semaphore)
            raise
        try:
            backend.call(_LAUNCH, ordinal, handle, _take, ctypes.addressof(self._mutex))
        except BaseException:
            self.function, self.is_whole = None, False
            raise

    def wait(self) -> None:
        """Until the stream is there."""
        while _libc.sem_wait(self._semaphore):
            pass

    def open(self) -> None:
        """Has the stream go on. Again does nothing."""
        try:
            self._shut.pop()
        except IndexError:
            return
        _libc.pthread_mutex_unlock(self._mutex)

    def was_left(self) -> bool:
        """Whether the stream has taken the mutex, so that it is as it was at first."""
        if _libc.pthread_mutex_trylock(self._mutex):
            return True
        _libc.pthread_mutex_unlock(self._mutex)
        return False


#: Calls that were opened and may be used again once the stream has left them.
_used: Deque[_Call] = deque()
#: Calls that a stream may wait for.
_pending: Dict[int, _Call] = {}
_watched: List[bool] = []


def _new_call(function: Callable[[], object]) -> _Call:
    call: Optional[_Call] = None
    try:
        candidate = _used.popleft()
        if candidate.was_left():
            call = candidate
        else:
            _used.append(candidate)
    except IndexError:
        pass
    call = call or _Call()
    call.prepare(function)
    _pending[id(call)] = call
    if not _watched:
        _watched.append(True)
        atexit.register(_let_streams_go_on)
    return call


def _let_streams_go_on() -> None:
    """At exit: nobody calls a function any more."""
    for call in list(_pending.values()):
        call.function = None
        call.open()


class HostFunctions:
    """The functions of one stream, and the thread that calls them while there are any."""

    __slots__ = ("_process", "_order", "_state", "_calls", "_is_running", "_failures")

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        # The calls are in the stream's order: held while C enqueues, which may wait for a function.
        self._order = threading.Lock()
        self._state = threading.Lock()
        self._calls: Deque[_Call] = deque()
        self._is_running = False
        self._failures: Deque[BaseException] = deque()

    def launch(
        self, backend: Backend, ordinal: int, handle: int, function: Callable[[], object]
    ) -> None:
        if self._process != os.getpid():
            # A fork took the thread away, and perhaps somebody who held a lock.
            self._start()
        with self._order:
            call = _new_call(function)
            with self._state:
                self._calls.append(call)
                if not self._is_running:
                    threading.Thread(target=self._run, daemon=True).start()
                    self._is_running = True
            call.enqueue(backend, ordinal, handle)

    def _run(self) -> None:
        _wait.forbid_on_this_thread()
        while True:
            with self._state:
                if not self._calls:
                    self._is_running = False
                    return
                call = self._calls.popleft()
            call.wait()
            function, call.function = call.function, None
            try:
                if function is not None:
                    function()
            except BaseException as failure:
                self._failures.append(failure)
            del function
            call.open()
            _pending.pop(id(call), None)
            if call.is_whole:
                _used.append(call)

    def raise_failure(self) -> None:
        """Raises what a function raised, the oldest first."""
        try:
            failure = self._failures.popleft()
        except IndexError:
            return
        raise failure
