//! The layout of every struct of the ABI is the same in C, in Rust and in ctypes, and the same as in the
//! committed file `layout.json`.
//!
//! Rule: fields are only ever appended. A new one changes the file, which a reviewer sees; whoever appends
//! one runs this test with `LLAISYS_WRITE_LAYOUT=1` and commits the file.

use llaisys_runtime::errors::LlaisysError;
use llaisys_runtime::loading::LlaisysCandidate;
use llaisys_runtime::table::LlaisysRuntimeAPI;
use llaisys_runtime_core::abi::{LlaisysBackendAPI, LlaisysBackendDescriptor};
use llaisys_runtime_core::api::{
    LlaisysCopy3D, LlaisysCopyRange, LlaisysDeviceProperties, LlaisysMemoryInfo,
    LlaisysMemoryStatistics, LlaisysPeerLink, LlaisysPointerAttributes,
};
use serde_json::{Map, Value, json};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn size_of_field<S, F>(_: impl Fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// Writes down the fields of structs: `structs! { all; Name { field field … } … }`.
macro_rules! structs {
    ($($name:ident { $($field:ident)* })*) => {{
        let mut all = Map::new();
        $(
            let mut fields = Map::new();
            $(
                let size = size_of_field(|value: &$name| &value.$field);
                fields.insert(stringify!($field).to_owned(), json!([offset_of!($name, $field), size]));
            )*
            let entry = json!({ "size": size_of::<$name>(), "fields": fields });
            all.insert(stringify!($name).to_owned(), entry);
        )*
        Value::Object(all)
    }};
}

fn in_rust() -> Value {
    structs! {
        LlaisysRuntimeAPI {
            get_device_count set_device device_synchronize create_stream destroy_stream
            stream_synchronize malloc_device free_device malloc_host free_host memcpy_sync memcpy_async
        }
        LlaisysBackendAPI {
            struct_size abi_major abi_minor reserved self_ get_last_error get_device_count
            set_device device_synchronize create_stream destroy_stream stream_synchronize
            malloc_device free_device malloc_host free_host memcpy_sync memcpy_async
            get_device_properties get_memory_info stream_query launch_host_function is_device_memory
            initialize get_capabilities get_peer_link enable_peer_access create_stream_with
            get_stream_priority_range adopt_stream create_event destroy_event record_event
            stream_wait_event event_query event_synchronize event_elapsed malloc_async free_async
            malloc_managed free_managed prefetch_managed advise_managed register_host
            unregister_host get_pointer_attributes memset_async memcpy_3d_async memcpy_batch_async
            get_reserved_memory trim_memory get_stream_device get_native_event get_operation_support
            memset_sync memcpy_3d_sync get_memory_statistics get_stream_memory_statistics
            reset_peak_memory set_memory_limit set_out_of_memory_callback set_thread_slot
            get_thread_slot set_stream_slot get_stream_slot
        }
        LlaisysBackendDescriptor {
            magic struct_size abi_major abi_minor oldest_host_minor device_type sanitizer capabilities
            name vendor version target api
        }
        LlaisysDeviceProperties {
            struct_size processor_count total_memory driver_version compute_capability_major
            compute_capability_minor runtime_version uuid name vendor pci_address l2_cache_size
            clock_rate integrated capabilities cpu_features
        }
        LlaisysMemoryInfo { struct_size reserved free total }
        LlaisysPeerLink { struct_size can_access enabled kind performance_rank native_atomics }
        LlaisysPointerAttributes {
            struct_size kind device_type device base size ours reserved
        }
        LlaisysMemoryStatistics {
            struct_size reserved used reserved_bytes peak live allocations frees failures limit
        }
        LlaisysCopy3D {
            struct_size kind dst dst_pitch dst_slice_height src src_pitch src_slice_height width height
            depth
        }
        LlaisysCopyRange { dst src size }
        LlaisysError { struct_size status native_code operation native_name message }
        LlaisysCandidate {
            struct_size status device_type reserved name path version vendor reason
        }
    }
}

/// The fields of one struct, by their place.
fn fields(entry: &Value) -> Vec<(String, u64, u64)> {
    let fields = entry["fields"].as_object().expect("a struct has fields");
    let number = |value: &Value| value.as_u64().expect("an offset or a size");
    let mut all: Vec<_> = fields
        .iter()
        .map(|(name, place)| (name.clone(), number(&place[0]), number(&place[1])))
        .collect();
    all.sort_by_key(|(_, offset, _)| *offset);
    all
}

/// The same question, answered by a C program that is compiled against `include/`.
fn in_c(structs: &Value) -> Value {
    let mut source = String::from(
        "#include <llaisys/runtime.h>\n#include <llaisys/backend.h>\n#include <stdio.h>\n\
         #define FIELD(s, f, end) printf(\"\\\"\" #f \"\\\":[%zu,%zu]\" end, offsetof(s, f), \
         sizeof ((s *)0)->f)\nint main(void) {\n  printf(\"{\");\n",
    );
    let all = structs.as_object().expect("structs by name");
    for (index, (name, entry)) in all.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        source += &format!(
            "  printf(\"{comma}\\\"{name}\\\":{{\\\"size\\\":%zu,\\\"fields\\\":{{\", sizeof({name}));\n"
        );
        let fields = fields(entry);
        for (place, (field, ..)) in fields.iter().enumerate() {
            let end = if place + 1 == fields.len() { "}}" } else { "," };
            source += &format!("  FIELD({name}, {field}, \"{end}\");\n");
        }
    }
    source += "  printf(\"}\");\n  return 0;\n}\n";
    let folder = std::env::temp_dir().join(format!("llaisys-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&file, source).expect("a temporary file");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o"])
        .arg(&program)
        .arg(&file)
        .arg("-I")
        .arg(root().join("include"))
        .output()
        .expect("cc starts");
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "a field is missing in include/, or no valid C99: {errors}");
    let output = Command::new(&program).output().expect("the program starts");
    let _ = std::fs::remove_dir_all(&folder);
    serde_json::from_slice(&output.stdout).expect("the program prints JSON")
}

fn in_python() -> Value {
    let output = Command::new("python3")
        .args(["-m", "llaisys_runtime._abi"])
        .env("PYTHONPATH", root().join("python"))
        .output()
        .expect("python3 starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "python3 -m llaisys_runtime._abi: {errors}");
    serde_json::from_slice(&output.stdout).expect("the package prints JSON")
}

/// As the committed file has it: a line for each field, in the order of their places.
fn written(structs: &Value) -> String {
    let all = structs.as_object().expect("structs by name").iter().map(|(name, entry)| {
        let lines: Vec<String> = fields(entry)
            .into_iter()
            .map(|(field, offset, size)| format!("      \"{field}\": [{offset}, {size}]"))
            .collect();
        let (size, lines) = (&entry["size"], lines.join(",\n"));
        format!(
            "  \"{name}\": {{\n    \"size\": {size},\n    \"fields\": {{\n{lines}\n    }}\n  }}"
        )
    });
    format!("{{\n{}\n}}\n", all.collect::<Vec<_>>().join(",\n"))
}

fn committed() -> Value {
    let path = root().join("tests/layout/layout.json");
    if std::env::var_os("LLAISYS_WRITE_LAYOUT").is_some_and(|value| value == "1") {
        std::fs::write(&path, written(&in_rust())).expect("the tree can be written");
    }
    let text = std::fs::read_to_string(&path).expect("tests/layout/layout.json is committed");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Compares struct by struct, so that a failure names the field.
fn assert_same(found: &Value, right: &Value, whose: &str) {
    for (name, entry) in right.as_object().expect("structs by name") {
        let own = &found[name];
        assert!(own.is_object(), "{whose} has no {name}");
        assert_eq!(fields(own), fields(entry), "the fields of {name} in {whose}");
        assert_eq!(own["size"], entry["size"], "the size of {name} in {whose}");
    }
}

#[test]
fn rust_agrees_with_the_committed_file() {
    let committed = committed();
    assert_same(&in_rust(), &committed, "Rust");
    assert_same(&committed, &in_rust(), "the committed file");
}

#[test]
fn no_field_is_forgotten_and_there_is_no_hidden_padding() {
    for (name, entry) in in_rust().as_object().expect("structs by name") {
        let mut end = 0;
        for (field, offset, size) in fields(entry) {
            assert_eq!(offset, end, "{name}: a gap, or a field that is not listed, before {field}");
            end = offset + size;
        }
        assert_eq!(Some(end), entry["size"].as_u64(), "{name}: something after its last field");
    }
}

#[test]
fn c_agrees_with_the_committed_file() {
    let committed = committed();
    assert_same(&in_c(&committed), &committed, "include/");
}

#[test]
fn ctypes_agrees_with_the_committed_file() {
    let mut right = committed();
    // What plugins alone need is not in the Python package.
    if let Some(all) = right.as_object_mut() {
        all.remove("LlaisysBackendDescriptor");
    }
    assert_same(&in_python(), &right, "ctypes");
}
