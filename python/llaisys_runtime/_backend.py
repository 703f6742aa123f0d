"""The extended table of a device type as checked Python calls.

Rule: everything in this package reaches a device through ``Backend.call``, which turns a status into
an exception and keeps to the rules of the thread's last-error slot (see ``Library.unread``).

The extended table is used under LLAISYS's twelve methods too, because it answers a status: the
twelve functions of C have none, so after one of them a failure could only be told by a slot that may
hold somebody else's.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_void_p
from typing import Any, Dict

from . import _abi, _out_of_memory
from ._errors import LlaisysError, OutOfMemoryError, error_for
from ._library import Library, library
from ._types import DeviceType, Status


class Backend:
    """One device type. Every method may be called from any thread."""

    def __init__(self, device_type: DeviceType, opened: Library, table: Any) -> None:
        self.device_type = device_type
        self.library = opened
        self._self = table.contents.self_
        self._unread = opened._peek
        # Reading a field of a table makes a new function object, so each is read once.
        self._functions: Dict[str, Any] = {}
        for name in [field[0] for field in _abi.LlaisysBackendAPI._fields_[5:]]:
            field = getattr(_abi.LlaisysBackendAPI, name)
            if field.offset + field.size <= table.contents.struct_size:
                function = getattr(table.contents, name)
                if function:
                    self._functions[name] = function

    def call(self, operation: str, *arguments: Any) -> None:
        """Calls an operation of the table; raises when it fails."""
        function = self._functions.get(operation)
        if function is None:
            message = f"this library's table has no {operation}"
            raise error_for(Status.NOT_SUPPORTED, operation, message)
        unread = self._unread(None)
        status = function(self._self, *arguments)
        if status:
            raise self.library.failure(status, operation, unread)

    def call_quietly(self, operation: str, *arguments: Any) -> None:
        """The same for frees from ``__del__``: a failure is reported to nobody."""
        function = self._functions.get(operation)
        if function is not None:
            unread = self._unread(None)
            if function(self._self, *arguments) and not unread:
                self.library.discard_failure()

    def allocate(self, operation: str, ordinal: int, size: int, *more: int) -> int:
        """The address of a new block; 0 for 0 bytes."""
        pointer = c_void_p()
        _out_of_memory.begin()
        try:
            self.call(operation, ordinal, size, *more, byref(pointer))
        except OutOfMemoryError as error:
            raise _out_of_memory.explained(error)
        return pointer.value or 0

    def answer(self, kind: Any, operation: str, *arguments: Any) -> Any:
        """What an operation writes where its last argument points: a ``kind`` of ctypes."""
        value = kind()
        self.call(operation, *arguments, byref(value))
        return value.value

    def handle(self, operation: str, *arguments: Any) -> int:
        """The same for a pointer or handle; NULL is 0."""
        return self.answer(c_void_p, operation, *arguments) or 0

    def describe(self, struct: Any, operation: str, *arguments: Any) -> Any:
        """The same for a struct that begins with its own size."""
        value = sized(struct)
        self.call(operation, *arguments, byref(value))
        return value

    def stream_query(self, ordinal: int, handle: int) -> bool:
        """Whether everything enqueued on the stream is done."""
        return bool(self.answer(c_int32, "stream_query", ordinal, handle))

    def event_query(self, ordinal: int, handle: int) -> bool:
        """Whether the event was reached, or never recorded."""
        return bool(self.answer(c_int32, "event_query", ordinal, handle))

    def known_idle(self, ordinal: int, handle: int) -> bool:
        """Whether the stream is known to have nothing pending, so that a wait on it would be none."""
        try:
            return self.stream_query(ordinal, handle)
        except LlaisysError:
            return False

    def has(self, operation: str) -> bool:
        """Whether the library's table has the operation at all."""
        return operation in self._functions


_backends: Dict[int, Backend] = {}


def backend(device_type: int) -> Backend:
    """The backend of a device type.

    Raises:
        BackendUnavailableError: there is none.
    """
    found = _backends.get(device_type)
    if found is None:
        opened = library()
        unread = opened.unread()
        table = opened.llaisysGetBackendAPI(device_type)
        if not table:
            status = Status.BACKEND_UNAVAILABLE
            raise opened.failure(status, "llaisysGetBackendAPI", unread)
        # As in `library`: whoever comes second finds what the first one put there.
        found = _backends.setdefault(device_type, Backend(DeviceType(device_type), opened, table))
    return found


def device_count(device_type: int) -> int:
    """The number of devices of a type.

    Raises:
        LlaisysError: there is none for a reason (no driver, too old, no backend, ...).
    """
    opened = library()
    count = c_int32()
    unread = opened.unread()
    status = opened.llaisysGetDeviceCount(device_type, byref(count))
    if status:
        raise opened.failure(status, "llaisysGetDeviceCount", unread)
    return count.value


def sized(struct: Any) -> Any:
    """A new output struct with its ``struct_size`` set."""
    value = struct()
    value.struct_size = ctypes.sizeof(struct)
    return value
