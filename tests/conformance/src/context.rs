//! What a case gets: the library, both tables of the device type, and the few steps that nearly every
//! case makes.

use crate::address::Address;
use crate::code::Code;
use crate::data::{self, Rng};
use crate::extended::{Copy, Extended};
use crate::failure::Failure;
use crate::forever::forever;
use crate::library::{Candidate, Library};
use crate::outcome::{Checked, Stop};
use crate::program::Launch;
use crate::twelve::Twelve;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{Capabilities, MemcpyKind, Stream};
use std::path::PathBuf;
use std::time::Duration;

/// What is the same for every case of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The library under test.
    pub library: PathBuf,
    /// The device type as the command line names it.
    pub device_type: String,
    /// The seed of the run.
    pub seed: u64,
    /// Fewer repetitions, for sanitizers.
    pub quick: bool,
    /// How long a case may take.
    pub timeout: Duration,
    /// How long every thread may sleep behind a closed gate before the case is taken for one that hangs.
    pub stall: Duration,
    /// Where `llaisys/backend.h` is, for plugins that are compiled here.
    pub include: PathBuf,
    /// This program, which runs cases and programs again in processes of their own.
    pub executable: PathBuf,
}

/// What a case works with.
pub struct Context {
    /// What is the same for every case.
    pub setup: Setup,
    /// The library.
    pub library: Library,
    /// The number of the device type under test.
    pub device_type: i32,
    /// LLAISYS's twelve functions.
    pub t: Twelve,
    /// The versioned table.
    pub x: Extended,
    /// What the backend says that it is able to do.
    pub capabilities: Capabilities,
    /// The record of the backend.
    pub candidate: Candidate,
    /// The number of devices.
    pub count: i32,
    /// The seed of this case.
    pub seed: u64,
}

impl Context {
    /// Opens the library and finds out what is there.
    ///
    /// # Errors
    /// Why there is nothing to test.
    pub fn new(setup: Setup, case: &str) -> Result<Context, String> {
        let library = Library::open(&setup.library)?;
        let device_type = library.device_type(&setup.device_type)?;
        let t = library.twelve(device_type)?;
        let why = || match library.take_failure() {
            Ok(Some(failure)) => format!("{:?}: {}", failure.code, failure.message),
            other => format!("{other:?}"),
        };
        let x = library.extended(device_type).map_err(|error| format!("{error}; {}", why()))?;
        let count = library
            .device_count(device_type)
            .map_err(|code| format!("there is no device ({code:?}); {}", why()))?;
        if count == 0 {
            return Err(format!("device type {} has no device", setup.device_type));
        }
        let candidate = library
            .candidates()?
            .into_iter()
            .find(|record| record.code == Code::SUCCESS && record.device_type == device_type)
            .ok_or("the backend is in use but has no record")?;
        let seed = data::mix(setup.seed, case);
        let capabilities =
            x.get_capabilities().map_err(|code| format!("get_capabilities: {code:?}"))?;
        Ok(Context { setup, library, device_type, t, x, capabilities, candidate, count, seed })
    }

    /// Whether the backend is part of the library.
    pub fn is_built_in(&self) -> bool {
        self.candidate.path.is_empty()
    }

    /// What a case gets, for another backend in the same process.
    pub fn beside(&self, device_type: &str) -> Checked<&'static Context> {
        let setup = Setup { device_type: device_type.to_owned(), ..self.setup.clone() };
        let context = Context::new(setup, device_type).map_err(Stop::fail)?;
        Ok(forever(context))
    }

    /// Whether the host may read device memory.
    pub fn host_memory(&self) -> bool {
        self.capabilities.contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY)
    }

    /// A generator for this case.
    pub fn rng(&self) -> Rng {
        Rng::new(self.seed)
    }

    /// Bytes for this case; `which` tells several apart.
    pub fn bytes(&self, which: u64, length: usize) -> Vec<u8> {
        Rng::new(self.seed ^ which.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bytes(length)
    }

    /// A number of repetitions, fewer in a quick run.
    pub fn times(&self, full: usize) -> usize {
        if self.setup.quick { (full / 20).max(2) } else { full }
    }

    /// A program of the suite, to be run in a process of its own.
    pub fn program(&self, name: &str) -> Launch {
        Launch::new(&self.setup, name)
    }

    /// Reads and clears the slot.
    pub fn failure(&self) -> Checked<Option<Failure>> {
        self.library.take_failure().map_err(Stop::fail)
    }

    /// Fails when the calls since the last look left a failure.
    pub fn clean(&self, what: &str) -> Checked {
        match self.failure()? {
            None => Ok(()),
            Some(f) => Err(Stop::fail(format!(
                "{what}: expected no failure, found {}: {:?}: {} ({} {})",
                f.operation, f.code, f.message, f.native_name, f.native_code
            ))),
        }
    }

    /// Fails unless the calls since the last look left this failure, first.
    pub fn refused(&self, operation: &str, status: Status, what: &str) -> Checked<Failure> {
        self.refused_as(operation, &[status], what)
    }

    /// As `refused`, where more than one status is right.
    pub fn refused_as(&self, operation: &str, right: &[Status], what: &str) -> Checked<Failure> {
        let names: Vec<_> = right.iter().map(|status| status.name()).collect();
        let expected = names.join(" or ");
        let Some(failure) = self.failure()? else {
            fail!("{what}: expected {expected} from {operation}, found no failure");
        };
        ensure!(
            right.iter().any(|status| failure.code.is(*status)),
            "{what}: expected {expected} from {operation}, found {failure:?}"
        );
        ensure_eq!(failure.operation, operation, "{what}: the operation that is named");
        ensure!(!failure.message.is_empty(), "{what}: the message is empty");
        Ok(failure)
    }

    /// Reads the slot after a call of the versioned table that answered `code`, and compares.
    pub fn answered<T: std::fmt::Debug>(
        &self,
        answer: Result<T, Code>,
        operation: &str,
        status: Status,
        what: &str,
    ) -> Checked<Failure> {
        let Err(code) = answer else {
            fail!("{what}: expected {} from {operation}, found {answer:?}", status.name());
        };
        ensure_eq!(code, Code::from(status), "{what}: the status that {operation} returns");
        self.refused(operation, status, what)
    }

    /// The value of a call that must succeed.
    pub fn ok<T>(&self, answer: Result<T, Code>, what: &str) -> Checked<T> {
        match answer {
            Ok(value) => Ok(value),
            Err(code) => {
                let failure = self.failure()?;
                let said = failure.map(|f| format!("{}: {}", f.operation, f.message));
                fail!("{what}: expected success, found {code:?} ({})", said.unwrap_or_default())
            }
        }
    }

    /// Makes a device current on this thread.
    pub fn set_device(&self, device: i32) -> Checked {
        self.t.set_device(device);
        self.clean(&format!("set_device({device})"))
    }

    /// A stream of the twelve; the case destroys it or leaves it to the end of the process.
    pub fn stream(&self) -> Checked<Stream> {
        let stream = self.t.create_stream();
        self.clean("create_stream")?;
        ensure!(!stream.is_default(), "create_stream: expected a handle, found NULL");
        Ok(stream)
    }

    /// Destroys a stream that must be alive.
    pub fn destroy(&self, stream: Stream) -> Checked {
        self.t.destroy_stream(stream);
        self.clean("destroy_stream")
    }

    /// Waits for a stream.
    pub fn wait(&self, stream: Stream) -> Checked {
        self.t.stream_synchronize(stream);
        self.clean("stream_synchronize")
    }

    /// Copies and waits, and must succeed.
    pub fn copy(&self, dst: Address, src: Address, size: usize, kind: MemcpyKind) -> Checked {
        self.t.copy(dst, src, size, kind);
        self.clean("memcpy_sync")
    }

    /// Enqueues a copy through the twelve, and must succeed.
    pub fn enqueue(
        &self,
        dst: Address,
        src: Address,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
    ) -> Checked {
        self.t.enqueue(dst, src, size, kind, stream);
        self.clean("memcpy_async")
    }

    /// Enqueues a copy through the versioned table, and must succeed.
    pub fn enqueue_extended(&self, device: i32, copy: Copy, stream: Stream) -> Checked {
        self.ok(self.x.memcpy_async(device, copy, stream), "memcpy_async (versioned table)")
    }

    /// Whether a stream is ready, which must be answered without waiting.
    pub fn ready(&self, device: i32, stream: Stream) -> Checked<bool> {
        self.ok(self.x.stream_query(device, stream), "stream_query")
    }
}
