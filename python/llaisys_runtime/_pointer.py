"""What is known of an address, whoever allocated it."""

from __future__ import annotations

from ctypes import c_void_p
from numbers import Integral
from typing import Any, NamedTuple, Optional

from . import _abi, _arguments
from ._backend import backend
from ._device import Device, candidates
from ._errors import LlaisysError
from ._types import DeviceType, MemoryKind, Status
from ._view import View


class PointerAttributes(NamedTuple):
    """What is known of an address."""

    kind: MemoryKind
    #: The device that it is on, or for which it was pinned; ``None`` for pageable memory.
    device: Optional[Device]
    #: The first byte of the block; 0 for pageable memory.
    base: int
    #: The size of the block in bytes; 0 for pageable memory.
    nbytes: int
    #: Whether this runtime allocated or registered it.
    ours: bool


def pointer_attributes(value: Any, type: Optional[int] = None) -> PointerAttributes:
    """What is known of an address: what this runtime knows itself, then what the drivers know.

    Args:
        value: an address, a buffer of this package, an object with ``__cuda_array_interface__``, or
            one with the buffer protocol.
        type: the device type whose backend is asked; by default each one in use until one knows it.
    """
    address = _address_of(value)
    if type is not None:
        return _ask(_arguments.int32(type, "pointer_attributes", "type"), address)
    types = {int(found.device_type) for found in candidates() if found.status == Status.SUCCESS}
    answer: Optional[PointerAttributes] = None
    for number in sorted(types | {int(DeviceType.CPU)}):
        try:
            answer = _ask(number, address)
        except LlaisysError:
            # The CPU's always answers. A driver that cannot be asked does not know the address.
            if number == DeviceType.CPU:
                raise
            continue
        if answer.kind != MemoryKind.PAGEABLE:
            return answer
    return PointerAttributes(MemoryKind.PAGEABLE, None, 0, 0, False)


def _address_of(value: Any) -> int:
    if value is None or isinstance(value, (Integral, c_void_p)):
        number: Any = value
        return _arguments.address(number, "pointer_attributes", "value")
    own = getattr(value, "address", None)
    if isinstance(own, int):
        # Before the interface, which would count as lending.
        return own
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        address: int = interface["data"][0]
        return address
    return View(value, writable=False).address


def _ask(type: int, address: int) -> PointerAttributes:
    found = backend(type).describe(_abi.LlaisysPointerAttributes, "get_pointer_attributes", address)
    kind = MemoryKind(found.kind)
    device = None if kind == MemoryKind.PAGEABLE else Device(found.device_type, found.device)
    return PointerAttributes(kind, device, found.base, found.size, bool(found.ours))
