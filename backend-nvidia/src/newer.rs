//! Entry points that `cust_raw`, which knows CUDA 11.4, does not declare: asked for by name and version
//! from the driver itself, once.
//!
//! Rule: the version that is asked for is the one that brought the signature written here, because a
//! driver answers a name with the newest signature of that name which is not newer than the version.
//! Each is optional, and whoever uses one says what happens without it:
//!
//! | entry point | since | without it |
//! |---|---|---|
//! | `cuMemcpyBatchAsync` | 12.8 | one copy after the other (`batches`) |
//! | `cuMemPrefetchAsync`, `cuMemAdvise` with a location | 13.0 | the ones with a device (`managed_memory`) |

use crate::call::cu;
use crate::errors::SUCCESS;
use cust::sys::{CUdeviceptr, CUstream};
use std::ffi::{CStr, c_int, c_uint, c_void};

/// A place of memory: the driver's `CUmemLocation` of CUDA 13, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    kind: c_int,
    id: c_int,
}

impl Location {
    /// `CU_MEM_LOCATION_TYPE_INVALID`: none, as a hint.
    pub(crate) const NONE: Location = Location { kind: 0, id: 0 };
    /// `CU_MEM_LOCATION_TYPE_HOST`.
    pub(crate) const HOST: Location = Location { kind: 2, id: 0 };

    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    pub(crate) const fn device(handle: c_int) -> Location {
        Location { kind: 1, id: handle }
    }
}

/// How the copies of a batch are done: the driver's `CUmemcpyAttributes`.
#[repr(C)]
pub(crate) struct CopyAttributes {
    source_access_order: c_int,
    source_hint: Location,
    destination_hint: Location,
    flags: c_uint,
}

impl CopyAttributes {
    /// The sources are read when the stream gets there (`CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`).
    pub(crate) const IN_STREAM_ORDER: CopyAttributes = CopyAttributes {
        source_access_order: 1,
        source_hint: Location::NONE,
        destination_hint: Location::NONE,
        flags: 0,
    };
}

/// `cuMemcpyBatchAsync` of CUDA 12.8: destinations, sources, sizes and their number; attributes, the
/// first copy of each and their number; the index of a copy that was refused; the stream.
pub(crate) type BatchCopy = unsafe extern "C" fn(
    *mut CUdeviceptr,
    *mut CUdeviceptr,
    *mut usize,
    usize,
    *mut CopyAttributes,
    *mut usize,
    usize,
    *mut usize,
    CUstream,
) -> c_int;

/// `cuMemPrefetchAsync` of CUDA 13: address, size, place, no flags, stream.
pub(crate) type Prefetch =
    unsafe extern "C" fn(CUdeviceptr, usize, Location, c_uint, CUstream) -> c_int;

/// `cuMemAdvise` of CUDA 13: address, size, advice, place.
pub(crate) type Advise = unsafe extern "C" fn(CUdeviceptr, usize, c_uint, Location) -> c_int;

/// What the driver has of them.
pub(crate) struct Newer {
    pub(crate) batch_copy: Option<BatchCopy>,
    pub(crate) prefetch: Option<Prefetch>,
    pub(crate) advise: Option<Advise>,
}

impl Newer {
    /// Asks a driver of this version, whose doors are open.
    pub(crate) fn find(version: i32) -> Newer {
        let find = |name: &CStr, since: i32| (version >= since).then(|| address(name, since))?;
        // SAFETY: each address was asked for with the version that brought the signature of its type.
        unsafe {
            Newer {
                batch_copy: find(c"cuMemcpyBatchAsync", 12080)
                    .map(|found| std::mem::transmute::<*mut c_void, BatchCopy>(found)),
                prefetch: find(c"cuMemPrefetchAsync", 13000)
                    .map(|found| std::mem::transmute::<*mut c_void, Prefetch>(found)),
                advise: find(c"cuMemAdvise", 13000)
                    .map(|found| std::mem::transmute::<*mut c_void, Advise>(found)),
            }
        }
    }
}

/// The entry point of this name with the signature of this version.
fn address(name: &CStr, version: i32) -> Option<*mut c_void> {
    let mut found: *mut c_void = std::ptr::null_mut();
    // SAFETY: the name ends with a NUL, `found` is writable, and 0 asks for the legacy default stream.
    let code = unsafe { cu!(cuGetProcAddress(name.as_ptr(), &mut found, version, 0)) };
    (code == SUCCESS && !found.is_null()).then_some(found)
}
