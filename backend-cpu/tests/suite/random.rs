//! Random work against a model that does everything at once.
//!
//! Each thread has streams with buffers of their own; work on a stream touches its buffers only,
//! work on the default stream any buffer of the thread, and a stream may borrow a buffer of another
//! between two events. So doing everything in the order of the
//! calls is what must come out.

use crate::rig::{Rig, bytes};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::api::{
    CopyFlags, EventFlags, LlaisysCopyRange, MemcpyKind, RuntimeApi, Stream,
};
use std::thread;
use std::time::Duration;

/// Numbers that look random and come again with the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

const STREAMS: usize = 3;
const PER_STREAM: usize = 3;
const SIZE: usize = 200;

struct Buffer {
    memory: *mut u8,
    model: Vec<u8>,
}

fn mix(byte: u8, by: u8) -> u8 {
    byte.wrapping_mul(31).wrapping_add(by)
}

fn run(rig: Rig, seed: u64, steps: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut streams: Vec<Stream> = (0..STREAMS).map(|_| rig.stream()).collect();
    let mut buffers: Vec<Buffer> = (0..STREAMS * PER_STREAM)
        .map(|_| Buffer { memory: rig.device_memory(SIZE, 0), model: vec![0; SIZE] })
        .collect();
    let timing = if seed.is_multiple_of(2) { EventFlags::NONE } else { EventFlags::TIMING };
    let events = (rig.event(timing), rig.event(EventFlags::BLOCKING_WAIT));
    for step in 0..steps {
        let at = |what: &str| format!("{what} in step {step} of seed {seed}");
        let (owner, by) = (random.below(STREAMS), random.next() as u8);
        let on_default = random.below(5) == 0;
        let stream = if on_default { Stream::DEFAULT } else { streams[owner] };
        let mut pick = || match on_default {
            true => random.below(buffers.len()),
            false => owner * PER_STREAM + random.below(PER_STREAM),
        };
        let (to, from) = (pick(), pick());
        let (begin, size) = (random.below(SIZE / 2), 1 + random.below(SIZE / 2));
        let range = begin..begin + size;
        let at_once =
            if random.below(3) == 0 { CopyFlags::AT_ONCE_IF_IDLE } else { CopyFlags::NONE };
        let memory = |index: usize| buffers[index].memory.wrapping_add(begin);
        match random.below(16) {
            0..=3 if to != from => {
                rig.copy(memory(to), memory(from), size, stream, at_once).expect("queued");
                let source = buffers[from].model[range.clone()].to_vec();
                buffers[to].model[range].copy_from_slice(&source);
            }
            0..=5 => {
                let whole = buffers[to].memory as usize;
                rig.call(0, stream, move || {
                    for index in 0..SIZE {
                        let byte = (whole as *mut u8).wrapping_add(index);
                        // SAFETY: in the order of the streams nobody else uses the buffer now.
                        unsafe { byte.write(mix(byte.read(), by)) };
                    }
                });
                buffers[to].model.iter_mut().for_each(|byte| *byte = mix(*byte, by));
            }
            6 | 7 => {
                let mut local = vec![by; size];
                let flags = at_once.with(CopyFlags::SOURCE_PAGEABLE);
                rig.copy(memory(to), local.as_ptr(), size, stream, flags).expect("queued");
                local.fill(0xdd);
                buffers[to].model[range].fill(by);
            }
            8 => {
                let mut local = vec![0u8; size];
                let flags = at_once.with(CopyFlags::DESTINATION_PAGEABLE);
                rig.copy(local.as_mut_ptr(), memory(from), size, stream, flags).expect("copied");
                assert_eq!(local, buffers[from].model[range], "{}", at("asynchronous read"));
            }
            9 => {
                let mut local = vec![0u8; size];
                rig.copy_now(local.as_mut_ptr(), memory(from), size);
                assert_eq!(local, buffers[from].model[range], "{}", at("synchronous read"));
            }
            10 => {
                // The work that is pending on the old memory goes on; the new memory is another.
                let old = std::mem::replace(&mut buffers[to].memory, rig.device_memory(SIZE, by));
                buffers[to].model.fill(by);
                if by % 2 == 0 { rig.free(old) } else { rig.free_on(old, stream) }
            }
            11 => {
                rig.fill_on(memory(to), by, size, stream);
                buffers[to].model[range].fill(by);
            }
            12 if to != from => {
                let half = size / 2;
                let part = |offset: usize, size: usize| LlaisysCopyRange {
                    dst: memory(to).wrapping_add(offset).cast(),
                    src: memory(from).wrapping_add(offset).cast(),
                    size: size as u64,
                };
                let ranges = [part(0, half), part(half, size - half)];
                // SAFETY: in the order of the streams nobody else uses the buffers then.
                unsafe { rig.0.memcpy_batch_async(0, &ranges, MemcpyKind::D2D, stream, at_once) }
                    .expect("queued");
                let source = buffers[from].model[range.clone()].to_vec();
                buffers[to].model[range].copy_from_slice(&source);
            }
            12..=14 => {
                // Another stream works on a buffer of this one, which waits for that to end.
                let borrower = random.below(STREAMS);
                let (there, back) = events;
                rig.record(there, streams[owner]);
                rig.wait_event(streams[borrower], there);
                let own = owner * PER_STREAM + random.below(PER_STREAM);
                let other = borrower * PER_STREAM + random.below(PER_STREAM);
                if own != other {
                    let (dst, src) = (buffers[own].memory, buffers[other].memory);
                    rig.copy(dst, src, SIZE, streams[borrower], at_once).expect("queued");
                    buffers[own].model = buffers[other].model.clone();
                }
                rig.record(back, streams[borrower]);
                rig.wait_event(streams[owner], back);
                if by % 8 == 0 {
                    rig.synchronize(back);
                    assert!(rig.is_reached(there), "{}", at("an event out of order"));
                }
            }
            _ => {
                rig.wait(0, streams[owner]);
                rig.destroy(std::mem::replace(&mut streams[owner], rig.stream()));
            }
        }
    }
    rig.0.device_synchronize(0).expect("synchronized");
    for buffer in &buffers {
        assert_eq!(bytes(buffer.memory, SIZE), buffer.model, "at the end of seed {seed}");
        rig.free(buffer.memory);
    }
    streams.into_iter().for_each(|stream| rig.destroy(stream));
    rig.destroy_event(events.0);
    rig.destroy_event(events.1);
}

fn small() -> Rig {
    Rig::with(Configuration {
        memory_limit: Some(1 << 20),
        queue_capacity: 16,
        staging_bytes: 600,
        worker_idle: Duration::from_micros(50),
        ..Configuration::default()
    })
}

#[test]
fn one_thread_gets_what_the_model_gets() {
    for seed in 1..=20 {
        run(small(), seed, 1_500);
    }
}

#[test]
fn four_threads_on_one_device_get_what_the_model_gets() {
    let rig = small();
    thread::scope(|scope| {
        for seed in 101..=104 {
            scope.spawn(move || run(rig, seed, 4_000));
        }
    });
    rig.0.device_synchronize(0).expect("synchronized");
    crate::rig::eventually("all memory comes back", || {
        rig.0.get_memory_info(0).expect("information").free == 1 << 20
    });
}
