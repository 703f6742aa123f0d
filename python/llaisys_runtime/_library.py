"""Finds ``libllaisys_runtime.so``, opens it, and gives every exported function its types.

Rules: nothing is opened before the first use; nothing is ever printed; a library that cannot be
opened is reported with every path that was tried. Looked at in this order:

1. ``LLAISYS_RUNTIME_LIBRARY``, a path; when it is set nothing else is tried;
2. beside this package's modules (a wheel that carries the library);
3. ``target/release`` and ``target/debug`` of the checkout that this file is in, the newer first;
4. the system's loader (``LD_LIBRARY_PATH``, ``ld.so.cache``).

Calls release the GIL. The two exceptions are the reads of the thread's last-error slot, which are a
few nanoseconds long.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from . import _abi
from ._errors import LlaisysError, error_for
from ._types import Status

NAME = "libllaisys_runtime.so"
ENVIRONMENT = "LLAISYS_RUNTIME_LIBRARY"


class LibraryNotFoundError(OSError):
    """``libllaisys_runtime.so`` could not be opened.

    The text lists every path that was tried, and says what to do about it.
    """

    tried: List[Tuple[str, str]]

    def __init__(self, tried: List[Tuple[str, str]], advice: str) -> None:
        lines = "".join(f"\n  {path}: {reason}" for path, reason in tried)
        super().__init__(f"{NAME} could not be opened; tried:{lines}\n{advice}")
        #: Pairs of a path and why it was not taken.
        self.tried = tried


class Library:
    """The opened library: exported functions as attributes, failures as exceptions."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        #: The path that was opened, or the bare name when the system's loader found it.
        self.path = path
        for name, (result, arguments) in _abi.FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        abi_version = self.llaisysGetAbiVersion()
        if abi_version >> 16 != _abi.ABI_MAJOR:
            found = f"{abi_version >> 16}.{abi_version & 0xFFFF}"
            message = f"{path} has ABI {found}; this package speaks {_abi.ABI_MAJOR}.x"
            raise error_for(Status.ABI_MISMATCH, "llaisysGetAbiVersion", message)
        # The same library once more, for calls too short to be worth giving up the GIL.
        held = ctypes.PyDLL(path, handle=library._handle)
        self._peek = held.llaisysPeekLastError
        self._peek.restype, self._peek.argtypes = _abi.FUNCTIONS["llaisysPeekLastError"]
        self._take = held.llaisysGetLastError
        self._take.restype, self._take.argtypes = _abi.FUNCTIONS["llaisysGetLastError"]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The exported functions, which ``__init__`` makes attributes."""

    def text(self, value: Optional[bytes]) -> str:
        """A text of C's."""
        return (value or b"").decode("utf-8", "replace")

    def unread(self) -> int:
        """The status of the failure that waits in this thread's slot, 0 if none.

        Asked before a call: the slot keeps the first failure until it is read, so what is there now
        belongs to somebody else (C code on this thread) and is neither reported as ours nor cleared
        (contract E2, E6).
        """
        status: int = self._peek(None)
        return status

    def failure(self, status: int, operation: str, unread: int) -> LlaisysError:
        """The exception for a call that answered ``status``.

        ``unread`` is what :meth:`unread` said before the call. When it was 0 the slot holds this
        call's failure, which is taken out. Otherwise the slot kept the older one: that stays where
        it is, and this failure has no details beyond its status.
        """
        if unread == 0:
            taken = self.take_failure()
            if taken is not None:
                return taken
            message = self.text(self.llaisysStatusText(status))
        else:
            message = self.text(self.llaisysStatusText(status)) + (
                "; no details, because an earlier failure on this thread "
                f"({self.text(self.llaisysStatusName(unread))}) has not been read by whoever caused it"
            )
        return error_for(Status(status), operation, message)

    def take_failure(self) -> Optional[LlaisysError]:
        """Reads and clears this thread's slot."""
        return self._read(self._take)

    def peek_failure(self) -> Optional[LlaisysError]:
        """Reads this thread's slot and leaves it."""
        return self._read(self._peek)

    def discard_failure(self) -> None:
        """Clears this thread's slot; for frees that have nobody to report to."""
        self._take(None)

    def _read(self, function: Any) -> Optional[LlaisysError]:
        pointer = POINTER(_abi.LlaisysError)()
        status = function(byref(pointer))
        if status == 0:
            return None
        if not pointer:
            message = self.text(self.llaisysStatusText(status))
            return error_for(Status(status), "unknown", message)
        error = pointer.contents
        return error_for(
            Status(status),
            self.text(error.operation),
            self.text(error.message),
            error.native_code,
            self.text(error.native_name),
        )


def _candidates() -> List[str]:
    package = Path(__file__).resolve().parent
    paths = [package / NAME]
    for folder in package.parents:
        if (folder / "Cargo.toml").is_file() and (folder / "runtime-core").is_dir():
            built = [folder / "target" / profile / NAME for profile in ("release", "debug")]
            paths += sorted(built, key=_modified, reverse=True)
            break
    return [str(path) for path in paths]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


#: What to do when nothing was found where it was looked for.
_NOWHERE = f"""\
Set {ENVIRONMENT} to the path of {NAME}. To build it:
`cargo build --release` in a checkout of llaisys-runtime leaves it in
target/release/, where the Python package of that checkout finds it by itself."""

#: What to do when the variable leads to nothing.
_NAMED = f"""\
{ENVIRONMENT} is set, so no other place was looked at: correct it to
the path of {NAME}, or unset it."""


def _open() -> Library:
    tried: List[Tuple[str, str]] = []
    named = os.environ.get(ENVIRONMENT)
    for path in [named] if named else [*_candidates(), NAME]:
        if os.sep in path and not os.path.isfile(path):
            tried.append((path, f"no such file ({ENVIRONMENT})" if named else "no such file"))
            continue
        try:
            return Library(ctypes.CDLL(path), path)
        except OSError as error:
            tried.append((path, str(error)))
        except AttributeError as error:
            tried.append((path, f"it lacks a function of this ABI: {error}"))
    raise LibraryNotFoundError(tried, _NAMED if named else _NOWHERE)


_opened: Optional[Library] = None


def library() -> Library:
    """The library, opened at the first call.

    There is no lock to be held across a ``fork``: two threads that come here first at the same time
    both open the same file, which the loader opens once.
    """
    global _opened
    opened = _opened
    if opened is None:
        opened = _opened = _open()
    return opened
