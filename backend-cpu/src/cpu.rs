//! `Cpu`: the operations of the runtime, each in a few lines over `engine`.
//!
//! Rule: whether an asynchronous copy, of whatever shape, is done at once, staged, waited for or just
//! queued is decided here and nowhere else (contract C3, S8):
//!
//! | the copy | nothing pending | work pending |
//! |---|---|---|
//! | of few bytes ([`HAND_OVER`]), without a seed | done by the caller | as below |
//! | that the caller waits for (`memcpy_sync`, on the default stream) | done by the caller | queued and waited for |
//! | of pinned or promised memory | queued | queued |
//! | the same with `AT_ONCE_IF_IDLE` | done by the caller | queued |
//! | from pageable memory | done by the caller | staged and queued; above the bound queued and waited for |
//! | into pageable memory | done by the caller | queued and waited for |
//! | of so many ranges that the list is above the bound | done by the caller | queued and waited for |
//!
//! Beside what `Managed` checks, devices, stream and event handles and pointers to free are checked
//! again, because here that costs little and lets a raw backend be used without undefined behaviour.
//!
//! What has no meaning on a CPU: `adopt_stream`. All else is there, and native.

use crate::batch::Batch;
use crate::blocks::Place;
use crate::command::{Command, Copy, LONG};
use crate::configuration::Configuration;
use crate::device::Device;
use crate::engine::Engine;
use crate::events::Snapshot;
use crate::fill::Fill;
use crate::handle::Handle;
use crate::pitched::Pitched;
use crate::position::Position;
use crate::registrations::Registration;
use crate::transfer::Transfer;
use crate::{devices, host_call, pages};
use llaisys_runtime_core::api::*;
use llaisys_runtime_core::{Error, Result, Status, device_type};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU8};

/// Up to so many bytes, work on an idle stream takes about as long as waking a worker for it, and
/// nobody can tell who did it.
const HAND_OVER: usize = 1 << 20;

/// The CPU as a backend. What it starts lives as long as the process, also when this is dropped.
pub struct Cpu {
    configuration: Option<Configuration>,
    /// Null until the first call. Not a once-cell: a child of `fork` must not find it half made.
    engine: AtomicPtr<Engine>,
    /// Whether the host cannot touch device memory: 0 until it was asked, then 1 for no, 2 for yes.
    strict: AtomicU8,
}

impl Cpu {
    /// The CPU as the environment configures it, which is read at the first call.
    pub const fn new() -> Cpu {
        Cpu { configuration: None, engine: AtomicPtr::new(null_mut()), strict: AtomicU8::new(0) }
    }

    /// The CPU configured by the program.
    pub const fn with_configuration(configuration: Configuration) -> Cpu {
        Cpu {
            configuration: Some(configuration),
            engine: AtomicPtr::new(null_mut()),
            strict: AtomicU8::new(0),
        }
    }

    #[inline(always)]
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

    /// Known without setting anything up, since a capability depends on it.
    #[inline]
    fn is_strict(&self) -> bool {
        match self.strict.load(Relaxed) {
            0 => {
                let configured = self.configuration.as_ref().map(|configured| configured.strict);
                let is_strict =
                    configured.unwrap_or_else(|| Configuration::from_environment().strict);
                self.strict.store(if is_strict { 2 } else { 1 }, Relaxed);
                is_strict
            }
            known => known == 2,
        }
    }

    #[inline(always)]
    fn device(&self, ordinal: Ordinal) -> Result<&'static Device> {
        self.engine().device(ordinal)
    }

    #[inline]
    fn event(&self, device: Ordinal, event: Event) -> Result<Snapshot> {
        self.device(device)?.event(event)
    }

    /// Does what the table above says with a copy. `must_wait`: it may not be queued and left.
    ///
    /// # Safety
    /// - The copy's ranges are as `memcpy_async` wants them, for these flags.
    unsafe fn transfer<T: Transfer>(
        &self,
        device: &'static Device,
        stream: Stream,
        flags: CopyFlags,
        mut transfer: T,
        must_wait: bool,
    ) -> Result<()> {
        let promised = flags.contains(CopyFlags::HOST_BUFFER_PROMISED);
        let from_pageable = !promised && flags.contains(CopyFlags::SOURCE_PAGEABLE);
        let must_wait = must_wait || !promised && flags.contains(CopyFlags::DESTINATION_PAGEABLE);
        let at_once = flags.contains(CopyFlags::AT_ONCE_IF_IDLE) || from_pageable || must_wait;
        let pool = self.engine().pool;
        if at_once || transfer.bytes() <= HAND_OVER && pool.schedule.is_none() {
            // Whoever touches the user's own memory may stand there for as long as it takes to bring it in,
            // and nobody who frees something waits for that.
            let pageable = CopyFlags::SOURCE_PAGEABLE.with(CopyFlags::DESTINATION_PAGEABLE);
            if transfer.is_short() && flags.without(pageable) == flags {
                // SAFETY: by the contract above.
                if device.do_at_once(stream, at_once, || unsafe { transfer.run(pool) })? {
                    return Ok(());
                }
            } else if let Some(claim) = device.claim(stream)? {
                // SAFETY: by the contract above.
                unsafe { transfer.run(pool) };
                drop(claim);
                return Ok(());
            }
        }
        if from_pageable && !must_wait {
            // SAFETY: by the contract above.
            if let Some(command) = unsafe { transfer.staged(&self.engine().staging) } {
                device.enqueue(stream, command)?;
                return Ok(());
            }
        }
        let must_wait = must_wait || from_pageable;
        if must_wait {
            host_call::check_may_wait(T::OPERATION)?;
        }
        let position = device.enqueue(stream, transfer.queued())?;
        if must_wait {
            position.wait();
        }
        Ok(())
    }

    /// A pitched copy with the places where the bytes are.
    fn reach_rows(&self, copy: &LlaisysCopy3D) -> Result<LlaisysCopy3D> {
        let memory = self.engine().memory;
        if !memory.is_strict() {
            return Ok(*copy);
        }
        // From the first byte to the last.
        let extent = |pitch: u64, slice_height: u64| {
            let rows =
                (copy.depth - 1).saturating_mul(slice_height).saturating_add(copy.height - 1);
            rows.saturating_mul(pitch).saturating_add(copy.width) as usize
        };
        let dst = memory.reach(copy.dst, extent(copy.dst_pitch, copy.dst_slice_height))?;
        let src = memory.reach(copy.src, extent(copy.src_pitch, copy.src_slice_height))?;
        Ok(LlaisysCopy3D { dst, src, ..*copy })
    }

    /// Refuses what is not inside one block of managed memory, and what is no location.
    fn check_managed(&self, pointer: *mut c_void, size: usize, location: i32) -> Result<()> {
        if location != LOCATION_HOST {
            self.device(location)?;
        }
        let address = pointer as usize;
        let block = self.engine().memory.find(address);
        if block.is_some_and(|block| block.place == Place::Managed && block.holds(address, size)) {
            return Ok(());
        }
        let message =
            format!("{size} bytes at {pointer:p} are not inside a block of managed memory");
        Err(Error::new(Status::InvalidValue, message))
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
#[inline]
fn copy_of(
    engine: &Engine,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
) -> Result<Option<Copy>> {
    if size == 0 || dst.cast_const() == src {
        return Ok(None);
    }
    check_not_null(dst, "the destination of a copy")?;
    check_not_null(src, "the source of a copy")?;
    let (dst, src) = (engine.memory.reach(dst, size)?, engine.memory.reach(src, size)?);
    Ok(Some(Copy { dst, src, size }))
}

#[inline(always)]
fn check_not_null(pointer: *const c_void, what: &str) -> Result<()> {
    if pointer.is_null() { Err(null(what)) } else { Ok(()) }
}

#[cold]
fn null(what: &str) -> Error {
    Error::new(Status::InvalidValue, format!("{what} is NULL"))
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
        host_call::check_may_wait("device_synchronize")?;
        let mut positions = Vec::new();
        device.busy(|position| positions.push(position));
        wait_for_all(&positions);
        Ok(())
    }

    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        self.device(device)?.create_stream(StreamFlags::BLOCKING)
    }

    unsafe fn destroy_stream(&self, device: Ordinal, stream: Stream) -> Result<()> {
        self.device(device)?.destroy_stream(stream)
    }

    #[inline]
    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()> {
        self.device(device)?.synchronize(stream)
    }

    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.device(device)?;
        self.engine().allocate(device, Place::Device(device), size)
    }

    unsafe fn free_device(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.device(device)?;
        self.engine().free(Place::Device(device), pointer)
    }

    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.device(device)?;
        self.engine().allocate(device, Place::Host, size)
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
        flags: CopyFlags,
    ) -> Result<()> {
        let device = self.device(device)?;
        let Some(copy) = copy_of(self.engine(), dst, src, size)? else { return Ok(()) };
        host_call::check_may_wait("memcpy_sync")?;
        // Work of the default stream, which is what CUDA makes of it: so it comes before or after
        // whatever other threads enqueue meanwhile on this and on all blocking streams.
        // SAFETY: the ranges are promised by the trait.
        unsafe { self.transfer(device, Stream::DEFAULT, flags, copy, true) }
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
        let Some(copy) = copy_of(self.engine(), dst, src, size)? else {
            return device.check(stream);
        };
        // SAFETY: the ranges are promised by the trait.
        unsafe { self.transfer(device, stream, flags, copy, false) }
    }

    #[inline]
    fn capabilities(&self) -> Capabilities {
        let host_memory = if self.is_strict() {
            Capabilities::NONE
        } else {
            Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY
        };
        host_memory
            .with(Capabilities::DEVICE_INFORMATION)
            .with(Capabilities::STREAM_QUERY)
            .with(Capabilities::HOST_FUNCTIONS)
            .with(Capabilities::POINTER_QUERY)
            .with(Capabilities::STREAM_OPTIONS)
            .with(Capabilities::EVENTS)
            .with(Capabilities::STREAM_ORDERED_MEMORY)
            .with(Capabilities::MANAGED_MEMORY)
            .with(Capabilities::HOST_REGISTRATION)
            .with(Capabilities::FILL)
            .with(Capabilities::PITCHED_COPIES)
            .with(Capabilities::BATCHED_COPIES)
            .with(Capabilities::PEERS)
            .with(Capabilities::MEMORY_POOL)
    }

    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        self.device(device)?;
        let engine = self.engine();
        let total = engine.memory.total(Place::Device(device));
        let remark = &engine.configuration.remark;
        let (count, capabilities) = (engine.device_count(), self.capabilities());
        Ok(devices::properties(device, count, total, remark, capabilities))
    }

    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        self.device(device)?;
        Ok(self.engine().memory.information(Place::Device(device)))
    }

    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        self.device(device)?.is_idle(stream)
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

    /// Only what this backend made counts: other memory of the process is the host's.
    fn is_device_memory(&self, device: Ordinal, address: usize) -> Result<bool> {
        self.device(device)?;
        let block = self.engine().memory.find(address);
        Ok(block.is_some_and(|block| block.place != Place::Host))
    }

    // Devices and their links.

    /// Virtual devices are views of the same memory, and nothing can be switched off.
    fn get_peer_link(&self, device: Ordinal, peer: Ordinal) -> Result<LlaisysPeerLink> {
        self.device(device)?;
        self.device(peer)?;
        let kind = if device == peer { LINK_SAME_DEVICE } else { LINK_SHARED_MEMORY };
        let link = LlaisysPeerLink::staged();
        Ok(LlaisysPeerLink { can_access: 1, enabled: 1, kind, native_atomics: 1, ..link })
    }

    /// It always is.
    fn enable_peer_access(&self, device: Ordinal, peer: Ordinal) -> Result<()> {
        self.device(device)?;
        self.device(peer).map(drop)
    }

    // Streams of other kinds.

    /// There is one priority, which the range says: all workers are alike to the kernel, which lets
    /// nobody but root prefer one.
    fn create_stream_with(
        &self,
        device: Ordinal,
        flags: StreamFlags,
        _priority: i32,
    ) -> Result<Stream> {
        self.device(device)?.create_stream(flags)
    }

    fn get_stream_priority_range(&self, device: Ordinal) -> Result<PriorityRange> {
        self.device(device)?;
        Ok(PriorityRange { least: 0, greatest: 0 })
    }

    /// Has no meaning here: a CPU has no driver whose streams others could have, so there is no
    /// native stream but ours.
    unsafe fn adopt_stream(&self, native: *mut c_void) -> Result<Ordinal> {
        Err(Error::new(
            Status::NotSupported,
            format!("{native:p} cannot be taken in: a CPU has no native streams of anybody else"),
        ))
    }

    // Events.

    fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        self.device(device)?.create_event(flags)
    }

    unsafe fn destroy_event(&self, device: Ordinal, event: Event) -> Result<()> {
        self.device(device)?.destroy_event(event)
    }

    #[inline]
    unsafe fn record_event(&self, device: Ordinal, event: Event, stream: Stream) -> Result<()> {
        self.device(device)?.record_event(event, stream)
    }

    unsafe fn stream_wait_event(
        &self,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        let device = self.device(device)?;
        // Bits that name no device name no event either.
        let owner = self.device(Handle::from_event(event).device.into()).unwrap_or(device);
        let found = owner.event(event)?;
        match found.record {
            Some(position) => device.wait_for(stream, position),
            None => device.check(stream),
        }
    }

    #[inline]
    fn checks_handles(&self) -> bool {
        true
    }

    #[inline]
    fn device_in_handle(&self, stream: Stream) -> Option<Ordinal> {
        let ordinal = Ordinal::from(Handle::from_stream(stream).device);
        (!stream.is_default() && ordinal < self.engine().device_count()).then_some(ordinal)
    }

    #[inline]
    unsafe fn event_query(&self, device: Ordinal, event: Event) -> Result<bool> {
        match self.event(device, event)?.record.filter(|position| !position.is_reached()) {
            None => Ok(true),
            Some(position) => {
                self.engine().pool.demand(position);
                Ok(false)
            }
        }
    }

    unsafe fn event_synchronize(&self, device: Ordinal, event: Event) -> Result<()> {
        let found = self.event(device, event)?;
        let Some(position) = found.record.filter(|position| !position.is_reached()) else {
            return Ok(());
        };
        host_call::check_may_wait("event_synchronize")?;
        if found.flags.contains(EventFlags::BLOCKING_WAIT) {
            position.wait_asleep();
        } else {
            position.wait();
        }
        Ok(())
    }

    unsafe fn event_elapsed(&self, device: Ordinal, start: Event, end: Event) -> Result<i64> {
        let start = self.event(device, start)?.time()?;
        Ok(self.event(device, end)?.time()? - start)
    }

    // Memory of other kinds.

    /// Memory of the host can be used at once; the order of the stream is kept by what uses it.
    unsafe fn malloc_async(
        &self,
        device: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        self.device(device)?.check(stream)?;
        self.engine().allocate(device, Place::Device(device), size)
    }

    unsafe fn free_async(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        self.engine().free_in_order(device, pointer, stream)
    }

    fn malloc_managed(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.device(device)?;
        self.engine().allocate(device, Place::Managed, size)
    }

    unsafe fn free_managed(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.device(device)?;
        self.engine().free(Place::Managed, pointer)
    }

    /// The memory is where every device and the host can use it already; what was swapped out is
    /// asked back. That changes nothing that work on the stream could see, so it needs no place in
    /// the stream's order.
    unsafe fn prefetch_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        location: i32,
        stream: Stream,
    ) -> Result<()> {
        self.device(device)?.check(stream)?;
        self.check_managed(pointer, size, location)?;
        // SAFETY: just checked to be inside a block of ours, which the trait keeps alive.
        unsafe { pages::will_need(pointer as usize, size) };
        Ok(())
    }

    /// Checked and followed by nothing: all of it is about where memory is, and here it is in one
    /// place.
    unsafe fn advise_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        _advice: MemoryAdvice,
        location: i32,
    ) -> Result<()> {
        self.device(device)?;
        self.check_managed(pointer, size, location)
    }

    unsafe fn register_host(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        self.device(device)?;
        let registration = Registration { address: pointer as usize, size, device };
        self.engine().memory.registrations.insert(registration)
    }

    unsafe fn unregister_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.device(device)?;
        self.engine().memory.registrations.remove(pointer)
    }

    /// What this backend did not make or register is pageable, whoever allocated it.
    fn get_pointer_attributes(&self, address: usize) -> Result<LlaisysPointerAttributes> {
        let memory = self.engine().memory;
        let known = if let Some(block) = memory.find(address) {
            let kind = match block.place {
                Place::Device(_) => MEMORY_DEVICE,
                Place::Managed => MEMORY_MANAGED,
                Place::Host => MEMORY_PINNED,
            };
            (kind, block.device, block.address, block.size)
        } else if let Some(range) = memory.registrations.find(address) {
            (MEMORY_REGISTERED, range.device, range.address, range.size)
        } else {
            return Ok(LlaisysPointerAttributes::pageable());
        };
        let (kind, device, base, size) = known;
        Ok(LlaisysPointerAttributes {
            kind,
            device_type: device_type::CPU,
            device,
            base: base as u64,
            size: size as u64,
            ours: 1,
            ..LlaisysPointerAttributes::pageable()
        })
    }

    // Fills and other copies.

    #[inline]
    unsafe fn memset_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        let device = self.device(device)?;
        if size == 0 {
            return device.check(stream);
        }
        check_not_null(dst, "the destination of a fill")?;
        let dst = self.engine().memory.reach(dst, size)?;
        let fill = Fill { dst, size, pattern: pattern.repeated() };
        let pool = self.engine().pool;
        if size <= HAND_OVER && pool.schedule.is_none() {
            if size <= LONG {
                // SAFETY: the range is promised by the trait.
                if device.do_at_once(stream, false, || unsafe { fill.run(pool) })? {
                    return Ok(());
                }
            } else if let Some(claim) = device.claim(stream)? {
                // SAFETY: the range is promised by the trait.
                unsafe { fill.run(pool) };
                drop(claim);
                return Ok(());
            }
        }
        device.enqueue(stream, Command::Fill(fill)).map(drop)
    }

    unsafe fn memcpy_3d_async(
        &self,
        device: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let device = self.device(device)?;
        if copy.is_empty() {
            return device.check(stream);
        }
        check_not_null(copy.dst, "the destination of a pitched copy")?;
        check_not_null(copy.src, "the source of a pitched copy")?;
        let copy = self.reach_rows(copy)?;
        // SAFETY: the rows are promised by the trait.
        unsafe { self.transfer(device, stream, flags, Pitched::new(&copy), false) }
    }

    unsafe fn memcpy_batch_async(
        &self,
        device: Ordinal,
        ranges: &[LlaisysCopyRange],
        _kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let device = self.device(device)?;
        let mut copies = Vec::with_capacity(ranges.len());
        for range in ranges {
            copies.extend(copy_of(self.engine(), range.dst, range.src, range.size as usize)?);
        }
        if copies.is_empty() {
            return device.check(stream);
        }
        let batch = Batch::new(copies, &self.engine().staging);
        let must_wait = batch.is_beyond_the_bound();
        // SAFETY: the ranges are promised by the trait.
        unsafe { self.transfer(device, stream, flags, batch, must_wait) }
    }

    // Accounting.

    /// What is used, and what was freed and still waits for a stream; nothing else is kept.
    fn get_reserved_memory(&self, device: Ordinal) -> Result<u64> {
        self.device(device)?;
        Ok(self.engine().memory.held(device))
    }

    /// Gives everything back that can be, whatever may be kept: it is the C library's heap that
    /// keeps it, which does not tell how much.
    fn trim_memory(&self, device: Ordinal, _keep: u64) -> Result<()> {
        self.device(device)?;
        self.engine().memory.trim();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Record;
    use crate::pool::Pool;
    use crate::queue::Queue;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;
    use std::time::{Duration, Instant};

    const SIZE: usize = 4096;

    fn cpu() -> &'static Cpu {
        Box::leak(Box::new(Cpu::with_configuration(Configuration::default())))
    }

    fn default_queue(cpu: &'static Cpu) -> (&'static Queue, &'static Pool) {
        let (queue, _) = cpu.device(0).expect("a device").before_next(Stream::DEFAULT).expect("it");
        (queue, cpu.engine().pool)
    }

    fn block(cpu: &'static Cpu, byte: u8) -> usize {
        let pointer = cpu.malloc_device(0, SIZE).expect("memory");
        // SAFETY: just allocated with this size.
        unsafe { pointer.cast::<u8>().write_bytes(byte, SIZE) };
        pointer as usize
    }

    fn copy_now(cpu: &'static Cpu, dst: usize, src: usize) {
        let (dst, src) = (dst as *mut c_void, src as *const c_void);
        // SAFETY: two live blocks of this size.
        unsafe { cpu.memcpy_sync(0, dst, src, SIZE, MemcpyKind::D2D, CopyFlags::NONE) }
            .expect("copied");
    }

    fn bytes(block: usize) -> &'static [u8] {
        // SAFETY: a block that is never freed and that nobody writes any more.
        unsafe { std::slice::from_raw_parts(block as *const u8, SIZE) }
    }

    /// A host function that waits for its flag.
    unsafe extern "C" fn wait_for(flag: *mut c_void) {
        // SAFETY: the tests pass flags that live for ever.
        let flag = unsafe { &*flag.cast::<AtomicBool>() };
        while !flag.load(SeqCst) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_synchronous_copy_comes_after_what_another_thread_is_just_putting_on_the_default_stream() {
        let cpu = cpu();
        let (queue, pool) = default_queue(cpu);
        pool.be_there().expect("a worker");
        for round in 1..=100u8 {
            let (from, to) = (block(cpu, 0), block(cpu, 0xee));
            // The gate: this thread is inside an enqueue on the default stream.
            let mut guard = queue.ring.lock();
            let copier = thread::spawn(move || copy_now(cpu, to, from));
            for _ in 0..20 {
                thread::yield_now();
            }
            let fill = Fill { dst: from as *mut c_void, size: SIZE, pattern: [round; 16] };
            let put = guard.push(Record(Command::Fill(fill)), || queue.progress.completed());
            assert!(put.is_ok(), "there is room");
            drop(guard);
            queue.call_for_a_worker();
            copier.join().expect("no panic");
            assert!(bytes(to).iter().all(|byte| *byte == round), "the copy did not wait");
        }
    }

    #[test]
    fn what_comes_on_any_blocking_stream_while_a_synchronous_copy_waits_runs_after_it() {
        let cpu = cpu();
        let (queue, _) = default_queue(cpu);
        let stream = cpu.create_stream(0).expect("a stream");
        for on in [Stream::DEFAULT, stream] {
            let (from, to) = (block(cpu, 1), block(cpu, 0xee));
            let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
            let data = std::ptr::from_ref(flag).cast_mut().cast();
            // SAFETY: the stream exists, and the flag stays.
            unsafe { cpu.launch_host_function(0, Stream::DEFAULT, wait_for, data) }
                .expect("launched");
            let before = queue.ring.tail();
            let copier = thread::spawn(move || copy_now(cpu, to, from));
            let end = Instant::now() + Duration::from_secs(30);
            while queue.ring.tail() == before {
                assert!(Instant::now() < end, "the copy is no work of the default stream");
                thread::yield_now();
            }
            let (dst, nine) = (from as *mut c_void, Pattern::new(&[9]).expect("a pattern"));
            // SAFETY: a live block of this size.
            unsafe { cpu.memset_async(0, dst, nine, SIZE, on) }.expect("queued");
            flag.store(true, SeqCst);
            copier.join().expect("no panic");
            // SAFETY: the stream exists.
            unsafe { cpu.stream_synchronize(0, on) }.expect("synchronized");
            assert!(bytes(to).iter().all(|byte| *byte == 1), "it did not wait for the copy");
            assert!(bytes(from).iter().all(|byte| *byte == 9));
        }
    }
}
