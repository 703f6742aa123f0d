//! What a plugin in Rust needs beside its table: the descriptor and the one exported symbol.

use crate::abi::{ABI_MAJOR, ABI_MINOR, LlaisysBackendAPI};
use std::ffi::CStr;

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
