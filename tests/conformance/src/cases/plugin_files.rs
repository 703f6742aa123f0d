//! Files that are, or are not, backends (P2), and the survey that tells what became of them.

use crate::address::Address;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::plugin_file::Workshop;
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::MemcpyKind;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;

cases! { Area::Plugins;
    "P2" a_plugin_in_c_is_loaded_and_works [Compiler];
    "P2" a_file_that_is_no_library_is_refused [Compiler];
    "P2" a_library_for_another_machine_is_refused [Compiler];
    "P2" a_library_that_is_cut_off_is_refused [Compiler];
    "P2" a_library_without_the_symbol_is_refused [Compiler];
    "P2" a_descriptor_that_is_null_or_no_descriptor_is_refused [Compiler];
    "P2" a_name_that_is_none_is_refused [Compiler];
    "P2" a_device_type_that_is_none_is_refused [Compiler];
    "P2" a_path_that_leads_to_no_file_is_refused [Compiler];
    "P2" one_that_was_asked_for_by_name_and_fails_is_an_error [Compiler];
    "P2" the_same_file_by_a_link_is_loaded_once [Compiler];
    "P2" loading_a_thousand_times_loads_once [Compiler];
    "P2" a_second_backend_with_a_taken_name_is_refused [Compiler];
    "P2" the_name_and_the_number_of_a_built_in_backend_are_taken [Compiler];
    "P2" seventeen_kinds_without_a_number_are_one_too_many [Compiler];
    "P2" loading_from_many_threads_at_once_loads_once [Compiler];
    "P2" a_plugin_without_devices_tells_its_reason [Compiler];
}

programs![survey, load_from_threads];

/// One command of the survey.
fn answer(bare: &Bare, library: &crate::library::Library, command: &str) -> Checked<Value> {
    let (word, rest) = command.split_once('=').unwrap_or((command, ""));
    let number = rest.parse().unwrap_or(-1);
    let failure = || -> Checked<Value> {
        let failure = library.take_failure().map_err(Stop::fail)?;
        Ok(failure.map_or(json!(""), |failure| json!(failure.message)))
    };
    let coded = |code: Code, message: Value| json!({ "code": code.0, "message": message });
    match word {
        "load" => match library.load_backend(Path::new(rest)) {
            Ok(number) => Ok(json!({ "code": 0, "type": number, "message": "" })),
            Err(code) => Ok(coded(code, failure()?)),
        },
        "table" => {
            // SAFETY: takes a number.
            if unsafe { (library.call.get_backend_api)(number) }.is_null() {
                let failure = library.take_failure().map_err(Stop::fail)?;
                let failure = failure.ok_or_else(|| Stop::fail("NULL without a failure"))?;
                Ok(coded(failure.code, json!(failure.message)))
            } else {
                Ok(coded(Code::SUCCESS, json!("")))
            }
        }
        "count" => {
            let quiet = library.twelve(number).map_err(Stop::fail)?.get_device_count();
            let told = library.device_count(number);
            let code = told.err().unwrap_or(Code::SUCCESS);
            Ok(json!({ "count": quiet, "code": code.0, "message": failure()? }))
        }
        "name" => Ok(json!({ "name": library.device_type_name(number).map_err(Stop::fail)? })),
        "candidates" => {
            let all = library.candidates().map_err(Stop::fail)?;
            let records: Vec<Value> = all
                .iter()
                .map(|one| {
                    json!({
                        "code": one.code.0, "type": one.device_type, "name": one.name,
                        "path": one.path, "version": one.version, "message": one.reason,
                    })
                })
                .collect();
            Ok(json!(records))
        }
        "cpu" | "use" => {
            let t = library.twelve(number.max(0)).map_err(Stop::fail)?;
            let (bytes, mut back) = ([7u8; 100], [0u8; 100]);
            let block = t.malloc_device(100);
            t.copy(block, Address::of(&bytes), 100, MemcpyKind::H2D);
            t.copy(Address::of_mut(&mut back), block, 100, MemcpyKind::D2H);
            t.free_device(block);
            let failure = library.take_failure().map_err(Stop::fail)?;
            let code = failure.as_ref().map_or(0, |failure| failure.code.0);
            let code = if code == 0 && bytes != back { -1 } else { code };
            Ok(json!({ "code": code, "message": failure.map(|failure| failure.message) }))
        }
        "copy" => {
            let (from, to) = rest.split_once('=').unwrap_or_default();
            let copied = std::fs::copy(from, to).map_err(|error| Stop::fail(error.to_string()))?;
            Ok(json!({ "bytes": copied }))
        }
        // SAFETY: reads the auxiliary vector.
        "secure" => Ok(json!({ "secure": unsafe { libc::getauxval(libc::AT_SECURE) } })),
        _ => Err(Stop::fail(format!("no command `{command}` ({:?})", bare.arguments))),
    }
}

/// Runs its commands, and prints the answers as one array.
fn survey(bare: &Bare) -> Checked<i32> {
    let library = bare.library()?;
    let answers: Vec<Value> = bare
        .arguments
        .iter()
        .map(|command| answer(bare, &library, command))
        .collect::<Checked<_>>()?;
    println!("{}", Value::Array(answers));
    Ok(0)
}

/// `load=PATH`.
fn load(path: &Path) -> String {
    format!("load={}", path.display())
}

/// Loads a file by an explicit call: refused with this status and these words, and the CPU works.
fn refused(shop: &Workshop, path: &Path, status: Status, words: &str) -> Checked {
    let survey = shop.survey(shop.launch("survey"), &[&load(path), "cpu"])?;
    let at = |stop: Stop| stop.at(path.file_name().unwrap_or_default().to_string_lossy());
    survey.expect(0, status, words).map_err(at)?;
    survey.expect_cpu(1).map_err(at)
}

fn a_plugin_in_c_is_loaded_and_works(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let good = shop.plugin("good.so", &["NAME=\"alpha\""])?;
    let commands = [&load(&good), "use=32", "count=32", "name=32", "table=32", "candidates"];
    let survey = shop.survey(shop.launch("survey"), &commands)?;
    survey.expect(0, Status::Success, "")?;
    ensure_eq!(survey.number(0, "type")?, 32, "the number that it was given");
    survey.expect(1, Status::Success, "")?;
    ensure_eq!(survey.number(2, "count")?, 2, "its devices");
    ensure_eq!(survey.answer(3)?["name"], "alpha", "its name");
    survey.expect(4, Status::Success, "")?;
    let records = survey.candidates(5)?;
    let own = records.iter().find(|record| record["name"] == "alpha");
    let own = own.ok_or_else(|| Stop::fail(format!("no record of it in {records:?}")))?;
    ensure_eq!(own["version"], "1.2.3", "its version");
    ensure_eq!(own["code"], 0, "its status");
    Ok(())
}

fn a_file_that_is_no_library_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let status = Status::BackendRefused;
    refused(&shop, &shop.folder.write("empty.so", b"")?, status, "empty")?;
    refused(&shop, &shop.folder.write("text.so", b"INPUT(libc.so.6) and more")?, status, "ELF")?;
    refused(&shop, &shop.folder.write("short.so", b"\x7fELF\x02\x01")?, status, "ELF")
}

/// A good plugin with some bytes of its header changed.
fn patched(shop: &Workshop, name: &str, at: usize, bytes: &[u8]) -> Checked<std::path::PathBuf> {
    let good = shop.plugin("to-be-patched.so", &[])?;
    let mut file = std::fs::read(&good).map_err(|error| Stop::skip(error.to_string()))?;
    file[at..at + bytes.len()].copy_from_slice(bytes);
    shop.folder.write(name, &file)
}

fn a_library_for_another_machine_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let status = Status::BackendRefused;
    // The machine (243 is RISC-V), the class, the byte order, the type (2 is a program).
    let machine = patched(&shop, "machine.so", 18, &[243, 0])?;
    refused(&shop, &machine, status, "another architecture")?;
    refused(&shop, &patched(&shop, "class.so", 4, &[1])?, status, "another architecture")?;
    refused(&shop, &patched(&shop, "order.so", 5, &[2])?, status, "another architecture")?;
    refused(&shop, &patched(&shop, "program.so", 16, &[2, 0])?, status, "not a shared library")
}

fn a_library_that_is_cut_off_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let good = shop.plugin("good.so", &[])?;
    let file = std::fs::read(&good).map_err(|error| Stop::skip(error.to_string()))?;
    for length in [64, 512, file.len() / 2] {
        let cut = shop.folder.write(&format!("cut{length}.so"), &file[..length])?;
        refused(&shop, &cut, Status::BackendRefused, "")?;
    }
    Ok(())
}

fn a_library_without_the_symbol_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let plugin = shop.plugin("other.so", &["QUERY=somethingElse"])?;
    refused(&shop, &plugin, Status::BackendRefused, "llaisysBackendQuery")
}

fn a_descriptor_that_is_null_or_no_descriptor_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let null = shop.plugin("null.so", &["ANSWER=NULL"])?;
    refused(&shop, &null, Status::AbiMismatch, "NULL")?;
    let magic = shop.plugin("magic.so", &["MAGIC=0x1122334455667788"])?;
    refused(&shop, &magic, Status::BackendRefused, "magic")?;
    let table = shop.plugin("table.so", &["TABLE=NULL"])?;
    refused(&shop, &table, Status::AbiMismatch, "no table")
}

fn a_name_that_is_none_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let long = format!("NAME=\"{}\"", "n".repeat(32));
    let names = ["NAME=\"\"", "NAME=NULL", "NAME=\"Upper\"", "NAME=\"a b\"", "NAME=\"a/b\"", &long];
    for (index, name) in names.iter().enumerate() {
        // Properties print the name; NULL is none to print.
        let plugin = shop.plugin(&format!("name{index}.so"), &[name, "HELPER=2"])?;
        refused(&shop, &plugin, Status::BackendRefused, "name")?;
    }
    Ok(())
}

fn a_device_type_that_is_none_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    for number in ["-2", "11", "31", "32", "47", "48", "2147483647"] {
        let define = format!("DEVICE_TYPE={number}");
        let plugin = shop.plugin(&format!("type{number}.so"), &[&define])?;
        refused(&shop, &plugin, Status::BackendRefused, number)?;
    }
    Ok(())
}

fn a_path_that_leads_to_no_file_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let status = Status::BackendRefused;
    refused(&shop, Path::new("/nowhere/at/all.so"), status, "/nowhere/at/all.so")?;
    refused(&shop, &shop.folder.folder("folder.so")?, status, "not a file")?;
    let dangling = shop.folder.link(&shop.folder.file("gone.so"), "dangling.so")?;
    refused(&shop, &dangling, status, "")?;
    refused(&shop, Path::new(""), status, "")?;
    refused(&shop, Path::new("/dev/null"), status, "")
}

fn one_that_was_asked_for_by_name_and_fails_is_an_error(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let broken = shop.plugin("broken.so", &["MAJOR=99", "DEVICE_TYPE=3"])?;
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", &broken);
    let survey = shop.survey(launch, &["table=3", "count=3", "cpu", &load(&broken)])?;
    survey.expect(0, Status::BackendRefused, "broken.so")?;
    survey.expect(1, Status::BackendRefused, "broken.so")?;
    ensure_eq!(survey.number(1, "count")?, 0, "the quiet count");
    survey.expect_cpu(2)?;
    survey.expect(3, Status::AbiMismatch, "99")
}

fn the_same_file_by_a_link_is_loaded_once(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let file = shop.plugin("alpha.so", &["NAME=\"alpha\""])?;
    let soft = shop.folder.link(&file, "soft.so")?;
    let hard = shop.folder.file("hard.so");
    std::fs::hard_link(&file, &hard).map_err(|error| Stop::skip(error.to_string()))?;
    let through = shop.folder.link(shop.folder.path(), "folder")?.join("alpha.so");
    let list: Vec<String> =
        [&soft, &file, &hard, &through].iter().map(|path| path.display().to_string()).collect();
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", list.join(":"));
    let commands = [&load(&file), &load(&soft), &load(&hard), &load(&through), "candidates"];
    let survey = shop.survey(launch, &commands)?;
    for index in 0..4 {
        survey.expect(index, Status::Success, "")?;
        ensure_eq!(survey.number(index, "type")?, 32, "the number by way {index}");
    }
    let records = survey.candidates(4)?;
    let used = records.iter().filter(|record| record["code"] == 0).count();
    ensure_eq!(used, 1, "how often it is in use ({records:?})");
    let refused = records.iter().filter(|record| record["code"] != 0).count();
    ensure_eq!(refused, 0, "how often it was refused ({records:?})");
    Ok(())
}

fn loading_a_thousand_times_loads_once(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let file = shop.plugin("alpha.so", &["NAME=\"alpha\""])?;
    let command = load(&file);
    let mut commands = vec![command.as_str(); 1000];
    commands.push("candidates");
    let survey = shop.survey(shop.launch("survey"), &commands)?;
    for index in 0..1000 {
        survey.expect(index, Status::Success, "")?;
        ensure_eq!(survey.number(index, "type")?, 32, "the number, time {index}");
    }
    let own = |record: &&Value| record["name"] == "alpha";
    let records = survey.candidates(1000)?;
    ensure_eq!(records.iter().filter(own).count(), 1, "the number of records");
    Ok(())
}

fn a_second_backend_with_a_taken_name_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let first = shop.plugin("first.so", &["NAME=\"alpha\"", "DEVICE_TYPE=3"])?;
    let name = shop.plugin("name.so", &["NAME=\"alpha\""])?;
    let number = shop.plugin("number.so", &["NAME=\"beta\"", "DEVICE_TYPE=3"])?;
    let commands = [&load(&first), &load(&name), &load(&number), "use=3", "count=32"];
    let survey = shop.survey(shop.launch("survey"), &commands)?;
    ensure_eq!(survey.number(0, "type")?, 3, "the first one's number");
    survey.expect(1, Status::BackendRefused, "alpha")?;
    survey.expect(2, Status::BackendRefused, "beta")?;
    survey.expect(3, Status::Success, "")?;
    ensure_eq!(survey.number(4, "count")?, 0, "the devices of a number that nobody was given");
    Ok(())
}

fn the_name_and_the_number_of_a_built_in_backend_are_taken(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let name = shop.plugin("name.so", &["NAME=\"cpu\""])?;
    refused(&shop, &name, Status::BackendRefused, "cpu")?;
    let number = shop.plugin("number.so", &["NAME=\"beta\"", "DEVICE_TYPE=0"])?;
    refused(&shop, &number, Status::BackendRefused, "beta")
}

fn seventeen_kinds_without_a_number_are_one_too_many(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let mut commands = Vec::new();
    for index in 0..17 {
        let define = format!("NAME=\"kind{index}\"");
        commands.push(load(&shop.plugin(&format!("kind{index}.so"), &[&define])?));
    }
    commands.extend(["use=47".to_owned(), "cpu".to_owned()]);
    let words: Vec<&str> = commands.iter().map(String::as_str).collect();
    let survey = shop.survey(shop.launch("survey"), &words)?;
    let mut numbers = HashSet::new();
    for index in 0..16 {
        survey.expect(index, Status::Success, "")?;
        numbers.insert(survey.number(index, "type")?);
    }
    ensure_eq!(numbers, (32..48).collect(), "the numbers that were given");
    survey.expect(16, Status::BackendRefused, "")?;
    survey.expect(17, Status::Success, "")?;
    survey.expect_cpu(18)
}

fn loading_from_many_threads_at_once_loads_once(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let file = shop.plugin("alpha.so", &["NAME=\"alpha\""])?;
    shop.launch("load_from_threads").argument(&file).run()?.expect_success()
}

fn load_from_threads(bare: &Bare) -> Checked<i32> {
    let library = std::sync::Arc::new(bare.library()?);
    let path = bare.argument(0)?.to_owned();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (library, path) = (std::sync::Arc::clone(&library), path.clone());
            std::thread::spawn(move || library.load_backend(Path::new(&path)))
        })
        .collect();
    for thread in threads {
        let answer = thread.join().map_err(|_| Stop::fail("a thread panicked"))?;
        ensure_eq!(answer, Ok(32), "the number that a thread was told");
    }
    let all = library.candidates().map_err(Stop::fail)?;
    let own = all.iter().filter(|record| record.name == "alpha").count();
    ensure_eq!(own, 1, "the number of records");
    Ok(0)
}

fn a_plugin_without_devices_tells_its_reason(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let none = shop.plugin("none.so", &["NAME=\"none\"", "DEVICES=0"])?;
    let old =
        shop.plugin("old.so", &["NAME=\"old\"", "COUNT_STATUS=LLAISYS_STATUS_DRIVER_TOO_OLD"])?;
    let wrong = shop.plugin("wrong.so", &["NAME=\"wrong\"", "DEVICES=-5"])?;
    let commands =
        [&load(&none), &load(&old), &load(&wrong), "count=32", "count=33", "count=34", "use=33"];
    let survey = shop.survey(shop.launch("survey"), &commands)?;
    for index in 3..6 {
        ensure_eq!(survey.number(index, "count")?, 0, "the quiet count of {index}");
    }
    survey.expect(3, Status::Success, "")?;
    survey.expect(4, Status::DriverTooOld, "on purpose")?;
    survey.expect(5, Status::Internal, "")?;
    survey.expect(6, Status::DriverTooOld, "on purpose")
}
