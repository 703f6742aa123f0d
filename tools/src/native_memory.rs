//! The NVIDIA driver's own allocators.
//!
//! Rule: the device's primary context, which ours is too, is current on the calling thread.

use crate::native_driver::{check, loaded, symbol};
use llaisys_runtime::core::Result;
use std::ffi::{c_int, c_void};
use std::ptr;

type Answer = c_int;
type Address = u64;
type Native = *mut c_void;

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`: what a pool keeps when the device is waited for.
const RELEASE_THRESHOLD: c_int = 4;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
const RESERVED_NOW: c_int = 5;

/// The entry points. Each answers 0 when all is well.
pub struct NativeMemory {
    allocate: unsafe extern "C" fn(*mut Address, usize) -> Answer,
    free: unsafe extern "C" fn(Address) -> Answer,
    allocate_async: unsafe extern "C" fn(*mut Address, usize, Native) -> Answer,
    free_async: unsafe extern "C" fn(Address, Native) -> Answer,
    left: unsafe extern "C" fn(*mut usize, *mut usize) -> Answer,
    pool: Native,
    attribute: unsafe extern "C" fn(Native, c_int, *mut c_void) -> Answer,
    trim: unsafe extern "C" fn(Native, usize) -> Answer,
    settle: unsafe extern "C" fn() -> Answer,
    version: c_int,
}

impl NativeMemory {
    /// Finds the driver that is loaded, and has a device's default pool keep what it has, as every user
    /// of it does who wants it to be fast.
    ///
    /// # Errors
    /// When there is no driver, or it lacks an entry point.
    pub fn find(device: i32) -> Result<NativeMemory> {
        let library = loaded()?;
        // SAFETY: these are the driver's own names, and it has had these signatures since CUDA 11.2.
        let memory = unsafe {
            let version: unsafe extern "C" fn(*mut c_int) -> Answer =
                symbol(&library, "cuDriverGetVersion")?;
            let pool: unsafe extern "C" fn(*mut Native, c_int) -> Answer =
                symbol(&library, "cuDeviceGetDefaultMemPool")?;
            let set: unsafe extern "C" fn(Native, c_int, *mut c_void) -> Answer =
                symbol(&library, "cuMemPoolSetAttribute")?;
            let mut memory = NativeMemory {
                allocate: symbol(&library, "cuMemAlloc_v2")?,
                free: symbol(&library, "cuMemFree_v2")?,
                allocate_async: symbol(&library, "cuMemAllocAsync")?,
                free_async: symbol(&library, "cuMemFreeAsync")?,
                left: symbol(&library, "cuMemGetInfo_v2")?,
                pool: ptr::null_mut(),
                attribute: symbol(&library, "cuMemPoolGetAttribute")?,
                trim: symbol(&library, "cuMemPoolTrimTo")?,
                settle: symbol(&library, "cuCtxSynchronize")?,
                version: 0,
            };
            check("cuDriverGetVersion", version(&mut memory.version))?;
            check("cuDeviceGetDefaultMemPool", pool(&mut memory.pool, device))?;
            let mut all = u64::MAX;
            let all = (&raw mut all).cast();
            check("cuMemPoolSetAttribute", set(memory.pool, RELEASE_THRESHOLD, all))?;
            memory
        };
        // The plugin keeps the driver open for the life of the process; so does this.
        std::mem::forget(library);
        Ok(memory)
    }

    /// How a peer is called that is one of the entry points.
    pub fn peer(&self, entry: &str) -> String {
        format!("{entry}, CUDA driver {}.{}", self.version / 1000, self.version % 1000 / 10)
    }

    /// `cuMemAlloc`; NULL when there is nothing.
    pub fn allocate(&self, size: usize) -> *mut c_void {
        let mut address = 0;
        // SAFETY: any size may be given, and `address` is writable.
        unsafe { (self.allocate)(&mut address, size) };
        address as *mut c_void
    }

    /// `cuMemFree`.
    ///
    /// # Safety
    /// - The pointer is [`NativeMemory::allocate`]'s, or NULL, and is freed once.
    pub unsafe fn free(&self, pointer: *mut c_void) {
        if !pointer.is_null() {
            // SAFETY: by the contract above.
            unsafe { (self.free)(pointer as Address) };
        }
    }

    /// `cuMemAllocAsync`; NULL when there is nothing.
    ///
    /// # Safety
    /// - `stream` is a live `CUstream`, or NULL.
    pub unsafe fn allocate_async(&self, size: usize, stream: Native) -> *mut c_void {
        let mut address = 0;
        // SAFETY: by the contract above; `address` is writable.
        unsafe { (self.allocate_async)(&mut address, size, stream) };
        address as *mut c_void
    }

    /// `cuMemFreeAsync`.
    ///
    /// # Safety
    /// - The pointer is [`NativeMemory::allocate_async`]'s, or NULL, and is freed once.
    /// - `stream` is a live `CUstream`, or NULL.
    pub unsafe fn free_async(&self, pointer: *mut c_void, stream: Native) {
        if !pointer.is_null() {
            // SAFETY: by the contract above.
            unsafe { (self.free_async)(pointer as Address, stream) };
        }
    }

    /// The bytes of the device that are used, by whomever.
    ///
    /// # Errors
    /// The driver's code.
    pub fn used(&self) -> Result<u64> {
        let (mut left, mut all) = (0, 0);
        // SAFETY: both are writable.
        check("cuMemGetInfo", unsafe { (self.left)(&mut left, &mut all) })?;
        Ok((all - left) as u64)
    }

    /// The bytes that the pool holds.
    ///
    /// # Errors
    /// The driver's code.
    pub fn held_by_pool(&self) -> Result<u64> {
        let mut now = 0_u64;
        let to = (&raw mut now).cast();
        // SAFETY: this attribute is 64 bits.
        check("cuMemPoolGetAttribute", unsafe { (self.attribute)(self.pool, RESERVED_NOW, to) })?;
        Ok(now)
    }

    /// Waits for the device, and gives back what the pool keeps.
    ///
    /// # Errors
    /// The driver's code.
    pub fn trim(&self) -> Result<()> {
        // SAFETY: needs a current context only; the pool is the device's own.
        unsafe {
            check("cuCtxSynchronize", (self.settle)())?;
            check("cuMemPoolTrimTo", (self.trim)(self.pool, 0))
        }
    }
}
