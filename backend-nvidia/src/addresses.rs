//! What the driver knows of an address: asked off the hot paths only.
//!
//! Rule: an address that the driver does not know is host memory; that is an answer, not a failure.

use crate::backend::Nvidia;
use crate::call::cu;
use crate::device::Device;
use crate::driver::driver;
use crate::errors::{self, INVALID_VALUE, SUCCESS};
use cust::sys::{self, CUdeviceptr, CUpointer_attribute};
use llaisys_runtime_core::api::{
    LlaisysPointerAttributes, MEMORY_DEVICE, MEMORY_MANAGED, MEMORY_PINNED,
};
use llaisys_runtime_core::error::Result;
use std::ffi::{c_int, c_uint, c_void};

impl Device {
    /// Whether the address is device memory, of whichever device and whoever allocated it. Managed
    /// memory is both host and device memory; it counts as device memory, since a device may use
    /// it.
    pub(crate) fn knows(&'static self, address: usize) -> Result<bool> {
        use sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE;
        use sys::CUpointer_attribute_enum as Attribute;
        let Some(asker) = asker(Some(self))? else { return Ok(false) };
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

/// A device in whose context the driver may be asked: one that has a context, since a question is no use
/// that makes one (D4). The driver answers for every device's memory in any of them. Where no device has
/// one, nothing was allocated on any.
fn asker(first: Option<&'static Device>) -> Result<Option<&'static Device>> {
    let used = |device: &&Device| device.context.get().is_some() || device.is_in_use();
    Ok(first.into_iter().chain(&driver()?.devices).find(used))
}

/// What the driver knows of an address, whoever allocated the memory.
pub(crate) fn attributes(address: usize) -> Result<LlaisysPointerAttributes> {
    use sys::CUmemorytype_enum::{CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    use sys::CUpointer_attribute_enum as Attribute;
    let unknown = LlaisysPointerAttributes::pageable();
    let Some(asker) = asker(None)? else { return Ok(unknown) };
    let _entered = asker.enter()?;
    let address = address as CUdeviceptr;
    let (mut side, mut managed, mut ordinal): (c_uint, c_uint, c_int) = (0, 0, -1);
    let (mut base, mut size): (CUdeviceptr, usize) = (0, 0);
    let mut questions = [
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    ];
    let mut answers: [*mut c_void; 5] = [
        (&raw mut side).cast(),
        (&raw mut managed).cast(),
        (&raw mut ordinal).cast(),
        (&raw mut base).cast(),
        (&raw mut size).cast(),
    ];
    // SAFETY: there are as many answers as questions, each with room for what its attribute is
    // documented with; any address may be asked about. Memory that is not known has empty answers.
    let code = unsafe {
        let count = questions.len() as c_uint;
        cu!(cuPointerGetAttributes(count, questions.as_mut_ptr(), answers.as_mut_ptr(), address))
    };
    if code == INVALID_VALUE {
        return Ok(unknown);
    }
    errors::check(code, || format!("ask what the memory at {address:#x} is"))?;
    let kind = match side {
        _ if managed != 0 => MEMORY_MANAGED,
        side if side == CU_MEMORYTYPE_DEVICE as c_uint => MEMORY_DEVICE,
        // Pinned or registered: the driver makes no difference.
        side if side == CU_MEMORYTYPE_HOST as c_uint => MEMORY_PINNED,
        _ => return Ok(unknown),
    };
    if size == 0 {
        // SAFETY: both are writable; any address may be asked about.
        let code = unsafe { cu!(cuMemGetAddressRange_v2(&mut base, &mut size, address)) };
        if code != SUCCESS {
            (base, size) = (0, 0);
        }
    }
    let (device_type, device) = (Nvidia::DEVICE_TYPE, ordinal);
    Ok(LlaisysPointerAttributes { kind, device_type, device, base, size: size as u64, ..unknown })
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
