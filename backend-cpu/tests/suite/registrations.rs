//! The user's own host memory, registered.

use crate::rig::{Rig, failure};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MEMORY_PAGEABLE, MEMORY_REGISTERED, RuntimeApi};
use std::ffi::c_void;

fn register(rig: Rig, pointer: *mut c_void, size: usize) -> llaisys_runtime_core::Result<()> {
    // SAFETY: the tests give mapped memory, or memory that is refused.
    unsafe { rig.0.register_host(0, pointer, size) }
}

fn unregister(rig: Rig, pointer: *mut c_void) -> llaisys_runtime_core::Result<()> {
    // SAFETY: wrong pointers are looked up only.
    unsafe { rig.0.unregister_host(1, pointer) }
}

#[test]
fn a_vector_is_registered_and_known_until_it_is_unregistered() {
    let rig = Rig::with_devices(2);
    let mut vector = vec![1u8; 100_000];
    let start: *mut c_void = vector.as_mut_ptr().cast();
    let kind = |offset: usize| {
        let address = start as usize + offset;
        rig.0.get_pointer_attributes(address).expect("attributes").kind
    };
    for _ in 0..3 {
        register(rig, start, vector.len()).expect("registered");
        assert_eq!((kind(0), kind(99_999)), (MEMORY_REGISTERED, MEMORY_REGISTERED));
        let attributes = rig.0.get_pointer_attributes(start as usize + 5).expect("attributes");
        assert_eq!((attributes.base, attributes.size), (start as u64, 100_000));
        unregister(rig, start).expect("unregistered");
        assert_eq!(kind(0), MEMORY_PAGEABLE);
    }
    assert_eq!(vector, vec![1u8; 100_000]);
}

#[test]
fn what_is_registered_is_not_registered_again_and_what_is_not_is_not_unregistered() {
    let rig = Rig::with_devices(2);
    let mut memory = [0u8; 64];
    let at = |offset: usize| memory.as_mut_ptr().wrapping_add(offset).cast();
    let pointers: Vec<*mut c_void> = [0, 8, 15, 16, 24].map(at).to_vec();
    register(rig, pointers[1], 8).expect("registered");
    for (pointer, size) in [(pointers[1], 8), (pointers[0], 9), (pointers[2], 1), (pointers[0], 64)]
    {
        assert_eq!(failure(register(rig, pointer, size)), Status::InvalidValue);
    }
    register(rig, pointers[0], 8).expect("beside it");
    register(rig, pointers[3], 8).expect("beside it");
    for wrong in [pointers[2], pointers[4], std::ptr::null_mut()] {
        assert_eq!(failure(unregister(rig, wrong)), Status::InvalidValue);
    }
    for pointer in [pointers[0], pointers[1], pointers[3]] {
        unregister(rig, pointer).expect("unregistered");
        assert_eq!(failure(unregister(rig, pointer)), Status::InvalidValue);
    }
}

#[test]
fn memory_that_is_not_mapped_is_refused() {
    let rig = Rig::with_devices(2);
    let size = 1 << 20;
    // SAFETY: a new mapping at an address of the kernel's choice, half of which goes again.
    let mapping = unsafe {
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mapping = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
        libc::munmap(mapping.wrapping_byte_add(size / 2), size / 2);
        mapping
    };
    assert_eq!(failure(register(rig, mapping, size)), Status::InvalidValue);
    assert_eq!(failure(register(rig, 4096 as *mut _, 16)), Status::InvalidValue);
    assert_eq!(failure(register(rig, mapping, usize::MAX)), Status::InvalidValue);
    assert_eq!(failure(register(rig, mapping, 0)), Status::InvalidValue);
    register(rig, mapping, size / 2).expect("the other half is there");
    unregister(rig, mapping).expect("unregistered");
    // SAFETY: what is left of the mapping.
    unsafe { libc::munmap(mapping, size / 2) };
}
