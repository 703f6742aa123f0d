//! What a compute capability means: which toolkits make code for it, and what code runs on it.
//!
//! Sources: PTX ISA (<https://docs.nvidia.com/cuda/parallel-thread-execution/>), "Release Notes", for the
//! first toolkit; "CUDA Toolkit Release Notes", removed architectures, for the last; CUDA C++ Programming
//! Guide, "Binary Compatibility" and "PTX Compatibility", for what runs where.
//!
//! Rule: a capability that the table does not have is said to be newer than it, never guessed.

use super::compatibility::spell;
use serde::Serialize;

/// One capability.
struct Row {
    capability: (u32, u32),
    /// The first toolkit that makes code for it.
    first: (u32, u32),
    /// The last one; `None` while there is none.
    last: Option<(u32, u32)>,
    /// A system on a chip: code for the others of its major does not name it.
    tegra: bool,
}

const fn row(capability: (u32, u32), first: (u32, u32), last: Option<(u32, u32)>) -> Row {
    Row { capability, first, last, tegra: false }
}

const fn tegra(capability: (u32, u32), first: (u32, u32), last: Option<(u32, u32)>) -> Row {
    Row { capability, first, last, tegra: true }
}

/// CUDA 11 ended Kepler 3.0, 12 the rest of Kepler, 13 Maxwell, Pascal and Volta.
const ROWS: &[Row] = &[
    row((3, 0), (4, 2), Some((10, 2))),
    row((3, 5), (5, 0), Some((11, 8))),
    row((3, 7), (6, 5), Some((11, 8))),
    row((5, 0), (6, 0), Some((12, 9))),
    row((5, 2), (6, 5), Some((12, 9))),
    tegra((5, 3), (7, 0), Some((12, 9))),
    row((6, 0), (8, 0), Some((12, 9))),
    row((6, 1), (8, 0), Some((12, 9))),
    tegra((6, 2), (8, 0), Some((12, 9))),
    row((7, 0), (9, 0), Some((12, 9))),
    tegra((7, 2), (9, 1), Some((12, 9))),
    row((7, 5), (10, 0), None),
    row((8, 0), (11, 0), None),
    row((8, 6), (11, 1), None),
    tegra((8, 7), (11, 4), None),
    tegra((8, 8), (13, 0), None),
    row((8, 9), (11, 8), None),
    row((9, 0), (11, 8), None),
    row((10, 0), (12, 8), None),
    // Thor; CUDA 13.0 calls it 11.0.
    tegra((10, 1), (12, 8), Some((12, 9))),
    row((10, 3), (12, 9), None),
    row((10, 7), (13, 4), None),
    tegra((11, 0), (13, 0), None),
    row((12, 0), (12, 8), None),
    row((12, 1), (12, 9), None),
];

/// What a capability means for whoever builds code for the device.
#[derive(Clone, Debug, Serialize)]
pub struct Meaning {
    /// The first toolkit that makes code for it; `None` when this table does not know it.
    pub first_toolkit: Option<String>,
    /// The last one; `None` while there is none.
    pub last_toolkit: Option<String>,
    /// A binary must contain one of these targets of compiled code (SASS) …
    pub sass: Vec<String>,
    /// … or PTX for this virtual architecture or an older one.
    pub ptx: String,
}

/// What a toolkit can do for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// It makes code for it.
    Made,
    /// It is older than the device: its code runs where it has PTX, which the driver compiles.
    OnlyPtx,
    /// It no longer makes code for the device.
    Dropped,
    /// The table does not have the capability.
    Unknown,
}

fn find(capability: (u32, u32)) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.capability == capability)
}

/// What a capability means.
pub fn meaning(capability: (u32, u32)) -> Meaning {
    let row = find(capability);
    let target = |(major, minor): (u32, u32)| format!("sm_{major}{minor}");
    let sass = ROWS
        .iter()
        .filter(|row| row.capability.0 == capability.0 && row.capability.1 < capability.1)
        .filter(|row| !row.tegra)
        .map(|row| target(row.capability))
        .chain([target(capability)]);
    Meaning {
        first_toolkit: row.map(|row| spell(row.first)),
        last_toolkit: row.and_then(|row| row.last).map(spell),
        sass: sass.collect(),
        ptx: format!("compute_{}{}", capability.0, capability.1),
    }
}

/// What a toolkit can do for a capability.
pub fn support(capability: (u32, u32), toolkit: (u32, u32)) -> Support {
    match find(capability) {
        None => Support::Unknown,
        Some(row) if toolkit < row.first => Support::OnlyPtx,
        Some(row) if row.last.is_some_and(|last| toolkit > last) => Support::Dropped,
        Some(_) => Support::Made,
    }
}

impl Meaning {
    /// Which toolkits, in words.
    pub fn toolkits(&self) -> String {
        match (&self.first_toolkit, &self.last_toolkit) {
            (None, _) => "newer than the table of this command".to_owned(),
            (Some(first), None) => format!("CUDA {first} or later"),
            (Some(first), Some(last)) => format!("CUDA {first} to {last}"),
        }
    }

    /// What code must contain, in words.
    pub fn code(&self) -> String {
        format!("SASS for {}, or PTX for {} or older", self.sass.join(" or "), self.ptx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_no_toolkit_ends_before_it_began() {
        for pair in ROWS.windows(2) {
            assert!(pair[0].capability < pair[1].capability, "{:?}", pair[1].capability);
        }
        for row in ROWS {
            assert!(row.last.is_none_or(|last| last >= row.first), "{:?}", row.capability);
        }
    }

    #[test]
    fn toolkits_begin_and_end_where_nvidia_says() {
        assert_eq!(support((9, 0), (11, 8)), Support::Made);
        assert_eq!(support((9, 0), (11, 7)), Support::OnlyPtx);
        assert_eq!(support((7, 0), (12, 9)), Support::Made);
        assert_eq!(support((7, 0), (13, 0)), Support::Dropped);
        assert_eq!(support((7, 5), (13, 0)), Support::Made);
        assert_eq!(support((12, 0), (12, 6)), Support::OnlyPtx);
        assert_eq!(support((99, 0), (12, 6)), Support::Unknown);
    }

    #[test]
    fn compiled_code_runs_on_its_major_from_its_minor_on() {
        assert_eq!(meaning((8, 9)).sass, ["sm_80", "sm_86", "sm_89"]);
        assert_eq!(meaning((8, 7)).sass, ["sm_80", "sm_86", "sm_87"]);
        assert_eq!(meaning((9, 0)).code(), "SASS for sm_90, or PTX for compute_90 or older");
        assert_eq!(meaning((7, 0)).toolkits(), "CUDA 9.0 to 12.9");
        assert_eq!(meaning((99, 0)).toolkits(), "newer than the table of this command");
    }
}
