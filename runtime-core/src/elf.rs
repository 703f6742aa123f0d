//! What a shared library says of itself, read from its file before anything of it runs (contract P2–P4).
//!
//! Rule: constructors run in `dlopen`, so what the file's headers and symbol table can tell is told from
//! them. Every number of the file is somebody else's: each is checked before it is used.

use crate::error::{Error, Result};
use crate::sanitizer::Sanitizer;
use crate::status::Status;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What this process is built for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// No table of a plugin's symbols or names is larger.
const LARGEST_TABLE: u64 = 256 << 20;
const SYMBOL: usize = 24;

/// Names that old linkers export from every library on their own.
const OF_THE_LINKER: [&str; 9] =
    ["_init", "_fini", "_edata", "_end", "_etext", "__bss_start", "_fdata", "_ftext", "_fbss"];
/// What AddressSanitizer defines for each global variable.
const OF_A_SANITIZER: &str = "__odr_asan";

/// One entry of the program header.
struct Segment {
    kind: u64,
    flags: u64,
    offset: u64,
    address: u64,
    /// Bytes in the file.
    size: u64,
}

impl Segment {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const STACK: u64 = 0x6474_e551;
    const EXECUTABLE: u64 = 1;
}

/// The segments of a shared library, all of which lie in the file: to touch one past its end would be a
/// SIGBUS in `dlopen` (a copy that was interrupted, a disk that was full).
fn segments(file: &File, path: &Path, length: u64) -> Result<Vec<Segment>> {
    const SHARED: u16 = 3;
    let mut head = [0u8; 64];
    let read = file.read_at(&mut head, 0).map_err(|error| unreadable(path, &error))?;
    if read == 0 {
        return Err(refused("the file is empty"));
    }
    if read < head.len() || head[..4] != *b"\x7fELF" {
        return Err(refused("it is not a shared library (no ELF header)"));
    }
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    if head[4] != 2 || head[5] != 1 || word(18) != MACHINE {
        return Err(refused(format!(
            "it is for another architecture (ELF class {}, machine {}; this process is {MACHINE})",
            head[4],
            word(18)
        )));
    }
    if word(16) != SHARED {
        return Err(refused(format!("it is not a shared library (ELF type {})", word(16))));
    }
    let (table, entry_size, count) =
        (number(&head[32..40]), u64::from(word(54)), u64::from(word(56)));
    let mut segments = Vec::new();
    for index in 0..count {
        let mut entry = [0u8; 56];
        let at = table.checked_add(index * entry_size).ok_or_else(cut_off)?;
        file.read_exact_at(&mut entry, at).map_err(|_| cut_off())?;
        let segment = Segment {
            kind: number(&entry[..4]),
            flags: number(&entry[4..8]),
            offset: number(&entry[8..16]),
            address: number(&entry[16..24]),
            size: number(&entry[32..40]),
        };
        let end = segment.offset.checked_add(segment.size);
        if segment.kind == Segment::LOAD && end.is_none_or(|end| end > length) {
            return Err(cut_off());
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// A shared library for this machine whose segments are known to lie in its file.
pub struct Library {
    file: File,
    segments: Vec<Segment>,
}

/// What is looked for in the dynamic section.
#[derive(Default)]
struct Dynamic {
    symbols: u64,
    strings: u64,
    strings_size: u64,
    hash: u64,
    gnu_hash: u64,
    flags: u64,
    /// Where the names of libraries that it needs are among the strings.
    needed: Vec<u64>,
    /// The same for lists of folders in which they are looked for.
    folders: Vec<u64>,
}

impl Library {
    /// Looks at a file's headers.
    ///
    /// # Errors
    /// `BACKEND_REFUSED`: it is no 64-bit shared library for this machine, or not all there.
    pub fn open(path: &Path) -> Result<Library> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        Ok(Library { segments: segments(&file, path, length)?, file })
    }

    /// Refuses a library that would weaken the process, or that does not export `entry` and nothing
    /// else. Answers the sanitizer that it was built with.
    ///
    /// # Errors
    /// `BACKEND_REFUSED`, with what is wrong with it.
    pub fn check_plugin(&self, entry: &str) -> Result<Sanitizer> {
        self.check_stack()?;
        self.check_symbols(entry)
    }

    /// The C library would make the stacks of the whole process executable.
    fn check_stack(&self) -> Result<()> {
        let stack = self.segments.iter().find(|segment| segment.kind == Segment::STACK);
        if stack.is_some_and(|stack| stack.flags & Segment::EXECUTABLE != 0) {
            return Err(refused("it asks for an executable stack; link it with -z noexecstack"));
        }
        Ok(())
    }

    fn check_symbols(&self, entry: &str) -> Result<Sanitizer> {
        const IS_A_PROGRAM: u64 = 0x0800_0000;
        let dynamic = self.dynamic()?;
        if dynamic.flags & IS_A_PROGRAM != 0 {
            return Err(refused("it is not a shared library but a program (DF_1_PIE)"));
        }
        let strings = self.read(dynamic.strings, dynamic.strings_size)?;
        check_dependencies(&dynamic, &strings)?;
        let symbols = self.read(dynamic.symbols, self.count(&dynamic)? * SYMBOL as u64)?;
        let (mut found, mut others, mut sanitizer) = (false, Vec::new(), Sanitizer::None);
        for symbol in symbols.chunks_exact(SYMBOL) {
            let symbol = Symbol::read(symbol, &strings)?;
            if let Some(built_with) = Sanitizer::that_defines(&symbol.name) {
                sanitizer = built_with;
            }
            if !symbol.is_exported() {
                continue;
            }
            if symbol.name == entry {
                if !symbol.is_function() {
                    return Err(refused(format!("its symbol {entry} is no function")));
                }
                found = true;
            } else if !OF_THE_LINKER.contains(&symbol.name.as_str())
                && !symbol.name.starts_with(OF_A_SANITIZER)
            {
                others.push(symbol.name);
            }
        }
        if !found {
            return Err(refused(format!("it has no symbol {entry}")));
        }
        if !others.is_empty() {
            let first = others.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            return Err(refused(format!(
                "it exports {} more than {entry} ({first}{}); build it with -fvisibility=hidden, \
                 in C++ also with the linker's list include/llaisys/backend.map",
                if others.len() == 1 {
                    "a symbol".to_owned()
                } else {
                    format!("{} symbols", others.len())
                },
                if others.len() > 3 { ", …" } else { "" },
            )));
        }
        Ok(sanitizer)
    }

    fn dynamic(&self) -> Result<Dynamic> {
        let segment = self.segments.iter().find(|segment| segment.kind == Segment::DYNAMIC);
        let segment = segment
            .ok_or_else(|| refused("it is not a shared library (it has no dynamic section)"))?;
        let mut found = Dynamic::default();
        for entry in self.read(segment.address, segment.size)?.chunks_exact(16) {
            let value = number(&entry[8..]);
            match number(&entry[..8]) {
                0 => break,
                1 => found.needed.push(value),
                4 => found.hash = value,
                5 => found.strings = value,
                6 => found.symbols = value,
                10 => found.strings_size = value,
                15 | 29 => found.folders.push(value),
                0x6fff_fef5 => found.gnu_hash = value,
                0x6fff_fffb => found.flags = value,
                _ => {}
            }
        }
        Ok(found)
    }

    /// How many symbols there are; only the hash tables tell.
    fn count(&self, dynamic: &Dynamic) -> Result<u64> {
        if dynamic.hash != 0 {
            return Ok(number(&self.read(dynamic.hash, 8)?[4..]));
        }
        let head = self.read(dynamic.gnu_hash, 16)?;
        let part = |at: usize| number(&head[at..at + 4]);
        let (buckets, first, bloom) = (part(0), part(4), part(8));
        let at = dynamic.gnu_hash.checked_add(16 + 8 * bloom).ok_or_else(cut_off)?;
        let last = self.read(at, 4 * buckets)?.chunks_exact(4).map(number).max().unwrap_or(0);
        if last < first {
            return Ok(first);
        }
        // The chain of the last bucket ends with an odd number.
        let chain = |index: u64| at.checked_add(4 * (buckets + index - first)).ok_or_else(cut_off);
        let mut index = last;
        while number(&self.read(chain(index)?, 4)?) & 1 == 0 {
            index += 1;
        }
        Ok(index + 1)
    }

    /// Bytes by the address at which they will be.
    fn read(&self, address: u64, size: u64) -> Result<Vec<u8>> {
        let damaged = || refused("the file is damaged: its dynamic section leads outside of it");
        let inside = |segment: &&Segment| {
            segment.kind == Segment::LOAD
                && address >= segment.address
                && address - segment.address <= segment.size
                && size <= segment.size - (address - segment.address)
        };
        let segment = self.segments.iter().find(inside).ok_or_else(damaged)?;
        if size > LARGEST_TABLE {
            return Err(damaged());
        }
        let mut bytes = vec![0; size as usize];
        let at = segment.offset + (address - segment.address);
        self.file.read_exact_at(&mut bytes, at).map_err(|_| damaged())?;
        Ok(bytes)
    }
}

/// Refuses a library whose own libraries would be looked for in the working directory (contract P1).
fn check_dependencies(dynamic: &Dynamic, strings: &[u8]) -> Result<()> {
    for at in &dynamic.needed {
        let name = text(strings, *at)?;
        if name.contains('/') && !name.starts_with('/') {
            return Err(refused(format!(
                "it needs `{name}`, which is below the working directory"
            )));
        }
    }
    for at in &dynamic.folders {
        let list = text(strings, *at)?;
        let is_fixed = |folder: &str| {
            ["/", "$ORIGIN", "${ORIGIN}"].iter().any(|start| folder.starts_with(start))
        };
        if let Some(folder) = list.split(':').find(|folder| !is_fixed(folder)) {
            return Err(refused(format!(
                "its libraries would be looked for in `{folder}` of its run path `{list}`, which is \
                 below the working directory"
            )));
        }
    }
    Ok(())
}

/// A text of the string table.
fn text(strings: &[u8], at: u64) -> Result<String> {
    let rest = usize::try_from(at).ok().and_then(|at| strings.get(at..));
    let end = rest.and_then(|rest| rest.iter().position(|byte| *byte == 0));
    let text = rest.zip(end).map(|(rest, end)| String::from_utf8_lossy(&rest[..end]).into_owned());
    text.ok_or_else(|| refused("the file is damaged: a name lies outside of its table of names"))
}

/// One symbol of the dynamic table.
struct Symbol {
    name: String,
    info: u8,
    other: u8,
    home: u16,
}

impl Symbol {
    fn read(entry: &[u8], strings: &[u8]) -> Result<Symbol> {
        let name = text(strings, number(&entry[..4]))?;
        let home = u16::from_le_bytes([entry[6], entry[7]]);
        Ok(Symbol { name, info: entry[4], other: entry[5], home })
    }

    /// Defined here, global, weak or unique, and visible to others.
    fn is_exported(&self) -> bool {
        let (binding, visibility) = (self.info >> 4, self.other & 3);
        // A version that a linker's list names is a symbol too, of no place.
        const NO_PLACE: u16 = 0xfff1;
        self.home != 0
            && self.home != NO_PLACE
            && matches!(binding, 1 | 2 | 10)
            && matches!(visibility, 0 | 3)
    }

    /// A function, or one that is chosen when it is loaded.
    fn is_function(&self) -> bool {
        matches!(self.info & 15, 2 | 10)
    }
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn cut_off() -> Error {
    refused("the file is cut off: it ends before its last segment does")
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    refused(format!("{}: {error}", path.display()))
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(Status::BackendRefused, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path) -> Result<Sanitizer> {
        Library::open(path)?.check_plugin("llaisysBackendQuery")
    }

    /// Every prefix of a real library, and a real library with any one byte of its headers changed, is
    /// refused or accepted, and nothing else happens.
    #[test]
    fn no_file_makes_the_check_panic_or_run_for_ever() {
        let own = std::env::current_exe().expect("this program has a file");
        let whole = std::fs::read(own).expect("it can be read");
        let whole = &whole[..whole.len().min(1 << 20)];
        let path = std::env::temp_dir().join(format!("llaisys-elf-{}.so", std::process::id()));
        for length in [0, 1, 4, 63, 64, 100, 512, 4096, 65_536, whole.len()] {
            std::fs::write(&path, &whole[..length.min(whole.len())]).expect("a temporary file");
            let refused = check(&path).expect_err("no plugin");
            assert_eq!(refused.status(), Status::BackendRefused);
        }
        for at in 0..1024 {
            for value in [0x00, 0x7f, 0xff] {
                let mut changed = whole[..whole.len().min(65_536)].to_vec();
                changed[at] = value;
                std::fs::write(&path, &changed).expect("a temporary file");
                assert!(check(&path).is_err());
            }
        }
        let _ = std::fs::remove_file(&path);
    }
}
