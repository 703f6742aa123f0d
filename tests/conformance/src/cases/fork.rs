//! A process that forks (L2).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::extended::Copy;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

cases! { Area::Life;
    "L2" a_forked_child_works_or_is_told [];
    "L2" a_fork_while_other_threads_work_does_not_block [];
    "L2" a_fork_with_held_work_leaves_the_parent_unharmed [Gates];
    "L2" frees_of_inherited_memory_are_nothing_in_the_child [];
    "L2" a_child_of_a_child_is_no_worse_off [];
}

programs![fork_and_work, fork_among_threads, fork_with_held_work, fork_and_free, fork_twice,];

/// Forks, runs the body in the child, and waits for it. The child's exit code is 0 when the body
/// found everything right.
pub(super) fn in_a_child(body: impl FnOnce() -> Checked) -> Checked {
    // SAFETY: the child runs nothing but `body`, which keeps to what a child may do (calls of the
    // runtime under test, which promises to work after a fork), and ends with `_exit`.
    let child = unsafe { libc::fork() };
    ensure!(child >= 0, "no child is to be had");
    if child == 0 {
        let code = match body() {
            Ok(()) => 0,
            Err(stop) => {
                eprintln!("in the child: {}", stop.message);
                1
            }
        };
        // SAFETY: ends the child without handlers.
        unsafe { libc::_exit(code) };
    }
    let started = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: waits for the child that was just made.
        let ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
        if ended == child {
            break;
        }
        if started.elapsed() > Duration::from_secs(20) {
            // SAFETY: this process's own child.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(child, &mut status, 0) };
            fail!("the child was still not at its end after 20 s");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    ensure!(libc::WIFEXITED(status), "a signal ended the child (wait status {status:#x})");
    ensure_eq!(libc::WEXITSTATUS(status), 0, "the child's exit code");
    Ok(())
}

/// In a child: the backend works, or everything that is no free answers `FORKED`.
pub(super) fn works_or_is_told(context: &'static Context) -> Checked {
    // The parent's threads are not here; what they left unread is.
    let _ = context.failure()?;
    let pointer = context.t.malloc_device(4096);
    if !pointer.is_null() {
        context.t.free_device(pointer);
        context.clean("malloc_device and free_device")?;
        let bytes = context.bytes(1, 70_000);
        let stream = context.stream()?;
        let block = Block::device(context, bytes.len())?;
        let target = Block::new(context, Place::Pinned, bytes.len())?;
        let (middle, size) = (block.address(), bytes.len());
        context.enqueue(middle, Address::of(&bytes), size, MemcpyKind::H2D, stream)?;
        context.enqueue(target.address(), middle, size, MemcpyKind::D2H, stream)?;
        context.wait(stream)?;
        ensure!(target.content()? == bytes, "the copies did not arrive");
        context.t.device_synchronize();
        context.clean("device_synchronize")?;
        return context.destroy(stream);
    }
    let forked = |operation| {
        context.refused(operation, Status::Forked, "in a child whose driver was initialised before")
    };
    forked("malloc_device")?;
    context.t.set_device(0);
    forked("set_device")?;
    context.t.device_synchronize();
    forked("device_synchronize")?;
    ensure!(context.t.create_stream().is_default(), "create_stream in the child");
    forked("create_stream")?;
    ensure!(context.t.malloc_host(64).is_null(), "malloc_host in the child");
    forked("malloc_host")?;
    context.t.stream_synchronize(Stream::DEFAULT);
    forked("stream_synchronize")?;
    Ok(())
}

/// The CPU works in every child.
pub(super) fn the_cpu_works(context: &'static Context) -> Checked {
    let cpu = context.library.twelve(0).map_err(crate::outcome::Stop::fail)?;
    let bytes = context.bytes(7, 1000);
    let mut back = vec![0; 1000];
    let block = cpu.malloc_device(1000);
    cpu.copy(block, Address::of(&bytes), 1000, MemcpyKind::H2D);
    cpu.copy(Address::of_mut(&mut back), block, 1000, MemcpyKind::D2H);
    cpu.free_device(block);
    context.clean("the CPU in the child")?;
    ensure!(back == bytes, "the CPU's copies in the child did not arrive");
    Ok(())
}

fn still_works(context: &'static Context) -> Checked {
    let bytes = context.bytes(9, 50_000);
    let block = Block::filled(context, Place::Device, &bytes)?;
    ensure!(block.content()? == bytes, "the parent's copies do not arrive any more");
    let stream = context.stream()?;
    context.wait(stream)?;
    context.destroy(stream)?;
    block.free()
}

fn a_forked_child_works_or_is_told(context: &'static Context) -> Checked {
    context.program("fork_and_work").run()?.expect_success()
}

fn fork_and_work(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    still_works(context)?;
    for _ in 0..3 {
        in_a_child(|| {
            works_or_is_told(context)?;
            the_cpu_works(context)
        })?;
        still_works(context)?;
    }
    Ok(0)
}

fn a_fork_while_other_threads_work_does_not_block(context: &'static Context) -> Checked {
    context.program("fork_among_threads").run()?.expect_success()
}

fn fork_among_threads(bare: &Bare) -> Checked<i32> {
    static OVER: AtomicBool = AtomicBool::new(false);
    let context = bare.context()?;
    let threads: Vec<_> = (0..4u64)
        .map(|which| {
            std::thread::spawn(move || -> Checked {
                let stream = context.stream()?;
                let bytes = context.bytes(which, 20_000);
                while !OVER.load(Ordering::SeqCst) {
                    let block = Block::device(context, bytes.len())?;
                    let (middle, size) = (block.address(), bytes.len());
                    context.enqueue(middle, Address::of(&bytes), size, MemcpyKind::H2D, stream)?;
                    ensure!(block.content()? == bytes, "a worker's copy did not arrive");
                    context.t.set_device(-1);
                    context.failure()?;
                    let other = context.stream()?;
                    context.destroy(other)?;
                }
                context.destroy(stream)
            })
        })
        .collect();
    let mut result = Ok(());
    for round in 0..context.times(100) {
        result = in_a_child(|| {
            works_or_is_told(context)?;
            the_cpu_works(context)
        })
        .map_err(|stop| stop.at(format!("fork number {round}")));
        if result.is_err() {
            break;
        }
    }
    OVER.store(true, Ordering::SeqCst);
    for thread in threads {
        let ended = thread.join().map_err(|_| crate::outcome::Stop::fail("a worker panicked"))?;
        result = result.and(ended);
    }
    result?;
    still_works(context)?;
    Ok(0)
}

fn a_fork_with_held_work_leaves_the_parent_unharmed(context: &'static Context) -> Checked {
    context.program("fork_with_held_work").run()?.expect_success()
}

fn fork_with_held_work(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    let bytes = context.bytes(1, 100_000);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Block::pinned(context, bytes.len())?;
    let gate = crate::gate::Gate::hold(context, 0, stream)?;
    let (dst, src) = (target.address(), source.address());
    context.enqueue(dst, src, bytes.len(), MemcpyKind::D2H, stream)?;
    in_a_child(|| works_or_is_told(context))?;
    gate.open();
    context.wait(stream)?;
    ensure!(target.content()? == bytes, "the parent's queued copy did not arrive");
    still_works(context)?;
    Ok(0)
}

fn frees_of_inherited_memory_are_nothing_in_the_child(context: &'static Context) -> Checked {
    context.program("fork_and_free").run()?.expect_success()
}

fn fork_and_free(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let bytes = context.bytes(1, 100_000);
    let blocks: Vec<Block> = [Place::Device, Place::Pinned, Place::Device, Place::Pinned]
        .into_iter()
        .map(|place| Block::filled(context, place, &bytes))
        .collect::<Checked<_>>()?;
    let stream = context.stream()?;
    in_a_child(|| {
        for block in &blocks {
            let freed = match block.place() {
                Place::Device => context.x.free_device(0, block.address()),
                _ => context.x.free_host(0, block.address()),
            };
            context.ok(freed, "freeing inherited memory")?;
        }
        // A destroyed stream of the parent's: no crash, no hang.
        context.t.destroy_stream(stream);
        let _ = context.failure()?;
        works_or_is_told(context)
    })?;
    for block in blocks {
        ensure!(block.content()? == bytes, "the child's free reached the parent's memory");
        block.free()?;
    }
    let copy = Copy::new(Address::NULL, Address::NULL, 0, MemcpyKind::H2H);
    context.enqueue_extended(0, copy, stream)?;
    context.destroy(stream)?;
    still_works(context)?;
    Ok(0)
}

fn a_child_of_a_child_is_no_worse_off(context: &'static Context) -> Checked {
    context.program("fork_twice").run()?.expect_success()
}

fn fork_twice(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    still_works(context)?;
    in_a_child(|| {
        works_or_is_told(context)?;
        in_a_child(|| {
            works_or_is_told(context)?;
            the_cpu_works(context)
        })
    })?;
    still_works(context)?;
    Ok(0)
}
