//! The streams of the engine: one into each device and one out of it, for all threads.
//!
//! Why not one for each thread: a device has few queues in hardware, and streams share them. Behind a stream
//! that is held every other stream of its queue is held too. With a dozen streams the engine would be
//! behind any held stream of the user's, and so would be everybody's copies (contract S1; seen on an H200).
//! The bus is one thing in each direction, so several streams would not be quicker.
//!
//! Rule: a line is made by the first thread that needs it, without a lock, and is everybody's once it is in the
//! list. The last thread that leaves takes the list with it.

use super::board::Board;
use crate::api::{MemcpyKind, Ordinal, RuntimeApi, Stream, StreamFlags};
use crate::error::Result;
use crate::lock::Mutex;

/// A stream and what it is for.
#[derive(Clone, Copy)]
pub struct Line {
    device: Ordinal,
    kind: MemcpyKind,
    /// Not ordered with the default stream (S2): the engine itself waits for what a copy comes after.
    pub stream: Stream,
}

impl Line {
    fn destroy(self, backend: &dyn RuntimeApi) {
        // SAFETY: made by the backend on this device, destroyed once by whoever took it out of the list or
        // never put it in.
        let _nobody_to_tell = unsafe { backend.destroy_stream(self.device, self.stream) };
    }
}

/// The lines that there are.
pub struct Lines(Vec<Line>);

impl Lines {
    /// None.
    pub const fn new() -> Lines {
        Lines(Vec::new())
    }

    fn find(&self, device: Ordinal, kind: MemcpyKind) -> Option<Line> {
        self.0.iter().copied().find(|line| line.device == device && line.kind == kind)
    }

    /// Takes all of them out of the list.
    pub fn take(&mut self) -> Lines {
        Lines(std::mem::take(&mut self.0))
    }

    /// Destroys them. Nobody uses them any more.
    pub fn destroy(self, backend: &dyn RuntimeApi) {
        self.0.into_iter().for_each(|line| line.destroy(backend));
    }
}

/// The line in this direction, made when there is none.
pub fn line(
    board: &Mutex<Board>,
    backend: &dyn RuntimeApi,
    device: Ordinal,
    kind: MemcpyKind,
) -> Result<Line> {
    if let Some(found) = board.lock().lines.find(device, kind) {
        return Ok(found);
    }
    let stream = backend.create_stream_with(device, StreamFlags::NON_BLOCKING, 0)?;
    let made = Line { device, kind, stream };
    let first = {
        let mut board = board.lock();
        let first = board.lines.find(device, kind);
        if first.is_none() {
            board.lines.0.push(made);
        }
        first
    };
    let Some(first) = first else { return Ok(made) };
    made.destroy(backend);
    Ok(first)
}
