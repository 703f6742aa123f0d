//! A text of bounded length on the stack, for where nothing may be allocated.

use std::fmt;

/// Up to `N` bytes; what does not fit is left out.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const fn new() -> Text<N> {
        Text { bytes: [0; N], length: 0 }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let taken = text.len().min(N - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}
