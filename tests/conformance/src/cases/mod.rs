//! Every case, one file for each area or for a noun of one.

use crate::case::Case;
use crate::program::Program;
use crate::raw;

mod accounting;
mod allocator;
mod async_copies;
mod batched_copies;
mod capabilities;
mod concurrency;
mod copies;
mod copies_half_way;
mod default_stream;
mod device_pairs;
mod devices;
mod elapsed;
mod errors;
mod errors_at_exit;
mod events;
mod exit;
mod fills;
mod fork;
mod fork_in_host_function;
mod free;
mod held_streams;
mod host_functions;
mod large_copies;
mod library_folder;
mod limits;
mod managed_memory;
mod memory;
mod nvidia_driver;
mod nvidia_failures;
mod nvidia_recovery;
mod nvidia_staging;
mod nvidia_start;
mod out_of_memory;
mod pitched_copies;
mod plugin_abi;
mod plugin_failures;
mod plugin_files;
mod plugin_refusals;
mod plugin_search;
mod pointers_and_links;
mod properties;
mod registered_memory;
mod signals;
mod slots;
mod stream_kinds;
mod stream_memory;
mod streams;
mod two_backends;

/// Every case, area by area.
pub fn all() -> Vec<Case> {
    let lists: &[&[Case]] = &[
        devices::CASES,
        properties::CASES,
        device_pairs::CASES,
        pointers_and_links::CASES,
        errors::CASES,
        errors_at_exit::CASES,
        out_of_memory::CASES,
        memory::CASES,
        free::CASES,
        allocator::CASES,
        limits::CASES,
        stream_memory::CASES,
        managed_memory::CASES,
        registered_memory::CASES,
        copies::CASES,
        async_copies::CASES,
        large_copies::CASES,
        fills::CASES,
        pitched_copies::CASES,
        batched_copies::CASES,
        two_backends::CASES,
        streams::CASES,
        default_stream::CASES,
        held_streams::CASES,
        stream_kinds::CASES,
        events::CASES,
        elapsed::CASES,
        host_functions::CASES,
        slots::CASES,
        accounting::CASES,
        capabilities::CASES,
        concurrency::CASES,
        copies_half_way::CASES,
        exit::CASES,
        fork::CASES,
        fork_in_host_function::CASES,
        signals::CASES,
        plugin_files::CASES,
        plugin_refusals::CASES,
        plugin_search::CASES,
        library_folder::CASES,
        plugin_abi::CASES,
        plugin_failures::CASES,
        nvidia_start::CASES,
        nvidia_driver::CASES,
        nvidia_failures::CASES,
        nvidia_recovery::CASES,
        nvidia_staging::CASES,
    ];
    lists.iter().copied().chain(raw::CASES).flatten().copied().collect()
}

/// Every program that a case runs in a process of its own.
pub fn programs() -> Vec<Program> {
    let lists: [&[Program]; 21] = [
        devices::PROGRAMS,
        out_of_memory::PROGRAMS,
        streams::PROGRAMS,
        slots::PROGRAMS,
        capabilities::PROGRAMS,
        concurrency::PROGRAMS,
        copies_half_way::PROGRAMS,
        errors_at_exit::PROGRAMS,
        exit::PROGRAMS,
        fork::PROGRAMS,
        fork_in_host_function::PROGRAMS,
        signals::PROGRAMS,
        plugin_files::PROGRAMS,
        library_folder::PROGRAMS,
        plugin_abi::PROGRAMS,
        plugin_failures::PROGRAMS,
        nvidia_driver::PROGRAMS,
        nvidia_failures::PROGRAMS,
        nvidia_recovery::PROGRAMS,
        nvidia_staging::PROGRAMS,
        raw::PROGRAMS,
    ];
    lists.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_every_clause_looks_like_one() {
        let mut names = HashSet::new();
        for case in all() {
            assert!(names.insert(case.name), "two cases are called {}", case.name);
            for clause in case.clause.split(", ") {
                let (letter, number) = clause.split_at(1);
                assert!("DEMCSVHLP".contains(letter), "{}: clause {clause}", case.name);
                assert!(number.parse::<u32>().is_ok(), "{}: clause {clause}", case.name);
            }
        }
        let mut names = HashSet::new();
        for program in programs() {
            assert!(names.insert(program.name), "two programs are called {}", program.name);
        }
    }
}
