//! The NVIDIA plugin conforms over the driver on host memory, also over drivers that lack something.
//! With fewer repetitions and without the long cases: `scripts/test` runs all of it on the release library.

mod support;

use std::path::PathBuf;
use std::process::Command;

/// The library, and the driver.
fn files() -> (PathBuf, PathBuf) {
    let folder = support::artifacts();
    support::file(&folder, "libllaisys_backend_nvidia.so", "llaisys-backend-nvidia");
    let library = support::file(&folder, "libllaisys_runtime.so", "llaisys-capi");
    (library, support::file(&folder, "libcuda.so", "llaisys-fake-cuda"))
}

fn suite() -> Command {
    let (library, driver) = files();
    let mut suite = support::suite(&library, "nvidia");
    suite.env("LLAISYS_CUDA_DRIVER", driver).env("FAKE_CUDA_DEVICES", "2").arg("--quick");
    suite
}

#[test]
fn over_a_driver_that_has_everything() {
    let (_, driver) = files();
    let mut suite = suite();
    suite.env("LLAISYS_CONFORMANCE_FAKE_CUDA", driver);
    let report = support::assert_conforms(suite, 200);
    assert_eq!(report["devices"], 2);
    let driver_cases = report["cases"].as_array().expect("a report has cases").iter();
    let passed = driver_cases
        .filter(|case| case["area"] == "nvidia_driver" && case["outcome"] == "PASS")
        .count();
    assert!(passed >= 15, "{passed} cases about the driver passed");
}

/// The areas in which the driver makes a difference.
fn on_the_device(mut suite: Command) -> Command {
    let areas =
        ["devices/", "memory/", "copies/", "streams/", "events/", "host_functions/", "slots/"];
    for area in areas.into_iter().chain(["accounting/", "capabilities/", "concurrency/"]) {
        suite.args(["--filter", area]);
    }
    suite
}

/// Every block is the plugin's own, and none is of a pool of the core.
#[test]
fn straight_from_the_plugin() {
    let (_, driver) = files();
    let mut suite = suite();
    suite.env("LLAISYS_ALLOCATOR", "plain").env("LLAISYS_CONFORMANCE_FAKE_CUDA", driver);
    for area in ["memory/", "accounting/", "streams/", "concurrency/", "nvidia_driver/"] {
        suite.args(["--filter", area]);
    }
    support::assert_conforms(suite, 60);
}

#[test]
fn without_pools_and_without_peers() {
    let mut suite = on_the_device(suite());
    suite.env("FAKE_CUDA_NO_MEMPOOLS", "1").env("FAKE_CUDA_NO_PEER", "1");
    support::assert_conforms(suite, 100);
}

#[test]
fn with_pools_and_without_peers() {
    // Then another device's memory is out of a plain copy's reach, and a detour is made.
    let mut suite = suite();
    suite.args(["--filter", "devices/", "--filter", "copies/", "--filter", "streams/"]);
    suite.env("FAKE_CUDA_NO_PEER", "1");
    support::assert_conforms(suite, 60);
}

#[test]
fn when_destroyed_handles_come_back_at_once() {
    let mut suite = on_the_device(suite());
    suite.env("FAKE_CUDA_REUSE_HANDLES", "1").env("FAKE_CUDA_ABORT_ON_MISUSE", "1");
    support::assert_conforms(suite, 100);
}

#[test]
fn when_the_device_is_slow_and_its_queue_short() {
    let mut suite = suite();
    suite.args(["--filter", "copies/", "--filter", "memory/", "--filter", "streams/"]);
    suite.env("FAKE_CUDA_LATENCY_US", "200").env("FAKE_CUDA_QUEUE_DEPTH", "4096");
    support::assert_conforms(suite, 60);
}

#[test]
fn when_several_threads_copy_all_pageable_memory() {
    // Also small copies are taken apart, so that every case that copies is one of the staging engine.
    let (_, driver) = files();
    let mut suite = on_the_device(suite());
    suite.args(["--filter", "life/", "--filter", "errors/"]);
    suite.env("LLAISYS_STAGING", "force").env("LLAISYS_CONFORMANCE_FAKE_CUDA", driver);
    suite.env("FAKE_CUDA_REUSE_HANDLES", "1");
    support::assert_conforms(suite, 150);
}

#[test]
fn when_streams_share_the_few_queues_that_a_device_has() {
    // Behind a held copy of one stream those of others are held too: the threads that copy must not need many.
    let mut suite = suite();
    suite.args(["--filter", "large_cop"]).env("FAKE_CUDA_COPY_QUEUES", "8");
    suite.env("LLAISYS_STAGING", "force,threads=12");
    support::assert_conforms(suite, 5);
}
