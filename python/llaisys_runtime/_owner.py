"""Objects that own something until they are closed: close, ``with``, and the end of the object.

Rule: what is owned is let go of exactly once, also when several threads close, and what was closed
raises when it is used.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, List, Optional, Type, TypeVar

from ._errors import closed

_Thing = TypeVar("_Thing")
_Self = TypeVar("_Self", bound="Owner[Any]")


class Owner(Generic[_Thing]):
    """One thing and whether it is still owned. A subclass says how it is let go of."""

    __slots__ = ("_things", "__weakref__")

    #: What error messages call it.
    _noun = "object"

    def _own(self, thing: _Thing) -> None:
        # One element while open: `list.pop` gives it to exactly one of several closers.
        self._things: List[_Thing] = [thing]

    def _get(self, operation: str) -> _Thing:
        """What is owned, for an operation that uses it."""
        try:
            return self._things[0]
        except IndexError:
            raise closed(operation, self._noun) from None

    def _take(self) -> Optional[_Thing]:
        """What is owned, for whoever closes; nobody else gets it. ``None`` for all others."""
        try:
            return self._things.pop()
        except IndexError:
            return None

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._things

    @property
    def _state(self) -> str:
        """For ``repr``."""
        return "" if self._things else ", closed"

    def close(self) -> None:
        """Lets go of what it owns. Closing again does nothing."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        self._get(f"{type(self).__name__}.__enter__")
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()
