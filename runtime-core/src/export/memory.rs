//! The doors of memory and its accounts.

use super::arguments::*;
use super::{backend, door};
use crate::api::*;
use std::ffi::c_void;

pub(super) unsafe extern "C" fn malloc_device<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    door("malloc_device", || {
        let pointer = output(pointer, "pointer")?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL.
        unsafe { pointer.write(backend::<B>(this)?.malloc_device(device, bytes(size)?)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn free_device<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `free_device`'s contract.
    door("free_device", || unsafe { backend::<B>(this)?.free_device(device, pointer) })
}

pub(super) unsafe extern "C" fn malloc_host<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    door("malloc_host", || {
        let pointer = output(pointer, "pointer")?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL.
        unsafe { pointer.write(backend::<B>(this)?.malloc_host(device, bytes(size)?)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn free_host<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `free_host`'s contract.
    door("free_host", || unsafe { backend::<B>(this)?.free_host(device, pointer) })
}

pub(super) unsafe extern "C" fn is_device_memory<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    address: *const c_void,
    answer: *mut i32,
) -> i32 {
    door("is_device_memory", || {
        let answer = output(answer, "answer")?;
        // SAFETY: `this` belongs to this table; `answer` is the caller's and not NULL.
        unsafe {
            answer.write(i32::from(backend::<B>(this)?.is_device_memory(device, address as usize)?))
        };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn malloc_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    stream: Stream,
    pointer: *mut *mut c_void,
) -> i32 {
    door("malloc_async", || {
        let pointer = output(pointer, "pointer")?;
        let size = bytes(size)?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL; the caller
        // keeps `malloc_async`'s contract.
        unsafe { pointer.write(backend::<B>(this)?.malloc_async(device, size, stream)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn free_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
    stream: Stream,
) -> i32 {
    door("free_async", || {
        // SAFETY: `this` belongs to this table; the caller keeps `free_async`'s contract.
        unsafe { backend::<B>(this)?.free_async(device, pointer, stream) }
    })
}

pub(super) unsafe extern "C" fn malloc_managed<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    door("malloc_managed", || {
        let pointer = output(pointer, "pointer")?;
        let size = bytes(size)?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL; the caller
        // keeps `malloc_managed`'s contract.
        unsafe { pointer.write(backend::<B>(this)?.malloc_managed(device, size)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn free_managed<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
) -> i32 {
    door("free_managed", || {
        // SAFETY: `this` belongs to this table; the caller keeps `free_managed`'s contract.
        unsafe { backend::<B>(this)?.free_managed(device, pointer) }
    })
}

pub(super) unsafe extern "C" fn prefetch_managed<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
    size: u64,
    location: i32,
    stream: Stream,
) -> i32 {
    door("prefetch_managed", || {
        let size = bytes(size)?;
        // SAFETY: `this` belongs to this table; the caller keeps `prefetch_managed`'s contract.
        unsafe { backend::<B>(this)?.prefetch_managed(device, pointer, size, location, stream) }
    })
}

pub(super) unsafe extern "C" fn advise_managed<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
    size: u64,
    advice: u32,
    location: i32,
) -> i32 {
    door("advise_managed", || {
        let size = bytes(size)?;
        let advice = MemoryAdvice::from_code(advice)?;
        // SAFETY: `this` belongs to this table; the caller keeps `advise_managed`'s contract.
        unsafe { backend::<B>(this)?.advise_managed(device, pointer, size, advice, location) }
    })
}

pub(super) unsafe extern "C" fn register_host<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
    size: u64,
) -> i32 {
    door("register_host", || {
        let size = bytes(size)?;
        // SAFETY: `this` belongs to this table; the caller keeps `register_host`'s contract.
        unsafe { backend::<B>(this)?.register_host(device, pointer, size) }
    })
}

pub(super) unsafe extern "C" fn unregister_host<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
) -> i32 {
    door("unregister_host", || {
        // SAFETY: `this` belongs to this table; the caller keeps `unregister_host`'s contract.
        unsafe { backend::<B>(this)?.unregister_host(device, pointer) }
    })
}

pub(super) unsafe extern "C" fn get_pointer_attributes<B: RuntimeApi>(
    this: *mut c_void,
    address: *const c_void,
    attributes: *mut LlaisysPointerAttributes,
) -> i32 {
    door("get_pointer_attributes", || {
        // SAFETY: `this` belongs to this table; `attributes` is the caller's struct, whose first field is
        // its size; the caller keeps `get_pointer_attributes`'s contract.
        unsafe {
            let size = writable_size(attributes)?;
            let value = backend::<B>(this)?.get_pointer_attributes(address as usize)?;
            write_struct(attributes, size, &value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_reserved_memory<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    reserved: *mut u64,
) -> i32 {
    door("get_reserved_memory", || {
        let reserved = output(reserved, "reserved")?;
        // SAFETY: `this` belongs to this table; `reserved` is the caller's and not NULL; the caller
        // keeps `get_reserved_memory`'s contract.
        unsafe { reserved.write(backend::<B>(this)?.get_reserved_memory(device)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn trim_memory<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    keep: u64,
) -> i32 {
    door("trim_memory", || {
        // SAFETY: `this` belongs to this table; the caller keeps `trim_memory`'s contract.
        unsafe { backend::<B>(this)?.trim_memory(device, keep) }
    })
}

pub(super) unsafe extern "C" fn get_memory_statistics<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    statistics: *mut LlaisysMemoryStatistics,
) -> i32 {
    door("get_memory_statistics", || {
        // SAFETY: `this` belongs to this table; `statistics` is the caller's struct, whose first field is
        // its size.
        unsafe {
            let size = writable_size(statistics)?;
            let value = backend::<B>(this)?.get_memory_statistics(device)?;
            write_struct(statistics, size, &value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_stream_memory_statistics<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    statistics: *mut LlaisysMemoryStatistics,
) -> i32 {
    door("get_stream_memory_statistics", || {
        // SAFETY: `this` belongs to this table; `statistics` is the caller's struct, whose first field is
        // its size.
        unsafe {
            let size = writable_size(statistics)?;
            let value = backend::<B>(this)?.get_stream_memory_statistics(device, stream)?;
            write_struct(statistics, size, &value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn reset_peak_memory<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
) -> i32 {
    door("reset_peak_memory", || {
        // SAFETY: `this` belongs to this table; the caller keeps `reset_peak_memory`'s contract.
        unsafe { backend::<B>(this)?.reset_peak_memory(device) }
    })
}

pub(super) unsafe extern "C" fn set_memory_limit<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    limit: u64,
) -> i32 {
    door("set_memory_limit", || {
        // SAFETY: `this` belongs to this table; the caller keeps `set_memory_limit`'s contract.
        unsafe { backend::<B>(this)?.set_memory_limit(device, limit) }
    })
}

pub(super) unsafe extern "C" fn set_out_of_memory_callback<B: RuntimeApi>(
    this: *mut c_void,
    callback: Option<OutOfMemoryCallback>,
    data: *mut c_void,
) -> i32 {
    door("set_out_of_memory_callback", || {
        // SAFETY: `this` belongs to this table; the caller keeps `set_out_of_memory_callback`'s contract.
        unsafe { backend::<B>(this)?.set_out_of_memory_callback(callback, data) }
    })
}
