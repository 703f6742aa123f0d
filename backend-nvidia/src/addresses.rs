//! What the driver knows of an address: asked off the hot paths only.
//!
//! Rule: an address that the driver does not know is host memory; that is an answer, not a failure.

use crate::call::cu;
use crate::device::Device;
use crate::driver::driver;
use crate::errors::{self, INVALID_VALUE, SUCCESS};
use cust::sys::{self, CUdeviceptr, CUpointer_attribute};
use llaisys_runtime_core::error::Result;
use std::ffi::{c_int, c_uint};

impl Device {
    /// Whether the address is device memory, of whichever device and whoever allocated it. Managed
    /// memory is both host and device memory; it counts as device memory, since a device may use
    /// it.
    pub(crate) fn knows(&self, address: usize) -> Result<bool> {
        use sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE;
        use sys::CUpointer_attribute_enum as Attribute;
        // Asked in the context of a device that has one: a question is no use that makes one (D4),
        // and the driver answers for every device's memory in any of them. Where no device has one,
        // nothing was allocated on any.
        let used = |device: &&Device| device.context.get().is_some() || device.is_in_use();
        let Some(asker) = std::iter::once(self).chain(&driver()?.devices).find(used) else {
            return Ok(false);
        };
        let _entered = asker.enter()?;
        let address = address as CUdeviceptr;
        let mut side: c_uint = 0;
        let asked = || format!("ask what the memory at {address:#x} is");
        match ask(&mut side, Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) {
            INVALID_VALUE => return Ok(false),
            code => errors::check(code, asked)?,
        }
        if side == CU_MEMORYTYPE_DEVICE as c_uint {
            return Ok(true);
        }
        let mut managed: c_uint = 0;
        let code = ask(&mut managed, Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
        Ok(code == SUCCESS && managed != 0)
    }
}

/// The device whose memory this is.
pub(crate) fn owner(address: CUdeviceptr) -> Option<&'static Device> {
    let mut ordinal: c_int = -1;
    let attribute = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    if ask(&mut ordinal, attribute, address) != SUCCESS {
        return None;
    }
    driver().ok()?.devices.get(usize::try_from(ordinal).ok()?)
}

/// Whether the driver knows the address: device memory, or host memory that someone has pinned.
pub(crate) fn is_known(address: CUdeviceptr) -> bool {
    let mut side: c_uint = 0;
    let attribute = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    ask(&mut side, attribute, address) == SUCCESS
}

/// One attribute of an address, where the attribute is documented as a 32-bit number.
fn ask<T: ThirtyTwoBits>(
    value: &mut T,
    attribute: CUpointer_attribute,
    address: CUdeviceptr,
) -> i32 {
    let value: *mut T = value;
    // SAFETY: `value` has room for 32 bits; any address may be asked about.
    unsafe { cu!(cuPointerGetAttribute(value.cast(), attribute, address)) }
}

/// The types that the attributes asked about here are documented with.
trait ThirtyTwoBits {}
impl ThirtyTwoBits for c_int {}
impl ThirtyTwoBits for c_uint {}
