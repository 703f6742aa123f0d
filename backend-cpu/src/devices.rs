//! What the devices are, for people and schedulers.
//!
//! Rule: reading it starts nothing, and what cannot be read is left empty.

use crate::processor;
use llaisys_runtime_core::api::{Capabilities, LlaisysDeviceProperties, Ordinal, write_text};
use std::path::Path;
use std::thread;

/// What a device is, given its number, the number of all devices, their memory, a remark, and what it
/// is able to do.
pub fn properties(
    ordinal: Ordinal,
    count: i32,
    total_memory: u64,
    remark: &str,
    capabilities: Capabilities,
) -> LlaisysDeviceProperties {
    let processor = processor::information();
    let mut properties = LlaisysDeviceProperties::new();
    // The affinity mask of the process, and the processor quota of its control group.
    properties.processor_count =
        thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    properties.total_memory = total_memory;
    write_text(&mut properties.name, &name(&processor, ordinal, count, remark));
    let vendor = processor::entry(&processor, "vendor_id").unwrap_or("CPU");
    write_text(&mut properties.vendor, vendor);
    properties.l2_cache_size = processor::last_level_cache(Path::new("/"));
    properties.clock_rate = processor::clock_rate(Path::new("/"), &processor);
    properties.integrated = 1;
    properties.capabilities = capabilities.0;
    write_text(&mut properties.cpu_features, &processor::features());
    properties
}

fn name(processor: &str, ordinal: Ordinal, count: i32, remark: &str) -> String {
    let mut name = match processor::entry(processor, "model name") {
        Some(model) => model.to_owned(),
        None => format!("{} CPU", std::env::consts::ARCH),
    };
    if count > 1 {
        name.push_str(&format!(" (virtual device {ordinal} of {count})"));
    }
    if !remark.is_empty() {
        name.push_str(&format!(" [{remark}]"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_which_virtual_device_it_is_and_what_was_not_used() {
        let processor = "processor\t: 0\nvendor_id\t: ACME\nmodel name\t: Abacus 9\n";
        assert_eq!(name(processor, 0, 1, ""), "Abacus 9");
        assert_eq!(name(processor, 1, 4, ""), "Abacus 9 (virtual device 1 of 4)");
        assert_eq!(name(processor, 0, 1, "X=0 not used"), "Abacus 9 [X=0 not used]");
        assert!(name("", 0, 1, "").ends_with(" CPU"));
    }
}
