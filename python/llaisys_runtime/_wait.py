"""Waiting so that Ctrl-C is heard (contract L3).

Python runs signal handlers on its main thread, and only between its own instructions; a blocking C
call there would keep ``KeyboardInterrupt`` waiting for as long as the device works. So on the main
thread a call that may block for long is made by a short-lived helper thread, and the main thread
waits on a lock, which signals interrupt at once. Other threads, which never get the exception, make
the call themselves. The GIL is free in both cases.

When the wait is interrupted the call itself goes on in the helper until it is done, and what it uses
(buffers, for example) stays alive until then, because the helper holds it.
"""

from __future__ import annotations

import _thread
import threading
import time
from typing import Callable, List

from ._backend import Backend
from ._errors import LlaisysError, error_for
from ._types import Status

#: Copies up to this many bytes are not worth a helper: they take milliseconds.
SHORT_COPY = 64 << 20
#: An asynchronous copy that reads so many bytes from pageable memory or fewer only enqueues.
STAGED_COPY = 1 << 20
#: How long a wait looks for itself before it goes to a helper, in seconds.
_PATIENCE = 100e-6
#: How often the main thread looks for signals that reached another thread, in seconds.
_SLICE = 0.1


class _Here(threading.local):
    """What is known of this thread."""

    #: Whether it calls host functions, which hold a stream up.
    must_not_wait = False


_here = _Here()


def forbid_on_this_thread() -> None:
    """From now on this thread's waits are refused (contract H1)."""
    _here.must_not_wait = True


def _may_wait(operation: str) -> None:
    if _here.must_not_wait:
        message = "a host function must not wait: its stream would wait for itself"
        raise error_for(Status.NOT_PERMITTED, operation, message)


def on_main_thread() -> bool:
    """Whether this thread is the one that runs signal handlers."""
    return threading.get_ident() == threading.main_thread().ident


def interruptibly(call: Callable[[], None]) -> None:
    """Makes a call that may block for long, as the module text says."""
    if not on_main_thread():
        call()
        return
    failures: List[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            call()
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        # No more threads, or the interpreter is shutting down.
        call()
        return
    while not done.acquire(True, _SLICE):
        pass
    if failures:
        raise failures[0]


def for_stream(backend: Backend, ordinal: int, handle: int) -> None:
    """Waits until everything enqueued on the stream before this call is done."""
    _may_wait("stream_synchronize")
    if not _soon(backend, "stream_query", lambda: backend.stream_query(ordinal, handle)):
        interruptibly(lambda: backend.call("stream_synchronize", ordinal, handle))


def for_event(backend: Backend, ordinal: int, handle: int) -> None:
    """Waits until the event is reached."""
    _may_wait("event_synchronize")
    if not _soon(backend, "event_query", lambda: backend.event_query(ordinal, handle)):
        interruptibly(lambda: backend.call("event_synchronize", ordinal, handle))


def _soon(backend: Backend, operation: str, query: Callable[[], bool]) -> bool:
    """On the main thread: whether a query says yes before a helper would be worth it."""
    if not (on_main_thread() and backend.has(operation)):
        return False
    deadline = time.perf_counter() + _PATIENCE
    try:
        while time.perf_counter() < deadline:
            if query():
                return True
    except LlaisysError:
        # Whatever it is, the wait itself says it under its own name.
        pass
    return False


def for_device(backend: Backend, ordinal: int) -> None:
    """Waits until everything enqueued on the device before this call is done.

    There is no query for a whole device, so on the main thread this always takes a helper.
    """
    _may_wait("device_synchronize")
    interruptibly(lambda: backend.call("device_synchronize", ordinal))


def for_copy(
    backend: Backend, ordinal: int, handle: int, size: int, call: Callable[[], None]
) -> None:
    """Makes a copy that waits for its stream (0: the default one) and for itself."""
    _may_wait("memcpy")
    if on_main_thread() and not (size <= SHORT_COPY and backend.known_idle(ordinal, handle)):
        interruptibly(call)
    else:
        call()
