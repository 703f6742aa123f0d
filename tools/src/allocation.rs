//! `bench alloc`: what device memory of the CPU costs, against the C library's own allocator.
//!
//! Rules: ours goes through the twelve-function table, as a C program has it. Neither side touches the
//! memory, so both are measured without page faults. Two threads run the same loop at the same time and
//! start together; the slower one counts.

use crate::bench::Target;
use crate::comparison::{Comparison, Goal};
use crate::runtime;
use crate::samples::{self, Answers, Plan, Sample, Summary};
use crate::trace::{self, Operation, Trace};
use crate::twelve::{Lane, Twelve};
use llaisys_runtime::core::api::LlaisysMemoryStatistics;
use llaisys_runtime::core::{Error, Result, Status};
use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What is allocated and freed.
const SIZE: usize = 64 << 10;
/// The pairs of a batch.
const PAIRS: u32 = 20_000;

/// One thing that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Pair,
    PairOnTwoThreads,
    TraceTime,
    TraceMemory,
}

/// One of the two sides.
trait Allocator: Copy + Sync {
    fn allocate(self, size: usize) -> *mut c_void;
    /// # Safety
    /// - The pointer came from `allocate` and is freed once.
    unsafe fn free(self, pointer: *mut c_void);
}

#[derive(Clone, Copy)]
struct Ours(Twelve);

impl Allocator for Ours {
    #[inline(always)]
    fn allocate(self, size: usize) -> *mut c_void {
        // SAFETY: any size may be given.
        unsafe { (self.0.0.malloc_device)(size) }
    }
    #[inline(always)]
    unsafe fn free(self, pointer: *mut c_void) {
        // SAFETY: by the contract above.
        unsafe { (self.0.0.free_device)(pointer) }
    }
}

#[derive(Clone, Copy)]
struct CLibrary;

impl Allocator for CLibrary {
    #[inline(always)]
    fn allocate(self, size: usize) -> *mut c_void {
        // SAFETY: any size may be given. `black_box` keeps the compiler from leaving the pair out.
        black_box(unsafe { libc::malloc(black_box(size)) })
    }
    #[inline(always)]
    unsafe fn free(self, pointer: *mut c_void) {
        // SAFETY: by the contract above.
        unsafe { libc::free(pointer) }
    }
}

fn pair(allocator: impl Allocator) -> i32 {
    let pointer = allocator.allocate(SIZE);
    // SAFETY: just allocated; NULL may be freed.
    unsafe { allocator.free(pointer) };
    i32::from(pointer.is_null())
}

fn pairs(allocator: impl Allocator) -> i32 {
    (0..PAIRS).map(|_| pair(allocator)).fold(0, |all, one| all | one)
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Case; 4] =
        [Case::Pair, Case::PairOnTwoThreads, Case::TraceTime, Case::TraceMemory];

    /// The goal that it belongs to.
    pub fn goal(self) -> Goal {
        match self {
            Case::Pair | Case::PairOnTwoThreads => Goal::G11,
            Case::TraceTime | Case::TraceMemory => Goal::G3,
        }
    }

    /// What is done.
    pub fn name(self) -> &'static str {
        match self {
            Case::Pair => "alloc+free 64 KiB, 1 thread",
            Case::PairOnTwoThreads => "alloc+free 64 KiB, 2 threads",
            Case::TraceTime => "trace 20,000 ops, 256 B..4 MiB, an op",
            Case::TraceMemory => "trace, reserved over peak live",
        }
    }

    /// Measures it on a device.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn run(self, target: &Target, runs: u32) -> Result<Comparison> {
        let twelve = Twelve::of(target.device_type);
        twelve.set_device(target.ordinal)?;
        let ours = Ours(twelve);
        // A program that uses a device has a stream, and a free has to ask about it.
        let _stream = Lane(&twelve, twelve.create_stream()?);
        let settle = |_: Answers| twelve.check();
        let on = (target.backend.as_str(), target.name.as_str());
        let times = |summary: &Summary| {
            Comparison::of_times(self.goal(), self.name(), on, c_library(), summary)
        };
        match self {
            Case::Pair => {
                let plan = Plan { runs, calls: PAIRS, sample: Sample::Batch };
                samples::interleave(plan, || pair(ours), || pair(CLibrary), settle)
                    .map(|summary| times(&summary))
            }
            Case::PairOnTwoThreads => {
                let plan = Plan { runs, calls: 1, sample: Sample::Batch };
                // A second thread for each side, which runs the same loop when the first one does.
                beside(
                    || _ = black_box(pairs(ours)),
                    |start_ours| {
                        beside(
                            || _ = black_box(pairs(CLibrary)),
                            |start_theirs| {
                                let ours = || start_ours(&mut || pairs(ours));
                                let theirs = || start_theirs(&mut || pairs(CLibrary));
                                samples::interleave(plan, ours, theirs, settle)
                            },
                        )
                    },
                )
                .map(|summary| times(&summary.of_each(PAIRS)))
            }
            Case::TraceTime => {
                let trace = Trace::log_uniform();
                let plan = Plan { runs: runs.min(20), calls: 1, sample: Sample::Batch };
                let play = |one: &dyn Fn() -> Option<()>| i32::from(one().is_none());
                let ours = || play(&|| replay(&trace, ours, &mut |_| Some(())));
                let theirs = || play(&|| replay(&trace, CLibrary, &mut |_| Some(())));
                let summary = samples::interleave(plan, ours, theirs, settle)?;
                Ok(times(&summary.of_each(trace.operations.len() as u32)))
            }
            Case::TraceMemory => self.memory(target, ours, on),
        }
    }

    fn memory(self, target: &Target, ours: Ours, on: (&str, &str)) -> Result<Comparison> {
        let trace = Trace::log_uniform();
        let table = runtime::table(target.device_type)?;
        let statistics = || -> Result<LlaisysMemoryStatistics> {
            let mut now = LlaisysMemoryStatistics {
                struct_size: size_of::<LlaisysMemoryStatistics>() as u32,
                ..LlaisysMemoryStatistics::default()
            };
            // SAFETY: the struct is ours and says its size.
            let code =
                unsafe { (table.get_memory_statistics)(table.self_, target.ordinal, &mut now) };
            if code == 0 { Ok(now) } else { Err(runtime::failure()) }
        };
        // SAFETY: needs nothing.
        if unsafe { (table.trim_memory)(table.self_, target.ordinal, 0) } != 0 {
            return Err(runtime::failure());
        }
        let mut failed = None;
        let mut most = 0;
        let mut look = |_: usize| match statistics() {
            Ok(now) => {
                most = most.max(now.reserved_bytes);
                Some(())
            }
            Err(error) => {
                failed = Some(error);
                None
            }
        };
        if replay(&trace, ours, &mut look).is_none() {
            return Err(failed.unwrap_or_else(runtime::failure));
        }
        let mut theirs_most = 0;
        let held = || {
            // SAFETY: only looks at the C library's heap.
            let now = unsafe { libc::mallinfo2() };
            (now.arena, now.hblkhd)
        };
        // Our segments are the C library's too, mapped each for itself.
        let (_, mapped) = held();
        let played = replay(&trace, CLibrary, &mut |_| {
            let (arena, now) = held();
            theirs_most = theirs_most.max(arena + now.saturating_sub(mapped));
            Some(())
        });
        if played.is_none() {
            let message = "the C library's malloc found no memory";
            return Err(Error::new(Status::OutOfMemory, message));
        }
        let peak = trace.peak as f64;
        let share = (most as f64 / peak, theirs_most as f64 / peak);
        let (goal, name) = (self.goal(), self.name());
        Ok(Comparison::of_shares(goal, name, on, c_library(), share))
    }
}

/// Plays a trace; `look` is called now and then, and ends it by answering `None`.
fn replay(
    trace: &Trace,
    allocator: impl Allocator,
    look: &mut dyn FnMut(usize) -> Option<()>,
) -> Option<()> {
    let mut live = vec![std::ptr::null_mut(); trace.blocks];
    let mut outcome = Some(());
    for (number, operation) in trace.operations.iter().enumerate() {
        match *operation {
            Operation::Allocate { block, size, .. } => {
                live[block] = allocator.allocate(size);
                if live[block].is_null() {
                    outcome = None;
                    break;
                }
            }
            // SAFETY: the trace frees what it allocated, once.
            Operation::Free { block, .. } => unsafe {
                allocator.free(std::mem::replace(&mut live[block], std::ptr::null_mut()));
            },
        }
        if number % trace::LOOK_EVERY == 0 && look(number).is_none() {
            outcome = None;
            break;
        }
    }
    for pointer in live {
        // SAFETY: what the trace has not freed; NULL may be freed.
        unsafe { allocator.free(pointer) };
    }
    outcome
}

/// Runs `main` with a function that runs its argument here and `job` on another thread at the same time.
fn beside<T>(
    job: impl Fn() + Sync,
    main: impl FnOnce(&dyn Fn(&mut dyn FnMut() -> i32) -> i32) -> T,
) -> T {
    let (start, end) = (Barrier::new(2), Barrier::new(2));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                start.wait();
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                job();
                end.wait();
            }
        });
        let result = main(&|body| {
            start.wait();
            let answer = body();
            end.wait();
            answer
        });
        is_over.store(true, Ordering::Relaxed);
        start.wait();
        result
    })
}

/// The C library's allocator and its version.
pub fn c_library() -> String {
    // SAFETY: a constant text of the C library's.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {} malloc", version.to_string_lossy())
}
