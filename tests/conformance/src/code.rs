//! A status as it comes through the C ABI: any number, shown with its name.

use llaisys_runtime_core::Status;
use std::fmt;

/// What a call answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// Success.
    pub const SUCCESS: Code = Code(0);

    /// Whether this is exactly `status`.
    pub fn is(self, status: Status) -> bool {
        self.0 == status.code()
    }

    /// The result that this status stands for.
    pub fn result(self) -> Result<(), Code> {
        if self == Code::SUCCESS { Ok(()) } else { Err(self) }
    }
}

impl From<Status> for Code {
    fn from(status: Status) -> Code {
        Code(status.code())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Status::from_code(self.0) {
            Some(status) => write!(f, "{}", status.name()),
            None => write!(f, "{} (no status)", self.0),
        }
    }
}
