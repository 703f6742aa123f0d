//! Every block of memory that this runtime handed out: whose it is, where it is, how large it is.
//!
//! Rules: one table for the process, because a pointer means the same everywhere (contract D3, M6).
//! A block is put in after the backend allocated it and is claimed (taken out, by exactly one
//! caller) before the backend frees it, so a second free finds nothing (M5), and no block ever lies
//! over another.
//!
//! Every copy looks its two pointers up, so a look-up takes no lock: `page_map` leads to the record of a
//! block, and `record` gives all words of it or says that they are changing.

use crate::api::{Ordinal, Stream};
use crate::device_type::DeviceType;
use crate::error::{Error, Result};
use crate::fork::{self, ForkAware};
use crate::hints::{Hint, Hints};
use crate::lock::{ForkLock, Mutex};
use crate::page_map::{self, Extent, PageMap};
use crate::record::{Record, WORDS};
use crate::status::Status;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Which function made a block, and so which one frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// `malloc_device`, freed by `free_device`.
    Device,
    /// `malloc_host`: pinned, freed by `free_host`.
    Host,
    /// `malloc_managed`: one address for host and device, freed by `free_managed`.
    Managed,
    /// The user's own, pinned by `register_host`, let go by `unregister_host`.
    Registered,
}

impl MemoryKind {
    /// What it is called, and what frees it.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            MemoryKind::Device => ("device memory", "free_device"),
            MemoryKind::Host => ("pinned host memory", "free_host"),
            MemoryKind::Managed => ("managed memory", "free_managed"),
            MemoryKind::Registered => ("registered host memory", "unregister_host"),
        }
    }

    /// Whether a copy may take it for host memory.
    pub fn is_host(self) -> bool {
        !matches!(self, MemoryKind::Device)
    }

    /// Whether a copy may take it for device memory.
    pub fn is_device(self) -> bool {
        matches!(self, MemoryKind::Device | MemoryKind::Managed)
    }
}

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first byte.
    pub base: usize,
    /// The size that was asked for, in bytes.
    pub size: usize,
    /// Which function made it.
    pub kind: MemoryKind,
    /// Whose backend made it.
    pub owner: DeviceType,
    /// The device it is on, or for which it was pinned.
    pub device: Ordinal,
    /// Host code may read and write it: all but device memory that is not the host's.
    pub on_host: bool,
    /// The stream whose account it is in, if it was allocated on one, and that stream's serial.
    pub stream: Option<(Stream, u64)>,
}

impl Block {
    /// Whether `size` bytes from `address`, which lies in this block, stay inside it.
    #[inline]
    pub fn holds(&self, address: usize, size: usize) -> bool {
        size <= self.size - (address - self.base)
    }

    #[inline]
    fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.size
    }

    fn extent(&self) -> Extent {
        Extent { first: self.base, last: self.base + (self.size - 1) }
    }

    fn meets(&self, extent: Extent) -> bool {
        self.size > 0 && self.base <= extent.last && self.extent().last >= extent.first
    }

    /// As the words of a record; a record of zeroes is a block of no bytes.
    fn to_words(self) -> [u64; WORDS] {
        let (stream, serial) = self.stream.unwrap_or((Stream::DEFAULT, 0));
        let flags = u64::from(self.on_host) << 2 | u64::from(self.stream.is_some()) << 3;
        let about = self.kind as u64 | flags | self.about().0 | u64::from(self.device as u32) << 32;
        [self.base as u64, self.size as u64, about, stream.0 as u64, serial]
    }

    fn about(&self) -> About {
        let is_host = if self.kind.is_host() { About::HOST.0 } else { 0 };
        let is_device = if self.kind.is_device() { About::DEVICE.0 } else { 0 };
        About(About::of(self.owner).0 | is_host | is_device)
    }

    #[inline]
    fn from_words([base, size, about, stream, serial]: [u64; WORDS]) -> Block {
        Block {
            base: base as usize,
            size: size as usize,
            kind: match about & 3 {
                0 => MemoryKind::Device,
                1 => MemoryKind::Host,
                2 => MemoryKind::Managed,
                _ => MemoryKind::Registered,
            },
            owner: DeviceType::from((about >> 16) as i16),
            device: (about >> 32) as Ordinal,
            on_host: about & 4 != 0,
            stream: (about & 8 != 0 && serial != NO_STREAM)
                .then_some((Stream(stream as *mut c_void), serial)),
        }
    }
}

/// What most questions about a block are about, in one word: whose it is, and which side of a copy it
/// may be.
#[derive(Clone, Copy)]
pub struct About(u64);

impl About {
    /// A copy may take it for host memory.
    pub const HOST: About = About(1 << 4);
    /// A copy may take it for device memory.
    pub const DEVICE: About = About(1 << 5);
    const OWNER: u64 = 0xFFFF << 16;

    /// Of this backend.
    #[inline]
    pub const fn of(owner: DeviceType) -> About {
        About((owner as u16 as u64) << 16)
    }

    /// Both.
    #[inline]
    pub const fn and(self, other: About) -> About {
        About(self.0 | other.0)
    }

    /// Whether a block is of that backend, and on that side if one is named.
    #[inline]
    pub const fn is(self, wanted: About) -> bool {
        (self.0 ^ wanted.0) & (About::OWNER | wanted.0) == 0
    }
}

/// The serial of no stream, in the record of a block of the allocator.
pub const NO_STREAM: u64 = u64::MAX;

/// Where in the third word of a record the class of a block of the allocator is, plus one; 0 in all other
/// records.
const CLASS_SHIFT: u32 = 8;

/// The class of a block of the allocator, from the third word of its record.
#[inline(always)]
pub fn class_of(about: u64) -> usize {
    (about >> CLASS_SHIFT & 0xFF) as usize - 1
}

/// Where blocks of the allocator are, and what they are.
#[derive(Clone, Copy)]
pub struct Place {
    /// Device memory or pinned host memory.
    pub kind: MemoryKind,
    /// Whose backend.
    pub owner: DeviceType,
    /// Its device.
    pub device: Ordinal,
    /// Host code may read and write it.
    pub on_host: bool,
}

/// The blocks.
struct PointerTable {
    /// Held by whoever changes the table.
    change: Mutex<Change>,
    /// There are blocks beyond the addresses that the map has a place for.
    any_beyond: AtomicBool,
}

struct Change {
    /// Records that no block uses.
    spare: Vec<&'static Record>,
    /// Blocks beyond the map, by their first byte: no machine's memory is there, but a plugin may number
    /// its memory as it likes.
    beyond: BTreeMap<usize, Block>,
    /// Where the allocator's segments are: their sizes by their first bytes. Only its blocks lie there.
    segments: BTreeMap<usize, usize>,
}

/// Where they are. By itself, because a static that is not all zero is in the file from end to end.
static MAP: PageMap = PageMap::new();
static HINTS: Hints = Hints::new();

static TABLE: PointerTable = PointerTable {
    change: Mutex::new(Change {
        spare: Vec::new(),
        beyond: BTreeMap::new(),
        segments: BTreeMap::new(),
    }),
    any_beyond: AtomicBool::new(false),
};

impl ForkAware for PointerTable {
    fn prepare(&self) {
        self.change.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.change.release() };
    }
}

/// Has the table carried over forks; called before the first block comes.
pub fn carry_over_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        fork::register(&TABLE);
    }
}

/// Remembers a block that a backend just allocated.
///
/// Memory that the user registered and gave back to the system without unregistering it may have come
/// back as this block; then it is forgotten.
///
/// # Errors
/// `INTERNAL` when the backend handed out memory that is in use.
pub fn insert(block: Block) -> Result<()> {
    if block.base.checked_add(block.size).is_none() {
        let message = format!("{} bytes at {:#x} wrap around", block.size, block.base);
        return Err(Error::new(Status::Internal, message));
    }
    let mut change = TABLE.change.lock();
    change.make_room(block)?;
    change.insert(block);
    Ok(())
}

/// Remembers a block of the user's own memory, unless it lies over one that is known.
///
/// # Errors
/// `INVALID_VALUE` with the block that is in the way.
pub fn insert_foreign(block: Block) -> Result<()> {
    let mut change = TABLE.change.lock();
    if let Some((other, _)) = change.lying_over(block) {
        drop(change);
        return Err(Error::new(Status::InvalidValue, in_the_way(block, other)));
    }
    change.check_no_segment(block).map_err(|message| Error::new(Status::InvalidValue, message))?;
    change.insert(block);
    Ok(())
}

#[cold]
fn in_the_way(block: Block, other: Block) -> String {
    format!(
        "{} bytes at {:#x} lie over {} of {} bytes at {:#x}",
        block.size,
        block.base,
        other.kind.words().0,
        other.size,
        other.base
    )
}

/// How many bytes there are from this address to the end of its block, and what that block is; no bytes
/// where there is no block, or where that takes a closer look ([`find`]).
///
/// This is on the way of every enqueue. Out of line on purpose: both ends of a copy run the same code.
#[inline(never)]
pub fn look(address: usize) -> (usize, About) {
    let hint = HINTS.of(address);
    let guessed = hint.record().and_then(|record| rest_of(record, address));
    guessed.unwrap_or_else(|| look_in_map(address, hint))
}

/// What is left of a record's block from this address on; `None` where it does not hold the address.
#[inline(always)]
fn rest_of(record: &Record, address: usize) -> Option<(usize, About)> {
    let [base, size, about] = record.read_first()?;
    let offset = address.wrapping_sub(base as usize);
    (offset < size as usize).then(|| (size as usize - offset, About(about)))
}

#[inline(never)]
fn look_in_map(address: usize, hint: &Hint) -> (usize, About) {
    if address >= page_map::END {
        return (0, About(0));
    }
    let found = MAP.visit(address, |record| {
        let rest = rest_of(record, address)?;
        hint.remember(record);
        Some(rest)
    });
    found.unwrap_or((0, About(0)))
}

/// The block that holds this address.
pub fn find(address: usize) -> Option<Block> {
    if address >= page_map::END {
        return find_beyond(address);
    }
    loop {
        let mut is_changing = false;
        let found = MAP.visit(address, |record| match record.read() {
            Some(words) => Some(Block::from_words(words)).filter(|block| block.contains(address)),
            None => {
                is_changing = true;
                None
            }
        });
        if found.is_some() || !is_changing {
            return found;
        }
        wait_for_change();
    }
}

/// A record is written in a few nanoseconds, unless its writer was interrupted.
#[cold]
fn wait_for_change() {
    for _ in 0..100 {
        spin_loop();
    }
    thread::yield_now();
}

#[cold]
fn find_beyond(address: usize) -> Option<Block> {
    if TABLE.any_beyond.load(Ordering::Acquire) {
        TABLE.change.lock().find_beyond(address)
    } else {
        None
    }
}

/// Takes out the block that begins at `address`, for the one caller who may now free it.
///
/// # Errors
/// `INVALID_VALUE` when no block of `owner` and `kind` begins there; the message tells what the
/// address is instead, and nothing is changed.
pub fn claim(address: usize, kind: MemoryKind, owner: DeviceType) -> Result<Block> {
    let mut change = TABLE.change.lock();
    let found = change.find(address);
    match found {
        // A block of the allocator's is freed by it: it was freed, and came back, meanwhile.
        Some((block, record))
            if block.base == address
                && block.kind == kind
                && block.owner == owner
                && !record.is_some_and(is_pooled) =>
        {
            change.remove(block, record);
            Ok(block)
        }
        _ => {
            drop(change);
            Err(refusal(address, kind, owner, found.map(|(block, _)| block)))
        }
    }
}

/// Remembers that memory of a backend is the allocator's, which puts its blocks there.
///
/// # Errors
/// `INTERNAL` when the backend handed out memory that is in use.
pub fn insert_segment(place: Place, base: usize, size: usize) -> Result<()> {
    let Place { kind, owner, device, on_host } = place;
    let block = Block { base, size, kind, owner, device, on_host, stream: None };
    if base.checked_add(size).is_none_or(|end| end > page_map::END) {
        let message = format!("{size} bytes at {base:#x} are where no memory is");
        return Err(Error::new(Status::Internal, message));
    }
    let mut change = TABLE.change.lock();
    change.make_room(block)?;
    change.segments.insert(base, size);
    Ok(())
}

/// Forgets a segment, in which no block is any more.
pub fn remove_segment(base: usize) {
    TABLE.change.lock().segments.remove(&base);
}

/// Remembers blocks of the allocator's in a segment of its own, all of one class, that are free for now: they
/// are found, and may be freed, while their word is set ([`Record::set_live`]).
pub fn insert_pooled(
    place: Place,
    class: usize,
    bytes: usize,
    bases: impl Iterator<Item = usize>,
) -> Vec<&'static Record> {
    let Place { kind, owner, device, on_host } = place;
    // Pooled records always have their stream's words; `NO_STREAM` says that there is none.
    let stream = Some((Stream::DEFAULT, NO_STREAM));
    let block = |base| Block { base, size: bytes, kind, owner, device, on_host, stream };
    let mut change = TABLE.change.lock();
    let mut enter = |base| {
        let mut words = block(base).to_words();
        words[1] = 0;
        words[2] |= (class as u64 + 1) << CLASS_SHIFT;
        change.insert_record(block(base).extent(), words)
    };
    bases.map(&mut enter).collect()
}

/// Forgets blocks of the allocator's that are free, with the bytes that they were remembered with.
pub fn remove_pooled(blocks: impl Iterator<Item = (&'static Record, usize)>) {
    let mut change = TABLE.change.lock();
    for (record, bytes) in blocks {
        let first = record.word(0) as usize;
        record.write([0; WORDS]);
        MAP.remove(Extent { first, last: first + (bytes - 1) }, record);
        change.spare.push(record);
    }
}

/// The record of the live block of an allocator that begins at an address, with its second and third word;
/// `whose` names the owner and one side.
#[inline(always)]
pub fn find_pooled(address: usize, whose: About) -> Option<(&'static Record, u64, u64)> {
    let hint = HINTS.of(address);
    if let Some(record) = hint.record()
        && let Some(found) = begins_at(record, address, whose)
    {
        return Some(found);
    }
    if address >= page_map::END {
        return None;
    }
    let found = MAP.visit(address, |record| begins_at(record, address, whose))?;
    hint.remember(found.0);
    Some(found)
}

/// Whether a record is that of a live block of an allocator which begins at an address: the record, with its
/// second and third word.
#[inline(always)]
pub fn begins_at(
    record: &'static Record,
    address: usize,
    whose: About,
) -> Option<(&'static Record, u64, u64)> {
    let [base, size, about] = record.read_first()?;
    let is_pooled = about >> CLASS_SHIFT & 0xFF != 0;
    (base == address as u64 && size != 0 && is_pooled && About(about).is(whose))
        .then_some((record, size, about))
}

impl Change {
    /// The block that holds this address, and its record if it is in the map.
    fn find(&self, address: usize) -> Option<(Block, Option<&'static Record>)> {
        if address >= page_map::END {
            return self.find_beyond(address).map(|block| (block, None));
        }
        MAP.visit(address, |record| {
            let block = self.read(record);
            block.contains(address).then_some((block, Some(record)))
        })
    }

    fn find_beyond(&self, address: usize) -> Option<Block> {
        let (_, block) = self.beyond.range(..=address).next_back()?;
        block.contains(address).then_some(*block)
    }

    /// A block that shares bytes with this one, and its record if it is in the map.
    fn lying_over(&self, block: Block) -> Option<(Block, Option<&'static Record>)> {
        let extent = block.extent();
        if extent.last >= page_map::END {
            let (_, other) = self.beyond.range(..=extent.last).next_back()?;
            return other.meets(extent).then_some((*other, None));
        }
        MAP.visit_all(extent, &mut |record| {
            let other = self.read(record);
            other.meets(extent).then_some((other, Some(record)))
        })
    }

    /// Forgets registered memory that lies where a backend's new memory is.
    ///
    /// # Errors
    /// `INTERNAL` when a block lies there that is in use.
    fn make_room(&mut self, block: Block) -> Result<()> {
        while let Some((other, record)) = self.lying_over(block) {
            if other.kind != MemoryKind::Registered || block.kind == MemoryKind::Registered {
                return Err(Error::new(Status::Internal, in_the_way(block, other)));
            }
            self.remove(other, record);
        }
        self.check_no_segment(block).map_err(|message| Error::new(Status::Internal, message))
    }

    /// What is in the way of a block that lies over a segment of the allocator's.
    fn check_no_segment(&self, block: Block) -> std::result::Result<(), String> {
        let extent = block.extent();
        match self.segments.range(..=extent.last).next_back() {
            Some((base, size)) if block.size > 0 && base + (size - 1) >= extent.first => {
                Err(format!(
                    "{} bytes at {:#x} lie over a pool's {size} bytes at {base:#x}",
                    block.size, block.base
                ))
            }
            _ => Ok(()),
        }
    }

    /// The block of a record, which nobody but the holder of this lock writes as a whole.
    fn read(&self, record: &Record) -> Block {
        Block::from_words(record.read().expect("the writer's lock is held"))
    }

    fn insert(&mut self, block: Block) {
        if block.extent().last >= page_map::END {
            self.beyond.insert(block.base, block);
            TABLE.any_beyond.store(true, Ordering::Release);
            return;
        }
        self.insert_record(block.extent(), block.to_words());
    }

    fn insert_record(&mut self, extent: Extent, words: [u64; WORDS]) -> &'static Record {
        let record = self.spare.pop().unwrap_or_else(|| Box::leak(Box::new(Record::new())));
        record.write(words);
        MAP.insert(extent, record);
        record
    }

    fn remove(&mut self, block: Block, record: Option<&'static Record>) {
        let Some(record) = record else {
            self.beyond.remove(&block.base);
            return;
        };
        // First the words: from here on the block is not found, by whatever way the record is reached.
        record.write([0; WORDS]);
        MAP.remove(block.extent(), record);
        self.spare.push(record);
    }
}

fn is_pooled(record: &Record) -> bool {
    record.word(2) >> CLASS_SHIFT & 0xFF != 0
}

#[cold]
fn refusal(address: usize, kind: MemoryKind, owner: DeviceType, found: Option<Block>) -> Error {
    let (noun, function) = kind.words();
    let what = match found {
        None => format!(
            "{address:#x} is not {noun} of this runtime (freed before, or allocated elsewhere)"
        ),
        Some(block) if block.base != address => format!(
            "{address:#x} is {} bytes into the block {:#x} of {} bytes; free its first byte",
            address - block.base,
            block.base,
            block.size
        ),
        Some(block) if block.kind != kind => {
            let (noun, right) = block.kind.words();
            format!("{address:#x} is {noun}; it is freed with {right}, not with {function}")
        }
        Some(block) => format!(
            "{address:#x} belongs to device type {}, not to device type {owner}",
            block.owner
        ),
    };
    Error::new(Status::InvalidValue, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The table is the process's: each test uses addresses of its own.
    fn insert(block: Block) {
        super::insert(block).expect("nothing is there");
    }

    fn block(base: usize, size: usize) -> Block {
        Block {
            base,
            size,
            kind: MemoryKind::Device,
            owner: 40,
            device: 3,
            on_host: false,
            stream: None,
        }
    }

    #[test]
    fn an_address_inside_a_block_finds_it_and_one_past_its_end_does_not() {
        insert(block(0x1_0000, 100));
        assert_eq!(find(0x1_0000 + 99), Some(block(0x1_0000, 100)));
        assert_eq!(find(0x1_0000 + 100), None);
        assert_eq!(find(0x1_0000 - 1), None);
        let (left, about) = look(0x1_0000 + 90);
        assert_eq!(left, 10);
        assert!(about.is(About::of(40).and(About::DEVICE)) && about.is(About::of(40)));
        assert!(!about.is(About::of(40).and(About::HOST)) && !about.is(About::of(41)));
        assert_eq!(look(0x1_0000 + 100).0, 0);
        assert!(block(0x1_0000, 100).holds(0x1_0000 + 90, 10));
        assert!(!block(0x1_0000, 100).holds(0x1_0000 + 90, 11));
        assert!(!block(0x1_0000, 100).holds(0x1_0000 + 90, usize::MAX));
    }

    #[test]
    fn a_look_up_after_a_blocks_record_went_to_another_block_finds_neither_too_much_nor_too_little()
    {
        let (first, second) = (block(0x11_0000, 4096), block(0x12_0000, 100));
        insert(first);
        assert_eq!(look(0x11_0010).0, 4080, "and from here on there is a hint");
        claim(first.base, MemoryKind::Device, 40).expect("live");
        assert_eq!(look(0x11_0010).0, 0, "it is gone");
        insert(second);
        assert_eq!((look(0x11_0010).0, look(0x12_0000).0), (0, 100));
        // The place is taken again, by less.
        insert(block(0x11_0000, 16));
        assert_eq!((look(0x11_0010).0, look(0x11_000f).0, look(0x12_0063).0), (0, 1, 1));
    }

    #[test]
    fn a_block_is_claimed_once_and_each_refusal_says_what_the_address_is() {
        insert(block(0x2_0000, 64));
        let refused = |address, kind, owner| {
            claim(address, kind, owner).expect_err("refused").message().to_owned()
        };
        assert!(refused(0x2_0010, MemoryKind::Device, 40).contains("16 bytes into"));
        assert!(
            refused(0x2_0000, MemoryKind::Host, 40).contains("free_device, not with free_host")
        );
        assert!(refused(0x2_0000, MemoryKind::Device, 41).contains("belongs to device type 40"));
        assert_eq!(claim(0x2_0000, MemoryKind::Device, 40).expect("whole"), block(0x2_0000, 64));
        assert!(refused(0x2_0000, MemoryKind::Device, 40).contains("freed before"));
    }

    #[test]
    fn memory_that_is_known_is_not_registered_over() {
        insert(block(0x3_0000, 64));
        for (base, size) in [(0x3_0000, 1), (0x2_FFF0, 17), (0x3_003F, 8), (0x2_0000, 0x2_0000)] {
            let over = Block { kind: MemoryKind::Registered, ..block(base, size) };
            assert_eq!(insert_foreign(over).expect_err("over").status(), Status::InvalidValue);
        }
        let beside = Block { kind: MemoryKind::Registered, ..block(0x3_0040, 64) };
        insert_foreign(beside).expect("beside it");
    }

    #[test]
    fn memory_that_a_backend_hands_out_twice_is_refused_and_stays_whose_it_was() {
        insert(block(0x4_0000, 4096));
        for (base, size) in [(0x4_0000, 4096), (0x4_0800, 1), (0x3_FFFF, 2), (0x4_0FFF, 64)] {
            let twice = super::insert(block(base, size)).expect_err("in use");
            assert_eq!(twice.status(), Status::Internal);
        }
        assert_eq!(find(0x4_0800), Some(block(0x4_0000, 4096)));
        assert_eq!(
            super::insert(block(usize::MAX - 8, 64)).map_err(|e| e.status()),
            Err(Status::Internal)
        );
    }

    #[test]
    fn registered_memory_that_went_back_to_the_system_gives_way_to_what_comes_there() {
        let stale = Block { kind: MemoryKind::Registered, ..block(0x5_0010, 100) };
        insert_foreign(stale).expect("free");
        insert(block(0x5_0000, 4096));
        assert_eq!(find(0x5_0020), Some(block(0x5_0000, 4096)));
        assert!(claim(0x5_0010, MemoryKind::Registered, 40).is_err());
    }

    #[test]
    fn addresses_that_no_memory_has_are_kept_too() {
        let far = block(page_map::END + 0x1000, 64);
        insert(far);
        assert_eq!(find(far.base + 63), Some(far));
        assert_eq!(find(far.base + 64), None);
        assert!(super::insert(block(far.base + 32, 64)).is_err());
        assert_eq!(claim(far.base, MemoryKind::Device, 40).ok(), Some(far));
        assert_eq!(find(far.base), None);
    }

    /// Numbers that are the same in each run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % limit
        }

        /// From a byte to gigabytes, each magnitude equally often.
        fn size(&mut self) -> usize {
            let magnitude = self.below(33);
            ((1_u64 << magnitude) + self.below(1 << magnitude)) as usize
        }
    }

    #[test]
    fn blocks_of_every_size_side_by_side_are_found_as_a_sorted_list_finds_them() {
        const START: usize = 0x1000_0000_0000;
        let mut numbers = Numbers(1);
        let mut known = BTreeMap::<usize, Block>::new();
        for round in 0..4000 {
            // Some close together, some far apart, at every alignment.
            let region = START + (numbers.below(4) as usize) * 0x4_0000_0000;
            let reach = 1_u64 << numbers.below(34);
            let new = block(region + numbers.below(reach) as usize, numbers.size());
            let is_free = !known.values().any(|other| other.meets(new.extent()));
            assert_eq!(super::insert(new).is_ok(), is_free, "round {round}: {new:x?}");
            if is_free {
                known.insert(new.base, new);
            }
            for _ in 0..4 {
                let address = match known.len() as u64 {
                    0 => continue,
                    count => {
                        let (_, near) = known
                            .iter()
                            .nth(numbers.below(count) as usize)
                            .expect("there are so many");
                        let at = numbers.below(near.size as u64 + 2) as usize;
                        near.base + at - usize::from(at > near.size)
                    }
                };
                let expected = known
                    .range(..=address)
                    .next_back()
                    .map(|(_, block)| *block)
                    .filter(|block| block.contains(address));
                assert_eq!(find(address), expected, "round {round}: {address:#x}");
            }
            if round % 3 == 0
                && let Some((base, _)) = known.iter().nth(known.len() / 2)
            {
                let base = *base;
                assert_eq!(claim(base, MemoryKind::Device, 40).ok(), known.remove(&base));
            }
        }
        assert!(known.len() > 100, "the test keeps many blocks");
        for base in known.into_keys() {
            claim(base, MemoryKind::Device, 40).expect("still there");
        }
    }

    #[test]
    fn a_look_up_beside_changes_finds_what_is_there_and_nothing_that_is_not() {
        const START: usize = 0x2000_0000_0000;
        let steady: Vec<Block> =
            (0..64).map(|index| block(START + index * 0x2000, 0x1000)).collect();
        steady.iter().for_each(|block| insert(*block));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let changer = scope.spawn(|| {
                for round in 0..2_000_usize {
                    let size = 1 << (round % 12);
                    let passing = block(START + 0x1000 + (round % 64) * 0x2000, size);
                    insert(passing);
                    claim(passing.base, MemoryKind::Device, 40).expect("just put in");
                }
                is_over.store(true, Ordering::Relaxed);
            });
            for reader in 0..2 {
                let (steady, is_over) = (&steady, &is_over);
                scope.spawn(move || {
                    let mut numbers = Numbers(reader + 7);
                    while !is_over.load(Ordering::Relaxed) {
                        let index = numbers.below(64) as usize;
                        let at = steady[index].base + numbers.below(0x1000) as usize;
                        assert_eq!(find(at), Some(steady[index]));
                        let passing = START + 0x1000 + index * 0x2000;
                        let found = find(passing + numbers.below(64) as usize);
                        assert!(found.is_none_or(|found| found.base == passing), "{found:x?}");
                    }
                });
            }
            changer.join().expect("no panic");
        });
    }
}
