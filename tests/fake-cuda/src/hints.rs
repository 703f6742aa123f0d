//! What is said of managed memory: how it is used, where it should be, where it was sent.
//!
//! The rule: hints are kept for whole pages, in parts that begin where a hint changes; a question about a
//! range has an answer only where all its pages agree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The unit of hints.
pub const PAGE: usize = 4096;

/// The older numbers of places that are no device: the host, and nowhere.
pub const CPU: i32 = -1;
pub const NOWHERE: i32 = -2;

/// A place for memory to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    Nowhere,
    Device(i32),
    Host,
    HostNode(i32),
}

impl Location {
    /// The number of the kind in `CUmemLocation`.
    pub fn kind(self) -> i32 {
        match self {
            Location::Nowhere => 0,
            Location::Device(_) => 1,
            Location::Host => 2,
            Location::HostNode(_) => 3,
        }
    }

    /// The device or the node.
    pub fn id(self) -> i32 {
        match self {
            Location::Device(id) | Location::HostNode(id) => id,
            Location::Nowhere | Location::Host => 0,
        }
    }

    /// The older form: a device, the host or nowhere.
    pub fn ordinal(self) -> i32 {
        match self {
            Location::Nowhere => NOWHERE,
            Location::Device(ordinal) => ordinal,
            Location::Host | Location::HostNode(_) => CPU,
        }
    }
}

/// What is said of a part.
#[derive(Clone, PartialEq)]
pub struct Hint {
    pub read_mostly: bool,
    pub preferred: Location,
    pub prefetched: Location,
    /// Devices, and `CPU` for the host.
    pub accessed_by: BTreeSet<i32>,
}

/// What is said of an allocation.
pub struct Hints {
    length: usize,
    /// Where a part begins → what is said of it.
    parts: BTreeMap<usize, Hint>,
}

impl Hints {
    /// Nothing is said of so many bytes.
    pub fn none(bytes: usize) -> Hints {
        let hint = Hint {
            read_mostly: false,
            preferred: Location::Nowhere,
            prefetched: Location::Nowhere,
            accessed_by: BTreeSet::new(),
        };
        Hints { length: bytes.next_multiple_of(PAGE), parts: BTreeMap::from([(0, hint)]) }
    }

    /// The pages that a range touches.
    fn pages(&self, range: Range<usize>) -> Range<usize> {
        range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE).min(self.length)
    }

    fn split(&mut self, at: usize) {
        if at < self.length && !self.parts.contains_key(&at) {
            let hint = self.parts.range(..at).next_back().map(|(_, hint)| hint.clone());
            self.parts.insert(at, hint.expect("a part begins at 0"));
        }
    }

    /// Changes what is said of the pages of a range.
    pub fn change(&mut self, range: Range<usize>, mut how: impl FnMut(&mut Hint)) {
        let pages = self.pages(range);
        self.split(pages.start);
        self.split(pages.end);
        self.parts.range_mut(pages).for_each(|(_, hint)| how(hint));
    }

    /// What is said of the parts of a range.
    pub fn of(&self, range: Range<usize>) -> impl Iterator<Item = &Hint> {
        let pages = self.pages(range);
        let first = self.parts.range(..=pages.start).next_back();
        first.into_iter().chain(self.parts.range(pages.start + 1..pages.end)).map(|(_, hint)| hint)
    }

    /// What all pages of a range agree on.
    pub fn agreed<T: PartialEq>(
        &self,
        range: Range<usize>,
        what: impl Fn(&Hint) -> T,
    ) -> Option<T> {
        let mut said = self.of(range).map(what);
        let first = said.next()?;
        said.all(|other| other == first).then_some(first)
    }
}
