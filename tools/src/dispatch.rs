//! `bench dispatch`: what a call costs, against the call that it ends in.
//!
//! Rules: ours goes through the tables that every C client has, with handles and pointers that are
//! checked. A batch is far smaller than what a stream takes before its caller has to wait, and the
//! stream is idle when the next begins: the enqueue is timed, not the copy.

use crate::comparison::{Comparison, Goal};
use crate::native_driver::{self, NativeDriver};
use crate::samples::{self, Answers, Plan, Sample, Summary};
use crate::twelve::{Block, Lane, Pinned, Twelve};
use crate::{bench::Target, runtime};
use llaisys_runtime::core::abi::LlaisysBackendAPI;
use llaisys_runtime::core::api::{Event, EventFlags, MemcpyKind, Ordinal};
use llaisys_runtime::core::{Error, Result, Status};
use llaisys_runtime::types::MemcpyKindNumber;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

/// What an enqueue moves.
const SIZE: usize = 4096;
/// The enqueues of a batch; a stream takes 1021 before its caller waits.
const ENQUEUES: u32 = 256;
/// The calls of a batch of those that take a few nanoseconds.
const CALLS: u32 = 20_000;

/// One thing that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    CopyIn,
    Copy,
    Fill,
    QueryEvent,
    FreeNull,
    DeviceOfStream,
    QueryStream,
    CopyNothing,
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Case; 8] = [
        Case::CopyIn,
        Case::Copy,
        Case::Fill,
        Case::QueryEvent,
        Case::FreeNull,
        Case::DeviceOfStream,
        Case::QueryStream,
        Case::CopyNothing,
    ];

    /// The goal that it belongs to.
    pub fn goal(self) -> Goal {
        match self {
            Case::CopyIn | Case::Copy | Case::Fill => Goal::G7,
            Case::QueryEvent => Goal::G8,
            Case::FreeNull | Case::DeviceOfStream | Case::QueryStream | Case::CopyNothing => {
                Goal::G10
            }
        }
    }

    /// The backend that it is measured on.
    pub fn backend(self) -> &'static str {
        if self.goal() == Goal::G10 { "cpu" } else { "nvidia" }
    }

    /// What is done.
    pub fn name(self) -> &'static str {
        match self {
            Case::CopyIn => "memcpy_async H2D pinned 4 KiB",
            Case::Copy => "memcpy_async D2D 4 KiB",
            Case::Fill => "memset_async 4 KiB",
            Case::QueryEvent => "event_query completed",
            Case::FreeNull => "free_device NULL",
            Case::DeviceOfStream => "get_stream_device",
            Case::QueryStream => "stream_query idle",
            Case::CopyNothing => "memcpy_async 0 bytes",
        }
    }

    /// The driver's entry point that does the same; empty where there is none.
    fn entry(self) -> &'static str {
        match self {
            Case::CopyIn => "cuMemcpyHtoDAsync_v2",
            Case::Copy => "cuMemcpyDtoDAsync_v2",
            Case::Fill => "cuMemsetD8Async",
            Case::QueryEvent => "cuEventQuery",
            Case::FreeNull | Case::DeviceOfStream | Case::QueryStream | Case::CopyNothing => "",
        }
    }

    fn plan(self, runs: u32) -> Plan {
        match self.goal() {
            Goal::G7 => Plan { runs, calls: ENQUEUES, sample: Sample::Call },
            _ => Plan { runs, calls: CALLS, sample: Sample::Batch },
        }
    }

    /// Measures it on a device.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn run(self, target: &Target, runs: u32) -> Result<Comparison> {
        let twelve = Twelve::of(target.device_type);
        twelve.set_device(target.ordinal)?;
        let place = Place::prepare(&twelve, target)?;
        let plan = self.plan(runs);
        let (peer, summary) = if self.entry().is_empty() {
            let peer = "empty extern \"C\" function through a pointer".to_owned();
            (peer, self.against_nothing(&place, plan)?)
        } else {
            let driver = NativeDriver::find()?;
            (driver.peer(self.entry()), self.against_driver(&place, &driver, plan)?)
        };
        let on = (target.backend.as_str(), target.name.as_str());
        Ok(Comparison::of_times(self.goal(), self.name(), on, peer, &summary))
    }

    fn against_driver(self, place: &Place, driver: &NativeDriver, plan: Plan) -> Result<Summary> {
        let (stream, native) = (place.lane.1, place.lane.1.0);
        let (to, from, pinned) = (place.to.1, place.from.1, place.pinned.1);
        let (twelve, table) = (place.twelve.0, place.table);
        let (copy_in, copy, fill, query) = (driver.copy_in, driver.copy, driver.fill, driver.query);
        let settle = |answers| {
            // The runtime knows nothing of work that was not enqueued through it.
            // SAFETY: the stream is live, and a stream's handle is the driver's own.
            unsafe { driver.synchronize(native)? };
            place.settle(self.entry(), answers)
        };
        match self {
            Case::CopyIn => samples::interleave(
                plan,
                // SAFETY: `place` has `SIZE` bytes on both sides and a stream, until it settled.
                || unsafe {
                    (twelve.memcpy_async)(to, pinned, SIZE, kind(MemcpyKind::H2D), stream);
                    0
                },
                // SAFETY: as above; the handles are the driver's own, and its context is current.
                || unsafe { copy_in(to as u64, pinned, SIZE, native) },
                settle,
            ),
            Case::Copy => samples::interleave(
                plan,
                // SAFETY: as above.
                || unsafe {
                    (twelve.memcpy_async)(to, from, SIZE, kind(MemcpyKind::D2D), stream);
                    0
                },
                // SAFETY: as above.
                || unsafe { copy(to as u64, from as u64, SIZE, native) },
                settle,
            ),
            Case::Fill => {
                let byte = 0x5a_u8;
                let pattern = (&raw const byte).cast();
                samples::interleave(
                    plan,
                    // SAFETY: as above; the pattern has one byte.
                    || unsafe {
                        let (own, device) = (table.self_, place.device);
                        (table.memset_async)(own, device, to, pattern, 1, SIZE as u64, stream)
                    },
                    // SAFETY: as above.
                    || unsafe { fill(to as u64, byte, SIZE, native) },
                    settle,
                )
            }
            _ => {
                let event = OwnedEvent::reached(place)?;
                // SAFETY: the stream is live, and its device's context is current.
                let theirs = unsafe { driver.reached_event(native)? };
                let mut ready = 0;
                let summary = samples::interleave(
                    plan,
                    // SAFETY: the event is live and `ready` writable.
                    || unsafe {
                        (table.event_query)(table.self_, place.device, event.event, &mut ready)
                    },
                    // SAFETY: the event is live.
                    || unsafe { query(theirs.native) },
                    settle,
                )?;
                place.expect_ready(ready)?;
                Ok(summary)
            }
        }
    }

    fn against_nothing(self, place: &Place, plan: Plan) -> Result<Summary> {
        let nothing: extern "C" fn(*mut c_void) -> i32 = black_box(nothing);
        let theirs = || nothing(ptr::null_mut());
        let (stream, to, from) = (place.lane.1, place.to.1, place.from.1);
        let (twelve, table) = (place.twelve.0, place.table);
        let settle = |answers| place.settle("the empty function", answers);
        match self {
            Case::FreeNull => samples::interleave(
                plan,
                // SAFETY: NULL may be freed.
                || unsafe {
                    (twelve.free_device)(ptr::null_mut());
                    0
                },
                theirs,
                settle,
            ),
            Case::CopyNothing => samples::interleave(
                plan,
                // SAFETY: the stream and both pointers are live.
                || unsafe {
                    (twelve.memcpy_async)(to, from, 0, kind(MemcpyKind::D2D), stream);
                    0
                },
                theirs,
                settle,
            ),
            Case::DeviceOfStream => {
                let mut device = -1;
                let summary = samples::interleave(
                    plan,
                    // SAFETY: the stream is live and `device` writable.
                    || unsafe { (table.get_stream_device)(table.self_, stream, &mut device) },
                    theirs,
                    settle,
                )?;
                if device == place.device { Ok(summary) } else { Err(place.wrong_device(device)) }
            }
            _ => {
                let mut ready = 0;
                let summary = samples::interleave(
                    plan,
                    // SAFETY: the stream is live and `ready` writable.
                    || unsafe {
                        (table.stream_query)(table.self_, place.device, stream, &mut ready)
                    },
                    theirs,
                    settle,
                )?;
                place.expect_ready(ready)?;
                Ok(summary)
            }
        }
    }
}

/// The least that a call can do.
#[inline(never)]
extern "C" fn nothing(_: *mut c_void) -> i32 {
    0
}

fn kind(kind: MemcpyKind) -> MemcpyKindNumber {
    MemcpyKindNumber(kind as u32)
}

/// What the calls work on. The stream goes first when it is dropped.
struct Place<'a> {
    twelve: &'a Twelve,
    table: &'static LlaisysBackendAPI,
    device: Ordinal,
    lane: Lane<'a>,
    to: Block<'a>,
    from: Block<'a>,
    pinned: Pinned<'a>,
}

impl<'a> Place<'a> {
    fn prepare(twelve: &'a Twelve, target: &Target) -> Result<Place<'a>> {
        let pinned = Pinned(twelve, twelve.malloc_host(SIZE)?);
        // SAFETY: `SIZE` bytes that are ours.
        unsafe { pinned.1.cast::<u8>().write_bytes(0x5a, SIZE) };
        Ok(Place {
            twelve,
            table: runtime::table(target.device_type)?,
            device: target.ordinal,
            lane: Lane(twelve, twelve.create_stream()?),
            to: Block(twelve, twelve.malloc_device(SIZE)?),
            from: Block(twelve, twelve.malloc_device(SIZE)?),
            pinned,
        })
    }

    /// Brings the stream to rest and says what failed.
    fn settle(&self, entry: &str, answers: Answers) -> Result<()> {
        if answers.ours != 0 {
            return Err(runtime::failure());
        }
        // A function without a result leaves its failure in the slot, which this looks at.
        self.twelve.stream_synchronize(self.lane.1)?;
        native_driver::check(entry, answers.theirs)
    }

    fn wrong_device(&self, said: Ordinal) -> Error {
        let message = format!("a stream of device {} was said to be of {said}", self.device);
        Error::new(Status::Internal, message)
    }

    fn expect_ready(&self, ready: i32) -> Result<()> {
        let said = "a stream at rest, or an event on it, was not ready";
        if ready == 1 { Ok(()) } else { Err(Error::new(Status::Internal, said)) }
    }
}

/// An event of ours.
struct OwnedEvent<'a> {
    place: &'a Place<'a>,
    event: Event,
}

impl<'a> OwnedEvent<'a> {
    /// One that was recorded and reached.
    fn reached(place: &'a Place<'a>) -> Result<OwnedEvent<'a>> {
        let (table, device) = (place.table, place.device);
        let said = |status: i32| if status == 0 { Ok(()) } else { Err(runtime::failure()) };
        let mut event = Event(ptr::null_mut());
        // SAFETY: `event` is writable; it and the stream are live from there on.
        unsafe {
            said((table.create_event)(table.self_, device, EventFlags::NONE, &mut event))?;
            let owned = OwnedEvent { place, event };
            said((table.record_event)(table.self_, device, event, place.lane.1))?;
            said((table.event_synchronize)(table.self_, device, event))?;
            Ok(owned)
        }
    }
}

impl Drop for OwnedEvent<'_> {
    fn drop(&mut self) {
        let (table, device) = (self.place.table, self.place.device);
        // SAFETY: made by `reached`, destroyed once.
        unsafe { (table.destroy_event)(table.self_, device, self.event) };
    }
}
