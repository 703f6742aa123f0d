"""Streams of other libraries (PyTorch, CuPy, ...), taken in without owning them.

Rule: C knows an adopted handle once, however many objects here stand for it; it lets go of the handle
when the last of them closes, and never of a handle that it knew before (a stream of its own that comes
back wrapped). What stands for the stream keeps the other library's object alive.
"""

from __future__ import annotations

import itertools
import os
import threading
from ctypes import c_int32, c_void_p
from operator import index
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _arguments
from ._backend import Backend
from ._errors import InvalidHandleError
from ._types import Status

#: CUDA's numbers for the legacy default stream and for the thread's own default stream.
LEGACY_DEFAULT = 1
PER_THREAD_DEFAULT = 2

_lock = threading.RLock()
#: (device type, handle) → one element for each adoption that is open.
_open: Dict[Tuple[int, int], List[int]] = {}
_numbers: Iterator[int] = itertools.count()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


# In the child of a fork nobody would open a lock that another thread of the parent held.
os.register_at_fork(after_in_child=_renew_lock)


class Adoption:
    """A share in an adopted handle, and the other library's object."""

    __slots__ = ("_backend", "_handle", "_owner", "_shares")

    def __init__(self, backend: Backend, handle: int, owner: object, share: Optional[int]) -> None:
        self._backend = backend
        self._handle = handle
        self._owner = owner
        # One element until it is given back; none for a stream that C knew before.
        self._shares = [] if share is None else [share]

    def let_go(self) -> None:
        """Gives the share back. Again does nothing."""
        with _lock:
            if self._shares:
                share = self._shares.pop()
                shares = _open[self._backend.device_type, self._handle]
                shares.remove(share)
                if not shares:
                    self._backend.call_quietly("destroy_stream", 0, self._handle)
        self._owner = None

    def __del__(self) -> None:
        try:
            self.let_go()
        except BaseException:
            pass


def adopt(backend: Backend, handle: int, owner: object) -> Tuple[int, Adoption]:
    """The ordinal of a native stream's device, and a share in it."""
    with _lock:
        # Lists stay, also empty: the collector may run `let_go` on this thread between any two steps.
        shares = _open.setdefault((backend.device_type, handle), [])
        share = next(_numbers)
        shares.append(share)
        try:
            ordinal = _known(backend, handle)
            if len(shares) == 1:
                if ordinal is not None:
                    shares.remove(share)
                    return ordinal, Adoption(backend, handle, owner, None)
                ordinal = backend.answer(c_int32, "adopt_stream", handle)
        except BaseException:
            shares.remove(share)
            raise
    adoption = Adoption(backend, handle, owner, share)
    if ordinal is None:
        raise InvalidHandleError(
            Status.INVALID_HANDLE, "adopt_stream", f"the adopted stream {handle:#x} was destroyed"
        )
    return ordinal, adoption


def _known(backend: Backend, handle: int) -> Optional[int]:
    """The ordinal of the device of a stream that C knows."""
    try:
        ordinal: int = backend.answer(c_int32, "get_stream_device", handle)
    except InvalidHandleError:
        return None
    return ordinal


def handle_of(stream: Any, operation: str) -> int:
    """The native handle of a stream object: a number, or an object that has it.

    Looked at in this order: the ``__cuda_stream__`` protocol, PyTorch's ``cuda_stream``, CuPy's
    ``ptr``, our ``native_handle``.
    """
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version_and_handle: Any = protocol() if callable(protocol) else protocol
        found: Any = version_and_handle[1]
        return _arguments.address(found, operation, "stream")
    for name in ("cuda_stream", "ptr", "native_handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return _arguments.address(found, operation, "stream")
    if isinstance(stream, c_void_p) or hasattr(stream, "__index__"):
        return _arguments.address(stream, operation, "stream")
    noun = type(stream).__name__
    raise TypeError(f"a {noun} is no stream: no __cuda_stream__, cuda_stream, ptr or number")


def ordinal_of(stream: Any) -> Optional[int]:
    """The device ordinal that a stream object names, if it does."""
    device = getattr(stream, "device", None)
    for owner, name in ((stream, "device_index"), (device, "index"), (stream, "device_id")):
        found: Any = getattr(owner, name, None)
        if hasattr(found, "__index__") and index(found) >= 0:
            return index(found)
    return None
