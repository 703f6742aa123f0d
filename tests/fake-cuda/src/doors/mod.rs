//! Every exported function, by what it is about.
//!
//! A line is a function: the guard that it goes through (see `entry.rs`), its name and parameters as the
//! driver has them, and what it does. Handles are plain addresses, flags and ordinals plain integers. The
//! rule: a place for a result is checked before anything is done.

mod batch;
mod context;
mod control;
mod copy;
mod device;
mod event;
mod fill;
mod lookup;
mod managed;
mod memory;
mod pitched;
mod pool;
mod stream;
mod versions;

/// Exported functions.
macro_rules! doors {
    ($($guard:ident $name:ident($($argument:ident: $type:ty),* $(,)?) |$with:pat_param| $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> i32 {
                crate::entry::$guard(stringify!($name), |$with| $body)
            }
        )*
    };
}

/// Names of functions that changed their name and not what they do.
macro_rules! same {
    ($($old:ident($($argument:ident: $type:ty),* $(,)?) = $new:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $old($($argument: $type),*) -> i32 {
                $new($($argument),*)
            }
        )*
    };
}

use {doors, same};
