//! `bench stream`: what a stream of the CPU device costs, against ways of handing work to a thread.
//!
//! Rules: ours goes through the C ABI's extended table, with handles and pointers that are checked.
//! The work is a fill of one byte, the least that the table can enqueue. The peers here are
//! what one would write by hand: a queue with a condition variable, and crossbeam's channel, each with
//! one thread that calls an empty closure; other runtimes are measured by the programs in
//! `benches/peers/`, which print the same objects.

use crate::bench::Target;
use crate::comparison::{Comparison, Goal};
use crate::hand_over::{Channel, CondvarQueue, HandOver};
use crate::runtime;
use crate::samples::{self, Answers, Plan, Sample};
use crate::twelve::{Block, Lane, Twelve};
use llaisys_runtime::core::abi::LlaisysBackendAPI;
use llaisys_runtime::core::api::{Event, EventFlags, Stream};
use llaisys_runtime::core::{Error, Result, Status};
use std::ffi::c_void;
use std::ptr;

/// The pieces of work of a batch that is pipelined, and the hops of a batch.
const PIPELINED: u32 = 10_000;
/// The rounds of a batch that waits after each.
const ROUNDS: u32 = 500;

/// One thing that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Enqueue and synchronize.
    RoundTrip,
    /// The same with a host function, which a worker must run.
    HostFunctionRoundTrip,
    /// Many enqueues and one synchronize.
    Pipelined,
    /// The same behind a host function, so that a worker runs them.
    PipelinedOnWorker,
    /// Work, an event, and a wait for it on another stream, which has its turn next.
    Hop,
    /// The same behind a host function.
    HopOnWorker,
}

/// Whom it is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Condvar,
    Channel,
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Case; 6] = [
        Case::RoundTrip,
        Case::HostFunctionRoundTrip,
        Case::Pipelined,
        Case::PipelinedOnWorker,
        Case::Hop,
        Case::HopOnWorker,
    ];

    /// The goal that it belongs to.
    pub fn goal(self) -> Goal {
        match self {
            Case::RoundTrip | Case::HostFunctionRoundTrip => Goal::G12,
            Case::Pipelined | Case::PipelinedOnWorker => Goal::G13,
            Case::Hop | Case::HopOnWorker => Goal::G14,
        }
    }

    /// What is done.
    pub fn name(self) -> &'static str {
        match self {
            Case::RoundTrip => "fill of 1 byte + synchronize",
            Case::HostFunctionRoundTrip => "host function + synchronize",
            Case::Pipelined => "fill of 1 byte, pipelined",
            Case::PipelinedOnWorker => "fill of 1 byte, pipelined behind a worker",
            Case::Hop => "hop: fill, record, wait on the other stream",
            Case::HopOnWorker => "hop behind a worker",
        }
    }

    fn plan(self, runs: u32) -> Plan {
        let calls = if self.goal() == Goal::G12 { ROUNDS } else { 1 };
        Plan { runs, calls, sample: Sample::Batch }
    }

    /// How much one call of the plan does.
    fn scale(self) -> u32 {
        if self.goal() == Goal::G12 { 1 } else { PIPELINED }
    }

    /// Measures it on a device against each peer.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn run(self, target: &Target, peer: Peer, runs: u32) -> Result<Comparison> {
        match peer {
            Peer::Condvar => self.against(target, &CondvarQueue::start()?, runs),
            Peer::Channel => self.against(target, &Channel::start()?, runs),
        }
    }

    fn against(self, target: &Target, peer: &impl HandOver, runs: u32) -> Result<Comparison> {
        let twelve = Twelve::of(target.device_type);
        twelve.set_device(target.ordinal)?;
        let place = Place::prepare(&twelve, target)?;
        let settle = |answers: Answers| {
            if answers.ours != 0 { Err(runtime::failure()) } else { Ok(()) }
        };
        let theirs = || match self.goal() {
            Goal::G12 => peer.round_trip(),
            Goal::G13 => peer.pipelined(PIPELINED),
            _ => peer.hops(PIPELINED),
        };
        let mut summary =
            samples::interleave(self.plan(runs), || place.ours(self), theirs, settle)?;
        let scale = f64::from(self.scale());
        for time in [&mut summary.ours, &mut summary.theirs, &mut summary.p50, &mut summary.p99] {
            *time = (*time / scale).max(0.01);
        }
        let on = (target.backend.as_str(), target.name.as_str());
        Ok(Comparison::of_times(self.goal(), self.name(), on, peer.name(), &summary))
    }
}

/// What the calls work on.
struct Place<'a> {
    table: &'static LlaisysBackendAPI,
    device: i32,
    lanes: [Lane<'a>; 2],
    events: [Event; 2],
    block: Block<'a>,
}

impl<'a> Place<'a> {
    fn prepare(twelve: &'a Twelve, target: &Target) -> Result<Place<'a>> {
        let table = runtime::table(target.device_type)?;
        let lanes = [Lane(twelve, twelve.create_stream()?), Lane(twelve, twelve.create_stream()?)];
        let block = Block(twelve, twelve.malloc_device(256)?);
        let mut place = Place {
            table,
            device: target.ordinal,
            lanes,
            events: [Event(ptr::null_mut()); 2],
            block,
        };
        for event in &mut place.events {
            // SAFETY: the event is written to on success.
            let status = unsafe {
                (table.create_event)(table.self_, target.ordinal, EventFlags::NONE, event)
            };
            if status != 0 {
                return Err(runtime::failure());
            }
        }
        Ok(place)
    }

    /// One call of the plan; 0 when all is well.
    fn ours(&self, case: Case) -> i32 {
        let [first, second] = [self.lanes[0].1, self.lanes[1].1];
        match case {
            Case::RoundTrip => self.fill(first) | self.synchronize(first),
            Case::HostFunctionRoundTrip => self.call(first, nothing) | self.synchronize(first),
            Case::Pipelined => self.pipelined(first),
            Case::PipelinedOnWorker => self.call(first, a_moment) | self.pipelined(first),
            Case::Hop => self.hops(first, second),
            Case::HopOnWorker => self.call(first, a_moment) | self.hops(first, second),
        }
    }

    fn pipelined(&self, stream: Stream) -> i32 {
        let mut answer = 0;
        for _ in 0..PIPELINED {
            answer |= self.fill(stream);
        }
        answer | self.synchronize(stream)
    }

    fn hops(&self, first: Stream, second: Stream) -> i32 {
        let mut answer = 0;
        for hop in 0..PIPELINED as usize {
            let (from, to) = if hop % 2 == 0 { (first, second) } else { (second, first) };
            let event = self.events[hop % 2];
            // SAFETY: the handles are live.
            unsafe {
                answer |= self.fill(from);
                answer |= (self.table.record_event)(self.table.self_, self.device, event, from);
                answer |= (self.table.stream_wait_event)(self.table.self_, self.device, to, event);
            }
        }
        answer | self.synchronize(first) | self.synchronize(second)
    }

    fn fill(&self, stream: Stream) -> i32 {
        let (table, byte) = (self.table, 0x5a_u8);
        let pattern: *const c_void = (&raw const byte).cast();
        // SAFETY: the block has a byte, and the stream is live.
        unsafe {
            (table.memset_async)(table.self_, self.device, self.block.1, pattern, 1, 1, stream)
        }
    }

    fn call(&self, stream: Stream, function: unsafe extern "C" fn(*mut c_void)) -> i32 {
        let table = self.table;
        // SAFETY: the function uses nothing, and the stream is live.
        unsafe {
            (table.launch_host_function)(
                table.self_,
                self.device,
                stream,
                Some(function),
                ptr::null_mut(),
            )
        }
    }

    fn synchronize(&self, stream: Stream) -> i32 {
        // SAFETY: the stream is live.
        unsafe { (self.table.stream_synchronize)(self.table.self_, self.device, stream) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        for event in self.events {
            // SAFETY: made by `prepare`, or NULL, which is refused.
            unsafe { (self.table.destroy_event)(self.table.self_, self.device, event) };
        }
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Long enough that the caller is ahead of the worker.
unsafe extern "C" fn a_moment(_: *mut c_void) {
    let end = std::time::Instant::now() + std::time::Duration::from_micros(50);
    while std::time::Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// An error of the operating system's.
pub fn system(what: &str, error: &std::io::Error) -> Error {
    Error::new(Status::Internal, format!("{what}: {error}"))
}
