//! Which sanitizer code was built with, and which it can live beside.
//!
//! Rule: a sanitizer's own library ends a process into which it comes late, so a plugin that needs one is
//! refused before it is opened.

use crate::error::{Error, Result};
use crate::status::Status;
use std::ffi::CStr;

/// A sanitizer, by its number in a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// None.
    None = 0,
    /// AddressSanitizer.
    Address = 1,
    /// ThreadSanitizer.
    Thread = 2,
    /// MemorySanitizer.
    Memory = 3,
}

impl Sanitizer {
    const ALL: [Sanitizer; 4] =
        [Sanitizer::None, Sanitizer::Address, Sanitizer::Thread, Sanitizer::Memory];

    /// The sanitizer with this number.
    pub fn from_number(number: u32) -> Option<Sanitizer> {
        Sanitizer::ALL.into_iter().find(|one| *one as u32 == number)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Sanitizer::None => "no sanitizer",
            Sanitizer::Address => "AddressSanitizer",
            Sanitizer::Thread => "ThreadSanitizer",
            Sanitizer::Memory => "MemorySanitizer",
        }
    }

    /// The function that code with this sanitizer calls at its start, and its library defines.
    fn start(self) -> Option<&'static CStr> {
        match self {
            Sanitizer::None => None,
            Sanitizer::Address => Some(c"__asan_init"),
            Sanitizer::Thread => Some(c"__tsan_init"),
            Sanitizer::Memory => Some(c"__msan_init"),
        }
    }

    /// The sanitizer that is behind a symbol of this name.
    pub fn that_defines(symbol: &str) -> Option<Sanitizer> {
        let is_its =
            |one: &Sanitizer| one.start().is_some_and(|name| name.to_bytes() == symbol.as_bytes());
        Sanitizer::ALL.into_iter().find(is_its)
    }

    /// The one that this process runs with.
    pub fn of_this_process() -> Sanitizer {
        // SAFETY: looks a name up among all that is loaded.
        let is_here =
            |name: &CStr| unsafe { !libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).is_null() };
        let found = Sanitizer::ALL.into_iter().find(|one| one.start().is_some_and(is_here));
        found.unwrap_or(Sanitizer::None)
    }

    /// Refuses code that cannot live in a process with `host`. Code without a sanitizer lives beside
    /// AddressSanitizer and ThreadSanitizer, which see less of it; MemorySanitizer takes all that such
    /// code writes for never written.
    ///
    /// # Errors
    /// `BACKEND_REFUSED`, with both names.
    pub fn check_beside(self, host: Sanitizer) -> Result<()> {
        match (self, host) {
            (Sanitizer::None, Sanitizer::Memory) => {}
            (Sanitizer::None, _) => return Ok(()),
            (own, host) if own == host => return Ok(()),
            _ => {}
        }
        let message =
            format!("it was built with {}, this process with {}", self.name(), host.name());
        Err(Error::new(Status::BackendRefused, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equals_and_what_a_sanitizer_can_ignore_live_together() {
        let may = |own: Sanitizer, host| own.check_beside(host).is_ok();
        for own in Sanitizer::ALL {
            assert!(may(own, own));
            assert_eq!(may(own, Sanitizer::None), own == Sanitizer::None);
            assert_eq!(Sanitizer::from_number(own as u32), Some(own));
        }
        assert!(may(Sanitizer::None, Sanitizer::Address));
        assert!(may(Sanitizer::None, Sanitizer::Thread));
        assert!(!may(Sanitizer::None, Sanitizer::Memory));
        assert!(!may(Sanitizer::Thread, Sanitizer::Address));
        assert_eq!(Sanitizer::from_number(4), None);
    }
}
