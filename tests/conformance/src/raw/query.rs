//! The plugin's one symbol, and what the plugin says of itself (P3, P4).

use super::{Plugin, text};
use crate::case::Area;
use crate::elf;
use crate::footprint::Footprint;
use crate::outcome::{Checked, Stop};
use crate::program::Bare;
use crate::{sha256, subject};
use llaisys_runtime_core::abi::{
    ABI_MAJOR, ABI_MINOR, DEVICE_TYPE_UNASSIGNED, LlaisysBackendDescriptor, QUERY_SYMBOL,
};
use llaisys_runtime_core::device_type;
use serde_json::json;
use std::ptr;

raw_cases! { Area::RawQuery;
    "P4" the_file_exports_the_query_and_nothing_else [];
    "P3" opening_and_asking_starts_no_thread [];
    "P3" opening_and_asking_opens_no_file [];
    "P3" the_query_answers_the_same_again_and_from_every_thread [];
    "P3" another_major_version_is_not_served [];
    "P3" a_newer_host_of_the_same_major_is_served [];
    "P3" the_descriptor_says_who_it_is [];
    "P3" the_descriptors_numbers_have_a_meaning [];
    "P3" using_the_plugin_changes_neither_descriptor_nor_table [];
}

programs![tell_plugin, tell_use_of_the_plugin];

/// The program: prints what the plugin says of itself.
fn tell_plugin(bare: &Bare) -> Checked<i32> {
    let plugin = Plugin::open(bare.setup.clone(), "the report").map_err(Stop::fail)?;
    let about = plugin.descriptor;
    let path = bare.setup.plugin.clone().unwrap_or_default();
    let object = json!({
        "path": path,
        "name": text("name", about.name)?,
        "version": text("version", about.version)?,
        "vendor": text("vendor", about.vendor)?,
        "target": text("target", about.target)?,
        "abi": format!("{}.{}", about.abi_major, about.abi_minor),
        "capabilities": about.capabilities,
        "sha256": sha256::of_file(&path).map_err(Stop::fail)?,
        "devices": plugin.devices().unwrap_or(0),
        "properties": subject::properties(&plugin.x),
    });
    println!("{object}");
    Ok(0)
}

/// The program: prints what it takes to use every device.
fn tell_use_of_the_plugin(bare: &Bare) -> Checked<i32> {
    let plugin = Plugin::open(bare.setup.clone(), "the report").map_err(Stop::fail)?;
    let work = || {
        plugin.initialize()?;
        (0..plugin.devices()?).for_each(|device| subject::use_once(&plugin.x, device));
        Ok(())
    };
    println!("{}", Footprint::of_use(work, |trimmed| plugin.held(trimmed))?);
    Ok(0)
}

fn the_file_exports_the_query_and_nothing_else(plugin: &'static Plugin) -> Checked {
    let path = plugin.setup.plugin.clone().unwrap_or_default();
    ensure_eq!(elf::exported(&path)?, [QUERY_SYMBOL], "the exported symbols");
    Ok(())
}

fn opening_and_asking_starts_no_thread(plugin: &'static Plugin) -> Checked {
    let [before, after] = &plugin.start;
    ensure_eq!(after.0, before.0, "threads after dlopen and the query");
    Ok(())
}

fn opening_and_asking_opens_no_file(plugin: &'static Plugin) -> Checked {
    let [before, after] = &plugin.start;
    ensure_eq!(after.1, before.1, "open files after dlopen and the query");
    Ok(())
}

fn bytes_of<T>(value: &T) -> Vec<u8> {
    let from = ptr::from_ref(value).cast::<u8>();
    // SAFETY: a live value of this size, read as bytes; the structs asked about have no padding.
    unsafe { std::slice::from_raw_parts(from, size_of::<T>()) }.to_vec()
}

fn the_query_answers_the_same_again_and_from_every_thread(plugin: &'static Plugin) -> Checked {
    let expected = bytes_of(plugin.descriptor);
    let same = |found: Option<&'static LlaisysBackendDescriptor>, what: &str| -> Checked {
        let Some(found) = found else { fail!("{what}: the query returned NULL this time") };
        ensure!(ptr::eq(found, plugin.descriptor), "{what}: another descriptor came back");
        ensure!(bytes_of(found) == expected, "{what}: the descriptor has changed");
        Ok(())
    };
    for round in 0..100 {
        same(plugin.ask(ABI_MAJOR, ABI_MINOR), &format!("call {}", round + 2))?;
    }
    for number in 0..4 {
        let other = std::thread::spawn(move || plugin.ask(ABI_MAJOR, ABI_MINOR));
        let found = other.join().map_err(|_| Stop::fail("the query let a panic out"))?;
        same(found, &format!("thread {number}"))?;
    }
    Ok(())
}

fn another_major_version_is_not_served(plugin: &'static Plugin) -> Checked {
    for major in [0, ABI_MAJOR + 1, u32::MAX] {
        if let Some(found) = plugin.ask(major, ABI_MINOR) {
            // A descriptor that says another major is as good: the host refuses it.
            ensure!(found.abi_major != major, "a host of major {major} is told that it is served");
        }
    }
    ensure!(plugin.ask(ABI_MAJOR, ABI_MINOR).is_some(), "this host is not served afterwards");
    Ok(())
}

fn a_newer_host_of_the_same_major_is_served(plugin: &'static Plugin) -> Checked {
    for minor in [ABI_MINOR + 1, ABI_MINOR + 100, u32::MAX] {
        let Some(found) = plugin.ask(ABI_MAJOR, minor) else {
            fail!("a host with minor version {minor} is refused: minor versions only append");
        };
        ensure!(
            found.oldest_host_minor <= minor,
            "oldest_host_minor is {}, for a host with {minor}",
            found.oldest_host_minor
        );
    }
    Ok(())
}

fn the_descriptor_says_who_it_is(plugin: &'static Plugin) -> Checked {
    let about = plugin.descriptor;
    let name = text("name", about.name)?;
    let right = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-".contains(letter)
    };
    let fits = !name.is_empty() && name.len() < 32 && name.chars().all(right);
    ensure!(fits, "name: expected a short word in lower case, found {name:?}");
    for (field, found) in
        [("vendor", about.vendor), ("version", about.version), ("target", about.target)]
    {
        ensure!(!text(field, found)?.is_empty(), "{field}: expected a text, found an empty one");
    }
    Ok(())
}

fn the_descriptors_numbers_have_a_meaning(plugin: &'static Plugin) -> Checked {
    let about = plugin.descriptor;
    ensure!(
        about.oldest_host_minor <= about.abi_minor,
        "oldest_host_minor {} is newer than the plugin's own minor version {}",
        about.oldest_host_minor,
        about.abi_minor
    );
    ensure!(
        about.device_type == DEVICE_TYPE_UNASSIGNED
            || (0..device_type::LIMIT as i32).contains(&about.device_type),
        "device_type: expected -1 or 0..{}, found {}",
        device_type::LIMIT,
        about.device_type
    );
    ensure!(about.sanitizer <= 3, "sanitizer: expected 0..=3, found {}", about.sanitizer);
    Ok(())
}

fn using_the_plugin_changes_neither_descriptor_nor_table(plugin: &'static Plugin) -> Checked {
    let table = || {
        let from = plugin.descriptor.api.cast::<u8>();
        // SAFETY: the plugin's table has at least the size that its first field says.
        unsafe {
            let size = from.cast::<u32>().read_unaligned() as usize;
            std::slice::from_raw_parts(from, size).to_vec()
        }
    };
    let before = (bytes_of(plugin.descriptor), table());
    plugin.initialize()?;
    let count = plugin.devices()?;
    for device in 0..count {
        subject::use_once(&plugin.x, device);
    }
    ensure!(bytes_of(plugin.descriptor) == before.0, "the descriptor has changed by use");
    ensure!(table() == before.1, "the table has changed by use");
    Ok(())
}
