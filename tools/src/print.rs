//! How this command prints: tables that fit the terminal, sizes and rates for people.
//!
//! Rule: what a program reads is JSON (`--json`), one value on standard output, or one a line; what is printed here
//! is for people and may change.

use comfy_table::{ContentArrangement, Table, presets};
use std::io::Write as _;

/// An empty table that wraps its cells to the width of the terminal; to 80 columns where there is
/// none.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width() as u16)
        .set_header(header);
    table
}

/// How many columns what is printed may have: those of the terminal within reason; 80 where there is none.
pub fn width() -> usize {
    let columns = console::Term::stdout().size_checked().map_or(80, |(_, columns)| columns);
    columns.clamp(60, 120).into()
}

/// Prints a line on standard output. That nobody reads it (a closed pipe) is no failure.
pub fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints a line on standard error.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints one JSON value.
pub fn json(value: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(value)
        .expect("what this command prints has text keys and serializes without failing");
    line(text);
}

/// Prints one JSON value on one line.
pub fn json_line(value: &impl serde::Serialize) {
    let text = serde_json::to_string(value)
        .expect("what this command prints has text keys and serializes without failing");
    line(text);
}

/// A size in binary units: `64 MiB`, `15.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = count as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn a_size_is_said_in_the_largest_unit_that_it_fills() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes((15 << 30) + (512 << 20)), "15.5 GiB");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }
}
