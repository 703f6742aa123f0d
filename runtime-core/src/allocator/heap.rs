//! The heap of a device: two-level segregated fit (Masmano et al., "TLSF", 2004) over segments that the
//! backend allocated.
//!
//! Rules: what is known of a piece is kept beside the memory, which the host may not be able to read.
//! Neighbours that are free are always one piece, so a segment that nobody uses is one free piece and
//! can go back. A search looks at a bounded number of pieces.

use super::size_class::GRANULE;

/// Lists to a doubling, as a power of two.
const STEPS: u32 = 4;
const LISTS: usize = 1 << STEPS;
/// Doublings: sizes in granules up to 2^40, which is 2^48 bytes.
const DOUBLINGS: usize = 40;
/// How many pieces of a list are looked at for the one that fits best.
const LOOKS: usize = 16;
const NONE: u32 = u32::MAX;

/// The number of a piece that is handed out.
pub type PieceId = u32;

struct Piece {
    base: usize,
    /// In bytes, a multiple of the granule; 0 for a number that no piece has.
    size: usize,
    /// Its neighbours in its segment.
    before: u32,
    after: u32,
    /// Its neighbours in its list, if it is free.
    previous: u32,
    next: u32,
    is_free: bool,
    /// Of the first piece of a segment: what the segment was taken in with.
    origin: PieceId,
}

impl Piece {
    fn is_segment(&self) -> bool {
        self.before == NONE && self.after == NONE
    }
}

/// A segment, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub base: usize,
    /// In bytes.
    pub size: usize,
    /// Of a segment: the piece of another heap that it is; 0 where that says nothing.
    pub origin: PieceId,
}

/// The pieces of a device's segments.
pub struct Heap {
    pieces: Vec<Piece>,
    /// Numbers that no piece has.
    spare: Vec<u32>,
    lists: [[u32; LISTS]; DOUBLINGS],
    /// A bit for each doubling that has a piece, and in each a bit for each list that has one.
    doublings: u64,
    filled: [u16; DOUBLINGS],
    /// Bytes of all segments.
    reserved: usize,
    /// Bytes of the free pieces.
    free: usize,
    /// Bytes of the free pieces that are a segment each.
    unused: usize,
}

/// The list that a free piece of this size is in.
fn list_of(size: usize) -> (usize, usize) {
    let units = size / GRANULE;
    if units < LISTS {
        return (0, units);
    }
    let doubling = units.ilog2() - STEPS;
    (doubling as usize + 1, (units >> doubling) & (LISTS - 1))
}

impl Heap {
    /// No segments.
    pub const fn new() -> Heap {
        Heap {
            pieces: Vec::new(),
            spare: Vec::new(),
            lists: [[NONE; LISTS]; DOUBLINGS],
            doublings: 0,
            filled: [0; DOUBLINGS],
            reserved: 0,
            free: 0,
            unused: 0,
        }
    }

    /// Bytes of all segments.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> usize {
        self.free
    }

    /// Bytes of segments that nobody uses.
    pub fn unused_bytes(&self) -> usize {
        self.unused
    }

    /// Takes in a segment; its base and size are multiples of the granule.
    pub fn grow(&mut self, segment: Range) {
        let Range { base, size, origin } = segment;
        let piece = Piece {
            base,
            size,
            before: NONE,
            after: NONE,
            previous: NONE,
            next: NONE,
            is_free: false,
            origin,
        };
        let id = self.number(piece);
        self.reserved += size;
        self.put(id);
    }

    /// A piece of this size, a multiple of the granule.
    pub fn allocate(&mut self, size: usize) -> Option<(PieceId, usize)> {
        let id = self.find(size)?;
        self.take(id);
        self.split(id, size);
        Some((id, self.pieces[id as usize].base))
    }

    /// Up to `count` pieces of this size side by side; none when there is no room for one.
    pub fn allocate_run(&mut self, size: usize, count: usize) -> Vec<(PieceId, usize)> {
        let mut count = count;
        let id = loop {
            match self.find(size * count) {
                Some(id) => break id,
                None if count > 1 => count /= 2,
                None => return Vec::new(),
            }
        };
        self.take(id);
        self.split(id, size * count);
        let mut run = Vec::with_capacity(count);
        let mut last = id;
        loop {
            let piece = &self.pieces[last as usize];
            run.push((last, piece.base));
            if piece.size == size {
                return run;
            }
            last = self.cut(last, size);
        }
    }

    /// Gives a piece back.
    pub fn release(&mut self, id: PieceId) {
        let mut id = id;
        let Piece { before, after, .. } = self.pieces[id as usize];
        if after != NONE && self.pieces[after as usize].is_free {
            self.take(after);
            self.join(id, after);
        }
        if before != NONE && self.pieces[before as usize].is_free {
            self.take(before);
            self.join(before, id);
            id = before;
        }
        self.put(id);
    }

    /// Takes out segments that nobody uses, the largest first, until they have at most `keep` bytes.
    pub fn shrink(&mut self, keep: usize) -> Vec<Range> {
        let mut segments = Vec::new();
        if self.unused <= keep {
            return segments;
        }
        let numbered = self.pieces.iter().enumerate();
        let mut unused: Vec<u32> = numbered
            .filter(|(_, piece)| piece.is_free && piece.is_segment())
            .map(|(id, _)| id as u32)
            .collect();
        unused.sort_by_key(|id| std::cmp::Reverse(self.pieces[*id as usize].size));
        for id in unused {
            if self.unused <= keep {
                break;
            }
            self.take(id);
            let piece = &mut self.pieces[id as usize];
            segments.push(Range { base: piece.base, size: piece.size, origin: piece.origin });
            self.reserved -= piece.size;
            piece.size = 0;
            self.spare.push(id);
        }
        segments
    }

    /// The largest piece that could be allocated.
    pub fn largest(&self) -> usize {
        let free = self.pieces.iter().filter(|piece| piece.is_free && piece.size != 0);
        free.map(|piece| piece.size).max().unwrap_or(0)
    }

    fn find(&self, size: usize) -> Option<u32> {
        let (doubling, list) = list_of(size);
        // Its own list has pieces that are too small; those of the lists above all fit.
        if let Some(id) = self.best_of(self.lists[doubling][list], size) {
            return Some(id);
        }
        let above = u32::from(self.filled[doubling]) & (!1 << list);
        if above != 0 {
            return self.best_of(self.lists[doubling][above.trailing_zeros() as usize], size);
        }
        let above = self.doublings & (!1 << doubling);
        if above == 0 {
            return None;
        }
        let doubling = above.trailing_zeros() as usize;
        let first = self.lists[doubling][self.filled[doubling].trailing_zeros() as usize];
        self.best_of(first, size)
    }

    /// The piece of a list that fits best, of the first few.
    fn best_of(&self, first: u32, size: usize) -> Option<u32> {
        let (mut best, mut least, mut id) = (None, usize::MAX, first);
        for _ in 0..LOOKS {
            if id == NONE {
                break;
            }
            let piece = &self.pieces[id as usize];
            if piece.size >= size && piece.size < least {
                (best, least) = (Some(id), piece.size);
            }
            id = piece.next;
        }
        best
    }

    /// Puts a piece, which is in no list, into the list of its size.
    fn put(&mut self, id: u32) {
        let (doubling, list) = list_of(self.pieces[id as usize].size);
        let next = self.lists[doubling][list];
        let piece = &mut self.pieces[id as usize];
        (piece.is_free, piece.previous, piece.next) = (true, NONE, next);
        self.free += piece.size;
        if piece.is_segment() {
            self.unused += piece.size;
        }
        if next != NONE {
            self.pieces[next as usize].previous = id;
        }
        self.lists[doubling][list] = id;
        self.filled[doubling] |= 1 << list;
        self.doublings |= 1 << doubling;
    }

    /// Takes a free piece out of its list.
    fn take(&mut self, id: u32) {
        let piece = &mut self.pieces[id as usize];
        piece.is_free = false;
        let (size, previous, next) = (piece.size, piece.previous, piece.next);
        self.free -= size;
        if piece.is_segment() {
            self.unused -= size;
        }
        if next != NONE {
            self.pieces[next as usize].previous = previous;
        }
        if previous != NONE {
            self.pieces[previous as usize].next = next;
            return;
        }
        let (doubling, list) = list_of(size);
        self.lists[doubling][list] = next;
        if next == NONE {
            self.filled[doubling] &= !(1 << list);
            if self.filled[doubling] == 0 {
                self.doublings &= !(1 << doubling);
            }
        }
    }

    /// Leaves `size` bytes to a piece that is taken; the rest is a free piece.
    fn split(&mut self, id: u32, size: usize) {
        if self.pieces[id as usize].size > size {
            let rest = self.cut(id, size);
            self.put(rest);
        }
    }

    /// Leaves `size` bytes to a piece; the rest is a piece in no list.
    fn cut(&mut self, id: u32, size: usize) -> u32 {
        let piece = &mut self.pieces[id as usize];
        let rest = Piece {
            base: piece.base + size,
            size: piece.size - size,
            before: id,
            after: piece.after,
            previous: NONE,
            next: NONE,
            is_free: false,
            origin: 0,
        };
        piece.size = size;
        let after = rest.after;
        let number = self.number(rest);
        self.pieces[id as usize].after = number;
        if after != NONE {
            self.pieces[after as usize].before = number;
        }
        number
    }

    /// Makes two neighbours, neither in a list, one piece.
    fn join(&mut self, id: u32, after: u32) {
        let Piece { size, after: beyond, .. } = self.pieces[after as usize];
        self.pieces[after as usize].size = 0;
        self.spare.push(after);
        let piece = &mut self.pieces[id as usize];
        piece.size += size;
        piece.after = beyond;
        if beyond != NONE {
            self.pieces[beyond as usize].before = id;
        }
    }

    fn number(&mut self, piece: Piece) -> u32 {
        match self.spare.pop() {
            Some(id) => {
                self.pieces[id as usize] = piece;
                id
            }
            None => {
                self.pieces.push(piece);
                // Each piece has at least a granule, and 2^32 of them are a tebibyte of pieces.
                u32::try_from(self.pieces.len() - 1).expect("fewer pieces than 2^32")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const START: usize = 0x7000_0000;

    fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |limit| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) as usize % limit
        }
    }

    /// Checks every link and sum of the heap.
    fn check(heap: &Heap, used: &BTreeMap<usize, (PieceId, usize)>) {
        let mut free = 0;
        for (doubling, lists) in heap.lists.iter().enumerate() {
            for (list, first) in lists.iter().enumerate() {
                assert_eq!(*first != NONE, heap.filled[doubling] >> list & 1 == 1);
                let (mut id, mut previous) = (*first, NONE);
                while id != NONE {
                    let piece = &heap.pieces[id as usize];
                    assert!(piece.is_free && piece.previous == previous);
                    assert_eq!(list_of(piece.size), (doubling, list));
                    for neighbour in [piece.before, piece.after] {
                        let is_free = |id: u32| heap.pieces[id as usize].is_free;
                        assert!(neighbour == NONE || !is_free(neighbour), "not one piece");
                    }
                    free += piece.size;
                    (previous, id) = (id, piece.next);
                }
            }
            assert_eq!(heap.filled[doubling] != 0, heap.doublings >> doubling & 1 == 1);
        }
        assert_eq!(free, heap.free_bytes());
        let sum: usize = used.values().map(|(_, size)| size).sum();
        assert_eq!(sum + free, heap.reserved());
    }

    #[test]
    fn random_sequences_never_overlap_and_come_back_whole() {
        for seed in 1..6 {
            let mut below = numbers(seed);
            let mut heap = Heap::new();
            let mut used = BTreeMap::<usize, (PieceId, usize)>::new();
            let mut segments = 0;
            for round in 0..4000 {
                if below(100) < 55 {
                    let magnitude = below(13);
                    let size = ((1 << magnitude) + below(1 << magnitude)) * GRANULE;
                    let (id, base) = heap.allocate(size).unwrap_or_else(|| {
                        let size = size.max(4 << 20);
                        heap.grow(Range { base: START + segments * (16 << 20), size, origin: 7 });
                        segments += 1;
                        heap.allocate(size).expect("it was grown")
                    });
                    let size = heap.pieces[id as usize].size;
                    let before = used.range(..=base).next_back();
                    assert!(before.is_none_or(|(other, (_, length))| other + length <= base));
                    let after = used.range(base..).next();
                    assert!(after.is_none_or(|(other, _)| base + size <= *other));
                    used.insert(base, (id, size));
                } else if let Some(base) = used.keys().nth(below(used.len().max(1))).copied() {
                    let (id, _) = used.remove(&base).expect("it is there");
                    heap.release(id);
                }
                if round % 100 == 0 {
                    check(&heap, &used);
                }
            }
            for (id, _) in std::mem::take(&mut used).into_values() {
                heap.release(id);
            }
            check(&heap, &used);
            assert_eq!(heap.free_bytes(), heap.reserved());
            let back: usize = heap.shrink(0).iter().map(|range| range.size).sum();
            assert!(back > 0 && heap.reserved() == 0 && heap.free_bytes() == 0);
            assert_eq!(heap.largest(), 0);
        }
    }

    #[test]
    fn a_run_is_side_by_side_and_as_long_as_there_is_room() {
        let mut heap = Heap::new();
        assert!(heap.allocate_run(GRANULE, 8).is_empty());
        heap.grow(Range { base: START, size: 10 * GRANULE, origin: 7 });
        let run = heap.allocate_run(GRANULE, 8);
        let bases: Vec<usize> = run.iter().map(|(_, base)| *base).collect();
        assert_eq!(bases, (0..8).map(|index| START + index * GRANULE).collect::<Vec<_>>());
        assert_eq!(heap.allocate_run(GRANULE, 8).len(), 2);
        assert!(heap.allocate(GRANULE).is_none());
        run.into_iter().for_each(|(id, _)| heap.release(id));
        assert_eq!(heap.largest(), 8 * GRANULE);
    }

    #[test]
    fn segments_in_use_stay_and_the_others_go_until_few_enough_bytes_are_free() {
        let mut heap = Heap::new();
        for index in 0..4 {
            heap.grow(Range { base: START + index * 0x10_0000, size: 16 * GRANULE, origin: 7 });
        }
        let (id, base) = heap.allocate(GRANULE).expect("there is room");
        assert_eq!(heap.unused_bytes(), 48 * GRANULE);
        assert_eq!(heap.shrink(20 * GRANULE).len(), 2);
        assert_eq!(heap.shrink(0).len(), 1);
        assert_eq!((heap.reserved(), heap.free_bytes()), (16 * GRANULE, 15 * GRANULE));
        heap.release(id);
        assert_eq!(
            heap.shrink(0),
            [Range { base: base & !0xf_ffff, size: 16 * GRANULE, origin: 7 }]
        );
    }
}
