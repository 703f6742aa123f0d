//! Which symbols a shared library exports, read from its file.

use crate::outcome::{Checked, Stop};
use std::path::Path;

/// The names of the defined global symbols in the dynamic table of a 64-bit little-endian library.
pub fn exported(path: &Path) -> Checked<Vec<String>> {
    let file = std::fs::read(path)
        .map_err(|error| Stop::fail(format!("{} cannot be read: {error}", path.display())))?;
    names(&file).ok_or_else(|| Stop::fail(format!("{} is no 64-bit ELF library", path.display())))
}

fn number(file: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = file.get(at..at + bytes)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn names(file: &[u8]) -> Option<Vec<String>> {
    const DYNAMIC_SYMBOLS: u64 = 11;
    let (table, size, count) = (number(file, 40, 8)?, number(file, 58, 2)?, number(file, 60, 2)?);
    let section = |index: u64| table + index * size;
    let symbols =
        (0..count).map(section).find(|at| number(file, at + 4, 4) == Some(DYNAMIC_SYMBOLS))?;
    let (start, length) = (number(file, symbols + 24, 8)?, number(file, symbols + 32, 8)?);
    let strings = number(file, section(number(file, symbols + 40, 4)?) + 24, 8)?;
    let mut names = Vec::new();
    for symbol in (start..start + length).step_by(24) {
        let (info, home) = (number(file, symbol + 4, 1)?, number(file, symbol + 6, 2)?);
        // Bindings 1 and 2 are global and weak; section 0 means that it is defined elsewhere.
        if home == 0 || !(1..=2).contains(&(info >> 4)) {
            continue;
        }
        let from = usize::try_from(strings + number(file, symbol, 4)?).ok()?;
        let text = file.get(from..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        names.push(String::from_utf8_lossy(&text[..end]).into_owned());
    }
    names.sort();
    Some(names)
}
