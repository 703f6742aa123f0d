"""Our memory seen by other libraries, and theirs by us: DLPack and ``__cuda_array_interface__``.

Rules. Nothing is copied. What was lent stays alive as long as a borrower has it, also after ``close``.
Order: a borrower's work comes after what the device's blocking streams were given before; of a
non-blocking stream the caller waits himself. Host code that borrows reads at once, so it is waited for.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from . import _dlpack
from ._device import Device
from ._errors import refused
from ._event import Event
from ._foreign_stream import LEGACY_DEFAULT
from ._stream import Stream
from ._types import DeviceType

#: The consumer asks for no synchronisation.
_NO_SYNCHRONISATION = -1


class Lender:
    """What has memory of a device that it can lend."""

    __slots__ = ()

    #: What DLPack calls the memory on an NVIDIA device.
    _dlpack_type = _dlpack.CUDA

    def _lend(self, operation: str) -> Tuple[object, int, int, bool]:
        """What keeps the memory alive, its address and size, and whether it may only be read."""
        raise NotImplementedError

    @property
    def device(self) -> Device:
        """The device that the memory is on."""
        raise NotImplementedError

    def __dlpack_device__(self) -> Tuple[int, int]:
        device = self.device
        if device.type == DeviceType.CPU:
            return (_dlpack.CPU, 0)
        if device.type == DeviceType.NVIDIA:
            return (self._dlpack_type, device.ordinal)
        raise BufferError(f"DLPack has no number for memory of {device!r}")

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        own = self.__dlpack_device__()
        if copy:
            raise BufferError("this would need a copy; make one with llaisys_runtime.copy")
        if dl_device is not None and tuple(int(part) for part in dl_device) != own:
            raise BufferError(f"the memory is on DLPack device {own}, not on {tuple(dl_device)}")
        if own[0] == _dlpack.CPU:
            if stream is not None:
                raise ValueError("memory of the CPU is read at once; `stream` must be None")
            self.device.synchronize()
        else:
            _let_follow(self.device, stream)
        owner, address, nbytes, read_only = self._lend("__dlpack__")
        versioned = max_version is not None and max_version[0] >= _dlpack.VERSION[0]
        return _dlpack.export(owner, address, nbytes, own, versioned=versioned, read_only=read_only)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """Version 3, a vector of ``uint8``; on NVIDIA only."""
        if self.device.type != DeviceType.NVIDIA:
            raise AttributeError(f"memory of {self.device!r} is no CUDA memory")
        _, address, nbytes, read_only = self._lend("__cuda_array_interface__")
        return {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "strides": None,
            "data": (address, read_only),
            # What is enqueued there comes after what all blocking streams have now.
            "stream": LEGACY_DEFAULT,
        }


def _let_follow(device: Device, stream: Any) -> None:
    """Has a consumer's CUDA stream, by its number in DLPack, wait for our blocking streams."""
    if stream is None or stream in (LEGACY_DEFAULT, _NO_SYNCHRONISATION):
        # The legacy default stream waits for blocking streams by itself.
        return
    if stream == 0:
        raise ValueError("DLPack: stream 0 is ambiguous; 1 is the legacy default stream")
    with Stream.adopt(stream, Device(device.type, device.ordinal)) as consumer:
        _let_wait(consumer, Stream.default(device))


def _let_wait(consumer: Stream, producer: Stream) -> None:
    with Event(producer.device) as event:
        event.record(producer)
        consumer.wait(event)


class Borrowed:
    """Another library's memory and what keeps it alive."""

    __slots__ = ("_address", "device", "nbytes", "read_only", "shared", "_holder")

    def __init__(
        self, address: int, nbytes: int, device: Device, read_only: bool, holder: object
    ) -> None:
        self._address = address
        self.nbytes = nbytes
        self.device = device
        self.read_only = read_only
        #: Whether it was lent on; then it stays as long as whoever lent it.
        self.shared = False
        self._holder = holder

    def address(self) -> int:
        """The address, as long as this is there."""
        return self._address


def borrow(value: Any, stream: Optional[Stream], device: Optional[Device]) -> Borrowed:
    """The memory of an object that lends it; work on ``stream`` comes after the lender's."""
    # DLPack first: it tells the lender which stream comes after it.
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value, stream, device)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_interface(value, interface, stream, device)
    noun = type(value).__name__
    raise TypeError(f"a {noun} has neither __cuda_array_interface__ nor __dlpack__")


def _from_interface(
    value: Any, interface: Dict[str, Any], stream: Optional[Stream], device: Optional[Device]
) -> Borrowed:
    address, read_only = interface["data"]
    if interface.get("mask") is not None:
        raise BufferError("a masked array has more than one memory")
    unit = _item_size(interface["typestr"])
    nbytes = unit * _dlpack.contiguous(interface["shape"], interface.get("strides"), unit)
    if device is None:
        device = Device(DeviceType.NVIDIA, _cuda_ordinal(address) if nbytes else 0)
    producer = interface.get("stream") if interface.get("version", 0) >= 3 else None
    if producer is not None and nbytes:
        # A stream that cannot be told from the default one is waited for through it.
        with Stream.adopt(producer, device) as its:
            if stream is None:
                its.synchronize()
            else:
                _let_wait(stream, its)
    return Borrowed(address if nbytes else 0, nbytes, device, bool(read_only), value)


def _item_size(typestr: str) -> int:
    size = typestr[2:].split("[", 1)[0]
    if not size.isdigit():
        raise BufferError(f"elements of type {typestr!r} have no size that is known here")
    # NumPy counts characters of four bytes for U, and eight bytes to a bit field for t.
    return int(size) * (4 if typestr[1] == "U" else 1)


def _cuda_ordinal(address: int) -> int:
    from ._pointer import pointer_attributes

    found = pointer_attributes(address, DeviceType.NVIDIA)
    if found.device is None:
        raise refused("Buffer.from_foreign", f"{address:#x} is no memory of an NVIDIA device")
    return found.device.ordinal


def _from_dlpack(value: Any, stream: Optional[Stream], device: Optional[Device]) -> Borrowed:
    kind, ordinal = (int(part) for part in value.__dlpack_device__())
    arguments: Dict[str, Any] = {}
    if kind in (_dlpack.CPU, _dlpack.CUDA_HOST):
        own = Device(DeviceType.CPU, 0)
    elif kind in (_dlpack.CUDA, _dlpack.CUDA_MANAGED):
        own = Device(DeviceType.NVIDIA, ordinal)
        handle = 0 if stream is None else stream.native_handle
        arguments["stream"] = handle or LEGACY_DEFAULT
    else:
        raise BufferError(f"memory of DLPack device type {kind} is not known here")
    if device is not None:
        if device.type != own.type:
            raise refused("Buffer.from_foreign", f"the memory is of {own!r}, not of {device!r}")
        # One host memory, however many devices the CPU is seen as.
        own = device if own.type == DeviceType.CPU else own
    try:
        capsule = value.__dlpack__(max_version=_dlpack.VERSION, **arguments)
    except TypeError:
        # From before DLPack 1.0.
        capsule = value.__dlpack__(**arguments)
    imported = _dlpack.take(capsule)
    address, nbytes, _, read_only, holder = imported
    return Borrowed(address, nbytes, own, read_only, (holder, value))
