//! A pitched copy: slices of rows, each side with its own distances.

use crate::command::{Command, Copy};
use crate::pool::Pool;
use crate::staging::{Staging, StagingBuffer};
use crate::transfer::Transfer;
use llaisys_runtime_core::api::LlaisysCopy3D;
use std::ffi::c_void;

/// The rows of a pitched copy. All distances are in bytes.
pub struct Pitched {
    dst: *mut c_void,
    dst_row: usize,
    dst_slice: usize,
    src: *const c_void,
    src_row: usize,
    src_slice: usize,
    width: usize,
    height: usize,
    depth: usize,
    /// What `src` points into, when the source was staged.
    _source: Option<StagingBuffer>,
}

impl Pitched {
    /// The copy with as few rows as it can be done with.
    pub fn new(copy: &LlaisysCopy3D) -> Pitched {
        // Distances that are never gone need not make sense, so they may wrap.
        let slice = |pitch: u64, height: u64| pitch.wrapping_mul(height) as usize;
        let mut pitched = Pitched {
            dst: copy.dst,
            dst_row: copy.dst_pitch as usize,
            dst_slice: slice(copy.dst_pitch, copy.dst_slice_height),
            src: copy.src,
            src_row: copy.src_pitch as usize,
            src_slice: slice(copy.src_pitch, copy.src_slice_height),
            width: copy.width as usize,
            height: copy.height as usize,
            depth: copy.depth as usize,
            _source: None,
        };
        pitched.join_rows();
        pitched
    }

    /// Rows and slices without gaps on either side become one.
    fn join_rows(&mut self) {
        if self.dst_row == self.width && self.src_row == self.width {
            self.width *= self.height;
            self.height = 1;
        }
        if self.height == 1 && self.dst_slice == self.width && self.src_slice == self.width {
            self.width *= self.depth;
            self.depth = 1;
        }
    }

    fn rows(&self) -> impl Iterator<Item = Copy> + Clone + '_ {
        (0..self.depth).flat_map(move |z| {
            (0..self.height).map(move |y| Copy {
                dst: self.dst.wrapping_byte_add(z * self.dst_slice + y * self.dst_row),
                src: self.src.wrapping_byte_add(z * self.src_slice + y * self.src_row),
                size: self.width,
            })
        })
    }
}

impl Transfer for Pitched {
    const OPERATION: &'static str = "memcpy_3d_async with pageable memory behind pending work";

    unsafe fn run(&self, pool: &'static Pool) {
        // SAFETY: by the contract of the trait, for each row.
        self.rows().for_each(|row| unsafe { row.run(pool) });
    }

    fn bytes(&self) -> usize {
        self.width.saturating_mul(self.height).saturating_mul(self.depth)
    }

    unsafe fn staged(&mut self, staging: &'static Staging) -> Option<Command> {
        // SAFETY: by the contract of the trait.
        let source = unsafe { staging.gather(self.rows()) }?;
        let pitched = Pitched {
            src: source.as_ptr(),
            src_row: self.width,
            src_slice: self.width * self.height,
            _source: Some(source),
            ..*self
        };
        Some(pitched.queued())
    }

    fn queued(self) -> Command {
        Command::Pitched(Box::new(self))
    }
}
