//! Where memory went, limits, and who is asked when it runs out (E4).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::forever::forever;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{LlaisysMemoryStatistics, Stream};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

cases! { Area::Accounting;
    "E4" what_is_used_follows_allocations_and_frees [];
    "E4" the_peak_stays_until_it_is_reset [];
    "E4" a_limit_holds_and_is_taken_away [];
    "E4" a_limit_holds_for_every_kind_of_device_memory [];
    "E4" a_limit_below_what_is_used_takes_nothing_away [];
    "E4" failures_are_counted_and_nothing_else_changes [];
    "E4" trimming_keeps_what_is_used [];
    "M6" pinned_memory_is_in_no_devices_account [];
    "D3" devices_have_accounts_of_their_own [SecondDevice];
    "D3" a_stream_has_an_account_of_its_own [];
    "S3" a_stream_with_an_old_handle_begins_a_new_account [];
    "L4" eight_threads_keep_the_account_right [];
    "P3" statistics_are_written_as_far_as_the_caller_knows_them [];
    "E4" the_callback_is_asked_when_memory_runs_out [];
    "E4" the_callback_may_free_and_the_allocation_works [];
    "E4" a_callback_that_always_says_again_is_not_asked_for_ever [];
    "D2" accounts_of_devices_that_do_not_exist_are_refused [];
}

fn statistics(context: &Context, device: i32) -> Checked<LlaisysMemoryStatistics> {
    let found = context.ok(context.x.get_memory_statistics(device), "get_memory_statistics")?;
    ensure!(found.reserved_bytes >= found.used, "less is held than used: {found:?}");
    ensure!(found.peak >= found.used, "the peak is below what is used: {found:?}");
    Ok(found)
}

fn of_stream(context: &Context, stream: Stream) -> Checked<LlaisysMemoryStatistics> {
    let answer = context.x.get_stream_memory_statistics(0, stream);
    context.ok(answer, "get_stream_memory_statistics")
}

fn limit(context: &Context, bytes: u64) -> Checked {
    context.ok(context.x.set_memory_limit(0, bytes), "set_memory_limit")
}

fn what_is_used_follows_allocations_and_frees(context: &'static Context) -> Checked {
    let before = statistics(context, 0)?;
    let mut blocks = Vec::new();
    let mut sum = 0;
    for (number, size) in [1, 4096, 100_001, 3 << 20].into_iter().enumerate() {
        blocks.push(Block::device(context, size)?);
        sum += size as u64;
        let now = statistics(context, 0)?;
        ensure_eq!(now.used - before.used, sum, "used after {} blocks", number + 1);
        ensure_eq!(now.live - before.live, number as u64 + 1, "blocks handed out");
        ensure_eq!(now.allocations - before.allocations, number as u64 + 1, "allocations");
        ensure_eq!(now.frees, before.frees, "frees");
    }
    for block in blocks {
        block.free()?;
    }
    let now = statistics(context, 0)?;
    ensure_eq!((now.used, now.live), (before.used, before.live), "used and live at the end");
    ensure_eq!(now.frees - before.frees, 4, "frees at the end");
    ensure_eq!(now.failures, before.failures, "failures");
    Ok(())
}

fn the_peak_stays_until_it_is_reset(context: &'static Context) -> Checked {
    context.ok(context.x.reset_peak_memory(0), "reset_peak_memory")?;
    let before = statistics(context, 0)?;
    ensure_eq!(before.peak, before.used, "the peak after a reset");
    let small = Block::device(context, 1 << 20)?;
    Block::device(context, 4 << 20)?.free()?;
    let now = statistics(context, 0)?;
    ensure_eq!(now.peak - before.used, 5 << 20, "the peak after a block came and went");
    context.ok(context.x.reset_peak_memory(0), "reset_peak_memory")?;
    ensure_eq!(statistics(context, 0)?.peak, before.used + (1 << 20), "the peak after a reset");
    small.free()
}

fn a_limit_holds_and_is_taken_away(context: &'static Context) -> Checked {
    let used = statistics(context, 0)?.used;
    limit(context, used + (1 << 20))?;
    ensure_eq!(statistics(context, 0)?.limit, used + (1 << 20), "the limit");
    let block = Block::device(context, 600 << 10)?;
    let answer = context.x.malloc_device(0, 600 << 10);
    let what = "600 KiB of 1 MiB, twice";
    let failure = context.answered(answer, "malloc_device", Status::OutOfMemory, what)?;
    ensure!(failure.message.contains("614400"), "the size is not in {failure:?}");
    context.t.malloc_device(600 << 10);
    context.refused("malloc_device", Status::OutOfMemory, "through the twelve")?;
    // What fits exactly fits.
    Block::device(context, 424 << 10)?.free()?;
    block.free()?;
    Block::device(context, 1 << 20)?.free()?;
    limit(context, u64::MAX)?;
    ensure_eq!(statistics(context, 0)?.limit, u64::MAX, "the limit after it was taken away");
    Block::device(context, 2 << 20)?.free()
}

fn a_limit_holds_for_every_kind_of_device_memory(context: &'static Context) -> Checked {
    let x = &context.x;
    let used = statistics(context, 0)?.used;
    limit(context, used + (64 << 10))?;
    let answer = x.malloc_async(0, 128 << 10, Stream::DEFAULT);
    context.answered(answer, "malloc_async", Status::OutOfMemory, "above the limit")?;
    if crate::operations::support(context, "malloc_managed")? != 0 {
        let answer = x.malloc_managed(0, 128 << 10);
        context.answered(answer, "malloc_managed", Status::OutOfMemory, "above the limit")?;
    }
    // Pinned memory is the host's.
    Block::pinned(context, 128 << 10)?.free()?;
    limit(context, u64::MAX)
}

fn a_limit_below_what_is_used_takes_nothing_away(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 1 << 20);
    let block = Block::filled(context, Place::Device, &bytes)?;
    limit(context, 0)?;
    let answer = context.x.malloc_device(0, 1);
    context.answered(answer, "malloc_device", Status::OutOfMemory, "a limit of 0")?;
    let nothing = context.ok(context.x.malloc_device(0, 0), "0 bytes under a limit of 0")?;
    ensure!(nothing.is_null(), "0 bytes are NULL");
    ensure!(block.content()? == bytes, "memory that was used already");
    block.free()?;
    limit(context, u64::MAX)?;
    Block::device(context, 1)?.free()
}

fn failures_are_counted_and_nothing_else_changes(context: &'static Context) -> Checked {
    let before = statistics(context, 0)?;
    limit(context, before.used + 1000)?;
    for _ in 0..3 {
        let answer = context.x.malloc_device(0, 2000);
        context.answered(answer, "malloc_device", Status::OutOfMemory, "above the limit")?;
    }
    limit(context, u64::MAX)?;
    let answer = context.x.malloc_device(0, 1 << 50);
    context.answered(answer, "malloc_device", Status::OutOfMemory, "2^50 bytes")?;
    let now = statistics(context, 0)?;
    ensure_eq!(now.failures - before.failures, 4, "failures");
    ensure_eq!((now.used, now.live), (before.used, before.live), "used and live");
    ensure_eq!(now.allocations, before.allocations, "allocations");
    Ok(())
}

fn trimming_keeps_what_is_used(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 1 << 20);
    let block = Block::filled(context, Place::Device, &bytes)?;
    let many: Vec<Block> =
        (0..16).map(|_| Block::device(context, 16 << 20)).collect::<Checked<_>>()?;
    many.into_iter().try_for_each(Block::free)?;
    context.ok(context.x.device_synchronize(0), "device_synchronize")?;
    for keep in [u64::MAX, 1 << 20, 0] {
        context.ok(context.x.trim_memory(0, keep), &format!("trim_memory({keep})"))?;
        let held = context.ok(context.x.get_reserved_memory(0), "get_reserved_memory")?;
        ensure!(held >= statistics(context, 0)?.used, "less is held than used after trimming");
        ensure!(block.content()? == bytes, "memory that is used, after trimming to {keep}");
    }
    let now = statistics(context, 0)?;
    ensure!(
        now.reserved_bytes <= now.used + (64 << 20),
        "trimmed to nothing cached, {} bytes are held for {} used",
        now.reserved_bytes,
        now.used
    );
    block.free()
}

fn pinned_memory_is_in_no_devices_account(context: &'static Context) -> Checked {
    let before = statistics(context, 0)?;
    let block = Block::pinned(context, 1 << 20)?;
    let now = statistics(context, 0)?;
    ensure_eq!((now.used, now.live), (before.used, before.live), "used and live");
    block.free()
}

fn devices_have_accounts_of_their_own(context: &'static Context) -> Checked {
    let before = (statistics(context, 0)?, statistics(context, 1)?);
    context.ok(context.x.set_memory_limit(1, before.1.used + 5000), "set_memory_limit")?;
    context.set_device(1)?;
    let there = Block::device(context, 5000)?;
    context.set_device(0)?;
    let here = Block::device(context, 7000)?;
    let now = (statistics(context, 0)?, statistics(context, 1)?);
    ensure_eq!(now.0.used - before.0.used, 7000, "used on device 0");
    ensure_eq!(now.1.used - before.1.used, 5000, "used on device 1");
    ensure_eq!(now.0.limit, u64::MAX, "device 0's limit");
    // Freed with another device current.
    there.free()?;
    here.free()?;
    let now = (statistics(context, 0)?, statistics(context, 1)?);
    ensure_eq!(now.0.used, before.0.used, "used on device 0");
    ensure_eq!(now.1.used, before.1.used, "used on device 1");
    context.ok(context.x.set_memory_limit(1, u64::MAX), "set_memory_limit")
}

fn take(context: &Context, size: u64, stream: Stream) -> Checked<Address> {
    context.ok(context.x.malloc_async(0, size, stream), "malloc_async")
}

fn a_stream_has_an_account_of_its_own(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let default = of_stream(context, Stream::DEFAULT)?;
    let first = take(context, 1000, one)?;
    let second = take(context, 2000, one)?;
    let third = take(context, 4000, Stream::DEFAULT)?;
    let device = statistics(context, 0)?;
    ensure!(device.used >= 7000, "what streams use, the device uses: {device:?}");
    let now = of_stream(context, one)?;
    ensure_eq!((now.used, now.live, now.peak), (3000, 2, 3000), "used, live and peak");
    ensure_eq!(of_stream(context, two)?.used, 0, "used of a stream that allocated nothing");
    let now = of_stream(context, Stream::DEFAULT)?;
    ensure_eq!(now.used - default.used, 4000, "used of the default stream");
    // Whoever frees it: it leaves the account of the stream that allocated it.
    context.ok(context.x.free_async(0, first, two), "free_async in another stream")?;
    context.ok(context.x.free_device(0, second), "free_device")?;
    context.ok(context.x.free_async(0, third, one), "free_async in another stream")?;
    let now = of_stream(context, one)?;
    ensure_eq!((now.used, now.live, now.frees), (0, 0, 2), "used, live and frees at the end");
    ensure_eq!(now.peak, 3000, "the peak at the end");
    ensure_eq!(of_stream(context, two)?.used, 0, "used of a stream that only freed");
    ensure_eq!(of_stream(context, Stream::DEFAULT)?.used, default.used, "the default stream");
    context.destroy(one)?;
    context.destroy(two)
}

fn a_stream_with_an_old_handle_begins_a_new_account(context: &'static Context) -> Checked {
    let old = context.stream()?;
    let block = take(context, 5000, old)?;
    context.destroy(old)?;
    context.ok(context.x.device_synchronize(0), "device_synchronize")?;
    // Until the native address comes back, which depends on the driver.
    let mut others = Vec::new();
    let mut found = None;
    for _ in 0..200 {
        let stream = context.stream()?;
        if stream == old {
            found = Some(stream);
            break;
        }
        others.push(stream);
        if others.len() >= 20 {
            context.destroy(others.remove(0))?;
        }
    }
    if let Some(stream) = found {
        ensure_eq!(of_stream(context, stream)?.used, 0, "used of the new stream");
        context.ok(context.x.free_device(0, block), "free_device")?;
        let now = of_stream(context, stream)?;
        ensure_eq!(
            (now.used, now.live, now.frees),
            (0, 0, 0),
            "used, live, frees of the new stream after what the old one allocated was freed"
        );
        context.destroy(stream)?;
    } else {
        context.ok(context.x.free_device(0, block), "free_device")?;
    }
    for stream in others {
        ensure_eq!(of_stream(context, stream)?.used, 0, "used of another stream");
        context.destroy(stream)?;
    }
    if found.is_none() {
        return Err(Stop::skip("the handle of the destroyed stream did not come back in 200"));
    }
    Ok(())
}

fn eight_threads_keep_the_account_right(context: &'static Context) -> Checked {
    let before = statistics(context, 0)?;
    let times = context.times(500);
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || -> Checked {
                for number in 0..times {
                    Block::device(context, 1 + (thread * 131 + number * 17) % 9000)?.free()?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap_or_else(|_| Err(Stop::fail("a thread panicked")))?;
    }
    let now = statistics(context, 0)?;
    ensure_eq!((now.used, now.live), (before.used, before.live), "used and live at the end");
    ensure_eq!(now.allocations - before.allocations, 8 * times as u64, "allocations");
    ensure_eq!(now.frees - before.frees, 8 * times as u64, "frees");
    ensure!(now.peak <= before.peak.max(before.used + 8 * 9000), "the peak is {}", now.peak);
    Ok(())
}

fn statistics_are_written_as_far_as_the_caller_knows_them(context: &'static Context) -> Checked {
    let (x, this) = (context.x.raw, context.x.this());
    let mut found = LlaisysMemoryStatistics {
        struct_size: 32,
        limit: 77,
        live: 77,
        failures: 77,
        ..LlaisysMemoryStatistics::default()
    };
    let block = Block::device(context, 4096)?;
    // SAFETY: the struct is ours and says how much of it may be written.
    let code = unsafe { (x.get_memory_statistics)(this, 0, &mut found) };
    context.ok(crate::code::Code(code).result(), "get_memory_statistics")?;
    ensure!(found.used >= 4096 && found.peak >= 4096, "what the caller knows: {found:?}");
    ensure_eq!((found.live, found.failures, found.limit), (77, 77, 77), "what it does not know");
    ensure_eq!(found.struct_size, 32, "the caller's own size");
    block.free()
}

/// What the callback was asked, what it frees, and what it answers.
struct Asked {
    context: &'static Context,
    calls: Mutex<Vec<(i32, i32, u64)>>,
    to_free: Mutex<Vec<Address>>,
    again: bool,
}

/// # Safety
/// - `data` is an `Asked` that outlives the call.
unsafe extern "C" fn asked(data: *mut c_void, device_type: i32, device: i32, size: u64) -> i32 {
    // SAFETY: by the contract above.
    let asked = unsafe { &*data.cast::<Asked>() };
    let mut calls = asked.calls.lock().unwrap_or_else(PoisonError::into_inner);
    calls.push((device_type, device, size));
    drop(calls);
    let blocks = std::mem::take(&mut *asked.to_free.lock().unwrap_or_else(PoisonError::into_inner));
    let has_freed = !blocks.is_empty();
    for block in blocks {
        let _ = asked.context.x.free_device(0, block);
    }
    i32::from(has_freed || asked.again)
}

fn ask(context: &'static Context, blocks: Vec<Address>, again: bool) -> Checked<&'static Asked> {
    let to_free = Mutex::new(blocks);
    let asked_of = forever(Asked { context, calls: Mutex::new(Vec::new()), to_free, again });
    let data = std::ptr::from_ref(asked_of).cast_mut().cast();
    // SAFETY: `asked_of` is never freed.
    let answer = unsafe { context.x.set_out_of_memory_callback(Some(asked), data) };
    context.ok(answer, "set_out_of_memory_callback")?;
    Ok(asked_of)
}

fn ask_no_more(context: &Context) -> Checked {
    // SAFETY: takes the callback away.
    let answer = unsafe { context.x.set_out_of_memory_callback(None, std::ptr::null_mut()) };
    context.ok(answer, "set_out_of_memory_callback(NULL)")
}

fn calls(asked: &Asked) -> Vec<(i32, i32, u64)> {
    asked.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn the_callback_is_asked_when_memory_runs_out(context: &'static Context) -> Checked {
    let asked = ask(context, Vec::new(), false)?;
    let used = statistics(context, 0)?.used;
    Block::device(context, 4096)?.free()?;
    ensure_eq!(calls(asked), [], "asked although there was memory");
    limit(context, used + 1000)?;
    let answer = context.x.malloc_device(0, 5000);
    context.answered(answer, "malloc_device", Status::OutOfMemory, "the callback said no")?;
    let answer = context.x.malloc_async(0, 6000, Stream::DEFAULT);
    context.answered(answer, "malloc_async", Status::OutOfMemory, "the callback said no")?;
    limit(context, u64::MAX)?;
    let answer = context.x.malloc_device(0, 1 << 50);
    context.answered(answer, "malloc_device", Status::OutOfMemory, "the callback said no")?;
    let own = context.device_type;
    ensure_eq!(calls(asked), [(own, 0, 5000), (own, 0, 6000), (own, 0, 1 << 50)], "the questions");
    ask_no_more(context)?;
    let answer = context.x.malloc_device(0, 1 << 50);
    context.answered(answer, "malloc_device", Status::OutOfMemory, "no callback any more")?;
    ensure_eq!(calls(asked).len(), 3, "asked after it was taken away");
    Ok(())
}

fn the_callback_may_free_and_the_allocation_works(context: &'static Context) -> Checked {
    let used = statistics(context, 0)?.used;
    let cached = Block::device(context, 600 << 10)?.keep();
    let asked = ask(context, vec![cached], false)?;
    limit(context, used + (1 << 20))?;
    let block = Block::device(context, 900 << 10)?;
    ensure_eq!(calls(asked).len(), 1, "how often it was asked");
    limit(context, u64::MAX)?;
    ask_no_more(context)?;
    block.free()?;
    ensure_eq!(statistics(context, 0)?.used, used, "used at the end");
    Ok(())
}

fn a_callback_that_always_says_again_is_not_asked_for_ever(context: &'static Context) -> Checked {
    let asked = ask(context, Vec::new(), true)?;
    let answer = context.x.malloc_device(0, 1 << 50);
    context.answered(answer, "malloc_device", Status::OutOfMemory, "again and again")?;
    let times = calls(asked).len();
    ensure!((1..=1000).contains(&times), "asked {times} times");
    ask_no_more(context)
}

fn accounts_of_devices_that_do_not_exist_are_refused(context: &'static Context) -> Checked {
    let x = &context.x;
    let status = Status::InvalidDevice;
    for device in [-1, context.count, i32::MAX] {
        let what = format!("device {device}");
        let answer = x.get_memory_statistics(device);
        context.answered(answer, "get_memory_statistics", status, &what)?;
        let answer = x.get_stream_memory_statistics(device, Stream::DEFAULT);
        context.answered(answer, "get_stream_memory_statistics", status, &what)?;
        context.answered(x.reset_peak_memory(device), "reset_peak_memory", status, &what)?;
        context.answered(x.set_memory_limit(device, 1), "set_memory_limit", status, &what)?;
        context.answered(x.trim_memory(device, 0), "trim_memory", status, &what)?;
        context.answered(x.get_reserved_memory(device), "get_reserved_memory", status, &what)?;
    }
    Ok(())
}
