//! The doors of events.

use super::arguments::*;
use super::{backend, door};
use crate::api::*;
use std::ffi::c_void;

pub(super) unsafe extern "C" fn create_event<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    flags: EventFlags,
    event: *mut Event,
) -> i32 {
    door("create_event", || {
        let event = output(event, "event")?;
        let flags = known_event(flags)?;
        // SAFETY: `this` belongs to this table; `event` is the caller's and not NULL; the caller
        // keeps `create_event`'s contract.
        unsafe { event.write(backend::<B>(this)?.create_event(device, flags)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn destroy_event<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    event: Event,
) -> i32 {
    door("destroy_event", || {
        // SAFETY: `this` belongs to this table; the caller keeps `destroy_event`'s contract.
        unsafe { backend::<B>(this)?.destroy_event(device, event) }
    })
}

pub(super) unsafe extern "C" fn record_event<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    event: Event,
    stream: Stream,
) -> i32 {
    door("record_event", || {
        // SAFETY: `this` belongs to this table; the caller keeps `record_event`'s contract.
        unsafe { backend::<B>(this)?.record_event(device, event, stream) }
    })
}

pub(super) unsafe extern "C" fn stream_wait_event<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    event: Event,
) -> i32 {
    door("stream_wait_event", || {
        // SAFETY: `this` belongs to this table; the caller keeps `stream_wait_event`'s contract.
        unsafe { backend::<B>(this)?.stream_wait_event(device, stream, event) }
    })
}

pub(super) unsafe extern "C" fn event_query<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    event: Event,
    answer: *mut i32,
) -> i32 {
    door("event_query", || {
        let answer = output(answer, "answer")?;
        // SAFETY: `this` belongs to this table; `answer` is the caller's and not NULL; the caller
        // keeps `event_query`'s contract.
        unsafe { answer.write(i32::from(backend::<B>(this)?.event_query(device, event)?)) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn event_synchronize<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    event: Event,
) -> i32 {
    door("event_synchronize", || {
        // SAFETY: `this` belongs to this table; the caller keeps `event_synchronize`'s contract.
        unsafe { backend::<B>(this)?.event_synchronize(device, event) }
    })
}

pub(super) unsafe extern "C" fn event_elapsed<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    start: Event,
    end: Event,
    nanoseconds: *mut i64,
) -> i32 {
    door("event_elapsed", || {
        let nanoseconds = output(nanoseconds, "nanoseconds")?;
        // SAFETY: `this` belongs to this table; `nanoseconds` is the caller's and not NULL; the caller
        // keeps `event_elapsed`'s contract.
        unsafe { nanoseconds.write(backend::<B>(this)?.event_elapsed(device, start, end)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_native_event<B: RuntimeApi>(
    this: *mut c_void,
    event: Event,
    pointer: *mut *mut c_void,
) -> i32 {
    door("get_native_event", || {
        let pointer = output(pointer, "pointer")?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL.
        unsafe { pointer.write(backend::<B>(this)?.get_native_event(event)?) };
        Ok(())
    })
}
