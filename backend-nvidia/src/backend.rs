//! `Nvidia`: the trait of the core, each operation in one line that names where it is done.
//!
//! Rules: the core has validated ordinals, handles, sizes and kinds (`runtime-core/src/api.rs`,
//! "Who validates"). In a forked child a free is a no-op and everything else answers `FORKED`
//! (contract L2).

use crate::copies::Copy;
use crate::device::device;
use crate::driver::driver;
use crate::errors;
use crate::fork::forked;
use crate::pinned;
use crate::probe;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, HostFunction, LlaisysDeviceProperties, LlaisysMemoryInfo, MemcpyKind,
    Ordinal, RuntimeApi, Stream,
};
use llaisys_runtime_core::error::Result;
use std::ffi::c_void;

/// The NVIDIA backend. It holds nothing: the driver is the process's (see `driver`).
pub(crate) struct Nvidia;

impl Nvidia {
    /// What this backend is able to do beside the twelve.
    pub(crate) const CAPABILITIES: Capabilities = Capabilities::DEVICE_INFORMATION
        .with(Capabilities::STREAM_QUERY)
        .with(Capabilities::HOST_FUNCTIONS)
        .with(Capabilities::POINTER_QUERY);
}

/// Runs a free or a destroy, unless there is nothing to free: in a forked child, where the driver is
/// the parent's, and while the driver shuts down with the process.
#[inline]
fn release(free: impl FnOnce() -> Result<()>) -> Result<()> {
    if forked() { Ok(()) } else { errors::released(free()) }
}

impl RuntimeApi for Nvidia {
    fn get_device_count(&self) -> Result<i32> {
        probe::count()
    }

    fn initialize(&self) -> Result<i32> {
        Ok(driver()?.devices.len() as i32)
    }

    fn set_device(&self, ordinal: Ordinal) -> Result<()> {
        device(ordinal)?.bind()
    }

    fn device_synchronize(&self, ordinal: Ordinal) -> Result<()> {
        device(ordinal)?.synchronize()
    }

    fn create_stream(&self, ordinal: Ordinal) -> Result<Stream> {
        device(ordinal)?.create_stream()
    }

    unsafe fn destroy_stream(&self, ordinal: Ordinal, stream: Stream) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { device(ordinal)?.destroy_stream(stream) })
    }

    unsafe fn stream_synchronize(&self, ordinal: Ordinal, stream: Stream) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.synchronize_stream(stream) }
    }

    fn malloc_device(&self, ordinal: Ordinal, size: usize) -> Result<*mut c_void> {
        device(ordinal)?.allocate(size)
    }

    unsafe fn free_device(&self, ordinal: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { device(ordinal)?.free(pointer) })
    }

    fn malloc_host(&self, ordinal: Ordinal, size: usize) -> Result<*mut c_void> {
        pinned::allocate(device(ordinal)?, size)
    }

    unsafe fn free_host(&self, ordinal: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { pinned::free(device(ordinal)?, pointer) })
    }

    unsafe fn memcpy_sync(
        &self,
        ordinal: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.copy(Copy { dst, src, size, kind, flags }) }
    }

    unsafe fn memcpy_async(
        &self,
        ordinal: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.copy_async(Copy { dst, src, size, kind, flags }, stream) }
    }

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn get_device_properties(&self, ordinal: Ordinal) -> Result<LlaisysDeviceProperties> {
        device(ordinal)?.properties()
    }

    fn get_memory_info(&self, ordinal: Ordinal) -> Result<LlaisysMemoryInfo> {
        device(ordinal)?.memory_info()
    }

    unsafe fn stream_query(&self, ordinal: Ordinal, stream: Stream) -> Result<bool> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.query_stream(stream) }
    }

    unsafe fn launch_host_function(
        &self,
        ordinal: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.launch_host_function(stream, function, data) }
    }
    fn is_device_memory(&self, ordinal: Ordinal, address: usize) -> Result<bool> {
        device(ordinal)?.knows(address)
    }
}
