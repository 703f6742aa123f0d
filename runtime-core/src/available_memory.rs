//! How much memory can be used right now, so that a request is weighed before it is made: an absurd one is
//! to be an error and never a visit of the out-of-memory killer.

use crate::cgroup;
use std::fs;
use std::path::Path;

/// What can be used right now without swapping; all there is where the system does not say.
pub fn available_memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let group = cgroup::memory_available(Path::new("/"));
    machine.unwrap_or(u64::MAX).min(group.unwrap_or(u64::MAX))
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_kibibytes() {
        let text = "MemTotal:       2048 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(meminfo(text), Some(1 << 20));
        assert_eq!(meminfo("MemTotal: 2048 kB\n"), None);
    }
}
