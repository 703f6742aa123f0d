//! What a process holds, measured before and after a case: a case that passes and leaves more than it
//! found is a LEAK.
//!
//! | measured | how | allowed to grow by |
//! |---|---|---|
//! | blocks | `live` of `get_memory_statistics`, each device (core mode) | nothing |
//! | memory held from the driver | `get_reserved_memory` once `trim_memory(0)` was called (raw mode) | what one use leaves |
//! | open files | `/proc/self/fd`, with what each one is | what one use of every device opens; and [`PARTS`] without a name (devices, memfds, event and poll descriptors), which parts of a driver open when they are first used |
//! | threads | `/proc/self/task`, given time to end | what one use starts, and a pool of [`POOL`] |
//!
//! Rule: what a backend needs to be in use at all is no leak. It is measured once a run, in a process that
//! uses every device twice and does nothing else: what the second use takes again was not needed, but is
//! left behind by each use, so it does not count.

use crate::outcome::{Checked, Stop};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many threads a backend may keep for later use.
const POOL: usize = 64;
/// How many files without a name the parts of a driver may open that a plain use does not touch.
const PARTS: usize = 8;
/// How long threads are given to end.
const PATIENCE: Duration = Duration::from_secs(8);

/// How many open files and threads the use of a backend takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Open files.
    pub files: usize,
    /// Threads.
    pub threads: usize,
    /// Bytes that a plugin goes on holding for a device.
    pub bytes: u64,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.files, self.threads, self.bytes)
    }
}

impl std::str::FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Use, String> {
        let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([files, threads, bytes]) => {
                Ok(Use { files: *files as usize, threads: *threads as usize, bytes: *bytes })
            }
            _ => Err(format!("`{text}` is not FILES,THREADS,BYTES")),
        }
    }
}

/// What a process holds at a moment.
#[derive(Clone, Debug)]
pub struct Footprint {
    /// What each open file is, sorted.
    files: Vec<String>,
    threads: usize,
    blocks: Vec<Held>,
}

/// What a backend says of a device: what is counted, and how much of it there is.
pub type Held = (&'static str, u64);

/// Whether the case has said that it leaves blocks.
static ON_PURPOSE: AtomicBool = AtomicBool::new(false);

/// Says that this case leaves blocks behind on purpose: they are not measured then.
pub fn leaves_blocks_on_purpose() {
    ON_PURPOSE.store(true, Ordering::Relaxed);
}

/// The number of threads of this process.
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// What each open file of this process is, sorted.
pub fn files() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let target = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok();
    let targets = entries.flatten().filter_map(target);
    // The one that lists the others is closed by then, so it has no target or is this folder.
    let mut files: Vec<String> = targets
        .map(|path| path.to_string_lossy().into_owned())
        .filter(|path| !(path.starts_with("/proc/") && path.ends_with("/fd")))
        .collect();
    files.sort();
    files
}

/// Whether an open file is one that nobody finds by a path: a device, a memfd, an event descriptor.
fn is_nameless(file: &str) -> bool {
    file.starts_with("/dev/") || file.starts_with("/memfd:") || file.starts_with("anon_inode:")
}

impl Footprint {
    /// What this process holds now, with what a backend says that is handed out.
    pub fn now(blocks: Vec<Held>) -> Footprint {
        Footprint { files: files(), threads: threads(), blocks }
    }

    /// What was taken since `before`.
    fn taken_since(&self, before: &Footprint) -> Use {
        let grown = |(after, before): (&Held, &Held)| after.1.saturating_sub(before.1);
        Use {
            files: self.files.len().saturating_sub(before.files.len()),
            threads: self.threads.saturating_sub(before.threads),
            bytes: self.blocks.iter().zip(&before.blocks).map(grown).max().unwrap_or(0),
        }
    }

    /// What it takes to be in use: what the first `work` takes, and the second does not take again.
    pub fn of_use(work: impl Fn() -> Checked, blocks: impl Fn(bool) -> Vec<Held>) -> Checked<Use> {
        let before = Footprint::now(blocks(false));
        work()?;
        let once = Footprint::now(blocks(true));
        work()?;
        let again = Footprint::now(blocks(true)).taken_since(&once);
        let first = once.taken_since(&before);
        Ok(Use {
            files: first.files.saturating_sub(again.files),
            threads: first.threads.saturating_sub(again.threads),
            bytes: first.bytes.saturating_sub(again.bytes),
        })
    }

    /// Fails as a leak when this process now holds more than at `self` and than a use takes.
    /// The blocks are asked for unless the case leaves some on purpose.
    pub fn expect_nothing_more(&self, blocks: impl FnOnce() -> Vec<Held>, used: Use) -> Checked {
        let on_purpose = ON_PURPOSE.load(Ordering::Relaxed);
        let blocks = if on_purpose { Vec::new() } else { blocks() };
        for (device, ((what, before), (_, after))) in self.blocks.iter().zip(&blocks).enumerate() {
            if *after > before + used.bytes {
                let message = format!("device {device}: {what}: {before} before, {after} after");
                return Err(Stop::leak(message));
            }
        }
        let mut old = self.files.clone();
        let new: Vec<String> = files()
            .into_iter()
            .filter(|file| match old.iter().position(|known| known == file) {
                Some(at) => {
                    old.swap_remove(at);
                    false
                }
                None => true,
            })
            .collect();
        let (nameless, named): (Vec<&String>, Vec<&String>) =
            new.iter().partition(|file| is_nameless(file));
        if named.len() + nameless.len().saturating_sub(PARTS) > used.files {
            return Err(Stop::leak(format!(
                "{} files are open that were not, {} is what a use takes: {}",
                new.len(),
                used.files,
                new.join(", ")
            )));
        }
        let started = Instant::now();
        let most = self.threads + used.threads + POOL;
        while threads() > most && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let now = threads();
        if now > most {
            return Err(Stop::leak(format!(
                "threads: {} before, {now} after and for {} s since, at most {most} may stay",
                self.threads,
                PATIENCE.as_secs()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use std::cell::Cell;

    #[test]
    fn a_block_and_a_file_more_are_leaks_and_what_a_use_takes_is_none() {
        let before = Footprint::now(vec![("blocks", 1)]);
        let own = std::fs::File::open("/proc/self/status").expect("it is always there");
        // Other tests of this process open files too.
        let generous = Use { files: 500, threads: 500, bytes: 0 };
        let same = before.expect_nothing_more(|| vec![("blocks", 1)], generous);
        assert!(same.is_ok(), "{same:?}");
        let more =
            before.expect_nothing_more(|| vec![("blocks", 2)], generous).expect_err("a block");
        assert_eq!(more.outcome, Outcome::Leak);
        let mut few = before.clone();
        few.files.clear();
        let found = few.expect_nothing_more(|| vec![("blocks", 1)], Use::default());
        let found = found.expect_err("a file");
        assert!(found.message.contains("/status"), "{}", found.message);
        drop(own);
    }

    #[test]
    fn what_every_use_leaves_is_not_what_a_use_takes() {
        // Seven bytes to begin with, and three more by each use.
        let uses = Cell::new(0);
        let work = || {
            uses.set(uses.get() + 1);
            Ok(())
        };
        let held = |_| vec![("bytes", if uses.get() == 0 { 0 } else { 7 + 3 * uses.get() })];
        let taken = Footprint::of_use(work, held).expect("the work does not fail");
        assert_eq!(taken.bytes, 7);
    }

    #[test]
    fn a_use_is_read_as_it_is_written() {
        let used = Use { files: 3, threads: 12, bytes: 1 << 40 };
        assert_eq!(used.to_string().parse(), Ok(used));
        assert!("3,4".parse::<Use>().is_err());
    }
}
