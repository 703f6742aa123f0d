//! A trace of allocations and frees: the same in each run and for each side.
//!
//! Rules: the built-in one has sizes that are log-uniform, as scratch memory of engines is: each magnitude
//! equally often, so that nearly all bytes are in few large blocks. A file has RMM's CSV format, is played
//! in its order by one thread, and each `Stream` in it but 0 is a stream of its own; 0 names none.

use std::collections::HashMap;
use std::path::Path;

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
        /// The number of a stream, from 1; 0 for none.
        lane: usize,
    },
    /// Free it.
    Free {
        /// Its number.
        block: usize,
        /// As of an allocation.
        lane: usize,
    },
}

/// The steps.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What it is called.
    pub name: String,
    /// In order.
    pub operations: Vec<Operation>,
    /// How many blocks there are.
    pub blocks: usize,
    /// How many streams it names.
    pub streams: usize,
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
        let mut trace = Trace::empty("log-uniform".to_owned());
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut used = 0;
        while trace.operations.len() < OPERATIONS {
            let part = below(1 << 30) as f64 / f64::from(1 << 30);
            let size = (SMALLEST * (LARGEST / SMALLEST).powf(part)) as usize;
            if live.is_empty() || (below(100) < ALLOCATIONS && used + size <= MOST) {
                let block = trace.blocks;
                trace.blocks += 1;
                trace.operations.push(Operation::Allocate { block, size, lane: 0 });
                live.push((block, size));
                used += size;
                trace.peak = trace.peak.max(used);
            } else {
                let (block, size) = live.swap_remove(below(live.len() as u64) as usize);
                trace.operations.push(Operation::Free { block, lane: 0 });
                used -= size;
            }
        }
        trace
    }

    fn empty(name: String) -> Trace {
        Trace { name, operations: Vec::new(), blocks: 0, streams: 0, peak: 0 }
    }

    /// Reads a file: `--trace`.
    ///
    /// # Errors
    /// Why it is no trace, and in which line.
    pub fn read(path: &str) -> Result<Trace, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        Trace::parse(name.split('.').next().unwrap_or_default(), &text)
    }

    /// The trace of a text in RMM's format: `Thread,Time,Action,Pointer,Size,Stream`.
    fn parse(name: &str, text: &str) -> Result<Trace, String> {
        let mut trace = Trace::empty(name.to_owned());
        let mut live: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut lanes: HashMap<u64, usize> = HashMap::new();
        let mut used = 0;
        for (index, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty()) {
            let wrong = |why: &str| format!("line {}: {why}", index + 1);
            let fields: Vec<&str> = line.split(',').collect();
            let [_, _, action, pointer, size, stream] = fields[..] else {
                return Err(wrong("not the six fields Thread,Time,Action,Pointer,Size,Stream"));
            };
            let stream = number(stream).ok_or_else(|| wrong("the stream is no number"))?;
            let lane = if stream == 0 {
                0
            } else {
                let next = lanes.len() + 1;
                *lanes.entry(stream).or_insert(next)
            };
            match action {
                "allocate" => {
                    let size = number(size).and_then(|size| usize::try_from(size).ok());
                    let size = size.ok_or_else(|| wrong("the size is no number"))?;
                    let block = trace.blocks;
                    if live.insert(pointer, (block, size)).is_some() {
                        return Err(wrong("what is live is allocated"));
                    }
                    trace.blocks += 1;
                    trace.operations.push(Operation::Allocate { block, size, lane });
                    used += size;
                    trace.peak = trace.peak.max(used);
                }
                "free" => {
                    let (block, size) =
                        live.remove(pointer).ok_or_else(|| wrong("what is not live is freed"))?;
                    trace.operations.push(Operation::Free { block, lane });
                    used -= size;
                }
                "allocate failure" => {}
                _ => return Err(wrong("the action is neither allocate nor free")),
            }
        }
        trace.streams = lanes.len();
        if trace.peak == 0 { Err("it allocates nothing".to_owned()) } else { Ok(trace) }
    }

    /// Which operations make more live than there was before.
    pub fn highs(&self) -> Vec<bool> {
        let mut sizes = vec![0; self.blocks];
        let (mut used, mut peak) = (0, 0);
        let mut is_high = |operation: &Operation| match *operation {
            Operation::Allocate { block, size, .. } => {
                sizes[block] = size;
                used += size;
                let before = peak;
                peak = peak.max(used);
                used > before
            }
            Operation::Free { block, .. } => {
                used -= sizes[block];
                false
            }
        };
        self.operations.iter().map(&mut is_high).collect()
    }

    /// The same with smaller blocks, so that at most so many GiB are live; as it is where that is so.
    pub fn scaled_to(mut self, gib: f64) -> Trace {
        let factor = gib * f64::from(1 << 30) / self.peak as f64;
        if factor >= 1.0 {
            return self;
        }
        let mut sizes = vec![0; self.blocks];
        let (mut used, mut peak) = (0, 0);
        for operation in &mut self.operations {
            match operation {
                Operation::Allocate { block, size, .. } => {
                    *size = ((*size as f64 * factor) as usize).max(1);
                    sizes[*block] = *size;
                    used += *size;
                    peak = peak.max(used);
                }
                Operation::Free { block, .. } => used -= sizes[*block],
            }
        }
        self.peak = peak;
        self.name += &format!(" scaled to {:.3} GiB live", peak as f64 / f64::from(1 << 30));
        self
    }
}

/// A number as RMM writes it: decimal, or hexadecimal behind `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
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
                Operation::Allocate { block, size, .. } => {
                    assert_eq!(live[block].replace(size), None);
                    used += size;
                }
                Operation::Free { block, .. } => used -= live[block].take().expect("live"),
            }
            peak = peak.max(used);
        }
        assert_eq!((trace.operations.len(), peak), (OPERATIONS, trace.peak));
        assert!(peak > MOST / 4, "{peak}");
    }

    const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

    #[test]
    fn a_file_names_streams_and_uses_addresses_again() {
        let text = format!(
            "{HEADER}1,0,allocate,0x100,1000,0x0\r\n1,1,allocate,0x200,500,0x7f0\r\n\
             2,2,allocate failure,0x0,99,0x0\n1,3,free,0x100,1000,0x0\n\
             1,4,allocate,0x100,2000,9\n1,5,free,0x200,500,0x7f0\n"
        );
        let trace = Trace::parse("one", &text).expect("it is one");
        assert_eq!((trace.blocks, trace.streams, trace.peak), (3, 2, 2500));
        assert!(matches!(
            trace.operations[..],
            [
                Operation::Allocate { block: 0, size: 1000, lane: 0 },
                Operation::Allocate { block: 1, size: 500, lane: 1 },
                Operation::Free { block: 0, lane: 0 },
                Operation::Allocate { block: 2, size: 2000, lane: 2 },
                Operation::Free { block: 1, lane: 1 },
            ]
        ));
    }

    #[test]
    fn a_file_that_is_no_trace_is_refused_with_its_line() {
        for (lines, why) in [
            ("1,0,allocate,0x1,5", "line 2: not the six fields"),
            ("1,0,allocate,0x1,5,0,7", "line 2: not the six fields"),
            ("1,0,allocate,0x1,many,0", "line 2: the size"),
            ("1,0,allocate,0x1,5,default", "line 2: the stream"),
            ("1,0,realloc,0x1,5,0", "line 2: the action"),
            ("1,0,free,0x1,5,0", "line 2: what is not live is freed"),
            ("1,0,allocate,0x1,5,0\n1,1,allocate,0x1,5,0", "line 3: what is live is allocated"),
            ("", "it allocates nothing"),
        ] {
            let refused = Trace::parse("one", &format!("{HEADER}{lines}\n")).expect_err(lines);
            assert!(refused.starts_with(why), "{lines}: {refused}");
        }
    }

    #[test]
    fn a_trace_is_scaled_down_and_never_up_and_no_block_becomes_empty() {
        let trace = Trace::log_uniform();
        let (name, peak) = (trace.name.clone(), trace.peak);
        let same = trace.clone().scaled_to(64.0);
        assert_eq!((&same.name, same.peak), (&name, peak));
        let small = trace.scaled_to(0.001);
        assert!(small.peak <= 1_073_742 && small.name.ends_with(" GiB live"), "{}", small.name);
        let empty =
            |operation: &Operation| matches!(operation, Operation::Allocate { size: 0, .. });
        assert!(!small.operations.iter().any(empty));
    }
}
