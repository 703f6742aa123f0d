//! Moving and filling memory, as fast as the size and the processor allow.
//!
//! | bytes | how |
//! |---|---|
//! | up to half of the last cache, within [`LEAST_SHARED`] and [`MOST_ALONE`] | the C library's `memmove`, `memset`; nothing is faster, and another core would have to fetch what lies in this one's caches |
//! | above | in parts, by as many cores as are free |
//! | from [`STREAMED`] on | the same, with stores that go past the caches, where the processor has AVX2: what is written would push everything else out, and lines that are overwritten whole need not be read |
//!
//! Rule: what is there is asked at run time. Ranges that overlap are moved by one core.

use crate::pool::Pool;
use crate::processor;
use llaisys_runtime_core::streaming::{copy_streaming, has_streaming_stores};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Up to so many bytes one core does the work, whatever the caches.
pub const LEAST_SHARED: usize = 1 << 20;
/// Above so many bytes several cores share the work, whatever the caches: a last cache of hundreds of
/// mebibytes is as far from one core as from another.
const MOST_ALONE: usize = 4 << 20;
/// From so many bytes on stores go past the caches.
pub const STREAMED: usize = 32 << 20;
/// A part has so many bytes at least, and at most.
const PART: (usize, usize) = (256 << 10, 2 << 20);
/// Parts begin at multiples of this.
const PAGE: usize = 4096;

/// The addresses of a job, which its parts use in any thread.
#[derive(Clone, Copy)]
struct Range {
    dst: *mut u8,
    src: *const u8,
    size: usize,
    part: usize,
}

// SAFETY: each part touches bytes of its own; the caller of `copy` and `fill` promised all of them.
unsafe impl Sync for Range {}

impl Range {
    fn new(dst: *mut u8, src: *const u8, size: usize, cores: usize) -> Range {
        let part = (size / (4 * cores)).clamp(PART.0, PART.1).next_multiple_of(PAGE);
        Range { dst, src, size, part }
    }

    fn parts(&self) -> usize {
        self.size.div_ceil(self.part)
    }

    /// Offset and size of a part.
    fn at(&self, index: usize) -> (usize, usize) {
        let begin = index * self.part;
        (begin, self.part.min(self.size - begin))
    }
}

/// Copies. Right for overlapping ranges too.
///
/// # Safety
/// - `src` is readable and `dst` writable for `size` bytes.
#[inline]
pub unsafe fn copy(pool: &'static Pool, dst: *mut u8, src: *const u8, size: usize) {
    if size <= LEAST_SHARED
        || size <= shared_above()
        || (dst as usize).abs_diff(src as usize) < size
    {
        // SAFETY: by the contract above.
        unsafe { src.copy_to(dst, size) };
    } else {
        // SAFETY: by the contract above; the ranges do not overlap.
        unsafe { copy_shared(pool, dst, src, size) };
    }
}

/// # Safety
/// - As for `copy`; the ranges do not overlap.
#[cold]
unsafe fn copy_shared(pool: &'static Pool, dst: *mut u8, src: *const u8, size: usize) {
    let range = Range::new(dst, src, size, pool.limit() as usize);
    let is_streamed = size >= STREAMED && has_streaming_stores();
    pool.share(range.parts(), &|index| {
        let range = &range;
        let (begin, size) = range.at(index);
        // SAFETY: inside the ranges of our caller.
        unsafe {
            let (dst, src) = (range.dst.add(begin), range.src.add(begin));
            if is_streamed {
                copy_streaming(dst, src, size);
            } else {
                src.copy_to_nonoverlapping(dst, size);
            }
        }
    });
}

/// Fills with a pattern of 16 bytes that begins anew at `dst`.
///
/// # Safety
/// - `dst` is writable for `size` bytes.
#[inline]
pub unsafe fn fill(pool: &'static Pool, dst: *mut u8, size: usize, pattern: [u8; 16]) {
    if size <= LEAST_SHARED || size <= shared_above() {
        // SAFETY: by the contract above.
        unsafe { fill_alone(dst, size, pattern) };
    } else {
        // SAFETY: by the contract above.
        unsafe { fill_shared(pool, dst, size, pattern) };
    }
}

/// # Safety
/// - As for `fill`.
#[cold]
unsafe fn fill_shared(pool: &'static Pool, dst: *mut u8, size: usize, pattern: [u8; 16]) {
    let range = Range::new(dst, dst, size, pool.limit() as usize);
    let is_streamed = size >= STREAMED && has_streaming_stores();
    pool.share(range.parts(), &|index| {
        let range = &range;
        let (begin, size) = range.at(index);
        // SAFETY: inside the range of our caller. Parts begin at multiples of the pattern.
        unsafe {
            if is_streamed {
                fill_streaming(range.dst.add(begin), size, pattern);
            } else {
                fill_alone(range.dst.add(begin), size, pattern);
            }
        }
    });
}

/// # Safety
/// - As for `fill`.
#[inline]
unsafe fn fill_alone(dst: *mut u8, size: usize, pattern: [u8; 16]) {
    let value = u128::from_ne_bytes(pattern);
    if value == value.rotate_left(8) {
        // SAFETY: by the contract above.
        unsafe { dst.write_bytes(pattern[0], size) };
    } else {
        // SAFETY: by the contract above.
        unsafe { fill_with(dst, size, pattern) };
    }
}

/// # Safety
/// - As for `fill`.
unsafe fn fill_with(dst: *mut u8, size: usize, pattern: [u8; 16]) {
    // One store for 16 bytes; the compiler makes vector instructions of it.
    let (value, whole) = (u128::from_ne_bytes(pattern), size / 16);
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

/// Above how many bytes work is shared: what, with its source, does not fit into the last cache.
/// Asked once.
fn shared_above() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let cache = processor::last_level_cache(Path::new("/")) as usize;
            let half = if cache == 0 { MOST_ALONE } else { cache / 2 };
            let above = half.clamp(LEAST_SHARED, MOST_ALONE);
            KNOWN.store(above, Relaxed);
            above
        }
        known => known,
    }
}

/// The bytes that one round of a streaming loop moves: four stores.
#[cfg(target_arch = "x86_64")]
const ROUND: usize = 128;

/// # Safety
/// - As for `fill`; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_streaming(dst: *mut u8, size: usize, pattern: [u8; 16]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    let head = dst.align_offset(64).min(size);
    // SAFETY: the first bytes of the range.
    unsafe { fill_alone(dst, head, pattern) };
    // The pattern as it goes on behind the head.
    let turned: [u8; 32] = std::array::from_fn(|index| pattern[(head + index) % 16]);
    let rounds = (size - head) / ROUND;
    // SAFETY: reads a local.
    let value = unsafe { _mm256_loadu_si256(turned.as_ptr().cast::<__m256i>()) };
    // SAFETY: `head` is inside the range.
    let mut to = unsafe { dst.add(head) };
    for _ in 0..rounds {
        // SAFETY: a round is inside the range, and `to` is aligned to 32 bytes.
        unsafe {
            let target = to.cast::<__m256i>();
            _mm256_stream_si256(target, value);
            _mm256_stream_si256(target.add(1), value);
            _mm256_stream_si256(target.add(2), value);
            _mm256_stream_si256(target.add(3), value);
            to = to.add(ROUND);
        }
    }
    // As in `copy_streaming`.
    _mm_sfence();
    let mut rest = [0; 16];
    rest.copy_from_slice(&turned[..16]);
    // SAFETY: what is left of the range; a round is a multiple of the pattern.
    unsafe { fill_alone(to, size - head - rounds * ROUND, rest) };
}

/// # Safety
/// - Never called: the processor has no such instructions.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn fill_streaming(dst: *mut u8, size: usize, pattern: [u8; 16]) {
    // SAFETY: as for `fill`.
    unsafe { fill_alone(dst, size, pattern) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig;

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|index| (index * 7 + index / 251) as u8).collect()
    }

    #[test]
    fn streaming_copies_and_fills_write_exactly_the_range_asked_for() {
        if !has_streaming_stores() {
            return;
        }
        let source = bytes(1024);
        let pattern: [u8; 16] = std::array::from_fn(|index| 1 + index as u8);
        for size in [0, 1, 31, 63, 64, 65, 127, 128, 129, 200, 511, 640] {
            for at in 0..70 {
                let mut memory = [0xeeu8; 1024];
                let mut expected = memory;
                // SAFETY: less than 1024 bytes on both sides; the feature was asked for.
                unsafe { copy_streaming(memory[at..].as_mut_ptr(), source[3..].as_ptr(), size) };
                expected[at..at + size].copy_from_slice(&source[3..3 + size]);
                assert_eq!(memory, expected, "a copy of {size} bytes to {at}");
                // SAFETY: as above.
                unsafe { fill_streaming(memory[at..].as_mut_ptr(), size, pattern) };
                for (index, byte) in expected[at..at + size].iter_mut().enumerate() {
                    *byte = pattern[index % 16];
                }
                assert_eq!(memory, expected, "a fill of {size} bytes at {at}");
            }
        }
    }

    #[test]
    fn work_that_is_shared_is_done_whole_whatever_its_size() {
        let pool = rig::pool(3);
        let above = shared_above();
        for size in [above - 1, above, above + 1, above + 77_777, STREAMED, STREAMED + 4097] {
            let (source, mut to) = (bytes(size + 2), vec![0xeeu8; size + 2]);
            // SAFETY: both have `size + 2` bytes.
            unsafe { copy(pool, to.as_mut_ptr().add(1), source.as_ptr().add(1), size) };
            assert!(to[1..=size] == source[1..=size], "a copy of {size} bytes");
            let pattern: [u8; 16] = std::array::from_fn(|index| (index % 4) as u8);
            // SAFETY: as above.
            unsafe { fill(pool, to.as_mut_ptr().add(1), size, pattern) };
            let right =
                to[1..=size].iter().enumerate().all(|(index, byte)| *byte == (index % 4) as u8);
            assert!(right && to[0] == 0xee && to[size + 1] == 0xee, "a fill of {size} bytes");
        }
    }

    #[test]
    fn ranges_that_overlap_are_moved_as_if_through_a_third_place() {
        let size = shared_above() + STREAMED;
        let mut memory = bytes(size + 100);
        let expected = memory[..size].to_vec();
        // SAFETY: inside the vector.
        unsafe { copy(rig::pool(2), memory.as_mut_ptr().add(100), memory.as_ptr(), size) };
        assert!(memory[100..] == expected);
    }
}
