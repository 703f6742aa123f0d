//! A gate: a host function that holds a stream until the test opens it.
//!
//! It makes tests of order deterministic: what stands behind a closed gate cannot have run, what does
//! not have to wait for it must come to its end. A backend that runs host functions inside
//! `launch_host_function` is found out here, because the function sees which thread it is on.

use crate::context::Context;
use crate::outcome::Checked;
use llaisys_runtime_core::api::Stream;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// How many gates of this process are closed.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

/// Whether a gate of this process is closed. While one is, a process in which every thread sleeps will
/// sleep for ever: whoever was to open it waits as well.
pub fn is_any_closed() -> bool {
    CLOSED.load(Ordering::SeqCst) > 0
}

#[derive(Default)]
struct State {
    open: bool,
    reached: bool,
    ran_in_the_caller: bool,
}

struct Shared {
    launcher: ThreadId,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait_until(&self, holds: impl Fn(&State) -> bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !holds(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A gate in a stream. It opens when it goes, so that a failing case leaves no stream held.
pub struct Gate(Arc<Shared>);

/// The host function.
///
/// # Safety
/// - `data` came from `Arc::into_raw` of a `Shared` and is passed once.
unsafe extern "C" fn stand(data: *mut c_void) {
    // SAFETY: by the contract above.
    let shared = unsafe { Arc::from_raw(data.cast_const().cast::<Shared>()) };
    if thread::current().id() == shared.launcher {
        // Waiting would hold up the very thread that is to open the gate.
        shared.change(|state| (state.reached, state.ran_in_the_caller) = (true, true));
        return;
    }
    shared.change(|state| state.reached = true);
    shared.wait_until(|state| state.open);
}

impl Gate {
    /// Puts a closed gate into a stream of a device.
    pub fn put(context: &Context, device: i32, stream: Stream) -> Checked<Gate> {
        let shared = Arc::new(Shared {
            launcher: thread::current().id(),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let data = Arc::into_raw(Arc::clone(&shared)).cast_mut().cast();
        // SAFETY: `stand` takes the reference that was just counted, once, from any thread.
        let launched = unsafe { context.x.launch_host_function(device, stream, stand, data) };
        context.ok(launched, "launch_host_function")?;
        let gate = Gate(shared);
        CLOSED.fetch_add(1, Ordering::SeqCst);
        let inline = gate.0.state.lock().unwrap_or_else(PoisonError::into_inner).ran_in_the_caller;
        ensure!(
            !inline,
            "launch_host_function ran the function before it returned, in the calling thread: \
             expected a stream that works by itself"
        );
        Ok(gate)
    }

    /// Puts a closed gate into a stream and waits until the stream stands at it.
    pub fn hold(context: &Context, device: i32, stream: Stream) -> Checked<Gate> {
        let gate = Gate::put(context, device, stream)?;
        gate.await_reached();
        Ok(gate)
    }

    /// Waits until the stream stands at the gate.
    pub fn await_reached(&self) {
        self.0.wait_until(|state| state.reached);
    }

    /// Lets the stream pass.
    pub fn open(&self) {
        self.0.change(|state| {
            if !std::mem::replace(&mut state.open, true) {
                CLOSED.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
