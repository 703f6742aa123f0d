//! Every case, one file for each area or for a noun of one.

use crate::case::Case;
use crate::program::Program;
use crate::raw;

mod accounting;
mod async_copies;
mod batched_copies;
mod capabilities;
mod concurrency;
mod copies;
mod default_stream;
mod device_pairs;
mod devices;
mod elapsed;
mod errors;
mod events;
mod exit;
mod fills;
mod fork;
mod free;
mod host_functions;
mod limits;
mod managed_memory;
mod memory;
mod nvidia_driver;
mod nvidia_failures;
mod nvidia_start;
mod out_of_memory;
mod pitched_copies;
mod plugin_abi;
mod plugin_failures;
mod plugin_files;
mod plugin_search;
mod pointers_and_links;
mod properties;
mod registered_memory;
mod signals;
mod slots;
mod stream_kinds;
mod stream_memory;
mod streams;

/// Every case, area by area.
pub fn all() -> Vec<Case> {
    let lists: [&[Case]; 37] = [
        devices::CASES,
        properties::CASES,
        device_pairs::CASES,
        pointers_and_links::CASES,
        errors::CASES,
        out_of_memory::CASES,
        memory::CASES,
        free::CASES,
        limits::CASES,
        stream_memory::CASES,
        managed_memory::CASES,
        registered_memory::CASES,
        copies::CASES,
        async_copies::CASES,
        fills::CASES,
        pitched_copies::CASES,
        batched_copies::CASES,
        streams::CASES,
        default_stream::CASES,
        stream_kinds::CASES,
        events::CASES,
        elapsed::CASES,
        host_functions::CASES,
        slots::CASES,
        accounting::CASES,
        capabilities::CASES,
        concurrency::CASES,
        exit::CASES,
        fork::CASES,
        signals::CASES,
        plugin_files::CASES,
        plugin_search::CASES,
        plugin_abi::CASES,
        plugin_failures::CASES,
        nvidia_start::CASES,
        nvidia_driver::CASES,
        nvidia_failures::CASES,
    ];
    lists.into_iter().chain(raw::CASES).flatten().copied().collect()
}

/// Every program that a case runs in a process of its own.
pub fn programs() -> Vec<Program> {
    let lists: [&[Program]; 15] = [
        devices::PROGRAMS,
        out_of_memory::PROGRAMS,
        streams::PROGRAMS,
        slots::PROGRAMS,
        capabilities::PROGRAMS,
        concurrency::PROGRAMS,
        exit::PROGRAMS,
        fork::PROGRAMS,
        signals::PROGRAMS,
        plugin_files::PROGRAMS,
        plugin_abi::PROGRAMS,
        plugin_failures::PROGRAMS,
        nvidia_driver::PROGRAMS,
        nvidia_failures::PROGRAMS,
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
            let (letter, number) = case.clause.split_at(1);
            assert!("DEMCSVHLP".contains(letter), "{}: clause {}", case.name, case.clause);
            assert!(number.parse::<u32>().is_ok(), "{}: clause {}", case.name, case.clause);
        }
        let mut names = HashSet::new();
        for program in programs() {
            assert!(names.insert(program.name), "two programs are called {}", program.name);
        }
    }
}
