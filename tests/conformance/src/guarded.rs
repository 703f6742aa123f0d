//! A destination with sentinels on both sides, so that a byte too many is seen.

use crate::address::Address;
use crate::context::Context;
use crate::data;
use crate::gate;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::quiet::settle;

/// How many sentinels stand on each side.
const GUARD: usize = 192;

/// A destination between sentinels. Everything, the inside too, starts as sentinels.
pub struct Guarded {
    block: Block,
    offset: usize,
}

/// `length` sentinels: each one differs from its neighbours.
fn sentinels(length: usize) -> Vec<u8> {
    let mut row: Vec<u8> = (0..=255u8).map(|at| at.wrapping_mul(31) ^ 0xc5).collect();
    row = row.repeat(length.div_ceil(row.len()));
    row.truncate(length);
    row
}

impl Guarded {
    /// A destination of `size` bytes.
    pub fn new(context: &'static Context, place: Place, size: usize) -> Checked<Guarded> {
        Guarded::at(context, place, size, 0)
    }

    /// A destination of `size` bytes that begins `shift` bytes past an aligned address.
    pub fn at(
        context: &'static Context,
        place: Place,
        size: usize,
        shift: usize,
    ) -> Checked<Guarded> {
        let block = Block::new(context, place, size + shift + 2 * GUARD)?;
        let mut guarded = Guarded { block, offset: GUARD + shift };
        guarded.reset()?;
        Ok(guarded)
    }

    /// Makes everything sentinels again.
    pub fn reset(&mut self) -> Checked {
        self.block.write(0, &sentinels(self.block.size()))
    }

    /// Where to copy to.
    pub fn address(&self) -> Address {
        self.block.address().plus(self.offset)
    }

    /// Fails unless the inside is `expected` and both sides are as they were.
    pub fn expect(&self, expected: &[u8], what: &str) -> Checked {
        self.expect_at(0, expected, what)
    }

    /// As `expect`, when only a part of the inside was to be written.
    pub fn expect_at(&self, from: usize, expected: &[u8], what: &str) -> Checked {
        let mut right = sentinels(self.block.size());
        let start = self.offset + from;
        right[start..start + expected.len()].copy_from_slice(expected);
        let found = self.block.content()?;
        let parts = [
            ("before the destination", 0..start),
            ("in the destination", start..start + expected.len()),
            ("behind the destination", start + expected.len()..right.len()),
        ];
        for (part, range) in parts {
            if let Some(difference) = data::difference(&found[range.clone()], &right[range]) {
                fail!("{what}: {part}, {difference}");
            }
        }
        Ok(())
    }

    /// The first bytes of the inside as they are now.
    pub fn inside(&self, length: usize) -> Checked<Vec<u8>> {
        self.block.read(self.offset, length)
    }

    /// Fails unless nothing was written at all. While a gate is closed, everything that does not stand
    /// behind it goes on first, so that a write that did not wait is seen.
    pub fn expect_untouched(&self, what: &str) -> Checked {
        if gate::is_any_closed() {
            settle();
        }
        self.expect(&[], what)
    }
}
