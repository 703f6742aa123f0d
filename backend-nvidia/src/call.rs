//! `cu!`: how this crate calls an entry point of the driver.
//!
//! Rule: what the driver returns is a C `int`, whatever `cust_raw` calls it. `cust_raw` knows CUDA
//! 11.4 and declares `CUresult` as a Rust enum; a later driver returns numbers that this enum lacks
//! (46, 226, 721, 910 …), and reading one of those as the enum would be undefined. So every call
//! goes through the same door with the return type `i32`.

use cust::sys::CUresult;

/// An entry point as `cust_raw` declares it, seen with the return type that C gives it.
pub(crate) trait EntryPoint {
    /// The same signature, returning `i32`.
    type Raw;

    /// The same function under that signature.
    fn raw(self) -> Self::Raw;
}

macro_rules! entry_point {
    ($($argument:ident)*) => {
        impl<$($argument),*> EntryPoint for unsafe extern "C" fn($($argument),*) -> CUresult {
            type Raw = unsafe extern "C" fn($($argument),*) -> i32;

            #[inline(always)]
            fn raw(self) -> Self::Raw {
                // SAFETY: the two types differ in the return type alone, and that is a C int on
                // both sides: CUresult is `repr(i32)`, and the function behind the door is compiled
                // from C.
                unsafe { std::mem::transmute::<Self, Self::Raw>(self) }
            }
        }
    };
}

entry_point!();
entry_point!(A);
entry_point!(A B);
entry_point!(A B C);
entry_point!(A B C D);
entry_point!(A B C D E F);

/// Calls an entry point by its name through its door; the value is the driver's code, 0 for
/// success.
///
/// The call is unsafe as the entry point is: it stands inside the caller's own `unsafe` block.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let entry: $crate::call::cu!(@signature $($argument,)*) = cust::sys::$name;
        $crate::call::EntryPoint::raw(entry)($($argument),*)
    }};
    (@signature) => { unsafe extern "C" fn() -> _ };
    (@signature $a:expr,) => { unsafe extern "C" fn(_) -> _ };
    (@signature $a:expr, $b:expr,) => { unsafe extern "C" fn(_, _) -> _ };
    (@signature $a:expr, $b:expr, $c:expr,) => { unsafe extern "C" fn(_, _, _) -> _ };
    (@signature $a:expr, $b:expr, $c:expr, $d:expr,) => { unsafe extern "C" fn(_, _, _, _) -> _ };
    (@signature $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr,) => {
        unsafe extern "C" fn(_, _, _, _, _, _) -> _
    };
}

pub(crate) use cu;
