//! The NVIDIA plugin over a driver that fails on demand (`tests/fake-cuda`). With `nvidia_start` the one
//! area of the suite that names a backend.

use crate::address::Address;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::extended::Answer;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::{Bare, Launch};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, UNKNOWN_BYTES};
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

cases! { Area::NvidiaDriver;
    "D4" listing_makes_no_context_and_use_makes_one [FakeDriver];
    "D7" no_device_is_ever_reset_and_no_handle_misused [FakeDriver];
    "D7" a_threads_own_context_stays_current [FakeDriver];
    "D3" handles_and_pointers_are_the_drivers_own [FakeDriver];
    "E4" a_full_device_is_told_with_the_drivers_code [FakeDriver];
    "E5" a_fault_is_latched_and_frees_come_back [FakeDriver];
    "E5" a_fault_that_stays_on_its_device_leaves_the_other_alone [FakeDriver];
    "L1" frees_after_the_driver_is_gone_are_silent [FakeDriver];
    "L2" a_child_of_a_process_that_used_the_driver_is_told [FakeDriver];
}

programs![
    list_without_contexts,
    use_and_count_resets,
    keep_own_context,
    use_native_handles,
    fill_a_small_device,
    fault_everywhere,
    fault_on_one_device,
    free_after_the_driver,
    fork_after_use,
];

/// The driver that fails on demand.
pub(super) fn driver() -> PathBuf {
    std::env::var_os(crate::needs::FAKE_CUDA).map(PathBuf::from).unwrap_or_default()
}

/// A program over that driver.
pub(super) fn launch(context: &'static Context, program: &str) -> Launch {
    context.program(program).device_type("nvidia").env("LLAISYS_CUDA_DRIVER", driver())
}

/// The fake driver's own functions.
pub(super) struct Fake(Library);

impl Fake {
    pub(super) fn open() -> Checked<Fake> {
        // SAFETY: the driver that the plugin opens too.
        let library = unsafe { Library::open(Some(driver()), RTLD_NOW | RTLD_LOCAL) };
        Ok(Fake(library.map_err(|error| Stop::skip(error.to_string()))?))
    }

    /// A function of the driver.
    ///
    /// # Safety
    /// - `T` is the function's type.
    unsafe fn function<T: Copy>(&self, name: &str) -> Checked<T> {
        // SAFETY: by the contract above.
        let symbol = unsafe { self.0.get::<T>(name.as_bytes()) };
        symbol.map(|symbol| *symbol).map_err(|error| Stop::skip(format!("{name}: {error}")))
    }

    /// What one of its counters says.
    pub(super) fn count(&self, name: &str) -> Checked<i64> {
        // SAFETY: the counters take nothing and return a number.
        let counter: unsafe extern "C" fn() -> i64 = unsafe { self.function(name) }?;
        // SAFETY: as above.
        Ok(unsafe { counter() })
    }

    /// How often a function of the driver was called.
    pub(super) fn calls(&self, name: &CStr) -> Checked<i64> {
        // SAFETY: the type is that of the fake's function.
        let calls: unsafe extern "C" fn(*const c_char) -> i64 =
            unsafe { self.function("fakecuda_call_count") }?;
        // SAFETY: the name is a text.
        Ok(unsafe { calls(name.as_ptr()) })
    }

    /// Has the `nth` call of a function from now on fail with a code; 0 stands for every call, and code 0
    /// takes that back.
    pub(super) fn fail(&self, name: &CStr, nth: u64, code: i32) -> Checked {
        // SAFETY: the type is that of the fake's function.
        let fail: unsafe extern "C" fn(*const c_char, u64, i32) -> i32 =
            unsafe { self.function("fakecuda_fail") }?;
        // SAFETY: the name is a text.
        ensure_eq!(unsafe { fail(name.as_ptr(), nth, code) }, 0, "fakecuda_fail({name:?})");
        Ok(())
    }
}

/// A round trip over a stream of the current device.
fn round_trip(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 100_000);
    let stream = context.stream()?;
    let block = Block::device(context, bytes.len())?;
    let target = Block::pinned(context, bytes.len())?;
    let (middle, size) = (block.address(), bytes.len());
    context.enqueue(middle, Address::of(&bytes), size, MemcpyKind::H2D, stream)?;
    context.enqueue(target.address(), middle, size, MemcpyKind::D2H, stream)?;
    context.wait(stream)?;
    ensure!(target.content()? == bytes, "the copies did not arrive");
    block.free()?;
    target.free()?;
    context.destroy(stream)
}

fn list_without_contexts(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    ensure_eq!(context.count, 2, "the devices of this driver");
    for device in 0..context.count {
        context.ok(context.x.get_device_properties(device), "get_device_properties")?;
        let info = context.ok(context.x.get_memory_info(device), "get_memory_info")?;
        ensure_eq!(info.free, UNKNOWN_BYTES, "what is free on a device that nobody uses");
    }
    ensure_eq!(fake.count("fakecuda_contexts_created")?, 0, "contexts after listing");
    context.set_device(1)?;
    round_trip(context)?;
    ensure_eq!(fake.count("fakecuda_contexts_created")?, 1, "contexts after use of one device");
    let info = context.ok(context.x.get_memory_info(1), "get_memory_info")?;
    ensure!(info.free <= info.total, "what is free on a device in use: {info:?}");
    context.ok(context.x.get_memory_info(0), "get_memory_info")?;
    ensure_eq!(fake.count("fakecuda_contexts_created")?, 1, "contexts after asking again");
    Ok(0)
}

fn listing_makes_no_context_and_use_makes_one(context: &'static Context) -> Checked {
    launch(context, "list_without_contexts").env("FAKE_CUDA_DEVICES", "2").run()?.expect_success()
}

fn use_and_count_resets(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    for device in (0..context.count).cycle().take(20) {
        context.set_device(device)?;
        round_trip(context)?;
    }
    ensure_eq!(fake.count("fakecuda_resets")?, 0, "resets");
    ensure_eq!(fake.count("fakecuda_misuses")?, 0, "uses of a handle after its end");
    ensure_eq!(fake.count("fakecuda_live_contexts")?, i64::from(context.count), "contexts");
    Ok(0)
}

fn no_device_is_ever_reset_and_no_handle_misused(context: &'static Context) -> Checked {
    launch(context, "use_and_count_resets").run()?.expect_success()?;
    let again = launch(context, "use_and_count_resets").env("FAKE_CUDA_REUSE_HANDLES", "1");
    again.run()?.expect_success()
}

type ContextOf = unsafe extern "C" fn(*mut *mut c_void, i32) -> i32;
type CurrentContext = unsafe extern "C" fn(*mut *mut c_void) -> i32;

fn keep_own_context(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    context.set_device(0)?;
    round_trip(context)?;
    std::thread::spawn(move || -> Checked {
        let fake = Fake::open()?;
        // SAFETY: the types are those of the driver's functions.
        let (retain, current, set): (
            ContextOf,
            CurrentContext,
            unsafe extern "C" fn(*mut c_void) -> i32,
        ) = unsafe {
            (
                fake.function("cuDevicePrimaryCtxRetain")?,
                fake.function("cuCtxGetCurrent")?,
                fake.function("cuCtxSetCurrent")?,
            )
        };
        let (mut own, mut found) = (std::ptr::null_mut(), std::ptr::null_mut());
        // A thread that chose nothing: nothing is current before, and nothing after.
        // SAFETY: the outputs are ours.
        unsafe { current(&mut found) };
        ensure!(found.is_null(), "a fresh thread has a context");
        round_trip(context)?;
        // SAFETY: as above.
        unsafe { current(&mut found) };
        ensure!(found.is_null(), "calls left a context behind on a thread that chose none");
        // Another library's choice on this thread.
        // SAFETY: as above; the context is the primary one of device 1.
        let codes = unsafe { (retain(&mut own, 1), set(own)) };
        ensure_eq!(codes, (0, 0), "making device 1's context current");
        round_trip(context)?;
        // SAFETY: as above.
        unsafe { current(&mut found) };
        ensure!(found == own, "calls changed the context of the thread");
        // Our choice is the driver's too.
        context.set_device(0)?;
        // SAFETY: as above.
        let codes = unsafe { (retain(&mut own, 0), current(&mut found)) };
        ensure_eq!(codes, (0, 0), "device 0's context");
        ensure!(found == own, "set_device(0) did not make device 0's context current");
        Ok(())
    })
    .join()
    .map_err(|_| Stop::fail("a thread panicked"))??;
    Ok(0)
}

fn a_threads_own_context_stays_current(context: &'static Context) -> Checked {
    launch(context, "keep_own_context").run()?.expect_success()
}

fn use_native_handles(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    context.set_device(0)?;
    let stream = context.stream()?;
    let bytes = context.bytes(1, 5000);
    let block = Block::filled(context, Place::Device, &bytes)?;
    let mut found = vec![0u8; 5000];
    // SAFETY: the types are those of the driver's functions; the handle and the pointer are alive.
    let codes = unsafe {
        let query: unsafe extern "C" fn(*mut c_void) -> i32 = fake.function("cuStreamQuery")?;
        let copy: unsafe extern "C" fn(*mut c_void, u64, usize) -> i32 =
            fake.function("cuMemcpyDtoH_v2")?;
        (query(stream.0), copy(found.as_mut_ptr().cast(), block.address().0 as u64, 5000))
    };
    ensure_eq!(codes, (0, 0), "what the driver says of our stream and our pointer");
    ensure!(found == bytes, "the driver reads other bytes at our pointer");
    context.destroy(stream)?;
    Ok(0)
}

fn handles_and_pointers_are_the_drivers_own(context: &'static Context) -> Checked {
    launch(context, "use_native_handles").run()?.expect_success()
}

fn fill_a_small_device(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let mut blocks = Vec::new();
    let failure = loop {
        let answer = context.x.malloc_device(0, 16 << 20);
        match answer {
            Ok(pointer) => blocks.push(pointer),
            Err(_) => {
                break context.answered(answer, "malloc_device", Status::OutOfMemory, "full")?;
            }
        }
        ensure!(blocks.len() < 20, "a device of 128 MiB took {} blocks of 16", blocks.len());
    };
    ensure_eq!(failure.native_code, 2, "the driver's code");
    ensure_eq!(failure.native_name, "CUDA_ERROR_OUT_OF_MEMORY", "the driver's name for it");
    // Not a byte may be left; half a block is, once a block is back.
    let last = blocks.pop().ok_or_else(|| Stop::fail("the device holds no block of 16 MiB"))?;
    context.ok(context.x.free_device(0, last), "free_device")?;
    Block::device(context, 8 << 20)?.free()?;
    for pointer in blocks {
        context.ok(context.x.free_device(0, pointer), "free_device")?;
    }
    round_trip(context)?;
    // One request of nearly everything: what is kept is given up first.
    Block::device(context, 96 << 20)?.free()?;
    Ok(0)
}

fn a_full_device_is_told_with_the_drivers_code(context: &'static Context) -> Checked {
    let launch = launch(context, "fill_a_small_device").env("FAKE_CUDA_DEVICE_MEMORY", "128m");
    launch.run()?.expect_success()
}

/// Faults device 0 as a kernel would, and tries everything there.
fn lose_device_zero(context: &'static Context) -> Checked {
    let fake = Fake::open()?;
    let (x, lost) = (&context.x, Status::DeviceLost);
    let block = context.ok(x.malloc_device(0, 4096), "malloc_device")?;
    let pinned = context.ok(x.malloc_host(0, 4096), "malloc_host")?;
    let stream = context.ok(x.create_stream(0), "create_stream")?;
    // SAFETY: the type is that of the fake's function.
    let lose: unsafe extern "C" fn(i32, i32) -> i32 =
        unsafe { fake.function("fakecuda_lose_device") }?;
    // SAFETY: takes numbers.
    unsafe { lose(0, 700) };
    let answer = x.device_synchronize(0);
    let first = context.answered(answer, "device_synchronize", lost, "after a fault")?;
    ensure_eq!(first.native_code, 700, "the driver's code");
    ensure_eq!(first.native_name, "CUDA_ERROR_ILLEGAL_ADDRESS", "the driver's name for it");
    let calls: [(&str, &dyn Fn() -> Answer); 4] = [
        ("malloc_device", &|| x.malloc_device(0, 64).map(drop)),
        ("create_stream", &|| x.create_stream(0).map(drop)),
        ("stream_synchronize", &|| x.stream_synchronize(0, stream)),
        ("set_device", &|| x.set_device(0)),
    ];
    for (operation, call) in calls {
        let later = context.answered(call(), operation, lost, "on a lost device")?;
        ensure_eq!(later.message, first.message, "the cause that {operation} tells");
    }
    for answer in [x.free_device(0, block), x.free_host(0, pinned), x.destroy_stream(0, stream)] {
        let right = answer.is_ok() || answer == Err(Code::from(lost));
        ensure!(right, "a free on a lost device: {answer:?}");
    }
    context.failure()?;
    let cpu = context.library.twelve(0).map_err(Stop::fail)?;
    cpu.free_device(cpu.malloc_device(64));
    context.clean("the CPU beside a lost device")?;
    ensure_eq!(context.t.get_device_count(), context.count, "the count");
    Ok(())
}

fn fault_everywhere(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    lose_device_zero(context)?;
    Ok(0)
}

fn a_fault_is_latched_and_frees_come_back(context: &'static Context) -> Checked {
    launch(context, "fault_everywhere").run()?.expect_success()
}

fn fault_on_one_device(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    context.set_device(1)?;
    round_trip(context)?;
    lose_device_zero(context)?;
    round_trip(context)?;
    Ok(0)
}

fn a_fault_that_stays_on_its_device_leaves_the_other_alone(context: &'static Context) -> Checked {
    let launch = launch(context, "fault_on_one_device").env("FAKE_CUDA_CONTAINED_FAULTS", "1");
    launch.run()?.expect_success()
}

static LATE: OnceLock<(&'static Context, Address, Address)> = OnceLock::new();

extern "C" fn free_late() {
    if let Some((context, device, pinned)) = LATE.get() {
        let freed = (context.x.free_device(0, *device), context.x.free_host(0, *pinned));
        if freed != (Ok(()), Ok(())) {
            // SAFETY: ends the process, with a code that says so.
            unsafe { libc::_exit(77) };
        }
    }
}

fn free_after_the_driver(bare: &Bare) -> Checked<i32> {
    // Registered before the driver is opened: runs after its handlers.
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(free_late) };
    let context = bare.context()?;
    round_trip(context)?;
    let device = Block::device(context, 4096)?.keep();
    let pinned = Block::pinned(context, 4096)?.keep();
    let _ = LATE.set((context, device, pinned));
    Ok(5)
}

fn frees_after_the_driver_is_gone_are_silent(context: &'static Context) -> Checked {
    let launch = launch(context, "free_after_the_driver");
    let ended = launch.env("FAKE_CUDA_DEINITIALIZED_AT_EXIT", "1").run()?;
    ended.expect_code(5)?;
    ended.expect_silence()
}

fn fork_after_use(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    round_trip(context)?;
    let before = fake.calls(c"cuMemFree")?;
    let block = Block::device(context, 64)?;
    // SAFETY: the child makes a few calls and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let told = context.x.malloc_device(0, 64).map(drop);
        let freed = context.x.free_device(0, block.address());
        let after = fake.calls(c"cuMemFree").unwrap_or(i64::MAX);
        let right = told == Err(Code::from(Status::Forked)) && freed.is_ok() && after <= before + 1;
        // SAFETY: ends the child without handlers.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(child, &mut status, 0) };
    ensure_eq!(status, 0, "how the child ended (0: FORKED, and its free was silent)");
    round_trip(context)?;
    Ok(0)
}

fn a_child_of_a_process_that_used_the_driver_is_told(context: &'static Context) -> Checked {
    let path = driver();
    ensure!(Path::new(&path).is_file(), "{} is not there", path.display());
    launch(context, "fork_after_use").run()?.expect_success()
}
