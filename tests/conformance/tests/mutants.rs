//! The suite is tested by backends that are each wrong in one way (`examples/mutant.rs`): every one is
//! killed, and by the case that is there for it.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each mutant with a case that kills it.
const MUTANTS: [(&str, &str); 29] = [
    ("count_changes", "the_count_is_the_same_again_and_again"),
    ("memory_of_two_sizes", "memory_information_agrees_with_the_properties"),
    ("too_large_is_an_invalid_value", "after_out_of_memory_a_smaller_request_works"),
    ("too_large_is_an_abort", "after_out_of_memory_a_smaller_request_works"),
    ("aligned_to_64_only", "every_size_is_aligned"),
    ("never_frees", "a_million_small_allocations"),
    ("hands_out_at_once", "device_memory_is_not_handed_out_while_a_queued_copy_reads_it"),
    ("hands_out_at_once", "an_overwritten_successor_does_not_disturb_a_queued_copy"),
    ("freeing_waits", "a_free_does_not_wait_for_a_held_stream"),
    ("freeing_pinned_memory_waits", "a_free_does_not_wait_for_a_held_stream"),
    ("memcpy_sync_follows_nothing", "a_synchronous_copy_follows_earlier_work_on_a_stream"),
    ("memcpy_sync_returns_early", "a_synchronous_copy_does_not_return_before_it_is_done"),
    ("memcpy_sync_loses_the_last_byte", "any_offset_and_any_size_copies_exactly_the_range"),
    ("memcpy_async_loses_the_last_byte", "any_offset_and_any_size_copies_exactly_the_range"),
    ("copies_do_not_wait_for_their_turn", "into_pinned_memory_the_copy_is_asynchronous"),
    ("pageable_sources_are_read_late", "a_local_vector_may_go_though_the_stream_is_held"),
    ("pageable_destinations_are_written_late", "into_pageable_memory_the_copy_waits_for_a_held"),
    ("promises_are_waited_for", "a_promised_buffer_is_not_waited_for"),
    ("idle_streams_are_no_exception", "on_an_idle_stream_the_twelve_copy_at_once"),
    ("all_copies_are_in_one_stream", "between_device_blocks_the_copy_is_asynchronous"),
    ("the_default_stream_is_one_like_others", "the_default_stream_waits_for_blocking_streams"),
    ("every_stream_is_the_same", "create_stream_is_never_null_and_never_the_same"),
    ("stream_synchronize_returns_at_once", "stream_synchronize_waits_for_the_stream"),
    ("stream_synchronize_waits_for_the_device", "two_streams_do_not_wait_for_each_other"),
    ("device_synchronize_returns_at_once", "device_synchronize_waits_for_every_stream"),
    ("destroying_waits", "destroying_a_busy_stream_returns_at_once_and_its_work_completes"),
    ("always_ready", "a_query_says_ready_and_not_ready_without_waiting"),
    ("never_ready", "a_query_of_an_idle_stream_is_ready"),
    ("querying_waits", "a_query_says_ready_and_not_ready_without_waiting"),
];

/// Mutants of host functions, on which the gates themselves stand.
const OF_FUNCTIONS: [(&str, &str); 4] = [
    ("functions_run_in_the_caller", "two_streams_do_not_wait_for_each_other"),
    ("functions_run_in_any_order", "each_runs_once_in_the_order_of_its_stream"),
    ("functions_are_forgotten_now_and_then", "each_runs_once_in_the_order_of_its_stream"),
    ("the_capability_to_query_is_a_lie", "a_query_of_an_idle_stream_is_ready"),
];

/// Mutants of the operations beyond the twelve.
const OF_THE_REST: [(&str, &str); 20] = [
    ("events_are_reached_at_once", "an_event_is_reached_when_its_stream_is_and_not_before"),
    ("records_are_elsewhere", "an_event_is_reached_when_its_stream_is_and_not_before"),
    ("event_synchronize_returns_at_once", "the_host_waits_for_an_event"),
    ("waits_are_ignored", "a_wait_holds_what_comes_later_and_lets_go"),
    ("waits_are_ignored", "events_order_a_chain_through_many_streams"),
    ("a_pending_event_is_waited_for", "a_pending_event_may_be_destroyed"),
    ("times_are_stale", "a_time_is_never_stale"),
    ("times_have_no_sign", "an_end_before_its_start_is_negative"),
    ("all_streams_are_blocking", "a_non_blocking_stream_does_not_wait_for_the_default_one"),
    ("priorities_are_not_clamped", "a_priority_outside_of_the_range_is_clamped"),
    ("frees_in_a_stream_are_at_once", "a_free_in_a_held_stream_is_not_handed_out_to_another"),
    ("frees_in_a_stream_wait", "a_free_in_a_stream_does_not_wait"),
    ("fills_lose_the_last_pattern", "every_pattern_fills_exactly_its_range"),
    ("fills_know_their_first_byte_only", "an_enqueued_fill_fills_exactly_its_range"),
    ("fills_are_elsewhere", "a_fill_keeps_its_place_in_the_stream"),
    ("pitches_are_ignored", "rows_are_copied_and_what_is_between_them_is_not"),
    ("slice_heights_are_ignored", "slices_are_copied_and_what_is_between_them_is_not"),
    ("batches_lose_their_last_range", "every_range_of_a_batch_is_copied_exactly"),
    ("the_capability_of_events_is_a_lie", "every_operation_is_there_as_it_says"),
    ("trimming_is_not_there_after_all", "every_operation_is_there_as_it_says"),
];

/// The library, and the plugin with faults.
fn files() -> (PathBuf, PathBuf) {
    let folder = support::artifacts(&["--package", "llaisys-capi"]);
    let library = support::file(&folder, "libllaisys_runtime.so", "llaisys-capi");
    let build = ["--package", "llaisys-conformance", "--example", "mutant"];
    let examples = support::artifacts(&build).join("examples");
    (library, support::file(&examples, "libmutant.so", "llaisys-conformance --example mutant"))
}

fn suite(library: &Path, plugin: &Path) -> Command {
    let mut suite = support::suite(library, "mutant");
    suite.env("LLAISYS_BACKENDS", plugin);
    suite
}

/// What came of the killer on the mutant: one word a case.
fn outcomes(library: &Path, plugin: &Path, mutant: &str, killer: &str) -> Vec<String> {
    let mut suite = suite(library, plugin);
    suite.env("LLAISYS_MUTANT", mutant).args(["--filter", killer]);
    // A mutant that waits for ever is found by the gate that is closed meanwhile, not by the clock.
    suite.args(["--stall", "0.5"]);
    let (report, _) = support::report(suite);
    let cases = report["cases"].as_array().expect("a report has cases");
    cases.iter().map(|case| case["outcome"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_mutant_is_killed_by_the_case_that_is_there_for_it() {
    let (library, plugin) = files();
    let pairs: Vec<_> = MUTANTS.into_iter().chain(OF_FUNCTIONS).chain(OF_THE_REST).collect();
    let next = AtomicUsize::new(0);
    let alive = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((mutant, killer)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = outcomes(&library, &plugin, mutant, killer);
                    let kills = ["FAIL", "CRASH", "TIMEOUT"];
                    if !found.iter().any(|outcome| kills.contains(&outcome.as_str())) {
                        let survivor = format!("{mutant} ({killer}: {})", found.join(", "));
                        alive.lock().expect("no holder panics").push(survivor);
                    }
                }
            });
        }
    });
    let alive = alive.into_inner().expect("no holder panics");
    assert!(alive.is_empty(), "{} mutants survive: {}", alive.len(), alive.join("; "));
}

#[test]
fn without_a_fault_the_same_plugin_passes() {
    let (library, plugin) = files();
    let mut suite = suite(&library, &plugin);
    for (_, killer) in MUTANTS.into_iter().chain(OF_FUNCTIONS).chain(OF_THE_REST) {
        suite.args(["--filter", killer]);
    }
    support::assert_conforms(suite, 20);
}
