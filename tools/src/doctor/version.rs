//! Versions: numbers with dots between, as drivers, toolkits and library files have them.
//!
//! Rule: a version is shown as it was found (`535.104.05` keeps its zero) and compared by its numbers.

use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// A version: at least one number.
#[derive(Clone, Debug)]
pub struct Version {
    text: String,
    numbers: Vec<u32>,
}

impl Version {
    /// Reads `12.4.127`; `None` when a part is no number.
    pub fn parse(text: &str) -> Option<Version> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        Some(Version { text: text.to_owned(), numbers: numbers? })
    }

    /// The first word of a text that is a version with at least one dot.
    pub fn find(text: &str) -> Option<Version> {
        text.split_whitespace().filter(|word| word.contains('.')).find_map(Version::parse)
    }

    /// What stands behind `.so.` in a file's name, when it is more than the one number of a soname.
    pub fn of_file(name: &str) -> Option<Version> {
        let (_, version) = name.split_once(".so.")?;
        Version::parse(version).filter(|version| version.numbers.len() > 1)
    }

    /// Major and minor; a minor that is not there is 0.
    pub fn release(&self) -> (u32, u32) {
        (self.major(), self.numbers.get(1).copied().unwrap_or_default())
    }

    /// The first number.
    pub fn major(&self) -> u32 {
        self.numbers[0]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.numbers == other.numbers
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        self.numbers.cmp(&other.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn a_release_is_compared_by_numbers_and_shown_as_it_was() {
        let version = |text| Version::parse(text).expect("a version");
        assert!(version("535.104.05") > version("535.54.03"));
        assert_eq!(version("535.104.05"), version("535.104.5"));
        assert_eq!(version("535.104.05").to_string(), "535.104.05");
        assert_eq!(version("12.4.127").release(), (12, 4));
        assert_eq!(version("12").release(), (12, 0));
        for text in ["", "12.", ".4", "12.x", "v12"] {
            assert!(Version::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_soname_is_no_version() {
        let of = |name| Version::of_file(name).map(|version| version.to_string());
        assert_eq!(of("libcudart.so.12.4.127").as_deref(), Some("12.4.127"));
        assert_eq!(of("libcuda.so.535.104.05").as_deref(), Some("535.104.05"));
        assert_eq!(of("libcuda.so.1"), None);
        assert_eq!(of("libcudart.so.11.0").as_deref(), Some("11.0"));
        assert_eq!(of("libcuda.so"), None);
    }
}
