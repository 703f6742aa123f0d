//! `bench copy` on a device with memory of its own: copies from and to the host, against the driver's own
//! calls.
//!
//! Rules: all memory was written first; both sides copy between the same two blocks; and after the
//! measurement ours have to have copied every byte.

use crate::bench::Target;
use crate::comparison::{Comparison, Goal};
use crate::native_driver::{NativeDriver, check};
use crate::runtime;
use crate::samples::{self, Answers, Plan, Sample};
use crate::twelve::{Block, Lane, Pinned, Twelve};
use llaisys_runtime::core::abi::LlaisysBackendAPI;
use llaisys_runtime::core::api::{CopyFlags, MemcpyKind, Stream};
use llaisys_runtime::core::{Error, Result, Status};
use std::ffi::c_void;

/// How a copy is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// From or to pinned memory, enqueued and waited for.
    Pinned,
    /// From or to pageable memory, by the call that waits.
    Pageable,
    /// From or to pageable memory, enqueued and waited for.
    PageableAsync,
}

/// One copy that is measured.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    form: Form,
    kind: MemcpyKind,
    size: usize,
}

const fn case(name: &'static str, form: Form, kind: MemcpyKind, mib: usize) -> Case {
    Case { name, form, kind, size: mib << 20 }
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Case; 18] = [
        case("pinned H2D of 1 GiB", Form::Pinned, MemcpyKind::H2D, 1024),
        case("pinned D2H of 1 GiB", Form::Pinned, MemcpyKind::D2H, 1024),
        case("pageable H2D of 1 MiB", Form::Pageable, MemcpyKind::H2D, 1),
        case("pageable H2D of 2 MiB", Form::Pageable, MemcpyKind::H2D, 2),
        case("pageable H2D of 4 MiB", Form::Pageable, MemcpyKind::H2D, 4),
        case("pageable H2D of 16 MiB", Form::Pageable, MemcpyKind::H2D, 16),
        case("pageable H2D of 64 MiB", Form::Pageable, MemcpyKind::H2D, 64),
        case("pageable H2D of 256 MiB", Form::Pageable, MemcpyKind::H2D, 256),
        case("pageable H2D of 1 GiB", Form::Pageable, MemcpyKind::H2D, 1024),
        case("pageable D2H of 1 MiB", Form::Pageable, MemcpyKind::D2H, 1),
        case("pageable D2H of 2 MiB", Form::Pageable, MemcpyKind::D2H, 2),
        case("pageable D2H of 4 MiB", Form::Pageable, MemcpyKind::D2H, 4),
        case("pageable D2H of 16 MiB", Form::Pageable, MemcpyKind::D2H, 16),
        case("pageable D2H of 64 MiB", Form::Pageable, MemcpyKind::D2H, 64),
        case("pageable D2H of 256 MiB", Form::Pageable, MemcpyKind::D2H, 256),
        case("pageable D2H of 1 GiB", Form::Pageable, MemcpyKind::D2H, 1024),
        case("pageable H2D of 1 GiB, enqueued", Form::PageableAsync, MemcpyKind::H2D, 1024),
        case("pageable D2H of 1 GiB, enqueued", Form::PageableAsync, MemcpyKind::D2H, 1024),
    ];

    /// What is done.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The goal that it belongs to.
    pub fn goal(self) -> Goal {
        if self.form == Form::Pinned { Goal::G5 } else { Goal::G6 }
    }

    /// The driver's own call for it.
    fn entry(self) -> &'static str {
        match (self.form, self.kind) {
            (Form::Pageable, MemcpyKind::H2D) => "cuMemcpyHtoD",
            (Form::Pageable, _) => "cuMemcpyDtoH",
            (_, MemcpyKind::H2D) => "cuMemcpyHtoDAsync",
            _ => "cuMemcpyDtoHAsync",
        }
    }

    /// Measures it on a device.
    ///
    /// # Errors
    /// The first call that failed, or that the bytes did not arrive.
    pub fn run(self, target: &Target, runs: u32) -> Result<Comparison> {
        let twelve = Twelve::of(target.device_type);
        twelve.set_device(target.ordinal)?;
        let driver = NativeDriver::find()?;
        let lane = Lane(&twelve, twelve.create_stream()?);
        let block = Block(&twelve, twelve.malloc_device(self.size)?);
        let (mut pageable, pinned) = match self.form {
            Form::Pinned => (Vec::new(), Some(Pinned(&twelve, twelve.malloc_host(self.size)?))),
            _ => (vec![0; self.size], None),
        };
        let host = pinned.as_ref().map_or(pageable.as_mut_ptr(), |pinned| pinned.1.cast());
        let ours = Ours {
            table: runtime::table(target.device_type)?,
            device: target.ordinal,
            stream: lane.1,
            case: self,
        };
        let (device, host) = (block.1, host.cast::<c_void>());
        let (dst, src) = match self.kind {
            MemcpyKind::H2D => (device, host.cast_const()),
            _ => (host, device.cast_const()),
        };
        // SAFETY: both blocks have the size, and live until the end.
        unsafe { ours.prepare(device, host) }?;
        // SAFETY: as above; the device's context is current, and the stream is live.
        let theirs = || unsafe {
            let (stream, size) = (lane.1.0, self.size);
            match (self.form, self.kind) {
                (Form::Pageable, MemcpyKind::H2D) => {
                    (driver.copy_in_and_wait)(dst as u64, src, size)
                }
                (Form::Pageable, _) => (driver.copy_out_and_wait)(dst, src as u64, size),
                (_, MemcpyKind::H2D) => {
                    (driver.copy_in)(dst as u64, src, size, stream) | (driver.settle)(stream)
                }
                _ => (driver.copy_out)(dst, src as u64, size, stream) | (driver.settle)(stream),
            }
        };
        // A gigabyte takes its time.
        let most = if self.size > 64 << 20 { 20 } else { 60 };
        let plan = Plan { runs: runs.min(most), calls: 1, sample: Sample::Batch };
        let summary = samples::interleave(
            plan,
            // SAFETY: as above.
            || unsafe { ours.copy(dst, src, self.kind) },
            theirs,
            |answers: Answers| match answers {
                Answers { ours: 0, theirs: 0 } => Ok(()),
                Answers { ours: 0, theirs } => check(self.entry(), theirs),
                _ => Err(runtime::failure()),
            },
        )?;
        // SAFETY: as above.
        unsafe { ours.verify(device, host) }?;
        let on = (target.backend.as_str(), target.name.as_str());
        let peer = driver.peer(self.entry());
        Ok(Comparison::of_rates(self.goal(), self.name, on, peer, &summary, self.size))
    }
}

/// Our copies, as a program asks for them.
struct Ours {
    table: &'static LlaisysBackendAPI,
    device: i32,
    stream: Stream,
    case: Case,
}

impl Ours {
    /// The answer of a copy that is complete when this returns.
    ///
    /// # Safety
    /// - Both sides have the case's size; one is on the device.
    unsafe fn copy(&self, dst: *mut c_void, src: *const c_void, kind: MemcpyKind) -> i32 {
        let (table, device, kind) = (self.table, self.device, kind as u32);
        let (own, size, flags) = (table.self_, self.case.size as u64, CopyFlags::NONE);
        // SAFETY: by the contract above; the stream is live.
        unsafe {
            if self.case.form == Form::Pageable {
                (table.memcpy_sync)(own, device, dst, src, size, kind, flags)
            } else {
                (table.memcpy_async)(own, device, dst, src, size, kind, self.stream, flags)
                    | (table.stream_synchronize)(own, device, self.stream)
            }
        }
    }

    /// Writes both sides.
    ///
    /// # Safety
    /// - As for [`Ours::copy`].
    unsafe fn prepare(&self, device: *mut c_void, host: *mut c_void) -> Result<()> {
        // SAFETY: by the contract above.
        unsafe {
            std::slice::from_raw_parts_mut(host.cast::<u64>(), self.case.size / 8).fill(7);
            self.succeed(self.copy(device, host, MemcpyKind::H2D))
        }
    }

    /// Copies there and back what is different everywhere, and compares.
    ///
    /// # Safety
    /// - As for [`Ours::copy`].
    unsafe fn verify(&self, device: *mut c_void, host: *mut c_void) -> Result<()> {
        // SAFETY: by the contract above; nothing is pending, so the words are this thread's alone.
        unsafe {
            let words = || std::slice::from_raw_parts_mut(host.cast::<u64>(), self.case.size / 8);
            let word = |index: usize| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            words().iter_mut().enumerate().for_each(|(index, to)| *to = word(index));
            self.succeed(self.copy(device, host, MemcpyKind::H2D))?;
            words().fill(0);
            self.succeed(self.copy(host, device, MemcpyKind::D2H))?;
            match words().iter().enumerate().find(|(index, found)| **found != word(*index)) {
                None => Ok(()),
                Some((index, _)) => {
                    let message = format!("{}: byte {} is wrong", self.case.name, 8 * index);
                    Err(Error::new(Status::Internal, message))
                }
            }
        }
    }

    fn succeed(&self, answer: i32) -> Result<()> {
        if answer == 0 { Ok(()) } else { Err(runtime::failure()) }
    }
}
