//! One device: its ordinal, the driver's handle for it, and what is made for it at its first real
//! use.
//!
//! Rule: finding a device and asking what it is makes no context (contract D4). Ordinals are the
//! driver's (D6).

use crate::backend::Nvidia;
use crate::call::cu;
use crate::context::Context;
use crate::cudart;
use crate::driver::{Driver, driver};
use crate::errors::{self, SUCCESS};
use crate::managed_memory::ManagedBlocks;
use crate::marks::Streams;
use crate::pool::Pool;
use crate::unpooled::Unpooled;
use cust::sys::{self, CUdevice, CUdevice_attribute};
use llaisys_runtime_core::api::{
    Capabilities, LlaisysDeviceProperties, LlaisysMemoryInfo, Ordinal, UNKNOWN_BYTES, write_text,
};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use once_cell::sync::OnceCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::AtomicBool;

/// A device of the driver.
pub(crate) struct Device {
    /// The device's number, here and in the driver.
    pub(crate) ordinal: Ordinal,
    /// The driver's handle.
    pub(crate) handle: CUdevice,
    /// The primary context, once the device was really used. A failure is not kept: a device that
    /// another process has filled may have room later.
    pub(crate) context: OnceCell<Context>,
    /// The pool that its memory comes from; `None` inside when the device has none.
    pub(crate) pool: OnceCell<Option<Pool>>,
    /// The streams on it.
    pub(crate) streams: Streams,
    /// What a device without a pool uses instead.
    pub(crate) unpooled: Unpooled,
    /// The managed memory that was made for it.
    pub(crate) managed: ManagedBlocks,
    /// Whether access to the memory of the device with this ordinal was switched on here.
    pub(crate) reaches: Box<[AtomicBool]>,
}

/// The device with this ordinal.
///
/// # Errors
/// Why there is no driver, or `INVALID_DEVICE`.
#[inline]
pub(crate) fn device(ordinal: Ordinal) -> Result<&'static Device> {
    let driver = driver()?;
    let found = usize::try_from(ordinal).ok().and_then(|index| driver.devices.get(index));
    found.ok_or_else(|| unknown(driver, ordinal))
}

#[cold]
fn unknown(driver: &Driver, ordinal: Ordinal) -> Error {
    Error::new(
        Status::InvalidDevice,
        format!("device {ordinal} is not one of 0..{}", driver.devices.len()),
    )
}

impl Device {
    /// The device with this ordinal, one of `count`, not yet used.
    pub(crate) fn find(ordinal: Ordinal, count: i32) -> Result<Device> {
        let mut handle: CUdevice = 0;
        // SAFETY: `handle` is writable.
        errors::check(unsafe { cu!(cuDeviceGet(&mut handle, ordinal)) }, || {
            format!("find device {ordinal}")
        })?;
        Ok(Device {
            ordinal,
            handle,
            context: OnceCell::new(),
            pool: OnceCell::new(),
            streams: Streams::new(),
            unpooled: Unpooled::new(),
            managed: ManagedBlocks::new(),
            reaches: (0..count).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// One of the device's attributes; `None` when the driver does not know it.
    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Option<c_int> {
        let mut value: c_int = 0;
        // SAFETY: `value` is writable and the handle is the driver's own.
        let code = unsafe { cu!(cuDeviceGetAttribute(&mut value, attribute, self.handle)) };
        (code == SUCCESS).then_some(value)
    }

    /// The memory of the device in bytes.
    pub(crate) fn total_memory(&self) -> Result<u64> {
        let mut bytes: usize = 0;
        // SAFETY: `bytes` is writable and the handle is the driver's own.
        errors::check(unsafe { cu!(cuDeviceTotalMem_v2(&mut bytes, self.handle)) }, || {
            format!("ask for the memory of device {}", self.ordinal)
        })?;
        Ok(bytes as u64)
    }

    /// What the device is.
    pub(crate) fn properties(&self) -> Result<LlaisysDeviceProperties> {
        use sys::CUdevice_attribute_enum as Attribute;
        let number = |attribute| self.attribute(attribute).unwrap_or_default();
        let mut properties = LlaisysDeviceProperties::new();
        properties.processor_count =
            number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) as u32;
        properties.total_memory = self.total_memory()?;
        properties.driver_version = driver()?.version;
        properties.runtime_version = cudart::version();
        properties.l2_cache_size = number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) as u64;
        properties.clock_rate = number(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE) as u32;
        properties.integrated = number(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED) as u32;
        properties.capabilities = self.capabilities()?.0;
        properties.compute_capability_major =
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        properties.compute_capability_minor =
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        properties.uuid = self.uuid();
        write_text(&mut properties.vendor, "NVIDIA");
        // SAFETY: the entry point writes a NUL-terminated text of at most `length` bytes at `text`.
        let name =
            self.text(|text, length| unsafe { cu!(cuDeviceGetName(text, length, self.handle)) });
        write_text(&mut properties.name, &name);
        write_text(&mut properties.pci_address, &self.pci_address());
        Ok(properties)
    }

    /// What of the backend's capabilities this very device has, natively. The others still work where
    /// there is another way: without pools memory comes at once instead of in a stream's order, without
    /// the driver's batch one copy follows the other.
    fn capabilities(&self) -> Result<Capabilities> {
        let driver = driver()?;
        let mut able = Nvidia::CAPABILITIES;
        let mut lacks = |what: Capabilities| able = Capabilities(able.0 & !what.0);
        if !self.has_pools() {
            lacks(Capabilities::STREAM_ORDERED_MEMORY.with(Capabilities::MEMORY_POOL));
        }
        if !self.has_managed_memory() {
            lacks(Capabilities::MANAGED_MEMORY);
        }
        if driver.newer.batch_copy.is_none() {
            lacks(Capabilities::BATCHED_COPIES);
        }
        let mut others = driver.devices.iter().filter(|other| other.ordinal != self.ordinal);
        if !others.any(|other| self.can_reach(other).unwrap_or(false)) {
            lacks(Capabilities::PEERS);
        }
        Ok(able)
    }

    /// Whether the device says that it has pools; whether it has is seen when one is made.
    pub(crate) fn has_pools(&self) -> bool {
        use sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED as SUPPORTED;
        !matches!(self.pool.get(), Some(None)) && self.attribute(SUPPORTED).unwrap_or_default() != 0
    }

    /// Where the device is on the PCI bus; empty when the driver does not say.
    pub(crate) fn pci_address(&self) -> String {
        // SAFETY: the entry point writes a NUL-terminated text of at most `length` bytes at `text`.
        self.text(|text, length| unsafe { cu!(cuDeviceGetPCIBusId(text, length, self.handle)) })
    }

    /// The identifier of this very device, of the instance where the device is a MIG instance; zero
    /// where there is none.
    fn uuid(&self) -> [u8; 16] {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: `uuid` is writable and the handle is the driver's own.
        let mut code = unsafe { cu!(cuDeviceGetUuid_v2(&mut uuid, self.handle)) };
        if code != SUCCESS {
            // SAFETY: as above. A driver before 11.4 has only this one.
            code = unsafe { cu!(cuDeviceGetUuid(&mut uuid, self.handle)) };
        }
        if code == SUCCESS { uuid.bytes.map(|byte| byte as u8) } else { [0; 16] }
    }

    /// A text that the driver writes into a buffer; empty when it has none.
    fn text(&self, ask: impl FnOnce(*mut c_char, c_int) -> i32) -> String {
        let mut buffer = [0 as c_char; 256];
        if ask(buffer.as_mut_ptr(), buffer.len() as c_int) != SUCCESS {
            return String::new();
        }
        buffer[buffer.len() - 1] = 0;
        // SAFETY: the buffer ends with a NUL.
        unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// The memory of the device now. What is free can only be asked inside a context, and a device
    /// that nobody uses gets none for the question; a context that another library has made is
    /// used.
    pub(crate) fn memory_info(&self) -> Result<LlaisysMemoryInfo> {
        if self.context.get().is_none() && !self.is_in_use() {
            return Ok(LlaisysMemoryInfo::new(UNKNOWN_BYTES, self.total_memory()?));
        }
        let _entered = self.enter()?;
        let (free, total) = self.free_and_total()?;
        Ok(LlaisysMemoryInfo::new(free.saturating_add(self.unused_in_pool()), total))
    }

    /// Free and total bytes as the driver counts them, with the device's context entered.
    pub(crate) fn free_and_total(&self) -> Result<(u64, u64)> {
        let (mut free, mut total): (usize, usize) = (0, 0);
        // SAFETY: both are writable.
        errors::check(unsafe { cu!(cuMemGetInfo_v2(&mut free, &mut total)) }, || {
            format!("ask for the free memory of device {}", self.ordinal)
        })?;
        Ok((free as u64, total as u64))
    }

    /// Bytes that our pool holds and has not handed out: the driver counts them as taken.
    fn unused_in_pool(&self) -> u64 {
        self.pool.get().and_then(Option::as_ref).map_or(0, Pool::unused)
    }

    /// Whether someone in this process, perhaps another library, has the primary context already.
    pub(crate) fn is_in_use(&self) -> bool {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: both are writable and the handle is the driver's own.
        let code = unsafe { cu!(cuDevicePrimaryCtxGetState(self.handle, &mut flags, &mut active)) };
        code == SUCCESS && active != 0
    }
}
