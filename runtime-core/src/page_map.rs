//! From an address to the record of the block that holds it, without a lock.
//!
//! A tree over the bits of the address, six levels deep. An entry has a record and a child: a block
//! puts its record into the entries that it covers, each as near to the root as
//!
//! * it covers the whole entry, or fills a good part of it (a quarter), and
//! * no other block was there first: then it goes on to the child.
//!
//! So a block of gigabytes is in some entries of the upper levels, a small one in one entry of 4 KiB or
//! in a few cells of 256 bytes, and a look-up is two to five loads and the record. The last level, of
//! single bytes, is for blocks that share a cell, as registered memory of the user's may.
//!
//! Rules: one thread at a time changes the map (its lock is in `pointers`); readers take no lock. Nodes
//! are never freed, and records are used again for other blocks: whoever reads a record checks that
//! it holds the address.

use crate::record::Record;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The bits of an address that each level looks at, from the root on, and those below them.
const LEVELS: [Level; 6] = [
    Level { bits: 14, shift: 34 },
    Level { bits: 12, shift: 22 },
    Level { bits: 5, shift: 17 },
    Level { bits: 5, shift: 12 },
    Level { bits: 4, shift: 8 },
    Level { bits: 8, shift: 0 },
];

/// [`LEVELS`], for the look-up, as a value that the compiler cannot look into: what it would make of six
/// known turns is several times as long, and a look-up's code is rarely in the nearest cache.
static LEVELS_IN_MEMORY: AtomicPtr<Level> = {
    static IN_MEMORY: [Level; LEVELS.len()] = LEVELS;
    AtomicPtr::new((&raw const IN_MEMORY).cast_mut().cast())
};

/// From this level on any block may take an entry that is free: a cell of 256 bytes rarely has two.
const CELL: usize = 4;

/// Addresses from here on have no place in the map.
pub const END: usize = 1 << 48;

struct Level {
    bits: u32,
    shift: u32,
}

impl Level {
    const fn entries(&self) -> usize {
        1 << self.bits
    }

    /// The bytes that an entry stands for.
    const fn span(&self) -> usize {
        1 << self.shift
    }

    #[inline(always)]
    const fn index(&self, address: usize) -> usize {
        (address >> self.shift) & (self.entries() - 1)
    }
}

/// One entry of a node.
struct Entry {
    record: AtomicPtr<Record>,
    /// The first entry of a node of the next level.
    child: AtomicPtr<Entry>,
}

impl Entry {
    const fn new() -> Entry {
        Entry { record: AtomicPtr::new(ptr::null_mut()), child: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    fn record(&self) -> Option<&'static Record> {
        // SAFETY: null, or a record, which is never freed.
        unsafe { self.record.load(Ordering::Acquire).as_ref() }
    }

    /// The child's entries; `level` is the child's.
    #[inline]
    fn child(&self, level: usize) -> Option<&'static [Entry]> {
        let first = self.child.load(Ordering::Acquire);
        // SAFETY: null, or a node of that level, which was published whole and is never freed.
        (!first.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(first, LEVELS[level].entries()) })
    }

    /// The child's entries, made when there are none; `level` is the child's.
    fn child_or_new(&self, level: usize) -> &'static [Entry] {
        if let Some(child) = self.child(level) {
            return child;
        }
        let layout = Layout::array::<Entry>(LEVELS[level].entries()).expect("a node is small");
        // SAFETY: the layout is not empty.
        let first = unsafe { alloc_zeroed(layout) }.cast::<Entry>();
        if first.is_null() {
            handle_alloc_error(layout);
        }
        // Zeroes are two null pointers, so these are entries.
        self.child.store(first, Ordering::Release);
        self.child(level).expect("just stored")
    }
}

/// The map. Its root is as large as needed for every address below [`END`]; all of it is zero, so it takes
/// nothing in a file, and no memory until blocks come.
pub struct PageMap {
    root: [Entry; LEVELS[0].entries()],
}

/// Part of the address space: from the first byte to the last, both inside, below [`END`].
#[derive(Clone, Copy)]
pub struct Extent {
    /// The first byte.
    pub first: usize,
    /// The last byte.
    pub last: usize,
}

impl Extent {
    /// The entries of a level that this touches, each with the part that is in it and whether that is
    /// all of it. The extent lies in one node.
    fn entries(self, level: usize) -> impl Iterator<Item = (usize, Extent, bool)> {
        let Level { shift, .. } = LEVELS[level];
        let (from, to) = (self.first >> shift, self.last >> shift);
        (from..=to).map(move |number| {
            let first = number << shift;
            let last = first + (LEVELS[level].span() - 1);
            let part = Extent { first: self.first.max(first), last: self.last.min(last) };
            (LEVELS[level].index(first), part, part.first == first && part.last == last)
        })
    }

    fn length(self) -> usize {
        self.last - self.first + 1
    }
}

impl PageMap {
    /// A map without blocks.
    pub const fn new() -> PageMap {
        PageMap { root: [const { Entry::new() }; LEVELS[0].entries()] }
    }

    /// Shows `visit` the records on the way to an address, below [`END`], until it answers something.
    #[inline]
    pub fn visit<T>(
        &self,
        address: usize,
        mut visit: impl FnMut(&'static Record) -> Option<T>,
    ) -> Option<T> {
        let mut node: *const Entry = self.root.as_ptr();
        let mut level: *const Level = LEVELS_IN_MEMORY.load(Ordering::Relaxed);
        loop {
            // SAFETY: `LEVELS_IN_MEMORY` points to [`LEVELS`], whose last level is left below; `node` is a node of
            // this level, and the index is taken modulo its length.
            let (here, entry) = unsafe {
                let here = &*level;
                (here, &*node.add(here.index(address)))
            };
            if let Some(record) = entry.record()
                && let Some(answer) = visit(record)
            {
                return Some(answer);
            }
            node = entry.child.load(Ordering::Acquire);
            if here.shift == 0 || node.is_null() {
                return None;
            }
            // SAFETY: only the last level has a shift of 0.
            level = unsafe { level.add(1) };
        }
    }

    /// Shows `visit` the records that may touch an extent, until it answers something. The caller
    /// holds the lock.
    pub fn visit_all<T>(
        &self,
        extent: Extent,
        visit: &mut impl FnMut(&'static Record) -> Option<T>,
    ) -> Option<T> {
        visit_node(&self.root, 0, extent, visit)
    }

    /// Puts a record where its block is. The caller holds the lock, and no other block lies there.
    pub fn insert(&self, extent: Extent, record: &'static Record) {
        place(&self.root, 0, extent, extent.length(), ptr::from_ref(record).cast_mut());
    }

    /// Takes out the record of the block that lies there. The caller holds the lock.
    pub fn remove(&self, extent: Extent, record: &'static Record) {
        displace(&self.root, 0, extent, record);
    }
}

impl Default for PageMap {
    fn default() -> Self {
        Self::new()
    }
}

fn visit_node<T>(
    node: &[Entry],
    level: usize,
    extent: Extent,
    visit: &mut impl FnMut(&'static Record) -> Option<T>,
) -> Option<T> {
    extent.entries(level).find_map(|(index, part, _)| {
        let entry = &node[index];
        if let Some(answer) = entry.record().and_then(&mut *visit) {
            return Some(answer);
        }
        let next = level + 1;
        if next == LEVELS.len() {
            return None;
        }
        visit_node(entry.child(next)?, next, part, visit)
    })
}

fn place(node: &[Entry], level: usize, extent: Extent, length: usize, record: *mut Record) {
    for (index, part, is_whole) in extent.entries(level) {
        let entry = &node[index];
        let fits = is_whole || level >= CELL || length >= LEVELS[level].span() / 4;
        if fits && entry.record.load(Ordering::Relaxed).is_null() {
            entry.record.store(record, Ordering::Release);
        } else if level + 1 < LEVELS.len() {
            place(entry.child_or_new(level + 1), level + 1, part, length, record);
        } else {
            debug_assert!(false, "two blocks have the byte {:#x}", part.first);
        }
    }
}

fn displace(node: &[Entry], level: usize, extent: Extent, record: &'static Record) {
    for (index, part, _) in extent.entries(level) {
        let entry = &node[index];
        if entry.record().is_some_and(|there| ptr::eq(there, record)) {
            entry.record.store(ptr::null_mut(), Ordering::Release);
        } else if level + 1 < LEVELS.len()
            && let Some(child) = entry.child(level + 1)
        {
            displace(child, level + 1, part, record);
        }
    }
}
