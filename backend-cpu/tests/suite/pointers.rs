//! What is known of an address.

use crate::gate::Gate;
use crate::rig::{Rig, failure};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::*;
use llaisys_runtime_core::device_type;

#[test]
fn every_byte_of_a_block_and_none_beside_it_is_what_the_block_is() {
    const SIZE: usize = 1_000;
    let rig = Rig::with_devices(3);
    let blocks = [
        (rig.0.malloc_device(2, SIZE), MEMORY_DEVICE),
        (rig.0.malloc_managed(2, SIZE), MEMORY_MANAGED),
        (rig.0.malloc_host(2, SIZE), MEMORY_PINNED),
    ];
    for (block, kind) in blocks {
        let base = block.expect("memory") as usize;
        for address in [base, base + 1, base + SIZE - 1] {
            let found = rig.0.get_pointer_attributes(address).expect("attributes");
            assert_eq!((found.kind, found.device, found.ours), (kind, 2, 1));
            assert_eq!((found.base, found.size), (base as u64, SIZE as u64));
            assert_eq!(found.device_type, device_type::CPU);
            let is_device = rig.0.is_device_memory(0, address).expect("an answer");
            assert_eq!(is_device, kind != MEMORY_PINNED);
        }
        for address in [base - 1, base + SIZE] {
            let found = rig.0.get_pointer_attributes(address).expect("attributes");
            assert_eq!(found.kind, MEMORY_PAGEABLE);
        }
    }
}

#[test]
fn what_was_not_made_here_is_pageable_and_so_is_what_was_freed() {
    let rig = Rig::with_devices(1);
    let (local, vector) = ([0u8; 8], vec![0u8; 1 << 20]);
    let block = rig.device_memory(64, 0);
    let _gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
    rig.free(block);
    for address in [local.as_ptr() as usize, vector.as_ptr() as usize, 0, 8, block as usize] {
        let found = rig.0.get_pointer_attributes(address).expect("attributes");
        assert_eq!(found, LlaisysPointerAttributes::pageable());
        assert!(!rig.0.is_device_memory(0, address).expect("an answer"));
    }
    assert_eq!(failure(rig.0.is_device_memory(1, block as usize)), Status::InvalidDevice);
}
