//! Managed memory.

use super::doors;
use super::pool::Location;
use crate::entry::{Here, out, read};
use crate::errors::{Answer, INVALID_VALUE};
use crate::managed;

doors! {
    current cuMemAllocManaged(pointer: *mut usize, bytes: usize, flags: u32) |here| {
        out(pointer)?.set(managed::allocate(here, bytes, flags)?)
    };
    ready cuMemPrefetchAsync(pointer: usize, bytes: usize, device: i32, stream: usize) |driver| {
        managed::prefetch(driver, pointer, bytes, managed::older_location(driver, device)?, stream)
    };
    ready cuMemPrefetchAsync_v2(pointer: usize, bytes: usize, to: Location, flags: u32, stream: usize) |driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        managed::prefetch(driver, pointer, bytes, managed::location(driver, to.kind, to.device)?, stream)
    };
    current cuMemAdvise(pointer: usize, bytes: usize, advice: i32, device: i32) |here| {
        managed::advise(here, pointer, bytes, advice, |driver| managed::older_location(driver, device))
    };
    current cuMemAdvise_v2(pointer: usize, bytes: usize, advice: i32, at: Location) |here| {
        managed::advise(here, pointer, bytes, advice, |driver| managed::location(driver, at.kind, at.device))
    };
    current cuMemRangeGetAttribute(data: *mut i32, size: usize, attribute: i32, pointer: usize, bytes: usize) |here| {
        put(here, data, size, attribute, pointer, bytes)
    };
    current cuMemRangeGetAttributes(
        data: *const *mut i32, sizes: *const usize, attributes: *const i32, count: usize, pointer: usize, bytes: usize,
    ) |here| {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        for index in 0..count {
            let (place, size) = (read(data.wrapping_add(index))?, read(sizes.wrapping_add(index))?);
            put(here, place, size, read(attributes.wrapping_add(index))?, pointer, bytes)?;
        }
        Ok(())
    };
    by_handle cuStreamAttachMemAsync(stream: usize, pointer: usize, bytes: usize, flags: u32) |driver| {
        managed::attach(driver, stream, pointer, bytes, flags)
    };
}

/// Writes an attribute into a place of so many bytes.
fn put(
    here: Here,
    place: *mut i32,
    size: usize,
    attribute: i32,
    pointer: usize,
    bytes: usize,
) -> Answer {
    if !size.is_multiple_of(size_of::<i32>()) {
        return Err(INVALID_VALUE);
    }
    out(place)?;
    let words = managed::attribute(here, attribute, size / size_of::<i32>(), pointer, bytes)?;
    for (index, word) in words.into_iter().enumerate() {
        out(place.wrapping_add(index))?.set(word)?;
    }
    Ok(())
}
