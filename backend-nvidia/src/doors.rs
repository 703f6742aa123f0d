//! The hidden doors: every `cu*` symbol that `cust_raw` declares, defined here as a jump through a
//! slot.
//!
//! Rule: a door never loads and never fails to link. Before a driver is opened, and after a fork, a
//! door answers `CUDA_ERROR_NOT_INITIALIZED`; for an entry point that the opened driver lacks,
//! `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`.
//!
//! ```text
//!   cust::sys::cuMemAlloc_v2(..) ─call─▶ cuMemAlloc_v2: jmp *SLOTS[i] ─▶ the driver's, or
//!                                        (hidden, in this file)          unopened(), missing()
//! ```
//!
//! The symbols are `.hidden`: they bind inside the plugin only, so neither a `libcuda.so.1` that
//! another library brought along nor a second plugin sees them (contract P4), and the plugin needs
//! no `DT_NEEDED` on a driver.

use crate::errors::{NOT_INITIALIZED, SYMBOL_NOT_FOUND};
use crate::symbols::driver_symbols;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Behind every door until a driver is opened, and again in a forked child.
///
/// It takes no argument and so reads none: in the C ABIs of x86-64 and aarch64 the caller owns the
/// argument area, and a callee that ignores it is right for any signature.
extern "C" fn unopened() -> i32 {
    NOT_INITIALIZED
}

/// Behind the doors of entry points that the opened driver lacks. See [`unopened`] for why it fits
/// any signature.
extern "C" fn missing() -> i32 {
    SYMBOL_NOT_FOUND
}

/// Where a door leads. A slot holds an address of code with the signature of its entry point, or
/// one of the two functions above, at every moment; a reader takes it in one load (the `jmp`
/// itself).
type Slot = AtomicPtr<c_void>;

macro_rules! make_doors {
    ($($name:ident)*) => {
        /// The doors' numbers: the index of each in [`SLOTS`] and [`NAMES`].
        #[allow(non_camel_case_types, reason = "the driver's own names")]
        #[repr(usize)]
        enum Door { $($name,)* }

        /// How many doors there are.
        const COUNT: usize = [$(stringify!($name)),*].len();

        /// The entry points' names as the dynamic linker wants them.
        static NAMES: [&CStr; COUNT] = [
            $(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name holds a NUL"),
            }),*
        ];

        $(make_door!($name);)*
    };
}

/// One door for x86-64. `endbr64` where control-flow enforcement is on would be the caller's
/// landing pad; a direct call needs none, and function pointers to doors are only ever called from
/// this plugin.
#[cfg(target_arch = "x86_64")]
macro_rules! make_door {
    ($name:ident) => {
        core::arch::global_asm!(
            concat!(".section .text.door.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "jmp qword ptr [rip + {slots} + {offset}]",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".text",
            slots = sym SLOTS,
            offset = const Door::$name as usize * size_of::<Slot>(),
        );
    };
}

/// One door for aarch64. `x16` is the register that the ABI leaves to jumps between a call and its
/// target.
#[cfg(target_arch = "aarch64")]
macro_rules! make_door {
    ($name:ident) => {
        core::arch::global_asm!(
            concat!(".section .text.door.", stringify!($name), ",\"ax\",@progbits"),
            ".p2align 2",
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "adrp x16, {slots} + {offset}",
            "ldr x16, [x16, #:lo12:{slots} + {offset}]",
            "br x16",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".text",
            slots = sym SLOTS,
            offset = const Door::$name as usize * size_of::<Slot>(),
        );
    };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the doors need one line of assembly for this architecture");

driver_symbols!(make_doors);

/// What stands behind each door.
static SLOTS: [Slot; COUNT] = [const { AtomicPtr::new(unopened as *mut c_void) }; COUNT];

/// Leads every door to the entry point that `find` knows by its name, and the rest to [`missing`].
/// Returns how many the driver lacks.
///
/// # Safety
/// - Whatever `find` returns for a name is the address of the driver's function of that name.
/// - That function stays mapped for the rest of the process.
pub(crate) unsafe fn resolve(mut find: impl FnMut(&CStr) -> Option<*mut c_void>) -> usize {
    let mut lacking = 0;
    for (slot, name) in SLOTS.iter().zip(NAMES) {
        let target = find(name).unwrap_or_else(|| {
            lacking += 1;
            missing as *mut c_void
        });
        slot.store(target, Ordering::Release);
    }
    lacking
}

/// Closes every door again. Async-signal-safe: a forked child calls it before anything else runs
/// there.
pub(crate) fn shut() {
    for slot in &SLOTS {
        slot.store(unopened as *mut c_void, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cust::sys;

    extern "C" fn answer_77() -> i32 {
        77
    }

    /// One test for the whole life of the doors, since the slots are the process's.
    #[test]
    fn a_door_leads_where_its_slot_says() {
        let through_the_door = || {
            // The declared return type is a Rust enum that has no 77; ask through the C type.
            let door = sys::cuInit as unsafe extern "C" fn(u32) -> sys::CUresult;
            // SAFETY: the door answers a C int, whatever stands behind it.
            let door: unsafe extern "C" fn(u32) -> i32 = unsafe { std::mem::transmute(door) };
            // SAFETY: behind the door is one of the three functions of this test, none of which
            // reads its argument.
            unsafe { door(0) }
        };
        assert_eq!(through_the_door(), NOT_INITIALIZED);

        // SAFETY: the only address handed out is a function of this test, which lives as long as
        // the process.
        let lacking =
            unsafe { resolve(|name| (name == c"cuInit").then_some(answer_77 as *mut c_void)) };
        assert_eq!(lacking, COUNT - 1);
        assert_eq!(through_the_door(), 77);

        // SAFETY: as above; nothing is handed out.
        unsafe { resolve(|_| None) };
        assert_eq!(through_the_door(), SYMBOL_NOT_FOUND);

        shut();
        assert_eq!(through_the_door(), NOT_INITIALIZED);
    }
}
