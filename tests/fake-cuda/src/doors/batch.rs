//! Batches of copies, of CUDA 12.8 and of 13.0.

use super::doors;
use super::pool::Location;
use crate::batches::{Access, Member, Refusal, check_stream, enqueue};
use crate::driver::Driver;
use crate::entry::{put_if_asked, read};
use crate::errors::{Answer, INVALID_VALUE};
use crate::handles::Handle;

/// The driver's `CUmemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attributes {
    order: i32,
    from: Location,
    to: Location,
    flags: u32,
}

/// The arrays of a call.
struct Arrays {
    to: *const usize,
    from: *const usize,
    sizes: *const usize,
    count: usize,
    attributes: *const Attributes,
    firsts: *const usize,
    kinds: usize,
}

doors! {
    ready cuMemcpyBatchAsync(
        to: *const usize, from: *const usize, sizes: *const usize, count: usize, attributes: *const Attributes,
        firsts: *const usize, kinds: usize, failed: *mut usize, stream: usize,
    ) |driver| {
        let arrays = Arrays { to, from, sizes, count, attributes, firsts, kinds };
        // The real driver refuses the stream before it looks at anything else, and leaves the index alone.
        check_stream(driver, stream)?;
        batch(driver, &arrays, stream).map_err(|refusal| {
            put_if_asked(failed, refusal.at.unwrap_or(usize::MAX));
            refusal.code
        })
    };
    ready cuMemcpyBatchAsync_v2(
        to: *const usize, from: *const usize, sizes: *const usize, count: usize, attributes: *const Attributes,
        firsts: *const usize, kinds: usize, stream: usize,
    ) |driver| {
        let arrays = Arrays { to, from, sizes, count, attributes, firsts, kinds };
        check_stream(driver, stream)?;
        batch(driver, &arrays, stream).map_err(|refusal| refusal.code)
    };
}

impl Arrays {
    /// The attributes, each with the first copy that they are of.
    fn attributes(&self) -> Answer<Vec<(usize, Access)>> {
        if self.count == 0 || self.kinds == 0 || self.kinds > self.count {
            return Err(INVALID_VALUE);
        }
        let mut all: Vec<(usize, Access)> = Vec::with_capacity(self.kinds);
        for index in 0..self.kinds {
            let attributes = read(self.attributes.wrapping_add(index))?;
            let first = read(self.firsts.wrapping_add(index))?;
            let follows = all.last().map_or(first == 0, |(before, _)| first > *before);
            let hints = [attributes.from.kind, attributes.to.kind];
            let known =
                attributes.flags & !1 == 0 && hints.iter().all(|kind| (0..=4).contains(kind));
            if !follows || first >= self.count || !known {
                return Err(INVALID_VALUE);
            }
            let access = match attributes.order {
                1 => Access::InOrder,
                2 => Access::DuringTheCall,
                3 => Access::Any,
                _ => return Err(INVALID_VALUE),
            };
            all.push((first, access));
        }
        Ok(all)
    }

    fn member(&self, index: usize, access: Access) -> Answer<Member> {
        let (to, from) = (read(self.to.wrapping_add(index))?, read(self.from.wrapping_add(index))?);
        let bytes = read(self.sizes.wrapping_add(index))?;
        if to == 0 || from == 0 || bytes == 0 {
            return Err(INVALID_VALUE);
        }
        Ok(Member { to, from, bytes, access })
    }
}

fn batch(driver: &'static Driver, arrays: &Arrays, stream: Handle) -> Result<(), Refusal> {
    if arrays.to.is_null() || arrays.from.is_null() || arrays.sizes.is_null() {
        return Err(Refusal::WHOLE);
    }
    let kinds = arrays.attributes().map_err(|_| Refusal::WHOLE)?;
    let mut members = Vec::with_capacity(arrays.count);
    for index in 0..arrays.count {
        let kind = kinds.partition_point(|(first, _)| *first <= index) - 1;
        members.push(arrays.member(index, kinds[kind].1).map_err(Refusal::at(index))?);
    }
    enqueue(driver, &members, stream)
}
