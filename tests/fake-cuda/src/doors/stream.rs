//! Streams and host functions.

use super::{doors, same};
use crate::capture;
use crate::driver::Driver;
use crate::entry::out;
use crate::errors::{Answer, INVALID_VALUE};
use crate::events;
use crate::handles::Handle;
use crate::streams::{self, Stream};
use crate::work::{Callback, HostCall, Work};

type HostFunction = extern "C" fn(usize);
type StreamCallback = extern "C" fn(usize, i32, usize);

doors! {
    current cuStreamCreate(stream: *mut usize, flags: u32) |here| {
        out(stream)?.set(streams::create(here.driver, here.context, flags, 0)?)
    };
    current cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32) |here| {
        out(stream)?.set(streams::create(here.driver, here.context, flags, priority)?)
    };
    by_handle cuStreamDestroy_v2(stream: usize) |driver| streams::destroy(driver, stream);
    by_handle cuStreamSynchronize(stream: usize) |driver| streams::synchronize(driver, stream);
    by_handle cuStreamQuery(stream: usize) |driver| streams::query(driver, stream);
    by_handle cuStreamGetCtx(stream: usize, context: *mut usize) |driver| {
        out(context)?.set(of(driver, stream, |stream| stream.context)?)
    };
    by_handle cuStreamGetDevice(stream: usize, device: *mut i32) |driver| {
        let context = of(driver, stream, |stream| stream.context)?;
        out(device)?.set(driver.lock().device_of(context) as i32)
    };
    by_handle cuStreamGetPriority(stream: usize, priority: *mut i32) |driver| {
        out(priority)?.set(of(driver, stream, |stream| stream.priority)?)
    };
    by_handle cuStreamGetFlags(stream: usize, flags: *mut u32) |driver| {
        out(flags)?.set(of(driver, stream, |stream| u32::from(!stream.blocking))?)
    };
    by_handle cuStreamGetId(stream: usize, id: *mut u64) |driver| {
        let (_world, key) = streams::find(driver, stream)?;
        out(id)?.set(key)
    };
    by_handle cuStreamWaitEvent(stream: usize, event: usize, flags: u32) |driver| {
        if flags > 1 { Err(INVALID_VALUE) } else { events::hold(driver, stream, event) }
    };
    by_handle cuStreamIsCapturing(stream: usize, status: *mut i32) |driver| {
        let status = out(status)?;
        status.set(capture::status(driver, stream)?)
    };
    by_handle cuStreamBeginCapture_v2(stream: usize, mode: i32) |driver| capture::begin(driver, stream, mode);
    by_handle cuStreamEndCapture(stream: usize, graph: *mut usize) |driver| capture::end(driver, stream, out(graph)?);
    any cuThreadExchangeStreamCaptureMode(mode: *mut i32) |_none| capture::exchange_mode(mode);
    by_handle cuLaunchHostFunc(stream: usize, function: usize, argument: usize) |driver| {
        if function == 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes a function of this type, as the driver's interface demands; null was refused.
        let function = unsafe { std::mem::transmute::<usize, HostFunction>(function) };
        let (mut world, key) = streams::find(driver, stream)?;
        let call = Work::Call(HostCall { function, argument });
        streams::give(driver, &mut world, key, call, Vec::new()).map(drop)
    };
    by_handle cuStreamAddCallback(stream: usize, function: usize, argument: usize, flags: u32) |driver| {
        if function == 0 || flags != 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes a function of this type, as the driver's interface demands; null was refused.
        let function = unsafe { std::mem::transmute::<usize, StreamCallback>(function) };
        let (mut world, key) = streams::find(driver, stream)?;
        let call = Work::CallBack(Callback { function, stream, argument });
        streams::give(driver, &mut world, key, call, Vec::new()).map(drop)
    };
}

same! {
    cuStreamDestroy(stream: usize) = cuStreamDestroy_v2;
}

fn of<T>(driver: &'static Driver, handle: Handle, what: impl Fn(&Stream) -> T) -> Answer<T> {
    let (world, key) = streams::find(driver, handle)?;
    world.streams.get(&key).map(what).ok_or(INVALID_VALUE)
}

/// Streams that were made and not destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_live_streams() -> i64 {
    crate::driver::driver().map_or(0, |driver| driver.lock().stream_handles.len() as i64)
}
