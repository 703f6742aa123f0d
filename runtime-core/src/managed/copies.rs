//! Fills, pitched and batched copies: checked, and done with plain copies where a backend lacks them.

use super::Managed;
use crate::api::*;
use crate::copy_plan::{CopyPlan, Request};
use crate::error::{Error, Result};
use crate::host_function;
use crate::pointers::{self, About};
use crate::status::Status;
use std::ffi::c_void;

/// The bytes of a pattern that an emulated fill copies at a time.
const FILL_CHUNK: usize = 64 << 10;

impl<B: RuntimeApi> Managed<B> {
    /// An enqueued copy, whatever its memory and its stream are.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`.
    #[cold]
    pub(super) unsafe fn enqueue_copy(
        &self,
        device: Ordinal,
        request: Request,
        stream: Stream,
    ) -> Result<()> {
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        let Some(plan) = self.rules(device).plan(request)? else { return Ok(()) };
        self.may_wait(&plan)?;
        let _copying = self.pools.enqueueing(plan.flags);
        // SAFETY: the plan is the request's; `entered` keeps the stream alive, and it is on this device.
        if let Some(staged) = unsafe { self.stage(device, stream, &request, &plan, false) } {
            return staged;
        }
        let Request { dst, src, size, .. } = request;
        // SAFETY: the plan checked ranges, kind and overlap as far as the core knows the pointers; for
        // the rest the caller keeps the contract. `entered` keeps the stream alive, and it is on this
        // device.
        entered.on(|backend| unsafe {
            backend.memcpy_async(device, dst, src, size, plan.kind, stream, plan.flags)
        })?;
        self.finish(device, stream)
    }

    /// Runs an enqueueing call on a stream that stays alive meanwhile.
    pub(super) fn on_stream(
        &self,
        device: Ordinal,
        stream: Stream,
        call: impl FnOnce(&B, Ordinal) -> Result<()>,
    ) -> Result<()> {
        self.may_enqueue()?;
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        self.on(device, |backend| call(backend, device))?;
        self.finish(device, stream)
    }

    /// Whether a fill is within one block of this backend's memory and has nothing wrong with it; when not,
    /// [`Managed::fill`] finds out more.
    #[inline]
    pub(super) fn is_plain_fill(&self, dst: *mut c_void, pattern: Pattern, size: usize) -> bool {
        let (left, about) = pointers::look(dst as usize);
        let ours = About::of(self.device_type);
        let wanted = if self.host_memory { ours } else { ours.and(About::DEVICE) };
        let misaligned = (dst as usize | size) & (pattern.bytes().len() - 1);
        size != 0 && size <= left && about.is(wanted) && misaligned == 0
    }

    /// # Safety
    /// - As for `RuntimeApi::memset_async`.
    #[cold]
    pub(super) unsafe fn fill(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        self.check_fill(device, dst, pattern, size)?;
        let native = self.has(Capabilities::FILL);
        self.on_stream(device, stream, |backend, device| {
            if native {
                // SAFETY: the range was checked as far as the core knows it; the stream is alive.
                return unsafe {
                    backend.memset_async(device, dst, pattern.shortest(), size, stream)
                };
            }
            let repeated: Vec<u8> =
                pattern.repeated().iter().copied().cycle().take(size.min(FILL_CHUNK)).collect();
            for offset in (0..size).step_by(FILL_CHUNK) {
                let length = FILL_CHUNK.min(size - offset);
                // SAFETY: inside the range; a pageable source has been read when the call returns.
                unsafe {
                    backend.memcpy_async(
                        device,
                        dst.byte_add(offset),
                        repeated.as_ptr().cast(),
                        length,
                        MemcpyKind::H2D,
                        stream,
                        CopyFlags::SOURCE_PAGEABLE,
                    )?;
                }
            }
            Ok(())
        })
    }

    fn check_fill(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
    ) -> Result<()> {
        let refused = |message: String| Err(Error::new(Status::InvalidValue, message));
        let (address, unit) = (dst as usize, pattern.bytes().len());
        if address == 0 {
            return refused("`dst` is NULL".to_owned());
        }
        if address % unit != 0 || !size.is_multiple_of(unit) {
            return refused(format!(
                "`dst` {address:#x} and the size {size} are not both multiples of the pattern's \
                 {unit} bytes"
            ));
        }
        if size > isize::MAX as usize || address.checked_add(size).is_none() {
            return refused(format!("{size} bytes from {address:#x} wrap around"));
        }
        match pointers::find(address) {
            Some(block) if !block.holds(address, size) => refused(format!(
                "{size} bytes from offset {} run past the end of a block of {} bytes",
                address - block.base,
                block.size
            )),
            Some(block) if self.host_memory && !block.on_host => refused(format!(
                "`dst` is {} of device type {}, which this backend cannot reach",
                block.kind.words().0,
                block.owner
            )),
            _ if self.host_memory => Ok(()),
            Some(block) if block.kind.is_device() && block.owner == self.device_type => Ok(()),
            Some(block) => refused(format!(
                "`dst` is {} of device type {}; a fill wants device memory of this backend",
                block.kind.words().0,
                block.owner
            )),
            None => match self.backend.is_device_memory(device, address) {
                Ok(false) => refused(format!("`dst` {address:#x} is host memory")),
                Err(error) if error.status() != Status::NotSupported => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// # Safety
    /// - As for `RuntimeApi::memcpy_3d_async`.
    pub(super) unsafe fn copy_3d(
        &self,
        device: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        self.check_device(device)?;
        let Some(plan) = self.rules(device).plan_3d(copy, flags)? else { return Ok(()) };
        self.may_wait(&plan)?;
        let _copying = self.pools.enqueueing(plan.flags);
        let copy = LlaisysCopy3D { kind: plan.kind as u32, ..*copy };
        if self.has(Capabilities::PITCHED_COPIES) {
            // SAFETY: the plan checked the extents; `entered` keeps the stream alive.
            self.on(device, |backend| unsafe {
                backend.memcpy_3d_async(device, &copy, stream, plan.flags)
            })?;
            return self.finish(device, stream);
        }
        for z in 0..copy.depth {
            for y in 0..copy.height {
                let row = |pitch: u64, slice: u64| ((z * slice + y) * pitch) as usize;
                // SAFETY: the plan checked the extents, so each row is inside; the stream is alive.
                self.on(device, |backend| unsafe {
                    backend.memcpy_async(
                        device,
                        copy.dst.byte_add(row(copy.dst_pitch, copy.dst_slice_height)),
                        copy.src.byte_add(row(copy.src_pitch, copy.src_slice_height)),
                        copy.width as usize,
                        plan.kind,
                        stream,
                        plan.flags,
                    )
                })?;
            }
        }
        self.finish(device, stream)
    }

    /// # Safety
    /// - As for `RuntimeApi::memcpy_batch_async`.
    pub(super) unsafe fn copy_batch(
        &self,
        device: Ordinal,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        self.check_device(device)?;
        let rules = self.rules(device);
        // All are checked before the first is enqueued: a failed call copies nothing.
        let mut common: Option<CopyPlan> = None;
        let mut is_uniform = true;
        for (index, range) in ranges.iter().enumerate() {
            let LlaisysCopyRange { dst, src, size } = *range;
            let request = Request { dst, src, size: size as usize, kind, flags };
            let plan = rules.plan(request).map_err(|error| {
                Error::new(error.status(), format!("range {index}: {}", error.message()))
            })?;
            match (&mut common, plan) {
                (_, None) => is_uniform = false,
                (None, Some(plan)) => common = Some(plan),
                (Some(common), Some(plan)) => {
                    is_uniform &= common.kind == plan.kind;
                    common.flags = common.flags.with(plan.flags);
                }
            }
        }
        let Some(common) = common else { return Ok(()) };
        self.may_wait(&common)?;
        let _copying = self.pools.enqueueing(common.flags);
        if is_uniform && self.has(Capabilities::BATCHED_COPIES) {
            // SAFETY: each range was checked; `entered` keeps the stream alive.
            self.on(device, |backend| unsafe {
                backend.memcpy_batch_async(device, ranges, common.kind, stream, common.flags)
            })?;
        } else {
            for range in ranges {
                let LlaisysCopyRange { dst, src, size } = *range;
                let request = Request { dst, src, size: size as usize, kind, flags };
                let Some(plan) = rules.plan(request)? else { continue };
                // SAFETY: the range was checked; `entered` keeps the stream alive.
                self.on(device, |backend| unsafe {
                    let size = request.size;
                    backend.memcpy_async(device, dst, src, size, plan.kind, stream, plan.flags)
                })?;
            }
        }
        self.finish(device, stream)
    }

    /// Refuses a copy that waits, inside a host function.
    fn may_wait(&self, plan: &CopyPlan) -> Result<()> {
        if self.launch_blocking || plan.flags.contains(CopyFlags::DESTINATION_PAGEABLE) {
            host_function::may_block()
        } else {
            Ok(())
        }
    }
}
