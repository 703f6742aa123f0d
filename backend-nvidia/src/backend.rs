//! `Nvidia`: the trait of the core, each operation in one line that names where it is done.
//!
//! Rules: the core has validated ordinals, handles, sizes and kinds (`runtime-core/src/api.rs`,
//! "Who validates"). In a forked child a free is a no-op and everything else answers `FORKED`
//! (contract L2).

use crate::addresses;
use crate::capture::Relaxed;
use crate::copies::Copy;
use crate::device::{Device, device};
use crate::driver::driver;
use crate::errors;
use crate::fork::{self, forked};
use crate::pinned;
use crate::probe;
use crate::registered;
use crate::streams;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, Event, EventFlags, HostFunction, LlaisysCopy3D, LlaisysCopyRange,
    LlaisysDeviceProperties, LlaisysMemoryInfo, LlaisysPeerLink, LlaisysPointerAttributes,
    MemcpyKind, MemoryAdvice, Ordinal, Pattern, PriorityRange, RuntimeApi, Stream, StreamFlags,
};
use llaisys_runtime_core::error::Result;
use std::ffi::c_void;

/// The NVIDIA backend. It holds nothing: the driver is the process's (see `driver`).
pub(crate) struct Nvidia;

impl Nvidia {
    /// What this backend is able to do beside the twelve.
    ///
    /// All of it is done here, on every driver: a batch is looped over where the driver has none, and
    /// memory is allocated at once where a device has no pool. What can be missing altogether is a
    /// device's managed memory and a path to a peer; what a device has is in its properties.
    pub(crate) const CAPABILITIES: Capabilities = Capabilities::DEVICE_INFORMATION
        .with(Capabilities::STREAM_QUERY)
        .with(Capabilities::HOST_FUNCTIONS)
        .with(Capabilities::POINTER_QUERY)
        .with(Capabilities::STREAM_OPTIONS)
        .with(Capabilities::FOREIGN_STREAMS)
        .with(Capabilities::EVENTS)
        .with(Capabilities::STREAM_ORDERED_MEMORY)
        .with(Capabilities::MANAGED_MEMORY)
        .with(Capabilities::HOST_REGISTRATION)
        .with(Capabilities::FILL)
        .with(Capabilities::PITCHED_COPIES)
        .with(Capabilities::BATCHED_COPIES)
        .with(Capabilities::PEERS)
        .with(Capabilities::MEMORY_POOL);

    /// The number of this kind of device (design, "Names").
    pub(crate) const DEVICE_TYPE: i32 = 1;
}

/// A device, for what a capture in another thread would forbid (see `capture`).
fn relaxed(ordinal: Ordinal) -> Result<(&'static Device, Relaxed)> {
    let device = device(ordinal)?;
    Ok((device, Relaxed::enter()))
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
        fork::check()?;
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
        let _relaxed = Relaxed::enter();
        let (device, _mode) = relaxed(ordinal)?;
        device.allocate(size)
    }

    unsafe fn free_device(&self, ordinal: Ordinal, pointer: *mut c_void) -> Result<()> {
        let _relaxed = Relaxed::enter();
        release(|| {
            let (device, _mode) = relaxed(ordinal)?;
            // SAFETY: the caller keeps the same contract.
            unsafe { device.free(pointer) }
        })
    }

    fn malloc_host(&self, ordinal: Ordinal, size: usize) -> Result<*mut c_void> {
        let _relaxed = Relaxed::enter();
        let (device, _mode) = relaxed(ordinal)?;
        pinned::allocate(device, size)
    }

    unsafe fn free_host(&self, ordinal: Ordinal, pointer: *mut c_void) -> Result<()> {
        let _relaxed = Relaxed::enter();
        release(|| {
            let (device, _mode) = relaxed(ordinal)?;
            // SAFETY: the caller keeps the same contract.
            unsafe { pinned::free(device, pointer) }
        })
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

    fn get_peer_link(&self, ordinal: Ordinal, peer: Ordinal) -> Result<LlaisysPeerLink> {
        device(ordinal)?.link_to(device(peer)?)
    }

    fn enable_peer_access(&self, ordinal: Ordinal, peer: Ordinal) -> Result<()> {
        device(ordinal)?.enable_access_to(device(peer)?)
    }

    fn create_stream_with(
        &self,
        ordinal: Ordinal,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<Stream> {
        device(ordinal)?.create_stream_with(flags, priority)
    }

    fn get_stream_priority_range(&self, ordinal: Ordinal) -> Result<PriorityRange> {
        device(ordinal)?.stream_priorities()
    }

    unsafe fn adopt_stream(&self, native: *mut c_void) -> Result<Ordinal> {
        // SAFETY: the caller keeps the same contract.
        unsafe { streams::adopt(native) }
    }

    fn create_event(&self, ordinal: Ordinal, flags: EventFlags) -> Result<Event> {
        let _relaxed = Relaxed::enter();
        device(ordinal)?.create_event(flags)
    }

    unsafe fn destroy_event(&self, ordinal: Ordinal, event: Event) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { device(ordinal)?.destroy_event(event) })
    }

    unsafe fn record_event(&self, ordinal: Ordinal, event: Event, stream: Stream) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.record_event(event, stream) }
    }

    unsafe fn stream_wait_event(
        &self,
        ordinal: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.wait_in_stream(stream, event) }
    }

    unsafe fn event_query(&self, ordinal: Ordinal, event: Event) -> Result<bool> {
        let _relaxed = Relaxed::enter();
        let (device, _mode) = relaxed(ordinal)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { device.query_event(event) }
    }

    unsafe fn event_synchronize(&self, ordinal: Ordinal, event: Event) -> Result<()> {
        let _relaxed = Relaxed::enter();
        let (device, _mode) = relaxed(ordinal)?;
        // SAFETY: the caller keeps the same contract.
        unsafe { device.synchronize_event(event) }
    }

    unsafe fn event_elapsed(&self, ordinal: Ordinal, start: Event, end: Event) -> Result<i64> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.elapsed(start, end) }
    }

    unsafe fn malloc_async(
        &self,
        ordinal: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.allocate_in_order(size, stream) }
    }

    unsafe fn free_async(
        &self,
        ordinal: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { device(ordinal)?.free_in_order(pointer, stream) })
    }

    fn malloc_managed(&self, ordinal: Ordinal, size: usize) -> Result<*mut c_void> {
        device(ordinal)?.allocate_managed(size)
    }

    unsafe fn free_managed(&self, ordinal: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { device(ordinal)?.free_managed(pointer) })
    }

    unsafe fn prefetch_managed(
        &self,
        ordinal: Ordinal,
        pointer: *mut c_void,
        size: usize,
        location: i32,
        stream: Stream,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.prefetch(pointer, size, location, stream) }
    }

    unsafe fn advise_managed(
        &self,
        ordinal: Ordinal,
        pointer: *mut c_void,
        size: usize,
        advice: MemoryAdvice,
        location: i32,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.advise(pointer, size, advice, location) }
    }

    unsafe fn register_host(
        &self,
        ordinal: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { registered::register(device(ordinal)?, pointer, size) }
    }

    unsafe fn unregister_host(&self, ordinal: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        release(|| unsafe { registered::unregister(device(ordinal)?, pointer) })
    }

    fn get_pointer_attributes(&self, address: usize) -> Result<LlaisysPointerAttributes> {
        addresses::attributes(address)
    }

    unsafe fn memset_async(
        &self,
        ordinal: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.fill(dst, pattern, size, stream) }
    }

    unsafe fn memcpy_3d_async(
        &self,
        ordinal: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.copy_pitched(copy, stream, flags) }
    }

    unsafe fn memcpy_batch_async(
        &self,
        ordinal: Ordinal,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { device(ordinal)?.copy_batch(ranges, kind, stream, flags) }
    }

    fn get_reserved_memory(&self, ordinal: Ordinal) -> Result<u64> {
        Ok(device(ordinal)?.reserved())
    }

    fn trim_memory(&self, ordinal: Ordinal, keep: u64) -> Result<()> {
        let _relaxed = Relaxed::enter();
        let (device, _mode) = relaxed(ordinal)?;
        device.trim(keep)
    }
}
