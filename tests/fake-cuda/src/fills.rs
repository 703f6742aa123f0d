//! Fills of memory with a value.
//!
//! The rule: device memory is filled without the caller waiting, host memory is waited for unless a
//! stream is named; memory of another device has to be open to this one.

use crate::driver::Driver;
use crate::errors::{Answer, CONTEXT_IS_DESTROYED, INVALID_VALUE};
use crate::handles::Handle;
use crate::memory::Place;
use crate::streams;
use crate::work::Work;

/// A fill of rows.
pub struct Fill {
    to: Place,
    shape: Elements,
}

/// What is written: rows of elements of one, two or four bytes.
#[derive(Clone, Copy)]
pub struct Elements {
    pub value: u32,
    pub size: usize,
    pub width: usize,
    pub height: usize,
    pub pitch: usize,
}

impl Elements {
    /// One row. A count so large that its bytes wrap is taken as wrapped, as the driver does.
    pub fn line(value: u32, size: usize, count: usize) -> Elements {
        let width = count.wrapping_mul(size) / size;
        Elements { value, size, width, height: 1, pitch: width * size }
    }
}

impl Fill {
    pub fn run(&self) -> Answer {
        self.to.check()?;
        let bytes = self.shape.value.to_ne_bytes();
        for row in 0..self.shape.height {
            let at = self.to.at + row * self.shape.pitch;
            if self.shape.size == 1 {
                crate::arena::fill(at, self.shape.width, bytes[0]);
                continue;
            }
            // SAFETY: the row lies in a range that was checked when the call was made and that the place holds.
            let row = unsafe {
                std::slice::from_raw_parts_mut(at as *mut u8, self.shape.width * self.shape.size)
            };
            for element in row.chunks_exact_mut(self.shape.size) {
                element.copy_from_slice(&bytes[..self.shape.size]);
            }
        }
        Ok(())
    }
}

/// Fills; on a stream, or without one.
pub fn fill(driver: &'static Driver, to: usize, shape: Elements, stream: Option<Handle>) -> Answer {
    let (mut world, key) = streams::find(driver, stream.unwrap_or(0))?;
    if shape.width == 0 || shape.height == 0 {
        return Ok(());
    }
    let width = shape.width.checked_mul(shape.size).ok_or(INVALID_VALUE)?;
    if !to.is_multiple_of(shape.size) || (shape.height > 1 && shape.pitch < width) {
        return Err(INVALID_VALUE);
    }
    let rows = (shape.height - 1).checked_mul(shape.pitch).ok_or(INVALID_VALUE)?;
    let place = world.place(to, rows.checked_add(width).ok_or(INVALID_VALUE)?, true)?;
    let context = world.streams.get(&key).ok_or(CONTEXT_IS_DESTROYED)?.context;
    world.may_reach(context, &place, true)?;
    let wait = stream.is_none() && !place.is_device();
    let work = Work::Fill(Fill { to: place, shape });
    if wait {
        return streams::give_and_wait(driver, &mut world, key, work);
    }
    streams::give(driver, &mut world, key, work, Vec::new()).map(drop)
}
