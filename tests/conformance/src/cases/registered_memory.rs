//! The user's own host memory, registered (C3, M6).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MEMORY_PAGEABLE, MEMORY_REGISTERED, MemcpyKind};

cases! { Area::Memory;
    "C3" copies_from_registered_memory_are_asynchronous [Registration, Gates];
    "C3" copies_into_registered_memory_are_asynchronous [Registration, Gates];
    "C3" unregistered_memory_is_pageable_again [Registration, Gates];
    "M5" what_is_known_is_not_registered_again [Registration];
    "M5" only_what_is_registered_is_unregistered [Registration];
    "M6" registered_memory_works_with_every_device [Registration];
    "M3" ranges_that_are_no_memory_are_not_registered [Registration];
    "D3" a_pointer_into_registered_memory_says_so [Registration];
}

fn register(context: &Context, block: &Block) -> Checked {
    let answer = context.x.register_host(0, block.address(), block.size() as u64);
    context.ok(answer, "register_host")
}

fn unregister(context: &Context, block: &Block) -> Checked {
    context.ok(context.x.unregister_host(block.address()), "unregister_host")
}

fn copies_from_registered_memory_are_asynchronous(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (old, new) = (context.bytes(1, 70_000), context.bytes(2, 70_000));
    let mut source = Block::filled(context, Place::Pageable, &old)?;
    register(context, &source)?;
    let target = Guarded::new(context, Place::Device, old.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let (to, from) = (target.address(), source.address());
    context.enqueue(to, from, old.len(), MemcpyKind::H2D, stream)?;
    // It is read when the stream comes there, not before.
    source.write(0, &new)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&new, "a copy from registered memory that changed before its turn")?;
    unregister(context, &source)?;
    context.destroy(stream)
}

fn copies_into_registered_memory_are_asynchronous(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 70_000);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Block::new(context, Place::Pageable, bytes.len())?;
    register(context, &target)?;
    let gate = Gate::hold(context, 0, stream)?;
    // To come back from this call, while the stream is held, is the point.
    let (to, from) = (target.address(), source.address());
    context.enqueue(to, from, bytes.len(), MemcpyKind::D2H, stream)?;
    ensure!(target.content()? == vec![0; bytes.len()], "written behind a closed gate");
    gate.open();
    context.wait(stream)?;
    ensure!(target.content()? == bytes, "a copy into registered memory");
    unregister(context, &target)?;
    context.destroy(stream)
}

fn unregistered_memory_is_pageable_again(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (old, new) = (context.bytes(1, 70_000), context.bytes(2, 70_000));
    let mut source = Block::filled(context, Place::Pageable, &old)?;
    register(context, &source)?;
    unregister(context, &source)?;
    let target = Guarded::new(context, Place::Device, old.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target.address(), source.address(), old.len(), MemcpyKind::H2D, stream)?;
    source.write(0, &new)?;
    let (to, from) = (source.address(), target.address());
    let length = old.len();
    let caller = Caller::start(move || context.enqueue(to, from, length, MemcpyKind::D2H, stream))?;
    caller.expect_waiting("memcpy_async into memory that is not registered any more")?;
    gate.open();
    caller.join()?;
    context.wait(stream)?;
    target.expect(&old, "a copy from memory that is not registered any more")?;
    ensure!(source.content()? == old, "a copy into memory that is not registered any more");
    context.destroy(stream)
}

fn what_is_known_is_not_registered_again(context: &'static Context) -> Checked {
    let x = &context.x;
    let status = Status::InvalidValue;
    let own = Block::new(context, Place::Pageable, 64 << 10)?;
    let middle = own.address().plus(16 << 10);
    context.ok(x.register_host(0, middle, 16 << 10), "register_host")?;
    for (offset, size, what) in [
        (16 << 10, 16 << 10, "the same range"),
        (0, 20 << 10, "its beginning"),
        (20 << 10, 4 << 10, "a part of it"),
        (28 << 10, 16 << 10, "its end"),
        (0, 64 << 10, "all of it and more"),
    ] {
        let answer = x.register_host(0, own.address().plus(offset), size);
        context.answered(answer, "register_host", status, what)?;
    }
    // What is beside it is not known.
    context.ok(x.register_host(0, own.address(), 8 << 10), "register_host beside it")?;
    context.ok(x.unregister_host(own.address()), "unregister_host")?;
    context.ok(x.unregister_host(middle), "unregister_host")?;
    for place in [Place::Pinned, Place::Device] {
        let block = Block::new(context, place, 4096)?;
        let answer = x.register_host(0, block.address(), 4096);
        context.answered(answer, "register_host", status, &format!("{place:?} memory"))?;
    }
    Ok(())
}

fn only_what_is_registered_is_unregistered(context: &'static Context) -> Checked {
    let x = &context.x;
    let status = Status::InvalidValue;
    let own = Block::new(context, Place::Pageable, 8192)?;
    let pinned = Block::pinned(context, 4096)?;
    register(context, &own)?;
    for (address, what) in [
        (own.address().plus(4096), "an interior pointer"),
        (pinned.address(), "pinned memory"),
        (Address::GARBAGE, "garbage"),
    ] {
        context.answered(x.unregister_host(address), "unregister_host", status, what)?;
    }
    context.answered(x.free_host(0, own.address()), "free_host", status, "registered memory")?;
    context.answered(
        x.free_device(0, own.address()),
        "free_device",
        status,
        "registered memory",
    )?;
    unregister(context, &own)?;
    let answer = x.unregister_host(own.address());
    context.answered(answer, "unregister_host", status, "unregistered twice")?;
    // And again from the start.
    register(context, &own)?;
    unregister(context, &own)
}

fn registered_memory_works_with_every_device(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 30_000);
    let own = Block::filled(context, Place::Pageable, &bytes)?;
    register(context, &own)?;
    for device in 0..context.count {
        context.set_device(device)?;
        let stream = context.stream()?;
        let target = Guarded::new(context, Place::Device, bytes.len())?;
        let gate = Gate::hold(context, device, stream)?;
        let (to, from) = (target.address(), own.address());
        context.enqueue(to, from, bytes.len(), MemcpyKind::H2D, stream)?;
        gate.open();
        context.wait(stream)?;
        target.expect(&bytes, &format!("registered memory, on device {device}"))?;
        context.destroy(stream)?;
    }
    unregister(context, &own)
}

fn ranges_that_are_no_memory_are_not_registered(context: &'static Context) -> Checked {
    let own = Block::new(context, Place::Pageable, 4096)?;
    for (address, size, what) in [
        (Address::NULL, 4096, "NULL"),
        (own.address(), 0, "0 bytes"),
        (own.address(), u64::MAX, "a range that wraps"),
        (own.address(), u64::MAX - 4096, "a range that wraps"),
    ] {
        let answer = context.x.register_host(0, address, size);
        context.answered(answer, "register_host", Status::InvalidValue, what)?;
    }
    let answer = context.x.register_host(context.count, own.address(), 4096);
    context.answered(answer, "register_host", Status::InvalidDevice, "no such device").map(drop)
}

fn a_pointer_into_registered_memory_says_so(context: &'static Context) -> Checked {
    let own = Block::new(context, Place::Pageable, 8192)?;
    register(context, &own)?;
    let ask = |offset: usize| {
        let answer = context.x.get_pointer_attributes(own.address().plus(offset));
        context.ok(answer, "get_pointer_attributes")
    };
    for offset in [0, 1, 8191] {
        let found = ask(offset)?;
        ensure_eq!(found.kind, MEMORY_REGISTERED, "the kind at offset {offset}");
        ensure_eq!(found.base, own.address().0 as u64, "the base");
        ensure_eq!((found.size, found.ours), (8192, 1), "size and ours");
    }
    unregister(context, &own)?;
    ensure_eq!(ask(0)?.kind, MEMORY_PAGEABLE, "the kind after unregister_host");
    Ok(())
}
