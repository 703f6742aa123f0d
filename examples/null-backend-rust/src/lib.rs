//! The smallest backend that passes the conformance suite, in Rust: copy it and replace its parts.
//!
//! It has one device, whose memory is 512 MiB of the host's; every operation is done in the calling
//! thread before it returns, so a stream has nothing to remember. With `NULL_BACKEND_DEVICES=0` it has
//! none and says why. `docs/adding-a-backend.md` goes on from here.
//!
//! Who checks what: the runtime has looked at every argument before it calls (the text of
//! `llaisys_runtime_core::api`). What only the driver can know is checked here. Panics are caught at
//! every entry by `export_backend!`.

use llaisys_runtime_core::api::*;
use llaisys_runtime_core::{Error, Result, Status};
use std::alloc::Layout;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

const MEMORY: u64 = 512 << 20;
/// Device memory needs 256, pinned memory 64.
const ALIGNMENT: usize = 256;

/// The backend. A constant: loading it has no side effects.
struct Null {
    used: AtomicU64,
}

impl Null {
    /// A bit for each group of methods that is written below. The first one is gone with the first line
    /// that puts memory somewhere else.
    const CAPABILITIES: Capabilities = Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY
        .with(Capabilities::DEVICE_INFORMATION)
        .with(Capabilities::STREAM_QUERY);

    const fn new() -> Null {
        Null { used: AtomicU64::new(0) }
    }
}

/// Allocates with the size in front of the block, so that a free knows it.
fn allocate(size: usize) -> Result<*mut c_void> {
    let failure = || {
        Error::new(
            Status::OutOfMemory,
            format!("{size} bytes were asked for; the host has not so many"),
        )
    };
    let layout = layout(size).ok_or_else(failure)?;
    // SAFETY: the layout is not empty.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return Err(failure());
    }
    // SAFETY: the block has `ALIGNMENT + size` bytes and is aligned for a number.
    unsafe {
        block.cast::<usize>().write(size);
        Ok(block.add(ALIGNMENT).cast())
    }
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(ALIGNMENT)?, ALIGNMENT).ok()
}

/// Frees a block and answers its size.
///
/// # Safety
/// - `pointer` came from `allocate` and is not freed.
unsafe fn release(pointer: *mut c_void) -> usize {
    // SAFETY: by the contract above, the size is in front of the block, and its layout was valid.
    unsafe {
        let block = pointer.cast::<u8>().sub(ALIGNMENT);
        let size = block.cast::<usize>().read();
        if let Some(layout) = layout(size) {
            std::alloc::dealloc(block, layout);
        }
        size
    }
}

impl RuntimeApi for Null {
    /// Touches no device. No device is `Ok(0)`, or a failure that says what a user can do about it.
    fn get_device_count(&self) -> Result<i32> {
        match std::env::var_os("NULL_BACKEND_DEVICES") {
            Some(wanted) if wanted == "0" => Err(Error::new(
                Status::DriverUnavailable,
                "NULL_BACKEND_DEVICES is 0; unset it to have one",
            )),
            _ => Ok(1),
        }
    }

    /// What the thread's native state is for: kernels that a user launches without this runtime.
    fn set_device(&self, _: Ordinal) -> Result<()> {
        Ok(())
    }

    fn device_synchronize(&self, _: Ordinal) -> Result<()> {
        Ok(())
    }

    fn create_stream(&self, _: Ordinal) -> Result<Stream> {
        // An address of its own is all that it needs.
        Ok(Stream(Box::into_raw(Box::new(0u8)).cast()))
    }

    /// Returns at once; what was enqueued completes. Here nothing is left to complete.
    unsafe fn destroy_stream(&self, _: Ordinal, stream: Stream) -> Result<()> {
        // SAFETY: the stream was made by `create_stream` and is destroyed once.
        drop(unsafe { Box::from_raw(stream.0.cast::<u8>()) });
        Ok(())
    }

    /// NULL is the default stream of the device, here and everywhere.
    unsafe fn stream_synchronize(&self, _: Ordinal, _: Stream) -> Result<()> {
        Ok(())
    }

    fn malloc_device(&self, _: Ordinal, size: usize) -> Result<*mut c_void> {
        let wanted = size as u64;
        // In this order no sum can wrap, however large the request is.
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            (wanted <= MEMORY && used <= MEMORY - wanted).then(|| used + wanted)
        });
        if let Err(used) = taken {
            let message = format!("{size} bytes were asked for; {used} of {MEMORY} are in use");
            return Err(Error::new(Status::OutOfMemory, message));
        }
        allocate(size).inspect_err(|_| {
            self.used.fetch_sub(wanted, Ordering::Relaxed);
        })
    }

    /// Does not wait. A device that still works on the block keeps it until it has done.
    unsafe fn free_device(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: it came from `malloc_device` and is freed once.
        let size = unsafe { release(pointer) };
        self.used.fetch_sub(size as u64, Ordering::Relaxed);
        Ok(())
    }

    fn malloc_host(&self, _: Ordinal, size: usize) -> Result<*mut c_void> {
        allocate(size)
    }

    unsafe fn free_host(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: it came from `malloc_host` and is freed once.
        unsafe { release(pointer) };
        Ok(())
    }

    /// `kind` says which side is the device's; the flags say which side is pageable host memory.
    unsafe fn memcpy_sync(
        &self,
        _: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        _: MemcpyKind,
        _: CopyFlags,
    ) -> Result<()> {
        // SAFETY: both ranges are there and do not overlap, by the contract of `memcpy_sync`.
        unsafe { src.cast::<u8>().copy_to_nonoverlapping(dst.cast(), size) };
        Ok(())
    }

    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        _: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the contract is the same.
        unsafe { self.memcpy_sync(device, dst, src, size, kind, flags) }
    }

    // From here on everything is optional.

    fn capabilities(&self) -> Capabilities {
        Null::CAPABILITIES
    }

    fn get_device_properties(&self, _: Ordinal) -> Result<LlaisysDeviceProperties> {
        let mut properties = LlaisysDeviceProperties::new();
        properties.processor_count = 1;
        properties.total_memory = MEMORY;
        properties.integrated = 1;
        properties.capabilities = Null::CAPABILITIES.0;
        write_text(&mut properties.name, "null device");
        write_text(&mut properties.vendor, "nobody");
        Ok(properties)
    }

    fn get_memory_info(&self, _: Ordinal) -> Result<LlaisysMemoryInfo> {
        let used = self.used.load(Ordering::Relaxed);
        Ok(LlaisysMemoryInfo::new(MEMORY.saturating_sub(used), MEMORY))
    }

    unsafe fn stream_query(&self, _: Ordinal, _: Stream) -> Result<bool> {
        Ok(true)
    }
}

llaisys_runtime_core::export_backend! {
    backend: Null = Null::new(),
    device_type: -1, // or a vendor's reserved number
    name: c"null",
    vendor: c"nobody",
    capabilities: Null::CAPABILITIES,
}
