//! The plugin's table: which entries are there, and whether what is said of them is true (P3, D1, L4).

use super::Plugin;
use super::block::Block;
use crate::address::Address;
use crate::case::Area;
use crate::code::Code;
use crate::data;
use crate::extended::Answer;
use crate::extended::memory::Batch;
use crate::outcome::{Checked, Stop};
use crate::place::Place;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::abi::{ABI_MAJOR, LlaisysBackendAPI};
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, EventFlags, LlaisysCopy3D, LlaisysCopyRange, MemcpyKind, Stream,
};
use llaisys_runtime_core::entries::{ENTRIES, HEAD, LEAST, Role, WORD};
use std::ffi::c_void;
use std::ptr;

raw_cases! { Area::RawTable;
    "P3" the_table_is_as_long_as_it_says [];
    "P3" the_tables_head_is_of_this_abi [];
    "P3" no_required_entry_is_null [];
    "P3" a_claimed_capability_has_its_whole_group [];
    "P3" a_claimed_operation_does_not_answer_that_it_is_missing [];
    "P3" an_operation_that_is_not_claimed_is_null_or_answers_so [];
    "P3" the_table_and_the_descriptor_claim_the_same [];
    "D1" the_count_is_the_same_again_and_from_every_thread [];
    "D1" initializing_answers_the_count_and_again [];
    "D2" every_device_can_be_bound_to_every_thread [];
    "L4" every_device_works_whichever_is_bound [];
    "D6" a_devices_own_capabilities_are_among_the_plugins [DEVICE_INFORMATION];
}

fn the_table_is_as_long_as_it_says(plugin: &'static Plugin) -> Checked {
    let table = plugin.descriptor.api;
    // SAFETY: `struct_size` is the first field and inside any table.
    let size = unsafe { table.cast::<u32>().read_unaligned() } as usize;
    ensure!(size >= LEAST, "the table has {size} bytes; the twelve need at least {LEAST}");
    ensure_eq!((size - HEAD) % WORD, 0, "bytes behind the last whole entry");
    let last = Address::from_pointer(table.cast_mut().cast()).plus(size - 1);
    ensure!(data::is_readable(last), "the table's last byte cannot be read: it is shorter");
    Ok(())
}

fn the_tables_head_is_of_this_abi(plugin: &'static Plugin) -> Checked {
    let (about, table): (_, &LlaisysBackendAPI) = (plugin.descriptor, plugin.x.raw);
    ensure_eq!(table.abi_major, ABI_MAJOR, "the table's ABI major version");
    ensure_eq!(table.abi_minor, about.abi_minor, "the table's minor version, and the descriptor's");
    ensure_eq!(table.reserved, 0, "the reserved field");
    Ok(())
}

fn no_required_entry_is_null(plugin: &'static Plugin) -> Checked {
    let required = ENTRIES.iter().filter(|entry| entry.role == Role::Required);
    let missing: Vec<&str> =
        required.map(|entry| entry.name).filter(|name| !plugin.has(name)).collect();
    ensure!(missing.is_empty(), "required and NULL, or past the end: {}", missing.join(", "));
    Ok(())
}

fn a_claimed_capability_has_its_whole_group(plugin: &'static Plugin) -> Checked {
    let mut lies = Vec::new();
    for entry in ENTRIES.iter().filter(|entry| !plugin.has(entry.name)) {
        if let Some(group) = entry.claimed_by().filter(|group| plugin.capabilities.contains(*group))
        {
            lies.push(format!("{} without {}", group.name(), entry.name));
        }
    }
    ensure!(lies.is_empty(), "claimed {}", lies.join(", "));
    Ok(())
}

/// An operation of each optional group that can be called without the others, with right arguments.
const PROBES: [(Capabilities, &[&str]); 12] = [
    (Capabilities::DEVICE_INFORMATION, &["get_device_properties", "get_memory_info"]),
    (Capabilities::STREAM_QUERY, &["stream_query"]),
    (Capabilities::HOST_FUNCTIONS, &["launch_host_function"]),
    (Capabilities::POINTER_QUERY, &["is_device_memory", "get_pointer_attributes"]),
    (Capabilities::STREAM_OPTIONS, &["create_stream_with", "get_stream_priority_range"]),
    (Capabilities::EVENTS, &["create_event"]),
    (Capabilities::STREAM_ORDERED_MEMORY, &["malloc_async"]),
    (Capabilities::HOST_REGISTRATION, &["register_host"]),
    (Capabilities::FILL, &["memset_async"]),
    (Capabilities::PITCHED_COPIES, &["memcpy_3d_async"]),
    (Capabilities::BATCHED_COPIES, &["memcpy_batch_async"]),
    (Capabilities::MEMORY_POOL, &["get_reserved_memory", "trim_memory"]),
];

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// What an optional operation answers when it is called as it is to be called.
fn probe(plugin: &'static Plugin, name: &str) -> Checked<Answer> {
    let x = &plugin.x;
    let (one, two) =
        (Block::new(plugin, Place::Device, 4096)?, Block::new(plugin, Place::Device, 4096)?);
    let mut own = vec![0u8; 4096];
    let own = Address::of_mut(&mut own);
    let none = Stream::DEFAULT;
    let answer = match name {
        "get_device_properties" => x.get_device_properties(0).map(drop),
        "get_memory_info" => x.get_memory_info(0).map(drop),
        "stream_query" => x.stream_query(0, none).map(drop),
        // SAFETY: `nothing` may be called from anywhere.
        "launch_host_function" => unsafe {
            x.launch_host_function(0, none, nothing, ptr::null_mut())
        },
        "is_device_memory" => x.is_device_memory(0, one.address()).map(drop),
        "get_pointer_attributes" => x.get_pointer_attributes(one.address()).map(drop),
        "create_stream_with" => {
            x.create_stream_with(0, 1, 0).and_then(|stream| x.destroy_stream(0, stream))
        }
        "get_stream_priority_range" => x.get_stream_priority_range(0).map(drop),
        "create_event" => {
            let made = x.create_event(0, EventFlags::NONE);
            made.and_then(|event| match plugin.has("destroy_event") {
                true => x.destroy_event(event),
                false => Ok(()),
            })
        }
        "malloc_async" => {
            let made = x.malloc_async(0, 64, none);
            made.and_then(|block| match plugin.has("free_async") {
                true => x.free_async(0, block, none),
                false => x.free_device(0, block),
            })
        }
        "register_host" => x.register_host(0, own, 4096).and_then(|()| {
            if plugin.has("unregister_host") { x.unregister_host(own) } else { Ok(()) }
        }),
        "memset_async" => x.memset_async(0, one.address(), &[1, 2], 4096, none),
        "memcpy_3d_async" => {
            let copy = LlaisysCopy3D {
                struct_size: size_of::<LlaisysCopy3D>() as u32,
                kind: MemcpyKind::D2D as u32,
                dst: one.address().pointer(),
                dst_pitch: 64,
                dst_slice_height: 8,
                src: two.address().pointer(),
                src_pitch: 32,
                src_slice_height: 8,
                width: 16,
                height: 8,
                depth: 2,
            };
            x.memcpy_3d_async(0, &copy, none)
        }
        "memcpy_batch_async" => {
            let (dst, src) = (one.address().pointer(), two.address().pointer());
            let ranges = &[LlaisysCopyRange { dst, src, size: 64 }];
            let kind = MemcpyKind::D2D as u32;
            x.memcpy_batch_async(0, Batch { ranges, kind, flags: CopyFlags::NONE }, none)
        }
        "get_reserved_memory" => x.get_reserved_memory(0).map(drop),
        "trim_memory" => x.trim_memory(0, u64::MAX),
        _ => return Err(Stop::fail(format!("the suite does not know how to try {name}"))),
    };
    plugin.ok(x.stream_synchronize(0, none), "stream_synchronize")?;
    Ok(answer)
}

/// Checks that a backend without a capability really does not have it: each operation of it that can be
/// tried is NULL, past the end, or answers `NOT_SUPPORTED`.
pub fn expect_missing(plugin: &'static Plugin, group: Capabilities) -> Checked {
    for (_, names) in PROBES.iter().filter(|(bit, _)| *bit == group) {
        for name in names.iter().filter(|name| plugin.has(name)) {
            let answer = probe(plugin, name)?;
            ensure!(
                answer == Err(Code::from(Status::NotSupported)),
                "{} is not claimed: expected {name} to be NULL or NOT_SUPPORTED, found {answer:?}",
                group.name()
            );
            plugin.slot()?;
        }
    }
    Ok(())
}

fn a_claimed_operation_does_not_answer_that_it_is_missing(plugin: &'static Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices()?;
    // What the device says of itself is narrower than what the plugin can do with the best of them.
    let properties = plugin.has("get_device_properties").then(|| plugin.x.get_device_properties(0));
    let own = match properties {
        Some(Ok(properties)) if properties.capabilities != 0 => {
            Capabilities(properties.capabilities)
        }
        _ => plugin.capabilities,
    };
    for (group, names) in PROBES {
        if !plugin.capabilities.contains(group) || !own.contains(group) {
            continue;
        }
        for name in names.iter().filter(|name| plugin.has(name)) {
            let answer = probe(plugin, name)?;
            plugin.ok(answer, &format!("{} is claimed, {name}", group.name()))?;
        }
    }
    Ok(())
}

fn an_operation_that_is_not_claimed_is_null_or_answers_so(plugin: &'static Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices()?;
    for (group, _) in PROBES {
        if !plugin.capabilities.contains(group) {
            expect_missing(plugin, group)?;
        }
    }
    Ok(())
}

fn the_table_and_the_descriptor_claim_the_same(plugin: &'static Plugin) -> Checked {
    if !plugin.has("get_capabilities") {
        // The loader reads the descriptor.
        return Ok(());
    }
    let found = plugin.ok(plugin.x.get_capabilities(), "get_capabilities")?;
    ensure_eq!(found, plugin.capabilities, "get_capabilities, and the descriptor's");
    Ok(())
}

fn the_count_is_the_same_again_and_from_every_thread(plugin: &'static Plugin) -> Checked {
    let expected = plugin.x.get_device_count();
    if let Ok(count) = expected {
        ensure!(count >= 0, "the count is {count}");
    }
    for _ in 0..100 {
        ensure_eq!(plugin.x.get_device_count(), expected, "the count, asked again");
    }
    for _ in 0..4 {
        let other = std::thread::spawn(|| plugin.x.get_device_count());
        let found = other.join().map_err(|_| Stop::fail("the count let a panic out"))?;
        ensure_eq!(found, expected, "the count, from another thread");
    }
    plugin.slot().map(drop)
}

fn initializing_answers_the_count_and_again(plugin: &'static Plugin) -> Checked {
    let count = plugin.devices()?;
    if plugin.has("initialize") {
        for _ in 0..3 {
            ensure_eq!(plugin.ok(plugin.x.initialize(), "initialize")?, count, "initialize");
        }
    }
    ensure_eq!(plugin.devices()?, count, "the count after the driver was made ready");
    Ok(())
}

fn every_device_can_be_bound_to_every_thread(plugin: &'static Plugin) -> Checked {
    plugin.initialize()?;
    let count = plugin.devices()?;
    let bind = move || -> Checked {
        for device in (0..count).chain((0..count).rev()) {
            plugin.ok(plugin.x.set_device(device), &format!("set_device({device})"))?;
        }
        Ok(())
    };
    bind()?;
    let other = std::thread::spawn(bind);
    other.join().map_err(|_| Stop::fail("set_device let a panic out"))?
}

fn every_device_works_whichever_is_bound(plugin: &'static Plugin) -> Checked {
    plugin.initialize()?;
    let count = plugin.devices()?;
    for bound in 0..count {
        plugin.ok(plugin.x.set_device(bound), "set_device")?;
        for device in 0..count {
            let block = plugin.ok(plugin.x.malloc_device(device, 4096), "malloc_device")?;
            let stream = plugin.ok(plugin.x.create_stream(device), "create_stream")?;
            plugin.ok(plugin.x.stream_synchronize(device, stream), "stream_synchronize")?;
            plugin.ok(plugin.x.destroy_stream(device, stream), "destroy_stream")?;
            plugin.ok(plugin.x.free_device(device, block), "free_device")?;
            plugin.ok(plugin.x.device_synchronize(device), "device_synchronize")?;
        }
    }
    Ok(())
}

fn a_devices_own_capabilities_are_among_the_plugins(plugin: &'static Plugin) -> Checked {
    for device in 0..plugin.devices()? {
        let found = plugin.ok(plugin.x.get_device_properties(device), "get_device_properties")?;
        let more = found.capabilities & !plugin.capabilities.0;
        ensure!(more == 0, "device {device} claims {more:#x}, which the plugin does not");
    }
    Ok(())
}
