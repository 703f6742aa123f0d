//! Which device is current on this thread (contract D2, D3; design, decision 3).
//!
//! Rule: this is the only place that remembers it, one ordinal per device type and thread, and only
//! `set_device` and `llaisysSetContextRuntime` write it, after the backend has succeeded. A thread
//! that never chose is on device 0, and its context is the CPU.

use crate::api::Ordinal;
use crate::device_type::{CPU, DeviceType, LIMIT};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

struct Current {
    devices: [Cell<Ordinal>; LIMIT],
    context: Cell<DeviceType>,
}

// No destructor, so these stay readable while a thread's other storage is torn down.
thread_local! {
    static CURRENT: Current =
        const { Current { devices: [const { Cell::new(0) }; LIMIT], context: Cell::new(CPU) } };
}

/// For each type: some thread has chosen another device than 0. A program that uses one device does not
/// pay for asking which one. Whoever chose has set it before it asks.
static ELSEWHERE: [AtomicBool; LIMIT] = [const { AtomicBool::new(false) }; LIMIT];

/// The calling thread's device of this type.
#[inline]
pub fn device(device_type: DeviceType) -> Ordinal {
    match ELSEWHERE.get(device_type as usize) {
        Some(elsewhere) if elsewhere.load(Relaxed) => own_device(device_type),
        _ => 0,
    }
}

fn own_device(device_type: DeviceType) -> Ordinal {
    CURRENT.with(|current| current.devices.get(device_type as usize).map_or(0, Cell::get))
}

/// Remembers the calling thread's device of this type.
pub fn set_device(device_type: DeviceType, device: Ordinal) {
    CURRENT.with(|current| {
        if let Some(slot) = current.devices.get(device_type as usize) {
            slot.set(device);
            if device != 0 {
                ELSEWHERE[device_type as usize].store(true, Relaxed);
            }
        }
    });
}

/// The type and the device that the calling thread chose last with `llaisysSetContextRuntime`.
pub fn context() -> (DeviceType, Ordinal) {
    CURRENT.with(|current| {
        let device_type = current.context.get();
        (device_type, device(device_type))
    })
}

/// Remembers what `llaisysSetContextRuntime` chose.
pub fn set_context(device_type: DeviceType, device: Ordinal) {
    set_device(device_type, device);
    CURRENT.with(|current| current.context.set(device_type));
}
