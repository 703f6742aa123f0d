//! What the processor is: its name, its caches, its clock, what it can compute with.
//!
//! Rule: what cannot be read is 0 or empty.

use std::fs;
use std::path::Path;

/// The text of `/proc/cpuinfo`.
pub fn information() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// An entry of `/proc/cpuinfo`.
pub fn entry<'a>(information: &'a str, key: &str) -> Option<&'a str> {
    information.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key && !value.trim().is_empty()).then(|| value.trim())
    })
}

/// The size of the last-level cache in bytes. `root` is `/`.
pub fn last_level_cache(root: &Path) -> u64 {
    let Ok(folders) = fs::read_dir(root.join("sys/devices/system/cpu/cpu0/cache")) else {
        return 0;
    };
    let caches = folders.filter_map(|folder| {
        let folder = folder.ok()?.path();
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, bytes(&read("size")?)?))
    });
    // Of one level the larger: instructions and data have a cache each on the first.
    caches.max().map_or(0, |(_, size)| size)
}

/// A size such as `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The top clock in kHz; where the system does not say, the clock of the moment. `root` is `/`.
pub fn clock_rate(root: &Path, information: &str) -> u32 {
    let top = root.join("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    let top = fs::read_to_string(top).ok().and_then(|text| text.trim().parse().ok());
    let now = || entry(information, "cpu MHz")?.parse::<f64>().ok().map(|mhz| (mhz * 1e3) as u32);
    top.or_else(now).unwrap_or(0)
}

macro_rules! detected {
    ($detect:ident: $($feature:tt)+) => {
        [$(($feature, std::arch::$detect!($feature))),+]
    };
}

/// What it can compute with that kernels choose by, in the compiler's words.
pub fn features() -> String {
    #[cfg(target_arch = "x86_64")]
    let features = detected!(is_x86_feature_detected:
        "sse4.2" "avx" "avx2" "fma" "f16c" "bmi2" "gfni" "vaes"
        "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16" "avxvnni");
    #[cfg(target_arch = "aarch64")]
    let features = detected!(is_aarch64_feature_detected:
        "neon" "fp16" "dotprod" "bf16" "i8mm" "sve" "sve2" "aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let features: [(&str, bool); 0] = [];
    let there: Vec<&str> = features.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    there.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const INFORMATION: &str =
        "processor\t: 0\nvendor_id\t: ACME\nmodel name\t: Abacus 9\ncpu MHz\t\t: 2596.124\n";

    #[test]
    fn an_entry_is_found_by_its_whole_name() {
        assert_eq!(entry(INFORMATION, "vendor_id"), Some("ACME"));
        assert_eq!(entry(INFORMATION, "vendor"), None);
        assert_eq!(entry("", "vendor_id"), None);
    }

    #[test]
    fn the_last_level_and_the_top_clock_are_read_and_nothing_is_zero() {
        let folder = format!("llaisys-processor-{}", std::process::id());
        let root: PathBuf = std::env::temp_dir().join(folder);
        let none = (last_level_cache(&root), clock_rate(&root, ""));
        let moment = clock_rate(&root, INFORMATION);
        let files = [
            ("cache/index0/level", "1\n"),
            ("cache/index0/size", "48K\n"),
            ("cache/index2/level", "2\n"),
            ("cache/index2/size", "1024K\n"),
            ("cache/index3/level", "3\n"),
            ("cache/index3/size", "32M\n"),
            ("cache/uevent", "\n"),
            ("cpufreq/cpuinfo_max_freq", "3700000\n"),
        ];
        for (file, text) in files {
            let file = root.join("sys/devices/system/cpu/cpu0").join(file);
            fs::create_dir_all(file.parent().expect("a file has a folder")).expect("made");
            fs::write(file, text).expect("written");
        }
        let found = (last_level_cache(&root), clock_rate(&root, INFORMATION));
        let _ = fs::remove_dir_all(&root);
        assert_eq!((none, moment), ((0, 0), 2_596_124));
        assert_eq!(found, (32 << 20, 3_700_000));
    }

    #[test]
    fn all_features_together_have_room_in_the_properties() {
        let features = features();
        assert!(features.len() < 127, "{features}");
        #[cfg(target_arch = "x86_64")]
        {
            let has = |name: &str| features.split(' ').any(|feature| feature == name);
            let flags = information();
            let flags = entry(&flags, "flags").unwrap_or("");
            let told = |name: &str| flags.split(' ').any(|flag| flag == name);
            assert_eq!((has("avx2"), has("avx512f")), (told("avx2"), told("avx512f")));
        }
    }
}
