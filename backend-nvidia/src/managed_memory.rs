//! Managed memory: one address for the host and every device, moved by the driver as it is used.
//!
//! Rules: no more of it is handed out than the card has room for. The driver would, and pages then move
//! to and fro until the machine does nothing else; and it counts a page as taken only once it lies on the
//! card, so what is handed out is counted here. Places are told by a device before CUDA 13 and by a
//! location since; the older entry points stay in the driver, so they are what is taken without the newer.

use crate::call::cu;
use crate::device::{Device, device};
use crate::driver::driver;
use crate::errors::{self, INVALID_DEVICE, SUCCESS};
use crate::newer::Location;
use crate::streams::native;
use cust::sys::{self, CUdevice, CUdeviceptr};
use llaisys_runtime_core::api::{LOCATION_HOST, MemoryAdvice, Ordinal, Stream};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// `CU_DEVICE_CPU`: the host, where the older entry points want a device.
const CPU: CUdevice = -1;

/// The managed blocks that were made for a device, with their sizes.
pub(crate) struct ManagedBlocks(Mutex<BTreeMap<CUdeviceptr, usize>>);

fn bytes(blocks: &BTreeMap<CUdeviceptr, usize>) -> u64 {
    blocks.values().map(|&size| size as u64).sum()
}

impl ManagedBlocks {
    /// No blocks yet.
    pub(crate) const fn new() -> ManagedBlocks {
        ManagedBlocks(Mutex::new(BTreeMap::new()))
    }

    /// Bytes that are handed out.
    pub(crate) fn held(&self) -> u64 {
        bytes(&self.0.lock())
    }
}

impl Device {
    /// Whether the device has managed memory.
    pub(crate) fn has_managed_memory(&self) -> bool {
        use sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY as MANAGED;
        self.attribute(MANAGED).unwrap_or_default() != 0
    }

    /// Allocates managed memory, every stream and the host may use it at once.
    pub(crate) fn allocate_managed(&self, size: usize) -> Result<*mut c_void> {
        if !self.has_managed_memory() {
            let message = format!("device {} has no managed memory", self.ordinal);
            return Err(Error::new(Status::NotSupported, message));
        }
        let _entered = self.enter()?;
        // Held over the call, so that two callers do not get the same room.
        let mut blocks = self.managed.0.lock();
        let room = self.room_for_managed(bytes(&blocks))?;
        if size as u64 > room {
            let message = format!(
                "allocate {size} bytes of managed memory on device {}: there is room for {room} bytes",
                self.ordinal
            );
            return Err(Error::new(Status::OutOfMemory, message));
        }
        let global = sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL as u32;
        let mut address: CUdeviceptr = 0;
        // SAFETY: `address` is writable; the device's context is entered.
        let code = unsafe { cu!(cuMemAllocManaged(&mut address, size, global)) };
        errors::check(code, || {
            format!("allocate {size} bytes of managed memory on device {}", self.ordinal)
        })?;
        blocks.insert(address, size);
        Ok(address as usize as *mut c_void)
    }

    /// What is free on the card, less what of the managed memory may still come there.
    fn room_for_managed(&self, managed: u64) -> Result<u64> {
        let (free, total) = self.free_and_total()?;
        let ours = managed.saturating_add(self.plain_reserved());
        Ok(free.min(total.saturating_sub(ours)))
    }

    /// Frees managed memory.
    ///
    /// # Safety
    /// - `pointer` came from [`Device::allocate_managed`] of this device and is not freed; nothing uses
    ///   it.
    pub(crate) unsafe fn free_managed(&self, pointer: *mut c_void) -> Result<()> {
        let _entered = self.enter()?;
        let address = pointer as usize as CUdeviceptr;
        // SAFETY: the caller hands over an allocation of the driver's.
        let code = unsafe { cu!(cuMemFree_v2(address)) };
        errors::check(code, || {
            format!("free managed memory at {pointer:p} on device {}", self.ordinal)
        })?;
        self.managed.0.lock().remove(&address);
        Ok(())
    }

    /// Moves managed memory to a device, or to the host, in the order of a stream.
    ///
    /// # Safety
    /// - As for `RuntimeApi::prefetch_managed`.
    pub(crate) unsafe fn prefetch(
        &self,
        pointer: *mut c_void,
        size: usize,
        place: Ordinal,
        stream: Stream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        let (address, on) = (pointer as usize as CUdeviceptr, native(stream));
        let handle = handle_of(place)?;
        // SAFETY: the caller vouches for the range and the stream.
        let code = unsafe {
            match driver()?.newer.prefetch {
                Some(prefetch) => prefetch(address, size, location_of(handle), 0, on),
                None => cu!(cuMemPrefetchAsync(address, size, handle, on)),
            }
        };
        told(code, || {
            let at = self.of_stream("in", stream);
            format!("move {size} bytes of managed memory at {pointer:p} to {} {at}", name(place))
        })
    }

    /// Tells the driver how managed memory will be used.
    ///
    /// # Safety
    /// - As for `RuntimeApi::advise_managed`.
    pub(crate) unsafe fn advise(
        &self,
        pointer: *mut c_void,
        size: usize,
        advice: MemoryAdvice,
        place: Ordinal,
    ) -> Result<()> {
        let _entered = self.enter()?;
        let address = pointer as usize as CUdeviceptr;
        let handle = handle_of(place)?;
        // SAFETY: the caller vouches for the range.
        let code = unsafe {
            match driver()?.newer.advise {
                Some(advise) => advise(address, size, advice as u32, location_of(handle)),
                None => cu!(cuMemAdvise(address, size, older(advice), handle)),
            }
        };
        told(code, || {
            let place = name(place);
            format!("advise {advice:?} for {size} bytes of managed memory at {pointer:p}, {place}")
        })
    }
}

/// The driver's number of a place.
fn handle_of(place: Ordinal) -> Result<CUdevice> {
    if place == LOCATION_HOST { Ok(CPU) } else { Ok(device(place)?.handle) }
}

fn location_of(handle: CUdevice) -> Location {
    if handle == CPU { Location::HOST } else { Location::device(handle) }
}

fn older(advice: MemoryAdvice) -> sys::CUmem_advise {
    use sys::CUmem_advise_enum as Advice;
    match advice {
        MemoryAdvice::SetReadMostly => Advice::CU_MEM_ADVISE_SET_READ_MOSTLY,
        MemoryAdvice::UnsetReadMostly => Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY,
        MemoryAdvice::SetPreferredLocation => Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
        MemoryAdvice::UnsetPreferredLocation => Advice::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
        MemoryAdvice::SetAccessedBy => Advice::CU_MEM_ADVISE_SET_ACCESSED_BY,
        MemoryAdvice::UnsetAccessedBy => Advice::CU_MEM_ADVISE_UNSET_ACCESSED_BY,
    }
}

/// Success, or the failure. A device on which the driver does not move pages while the host uses others
/// (`CONCURRENT_MANAGED_ACCESS` is 0) is refused as no device at all; that is put right here.
fn told(code: i32, asked: impl FnOnce() -> String) -> Result<()> {
    match code {
        SUCCESS => Ok(()),
        INVALID_DEVICE => {
            let failure = errors::failure(code, &asked());
            let message =
                format!("{} (the device does not move pages on request)", failure.message());
            Err(Error::new(Status::NotSupported, message)
                .with_native(code.into(), errors::name(code)))
        }
        code => Err(errors::failure(code, &asked())),
    }
}

#[cold]
fn name(place: Ordinal) -> String {
    if place == LOCATION_HOST { "the host".to_owned() } else { format!("device {place}") }
}
