//! Filling memory with a pattern.

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
    pub unsafe fn run(&self) {
        let Fill { dst, size, pattern } = self;
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            // SAFETY: by the contract above.
            unsafe { dst.cast::<u8>().write_bytes(pattern[0], *size) };
            return;
        }
        // One store for 16 bytes; the compiler makes vector instructions of it.
        let (value, whole) = (u128::from_ne_bytes(*pattern), size / 16);
        let to = dst.cast::<u128>();
        for index in 0..whole {
            // SAFETY: the first `16 * whole` of `size` writable bytes.
            unsafe { to.add(index).write_unaligned(value) };
        }
        // SAFETY: what is left of `size` writable bytes, fewer than a pattern has.
        unsafe {
            let rest = to.add(whole).cast::<u8>();
            pattern.as_ptr().copy_to_nonoverlapping(rest, size % 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_and_every_size_fills_exactly_the_range_asked_for() {
        for unit in [1usize, 2, 4, 8, 16] {
            let pattern: [u8; 16] = std::array::from_fn(|index| 1 + (index % unit) as u8);
            for size in (0..=160).step_by(unit) {
                for at in (0..32).step_by(unit) {
                    let mut memory = [0xeeu8; 256];
                    let dst = memory[at..].as_mut_ptr().cast();
                    // SAFETY: 192 of 256 bytes at most.
                    unsafe { Fill { dst, size, pattern }.run() };
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
