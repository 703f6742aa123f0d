//! What a copy or a fill is made of.

use crate::error::{Error, Result};
use crate::status::Status;
use std::ffi::c_void;

/// The direction of a copy. Numbers as in LLAISYS's `llaisysMemcpyKind_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemcpyKind {
    /// Host to host.
    H2H = 0,
    /// Host to device.
    H2D = 1,
    /// Device to host.
    D2H = 2,
    /// Device to device, also between two devices of one backend.
    D2D = 3,
    /// The core finds out from the pointers; only in the extended table, and never seen by a backend.
    Inferred = 4,
}

impl MemcpyKind {
    /// The four kinds in numeric order.
    pub const ALL: [MemcpyKind; 4] =
        [MemcpyKind::H2H, MemcpyKind::H2D, MemcpyKind::D2H, MemcpyKind::D2D];

    /// The kind with this number, as LLAISYS's own table accepts it.
    ///
    /// # Errors
    /// `INVALID_VALUE` for any other number.
    #[inline]
    pub fn from_code(code: u32) -> Result<MemcpyKind> {
        match code {
            0 => Ok(MemcpyKind::H2H),
            1 => Ok(MemcpyKind::H2D),
            2 => Ok(MemcpyKind::D2H),
            3 => Ok(MemcpyKind::D2D),
            _ => Err(Error::new(
                Status::InvalidValue,
                format!("kind {} is not one of 0..=3", code as i32),
            )),
        }
    }

    /// The kind with this number, as the extended table accepts it: 4 is the inferred kind.
    ///
    /// # Errors
    /// `INVALID_VALUE` for any other number.
    #[inline]
    pub fn from_extended_code(code: u32) -> Result<MemcpyKind> {
        if code == MemcpyKind::Inferred as u32 {
            Ok(MemcpyKind::Inferred)
        } else {
            MemcpyKind::from_code(code)
        }
    }

    /// Whether the source is host memory.
    pub fn reads_host(self) -> bool {
        matches!(self, MemcpyKind::H2H | MemcpyKind::H2D)
    }

    /// Whether the destination is host memory.
    pub fn writes_host(self) -> bool {
        matches!(self, MemcpyKind::H2H | MemcpyKind::D2H)
    }
}

/// What a copy may rely on and must keep to, beside its arguments.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CopyFlags(pub u32);

impl CopyFlags {
    /// Nothing special.
    pub const NONE: CopyFlags = CopyFlags(0);
    /// Set by the core: the source is host memory that this runtime did not pin. An asynchronous
    /// copy must have read it when it returns (contract C3).
    pub const SOURCE_PAGEABLE: CopyFlags = CopyFlags(1);
    /// Set by the core: the destination is host memory that this runtime did not pin. An
    /// asynchronous copy must have written it when it returns (contract C3).
    pub const DESTINATION_PAGEABLE: CopyFlags = CopyFlags(2);
    /// Set by a client: the host buffer stays as it is until the stream has passed, so even a
    /// pageable one need not be waited for.
    pub const HOST_BUFFER_PROMISED: CopyFlags = CopyFlags(4);
    /// Set by the twelve-function table: where device memory is host memory and the stream has
    /// nothing pending, the copy is complete when the call returns (contract S8).
    pub const AT_ONCE_IF_IDLE: CopyFlags = CopyFlags(8);
    /// Every flag that has a meaning.
    pub const KNOWN: CopyFlags = CopyFlags(15);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: CopyFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    pub const fn with(self, other: CopyFlags) -> CopyFlags {
        CopyFlags(self.0 | other.0)
    }

    /// The bits of `self` that are not in `other`.
    pub const fn without(self, other: CopyFlags) -> CopyFlags {
        CopyFlags(self.0 & !other.0)
    }
}

/// A pitched copy of `depth` slices of `height` rows of `width` bytes (contract C4). An input struct.
///
/// Row `y` of slice `z` begins at `base + (z * slice_height + y) * pitch`. With `depth` 1 it is a 2-D
/// copy and the slice heights do not matter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LlaisysCopy3D {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// One of `LLAISYS_MEMCPY_*`.
    pub kind: u32,
    /// Where to.
    pub dst: *mut c_void,
    /// Bytes from one row of the destination to the next, at least `width`.
    pub dst_pitch: u64,
    /// Rows from one slice of the destination to the next, at least `height`.
    pub dst_slice_height: u64,
    /// Where from.
    pub src: *const c_void,
    /// Bytes from one row of the source to the next, at least `width`.
    pub src_pitch: u64,
    /// Rows from one slice of the source to the next, at least `height`.
    pub src_slice_height: u64,
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
}

impl LlaisysCopy3D {
    /// Whether there is nothing to copy.
    pub const fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Bytes from the first to the last byte of one side, or `None` when that wraps.
    pub fn extent(&self, pitch: u64, slice_height: u64) -> Option<usize> {
        let rows = (self.depth - 1).checked_mul(slice_height)?.checked_add(self.height - 1)?;
        let bytes = rows.checked_mul(pitch)?.checked_add(self.width)?;
        usize::try_from(bytes).ok().filter(|bytes| *bytes <= isize::MAX as usize)
    }
}

/// One range of a batched copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LlaisysCopyRange {
    /// Where to.
    pub dst: *mut c_void,
    /// Where from.
    pub src: *const c_void,
    /// Bytes.
    pub size: u64,
}

/// What a fill repeats: 1, 2, 4, 8 or 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    bytes: [u8; 16],
    size: usize,
}

impl Pattern {
    /// A pattern of these bytes.
    ///
    /// # Errors
    /// `INVALID_VALUE` when there are not 1, 2, 4, 8 or 16.
    pub fn new(from: &[u8]) -> Result<Pattern> {
        if !matches!(from.len(), 1 | 2 | 4 | 8 | 16) {
            let message = format!("a pattern has 1, 2, 4, 8 or 16 bytes, not {}", from.len());
            return Err(Error::new(Status::InvalidValue, message));
        }
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(from.iter().cycle()) {
            *to = *from;
        }
        Ok(Pattern { bytes, size: from.len() })
    }

    /// A pattern of one byte.
    #[inline]
    pub const fn of_byte(byte: u8) -> Pattern {
        Pattern { bytes: [byte; 16], size: 1 }
    }

    /// The pattern, repeated to 16 bytes.
    #[inline]
    pub fn repeated(&self) -> [u8; 16] {
        self.bytes
    }

    /// The pattern itself.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }

    /// The shortest pattern that repeats to the same bytes.
    #[inline]
    pub fn shortest(&self) -> Pattern {
        if self.size == 1 { *self } else { self.shorten() }
    }

    fn shorten(&self) -> Pattern {
        let size = [1, 2, 4, 8, 16]
            .into_iter()
            .find(|size| self.bytes.chunks(*size).all(|chunk| chunk == &self.bytes[..*size]));
        Pattern { bytes: self.bytes, size: size.unwrap_or(16).min(self.size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_knows_the_shortest_one_that_fills_alike() {
        let shortest = |bytes: &[u8]| Pattern::new(bytes).expect("a size").shortest().bytes().len();
        assert_eq!(shortest(&[7; 16]), 1);
        assert_eq!(shortest(&[1, 2, 1, 2]), 2);
        assert_eq!(shortest(&[1, 2, 3, 4, 1, 2, 3, 5]), 8);
        assert!(Pattern::new(&[0; 3]).is_err() && Pattern::new(&[]).is_err());
    }

    #[test]
    fn the_extent_of_a_pitched_copy_never_wraps() {
        let mut copy = LlaisysCopy3D {
            struct_size: 0,
            kind: 0,
            dst: std::ptr::null_mut(),
            dst_pitch: 0,
            dst_slice_height: 0,
            src: std::ptr::null(),
            src_pitch: 0,
            src_slice_height: 0,
            width: 10,
            height: 3,
            depth: 2,
        };
        assert_eq!(copy.extent(16, 4), Some((4 + 2) * 16 + 10));
        copy.height = 1 << 40;
        assert_eq!(copy.extent(1 << 40, 1 << 40), None);
        assert_eq!(copy.extent(u64::MAX, 1), None);
    }
}
