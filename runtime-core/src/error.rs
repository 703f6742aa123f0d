//! A failure on its way from where it happened to the thread's last-error slot.
//!
//! Rule: the message says what was asked and what was found. Which operation failed is not kept
//! here: the door through which the call came knows it and adds it (see `last_error`).

use crate::status::Status;
use std::any::Any;
use std::fmt;

/// What a native driver said, beside our own status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeError {
    /// The driver's number, for example a `CUresult` or an `errno`.
    pub code: i64,
    /// The driver's name for it, for example `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

/// A failure: a status to act on and a sentence to read. One pointer wide.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    status: Status,
    message: String,
    native: Option<NativeError>,
}

/// The result of every operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of our own.
    #[cold]
    pub fn new(status: Status, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { status, message: message.into(), native: None }))
    }

    /// The same failure with what the native driver said.
    pub fn with_native(mut self, code: i64, name: impl Into<String>) -> Error {
        self.0.native = Some(NativeError { code, name: name.into() });
        self
    }

    /// The same failure with what it is about in front, unless the message says that already.
    #[cold]
    pub fn about(mut self, what: &str) -> Error {
        if !self.0.message.contains(what) {
            self.0.message = format!("{what}: {}", self.0.message);
        }
        self
    }

    /// The same failure with another sentence.
    pub fn with_message(mut self, message: impl Into<String>) -> Error {
        self.0.message = message.into();
        self
    }

    /// The failure that a caught panic becomes (contract E1).
    #[cold]
    pub fn from_panic(payload: Box<dyn Any + Send>) -> Error {
        let what = if let Some(text) = payload.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "a panic without a text".to_owned()
        };
        // Dropping a payload can itself panic; that must not happen outside the guard.
        std::mem::forget(payload);
        Error::new(Status::Internal, format!("a panic was contained: {what}"))
    }

    /// What kind of failure this is.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// What was asked and what was found.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the native driver said, where one was asked.
    pub fn native(&self) -> Option<&NativeError> {
        self.0.native.as_ref()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.status.name(), self.0.message)?;
        match &self.0.native {
            Some(native) => write!(f, " ({} {})", native.name, native.code),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
