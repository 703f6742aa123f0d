//! The end of a process, whatever is alive (L1).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

cases! { Area::Life;
    "L1" returning_from_main_with_everything_alive [];
    "L1" exit_from_another_thread_with_everything_alive [];
    "L1" exit_while_other_threads_copy [];
    "L1" exit_while_a_thread_waits_for_a_held_stream [Gates, HostMemory];
    "L1" exit_with_work_still_in_the_streams [];
    "L1" frees_from_handlers_at_exit [];
    "L1" frees_from_a_threads_own_destructors [];
    "L1" a_panic_in_main_keeps_its_exit_code [];
    "L1" a_death_by_signal_stays_one [];
    "L1" exit_without_handlers [];
    "L1" closed_streams_of_output_do_no_harm [];
    "L1" the_library_is_closed_while_its_streams_are_alive [];
    "L1" a_million_frees_say_nothing [];
}

programs![
    return_from_main,
    exit_from_a_thread,
    exit_while_copying,
    exit_while_held,
    exit_with_work,
    free_at_exit,
    free_at_thread_end,
    panic_in_main,
    killed,
    exit_at_once,
    output_closed,
    library_closed,
    free_in_silence,
];

/// Leaves streams, blocks in use, blocks in a cache and pinned memory behind.
fn leave_everything_alive(context: &'static Context) -> Checked<(Stream, Address, Address)> {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 1 << 20);
    let device = Block::filled(context, Place::Device, &bytes)?;
    let pinned = Block::filled(context, Place::Pinned, &bytes)?;
    Block::device(context, 1 << 20)?.free()?;
    Block::pinned(context, 1 << 20)?.free()?;
    let (dst, src) = (device.keep(), pinned.keep());
    context.enqueue(dst, src, bytes.len(), MemcpyKind::H2D, stream)?;
    Ok((stream, dst, src))
}

fn ends_with(context: &'static Context, name: &str, code: i32) -> Checked {
    let ended = context.program(name).run()?;
    ended.expect_code(code)?;
    ended.expect_silence()
}

fn returning_from_main_with_everything_alive(context: &'static Context) -> Checked {
    ends_with(context, "return_from_main", 7)
}

fn return_from_main(bare: &Bare) -> Checked<i32> {
    leave_everything_alive(bare.context()?)?;
    Ok(7)
}

fn exit_from_another_thread_with_everything_alive(context: &'static Context) -> Checked {
    ends_with(context, "exit_from_a_thread", 5)
}

fn exit_from_a_thread(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    leave_everything_alive(context)?;
    let thread = std::thread::spawn(move || {
        let _ = leave_everything_alive(context);
        std::process::exit(5)
    });
    let _ = thread.join();
    Ok(1)
}

fn exit_while_other_threads_copy(context: &'static Context) -> Checked {
    for _ in 0..context.times(10) {
        ends_with(context, "exit_while_copying", 3)?;
    }
    Ok(())
}

fn exit_while_copying(bare: &Bare) -> Checked<i32> {
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    let context = bare.context()?;
    for which in 0..4 {
        std::thread::spawn(move || -> Checked {
            let stream = context.stream()?;
            let bytes = context.bytes(which, 3 << 20);
            let mut back = vec![0; bytes.len()];
            loop {
                let block = Block::device(context, bytes.len())?;
                let (middle, size) = (block.address(), bytes.len());
                context.enqueue(middle, Address::of(&bytes), size, MemcpyKind::H2D, stream)?;
                context.copy(Address::of_mut(&mut back), middle, size, MemcpyKind::D2H)?;
                ROUNDS.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    while ROUNDS.load(Ordering::SeqCst) < 8 {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(3)
}

fn exit_while_a_thread_waits_for_a_held_stream(context: &'static Context) -> Checked {
    ends_with(context, "exit_while_held", 4)
}

fn exit_while_held(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    let gate = crate::gate::Gate::hold(context, 0, stream)?;
    let caller = crate::caller::Caller::start(move || context.wait(stream))?;
    caller.expect_waiting("stream_synchronize of a held stream")?;
    // Never opened.
    std::mem::forget(gate);
    Ok(4)
}

fn exit_with_work_still_in_the_streams(context: &'static Context) -> Checked {
    ends_with(context, "exit_with_work", 6)
}

fn exit_with_work(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    for _ in 0..8 {
        let stream = context.stream()?;
        let one = Block::device(context, 16 << 20)?.keep();
        let two = Block::device(context, 16 << 20)?.keep();
        for _ in 0..20 {
            context.enqueue(one, two, 16 << 20, MemcpyKind::D2D, stream)?;
        }
    }
    Ok(6)
}

fn frees_from_handlers_at_exit(context: &'static Context) -> Checked {
    ends_with(context, "free_at_exit", 8)
}

/// What the handlers at exit give back.
static LATE: std::sync::OnceLock<(&'static Context, Stream, Address, Address)> =
    std::sync::OnceLock::new();

extern "C" fn give_back() {
    if let Some((context, stream, device, pinned)) = LATE.get() {
        context.t.stream_synchronize(*stream);
        context.t.free_device(*device);
        context.t.free_host(*pinned);
        context.t.destroy_stream(*stream);
        context.t.device_synchronize();
        context.t.free_device(context.t.malloc_device(100));
        // A failing call at exit, and a look at it.
        context.t.set_device(-1);
        let _ = context.failure();
    }
}

fn free_at_exit(bare: &Bare) -> Checked<i32> {
    // Registered before the library is opened: runs after everything that it registers.
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(give_back) };
    let context = bare.context()?;
    let (stream, device, pinned) = leave_everything_alive(context)?;
    let _ = LATE.set((context, stream, device, pinned));
    // And after: runs before them. The second run frees what the first has freed.
    // SAFETY: as above.
    unsafe { libc::atexit(give_back) };
    Ok(8)
}

fn frees_from_a_threads_own_destructors(context: &'static Context) -> Checked {
    ends_with(context, "free_at_thread_end", 9)
}

/// Frees in the destructor of a thread-local value.
struct Late(&'static Context, Stream, Address, Address);

impl Drop for Late {
    fn drop(&mut self) {
        let Late(context, stream, device, pinned) = *self;
        context.t.free_device(device);
        context.t.free_host(pinned);
        context.t.stream_synchronize(stream);
        context.t.destroy_stream(stream);
        context.t.free_device(device);
        let _ = context.failure();
    }
}

thread_local! {
    static THREADS_OWN: RefCell<Vec<Late>> = const { RefCell::new(Vec::new()) };
}

fn free_at_thread_end(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    for order in 0..20 {
        let thread = std::thread::spawn(move || -> Checked {
            // Before the first call of the runtime, or after it: destructors run in another order.
            if order % 2 == 0 {
                THREADS_OWN.with(|own| own.borrow_mut().reserve(1));
            }
            let (stream, device, pinned) = leave_everything_alive(context)?;
            context.t.set_device(-1);
            THREADS_OWN.with(|own| {
                own.borrow_mut().push(Late(context, stream, device, pinned));
            });
            Ok(())
        });
        thread.join().map_err(|_| crate::outcome::Stop::fail("a thread panicked"))??;
    }
    Ok(9)
}

fn a_panic_in_main_keeps_its_exit_code(context: &'static Context) -> Checked {
    let ended = context.program("panic_in_main").run()?;
    ended.expect_code(101)
}

fn panic_in_main(bare: &Bare) -> Checked<i32> {
    leave_everything_alive(bare.context()?)?;
    panic!("on purpose: an error that nobody catches");
}

fn a_death_by_signal_stays_one(context: &'static Context) -> Checked {
    let ended = context.program("killed").run()?;
    ensure_eq!(ended.signal, Some(libc::SIGTERM), "the signal; {}", ended.story());
    Ok(())
}

fn killed(bare: &Bare) -> Checked<i32> {
    leave_everything_alive(bare.context()?)?;
    // SAFETY: this process's own end.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn exit_without_handlers(context: &'static Context) -> Checked {
    ends_with(context, "exit_at_once", 11)
}

fn exit_at_once(bare: &Bare) -> Checked<i32> {
    leave_everything_alive(bare.context()?)?;
    // SAFETY: ends the process without its handlers.
    unsafe { libc::_exit(11) }
}

fn closed_streams_of_output_do_no_harm(context: &'static Context) -> Checked {
    ends_with(context, "output_closed", 12)
}

fn output_closed(bare: &Bare) -> Checked<i32> {
    // SAFETY: nothing of this program writes after this.
    unsafe {
        libc::close(0);
        libc::close(1);
        libc::close(2);
    }
    let context = bare.context()?;
    for _ in 0..100 {
        context.t.set_device(-1);
        context.t.free_device(Address::GARBAGE);
    }
    context.failure()?;
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(give_back) };
    let (stream, device, pinned) = leave_everything_alive(context)?;
    let _ = LATE.set((context, stream, device, pinned));
    Ok(12)
}

fn the_library_is_closed_while_its_streams_are_alive(context: &'static Context) -> Checked {
    ends_with(context, "library_closed", 13)
}

fn library_closed(bare: &Bare) -> Checked<i32> {
    unsafe extern "C" fn nap(_: *mut c_void) {
        std::thread::sleep(Duration::from_millis(30));
    }
    for _ in 0..3 {
        let library = bare.library()?;
        let number =
            library.device_type(&bare.setup.device_type).map_err(crate::outcome::Stop::fail)?;
        let t = library.twelve(number).map_err(crate::outcome::Stop::fail)?;
        let x = library.extended(number).map_err(crate::outcome::Stop::fail)?;
        let stream = t.create_stream();
        let (one, two) = (t.malloc_device(8 << 20), t.malloc_device(8 << 20));
        // SAFETY: `nap` may be called from anywhere. A backend without host functions refuses.
        let _ = unsafe { x.launch_host_function(0, stream, nap, std::ptr::null_mut()) };
        for _ in 0..10 {
            t.enqueue(one, two, 8 << 20, MemcpyKind::D2D, stream);
        }
        // With threads of its own at work, and this thread's slot in its storage.
        t.set_device(-1);
        library.close();
        std::thread::spawn(|| ()).join().ok();
    }
    std::thread::sleep(Duration::from_millis(100));
    Ok(13)
}

fn a_million_frees_say_nothing(context: &'static Context) -> Checked {
    ends_with(context, "free_in_silence", 0)
}

fn free_in_silence(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    for _ in 0..context.times(1_000_000) {
        context.t.free_device(context.t.malloc_device(64));
    }
    // Silent also when they are wrong.
    for _ in 0..1000 {
        context.t.free_device(Address::GARBAGE);
        context.t.free_host(Address::GARBAGE);
    }
    context.failure()?;
    Ok(0)
}
