"""Host memory of the user's own, pinned where it lies.

Rule: it stays pinned, locked and alive until it is closed and no copy of this package uses it any
more. Copies find it by address, also when they get the object itself.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Dict, Optional

from ._device import Device
from ._owner import Owner
from ._view import View

if TYPE_CHECKING:
    from typing_extensions import Buffer as BufferLike

#: Where registered memory begins → the registration.
_live: "Dict[int, weakref.ref[Registration]]" = {}


class Registration:
    """A pinned view of an object. When the last reference goes, the memory is let go."""

    __slots__ = ("view", "address", "nbytes", "_device", "__weakref__")

    def __init__(self, view: View, device: Device) -> None:
        self.view = view
        self.nbytes = view.nbytes
        self.address = 0
        self._device = device
        # Zero bytes are nothing to pin.
        if view.nbytes:
            device.backend.call("register_host", device.ordinal, view.address, view.nbytes)
            self.address = view.address
            _live[self.address] = weakref.ref(self)

    def __del__(self) -> None:
        try:
            address = self.address
            if address:
                # First, so that it does not take away who comes after it at the same place.
                _live.pop(address, None)
                own = self._device
                own.backend.call_quietly("unregister_host", own.ordinal, address)
        except BaseException:
            pass


def find(address: int) -> Optional[Registration]:
    """The registration whose memory holds the address."""
    for reference in list(_live.values()):
        found = reference()
        if found is not None and found.address <= address < found.address + found.nbytes:
            return found
    return None


class RegisteredMemory(Owner[Registration]):
    """An object's memory while it is pinned; made by :func:`register_host`."""

    __slots__ = ("_device", "_nbytes")

    _noun = "memory"

    def __init__(self, value: Any, device: Device) -> None:
        self._device = device
        registration = Registration(View(value, writable=True), device)
        self._nbytes = registration.nbytes
        self._own(registration)

    def __repr__(self) -> str:
        return f"<RegisteredMemory of {self._nbytes} bytes for {self._device!r}{self._state}>"

    @property
    def device(self) -> Device:
        """The device that it was registered with; good for every device of its type."""
        return self._device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    @property
    def address(self) -> int:
        """The address; 0 for 0 bytes."""
        return self._get("RegisteredMemory.address").address

    def close(self) -> None:
        """Lets go of the memory: at once, or when no copy uses it any more."""
        self._take()


def register_host(value: "BufferLike", device: Device) -> RegisteredMemory:
    """Pins the memory of any object with a writable, C-contiguous buffer, where it lies::

        with rt.register_host(array, device):
            buffer.copy_from(array, stream)  # asynchronous: `array` is pinned now

    Copies with the object, or with a part of it, are then those of pinned memory: its contents are
    used until the stream has passed. The object is locked and kept alive until then. That goes for
    what is registered here; what C code registered is C code's to keep.

    Raises:
        BufferError: it is read-only or not contiguous.
        InvalidValueError: it lies over memory that is registered already.
        NotSupportedError: the backend cannot pin the user's memory.
    """
    return RegisteredMemory(value, device)
