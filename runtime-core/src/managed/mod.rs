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
//! | events | `events`: handles of the core's own, reached is remembered | V1, V2, V3 |
//! | where device memory comes from | `allocator`, behind `managed/pooled` | M4, M7, E4 |
//! | large copies of pageable memory | `staging`, behind `managed/staged` | C2, C3 |
//! | memory that went somewhere | `accounting`, per device and per stream | |
//! | what a backend lacks | `managed/copies`, `managed/memory`: done with other operations | M7 |
//! | a device that failed | `lost`: the first cause, for every later call | E5 |
//! | host functions | `host_function`: no waiting inside | H1 |

mod copies;
mod events;
mod memory;
mod pooled;
mod staged;
mod user_slots;

use crate::allocator::mode::is_pooled;
use crate::api::*;
use crate::copy_plan::{Request, Rules};
use crate::device_type::DeviceType;
use crate::entries::{self, Role};
use crate::error::{Error, Result};
use crate::events::EventTable;
use crate::fork::{self, ForkAware};
use crate::host_function::{self, Call};
use crate::lost::LostDevices;
use crate::pointers::{self, About, MemoryKind};
use crate::staging;
use crate::status::Status;
use crate::streams::{Doomed, Held, StreamTable};
use std::ffi::c_void;
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
    events: EventTable,
    lost: LostDevices,
    accounts: memory::Accounts,
    pools: pooled::Pools,
    /// Its threads outlive every call, so it is not inside.
    staging: &'static staging::Engine,
}

impl<B: RuntimeApi> Managed<B> {
    /// Puts the bookkeeping around a backend, for the rest of the process.
    pub fn install(backend: B, device_type: DeviceType) -> &'static Managed<B> {
        let managed: &'static Managed<B> = Box::leak(Box::new(Managed {
            host_memory: backend
                .capabilities()
                .contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY),
            launch_blocking: std::env::var_os("LLAISYS_LAUNCH_BLOCKING").is_some_and(|v| v == "1"),
            pools: pooled::Pools::new(
                is_pooled(device_type, backend.capabilities()),
                backend.capabilities().contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY),
            ),
            staging: Box::leak(Box::new(staging::Engine::new(&backend))),
            backend,
            device_type,
            count: AtomicI32::new(-1),
            in_child: AtomicBool::new(false),
            streams: StreamTable::new(),
            events: EventTable::new(),
            lost: LostDevices::new(),
            accounts: memory::Accounts::new(),
        }));
        managed.staging.attach(&managed.backend);
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

    /// The device that an operation on `stream` runs on, which is there, and what keeps the stream alive
    /// meanwhile.
    #[inline]
    fn enter(&self, device: Ordinal, stream: Stream) -> Result<Entered<'_, B>> {
        if stream.is_default() {
            self.check_device(device)?;
            self.pools.note_default(device);
            return Ok(Entered { managed: self, device, stream: None });
        }
        let held = self.streams.enter(stream)?;
        Ok(Entered { managed: self, device: held.device(), stream: Some(held) })
    }

    /// [`Managed::enter`] for a call that goes to the backend with the stream, and needs nothing of it here but
    /// its device: where the backend checks its streams, nothing is looked up and nothing kept alive.
    #[inline]
    fn pass(&self, device: Ordinal, stream: Stream) -> Result<Entered<'_, B>> {
        match self.backend.device_in_handle(stream) {
            Some(device) => Ok(Entered { managed: self, device, stream: None }),
            None => self.enter(device, stream),
        }
    }

    /// [`Managed::pass`] for a stream that is found where one looks first, as most are.
    #[inline(always)]
    fn pass_at_sight(&self, stream: Stream) -> Option<Entered<'_, B>> {
        if let Some(device) = self.backend.device_in_handle(stream) {
            return Some(Entered { managed: self, device, stream: None });
        }
        let held = self.streams.enter_at_sight(stream)?;
        Some(Entered { managed: self, device: held.device(), stream: Some(held) })
    }

    /// Destroys a stream natively that was destroyed while others used it; the last of them does.
    #[cold]
    fn destroy_late(&self, doomed: Doomed<'_>) {
        if let Err((doomed, _)) = self.destroy(doomed) {
            // The destroyer's call has long returned; there is nobody to report a failure to.
            doomed.vacate();
        }
    }

    /// Destroys a stream natively. What could not be destroyed comes back with the error.
    fn destroy<'a>(&self, doomed: Doomed<'a>) -> std::result::Result<(), (Doomed<'a>, Error)> {
        let live = doomed.live();
        // The user's values go first, and outside the lock: a destructor may still use the stream's.
        drop(self.streams.take_values(live.serial));
        let is_gone = live.is_gone.load(Ordering::Relaxed);
        self.depart(live, is_gone);
        if !is_gone {
            let (device, stream) = (live.device, live.stream);
            // SAFETY: it came from the backend's `create_stream` or `adopt_stream` on this device, it
            // was removed, and nobody is inside any more. The backend knows which of the two it was.
            let destroyed =
                self.on(device, |backend| unsafe { backend.destroy_stream(device, stream) });
            if let Err(error) = destroyed {
                self.arrive(stream, device, live.serial);
                return Err((doomed, error));
            }
        }
        doomed.vacate();
        Ok(())
    }

    /// Remembers a stream that the backend just made.
    fn keep_stream(&self, device: Ordinal, stream: Stream) -> Result<Stream> {
        self.streams.insert(stream, device).inspect_err(|_| {
            // SAFETY: the backend just made it, and nobody else knows it.
            let _ = self.on(device, |backend| unsafe { backend.destroy_stream(device, stream) });
        })?;
        self.note_stream(stream);
        Ok(stream)
    }

    /// Whether the backend has the operations of a capability itself.
    fn has(&self, group: Capabilities) -> bool {
        self.backend.capabilities().contains(group)
    }

    /// Refuses an operation that the backend does not have, before anything else is looked at.
    #[inline]
    fn require(&self, group: Capabilities, operation: &str) -> Result<()> {
        if self.has(group) { Ok(()) } else { Err(not_supported(operation)) }
    }

    /// What decides about copies on a device.
    #[inline]
    fn rules(&self, device: Ordinal) -> Rules<impl Fn(usize) -> Result<bool>> {
        Rules {
            owner: self.device_type,
            host_memory: self.host_memory,
            is_device_memory: move |address| self.backend.is_device_memory(device, address),
        }
    }

    /// Waits for a stream when every operation is asked to (S7).
    fn finish(&self, device: Ordinal, stream: Stream) -> Result<()> {
        if self.launch_blocking {
            // SAFETY: the caller holds the stream, and it is on this device.
            self.on(device, |backend| unsafe { backend.stream_synchronize(device, stream) })
        } else {
            Ok(())
        }
    }

    /// Refuses an enqueueing call that waits (S7) inside a host function.
    fn may_enqueue(&self) -> Result<()> {
        if self.launch_blocking { host_function::may_block() } else { Ok(()) }
    }
}

/// A call in progress on a stream: keeps the stream alive, and destroys it natively at the end when
/// another thread destroyed it meanwhile.
struct Entered<'a, B: RuntimeApi> {
    managed: &'a Managed<B>,
    device: Ordinal,
    stream: Option<Held<'a>>,
}

impl<B: RuntimeApi> Entered<'_, B> {
    /// Runs a call of the backend on the stream's device, if it has not failed.
    #[inline]
    fn on<T>(&self, call: impl FnOnce(&B) -> Result<T>) -> Result<T> {
        self.managed.lost.check(self.device)?;
        call(&self.managed.backend).map_err(|error| self.managed.lost.note(self.device, error))
    }

    /// What tells the stream from another with its handle; 0 for the default stream.
    fn serial(&self) -> u64 {
        self.stream.as_ref().map_or(0, |held| held.live().serial)
    }
}

impl<B: RuntimeApi> Drop for Entered<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if let Some(doomed) = self.stream.take().and_then(Held::leave) {
            self.managed.destroy_late(doomed);
        }
    }
}

impl<B: RuntimeApi> ForkAware for Managed<B> {
    fn prepare(&self) {
        self.streams.prepare();
        self.events.prepare();
        self.accounts.prepare();
        self.lost.prepare();
        self.pools.prepare();
        self.staging.prepare();
    }
    fn parent(&self) {
        self.streams.parent();
        self.events.parent();
        self.accounts.parent();
        self.lost.parent();
        self.pools.parent();
        self.staging.parent();
    }
    fn child(&self) {
        self.parent();
        self.staging.forget();
        self.pools.forget_work(self.host_memory);
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
        self.on(device, |backend| backend.set_device(device))?;
        if !self.host_memory {
            // From here on users may launch there without our knowing.
            self.pools.note_default(device);
        }
        Ok(())
    }

    fn device_synchronize(&self, device: Ordinal) -> Result<()> {
        host_function::may_block()?;
        self.on(device, |backend| backend.device_synchronize(device))
    }

    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        let stream = self.on(device, |backend| backend.create_stream(device))?;
        self.keep_stream(device, stream)
    }

    unsafe fn destroy_stream(&self, _: Ordinal, stream: Stream) -> Result<()> {
        if stream.is_default() {
            return Ok(());
        }
        let Some(doomed) = self.streams.remove(stream)?.leave() else { return Ok(()) };
        self.destroy(doomed).map_err(|(doomed, error)| {
            if error.status() == Status::DeviceLost {
                doomed.vacate();
            } else {
                // A failed call changes nothing: the stream can still be named.
                doomed.restore();
            }
            error
        })
    }

    #[inline]
    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()> {
        host_function::may_block()?;
        let entered = self.pass(device, stream)?;
        // SAFETY: `entered` keeps the stream alive where the backend needs that, and it is on this device.
        self.on(entered.device, |backend| unsafe {
            backend.stream_synchronize(entered.device, stream)
        })
    }

    #[inline]
    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        if let Some(pool) = self.pools.get(device) {
            self.lost.check(device)?;
            if let Some(pointer) = pool.take(size) {
                return Ok(pointer);
            }
        }
        self.allocate_device(device, size)
    }

    #[inline]
    unsafe fn free_device(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        if let Some(freed) = self.claim_pooled(pointer, About::DEVICE) {
            return self.free_pooled(freed);
        }
        self.free_unpooled(pointer)
    }

    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        if let Some(pool) = self.pools.pinned(device) {
            self.lost.check(device)?;
            if let Some(pointer) = pool.take(size) {
                return Ok(pointer);
            }
        }
        self.allocate_pinned(device, size)
    }

    unsafe fn free_host(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        if let Some(freed) = self.claim_pooled(pointer, About::HOST) {
            return self.free_pinned(freed);
        }
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
        let request = Request { dst, src, size, kind, flags };
        let Some(plan) = self.rules(device).plan(request)? else { return Ok(()) };
        // The copy belongs to the device whose memory it touches, whichever is current (D3).
        let device = plan.device.unwrap_or(device);
        if let Some(other) = plan.other_device {
            // SAFETY: the default stream always exists.
            self.on(other, |backend| unsafe {
                backend.stream_synchronize(other, Stream::DEFAULT)
            })?;
        }
        let _copying = self.pools.copying();
        // SAFETY: the plan is the request's; the default stream always exists.
        if let Some(staged) = unsafe { self.stage(device, Stream::DEFAULT, &request, &plan, true) }
        {
            return staged;
        }
        // SAFETY: the plan checked ranges, kind and overlap as far as the core knows the pointers;
        // for the rest the caller keeps `memcpy_sync`'s contract.
        self.on(device, |backend| unsafe {
            backend.memcpy_sync(device, dst, src, size, plan.kind, plan.flags)
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
        let request = Request { dst, src, size, kind, flags };
        // The commonest call has a way of its own, which is short: the driver has had the caches since
        // the last call, so what an enqueue costs here is how much code and how many tables it reads.
        if !self.launch_blocking
            && let Some(entered) = self.pass_at_sight(stream)
        {
            let device = entered.device;
            if let Some(flags) = self.rules(device).plan_at_sight(request) {
                // SAFETY: both ranges lie in live blocks of this backend and do not overlap; that they live
                // until the stream has passed is the caller's promise. `entered` is the stream's.
                return entered.on(|backend| unsafe {
                    backend.memcpy_async(device, dst, src, size, kind, stream, flags)
                });
            }
        }
        // SAFETY: the caller keeps `memcpy_async`'s contract.
        unsafe { self.enqueue_copy(device, request, stream) }
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        self.require(Capabilities::DEVICE_INFORMATION, "get_device_properties")?;
        self.on(device, |backend| backend.get_device_properties(device))
    }

    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        self.require(Capabilities::DEVICE_INFORMATION, "get_memory_info")?;
        self.on(device, |backend| backend.get_memory_info(device))
    }

    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        self.require(Capabilities::STREAM_QUERY, "stream_query")?;
        let entered = self.pass(device, stream)?;
        // SAFETY: `entered` keeps the stream alive where the backend needs that, and it is on this device.
        self.on(entered.device, |backend| unsafe { backend.stream_query(entered.device, stream) })
    }

    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        self.require(Capabilities::HOST_FUNCTIONS, "launch_host_function")?;
        self.may_enqueue()?;
        let entered = self.pass(device, stream)?;
        let device = entered.device;
        let packed = Call::pack(function, data);
        // SAFETY: `entered` is the stream's, which is on this device; `Call::run` with this
        // argument is what the caller allowed.
        let launched = self.on(device, |backend| unsafe {
            backend.launch_host_function(device, stream, Call::run, packed)
        });
        if let Err(error) = launched {
            // SAFETY: the backend did not accept the call, so nobody will run it.
            unsafe { Call::discard(packed) };
            return Err(error);
        }
        // The function was accepted and will run, so its data is no longer the caller's: a failure of
        // the wait must not say otherwise. The next call on the device reports it.
        let _ = self.finish(device, stream);
        Ok(())
    }

    fn is_device_memory(&self, device: Ordinal, address: usize) -> Result<bool> {
        self.require(Capabilities::POINTER_QUERY, "is_device_memory")?;
        match pointers::find(address) {
            Some(block) if block.owner == self.device_type => Ok(block.kind.is_device()),
            _ => self.on(device, |backend| backend.is_device_memory(device, address)),
        }
    }

    // Devices and their links.

    fn get_peer_link(&self, device: Ordinal, peer: Ordinal) -> Result<LlaisysPeerLink> {
        self.require(Capabilities::PEERS, "get_peer_link")?;
        self.check_device(peer)?;
        if device == peer {
            self.check_device(device)?;
            let link = LlaisysPeerLink {
                can_access: 1,
                enabled: 1,
                native_atomics: 1,
                ..LlaisysPeerLink::staged()
            };
            return Ok(LlaisysPeerLink { kind: LINK_SAME_DEVICE, ..link });
        }
        self.on(device, |backend| backend.get_peer_link(device, peer))
    }

    fn enable_peer_access(&self, device: Ordinal, peer: Ordinal) -> Result<()> {
        self.require(Capabilities::PEERS, "enable_peer_access")?;
        self.check_device(peer)?;
        if device == peer {
            let message = format!("device {device} reaches its own memory already");
            return Err(Error::new(Status::InvalidValue, message));
        }
        self.on(device, |backend| backend.enable_peer_access(device, peer))
    }

    // Streams of other kinds.

    fn create_stream_with(
        &self,
        device: Ordinal,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<Stream> {
        self.require(Capabilities::STREAM_OPTIONS, "create_stream_with")?;
        let stream =
            self.on(device, |backend| backend.create_stream_with(device, flags, priority))?;
        self.keep_stream(device, stream)
    }

    fn get_stream_priority_range(&self, device: Ordinal) -> Result<PriorityRange> {
        self.require(Capabilities::STREAM_OPTIONS, "get_stream_priority_range")?;
        self.on(device, |backend| backend.get_stream_priority_range(device))
    }

    unsafe fn adopt_stream(&self, native: *mut c_void) -> Result<Ordinal> {
        self.require(Capabilities::FOREIGN_STREAMS, "adopt_stream")?;
        let stream = Stream(native);
        if stream.is_default() {
            let message = "NULL is the default stream of the current device; it is there already";
            return Err(Error::new(Status::InvalidValue, message));
        }
        if let Ok(device) = self.streams.device_of(stream) {
            return Ok(device);
        }
        // SAFETY: the caller says that it is a live native stream.
        let device = unsafe { self.backend.adopt_stream(native) }?;
        self.streams.adopt(stream, device)?;
        self.note_stream(stream);
        Ok(device)
    }

    fn get_stream_device(&self, stream: Stream) -> Result<Ordinal> {
        self.streams.device_of(stream)
    }

    // Events: see `managed/events`.

    fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        self.require(Capabilities::EVENTS, "create_event")?;
        self.make_event(device, flags)
    }

    unsafe fn destroy_event(&self, _: Ordinal, event: Event) -> Result<()> {
        self.require(Capabilities::EVENTS, "destroy_event")?;
        self.remove_event(event)
    }

    unsafe fn record_event(&self, device: Ordinal, event: Event, stream: Stream) -> Result<()> {
        self.require(Capabilities::EVENTS, "record_event")?;
        self.record(device, event, stream)
    }

    unsafe fn stream_wait_event(
        &self,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        self.require(Capabilities::EVENTS, "stream_wait_event")?;
        self.wait_in_stream(device, stream, event)
    }

    #[inline]
    unsafe fn event_query(&self, _: Ordinal, event: Event) -> Result<bool> {
        match self.events.is_known_reached(event) {
            Ok(true) => Ok(true),
            Ok(false) => self.ask_event(event),
            Err(unknown) => {
                Err(self.require(Capabilities::EVENTS, "event_query").err().unwrap_or(unknown))
            }
        }
    }

    unsafe fn event_synchronize(&self, _: Ordinal, event: Event) -> Result<()> {
        self.require(Capabilities::EVENTS, "event_synchronize")?;
        self.wait_for_event(event)
    }

    unsafe fn event_elapsed(&self, _: Ordinal, start: Event, end: Event) -> Result<i64> {
        self.require(Capabilities::EVENTS, "event_elapsed")?;
        self.elapsed(start, end)
    }

    fn get_native_event(&self, event: Event) -> Result<*mut c_void> {
        self.require(Capabilities::EVENTS, "get_native_event")?;
        self.in_event(event, |call| Ok(call.native.0))
    }

    // Memory of other kinds: see `managed/memory`.

    unsafe fn malloc_async(
        &self,
        device: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        self.allocate_on_stream(device, size, stream)
    }

    unsafe fn free_async(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        self.free_on_stream(device, pointer, stream)
    }

    fn malloc_managed(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.require(Capabilities::MANAGED_MEMORY, "malloc_managed")?;
        self.allocate(device, size, MemoryKind::Managed, |backend| {
            backend.malloc_managed(device, size)
        })
    }

    unsafe fn free_managed(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.require(Capabilities::MANAGED_MEMORY, "free_managed")?;
        self.free(pointer, MemoryKind::Managed, |backend, device| {
            // SAFETY: `free` claimed the block, so the backend made it and it is freed once.
            unsafe { backend.free_managed(device, pointer) }
        })
    }

    unsafe fn prefetch_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        location: i32,
        stream: Stream,
    ) -> Result<()> {
        self.require(Capabilities::MANAGED_MEMORY, "prefetch_managed")?;
        if size == 0 {
            return Ok(());
        }
        self.check_managed_range(pointer, size)?;
        self.check_location(location)?;
        self.on_stream(device, stream, |backend, device| {
            // SAFETY: the range was checked; `on_stream` keeps the stream alive.
            unsafe { backend.prefetch_managed(device, pointer, size, location, stream) }
        })
    }

    unsafe fn advise_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        advice: MemoryAdvice,
        location: i32,
    ) -> Result<()> {
        self.require(Capabilities::MANAGED_MEMORY, "advise_managed")?;
        if size == 0 {
            return Ok(());
        }
        self.check_managed_range(pointer, size)?;
        self.check_location(location)?;
        // SAFETY: the range was checked.
        self.on(device, |backend| unsafe {
            backend.advise_managed(device, pointer, size, advice, location)
        })
    }

    unsafe fn register_host(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        self.require(Capabilities::HOST_REGISTRATION, "register_host")?;
        // SAFETY: the caller keeps `register_host`'s contract.
        unsafe { self.register(device, pointer, size) }
    }

    unsafe fn unregister_host(&self, _: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.require(Capabilities::HOST_REGISTRATION, "unregister_host")?;
        self.free(pointer, MemoryKind::Registered, |backend, device| {
            // SAFETY: `free` claimed the block, so it is registered and is unregistered once.
            unsafe { backend.unregister_host(device, pointer) }
        })
    }

    fn get_pointer_attributes(&self, address: usize) -> Result<LlaisysPointerAttributes> {
        self.attributes(address)
    }

    // Fills and other copies: see `managed/copies`.

    #[inline]
    unsafe fn memset_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        // As in `memcpy_async`: a short way for the commonest call.
        if !self.launch_blocking
            && self.has(Capabilities::FILL)
            && let Some(entered) = self.pass_at_sight(stream)
        {
            let device = entered.device;
            if self.is_plain_fill(dst, pattern, size) {
                // SAFETY: the range is device memory of this backend; `entered` is the stream's.
                return entered.on(|backend| unsafe {
                    backend.memset_async(device, dst, pattern.shortest(), size, stream)
                });
            }
        }
        // SAFETY: the caller keeps `memset_async`'s contract.
        unsafe { self.fill(device, dst, pattern, size, stream) }
    }

    unsafe fn memset_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
    ) -> Result<()> {
        host_function::may_block()?;
        let device = self.device_of(dst).unwrap_or(device);
        // SAFETY: the caller keeps `memset_sync`'s contract; the default stream always exists.
        unsafe {
            self.fill(device, dst, pattern, size, Stream::DEFAULT)?;
            self.stream_synchronize(device, Stream::DEFAULT)
        }
    }

    unsafe fn memcpy_3d_async(
        &self,
        device: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller keeps `memcpy_3d_async`'s contract.
        unsafe { self.copy_3d(device, copy, stream, flags) }
    }

    unsafe fn memcpy_3d_sync(&self, device: Ordinal, copy: &LlaisysCopy3D) -> Result<()> {
        host_function::may_block()?;
        let (reads, writes) = (self.device_of(copy.src), self.device_of(copy.dst));
        let device = writes.or(reads).unwrap_or(device);
        if let Some(other) = reads.filter(|other| *other != device) {
            // Ordered after the earlier work of both devices, as `memcpy_sync` is.
            // SAFETY: the default stream always exists.
            unsafe { self.stream_synchronize(other, Stream::DEFAULT) }?;
        }
        // SAFETY: the caller keeps `memcpy_3d_sync`'s contract; the default stream always exists, and
        // waiting for it keeps host memory valid for as long as the copy runs.
        unsafe {
            self.copy_3d(device, copy, Stream::DEFAULT, CopyFlags::HOST_BUFFER_PROMISED)?;
            self.stream_synchronize(device, Stream::DEFAULT)
        }
    }

    unsafe fn memcpy_batch_async(
        &self,
        device: Ordinal,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the caller keeps `memcpy_batch_async`'s contract.
        unsafe { self.copy_batch(device, ranges, kind, stream, flags) }
    }

    // Accounting.

    fn get_reserved_memory(&self, device: Ordinal) -> Result<u64> {
        self.get_memory_statistics(device).map(|statistics| statistics.reserved_bytes)
    }

    fn trim_memory(&self, device: Ordinal, keep: u64) -> Result<()> {
        self.check_device(device)?;
        if let Some(pool) = self.pools.get(device) {
            pool.trim(usize::try_from(keep).unwrap_or(usize::MAX), self);
        }
        if let Some(pool) = self.pools.pinned(device) {
            pool.trim(usize::try_from(keep).unwrap_or(usize::MAX), self);
        }
        if self.has(Capabilities::MEMORY_POOL) {
            self.on(device, |backend| backend.trim_memory(device, keep))
        } else {
            Ok(())
        }
    }

    fn get_memory_statistics(&self, device: Ordinal) -> Result<LlaisysMemoryStatistics> {
        self.check_device(device)?;
        let reserved = if self.has(Capabilities::MEMORY_POOL) {
            self.on(device, |backend| backend.get_reserved_memory(device))?
        } else {
            self.pools.get(device).map_or(0, |pool| pool.reserved() as u64)
        };
        Ok(self.accounts.device(device)?.statistics(reserved))
    }

    fn get_stream_memory_statistics(
        &self,
        device: Ordinal,
        stream: Stream,
    ) -> Result<LlaisysMemoryStatistics> {
        let entered = self.enter(device, stream)?;
        self.check_device(entered.device)?;
        Ok(match &entered.stream {
            Some(held) => held.live().account.statistics(0),
            None => self.accounts.default_stream(entered.device)?.statistics(0),
        })
    }

    fn reset_peak_memory(&self, device: Ordinal) -> Result<()> {
        self.check_device(device)?;
        self.accounts.device(device)?.reset_peak();
        Ok(())
    }

    fn set_memory_limit(&self, device: Ordinal, limit: u64) -> Result<()> {
        self.check_device(device)?;
        self.accounts.device(device)?.set_limit(limit);
        Ok(())
    }

    unsafe fn set_out_of_memory_callback(
        &self,
        callback: Option<OutOfMemoryCallback>,
        data: *mut c_void,
    ) -> Result<()> {
        self.accounts.set_callback(callback, data);
        Ok(())
    }

    // Users' values: see `managed/user_slots`.

    unsafe fn set_thread_slot(
        &self,
        device: Ordinal,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Result<()> {
        self.keep_for_thread(device, key, value, destructor)
    }

    fn get_thread_slot(&self, device: Ordinal, key: u64) -> Result<*mut c_void> {
        self.kept_for_thread(device, key)
    }

    unsafe fn set_stream_slot(
        &self,
        stream: Stream,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Result<()> {
        self.keep_for_stream(stream, key, value, destructor)
    }

    fn get_stream_slot(&self, stream: Stream, key: u64) -> Result<*mut c_void> {
        self.kept_for_stream(stream, key)
    }

    fn get_operation_support(&self, operation: &str) -> Result<Support> {
        let Some(entry) = entries::find(operation) else {
            let message = format!("`{operation}` is the name of no entry of the table");
            return Err(Error::new(Status::InvalidValue, message));
        };
        Ok(match entry.role {
            Role::Required | Role::Core => Support::Native,
            Role::Optional(group) | Role::Emulated(group) if self.has(group) => Support::Native,
            Role::Emulated(_) => Support::Emulated,
            Role::Optional(_) => Support::Unsupported,
        })
    }
}
