//! Looking functions up.
//!
//! The rule: a function is asked for by its plain name, and what is given is the newest of that name that
//! is not newer than the version that is asked for.

use super::doors;
use super::{
    batch::*, context::*, copy::*, device::*, event::*, fill::*, managed::*, memory::*, pitched::*,
    pool::*, stream::*, versions::*,
};
use crate::entry::{out, put_if_asked, text};
use crate::errors::NOT_FOUND;
use crate::faults::base;
use crate::settings::driver_version;

doors! {
    ready cuGetProcAddress(name: *const libc::c_char, function: *mut usize, version: i32, _flags: u64) |driver| {
        let function = out(function)?;
        match look_up(&driver.settings.missing, text(name)?, version) {
            Found::Here(address) => function.set(address),
            _ => Err(NOT_FOUND),
        }
    };
    ready cuGetProcAddress_v2(
        name: *const libc::c_char, function: *mut usize, version: i32, _flags: u64, status: *mut i32,
    ) |driver| {
        let function = out(function)?;
        let (address, code) = match look_up(&driver.settings.missing, text(name)?, version) {
            Found::Here(address) => (address, 0),
            Found::Nowhere => (0, 1),
            Found::Newer => (0, 2),
        };
        put_if_asked(status, code);
        function.set(address)
    };
}

enum Found {
    Here(usize),
    Nowhere,
    Newer,
}

fn look_up(missing: &[String], name: &str, version: i32) -> Found {
    if missing.iter().any(|missing| missing == name || base(missing) == name) {
        return Found::Nowhere;
    }
    let driver = driver_version();
    let ours = |full: &str, since: i32| base(full) == name && since <= driver;
    let mut known =
        functions().into_iter().filter(|(full, since, _)| ours(full, *since)).peekable();
    if known.peek().is_none() {
        return Found::Nowhere;
    }
    let newest = known.filter(|(_, since, _)| *since <= version).max_by_key(|(_, since, _)| *since);
    newest.map_or(Found::Newer, |(_, _, address)| Found::Here(address))
}

macro_rules! table {
    ($($name:ident $since:literal)*) => {
        [$((stringify!($name), $since, $name as *const () as usize)),*]
    };
}

/// Every function, with the version of CUDA that brought it.
fn functions() -> Vec<(&'static str, i32, usize)> {
    let table = table! {
        cuCtxCreate 2000 cuCtxCreate_v2 3020 cuCtxCreate_v3 11040 cuCtxCreate_v4 12050
        cuCtxDestroy 2000 cuCtxDestroy_v2 4000 cuCtxDisablePeerAccess 2000
        cuCtxEnablePeerAccess 2000 cuCtxGetApiVersion 2000 cuCtxGetCurrent 2000 cuCtxGetDevice 2000
        cuCtxGetFlags 2000 cuCtxGetId 12000 cuCtxGetStreamPriorityRange 2000 cuCtxPopCurrent 2000
        cuCtxPopCurrent_v2 4000 cuCtxPushCurrent 2000 cuCtxPushCurrent_v2 4000 cuCtxSetCurrent 2000
        cuCtxSynchronize 2000 cuDeviceCanAccessPeer 2000 cuDeviceComputeCapability 2000
        cuDeviceGet 2000 cuDeviceGetAttribute 2000 cuDeviceGetByPCIBusId 2000 cuDeviceGetCount 2000
        cuDeviceGetDefaultMemPool 11020 cuDeviceGetExecAffinitySupport 11040
        cuDeviceGetMemPool 11020 cuDeviceGetName 2000 cuDeviceGetP2PAttribute 2000
        cuDeviceGetPCIBusId 2000 cuDeviceGetUuid 9020 cuDeviceGetUuid_v2 11040
        cuDevicePrimaryCtxGetState 7000 cuDevicePrimaryCtxRelease 7000
        cuDevicePrimaryCtxRelease_v2 11000 cuDevicePrimaryCtxReset 7000
        cuDevicePrimaryCtxReset_v2 11000 cuDevicePrimaryCtxRetain 7000
        cuDevicePrimaryCtxSetFlags 7000 cuDevicePrimaryCtxSetFlags_v2 11000 cuDeviceSetMemPool 11020
        cuDeviceTotalMem 2000 cuDeviceTotalMem_v2 3020 cuDriverGetVersion 2000 cuEventCreate 2000
        cuEventDestroy 2000 cuEventDestroy_v2 4000 cuEventElapsedTime 2000
        cuEventElapsedTime_v2 12080 cuEventQuery 2000 cuEventRecord 2000
        cuEventRecordWithFlags 11010 cuEventSynchronize 2000 cuGetErrorName 2000
        cuGetErrorString 2000 cuGetProcAddress 11030 cuGetProcAddress_v2 12000 cuInit 2000
        cuLaunchHostFunc 10000 cuMemAdvise 8000 cuMemAdvise_v2 12020 cuMemAlloc 2000 cuMemAlloc_v2 3020 cuMemAllocAsync 11020
        cuMemAllocFromPoolAsync 11020 cuMemAllocHost 2000 cuMemAllocHost_v2 3020
        cuMemAllocManaged 6000 cuMemAllocPitch 2000 cuMemAllocPitch_v2 3020 cuMemFree 2000 cuMemFree_v2 3020
        cuMemFreeAsync 11020 cuMemFreeHost 2000 cuMemGetAddressRange 2000
        cuMemGetAddressRange_v2 3020 cuMemGetInfo 2000 cuMemGetInfo_v2 3020 cuMemHostAlloc 2000
        cuMemHostGetDevicePointer 2000 cuMemHostGetDevicePointer_v2 3020 cuMemHostGetFlags 2000
        cuMemHostRegister 2000 cuMemHostRegister_v2 6050 cuMemHostUnregister 2000
        cuMemPoolCreate 11020 cuMemPoolDestroy 11020 cuMemPoolGetAccess 11020
        cuMemPoolGetAttribute 11020 cuMemPoolSetAccess 11020 cuMemPoolSetAttribute 11020
        cuMemPoolTrimTo 11020 cuMemPrefetchAsync 8000 cuMemPrefetchAsync_v2 12020
        cuMemRangeGetAttribute 8000 cuMemRangeGetAttributes 8000 cuMemcpy 2000 cuMemcpy2D 2000 cuMemcpy2D_v2 3020 cuMemcpy2DAsync 2000
        cuMemcpy2DAsync_v2 3020 cuMemcpy2DUnaligned 2000 cuMemcpy2DUnaligned_v2 3020
        cuMemcpy3D 2000 cuMemcpy3D_v2 3020 cuMemcpy3DAsync 2000 cuMemcpy3DAsync_v2 3020
        cuMemcpy3DPeer 4000 cuMemcpy3DPeerAsync 4000 cuMemcpyAsync 2000
        cuMemcpyBatchAsync 12080 cuMemcpyBatchAsync_v2 13000 cuMemcpyDtoD 2000 cuMemcpyDtoD_v2 3020 cuMemcpyDtoDAsync 2000
        cuMemcpyDtoDAsync_v2 3020 cuMemcpyDtoH 2000 cuMemcpyDtoH_v2 3020 cuMemcpyDtoHAsync 2000
        cuMemcpyDtoHAsync_v2 3020 cuMemcpyHtoD 2000 cuMemcpyHtoD_v2 3020 cuMemcpyHtoDAsync 2000
        cuMemcpyHtoDAsync_v2 3020 cuMemcpyPeer 2000 cuMemcpyPeerAsync 2000 cuMemsetD16 2000
        cuMemsetD16_v2 3020 cuMemsetD16Async 2000 cuMemsetD2D16 2000 cuMemsetD2D16_v2 3020
        cuMemsetD2D16Async 2000 cuMemsetD2D32 2000 cuMemsetD2D32_v2 3020 cuMemsetD2D32Async 2000
        cuMemsetD2D8 2000 cuMemsetD2D8_v2 3020 cuMemsetD2D8Async 2000 cuMemsetD32 2000
        cuMemsetD32_v2 3020 cuMemsetD32Async 2000 cuMemsetD8 2000 cuMemsetD8_v2 3020
        cuMemsetD8Async 2000 cuPointerGetAttribute 2000 cuPointerGetAttributes 2000
        cuPointerSetAttribute 2000 cuProfilerStart 2000 cuProfilerStop 2000 cuStreamAddCallback 2000
        cuStreamAttachMemAsync 6000
        cuStreamBeginCapture_v2 10010 cuStreamEndCapture 10000 cuThreadExchangeStreamCaptureMode 10010
        cuStreamCreate 2000 cuStreamCreateWithPriority 2000 cuStreamDestroy 2000
        cuStreamDestroy_v2 4000 cuStreamGetCtx 9020 cuStreamGetDevice 12080 cuStreamGetFlags 2000
        cuStreamGetId 12000 cuStreamGetPriority 2000 cuStreamIsCapturing 10000 cuStreamQuery 2000
        cuStreamSynchronize 2000 cuStreamWaitEvent 2000
    };
    table.to_vec()
}
