//! Copies with stores that go past the caches: what is written would push everything else out, and lines
//! that are overwritten whole need not be read.
//!
//! Rule: whether the processor has such stores is asked at run time.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Whether the processor has the instructions of [`copy_streaming`]; asked once.
pub fn has_streaming_stores() -> bool {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            #[cfg(target_arch = "x86_64")]
            let has = std::arch::is_x86_feature_detected!("avx2");
            #[cfg(not(target_arch = "x86_64"))]
            let has = false;
            KNOWN.store(if has { 2 } else { 1 }, Relaxed);
            has
        }
        known => known == 2,
    }
}

/// The bytes that one round of a streaming loop moves: four stores.
#[cfg(target_arch = "x86_64")]
const ROUND: usize = 128;

/// Copies with such stores.
///
/// # Safety
/// - `src` is readable and `dst` writable for `size` bytes, and the ranges do not overlap.
/// - [`has_streaming_stores`] has said that they are there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub unsafe fn copy_streaming(dst: *mut u8, src: *const u8, size: usize) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    // A streaming store wants an aligned address, and a whole cache line is written at a time.
    let head = dst.align_offset(64).min(size);
    // SAFETY: the first bytes of the ranges.
    unsafe { src.copy_to_nonoverlapping(dst, head) };
    let rounds = (size - head) / ROUND;
    // SAFETY: `head` is inside the ranges.
    let (mut to, mut from) = unsafe { (dst.add(head), src.add(head)) };
    // Without prefetches: the processor's own are as good here, and two cores are slower with ours.
    for _ in 0..rounds {
        // SAFETY: a round is inside the ranges, `to` is aligned to 32 bytes.
        unsafe {
            let (source, target) = (from.cast::<__m256i>(), to.cast::<__m256i>());
            let a = _mm256_loadu_si256(source);
            let b = _mm256_loadu_si256(source.add(1));
            let c = _mm256_loadu_si256(source.add(2));
            let d = _mm256_loadu_si256(source.add(3));
            _mm256_stream_si256(target, a);
            _mm256_stream_si256(target.add(1), b);
            _mm256_stream_si256(target.add(2), c);
            _mm256_stream_si256(target.add(3), d);
            to = to.add(ROUND);
            from = from.add(ROUND);
        }
    }
    // Such stores are not ordered with others: whoever reads that the work is done must see them.
    _mm_sfence();
    // SAFETY: what is left of the ranges.
    unsafe { from.copy_to_nonoverlapping(to, size - head - rounds * ROUND) };
}

/// Copies; here with ordinary stores, for the processor has no others.
///
/// # Safety
/// - `src` is readable and `dst` writable for `size` bytes, and the ranges do not overlap.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy_streaming(dst: *mut u8, src: *const u8, size: usize) {
    // SAFETY: by the contract above.
    unsafe { src.copy_to_nonoverlapping(dst, size) };
}
