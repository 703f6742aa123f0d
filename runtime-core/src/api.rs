//! `RuntimeApi`: what a device backend can do. Read this first.
//!
//! The twelve required methods are LLAISYS's runtime table under LLAISYS's names; everything else
//! has a default that answers `NOT_SUPPORTED`, so an older backend still compiles and an older
//! plugin still loads. `abi` is this trait as a C struct; `export` and `import` turn one into the
//! other.
//!
//! # Who validates
//!
//! Clients reach a backend through [`Managed`](crate::managed::Managed), which checks: the device is
//! in `0..get_device_count()`; sizes are not zero; a stream is NULL or was made by `create_stream`
//! and not destroyed, and `device` is that stream's device; a pointer to free was allocated by the
//! same backend with the matching function; the kind is one of the four and fits what is known of
//! the pointers; the ranges of a copy lie inside the allocations they start in, do not wrap and do
//! not overlap. A backend may rely on all of that and must check only what it alone can know. It
//! must not rely on being called from one thread: every method may be called from any thread at any
//! time (contract L4).
//!
//! # Devices
//!
//! Every method that needs a device gets its ordinal. Which device is current on a thread is the
//! core's knowledge (`current`); a backend's `set_device` only binds the thread's *native* state,
//! because users' own kernels rely on it. Any other method leaves the thread's native state as it
//! found it.

use crate::error::{Error, Result};
use crate::status::Status;
use std::ffi::{c_char, c_void};

/// The ordinal of a device of one backend: `0..get_device_count()`.
pub type Ordinal = i32;

/// A stream as it crosses the C ABI: the backend's native handle, or NULL for the default stream of
/// the device that is named beside it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub *mut c_void);

impl Stream {
    /// The default stream, with CUDA's legacy meaning (contract S2).
    pub const DEFAULT: Stream = Stream(std::ptr::null_mut());

    /// Whether this is the default stream.
    pub fn is_default(self) -> bool {
        self.0.is_null()
    }
}

// SAFETY: a stream is a handle that is compared and passed on; this crate never reads through it,
// and contract D3 lets every thread use it.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// The direction of a copy. Numbers as in LLAISYS's `llaisysMemcpyKind_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemcpyKind {
    /// Host to host.
    H2H = 0,
    /// Host to device.
    H2D = 1,
    /// Device to host.
    D2H = 2,
    /// Device to device, also between two devices of one backend.
    D2D = 3,
}

impl MemcpyKind {
    /// The four kinds in numeric order.
    pub const ALL: [MemcpyKind; 4] =
        [MemcpyKind::H2H, MemcpyKind::H2D, MemcpyKind::D2H, MemcpyKind::D2D];

    /// The kind with this number.
    ///
    /// # Errors
    /// `INVALID_VALUE` for any other number.
    #[inline]
    pub fn from_code(code: u32) -> Result<MemcpyKind> {
        match code {
            0 => Ok(MemcpyKind::H2H),
            1 => Ok(MemcpyKind::H2D),
            2 => Ok(MemcpyKind::D2H),
            3 => Ok(MemcpyKind::D2D),
            _ => Err(Error::new(
                Status::InvalidValue,
                format!("kind {} is not one of 0..=3", code as i32),
            )),
        }
    }

    /// Whether the source is host memory.
    pub fn reads_host(self) -> bool {
        matches!(self, MemcpyKind::H2H | MemcpyKind::H2D)
    }

    /// Whether the destination is host memory.
    pub fn writes_host(self) -> bool {
        matches!(self, MemcpyKind::H2H | MemcpyKind::D2H)
    }
}

/// What a copy may rely on and must keep to, beside its arguments.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CopyFlags(pub u32);

impl CopyFlags {
    /// Nothing special.
    pub const NONE: CopyFlags = CopyFlags(0);
    /// Set by the core: the source is host memory that this runtime did not pin. An asynchronous
    /// copy must have read it when it returns (contract C3).
    pub const SOURCE_PAGEABLE: CopyFlags = CopyFlags(1);
    /// Set by the core: the destination is host memory that this runtime did not pin. An
    /// asynchronous copy must have written it when it returns (contract C3).
    pub const DESTINATION_PAGEABLE: CopyFlags = CopyFlags(2);
    /// Set by a client: the host buffer stays as it is until the stream has passed, so even a
    /// pageable one need not be waited for.
    pub const HOST_BUFFER_PROMISED: CopyFlags = CopyFlags(4);
    /// Set by the twelve-function table: where device memory is host memory and the stream has
    /// nothing pending, the copy is complete when the call returns (contract S8).
    pub const AT_ONCE_IF_IDLE: CopyFlags = CopyFlags(8);
    /// Every flag that has a meaning.
    pub const KNOWN: CopyFlags = CopyFlags(15);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: CopyFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    pub const fn with(self, other: CopyFlags) -> CopyFlags {
        CopyFlags(self.0 | other.0)
    }

    /// The bits of `self` that are not in `other`.
    pub const fn without(self, other: CopyFlags) -> CopyFlags {
        CopyFlags(self.0 & !other.0)
    }
}

/// What a backend is able to do, as bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Only the twelve.
    pub const NONE: Capabilities = Capabilities(0);
    /// Device memory is ordinary host memory: host code may read it, every copy direction is right.
    pub const DEVICE_MEMORY_IS_HOST_MEMORY: Capabilities = Capabilities(1);
    /// `get_device_properties` and `get_memory_info` are there.
    pub const DEVICE_INFORMATION: Capabilities = Capabilities(1 << 1);
    /// `stream_query` is there.
    pub const STREAM_QUERY: Capabilities = Capabilities(1 << 2);
    /// `launch_host_function` is there.
    pub const HOST_FUNCTIONS: Capabilities = Capabilities(1 << 3);

    /// `is_device_memory` is there.
    pub const POINTER_QUERY: Capabilities = Capabilities(1 << 4);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: Capabilities) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    pub const fn with(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }
}

/// A number of bytes that is not known.
pub const UNKNOWN_BYTES: u64 = u64::MAX;

/// What a device is. An output struct: the caller sets `struct_size`, and no more than that is
/// written. Texts end with a NUL; what is not known is 0 or empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LlaisysDeviceProperties {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// Streaming multiprocessors of a GPU, usable logical processors of a CPU.
    pub processor_count: u32,
    /// Memory of the device in bytes; on a CPU what the process may use (physical memory or the
    /// control group's limit, whichever is less).
    pub total_memory: u64,
    /// The driver's version as 1000 × major + 10 × minor; 0 without a driver.
    pub driver_version: i32,
    /// The compute capability of a CUDA device, major; 0 elsewhere.
    pub compute_capability_major: i32,
    /// The compute capability of a CUDA device, minor; 0 elsewhere.
    pub compute_capability_minor: i32,
    /// Zero.
    pub reserved: i32,
    /// The vendor's identifier of this very device; all zero where there is none.
    pub uuid: [u8; 16],
    /// The name, for people.
    pub name: [c_char; 128],
    /// The vendor's name.
    pub vendor: [c_char; 32],
    /// The PCI address as `dddd:bb:dd.f`.
    pub pci_address: [c_char; 32],
}

impl LlaisysDeviceProperties {
    /// Nothing known yet, with `struct_size` set.
    pub const fn new() -> LlaisysDeviceProperties {
        LlaisysDeviceProperties {
            struct_size: size_of::<LlaisysDeviceProperties>() as u32,
            processor_count: 0,
            total_memory: 0,
            driver_version: 0,
            compute_capability_major: 0,
            compute_capability_minor: 0,
            reserved: 0,
            uuid: [0; 16],
            name: [0; 128],
            vendor: [0; 32],
            pci_address: [0; 32],
        }
    }
}

impl Default for LlaisysDeviceProperties {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes `text` into a fixed field of a C struct, cut at a character boundary, NUL-terminated.
pub fn write_text(field: &mut [c_char], text: &str) {
    let mut length = text.len().min(field.len().saturating_sub(1));
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    field.fill(0);
    for (to, from) in field.iter_mut().zip(&text.as_bytes()[..length]) {
        *to = *from as c_char;
    }
}

/// Reads a fixed field of a C struct up to its NUL.
pub fn read_text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The memory of a device now. An output struct, as [`LlaisysDeviceProperties`] is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlaisysMemoryInfo {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes that can still be allocated; `UINT64_MAX` where that cannot be told without making a
    /// context on a device that nobody uses.
    pub free: u64,
    /// Bytes of the device.
    pub total: u64,
}

impl LlaisysMemoryInfo {
    /// With `struct_size` set.
    pub const fn new(free: u64, total: u64) -> LlaisysMemoryInfo {
        let struct_size = size_of::<LlaisysMemoryInfo>() as u32;
        LlaisysMemoryInfo { struct_size, reserved: 0, free, total }
    }
}

/// A function of the caller's that a stream runs in its order. It must not unwind.
pub type HostFunction = unsafe extern "C" fn(data: *mut c_void);

/// What a backend does. See the module text for who validates what.
///
/// The numbered promises (M4, C3, S2 …) are clauses of the contract, `docs/contract.md`.
pub trait RuntimeApi: Send + Sync {
    /// The number of devices; 0 devices is `Ok(0)`.
    ///
    /// Creates no context and touches no device (D1, D4).
    ///
    /// # Errors
    /// When the answer is 0 *for a reason that a user can mend* (no driver, too old, …): that reason.
    /// The doors answer 0 and keep the reason where it can be read.
    fn get_device_count(&self) -> Result<i32>;

    /// Binds the calling thread's native state to the device.
    fn set_device(&self, device: Ordinal) -> Result<()>;

    /// Waits until all work enqueued on the device before this call is done.
    fn device_synchronize(&self, device: Ordinal) -> Result<()>;

    /// Makes a blocking stream (S2): one that is ordered with the default stream. Never NULL.
    fn create_stream(&self, device: Ordinal) -> Result<Stream>;

    /// Destroys a stream. Returns at once; work already enqueued completes (S3).
    ///
    /// # Safety
    /// - `stream` was made by `create_stream` of this backend on `device` and is not destroyed.
    /// - No other call on it is in progress (`Managed` sees to it).
    unsafe fn destroy_stream(&self, device: Ordinal, stream: Stream) -> Result<()>;

    /// Waits until all work enqueued on the stream before this call is done.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()>;

    /// Allocates device memory, aligned to at least 256 bytes (M2). `size` is not 0.
    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void>;

    /// Frees device memory. Does not stall the device, and the memory is not handed out again before
    /// work enqueued earlier is done (M4).
    ///
    /// # Safety
    /// - `pointer` came from `malloc_device` of this backend on `device` and is not freed.
    unsafe fn free_device(&self, device: Ordinal, pointer: *mut c_void) -> Result<()>;

    /// Allocates pinned host memory, aligned to at least 64 bytes, usable with every device of the
    /// backend (M2, M6). `size` is not 0.
    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void>;

    /// Frees pinned host memory; it is not handed out again while a copy still uses it.
    ///
    /// # Safety
    /// - `pointer` came from `malloc_host` of this backend and is not freed.
    unsafe fn free_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()>;

    /// Copies and waits (C2): ordered after earlier work on blocking streams of the device; when it
    /// returns, the data is there for the host and for every stream, and the source may be reused.
    ///
    /// # Safety
    /// - `src` is readable and `dst` writable for `size` bytes, on the side that `kind` names.
    /// - The two ranges do not overlap.
    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()>;

    /// Enqueues a copy on a stream (C3, S1). `flags` say whether host memory is pageable.
    ///
    /// # Safety
    /// - As for `memcpy_sync`, and pinned memory stays valid until the stream has passed.
    /// - `stream` is NULL or a live stream of `device`.
    #[expect(clippy::too_many_arguments, reason = "LLAISYS's five, the device and the flags")]
    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()>;

    // What follows is optional.

    /// Which of the optional operations are there, and the nature of the memory.
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// What the device is. Creates no context (D4).
    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        let _ = device;
        Err(not_supported("get_device_properties"))
    }

    /// The device's memory now. Creates no context (D4): what would need one is `UNKNOWN_BYTES`.
    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        let _ = device;
        Err(not_supported("get_memory_info"))
    }

    /// Whether all work enqueued on the stream is done (S5). Never waits, never runs work itself.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        let _ = (device, stream);
        Err(not_supported("stream_query"))
    }

    /// Has the stream call `function(data)` once, in its order; what comes after on the stream waits
    /// for it (H1). The function must not call this runtime's blocking operations.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    /// - `function` may be called with `data` from another thread, at any later time, and does not
    ///   unwind.
    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        let _ = (device, stream, function, data);
        Err(not_supported("launch_host_function"))
    }

    /// Whether the address is device memory of this backend's kind, whoever allocated it (PyTorch,
    /// say). Asked for addresses that the core does not know itself, so that a host pointer in the
    /// place of a device pointer is an error (C1).
    fn is_device_memory(&self, device: Ordinal, address: usize) -> Result<bool> {
        let _ = (device, address);
        Err(not_supported("is_device_memory"))
    }

    /// Makes the driver ready in this process and answers the number of devices; the first call of an
    /// operation on a device goes through here. `get_device_count` must leave a process that it only
    /// asks able to fork a child that starts the driver itself (case 4), so a driver whose
    /// initialisation cannot be undone is initialised here and not there. Creates no context.
    ///
    /// # Errors
    /// As for `get_device_count`.
    fn initialize(&self) -> Result<i32> {
        self.get_device_count()
    }
}

/// The answer of an operation that a backend does not have.
#[cold]
pub fn not_supported(operation: &str) -> Error {
    Error::new(Status::NotSupported, format!("this backend has no {operation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let mut field = [0x55 as c_char; 6];
        write_text(&mut field, "abcdé");
        assert_eq!(read_text(&field), "abcd");
        write_text(&mut field, "né");
        assert_eq!(read_text(&field), "né");
    }
}
