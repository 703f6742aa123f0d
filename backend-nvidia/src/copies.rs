//! Copies in four directions, at once or in a stream's order (contract C2, C3, C5).
//!
//! Rules: the direction picks the driver's entry point, so no pointer is asked about on the way.
//! When a synchronous copy returns the data is there for every stream, also a non-blocking one: a
//! copy that the driver may have left in flight (from pageable memory, and between devices) is
//! waited for on the legacy stream.
//!
//! Host to host is done here, in the stream's order (see `host_copy`): the driver's own copy of that
//! kind waits for the stream even where both sides are pinned.

use crate::call::cu;
use crate::device::Device;
use crate::errors::{self, INVALID_VALUE, SUCCESS};
use crate::host_copy;
use crate::rows::Rows;
use crate::staging;
use crate::streams::native;
use crate::two_devices;
use cust::sys::{CUdeviceptr, CUstream};
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopy3D, MemcpyKind, Stream};
use llaisys_runtime_core::error::{Error, Result};
use std::ffi::c_void;

/// The legacy stream of the context that is current.
const LEGACY: CUstream = std::ptr::null_mut();

/// One copy: what goes where.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    /// The first byte written.
    pub(crate) dst: *mut c_void,
    /// The first byte read.
    pub(crate) src: *const c_void,
    /// How many bytes; not 0.
    pub(crate) size: usize,
    /// From which side to which.
    pub(crate) kind: MemcpyKind,
    /// What is known of the host memory.
    pub(crate) flags: CopyFlags,
}

impl Copy {
    /// Has the driver copy in the order of a stream; its code. Not for two sides of host memory.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`; `on` is a live stream, or NULL when a context is entered.
    #[inline]
    pub(crate) unsafe fn enqueue(&self, on: CUstream) -> i32 {
        let (dst, src, size) = (self.dst, self.src, self.size);
        // SAFETY: the caller vouches for both ranges and the stream; the entry point is the one for
        // their sides. From and to pageable memory the driver's own meaning is the contract's (C3).
        unsafe {
            match self.kind {
                MemcpyKind::H2D => cu!(cuMemcpyHtoDAsync_v2(self.dst_address(), src, size, on)),
                MemcpyKind::D2H => cu!(cuMemcpyDtoHAsync_v2(dst, self.src_address(), size, on)),
                MemcpyKind::D2D => {
                    cu!(cuMemcpyDtoDAsync_v2(self.dst_address(), self.src_address(), size, on))
                }
                // Not asked of the driver (see the module text); no backend is told `Inferred`.
                MemcpyKind::H2H | MemcpyKind::Inferred => INVALID_VALUE,
            }
        }
    }

    pub(crate) fn dst_address(&self) -> CUdeviceptr {
        self.dst as usize as CUdeviceptr
    }

    pub(crate) fn src_address(&self) -> CUdeviceptr {
        self.src as usize as CUdeviceptr
    }

    #[cold]
    pub(crate) fn asked(&self, device: &Device, when: &str) -> String {
        let Copy { dst, src, size, kind, .. } = self;
        format!(
            "copy {size} bytes {kind:?} from {src:p} to {dst:p} on device {} {when}",
            device.ordinal
        )
    }
}

impl Device {
    /// Copies and waits.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_sync`.
    pub(crate) unsafe fn copy(&self, copy: Copy) -> Result<()> {
        let _entered = self.enter()?;
        let (dst, src, size) = (copy.dst, copy.src, copy.size);
        // SAFETY: the caller vouches for both ranges; the entry point is the one for their sides.
        let mut code = unsafe {
            match copy.kind {
                MemcpyKind::H2H => {
                    return self.host_to_host(copy.into(), Stream::DEFAULT, true);
                }
                MemcpyKind::D2H => cu!(cuMemcpyDtoH_v2(dst, copy.src_address(), size)),
                MemcpyKind::H2D => cu!(cuMemcpyHtoD_v2(copy.dst_address(), src, size)),
                MemcpyKind::D2D => {
                    cu!(cuMemcpyDtoD_v2(copy.dst_address(), copy.src_address(), size))
                }
                // No backend is told so.
                MemcpyKind::Inferred => INVALID_VALUE,
            }
        };
        let mut detoured = false;
        if code == INVALID_VALUE {
            // SAFETY: as above.
            if let Some(copied) = unsafe { two_devices::copy(self, copy, Stream::DEFAULT) } {
                copied?;
                code = SUCCESS;
                detoured = true;
            }
        }
        if code == SUCCESS && (detoured || copy.kind != MemcpyKind::D2H) {
            // SAFETY: the legacy stream of the context that was entered.
            code = unsafe { cu!(cuStreamSynchronize(LEGACY)) };
        }
        errors::check(code, || copy.asked(self, "and wait"))
    }

    /// Enqueues a copy.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`.
    #[inline]
    pub(crate) unsafe fn copy_async(&self, copy: Copy, stream: Stream) -> Result<()> {
        if copy.flags == CopyFlags::NONE && !stream.is_default() {
            // A stream has its context, so none is entered, unless the driver wants one all the same.
            // SAFETY: the caller vouches for both ranges and the stream.
            let code = unsafe { copy.enqueue(native(stream)) };
            if code == SUCCESS {
                return Ok(());
            }
            if !errors::wants_context(code) {
                return Err(self.copy_refused(code, copy, stream));
            }
        }
        // SAFETY: as above.
        unsafe { self.enter_and_copy(copy, stream) }
    }

    /// Enqueues a copy of any kind of memory on any stream.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`.
    #[cold]
    unsafe fn enter_and_copy(&self, copy: Copy, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        if copy.kind == MemcpyKind::H2H {
            // SAFETY: the caller vouches for both ranges and the stream.
            return unsafe { self.host_to_host(copy.into(), stream, false) };
        }
        if copy.flags != CopyFlags::NONE {
            // SAFETY: as above.
            if let Some(staged) = unsafe { self.staged(copy.into(), stream) } {
                return staged;
            }
        }
        // SAFETY: as above; the device's context is entered.
        let code = unsafe { copy.enqueue(native(stream)) };
        if code == SUCCESS {
            return Ok(());
        }
        if code == INVALID_VALUE {
            // SAFETY: as above.
            if let Some(copied) = unsafe { two_devices::copy(self, copy, stream) } {
                return copied;
            }
        }
        Err(self.copy_refused(code, copy, stream))
    }

    #[cold]
    fn copy_refused(&self, code: i32, copy: Copy, stream: Stream) -> Error {
        errors::failure(code, &copy.asked(self, &self.of_stream("in", stream)))
    }

    /// Enqueues a pitched copy.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_3d_async`.
    pub(crate) unsafe fn copy_pitched(
        &self,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let rows = Rows::of(copy, flags)?;
        if let Some(line) = rows.as_line() {
            // SAFETY: the caller vouches for the rows, which are one range, and the stream.
            return unsafe { self.copy_async(line, stream) };
        }
        let _entered = self.enter()?;
        if rows.kind == MemcpyKind::H2H {
            // SAFETY: the caller vouches for the rows and the stream.
            return unsafe { self.host_to_host(rows, stream, false) };
        }
        // SAFETY: as above.
        if let Some(staged) = unsafe { self.staged(rows, stream) } {
            return staged;
        }
        // SAFETY: as above; the device's context is entered.
        let code = unsafe { rows.enqueue(native(stream)) };
        if code == INVALID_VALUE {
            // Another device's memory, or a pitch that the driver has no number for: a plain copy
            // copes with the one and has not the other.
            for line in rows.lines() {
                // SAFETY: as above.
                unsafe { self.copy_async(line, stream) }?;
            }
            return Ok(());
        }
        errors::check(code, || {
            let (to, from) = (rows.first_written(), rows.first_read());
            let at = self.of_stream("in", stream);
            format!(
                "copy rows of {} bytes {:?} from {from:p} to {to:p} {at}",
                copy.width, rows.kind
            )
        })?;
        if flags.contains(CopyFlags::DESTINATION_PAGEABLE) {
            // The driver is documented to wait for copies into pageable memory, and says it of one
            // range; when it has waited for rows too, this costs nothing to speak of.
            // SAFETY: the caller vouches for the stream.
            return unsafe { self.synchronize_stream(stream) };
        }
        Ok(())
    }

    /// Copies by way of pinned memory where the driver would wait with it; `None` when it would not,
    /// or when another device's memory may be in it.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`, for each row; the device's context is entered.
    unsafe fn staged(&self, rows: Rows, stream: Stream) -> Option<Result<()>> {
        // SAFETY: the caller keeps the same contract.
        match unsafe { staging::copy(self, rows, stream) } {
            Some(Err(refusal)) if errors::is_refusal(&refusal) => None,
            staged => staged,
        }
    }

    /// Copies between two places of host memory, now or when the stream gets there.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_async`, for each row; the device's context is entered.
    unsafe fn host_to_host(&self, copy: Rows, stream: Stream, wait: bool) -> Result<()> {
        let promised = copy.flags.contains(CopyFlags::HOST_BUFFER_PROMISED);
        let pageable = |flag| !promised && copy.flags.contains(flag);
        if wait || pageable(CopyFlags::DESTINATION_PAGEABLE) {
            // SAFETY: the caller vouches for both ranges and the stream.
            return unsafe { host_copy::wait_and_copy(copy, stream) };
        }
        // SAFETY: as above; the source stays valid until the stream has passed, or is read now.
        unsafe { host_copy::enqueue(self, copy, stream, pageable(CopyFlags::SOURCE_PAGEABLE)) }
    }
}
