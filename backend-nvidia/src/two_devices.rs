//! Copies that the driver's plain calls refuse because another device's memory is in them (contract
//! C5, S4).
//!
//! Rules: pointers are asked about here only, never on the way of a copy that works. A plain call
//! refuses memory of a pool that the stream's device has no access to. Between two devices the peer
//! copy takes it, by whichever path there is; where even that is refused, the copy goes through the
//! host, slowly and waiting, but right. Between the host and the other device, and within the other
//! device, it makes a detour: done there, when the stream gets there, and the stream goes on when it is
//! done.

use crate::addresses::owner;
use crate::call::cu;
use crate::copies::Copy;
use crate::device::Device;
use crate::errors;
use crate::event::Event;
use crate::streams::native;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use llaisys_runtime_core::error::Result;
use std::ffi::c_void;

/// How much is taken through the host at a time.
const STAGE: usize = 4 << 20;

/// Copies where another device has to do with it; `None` when none has, so that the driver's refusal
/// stands.
///
/// # Safety
/// - As for `RuntimeApi::memcpy_async`; the context of `device` is entered.
pub(crate) unsafe fn copy(device: &Device, copy: Copy, stream: Stream) -> Option<Result<()>> {
    let device_side = match copy.kind {
        MemcpyKind::H2H | MemcpyKind::Inferred => return None,
        MemcpyKind::H2D => Some(copy.dst_address()),
        MemcpyKind::D2H => Some(copy.src_address()),
        MemcpyKind::D2D => None,
    };
    if let Some(address) = device_side {
        // SAFETY: as the caller's; the stream is one of the owner's.
        let work = |owner: &Device, there| unsafe { owner.copy_async(copy, there) };
        return detour(device, owner(address)?, stream, work);
    }
    let (from, to) = (owner(copy.src_address())?, owner(copy.dst_address())?);
    if from.ordinal == to.ordinal {
        // SAFETY: as the caller's; the stream is one of the owner's.
        let work = |owner: &Device, there| unsafe { owner.copy_async(copy, there) };
        return detour(device, from, stream, work);
    }
    // SAFETY: as the caller's.
    Some(unsafe { peer(from, to, copy, stream) }.or_else(|refusal| {
        if errors::is_refusal(&refusal) {
            // SAFETY: as the caller's.
            unsafe { staged(device, from, to, copy, stream) }
        } else {
            Err(refusal)
        }
    }))
}

/// # Safety
/// - As for [`copy`].
unsafe fn peer(from: &Device, to: &Device, copy: Copy, stream: Stream) -> Result<()> {
    let (reads, writes) = (from.context()?.native(), to.context()?.native());
    let (dst, src, on) = (copy.dst_address(), copy.src_address(), native(stream));
    // SAFETY: the caller vouches for both ranges and the stream; the contexts are their devices'.
    let code = unsafe { cu!(cuMemcpyPeerAsync(dst, writes, src, reads, copy.size, on)) };
    errors::check(code, || copy.asked(to, "from another device"))
}

/// Has the owner of some memory work on it in the order of another device's stream: `work` is given a
/// stream of the owner's. `None` when the owner is that device itself. The context of `device` is
/// entered, and `stream` is one of its streams.
pub(crate) fn detour(
    device: &Device,
    owner: &Device,
    stream: Stream,
    work: impl FnOnce(&Device, Stream) -> Result<()>,
) -> Option<Result<()>> {
    if owner.ordinal == device.ordinal {
        return None;
    }
    let there = || {
        let before = Event::record(native(stream))?;
        let after = {
            let _entered = owner.enter()?;
            owner.on_detour(|detour| {
                before.hold_up(detour)?;
                work(owner, Stream(detour.cast()))?;
                Event::record(detour)
            })?
        };
        after.hold_up(native(stream))
    };
    Some(there())
}

/// Through the host.
///
/// # Safety
/// - As for [`copy`].
unsafe fn staged(
    device: &Device,
    from: &Device,
    to: &Device,
    copy: Copy,
    stream: Stream,
) -> Result<()> {
    let asked = || copy.asked(device, "through the host");
    let mut stage = vec![0_u8; STAGE.min(copy.size)];
    // In the stream's order, and in the default stream's, which the stream follows.
    for before in [stream, Stream::DEFAULT] {
        // SAFETY: the caller vouches for the stream.
        unsafe { device.synchronize_stream(before) }?;
    }
    let mut done = 0;
    while done < copy.size {
        let size = stage.len().min(copy.size - done);
        let bytes = stage.as_mut_ptr().cast::<c_void>();
        {
            let _entered = from.enter()?;
            // SAFETY: the source is readable by the caller's word, and the stage has `size` bytes.
            let code =
                unsafe { cu!(cuMemcpyDtoH_v2(bytes, copy.src_address() + done as u64, size)) };
            errors::check(code, asked)?;
        }
        let _entered = to.enter()?;
        // SAFETY: the destination is writable by the caller's word, and the stage has `size` bytes.
        let code = unsafe { cu!(cuMemcpyHtoD_v2(copy.dst_address() + done as u64, bytes, size)) };
        errors::check(code, asked)?;
        // SAFETY: the legacy stream of the context that was entered.
        errors::check(unsafe { cu!(cuStreamSynchronize(std::ptr::null_mut())) }, asked)?;
        done += size;
    }
    Ok(())
}
