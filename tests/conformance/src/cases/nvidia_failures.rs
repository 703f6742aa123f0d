//! Any call of the driver may fail, any new function may be missing (E1).

use super::nvidia_driver::launch;
use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::program::Bare;
use llaisys_runtime_core::api::MemcpyKind;

cases! { Area::NvidiaDriver;
    "E1" any_call_of_the_driver_may_fail [FakeDriver];
    "E1" any_new_function_of_the_driver_may_be_missing [FakeDriver];
}

programs![try_everything];

/// Everything once; what fails is looked at, and nothing else happens.
fn try_everything(bare: &Bare) -> Checked<i32> {
    let library = bare.library()?;
    let t = library.twelve(1).map_err(Stop::fail)?;
    let count = t.get_device_count();
    ensure!((0..=8).contains(&count), "the count is {count}");
    let bytes = [5u8; 5000];
    let mut back = [0u8; 5000];
    for device in 0..2 {
        t.set_device(device);
        let (stream, block, pinned) =
            (t.create_stream(), t.malloc_device(5000), t.malloc_host(5000));
        t.enqueue(block, Address::of(&bytes), 5000, MemcpyKind::H2D, stream);
        t.enqueue(pinned, block, 5000, MemcpyKind::D2H, stream);
        t.stream_synchronize(stream);
        t.copy(Address::of_mut(&mut back), block, 5000, MemcpyKind::D2H);
        t.copy(Address::of_mut(&mut back), Address::of(&bytes), 5000, MemcpyKind::H2H);
        t.device_synchronize();
        t.free_device(block);
        t.free_host(pinned);
        t.destroy_stream(stream);
    }
    let failure = library.take_failure().map_err(Stop::fail)?;
    if let Some(failure) = &failure {
        ensure!(!failure.message.is_empty(), "a failure without a message: {failure:?}");
        println!("failed");
    }
    let cpu = library.twelve(0).map_err(Stop::fail)?;
    cpu.free_device(cpu.malloc_device(64));
    let failure = library.take_failure().map_err(Stop::fail)?;
    ensure!(failure.is_none(), "the CPU beside a driver that fails: {failure:?}");
    Ok(0)
}

fn any_call_of_the_driver_may_fail(context: &'static Context) -> Checked {
    let names = [
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDeviceGetUuid",
        "cuDeviceTotalMem",
        "cuDeviceGetPCIBusId",
        "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxGetState",
        "cuCtxSetCurrent",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
        "cuCtxGetDevice",
        "cuCtxSynchronize",
        "cuStreamCreate",
        "cuStreamCreateWithPriority",
        "cuStreamDestroy",
        "cuStreamSynchronize",
        "cuStreamQuery",
        "cuStreamWaitEvent",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
        "cuEventSynchronize",
        "cuEventDestroy",
        "cuLaunchHostFunc",
        "cuMemAlloc",
        "cuMemFree",
        "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync",
        "cuMemFreeAsync",
        "cuMemPoolCreate",
        "cuMemPoolSetAttribute",
        "cuMemPoolSetAccess",
        "cuMemPoolTrimTo",
        "cuDeviceGetDefaultMemPool",
        "cuMemHostAlloc",
        "cuMemAllocHost",
        "cuMemFreeHost",
        "cuMemHostGetDevicePointer",
        "cuMemGetInfo",
        "cuMemcpyHtoD",
        "cuMemcpyDtoH",
        "cuMemcpyDtoD",
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuMemcpyDtoDAsync",
        "cuMemcpyAsync",
        "cuMemcpy",
        "cuMemcpyPeerAsync",
        "cuPointerGetAttribute",
        "cuPointerGetAttributes",
        "cuGetProcAddress",
        "cuGetErrorName",
        "cuGetErrorString",
    ];
    let mut failed = 0;
    for name in names {
        for code in ["999", "2", "400", "700"] {
            let launch = launch(context, "try_everything");
            let ended = launch.env("FAKE_CUDA_FAIL", format!("{name}={code}")).run()?;
            let at = |stop: Stop| stop.at(format!("with {name} answering {code}"));
            ended.expect_success().map_err(at)?;
            failed += usize::from(ended.stdout.contains("failed"));
        }
    }
    ensure!(failed > 20, "only {failed} of these failures were seen at all");
    Ok(())
}

fn any_new_function_of_the_driver_may_be_missing(context: &'static Context) -> Checked {
    let names = [
        "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync",
        "cuMemFreeAsync",
        "cuMemPoolCreate",
        "cuMemPoolSetAttribute",
        "cuMemPoolSetAccess",
        "cuMemPoolTrimTo",
        "cuMemPoolDestroy",
        "cuDeviceGetDefaultMemPool",
        "cuDeviceGetMemPool",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "cuMemcpyBatchAsync",
        "cuStreamGetId",
        "cuCtxGetId",
        "cuDeviceGetUuid_v2",
    ];
    for name in names {
        let launch = launch(context, "try_everything").env("FAKE_CUDA_MISSING", name);
        let ended = launch.run()?;
        ended.expect_success().map_err(|stop| stop.at(format!("without {name}")))?;
        ensure!(!ended.stdout.contains("failed"), "without {name} something failed");
    }
    let all = launch(context, "try_everything").env("FAKE_CUDA_MISSING", names.join(","));
    let ended = all.run()?;
    ended.expect_success()?;
    ensure!(!ended.stdout.contains("failed"), "without all of them something failed");
    Ok(())
}
