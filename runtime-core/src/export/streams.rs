//! The doors of streams, host functions and users' values.

use super::arguments::*;
use super::{backend, door};
use crate::api::*;
use std::ffi::c_void;

pub(super) unsafe extern "C" fn create_stream<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: *mut Stream,
) -> i32 {
    door("create_stream", || {
        let stream = output(stream, "stream")?;
        // SAFETY: `this` belongs to this table; `stream` is the caller's and not NULL.
        unsafe { stream.write(backend::<B>(this)?.create_stream(device)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn destroy_stream<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `destroy_stream`'s contract.
    door("destroy_stream", || unsafe { backend::<B>(this)?.destroy_stream(device, stream) })
}

pub(super) unsafe extern "C" fn stream_synchronize<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `stream_synchronize`'s contract.
    door("stream_synchronize", || unsafe { backend::<B>(this)?.stream_synchronize(device, stream) })
}

pub(super) unsafe extern "C" fn stream_query<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    ready: *mut i32,
) -> i32 {
    door("stream_query", || {
        let ready = output(ready, "ready")?;
        // SAFETY: `this` belongs to this table; `ready` is the caller's and not NULL; the caller
        // keeps `stream_query`'s contract.
        unsafe { ready.write(i32::from(backend::<B>(this)?.stream_query(device, stream)?)) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn launch_host_function<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> i32 {
    door("launch_host_function", || {
        let function = function.ok_or_else(|| null_argument("function"))?;
        // SAFETY: `this` belongs to this table; the caller keeps `launch_host_function`'s contract.
        unsafe { backend::<B>(this)?.launch_host_function(device, stream, function, data) }
    })
}

pub(super) unsafe extern "C" fn create_stream_with<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    flags: StreamFlags,
    priority: i32,
    stream: *mut Stream,
) -> i32 {
    door("create_stream_with", || {
        let stream = output(stream, "stream")?;
        let flags = known_stream(flags)?;
        // SAFETY: `this` belongs to this table; `stream` is the caller's and not NULL; the caller
        // keeps `create_stream_with`'s contract.
        unsafe { stream.write(backend::<B>(this)?.create_stream_with(device, flags, priority)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_stream_priority_range<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    least: *mut i32,
    greatest: *mut i32,
) -> i32 {
    door("get_stream_priority_range", || {
        let (least, greatest) = (output(least, "least")?, output(greatest, "greatest")?);
        // SAFETY: `this` belongs to this table; the outputs are the caller's and not NULL.
        unsafe {
            let range = backend::<B>(this)?.get_stream_priority_range(device)?;
            least.write(range.least);
            greatest.write(range.greatest);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn adopt_stream<B: RuntimeApi>(
    this: *mut c_void,
    native: *mut c_void,
    device: *mut Ordinal,
) -> i32 {
    door("adopt_stream", || {
        let device = output(device, "device")?;
        // SAFETY: `this` belongs to this table; `device` is the caller's and not NULL; the caller
        // keeps `adopt_stream`'s contract.
        unsafe { device.write(backend::<B>(this)?.adopt_stream(native)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_stream_device<B: RuntimeApi>(
    this: *mut c_void,
    stream: Stream,
    device: *mut Ordinal,
) -> i32 {
    door("get_stream_device", || {
        let device = output(device, "device")?;
        // SAFETY: `this` belongs to this table; `device` is the caller's and not NULL.
        unsafe { device.write(backend::<B>(this)?.get_stream_device(stream)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn set_thread_slot<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    key: u64,
    value: *mut c_void,
    destructor: Option<SlotDestructor>,
) -> i32 {
    door("set_thread_slot", || {
        // SAFETY: `this` belongs to this table; the caller keeps `set_thread_slot`'s contract.
        unsafe { backend::<B>(this)?.set_thread_slot(device, key, value, destructor) }
    })
}

pub(super) unsafe extern "C" fn get_thread_slot<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    key: u64,
    value: *mut *mut c_void,
) -> i32 {
    door("get_thread_slot", || {
        let value = output(value, "value")?;
        // SAFETY: `this` belongs to this table; `value` is the caller's and not NULL.
        unsafe { value.write(backend::<B>(this)?.get_thread_slot(device, key)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn set_stream_slot<B: RuntimeApi>(
    this: *mut c_void,
    stream: Stream,
    key: u64,
    value: *mut c_void,
    destructor: Option<SlotDestructor>,
) -> i32 {
    door("set_stream_slot", || {
        // SAFETY: `this` belongs to this table; the caller keeps `set_stream_slot`'s contract.
        unsafe { backend::<B>(this)?.set_stream_slot(stream, key, value, destructor) }
    })
}

pub(super) unsafe extern "C" fn get_stream_slot<B: RuntimeApi>(
    this: *mut c_void,
    stream: Stream,
    key: u64,
    value: *mut *mut c_void,
) -> i32 {
    door("get_stream_slot", || {
        let value = output(value, "value")?;
        // SAFETY: `this` belongs to this table; `value` is the caller's and not NULL.
        unsafe { value.write(backend::<B>(this)?.get_stream_slot(stream, key)?) };
        Ok(())
    })
}
