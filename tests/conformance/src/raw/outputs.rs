//! What the plugin writes, and where: outputs on success alone, structs no longer than the caller's (P3).

use super::Plugin;
use crate::case::Area;
use crate::code::Code;
use crate::outcome::Checked;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{
    LlaisysDeviceProperties, LlaisysMemoryInfo, Stream, UNKNOWN_BYTES, read_text,
};
use std::ffi::c_void;
use std::ptr;

raw_cases! { Area::RawOutputs;
    "E1" device_memory_that_is_not_to_be_had_writes_nothing [];
    "E1" pinned_memory_that_is_not_to_be_had_writes_nothing [];
    "E1" stream_ordered_memory_that_is_not_to_be_had_writes_nothing [STREAM_ORDERED_MEMORY];
    "E1" managed_memory_that_is_not_to_be_had_writes_nothing [MANAGED_MEMORY];
    "E1" every_output_is_written_on_success [];
    "P3" device_properties_are_written_up_to_the_callers_size [DEVICE_INFORMATION];
    "P3" memory_information_is_written_up_to_the_callers_size [DEVICE_INFORMATION];
    "P3" a_struct_from_a_newer_host_keeps_its_tail [DEVICE_INFORMATION];
    "D4" what_a_device_is_can_be_read [DEVICE_INFORMATION];
    "S5" a_query_writes_a_yes_or_a_no [STREAM_QUERY];
}

/// More than any machine has, and still an address space's worth: the core lets it through.
pub const TOO_LARGE: u64 = 1 << 46;
/// What an output holds before the call.
const UNTOUCHED: *mut c_void = ptr::without_provenance_mut(0x5eed_0000_beef);

/// Asks for too much, and looks at the status, the output and the text.
fn refused(
    plugin: &'static Plugin,
    operation: &str,
    call: impl Fn(*mut *mut c_void) -> i32,
) -> Checked {
    plugin.initialize()?;
    plugin.devices()?;
    for size in ["2^46 bytes", "2^46 bytes again"] {
        let mut output = UNTOUCHED;
        let code = Code(call(&mut output));
        ensure_eq!(code, Code::from(Status::OutOfMemory), "{operation} of {size}");
        ensure!(output == UNTOUCHED, "{operation} of {size} failed and wrote its output");
        let slot = plugin.slot()?;
        ensure!(!slot.message.is_empty(), "{operation} of {size} failed and left no text");
    }
    Ok(())
}

fn device_memory_that_is_not_to_be_had_writes_nothing(plugin: &'static Plugin) -> Checked {
    let x = plugin.x.raw;
    // SAFETY: the table's own `self`; the output is the closure's caller's.
    refused(plugin, "malloc_device", |to| unsafe { (x.malloc_device)(x.self_, 0, TOO_LARGE, to) })
}

fn pinned_memory_that_is_not_to_be_had_writes_nothing(plugin: &'static Plugin) -> Checked {
    let x = plugin.x.raw;
    // SAFETY: as above.
    refused(plugin, "malloc_host", |to| unsafe { (x.malloc_host)(x.self_, 0, TOO_LARGE, to) })
}

fn stream_ordered_memory_that_is_not_to_be_had_writes_nothing(plugin: &'static Plugin) -> Checked {
    let x = plugin.x.raw;
    // SAFETY: as above; the default stream.
    refused(plugin, "malloc_async", |to| unsafe {
        (x.malloc_async)(x.self_, 0, TOO_LARGE, Stream::DEFAULT, to)
    })
}

fn managed_memory_that_is_not_to_be_had_writes_nothing(plugin: &'static Plugin) -> Checked {
    let x = plugin.x.raw;
    // SAFETY: as above.
    refused(plugin, "malloc_managed", |to| unsafe { (x.malloc_managed)(x.self_, 0, TOO_LARGE, to) })
}

fn every_output_is_written_on_success(plugin: &'static Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices()?;
    let x = plugin.x.raw;
    for (name, make, free) in [
        ("malloc_device", x.malloc_device, x.free_device),
        ("malloc_host", x.malloc_host, x.free_host),
    ] {
        let mut output = UNTOUCHED;
        // SAFETY: the table's own `self`; the output is ours.
        plugin.ok(Code(unsafe { make(x.self_, 0, 64, &mut output) }).result(), name)?;
        ensure!(output != UNTOUCHED, "{name} succeeded and did not write its output");
        ensure!(!output.is_null(), "{name} succeeded and wrote NULL");
        // SAFETY: the table's own `self`; the block that was just made.
        plugin.ok(Code(unsafe { free(x.self_, 0, output) }).result(), "the free")?;
    }
    let mut stream = Stream(UNTOUCHED);
    // SAFETY: as above.
    plugin.ok(Code(unsafe { (x.create_stream)(x.self_, 0, &mut stream) }).result(), "a stream")?;
    ensure!(stream.0 != UNTOUCHED, "create_stream succeeded and did not write its output");
    plugin.destroy(stream)?;
    let mut count = -77;
    // SAFETY: as above.
    plugin.ok(Code(unsafe { (x.get_device_count)(x.self_, &mut count) }).result(), "the count")?;
    ensure!(count >= 0, "get_device_count succeeded and wrote {count}");
    Ok(())
}

/// Calls with a struct of which the caller knows `size` bytes, in a buffer that ends far behind; answers
/// the buffer.
fn written(
    plugin: &'static Plugin,
    operation: &str,
    size: usize,
    call: impl Fn(*mut c_void) -> i32,
) -> Checked<Vec<u8>> {
    // Of words, so that it is aligned as the struct is.
    let mut buffer = vec![0xa5a5_a5a5_a5a5_a5a5u64; 4096 / 8];
    let to = buffer.as_mut_ptr();
    // SAFETY: inside the buffer.
    unsafe { to.cast::<u32>().write(size as u32) };
    let what = format!("{operation} with struct_size {size}");
    plugin.ok(Code(call(to.cast())).result(), &what)?;
    let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let tail = bytes[size..].iter().position(|byte| *byte != 0xa5);
    if let Some(at) = tail {
        fail!("{what}: byte {} was written, behind the caller's struct", size + at);
    }
    Ok(bytes)
}

fn device_properties_are_written_up_to_the_callers_size(plugin: &'static Plugin) -> Checked {
    let (x, whole) = (plugin.x.raw, size_of::<LlaisysDeviceProperties>());
    // SAFETY: the table's own `self`; the buffer is longer than the size in its first field.
    let call = |to: *mut c_void| unsafe { (x.get_device_properties)(x.self_, 0, to.cast()) };
    plugin.devices()?;
    let all = written(plugin, "get_device_properties", whole, call)?;
    for size in (4..whole).step_by(4) {
        let part = written(plugin, "get_device_properties", size, call)?;
        ensure!(part[4..size] == all[4..size], "with struct_size {size} another answer came");
    }
    Ok(())
}

fn memory_information_is_written_up_to_the_callers_size(plugin: &'static Plugin) -> Checked {
    let (x, whole) = (plugin.x.raw, size_of::<LlaisysMemoryInfo>());
    // SAFETY: as above.
    let call = |to: *mut c_void| unsafe { (x.get_memory_info)(x.self_, 0, to.cast()) };
    plugin.devices()?;
    for size in (4..=whole).step_by(4) {
        written(plugin, "get_memory_info", size, call)?;
    }
    Ok(())
}

fn a_struct_from_a_newer_host_keeps_its_tail(plugin: &'static Plugin) -> Checked {
    let x = plugin.x.raw;
    // SAFETY: as above.
    let call = |to: *mut c_void| unsafe { (x.get_device_properties)(x.self_, 0, to.cast()) };
    plugin.devices()?;
    let bytes = written(plugin, "get_device_properties", 2048, call)?;
    let known = size_of::<LlaisysDeviceProperties>();
    let tail = bytes[known..].iter().position(|byte| *byte != 0xa5);
    ensure!(tail.is_none(), "what only a newer host knows was written, at {tail:?}");
    ensure_eq!(bytes[..4], 2048u32.to_ne_bytes()[..], "the caller's struct_size");
    Ok(())
}

fn what_a_device_is_can_be_read(plugin: &'static Plugin) -> Checked {
    for device in 0..plugin.devices()? {
        let found = plugin.ok(plugin.x.get_device_properties(device), "get_device_properties")?;
        for (field, text) in [
            ("name", &found.name[..]),
            ("vendor", &found.vendor[..]),
            ("pci_address", &found.pci_address[..]),
            ("cpu_features", &found.cpu_features[..]),
        ] {
            ensure!(text.contains(&0), "device {device}: {field} has no end");
        }
        ensure!(!read_text(&found.name).is_empty(), "device {device} has no name");
        let info = plugin.ok(plugin.x.get_memory_info(device), "get_memory_info")?;
        ensure!(
            info.free <= info.total || info.free == UNKNOWN_BYTES,
            "device {device}: {} of {} bytes are free",
            info.free,
            info.total
        );
    }
    Ok(())
}

fn a_query_writes_a_yes_or_a_no(plugin: &'static Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices()?;
    let (x, stream) = (plugin.x.raw, plugin.stream()?);
    plugin.wait(stream)?;
    let mut ready = -77;
    // SAFETY: the table's own `self`; a live stream; the output is ours.
    let code = Code(unsafe { (x.stream_query)(x.self_, 0, stream, &mut ready) });
    plugin.ok(code.result(), "stream_query")?;
    ensure_eq!(ready, 1, "what stream_query wrote for an idle stream");
    plugin.destroy(stream)
}
