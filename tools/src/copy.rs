//! `bench copy`: copies of the CPU device of many sizes, against the C library's `memcpy`.
//!
//! Rule: all memory was written first, and both sides copy between the same two blocks.

use crate::bench::Target;
use crate::comparison::{Comparison, Goal};
use crate::runtime;
use crate::samples::{self, Answers, Plan, Sample};
use crate::twelve::{Block, Lane, Twelve};
use llaisys_runtime::core::Result;
use llaisys_runtime::core::api::{CopyFlags, MemcpyKind};
use std::ffi::{CStr, c_void};
use std::hint::black_box;

/// One size that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Case {
    size: usize,
    name: &'static str,
}

unsafe extern "C" {
    fn memcpy(dst: *mut c_void, src: *const c_void, size: usize) -> *mut c_void;
    fn gnu_get_libc_version() -> *const std::ffi::c_char;
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Case; 7] = [
        Case { size: 4 << 10, name: "copy of 4 KiB" },
        Case { size: 64 << 10, name: "copy of 64 KiB" },
        Case { size: 256 << 10, name: "copy of 256 KiB" },
        Case { size: 1 << 20, name: "copy of 1 MiB" },
        Case { size: 8 << 20, name: "copy of 8 MiB" },
        Case { size: 64 << 20, name: "copy of 64 MiB" },
        Case { size: 256 << 20, name: "copy of 256 MiB" },
    ];

    /// What is done.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Measures it on a device.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn run(self, target: &Target, runs: u32) -> Result<Comparison> {
        let twelve = Twelve::of(target.device_type);
        twelve.set_device(target.ordinal)?;
        let table = runtime::table(target.device_type)?;
        let lane = Lane(&twelve, twelve.create_stream()?);
        let to = Block(&twelve, twelve.malloc_device(self.size)?);
        let from = Block(&twelve, twelve.malloc_device(self.size)?);
        // SAFETY: both have the size, and the device's memory is the host's.
        unsafe {
            to.1.cast::<u8>().write_bytes(1, self.size);
            from.1.cast::<u8>().write_bytes(2, self.size);
        }
        let calls = u32::try_from((64 << 20) / self.size).unwrap_or(u32::MAX).clamp(1, 2_000);
        // A run takes its time.
        let runs = if self.size > 32 << 20 { runs.min(40) } else { runs };
        let plan = Plan { runs, calls, sample: Sample::Batch };
        let kind = MemcpyKind::D2D as u32;
        let summary = samples::interleave(
            plan,
            // SAFETY: both blocks have the size; the stream is live and waited for.
            || unsafe {
                let (own, device, size) = (table.self_, target.ordinal, self.size as u64);
                (table.memcpy_async)(own, device, to.1, from.1, size, kind, lane.1, CopyFlags::NONE)
                    | (table.stream_synchronize)(own, device, lane.1)
            },
            // SAFETY: as above.
            || unsafe {
                black_box(memcpy(to.1, from.1, self.size));
                0
            },
            |answers: Answers| if answers.ours != 0 { Err(runtime::failure()) } else { Ok(()) },
        )?;
        // SAFETY: answers a constant text.
        let version = unsafe { CStr::from_ptr(gnu_get_libc_version()) }.to_string_lossy();
        let on = (target.backend.as_str(), target.name.as_str());
        let peer = format!("glibc {version} memcpy");
        Ok(Comparison::of_rates(Goal::G15, self.name, on, peer, &summary, self.size))
    }
}
