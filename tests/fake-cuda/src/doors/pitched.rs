//! Copies of rows and of slices.
//!
//! The rule: what CUDA documents of the plan is demanded. A pitch and a slice's height that are given hold
//! the offset and the extent; several slices need a height; levels and reserved fields are 0.

use super::doors;
use crate::copies::{Ends, Request, at_once, on_stream};
use crate::driver::Driver;
use crate::entry::read;
use crate::errors::{Answer, INVALID_CONTEXT, INVALID_VALUE, NOT_SUPPORTED};
use crate::handles::Handle;
use crate::shapes::{Shape, Stride};

/// The device's largest pitch.
const LARGEST_PITCH: usize = 2_147_483_647;

doors! {
    current cuMemcpy2D_v2(plan: *const Flat) |here| copy(here.driver, read(plan)?.into(), None, &[]);
    current cuMemcpy2DUnaligned_v2(plan: *const Flat) |here| copy(here.driver, read(plan)?.into(), None, &[]);
    ready cuMemcpy2DAsync_v2(plan: *const Flat, stream: usize) |driver| {
        copy(driver, read(plan)?.into(), Some(stream), &[])
    };
    current cuMemcpy3D_v2(plan: *const Solid) |here| copy(here.driver, alone(read(plan)?)?, None, &[]);
    ready cuMemcpy3DAsync_v2(plan: *const Solid, stream: usize) |driver| {
        copy(driver, alone(read(plan)?)?, Some(stream), &[])
    };
    current cuMemcpy3DPeer(plan: *const Solid) |here| {
        let plan = read(plan)?;
        copy(here.driver, plan, None, &[here.context, plan.to.context, plan.from.context])
    };
    ready cuMemcpy3DPeerAsync(plan: *const Solid, stream: usize) |driver| {
        let plan = read(plan)?;
        copy(driver, plan, Some(stream), &[plan.to.context, plan.from.context])
    };
}

/// One side of the driver's `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FlatSide {
    x: usize,
    y: usize,
    kind: i32,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

/// The driver's `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Flat {
    from: FlatSide,
    to: FlatSide,
    width: usize,
    height: usize,
}

/// One side of the driver's `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`; the former has no context.
#[repr(C)]
#[derive(Clone, Copy)]
struct SolidSide {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: i32,
    host: usize,
    device: usize,
    array: usize,
    context: usize,
    pitch: usize,
    height: usize,
}

/// The driver's `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Solid {
    from: SolidSide,
    to: SolidSide,
    width: usize,
    height: usize,
    depth: usize,
}

impl From<FlatSide> for SolidSide {
    fn from(side: FlatSide) -> SolidSide {
        let FlatSide { x, y, kind, host, device, array, pitch } = side;
        let (z, level, context, height) = (0, 0, 0, 0);
        SolidSide { x, y, z, level, kind, host, device, array, context, pitch, height }
    }
}

impl From<Flat> for Solid {
    fn from(plan: Flat) -> Solid {
        let (from, to) = (plan.from.into(), plan.to.into());
        Solid { from, to, width: plan.width, height: plan.height, depth: 1 }
    }
}

/// A plan within one context, whose reserved fields have to be 0.
fn alone(plan: Solid) -> Answer<Solid> {
    if plan.from.context != 0 || plan.to.context != 0 { Err(INVALID_VALUE) } else { Ok(plan) }
}

/// Where a side begins, whether the driver must know it, and how its rows lie.
struct End {
    at: usize,
    known: bool,
    stride: Stride,
}

impl SolidSide {
    fn end(&self, plan: &Solid) -> Answer<End> {
        let (base, known) = match self.kind {
            1 => (self.host, false),
            2 => (self.device, true),
            3 => return Err(NOT_SUPPORTED),
            4 => (self.device, false),
            _ => return Err(INVALID_VALUE),
        };
        let row = self.x.checked_add(plan.width).ok_or(INVALID_VALUE)?;
        let rows = self.y.checked_add(plan.height).ok_or(INVALID_VALUE)?;
        let slices = self.z.checked_add(plan.depth).ok_or(INVALID_VALUE)?;
        let pitch = if self.pitch == 0 { row } else { self.pitch };
        let height = if self.height == 0 && slices <= 1 { rows } else { self.height };
        if pitch < row || pitch > LARGEST_PITCH || height < rows || self.level != 0 {
            return Err(INVALID_VALUE);
        }
        let slice = pitch.checked_mul(height).ok_or(INVALID_VALUE)?;
        let at =
            self.z.checked_mul(slice).and_then(|at| at.checked_add(self.y.checked_mul(pitch)?));
        let at =
            at.and_then(|at| at.checked_add(self.x)?.checked_add(base)).ok_or(INVALID_VALUE)?;
        let empty = plan.width == 0 || plan.height == 0 || plan.depth == 0;
        if base == 0 && !empty {
            return Err(INVALID_VALUE);
        }
        Ok(End { at, known, stride: Stride { row: pitch, slice } })
    }
}

/// Copies; between these contexts, where some are named.
fn copy(
    driver: &'static Driver,
    plan: Solid,
    stream: Option<Handle>,
    contexts: &[Handle],
) -> Answer {
    let (to, from) = (plan.to.end(&plan)?, plan.from.end(&plan)?);
    let living = |context: &Handle| *context == 0 || driver.lock().contexts.contains_key(context);
    if !contexts.iter().all(living) {
        return Err(INVALID_CONTEXT);
    }
    let peers = !contexts.is_empty();
    let ends = Ends { to_known: to.known, from_known: from.known, peers };
    let Solid { width, height, depth, .. } = plan;
    let shape = Shape { width, height, depth, to: to.stride, from: from.stride };
    let request = Request { to: to.at, from: from.at, shape, ends };
    match stream {
        Some(stream) => on_stream(driver, request, stream),
        None => at_once(driver, request, contexts),
    }
}
