//! What a failure leaves behind (E1–E3, E6).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::extended::Copy;
use crate::failure::Failure;
use crate::outcome::{Checked, Stop};
use crate::place::Block;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Stream};
use std::collections::HashSet;
use std::ffi::{CStr, c_char};
use std::ptr;

cases! { Area::Errors;
    "E3" every_status_has_its_own_name_and_text [];
    "E2" nothing_failed_reads_as_success_with_texts [];
    "E2" the_first_failure_stays_until_it_is_read [];
    "E2" reading_clears_and_peeking_does_not [];
    "E2" the_slot_belongs_to_the_thread [];
    "E2" a_text_stays_until_the_next_failing_call [];
    "E2" the_copying_form_cuts_and_tells_how_much_it_needs [];
    "E2" every_failing_operation_is_named_with_what_was_asked [];
    "E2" a_failing_call_writes_no_output [];
    "E1" garbage_of_every_kind_is_an_error_and_nothing_worse [];
    "E1" null_outputs_and_null_tables_are_errors [];
    "E3" flags_without_a_meaning_are_refused [];
    "E3" each_kind_of_fault_has_its_own_status [];
    "E6" errno_of_the_caller_is_not_reported_as_ours [];
    "E2" a_million_failures_are_as_good_as_one [];
}

fn every_status_has_its_own_name_and_text(context: &'static Context) -> Checked {
    let (mut names, mut texts) = (HashSet::new(), HashSet::new());
    let name = |code| context.library.status_name(code);
    let text = |code| context.library.status_text(code);
    for status in Status::ALL {
        let (name, text) =
            (name(status.code()).map_err(Stop::fail)?, text(status.code()).map_err(Stop::fail)?);
        ensure_eq!(name, status.name(), "the name of {}", status.code());
        ensure!(!text.is_empty(), "{name} has no text");
        ensure!(names.insert(name.clone()) && texts.insert(text), "{name} is there twice");
    }
    for code in [-1, Status::ALL.len() as i32, 1000, i32::MIN, i32::MAX] {
        let name = name(code).map_err(Stop::fail)?;
        ensure!(!names.contains(&name), "{code} is no status and is called {name}");
        text(code).map_err(Stop::fail)?;
    }
    context.clean("llaisysStatusName and llaisysStatusText")
}

fn nothing_failed_reads_as_success_with_texts(context: &'static Context) -> Checked {
    ensure!(context.failure()?.is_none(), "a fresh thread has a failure");
    let mut error = ptr::null();
    // SAFETY: `error` is ours.
    let code = unsafe { (context.library.call.get_last_error)(&mut error) };
    ensure_eq!(Code(code), Code::SUCCESS, "llaisysGetLastError");
    // SAFETY: just read on this thread.
    let read = unsafe { Failure::copy(error) }.map_err(Stop::fail)?;
    ensure_eq!(read.code, Code::SUCCESS, "the struct when nothing failed");
    // SAFETY: a NULL output is left alone.
    let code = unsafe { (context.library.call.get_last_error)(ptr::null_mut()) };
    ensure_eq!(Code(code), Code::SUCCESS, "llaisysGetLastError into NULL");
    // SAFETY: as above.
    let code = unsafe { (context.library.call.peek_last_error)(ptr::null_mut()) };
    ensure_eq!(Code(code), Code::SUCCESS, "llaisysPeekLastError into NULL");
    Ok(())
}

/// Makes one failing call that is known by its number.
fn fail_with_kind(context: &Context, kind: u32) {
    let mut to = [0u8; 8];
    let from = [1u8; 8];
    context.t.memcpy_sync(Address::of_mut(&mut to), Address::of(&from), 8, kind);
}

fn the_first_failure_stays_until_it_is_read(context: &'static Context) -> Checked {
    let mut to = [0u8; 8];
    let from = [1u8; 8];
    fail_with_kind(context, 42);
    context.t.copy(Address::of_mut(&mut to), Address::of(&from), 8, MemcpyKind::H2H);
    ensure_eq!(to, from, "a copy that succeeds after one that failed");
    context.t.set_device(-5);
    ensure!(context.t.create_stream() != Stream::DEFAULT, "create_stream after a failure");
    let failure = context.refused("memcpy_sync", Status::InvalidValue, "kind 42")?;
    ensure!(failure.message.contains("42"), "expected the kind in: {}", failure.message);
    // Only the first one was kept.
    context.clean("after the first failure was read")
}

fn reading_clears_and_peeking_does_not(context: &'static Context) -> Checked {
    fail_with_kind(context, 77);
    let first = context.library.peek_failure().map_err(Stop::fail)?;
    let again = context.library.peek_failure().map_err(Stop::fail)?;
    ensure!(first.is_some() && first == again, "two peeks: {first:?} and {again:?}");
    // SAFETY: NULL outputs are left alone; the status is answered.
    let code = unsafe { (context.library.call.peek_last_error)(ptr::null_mut()) };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysPeekLastError(NULL)");
    let read = context.failure()?;
    ensure_eq!(read, first, "what is read after peeking");
    ensure!(context.library.peek_failure().map_err(Stop::fail)?.is_none(), "peeking after reading");
    ensure!(context.failure()?.is_none(), "reading twice");
    fail_with_kind(context, 78);
    // SAFETY: as above.
    let code = unsafe { (context.library.call.get_last_error)(ptr::null_mut()) };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysGetLastError(NULL)");
    context.clean("reading into NULL clears too")
}

fn the_slot_belongs_to_the_thread(context: &'static Context) -> Checked {
    fail_with_kind(context, 42);
    let other = Caller::start(move || {
        ensure!(context.failure()?.is_none(), "another thread's failure was read");
        context.t.set_device(-9);
        context.refused("set_device", Status::InvalidDevice, "the other thread's own")
    })?;
    other.join()?;
    context.refused("memcpy_sync", Status::InvalidValue, "this thread's own")?;
    Ok(())
}

fn a_text_stays_until_the_next_failing_call(context: &'static Context) -> Checked {
    fail_with_kind(context, 4242);
    let mut error = ptr::null();
    // SAFETY: `error` is ours.
    unsafe { (context.library.call.get_last_error)(&mut error) };
    // SAFETY: read on this thread, and no call of it failed since.
    let before = unsafe { Failure::copy(error) }.map_err(Stop::fail)?;
    // Calls that succeed, and other threads' failures, leave it alone.
    for size in 1..200 {
        let mut to = vec![0u8; size];
        let from = vec![1u8; size];
        context.t.copy(Address::of_mut(&mut to), Address::of(&from), size, MemcpyKind::H2H);
        context.t.free_device(context.t.malloc_device(size));
    }
    Caller::start(move || {
        for kind in 100..200 {
            fail_with_kind(context, kind);
            context.failure()?;
        }
        Ok(())
    })?
    .join()?;
    // SAFETY: as above: only calls that succeed were made on this thread.
    let after = unsafe { Failure::copy(error) }.map_err(Stop::fail)?;
    ensure_eq!(after, before, "a text that was read before");
    ensure!(before.message.contains("4242"), "expected the kind in: {}", before.message);
    Ok(())
}

fn the_copying_form_cuts_and_tells_how_much_it_needs(context: &'static Context) -> Checked {
    let copy = context.library.call.copy_last_error;
    let mut whole = [0x55 as c_char; 2048];
    let mut needed = 0;
    // SAFETY: buffer, capacity and `needed` are ours.
    let code = unsafe { copy(whole.as_mut_ptr(), 2048, &mut needed) };
    ensure_eq!((Code(code), needed), (Code::SUCCESS, 1), "copying when nothing failed");
    ensure_eq!(whole[0], 0, "the text when nothing failed");
    fail_with_kind(context, 42);
    // SAFETY: as above.
    let code = unsafe { copy(whole.as_mut_ptr(), 2048, &mut needed) };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysCopyLastError");
    // SAFETY: the buffer was written with a NUL at its end.
    let text = unsafe { CStr::from_ptr(whole.as_ptr()) }.to_string_lossy().into_owned();
    ensure_eq!(needed as usize, text.len() + 1, "the size that is needed for {text:?}");
    let right = text.starts_with("memcpy_sync: INVALID_VALUE: ") && text.contains("42");
    ensure!(right && !text.contains('\n'), "expected one line that says what failed, found {text}");
    for capacity in [0, 1, 2, 10, needed - 1, needed, needed + 1] {
        let mut part = [0x55 as c_char; 2048];
        // SAFETY: the buffer is larger than its capacity says.
        unsafe { copy(part.as_mut_ptr(), capacity, &mut needed) };
        let length = (capacity.max(1) - 1).min(text.len() as u64) as usize;
        if capacity > 0 {
            ensure_eq!(part[length], 0, "the end of the text cut to {capacity}");
            ensure!(part[..length] == whole[..length], "the text cut to {capacity} differs");
        }
        let end = if capacity > 0 { length + 1 } else { 0 };
        ensure!(part[end..].iter().all(|c| *c == 0x55), "more than {capacity} bytes were written");
    }
    // SAFETY: NULL outputs are left alone.
    let code = unsafe { copy(ptr::null_mut(), 100, ptr::null_mut()) };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "copying into NULL");
    context.refused("memcpy_sync", Status::InvalidValue, "copying does not clear")?;
    Ok(())
}

fn every_failing_operation_is_named_with_what_was_asked(context: &'static Context) -> Checked {
    let stranger = Stream(Address(0x1234_5670).pointer());
    let block = Block::device(context, 64)?;
    let at = block.address();
    let expect = |operation: &str, status, part: &str| {
        let failure = context.refused(operation, status, operation)?;
        ensure!(
            failure.message.contains(part),
            "{operation}: expected {part:?} in the message, found: {}",
            failure.message
        );
        Ok(())
    };
    context.t.set_device(12345);
    expect("set_device", Status::InvalidDevice, "12345")?;
    context.t.destroy_stream(stranger);
    expect("destroy_stream", Status::InvalidHandle, "0x12345670")?;
    context.t.stream_synchronize(stranger);
    expect("stream_synchronize", Status::InvalidHandle, "0x12345670")?;
    context.t.free_device(at.plus(16));
    expect("free_device", Status::InvalidValue, "16 bytes into")?;
    context.t.free_host(at);
    expect("free_host", Status::InvalidValue, "free_device")?;
    context.t.memcpy_sync(at, at.plus(1), 8, 9);
    expect("memcpy_sync", Status::InvalidValue, "9")?;
    context.t.memcpy_async(at, at.plus(1), 8, 9, Stream::DEFAULT);
    expect("memcpy_async", Status::InvalidValue, "9")?;
    let size = (1usize << 62) + 4096;
    ensure!(context.t.malloc_device(size).is_null(), "2^62 bytes of device memory");
    expect("malloc_device", Status::OutOfMemory, &size.to_string())?;
    ensure!(context.t.malloc_host(size).is_null(), "2^62 bytes of pinned memory");
    expect("malloc_host", Status::OutOfMemory, &size.to_string())
}

fn a_failing_call_writes_no_output(context: &'static Context) -> Checked {
    let (x, this) = (context.x.raw, context.x.this());
    let mut pointer = Address(0x77).pointer();
    let mut stream = Stream(Address(0x77).pointer());
    let mut ready = 77;
    // SAFETY: the outputs are ours.
    let codes = unsafe {
        [
            (x.malloc_device)(this, -1, 64, &mut pointer),
            (x.malloc_device)(this, 0, 1 << 62, &mut pointer),
            (x.malloc_host)(this, -1, 64, &mut pointer),
            (x.create_stream)(this, -1, &mut stream),
            (x.stream_query)(this, 0, Stream(Address(0x99).pointer()), &mut ready),
            (x.get_device_properties)(this, 0, ptr::null_mut()),
        ]
    };
    ensure!(codes.iter().all(|code| *code != 0), "expected six failures, found {codes:?}");
    ensure_eq!(Address::from_pointer(pointer), Address(0x77), "the pointer");
    ensure_eq!(Address::from_pointer(stream.0), Address(0x77), "the stream");
    ensure_eq!(ready, 77, "the answer of the query");
    context.failure()?;
    let mut number = 77;
    // SAFETY: the text is constant, the output is ours.
    let code =
        unsafe { (context.library.call.load_backend)(c"/nowhere/x.so".as_ptr(), &mut number) };
    ensure_eq!(Code(code), Code::from(Status::BackendRefused), "llaisysLoadBackend");
    ensure_eq!(number, 77, "the device type of a backend that is not there");
    context.refused("llaisysLoadBackend", Status::BackendRefused, "no such file")?;
    Ok(())
}

fn garbage_of_every_kind_is_an_error_and_nothing_worse(context: &'static Context) -> Checked {
    let t = &context.t;
    let mut host = [3u8; 64];
    let own = Address::of_mut(&mut host);
    let device = Block::device(context, 64)?;
    let words =
        [Address::NULL, own, device.address(), Address::GARBAGE, Address(usize::MAX), Address(1)];
    for dst in words {
        for src in words {
            for size in [usize::MAX, usize::MAX - 255, 1 << 63] {
                if dst == src {
                    continue;
                }
                for kind in [0, 1, 2, 3, 4, 77, u32::MAX, i32::MAX as u32] {
                    t.memcpy_sync(dst, src, size, kind);
                    let what = format!("{size} bytes from {src:?} to {dst:?}, kind {kind}");
                    context.refused("memcpy_sync", Status::InvalidValue, &what)?;
                    t.memcpy_async(dst, src, size, kind, Stream::DEFAULT);
                    context.refused("memcpy_async", Status::InvalidValue, &what)?;
                }
            }
        }
    }
    for pointer in [own, Address::GARBAGE, Address(usize::MAX), Address(1)] {
        t.free_device(pointer);
        context.refused("free_device", Status::InvalidValue, "garbage")?;
        t.free_host(pointer);
        context.refused("free_host", Status::InvalidValue, "garbage")?;
        let stream = Stream(pointer.pointer());
        t.stream_synchronize(stream);
        context.refused("stream_synchronize", Status::InvalidHandle, "garbage")?;
        t.destroy_stream(stream);
        context.refused("destroy_stream", Status::InvalidHandle, "garbage")?;
        t.memcpy_async(own, device.address(), 8, MemcpyKind::D2H as u32, stream);
        context.refused("memcpy_async", Status::InvalidHandle, "garbage")?;
    }
    ensure_eq!(host, [3u8; 64], "host memory after calls that all failed");
    Ok(())
}

fn null_outputs_and_null_tables_are_errors(context: &'static Context) -> Checked {
    let (x, this) = (context.x.raw, context.x.this());
    let none = ptr::null_mut();
    // SAFETY: each call gets a NULL where it checks for one.
    let calls = unsafe {
        [
            ("get_device_count", (x.get_device_count)(this, ptr::null_mut())),
            ("create_stream", (x.create_stream)(this, 0, ptr::null_mut())),
            ("malloc_device", (x.malloc_device)(this, 0, 64, ptr::null_mut())),
            ("malloc_host", (x.malloc_host)(this, 0, 64, ptr::null_mut())),
            ("stream_query", (x.stream_query)(this, 0, Stream::DEFAULT, ptr::null_mut())),
            ("get_memory_info", (x.get_memory_info)(this, 0, ptr::null_mut())),
            ("get_device_properties", (x.get_device_properties)(this, 0, ptr::null_mut())),
            ("get_capabilities", (x.get_capabilities)(this, ptr::null_mut())),
            (
                "launch_host_function",
                (x.launch_host_function)(this, 0, Stream::DEFAULT, None, ptr::null_mut()),
            ),
            ("set_device", (x.set_device)(none, 0)),
            ("device_synchronize", (x.device_synchronize)(none, 0)),
            ("free_device", (x.free_device)(none, 0, none)),
        ]
    };
    for (operation, code) in calls {
        ensure_eq!(Code(code), Code::from(Status::InvalidValue), "{operation} with NULL");
    }
    context.refused("get_device_count", Status::InvalidValue, "the first of them")?;
    // SAFETY: as above.
    let code = unsafe { (context.library.call.load_backend)(ptr::null(), ptr::null_mut()) };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysLoadBackend(NULL)");
    for index in [-1, i32::MAX, i32::MIN] {
        // SAFETY: as above.
        let code = unsafe { (context.library.call.get_candidate)(index, ptr::null_mut()) };
        ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysGetCandidate({index})");
    }
    // SAFETY: as above.
    let code = unsafe { (context.library.call.get_candidate)(0, ptr::null_mut()) };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysGetCandidate into NULL");
    context.failure()?;
    Ok(())
}

fn flags_without_a_meaning_are_refused(context: &'static Context) -> Checked {
    let mut to = [7u8; 16];
    let from = [9u8; 16];
    for flags in [16, 1 << 31, u32::MAX, 0x100 | CopyFlags::HOST_BUFFER_PROMISED.0] {
        let copy = Copy::new(Address::of_mut(&mut to), Address::of(&from), 16, MemcpyKind::H2H)
            .with(CopyFlags(flags));
        let what = format!("flags {flags:#x}");
        let answer = context.x.memcpy_sync(0, copy);
        context.answered(answer, "memcpy_sync", Status::InvalidValue, &what)?;
        let answer = context.x.memcpy_async(0, copy, Stream::DEFAULT);
        context.answered(answer, "memcpy_async", Status::InvalidValue, &what)?;
    }
    ensure_eq!(to, [7u8; 16], "the destination of copies that were refused");
    Ok(())
}

fn each_kind_of_fault_has_its_own_status(context: &'static Context) -> Checked {
    let x = &context.x;
    let stranger = Stream(Address(0x1230).pointer());
    let found = [
        x.set_device(context.count),
        x.destroy_stream(0, stranger),
        x.malloc_device(0, 1 << 62).map(drop),
        x.free_device(0, Address::GARBAGE),
        context.library.device_count(777).map(drop),
        context.library.load_backend("/nowhere/x.so".as_ref()).map(drop),
    ];
    let right = [
        Status::InvalidDevice,
        Status::InvalidHandle,
        Status::OutOfMemory,
        Status::InvalidValue,
        Status::BackendUnavailable,
        Status::BackendRefused,
    ];
    for (found, right) in found.into_iter().zip(right) {
        ensure_eq!(found, Err(Code::from(right)), "a fault");
    }
    context.failure()?;
    Ok(())
}

fn errno_of_the_caller_is_not_reported_as_ours(context: &'static Context) -> Checked {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = libc::EDEADLK };
    let block = Block::device(context, 64)?;
    let pinned = Block::pinned(context, 64)?;
    context.copy(block.address(), pinned.address(), 64, MemcpyKind::H2D)?;
    block.free()?;
    pinned.free()?;
    let stream = context.stream()?;
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_million_failures_are_as_good_as_one(context: &'static Context) -> Checked {
    let before = crate::data::resident_bytes();
    for _ in 0..context.times(1_000_000) {
        context.t.set_device(-1);
    }
    let grown = crate::data::resident_bytes().saturating_sub(before);
    ensure!(grown < 64 << 20, "a million failures that nobody reads keep {grown} bytes");
    context.refused("set_device", Status::InvalidDevice, "the first of a million")?;
    context.clean("after it was read")
}
