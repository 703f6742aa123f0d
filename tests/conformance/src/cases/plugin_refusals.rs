//! Every way to be no backend: a reason of its own, nobody else harmed, and no constructor run where the
//! check can come before (P2, P3, P4).

use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::plugin_file::{Survey, Workshop};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::abi::ABI_MINOR;
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

cases! { Area::Plugins;
    "P2, P3" every_way_to_be_wrong_has_its_own_reason_and_harms_nobody [Compiler];
    "P2" a_file_that_changes_while_it_is_loaded_is_refused [Compiler];
    "P2" a_refusal_names_its_file_and_leaves_one_record [Compiler];
    "P2" a_constructor_that_uses_the_runtime_is_answered_and_does_not_hang [Compiler];
    "P3" a_plugin_for_a_sanitizer_that_is_not_here_is_refused_before_it_is_opened [Compiler];
}

/// Ends the process when it runs: whoever is refused with it was refused before it was opened.
const DEADLY: &str = "CONSTRUCTOR=_Exit(66)";

/// A wrong file, its status, and words of its reason.
type Wrong = (PathBuf, Status, &'static str);

/// Wrong before anything of them runs: each has a deadly constructor.
fn wrong_as_files(context: &'static Context, shop: &Workshop) -> Checked<Vec<Wrong>> {
    let refused = Status::BackendRefused;
    let good = shop.plugin("good-but-deadly.so", &[DEADLY])?;
    let whole = std::fs::read(&good).map_err(|error| Stop::skip(error.to_string()))?;
    let patched = |name: &str, at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        shop.folder.write(name, &file)
    };
    let with = |name: &str, option: &str| {
        shop.compile(name, &shop.folder.file("plugin.c"), &[DEADLY], &[Path::new(option)])
    };
    let data = shop.folder.write(
        "data.c",
        b"#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { _Exit(66); }\n\
          __attribute__((visibility(\"default\"))) int llaisysBackendQuery = 1;",
    )?;
    let half = whole.len() / 2;
    let writable = shop.plugin("writable.so", &[DEADLY])?;
    shop.folder.set_mode("writable.so", 0o666)?;
    Ok(vec![
        (shop.folder.file("missing.so"), refused, "No such file"),
        (shop.folder.folder("folder.so")?, refused, "is not a file"),
        (writable, refused, "everybody may write"),
        (shop.folder.write("empty.so", b"")?, refused, "empty"),
        (shop.folder.write("text.so", b"INPUT(libc.so.6) and so on")?, refused, "no ELF header"),
        (patched("class.so", 4, &[1])?, refused, "ELF class 1"),
        (patched("machine.so", 18, &[243, 0])?, refused, "machine 243"),
        (patched("elf-type.so", 16, &[2, 0])?, refused, "ELF type 2"),
        (shop.folder.copy(&context.setup.executable, "program.so")?, refused, "a program"),
        (shop.folder.write("half.so", &whole[..half])?, refused, "cut off"),
        (patched("damaged.so", dynamic_section(&whole)? + 16, &[0xff; 8])?, refused, "damaged"),
        (with("stack.so", "-Wl,-z,execstack")?, refused, "executable stack"),
        (shop.plugin("symbol.so", &[DEADLY, "QUERY=somethingElse"])?, refused, "no symbol"),
        (shop.compile("data.so", &data, &[], &[])?, refused, "no function"),
        (shop.plugin("exports.so", &[DEADLY, "EXPORTED=second_symbol"])?, refused, "second_symbol"),
        (with("run-path.so", "-Wl,-rpath,/usr/lib:plugins")?, refused, "`plugins` of its run path"),
        (with("empty-path.so", "-Wl,-rpath,/usr/lib:")?, refused, "`` of its run path"),
        (below_the_working_directory(shop)?, refused, "needs `./libbelow.so`"),
        (missing_dependency(shop)?, refused, "libneeded-by-it.so"),
        (
            shop.compile(
                "undefined.so",
                &shop.folder.file("plugin.c"),
                &[DEADLY, "UNDEFINED=nobody_has_this"],
                &[Path::new("-Wl,-z,undefs")],
            )?,
            refused,
            "nobody_has_this",
        ),
    ])
}

/// Where the entry of the dynamic section is in the program header.
fn dynamic_section(file: &[u8]) -> Checked<usize> {
    let number = |at: usize, bytes: usize| {
        file[at..at + bytes]
            .iter()
            .rev()
            .fold(0usize, |value, byte| value << 8 | usize::from(*byte))
    };
    (0..number(56, 2))
        .map(|index| number(32, 8) + index * number(54, 2))
        .find(|at| number(*at, 4) == 2)
        .ok_or_else(|| Stop::fail("the plugin has no dynamic section"))
}

/// A library that a plugin may need.
fn needed(shop: &Workshop, name: &str, options: &[&Path]) -> Checked<PathBuf> {
    let text = b"__attribute__((visibility(\"default\"))) int needed(void);\n\
                 int needed(void) { return 1; }";
    let source = shop.folder.write("needed.c", text)?;
    shop.compile(name, &source, &[], options)
}

fn missing_dependency(shop: &Workshop) -> Checked<PathBuf> {
    let needed = needed(shop, "libneeded-by-it.so", &[])?;
    let plugin = shop.folder.file("plugin.c");
    let defines = [DEADLY, "UNDEFINED=needed"];
    let user = shop.compile("dependency.so", &plugin, &defines, &[&needed])?;
    std::fs::remove_file(&needed).map_err(|error| Stop::skip(error.to_string()))?;
    Ok(user)
}

/// Its dependency is there, and would be found wherever the program happens to run.
fn below_the_working_directory(shop: &Workshop) -> Checked<PathBuf> {
    let needed = needed(shop, "libbelow.so", &[Path::new("-Wl,-soname,./libbelow.so")])?;
    let defines = [DEADLY, "UNDEFINED=needed"];
    shop.compile("below.so", &shop.folder.file("plugin.c"), &defines, &[&needed])
}

/// Wrong in what they say of themselves, which only their query can tell.
const WRONG_WORDS: &[(&str, &[&str], Status, &str)] = &[
    ("null", &["ANSWER=NULL"], Status::AbiMismatch, "its query said NULL"),
    ("impure", &["ANSWER=another_each_time()"], Status::BackendRefused, "not pure"),
    ("wild", &["ANSWER=(const void*)8"], Status::BackendRefused, "descriptor at 0x8"),
    ("middle", &["ANSWER=in_the_middle()"], Status::BackendRefused, "not aligned"),
    ("magic", &["MAGIC=0x1122334455667788"], Status::BackendRefused, "no magic"),
    ("small", &["DESCRIPTOR_SIZE=72"], Status::AbiMismatch, "its descriptor has 72 bytes"),
    ("major", &["MAJOR=99"], Status::AbiMismatch, "built for ABI 99"),
    ("target", &["TARGET=\"riscv64-linux-gnu\""], Status::BackendRefused, "riscv64-linux-gnu"),
    ("sanitizer", &["SANITIZER=9"], Status::BackendRefused, "sanitizer 9"),
    ("claims", &["SANITIZER=3"], Status::BackendRefused, "MemorySanitizer"),
    ("table", &["TABLE=NULL"], Status::AbiMismatch, "names no table"),
    ("far", &["TABLE=(const void*)4096"], Status::BackendRefused, "table at 0x1000"),
    ("type", &["DEVICE_TYPE=31"], Status::BackendRefused, "device type 31"),
    ("nameless", &["DESCRIPTOR_NAME=NULL"], Status::BackendRefused, "its name `` is not"),
    ("upper", &["DESCRIPTOR_NAME=\"Upper\""], Status::BackendRefused, "`Upper`"),
    ("unended", &["DESCRIPTOR_NAME=unended"], Status::BackendRefused, "does not end"),
    ("utf8", &["DESCRIPTOR_NAME=\"\\xff\\xfe\""], Status::BackendRefused, "\u{fffd}\u{fffd}"),
    ("taken", &["NAME=\"cpu\""], Status::BackendRefused, "the name `cpu`"),
    ("number", &["NAME=\"beta\"", "DEVICE_TYPE=0"], Status::BackendRefused, "the name `beta`"),
    ("head", &["TABLE_MAJOR=98"], Status::AbiMismatch, "its table says ABI 98"),
    ("short", &["TABLE_SIZE=64", "CAPABILITIES=0"], Status::AbiMismatch, "the table has 64 bytes"),
    ("entry", &["ENTRY_memcpy_sync=NULL"], Status::AbiMismatch, "entry memcpy_sync"),
    ("lie", &["ENTRY_stream_query=NULL"], Status::AbiMismatch, "STREAM_QUERY is claimed"),
];

fn wrong_in_words(shop: &Workshop) -> Checked<Vec<Wrong>> {
    // Whoever calls more than the query ends the process.
    let deadly = "ENTER(device)=abort()";
    let mut all = Vec::new();
    for (name, defines, status, words) in WRONG_WORDS {
        let defines: Vec<&str> = defines.iter().chain(&[deadly]).copied().collect();
        all.push((shop.plugin(&format!("{name}.so"), &defines)?, *status, *words));
    }
    let newer = format!("OLDEST_HOST_MINOR={}", ABI_MINOR + 1);
    all.push((shop.plugin("newer.so", &[&newer, deadly])?, Status::AbiMismatch, "or newer"));
    let heap = shop.plugin("heap.so", &["ANSWER=on_the_heap()", deadly])?;
    all.push((heap, Status::BackendRefused, "in its own file"));
    Ok(all)
}

fn every_way_to_be_wrong_has_its_own_reason_and_harms_nobody(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let mut all = wrong_as_files(context, &shop)?;
    all.extend(wrong_in_words(&shop)?);
    let good = shop.plugin("good.so", &["NAME=\"good\""])?;
    let paths: Vec<String> = all.iter().map(|(path, ..)| path.display().to_string()).collect();
    let list = format!("{}:{}", paths.join(":"), good.display());
    let launch = || shop.launch("survey").env("LLAISYS_BACKENDS", &list);
    let records = shop.survey(launch(), &["candidates"])?.candidates(0)?;
    ensure_eq!(records.len(), all.len() + 1, "the number of records ({records:?})");
    let mut reasons = HashSet::new();
    for (record, (path, status, words)) in records.iter().zip(&all) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure_eq!(record["code"], status.code(), "the status of {name} ({record})");
        let reason = record["message"].as_str().unwrap_or_default();
        ensure!(reason.contains(words), "{name}: expected {words:?}, found {reason:?}");
        ensure!(reasons.insert(reason.to_owned()), "{name}: {reason:?} is another's reason too");
    }
    let survey = shop.survey(launch(), &["use=32", "cpu"])?;
    survey.expect(0, Status::Success, "").map_err(|stop| stop.at("the good one"))?;
    survey.expect_cpu(1)?;
    let proof =
        shop.launch("survey").env("LLAISYS_BACKENDS", shop.folder.file("good-but-deadly.so"));
    let ended = proof.argument("candidates").run()?;
    ensure_eq!(ended.code, Some(66), "the proof that the constructor is deadly; {}", ended.story());
    Ok(())
}

fn a_file_that_changes_while_it_is_loaded_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    for (name, change, words) in
        [("written.so", "chmod", "changed while"), ("replaced.so", "replace", "replaced while")]
    {
        let path = shop.folder.file(name);
        let (own, other) = (path.display(), shop.folder.write("other.so", b"another file")?);
        let constructor = match change {
            "chmod" => format!("CONSTRUCTOR=chmod(\"{own}\",0700)"),
            _ => format!("CONSTRUCTOR=rename(\"{}\",\"{own}\")", other.display()),
        };
        let plugin = shop.plugin(name, &[&constructor])?;
        let load = format!("load={}", plugin.display());
        let survey = shop.survey(shop.launch("survey"), &[&load, "cpu"])?;
        survey.expect(0, Status::BackendRefused, words)?;
        survey.expect_cpu(1)?;
    }
    Ok(())
}

/// The records of one file.
fn records_of(survey: &Survey, index: usize, path: &Path) -> Checked<Vec<Value>> {
    let own = path.display().to_string();
    let mut all = survey.candidates(index)?;
    all.retain(|record| record["path"] == own.as_str());
    Ok(all)
}

fn a_refusal_names_its_file_and_leaves_one_record(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let magic = shop.plugin("magic.so", &["MAGIC=1"])?;
    let (missing, empty) = (shop.folder.file("missing.so"), shop.folder.write("empty.so", b"")?);
    for path in [magic, missing, empty] {
        let command = format!("load={}", path.display());
        let mut commands = vec![command.as_str(); 300];
        commands.push("candidates");
        let survey = shop.survey(shop.launch("survey"), &commands)?;
        let name = path.display().to_string();
        for index in 0..300 {
            survey.expect(index, Status::BackendRefused, &name)?;
        }
        ensure_eq!(records_of(&survey, 300, &path)?.len(), 1, "the records of {name}");
    }
    // Another reason is another record.
    let path = shop.folder.file("later.so");
    let load = format!("load={}", path.display());
    let copy = format!("copy={}={}", shop.folder.file("empty.so").display(), path.display());
    let commands = [&load, &load, &copy, &load, &load, "candidates"];
    let survey = shop.survey(shop.launch("survey"), &commands)?;
    ensure_eq!(records_of(&survey, 5, &path)?.len(), 2, "the records of a file with two reasons");
    Ok(())
}

fn a_constructor_that_uses_the_runtime_is_answered_and_does_not_hang(
    context: &'static Context,
) -> Checked {
    let shop = Workshop::new(context)?;
    let source = shop.folder.file("constructor.c");
    let plugin = shop.compile("constructor.so", &source, &[], &[Path::new("-pthread")])?;
    let launch = || {
        let launch = shop.launch("survey").env("LLAISYS_TEST_RUNTIME", &context.setup.library);
        launch.env("LLAISYS_TEST_PLUGIN", &plugin)
    };
    let load = format!("load={}", plugin.display());
    let survey = shop.survey(launch(), &[&load, "use=32", "cpu"])?;
    survey.expect(0, Status::Success, "")?;
    survey.expect(1, Status::Success, "")?;
    survey.expect_cpu(2)?;
    // While every candidate is looked at, too.
    let discovery = launch().env("LLAISYS_BACKENDS", &plugin);
    let survey = shop.survey(discovery, &["use=32", "candidates", "cpu"])?;
    survey.expect(0, Status::Success, "")?;
    ensure_eq!(records_of(&survey, 1, &plugin)?.len(), 1, "the records of the plugin");
    survey.expect_cpu(2)
}

fn a_plugin_for_a_sanitizer_that_is_not_here_is_refused_before_it_is_opened(
    context: &'static Context,
) -> Checked {
    let shop = Workshop::new(context)?;
    // A compiler without the sanitizer's library cannot make one.
    let probe = shop.folder.write("probe.c", b"int probe(void); int probe(void) { return 1; }")?;
    for (option, name) in
        [("-fsanitize=address", "AddressSanitizer"), ("-fsanitize=thread", "ThreadSanitizer")]
    {
        if shop.compile("probe.so", &probe, &[], &[Path::new(option)]).is_err() {
            return Err(Stop::skip(format!("cc does not link with {option}")));
        }
        let plugin = shop.folder.file("plugin.c");
        let plugin = shop.compile("instrumented.so", &plugin, &[DEADLY], &[Path::new(option)])?;
        let load = format!("load={}", plugin.display());
        // Opened, the sanitizer's library would end the process.
        let survey = shop.survey(shop.launch("survey"), &[&load, "cpu"])?;
        survey.expect(0, Status::BackendRefused, name)?;
        survey.expect_cpu(1)?;
    }
    Ok(())
}
