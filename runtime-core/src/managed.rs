//! `Managed<B>`: what is checked and remembered before a backend is called.
//!
//! Rule: every client reaches every backend through this decorator, so `B` may rely on what the
//! module text of `api` promises, and each promise is kept in one place. No lock is held while the
//! backend runs.
//!
//! | what | how | contract |
//! |---|---|---|
//! | device ordinals | against the backend's count, asked once | E3 |
//! | pointers | `pointers`: claimed before a free; looked up for a copy | M1, M5, C1, D3 |
//! | streams | `streams`: live ones only, kept alive during a call | S3, S4 |
//! | copies | `copy_plan`: nothing, an error, or what the backend must know of the host memory | C1, C3, C4, M3 |
//! | a device that failed | `lost`: the first cause, for every later call | E5 |
//! | host functions | `host_function`: no waiting inside | H1 |

use crate::api::{
    Capabilities, CopyFlags, HostFunction, LlaisysDeviceProperties, LlaisysMemoryInfo, MemcpyKind,
    Ordinal, RuntimeApi, Stream,
};
use crate::copy_plan::{CopyPlan, Request};
use crate::device_type::DeviceType;
use crate::error::{Error, Result};
use crate::fork::{self, ForkAware};
use crate::host_function::{self, Call};
use crate::lost::LostDevices;
use crate::pointers::{self, Block, MemoryKind};
use crate::status::Status;
use crate::streams::{LiveStream, StreamTable};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// A backend with its bookkeeping. See the module text.
pub struct Managed<B> {
    backend: B,
    device_type: DeviceType,
    /// Device memory is ordinary host memory.
    host_memory: bool,
    /// `LLAISYS_LAUNCH_BLOCKING=1` (S7).
    launch_blocking: bool,
    /// The number of devices once the backend has told it; -1 before.
    count: AtomicI32,
    /// This process is the child of a fork: a driver that was started before may have no devices here,
    /// while frees of what was inherited still have to come through.
    in_child: AtomicBool,
    streams: StreamTable,
    lost: LostDevices,
}

impl<B: RuntimeApi> Managed<B> {
    /// Puts the bookkeeping around a backend, for the rest of the process.
    pub fn install(backend: B, device_type: DeviceType) -> &'static Managed<B> {
        let managed: &'static Managed<B> = Box::leak(Box::new(Managed {
            host_memory: backend
                .capabilities()
                .contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY),
            launch_blocking: std::env::var_os("LLAISYS_LAUNCH_BLOCKING").is_some_and(|v| v == "1"),
            backend,
            device_type,
            count: AtomicI32::new(-1),
            in_child: AtomicBool::new(false),
            streams: StreamTable::new(),
            lost: LostDevices::new(),
        }));
        pointers::carry_over_forks();
        fork::register(managed);
        managed
    }

    /// Refuses an ordinal that names no device.
    #[inline]
    fn check_device(&self, device: Ordinal) -> Result<()> {
        if (0..self.count.load(Ordering::Relaxed)).contains(&device) {
            Ok(())
        } else {
            self.check_device_slowly(device)
        }
    }

    #[cold]
    fn check_device_slowly(&self, device: Ordinal) -> Result<()> {
        let count = self.initialize()?;
        if (0..count).contains(&device) {
            return Ok(());
        }
        let range = match count {
            0 => "this backend has no device".to_owned(),
            1 => "the only one is 0".to_owned(),
            _ => format!("there are 0..={}", count - 1),
        };
        Err(Error::new(Status::InvalidDevice, format!("device {device} does not exist; {range}")))
    }

    /// Runs a call of the backend on a device that is there and has not failed, and remembers it
    /// when the device fails now.
    #[inline]
    fn on<T>(&self, device: Ordinal, call: impl FnOnce(&B) -> Result<T>) -> Result<T> {
        self.check_device(device)?;
        self.lost.check(device)?;
        call(&self.backend).map_err(|error| self.lost.note(device, error))
    }

    /// The device that an operation on `stream` runs on, and what keeps the stream alive meanwhile.
    #[inline]
    fn enter(&self, device: Ordinal, stream: Stream) -> Result<Entered<'_, B>> {
        if stream.is_default() {
            return Ok(Entered { managed: self, device, stream: None });
        }
        let live = self.streams.get(stream)?;
        Ok(Entered { managed: self, device: live.device, stream: Some(live) })
    }

    /// Destroys a stream natively, if this was the last one who held it.
    fn leave(&self, live: Arc<LiveStream>) -> Result<()> {
        match Arc::into_inner(live) {
            Some(LiveStream { stream, device }) => {
                // SAFETY: it came from the backend's `create_stream` on this device, it is out of
                // the table, and `into_inner` made this the only thread that holds it.
                self.on(device, |backend| unsafe { backend.destroy_stream(device, stream) })
            }
            None => Ok(()),
        }
    }

    fn allocate(
        &self,
        device: Ordinal,
        size: usize,
        kind: MemoryKind,
        call: impl FnOnce(&B) -> Result<*mut c_void>,
    ) -> Result<*mut c_void> {
        self.check_device(device)?;
        if size == 0 {
            return Ok(std::ptr::null_mut());
        }
        if size > isize::MAX as usize {
            let message = format!("{size} bytes were asked for; no address space is so large");
            return Err(Error::new(Status::OutOfMemory, message));
        }
        let pointer = self.on(device, call)?;
        let (base, owner) = (pointer as usize, self.device_type);
        let on_host = self.host_memory || kind == MemoryKind::Host;
        pointers::insert(Block { base, size, kind, owner, device, on_host });
        Ok(pointer)
    }

    fn free(
        &self,
        pointer: *mut c_void,
        kind: MemoryKind,
        call: impl FnOnce(&B, Ordinal) -> Result<()>,
    ) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        let block = pointers::claim(pointer as usize, kind, self.device_type)?;
        let freed = self.on(block.device, |backend| call(backend, block.device));
        if let Err(error) = &freed
            && error.status() != Status::DeviceLost
        {
            // A failed call changes nothing (house rule 5); only a lost device keeps its memory.
            pointers::insert(block);
        }
        freed
    }

    /// What is to be done for a copy; `None` when that is nothing.
    #[inline]
    fn plan(&self, device: Ordinal, request: Request) -> Result<Option<CopyPlan>> {
        CopyPlan::make(request, self.device_type, self.host_memory, |address| {
            self.backend.is_device_memory(device, address)
        })
    }
}

/// A call in progress on a stream: keeps the stream alive, and destroys it natively at the end when
/// another thread destroyed it meanwhile.
struct Entered<'a, B: RuntimeApi> {
    managed: &'a Managed<B>,
    device: Ordinal,
    stream: Option<Arc<LiveStream>>,
}

impl<B: RuntimeApi> Drop for Entered<'_, B> {
    fn drop(&mut self) {
        if let Some(live) = self.stream.take() {
            // The destroyer's call has long returned; there is nobody to report a failure to.
            let _ = self.managed.leave(live);
        }
    }
}

impl<B: RuntimeApi> ForkAware for Managed<B> {
    fn prepare(&self) {
        self.streams.prepare();
        self.lost.prepare();
    }
    fn parent(&self) {
        self.streams.parent();
        self.lost.parent();
    }
    fn child(&self) {
        self.parent();
        host_function::forget();
        self.in_child.store(true, Ordering::Relaxed);
    }
}

impl<B: RuntimeApi> RuntimeApi for Managed<B> {
    fn get_device_count(&self) -> Result<i32> {
        match self.count.load(Ordering::Relaxed) {
            count if count >= 0 && !self.in_child.load(Ordering::Relaxed) => Ok(count),
            _ => self.backend.get_device_count(),
        }
    }

    fn initialize(&self) -> Result<i32> {
        let count = self.backend.initialize()?;
        self.count.store(count, Ordering::Relaxed);
        Ok(count)
    }

    fn set_device(&self, device: Ordinal) -> Result<()> {
        self.on(device, |backend| backend.set_device(device))
    }

    fn device_synchronize(&self, device: Ordinal) -> Result<()> {
        host_function::may_block()?;
        self.on(device, |backend| backend.device_synchronize(device))
    }

    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        let stream = self.on(device, |backend| backend.create_stream(device))?;
        self.streams.insert(stream, device);
        Ok(stream)
    }

    unsafe fn destroy_stream(&self, _: Ordinal, stream: Stream) -> Result<()> {
        if stream.is_default() {
            return Ok(());
        }
        let live = self.streams.remove(stream)?;
        let device = live.device;
        let destroyed = self.leave(live);
        if destroyed.as_ref().is_err_and(|error| error.status() != Status::DeviceLost) {
            // A failed call changes nothing: the stream can still be named.
            self.streams.insert(stream, device);
        }
        destroyed
    }

    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()> {
        host_function::may_block()?;
        let entered = self.enter(device, stream)?;
        // SAFETY: `entered` keeps the stream alive, and it is on this device.
        self.on(entered.device, |backend| unsafe {
            backend.stream_synchronize(entered.device, stream)
        })
    }

    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.allocate(device, size, MemoryKind::Device, |backend| {
            backend.malloc_device(device, size)
        })
    }

    unsafe fn free_device(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.free(pointer, MemoryKind::Device, |backend, device| {
            // SAFETY: `free` claimed the block, so the backend made it and it is freed once.
            unsafe { backend.free_device(device, pointer) }
        })
    }

    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.allocate(device, size, MemoryKind::Host, |backend| backend.malloc_host(device, size))
    }

    unsafe fn free_host(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.free(pointer, MemoryKind::Host, |backend, device| {
            // SAFETY: `free` claimed the block, so the backend made it and it is freed once.
            unsafe { backend.free_host(device, pointer) }
        })
    }

    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()> {
        host_function::may_block()?;
        self.check_device(device)?;
        let Some(plan) = self.plan(device, Request { dst, src, size, kind, flags })? else {
            return Ok(());
        };
        // The copy belongs to the device whose memory it touches, whichever is current (D3).
        let device = plan.device.unwrap_or(device);
        if let Some(other) = plan.other_device {
            // SAFETY: the default stream always exists.
            self.on(other, |backend| unsafe {
                backend.stream_synchronize(other, Stream::DEFAULT)
            })?;
        }
        // SAFETY: the plan checked ranges, kind and overlap as far as the core knows the pointers;
        // for the rest the caller keeps `memcpy_sync`'s contract.
        self.on(device, |backend| unsafe {
            backend.memcpy_sync(device, dst, src, size, kind, plan.flags)
        })
    }

    #[inline]
    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        self.check_device(device)?;
        let Some(plan) = self.plan(device, Request { dst, src, size, kind, flags })? else {
            return Ok(());
        };
        let waits = self.launch_blocking || plan.flags.contains(CopyFlags::DESTINATION_PAGEABLE);
        if waits {
            host_function::may_block()?;
        }
        // SAFETY: as in `memcpy_sync`; `entered` keeps the stream alive, and it is on this device.
        self.on(device, |backend| unsafe {
            backend.memcpy_async(device, dst, src, size, kind, stream, plan.flags)?;
            if self.launch_blocking { backend.stream_synchronize(device, stream) } else { Ok(()) }
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        self.on(device, |backend| backend.get_device_properties(device))
    }

    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        self.on(device, |backend| backend.get_memory_info(device))
    }

    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        let entered = self.enter(device, stream)?;
        // SAFETY: `entered` keeps the stream alive, and it is on this device.
        self.on(entered.device, |backend| unsafe { backend.stream_query(entered.device, stream) })
    }

    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        if self.launch_blocking {
            host_function::may_block()?;
        }
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        let packed = Call::pack(function, data);
        // SAFETY: `entered` keeps the stream alive, and it is on this device; `Call::run` with this
        // argument is what the caller allowed.
        let launched = self.on(device, |backend| unsafe {
            backend.launch_host_function(device, stream, Call::run, packed)
        });
        if let Err(error) = launched {
            // SAFETY: the backend did not accept the call, so nobody will run it.
            unsafe { Call::discard(packed) };
            return Err(error);
        }
        if self.launch_blocking {
            // The function was accepted and will run, so its data is no longer the caller's: a
            // failure of the wait must not say otherwise. The next call on the device reports it.
            // SAFETY: as above.
            let _ =
                self.on(device, |backend| unsafe { backend.stream_synchronize(device, stream) });
        }
        Ok(())
    }

    fn is_device_memory(&self, device: Ordinal, address: usize) -> Result<bool> {
        match pointers::find(address) {
            Some(block) if block.owner == self.device_type => Ok(block.kind == MemoryKind::Device),
            _ => self.on(device, |backend| backend.is_device_memory(device, address)),
        }
    }
}
