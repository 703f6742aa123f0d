//! The user's own host memory that was registered.
//!
//! Rule: registering is bookkeeping here. All host memory is as good as pinned to a CPU; what changes is
//! that copies from and to it are asynchronous, which the core decides. So no page is locked, and
//! the process's limit for locked memory does not matter.

use crate::pages;
use llaisys_runtime_core::api::Ordinal;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// A range of the user's memory.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Its first byte.
    pub address: usize,
    /// Its size.
    pub size: usize,
    /// The device for which it was registered; every device may use it.
    pub device: Ordinal,
}

/// Every range that is registered, by its first byte.
#[derive(Default)]
pub struct Registrations(Mutex<BTreeMap<usize, Registration>>);

impl Registrations {
    /// Registers a range.
    ///
    /// # Errors
    /// `INVALID_VALUE` for what is not mapped, or lies over a range that is registered.
    pub fn insert(&self, registration: Registration) -> Result<()> {
        let Registration { address, size, .. } = registration;
        if size == 0 || !pages::are_mapped(address, size) {
            let message = format!("{size} bytes at {address:#x} are not mapped in this process");
            return Err(Error::new(Status::InvalidValue, message));
        }
        let mut ranges = self.0.lock();
        let last = address + (size - 1);
        match ranges.range(..=last).next_back().map(|(_, other)| *other) {
            Some(other) if other.address + (other.size - 1) >= address => {
                drop(ranges);
                let message = format!(
                    "{size} bytes at {address:#x} lie over {} registered bytes at {:#x}",
                    other.size, other.address
                );
                Err(Error::new(Status::InvalidValue, message))
            }
            _ => {
                ranges.insert(address, registration);
                Ok(())
            }
        }
    }

    /// Takes a registration back.
    ///
    /// # Errors
    /// `INVALID_VALUE` for what is not the start of a registered range.
    pub fn remove(&self, pointer: *mut c_void) -> Result<()> {
        match self.0.lock().remove(&(pointer as usize)) {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Status::InvalidValue,
                format!("{pointer:p} is not the start of a registered range, or no longer"),
            )),
        }
    }

    /// The range that an address lies in.
    pub fn find(&self, address: usize) -> Option<Registration> {
        let found = self.0.lock().range(..=address).next_back().map(|(_, range)| *range);
        found.filter(|range| address - range.address < range.size)
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.0.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.0.release() };
    }
}
