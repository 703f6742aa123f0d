//! Size classes: the few sizes in which small blocks come.
//!
//! Rule: eight classes to a doubling, so a block of its class wastes less than an eighth of what was
//! asked for (beyond the 256 bytes that alignment costs in any case).

/// What every size and every address is a multiple of (contract M2).
pub const GRANULE: usize = 256;
/// The largest size that has a class; what is larger comes from the heap in its own size.
pub const LARGEST: usize = 1 << 20;
/// The largest block that comes from the heap for small blocks.
const SMALL: usize = 128 << 10;
/// How many classes there are.
pub const COUNT: usize = 80;

/// Classes to a doubling, as a power of two.
const STEPS: u32 = 3;

/// The class of a size, which is in `1..=LARGEST`.
#[inline(always)]
pub const fn of(size: usize) -> usize {
    let last = (size - 1) / GRANULE;
    if last < 1 << STEPS {
        return last;
    }
    let shift = last.ilog2() - STEPS;
    ((shift as usize) << STEPS) + (last >> shift)
}

/// Whether blocks of the class come from the heap for small blocks; those above would leave holes in its
/// pieces.
#[inline]
pub const fn is_small(class: usize) -> bool {
    class < COUNT && bytes(class) <= SMALL
}

/// The bytes that a block of the class has.
#[inline]
pub const fn bytes(class: usize) -> usize {
    let steps = 1 << STEPS;
    if class < steps {
        return (class + 1) * GRANULE;
    }
    let shift = (class >> STEPS) - 1;
    (((class & (steps - 1)) + steps + 1) * GRANULE) << shift
}

/// How many blocks of the class move at a time between a thread's cache and the central lists.
#[inline]
pub const fn batch(class: usize) -> usize {
    let fitting = (128 << 10) / bytes(class);
    match fitting {
        0 => 1,
        1..=32 => fitting,
        _ => 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        for size in (1..20_000).chain((20_000..=LARGEST).step_by(97)).chain([LARGEST]) {
            let class = of(size);
            assert!(class < COUNT && bytes(class) >= size, "{size} in class {class}");
            assert!(class == 0 || bytes(class - 1) < size, "{size} fits below class {class}");
        }
        assert_eq!((of(LARGEST), bytes(COUNT - 1)), (COUNT - 1, LARGEST));
    }

    #[test]
    fn a_class_wastes_less_than_an_eighth_and_is_aligned() {
        for class in 0..COUNT {
            assert_eq!(bytes(class) % GRANULE, 0);
            let least = if class == 0 { 1 } else { bytes(class - 1) + 1 };
            let waste = bytes(class) - least.next_multiple_of(GRANULE);
            assert!(waste * 8 < bytes(class), "class {class} wastes {waste}");
            assert!((1..=32).contains(&batch(class)));
        }
    }
}
