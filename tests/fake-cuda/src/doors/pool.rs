//! Stream-ordered memory.

use super::doors;
use crate::driver::Driver;
use crate::entry::{out, read};
use crate::errors::{Answer, INVALID_VALUE, NOT_SUPPORTED};
use crate::{memory, pools};

/// The first members of the driver's `CUmemPoolProps`; the rest is reserved.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    kind: i32,
    handle_types: i32,
    location: i32,
    device: i32,
}

/// The driver's `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    pub kind: i32,
    pub device: i32,
}

/// The driver's `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    location: Location,
    flags: i32,
}

doors! {
    ready cuMemAllocAsync(pointer: *mut usize, bytes: usize, stream: usize) |driver| {
        supported(driver)?;
        out(pointer)?.set(pools::allocate(driver, bytes, None, stream)?)
    };
    ready cuMemAllocFromPoolAsync(pointer: *mut usize, bytes: usize, pool: usize, stream: usize) |driver| {
        supported(driver)?;
        out(pointer)?.set(pools::allocate(driver, bytes, Some(pool), stream)?)
    };
    ready cuMemFreeAsync(pointer: usize, stream: usize) |driver| {
        supported(driver)?;
        memory::free_async(driver, pointer, stream)
    };
    ready cuMemPoolCreate(pool: *mut usize, properties: *const Properties) |driver| {
        supported(driver)?;
        let properties = read(properties)?;
        if properties.handle_types & !1 != 0 {
            return Err(NOT_SUPPORTED);
        }
        out(pool)?.set(pools::create(driver, properties.kind, properties.location, properties.device)?)
    };
    ready cuMemPoolDestroy(pool: usize) |driver| pools::destroy(driver, pool);
    ready cuMemPoolTrimTo(pool: usize, keep: usize) |driver| pools::trim_to(driver, pool, keep);
    ready cuMemPoolGetAttribute(pool: usize, attribute: i32, value: *mut u8) |driver| {
        let now = pools::attribute(driver, pool, attribute)?;
        if attribute <= 3 { out(value.cast::<i32>())?.set(now as i32) } else { out(value.cast::<u64>())?.set(now) }
    };
    ready cuMemPoolSetAttribute(pool: usize, attribute: i32, value: *const u8) |driver| {
        let wanted = if attribute <= 3 { read(value.cast::<i32>())? as u64 } else { read(value.cast::<u64>())? };
        pools::set_attribute(driver, pool, attribute, wanted)
    };
    ready cuMemPoolSetAccess(pool: usize, accesses: *const Access, count: usize) |driver| {
        for index in 0..count {
            let access = read(accesses.wrapping_add(index))?;
            if access.location.kind != 1 {
                return Err(INVALID_VALUE);
            }
            pools::set_access(driver, pool, access.location.device, access.flags)?;
        }
        Ok(())
    };
    ready cuMemPoolGetAccess(flags: *mut i32, pool: usize, location: *const Location) |driver| {
        let (device, _) = driver.device(read(location)?.device)?;
        let open = driver.lock().pool(pool)?.access.contains(&device);
        out(flags)?.set(if open { 3 } else { 0 })
    };
    ready cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32) |driver| {
        let (device, _) = driver.device(device)?;
        supported(driver)?;
        out(pool)?.set(driver.lock().primaries[device].default_pool)
    };
    ready cuDeviceGetMemPool(pool: *mut usize, device: i32) |driver| {
        let (device, _) = driver.device(device)?;
        supported(driver)?;
        out(pool)?.set(driver.lock().primaries[device].pool)
    };
    ready cuDeviceSetMemPool(device: i32, pool: usize) |driver| {
        let (device, _) = driver.device(device)?;
        supported(driver)?;
        pools::set_current(driver, device, pool)
    };
}

fn supported(driver: &Driver) -> Answer {
    if driver.settings.no_mempools { Err(NOT_SUPPORTED) } else { Ok(()) }
}
