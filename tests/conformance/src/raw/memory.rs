//! Memory of the plugin alone (M2, M4, M6, M7, L1, L4).

use super::Plugin;
use super::block::{Block, enqueue};
use crate::case::Area;
use crate::extended::Copy;
use crate::footprint::leaves_blocks_on_purpose;
use crate::gate::Gate;
use crate::outcome::{Checked, Stop};
use crate::place::Place;
use llaisys_runtime_core::api::{EventFlags, MemcpyKind, Stream};

raw_cases! { Area::RawWork;
    "M2" every_block_is_aligned [];
    "M2" live_blocks_do_not_overlap [];
    "M4" a_freed_block_is_not_handed_out_while_work_uses_it [HOST_FUNCTIONS];
    "M4" a_free_returns_while_the_stream_is_held [HOST_FUNCTIONS];
    "M4" what_was_freed_can_be_had_again [MEMORY_POOL];
    "M6" pinned_memory_serves_each_device_of_the_plugin [];
    "M7" memory_comes_and_goes_in_the_order_of_a_stream [STREAM_ORDERED_MEMORY];
    "L4" many_threads_allocate_copy_and_free [];
    "L1" the_process_ends_well_with_everything_alive [];
}

const PLACES: [Place; 2] = [Place::Device, Place::Pinned];

fn ready(plugin: &Plugin) -> Checked<i32> {
    plugin.initialize()?;
    plugin.devices()
}

fn every_block_is_aligned(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    for (place, alignment) in [(Place::Device, 256), (Place::Pinned, 64)] {
        let sizes = (1..=1025usize).step_by(64).chain([65_537, (5 << 20) + 1]);
        let blocks: Vec<Block> =
            sizes.map(|size| Block::new(plugin, place, size)).collect::<Checked<_>>()?;
        for block in &blocks {
            let off = block.address().0 % alignment;
            ensure_eq!(off, 0, "{place:?} memory at {:?}, modulo {alignment}", block.address());
        }
    }
    Ok(())
}

fn live_blocks_do_not_overlap(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let mut rng = plugin.rng();
    for place in PLACES {
        let sizes: Vec<usize> = (0..200).map(|_| 1 + rng.below(20_000)).collect();
        let blocks: Vec<Block> =
            sizes.iter().map(|size| Block::new(plugin, place, *size)).collect::<Checked<_>>()?;
        let mut ranges: Vec<(usize, usize)> = blocks
            .iter()
            .zip(&sizes)
            .map(|(block, size)| (block.address().0, block.address().0 + size))
            .collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            ensure!(
                pair[0].1 <= pair[1].0,
                "{place:?} memory: the blocks {:#x}..{:#x} and {:#x}..{:#x} overlap",
                pair[0].0,
                pair[0].1,
                pair[1].0,
                pair[1].1
            );
        }
    }
    Ok(())
}

fn a_freed_block_is_not_handed_out_while_work_uses_it(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let (held, other) = (plugin.stream()?, plugin.stream()?);
    let bytes = plugin.bytes(1, 100_000);
    let spoiler = Block::filled(plugin, Place::Pinned, &vec![0xee; bytes.len()])?;
    let target = Block::guarded(plugin, Place::Pinned, bytes.len())?;
    let source = Block::filled(plugin, Place::Device, &bytes)?;
    let gate = Gate::hold_in(&plugin.x, 0, held)?;
    let (to, from) = ((target.inside(), Place::Pinned), (source.address(), Place::Device));
    enqueue(plugin, to, from, bytes.len(), held)?;
    source.free()?;
    let next: Vec<Block> =
        (0..16).map(|_| Block::new(plugin, Place::Device, bytes.len())).collect::<Checked<_>>()?;
    for block in &next {
        let (to, from) = ((block.address(), Place::Device), (spoiler.address(), Place::Pinned));
        enqueue(plugin, to, from, bytes.len(), other)?;
    }
    plugin.wait(other)?;
    gate.open();
    plugin.wait(held)?;
    target.expect(&bytes, "a copy from memory that was freed behind it")?;
    plugin.destroy(held)?;
    plugin.destroy(other)
}

fn a_free_returns_while_the_stream_is_held(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for place in PLACES {
        let blocks: Vec<Block> = [64, 1 << 16, 5 << 20]
            .into_iter()
            .map(|size| Block::new(plugin, place, size))
            .collect::<Checked<_>>()?;
        let gate = Gate::hold_in(&plugin.x, 0, stream)?;
        // A free that waits, waits for ever: the watchdog tells.
        for block in blocks {
            block.free()?;
        }
        gate.open();
        plugin.wait(stream)?;
    }
    plugin.destroy(stream)
}

fn what_was_freed_can_be_had_again(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let before = plugin.held(true);
    ensure!(!before.is_empty(), "MEMORY_POOL is claimed, and get_reserved_memory fails");
    for round in 0..3 {
        let blocks: Vec<Block> =
            (0..64).map(|_| Block::new(plugin, Place::Device, 1 << 20)).collect::<Checked<_>>()?;
        for block in blocks {
            block.free()?;
        }
        let after = plugin.held(true);
        ensure!(
            after[0].1 <= before[0].1,
            "round {round}: 64 MiB were freed; {} bytes are held from the driver, {} were before",
            after[0].1,
            before[0].1
        );
    }
    Ok(())
}

fn pinned_memory_serves_each_device_of_the_plugin(plugin: &'static Plugin) -> Checked {
    let count = ready(plugin)?;
    let bytes = plugin.bytes(1, 5000);
    let source = Block::filled(plugin, Place::Pinned, &bytes)?;
    let target = Block::new(plugin, Place::Pinned, bytes.len())?;
    for device in 0..count {
        target.write(&vec![0; bytes.len()])?;
        let middle = plugin.ok(plugin.x.malloc_device(device, 5000), "malloc_device")?;
        let there = Copy::new(middle, source.address(), 5000, MemcpyKind::H2D);
        let back = Copy::new(target.address(), middle, 5000, MemcpyKind::D2H);
        plugin.ok(plugin.x.memcpy_sync(device, there), "memcpy_sync to the device")?;
        plugin.ok(plugin.x.memcpy_sync(device, back), "memcpy_sync to the host")?;
        ensure!(target.content()? == bytes, "pinned memory, there and back on device {device}");
        plugin.ok(plugin.x.free_device(device, middle), "free_device")?;
    }
    Ok(())
}

fn memory_comes_and_goes_in_the_order_of_a_stream(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for round in 0..50u64 {
        let bytes = plugin.bytes(round, 30_000);
        let source = Block::filled(plugin, Place::Pinned, &bytes)?;
        let target = Block::guarded(plugin, Place::Pinned, bytes.len())?;
        let block = plugin.ok(plugin.x.malloc_async(0, 30_000, stream), "malloc_async")?;
        let (middle, last) = ((block, Place::Device), (target.inside(), Place::Pinned));
        enqueue(plugin, middle, (source.address(), Place::Pinned), bytes.len(), stream)?;
        enqueue(plugin, last, middle, bytes.len(), stream)?;
        plugin.ok(plugin.x.free_async(0, block, stream), "free_async")?;
        plugin.wait(stream)?;
        target.expect(&bytes, &format!("through memory of the stream, round {round}"))?;
    }
    plugin.destroy(stream)
}

fn many_threads_allocate_copy_and_free(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let work = move |number: u64| -> Checked {
        let stream = plugin.stream()?;
        for round in 0..40 {
            let bytes = plugin.bytes(number * 1000 + round, 3000 + number as usize);
            let source = Block::filled(plugin, Place::Pinned, &bytes)?;
            let middle = Block::new(plugin, Place::Device, bytes.len())?;
            let target = Block::guarded(plugin, Place::Pinned, bytes.len())?;
            let via = (middle.address(), Place::Device);
            enqueue(plugin, via, (source.address(), Place::Pinned), bytes.len(), stream)?;
            enqueue(plugin, (target.inside(), Place::Pinned), via, bytes.len(), stream)?;
            plugin.wait(stream)?;
            target.expect(&bytes, &format!("thread {number}, round {round}"))?;
        }
        plugin.destroy(stream)
    };
    let threads: Vec<_> = (0..8).map(|number| std::thread::spawn(move || work(number))).collect();
    for thread in threads {
        thread.join().map_err(|_| Stop::fail("a thread ended in a panic"))??;
    }
    Ok(())
}

/// What is alive here stays so: the process of the case ends with it, and a crash is an outcome.
fn the_process_ends_well_with_everything_alive(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    leaves_blocks_on_purpose();
    let stream = plugin.stream()?;
    for place in PLACES {
        let size = 1 << 20;
        let (from, to) = (Block::new(plugin, place, size)?, Block::new(plugin, place, size)?);
        let (to, from) = ((to.keep(), place), (from.keep(), place));
        for on in [stream, Stream::DEFAULT] {
            enqueue(plugin, to, from, size, on)?;
        }
        plugin.wait(stream)?;
        plugin.wait(Stream::DEFAULT)?;
    }
    if plugin.has("create_event") {
        // Left alive; a plugin that does not have events says so.
        let _ = plugin.x.create_event(0, EventFlags::NONE);
        plugin.slot()?;
    }
    Ok(())
}
