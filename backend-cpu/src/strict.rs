//! Strict mode (`LLAISYS_CPU_STRICT=1`): device memory that the host cannot touch, as on a GPU.
//!
//! The address of a device block is a range of pages that nobody may read or write, with a page on
//! either side that belongs to no block; the bytes are elsewhere, where the runtime's own operations
//! find them. So a host access stops with a message that names the block, an operation that
//! leaves its block or uses a freed one is an error, and a range is not used again for a long time.
//!
//! Rules: only here is a signal handler installed, and only when a program asked for the mode
//! (contract L3): it says what was touched and passes the signal on to the handler that was there,
//! or to the default action. It allocates nothing, and waits for no lock that the thread it
//! interrupts may hold: nothing here touches protected pages under the lock.

use crate::text::Text;
use llaisys_runtime_core::api::Ordinal;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// The bytes of a page that no block has.
const GUARD: usize = 4096;
/// How many freed ranges are kept unused, and how many bytes of addresses.
const KEPT: (usize, usize) = (4096, 64 << 30);

/// A device block, by its address.
#[derive(Clone, Copy)]
struct Range {
    /// Where the bytes are; 0 once it was freed and nobody uses it any more.
    memory: usize,
    size: usize,
    device: Ordinal,
    is_freed: bool,
}

impl Range {
    /// The bytes of the addresses, without the guards.
    fn reserved(&self) -> usize {
        self.size.next_multiple_of(GUARD)
    }
}

#[derive(Default)]
struct State {
    ranges: BTreeMap<usize, Range>,
    /// Freed ranges, the oldest first.
    kept: VecDeque<usize>,
    kept_bytes: usize,
}

impl State {
    /// The range that an address lies in, or in a guard of.
    fn find(&self, address: usize) -> Option<(usize, Range)> {
        let (base, range) = self.ranges.range(..=address.saturating_add(GUARD)).next_back()?;
        let is_inside = address < base + range.reserved() + GUARD;
        is_inside.then_some((*base, *range))
    }
}

/// The device memory of strict mode.
#[derive(Default)]
pub struct Strict(Mutex<State>);

/// The one whose blocks the handler knows; null without strict mode.
static WATCHED: AtomicPtr<Strict> = AtomicPtr::new(null_mut());
/// What was done with faults before.
static BEFORE: AtomicPtr<[libc::sigaction; 2]> = AtomicPtr::new(null_mut());

impl Strict {
    /// Begins, for the rest of the process.
    pub fn begin() -> &'static Strict {
        let strict: &'static Strict = Box::leak(Box::default());
        let own = std::ptr::from_ref(strict).cast_mut();
        if WATCHED.compare_exchange(null_mut(), own, AcqRel, Acquire).is_ok() {
            install();
        }
        strict
    }

    /// An address for a block whose bytes are at `memory`; `None` when there is none to be had.
    pub fn insert(&self, memory: usize, size: usize, device: Ordinal) -> Option<*mut c_void> {
        let range = Range { memory, size, device, is_freed: false };
        let length = range.reserved().checked_add(2 * GUARD)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new pages at an address of the kernel's choice, which nobody can use.
        let pages = unsafe { libc::mmap(null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if pages == libc::MAP_FAILED {
            return None;
        }
        let base = pages as usize + GUARD;
        self.0.lock().ranges.insert(base, range);
        Some(base as *mut c_void)
    }

    /// A block is freed, though work that is pending may still use it.
    pub fn mark_freed(&self, base: usize) {
        if let Some(range) = self.0.lock().ranges.get_mut(&base) {
            range.is_freed = true;
        }
    }

    /// Nobody uses a freed block any more: where its bytes are. Its addresses are kept unused.
    pub fn remove(&self, base: usize) -> Option<usize> {
        let mut state = self.0.lock();
        let range = state.ranges.get_mut(&base)?;
        let memory = std::mem::take(&mut range.memory);
        range.is_freed = true;
        state.kept_bytes += range_bytes(&state, base);
        state.kept.push_back(base);
        let mut gone = Vec::new();
        while state.kept.len() > KEPT.0 || state.kept_bytes > KEPT.1 {
            let Some(oldest) = state.kept.pop_front() else { break };
            let bytes = range_bytes(&state, oldest);
            state.kept_bytes -= bytes;
            state.ranges.remove(&oldest);
            gone.push((oldest, bytes));
        }
        drop(state);
        for (base, bytes) in gone {
            // SAFETY: pages of ours that no range has any more.
            unsafe { libc::munmap((base - GUARD) as *mut c_void, bytes + 2 * GUARD) };
        }
        Some(memory)
    }

    /// Where the bytes of an operation are: those of a device block, or what the host gave.
    ///
    /// # Errors
    /// `INVALID_VALUE` for what leaves its block, and for a block that was freed.
    pub fn reach(&self, address: usize, size: usize) -> Result<usize> {
        let Some((base, range)) = self.0.lock().find(address) else { return Ok(address) };
        let block = || format!("a block of {} bytes on CPU device {}", range.size, range.device);
        let message = if range.is_freed {
            format!("{size} bytes at {address:#x} are in {}, which was freed", block())
        } else if address < base || address - base + size > range.size {
            let offset = address as i128 - base as i128;
            format!("{size} bytes from offset {offset} of {} are not inside it", block())
        } else {
            return Ok(range.memory + (address - base));
        };
        Err(Error::new(Status::InvalidValue, message))
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

fn range_bytes(state: &State, base: usize) -> usize {
    state.ranges.get(&base).map_or(0, Range::reserved)
}

/// The signals that a protected page can raise.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

fn install() {
    // SAFETY: all-zero is a valid `sigaction`; the calls read and write locals.
    unsafe {
        let mut before: [libc::sigaction; 2] = std::mem::zeroed();
        for (signal, before) in SIGNALS.into_iter().zip(&mut before) {
            libc::sigaction(signal, std::ptr::null(), before);
        }
        // Before the handler can be called.
        BEFORE.store(Box::into_raw(Box::new(before)), std::sync::atomic::Ordering::Release);
        for signal in SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, null_mut());
        }
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: null, or what `begin` leaked.
    if let Some(strict) = unsafe { WATCHED.load(Acquire).as_ref() } {
        // SAFETY: the kernel gives the handler of a fault its address.
        strict.explain(unsafe { (*info).si_addr() } as usize);
    }
    // SAFETY: `install` stored it before there was a handler.
    let before = unsafe { (*BEFORE.load(Acquire))[usize::from(signal == SIGNALS[1])] };
    let action = before.sa_sigaction;
    if action == libc::SIG_DFL || action == libc::SIG_IGN {
        // The access is done once more when this returns, without us.
        // SAFETY: puts back what was there.
        unsafe { libc::sigaction(signal, &before, null_mut()) };
    } else if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: whoever installed it said that it takes three arguments.
        unsafe {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(action);
            handler(signal, info, context);
        }
    } else {
        // SAFETY: whoever installed it said that it takes one argument.
        unsafe {
            let handler: extern "C" fn(c_int) = std::mem::transmute(action);
            handler(signal);
        }
    }
}

impl Strict {
    /// Says on standard error which block an address belongs to, if any. Async-signal-safe.
    fn explain(&self, address: usize) {
        let Some(state) = self.lock_in_handler() else { return };
        let Some((base, range)) = state.find(address) else { return };
        drop(state);
        let mut text = Text::<320>::new();
        let offset = address as i128 - base as i128;
        let what = if range.is_freed { "a freed block" } else { "a block" };
        // Never fails: what does not fit is left out.
        let _ = writeln!(
            text,
            "llaisys: the host touched device memory: {address:#x}, offset {offset} of {what} of {} \
             bytes at {base:#x} on CPU device {}. LLAISYS_CPU_STRICT=1 forbids it, as a GPU does; \
             copy the data to the host first.",
            range.size, range.device
        );
        // SAFETY: writes from a local.
        unsafe { libc::write(2, text.as_bytes().as_ptr().cast(), text.as_bytes().len()) };
    }

    fn lock_in_handler(&self) -> Option<llaisys_runtime_core::lock::MutexGuard<'_, State>> {
        // Others hold it for a moment only.
        (0..1_000_000).find_map(|_| {
            std::hint::spin_loop();
            self.0.try_lock()
        })
    }
}
