//! What is tested: the plugin, the library, the devices, for the head of a report.
//!
//! Rule: it is found out in a process of its own, so that a plugin that crashes there takes nothing with
//! it (in a run in one process: here).

use crate::context::{Context, Setup};
use crate::extended::{Copy, Extended};
use crate::footprint::Use;
use crate::program::Launch;
use crate::sha256;
use llaisys_runtime_core::abi::{ABI_MAJOR, ABI_MINOR};
use llaisys_runtime_core::api::{MemcpyKind, read_text};
use serde_json::{Value, json};

/// What the first device is; NULL where that cannot be asked.
pub fn properties(x: &Extended) -> Value {
    let Ok(found) = x.get_device_properties(0) else { return Value::Null };
    json!({ "name": read_text(&found.name), "driver_version": found.driver_version })
}

/// Uses a device once: a stream, memory of both kinds, a copy there and back. What fails is told by the
/// cases.
pub fn use_once(x: &Extended, device: i32) {
    let (Ok(stream), Ok(block), Ok(host)) =
        (x.create_stream(device), x.malloc_device(device, 4096), x.malloc_host(device, 4096))
    else {
        return;
    };
    let there = Copy::new(block, host, 4096, MemcpyKind::H2D);
    let back = Copy::new(host, block, 4096, MemcpyKind::D2H);
    let _ = x.memcpy_async(device, there, stream);
    let _ = x.memcpy_async(device, back, stream);
    let _ = x.stream_synchronize(device, stream);
    let _ = x.memcpy_sync(device, back);
    let _ = (x.destroy_stream(device, stream), x.free_device(device, block));
    let _ = x.free_host(device, host);
}

/// The library and the backend that it uses, as one object.
pub fn of_library(context: &Context) -> Value {
    let properties = properties(&context.x);
    let candidate = &context.candidate;
    json!({
        "library": context.library.path,
        "version": context.library.version().unwrap_or_default(),
        "library_sha256": sha256::of_file(&context.library.path).unwrap_or_default(),
        "device_type": context.device_type,
        "backend": {
            "name": candidate.name,
            "path": candidate.path,
            "version": candidate.version,
            "capabilities": context.capabilities.0,
        },
        "device": properties["name"].as_str().unwrap_or_default(),
        "devices": context.count,
        "driver": properties["driver_version"].as_i64().unwrap_or(0),
    })
}

/// Everything that is tested in this run, as one object.
///
/// # Errors
/// Why there is nothing to test.
pub fn find(setup: &Setup, here: bool, core: bool) -> Result<Value, String> {
    let mut subject = json!({
        "versions": { "library": null, "abi": format!("{ABI_MAJOR}.{ABI_MINOR}") },
        "plugin": null,
    });
    if setup.plugin.is_some() {
        let plugin = asked(setup, "tell_plugin")?;
        subject["backend"] = json!({
            "name": plugin["name"],
            "path": plugin["path"],
            "version": plugin["version"],
            "capabilities": plugin["capabilities"],
        });
        subject["devices"] = plugin["devices"].clone();
        let of_device = &plugin["properties"];
        subject["device"] = json!(of_device["name"].as_str().unwrap_or_default());
        subject["driver"] = json!(of_device["driver_version"].as_i64().unwrap_or(0));
        subject["plugin"] = plugin;
    }
    if core {
        let library = match here {
            true => of_library(&Context::new(setup.clone(), "the report")?),
            false => asked(setup, "tell_what_is_tested")?,
        };
        subject["versions"]["library"] = library["version"].clone();
        let fields = library.as_object().into_iter().flatten();
        for (field, value) in fields {
            subject[field] = value.clone();
        }
    }
    Ok(subject)
}

/// What a program of the suite tells, as one value.
fn asked(setup: &Setup, program: &str) -> Result<Value, String> {
    let ended = Launch::new(setup, program).run().map_err(|stop| stop.message)?;
    // What was told holds, also when the process ends badly after that: the cases say so.
    match serde_json::from_str(ended.stdout.trim()) {
        Ok(told) => Ok(told),
        Err(_) if ended.code.is_some() && !ended.timed_out => Err(ended.stderr.trim().to_owned()),
        Err(_) => Err(ended.story()),
    }
}

/// What one use of every device takes; nothing where that cannot be found out.
pub fn use_of(setup: &Setup, program: &str) -> Use {
    let ended = Launch::new(setup, program).run();
    ended.ok().and_then(|ended| ended.stdout.trim().parse().ok()).unwrap_or_default()
}

/// What is tested, in a line or two.
pub fn line(subject: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let backend = &subject["backend"];
    let path = word(&backend["path"]);
    let from = if path.is_empty() { "built in".to_owned() } else { path };
    format!(
        "{} {} ({from}), {} device(s) {}",
        word(&backend["name"]),
        word(&backend["version"]),
        subject["devices"],
        word(&subject["device"])
    )
}
