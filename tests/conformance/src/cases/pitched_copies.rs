//! Rows that do not follow each other without a gap (C4).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{LlaisysCopy3D, MemcpyKind, Stream};

cases! { Area::Copies;
    "C4" rows_are_copied_and_what_is_between_them_is_not [];
    "C4" slices_are_copied_and_what_is_between_them_is_not [];
    "C4" a_hundred_shapes_are_copied_exactly [];
    "C4" an_empty_shape_is_nothing [];
    "C4" pitches_and_shapes_that_do_not_fit_are_refused [];
    "C4" rows_that_overlap_are_refused_and_columns_side_by_side_are_not [];
    "S1" a_pitched_copy_keeps_its_place_in_the_stream [Gates];
    "C3" pitched_copies_know_pageable_memory [Gates];
    "C2" a_synchronous_pitched_copy_follows_earlier_work [Gates];
    "C5" pitched_copies_between_devices [SecondDevice];
    "C2" a_synchronous_pitched_copy_between_devices_follows_earlier_work_on_both
        [SecondDevice, Gates];
}

/// A shape: row bytes, rows, slices, and the pitches and slice heights of both sides.
#[derive(Clone, Copy, Debug)]
struct Shape {
    width: usize,
    height: usize,
    depth: usize,
    from: (usize, usize),
    to: (usize, usize),
}

impl Shape {
    fn extent(&self, (pitch, slice): (usize, usize)) -> usize {
        ((self.depth - 1) * slice + self.height - 1) * pitch + self.width
    }

    fn copy(&self, dst: Address, src: Address, kind: MemcpyKind) -> LlaisysCopy3D {
        LlaisysCopy3D {
            struct_size: size_of::<LlaisysCopy3D>() as u32,
            kind: kind as u32,
            dst: dst.pointer(),
            dst_pitch: self.to.0 as u64,
            dst_slice_height: self.to.1 as u64,
            src: src.pointer(),
            src_pitch: self.from.0 as u64,
            src_slice_height: self.from.1 as u64,
            width: self.width as u64,
            height: self.height as u64,
            depth: self.depth as u64,
        }
    }

    /// What is there after the copy.
    fn apply(&self, source: &[u8], target: &mut [u8]) {
        for z in 0..self.depth {
            for y in 0..self.height {
                let read = (z * self.from.1 + y) * self.from.0;
                let write = (z * self.to.1 + y) * self.to.0;
                target[write..write + self.width].copy_from_slice(&source[read..read + self.width]);
            }
        }
    }
}

/// Copies a shape from one place to another and looks at every byte of the target.
fn check(context: &'static Context, shape: Shape, from: Place, to: Place, wait: bool) -> Checked {
    let what = format!("{shape:?} from {from:?} to {to:?} memory, waiting: {wait}");
    let kind = Place::kind(from, to);
    let bytes = context.bytes(1, shape.extent(shape.from));
    let mut right = context.bytes(2, shape.extent(shape.to));
    let source = Block::filled(context, from, &bytes)?;
    let target = Guarded::new(context, to, right.len())?;
    put(context, to, target.address(), &right)?;
    let copy = shape.copy(target.address(), source.address(), kind);
    if wait {
        context.ok(context.x.memcpy_3d_sync(0, &copy), &what)?;
    } else {
        let stream = context.stream()?;
        context.ok(context.x.memcpy_3d_async(0, &copy, stream), &what)?;
        context.wait(stream)?;
        context.destroy(stream)?;
    }
    shape.apply(&bytes, &mut right);
    target.expect(&right, &what)
}

fn put(context: &Context, place: Place, to: Address, bytes: &[u8]) -> Checked {
    let kind = Place::kind(Place::Pageable, place);
    context.copy(to, Address::of(bytes), bytes.len(), kind)
}

const FLAT: Shape = Shape { width: 100, height: 37, depth: 1, from: (160, 0), to: (131, 0) };
const DEEP: Shape = Shape { width: 33, height: 9, depth: 5, from: (64, 11), to: (40, 9) };

fn everywhere(context: &'static Context, shape: Shape) -> Checked {
    for from in Place::ALL {
        for to in Place::ALL {
            check(context, shape, from, to, true)?;
            check(context, shape, from, to, false)?;
        }
    }
    Ok(())
}

fn rows_are_copied_and_what_is_between_them_is_not(context: &'static Context) -> Checked {
    everywhere(context, FLAT)
}

fn slices_are_copied_and_what_is_between_them_is_not(context: &'static Context) -> Checked {
    everywhere(context, DEEP)
}

fn a_hundred_shapes_are_copied_exactly(context: &'static Context) -> Checked {
    let mut rng = context.rng();
    for number in 0..context.times(100) {
        let (width, height, depth) = (1 + rng.below(70), 1 + rng.below(20), 1 + rng.below(5));
        let mut side = || (width + rng.below(30), height + rng.below(4));
        let shape = Shape { width, height, depth, from: side(), to: side() };
        let (from, to) = (Place::ALL[number % 3], Place::ALL[number / 3 % 3]);
        check(context, shape, from, to, number % 2 == 0)?;
    }
    Ok(())
}

fn both(
    context: &'static Context,
    copy: &LlaisysCopy3D,
    right: Option<Status>,
    what: &str,
) -> Checked {
    let answers = [
        ("memcpy_3d_sync", context.x.memcpy_3d_sync(0, copy)),
        ("memcpy_3d_async", context.x.memcpy_3d_async(0, copy, Stream::DEFAULT)),
    ];
    let mut told = context.failure()?;
    for (operation, answer) in answers {
        let expected = right.map_or(Ok(()), |status| Err(status.into()));
        ensure_eq!(answer, expected, "{what}: what {operation} answers");
        if right.is_some() {
            let told = told.take().map(|failure| failure.operation);
            ensure!(told.as_deref().is_none_or(|told| told == operation), "{what}: {told:?}");
        }
    }
    context.wait(Stream::DEFAULT)
}

fn an_empty_shape_is_nothing(context: &'static Context) -> Checked {
    for (width, height, depth) in [(0, 5, 5), (5, 0, 5), (5, 5, 0), (0, 0, 0)] {
        let shape = Shape { width, height, depth, from: (1, 1), to: (1, 1) };
        let copy = shape.copy(Address::GARBAGE, Address::NULL, MemcpyKind::D2D);
        both(context, &copy, None, &format!("{width} × {height} × {depth}"))?;
    }
    let block = Block::filled(context, Place::Device, &[7; 4096])?;
    let shape = Shape { from: (64, 0), to: (64, 0), width: 32, height: 8, depth: 1 };
    let copy = shape.copy(block.address(), block.address(), MemcpyKind::D2D);
    both(context, &copy, None, "a copy onto itself")?;
    ensure!(block.content()? == [7; 4096], "a copy onto itself wrote something else");
    Ok(())
}

fn pitches_and_shapes_that_do_not_fit_are_refused(context: &'static Context) -> Checked {
    let source = Block::filled(context, Place::Device, &[7; 4096])?;
    let target = Guarded::new(context, Place::Device, 4096)?;
    let right = Shape { width: 32, height: 8, depth: 2, from: (64, 8), to: (64, 8) };
    let of = |shape: Shape| shape.copy(target.address(), source.address(), MemcpyKind::D2D);
    let good = of(right);
    let huge = 1 << 40;
    for (copy, what) in [
        (of(Shape { from: (31, 8), ..right }), "a source pitch below the width"),
        (of(Shape { to: (31, 8), ..right }), "a target pitch below the width"),
        (of(Shape { from: (64, 7), ..right }), "a source slice below the height"),
        (of(Shape { to: (64, 7), ..right }), "a target slice below the height"),
        (of(Shape { height: 65, depth: 1, ..right }), "past the end of both"),
        (of(Shape { from: (600, 8), ..right }), "past the end of the source"),
        (of(Shape { to: (600, 8), ..right }), "past the end of the target"),
        (LlaisysCopy3D { src_pitch: huge, src_slice_height: huge, ..good }, "a source that wraps"),
        (LlaisysCopy3D { dst_pitch: u64::MAX, ..good }, "a target that wraps"),
        (LlaisysCopy3D { kind: 5, ..good }, "kind 5"),
        (LlaisysCopy3D { kind: u32::MAX, ..good }, "kind -1"),
        (LlaisysCopy3D { dst: std::ptr::null_mut(), ..good }, "a NULL target"),
        (LlaisysCopy3D { src: std::ptr::null(), ..good }, "a NULL source"),
        (LlaisysCopy3D { struct_size: 0, ..good }, "no struct_size"),
        (LlaisysCopy3D { struct_size: 40, ..good }, "a struct that ends too early"),
    ] {
        both(context, &copy, Some(Status::InvalidValue), what)?;
    }
    target.expect_untouched("after pitched copies that were refused")
}

fn rows_that_overlap_are_refused_and_columns_side_by_side_are_not(
    context: &'static Context,
) -> Checked {
    let bytes = context.bytes(1, 64 * 16);
    let block = Block::filled(context, Place::Device, &bytes)?;
    let at = block.address();
    let shape = |width| Shape { width, height: 16, depth: 1, from: (64, 0), to: (64, 0) };
    for (width, offset) in [(33, 32), (32, 31), (32, 1), (17, 16)] {
        let copy = shape(width).copy(at.plus(offset), at, MemcpyKind::D2D);
        let copy = LlaisysCopy3D { height: 15, ..copy };
        let what = format!("{width} bytes to {offset} bytes further on");
        both(context, &copy, Some(Status::InvalidValue), &what)?;
    }
    ensure!(block.content()? == bytes, "a refused copy wrote");
    let copy = shape(32).copy(at.plus(32), at, MemcpyKind::D2D);
    context.ok(context.x.memcpy_3d_sync(0, &copy), "columns side by side")?;
    let mut right = bytes.clone();
    for row in right.chunks_mut(64) {
        row.copy_within(..32, 32);
    }
    ensure!(block.content()? == right, "columns side by side");
    Ok(())
}

fn a_pitched_copy_keeps_its_place_in_the_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, DEEP.extent(DEEP.from));
    let source = Block::filled(context, Place::Pinned, &vec![0; bytes.len()])?;
    let fresh = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, Place::Device, DEEP.extent(DEEP.to))?;
    let clean = target_bytes(&target)?;
    let gate = Gate::hold(context, 0, stream)?;
    let (middle, length) = (source.address(), bytes.len());
    context.enqueue(middle, fresh.address(), length, MemcpyKind::D2H, stream)?;
    let copy = DEEP.copy(target.address(), middle, MemcpyKind::H2D);
    context.ok(context.x.memcpy_3d_async(0, &copy, stream), "memcpy_3d_async")?;
    gate.open();
    context.wait(stream)?;
    let mut right = clean;
    DEEP.apply(&bytes, &mut right);
    target.expect(&right, "a pitched copy from pinned memory that is written before it")?;
    context.destroy(stream)
}

fn target_bytes(target: &Guarded) -> Checked<Vec<u8>> {
    target.inside(DEEP.extent(DEEP.to))
}

fn pitched_copies_know_pageable_memory(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, DEEP.extent(DEEP.from));
    let mut local = Block::filled(context, Place::Pageable, &bytes)?;
    let target = Guarded::new(context, Place::Device, DEEP.extent(DEEP.to))?;
    let mut right = target_bytes(&target)?;
    let gate = Gate::hold(context, 0, stream)?;
    let copy = DEEP.copy(target.address(), local.address(), MemcpyKind::H2D);
    context.ok(context.x.memcpy_3d_async(0, &copy, stream), "memcpy_3d_async")?;
    local.write(0, &vec![0xff; bytes.len()])?;
    gate.open();
    context.wait(stream)?;
    DEEP.apply(&bytes, &mut right);
    target.expect(&right, "from pageable memory that changed after the call")?;
    // The other way round: the call waits.
    let source = Block::filled(context, Place::Device, &bytes)?;
    let seen = Guarded::new(context, Place::Pageable, DEEP.extent(DEEP.to))?;
    let mut right = target_bytes(&seen)?;
    let gate = Gate::hold(context, 0, stream)?;
    let (to, from) = (seen.address(), source.address());
    let caller = Caller::start(move || {
        let copy = DEEP.copy(to, from, MemcpyKind::D2H);
        context.ok(context.x.memcpy_3d_async(0, &copy, stream), "memcpy_3d_async")
    })?;
    caller.expect_waiting("memcpy_3d_async into pageable memory")?;
    gate.open();
    caller.join()?;
    DEEP.apply(&bytes, &mut right);
    seen.expect(&right, "into pageable memory, at the return")?;
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_synchronous_pitched_copy_follows_earlier_work(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, DEEP.extent(DEEP.from));
    let source = Block::filled(context, Place::Device, &vec![0; bytes.len()])?;
    let fresh = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Pageable, DEEP.extent(DEEP.to))?;
    let mut right = target_bytes(&target)?;
    let gate = Gate::hold(context, 0, stream)?;
    let length = bytes.len();
    context.enqueue(source.address(), fresh.address(), length, MemcpyKind::H2D, stream)?;
    let (to, from) = (target.address(), source.address());
    let caller = Caller::start(move || {
        let copy = DEEP.copy(to, from, MemcpyKind::D2H);
        context.ok(context.x.memcpy_3d_sync(0, &copy), "memcpy_3d_sync")
    })?;
    caller.expect_waiting("memcpy_3d_sync behind a held blocking stream")?;
    gate.open();
    caller.join()?;
    DEEP.apply(&bytes, &mut right);
    target.expect(&right, "memcpy_3d_sync behind earlier work")?;
    context.destroy(stream)
}

/// A source on device 0 and a target on device 1.
fn apart(context: &'static Context, bytes: &[u8]) -> Checked<(Block, Guarded)> {
    context.set_device(0)?;
    let source = Block::filled(context, Place::Device, bytes)?;
    context.set_device(1)?;
    let target = Guarded::new(context, Place::Device, DEEP.extent(DEEP.to))?;
    context.set_device(0)?;
    Ok((source, target))
}

fn pitched_copies_between_devices(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, DEEP.extent(DEEP.from));
    for device in 0..2 {
        let (source, target) = apart(context, &bytes)?;
        let mut right = target_bytes(&target)?;
        DEEP.apply(&bytes, &mut right);
        let copy = DEEP.copy(target.address(), source.address(), MemcpyKind::D2D);
        context.ok(context.x.memcpy_3d_sync(device, &copy), "memcpy_3d_sync")?;
        target.expect(&right, "memcpy_3d_sync from device 0 to 1")?;
        let (source, target) = apart(context, &bytes)?;
        let stream = context.ok(context.x.create_stream(device), "create_stream")?;
        let copy = DEEP.copy(target.address(), source.address(), MemcpyKind::D2D);
        context.ok(context.x.memcpy_3d_async(device, &copy, stream), "memcpy_3d_async")?;
        context.wait(stream)?;
        target.expect(&right, &format!("from device 0 to 1 on a stream of device {device}"))?;
        context.destroy(stream)?;
    }
    Ok(())
}

fn a_synchronous_pitched_copy_between_devices_follows_earlier_work_on_both(
    context: &'static Context,
) -> Checked {
    for held in [0, 1] {
        let bytes = context.bytes(held as u64, DEEP.extent(DEEP.from));
        let (source, target) = apart(context, &bytes)?;
        let mut right = target_bytes(&target)?;
        DEEP.apply(&bytes, &mut right);
        let stream = context.ok(context.x.create_stream(held), "create_stream")?;
        let gate = Gate::hold(context, held, stream)?;
        let (to, from) = (target.address(), source.address());
        let caller = Caller::start(move || {
            let copy = DEEP.copy(to, from, MemcpyKind::D2D);
            context.ok(context.x.memcpy_3d_sync(0, &copy), "memcpy_3d_sync")
        })?;
        caller.expect_waiting(&format!("memcpy_3d_sync 0 → 1 behind work on device {held}"))?;
        gate.open();
        caller.join()?;
        target.expect(&right, "memcpy_3d_sync from device 0 to 1")?;
        context.destroy(stream)?;
    }
    Ok(())
}
