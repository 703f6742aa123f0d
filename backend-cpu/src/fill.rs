//! Filling memory with a pattern.

use crate::bulk;
use crate::pool::Pool;
use std::ffi::c_void;

/// What is to be filled with what.
pub struct Fill {
    /// Where to.
    pub dst: *mut c_void,
    /// How many bytes.
    pub size: usize,
    /// The pattern, repeated to 16 bytes.
    pub pattern: [u8; 16],
}

impl Fill {
    /// Fills, in the calling thread.
    ///
    /// # Safety
    /// - `dst` is writable for `size` bytes.
    #[inline]
    pub unsafe fn run(&self, pool: &'static Pool) {
        // SAFETY: by the contract above.
        unsafe { bulk::fill(pool, self.dst.cast(), self.size, self.pattern) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_and_every_size_fills_exactly_the_range_asked_for() {
        let pool = crate::rig::pool(1);
        for unit in [1usize, 2, 4, 8, 16] {
            let pattern: [u8; 16] = std::array::from_fn(|index| 1 + (index % unit) as u8);
            for size in (0..=160).step_by(unit) {
                for at in (0..32).step_by(unit) {
                    let mut memory = [0xeeu8; 256];
                    let dst = memory[at..].as_mut_ptr().cast();
                    // SAFETY: 192 of 256 bytes at most.
                    unsafe { Fill { dst, size, pattern }.run(pool) };
                    let mut expected = [0xeeu8; 256];
                    for (index, byte) in expected[at..at + size].iter_mut().enumerate() {
                        *byte = pattern[index % 16];
                    }
                    assert_eq!(memory, expected, "{size} bytes by {unit} at {at}");
                }
            }
        }
    }
}
