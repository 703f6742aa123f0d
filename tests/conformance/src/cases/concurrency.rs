//! Every function from any thread at any time (L4).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::data::Rng;
use crate::footprint::leaves_blocks_on_purpose;
use crate::forever::forever;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

cases! { Area::Concurrency;
    "L4" the_first_use_from_sixteen_threads_at_once [];
    "L4" eight_threads_do_everything_at_once [];
    "L4" many_threads_use_one_stream [];
    "L4" many_threads_wait_for_one_stream [];
    "S3" one_of_eight_threads_wins_the_end_of_a_stream [];
    "S3" streams_are_destroyed_while_other_threads_use_them [];
    "L4" streams_come_and_go_while_another_thread_waits_for_the_device [];
    "E2" each_of_eight_threads_reads_its_own_failures [];
    "L4" threads_that_end_leave_nothing_behind [];
    "D2" threads_that_choose_devices_do_not_disturb_each_other [];
    "L4" backends_are_listed_from_many_threads_at_once [];
}

programs![first_use];

/// Runs the body on `count` threads that start together.
fn together<F>(count: usize, body: F) -> Checked
where
    F: Fn(usize) -> Checked + Send + Sync + 'static,
{
    let (start, body) = (Arc::new(Barrier::new(count)), Arc::new(body));
    let threads: Vec<_> = (0..count)
        .map(|index| {
            let (start, body) = (Arc::clone(&start), Arc::clone(&body));
            std::thread::spawn(move || {
                start.wait();
                body(index)
            })
        })
        .collect();
    let results: Vec<Checked> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err(Stop::fail("a thread panicked"))))
        .collect();
    results.into_iter().collect()
}

fn round_trip(context: &'static Context, rng: &mut Rng, stream: Stream) -> Checked {
    let size = 1 + rng.below(50_000);
    let bytes = rng.bytes(size);
    let device = Block::device(context, size)?;
    let place = if rng.below(2) == 0 { Place::Pinned } else { Place::Pageable };
    let target = Block::new(context, place, size)?;
    match rng.below(3) {
        0 => {
            context.copy(device.address(), Address::of(&bytes), size, MemcpyKind::H2D)?;
            context.copy(target.address(), device.address(), size, MemcpyKind::D2H)?;
        }
        _ => {
            let (middle, from) = (device.address(), Address::of(&bytes));
            context.enqueue(middle, from, size, MemcpyKind::H2D, stream)?;
            context.enqueue(target.address(), middle, size, MemcpyKind::D2H, stream)?;
            context.wait(stream)?;
        }
    }
    ensure!(target.content()? == bytes, "{size} bytes there and back are not the same");
    device.free()?;
    target.free()
}

fn the_first_use_from_sixteen_threads_at_once(context: &'static Context) -> Checked {
    for _ in 0..context.times(5) {
        context.program("first_use").run()?.expect_success()?;
    }
    Ok(())
}

fn first_use(bare: &Bare) -> Checked<i32> {
    let library = Arc::new(bare.library()?);
    let number = library.device_type(&bare.setup.device_type).map_err(Stop::fail)?;
    let seed = bare.setup.seed;
    together(16, move |index| {
        // Nothing has been asked of the backend before this.
        let t = library.twelve(number).map_err(Stop::fail)?;
        let mut rng = Rng::new(seed + index as u64);
        let bytes = rng.bytes(5000);
        let mut found = vec![0u8; 5000];
        let block = t.malloc_device(5000);
        let stream = t.create_stream();
        t.enqueue(block, Address::of(&bytes), 5000, MemcpyKind::H2D, stream);
        t.stream_synchronize(stream);
        t.copy(Address::of_mut(&mut found), block, 5000, MemcpyKind::D2H);
        t.free_device(block);
        t.destroy_stream(stream);
        let failure = library.take_failure().map_err(Stop::fail)?;
        ensure!(failure.is_none(), "thread {index}: {failure:?}");
        ensure!(found == bytes, "thread {index}: the copies did not arrive");
        Ok(())
    })?;
    Ok(0)
}

fn eight_threads_do_everything_at_once(context: &'static Context) -> Checked {
    let rounds = context.times(400);
    together(8, move |index| {
        let mut rng = Rng::new(context.seed + index as u64);
        context.set_device(index as i32 % context.count)?;
        let mut stream = context.stream()?;
        for _ in 0..rounds {
            match rng.below(10) {
                0 => {
                    context.destroy(stream)?;
                    stream = context.stream()?;
                }
                1 => {
                    context.t.device_synchronize();
                    context.clean("device_synchronize")?;
                }
                2 => round_trip(context, &mut rng, Stream::DEFAULT)?,
                3 => {
                    let blocks: Vec<Block> = (0..5)
                        .map(|_| Block::device(context, 1 + rng.below(100_000)))
                        .collect::<Checked<_>>()?;
                    for block in blocks {
                        block.free()?;
                    }
                }
                4 => {
                    context.t.free_device(Address(0x1000 + rng.below(1000)));
                    context.refused("free_device", Status::InvalidValue, "garbage")?;
                }
                _ => round_trip(context, &mut rng, stream)?,
            }
        }
        context.destroy(stream)
    })
}

fn many_threads_use_one_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let rounds = context.times(200);
    together(8, move |index| {
        let mut rng = Rng::new(context.seed + index as u64);
        for _ in 0..rounds {
            round_trip(context, &mut rng, stream)?;
        }
        Ok(())
    })?;
    context.destroy(stream)
}

fn many_threads_wait_for_one_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 1 << 20);
    let size = bytes.len();
    for _ in 0..context.times(20) {
        let source = Block::filled(context, Place::Device, &bytes)?;
        let target = Block::pinned(context, size)?;
        for _ in 0..10 {
            let (dst, src) = (target.address(), source.address());
            context.enqueue(dst, src, size, MemcpyKind::D2H, stream)?;
        }
        together(8, move |_| context.wait(stream))?;
        ensure!(target.content()? == bytes, "the copy had not arrived when eight had waited");
    }
    context.destroy(stream)
}

fn one_of_eight_threads_wins_the_end_of_a_stream(context: &'static Context) -> Checked {
    for round in 0..context.times(200) {
        let stream = context.stream()?;
        let won = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&won);
        together(8, move |_| {
            count.fetch_add(context.x.destroy_stream(0, stream).is_ok().into(), Ordering::SeqCst);
            Ok(())
        })?;
        let won = won.load(Ordering::SeqCst);
        ensure!(won == 1, "round {round}: {won} of 8 threads destroyed the same stream");
    }
    Ok(())
}

fn streams_are_destroyed_while_other_threads_use_them(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 4096);
    // For ever: the threads of a case that fails go on.
    leaves_blocks_on_purpose();
    let source = forever(Block::filled(context, Place::Pinned, &bytes)?);
    let target = forever(Block::device(context, 4096)?);
    for _ in 0..context.times(100) {
        let stream = context.stream()?;
        together(4, move |index| {
            if index == 0 {
                std::thread::yield_now();
                context.destroy(stream)?;
                return Ok(());
            }
            for _ in 0..20 {
                let (dst, src) = (target.address(), source.address());
                context.t.enqueue(dst, src, 4096, MemcpyKind::H2D, stream);
                context.t.stream_synchronize(stream);
            }
            // Either the call was in time, or the handle is one that no longer exists.
            match context.failure()? {
                None => Ok(()),
                Some(failure) if failure.code.is(Status::InvalidHandle) => Ok(()),
                Some(failure) => fail!("a stream that another thread destroys: {failure:?}"),
            }
        })?;
    }
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    ensure!(target.content()? == bytes, "the data that was copied all the time");
    Ok(())
}

fn streams_come_and_go_while_another_thread_waits_for_the_device(
    context: &'static Context,
) -> Checked {
    let over = Arc::new(AtomicBool::new(false));
    let rounds = context.times(300);
    // For ever: as above.
    leaves_blocks_on_purpose();
    let source = forever(Block::pinned(context, 4096)?);
    // One for each thread: what three streams wrote at one time would be a race of this test's.
    let mut targets = Vec::new();
    for _ in 0..3 {
        targets.push(forever(Block::device(context, 4096)?));
    }
    let working = Arc::new(AtomicUsize::new(3));
    together(5, move |index| {
        if index >= 3 {
            while !over.load(Ordering::SeqCst) {
                context.t.device_synchronize();
                context.clean("device_synchronize")?;
            }
            return Ok(());
        }
        let result = (0..rounds).try_for_each(|_| {
            let stream = context.stream()?;
            let (dst, src) = (targets[index].address(), source.address());
            context.enqueue(dst, src, 4096, MemcpyKind::H2D, stream)?;
            context.destroy(stream)
        });
        if working.fetch_sub(1, Ordering::SeqCst) == 1 {
            over.store(true, Ordering::SeqCst);
        }
        result
    })
}

fn each_of_eight_threads_reads_its_own_failures(context: &'static Context) -> Checked {
    let rounds = context.times(2000);
    together(8, move |index| {
        for round in 0..rounds {
            let ordinal = 100_000 + (index * rounds + round) as i32;
            context.t.set_device(ordinal);
            let failure = context.refused("set_device", Status::InvalidDevice, "no such device")?;
            ensure!(
                failure.message.contains(&ordinal.to_string()),
                "thread {index}: expected its own ordinal {ordinal} in: {}",
                failure.message
            );
        }
        Ok(())
    })
}

fn threads_that_end_leave_nothing_behind(context: &'static Context) -> Checked {
    // Each leaves a failure unread, a stream alive, a cache perhaps; none of it hinders the next.
    let before = crate::data::resident_bytes();
    for round in 0..context.times(300) {
        let stream = std::thread::spawn(move || -> Checked<Stream> {
            let mut rng = Rng::new(context.seed + round as u64);
            let stream = context.stream()?;
            round_trip(context, &mut rng, stream)?;
            context.t.set_device(-1);
            Ok(stream)
        })
        .join()
        .map_err(|_| Stop::fail("a thread panicked"))??;
        context.destroy(stream)?;
    }
    let grown = crate::data::resident_bytes().saturating_sub(before);
    ensure!(grown < 256 << 20, "threads that all ended keep {grown} bytes");
    Ok(())
}

fn threads_that_choose_devices_do_not_disturb_each_other(context: &'static Context) -> Checked {
    let rounds = context.times(1000);
    together(8, move |index| {
        for round in 0..rounds {
            let device = (index + round) as i32 % context.count;
            context.library.set_context(context.device_type, device);
            context.t.set_device(context.count + index as i32);
            context.refused("set_device", Status::InvalidDevice, "no such device")?;
            ensure_eq!(context.library.context(), (context.device_type, device), "the choice");
        }
        Ok(())
    })
}

fn backends_are_listed_from_many_threads_at_once(context: &'static Context) -> Checked {
    let first = context.library.candidates().map_err(Stop::fail)?.len();
    together(8, move |_| {
        for _ in 0..50 {
            let all = context.library.candidates().map_err(Stop::fail)?;
            ensure!(all.len() >= first, "the list of backends became shorter");
        }
        Ok(())
    })
}
