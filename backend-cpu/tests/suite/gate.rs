//! Gates and logs: host functions that hold a stream up, and that say when they ran.

use crate::rig::Rig;
use llaisys_runtime_core::api::Stream;
use parking_lot::{Condvar, Mutex};
use std::ffi::c_void;
use std::sync::Arc;

#[derive(Default)]
struct State {
    reached: bool,
    open: bool,
}

/// A host function on a stream that waits until it is opened; dropping opens.
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

impl Gate {
    /// Puts a gate on a stream.
    pub fn on(rig: Rig, device: i32, stream: Stream) -> Gate {
        let gate = Gate(Arc::default());
        let shared = gate.0.clone();
        rig.call(device, stream, move || {
            let mut state = shared.0.lock();
            state.reached = true;
            shared.1.notify_all();
            while !state.open {
                shared.1.wait(&mut state);
            }
        });
        gate
    }

    /// Puts a gate on a stream and waits until the stream stands at it.
    pub fn reached_on(rig: Rig, device: i32, stream: Stream) -> Gate {
        let gate = Gate::on(rig, device, stream);
        let mut state = gate.0.0.lock();
        while !state.reached {
            gate.0.1.wait(&mut state);
        }
        drop(state);
        gate
    }

    /// Lets the stream go on.
    pub fn open(&self) {
        self.0.0.lock().open = true;
        self.0.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// What ran, in the order in which it ran.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    /// Has the stream write a number into the log.
    pub fn note(&self, rig: Rig, device: i32, stream: Stream, number: u32) {
        let log = self.clone();
        rig.call(device, stream, move || log.0.lock().push(number));
    }

    /// What was written so far.
    pub fn numbers(&self) -> Vec<u32> {
        self.0.lock().clone()
    }
}

/// Calls a closure once, as a host function does it.
pub unsafe extern "C" fn call(data: *mut c_void) {
    // SAFETY: made by `Rig::try_call` for one call.
    let closure = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
    closure();
}
