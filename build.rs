//! Writes the headers in `include/`: the templates in `capi/headers/` with the declarations that
//! cbindgen makes of the Rust sources put in.
//!
//! A template is the header as its reader sees it, in the order in which it explains itself. A line
//! `@ NAME NAME …` stands for the declarations of these names, with the documentation of their Rust
//! items. So the prose is written where it is read, and no declaration is written twice.
//!
//! A line `@OFFSETS NAME NAME …` stands for an assertion of each field's place in these structs, by
//! `tests/layout/layout.json`, which a test holds to the Rust structs.
//!
//! Rules: a name that a template asks for and no source has, and a declaration that no template
//! asks for, stop the build. A header is written only when it changed, and not at all when
//! `LLAISYS_HEADERS=check` (CI) or when the tree cannot be written; `capi/tests/headers.rs` then
//! finds it stale.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Template in `capi/headers/`, header in `include/`.
const HEADERS: [(&str, &str); 3] = [
    ("llaisys.h.in", "llaisys.h"),
    ("runtime.h.in", "llaisys/runtime.h"),
    ("backend.h.in", "llaisys/backend.h"),
];

/// Where the declarations are: the core's half of the C ABI, then every file of `capi/src/`.
const CORE: [&str; 10] = [
    "abi.rs",
    "api.rs",
    "copy.rs",
    "device_info.rs",
    "device_type.rs",
    "event.rs",
    "memory.rs",
    "status.rs",
    "stream.rs",
    "support.rs",
];

/// Where every field is, written by `tests/layout/layout.rs`.
const LAYOUT: &str = "tests/layout/layout.json";

/// Types of functions that a client hands in.
const CALLBACKS: [&str; 3] = ["HostFunction", "OutOfMemoryCallback", "SlotDestructor"];

fn main() {
    let capi = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = capi.parent().expect("capi/ is a folder of the repository").to_owned();
    let out = PathBuf::from(variable("OUT_DIR"));

    link_arguments();
    println!("cargo:rerun-if-env-changed=LLAISYS_HEADERS");
    println!("cargo:rerun-if-changed=../build.rs");
    println!("cargo:rerun-if-changed=headers");
    println!("cargo:rerun-if-changed=../{LAYOUT}");
    println!("cargo:rerun-if-changed=src");
    for (_, header) in HEADERS {
        println!("cargo:rerun-if-changed=../include/{header}");
    }

    let sources = sources(&root, &capi, &out);
    let mut items = declarations(&sources, &capi.join("headers/cbindgen.toml"));
    items.append(&mut constants(&sources, &capi.join("headers/constants.toml")));

    let layout = read(&root.join(LAYOUT));
    let mut asked = BTreeSet::new();
    for (template, header) in HEADERS {
        let template = read(&capi.join("headers").join(template));
        let text = offsets(&fill(&template, &items, &mut asked), &layout);
        write_if_changed(&out.join(header), &text).expect("OUT_DIR can be written");
        if env::var("LLAISYS_HEADERS").as_deref() != Ok("check") {
            // A tree that cannot be written (a package, a read-only checkout) is no fault.
            let _ = write_if_changed(&root.join("include").join(header), &text);
        }
    }
    let forgotten: Vec<_> =
        items.iter().filter(|(name, item)| !item.constant && !asked.contains(*name)).collect();
    assert!(
        forgotten.is_empty(),
        "no template in capi/headers/ asks for {:?}",
        forgotten.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
}

/// How `libllaisys_runtime.so` is linked. It has threads and handlers that outlive a `dlclose`, so
/// the loader is told never to unmap it.
fn link_arguments() {
    if variable("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libllaisys_runtime.so");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}

/// One declaration, documentation included.
struct Item {
    text: String,
    /// Of the constants a template takes those it wants; types and functions must all be in one.
    constant: bool,
}

/// The sources as cbindgen is to read them, copied to `OUT_DIR`.
fn sources(root: &Path, capi: &Path, out: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        CORE.iter().map(|name| root.join("runtime-core/src").join(name)).collect();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let own = fs::read_dir(capi.join("src")).expect("capi/src is there");
    let mut own: Vec<_> = own.map(|entry| entry.expect("can be read").path()).collect();
    own.retain(|path| path.extension().is_some_and(|e| e == "rs") && !path.ends_with("lib.rs"));
    own.sort();
    files.append(&mut own);

    let folder = out.join("sources");
    fs::create_dir_all(&folder).expect("OUT_DIR can be written");
    let copy = |file: PathBuf| {
        // The ABI carries `int32_t` or `uint32_t`, never the enum; with its Rust representation cbindgen would
        // wrap it in conditionals for C23.
        let text = read(&file).replace("#[repr(i32)]", "#[repr(C)]");
        let text = text.replace("#[repr(u32)]", "#[repr(C)]");
        // Every pointer to a function may be NULL in C; cbindgen cannot see through the alias.
        let text = CALLBACKS
            .iter()
            .fold(text, |text, name| text.replace(&format!("Option<{name}>"), name));
        let crate_name = if file.starts_with(capi) { "capi" } else { "core" };
        let name = file.file_name().and_then(|n| n.to_str()).expect("a source has a name");
        let to = folder.join(format!("{crate_name}_{name}"));
        fs::write(&to, text).expect("OUT_DIR can be written");
        to
    };
    files.into_iter().map(copy).collect()
}

fn generate(sources: &[PathBuf], config: &Path) -> String {
    let config = cbindgen::Config::from_file(config).expect("the cbindgen configuration is valid");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(source);
    }
    let mut text = Vec::new();
    builder.generate().expect("cbindgen understands the sources").write(&mut text);
    String::from_utf8(text).expect("cbindgen writes UTF-8")
}

/// Types and functions by name: cbindgen puts blank lines between them.
fn declarations(sources: &[PathBuf], config: &Path) -> BTreeMap<String, Item> {
    let output = generate(sources, config);
    let blocks = output.split("\n\n").map(|block| for_readers_of_c(block.trim_matches('\n')));
    let named = blocks.filter_map(|text| Some((declared_name(&text)?, text)));
    let tagged = named.map(|(name, text)| {
        // A tag too, so that C++ code may declare the struct without the header.
        let text = text.replace("typedef struct {", &format!("typedef struct {name} {{"));
        (name, Item { text, constant: false })
    });
    tagged.collect()
}

/// Constants by name: each is a `#define` with the comment before it.
fn constants(sources: &[PathBuf], config: &Path) -> BTreeMap<String, Item> {
    let mut items = BTreeMap::new();
    let mut block = String::new();
    for line in generate(sources, config).lines() {
        block = if line.starts_with("///") { block + line + "\n" } else { block + line };
        if let Some(definition) = line.strip_prefix("#define ") {
            let name = definition.split_whitespace().next().unwrap_or_default().to_owned();
            let text = for_readers_of_c(&block);
            items.insert(name, Item { text, constant: true });
        }
        if !line.starts_with("///") {
            block.clear();
        }
    }
    items
}

/// What a declaration declares: a type or a function.
fn declared_name(text: &str) -> Option<String> {
    let code: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let (first, last) = (code.first()?, code.last()?);
    let name = if let Some(rest) = last.strip_prefix("} ") {
        rest.trim_end_matches(';')
    } else if let Some((_, rest)) = first.split_once("(*") {
        rest.split_once(')')?.0
    } else if first.starts_with("typedef ") {
        last.trim_end_matches(';').rsplit([' ', '*']).next()?
    } else {
        first.split_once('(')?.0.rsplit([' ', '*']).next()?
    };
    Some(name.to_owned())
}

/// Rust's documentation as C's: headings become words, links to Rust items their names.
fn for_readers_of_c(block: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in block.lines() {
        let comment = line.trim_start();
        if !comment.starts_with("///") && lines.last().is_some_and(|last| last == "///") {
            lines.pop(); // what a note to cbindgen leaves behind
        }
        lines.push(match comment {
            "/// # Safety" => "/// Requires:".to_owned(),
            "/// # Errors" => "/// Errors:".to_owned(),
            _ if comment.starts_with("///") => line.replace("[`", "`").replace("`]", "`"),
            _ if line.ends_with(" -1") => line.replace(" -1", " (-1)"),
            _ => line.to_owned(),
        });
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The template with every `@` line replaced by the declarations it asks for.
fn fill(template: &str, items: &BTreeMap<String, Item>, asked: &mut BTreeSet<String>) -> String {
    let mut header = String::new();
    for line in template.lines() {
        if let Some(names) = line.strip_prefix("@ ") {
            let mut previous: Option<&Item> = None;
            for name in names.split_whitespace() {
                let item = items.get(name).unwrap_or_else(|| {
                    panic!("a template asks for `{name}`; no source declares it")
                });
                assert!(asked.insert(name.to_owned()), "`{name}` is asked for twice");
                // Constants stand close together.
                if previous.is_some_and(|previous| !(previous.constant && item.constant)) {
                    header.push('\n');
                }
                header.push_str(&item.text);
                previous = Some(item);
            }
        } else {
            header.push_str(&line.replace("@VERSION@", &variable("CARGO_PKG_VERSION")));
            header.push('\n');
        }
    }
    header
}

/// The header with every `@OFFSETS` line replaced by an assertion for each field.
fn offsets(header: &str, layout: &str) -> String {
    let mut text = String::new();
    for line in header.lines() {
        if let Some(names) = line.strip_prefix("@OFFSETS ") {
            for name in names.split_whitespace() {
                for (field, offset) in fields(layout, name) {
                    text.push_str(&format!("LLAISYS_AT({name}, {field}, {offset});\n"));
                }
            }
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The fields of a struct and their places. The file has a line for each: `"field": [offset, size]`.
fn fields(layout: &str, name: &str) -> Vec<(String, u64)> {
    let own = layout.lines().skip_while(|line| line.trim() != format!("\"{name}\": {{")).skip(1);
    let own = own.take_while(|line| !line.starts_with("  }"));
    let field = |line: &str| {
        let (field, place) = line.trim().split_once("\": [")?;
        let offset = place.split(',').next()?.parse().ok()?;
        Some((field.trim_start_matches('"').to_owned(), offset))
    };
    let fields: Vec<_> = own.filter_map(field).collect();
    assert!(!fields.is_empty(), "{LAYOUT} has no `{name}`");
    fields
}

fn write_if_changed(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("a header lies in a folder"))?;
    // Whoever reads meanwhile sees the old header or the new one, never half of it.
    let new = path.with_extension("h.new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
