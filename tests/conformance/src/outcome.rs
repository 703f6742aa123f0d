//! What may come of a case, and the words with which a case ends early.

use std::fmt;

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The clause holds.
    Pass,
    /// The clause does not hold; the message says what was expected and what was found.
    Fail,
    /// The process of the case ended by a signal or without a result.
    Crash,
    /// The case did not come to its end in time.
    Timeout,
    /// The case passed and left something behind; see `footprint` for what is measured.
    Leak,
    /// The case passed, though the expectations say that it does not.
    XPass,
    /// The case came to what the expectations say, with their reason.
    XFail,
    /// The backend says that it does not have the operation, and the entry really answers so.
    NotSupported,
    /// The case cannot be run here, for a reason that code has checked.
    Skip,
}

impl Outcome {
    /// Every outcome, in the order of a report.
    pub const ALL: [Outcome; 9] = [
        Outcome::Pass,
        Outcome::Fail,
        Outcome::Crash,
        Outcome::Timeout,
        Outcome::Leak,
        Outcome::XPass,
        Outcome::XFail,
        Outcome::NotSupported,
        Outcome::Skip,
    ];

    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Pass => "PASS",
            Outcome::Fail => "FAIL",
            Outcome::Crash => "CRASH",
            Outcome::Timeout => "TIMEOUT",
            Outcome::Leak => "LEAK",
            Outcome::XPass => "XPASS",
            Outcome::XFail => "XFAIL",
            Outcome::NotSupported => "NOT_SUPPORTED",
            Outcome::Skip => "SKIP",
        }
    }

    /// The outcome with this word.
    pub fn from_word(word: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.word() == word)
    }

    /// Whether the backend, or an expectation of it, is at fault.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Outcome::Fail | Outcome::Crash | Outcome::Timeout | Outcome::Leak | Outcome::XPass
        )
    }
}

/// Why a case ended before its end.
#[derive(Clone, Debug)]
pub struct Stop {
    /// What came of it.
    pub outcome: Outcome,
    /// What was expected and what was found.
    pub message: String,
}

impl Stop {
    /// The backend is at fault.
    pub fn fail(message: impl Into<String>) -> Stop {
        Stop { outcome: Outcome::Fail, message: message.into() }
    }

    /// The case cannot be run here.
    pub fn skip(reason: impl Into<String>) -> Stop {
        Stop { outcome: Outcome::Skip, message: reason.into() }
    }

    /// The backend does not have it, and says so.
    pub fn not_supported(reason: impl Into<String>) -> Stop {
        Stop { outcome: Outcome::NotSupported, message: reason.into() }
    }

    /// Something was left behind.
    pub fn leak(message: impl Into<String>) -> Stop {
        Stop { outcome: Outcome::Leak, message: message.into() }
    }

    /// The same with the place where it happened in front.
    pub fn at(mut self, place: impl fmt::Display) -> Stop {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

/// What a case, or a step of one, answers.
pub type Checked<T = ()> = std::result::Result<T, Stop>;

/// Ends a case as a failure.
macro_rules! fail {
    ($($message:tt)*) => {
        return Err($crate::outcome::Stop::fail(format!($($message)*)))
    };
}

/// Ends a case as a failure unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            fail!($($message)*);
        }
    };
}

/// Ends a case as a failure unless what was found is what was expected.
macro_rules! ensure_eq {
    ($found:expr, $expected:expr, $($what:tt)*) => {{
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            fail!("{}: expected {expected:?}, found {found:?}", format!($($what)*));
        }
    }};
}
