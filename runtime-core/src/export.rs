//! Trait → table: the doors through which C reaches a backend.
//!
//! Rules: integers become enums here, NULL is checked before anything is formed from it, outputs are
//! written only on success, no panic gets out (contract E1), and a failure is in the calling
//! thread's slot when the door returns. A plugin's table and the table that a client is handed are
//! made by this same code; each lands in the slot of the library it was compiled into.

use crate::abi::{ABI_MAJOR, ABI_MINOR, LlaisysBackendAPI};
use crate::api::{
    CopyFlags, HostFunction, LlaisysDeviceProperties, LlaisysMemoryInfo, MemcpyKind, Ordinal,
    RuntimeApi, Stream,
};
use crate::error::{Error, Result};
use crate::last_error::{self, FailedCall};
use crate::status::Status;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The table of a backend, callable from C for the rest of the process.
pub const fn export<B: RuntimeApi>(backend: &'static B) -> LlaisysBackendAPI {
    LlaisysBackendAPI {
        struct_size: size_of::<LlaisysBackendAPI>() as u32,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        reserved: 0,
        self_: backend as *const B as *mut c_void,
        get_last_error,
        get_device_count: get_device_count::<B>,
        set_device: set_device::<B>,
        device_synchronize: device_synchronize::<B>,
        create_stream: create_stream::<B>,
        destroy_stream: destroy_stream::<B>,
        stream_synchronize: stream_synchronize::<B>,
        malloc_device: malloc_device::<B>,
        free_device: free_device::<B>,
        malloc_host: malloc_host::<B>,
        free_host: free_host::<B>,
        memcpy_sync: memcpy_sync::<B>,
        memcpy_async: memcpy_async::<B>,
        get_device_properties: get_device_properties::<B>,
        get_memory_info: get_memory_info::<B>,
        stream_query: stream_query::<B>,
        launch_host_function: launch_host_function::<B>,
        is_device_memory: is_device_memory::<B>,
        initialize: initialize::<B>,
        get_capabilities: get_capabilities::<B>,
    }
}

/// Runs the body of an operation so that no panic gets out, and leaves a failure in the slot.
///
/// Every function that C can call has this as its only statement, here and in `capi`.
#[inline]
pub fn guard<T>(
    operation: &'static str,
    body: impl FnOnce() -> Result<T>,
) -> std::result::Result<T, Status> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(last_error::record(operation, &error)),
        Err(payload) => Err(last_error::record(operation, &Error::from_panic(payload))),
    }
}

/// `guard` for an operation whose result goes to C as a status alone.
#[inline]
pub fn door(operation: &'static str, body: impl FnOnce() -> Result<()>) -> i32 {
    match guard(operation, body) {
        Ok(()) => 0,
        Err(status) => status.code(),
    }
}

/// The backend behind a table's `self`.
///
/// # Safety
/// - `this` is NULL or the `self_` of a table that `export::<B>` made.
#[inline]
unsafe fn backend<'a, B: RuntimeApi>(this: *mut c_void) -> Result<&'a B> {
    // SAFETY: by the contract above it is NULL or a `&'static B`.
    unsafe { this.cast::<B>().as_ref() }.ok_or_else(|| null_argument("self"))
}

/// Checks an out-parameter before the operation is done, so that a failed call changes nothing.
#[inline]
fn output<T>(pointer: *mut T, name: &str) -> Result<*mut T> {
    if pointer.is_null() { Err(null_argument(name)) } else { Ok(pointer) }
}

#[cold]
fn null_argument(name: &str) -> Error {
    Error::new(Status::InvalidValue, format!("`{name}` is NULL"))
}

fn bytes(size: u64) -> Result<usize> {
    usize::try_from(size)
        .map_err(|_| Error::new(Status::InvalidValue, format!("{size} bytes is more than memory")))
}

#[inline]
fn known(flags: CopyFlags) -> Result<CopyFlags> {
    let unknown = flags.without(CopyFlags::KNOWN);
    if unknown == CopyFlags::NONE {
        Ok(flags)
    } else {
        Err(Error::new(
            Status::InvalidValue,
            format!("copy flags {:#x} have no meaning", unknown.0),
        ))
    }
}

/// An output struct whose first field is its size as the caller knows it.
trait Sized32: Copy {
    /// What the struct is called in messages.
    const NAME: &'static str;
}
impl Sized32 for LlaisysDeviceProperties {
    const NAME: &'static str = "LlaisysDeviceProperties";
}
impl Sized32 for LlaisysMemoryInfo {
    const NAME: &'static str = "LlaisysMemoryInfo";
}

/// How much of the caller's struct may be written.
///
/// # Safety
/// - `to` is NULL or points to at least four readable bytes.
unsafe fn writable_size<T: Sized32>(to: *mut T) -> Result<usize> {
    let to = output(to, T::NAME)?;
    // SAFETY: not NULL, and the caller's struct begins with its size.
    let size = unsafe { to.cast::<u32>().read_unaligned() } as usize;
    if size < size_of::<u32>() {
        let message = format!("{}.struct_size is {size}; set it before the call", T::NAME);
        return Err(Error::new(Status::InvalidValue, message));
    }
    Ok(size.min(size_of::<T>()))
}

/// Writes `value` without its size field, as far as the caller's struct goes.
///
/// # Safety
/// - `size` came from `writable_size(to)`.
unsafe fn write_struct<T: Sized32>(to: *mut T, size: usize, value: &T) {
    let skip = size_of::<u32>();
    let from: *const T = value;
    // SAFETY: both structs have at least `size` bytes, and `size >= skip`.
    unsafe {
        from.cast::<u8>().add(skip).copy_to_nonoverlapping(to.cast::<u8>().add(skip), size - skip);
    }
}

/// Copies a text into C's buffer, cut to its capacity.
///
/// # Safety
/// - `to` is NULL or has `capacity` writable bytes.
pub unsafe fn copy_text(text: &CStr, to: *mut c_char, capacity: u64) {
    if to.is_null() || capacity == 0 {
        return;
    }
    let length = text.count_bytes().min(usize::try_from(capacity - 1).unwrap_or(usize::MAX));
    // SAFETY: `length + 1 <= capacity` bytes are writable by the contract above.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(to, length);
        to.add(length).write(0);
    }
}

unsafe extern "C" fn get_last_error(
    _self: *mut c_void,
    native_code: *mut i64,
    native_name: *mut c_char,
    native_name_capacity: u64,
    message: *mut c_char,
    message_capacity: u64,
) -> i32 {
    let Some(call) = last_error::take() else {
        // SAFETY: the caller's buffers have the capacities it gave.
        unsafe {
            if !native_code.is_null() {
                native_code.write(0);
            }
            copy_text(c"", native_name, native_name_capacity);
            copy_text(c"", message, message_capacity);
        }
        return Status::Success.code();
    };
    // SAFETY: this thread makes no failing call until the end of this function.
    let call: &FailedCall = unsafe { &*call };
    // SAFETY: the caller's buffers have the capacities it gave.
    unsafe {
        if !native_code.is_null() {
            native_code.write(call.native_code);
        }
        copy_text(&call.native_name, native_name, native_name_capacity);
        copy_text(&call.message, message, message_capacity);
    }
    call.status.code()
}

unsafe extern "C" fn get_device_count<B: RuntimeApi>(this: *mut c_void, count: *mut i32) -> i32 {
    door("get_device_count", || {
        let count = output(count, "count")?;
        // SAFETY: `this` belongs to this table; `count` is the caller's and not NULL.
        unsafe { count.write(backend::<B>(this)?.get_device_count()?) };
        Ok(())
    })
}

unsafe extern "C" fn set_device<B: RuntimeApi>(this: *mut c_void, device: Ordinal) -> i32 {
    // SAFETY: `this` belongs to this table.
    door("set_device", || unsafe { backend::<B>(this) }?.set_device(device))
}

unsafe extern "C" fn device_synchronize<B: RuntimeApi>(this: *mut c_void, device: Ordinal) -> i32 {
    // SAFETY: `this` belongs to this table.
    door("device_synchronize", || unsafe { backend::<B>(this) }?.device_synchronize(device))
}

unsafe extern "C" fn create_stream<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: *mut Stream,
) -> i32 {
    door("create_stream", || {
        let stream = output(stream, "stream")?;
        // SAFETY: `this` belongs to this table; `stream` is the caller's and not NULL.
        unsafe { stream.write(backend::<B>(this)?.create_stream(device)?) };
        Ok(())
    })
}

unsafe extern "C" fn destroy_stream<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `destroy_stream`'s contract.
    door("destroy_stream", || unsafe { backend::<B>(this)?.destroy_stream(device, stream) })
}

unsafe extern "C" fn stream_synchronize<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `stream_synchronize`'s contract.
    door("stream_synchronize", || unsafe { backend::<B>(this)?.stream_synchronize(device, stream) })
}

unsafe extern "C" fn malloc_device<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    door("malloc_device", || {
        let pointer = output(pointer, "pointer")?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL.
        unsafe { pointer.write(backend::<B>(this)?.malloc_device(device, bytes(size)?)?) };
        Ok(())
    })
}

unsafe extern "C" fn free_device<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `free_device`'s contract.
    door("free_device", || unsafe { backend::<B>(this)?.free_device(device, pointer) })
}

unsafe extern "C" fn malloc_host<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    door("malloc_host", || {
        let pointer = output(pointer, "pointer")?;
        // SAFETY: `this` belongs to this table; `pointer` is the caller's and not NULL.
        unsafe { pointer.write(backend::<B>(this)?.malloc_host(device, bytes(size)?)?) };
        Ok(())
    })
}

unsafe extern "C" fn free_host<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    pointer: *mut c_void,
) -> i32 {
    // SAFETY: `this` belongs to this table; the caller keeps `free_host`'s contract.
    door("free_host", || unsafe { backend::<B>(this)?.free_host(device, pointer) })
}

unsafe extern "C" fn memcpy_sync<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    src: *const c_void,
    size: u64,
    kind: u32,
    flags: CopyFlags,
) -> i32 {
    door("memcpy_sync", || {
        let (kind, size, flags) = (MemcpyKind::from_code(kind)?, bytes(size)?, known(flags)?);
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_sync`'s contract.
        unsafe { backend::<B>(this)?.memcpy_sync(device, dst, src, size, kind, flags) }
    })
}

unsafe extern "C" fn memcpy_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    src: *const c_void,
    size: u64,
    kind: u32,
    stream: Stream,
    flags: CopyFlags,
) -> i32 {
    door("memcpy_async", || {
        let (kind, size, flags) = (MemcpyKind::from_code(kind)?, bytes(size)?, known(flags)?);
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_async`'s contract.
        unsafe { backend::<B>(this)?.memcpy_async(device, dst, src, size, kind, stream, flags) }
    })
}

unsafe extern "C" fn get_device_properties<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    properties: *mut LlaisysDeviceProperties,
) -> i32 {
    door("get_device_properties", || {
        // SAFETY: `this` belongs to this table; `properties` is the caller's struct, whose first
        // field is its size.
        unsafe {
            let size = writable_size(properties)?;
            let value = backend::<B>(this)?.get_device_properties(device)?;
            write_struct(properties, size, &value);
        }
        Ok(())
    })
}

unsafe extern "C" fn get_memory_info<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    info: *mut LlaisysMemoryInfo,
) -> i32 {
    door("get_memory_info", || {
        // SAFETY: `this` belongs to this table; `info` is the caller's struct, whose first field is
        // its size.
        unsafe {
            let size = writable_size(info)?;
            let value = backend::<B>(this)?.get_memory_info(device)?;
            write_struct(info, size, &value);
        }
        Ok(())
    })
}

unsafe extern "C" fn stream_query<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    ready: *mut i32,
) -> i32 {
    door("stream_query", || {
        let ready = output(ready, "ready")?;
        // SAFETY: `this` belongs to this table; `ready` is the caller's and not NULL; the caller
        // keeps `stream_query`'s contract.
        unsafe { ready.write(i32::from(backend::<B>(this)?.stream_query(device, stream)?)) };
        Ok(())
    })
}

unsafe extern "C" fn launch_host_function<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> i32 {
    door("launch_host_function", || {
        let function = function.ok_or_else(|| null_argument("function"))?;
        // SAFETY: `this` belongs to this table; the caller keeps `launch_host_function`'s contract.
        unsafe { backend::<B>(this)?.launch_host_function(device, stream, function, data) }
    })
}

unsafe extern "C" fn is_device_memory<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    address: *const c_void,
    answer: *mut i32,
) -> i32 {
    door("is_device_memory", || {
        let answer = output(answer, "answer")?;
        // SAFETY: `this` belongs to this table; `answer` is the caller's and not NULL.
        unsafe {
            answer.write(i32::from(backend::<B>(this)?.is_device_memory(device, address as usize)?))
        };
        Ok(())
    })
}

unsafe extern "C" fn initialize<B: RuntimeApi>(this: *mut c_void, count: *mut i32) -> i32 {
    door("initialize", || {
        let count = output(count, "count")?;
        // SAFETY: `this` belongs to this table; `count` is the caller's and not NULL.
        unsafe { count.write(backend::<B>(this)?.initialize()?) };
        Ok(())
    })
}

unsafe extern "C" fn get_capabilities<B: RuntimeApi>(
    this: *mut c_void,
    capabilities: *mut u64,
) -> i32 {
    door("get_capabilities", || {
        let capabilities = output(capabilities, "capabilities")?;
        // SAFETY: `this` belongs to this table; `capabilities` is the caller's and not NULL.
        unsafe { capabilities.write(backend::<B>(this)?.capabilities().0) };
        Ok(())
    })
}

/// Defines `llaisysBackendQuery`, the one symbol that a plugin exports.
///
/// ```text
/// llaisys_runtime_core::export_backend! {
///     backend: Nvidia = Nvidia::new(),      // a constant expression without side effects
///     device_type: 1,                       // or -1 to be given a number
///     name: c"nvidia",
///     vendor: c"NVIDIA",
///     capabilities: Nvidia::CAPABILITIES,
/// }
/// ```
#[macro_export]
macro_rules! export_backend {
    (
        backend: $type:ty = $value:expr,
        device_type: $device_type:expr,
        name: $name:expr,
        vendor: $vendor:expr,
        capabilities: $capabilities:expr $(,)?
    ) => {
        static LLAISYS_BACKEND: $type = $value;
        static LLAISYS_BACKEND_API: $crate::abi::LlaisysBackendAPI =
            $crate::export::export::<$type>(&LLAISYS_BACKEND);
        static LLAISYS_BACKEND_DESCRIPTOR: $crate::abi::LlaisysBackendDescriptor =
            $crate::export::descriptor(
                $device_type,
                $name,
                $vendor,
                $crate::c_version!(),
                $capabilities,
                &LLAISYS_BACKEND_API,
            );

        /// The plugin's descriptor; a pure query (contract P3).
        ///
        /// # Safety
        /// None: the arguments are plain numbers.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn llaisysBackendQuery(
            host_abi_major: u32,
            _host_abi_minor: u32,
        ) -> *const $crate::abi::LlaisysBackendDescriptor {
            if host_abi_major == $crate::abi::ABI_MAJOR {
                &LLAISYS_BACKEND_DESCRIPTOR
            } else {
                ::std::ptr::null()
            }
        }
    };
}

/// The version of the crate that uses the macro, for C.
#[macro_export]
macro_rules! c_version {
    () => {
        match ::std::ffi::CStr::from_bytes_with_nul(
            concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes(),
        ) {
            Ok(version) => version,
            Err(_) => panic!("a crate version has no NUL inside"),
        }
    };
}

/// A descriptor with this library's ABI version and target; used by [`export_backend!`].
pub const fn descriptor(
    device_type: i32,
    name: &'static CStr,
    vendor: &'static CStr,
    version: &'static CStr,
    capabilities: crate::api::Capabilities,
    api: &'static LlaisysBackendAPI,
) -> crate::abi::LlaisysBackendDescriptor {
    crate::abi::LlaisysBackendDescriptor {
        magic: crate::abi::DESCRIPTOR_MAGIC,
        struct_size: size_of::<crate::abi::LlaisysBackendDescriptor>() as u32,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        oldest_host_minor: 0,
        device_type,
        sanitizer: 0,
        capabilities: capabilities.0,
        name: name.as_ptr(),
        vendor: vendor.as_ptr(),
        version: version.as_ptr(),
        target: TARGET.as_ptr(),
        api,
    }
}

/// The target this library was built for, as far as Rust tells it.
pub const TARGET: &CStr = if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
    c"x86_64-unknown-linux-gnu"
} else if cfg!(all(target_arch = "aarch64", target_os = "linux")) {
    c"aarch64-unknown-linux-gnu"
} else {
    c"unknown"
};
