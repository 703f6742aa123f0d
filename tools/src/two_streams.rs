//! The demo's sequence from Rust: host → device → device → host on two streams, checked after each
//! leg.
//!
//! Rule: it goes through LLAISYS's twelve functions, as the clients in C, C++ and Python do, and
//! releases what it took however it ends.

use crate::row::{Leg, Measured, Memory};
use crate::twelve::{Block, Lane, Pinned, Twelve};
use llaisys_runtime::core::api::MemcpyKind;
use llaisys_runtime::core::{Error, Result, Status};
use llaisys_runtime::types::MemcpyKindNumber;
use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

/// The name of this client in its results.
pub const CLIENT: &str = "rust";

/// Moves `mib` MiB over each leg, once to warm up and `repeat` times measured; the median counts.
///
/// # Errors
/// The first call that failed.
pub fn run(device_type: i32, device: i32, mib: u64, repeat: u32) -> Result<Vec<Measured>> {
    let runtime = Twelve::of(device_type);
    runtime.set_device(device)?;
    let size = usize::try_from(mib << 20).map_err(|_| no_room(mib))?;
    let mut results = Vec::new();
    for memory in Memory::ALL {
        let way = Way::prepare(&runtime, memory, size)?;
        let mut times = [const { Vec::new() }; 3];
        let mut right = [true; 3];
        for pass in 0..=repeat {
            // SAFETY: `Way` made the buffers with `size` bytes each, and nothing is pending on them.
            unsafe { way.source.fill(size, pass) };
            for (index, leg) in Leg::ALL.into_iter().enumerate() {
                let time = way.go(leg)?;
                if pass > 0 {
                    times[index].push(time);
                }
                right[index] &= way.is_right_after(leg)?;
            }
        }
        for (index, leg) in Leg::ALL.into_iter().enumerate() {
            let seconds = median(&mut times[index]).as_secs_f64().max(1e-9);
            let (bytes, right) = (size as u64, right[index]);
            let gb_per_s = size as f64 / seconds / 1e9;
            results.push(Measured { leg, memory, bytes, seconds, gb_per_s, right });
        }
    }
    Ok(results)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn no_room(mib: u64) -> Error {
    Error::new(Status::OutOfMemory, format!("there is no host memory for {mib} MiB"))
}

/// Host memory at one end of the way.
enum Host<'a> {
    Pinned(Pinned<'a>),
    Pageable(Vec<u64>),
}

impl<'a> Host<'a> {
    fn take(runtime: &'a Twelve, memory: Memory, size: usize) -> Result<Host<'a>> {
        match memory {
            Memory::Pinned => Ok(Host::Pinned(Pinned(runtime, runtime.malloc_host(size)?))),
            Memory::Pageable => {
                let mut words = Vec::new();
                let count = size.div_ceil(size_of::<u64>());
                words.try_reserve_exact(count).map_err(|_| no_room(size as u64 >> 20))?;
                words.resize(count, 0);
                Ok(Host::Pageable(words))
            }
        }
    }

    fn address(&self) -> *mut u64 {
        match self {
            Host::Pinned(pinned) => pinned.1.cast(),
            Host::Pageable(words) => words.as_ptr().cast_mut(),
        }
    }

    /// Writes a pattern in which no two words of a pass, and no two passes, are alike.
    ///
    /// # Safety
    /// - The memory has `size` bytes, `size` is a multiple of 8, and nothing is pending on it.
    unsafe fn fill(&self, size: usize, pass: u32) {
        for index in 0..size / size_of::<u64>() {
            // SAFETY: inside the memory by the contract above; aligned, because both kinds are.
            unsafe { self.address().add(index).write(word(index, pass)) };
        }
    }
}

fn word(index: usize, pass: u32) -> u64 {
    (index as u64 ^ u64::from(pass) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Everything between one host buffer and the other. The streams go first when it is dropped.
struct Way<'a> {
    runtime: &'a Twelve,
    size: usize,
    lanes: [Lane<'a>; 2],
    first: Block<'a>,
    second: Block<'a>,
    source: Host<'a>,
    destination: Host<'a>,
    /// Where device memory is looked at.
    view: Host<'a>,
}

impl<'a> Way<'a> {
    fn prepare(runtime: &'a Twelve, memory: Memory, size: usize) -> Result<Way<'a>> {
        let lane = || runtime.create_stream().map(|stream| Lane(runtime, stream));
        let block = || runtime.malloc_device(size).map(|pointer| Block(runtime, pointer));
        Ok(Way {
            runtime,
            size,
            lanes: [lane()?, lane()?],
            first: block()?,
            second: block()?,
            source: Host::take(runtime, memory, size)?,
            destination: Host::take(runtime, memory, size)?,
            view: Host::take(runtime, Memory::Pageable, size)?,
        })
    }

    /// Where a leg ends and where it begins.
    fn ends(&self, leg: Leg) -> (*mut c_void, *mut c_void, MemcpyKind) {
        match leg {
            Leg::H2D => (self.first.1, self.source.address().cast(), MemcpyKind::H2D),
            Leg::D2D => (self.second.1, self.first.1, MemcpyKind::D2D),
            Leg::D2H => (self.destination.address().cast(), self.second.1, MemcpyKind::D2H),
        }
    }

    /// Moves one half on each stream and waits for both.
    fn go(&self, leg: Leg) -> Result<Duration> {
        let (to, from, kind) = self.ends(leg);
        let half = self.size / 2;
        let parts = [(0, half), (half, self.size - half)];
        let start = Instant::now();
        for (lane, (offset, length)) in self.lanes.iter().zip(parts) {
            // SAFETY: both ends have `size` bytes on the side that the kind names, do not overlap,
            // and stay until the streams were waited for.
            unsafe {
                (self.runtime.0.memcpy_async)(
                    to.cast::<u8>().add(offset).cast(),
                    from.cast::<u8>().add(offset).cast_const().cast(),
                    length,
                    MemcpyKindNumber(kind as u32),
                    lane.1,
                );
            }
        }
        for lane in &self.lanes {
            self.runtime.stream_synchronize(lane.1)?;
        }
        Ok(start.elapsed())
    }

    /// Whether what the leg wrote is what the source holds. Spoils it afterwards where the next pass
    /// will write, so that old data cannot pass for new.
    fn is_right_after(&self, leg: Leg) -> Result<bool> {
        let (written, _, kind) = self.ends(leg);
        let (seen, spoil) = if kind == MemcpyKind::D2H {
            (written.cast::<u64>(), written)
        } else {
            let view = self.view.address();
            // SAFETY: `view` has `size` bytes of host memory, `written` as many of the device's.
            unsafe {
                let kind = MemcpyKindNumber(MemcpyKind::D2H as u32);
                (self.runtime.0.memcpy_sync)(view.cast(), written, self.size, kind);
            }
            self.runtime.check()?;
            (view, ptr::null_mut())
        };
        // SAFETY: both are host memory of `size` bytes that nothing is pending on, aligned for words;
        // the pattern was written to the source, and `seen` is initialised: it was zeroed when it was
        // taken (pageable) or just written by the copy (pinned).
        let right = unsafe {
            let words = self.size / size_of::<u64>();
            std::slice::from_raw_parts(seen, words)
                == std::slice::from_raw_parts(self.source.address(), words)
        };
        if !spoil.is_null() {
            // SAFETY: as above.
            unsafe { spoil.cast::<u8>().write_bytes(0xa5, self.size) };
        }
        Ok(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    #[test]
    fn the_cpu_moves_data_from_pinned_and_pageable_memory() {
        let results = run(0, 0, 1, 3).expect("the CPU is always there");
        assert_eq!(row::complaint(&results), None);
        assert!(results.iter().all(|result| result.bytes == 1 << 20 && result.gb_per_s > 0.0));
    }

    #[test]
    fn a_device_that_is_not_there_is_the_error_that_is_reported() {
        let error = run(0, 99, 1, 1).expect_err("there is no device 99");
        assert_eq!(error.status(), Status::InvalidDevice);
    }
}
