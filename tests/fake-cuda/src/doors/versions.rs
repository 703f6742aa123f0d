//! The first versions of functions whose addresses and sizes had 32 bits.
//!
//! A program that looks them up by their plain names gets these, here as on the real driver, where they
//! answer INVALID_CONTEXT in a context of today's kind. The rule: they do nothing else.

use crate::errors::INVALID_CONTEXT;

macro_rules! first_versions {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> i32 {
                crate::entry::current(stringify!($name), |_| Err(INVALID_CONTEXT))
            }
        )*
    };
}

first_versions! {
    cuCtxCreate cuMemAlloc cuMemAllocHost cuMemAllocPitch cuMemFree cuMemGetInfo cuMemGetAddressRange
    cuMemHostGetDevicePointer cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD cuMemcpyHtoDAsync cuMemcpyDtoHAsync
    cuMemcpyDtoDAsync cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DUnaligned cuMemcpy3D cuMemcpy3DAsync cuMemsetD8 cuMemsetD16 cuMemsetD32
    cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32
}
