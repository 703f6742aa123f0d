//! Tables of other sizes and of other makers (P3, P4).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::elf;
use crate::extended::Copy;
use crate::outcome::{Checked, Stop};
use crate::plugin_file::Workshop;
use crate::program::Bare;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::abi::{
    ABI_MAJOR, ABI_MINOR, DESCRIPTOR_MAGIC, LlaisysBackendAPI, LlaisysBackendQuery,
};
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Stream};
use std::path::Path;

cases! { Area::Plugins;
    "P3" another_major_version_is_refused [Compiler];
    "P3" a_plugin_that_wants_a_newer_host_is_refused [Compiler];
    "P3" a_table_with_only_the_twelve_works [Compiler];
    "P3" a_table_shorter_than_the_twelve_is_refused [Compiler];
    "P3" tables_and_descriptors_longer_than_ours_work [Compiler];
    "P3" a_newer_minor_version_works [Compiler];
    "P3" a_missing_operation_of_the_twelve_is_refused [Compiler];
    "P3" a_missing_optional_entry_is_not_supported [Compiler];
    "P3" a_capability_that_lies_is_refused [Compiler];
    "P3" nothing_is_called_before_the_checks_are_over [Compiler];
    "P3" every_argument_arrives_in_its_place [Compiler];
    "P4" two_plugins_with_equal_inner_names_do_not_meet [Compiler];
    "P4" a_plugins_symbols_are_not_visible_to_others [Compiler];
    "P4" the_plugin_under_test_exports_one_symbol [Plugin];
    "P3" the_query_of_the_plugin_under_test_is_pure [Plugin];
    "P4" the_library_exports_only_its_own_names [];
}

programs![
    only_the_twelve,
    without_optional_entries,
    repeat_the_arguments,
    tell_helpers_apart,
    look_for_symbols,
];

/// Loads a plugin with these macros: refused with this status and these words.
fn refused(context: &'static Context, defines: &[&str], status: Status, words: &str) -> Checked {
    let shop = Workshop::new(context)?;
    let path = shop.plugin("plugin.so", defines)?;
    let load = format!("load={}", path.display());
    let survey = shop.survey(shop.launch("survey"), &[&load, "cpu"])?;
    survey.expect(0, status, words).map_err(|stop| stop.at(format!("{defines:?}")))?;
    survey.expect_cpu(1)
}

/// Runs a program on a plugin with these macros.
pub(super) fn with_plugin(context: &'static Context, defines: &[&str], program: &str) -> Checked {
    let shop = Workshop::new(context)?;
    let path = shop.plugin("plugin.so", defines)?;
    shop.launch(program).argument(path).run()?.expect_success()
}

fn another_major_version_is_refused(context: &'static Context) -> Checked {
    for major in ["0", "2", "99", "0xffffffff"] {
        let define = format!("MAJOR={major}");
        refused(context, &[&define], Status::AbiMismatch, "ABI")?;
        let define = format!("TABLE_MAJOR={major}");
        refused(context, &[&define], Status::AbiMismatch, "table")?;
    }
    Ok(())
}

fn a_plugin_that_wants_a_newer_host_is_refused(context: &'static Context) -> Checked {
    let define = format!("OLDEST_HOST_MINOR={}", ABI_MINOR + 1);
    refused(context, &[&define], Status::AbiMismatch, "newer")
}

/// The twelve of a plugin's device work.
pub(super) fn the_twelve_work(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 10_000);
    let mut back = vec![0; 10_000];
    for device in 0..context.count {
        context.set_device(device)?;
        let stream = context.stream()?;
        let block = context.t.malloc_device(10_000);
        let pinned = context.t.malloc_host(10_000);
        context.enqueue(block, Address::of(&bytes), 10_000, MemcpyKind::H2D, stream)?;
        context.enqueue(pinned, block, 10_000, MemcpyKind::D2H, stream)?;
        context.wait(stream)?;
        context.copy(Address::of_mut(&mut back), pinned, 10_000, MemcpyKind::H2H)?;
        ensure!(back == bytes, "the copies on device {device} did not arrive");
        context.t.device_synchronize();
        context.t.free_device(block);
        context.t.free_host(pinned);
        context.destroy(stream)?;
    }
    Ok(())
}

/// Each optional entry answers `NOT_SUPPORTED`.
fn nothing_optional(context: &'static Context) -> Checked {
    unsafe extern "C" fn never(_: *mut std::ffi::c_void) {
        std::process::abort();
    }
    let (x, none) = (&context.x, Status::NotSupported);
    let what = "an entry that the plugin does not have";
    context.answered(x.get_device_properties(0).map(drop), "get_device_properties", none, what)?;
    context.answered(x.get_memory_info(0).map(drop), "get_memory_info", none, what)?;
    context.answered(x.stream_query(0, Stream::DEFAULT), "stream_query", none, what)?;
    // SAFETY: `never` may be called from anywhere.
    let launched =
        unsafe { x.launch_host_function(0, Stream::DEFAULT, never, std::ptr::null_mut()) };
    context.answered(launched, "launch_host_function", none, what)?;
    context.answered(x.is_device_memory(0, Address(0x1000)), "is_device_memory", none, what)?;
    Ok(())
}

fn only_the_twelve(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    the_twelve_work(context)?;
    nothing_optional(context)?;
    Ok(0)
}

fn a_table_with_only_the_twelve_works(context: &'static Context) -> Checked {
    let size = "TABLE_SIZE=offsetof(LlaisysBackendAPI,get_device_properties)";
    let capabilities = "CAPABILITIES=LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY";
    with_plugin(context, &[size, capabilities], "only_the_twelve")
}

fn a_table_shorter_than_the_twelve_is_refused(context: &'static Context) -> Checked {
    for size in ["0", "4", "16", "24", "offsetof(LlaisysBackendAPI,memcpy_async)"] {
        let define = format!("TABLE_SIZE={size}");
        refused(context, &[&define, "CAPABILITIES=0"], Status::AbiMismatch, "bytes")?;
    }
    let define = "DESCRIPTOR_SIZE=offsetof(LlaisysBackendDescriptor,api)";
    refused(context, &[define], Status::AbiMismatch, "bytes")?;
    refused(context, &["DESCRIPTOR_SIZE=0"], Status::AbiMismatch, "bytes")
}

fn whole(context: &'static Context, defines: &[&str]) -> Checked {
    let shop = Workshop::new(context)?;
    let path = shop.plugin("plugin.so", defines)?;
    let load = format!("load={}", path.display());
    let survey = shop.survey(shop.launch("survey"), &[&load, "use=32", "count=32"])?;
    survey.expect(0, Status::Success, "")?;
    survey.expect(1, Status::Success, "")?;
    ensure_eq!(survey.number(2, "count")?, 2, "its devices");
    Ok(())
}

fn tables_and_descriptors_longer_than_ours_work(context: &'static Context) -> Checked {
    // As it stands the source has a longer table and a longer descriptor, whose tail is deadly.
    whole(context, &[])?;
    let table = "TABLE_SIZE=0x7fffffff";
    whole(context, &[table, "DESCRIPTOR_SIZE=0x7fffffff"])?;
    // And exactly ours.
    whole(context, &["TABLE_SIZE=sizeof(LlaisysBackendAPI)"])
}

fn a_newer_minor_version_works(context: &'static Context) -> Checked {
    whole(context, &["MINOR=7"])?;
    whole(context, &["MINOR=0xffffffff"])
}

fn a_missing_operation_of_the_twelve_is_refused(context: &'static Context) -> Checked {
    for entry in ["get_last_error", "memcpy_sync"] {
        refused(context, &[&format!("ENTRY_{entry}=NULL")], Status::AbiMismatch, entry)?;
    }
    Ok(())
}

fn without_optional_entries(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    the_twelve_work(context)?;
    let none = Status::NotSupported;
    let properties = context.x.get_device_properties(0).map(drop);
    context.answered(properties, "get_device_properties", none, "a NULL entry")?;
    let query = context.x.stream_query(0, Stream::DEFAULT);
    context.answered(query, "stream_query", none, "a NULL entry")?;
    // A capability is claimed for a group as a whole: beside a NULL entry the others are not there either.
    let memory = context.x.get_memory_info(0).map(drop);
    context.answered(memory, "get_memory_info", none, "an entry whose group is not claimed")?;
    Ok(0)
}

fn a_missing_optional_entry_is_not_supported(context: &'static Context) -> Checked {
    let defines = [
        "ENTRY_get_device_properties=NULL",
        "ENTRY_stream_query=NULL",
        "CAPABILITIES=LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY",
    ];
    with_plugin(context, &defines, "without_optional_entries")
}

fn a_capability_that_lies_is_refused(context: &'static Context) -> Checked {
    for entry in ["get_device_properties", "stream_query", "launch_host_function"] {
        refused(context, &[&format!("ENTRY_{entry}=NULL")], Status::AbiMismatch, entry)?;
    }
    let capabilities = "CAPABILITIES=LLAISYS_CAPABILITY_POINTER_QUERY";
    refused(context, &[capabilities], Status::AbiMismatch, "is_device_memory")?;
    let short = "TABLE_SIZE=offsetof(LlaisysBackendAPI,get_device_properties)";
    refused(context, &[short], Status::AbiMismatch, "capability")
}

fn nothing_is_called_before_the_checks_are_over(context: &'static Context) -> Checked {
    // Every function of these ends the process.
    let deadly = "ENTER(device)=abort()";
    let shop = Workshop::new(context)?;
    let lie = shop.plugin("lie.so", &[deadly, "ENTRY_stream_query=NULL", "NAME=\"lie\""])?;
    let short = shop.plugin("short.so", &[deadly, "TABLE_SIZE=64", "NAME=\"short\""])?;
    let taken = shop.plugin("taken.so", &[deadly, "NAME=\"cpu\""])?;
    let whole = shop.plugin("whole.so", &[deadly, "NAME=\"whole\""])?;
    let commands: Vec<String> =
        [&lie, &short, &taken, &whole].iter().map(|p| format!("load={}", p.display())).collect();
    let mut words: Vec<&str> = commands.iter().map(String::as_str).collect();
    // Loading one that is right calls nothing either; only its use does.
    words.extend(["candidates", "cpu", "table=32", "name=32"]);
    let survey = shop.survey(shop.launch("survey"), &words)?;
    survey.expect(0, Status::AbiMismatch, "")?;
    survey.expect(1, Status::AbiMismatch, "")?;
    survey.expect(2, Status::BackendRefused, "")?;
    survey.expect(3, Status::Success, "")?;
    survey.expect_cpu(5)?;
    survey.expect(6, Status::Success, "")?;
    let launch = shop.launch("survey").argument(format!("load={}", whole.display()));
    let ended = launch.argument("use=32").run()?;
    ensure_eq!(ended.signal, Some(libc::SIGABRT), "the proof that it is deadly; {}", ended.story());
    Ok(())
}

fn repeat_the_arguments(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    let device = context.count - 1;
    let stream = context.ok(context.x.create_stream(device), "create_stream")?;
    let to = context.ok(context.x.malloc_device(device, 4096), "malloc_device")?;
    let from = context.ok(context.x.malloc_host(device, 4096), "malloc_host")?;
    for kind in MemcpyKind::ALL {
        for (on, word) in [(stream, stream.0 as usize), (Stream::DEFAULT, 0)] {
            for flags in [CopyFlags::NONE, CopyFlags::HOST_BUFFER_PROMISED] {
                let copy = Copy::new(to, from, 777, kind).with(flags);
                let answer = context.x.memcpy_async(device, copy, on);
                let failure = context.answered(answer, "memcpy_async", Status::InvalidValue, "")?;
                let right = format!(
                    "device={device} dst={} src={} size=777 kind={} stream={word} flags={}",
                    to.0, from.0, kind as u32, flags.0
                );
                ensure_eq!(failure.message, right, "what the plugin got");
            }
        }
        let answer = context.x.memcpy_sync(device, Copy::new(to, from, 777, kind));
        let failure = context.answered(answer, "memcpy_sync", Status::InvalidValue, "")?;
        let right =
            format!("device={device} dst={} src={} size=777 kind={}", to.0, from.0, kind as u32);
        ensure!(failure.message.starts_with(&right), "{right}, found {}", failure.message);
    }
    // And through the twelve, where the device is the current one and the stream's own.
    context.set_device(0)?;
    context.t.enqueue(to, from, 777, MemcpyKind::H2D, stream);
    let failure = context.refused("memcpy_async", Status::InvalidValue, "through the twelve")?;
    let right = format!("device={device} dst={} src={} size=777 kind=1", to.0, from.0);
    ensure!(failure.message.starts_with(&right), "{right}, found {}", failure.message);
    let name = context.ok(context.x.get_device_properties(device), "get_device_properties")?;
    let name = llaisys_runtime_core::api::read_text(&name.name);
    ensure_eq!(name, format!("plain {device}"), "the device whose properties were asked for");
    Ok(0)
}

fn every_argument_arrives_in_its_place(context: &'static Context) -> Checked {
    with_plugin(context, &[], "repeat_the_arguments")
}

fn tell_helpers_apart(bare: &Bare) -> Checked<i32> {
    for (index, right) in [(0, bare.argument(2)?), (1, bare.argument(3)?)] {
        let context = bare.plugin(bare.argument(index)?)?;
        let properties = context.ok(context.x.get_device_properties(0), "properties")?;
        let found = properties.processor_count.to_string();
        ensure_eq!(found, right, "what helper() of plugin {index} says");
    }
    Ok(0)
}

fn two_plugins_with_equal_inner_names_do_not_meet(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let one = shop.plugin("one.so", &["NAME=\"one\"", "HELPER=111"])?;
    let two = shop.plugin("two.so", &["NAME=\"two\"", "HELPER=222"])?;
    for (first, second, words) in [(&one, &two, ["111", "222"]), (&two, &one, ["222", "111"])] {
        let launch = shop.launch("tell_helpers_apart").argument(first).argument(second);
        launch.argument(words[0]).argument(words[1]).run()?.expect_success()?;
    }
    Ok(())
}

fn look_for_symbols(bare: &Bare) -> Checked<i32> {
    bare.plugin(bare.argument(0)?)?;
    for name in [c"llaisysBackendQuery", c"helper", c"helper_state"] {
        // SAFETY: looks a name up.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        ensure!(found.is_null(), "{name:?} of a plugin is visible to the whole process");
    }
    Ok(0)
}

fn a_plugins_symbols_are_not_visible_to_others(context: &'static Context) -> Checked {
    with_plugin(context, &[], "look_for_symbols")
}

fn the_plugin_under_test_exports_one_symbol(context: &'static Context) -> Checked {
    let names = elf::exported(Path::new(&context.candidate.path))?;
    ensure_eq!(names, vec!["llaisysBackendQuery".to_owned()], "what the plugin exports");
    Ok(())
}

fn the_query_of_the_plugin_under_test_is_pure(context: &'static Context) -> Checked {
    let path = Path::new(&context.candidate.path);
    // SAFETY: the runtime has opened the same file before, so no constructor runs.
    let plugin = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| Stop::fail(error.to_string()))?;
    // SAFETY: by the rules for plugins the symbol has this type.
    let query = unsafe { plugin.get::<LlaisysBackendQuery>(b"llaisysBackendQuery") }
        .map(|symbol| *symbol)
        .map_err(|error| Stop::fail(error.to_string()))?;
    // SAFETY: a pure query.
    let first = unsafe { query(ABI_MAJOR, ABI_MINOR) };
    // SAFETY: NULL or a constant descriptor.
    let descriptor = unsafe { first.as_ref() };
    let descriptor = descriptor.ok_or_else(|| Stop::fail("the query now says NULL"))?;
    ensure_eq!(descriptor.magic, DESCRIPTOR_MAGIC, "the magic");
    for _ in 0..100 {
        // SAFETY: a pure query.
        ensure!(unsafe { query(ABI_MAJOR, ABI_MINOR) } == first, "the query answers differently");
    }
    for major in [0, ABI_MAJOR + 1, u32::MAX] {
        // SAFETY: a pure query.
        let answer = unsafe { query(major, 0).as_ref() };
        // It may also leave the judgement to the host, by its own version.
        let right = answer.is_none_or(|descriptor| descriptor.abi_major != major);
        ensure!(right, "the query accepts a host of major version {major}");
    }
    // SAFETY: the table of a descriptor is constant.
    let table = unsafe { descriptor.api.as_ref() };
    let table = table.ok_or_else(|| Stop::fail("the descriptor names no table"))?;
    ensure!(table.struct_size as usize <= 2 * size_of::<LlaisysBackendAPI>(), "the table's size");
    ensure_eq!(descriptor.capabilities, context.capabilities.0, "the capabilities");
    Ok(())
}

fn the_library_exports_only_its_own_names(context: &'static Context) -> Checked {
    let names = elf::exported(&context.setup.library)?;
    ensure!(names.len() >= 16, "expected at least 16 functions, found {names:?}");
    let foreign: Vec<_> = names.iter().filter(|name| !name.starts_with("llaisys")).collect();
    ensure!(foreign.is_empty(), "the library exports {foreign:?}");
    Ok(())
}
