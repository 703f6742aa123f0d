//! Rows of bytes on two sides: what every copy is made of. A plain copy is one row.
//!
//! Rule: the core has checked the extents (`LlaisysCopy3D`): row `y` of slice `z` begins
//! `(z * slice + y) * pitch` bytes after the first, and nothing here wraps.

use crate::call::cu;
use crate::copies::Copy;
use cust::sys::{CUDA_MEMCPY3D, CUmemorytype, CUstream};
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopy3D, MemcpyKind};
use llaisys_runtime_core::error::Result;
use std::ffi::c_void;
use std::ptr::null_mut;

/// One side of the rows.
#[derive(Clone, Copy)]
struct Side {
    /// The first byte.
    base: *mut c_void,
    /// Bytes from one row to the next.
    pitch: usize,
    /// Rows from one slice to the next.
    slice: usize,
}

/// Rows that are copied: what goes where.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    dst: Side,
    /// Never written.
    src: Side,
    /// Bytes of a row; not 0, nor are the next two.
    width: usize,
    /// Rows of a slice.
    height: usize,
    /// Slices.
    depth: usize,
    /// From which side to which.
    pub(crate) kind: MemcpyKind,
    /// What is known of the host memory.
    pub(crate) flags: CopyFlags,
}

impl From<Copy> for Rows {
    fn from(copy: Copy) -> Rows {
        let Copy { dst, src, size, kind, flags } = copy;
        let side = |base| Side { base, pitch: size, slice: 1 };
        let (dst, src) = (side(dst), side(src.cast_mut()));
        Rows { dst, src, width: size, height: 1, depth: 1, kind, flags }
    }
}

impl Rows {
    /// The rows of a pitched copy.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a kind that is none.
    pub(crate) fn of(copy: &LlaisysCopy3D, flags: CopyFlags) -> Result<Rows> {
        let (height, depth) = (copy.height as usize, copy.depth as usize);
        let side = |base, pitch: u64, slice: u64| {
            // Of a single slice nobody has to say how far away the next one is.
            let slice = if depth > 1 { slice as usize } else { height };
            Side { base, pitch: pitch as usize, slice }
        };
        Ok(Rows {
            dst: side(copy.dst, copy.dst_pitch, copy.dst_slice_height),
            src: side(copy.src.cast_mut(), copy.src_pitch, copy.src_slice_height),
            width: copy.width as usize,
            height,
            depth,
            kind: MemcpyKind::from_code(copy.kind)?,
            flags,
        })
    }

    /// Bytes in all.
    pub(crate) fn size(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// The first byte read.
    pub(crate) fn first_read(&self) -> *const c_void {
        self.src.base
    }

    /// The first byte written.
    pub(crate) fn first_written(&self) -> *mut c_void {
        self.dst.base
    }

    /// The one copy that these rows are when nothing lies between them on either side.
    pub(crate) fn as_line(&self) -> Option<Copy> {
        let has_no_gaps = |side: &Side| {
            let rows = self.height == 1 && self.depth == 1 || side.pitch == self.width;
            rows && (self.depth == 1 || side.slice == self.height)
        };
        (has_no_gaps(&self.dst) && has_no_gaps(&self.src)).then(|| Copy {
            dst: self.dst.base,
            src: self.src.base,
            size: self.size(),
            kind: self.kind,
            flags: self.flags,
        })
    }

    /// The same rows read from memory in which nothing lies between them.
    pub(crate) fn read_from(&self, packed: *const c_void) -> Rows {
        Rows { src: self.packed(packed.cast_mut()), ..*self }
    }

    /// The same rows written into memory in which nothing lies between them.
    pub(crate) fn written_to(&self, packed: *mut c_void) -> Rows {
        Rows { dst: self.packed(packed), ..*self }
    }

    fn packed(&self, base: *mut c_void) -> Side {
        Side { base, pitch: self.width, slice: self.height }
    }

    /// Each row as a copy of its own.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Copy> {
        let rows = *self;
        (0..rows.depth).flat_map(move |z| {
            (0..rows.height).map(move |y| {
                let at =
                    |side: &Side| side.base.wrapping_byte_add((z * side.slice + y) * side.pitch);
                let (dst, src) = (at(&rows.dst), at(&rows.src));
                Copy { dst, src, size: rows.width, kind: rows.kind, flags: rows.flags }
            })
        })
    }

    /// Copies in the calling thread.
    ///
    /// # Safety
    /// - Both sides are host memory, readable and writable, and do not overlap.
    pub(crate) unsafe fn copy_here(&self) {
        for Copy { dst, src, size, .. } in self.lines() {
            // SAFETY: each row lies in its side by the contract above.
            unsafe { src.cast::<u8>().copy_to_nonoverlapping(dst.cast(), size) };
        }
    }

    /// Has the driver copy in the order of a stream; its code. Not for two sides of host memory.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`, for each row; a context is entered, and `on` is NULL or a
    ///   live stream of it.
    pub(crate) unsafe fn enqueue(&self, on: CUstream) -> i32 {
        if let Some(line) = self.as_line() {
            // SAFETY: the caller vouches for both ranges and the stream.
            return unsafe { line.enqueue(on) };
        }
        let side_of = |is_host: bool| match is_host {
            true => CUmemorytype::CU_MEMORYTYPE_HOST,
            false => CUmemorytype::CU_MEMORYTYPE_DEVICE,
        };
        let plan = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: side_of(self.kind.reads_host()),
            // The side's type says which of the two counts.
            srcHost: self.src.base,
            srcDevice: self.src.base as usize as u64,
            srcArray: null_mut(),
            reserved0: null_mut(),
            srcPitch: self.src.pitch,
            srcHeight: self.src.slice,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: side_of(self.kind.writes_host()),
            dstHost: self.dst.base,
            dstDevice: self.dst.base as usize as u64,
            dstArray: null_mut(),
            reserved1: null_mut(),
            dstPitch: self.dst.pitch,
            dstHeight: self.dst.slice,
            WidthInBytes: self.width,
            Height: self.height,
            Depth: self.depth,
        };
        // SAFETY: the plan is valid for the call; the caller vouches for the rows and the stream.
        unsafe { cu!(cuMemcpy3DAsync_v2(&plan, on)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    fn rows(pitch: u64, slice: u64, [width, height, depth]: [u64; 3]) -> Rows {
        let copy = LlaisysCopy3D {
            struct_size: size_of::<LlaisysCopy3D>() as u32,
            kind: MemcpyKind::H2H as u32,
            dst: null_mut(),
            dst_pitch: pitch,
            dst_slice_height: slice,
            src: null(),
            src_pitch: width,
            src_slice_height: height,
            width,
            height,
            depth,
        };
        Rows::of(&copy, CopyFlags::NONE).expect("a kind")
    }

    #[test]
    fn rows_without_gaps_are_one_copy() {
        assert_eq!(rows(8, 3, [8, 3, 2]).as_line().map(|line| line.size), Some(48));
        assert_eq!(rows(8, 0, [8, 3, 1]).as_line().map(|line| line.size), Some(24));
        assert_eq!(rows(0, 0, [8, 1, 1]).as_line().map(|line| line.size), Some(8));
        assert!(rows(9, 3, [8, 3, 2]).as_line().is_none());
        assert!(rows(8, 4, [8, 3, 2]).as_line().is_none());
        assert!(rows(9, 1, [8, 1, 2]).as_line().is_none());
    }

    #[test]
    fn each_row_is_where_its_pitch_and_slice_say() {
        let bytes: Vec<u8> = (0..12).collect();
        let mut target = [0xEE_u8; 40];
        let rows = rows(4, 4, [3, 2, 2]);
        let rows = rows.read_from(bytes.as_ptr().cast());
        let rows = Rows { dst: Side { base: target.as_mut_ptr().cast(), ..rows.dst }, ..rows };
        // SAFETY: 12 bytes are read, and the last row ends at byte (4 + 1) * 4 + 3 of the target.
        unsafe { rows.copy_here() };
        for (row, at) in [0, 4, 16, 20].into_iter().enumerate() {
            assert_eq!(target[at..at + 3], bytes[row * 3..row * 3 + 3]);
            assert_eq!(target[at + 3], 0xEE);
        }
        assert_eq!(target.iter().filter(|&&byte| byte == 0xEE).count(), 40 - 12);
    }
}
