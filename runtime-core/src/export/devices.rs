//! The doors of devices, and of the backend as a whole.

use super::arguments::*;
use super::{backend, door};
use crate::api::*;
use crate::last_error::{self, FailedCall};
use crate::status::Status;
use std::ffi::{c_char, c_void};

pub(super) unsafe extern "C" fn get_last_error(
    _self: *mut c_void,
    native_code: *mut i64,
    native_name: *mut c_char,
    native_name_capacity: u64,
    message: *mut c_char,
    message_capacity: u64,
) -> i32 {
    let Some(call) = last_error::take() else {
        // SAFETY: the caller's buffers have the capacities it gave.
        unsafe {
            if !native_code.is_null() {
                native_code.write(0);
            }
            copy_text(c"", native_name, native_name_capacity);
            copy_text(c"", message, message_capacity);
        }
        return Status::Success.code();
    };
    // SAFETY: this thread makes no failing call until the end of this function.
    let call: &FailedCall = unsafe { &*call };
    // SAFETY: the caller's buffers have the capacities it gave.
    unsafe {
        if !native_code.is_null() {
            native_code.write(call.native_code);
        }
        copy_text(&call.native_name, native_name, native_name_capacity);
        copy_text(&call.message, message, message_capacity);
    }
    call.status.code()
}

pub(super) unsafe extern "C" fn get_device_count<B: RuntimeApi>(
    this: *mut c_void,
    count: *mut i32,
) -> i32 {
    door("get_device_count", || {
        let count = output(count, "count")?;
        // SAFETY: `this` belongs to this table; `count` is the caller's and not NULL.
        unsafe { count.write(backend::<B>(this)?.get_device_count()?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn set_device<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
) -> i32 {
    // SAFETY: `this` belongs to this table.
    door("set_device", || unsafe { backend::<B>(this) }?.set_device(device))
}

pub(super) unsafe extern "C" fn device_synchronize<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
) -> i32 {
    // SAFETY: `this` belongs to this table.
    door("device_synchronize", || unsafe { backend::<B>(this) }?.device_synchronize(device))
}

pub(super) unsafe extern "C" fn get_device_properties<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    properties: *mut LlaisysDeviceProperties,
) -> i32 {
    door("get_device_properties", || {
        // SAFETY: `this` belongs to this table; `properties` is the caller's struct, whose first
        // field is its size.
        unsafe {
            let size = writable_size(properties)?;
            let value = backend::<B>(this)?.get_device_properties(device)?;
            write_struct(properties, size, &value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_memory_info<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    info: *mut LlaisysMemoryInfo,
) -> i32 {
    door("get_memory_info", || {
        // SAFETY: `this` belongs to this table; `info` is the caller's struct, whose first field is
        // its size.
        unsafe {
            let size = writable_size(info)?;
            let value = backend::<B>(this)?.get_memory_info(device)?;
            write_struct(info, size, &value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn initialize<B: RuntimeApi>(
    this: *mut c_void,
    count: *mut i32,
) -> i32 {
    door("initialize", || {
        let count = output(count, "count")?;
        // SAFETY: `this` belongs to this table; `count` is the caller's and not NULL.
        unsafe { count.write(backend::<B>(this)?.initialize()?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_capabilities<B: RuntimeApi>(
    this: *mut c_void,
    capabilities: *mut u64,
) -> i32 {
    door("get_capabilities", || {
        let capabilities = output(capabilities, "capabilities")?;
        // SAFETY: `this` belongs to this table; `capabilities` is the caller's and not NULL.
        unsafe { capabilities.write(backend::<B>(this)?.capabilities().0) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn get_peer_link<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    peer: Ordinal,
    link: *mut LlaisysPeerLink,
) -> i32 {
    door("get_peer_link", || {
        // SAFETY: `this` belongs to this table; `link` is the caller's struct, whose first field is
        // its size; the caller keeps `get_peer_link`'s contract.
        unsafe {
            let size = writable_size(link)?;
            let value = backend::<B>(this)?.get_peer_link(device, peer)?;
            write_struct(link, size, &value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn enable_peer_access<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    peer: Ordinal,
) -> i32 {
    door("enable_peer_access", || {
        // SAFETY: `this` belongs to this table; the caller keeps `enable_peer_access`'s contract.
        unsafe { backend::<B>(this)?.enable_peer_access(device, peer) }
    })
}

pub(super) unsafe extern "C" fn get_operation_support<B: RuntimeApi>(
    this: *mut c_void,
    operation: *const c_char,
    support: *mut i32,
) -> i32 {
    door("get_operation_support", || {
        let support = output(support, "support")?;
        // SAFETY: the caller gives a NUL-terminated text.
        let operation = unsafe { read_name(operation) }?;
        // SAFETY: `this` belongs to this table; `support` is the caller's and not NULL.
        unsafe { support.write(backend::<B>(this)?.get_operation_support(operation)? as i32) };
        Ok(())
    })
}
