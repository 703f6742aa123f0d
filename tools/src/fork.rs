//! A number that is measured in a copy of this process, so that what it leaves behind is left there.

use llaisys_runtime::core::{Error, Result, Status};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;

/// What `measure` answers in a copy of this process.
///
/// # Errors
/// When there could be no copy, or `measure` failed there.
///
/// # Safety
/// - `measure` calls nothing that waits for another thread, for the copy has only this one, nor anything
///   of a backend's.
pub unsafe fn measured_in_a_copy(measure: impl FnOnce() -> Result<f64>) -> Result<f64> {
    let failed = |what: &str| Error::new(Status::Internal, format!("{what} failed"));
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(failed("pipe"));
    }
    // SAFETY: both were just made, and nobody else has them.
    let (mut from, mut to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the copy does what the contract above allows, and ends without running anything else. The C
    // library's allocator is whole in it.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        let is_well = measure().is_ok_and(|answer| to.write_all(&answer.to_ne_bytes()).is_ok());
        // SAFETY: ends the copy, which has nothing to clean up.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    if copy < 0 {
        return Err(failed("fork"));
    }
    drop(to);
    let mut bytes = [0; size_of::<f64>()];
    let read = from.read_exact(&mut bytes);
    // SAFETY: our own child, which is waited for once.
    unsafe { libc::waitpid(copy, std::ptr::null_mut(), 0) };
    read.map_err(|_| failed("the measurement in a copy of this process"))?;
    Ok(f64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_answers_or_its_failure_is_ours() {
        // SAFETY: neither calls anything.
        unsafe {
            assert!(measured_in_a_copy(|| Ok(2.5)).is_ok_and(|answer| answer == 2.5));
            let refused = || Err(Error::new(Status::OutOfMemory, "none"));
            assert!(measured_in_a_copy(refused).is_err());
        }
    }
}
