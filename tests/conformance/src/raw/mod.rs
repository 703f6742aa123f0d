//! The plugin alone: opened as the core opens it, with no core around it.
//!
//! Rule: it gets what the core promises a backend (the module text of `runtime-core/src/api.rs`), and no
//! more: ordinals that are devices, sizes that are not 0, live handles, ranges that fit, no NULL for an
//! output. So what fails here is the plugin's own fault, and what the core checks for it is not asked.
//!
//! | question | file |
//! |---|---|
//! | one symbol, and what the plugin says of itself? | `query` |
//! | which entries are there, and is what is said of them true? | `table` |
//! | what is written, and where? | `outputs` |
//! | what does a failure leave behind? | `errors` |
//! | memory and copies | `memory`, `copies` |
//! | streams, host functions, events | `streams`, `events` |
//! | a block of memory of the plugin's | `block` |

use crate::code::Code;
use crate::context::Setup;
use crate::data::{self, Rng};
use crate::extended::Extended;
use crate::footprint::{self, Held};
use crate::outcome::{Checked, Stop};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use llaisys_runtime_core::abi::{
    ABI_MAJOR, ABI_MINOR, DESCRIPTOR_MAGIC, LlaisysBackendAPI, LlaisysBackendDescriptor,
    LlaisysBackendQuery, QUERY_SYMBOL,
};
use llaisys_runtime_core::api::{Capabilities, Stream, read_text};
use llaisys_runtime_core::entries::{ENTRIES, HEAD, WORD, offset_at};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

mod block;
mod copies;
mod errors;
mod events;
mod memory;
mod outputs;
mod query;
mod streams;
mod table;

use crate::case::Case;

pub use query::PROGRAMS;

/// Every case against the plugin alone.
pub const CASES: [&[Case]; 8] = [
    query::CASES,
    table::CASES,
    outputs::CASES,
    errors::CASES,
    memory::CASES,
    copies::CASES,
    streams::CASES,
    events::CASES,
];

/// The opened plugin.
pub struct Plugin {
    /// What is the same for every case.
    pub setup: Setup,
    /// What the plugin says of itself.
    pub descriptor: &'static LlaisysBackendDescriptor,
    /// The plugin's entries; where it has none, one that ends the process.
    pub x: Extended,
    /// What it says that it is able to do.
    pub capabilities: Capabilities,
    /// The seed of this case.
    pub seed: u64,
    /// The threads and open files of this process before the plugin was opened, and after the query.
    pub start: [(usize, Vec<String>); 2],
    query: LlaisysBackendQuery,
    /// A bit for each entry that is not there.
    missing: u64,
    /// Never closed: a plugin is not unloaded.
    _handle: Handle,
}

/// Stands where the plugin has no entry: the suite calls none of these.
unsafe extern "C" fn missing() -> i32 {
    eprintln!("the case called an entry that the plugin does not have");
    std::process::abort();
}

/// What the plugin's slot held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The status.
    pub code: Code,
    /// The driver's number.
    pub native_code: i64,
    /// The sentence.
    pub message: String,
}

impl Plugin {
    /// Opens the file and reads what it says, as the core does.
    ///
    /// # Errors
    /// Why it cannot be used at all.
    pub fn open(setup: Setup, case: &str) -> Result<Plugin, String> {
        let path = setup.plugin.clone().ok_or("there is no plugin file")?;
        let before = (footprint::threads(), footprint::files());
        // SAFETY: the plugin under test; that its code may run here is what the suite is for.
        let handle = unsafe { Handle::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| format!("{}: {error}", path.display()))?;
        // SAFETY: the type is that of the one symbol in the public header.
        let query: LlaisysBackendQuery =
            unsafe { *handle.get(QUERY_SYMBOL.as_bytes()).map_err(|error| error.to_string())? };
        // SAFETY: takes numbers.
        let descriptor = unsafe { query(ABI_MAJOR, ABI_MINOR).as_ref() };
        let start = [before, (footprint::threads(), footprint::files())];
        let descriptor = descriptor.ok_or_else(|| {
            format!("{QUERY_SYMBOL}({ABI_MAJOR}, {ABI_MINOR}) returns NULL: it wants another ABI")
        })?;
        if descriptor.magic != DESCRIPTOR_MAGIC {
            return Err(format!("the descriptor's magic is {:#x}", descriptor.magic));
        }
        if descriptor.abi_major != ABI_MAJOR {
            return Err(format!("ABI major {}, this is {ABI_MAJOR}", descriptor.abi_major));
        }
        if (descriptor.struct_size as usize) < size_of::<LlaisysBackendDescriptor>() {
            return Err(format!("the descriptor has {} bytes", descriptor.struct_size));
        }
        if descriptor.api.is_null() {
            return Err("the descriptor has no table".to_owned());
        }
        // SAFETY: not NULL; a plugin's table stays for the life of the process.
        let (table, missing) = unsafe { read_table(descriptor.api) };
        let capabilities = Capabilities(descriptor.capabilities);
        let seed = data::mix(setup.seed, case);
        let x = Extended { raw: Box::leak(Box::new(table)) };
        Ok(Plugin {
            setup,
            descriptor,
            x,
            capabilities,
            seed,
            start,
            query,
            missing,
            _handle: handle,
        })
    }

    /// Asks the plugin's one symbol.
    pub fn ask(&self, major: u32, minor: u32) -> Option<&'static LlaisysBackendDescriptor> {
        // SAFETY: takes numbers; the descriptor is constant and stays.
        unsafe { (self.query)(major, minor).as_ref() }
    }

    /// Whether the plugin has this entry.
    pub fn has(&self, name: &str) -> bool {
        let index = ENTRIES.iter().position(|entry| entry.name == name);
        index.is_some_and(|index| self.missing >> index & 1 == 0)
    }

    /// The number of devices.
    ///
    /// # Errors
    /// A skip with the plugin's reason when there is none.
    pub fn devices(&self) -> Checked<i32> {
        match self.x.get_device_count() {
            Ok(count) if count > 0 => Ok(count),
            Ok(count) => Err(Stop::skip(format!("the plugin has {count} devices"))),
            Err(code) => {
                let why = self.slot()?.message;
                Err(Stop::skip(format!("the plugin has no device: {code:?}: {why}")))
            }
        }
    }

    /// Makes the driver ready, where that is an operation of its own.
    pub fn initialize(&self) -> Checked {
        if self.has("initialize") {
            self.ok(self.x.initialize(), "initialize")?;
        }
        Ok(())
    }

    /// Reads and clears the calling thread's slot.
    pub fn slot(&self) -> Checked<Slot> {
        let (mut native_code, mut name, mut message) = (0, [0 as c_char; 128], [0 as c_char; 1024]);
        let (x, sizes) = (self.x.raw, (name.len() as u64, message.len() as u64));
        // SAFETY: the table's own `self`; everything else is ours, with its size.
        let code = unsafe {
            let (name, message) = (name.as_mut_ptr(), message.as_mut_ptr());
            (x.get_last_error)(x.self_, &mut native_code, name, sizes.0, message, sizes.1)
        };
        ensure!(message.contains(&0), "get_last_error wrote a message without an end");
        Ok(Slot { code: Code(code), native_code, message: read_text(&message) })
    }

    /// The value of a call that must succeed.
    pub fn ok<T>(&self, answer: Result<T, Code>, what: &str) -> Checked<T> {
        match answer {
            Ok(value) => Ok(value),
            Err(code) => {
                let said = self.slot()?.message;
                fail!("{what}: expected success, found {code:?} ({said})")
            }
        }
    }

    /// A stream; the case destroys it.
    pub fn stream(&self) -> Checked<Stream> {
        let stream = self.ok(self.x.create_stream(0), "create_stream")?;
        ensure!(!stream.is_default(), "create_stream succeeded and wrote NULL");
        Ok(stream)
    }

    /// Waits for a stream.
    pub fn wait(&self, stream: Stream) -> Checked {
        self.ok(self.x.stream_synchronize(0, stream), "stream_synchronize")
    }

    /// Destroys a stream.
    pub fn destroy(&self, stream: Stream) -> Checked {
        self.ok(self.x.destroy_stream(0, stream), "destroy_stream")
    }

    /// A generator for this case.
    pub fn rng(&self) -> Rng {
        Rng::new(self.seed)
    }

    /// Bytes for this case; `which` tells several apart.
    pub fn bytes(&self, which: u64, length: usize) -> Vec<u8> {
        Rng::new(self.seed ^ which.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bytes(length)
    }

    /// Checks that an operation that is not claimed is really not there.
    pub fn expect_missing(&'static self, group: Capabilities) -> Checked {
        self.initialize()?;
        self.devices()?;
        table::expect_missing(self, group)
    }

    /// What the plugin holds from the driver for each device, once it was asked to give back what it can
    /// (`trimmed`) or as it is; nothing where it does not tell.
    pub fn held(&self, trimmed: bool) -> Vec<Held> {
        if !self.capabilities.contains(Capabilities::MEMORY_POOL) {
            return Vec::new();
        }
        let x = &self.x;
        let held = |device| {
            if trimmed {
                let _ = (x.device_synchronize(device), x.trim_memory(device, 0));
            }
            let bytes = x.get_reserved_memory(device).ok()?;
            Some(("bytes held from the driver after trim_memory(0)", bytes))
        };
        (0..x.get_device_count().unwrap_or(0)).map_while(held).collect()
    }
}

/// The entries of a foreign table, with a stand-in where there is none, and a bit for each of these.
///
/// # Safety
/// - `foreign` points to a table of at least its own `struct_size` bytes that stays valid.
unsafe fn read_table(foreign: *const LlaisysBackendAPI) -> (LlaisysBackendAPI, u64) {
    // SAFETY: `struct_size` is the first field and inside any table.
    let size = unsafe { foreign.cast::<u32>().read_unaligned() } as usize;
    let mut table = MaybeUninit::<LlaisysBackendAPI>::uninit();
    let to = table.as_mut_ptr().cast::<u8>();
    // SAFETY: a table is never shorter than its head (checked by the case that is there for it; the
    // bytes are at least mapped, being those of a descriptor's table).
    unsafe { foreign.cast::<u8>().copy_to_nonoverlapping(to, HEAD) };
    let mut gaps = 0;
    for index in 0..ENTRIES.len() {
        let offset = offset_at(index);
        let mut word = 0;
        if offset + WORD <= size {
            // SAFETY: the foreign table has `size` bytes.
            word = unsafe { foreign.cast::<u8>().add(offset).cast::<usize>().read_unaligned() };
        }
        if word == 0 {
            gaps |= 1u64 << index;
            word = missing as *const () as usize;
        }
        // SAFETY: inside our own table.
        unsafe { to.add(offset).cast::<usize>().write_unaligned(word) };
    }
    // SAFETY: the head and every entry were written; no entry is null, and each is a function of the
    // entry's type or one that is never called.
    (unsafe { table.assume_init() }, gaps)
}

/// A text of the descriptor's.
fn text(name: &str, text: *const c_char) -> Checked<String> {
    ensure!(!text.is_null(), "the descriptor's {name} is NULL");
    // SAFETY: a text of a descriptor ends with a NUL and stays.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| Stop::fail(format!("the descriptor's {name} is not UTF-8")))
}
