//! What a device and the library say of themselves (D6, P3).

use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::extended::Extended;
use crate::outcome::{Checked, Stop};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::abi::ABI_MAJOR;
use llaisys_runtime_core::api::{
    LlaisysDeviceProperties, LlaisysMemoryInfo, UNKNOWN_BYTES, read_text,
};
use std::collections::HashSet;

cases! { Area::Devices;
    "D6" what_a_device_is_does_not_change_and_two_devices_differ [DeviceInformation, SecondDevice];
    "P3" properties_are_written_up_to_the_size_that_the_caller_knows [DeviceInformation];
    "P3" memory_information_agrees_with_the_properties [DeviceInformation];
    "E3" the_library_and_its_tables_agree_on_the_version [];
}

fn what_a_device_is_does_not_change_and_two_devices_differ(context: &'static Context) -> Checked {
    let mut identifiers = HashSet::new();
    for device in 0..context.count {
        let first = context.ok(context.x.get_device_properties(device), "properties")?;
        let again = context.ok(context.x.get_device_properties(device), "properties")?;
        ensure!(!read_text(&first.name).is_empty(), "device {device} has no name");
        ensure_eq!(first.uuid, again.uuid, "the identifier of device {device}");
        ensure_eq!(first.total_memory, again.total_memory, "the memory of device {device}");
        if first.uuid != [0; 16] {
            ensure!(
                identifiers.insert(first.uuid),
                "devices {device} and an earlier one have the identifier {:02x?}",
                first.uuid
            );
        }
    }
    Ok(())
}

/// Calls an output function with a struct that ends after `size` bytes, and expects that what lies
/// behind stays as it is.
fn written_up_to(
    context: &'static Context,
    size: usize,
    whole: usize,
    call: impl Fn(&Extended, *mut u8) -> i32,
) -> Checked<Vec<u8>> {
    // Words, so that the struct is aligned.
    let mut words = vec![0xa5a5_a5a5_a5a5_a5a5u64; whole.div_ceil(8) + 8];
    let bytes = words.as_mut_ptr().cast::<u8>();
    // SAFETY: the words are more than four bytes.
    unsafe { bytes.cast::<u32>().write(size as u32) };
    let code = Code(call(&context.x, bytes));
    ensure_eq!(code, Code::SUCCESS, "with a struct of {size} bytes");
    let found: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    ensure_eq!(found[..4], (size as u32).to_le_bytes(), "struct_size after the call");
    let end = size.min(whole);
    let untouched = found[end..].iter().all(|byte| *byte == 0xa5);
    ensure!(untouched, "with a struct of {size} bytes, what lies behind it was written");
    Ok(found[4..end].to_vec())
}

fn properties_are_written_up_to_the_size_that_the_caller_knows(
    context: &'static Context,
) -> Checked {
    let whole = size_of::<LlaisysDeviceProperties>();
    let call = |x: &Extended, to: *mut u8| {
        // SAFETY: the struct has as many bytes as it says, and more.
        unsafe { (x.raw.get_device_properties)(x.this(), 0, to.cast()) }
    };
    let all = written_up_to(context, whole, whole, call)?;
    for size in [4, 8, 16, 20, whole - 1, whole + 1, whole + 40] {
        let part = written_up_to(context, size, whole, call)?;
        ensure_eq!(part[..], all[..part.len()], "what a struct of {size} bytes gets");
    }
    let mut empty = LlaisysDeviceProperties::new();
    for size in 0..4 {
        empty.struct_size = size;
        // SAFETY: the struct is ours, and larger than it says.
        let code =
            Code(unsafe { (context.x.raw.get_device_properties)(context.x.this(), 0, &mut empty) });
        ensure_eq!(code, Code::from(Status::InvalidValue), "with struct_size {size}");
        context.refused("get_device_properties", Status::InvalidValue, "a struct without size")?;
    }
    Ok(())
}

fn memory_information_agrees_with_the_properties(context: &'static Context) -> Checked {
    for device in 0..context.count {
        let info = context.ok(context.x.get_memory_info(device), "get_memory_info")?;
        let properties = context.ok(context.x.get_device_properties(device), "properties")?;
        ensure!(info.total > 0, "device {device} has no memory");
        ensure_eq!(info.total, properties.total_memory, "the memory of device {device}");
        ensure!(
            info.free == UNKNOWN_BYTES || info.free <= info.total,
            "device {device}: {} bytes are free of {}",
            info.free,
            info.total
        );
    }
    let whole = size_of::<LlaisysMemoryInfo>();
    for size in [4, 8, 16, whole + 16] {
        written_up_to(context, size, whole, |x, to| {
            // SAFETY: the struct has as many bytes as it says, and more.
            unsafe { (x.raw.get_memory_info)(x.this(), 0, to.cast()) }
        })?;
    }
    Ok(())
}

fn the_library_and_its_tables_agree_on_the_version(context: &'static Context) -> Checked {
    // SAFETY: takes nothing.
    let version = unsafe { (context.library.call.get_abi_version)() };
    ensure_eq!(version >> 16, ABI_MAJOR, "the major version of the library's ABI");
    let raw = context.x.raw;
    ensure_eq!((raw.abi_major, raw.abi_minor), (version >> 16, version & 0xffff), "the table's");
    let text = context.library.version().map_err(Stop::fail)?;
    ensure!(text.split('.').count() >= 3, "expected a version like 1.2.3, found {text:?}");
    Ok(())
}
