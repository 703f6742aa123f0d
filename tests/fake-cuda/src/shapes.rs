//! The shape of a copy: slices of rows of bytes, and how far apart they are on each side.
//!
//! The rule: what a shape spans is computed without wrapping; a shape without bytes spans nothing.

use crate::errors::{Answer, INVALID_VALUE};

/// Bytes from a row to the next, and from a slice to the next.
#[derive(Clone, Copy)]
pub struct Stride {
    pub row: usize,
    pub slice: usize,
}

/// `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy)]
pub struct Shape {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub to: Stride,
    pub from: Stride,
}

impl Shape {
    /// One row.
    pub const fn line(bytes: usize) -> Shape {
        let stride = Stride { row: bytes, slice: bytes };
        Shape { width: bytes, height: 1, depth: 1, to: stride, from: stride }
    }

    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    pub fn is_line(&self) -> bool {
        self.height == 1 && self.depth == 1
    }

    /// How many bytes are copied.
    pub fn bytes(&self) -> Answer<usize> {
        let slice = self.width.checked_mul(self.height).ok_or(INVALID_VALUE)?;
        slice.checked_mul(self.depth).ok_or(INVALID_VALUE)
    }

    /// From the first byte to behind the last one. Not for a shape without bytes.
    pub fn span(&self, stride: Stride) -> Answer<usize> {
        let slices = (self.depth - 1).checked_mul(stride.slice).ok_or(INVALID_VALUE)?;
        let rows = (self.height - 1).checked_mul(stride.row).ok_or(INVALID_VALUE)?;
        let before = slices.checked_add(rows).ok_or(INVALID_VALUE)?;
        before.checked_add(self.width).ok_or(INVALID_VALUE)
    }

    /// The same with a source without gaps.
    pub fn packed(self) -> Shape {
        let from = Stride { row: self.width, slice: self.width * self.height };
        Shape { from, ..self }
    }

    /// Where the rows begin, there and here.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.depth).flat_map(move |slice| {
            (0..self.height).map(move |row| {
                let at = |stride: Stride| slice * stride.slice + row * stride.row;
                (at(self.to), at(self.from))
            })
        })
    }
}
