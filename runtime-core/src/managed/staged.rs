//! Copies of pageable memory through the staging engine: which, and when it is their turn.
//!
//! Rule (contract C2, C3, S1, S2): it is a copy's turn when everything that is before it in its stream is
//! done, and for a blocking stream what is before it in the default stream, too; an event that is recorded
//! there knows. A copy that must be done at return waits for its turn; one from pageable memory on a busy
//! stream does not, for the caller may be who lets the stream go on: it is left to the backend.

use super::Managed;
use crate::api::*;
use crate::copy_plan::{CopyPlan, Request};
use crate::error::Result;
use crate::host_function;
use crate::pointers;
use crate::staging::board::Failure;
use crate::status::Status;
use std::ffi::c_void;
use std::time::{Duration, Instant};

impl<B: RuntimeApi> Managed<B> {
    /// Copies with the engine if that is quicker; `None` when it was not done.
    ///
    /// `must_wait`: the copy waits for its turn, whatever its memory is.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`, with the plan of the request; `device` is the stream's.
    #[inline]
    pub(super) unsafe fn stage(
        &self,
        device: Ordinal,
        stream: Stream,
        request: &Request,
        plan: &CopyPlan,
        must_wait: bool,
    ) -> Option<Result<()>> {
        if !self.staging.takes(plan.kind, request.size) {
            return None;
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { self.stage_large(device, stream, request, plan, must_wait) }
    }

    /// # Safety
    /// - As for [`Managed::stage`].
    #[cold]
    unsafe fn stage_large(
        &self,
        device: Ordinal,
        stream: Stream,
        request: &Request,
        plan: &CopyPlan,
        must_wait: bool,
    ) -> Option<Result<()>> {
        let Request { dst, src, size, .. } = *request;
        let (host, is_read) = match plan.kind {
            MemcpyKind::H2D => (src, true),
            _ => (dst.cast_const(), false),
        };
        // A host function holds up its stream, and perhaps what the threads would wait for.
        if host_function::may_block().is_err() || !self.is_pageable(host) {
            return None;
        }
        // Nothing of it is in the user's stream: what is freed meanwhile has to be kept all the same (M4).
        let _copying = self.pools.copying();
        let promised = request.flags.contains(CopyFlags::HOST_BUFFER_PROMISED);
        let waits = must_wait || !(is_read || promised);
        match self.on(device, |backend| has_its_turn(backend, device, stream, waits)) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return self.unless_unserved(device, Err(Failure::from(error))),
        }
        // SAFETY: the plan checked the ranges as far as the core knows them, and for the rest the caller
        // keeps the contract. What is before the copy is done.
        let outcome = unsafe { self.staging.copy(device, dst, src, size, plan.kind) };
        self.unless_unserved(device, outcome)
    }

    /// What came of a copy; `None` when another way may still do it.
    fn unless_unserved(
        &self,
        device: Ordinal,
        outcome: std::result::Result<(), Failure>,
    ) -> Option<Result<()>> {
        match outcome {
            Ok(()) => Some(Ok(())),
            Err(Failure::Unserved) => None,
            Err(Failure::Failed(error)) => Some(Err(self.lost.note(device, error))),
        }
    }

    /// Whether nobody has pinned the memory, also no other library.
    fn is_pageable(&self, host: *const c_void) -> bool {
        if pointers::find(host as usize).is_some_and(|block| block.owner == self.device_type) {
            return false;
        }
        let known = |backend: &B| backend.get_pointer_attributes(host as usize);
        !self.has(Capabilities::POINTER_QUERY)
            || known(&self.backend).is_ok_and(|found| found.kind == MEMORY_PAGEABLE)
    }
}

/// A device takes some microseconds to pass an event, also on a stream that has nothing else to do.
const PATIENCE: Duration = Duration::from_micros(30);

/// Whether everything that is before an operation in a stream is done; waits for it if asked to. A stream that
/// is captured into a graph is left alone: nothing is done in it.
fn has_its_turn(
    backend: &impl RuntimeApi,
    device: Ordinal,
    stream: Stream,
    waits: bool,
) -> Result<bool> {
    // SAFETY: the caller keeps the stream alive, and it is of the device.
    let idle = unsafe { backend.stream_query(device, stream) };
    if idle.is_err_and(|error| error.status() == Status::NotPermitted) {
        return Ok(false);
    }
    let event = backend.create_event(device, EventFlags::NONE)?;
    // SAFETY: the event was just made on this device, and is destroyed once; the caller keeps the stream
    // alive, and it is of the device.
    unsafe {
        let turn = backend.record_event(device, event, stream).and_then(|()| {
            if waits {
                backend.event_synchronize(device, event).map(|()| true)
            } else {
                is_passed_soon(backend, device, event)
            }
        });
        let _nobody_to_tell = backend.destroy_event(device, event);
        turn
    }
}

/// # Safety
/// - A live event of this device.
unsafe fn is_passed_soon(backend: &impl RuntimeApi, device: Ordinal, event: Event) -> Result<bool> {
    let since = Instant::now();
    loop {
        // SAFETY: by the contract above.
        let is_passed = unsafe { backend.event_query(device, event) }?;
        if is_passed || since.elapsed() > PATIENCE {
            return Ok(is_passed);
        }
        std::hint::spin_loop();
    }
}
