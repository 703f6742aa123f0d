//! The guard that every exported function's body is.
//!
//! In order: the call is counted, then refused if the driver is not there for it (not initialised,
//! forked, inside a host function, no context), then failed if a test wants it to, and only then done.
//! The rule: no panic leaves, and a refused call has changed nothing.

use crate::capture;
use crate::contexts;
use crate::driver::{self, Driver};
use crate::errors::{Answer, Code, INVALID_VALUE, NOT_PERMITTED, UNKNOWN, is_fatal};
use crate::faults;
use crate::handles::Handle;
use std::cell::Cell;

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// The driver and the context that is current.
#[derive(Clone, Copy)]
pub struct Here {
    pub driver: &'static Driver,
    pub context: Handle,
}

/// A call that works always: versions, names, initialisation.
pub fn any(name: &'static str, body: impl FnOnce(()) -> Answer) -> Code {
    if driver::is_forked() {
        return finish(|| body(()));
    }
    finish(|| faults::enter(name).and_then(body))
}

/// A call on the handle of a stream or an event. It is allowed in a host function too, as on the real
/// driver, where waiting for the stream that the function holds up hangs.
pub fn by_handle(name: &'static str, body: impl FnOnce(&'static Driver) -> Answer) -> Code {
    finish(|| {
        let driver = enter(name)?;
        body(driver)
    })
}

/// A call that needs the driver, but no context.
pub fn ready(name: &'static str, body: impl FnOnce(&'static Driver) -> Answer) -> Code {
    finish(|| {
        let driver = enter(name)?;
        outside_host_function()?;
        body(driver)
    })
}

/// A call that needs a current context.
pub fn current(name: &'static str, body: impl FnOnce(Here) -> Answer) -> Code {
    finish(|| {
        let driver = enter(name)?;
        outside_host_function()?;
        body(Here { driver, context: contexts::usable_current(driver)? })
    })
}

fn enter(name: &'static str) -> Answer<&'static Driver> {
    if driver::is_forked() {
        return Err(crate::errors::NOT_INITIALIZED);
    }
    let verdict = faults::enter(name);
    let driver = driver::driver()?;
    if let Err(code) = verdict {
        if is_fatal(code) {
            contexts::break_current(driver, code);
        }
        return Err(code);
    }
    capture::check_safe(driver, name)?;
    Ok(driver)
}

fn finish(body: impl FnOnce() -> Answer) -> Code {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// Refuses what needs a context while a host function runs.
pub fn outside_host_function() -> Answer {
    if IN_HOST_FUNCTION.get() { Err(NOT_PERMITTED) } else { Ok(()) }
}

/// Runs a user's function as a host function.
pub fn host_function(body: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    body();
    IN_HOST_FUNCTION.set(false);
}

/// A place of the caller's for a result, known not to be null.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub fn set(self, value: T) -> Answer {
        // SAFETY: the caller of an exported function passes null or a place for a value of this type,
        // as the driver's interface demands; null was refused in `out`.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// A place that must be given.
pub fn out<T>(place: *mut T) -> Answer<Out<T>> {
    if place.is_null() { Err(INVALID_VALUE) } else { Ok(Out(place)) }
}

/// Writes where a place was given.
pub fn put_if_asked<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: as in `Out::set`.
        unsafe { place.write(value) };
    }
}

/// Reads a structure that the caller passes by address.
pub fn read<T: Copy>(place: *const T) -> Answer<T> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller passes null or the address of a readable structure of this type, as the
    // driver's interface demands; it may be unaligned.
    Ok(unsafe { place.read_unaligned() })
}

/// Writes a text with its zero into a buffer of the caller's, cut to its length.
pub fn put_text(place: *mut u8, room: i32, text: &str) -> Answer {
    let room = usize::try_from(room).map_err(|_| INVALID_VALUE)?;
    if place.is_null() || room == 0 {
        return Err(INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: the caller passes a buffer of `room` bytes; length + 1 are written.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place, length);
        place.add(length).write(0);
    }
    Ok(())
}

/// A text that the caller passes.
pub fn text<'a>(place: *const libc::c_char) -> Answer<&'a str> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller passes null or a C string that lives through the call.
    unsafe { std::ffi::CStr::from_ptr(place) }.to_str().map_err(|_| INVALID_VALUE)
}
