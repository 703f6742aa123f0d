//! Trait → table: the doors through which C reaches a backend.
//!
//! Rules: integers become enums here, NULL is checked before anything is formed from it, outputs are
//! written only on success, no panic gets out (contract E1), and a failure is in the calling
//! thread's slot when the door returns. A plugin's table and the table that a client is handed are
//! made by this same code; each lands in the slot of the library it was compiled into.

mod arguments;
mod copies;
mod devices;
mod events;
mod memory;
mod plugin;
mod streams;

pub use arguments::copy_text;
pub use plugin::{TARGET, descriptor};

use crate::abi::{ABI_MAJOR, ABI_MINOR, LlaisysBackendAPI};
use crate::api::*;
use crate::error::{Error, Result};
use crate::last_error;
use crate::status::Status;
use arguments::null_argument;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The table of a backend, callable from C for the rest of the process.
pub const fn export<B: RuntimeApi>(backend: &'static B) -> LlaisysBackendAPI {
    LlaisysBackendAPI {
        struct_size: size_of::<LlaisysBackendAPI>() as u32,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        reserved: 0,
        self_: backend as *const B as *mut c_void,
        get_last_error: devices::get_last_error,
        get_device_count: devices::get_device_count::<B>,
        set_device: devices::set_device::<B>,
        device_synchronize: devices::device_synchronize::<B>,
        create_stream: streams::create_stream::<B>,
        destroy_stream: streams::destroy_stream::<B>,
        stream_synchronize: streams::stream_synchronize::<B>,
        malloc_device: memory::malloc_device::<B>,
        free_device: memory::free_device::<B>,
        malloc_host: memory::malloc_host::<B>,
        free_host: memory::free_host::<B>,
        memcpy_sync: copies::memcpy_sync::<B>,
        memcpy_async: copies::memcpy_async::<B>,
        get_device_properties: devices::get_device_properties::<B>,
        get_memory_info: devices::get_memory_info::<B>,
        stream_query: streams::stream_query::<B>,
        launch_host_function: streams::launch_host_function::<B>,
        is_device_memory: memory::is_device_memory::<B>,
        initialize: devices::initialize::<B>,
        get_capabilities: devices::get_capabilities::<B>,
        get_peer_link: devices::get_peer_link::<B>,
        enable_peer_access: devices::enable_peer_access::<B>,
        create_stream_with: streams::create_stream_with::<B>,
        get_stream_priority_range: streams::get_stream_priority_range::<B>,
        adopt_stream: streams::adopt_stream::<B>,
        create_event: events::create_event::<B>,
        destroy_event: events::destroy_event::<B>,
        record_event: events::record_event::<B>,
        stream_wait_event: events::stream_wait_event::<B>,
        event_query: events::event_query::<B>,
        event_synchronize: events::event_synchronize::<B>,
        event_elapsed: events::event_elapsed::<B>,
        malloc_async: memory::malloc_async::<B>,
        free_async: memory::free_async::<B>,
        malloc_managed: memory::malloc_managed::<B>,
        free_managed: memory::free_managed::<B>,
        prefetch_managed: memory::prefetch_managed::<B>,
        advise_managed: memory::advise_managed::<B>,
        register_host: memory::register_host::<B>,
        unregister_host: memory::unregister_host::<B>,
        get_pointer_attributes: memory::get_pointer_attributes::<B>,
        memset_async: copies::memset_async::<B>,
        memcpy_3d_async: copies::memcpy_3d_async::<B>,
        memcpy_batch_async: copies::memcpy_batch_async::<B>,
        get_reserved_memory: memory::get_reserved_memory::<B>,
        trim_memory: memory::trim_memory::<B>,
        get_stream_device: streams::get_stream_device::<B>,
        get_native_event: events::get_native_event::<B>,
        get_operation_support: devices::get_operation_support::<B>,
        memset_sync: copies::memset_sync::<B>,
        memcpy_3d_sync: copies::memcpy_3d_sync::<B>,
        get_memory_statistics: memory::get_memory_statistics::<B>,
        get_stream_memory_statistics: memory::get_stream_memory_statistics::<B>,
        reset_peak_memory: memory::reset_peak_memory::<B>,
        set_memory_limit: memory::set_memory_limit::<B>,
        set_out_of_memory_callback: memory::set_out_of_memory_callback::<B>,
        set_thread_slot: streams::set_thread_slot::<B>,
        get_thread_slot: streams::get_thread_slot::<B>,
        set_stream_slot: streams::set_stream_slot::<B>,
        get_stream_slot: streams::get_stream_slot::<B>,
    }
}

/// Runs the body of an operation so that no panic gets out, and leaves a failure in the slot.
///
/// Every function that C can call has this as its only statement, here and in `capi`.
#[inline]
pub fn guard<T>(
    operation: &'static str,
    body: impl FnOnce() -> Result<T>,
) -> std::result::Result<T, Status> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(last_error::record(operation, &error)),
        Err(payload) => Err(last_error::record(operation, &Error::from_panic(payload))),
    }
}

/// `guard` for an operation whose result goes to C as a status alone.
#[inline]
pub fn door(operation: &'static str, body: impl FnOnce() -> Result<()>) -> i32 {
    match guard(operation, body) {
        Ok(()) => 0,
        Err(status) => status.code(),
    }
}

/// The backend behind a table's `self`.
///
/// # Safety
/// - `this` is NULL or the `self_` of a table that `export::<B>` made.
#[inline]
unsafe fn backend<'a, B: RuntimeApi>(this: *mut c_void) -> Result<&'a B> {
    // SAFETY: by the contract above it is NULL or a `&'static B`.
    unsafe { this.cast::<B>().as_ref() }.ok_or_else(|| null_argument("self"))
}
