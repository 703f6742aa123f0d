//! `Cpu`: the operations of the runtime, each in a few lines over `engine`.
//!
//! Rule: whether an asynchronous copy is done at once, staged, waited for or just queued is decided
//! here and nowhere else (contract C3, S8):
//!
//! | the copy | nothing pending | work pending |
//! |---|---|---|
//! | of pinned or promised memory | queued | queued |
//! | the same with `AT_ONCE_IF_IDLE` | done by the caller | queued |
//! | from pageable memory | done by the caller | staged and queued; above the bound queued and waited for |
//! | into pageable memory | done by the caller | queued and waited for |
//!
//! Beside what `Managed` checks, devices, stream handles and pointers to free are checked again,
//! because here that costs little and lets a raw backend be used without undefined behaviour.

use crate::blocks::Place;
use crate::command::{Command, Copy};
use crate::configuration::Configuration;
use crate::device::Device;
use crate::engine::Engine;
use crate::stream::Position;
use crate::{devices, worker};
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, HostFunction, LlaisysDeviceProperties, LlaisysMemoryInfo, MemcpyKind,
    Ordinal, RuntimeApi, Stream,
};
use llaisys_runtime_core::{Error, Result, Status};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// The CPU as a backend. What it starts lives as long as the process, also when this is dropped.
pub struct Cpu {
    configuration: Option<Configuration>,
    /// Null until the first call. Not a once-cell: a child of `fork` must not find it half made.
    engine: AtomicPtr<Engine>,
}

impl Cpu {
    /// The CPU as the environment configures it, which is read at the first call.
    pub const fn new() -> Cpu {
        Cpu { configuration: None, engine: AtomicPtr::new(null_mut()) }
    }

    /// The CPU configured by the program.
    pub const fn with_configuration(configuration: Configuration) -> Cpu {
        Cpu { configuration: Some(configuration), engine: AtomicPtr::new(null_mut()) }
    }

    #[inline]
    fn engine(&self) -> &'static Engine {
        // SAFETY: null or what `set_up` stored, an engine that lives for ever.
        match unsafe { self.engine.load(Acquire).as_ref() } {
            Some(engine) => engine,
            None => self.set_up(),
        }
    }

    #[cold]
    fn set_up(&self) -> &'static Engine {
        let configuration =
            self.configuration.clone().unwrap_or_else(Configuration::from_environment);
        let engine = Engine::leak(configuration);
        let own = (engine as *const Engine).cast_mut();
        match self.engine.compare_exchange(null_mut(), own, AcqRel, Acquire) {
            Ok(_) => engine,
            // Another thread was first; ours stays unused.
            // SAFETY: what another thread stored here, an engine that lives for ever.
            Err(first) => unsafe { &*first },
        }
    }

    #[inline]
    fn device(&self, ordinal: Ordinal) -> Result<&'static Device> {
        self.engine().device(ordinal)
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu::new()
    }
}

fn wait_for_all(positions: &[Position]) {
    positions.iter().for_each(Position::wait);
}

/// The copy, or `None` where there is nothing to do (M1, C4).
fn copy_of(dst: *mut c_void, src: *const c_void, size: usize) -> Result<Option<Copy>> {
    if size == 0 || dst.cast_const() == src {
        return Ok(None);
    }
    for (pointer, name) in [(dst.cast_const(), "destination"), (src, "source")] {
        if pointer.is_null() {
            return Err(Error::new(
                Status::InvalidValue,
                format!("the {name} of a copy of {size} bytes is NULL"),
            ));
        }
    }
    Ok(Some(Copy { dst, src, size }))
}

impl RuntimeApi for Cpu {
    fn get_device_count(&self) -> Result<i32> {
        Ok(self.engine().device_count())
    }

    /// A CPU has no native state of a thread; only the number is checked.
    fn set_device(&self, device: Ordinal) -> Result<()> {
        self.device(device).map(drop)
    }

    fn device_synchronize(&self, device: Ordinal) -> Result<()> {
        let device = self.device(device)?;
        worker::check_may_wait("device_synchronize")?;
        wait_for_all(&device.busy());
        Ok(())
    }

    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        self.device(device)?.create_stream()
    }

    unsafe fn destroy_stream(&self, device: Ordinal, stream: Stream) -> Result<()> {
        self.device(device)?.destroy_stream(stream)
    }

    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()> {
        let positions = self.device(device)?.position(stream)?;
        worker::check_may_wait("stream_synchronize")?;
        wait_for_all(&positions);
        Ok(())
    }

    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.device(device)?;
        self.engine().allocate(Place::Device(device), size)
    }

    unsafe fn free_device(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.device(device)?;
        self.engine().free(Place::Device(device), pointer)
    }

    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.device(device)?;
        self.engine().allocate(Place::Host, size)
    }

    unsafe fn free_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.device(device)?;
        self.engine().free(Place::Host, pointer)
    }

    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        _kind: MemcpyKind,
        _flags: CopyFlags,
    ) -> Result<()> {
        let device = self.device(device)?;
        let Some(copy) = copy_of(dst, src, size)? else { return Ok(()) };
        worker::check_may_wait("memcpy_sync")?;
        let (before, claim) = device.claim_apart()?;
        wait_for_all(&before);
        // SAFETY: the ranges are promised by the trait.
        unsafe { copy.run() };
        drop(claim);
        Ok(())
    }

    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        _kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let device = self.device(device)?;
        let Some(copy) = copy_of(dst, src, size)? else {
            return device.position(stream).map(drop);
        };
        let promised = flags.contains(CopyFlags::HOST_BUFFER_PROMISED);
        let from_pageable = !promised && flags.contains(CopyFlags::SOURCE_PAGEABLE);
        let into_pageable = !promised && flags.contains(CopyFlags::DESTINATION_PAGEABLE);
        let at_once = flags.contains(CopyFlags::AT_ONCE_IF_IDLE) || from_pageable || into_pageable;
        if at_once && let Some(claim) = device.claim(stream)? {
            // SAFETY: the ranges are promised by the trait.
            unsafe { copy.run() };
            drop(claim);
            return Ok(());
        }
        if from_pageable && !into_pageable {
            // SAFETY: the source is promised by the trait.
            if let Some(source) = unsafe { self.engine().staging.copy(src, size) } {
                device.enqueue(stream, Command::StagedCopy { dst, source })?;
                return Ok(());
            }
        }
        let wait = from_pageable || into_pageable;
        if wait {
            worker::check_may_wait("memcpy_async with pageable memory behind pending work")?;
        }
        let position = device.enqueue(stream, Command::Copy(copy))?;
        if wait {
            position.wait();
        }
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY
            .with(Capabilities::DEVICE_INFORMATION)
            .with(Capabilities::STREAM_QUERY)
            .with(Capabilities::HOST_FUNCTIONS)
    }

    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        self.device(device)?;
        let engine = self.engine();
        let total = engine.memory.total(Place::Device(device));
        let remark = &engine.configuration.remark;
        Ok(devices::properties(device, engine.device_count(), total, remark))
    }

    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        self.device(device)?;
        Ok(self.engine().memory.information(Place::Device(device)))
    }

    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        Ok(self.device(device)?.position(stream)?.is_empty())
    }

    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        self.device(device)?.enqueue(stream, Command::HostFunction { function, data })?;
        Ok(())
    }
}
