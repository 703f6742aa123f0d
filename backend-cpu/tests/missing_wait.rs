//! A program with a missing wait, as users write it: right by luck by default, caught by the seeded
//! schedule, and by strict mode where it touches device memory on the host. `docs/cpu.md` shows it.
//!
//! Rule: the program runs in a process of its own, configured by the environment as users do it.

use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, EventFlags, MemcpyKind, Pattern, RuntimeApi, Stream,
};
use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const SIZE: usize = 4096;

/// Runs one of the programs below with these variables.
fn run(program: &str, variables: &[(&str, &str)]) -> Output {
    let own = std::env::current_exe().expect("this test is a file");
    let mut command = Command::new(own);
    command.args(["--ignored", "--exact", program, "--nocapture"]);
    for name in ["LLAISYS_CPU_STRICT", "LLAISYS_CPU_SCHEDULE_SEED", "LLAISYS_CPU_THREADS"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().expect("it can be run")
}

fn with_seed(program: &str, seed: u32) -> bool {
    run(program, &[("LLAISYS_CPU_SCHEDULE_SEED", &seed.to_string())]).status.success()
}

fn cpu() -> &'static Cpu {
    Box::leak(Box::new(Cpu::new()))
}

/// One stream fills, another copies what it filled to the host. With the wait between them it is right.
fn produce_and_consume(waits: bool) -> bool {
    let cpu = cpu();
    let (producer, consumer) =
        (cpu.create_stream(0).expect("a stream"), cpu.create_stream(0).expect("a stream"));
    let memory = cpu.malloc_device(0, SIZE).expect("memory");
    let result = cpu.malloc_host(0, SIZE).expect("memory");
    let filled = cpu.create_event(0, EventFlags::NONE).expect("an event");
    let pattern = Pattern::new(&[7]).expect("a pattern");
    // SAFETY: all handles are live, and the memory is until the streams have passed.
    unsafe {
        cpu.memset_async(0, memory, pattern, SIZE, producer).expect("queued");
        if waits {
            cpu.record_event(0, filled, producer).expect("recorded");
            cpu.stream_wait_event(0, consumer, filled).expect("queued");
        }
        let (kind, flags) = (MemcpyKind::D2H, CopyFlags::NONE);
        cpu.memcpy_async(0, result, memory, SIZE, kind, consumer, flags).expect("queued");
        cpu.stream_synchronize(0, consumer).expect("synchronized");
        *result.cast::<u8>() == 7
    }
}

#[test]
#[ignore = "a program that the tests below run"]
fn without_the_wait() {
    assert!(produce_and_consume(false), "the copy came before the fill");
}

#[test]
#[ignore = "a program that the tests below run"]
fn with_the_wait() {
    assert!(produce_and_consume(true), "the copy came before the fill");
}

#[test]
#[ignore = "a program that the tests below run"]
fn on_the_host() {
    let cpu = cpu();
    let memory = cpu.malloc_device(0, SIZE).expect("memory");
    let pattern = Pattern::new(&[7]).expect("a pattern");
    // SAFETY: the memory is live; that the host must not read it is what is shown.
    unsafe {
        cpu.memset_async(0, memory, pattern, SIZE, Stream::DEFAULT).expect("queued");
        assert_eq!(memory.cast::<u8>().add(16).read_volatile(), 7);
    }
}

#[test]
#[ignore = "a program that the tests below run"]
fn in_strict_mode() {
    let cpu = cpu();
    assert!(!cpu.capabilities().contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY));
    let memory = cpu.malloc_device(0, 1000).expect("memory");
    let host = cpu.malloc_host(0, SIZE).expect("memory");
    let copy = |dst: *mut c_void, src: *const c_void, size| {
        let (kind, flags) = (MemcpyKind::Inferred, CopyFlags::NONE);
        // SAFETY: `host` is large enough; what is wrong about `memory` is refused.
        unsafe { cpu.memcpy_sync(0, dst, src, size, kind, flags) }
    };
    let refused = |result: llaisys_runtime_core::Result<()>, why: &str| {
        let error = result.expect_err("must fail");
        assert!(error.status() == Status::InvalidValue && error.message().contains(why), "{error}");
    };
    copy(memory, host, 1000).expect("copied");
    copy(host, memory, 1000).expect("copied");
    copy(host, memory.wrapping_byte_add(999), 1).expect("copied");
    refused(copy(memory, host, 1001), "a block of 1000 bytes");
    refused(copy(host, memory.wrapping_byte_add(999), 2), "not inside it");
    refused(copy(host, memory.wrapping_byte_sub(1), 1), "offset -1");
    refused(copy(host, memory.wrapping_byte_add(1000), 1), "not inside it");
    // SAFETY: freed once.
    unsafe { cpu.free_device(0, memory) }.expect("freed");
    refused(copy(host, memory, 1), "was freed");
    // The address is not used again soon.
    for _ in 0..1_000 {
        let other = cpu.malloc_device(0, 1000).expect("memory");
        assert_ne!(other, memory);
        // SAFETY: freed once.
        unsafe { cpu.free_device(0, other) }.expect("freed");
    }
    refused(copy(host, memory, 1), "was freed");
}

#[test]
fn a_missing_wait_passes_by_luck_and_seeds_catch_it() {
    assert!(run("without_the_wait", &[]).status.success(), "it is right by luck");
    let first: Vec<bool> = (1..=8).map(|seed| with_seed("without_the_wait", seed)).collect();
    let second: Vec<bool> = (1..=8).map(|seed| with_seed("without_the_wait", seed)).collect();
    assert_eq!(first, second, "a seed gives the same order again");
    assert!(first.contains(&false), "no seed has caught it");
    assert!(first.contains(&true), "every order that is legal comes, also this one");
}

#[test]
fn with_the_wait_no_seed_finds_anything() {
    assert!((1..=8).all(|seed| with_seed("with_the_wait", seed)));
}

#[test]
fn a_host_that_touches_device_memory_passes_by_luck_and_strict_mode_names_the_block() {
    assert!(run("on_the_host", &[]).status.success(), "it is right by luck");
    let output = run("on_the_host", &[("LLAISYS_CPU_STRICT", "1")]);
    let said = String::from_utf8_lossy(&output.stderr);
    // The action that was there before ours: of Rust's own handler, to end by the same signal.
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
    assert!(said.contains("the host touched device memory"), "{said}");
    assert!(said.contains("offset 16 of a block of 4096 bytes"), "{said}");
}

#[test]
fn strict_mode_refuses_what_leaves_its_block_and_what_was_freed() {
    let output = run("in_strict_mode", &[("LLAISYS_CPU_STRICT", "1")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
