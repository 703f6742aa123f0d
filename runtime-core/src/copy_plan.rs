//! What a copy amounts to once its arguments are known: nothing, an error, or a plan.
//!
//! Rules (contract C1, C3, C4, M1, M3): zero bytes and source = destination are nothing, whatever
//! else is wrong with the pointers; a range that wraps, overlaps the other one or leaves the block it
//! starts in is an error; so is a kind that contradicts what is known of a pointer, where device
//! memory is not host memory. What is left is told to the backend as flags: which side is pageable.

use crate::api::{CopyFlags, MemcpyKind, Ordinal};
use crate::device_type::DeviceType;
use crate::error::{Error, Result};
use crate::pointers::{self, Block, MemoryKind};
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
    /// The caller's flags and what is known of the host memory.
    pub flags: CopyFlags,
}

/// The two ends of a copy, for messages and checks.
#[derive(Clone, Copy)]
struct End {
    name: &'static str,
    address: usize,
    on_host: bool,
    block: Option<Block>,
}

impl CopyPlan {
    /// Checks a request. `is_device_memory` is asked about addresses that the core does not know.
    ///
    /// # Errors
    /// `INVALID_VALUE`, with what was asked and what was found.
    #[inline]
    pub fn make(
        request: Request,
        owner: DeviceType,
        host_memory: bool,
        is_device_memory: impl Fn(usize) -> Result<bool>,
    ) -> Result<Option<CopyPlan>> {
        let Request { dst, src, size, kind, flags } = request;
        if size == 0 || dst.cast_const() == src {
            return Ok(None);
        }
        let (to, from) = (dst as usize, src as usize);
        if to == 0 || from == 0 {
            return Err(refused(format!("`{}` is NULL", if to == 0 { "dst" } else { "src" })));
        }
        if size > isize::MAX as usize || to.checked_add(size).and(from.checked_add(size)).is_none()
        {
            return Err(refused(format!("{size} bytes from {from:#x} to {to:#x} wrap around")));
        }
        if to.abs_diff(from) < size {
            return Err(refused(format!("{size} bytes from {from:#x} to {to:#x} overlap")));
        }
        let (source, destination) = pointers::find_both(from, to);
        let source = End { name: "src", address: from, on_host: kind.reads_host(), block: source };
        let destination =
            End { name: "dst", address: to, on_host: kind.writes_host(), block: destination };
        for end in [source, destination] {
            end.check_range(size)?;
            if host_memory {
                end.check_reach(owner)?;
            } else {
                end.check_kind(kind, owner, &is_device_memory)?;
            }
        }
        let device_of = |end: End| end.device_block(owner).map(|block| block.device);
        let (reads, writes) = (device_of(source), device_of(destination));
        let mut known =
            flags.without(CopyFlags::SOURCE_PAGEABLE).without(CopyFlags::DESTINATION_PAGEABLE);
        if !flags.contains(CopyFlags::HOST_BUFFER_PROMISED) {
            if source.is_pageable(owner, host_memory) {
                known = known.with(CopyFlags::SOURCE_PAGEABLE);
            }
            if destination.is_pageable(owner, host_memory) {
                known = known.with(CopyFlags::DESTINATION_PAGEABLE);
            }
        }
        Ok(Some(CopyPlan {
            device: reads.or(writes),
            other_device: writes.filter(|device| reads.is_some_and(|other| other != *device)),
            flags: known,
        }))
    }
}

impl End {
    fn device_block(&self, owner: DeviceType) -> Option<Block> {
        self.block.filter(|block| block.kind == MemoryKind::Device && block.owner == owner)
    }

    #[inline]
    fn check_range(&self, size: usize) -> Result<()> {
        match self.block {
            Some(block) if !block.holds(self.address, size) => Err(self.past_the_end(block, size)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn past_the_end(&self, block: Block, size: usize) -> Error {
        let offset = self.address - block.base;
        refused(format!(
            "`{}`: {size} bytes from offset {offset} run past the end of a block of {} bytes",
            self.name, block.size
        ))
    }

    #[inline]
    fn check_kind(
        &self,
        kind: MemcpyKind,
        owner: DeviceType,
        is_device_memory: impl Fn(usize) -> Result<bool>,
    ) -> Result<()> {
        match (self.block, self.on_host) {
            (Some(block), false) if block.kind == MemoryKind::Device && block.owner == owner => {
                Ok(())
            }
            (Some(block), true)
                if block.kind == MemoryKind::Host || (block.on_host && block.owner != owner) =>
            {
                Ok(())
            }
            (Some(block), _) => Err(self.contradiction(kind, &describe(block, owner))),
            (None, true) => Ok(()),
            (None, false) => match is_device_memory(self.address) {
                Ok(false) => Err(self.contradiction(kind, "host memory")),
                Ok(true) => Ok(()),
                Err(error) if error.status() == Status::NotSupported => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// Where every direction is right, memory of another kind of device still has to be the host's.
    #[inline]
    fn check_reach(&self, owner: DeviceType) -> Result<()> {
        match self.block {
            Some(block) if !block.on_host => Err(refused(format!(
                "`{}` is {}, which the host cannot reach",
                self.name,
                describe(block, owner)
            ))),
            _ => Ok(()),
        }
    }

    #[cold]
    fn contradiction(&self, kind: MemcpyKind, what: &str) -> Error {
        let wanted = if self.on_host { "host" } else { "device" };
        refused(format!("`{}` is {what}, but kind {kind:?} wants {wanted} memory there", self.name))
    }

    /// Whether the memory may be gone or read when the call returns: the caller's own, and what another
    /// backend made, whose free knows nothing of this one's streams (M4).
    fn is_pageable(&self, owner: DeviceType, host_memory: bool) -> bool {
        (host_memory || self.on_host) && self.block.is_none_or(|block| block.owner != owner)
    }
}

fn describe(block: Block, owner: DeviceType) -> String {
    let noun = match block.kind {
        MemoryKind::Device => "device memory",
        MemoryKind::Host => "pinned host memory",
    };
    if block.owner == owner {
        noun.to_owned()
    } else {
        format!("{noun} of device type {}", block.owner)
    }
}

#[cold]
fn refused(message: String) -> Error {
    Error::new(Status::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: DeviceType = 41;

    // The pointer table is the process's: these tests own addresses from 0x5000_0000 up.
    fn block(base: usize, kind: MemoryKind, device: Ordinal) -> usize {
        let on_host = kind == MemoryKind::Host;
        pointers::insert(Block { base, size: 0x1000, kind, owner: OWNER, device, on_host });
        base
    }

    fn plan(dst: usize, src: usize, size: usize, kind: MemcpyKind) -> Result<Option<CopyPlan>> {
        let flags = CopyFlags::NONE;
        let request =
            Request { dst: dst as *mut c_void, src: src as *const c_void, size, kind, flags };
        CopyPlan::make(request, OWNER, false, |_| Ok(false))
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
}
