"""DLPack 1.x: device memory as a capsule for other libraries, and theirs for us; no copy either way.

Rules, ours: what a capsule shows stays alive until its consumer has called the deleter or, when nobody
consumed it, until the capsule is gone. A capsule gets no destructor, because that would run Python code
in the middle of whoever drops it, an exception pending or not; capsules that were dropped unconsumed are
found by :func:`sweep`, which runs before the next export and the next allocation.

Rules, theirs: a capsule is renamed when it is taken and its deleter is called exactly once; one that is
refused is left as it was.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _keep

#: The version that is written, (major, minor).
VERSION = (1, 0)

CPU = 1
CUDA = 2
CUDA_HOST = 3
CUDA_MANAGED = 13

_UNSIGNED = 1
_READ_ONLY = 1

_NAME = b"dltensor"
_USED_NAME = b"used_dltensor"
_VERSIONED_NAME = b"dltensor_versioned"
_USED_VERSIONED_NAME = b"used_dltensor_versioned"


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_Deleter = CFUNCTYPE(None, c_void_p)


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


_new = ctypes.pythonapi["PyCapsule_New"]
_new.restype, _new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
_is_valid = ctypes.pythonapi["PyCapsule_IsValid"]
_is_valid.restype, _is_valid.argtypes = c_int, [py_object, c_char_p]
_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_pointer.restype, _pointer.argtypes = c_void_p, [py_object, c_char_p]
_rename = ctypes.pythonapi["PyCapsule_SetName"]
_rename.restype, _rename.argtypes = c_int, [py_object, c_char_p]


class _Held(NamedTuple):
    """What lives until the deleter is called."""

    owner: object
    tensor: Any
    shape: Any
    strides: Any


#: Address of a tensor → ticket, until its deleter is called. Never emptied by the end of modules.
_tickets: Dict[int, int] = {}
#: Address of a tensor → its capsule, until the capsule is consumed or dropped.
_capsules: Dict[int, Any] = {}


def _delete(
    address: Optional[int], tickets: Dict[int, int] = _tickets, let_go: Any = _keep.let_go
) -> None:
    ticket = tickets.pop(address or 0, None)
    if ticket is not None:
        let_go((ticket,))


# A consumer may use these at any time, also while modules are torn down: never freed.
_deleter = _Deleter(_delete)
for _eternal in (_deleter, _tickets, _NAME, _USED_NAME, _VERSIONED_NAME, _USED_VERSIONED_NAME):
    ctypes.pythonapi.Py_IncRef(py_object(_eternal))
_deleter_address = ctypes.cast(_deleter, c_void_p)


def export(
    owner: object,
    address: int,
    nbytes: int,
    device: Tuple[int, int],
    *,
    versioned: bool,
    read_only: bool,
) -> Any:
    """A capsule that shows ``nbytes`` bytes, a vector of ``uint8``; ``owner`` lives as long."""
    sweep()
    if read_only and not versioned:
        raise BufferError("this memory is read-only, which only DLPack 1.0 or newer can say")
    shape, strides = (c_int64 * 1)(nbytes), (c_int64 * 1)(1)
    tensor = DLManagedTensorVersioned() if versioned else DLManagedTensor()
    if versioned:
        tensor.major, tensor.minor = VERSION
        tensor.flags = _READ_ONLY if read_only else 0
    view = tensor.dl_tensor
    view.data = address
    view.device.device_type, view.device.device_id = device
    view.ndim = 1
    view.dtype.code, view.dtype.bits, view.dtype.lanes = _UNSIGNED, 8, 1
    view.shape = ctypes.cast(shape, POINTER(c_int64))
    view.strides = ctypes.cast(strides, POINTER(c_int64))
    tensor.deleter = _deleter_address.value
    place = ctypes.addressof(tensor)
    capsule = _new(place, _VERSIONED_NAME if versioned else _NAME, None)
    _tickets[place] = _keep.keep(_Held(owner, tensor, shape, strides))
    _capsules[place] = capsule
    return capsule


def _references(capsules: Dict[int, Any], place: int) -> int:
    return sys.getrefcount(capsules[place])


#: What `_references` says of a capsule that nobody else has.
_ALONE = _references({0: object()}, 0)


def sweep() -> None:
    """Lets go of what capsules show that were dropped unconsumed."""
    for place in list(_capsules):
        try:
            if _is_valid(_capsules[place], _NAME) or _is_valid(_capsules[place], _VERSIONED_NAME):
                if _references(_capsules, place) > _ALONE:
                    continue
                del _capsules[place]
                _delete(place)
            else:
                # Consumed: its consumer calls the deleter.
                del _capsules[place]
        except KeyError:
            # Another thread was here.
            continue


class Imported(NamedTuple):
    """Another library's memory."""

    address: int
    nbytes: int
    device: Tuple[int, int]
    read_only: bool
    #: Keeps the memory alive.
    holder: object


class _Holder:
    """A consumed tensor; when it goes, its producer's deleter is called."""

    __slots__ = ("_place", "_call")

    def __init__(self, place: int, deleter: Optional[int]) -> None:
        self._place = place
        # With the GIL: producers differ in whether theirs takes it.
        self._call = PYFUNCTYPE(None, c_void_p)(deleter) if deleter else None

    def __del__(self) -> None:
        try:
            if self._call is not None:
                self._call(self._place)
        except BaseException:
            pass


def take(capsule: Any) -> Imported:
    """Consumes a capsule.

    Raises:
        BufferError: what it shows is not C-contiguous, or of a version that is not known.
    """
    if _is_valid(capsule, _VERSIONED_NAME):
        place = _pointer(capsule, _VERSIONED_NAME)
        versioned = DLManagedTensorVersioned.from_address(place)
        if versioned.major != VERSION[0]:
            raise BufferError(f"DLPack {versioned.major}.{versioned.minor} is not known here")
        tensor: Any = versioned
        read_only, used = bool(versioned.flags & _READ_ONLY), _USED_VERSIONED_NAME
    elif _is_valid(capsule, _NAME):
        place = _pointer(capsule, _NAME)
        tensor = DLManagedTensor.from_address(place)
        read_only, used = False, _USED_NAME
    else:
        raise BufferError("this is no DLPack capsule, or one that was consumed before")
    view = tensor.dl_tensor
    shape = [view.shape[axis] for axis in range(view.ndim)]
    strides = [view.strides[axis] for axis in range(view.ndim)] if view.strides else None
    bits = view.dtype.bits * view.dtype.lanes
    if bits % 8:
        raise BufferError(f"elements of {bits} bits are no whole bytes")
    nbytes = contiguous(shape, strides, 1) * (bits // 8)
    address = (view.data or 0) + view.byte_offset if nbytes else 0
    device = view.device.device_type, view.device.device_id
    _rename(capsule, used)
    return Imported(address, nbytes, device, read_only, _Holder(place, tensor.deleter))


def contiguous(shape: Any, strides: Any, unit: int) -> int:
    """The number of elements of a C-contiguous array.

    Raises:
        BufferError: it is not C-contiguous.
    """
    count = 1
    for size in shape:
        count *= size
    if strides is not None and count:
        step = unit
        for size, stride in zip(reversed(list(shape)), reversed(list(strides))):
            if size != 1 and stride != step:
                raise BufferError("the array is not C-contiguous; make a contiguous one first")
            step *= size
    return count
