//! `bench alloc --trace FILE`: a trace of a real program, played on our memory and on what needs nothing
//! else: the driver's allocators on a GPU, the C library's on the CPU.
//!
//! Rules: nobody touches the memory, so all are measured without page faults. What names a stream goes
//! through `malloc_async` and `free_async`, what names none through the twelve functions. Time is
//! measured when the caches are warm; memory from nothing.

use crate::allocation;
use crate::bench::Target;
use crate::comparison::{Comparison, Goal};
use crate::fork::measured_in_a_copy;
use crate::native_memory::NativeMemory;
use crate::runtime;
use crate::samples::{self, Answers, Plan, Sample};
use crate::trace::{self, Operation, Trace};
use crate::twelve::{Lane, Twelve};
use clap::Args;
use llaisys_runtime::core::abi::LlaisysBackendAPI;
use llaisys_runtime::core::api::{LlaisysMemoryStatistics, Stream};
use llaisys_runtime::core::{Error, Result, Status};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::time::Instant;

/// The arguments of `bench alloc`.
#[derive(Args)]
pub struct Options {
    /// Play this trace, in RMM's CSV format, instead of what is built in; may be given several times
    #[arg(long = "trace", value_name = "FILE", value_parser = Trace::read)]
    traces: Vec<Trace>,
    /// Scale the traces down so that at most so much is live
    #[arg(long, value_name = "GIB", requires = "traces", value_parser = gib)]
    live_gib: Option<f64>,
}

/// An amount of memory: `--live-gib`.
fn gib(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(gib) if gib > 0.0 && gib < 1e6 => Ok(gib),
        _ => Err("give a number above 0 (GiB)".to_owned()),
    }
}

/// What the same is played on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    CLibrary,
    Plain,
    Async,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Time,
    Memory,
}

/// One trace and one peer.
#[derive(Clone)]
pub struct Case {
    trace: Rc<Trace>,
    peer: Peer,
    what: What,
    name: &'static str,
}

impl Options {
    /// Whether there is something to play.
    pub fn has_traces(&self) -> bool {
        !self.traces.is_empty()
    }

    /// All of them, a backend's together.
    pub fn cases(&self) -> Vec<Case> {
        let scaled = |trace: &Trace| match self.live_gib {
            Some(gib) => trace.clone().scaled_to(gib),
            None => trace.clone(),
        };
        let traces: Vec<Rc<Trace>> = self.traces.iter().map(|one| Rc::new(scaled(one))).collect();
        let mut cases = Vec::new();
        for peer in [Peer::CLibrary, Peer::Async, Peer::Plain] {
            // Memory first: the C library does not give all of it back.
            for what in [What::Memory, What::Time] {
                for trace in &traces {
                    let end = if what == What::Time { "an op" } else { "reserved over peak live" };
                    // A row borrows its name for the life of the process; there are few.
                    let name = format!("trace {}, {end}", trace.name).leak();
                    cases.push(Case { trace: Rc::clone(trace), peer, what, name });
                }
            }
        }
        cases
    }
}

impl Case {
    /// What is done.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The backend that it is measured on.
    pub fn backend(&self) -> &'static str {
        if self.peer == Peer::CLibrary { "cpu" } else { "nvidia" }
    }

    /// Measures it on a device.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn run(&self, target: &Target, runs: u32) -> Result<Comparison> {
        let twelve = Twelve::of(target.device_type);
        twelve.set_device(target.ordinal)?;
        // A program that uses a device has a stream.
        let lanes = (0..self.trace.streams.max(1))
            .map(|_| Ok(Lane(&twelve, twelve.create_stream()?)))
            .collect::<Result<Vec<Lane<'_>>>>()?;
        let streams: Vec<Stream> =
            [Stream(ptr::null_mut())].into_iter().chain(lanes.iter().map(|lane| lane.1)).collect();
        let table = runtime::table(target.device_type)?;
        let ours = Ours { twelve, table, device: target.ordinal };
        match self.peer {
            Peer::CLibrary => {
                self.compare(target, runs, &streams, &ours, &CLibrary, allocation::c_library())
            }
            Peer::Plain => {
                let memory = NativeMemory::find(target.ordinal)?;
                let name = memory.peer("cuMemAlloc");
                self.compare(target, runs, &streams, &ours, &Plain(memory), name)
            }
            Peer::Async => {
                let memory = NativeMemory::find(target.ordinal)?;
                let name = memory.peer("cuMemAllocAsync");
                self.compare(target, runs, &streams, &ours, &Async(memory), name)
            }
        }
    }

    fn compare(
        &self,
        target: &Target,
        runs: u32,
        streams: &[Stream],
        ours: &Ours,
        theirs: &impl Side,
        peer: String,
    ) -> Result<Comparison> {
        let trace = &*self.trace;
        let on = (target.backend.as_str(), target.name.as_str());
        if self.what == What::Memory {
            let of_theirs = || overhead(trace, theirs, streams);
            let theirs = match self.peer {
                // SAFETY: the C library's side calls malloc and free only.
                Peer::CLibrary => unsafe { measured_in_a_copy(of_theirs)? },
                Peer::Plain | Peer::Async => of_theirs()?,
            };
            let share = (overhead(trace, ours, streams)?, theirs);
            return Ok(Comparison::of_shares(Goal::G3, self.name, on, peer, share));
        }
        let begin = Instant::now();
        play(trace, theirs, streams, |_| Ok(()))?;
        // A driver's own calls take seconds.
        let most = (10.0 / begin.elapsed().as_secs_f64()).clamp(3.0, 20.0) as u32;
        let plan = Plan { runs: runs.min(most), calls: 1, sample: Sample::Batch };
        let failure = Cell::new(None);
        let noted = |result: Result<()>| match result {
            Ok(()) => 0,
            Err(error) => {
                failure.set(Some(error));
                1
            }
        };
        let summary = samples::interleave(
            plan,
            || noted(play(trace, ours, streams, |_| Ok(()))),
            || noted(play(trace, theirs, streams, |_| Ok(()))),
            |_: Answers| failure.take().map_or(Ok(()), Err),
        )?;
        theirs.reset()?;
        ours.reset()?;
        let summary = summary.of_each(trace.operations.len() as u32);
        Ok(Comparison::of_times(Goal::G3, self.name, on, peer, &summary))
    }
}

/// The most that a side holds while a trace is played, over what the trace has live. What the side could not
/// give back before counts; what is not the allocator's does not.
fn overhead(trace: &Trace, side: &impl Side, streams: &[Stream]) -> Result<f64> {
    side.reset()?;
    let others = if side.counts_others() { side.reserved()? } else { 0 };
    let mut most = 0;
    let mut highs = trace.highs().into_iter();
    play(trace, side, streams, |number| {
        if highs.next() == Some(true) || number % trace::LOOK_EVERY == 0 {
            most = most.max(side.reserved()?.saturating_sub(others));
        }
        Ok(())
    })?;
    side.reset()?;
    Ok(most as f64 / trace.peak as f64)
}

/// Plays a trace; `look` is called after each operation, with its number. All that is live at its end is
/// freed.
fn play(
    trace: &Trace,
    side: &impl Side,
    streams: &[Stream],
    mut look: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let mut live = vec![(ptr::null_mut(), Stream(ptr::null_mut())); trace.blocks];
    let mut outcome = Ok(());
    for (number, operation) in trace.operations.iter().enumerate() {
        match *operation {
            Operation::Allocate { block, size, lane } => {
                let pointer = side.allocate(size, streams[lane]);
                if pointer.is_null() {
                    outcome = Err(side.failure());
                    break;
                }
                live[block] = (pointer, streams[lane]);
            }
            // SAFETY: the trace frees what it allocated, once.
            Operation::Free { block, lane } => unsafe {
                side.free(std::mem::replace(&mut live[block].0, ptr::null_mut()), streams[lane]);
            },
        }
        outcome = look(number);
        if outcome.is_err() {
            break;
        }
    }
    for (pointer, stream) in live {
        // SAFETY: what the trace has not freed; NULL may be freed.
        unsafe { side.free(pointer, stream) };
    }
    outcome
}

/// One of the two sides.
trait Side {
    /// Memory for a stream, or for none; NULL when there is nothing.
    fn allocate(&self, size: usize, stream: Stream) -> *mut c_void;
    /// # Safety
    /// - The pointer came from `allocate`, or is NULL, and is freed once.
    unsafe fn free(&self, pointer: *mut c_void, stream: Stream);
    /// The bytes that it holds from the system.
    fn reserved(&self) -> Result<u64>;
    /// Whether these hold more than the allocator's own.
    fn counts_others(&self) -> bool;
    /// Gives back what it caches.
    fn reset(&self) -> Result<()>;
    /// Why there was nothing.
    fn failure(&self) -> Error {
        Error::new(Status::OutOfMemory, "the peer found no memory")
    }
}

struct Ours {
    twelve: Twelve,
    table: &'static LlaisysBackendAPI,
    device: i32,
}

impl Side for Ours {
    #[inline(always)]
    fn allocate(&self, size: usize, stream: Stream) -> *mut c_void {
        let mut pointer = ptr::null_mut();
        // SAFETY: any size may be given; the stream is live, and `pointer` writable.
        unsafe {
            if stream.0.is_null() {
                return (self.twelve.0.malloc_device)(size);
            }
            let (own, size) = (self.table.self_, size as u64);
            (self.table.malloc_async)(own, self.device, size, stream, &mut pointer);
        }
        pointer
    }
    #[inline(always)]
    unsafe fn free(&self, pointer: *mut c_void, stream: Stream) {
        // SAFETY: by the contract above; the stream is live.
        unsafe {
            if stream.0.is_null() {
                (self.twelve.0.free_device)(pointer);
            } else {
                (self.table.free_async)(self.table.self_, self.device, pointer, stream);
            }
        }
    }
    fn reserved(&self) -> Result<u64> {
        let mut now = LlaisysMemoryStatistics {
            struct_size: size_of::<LlaisysMemoryStatistics>() as u32,
            ..LlaisysMemoryStatistics::default()
        };
        let table = self.table;
        // SAFETY: the struct is ours and says its size.
        let code = unsafe { (table.get_memory_statistics)(table.self_, self.device, &mut now) };
        if code == 0 { Ok(now.reserved_bytes) } else { Err(runtime::failure()) }
    }
    fn counts_others(&self) -> bool {
        false
    }
    fn reset(&self) -> Result<()> {
        let table = self.table;
        // SAFETY: need nothing.
        let code = unsafe {
            (table.device_synchronize)(table.self_, self.device)
                | (table.trim_memory)(table.self_, self.device, 0)
        };
        if code == 0 { self.twelve.check() } else { Err(runtime::failure()) }
    }
    fn failure(&self) -> Error {
        runtime::failure()
    }
}

struct CLibrary;

impl Side for CLibrary {
    #[inline(always)]
    fn allocate(&self, size: usize, _: Stream) -> *mut c_void {
        // SAFETY: any size may be given.
        unsafe { libc::malloc(size) }
    }
    #[inline(always)]
    unsafe fn free(&self, pointer: *mut c_void, _: Stream) {
        // SAFETY: by the contract above.
        unsafe { libc::free(pointer) }
    }
    fn reserved(&self) -> Result<u64> {
        // SAFETY: only looks at the C library's heap.
        let now = unsafe { libc::mallinfo2() };
        Ok((now.arena + now.hblkhd) as u64)
    }
    fn counts_others(&self) -> bool {
        true
    }
    fn reset(&self) -> Result<()> {
        // SAFETY: needs nothing.
        unsafe { libc::malloc_trim(0) };
        Ok(())
    }
}

struct Plain(NativeMemory);

impl Side for Plain {
    fn allocate(&self, size: usize, _: Stream) -> *mut c_void {
        self.0.allocate(size)
    }
    unsafe fn free(&self, pointer: *mut c_void, _: Stream) {
        // SAFETY: by the contract above.
        unsafe { self.0.free(pointer) }
    }
    fn reserved(&self) -> Result<u64> {
        self.0.used()
    }
    fn counts_others(&self) -> bool {
        true
    }
    fn reset(&self) -> Result<()> {
        self.0.trim()
    }
}

struct Async(NativeMemory);

impl Side for Async {
    fn allocate(&self, size: usize, stream: Stream) -> *mut c_void {
        // SAFETY: a stream of ours is the driver's own, and live.
        unsafe { self.0.allocate_async(size, stream.0) }
    }
    unsafe fn free(&self, pointer: *mut c_void, stream: Stream) {
        // SAFETY: by the contract above; a stream of ours is the driver's own, and live.
        unsafe { self.0.free_async(pointer, stream.0) }
    }
    fn reserved(&self) -> Result<u64> {
        self.0.held_by_pool()
    }
    fn counts_others(&self) -> bool {
        false
    }
    fn reset(&self) -> Result<()> {
        self.0.trim()
    }
}
