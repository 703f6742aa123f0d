//! Contexts.

use super::{doors, same};
use crate::contexts;
use crate::entry::{out, put_if_asked};
use crate::errors::{INVALID_CONTEXT, INVALID_VALUE};
use crate::faults;
use crate::streams::{self, PRIORITIES};

const API_VERSION: u32 = 3020;

doors! {
    ready cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) |driver| {
        let (device, _) = driver.device(device)?;
        out(context)?.set(contexts::retain(driver, device)?)
    };
    ready cuDevicePrimaryCtxRelease_v2(device: i32) |driver| contexts::release(driver, driver.device(device)?.0);
    ready cuDevicePrimaryCtxReset_v2(device: i32) |driver| contexts::reset(driver, driver.device(device)?.0);
    ready cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) |driver| {
        contexts::set_flags(driver, driver.device(device)?.0, flags)
    };
    ready cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) |driver| {
        let (device, _) = driver.device(device)?;
        let (flags, active) = (out(flags)?, out(active)?);
        let world = driver.lock();
        let primary = &world.primaries[device];
        flags.set(primary.flags)?;
        active.set(i32::from(world.contexts.contains_key(&primary.handle)))
    };
    ready cuCtxGetCurrent(context: *mut usize) |_| out(context)?.set(contexts::current());
    ready cuCtxSetCurrent(context: usize) |driver| contexts::set_current(driver, context);
    ready cuCtxPushCurrent_v2(context: usize) |driver| contexts::push_current(driver, context);
    ready cuCtxPopCurrent_v2(context: *mut usize) |_| {
        put_if_asked(context, contexts::pop()?);
        Ok(())
    };
    ready cuCtxGetDevice(device: *mut i32) |driver| out(device)?.set(contexts::current_device(driver)?);
    current cuCtxSynchronize() |here| streams::synchronize_context(here.driver, here.context);
    current cuCtxGetFlags(flags: *mut u32) |here| {
        let flags_now = here.driver.lock().contexts.get(&here.context).map_or(0, |context| context.flags);
        out(flags)?.set(flags_now)
    };
    current cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) |_| {
        put_if_asked(least, PRIORITIES.0);
        put_if_asked(greatest, PRIORITIES.1);
        Ok(())
    };
    ready cuCtxGetApiVersion(context: usize, version: *mut u32) |driver| {
        let context = if context == 0 { contexts::current() } else { context };
        if !driver.lock().contexts.contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        out(version)?.set(API_VERSION)
    };
    ready cuCtxGetId(context: usize, id: *mut u64) |driver| {
        let context = if context == 0 { contexts::current() } else { context };
        let legacy = driver.lock().contexts.get(&context).map(|context| context.legacy);
        out(id)?.set(legacy.ok_or(INVALID_CONTEXT)?)
    };
    ready cuCtxCreate_v2(context: *mut usize, flags: u32, device: i32) |driver| {
        let (device, _) = driver.device(device)?;
        out(context)?.set(contexts::create(driver, device, flags)?)
    };
    ready cuCtxCreate_v3(context: *mut usize, affinity: usize, count: i32, flags: u32, device: i32) |driver| {
        let (device, _) = driver.device(device)?;
        if affinity != 0 || count != 0 {
            return Err(INVALID_VALUE);
        }
        out(context)?.set(contexts::create(driver, device, flags)?)
    };
    ready cuCtxCreate_v4(context: *mut usize, parameters: usize, flags: u32, device: i32) |driver| {
        let (device, _) = driver.device(device)?;
        if parameters != 0 {
            return Err(INVALID_VALUE);
        }
        out(context)?.set(contexts::create(driver, device, flags)?)
    };
    ready cuCtxDestroy_v2(context: usize) |driver| contexts::destroy(driver, context);
    current cuCtxEnablePeerAccess(peer: usize, flags: u32) |here| contexts::enable_peer(here, peer, flags);
    current cuCtxDisablePeerAccess(peer: usize) |here| contexts::disable_peer(here, peer);

    any fakecuda_lose_device(device: i32, code: i32) |()| {
        let driver = crate::driver::driver()?;
        let (device, _) = driver.device(device)?;
        let mut world = driver.lock();
        let primary = world.primaries[device].handle;
        world.break_context(primary, code);
        driver.progress.notify_all();
        Ok(())
    };
}

same! {
    cuDevicePrimaryCtxRelease(device: i32) = cuDevicePrimaryCtxRelease_v2;
    cuDevicePrimaryCtxReset(device: i32) = cuDevicePrimaryCtxReset_v2;
    cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) = cuDevicePrimaryCtxSetFlags_v2;
    cuCtxPushCurrent(context: usize) = cuCtxPushCurrent_v2;
    cuCtxPopCurrent(context: *mut usize) = cuCtxPopCurrent_v2;
    cuCtxDestroy(context: usize) = cuCtxDestroy_v2;
}

/// Primary contexts that were made since the library was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_contexts_created() -> i64 {
    faults::CONTEXTS_CREATED.load(std::sync::atomic::Ordering::Relaxed)
}

/// Contexts that live now, primary and made.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_live_contexts() -> i64 {
    crate::driver::driver().map_or(0, |driver| driver.lock().contexts.len() as i64)
}
