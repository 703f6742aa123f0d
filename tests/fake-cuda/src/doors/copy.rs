//! Copies.

use super::doors;
use crate::copies::{Ends, Request, Shape, at_once, on_stream};
use crate::driver::Driver;
use crate::entry::read;
use crate::errors::{Answer, INVALID_VALUE, NOT_SUPPORTED};
use crate::handles::Handle;

const fn line(to: usize, from: usize, bytes: usize, ends: Ends) -> Request {
    Request {
        to,
        from,
        shape: Shape { width: bytes, height: 1, to_pitch: bytes, from_pitch: bytes },
        ends,
    }
}

doors! {
    current cuMemcpy(to: usize, from: usize, bytes: usize) |here| at_once(here.driver, line(to, from, bytes, Ends::Any), &[]);
    ready cuMemcpyAsync(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, line(to, from, bytes, Ends::Any), stream)
    };
    current cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) |here| {
        at_once(here.driver, line(to, from, bytes, Ends::ToKnown), &[])
    };
    current cuMemcpyDtoH_v2(to: usize, from: usize, bytes: usize) |here| {
        at_once(here.driver, line(to, from, bytes, Ends::FromKnown), &[])
    };
    current cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) |here| {
        at_once(here.driver, line(to, from, bytes, Ends::Known), &[])
    };
    ready cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, line(to, from, bytes, Ends::ToKnown), stream)
    };
    ready cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, line(to, from, bytes, Ends::FromKnown), stream)
    };
    ready cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, line(to, from, bytes, Ends::Known), stream)
    };
    current cuMemcpyPeer(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize) |here| {
        let others = [here.context, to_context, from_context];
        at_once(here.driver, line(to, from, bytes, Ends::Peers), &others)
    };
    ready cuMemcpyPeerAsync(to: usize, _to_context: usize, from: usize, _from_context: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, line(to, from, bytes, Ends::Peers), stream)
    };
    current cuMemcpy2D_v2(plan: *const Plan) |here| two_dimensional(here.driver, read(plan)?, None);
    current cuMemcpy2DUnaligned_v2(plan: *const Plan) |here| two_dimensional(here.driver, read(plan)?, None);
    ready cuMemcpy2DAsync_v2(plan: *const Plan, stream: usize) |driver| two_dimensional(driver, read(plan)?, Some(stream));
}

/// One side of a two-dimensional copy.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side {
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
pub struct Plan {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
}

impl Side {
    /// The first byte, and whether the driver must know it.
    fn start(&self, pitch: usize) -> Answer<(usize, bool)> {
        let (base, known) = match self.kind {
            1 => (self.host, false),
            2 => (self.device, true),
            3 => return Err(NOT_SUPPORTED),
            4 => (self.device, false),
            _ => return Err(INVALID_VALUE),
        };
        let offset = self.y.checked_mul(pitch).and_then(|rows| rows.checked_add(self.x));
        Ok((offset.and_then(|offset| base.checked_add(offset)).ok_or(INVALID_VALUE)?, known))
    }
}

fn two_dimensional(driver: &'static Driver, plan: Plan, stream: Option<Handle>) -> Answer {
    let pitch = |side: &Side| if side.pitch == 0 { plan.width } else { side.pitch };
    let (to_pitch, from_pitch) = (pitch(&plan.to), pitch(&plan.from));
    if plan.width > to_pitch || plan.width > from_pitch {
        return Err(INVALID_VALUE);
    }
    let ((to, to_known), (from, from_known)) =
        (plan.to.start(to_pitch)?, plan.from.start(from_pitch)?);
    let ends = match (to_known, from_known) {
        (false, false) => Ends::Any,
        (true, false) => Ends::ToKnown,
        (false, true) => Ends::FromKnown,
        (true, true) => Ends::Known,
    };
    let shape = Shape { width: plan.width, height: plan.height, to_pitch, from_pitch };
    let request = Request { to, from, shape, ends };
    match stream {
        Some(stream) => on_stream(driver, request, stream),
        None => at_once(driver, request, &[]),
    }
}
