//! What a backend says that it is able to do, and whether that is true.

use super::plugin_abi::with_plugin;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::operations;
use crate::outcome::Checked;
use crate::program::Bare;
use crate::report;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{Capabilities, Support};
use llaisys_runtime_core::entries::{ENTRIES, Role};

cases! { Area::Capabilities;
    "E3" every_operation_is_there_as_it_says [];
    "E3" no_backend_lacks_what_the_core_does [];
    "E3" every_bit_of_a_capability_has_a_meaning [];
    "E3" names_that_are_no_operations_are_refused [];
    "P3" a_plugin_with_the_twelve_tells_the_truth_about_every_operation [Compiler];
    "P3" a_plugin_without_capabilities_tells_the_truth_about_every_operation [Compiler];
}

programs![tell_operations, call_every_operation_of_a_plugin];

/// Fails unless each operation answers as it is said of it.
fn check(context: &Context) -> Checked {
    let lies: Vec<String> = operations::table(context)?
        .into_iter()
        .filter(|operation| !operation.verified)
        .map(|o| format!("{} ({}) answered {}", o.name, o.support, o.answer))
        .collect();
    ensure!(lies.is_empty(), "{} lies: {}", lies.len(), lies.join("; "));
    Ok(())
}

/// The program: prints the table of operations as JSON.
fn tell_operations(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    println!("{}", report::operations(&operations::table(context)?));
    Ok(0)
}

/// The program: checks the table of a plugin.
fn call_every_operation_of_a_plugin(bare: &Bare) -> Checked<i32> {
    check(bare.plugin(bare.argument(0)?)?)?;
    Ok(0)
}

fn every_operation_is_there_as_it_says(context: &'static Context) -> Checked {
    check(context)
}

fn no_backend_lacks_what_the_core_does(context: &'static Context) -> Checked {
    for entry in ENTRIES {
        let found = operations::support(context, entry.name)?;
        let may_be_missing = matches!(entry.role, Role::Optional(_));
        let is_missing = found == Support::Unsupported as i32;
        ensure!(may_be_missing || !is_missing, "{} is said to be unsupported", entry.name);
    }
    Ok(())
}

fn every_bit_of_a_capability_has_a_meaning(context: &'static Context) -> Checked {
    let known = Capabilities::NAMES.iter().fold(0, |known, (bit, _)| known | bit.0);
    let found = context.capabilities.0;
    ensure_eq!(found & !known, 0, "bits of capabilities without a meaning");
    if context.capabilities.contains(Capabilities::DEVICE_INFORMATION) {
        for device in 0..context.count {
            let properties = context.x.get_device_properties(device);
            let own = context.ok(properties, "get_device_properties")?.capabilities;
            ensure_eq!(own & !known, 0, "bits of device {device}'s capabilities");
            ensure_eq!(own & !found, 0, "what device {device} has and its backend has not");
        }
    }
    Ok(())
}

fn names_that_are_no_operations_are_refused(context: &'static Context) -> Checked {
    let operation = "get_operation_support";
    for name in [c"", c"malloc", c"struct_size", c"self_", c"MEMCPY_SYNC", c"\xff\xfe"] {
        let answer = context.x.get_operation_support(name);
        context.answered(answer, operation, Status::InvalidValue, &format!("{name:?}"))?;
    }
    let (x, this, mut support) = (context.x.raw, context.x.this(), 0);
    // SAFETY: NULL is refused; `support` is ours.
    let code = unsafe { (x.get_operation_support)(this, std::ptr::null(), &mut support) };
    let answer = Code(code).result();
    context.answered(answer, operation, Status::InvalidValue, "NULL").map(drop)
}

fn a_plugin_with_the_twelve_tells_the_truth_about_every_operation(
    context: &'static Context,
) -> Checked {
    with_plugin(context, &[], "call_every_operation_of_a_plugin")
}

fn a_plugin_without_capabilities_tells_the_truth_about_every_operation(
    context: &'static Context,
) -> Checked {
    with_plugin(context, &["CAPABILITIES=0"], "call_every_operation_of_a_plugin")
}
