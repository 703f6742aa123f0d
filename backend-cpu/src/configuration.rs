//! What can be set from outside.
//!
//! | variable | means | otherwise |
//! |---|---|---|
//! | `LLAISYS_CPU_DEVICES` | so many virtual devices, 1 to 256 | 1 |
//! | `LLAISYS_CPU_MEMORY_LIMIT` | bytes of device memory, with `k`, `m`, `g` or `t` (powers of 1024) behind it if one likes | what the machine has |
//! | `LLAISYS_CPU_THREADS` | so many threads run the streams' work, 1 to 1024 | as many as there are processors |
//! | `LLAISYS_CPU_STRICT` | `1`: the host cannot touch device memory | it can |
//! | `LLAISYS_CPU_SCHEDULE_SEED` | a number: what is not ordered comes in an order that it chooses | as it comes |
//!
//! Rule: a value that cannot be used is not used, and the name of the device says so, since a typing
//! error must neither stop a program nor go unnoticed.

use std::ffi::OsString;
use std::time::Duration;

/// How many virtual devices there can be.
const MOST_DEVICES: i32 = 256;
/// How many workers there can be.
const MOST_THREADS: u32 = 1024;

/// The settings of a [`Cpu`](crate::Cpu).
#[derive(Clone, Debug)]
pub struct Configuration {
    /// How many virtual devices there are, 1 to 256.
    pub devices: i32,
    /// Bytes of device memory, of all devices together; `None` is what the machine gives.
    pub memory_limit: Option<u64>,
    /// How much work can be queued on a stream before enqueueing waits.
    pub queue_capacity: usize,
    /// How many bytes of pageable sources, and of the lists of batches, can be kept at a time.
    pub staging_bytes: usize,
    /// How many workers may run at a time. A host function that blocks does not count.
    pub threads: u32,
    /// The workers' name, without their number.
    pub worker_name: String,
    /// The seed of the schedule that permutes what is not ordered; `None` for the ordinary one.
    pub schedule_seed: Option<u64>,
    /// Whether the host cannot touch device memory: see `strict`.
    pub strict: bool,
    /// After how long without work a worker ends.
    pub worker_idle: Duration,
    /// What to tell people about values that could not be used; part of the devices' names.
    pub remark: String,
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            devices: 1,
            memory_limit: None,
            queue_capacity: 65_535,
            staging_bytes: 64 << 20,
            threads: processors(),
            worker_name: "llaisys-cpu".to_owned(),
            schedule_seed: None,
            strict: false,
            worker_idle: Duration::from_secs(5),
            remark: String::new(),
        }
    }
}

impl Configuration {
    /// The defaults with what the environment says.
    pub fn from_environment() -> Configuration {
        Configuration::from_variables(|name| std::env::var_os(name))
    }

    /// The defaults with what these variables say.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Configuration {
        let mut configuration = Configuration::default();
        let mut refused = Vec::new();
        let mut read = |name: &'static str, use_it: &mut dyn FnMut(&str) -> bool| {
            if let Some(value) = variable(name)
                && !value.is_empty()
                && !value.to_str().is_some_and(use_it)
            {
                refused.push(format!("{name}={} not used", value.to_string_lossy()));
            }
        };
        read("LLAISYS_CPU_DEVICES", &mut |text| {
            let count = text.trim().parse().ok().filter(|count| (1..=MOST_DEVICES).contains(count));
            configuration.devices = count.unwrap_or(1);
            count.is_some()
        });
        read("LLAISYS_CPU_MEMORY_LIMIT", &mut |text| {
            configuration.memory_limit = bytes(text);
            configuration.memory_limit.is_some()
        });
        read("LLAISYS_CPU_THREADS", &mut |text| {
            let count = text.trim().parse().ok().filter(|count| (1..=MOST_THREADS).contains(count));
            configuration.threads = count.unwrap_or(configuration.threads);
            count.is_some()
        });
        read("LLAISYS_CPU_SCHEDULE_SEED", &mut |text| {
            configuration.schedule_seed = text.trim().parse().ok();
            configuration.schedule_seed.is_some()
        });
        read("LLAISYS_CPU_STRICT", &mut |text| {
            configuration.strict = text == "1";
            text == "0" || text == "1"
        });
        configuration.remark = refused.join(", ");
        configuration
    }
}

/// The processors that this process may use.
fn processors() -> u32 {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(count).unwrap_or(1).min(MOST_THREADS)
}

/// A number of bytes such as `512m`; `None` for 0 and for what is none.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Configuration {
        Configuration::from_variables(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn a_number_of_devices_that_cannot_be_is_one_and_the_remark_says_so() {
        for value in ["0", "-3", "257", "many", "1.5", "99999999999999999999"] {
            let configuration = with("LLAISYS_CPU_DEVICES", value);
            assert_eq!(configuration.devices, 1, "{value}");
            assert!(configuration.remark.contains(value), "{}", configuration.remark);
        }
        for (value, devices) in [("1", 1), ("256", 256), (" 4 ", 4), ("", 1)] {
            let configuration = with("LLAISYS_CPU_DEVICES", value);
            assert_eq!((configuration.devices, configuration.remark.as_str()), (devices, ""));
        }
    }

    #[test]
    fn a_memory_limit_has_a_suffix_or_none_and_does_not_wrap() {
        for (value, limit) in [
            ("4096", Some(4096)),
            ("64k", Some(64 << 10)),
            ("1M", Some(1 << 20)),
            ("2g", Some(2 << 30)),
            ("0", None),
            ("-1", None),
            ("g", None),
            ("1gb", None),
            ("99999999999t", None),
        ] {
            let configuration = with("LLAISYS_CPU_MEMORY_LIMIT", value);
            assert_eq!(configuration.memory_limit, limit, "{value}");
            assert_eq!(configuration.remark.is_empty(), limit.is_some());
        }
    }

    #[test]
    fn threads_seeds_and_the_strict_mode_are_read_and_what_is_none_is_said() {
        assert_eq!(with("LLAISYS_CPU_THREADS", "3").threads, 3);
        assert_eq!(with("LLAISYS_CPU_SCHEDULE_SEED", "7").schedule_seed, Some(7));
        assert!(with("LLAISYS_CPU_STRICT", "1").strict && !with("LLAISYS_CPU_STRICT", "0").strict);
        let default = Configuration::default();
        for (name, value) in [
            ("LLAISYS_CPU_THREADS", "0"),
            ("LLAISYS_CPU_THREADS", "many"),
            ("LLAISYS_CPU_SCHEDULE_SEED", "-1"),
            ("LLAISYS_CPU_STRICT", "yes"),
        ] {
            let configuration = with(name, value);
            assert_eq!(configuration.threads, default.threads);
            assert!(configuration.schedule_seed.is_none() && !configuration.strict);
            assert!(configuration.remark.contains(name), "{}", configuration.remark);
        }
    }
}
