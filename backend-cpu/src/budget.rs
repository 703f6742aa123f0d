//! How much memory may be used, and how much is.
//!
//! Rules: a request is weighed before it is made, so that an absurd one is an error and never a
//! visit of the out-of-memory killer. All virtual devices are one machine's memory and share one
//! budget. Device memory stays below the configured limit; device and pinned memory together stay
//! below what the machine and the control group give.

use crate::blocks::Place;
use llaisys_runtime_core::available_memory::available_memory;
use llaisys_runtime_core::cgroup;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use std::path::Path;

/// Requests from this size on are also weighed against what is free in the machine right now; for
/// smaller ones reading that would cost more than the allocation.
const WEIGHED: usize = 64 << 20;

/// The limits and what is used of them.
pub struct Budget {
    /// Bytes that the process may use at all.
    machine: u64,
    /// Bytes of device memory.
    device: u64,
    used: Mutex<Used>,
}

#[derive(Clone, Copy, Default)]
struct Used {
    device: u64,
    host: u64,
}

impl Used {
    fn of(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::Device(_) | Place::Managed => &mut self.device,
            Place::Host => &mut self.host,
        }
    }
}

impl Budget {
    /// The machine's memory, the control group's limit, and `limit` for device memory, whichever is
    /// less.
    pub fn new(limit: Option<u64>) -> Budget {
        let group = cgroup::memory_limit(Path::new("/")).unwrap_or(u64::MAX);
        let machine = physical_memory().min(group);
        let device = limit.unwrap_or(u64::MAX).min(machine);
        Budget { machine, device, used: Mutex::new(Used::default()) }
    }

    /// All bytes that a place may have.
    pub fn total(&self, place: Place) -> u64 {
        match place {
            Place::Device(_) | Place::Managed => self.device,
            Place::Host => self.machine,
        }
    }

    fn unused(&self, place: Place, used: Used) -> u64 {
        let all = self.machine.saturating_sub(used.device).saturating_sub(used.host);
        match place {
            Place::Device(_) | Place::Managed => all.min(self.device.saturating_sub(used.device)),
            Place::Host => all,
        }
    }

    /// The bytes that a place can still have: within the budget and within what is free right now.
    pub fn free(&self, place: Place) -> u64 {
        let used = *self.used.lock();
        self.unused(place, used).min(available_memory())
    }

    /// Whether a request of this size would fit if `more` bytes were given back.
    pub fn fits(&self, place: Place, size: usize, more: u64) -> bool {
        let used = *self.used.lock();
        size as u64 <= self.unused(place, used).saturating_add(more)
    }

    /// Takes the bytes out of the budget, if they are there.
    pub fn take(&self, place: Place, size: usize) -> bool {
        if size >= WEIGHED && size as u64 > available_memory() {
            return false;
        }
        let mut used = self.used.lock();
        let fits = size as u64 <= self.unused(place, *used);
        if fits {
            *used.of(place) += size as u64;
        }
        fits
    }

    /// Puts the bytes back.
    pub fn give_back(&self, place: Place, size: usize) {
        *self.used.lock().of(place) -= size as u64;
    }

    /// In the child of a fork: only this is used; what other threads were about to use is not.
    pub fn set_used(&self, device: u64, host: u64) {
        *self.used.lock() = Used { device, host };
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.used.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.used.release() };
    }
}

fn physical_memory() -> u64 {
    // SAFETY: `sysconf` takes a number and touches no memory of ours.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) => pages.saturating_mul(size),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_near_two_to_the_64th_do_not_wrap_the_budget() {
        let budget = Budget::new(None);
        let place = Place::Device(0);
        assert!(budget.take(place, 4096));
        for size in [usize::MAX, usize::MAX - 255, usize::MAX - 4095, 1 << 63] {
            assert!(!budget.take(place, size) && !budget.fits(place, size, 1 << 20));
        }
        assert!(budget.take(place, 4096));
        assert!(budget.fits(place, budget.total(place) as usize, 8192));
    }

    #[test]
    fn pinned_memory_counts_against_the_machine_and_not_against_the_device_limit() {
        let budget = Budget::new(Some(1 << 20));
        assert!(budget.take(Place::Host, 2 << 20));
        assert!(budget.take(Place::Device(0), 1 << 20));
        assert!(!budget.take(Place::Device(1), 1), "virtual devices share the limit");
        budget.give_back(Place::Device(0), 1 << 20);
        assert!(budget.take(Place::Device(1), 1));
    }
}
