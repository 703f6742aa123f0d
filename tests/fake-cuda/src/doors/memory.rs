//! Memory of devices and of the host, and pointers.

use super::{doors, same};
use crate::contexts;
use crate::driver::Driver;
use crate::entry::{out, put_if_asked, read};
use crate::errors::{Answer, INVALID_VALUE};
use crate::memory::{self, Block};
use crate::{pinned, pointers};

doors! {
    current cuMemAlloc_v2(pointer: *mut usize, bytes: usize) |here| out(pointer)?.set(memory::allocate(here, bytes)?);
    current cuMemAllocPitch_v2(pointer: *mut usize, pitch: *mut usize, width: usize, height: usize, element: u32) |here| {
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(512).ok_or(INVALID_VALUE)?;
        let (pointer, pitch) = (out(pointer)?, out(pitch)?);
        pointer.set(memory::allocate(here, row.checked_mul(height).ok_or(INVALID_VALUE)?)?)?;
        pitch.set(row)
    };
    ready cuMemFree_v2(pointer: usize) |driver| memory::free(driver, pointer);
    current cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |here| {
        let (bytes_free, bytes) = memory::info(here)?;
        put_if_asked(free, bytes_free);
        put_if_asked(total, bytes);
        Ok(())
    };
    current cuMemGetAddressRange_v2(start: *mut usize, bytes: *mut usize, pointer: usize) |here| {
        let (first, length) = memory::range(here, pointer)?;
        put_if_asked(start, first);
        put_if_asked(bytes, length);
        Ok(())
    };
    current cuMemAllocHost_v2(pointer: *mut usize, bytes: usize) |here| out(pointer)?.set(pinned::allocate(here, bytes, 0)?);
    current cuMemHostAlloc(pointer: *mut usize, bytes: usize, flags: u32) |here| {
        out(pointer)?.set(pinned::allocate(here, bytes, flags)?)
    };
    ready cuMemFreeHost(pointer: usize) |driver| pinned::free(driver, pointer);
    current cuMemHostRegister_v2(pointer: usize, bytes: usize, flags: u32) |here| pinned::register(here, pointer, bytes, flags);
    ready cuMemHostUnregister(pointer: usize) |driver| pinned::unregister(driver, pointer);
    current cuMemHostGetDevicePointer_v2(device: *mut usize, pointer: usize, flags: u32) |here| {
        host_flags(here.driver, pointer)?;
        if flags == 0 { out(device)?.set(pointer) } else { Err(INVALID_VALUE) }
    };
    current cuMemHostGetFlags(flags: *mut u32, pointer: usize) |here| out(flags)?.set(host_flags(here.driver, pointer)?);
    ready cuPointerGetAttribute(data: *mut u8, attribute: i32, pointer: usize) |driver| {
        pointers::attribute(driver, attribute, pointer)?.put(data)
    };
    ready cuPointerGetAttributes(count: u32, attributes: *const i32, data: *const *mut u8, pointer: usize) |driver| {
        for index in 0..count as usize {
            let attribute = read(attributes.wrapping_add(index))?;
            let place = read(data.wrapping_add(index))?;
            pointers::attribute(driver, attribute, pointer).or_else(|_| pointers::unknown(attribute))?.put(place)?;
        }
        Ok(())
    };
    ready cuPointerSetAttribute(value: *const u32, attribute: i32, pointer: usize) |driver| {
        read(value)?;
        pointers::attribute(driver, 2, pointer)?;
        if attribute == 6 { Ok(()) } else { Err(INVALID_VALUE) }
    };
}

same! {
    cuMemHostRegister(pointer: usize, bytes: usize, flags: u32) = cuMemHostRegister_v2;
}

fn host_flags(driver: &'static Driver, pointer: usize) -> Answer<u32> {
    contexts::usable_current(driver)?;
    match driver.lock().block_at(pointer) {
        Some((_, Block::Host(host))) => Ok(host.flags),
        _ => Err(INVALID_VALUE),
    }
}

/// Device allocations and host ranges that live now.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_live_allocations() -> i64 {
    crate::driver::driver().map_or(0, |driver| driver.lock().memory.len() as i64)
}
