//! The pages of `docs/` about the table: their examples compile and run on the CPU, and their
//! prototypes are the header's, each on one page.

mod toolchain;

use llaisys_runtime_core::entries::ENTRIES;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use toolchain::Standard;

/// A page for each noun of the table.
const NOUNS: [&str; 9] = [
    "accounting",
    "capabilities",
    "copies",
    "devices",
    "events",
    "host-functions",
    "memory",
    "slots",
    "streams",
];

/// Pages that translate other runtimes' calls to ours.
const TRANSLATIONS: [&str; 2] = ["coming-from-cuda", "coming-from-llaisys-and-infinirt"];

/// Stands where a page's example in Python will be.
const PYTHON_TO_COME: &str = "<!-- python -->";

fn page(name: &str) -> String {
    let path = toolchain::root().join("docs").join(format!("{name}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between "```KIND" and "```".
fn fences<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("\n```{kind}\n");
    text.split(begin.as_str())
        .skip(1)
        .map(|rest| rest.split_once("```").expect("a fence ends").0)
        .collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Name and prototype of each entry in a piece of C.
fn prototypes(text: &str) -> Vec<(String, String)> {
    let code: Vec<&str> = text.lines().map(|line| line.split("///").next().unwrap_or("")).collect();
    let code = one_line(&code.join("\n"));
    let entries = code.split("int32_t (*").skip(1).map(|rest| {
        let name = rest.split_once(')').expect("a pointer to a function").0;
        let prototype = rest.split_once(");").expect("it ends").0;
        (name.to_owned(), one_line(prototype))
    });
    entries.collect()
}

#[test]
fn each_entry_of_the_table_has_its_prototype_on_one_page() {
    let header = fs::read_to_string(toolchain::root().join("include/llaisys/backend.h"));
    let header = header.expect("the header is there");
    let (_, table) = header.split_once("typedef struct LlaisysBackendAPI {").expect("a table");
    let (table, _) = table.split_once("} LlaisysBackendAPI;").expect("the table ends");
    let wanted: BTreeMap<_, _> = prototypes(table).into_iter().collect();
    let names: BTreeSet<_> = ENTRIES.iter().map(|entry| entry.name.to_owned()).collect();
    assert_eq!(wanted.keys().cloned().collect::<BTreeSet<_>>(), names);

    let mut found = BTreeMap::new();
    for noun in NOUNS {
        for fence in fences(&page(noun), "c table") {
            for (name, prototype) in prototypes(fence) {
                let entry = wanted.get(&name);
                let entry = entry.unwrap_or_else(|| panic!("{noun}.md: {name} is no entry"));
                assert_eq!(prototype, *entry, "docs/{noun}.md has another {name} than the header");
                let other = found.insert(name.clone(), noun);
                assert_eq!(other, None, "{name} is on two pages, the other is {noun}.md");
            }
        }
    }
    let missing: Vec<_> = names.iter().filter(|name| !found.contains_key(*name)).collect();
    assert!(missing.is_empty(), "no page of docs/ has the prototype of {missing:?}");
}

#[test]
fn each_noun_has_a_complete_example_in_each_language() {
    for noun in NOUNS {
        let text = page(noun);
        assert_eq!(fences(&text, "c").len(), 1, "{noun}.md: examples in C");
        assert_eq!(fences(&text, "cpp").len(), 1, "{noun}.md: examples in C++");
        let python = fences(&text, "python").len() + text.matches(PYTHON_TO_COME).count();
        assert_eq!(python, 1, "{noun}.md: examples in Python, or the place for one");
    }
}

/// One program for each example, built without a warning and run with exit code 0.
fn run_examples(standard: Standard, kind: &str) {
    for name in NOUNS.into_iter().chain(TRANSLATIONS) {
        for (index, example) in fences(&page(name), kind).into_iter().enumerate() {
            let file = format!("{name}_{index}_{kind}");
            let object = toolchain::compile_text(standard, &file, example, &[]);
            toolchain::run(&toolchain::link(standard, &[object], &file), &[]);
        }
    }
}

#[test]
fn the_examples_in_c_compile_and_run() {
    run_examples(Standard::C99, "c");
}

#[test]
fn the_examples_in_cpp_compile_and_run() {
    run_examples(Standard::Cxx17, "cpp");
}

#[test]
fn the_examples_in_python_run() {
    let package = toolchain::root().join("python");
    for noun in NOUNS {
        for example in fences(&page(noun), "python") {
            let source = toolchain::scratch(&format!("{noun}.py"));
            fs::write(&source, example).expect("the scratch folder can be written");
            let library = toolchain::library_folder().join("libllaisys_runtime.so");
            let mut python = Command::new("python3");
            python.arg(&source).env("PYTHONPATH", &package);
            python.env("PYTHONDONTWRITEBYTECODE", "1").env("LLAISYS_RUNTIME_LIBRARY", library);
            let output = python.output().expect("python3 is there");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "docs/{noun}.md: {text}");
        }
    }
}

/// What a translation calls ours is there: an entry of the table, a name of the headers.
#[test]
fn the_translations_name_only_what_is_there() {
    let headers: String = ["llaisys.h", "llaisys/runtime.h", "llaisys/backend.h", "llaisys.hpp"]
        .map(|name| fs::read_to_string(toolchain::root().join("include").join(name)))
        .map(|text| text.expect("the header is there"))
        .concat();
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let known: BTreeSet<&str> = headers.split(|c| !word(c)).collect();
    for name in TRANSLATIONS {
        let text = page(name);
        let mut rows = 0;
        for row in text.lines().filter(|line| line.starts_with("| `")) {
            let mut cells = row.split(" | ").skip(1);
            let ours = cells.next().unwrap_or_else(|| panic!("{name}.md: {row}"));
            rows += 1;
            for code in ours.split('`').skip(1).step_by(2) {
                for ours in code.split(|c| !word(c)) {
                    let is_name = ours.starts_with(|c: char| c.is_alphabetic());
                    assert!(
                        !is_name || known.contains(ours),
                        "docs/{name}.md: `{ours}` is nowhere"
                    );
                }
            }
        }
        assert!(rows > 30, "{name}.md has {rows} rows");
    }
}
