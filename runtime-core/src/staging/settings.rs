//! Which copies go through the staging engine, and what it is made of.
//!
//! Rule: a value that cannot be read changes nothing; what is out of range is brought into it.

use crate::api::Capabilities;
use std::time::Duration;

/// The variable: a mode, then `name=value` behind commas.
const VARIABLE: &str = "LLAISYS_STAGING";
/// More threads than this do not make a bus faster.
const MOST_THREADS: usize = 12;
/// Up to so many threads write past the caches.
const FEW: usize = 4;
/// The most that can be asked for.
const LIMIT_OF_THREADS: usize = 64;
/// A page; a chunk is of whole ones.
const PAGE: usize = 4096;

/// What the engine is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A copy to the device of so many bytes or more is taken.
    pub from_in: usize,
    /// A copy from the device of so many bytes or more is taken; a driver is slower there.
    pub from_out: usize,
    /// So many threads at most.
    pub threads: usize,
    /// The largest piece that one thread copies at a time.
    pub chunk: usize,
    /// How many pieces a thread has under way at a time.
    pub slots: usize,
    /// A thread ends when it has had nothing to do for so long.
    pub idle: Duration,
    /// From the device, memory is written past the caches.
    pub is_past_caches: bool,
}

impl Settings {
    /// Of a backend with these capabilities, as the environment has it; `None` where there is no engine.
    pub fn of(capabilities: Capabilities) -> Option<Settings> {
        // A backend whose device memory is the host's copies without any detour.
        let needed = Capabilities::STREAM_OPTIONS.with(Capabilities::EVENTS);
        let can = capabilities.contains(needed)
            && !capabilities.contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let text = std::env::var(VARIABLE).unwrap_or_default();
        can.then(|| Settings::read(&text, processors)).flatten()
    }

    /// What a text says, on a machine with so many processors for this process.
    fn read(text: &str, processors: usize) -> Option<Settings> {
        let mut words = text.split(',').map(str::trim);
        // Three of four: the rest is for the program's own threads.
        let threads = (processors - processors / 4).min(MOST_THREADS);
        let mut settings = Settings {
            from_in: 8 << 20,
            from_out: 4 << 20,
            threads,
            chunk: 2 << 20,
            slots: 2,
            idle: Duration::from_secs(10),
            is_past_caches: threads <= FEW,
        };
        let mode = words.next().unwrap_or_default();
        match mode {
            "off" => return None,
            // Small pieces, so that a small copy has several, on several threads.
            "force" => {
                settings = Settings {
                    from_in: 1,
                    from_out: 1,
                    threads: threads.max(3),
                    chunk: 16 << 10,
                    ..settings
                }
            }
            _ => {}
        }
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let Some(value) = number(value) else { continue };
            match name {
                "from" => (settings.from_in, settings.from_out) = (value.max(1), value.max(1)),
                "threads" => settings.threads = value.clamp(1, LIMIT_OF_THREADS),
                "chunk" => settings.chunk = value.clamp(PAGE, 64 << 20) / PAGE * PAGE,
                "slots" => settings.slots = value.clamp(1, 16),
                "past" => settings.is_past_caches = value != 0,
                "idle" => settings.idle = Duration::from_millis(value as u64),
                _ => {}
            }
        }
        // One thread alone does what the driver does.
        (settings.threads > 1 || mode == "force").then_some(settings)
    }
}

/// A number with `k`, `m` or `g` behind it for powers of 1024.
fn number(text: &str) -> Option<usize> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (end, 'k') => (&text[..end], 10),
        (end, 'm') => (&text[..end], 20),
        (end, 'g') => (&text[..end], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_are_what_the_machine_can_spare() {
        let threads = |processors| Settings::read("", processors).map(|settings| settings.threads);
        assert_eq!(
            [1, 2, 4, 8, 16, 192].map(threads),
            [None, Some(2), Some(3), Some(6), Some(12), Some(12)]
        );
        assert_eq!(Settings::read("force", 1).expect("forced").threads, 3);
    }

    #[test]
    fn a_text_changes_what_it_names_and_what_cannot_be_read_changes_nothing() {
        assert_eq!(Settings::read("off,threads=4", 16), None);
        let plain = Settings::read("", 16).expect("on");
        assert_eq!(Settings::read("on", 16), Some(plain));
        assert_eq!(Settings::read("yes,threads=many,chunk,=3,from=-1", 16), Some(plain));
        let told = Settings::read("on,threads=4, chunk=1m,slots=99,from=64k,idle=50", 16);
        let told = told.expect("on");
        assert_eq!((told.threads, told.chunk, told.slots), (4, 1 << 20, 16));
        assert_eq!((told.from_in, told.from_out), (64 << 10, 64 << 10));
        assert_eq!(told.idle, Duration::from_millis(50));
    }
}
