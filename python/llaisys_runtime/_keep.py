"""Python objects whose memory a stream still uses.

Rule: an object that was promised to an asynchronous copy stays alive, and its buffer locked, until
its stream is known to have passed. At interpreter shutdown what is still promised is left alone:
freeing it under a running copy would crash the process at exit (contract L1).
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Dict, Iterable, Iterator

#: Ticket → object. Holds a reference to itself that is never given back, so that the teardown of
#: modules does not empty it.
_kept: Dict[int, object] = {}
_tickets: Iterator[int] = itertools.count(1)

ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def keep(value: object) -> int:
    """Keeps an object and returns the ticket for it."""
    ticket = next(_tickets)
    _kept[ticket] = value
    return ticket


def let_go(tickets: Iterable[int]) -> None:
    """Lets go of the objects of these tickets; of one that is gone already, nothing."""
    for ticket in tickets:
        _kept.pop(ticket, None)


def count() -> int:
    """How many objects are kept."""
    return len(_kept)
