"""The address of any object with the buffer protocol, without a copy.

Rule: a view locks the object's memory (a ``bytearray`` cannot be resized, for example) and keeps the
object alive for as long as the view itself lives; it is let go when the last reference goes. Memory
that is not C-contiguous, and a destination that is read-only, are refused with ``BufferError``.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_ssize_t, c_void_p
from typing import Any

_SIMPLE = 0
_WRITABLE = 1


class _PyBuffer(ctypes.Structure):
    """CPython's ``Py_buffer``, part of its stable ABI."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get = ctypes.pythonapi["PyObject_GetBuffer"]
_get.argtypes = [ctypes.py_object, POINTER(_PyBuffer), c_int]
_get.restype = c_int
_release = ctypes.pythonapi["PyBuffer_Release"]
_release.argtypes = [POINTER(_PyBuffer)]
_release.restype = None


class View:
    """An object's bytes: ``address`` and ``nbytes``."""

    __slots__ = ("address", "nbytes", "_buffer", "_give_back")

    def __init__(self, value: Any, *, writable: bool) -> None:
        buffer = _PyBuffer()
        try:
            _get(value, ctypes.byref(buffer), _WRITABLE if writable else _SIMPLE)
        except (BufferError, ValueError) as error:
            # NumPy answers ValueError where the protocol says BufferError.
            raise BufferError(_why(value, writable, error)) from None
        # Bound here, so that it is there when modules are torn down before this object.
        self._give_back = _release
        self._buffer = buffer
        self.address: int = buffer.buf or 0
        self.nbytes: int = buffer.len

    def __del__(self) -> None:
        try:
            self._give_back(self._buffer)
        except BaseException:
            pass


def _why(value: Any, writable: bool, error: Exception) -> str:
    noun = type(value).__name__
    try:
        view = memoryview(value)
    except (TypeError, BufferError, ValueError):
        return str(error)
    if writable and view.readonly:
        return f"the destination, a {noun}, is read-only"
    if not view.c_contiguous:
        return f"the {noun} is not C-contiguous; copy it first (numpy.ascontiguousarray)"
    return str(error)
