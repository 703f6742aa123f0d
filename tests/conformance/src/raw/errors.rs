//! What a failure of the plugin's leaves behind, in the slot of its thread (E2, E3, E4).

use super::outputs::TOO_LARGE;
use super::{Plugin, Slot};
use crate::case::Area;
use crate::code::Code;
use crate::outcome::{Checked, Stop};
use llaisys_runtime_core::Status;
use std::ffi::c_char;
use std::ptr;
use std::sync::mpsc;

raw_cases! { Area::RawErrors;
    "E2" a_fresh_thread_has_no_failure [];
    "E2" a_failure_leaves_its_status_and_a_text [];
    "E2" reading_the_slot_clears_it [];
    "E2" a_text_is_cut_to_the_buffer_and_has_an_end [];
    "E2" a_failure_is_its_threads_own [];
    "E3" a_failure_is_one_of_the_statuses [];
    "E4" after_out_of_memory_the_plugin_goes_on [];
    "E2" a_success_leaves_no_failure [];
}

/// Makes the calling thread's newest failure: more memory than there is.
fn fail_once(plugin: &Plugin) -> Checked<Code> {
    match plugin.x.malloc_device(0, TOO_LARGE) {
        Err(code) => Ok(code),
        Ok(address) => fail!("malloc_device of 2^46 bytes succeeded ({address:?})"),
    }
}

fn ready(plugin: &Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices().map(drop)
}

fn is_empty(slot: &Slot) -> bool {
    slot.code == Code::SUCCESS
}

fn a_fresh_thread_has_no_failure(plugin: &'static Plugin) -> Checked {
    let slot = plugin.slot()?;
    ensure!(is_empty(&slot), "the slot of a thread that called nothing holds {slot:?}");
    Ok(())
}

fn a_failure_leaves_its_status_and_a_text(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let code = fail_once(plugin)?;
    let slot = plugin.slot()?;
    ensure_eq!(slot.code, code, "what get_last_error returns, and what the call returned");
    ensure!(!slot.message.is_empty(), "the text is empty");
    Ok(())
}

fn reading_the_slot_clears_it(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    fail_once(plugin)?;
    let first = plugin.slot()?;
    ensure!(!is_empty(&first), "the failure is not in the slot");
    let second = plugin.slot()?;
    ensure!(is_empty(&second), "read once, the slot still holds {second:?}");
    Ok(())
}

fn a_text_is_cut_to_the_buffer_and_has_an_end(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let x = plugin.x.raw;
    for capacity in [0usize, 1, 2, 8, 33] {
        fail_once(plugin)?;
        let mut native_code = 0;
        let (mut name, mut message) = ([0x55 as c_char; 64], [0x55 as c_char; 64]);
        let size = capacity as u64;
        // SAFETY: the table's own `self`; both buffers are ours and longer than what is passed.
        unsafe {
            let (name, message) = (name.as_mut_ptr(), message.as_mut_ptr());
            (x.get_last_error)(x.self_, &mut native_code, name, size, message, size)
        };
        for (what, buffer) in [("native_name", &name), ("message", &message)] {
            let tail = buffer[capacity..].iter().position(|letter| *letter != 0x55);
            ensure!(tail.is_none(), "{what}: written behind a capacity of {capacity}");
            // A text that is not there may be left out.
            let untouched = buffer.iter().all(|letter| *letter == 0x55);
            let ends = buffer[..capacity].contains(&0);
            let needed = what == "message" && capacity > 0;
            ensure!(ends || (untouched && !needed), "{what}: no end within {capacity} bytes");
        }
    }
    // No texts wanted at all.
    fail_once(plugin)?;
    let (mut native_code, none) = (0, ptr::null_mut());
    // SAFETY: the table's own `self`; the capacities are 0.
    unsafe { (x.get_last_error)(x.self_, &mut native_code, none, 0, none, 0) };
    let left = plugin.slot()?;
    ensure!(is_empty(&left), "read without a buffer, the slot still holds {left:?}");
    Ok(())
}

fn a_failure_is_its_threads_own(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let code = fail_once(plugin)?;
    let (send, receive) = mpsc::channel();
    let other = std::thread::spawn(move || {
        let _ = send.send(plugin.slot());
    });
    let seen = receive.recv().map_err(|_| Stop::fail("the other thread ended early"))??;
    let _ = other.join();
    ensure!(is_empty(&seen), "another thread reads this thread's failure: {seen:?}");
    let own = plugin.slot()?;
    ensure_eq!(own.code, code, "this thread's failure, after another thread has asked");
    ensure!(!own.message.is_empty(), "this thread's text is gone after another thread has asked");
    Ok(())
}

fn a_failure_is_one_of_the_statuses(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let code = fail_once(plugin)?;
    let known = Status::from_code(code.0).is_some_and(|status| status != Status::Success);
    ensure!(known, "{} is no status", code.0);
    ensure!(code.is(Status::OutOfMemory), "2^46 bytes: expected OUT_OF_MEMORY, found {code:?}");
    plugin.slot().map(drop)
}

fn after_out_of_memory_the_plugin_goes_on(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    for _ in 0..3 {
        fail_once(plugin)?;
        let block = plugin.ok(plugin.x.malloc_device(0, 4096), "4096 bytes after a failure")?;
        plugin.ok(plugin.x.free_device(0, block), "free_device")?;
        plugin.slot()?;
    }
    Ok(())
}

fn a_success_leaves_no_failure(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let block = plugin.ok(plugin.x.malloc_device(0, 4096), "malloc_device")?;
    plugin.wait(stream)?;
    plugin.ok(plugin.x.free_device(0, block), "free_device")?;
    plugin.destroy(stream)?;
    let slot = plugin.slot()?;
    ensure!(is_empty(&slot), "no call failed, and the slot holds {slot:?}");
    Ok(())
}
