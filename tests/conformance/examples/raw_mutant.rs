//! Plugins whose table is wrong in one way, to test the raw cases with (`tests/mutants`).
//!
//! The CPU backend behind a table of its own. `LLAISYS_MUTANT` says what is wrong; without it nothing is.
//! These are the faults that the macro for plugins in Rust takes away from its users, and that an author
//! of a table in C can make: what is written, what is said, what gets out.

use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::abi::{
    ABI_MAJOR, ABI_MINOR, LlaisysBackendAPI, LlaisysBackendDescriptor,
};
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, LlaisysCopyRange, LlaisysDeviceProperties, Ordinal, RuntimeApi, Stream,
};
use llaisys_runtime_core::export::{descriptor, export};
use std::ffi::{c_char, c_void};
use std::fs::File;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

static CPU: Cpu = Cpu::new();
/// The table without a fault.
static RIGHT: LlaisysBackendAPI = export(&CPU);
/// More than there is, as the cases ask for it.
const TOO_LARGE: u64 = 1 << 40;

/// The table and the descriptor of this process.
struct Made {
    table: LlaisysBackendAPI,
    about: LlaisysBackendDescriptor,
}

/// A failure that every thread reads.
static SHARED: Mutex<(i32, String)> = Mutex::new((0, String::new()));

fn is(fault: &str) -> bool {
    static FAULT: OnceLock<String> = OnceLock::new();
    FAULT.get_or_init(|| std::env::var("LLAISYS_MUTANT").unwrap_or_default()) == fault
}

unsafe extern "C" fn malloc_device(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    static FULL: AtomicBool = AtomicBool::new(false);
    if size > TOO_LARGE {
        if is("a_panic_gets_out") {
            panic!("out of memory, said by a panic");
        }
        if is("an_exit_on_out_of_memory") {
            std::process::exit(0);
        }
        if is("a_failure_writes_its_output") {
            // SAFETY: the caller's output.
            unsafe { pointer.write(ptr::null_mut()) };
        }
        FULL.store(is("full_once_is_full_for_ever"), Ordering::SeqCst);
    }
    let size = if FULL.load(Ordering::SeqCst) { u64::MAX / 4 } else { size };
    // SAFETY: the caller keeps the contract.
    let code = unsafe { (RIGHT.malloc_device)(this, device, size, pointer) };
    match code {
        0 if is("a_success_leaves_a_failure") => {
            let mut none = ptr::null_mut();
            // SAFETY: the output is ours.
            unsafe { (RIGHT.malloc_device)(this, device, u64::MAX / 4, &mut none) };
            0
        }
        0 => 0,
        _ if is("failures_are_shared") => {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            *shared = (code, "shared".to_owned());
            code
        }
        _ if is("a_failure_without_a_text") => {
            let (mut native, none) = (0, ptr::null_mut());
            // SAFETY: the number is ours; no texts are asked for.
            unsafe { (RIGHT.get_last_error)(this, &mut native, none, 0, none, 0) };
            code
        }
        _ if is("a_status_that_is_none") => 4711,
        _ if is("every_failure_is_internal") => 17,
        _ => code,
    }
}

unsafe extern "C" fn malloc_host(
    this: *mut c_void,
    device: Ordinal,
    size: u64,
    pointer: *mut *mut c_void,
) -> i32 {
    let mut own = ptr::null_mut();
    // SAFETY: the caller keeps the contract; the output is ours.
    let code = unsafe { (RIGHT.malloc_host)(this, device, size, &mut own) };
    if code == 0 && is("an_output_is_not_written") {
        return 0;
    }
    if code == 0 || is("a_failure_of_pinned_memory_writes_its_output") {
        // SAFETY: the caller's output.
        unsafe { pointer.write(own) };
    }
    code
}

unsafe extern "C" fn get_last_error(
    this: *mut c_void,
    native_code: *mut i64,
    native_name: *mut c_char,
    native_name_capacity: u64,
    message: *mut c_char,
    message_capacity: u64,
) -> i32 {
    let mut text = [0 as c_char; 256];
    let (none, room) = (ptr::null_mut(), text.len() as u64);
    let to = text.as_mut_ptr();
    // SAFETY: the number is the caller's, the buffer ours.
    let mut code = unsafe { (RIGHT.get_last_error)(this, native_code, none, 0, to, room) };
    let mut said = llaisys_runtime_core::api::read_text(&text);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if code == 0 && (is("failures_are_shared") || is("a_failure_is_kept_when_it_is_read")) {
        (code, said) = shared.clone();
    } else if code != 0 {
        *shared = (code, said.clone());
    }
    if is("failures_are_shared") {
        *shared = (0, String::new());
    }
    let fits = usize::try_from(message_capacity.saturating_sub(1)).unwrap_or(0).min(said.len());
    let (written, end) = match () {
        () if is("a_text_longer_than_its_buffer") => (said.len(), true),
        () if is("a_text_without_an_end") => (fits, false),
        () => (fits, true),
    };
    if message_capacity > 0 && !message.is_null() && code != 0 {
        // SAFETY: as many bytes as the capacity leaves room for; the fault writes a few more, into a
        // buffer that the cases make longer.
        unsafe {
            let letters = said.as_ptr().cast::<c_char>();
            letters.copy_to_nonoverlapping(message, written.min(40));
            if end {
                message.add(written.min(40)).write(0);
            }
        }
    } else if message_capacity > 0 && !message.is_null() {
        // SAFETY: at least one byte.
        unsafe { message.write(0) };
    }
    if native_name_capacity > 0 && !native_name.is_null() {
        // SAFETY: at least one byte.
        unsafe { native_name.write(0) };
    }
    code
}

unsafe extern "C" fn get_device_count(this: *mut c_void, count: *mut i32) -> i32 {
    static ASKED: AtomicI32 = AtomicI32::new(0);
    // SAFETY: the caller keeps the contract.
    let code = unsafe { (RIGHT.get_device_count)(this, count) };
    if is("the_count_grows") {
        // SAFETY: the caller's output.
        unsafe { *count += ASKED.fetch_add(1, Ordering::SeqCst) };
    }
    code
}

unsafe extern "C" fn initialize(this: *mut c_void, count: *mut i32) -> i32 {
    // SAFETY: the caller keeps the contract.
    let code = unsafe { (RIGHT.initialize)(this, count) };
    if is("initialize_answers_something_else") {
        // SAFETY: the caller's output.
        unsafe { *count += 1 };
    }
    code
}

unsafe extern "C" fn set_device(this: *mut c_void, device: Ordinal) -> i32 {
    static OWNER: OnceLock<std::thread::ThreadId> = OnceLock::new();
    let own = std::thread::current().id();
    if is("only_one_thread_may_bind") && *OWNER.get_or_init(|| own) != own {
        return 7;
    }
    // SAFETY: the caller keeps the contract.
    unsafe { (RIGHT.set_device)(this, device) }
}

unsafe extern "C" fn get_device_properties(
    this: *mut c_void,
    device: Ordinal,
    properties: *mut LlaisysDeviceProperties,
) -> i32 {
    // SAFETY: the caller's struct begins with its size.
    let size = unsafe { properties.cast::<u32>().read() } as usize;
    let whole = size_of::<LlaisysDeviceProperties>();
    if is("structs_are_written_whole") && size < whole {
        // SAFETY: the fault; the cases ask with a longer buffer.
        unsafe { properties.cast::<u32>().write(whole as u32) };
    }
    if is("what_is_not_known_is_zeroed") && size > whole {
        // SAFETY: the caller's struct has `size` bytes.
        unsafe { properties.cast::<u8>().add(whole).write_bytes(0, size - whole) };
    }
    // SAFETY: the caller keeps the contract.
    let code = unsafe { (RIGHT.get_device_properties)(this, device, properties) };
    if is("a_name_without_an_end") && size >= whole {
        // SAFETY: the caller's struct is whole.
        unsafe { (*properties).name = [b'x' as c_char; 128] };
    }
    code
}

unsafe extern "C" fn stream_query(
    this: *mut c_void,
    device: Ordinal,
    stream: Stream,
    ready: *mut i32,
) -> i32 {
    // SAFETY: the caller keeps the contract.
    let code = unsafe { (RIGHT.stream_query)(this, device, stream, ready) };
    if is("yes_is_minus_one") {
        // SAFETY: the caller's output.
        unsafe { *ready = -*ready };
    }
    code
}

unsafe extern "C" fn memset_async(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    pattern: *const c_void,
    pattern_size: u32,
    size: u64,
    stream: Stream,
) -> i32 {
    if is("claimed_and_not_there") {
        return 5;
    }
    // SAFETY: the caller keeps the contract.
    unsafe { (RIGHT.memset_async)(this, device, dst, pattern, pattern_size, size, stream) }
}

unsafe extern "C" fn memcpy_batch_async(
    this: *mut c_void,
    device: Ordinal,
    ranges: *const LlaisysCopyRange,
    count: u64,
    stride: u64,
    kind: u32,
    stream: Stream,
    flags: CopyFlags,
) -> i32 {
    let own = size_of::<LlaisysCopyRange>() as u64;
    let stride = if is("the_stride_is_ignored") { own } else { stride };
    // SAFETY: the caller keeps the contract; shorter steps stay inside the ranges.
    unsafe { (RIGHT.memcpy_batch_async)(this, device, ranges, count, stride, kind, stream, flags) }
}

unsafe extern "C" fn create_stream(this: *mut c_void, device: Ordinal, stream: *mut Stream) -> i32 {
    if is("a_stream_keeps_a_file_open") {
        std::mem::forget(File::open("/proc/self/status"));
    }
    if is("a_stream_keeps_threads") {
        for _ in 0..8 {
            std::thread::spawn(|| {
                loop {
                    std::thread::park()
                }
            });
        }
    }
    // SAFETY: the caller keeps the contract.
    unsafe { (RIGHT.create_stream)(this, device, stream) }
}

unsafe extern "C" fn free_device(this: *mut c_void, device: Ordinal, pointer: *mut c_void) -> i32 {
    if is("device_memory_is_kept") {
        return 0;
    }
    // SAFETY: the caller keeps the contract.
    unsafe { (RIGHT.free_device)(this, device, pointer) }
}

unsafe extern "C" fn destroy_stream(this: *mut c_void, device: Ordinal, stream: Stream) -> i32 {
    if is("the_table_changes_by_use") {
        let table = ptr::from_ref(&made().table).cast_mut();
        // SAFETY: the fault: a counter in the table, which nobody reads at this moment.
        unsafe { AtomicU32::from_ptr(&raw mut (*table).reserved).fetch_add(1, Ordering::SeqCst) };
    }
    // SAFETY: the caller keeps the contract.
    unsafe { (RIGHT.destroy_stream)(this, device, stream) }
}

/// A hole in a table.
///
/// # Safety
/// - The entry is never called.
unsafe fn hole<T>(entry: &mut T) {
    assert_eq!(size_of::<T>(), size_of::<usize>(), "an entry is a word");
    // SAFETY: a word for a word; that it is not to be called is the caller's promise.
    unsafe { ptr::from_mut(entry).cast::<usize>().write(0) };
}

fn make() -> Made {
    let mut capabilities = CPU.capabilities();
    if is("done_and_not_claimed") {
        capabilities = Capabilities(capabilities.0 & !Capabilities::FILL.0);
    }
    let name = if is("a_name_in_capitals") { c"RAW Mutant" } else { c"raw-mutant" };
    let version = if is("no_version") { c"" } else { c"1.0" };
    let mut table = RIGHT;
    table.malloc_device = malloc_device;
    table.malloc_host = malloc_host;
    table.get_last_error = get_last_error;
    table.get_device_count = get_device_count;
    table.initialize = initialize;
    table.set_device = set_device;
    table.get_device_properties = get_device_properties;
    table.stream_query = stream_query;
    table.memset_async = memset_async;
    table.memcpy_batch_async = memcpy_batch_async;
    table.create_stream = create_stream;
    table.destroy_stream = destroy_stream;
    table.free_device = free_device;
    // The table's own answer is that of the CPU backend; the loader reads the descriptor.
    // SAFETY: nobody calls an entry that is NULL.
    unsafe { hole(&mut table.get_capabilities) };
    if is("a_required_entry_is_null") {
        // SAFETY: as above.
        unsafe { hole(&mut table.memcpy_sync) };
    }
    if is("a_group_has_a_hole") {
        // SAFETY: as above.
        unsafe { hole(&mut table.record_event) };
    }
    if is("the_table_ends_in_an_entry") {
        table.struct_size -= 4;
    }
    if is("the_table_says_too_much") {
        table.struct_size = 1 << 30;
    }
    if is("the_table_is_of_another_minor") {
        table.abi_minor += 1;
    }
    let mut about = descriptor(-1, name, c"nobody", version, capabilities, &RIGHT);
    if is("older_than_itself") {
        about.oldest_host_minor = about.abi_minor + 1;
    }
    if is("a_device_type_out_of_range") {
        about.device_type = 4711;
    }
    Made { table, about }
}

fn made() -> &'static Made {
    static MADE: OnceLock<&'static Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = Box::leak(Box::new(make()));
        made.about.api = &raw const made.table;
        made
    })
}

/// The query; pure, without a fault.
///
/// # Safety
/// None: the arguments are plain numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysBackendQuery(
    major: u32,
    minor: u32,
) -> *const LlaisysBackendDescriptor {
    let made = made();
    if is("asking_starts_a_thread") {
        std::thread::spawn(|| {
            loop {
                std::thread::park()
            }
        });
    }
    if is("asking_opens_a_file") {
        std::mem::forget(File::open("/proc/self/status"));
    }
    if is("a_new_descriptor_each_time") {
        let mut about =
            descriptor(-1, c"raw-mutant", c"nobody", c"1.0", CPU.capabilities(), &RIGHT);
        about.api = &raw const made.table;
        return Box::leak(Box::new(about));
    }
    if is("the_exit_crashes") {
        extern "C" fn end() {
            std::process::abort();
        }
        // SAFETY: the fault: a handler that aborts.
        unsafe { libc::atexit(end) };
    }
    let serves = match () {
        () if is("newer_hosts_are_refused") => major == ABI_MAJOR && minor == ABI_MINOR,
        () => major == ABI_MAJOR,
    };
    if !serves {
        return ptr::null();
    }
    &raw const made.about
}
