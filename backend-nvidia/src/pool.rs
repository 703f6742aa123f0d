//! Device memory: one private pool per device.
//!
//! Rules (contract M4): a free does not stall the device, and freed memory is not handed out before
//! work enqueued earlier is done. `cuMemFree` stalls. A pool's free on the default stream does not,
//! but it ties the blocking streams together: what they are given later waits for it. So a free is
//! enqueued on a private stream that waits for a mark of each stream that has work (see `marks`). The
//! pool hands a block out again once its free has passed: reuse that inserts a dependency is off,
//! opportunistic reuse is on.
//!
//! ```text
//!   allocate:  cuMemAllocFromPoolAsync on a private non-blocking stream that never has other
//!              work, then wait for it: at return every stream of every device may use the memory
//!   free:      marks ─▶ cuStreamWaitEvent, cuMemFreeAsync on another private non-blocking stream
//!   in order:  cuMemAllocFromPoolAsync, cuMemFreeAsync on the caller's stream
//! ```
//!
//! All of it is memory of one pool, so memory of either kind may be freed either way.
//!
//! The pool is ours alone, so no setting of the application's own pool is touched, and memory that
//! is free stays in it (a release threshold without limit) until the device runs out.

use crate::call::cu;
use crate::device::Device;
use crate::driver::{Driver, driver};
use crate::errors::{self, OUT_OF_MEMORY, SUCCESS};
use crate::marks;
use crate::streams::native;
use cust::sys::{
    self, CUdeviceptr, CUmemAccessDesc, CUmemLocation, CUmemPool_attribute, CUmemPoolProps,
    CUmemoryPool, CUstream,
};
use llaisys_runtime_core::api::Stream;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::{c_int, c_void};

/// The stream flag of a stream that is not ordered with the default stream.
const NON_BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;

/// A device's pool and its two private streams. They live as long as the process.
pub(crate) struct Pool {
    handle: CUmemoryPool,
    /// Where it allocates; never has other work.
    allocations: CUstream,
    /// Where it frees; has to wait for whatever came before.
    frees: CUstream,
}

// SAFETY: all are handles that the driver lets every thread use; nothing is read through them
// here.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Device {
    /// Allocates memory that every stream may use at once.
    pub(crate) fn allocate(&self, size: usize) -> Result<*mut c_void> {
        let _entered = self.enter()?;
        let pool = self.pool()?;
        self.allocate_by(pool, size, || self.try_allocate(pool, size))
    }

    /// Allocates memory that a stream may use from here on; where the device has no pool, memory that
    /// every stream may use.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of this device.
    pub(crate) unsafe fn allocate_in_order(
        &self,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        let _entered = self.enter()?;
        let Some(pool) = self.pool()? else { return self.allocate(size) };
        self.allocate_by(Some(pool), size, || {
            let mut address: CUdeviceptr = 0;
            let on = native(stream);
            // SAFETY: `address` is writable; the pool is live and the caller vouches for the stream.
            match unsafe { cu!(cuMemAllocFromPoolAsync(&mut address, size, pool.handle, on)) } {
                SUCCESS => Ok(address),
                code => Err(code),
            }
        })
    }

    /// Allocates by `try_once`, which answers the driver's code on failure; what is cached is given up
    /// before anyone is told that there is no room (E4). The device's context is entered.
    fn allocate_by(
        &self,
        pool: Option<&Pool>,
        size: usize,
        try_once: impl Fn() -> std::result::Result<CUdeviceptr, i32>,
    ) -> Result<*mut c_void> {
        let mut code = try_once();
        if matches!(code, Err(OUT_OF_MEMORY)) && size as u64 <= self.total_memory()? {
            // First what is free now, then what is still waiting for earlier work.
            for wait in [false, true] {
                if matches!(code, Err(OUT_OF_MEMORY)) {
                    self.reclaim(pool, wait);
                    code = try_once();
                }
            }
        }
        match code {
            Ok(address) => Ok(address as usize as *mut c_void),
            Err(OUT_OF_MEMORY) => Err(self.out_of_memory(size)),
            Err(code) => Err(errors::failure(
                code,
                &format!("allocate {size} bytes on device {}", self.ordinal),
            )),
        }
    }

    /// Frees memory once what was enqueued before is done; does not wait.
    ///
    /// # Safety
    /// - `pointer` came from [`Device::allocate`] or [`Device::allocate_in_order`] of this device and is
    ///   not freed.
    pub(crate) unsafe fn free(&self, pointer: *mut c_void) -> Result<()> {
        let _entered = self.enter()?;
        let address = pointer as usize as CUdeviceptr;
        let Some(pool) = self.pool()? else {
            self.unpooled.free(address);
            return Ok(());
        };
        for mark in marks::of_all_devices()? {
            mark.hold_up(pool.frees)?;
        }
        // SAFETY: the caller hands over an allocation of this pool; the stream is live.
        let code = unsafe { cu!(cuMemFreeAsync(address, pool.frees)) };
        errors::check(code, || format!("free {pointer:p} on device {}", self.ordinal))
    }

    /// Frees memory in the order of a stream.
    ///
    /// # Safety
    /// - As for [`Device::free`]; other streams are done with the memory when `stream` gets there.
    /// - `stream` is NULL or a live stream of this device.
    pub(crate) unsafe fn free_in_order(&self, pointer: *mut c_void, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        let address = pointer as usize as CUdeviceptr;
        if self.pool()?.is_none() {
            self.unpooled.free(address);
            return Ok(());
        }
        // SAFETY: the caller hands over an allocation of this pool and vouches for the stream.
        let code = unsafe { cu!(cuMemFreeAsync(address, native(stream))) };
        errors::check(code, || self.of_stream(&format!("free {pointer:p} in"), stream))
    }

    /// Bytes that are held from the driver, used or cached; asks nothing of a device that was not used
    /// (D4).
    pub(crate) fn reserved(&self) -> u64 {
        self.plain_reserved() + self.managed.held()
    }

    /// [`Device::reserved`] without managed memory.
    pub(crate) fn plain_reserved(&self) -> u64 {
        let pool = self.pool.get().and_then(Option::as_ref);
        pool.map_or(0, Pool::reserved) + self.unpooled.held()
    }

    /// Gives back what is cached until at most `keep` bytes are. Does not wait: what has not passed its
    /// stream yet stays.
    pub(crate) fn trim(&self, keep: u64) -> Result<()> {
        if self.context.get().is_none() {
            return Ok(());
        }
        let _entered = self.enter()?;
        let Some(Some(pool)) = self.pool.get() else {
            if self.unpooled.freed() > keep {
                self.unpooled.release_when_idle();
            }
            return Ok(());
        };
        // A free counts once the host has seen that its stream passed it. Where nothing else is pending that
        // is a moment's wait.
        // SAFETY: the stream is live.
        unsafe {
            if cu!(cuStreamQuery(pool.frees)) == SUCCESS || marks::all_are_idle() {
                let _told_by_the_next_call = cu!(cuStreamSynchronize(pool.frees));
            }
        }
        let keep = usize::try_from(pool.used().saturating_add(keep)).unwrap_or(usize::MAX);
        // SAFETY: the pool is live.
        let code = unsafe { cu!(cuMemPoolTrimTo(pool.handle, keep)) };
        errors::check(code, || format!("trim the memory pool of device {}", self.ordinal))
    }

    /// The device's pool, made by the first caller; `None` when the device (or the driver on it)
    /// has none.
    fn pool(&self) -> Result<Option<&Pool>> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool.as_ref());
        }
        let driver = driver()?;
        let _setup = driver.setup.lock();
        self.pool.get_or_try_init(|| Pool::make(driver, self)).map(Option::as_ref)
    }

    fn try_allocate(
        &self,
        pool: Option<&Pool>,
        size: usize,
    ) -> std::result::Result<CUdeviceptr, i32> {
        let Some(pool) = pool else { return self.unpooled.allocate(size) };
        let mut address: CUdeviceptr = 0;
        // SAFETY: `address` is writable; pool and stream are live and belong together.
        let code = unsafe {
            cu!(cuMemAllocFromPoolAsync(&mut address, size, pool.handle, pool.allocations))
        };
        let code = if code == SUCCESS { pool.settle(address) } else { code };
        if code == SUCCESS { Ok(address) } else { Err(code) }
    }

    /// Gives back to the device what is free in its pool; with `wait`, also what frees under way
    /// will leave there.
    #[cold]
    fn reclaim(&self, pool: Option<&Pool>, wait: bool) {
        if wait {
            marks::wait();
        }
        match pool {
            // SAFETY: pool and stream are live.
            Some(pool) => unsafe {
                if wait {
                    let _told_by_the_next_call = cu!(cuStreamSynchronize(pool.frees));
                }
                let _told_by_the_next_call = cu!(cuMemPoolTrimTo(pool.handle, 0));
            },
            None if wait => self.unpooled.release(),
            None => {}
        }
    }

    #[cold]
    fn out_of_memory(&self, size: usize) -> Error {
        let room = self.free_and_total().map_or_else(
            |_| "how much is free could not be asked".to_owned(),
            |(free, total)| format!("{free} of its {total} bytes are free"),
        );
        errors::failure(
            OUT_OF_MEMORY,
            &format!("allocate {size} bytes on device {} ({room})", self.ordinal),
        )
    }
}

impl Pool {
    /// Makes a device's pool. `driver.setup` is held, and the device's context is entered.
    fn make(driver: &Driver, device: &Device) -> Result<Option<Pool>> {
        use sys::CUmemPool_attribute_enum as Attribute;
        if !device.has_pools() {
            return Ok(None);
        }
        // SAFETY: all-zero is a valid value: every enum in it has a variant 0 and the rest are
        // integers and a pointer.
        let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = location(device);
        let asked = || format!("make a memory pool on device {}", device.ordinal);
        let mut handle: CUmemoryPool = std::ptr::null_mut();
        // SAFETY: both are valid for the call.
        let code = unsafe { cu!(cuMemPoolCreate(&mut handle, &properties)) };
        if errors::status(code) == Status::NotSupported {
            // Some virtual GPUs say that they have pools and have none.
            return Ok(None);
        }
        errors::check(code, asked)?;
        let mut streams: [CUstream; 2] = [std::ptr::null_mut(); 2];
        for stream in &mut streams {
            // SAFETY: `stream` is writable; the device's context is entered.
            let code = unsafe { cu!(cuStreamCreate(stream, NON_BLOCKING)) };
            if code != SUCCESS {
                // SAFETY: nothing was allocated from the pool yet.
                let _the_first_failure_counts = unsafe { cu!(cuMemPoolDestroy(handle)) };
                return Err(errors::failure(code, &asked()));
            }
        }
        let [allocations, frees] = streams;
        let pool = Pool { handle, allocations, frees };
        pool.set::<u64>(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
        pool.set::<c_int>(Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
        pool.set::<c_int>(Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1);
        for other in &driver.devices {
            if other.context.get().is_some() {
                pool.admit(device, other);
            }
        }
        Ok(Some(pool))
    }

    /// Sets an attribute whose C type is `T`. A driver that refuses one still gives right results,
    /// only slower.
    fn set<T>(&self, attribute: CUmemPool_attribute, mut value: T) {
        let value: *mut T = &mut value;
        // SAFETY: the pool is live, and `value` has the type that the attribute is documented with.
        let _works_without =
            unsafe { cu!(cuMemPoolSetAttribute(self.handle, attribute, value.cast())) };
    }

    /// Lets `peer` read and write the pool of `owner`, where there is a path: copies between the
    /// two then take it.
    ///
    /// Called only for a peer that is in use: access for a device that nobody uses would be its
    /// first use (D4).
    pub(crate) fn admit(&self, owner: &Device, peer: &Device) {
        if owner.ordinal == peer.ordinal {
            return;
        }
        if !peer.can_reach(owner).unwrap_or(false) {
            return;
        }
        let access = CUmemAccessDesc {
            location: location(peer),
            flags: sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the pool is live, and one descriptor is given. Without access a copy is staged
        // (see `copies`).
        let _staged_without = unsafe { cu!(cuMemPoolSetAccess(self.handle, &access, 1)) };
    }

    /// Waits until an allocation is usable from every stream; gives it back when that fails.
    fn settle(&self, address: CUdeviceptr) -> i32 {
        // SAFETY: the stream is live.
        let code = unsafe { cu!(cuStreamSynchronize(self.allocations)) };
        if code != SUCCESS {
            // SAFETY: the address was just allocated on this stream and is known to nobody else.
            let _the_first_failure_counts =
                unsafe { cu!(cuMemFreeAsync(address, self.allocations)) };
        }
        code
    }

    /// Bytes that the pool holds and has not handed out.
    pub(crate) fn unused(&self) -> u64 {
        self.reserved().saturating_sub(self.used())
    }

    /// Bytes that the pool holds.
    fn reserved(&self) -> u64 {
        self.bytes(sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }

    /// Bytes that are handed out.
    fn used(&self) -> u64 {
        self.bytes(sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    /// An attribute that is documented as a 64-bit number of bytes; 0 from a driver that does not count
    /// them (before 11.3).
    fn bytes(&self, attribute: CUmemPool_attribute) -> u64 {
        let mut bytes: u64 = 0;
        let value: *mut u64 = &mut bytes;
        // SAFETY: the pool is live, and `value` has room for 64 bits.
        let code = unsafe { cu!(cuMemPoolGetAttribute(self.handle, attribute, value.cast())) };
        if code == SUCCESS { bytes } else { 0 }
    }
}

/// A device as the place of memory, or of those who may reach it.
fn location(device: &Device) -> CUmemLocation {
    CUmemLocation {
        type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.handle,
    }
}
