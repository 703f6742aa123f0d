//! Every mutant: where it is, what is wrong with it, and a case that is there to kill it.

/// A plugin with one fault, and a case that must kill it.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Which file of `examples/` it is in.
    pub example: &'static str,
    /// Its name, as `LLAISYS_MUTANT` takes it.
    pub name: &'static str,
    /// What is wrong.
    pub fault: &'static str,
    /// A part of the name of the case that is there for it.
    pub killer: &'static str,
}

const fn of_the_backend(name: &'static str, fault: &'static str, killer: &'static str) -> Mutant {
    Mutant { example: "mutant", name, fault, killer }
}

const fn of_the_table(name: &'static str, fault: &'static str, killer: &'static str) -> Mutant {
    Mutant { example: "raw_mutant", name, fault, killer }
}

/// Every mutant; one that two cases are there for is listed twice.
pub const MUTANTS: &[Mutant] = &[
    of_the_backend(
        "count_changes",
        "every second count is one more",
        "the_count_is_the_same_again_and_again",
    ),
    of_the_backend(
        "memory_of_two_sizes",
        "the properties tell half of the memory",
        "memory_information_agrees_with_the_properties",
    ),
    of_the_backend(
        "too_large_is_an_invalid_value",
        "too much memory is INVALID_VALUE instead of OUT_OF_MEMORY",
        "after_out_of_memory_a_smaller_request_works",
    ),
    of_the_backend(
        "too_large_is_an_abort",
        "asking for too much memory ends the process",
        "after_out_of_memory_a_smaller_request_works",
    ),
    of_the_backend(
        "aligned_to_64_only",
        "device memory is aligned to 64 bytes",
        "every_size_is_aligned",
    ),
    of_the_backend(
        "never_frees",
        "freed device memory is never used again",
        "a_million_small_allocations",
    ),
    of_the_backend(
        "hands_out_at_once",
        "freed memory is handed out while queued work uses it",
        "device_memory_is_not_handed_out_while_a_queued_copy_reads_it",
    ),
    of_the_backend(
        "hands_out_at_once",
        "freed memory is handed out while queued work uses it",
        "an_overwritten_successor_does_not_disturb_a_queued_copy",
    ),
    of_the_backend(
        "freeing_waits",
        "a free waits for the device",
        "a_free_does_not_wait_for_a_held_stream",
    ),
    of_the_backend(
        "freeing_pinned_memory_waits",
        "a free of pinned memory waits for the device",
        "a_free_does_not_wait_for_a_held_stream",
    ),
    of_the_backend(
        "memcpy_sync_follows_nothing",
        "memcpy_sync is not ordered after queued work",
        "a_synchronous_copy_follows_earlier_work_on_a_stream",
    ),
    of_the_backend(
        "memcpy_sync_returns_early",
        "memcpy_sync returns before the data is there",
        "a_synchronous_copy_does_not_return_before_it_is_done",
    ),
    of_the_backend(
        "memcpy_sync_loses_the_last_byte",
        "memcpy_sync copies one byte too few",
        "any_offset_and_any_size_copies_exactly_the_range",
    ),
    of_the_backend(
        "memcpy_async_loses_the_last_byte",
        "memcpy_async copies one byte too few",
        "any_offset_and_any_size_copies_exactly_the_range",
    ),
    of_the_backend(
        "copies_do_not_wait_for_their_turn",
        "memcpy_async copies at once",
        "into_pinned_memory_the_copy_is_asynchronous",
    ),
    of_the_backend(
        "pageable_sources_are_read_late",
        "a pageable source is read after the call",
        "a_local_vector_may_go_though_the_stream_is_held",
    ),
    of_the_backend(
        "pageable_destinations_are_written_late",
        "the call does not wait for a pageable destination",
        "into_pageable_memory_the_copy_waits_for_a_held",
    ),
    of_the_backend(
        "promises_are_waited_for",
        "a promised buffer is waited for",
        "a_promised_buffer_is_not_waited_for",
    ),
    of_the_backend(
        "idle_streams_are_no_exception",
        "on an idle stream the twelve do not copy at once",
        "on_an_idle_stream_the_twelve_copy_at_once",
    ),
    of_the_backend(
        "all_copies_are_in_one_stream",
        "every copy goes to one stream",
        "between_device_blocks_the_copy_is_asynchronous",
    ),
    of_the_backend(
        "the_default_stream_is_one_like_others",
        "the default stream is ordered with no other",
        "the_default_stream_waits_for_blocking_streams",
    ),
    of_the_backend(
        "every_stream_is_the_same",
        "create_stream gives one stream to all",
        "create_stream_is_never_null_and_never_the_same",
    ),
    of_the_backend(
        "stream_synchronize_returns_at_once",
        "stream_synchronize does not wait",
        "stream_synchronize_waits_for_the_stream",
    ),
    of_the_backend(
        "stream_synchronize_waits_for_the_device",
        "stream_synchronize waits for every stream",
        "two_streams_do_not_wait_for_each_other",
    ),
    of_the_backend(
        "device_synchronize_returns_at_once",
        "device_synchronize does not wait",
        "device_synchronize_waits_for_every_stream",
    ),
    of_the_backend(
        "destroying_waits",
        "destroy_stream waits for the stream",
        "destroying_a_busy_stream_returns_at_once_and_its_work_completes",
    ),
    of_the_backend(
        "always_ready",
        "stream_query always says ready",
        "a_query_says_ready_and_not_ready_without_waiting",
    ),
    of_the_backend(
        "never_ready",
        "stream_query never says ready",
        "a_query_of_an_idle_stream_is_ready",
    ),
    of_the_backend(
        "querying_waits",
        "stream_query waits",
        "a_query_says_ready_and_not_ready_without_waiting",
    ),
    of_the_backend(
        "functions_run_in_the_caller",
        "a host function runs inside the launch",
        "two_streams_do_not_wait_for_each_other",
    ),
    of_the_backend(
        "functions_run_in_any_order",
        "host functions run in threads of their own",
        "each_runs_once_in_the_order_of_its_stream",
    ),
    of_the_backend(
        "functions_are_forgotten_now_and_then",
        "every seventh host function never runs",
        "each_runs_once_in_the_order_of_its_stream",
    ),
    of_the_backend(
        "the_capability_to_query_is_a_lie",
        "stream_query is claimed and NOT_SUPPORTED",
        "a_query_of_an_idle_stream_is_ready",
    ),
    of_the_backend(
        "events_are_reached_at_once",
        "event_query always says reached",
        "an_event_is_reached_when_its_stream_is_and_not_before",
    ),
    of_the_backend(
        "records_are_elsewhere",
        "events are recorded in another stream",
        "an_event_is_reached_when_its_stream_is_and_not_before",
    ),
    of_the_backend(
        "event_synchronize_returns_at_once",
        "event_synchronize does not wait",
        "the_host_waits_for_an_event",
    ),
    of_the_backend(
        "waits_are_ignored",
        "stream_wait_event does nothing",
        "a_wait_holds_what_comes_later_and_lets_go",
    ),
    of_the_backend(
        "waits_are_ignored",
        "stream_wait_event does nothing",
        "events_order_a_chain_through_many_streams",
    ),
    of_the_backend(
        "a_pending_event_is_waited_for",
        "destroy_event waits for the event",
        "a_pending_event_may_be_destroyed",
    ),
    of_the_backend(
        "times_are_stale",
        "event_elapsed repeats its first answer",
        "a_time_is_never_stale",
    ),
    of_the_backend(
        "times_have_no_sign",
        "event_elapsed is never negative",
        "an_end_before_its_start_is_negative",
    ),
    of_the_backend(
        "all_streams_are_blocking",
        "non-blocking streams are blocking ones",
        "a_non_blocking_stream_does_not_wait_for_the_default_one",
    ),
    of_the_backend(
        "priorities_are_not_clamped",
        "a priority out of range is refused",
        "a_priority_outside_of_the_range_is_clamped",
    ),
    of_the_backend(
        "frees_in_a_stream_are_at_once",
        "free_async does not wait for its turn",
        "a_free_in_a_held_stream_is_not_handed_out_to_another",
    ),
    of_the_backend(
        "frees_in_a_stream_wait",
        "free_async waits for the stream",
        "a_free_in_a_stream_does_not_wait",
    ),
    of_the_backend(
        "fills_lose_the_last_pattern",
        "a fill is one pattern short",
        "every_pattern_fills_exactly_its_range",
    ),
    of_the_backend(
        "fills_know_their_first_byte_only",
        "a fill repeats the first byte of its pattern",
        "an_enqueued_fill_fills_exactly_its_range",
    ),
    of_the_backend(
        "fills_are_elsewhere",
        "fills are done in another stream",
        "a_fill_does_not_wait_and_reads_its_pattern_at_once",
    ),
    of_the_backend(
        "pitches_are_ignored",
        "the pitch of the destination is ignored",
        "rows_are_copied_and_what_is_between_them_is_not",
    ),
    of_the_backend(
        "slice_heights_are_ignored",
        "the slice height of the source is ignored",
        "slices_are_copied_and_what_is_between_them_is_not",
    ),
    of_the_backend(
        "batches_lose_their_last_range",
        "a batch is one range short",
        "every_range_of_a_batch_is_copied_exactly",
    ),
    of_the_backend(
        "the_capability_of_events_is_a_lie",
        "events are claimed and NOT_SUPPORTED",
        "every_operation_is_there_as_it_says",
    ),
    of_the_backend(
        "trimming_is_not_there_after_all",
        "trim_memory is claimed and NOT_SUPPORTED",
        "every_operation_is_there_as_it_says",
    ),
    of_the_table(
        "asking_starts_a_thread",
        "the query starts a thread",
        "opening_and_asking_starts_no_thread",
    ),
    of_the_table(
        "asking_opens_a_file",
        "the query opens a file",
        "opening_and_asking_opens_no_file",
    ),
    of_the_table(
        "a_new_descriptor_each_time",
        "each query returns another descriptor",
        "the_query_answers_the_same_again_and_from_every_thread",
    ),
    of_the_table(
        "newer_hosts_are_refused",
        "a host with a newer minor version is refused",
        "a_newer_host_of_the_same_major_is_served",
    ),
    of_the_table(
        "older_than_itself",
        "oldest_host_minor is above the plugin's own minor version",
        "the_descriptors_numbers_have_a_meaning",
    ),
    of_the_table(
        "a_device_type_out_of_range",
        "the device type is no number of the range",
        "the_descriptors_numbers_have_a_meaning",
    ),
    of_the_table(
        "a_name_in_capitals",
        "the name is in capitals, with a blank",
        "the_descriptor_says_who_it_is",
    ),
    of_the_table("no_version", "the version is empty", "the_descriptor_says_who_it_is"),
    of_the_table(
        "the_table_changes_by_use",
        "the plugin writes into its table",
        "using_the_plugin_changes_neither_descriptor_nor_table",
    ),
    of_the_table(
        "the_exit_crashes",
        "an atexit handler aborts",
        "the_process_ends_well_with_everything_alive",
    ),
    of_the_table(
        "the_table_says_too_much",
        "the table's struct_size is larger than the table",
        "the_table_is_as_long_as_it_says",
    ),
    of_the_table(
        "the_table_ends_in_an_entry",
        "the table ends in the middle of an entry",
        "the_table_is_as_long_as_it_says",
    ),
    of_the_table(
        "the_table_is_of_another_minor",
        "table and descriptor tell two minor versions",
        "the_tables_head_is_of_this_abi",
    ),
    of_the_table("a_required_entry_is_null", "memcpy_sync is NULL", "no_required_entry_is_null"),
    of_the_table(
        "a_group_has_a_hole",
        "events are claimed and record_event is NULL",
        "a_claimed_capability_has_its_whole_group",
    ),
    of_the_table(
        "claimed_and_not_there",
        "fills are claimed and NOT_SUPPORTED",
        "a_claimed_operation_does_not_answer_that_it_is_missing",
    ),
    of_the_table(
        "done_and_not_claimed",
        "fills are done and not claimed",
        "an_operation_that_is_not_claimed_is_null_or_answers_so",
    ),
    of_the_table(
        "the_count_grows",
        "each count is one more",
        "the_count_is_the_same_again_and_from_every_thread",
    ),
    of_the_table(
        "initialize_answers_something_else",
        "initialize answers one device more",
        "initializing_answers_the_count_and_again",
    ),
    of_the_table(
        "only_one_thread_may_bind",
        "set_device works in the first thread only",
        "every_device_can_be_bound_to_every_thread",
    ),
    of_the_table(
        "a_failure_writes_its_output",
        "a failing malloc_device writes NULL",
        "device_memory_that_is_not_to_be_had_writes_nothing",
    ),
    of_the_table(
        "a_failure_of_pinned_memory_writes_its_output",
        "a failing malloc_host writes NULL",
        "pinned_memory_that_is_not_to_be_had_writes_nothing",
    ),
    of_the_table(
        "an_output_is_not_written",
        "malloc_host succeeds and writes nothing",
        "every_output_is_written_on_success",
    ),
    of_the_table(
        "structs_are_written_whole",
        "the caller's struct_size is ignored",
        "device_properties_are_written_up_to_the_callers_size",
    ),
    of_the_table(
        "what_is_not_known_is_zeroed",
        "the tail of a newer host's struct is cleared",
        "a_struct_from_a_newer_host_keeps_its_tail",
    ),
    of_the_table(
        "a_name_without_an_end",
        "the device's name has no NUL",
        "what_a_device_is_can_be_read",
    ),
    of_the_table(
        "yes_is_minus_one",
        "stream_query writes -1 for yes",
        "a_query_writes_a_yes_or_a_no",
    ),
    of_the_table(
        "failures_are_shared",
        "the slot is one for all threads",
        "a_failure_is_its_threads_own",
    ),
    of_the_table(
        "a_failure_is_kept_when_it_is_read",
        "reading the slot does not clear it",
        "reading_the_slot_clears_it",
    ),
    of_the_table(
        "a_failure_without_a_text",
        "a failure leaves nothing in the slot",
        "a_failure_leaves_its_status_and_a_text",
    ),
    of_the_table(
        "a_success_leaves_a_failure",
        "a successful malloc_device leaves a failure",
        "a_success_leaves_no_failure",
    ),
    of_the_table(
        "a_text_longer_than_its_buffer",
        "the capacity of the message is ignored",
        "a_text_is_cut_to_the_buffer_and_has_an_end",
    ),
    of_the_table(
        "a_text_without_an_end",
        "the message has no NUL",
        "a_text_is_cut_to_the_buffer_and_has_an_end",
    ),
    of_the_table(
        "a_status_that_is_none",
        "a failure returns 4711",
        "a_failure_is_one_of_the_statuses",
    ),
    of_the_table(
        "every_failure_is_internal",
        "out of memory is INTERNAL",
        "a_failure_is_one_of_the_statuses",
    ),
    of_the_table(
        "a_panic_gets_out",
        "malloc_device panics and nothing stops it",
        "device_memory_that_is_not_to_be_had_writes_nothing",
    ),
    of_the_table(
        "an_exit_on_out_of_memory",
        "malloc_device calls exit(0)",
        "device_memory_that_is_not_to_be_had_writes_nothing",
    ),
    of_the_table(
        "full_once_is_full_for_ever",
        "after out of memory every allocation fails",
        "after_out_of_memory_the_plugin_goes_on",
    ),
    of_the_table(
        "device_memory_is_kept",
        "free_device does nothing (LEAK)",
        "every_device_works_whichever_is_bound",
    ),
    of_the_table(
        "a_stream_keeps_a_file_open",
        "each stream leaves a file open (LEAK)",
        "every_stream_is_another_one_and_none_is_null",
    ),
    of_the_table(
        "a_stream_keeps_threads",
        "each stream leaves eight threads (LEAK)",
        "every_stream_is_another_one_and_none_is_null",
    ),
    of_the_table(
        "the_stride_is_ignored",
        "the stride of a batch is ignored",
        "a_batch_copies_every_range_and_reads_the_stride",
    ),
];
