//! What an address is, and how devices reach each other.

use crate::address::Address;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{
    LINK_SAME_DEVICE, LINK_SHARED_MEMORY, LINK_THROUGH_HOST, LlaisysPointerAttributes,
    MEMORY_DEVICE, MEMORY_PAGEABLE, MEMORY_PINNED, MemcpyKind,
};

cases! { Area::Devices;
    "D3" a_pointer_knows_what_and_where_it_is [];
    "D3" a_pointer_that_is_nobodys_is_pageable [];
    "P3" attributes_are_written_as_far_as_the_caller_knows_them [];
    "C5" a_device_is_linked_to_itself [Peers];
    "C5" every_pair_of_devices_has_a_link [SecondDevice, Peers];
    "C5" peer_access_may_be_enabled_again_and_copies_go_on [SecondDevice, Peers];
    "D2" links_of_devices_that_do_not_exist_are_refused [Peers];
}

fn attributes(context: &Context, address: Address) -> Checked<LlaisysPointerAttributes> {
    context.ok(context.x.get_pointer_attributes(address), "get_pointer_attributes")
}

fn a_pointer_knows_what_and_where_it_is(context: &'static Context) -> Checked {
    for device in 0..context.count {
        context.set_device(device)?;
        for (place, kind) in [(Place::Device, MEMORY_DEVICE), (Place::Pinned, MEMORY_PINNED)] {
            let block = Block::new(context, place, 5000)?;
            context.set_device(0)?;
            for offset in [0, 1, 4999] {
                let found = attributes(context, block.address().plus(offset))?;
                let what = format!("{place:?} memory of device {device} at offset {offset}");
                ensure_eq!(found.kind, kind, "{what}: the kind");
                ensure_eq!(found.device_type, context.device_type, "{what}: the device type");
                ensure_eq!(found.device, device, "{what}: the device");
                ensure_eq!(found.base, block.address().0 as u64, "{what}: the base");
                ensure_eq!((found.size, found.ours), (5000, 1), "{what}: size and ours");
            }
            let address = block.address();
            block.free()?;
            let found = attributes(context, address)?;
            ensure_eq!(found.ours, 0, "after the free: ours");
            context.set_device(device)?;
        }
    }
    Ok(())
}

fn a_pointer_that_is_nobodys_is_pageable(context: &'static Context) -> Checked {
    let own = Block::new(context, Place::Pageable, 64)?;
    for address in [own.address(), Address::NULL, Address::GARBAGE, Address(usize::MAX)] {
        let found = attributes(context, address)?;
        ensure_eq!(found.kind, MEMORY_PAGEABLE, "{address:?}: the kind");
        ensure_eq!((found.device_type, found.device), (-1, -1), "{address:?}: type and device");
        ensure_eq!((found.base, found.size, found.ours), (0, 0, 0), "{address:?}: the rest");
    }
    Ok(())
}

fn attributes_are_written_as_far_as_the_caller_knows_them(context: &'static Context) -> Checked {
    let block = Block::device(context, 64)?;
    let (x, this) = (context.x.raw, context.x.this());
    let address = block.address().pointer().cast_const();
    for known in [8, 16, 24, 32] {
        let mut found = LlaisysPointerAttributes {
            struct_size: known,
            kind: 77,
            device_type: 77,
            device: 77,
            base: 77,
            size: 77,
            ours: 77,
            reserved: 77,
        };
        // SAFETY: the struct is ours and says how much of it may be written.
        let code = unsafe { (x.get_pointer_attributes)(this, address, &mut found) };
        context.ok(Code(code).result(), "get_pointer_attributes")?;
        ensure_eq!(found.kind, MEMORY_DEVICE, "the kind, with struct_size {known}");
        ensure_eq!(found.device == 77, known < 16, "the device, with struct_size {known}");
        ensure_eq!(found.base == 77, known < 24, "the base, with struct_size {known}");
        ensure_eq!(found.size == 77, known < 32, "the size, with struct_size {known}");
        ensure_eq!((found.ours, found.reserved), (77, 77), "past struct_size {known}");
    }
    // SAFETY: NULL is refused.
    let code = unsafe { (x.get_pointer_attributes)(this, address, std::ptr::null_mut()) };
    let answer = Code(code).result();
    context.answered(answer, "get_pointer_attributes", Status::InvalidValue, "NULL").map(drop)
}

fn a_device_is_linked_to_itself(context: &'static Context) -> Checked {
    for device in 0..context.count {
        let link = context.ok(context.x.get_peer_link(device, device), "get_peer_link")?;
        ensure_eq!(link.kind, LINK_SAME_DEVICE, "the link of device {device} to itself");
        ensure_eq!((link.can_access, link.enabled), (1, 1), "access of device {device} to itself");
        let answer = context.x.enable_peer_access(device, device);
        context.answered(answer, "enable_peer_access", Status::InvalidValue, "one device")?;
    }
    Ok(())
}

fn every_pair_of_devices_has_a_link(context: &'static Context) -> Checked {
    for device in 0..context.count {
        for peer in (0..context.count).filter(|peer| *peer != device) {
            let link = context.ok(context.x.get_peer_link(device, peer), "get_peer_link")?;
            let what = format!("{device} → {peer}: {link:?}");
            ensure!((LINK_THROUGH_HOST..=LINK_SHARED_MEMORY).contains(&link.kind), "{what}");
            ensure!(link.enabled <= link.can_access && link.can_access <= 1, "{what}");
            let is_direct = link.kind != LINK_THROUGH_HOST;
            ensure!(!is_direct || link.can_access == 1, "{what}: direct without access");
            let back = context.ok(context.x.get_peer_link(peer, device), "get_peer_link")?;
            ensure_eq!(back.kind, link.kind, "{what}: the kind of the way back");
        }
    }
    Ok(())
}

fn peer_access_may_be_enabled_again_and_copies_go_on(context: &'static Context) -> Checked {
    for (device, peer) in [(0, 1), (1, 0)] {
        let link = context.ok(context.x.get_peer_link(device, peer), "get_peer_link")?;
        for _ in 0..3 {
            let answer = context.x.enable_peer_access(device, peer);
            if link.can_access == 1 {
                context.ok(answer, "enable_peer_access")?;
                let link = context.ok(context.x.get_peer_link(device, peer), "get_peer_link")?;
                ensure_eq!(link.enabled, 1, "enabled, after it was switched on");
            } else {
                let status = Status::NotSupported;
                context.answered(answer, "enable_peer_access", status, "no access")?;
            }
        }
        let bytes = context.bytes(1, 70_000);
        context.set_device(device)?;
        let source = Block::filled(context, Place::Device, &bytes)?;
        context.set_device(peer)?;
        let target = Block::device(context, bytes.len())?;
        context.copy(target.address(), source.address(), bytes.len(), MemcpyKind::D2D)?;
        ensure!(target.content()? == bytes, "{device} → {peer} after enable_peer_access");
    }
    Ok(())
}

fn links_of_devices_that_do_not_exist_are_refused(context: &'static Context) -> Checked {
    for (device, peer) in [(0, context.count), (context.count, 0), (-1, 0), (0, -1)] {
        let what = format!("{device} → {peer}");
        let answer = context.x.get_peer_link(device, peer);
        context.answered(answer, "get_peer_link", Status::InvalidDevice, &what)?;
        let answer = context.x.enable_peer_access(device, peer);
        context.answered(answer, "enable_peer_access", Status::InvalidDevice, &what)?;
    }
    Ok(())
}
