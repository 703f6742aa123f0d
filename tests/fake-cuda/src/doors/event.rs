//! Events.

use super::{doors, same};
use crate::entry::out;
use crate::errors::{INVALID_HANDLE, INVALID_VALUE};
use crate::events;

doors! {
    current cuEventCreate(event: *mut usize, flags: u32) |here| {
        out(event)?.set(events::create(here.driver, here.context, flags)?)
    };
    by_handle cuEventRecord(event: usize, stream: usize) |driver| events::record(driver, event, stream);
    by_handle cuEventRecordWithFlags(event: usize, stream: usize, flags: u32) |driver| {
        if flags > 1 { Err(INVALID_VALUE) } else { events::record(driver, event, stream) }
    };
    by_handle cuEventQuery(event: usize) |driver| events::query(driver, event);
    by_handle cuEventSynchronize(event: usize) |driver| events::synchronize(driver, event);
    by_handle cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) |driver| {
        let place = out(milliseconds).map_err(|_| INVALID_HANDLE)?;
        place.set(events::elapsed(driver, start, end)?)
    };
    by_handle cuEventDestroy_v2(event: usize) |driver| events::destroy(driver, event);
}

same! {
    cuEventElapsedTime_v2(milliseconds: *mut f32, start: usize, end: usize) = cuEventElapsedTime;
    cuEventDestroy(event: usize) = cuEventDestroy_v2;
}

/// Events that were made and not destroyed.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_live_events() -> i64 {
    crate::driver::driver().map_or(0, |driver| driver.lock().events.len() as i64)
}
