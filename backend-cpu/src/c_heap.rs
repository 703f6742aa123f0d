//! The heap of the C library, from which blocks come and which keeps pages for later.
//!
//! Rule: it is asked to give pages back only where it is the process's heap. Where another allocator took
//! `malloc` over (jemalloc, tcmalloc, a sanitizer), glibc's own was never begun: `malloc_trim` would begin it,
//! on several threads at once, and glibc ends the process when those threads end
//! (`a->attached_threads > 0`).

/// Gives unused pages back to the system, where that is possible.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    if is_in_use() {
        // SAFETY: gives unused pages back; may be called at any time on the heap that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Whether `malloc` is the C library's own.
#[cfg(target_env = "gnu")]
fn is_in_use() -> bool {
    use std::ffi::c_void;
    let file_of = |function: *const c_void| {
        // SAFETY: plain integers and pointers, for which all zero is a value.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the address is only looked up, and `found` is writable.
        let is_found = unsafe { libc::dladdr(function, &mut found) } != 0;
        is_found.then_some(found.dli_fbase)
    };
    let symbol = |name: &std::ffi::CStr| {
        // SAFETY: looks a name up in the order in which the process's own calls are bound.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast_const()
    };
    let (malloc, trim) = (file_of(symbol(c"malloc")), file_of(symbol(c"malloc_trim")));
    malloc.is_some() && malloc == trim
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn without_another_allocator_the_heap_is_the_c_librarys() {
        assert!(is_in_use());
        trim();
    }
}
