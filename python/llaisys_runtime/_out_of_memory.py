"""A function of the user's that is asked when an allocation does not fit.

Rules: C has one callback for the life of the process, which finds the user's function by device type;
so none is freed while C may be about to call it. Nothing that the function raises enters C: it is kept
for the allocation that asked, on the thread where both happen, and raised there.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from . import _abi, _arguments
from ._errors import OutOfMemoryError

if TYPE_CHECKING:
    from ._device import Device

#: Called with the device and the bytes asked for; true when the allocation should be tried again.
OutOfMemoryCallback = Callable[["Device", int], bool]

_callbacks: Dict[int, OutOfMemoryCallback] = {}


class _Raised(threading.local):
    """What the user's function raised last on this thread."""

    failure: Optional[BaseException] = None


_raised = _Raised()


def _ask(data: Optional[int], device_type: int, ordinal: int, requested: int) -> int:
    try:
        from ._device import Device

        callback = _callbacks.get(device_type)
        return int(callback is not None and bool(callback(Device(device_type, ordinal), requested)))
    except BaseException as failure:
        _raised.failure = failure
        return 0


_entry: Any = _abi.OutOfMemoryCallback(_ask)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_entry))
_nobody: Any = _abi.OutOfMemoryCallback()


def set_out_of_memory_callback(type: int, callback: Optional[OutOfMemoryCallback]) -> None:
    """Has a function asked when an allocation on a device of this type does not fit.

    ``callback(device, requested)`` is called on the thread that allocates, after the caches were
    emptied. It may free memory, and answers whether the allocation should be tried again; there are
    sixteen tries at most. ``None`` takes the function away; a new one replaces the old one. It is
    kept alive, and forgotten when the interpreter ends.

    What it raises counts as "no": the allocation's :class:`OutOfMemoryError` has it as its
    ``__cause__``. ``KeyboardInterrupt`` and the like are raised themselves.
    """
    from ._backend import backend

    number = _arguments.int32(type, "set_out_of_memory_callback", "type")
    own = backend(number)
    if callback is None:
        own.call("set_out_of_memory_callback", _nobody, None)
        _callbacks.pop(number, None)
        return
    if not callable(callback):
        raise TypeError(f"the callback, a {callback.__class__.__name__}, cannot be called")
    if not _callbacks:
        atexit.register(_forget_all)
    before = _callbacks.get(number)
    _callbacks[number] = callback
    try:
        own.call("set_out_of_memory_callback", _entry, None)
    except BaseException:
        if before is None:
            _callbacks.pop(number, None)
        else:
            _callbacks[number] = before
        raise


def _forget_all() -> None:
    """Before the interpreter goes, while C code of other threads may still allocate."""
    for number in list(_callbacks):
        try:
            set_out_of_memory_callback(number, None)
        except Exception:
            pass


def begin() -> None:
    """Before an allocation: what C code's allocations left behind on this thread is not ours."""
    if _callbacks:
        _raised.failure = None


def explained(error: OutOfMemoryError) -> BaseException:
    """What to raise for an allocation that failed: with what the user's function raised, if it did."""
    failure = _raised.failure if _callbacks else None
    if failure is None:
        return error
    _raised.failure = None
    if not isinstance(failure, Exception):
        return failure
    error.__cause__ = failure
    return error
