//! What a copy amounts to once its arguments are known: nothing, an error, or a plan.
//!
//! Rules (contract C1, C3, C4, M1, M3): zero bytes and source = destination are nothing, whatever
//! else is wrong with the pointers; a range that wraps, overlaps the other one or leaves the block it
//! starts in is an error; so is a kind that contradicts what is known of a pointer, where device
//! memory is not host memory. What is left is told to the backend: which side is pageable, and the
//! kind, where the caller left it to the core.

use crate::api::{CopyFlags, LlaisysCopy3D, MemcpyKind, Ordinal};
use crate::device_type::DeviceType;
use crate::error::{Error, Result};
use crate::pointers::{self, About, Block, MemoryKind};
use crate::status::Status;
use std::ffi::c_void;

/// The arguments of a copy as the caller gave them.
#[derive(Clone, Copy)]
pub struct Request {
    /// Where to.
    pub dst: *mut c_void,
    /// Where from.
    pub src: *const c_void,
    /// How many bytes.
    pub size: usize,
    /// The direction.
    pub kind: MemcpyKind,
    /// The caller's flags.
    pub flags: CopyFlags,
}

/// A copy that may be handed to a backend.
#[derive(Debug, PartialEq, Eq)]
pub struct CopyPlan {
    /// The device whose memory the copy reads or, failing that, writes; `None` when the core knows
    /// neither pointer.
    pub device: Option<Ordinal>,
    /// The other device of a copy between two.
    pub other_device: Option<Ordinal>,
    /// The direction, never inferred.
    pub kind: MemcpyKind,
    /// The caller's flags and what is known of the host memory.
    pub flags: CopyFlags,
}

/// Whose copies these are, and what decides about them.
pub struct Rules<F> {
    /// The device type of the backend.
    pub owner: DeviceType,
    /// Device memory is host memory there.
    pub host_memory: bool,
    /// Asked about addresses that the core does not know.
    pub is_device_memory: F,
}

/// One end of a copy.
#[derive(Clone, Copy)]
struct End {
    name: &'static str,
    address: usize,
    /// Bytes from the first to the last one that is touched.
    extent: usize,
    block: Option<Block>,
}

impl<F: Fn(usize) -> Result<bool>> Rules<F> {
    /// The flags of the commonest copy: of one range, from one block of this backend to another, in the
    /// direction that these have. `None` where there is more to it, which [`Rules::plan`] finds out.
    ///
    /// This is the way of every enqueue on the fast path, so it is straight: no error is made here.
    #[inline]
    pub fn plan_at_sight(&self, request: Request) -> Option<CopyFlags> {
        let Request { dst, src, size, kind, flags } = request;
        let (to, from) = (dst as usize, src as usize);
        if size == 0 || to.abs_diff(from) < size || kind == MemcpyKind::Inferred {
            return None;
        }
        let ours = About::of(self.owner);
        let side = |is_host| match is_host {
            // Every direction is right there.
            _ if self.host_memory => ours,
            true => ours.and(About::HOST),
            false => ours.and(About::DEVICE),
        };
        let ((to_left, to_is), (from_left, from_is)) = (pointers::look(to), pointers::look(from));
        let fits = size <= to_left
            && size <= from_left
            && to_is.is(side(kind.writes_host()))
            && from_is.is(side(kind.reads_host()));
        // What is told about pageable memory is not so; and where the device has its own memory, no copy
        // is done in the calling thread.
        let told = CopyFlags::SOURCE_PAGEABLE.with(CopyFlags::DESTINATION_PAGEABLE);
        let told = if self.host_memory { told } else { told.with(CopyFlags::AT_ONCE_IF_IDLE) };
        fits.then_some(flags.without(told))
    }

    /// Checks a copy of one range.
    ///
    /// # Errors
    /// `INVALID_VALUE`, with what was asked and what was found.
    #[inline]
    pub fn plan(&self, request: Request) -> Result<Option<CopyPlan>> {
        let Request { dst, src, size, kind, flags } = request;
        if size == 0 || dst.cast_const() == src {
            return Ok(None);
        }
        let (to, from) = (dst as usize, src as usize);
        check_span(to, size, from, size)?;
        if to.abs_diff(from) < size {
            return Err(refused(format!("{size} bytes from {from:#x} to {to:#x} overlap")));
        }
        self.plan_ends((to, size), (from, size), kind, flags).map(Some)
    }

    /// Checks a pitched copy.
    ///
    /// # Errors
    /// `INVALID_VALUE`, with what was asked and what was found.
    pub fn plan_3d(&self, copy: &LlaisysCopy3D, flags: CopyFlags) -> Result<Option<CopyPlan>> {
        let kind = MemcpyKind::from_extended_code(copy.kind)?;
        if copy.is_empty() || copy.dst.cast_const() == copy.src && is_same_layout(copy) {
            return Ok(None);
        }
        check_pitches(copy)?;
        let (to, from) = (copy.dst as usize, copy.src as usize);
        let wraps = || refused("the pitched copy is larger than any address space".to_owned());
        let written = copy.extent(copy.dst_pitch, copy.dst_slice_height).ok_or_else(wraps)?;
        let read = copy.extent(copy.src_pitch, copy.src_slice_height).ok_or_else(wraps)?;
        check_span(to, written, from, read)?;
        if to < from + read && from < to + written && !are_rows_apart(copy) {
            return Err(refused(format!("the rows from {from:#x} to {to:#x} overlap")));
        }
        self.plan_ends((to, written), (from, read), kind, flags).map(Some)
    }

    fn plan_ends(
        &self,
        (to, written): (usize, usize),
        (from, read): (usize, usize),
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<CopyPlan> {
        let (source, destination) = (pointers::find(from), pointers::find(to));
        let source = End { name: "src", address: from, extent: read, block: source };
        let destination = End { name: "dst", address: to, extent: written, block: destination };
        source.check_range()?;
        destination.check_range()?;
        let kind = match kind {
            MemcpyKind::Inferred => self.infer(source, destination)?,
            given => {
                if self.host_memory {
                    self.check_reach(source)?;
                    self.check_reach(destination)?;
                } else {
                    self.check_kind(source, given.reads_host(), given)?;
                    self.check_kind(destination, given.writes_host(), given)?;
                }
                given
            }
        };
        let mut known =
            flags.without(CopyFlags::SOURCE_PAGEABLE).without(CopyFlags::DESTINATION_PAGEABLE);
        if !flags.contains(CopyFlags::HOST_BUFFER_PROMISED) {
            if self.is_pageable(source, kind.reads_host()) {
                known = known.with(CopyFlags::SOURCE_PAGEABLE);
            }
            if self.is_pageable(destination, kind.writes_host()) {
                known = known.with(CopyFlags::DESTINATION_PAGEABLE);
            }
        }
        let device_of =
            |end: End| end.block.filter(|b| b.kind == MemoryKind::Device && b.owner == self.owner);
        let reads = device_of(source).map(|block| block.device);
        let writes = device_of(destination).map(|block| block.device);
        Ok(CopyPlan {
            device: reads.or(writes),
            other_device: writes.filter(|device| reads.is_some_and(|other| other != *device)),
            kind,
            flags: known,
        })
    }

    #[inline]
    fn check_kind(&self, end: End, on_host: bool, kind: MemcpyKind) -> Result<()> {
        match end.block {
            Some(block) if on_host && block.kind.is_host() => Ok(()),
            // Another backend's device memory that is the host's.
            Some(block) if on_host && block.on_host && block.owner != self.owner => Ok(()),
            Some(block) if !on_host && block.kind.is_device() && block.owner == self.owner => {
                Ok(())
            }
            Some(block) => Err(contradiction(end, on_host, kind, &self.describe(block))),
            None if on_host => Ok(()),
            None => match (self.is_device_memory)(end.address) {
                Ok(true) => Ok(()),
                Ok(false) => Err(contradiction(end, on_host, kind, "host memory")),
                Err(error) if error.status() == Status::NotSupported => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// Where every direction is right, memory of another kind of device still has to be the host's.
    #[inline]
    fn check_reach(&self, end: End) -> Result<()> {
        match end.block {
            Some(block) if !block.on_host => Err(self.out_of_reach(end, block)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn out_of_reach(&self, end: End, block: Block) -> Error {
        let what = self.describe(block);
        refused(format!("`{}` is {what}, which this backend cannot reach", end.name))
    }

    /// The direction that the two pointers tell.
    fn infer(&self, source: End, destination: End) -> Result<MemcpyKind> {
        let on_device = |end: End| match end.block {
            Some(block) if block.owner == self.owner => Ok(block.kind.is_device()),
            Some(block) if !block.on_host => Err(self.out_of_reach(end, block)),
            Some(_) => Ok(false),
            None => match (self.is_device_memory)(end.address) {
                Err(error) if error.status() == Status::NotSupported => Ok(false),
                answer => answer,
            },
        };
        Ok(match (on_device(source)?, on_device(destination)?) {
            (false, false) => MemcpyKind::H2H,
            (false, true) => MemcpyKind::H2D,
            (true, false) => MemcpyKind::D2H,
            (true, true) => MemcpyKind::D2D,
        })
    }

    /// Whether the memory may be gone or read when the call returns: the caller's own, and what another
    /// backend made, whose free knows nothing of this one's streams (M4).
    fn is_pageable(&self, end: End, on_host: bool) -> bool {
        (self.host_memory || on_host) && end.block.is_none_or(|block| block.owner != self.owner)
    }

    fn describe(&self, block: Block) -> String {
        let noun = block.kind.words().0;
        if block.owner == self.owner {
            noun.to_owned()
        } else {
            format!("{noun} of device type {}", block.owner)
        }
    }
}

impl End {
    #[inline]
    fn check_range(&self) -> Result<()> {
        match self.block {
            Some(block) if !block.holds(self.address, self.extent) => Err(self.past_the_end(block)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn past_the_end(&self, block: Block) -> Error {
        refused(format!(
            "`{}`: {} bytes from offset {} run past the end of a block of {} bytes",
            self.name,
            self.extent,
            self.address - block.base,
            block.size
        ))
    }
}

/// Neither end is NULL, and neither wraps.
fn check_span(to: usize, written: usize, from: usize, read: usize) -> Result<()> {
    if to == 0 || from == 0 {
        return Err(refused(format!("`{}` is NULL", if to == 0 { "dst" } else { "src" })));
    }
    let ends = to.checked_add(written).and(from.checked_add(read));
    if written.max(read) > isize::MAX as usize || ends.is_none() {
        return Err(refused(format!("{written} bytes from {from:#x} to {to:#x} wrap around")));
    }
    Ok(())
}

fn check_pitches(copy: &LlaisysCopy3D) -> Result<()> {
    for (end, pitch, slice) in [
        ("dst", copy.dst_pitch, copy.dst_slice_height),
        ("src", copy.src_pitch, copy.src_slice_height),
    ] {
        if pitch < copy.width && (copy.height > 1 || copy.depth > 1) {
            let width = copy.width;
            return Err(refused(format!("`{end}_pitch` {pitch} is less than the width {width}")));
        }
        if slice < copy.height && copy.depth > 1 {
            let height = copy.height;
            let message = format!("`{end}_slice_height` {slice} is less than the height {height}");
            return Err(refused(message));
        }
    }
    Ok(())
}

fn is_same_layout(copy: &LlaisysCopy3D) -> bool {
    copy.dst_pitch == copy.src_pitch && copy.dst_slice_height == copy.src_slice_height
}

/// Whether two sides whose extents meet still share no byte: columns of one and the same layout.
fn are_rows_apart(copy: &LlaisysCopy3D) -> bool {
    if !is_same_layout(copy) || copy.dst_pitch == 0 {
        return false;
    }
    let apart = (copy.dst as usize).abs_diff(copy.src as usize) as u64 % copy.dst_pitch;
    apart >= copy.width && copy.dst_pitch - apart >= copy.width
}

#[cold]
fn contradiction(end: End, on_host: bool, kind: MemcpyKind, what: &str) -> Error {
    let wanted = if on_host { "host" } else { "device" };
    refused(format!("`{}` is {what}, but kind {kind:?} wants {wanted} memory there", end.name))
}

#[cold]
fn refused(message: String) -> Error {
    Error::new(Status::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: DeviceType = 41;
    const RULES: Rules<fn(usize) -> Result<bool>> =
        Rules { owner: OWNER, host_memory: false, is_device_memory: |_| Ok(false) };

    // The pointer table is the process's: these tests own addresses from 0x5000_0000 up.
    fn block(base: usize, kind: MemoryKind, device: Ordinal) -> usize {
        let on_host = kind != MemoryKind::Device;
        pointers::insert(Block {
            base,
            size: 0x1000,
            kind,
            owner: OWNER,
            device,
            on_host,
            stream: None,
        })
        .expect("nothing is there");
        base
    }

    fn plan(dst: usize, src: usize, size: usize, kind: MemcpyKind) -> Result<Option<CopyPlan>> {
        let flags = CopyFlags::NONE;
        let request =
            Request { dst: dst as *mut c_void, src: src as *const c_void, size, kind, flags };
        RULES.plan(request)
    }

    #[test]
    fn zero_bytes_and_a_copy_onto_itself_are_nothing() {
        assert_eq!(plan(0, 0xdead, 0, MemcpyKind::H2D).expect("no-op"), None);
        assert_eq!(plan(0xdead, 0xdead, 8, MemcpyKind::H2D).expect("no-op"), None);
    }

    #[test]
    fn ranges_that_wrap_overlap_or_leave_their_block_are_refused() {
        let a = block(0x5000_0000, MemoryKind::Device, 0);
        let b = block(0x5001_0000, MemoryKind::Device, 0);
        for (dst, src, size) in [
            (a, b, usize::MAX),
            (a, b, usize::MAX - 255),
            (usize::MAX - 4, b, 8),
            (a + 1, a, 16),
            (a, a + 15, 16),
            (a, b, 0x1001),
            (a + 1, b, 0x1000),
            (0, b, 1),
            (a, 0, 1),
        ] {
            let refused = plan(dst, src, size, MemcpyKind::D2D).expect_err("refused");
            assert_eq!(refused.status(), Status::InvalidValue);
        }
        assert!(plan(a, b, 0x1000, MemcpyKind::D2D).is_ok());
        assert!(plan(a + 16, a, 16, MemcpyKind::D2D).is_ok());
    }

    #[test]
    fn a_kind_that_contradicts_a_pointer_is_refused() {
        let device = block(0x5002_0000, MemoryKind::Device, 0);
        let pinned = block(0x5003_0000, MemoryKind::Host, 0);
        let pageable = 0x5004_0000;
        for (dst, src, kind) in [
            (pageable, pinned, MemcpyKind::H2D),
            (device, pageable, MemcpyKind::D2H),
            (device, pinned, MemcpyKind::D2D),
            (pinned, device, MemcpyKind::H2H),
            (pageable, device, MemcpyKind::H2D),
        ] {
            let refused = plan(dst, src, 16, kind).expect_err("refused");
            assert!(refused.message().contains("memory there"), "{refused}");
        }
    }

    #[test]
    fn the_backend_is_told_which_side_is_pageable() {
        let device = block(0x5005_0000, MemoryKind::Device, 2);
        let pinned = block(0x5006_0000, MemoryKind::Host, 0);
        let other = block(0x5007_0000, MemoryKind::Device, 3);
        let pageable = 0x5008_0000;
        let flags = |dst, src, kind| {
            plan(dst, src, 16, kind).expect("a plan").expect("something to do").flags
        };
        assert_eq!(flags(device, pinned, MemcpyKind::H2D), CopyFlags::NONE);
        assert_eq!(flags(device, pageable, MemcpyKind::H2D), CopyFlags::SOURCE_PAGEABLE);
        assert_eq!(flags(pageable, device, MemcpyKind::D2H), CopyFlags::DESTINATION_PAGEABLE);
        let between = plan(other, device, 16, MemcpyKind::D2D).expect("a plan").expect("a plan");
        assert_eq!((between.device, between.other_device), (Some(2), Some(3)));
    }

    #[test]
    fn the_kind_is_inferred_from_the_pointers() {
        let device = block(0x5009_0000, MemoryKind::Device, 0);
        let pinned = block(0x500A_0000, MemoryKind::Host, 0);
        let other = block(0x500B_0000, MemoryKind::Managed, 0);
        let pageable = 0x500C_0000;
        for (dst, src, kind) in [
            (device, pinned, MemcpyKind::H2D),
            (pageable, device, MemcpyKind::D2H),
            (other, device, MemcpyKind::D2D),
            (pageable, pinned, MemcpyKind::H2H),
        ] {
            let inferred = plan(dst, src, 16, MemcpyKind::Inferred).expect("a plan");
            assert_eq!(inferred.expect("something to do").kind, kind);
        }
    }

    #[test]
    fn columns_of_one_layout_may_be_copied_beside_each_other_and_not_over_each_other() {
        let base = block(0x500D_0000, MemoryKind::Device, 0);
        let columns = |dst: usize, src: usize, width| {
            let copy = LlaisysCopy3D {
                struct_size: size_of::<LlaisysCopy3D>() as u32,
                kind: MemcpyKind::D2D as u32,
                dst: dst as *mut c_void,
                dst_pitch: 64,
                dst_slice_height: 0,
                src: src as *const c_void,
                src_pitch: 64,
                src_slice_height: 0,
                width,
                height: 8,
                depth: 1,
            };
            RULES.plan_3d(&copy, CopyFlags::NONE)
        };
        assert!(columns(base + 32, base, 32).expect("apart").is_some());
        assert!(columns(base + 32, base, 33).is_err());
        assert!(columns(base + 16, base, 17).is_err());
        assert!(columns(base, base + 2048, 65).is_err(), "a width above the pitch");
        assert!(columns(base, base + 0x1000 - 256, 16).is_err(), "past the end of the block");
        assert!(columns(base, base, 16).expect("itself").is_none());
    }
}
