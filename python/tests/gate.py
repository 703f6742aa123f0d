"""A host function that holds a stream until the test opens it (contract H1).

The function is libc's ``sem_wait``, so nothing of Python runs on the stream's thread: the gate works
while the GIL is taken and while the interpreter shuts down.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llaisys_runtime import _abi

_libc = ctypes.CDLL(None)
_SIZEOF_SEM_T = 64  # glibc's is 32 bytes


class Gate:
    def __init__(self, stream: Any) -> None:
        self._semaphore = ctypes.create_string_buffer(_SIZEOF_SEM_T)
        # Never freed: the stream may still wait on it at exit.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._semaphore))
        _libc.sem_init(self._semaphore, 0, 0)
        address = ctypes.cast(_libc.sem_wait, ctypes.c_void_p).value
        stream.device.backend.call(
            "launch_host_function",
            stream.device.ordinal,
            stream.native_handle,
            _abi.HostFunction(address),
            ctypes.addressof(self._semaphore),
        )

    def open(self) -> None:
        _libc.sem_post(self._semaphore)
