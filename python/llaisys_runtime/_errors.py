"""A failed call as an exception.

Rule: one class per status, all of them ``LlaisysError``; where Python has a class for the same thing
(``ValueError``, ``MemoryError``, ``NotImplementedError``) it is a base as well.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type

from ._types import Status


class LlaisysError(Exception):
    """A call of the runtime failed; nothing else was changed by it.

    Attributes:
        status: what kind of failure it was.
        operation: the operation that failed, for example ``memcpy_async``.
        message: what was asked and what was found.
        native_code: the driver's number; 0 where no driver was asked.
        native_name: the driver's name for it; empty where no driver was asked.
    """

    status: Status
    operation: str
    message: str
    native_code: int
    native_name: str

    def __init__(
        self,
        status: Status,
        operation: str,
        message: str,
        native_code: int = 0,
        native_name: str = "",
    ) -> None:
        super().__init__(status, operation, message, native_code, native_name)
        self.status = status
        self.operation = operation
        self.message = message
        self.native_code = native_code
        self.native_name = native_name

    def __str__(self) -> str:
        text = f"{self.operation}: {self.status.name}: {self.message}"
        if self.native_name or self.native_code:
            text += f" ({self.native_name} {self.native_code})"
        return text

    def __reduce__(self) -> Tuple[Any, ...]:
        return (type(self), self.args)


class InvalidValueError(LlaisysError, ValueError):
    """An argument is outside what the operation accepts: a size, a pointer, a kind, a range."""


class InvalidHandleError(LlaisysError, ValueError):
    """A stream (or other handle) that does not exist, or no longer."""


class ClosedError(InvalidHandleError):
    """A buffer, :class:`Stream` or :class:`Event` was used after it was closed."""


class InvalidDeviceError(LlaisysError, ValueError):
    """There is no device with this ordinal."""


class OutOfMemoryError(LlaisysError, MemoryError):
    """The device or the host has not enough memory; a smaller request may work."""


class NotSupportedError(LlaisysError, NotImplementedError):
    """The backend does not have this operation."""


class NotReadyError(LlaisysError):
    """The work asked about has not finished."""


class NotPermittedError(LlaisysError):
    """The operation is not allowed here, for example waiting inside a host function."""


class DeviceLostError(LlaisysError):
    """The device failed and stays failed for the life of the process."""


class DriverUnavailableError(LlaisysError):
    """The device's driver is not there, is a stub, or found no device."""


class DriverTooOldError(LlaisysError):
    """The device's driver is older than what the backend needs."""


class BackendUnavailableError(LlaisysError):
    """No backend serves this device type; :func:`candidates` says what was looked at."""


class BackendRefusedError(LlaisysError):
    """A backend file was found and refused; the message says why."""


class AbiMismatchError(LlaisysError):
    """The two sides of the ABI do not fit."""


class ForkedError(LlaisysError):
    """The process was forked after the driver had been initialised."""


class ShutdownError(LlaisysError):
    """The runtime or the driver is shutting down."""


class DriverError(LlaisysError):
    """The driver reported a failure that has no closer class; see ``native_code``."""


class InternalError(LlaisysError):
    """A fault inside the runtime or a backend."""


class NotRecordedError(LlaisysError):
    """An event was never recorded, so nothing can be measured from or to it."""


class TimingDisabledError(LlaisysError):
    """An event was made without timing."""


#: The class for each status.
CLASSES: Dict[Status, Type[LlaisysError]] = {
    Status.INVALID_VALUE: InvalidValueError,
    Status.INVALID_HANDLE: InvalidHandleError,
    Status.INVALID_DEVICE: InvalidDeviceError,
    Status.OUT_OF_MEMORY: OutOfMemoryError,
    Status.NOT_SUPPORTED: NotSupportedError,
    Status.NOT_READY: NotReadyError,
    Status.NOT_PERMITTED: NotPermittedError,
    Status.DEVICE_LOST: DeviceLostError,
    Status.DRIVER_UNAVAILABLE: DriverUnavailableError,
    Status.DRIVER_TOO_OLD: DriverTooOldError,
    Status.BACKEND_UNAVAILABLE: BackendUnavailableError,
    Status.BACKEND_REFUSED: BackendRefusedError,
    Status.ABI_MISMATCH: AbiMismatchError,
    Status.FORKED: ForkedError,
    Status.SHUTDOWN: ShutdownError,
    Status.DRIVER_ERROR: DriverError,
    Status.INTERNAL: InternalError,
    Status.NOT_RECORDED: NotRecordedError,
    Status.TIMING_DISABLED: TimingDisabledError,
}


def error_for(
    status: Status, operation: str, message: str, native_code: int = 0, native_name: str = ""
) -> LlaisysError:
    """The exception of the class that belongs to ``status``."""
    return CLASSES.get(status, LlaisysError)(status, operation, message, native_code, native_name)


def closed(operation: str, noun: str) -> ClosedError:
    """The exception for the use of something that was closed."""
    return ClosedError(Status.INVALID_HANDLE, operation, f"this {noun} is closed")


def refused(operation: str, message: str) -> InvalidValueError:
    """The exception for an argument that never reaches C."""
    return InvalidValueError(Status.INVALID_VALUE, operation, message)
