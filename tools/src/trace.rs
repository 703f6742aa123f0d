//! A trace of allocations and frees: the same in each run and for each side.
//!
//! Rule: sizes are log-uniform, as scratch memory of engines is: each magnitude equally often, so that
//! nearly all bytes are in few large blocks.

/// How often memory is looked at while a trace is played.
pub const LOOK_EVERY: usize = 100;

const OPERATIONS: usize = 20_000;
const SMALLEST: f64 = 256.0;
const LARGEST: f64 = (4 << 20) as f64;
/// So much is live at most.
const MOST: usize = 512 << 20;
/// Allocations of 100 operations, while there is room.
const ALLOCATIONS: u64 = 55;

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Allocate the block with this number.
    Allocate {
        /// Its number.
        block: usize,
        /// In bytes.
        size: usize,
    },
    /// Free it.
    Free {
        /// Its number.
        block: usize,
    },
}

/// The steps.
pub struct Trace {
    /// In order.
    pub operations: Vec<Operation>,
    /// How many blocks there are.
    pub blocks: usize,
    /// The most bytes that are live at a time.
    pub peak: usize,
}

impl Trace {
    /// The trace of the project's goals, scaled down to a host.
    pub fn log_uniform() -> Trace {
        let mut state = 0x11a1_5e5e_u64;
        let mut below = |limit: u64| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (state >> 33) % limit
        };
        let mut trace = Trace { operations: Vec::new(), blocks: 0, peak: 0 };
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut used = 0;
        while trace.operations.len() < OPERATIONS {
            let part = below(1 << 30) as f64 / f64::from(1 << 30);
            let size = (SMALLEST * (LARGEST / SMALLEST).powf(part)) as usize;
            if live.is_empty() || (below(100) < ALLOCATIONS && used + size <= MOST) {
                let block = trace.blocks;
                trace.blocks += 1;
                trace.operations.push(Operation::Allocate { block, size });
                live.push((block, size));
                used += size;
                trace.peak = trace.peak.max(used);
            } else {
                let (block, size) = live.swap_remove(below(live.len() as u64) as usize);
                trace.operations.push(Operation::Free { block });
                used -= size;
            }
        }
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_frees_only_what_is_live_and_reaches_its_peak() {
        let trace = Trace::log_uniform();
        let mut live = vec![None; trace.blocks];
        let (mut used, mut peak) = (0, 0);
        for operation in &trace.operations {
            match *operation {
                Operation::Allocate { block, size } => {
                    assert_eq!(live[block].replace(size), None);
                    used += size;
                }
                Operation::Free { block } => used -= live[block].take().expect("live"),
            }
            peak = peak.max(used);
        }
        assert_eq!((trace.operations.len(), peak), (OPERATIONS, trace.peak));
        assert!(peak > MOST / 4, "{peak}");
    }
}
