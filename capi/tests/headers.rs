//! The headers: what is committed is what the sources say, every language they promise takes them,
//! their numbers are the core's, and their examples run.

mod toolchain;

use llaisys_runtime::types;
use llaisys_runtime_core::abi::{ABI_MAJOR, ABI_MINOR, DESCRIPTOR_MAGIC, DEVICE_TYPE_UNASSIGNED};
use llaisys_runtime_core::abi::{LlaisysBackendAPI, LlaisysBackendDescriptor};
use llaisys_runtime_core::api::*;
use llaisys_runtime_core::entries::{ENTRIES, Entry, Role, offset_at};
use llaisys_runtime_core::{Status, device_type};
use std::collections::BTreeSet;
use std::fs;
use std::mem::offset_of;
use toolchain::{STANDARDS, Standard};

const GENERATED: [&str; 3] = ["llaisys.h", "llaisys/runtime.h", "llaisys/backend.h"];

fn header(name: &str) -> String {
    fs::read_to_string(toolchain::root().join("include").join(name)).expect("the header is there")
}

/// With `LLAISYS_HEADERS=check` the build writes no header, so a stale one is found here.
#[test]
fn the_committed_headers_are_what_the_sources_say() {
    for name in GENERATED {
        let made = format!("{}/{name}", env!("OUT_DIR"));
        let made = fs::read_to_string(made).expect("build.rs wrote it");
        assert!(
            made == header(name),
            "include/{name} is stale: build, and commit what build.rs wrote"
        );
    }
}

#[test]
fn every_promised_language_takes_every_header_alone_and_twice() {
    for standard in STANDARDS {
        for (index, name) in GENERATED.into_iter().enumerate() {
            let text =
                format!("#include \"{name}\"\n#include \"{name}\"\nint unit_{index}(void);\n");
            toolchain::compile_text(standard, &format!("alone_{index}"), &text, &[]);
        }
    }
    let hpp = "#include \"llaisys.hpp\"\n#include \"llaisys.hpp\"\n";
    for flag in ["-frtti", "-fno-rtti"] {
        toolchain::compile_text(Standard::Cxx17, "alone_hpp", hpp, &[flag]);
    }
}

#[test]
fn the_headers_go_together_in_any_order_and_in_two_linked_units() {
    let folder = toolchain::root().join("tests/headers");
    for standard in STANDARDS {
        let flags: &[&str] = if standard == Standard::Cxx17 { &["-x", "c++"] } else { &[] };
        let objects = ["first_unit.c", "second_unit.c"]
            .map(|name| toolchain::compile(standard, &folder.join(name), flags));
        let program = toolchain::link(standard, &objects, &format!("two_units_{standard:?}"));
        toolchain::run(&program, &[]);
    }
    // C99 code and C11 code share a program with C++ code.
    let objects = [
        toolchain::compile(Standard::C99, &folder.join("first_unit.c"), &[]),
        toolchain::compile(Standard::Cxx17, &folder.join("second_unit.c"), &["-x", "c++"]),
    ];
    toolchain::run(&toolchain::link(Standard::Cxx17, &objects, "two_languages"), &[]);
}

#[test]
fn code_written_for_llaisys_compiles_unchanged_and_runs() {
    let source = toolchain::root().join("tests/headers/llaisys_style.cpp");
    let object = toolchain::compile(Standard::Cxx17, &source, &[]);
    toolchain::run(&toolchain::link(Standard::Cxx17, &[object], "llaisys_style"), &[]);
}

/// Case 56. What a header declares for itself it may name; the language's own it may use.
#[test]
fn the_headers_take_no_name_that_is_reserved() {
    const OF_THE_LANGUAGE: [&str; 12] = [
        "__cplusplus",
        "__STDC_VERSION__",
        "_Static_assert",
        "__GNUC__",
        "__attribute__",
        "__x86_64__",
        "__aarch64__",
        "__linux__",
        "__GLIBC__",
        "__SANITIZE_ADDRESS__",
        "__SANITIZE_THREAD__",
        "__has_feature",
    ];
    for name in ["llaisys.h", "llaisys/runtime.h", "llaisys/backend.h", "llaisys.hpp"] {
        for word in words(&without_comments(&header(name))) {
            let reserved = word.starts_with('_') || word.contains("__");
            assert!(!reserved || OF_THE_LANGUAGE.contains(&word.as_str()), "{name} has {word}");
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        rest = rest[start..].split_once("*/").expect("a comment ends").1;
    }
    kept.push_str(rest);
    kept.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c| !word(c)).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// The program that a header shows at its top.
fn example(name: &str) -> String {
    let text = header(name);
    let code: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with(" * Example"))
        .skip_while(|line| !line.starts_with(" *     #include"))
        .take_while(|line| line.starts_with(" *     ") || *line == " *")
        .map(|line| line.get(7..).unwrap_or_default())
        .collect();
    assert!(code.len() > 10, "{name} shows no program");
    code.join("\n") + "\n"
}

#[test]
fn the_examples_in_the_headers_compile_and_run() {
    for name in GENERATED {
        let file = format!("example_of_{}", name.replace(['/', '.'], "_"));
        for standard in STANDARDS {
            let object = toolchain::compile_text(standard, &file, &example(name), &[]);
            toolchain::run(&toolchain::link(standard, &[object], &file), &[]);
        }
    }
    let (standard, text) = (Standard::Cxx17, example("llaisys.hpp"));
    let object = toolchain::compile_text(standard, "example_of_llaisys_hpp", &text, &["-fno-rtti"]);
    toolchain::run(&toolchain::link(standard, &[object], "example_of_llaisys_hpp"), &[]);
}

/// The groups of numbers that the headers have: `LLAISYS_` + prefix + `_` + name.
const PREFIXES: [&str; 13] = [
    "ABI",
    "ADVICE",
    "CAPABILITY",
    "COPY",
    "DEVICE_TYPE",
    "EVENT",
    "LINK",
    "LOCATION",
    "MEMCPY",
    "MEMORY",
    "STATUS",
    "STREAM",
    "SUPPORT",
];

/// Names and numbers as C sees them.
fn numbers() -> Vec<(String, i128)> {
    use device_type as device;
    let mut numbers: Vec<(String, i128)> = Status::ALL
        .map(|status| (format!("LLAISYS_STATUS_{}", status.name()), status.code().into()))
        .into();
    let kinds = MemcpyKind::ALL.map(|k| (format!("LLAISYS_MEMCPY_{k:?}"), k as i128));
    numbers.extend(kinds);
    let capabilities = Capabilities::NAMES
        .map(|(bit, name)| (format!("LLAISYS_CAPABILITY_{name}"), i128::from(bit.0)));
    numbers.extend(capabilities);
    let fixed: [(&str, i128); 54] = [
        ("LLAISYS_DEVICE_CPU", device::CPU.into()),
        ("LLAISYS_DEVICE_NVIDIA", device::NVIDIA.into()),
        ("LLAISYS_DEVICE_TYPE_COUNT", 2),
        ("LLAISYS_DEVICE_TYPE_CAMBRICON", device::CAMBRICON.into()),
        ("LLAISYS_DEVICE_TYPE_ASCEND", device::ASCEND.into()),
        ("LLAISYS_DEVICE_TYPE_METAX", device::METAX.into()),
        ("LLAISYS_DEVICE_TYPE_MOORE", device::MOORE.into()),
        ("LLAISYS_DEVICE_TYPE_ILUVATAR", device::ILUVATAR.into()),
        ("LLAISYS_DEVICE_TYPE_KUNLUN", device::KUNLUN.into()),
        ("LLAISYS_DEVICE_TYPE_HYGON", device::HYGON.into()),
        ("LLAISYS_DEVICE_TYPE_QY", device::QY.into()),
        ("LLAISYS_DEVICE_TYPE_ALI", device::ALI.into()),
        ("LLAISYS_DEVICE_TYPE_FIRST_ASSIGNED", (*device::ASSIGNED.start()).into()),
        ("LLAISYS_DEVICE_TYPE_LAST_ASSIGNED", (*device::ASSIGNED.end()).into()),
        ("LLAISYS_DEVICE_TYPE_UNASSIGNED", DEVICE_TYPE_UNASSIGNED.into()),
        ("LLAISYS_COPY_NONE", CopyFlags::NONE.0.into()),
        ("LLAISYS_COPY_SOURCE_PAGEABLE", CopyFlags::SOURCE_PAGEABLE.0.into()),
        ("LLAISYS_COPY_DESTINATION_PAGEABLE", CopyFlags::DESTINATION_PAGEABLE.0.into()),
        ("LLAISYS_COPY_HOST_BUFFER_PROMISED", CopyFlags::HOST_BUFFER_PROMISED.0.into()),
        ("LLAISYS_COPY_AT_ONCE_IF_IDLE", CopyFlags::AT_ONCE_IF_IDLE.0.into()),
        ("LLAISYS_CAPABILITY_NONE", Capabilities::NONE.0.into()),
        ("LLAISYS_STREAM_BLOCKING", StreamFlags::BLOCKING.0.into()),
        ("LLAISYS_STREAM_NON_BLOCKING", StreamFlags::NON_BLOCKING.0.into()),
        ("LLAISYS_EVENT_NONE", EventFlags::NONE.0.into()),
        ("LLAISYS_EVENT_TIMING", EventFlags::TIMING.0.into()),
        ("LLAISYS_EVENT_BLOCKING_WAIT", EventFlags::BLOCKING_WAIT.0.into()),
        ("LLAISYS_ADVICE_SET_READ_MOSTLY", MemoryAdvice::SetReadMostly as i128),
        ("LLAISYS_ADVICE_UNSET_READ_MOSTLY", MemoryAdvice::UnsetReadMostly as i128),
        ("LLAISYS_ADVICE_SET_PREFERRED_LOCATION", MemoryAdvice::SetPreferredLocation as i128),
        ("LLAISYS_ADVICE_UNSET_PREFERRED_LOCATION", MemoryAdvice::UnsetPreferredLocation as i128),
        ("LLAISYS_ADVICE_SET_ACCESSED_BY", MemoryAdvice::SetAccessedBy as i128),
        ("LLAISYS_ADVICE_UNSET_ACCESSED_BY", MemoryAdvice::UnsetAccessedBy as i128),
        ("LLAISYS_MEMORY_PAGEABLE", MEMORY_PAGEABLE.into()),
        ("LLAISYS_MEMORY_DEVICE", MEMORY_DEVICE.into()),
        ("LLAISYS_MEMORY_PINNED", MEMORY_PINNED.into()),
        ("LLAISYS_MEMORY_MANAGED", MEMORY_MANAGED.into()),
        ("LLAISYS_MEMORY_REGISTERED", MEMORY_REGISTERED.into()),
        ("LLAISYS_LOCATION_HOST", LOCATION_HOST.into()),
        ("LLAISYS_LINK_SAME_DEVICE", LINK_SAME_DEVICE.into()),
        ("LLAISYS_LINK_THROUGH_HOST", LINK_THROUGH_HOST.into()),
        ("LLAISYS_LINK_PCIE", LINK_PCIE.into()),
        ("LLAISYS_LINK_NVLINK", LINK_NVLINK.into()),
        ("LLAISYS_LINK_SHARED_MEMORY", LINK_SHARED_MEMORY.into()),
        ("LLAISYS_SUPPORT_UNSUPPORTED", Support::Unsupported as i128),
        ("LLAISYS_SUPPORT_NATIVE", Support::Native as i128),
        ("LLAISYS_SUPPORT_EMULATED", Support::Emulated as i128),
        ("LLAISYS_MEMCPY_INFERRED", MemcpyKind::Inferred as i128),
        ("LLAISYS_UNKNOWN_BYTES", UNKNOWN_BYTES.into()),
        ("LLAISYS_DESCRIPTOR_MAGIC", DESCRIPTOR_MAGIC.into()),
        ("LLAISYS_ABI_MAJOR", ABI_MAJOR.into()),
        ("LLAISYS_ABI_MINOR", ABI_MINOR.into()),
        ("LLAISYS_DTYPE_INVALID", 0),
        ("LLAISYS_DTYPE_F32", 13),
        ("LLAISYS_DTYPE_BF16", types::llaisysDataType_t::LLAISYS_DTYPE_BF16 as i128),
    ];
    numbers.extend(fixed.map(|(name, number)| (name.to_owned(), number)));
    numbers
}

#[test]
fn the_numbers_in_the_headers_are_the_cores() {
    let numbers = numbers();
    let text = header("llaisys.h") + &header("llaisys/backend.h");
    for word in words(&without_comments(&text)) {
        let ours = PREFIXES.iter().any(|p| word.starts_with(&format!("LLAISYS_{p}_")));
        let known = numbers.iter().any(|(name, _)| *name == word);
        assert!(!ours || known, "{word} is not compared below");
    }

    let mut program =
        "#include \"llaisys/backend.h\"\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (name, number) in &numbers {
        let (cast, format) =
            if *number < 0 { ("long long", "lld") } else { ("unsigned long long", "llu") };
        program += &format!("    printf(\"{name} %{format}\\n\", ({cast})({name}));\n");
    }
    program += "    return 0;\n}\n";
    let expected: String =
        numbers.iter().map(|(name, number)| format!("{name} {number}\n")).collect();
    for standard in STANDARDS {
        let object = toolchain::compile_text(standard, "numbers", &program, &[]);
        let program = toolchain::link(standard, &[object], "numbers");
        assert_eq!(toolchain::run(&program, &[]), expected);
    }
}

/// Size of a struct and offsets of its fields, by name.
macro_rules! layout {
    ($struct:ident { $($field:ident),* $(,)? }) => {
        (stringify!($struct), size_of::<$struct>(), vec![
            $((stringify!($field), offset_of!($struct, $field))),*
        ])
    };
}

#[test]
fn the_structs_in_the_headers_have_rusts_layout() {
    use llaisys_runtime::errors::LlaisysError;
    use llaisys_runtime::loading::LlaisysCandidate;
    use llaisys_runtime::table::LlaisysRuntimeAPI;
    let layouts = [
        layout!(LlaisysError { struct_size, status, native_code, operation, native_name, message }),
        layout!(LlaisysCandidate {
            struct_size,
            status,
            device_type,
            reserved,
            name,
            path,
            version,
            vendor,
            reason
        }),
        layout!(LlaisysRuntimeAPI {
            get_device_count,
            set_device,
            device_synchronize,
            create_stream,
            destroy_stream,
            stream_synchronize,
            malloc_device,
            free_device,
            malloc_host,
            free_host,
            memcpy_sync,
            memcpy_async
        }),
        layout!(LlaisysDeviceProperties {
            struct_size,
            processor_count,
            total_memory,
            driver_version,
            compute_capability_major,
            compute_capability_minor,
            runtime_version,
            uuid,
            name,
            vendor,
            pci_address,
            l2_cache_size,
            clock_rate,
            integrated,
            capabilities,
            cpu_features
        }),
        layout!(LlaisysMemoryInfo { struct_size, reserved, free, total }),
        layout!(LlaisysPeerLink {
            struct_size,
            can_access,
            enabled,
            kind,
            performance_rank,
            native_atomics
        }),
        layout!(LlaisysPointerAttributes {
            struct_size,
            kind,
            device_type,
            device,
            base,
            size,
            ours,
            reserved
        }),
        layout!(LlaisysMemoryStatistics {
            struct_size,
            reserved,
            used,
            reserved_bytes,
            peak,
            live,
            allocations,
            frees,
            failures,
            limit
        }),
        layout!(LlaisysCopy3D {
            struct_size,
            kind,
            dst,
            dst_pitch,
            dst_slice_height,
            src,
            src_pitch,
            src_slice_height,
            width,
            height,
            depth
        }),
        layout!(LlaisysCopyRange { dst, src, size }),
        layout!(LlaisysBackendDescriptor {
            magic,
            struct_size,
            abi_major,
            abi_minor,
            oldest_host_minor,
            device_type,
            sanitizer,
            capabilities,
            name,
            vendor,
            version,
            target,
            api
        }),
        layout!(LlaisysBackendAPI { struct_size, abi_major, abi_minor, reserved, self_ }),
    ];
    let mut program = "#include \"llaisys/backend.h\"\n#include \"llaisys/runtime.h\"\n\
                       #include <stdio.h>\nint main(void) {\n"
        .to_owned();
    let entry = |(index, entry): (usize, &Entry)| (entry.name, offset_at(index));
    let mut expected = String::new();
    for (name, size, fields) in layouts {
        program += &format!("    printf(\"{name} %zu\\n\", sizeof({name}));\n");
        expected += &format!("{name} {size}\n");
        let fields = fields.into_iter().chain(match name {
            // The list of entries is the core's; an assertion there holds it to the struct.
            "LlaisysBackendAPI" => ENTRIES.iter().enumerate().map(entry).collect(),
            _ => Vec::new(),
        });
        for (field, offset) in fields {
            program += &format!("    printf(\"{field} %zu\\n\", offsetof({name}, {field}));\n");
            expected += &format!("{field} {offset}\n");
        }
    }
    program += "    return 0;\n}\n";
    for standard in STANDARDS {
        let object = toolchain::compile_text(standard, "layout", &program, &[]);
        let program = toolchain::link(standard, &[object], "layout");
        assert_eq!(toolchain::run(&program, &[]), expected);
    }
}

/// The list of entries that a plugin's author reads is the core's.
#[test]
fn the_header_says_which_entries_may_be_null() {
    let text = header("llaisys/backend.h");
    let list = text.split(" * Which entries may be NULL:").nth(1).expect("the header has the list");
    let list = list.split(" * What a capability is missing for").next().unwrap_or_default();
    let mut expected = std::collections::BTreeMap::<String, BTreeSet<&str>>::new();
    for entry in ENTRIES {
        let heading = match (entry.role, entry.claimed_by()) {
            (_, Some(group)) => group.name().to_owned(),
            (Role::Required, _) => "none of".to_owned(),
            (Role::Core, _) if MAY_BE_THERE.contains(&entry.name) => "any of".to_owned(),
            _ => "all of".to_owned(),
        };
        expected.entry(heading).or_default().insert(entry.name);
    }
    let mut found = std::collections::BTreeMap::<String, BTreeSet<&str>>::new();
    let (mut heading, known) =
        (String::new(), |word: &&str| ENTRIES.iter().any(|e| e.name == *word));
    for line in list.lines().map(|line| line.trim_start_matches(" *").trim()) {
        let first = expected.keys().find(|key| line.starts_with(&format!("{key} ")));
        heading = first.cloned().unwrap_or(heading);
        // Sentences between the names mention none.
        let names: Vec<&str> = line.split_whitespace().filter(known).collect();
        if !line.contains(" is called instead") {
            found.entry(heading.clone()).or_default().extend(names);
        }
    }
    found.retain(|_, names| !names.is_empty());
    assert_eq!(found, expected);
}

/// The core's own that a plugin may have: they are not called where another way is open.
const MAY_BE_THERE: [&str; 2] = ["initialize", "get_capabilities"];
