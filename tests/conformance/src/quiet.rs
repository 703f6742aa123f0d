//! Whether anything in this process still has something to do, as the kernel sees its threads.
//!
//! Rule: load does not decide. A thread that is ready to run and is not let run has not had its turn,
//! however long that takes; one that sleeps waits for somebody else; one that has used [`TURN`] without
//! an end spins while it waits. When all have had their turn, nothing more comes by itself (but from
//! hardware), so what a test sees then is what stays until it moves on.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

/// The processor time after which a thread that is still running is taken for one that spins.
const TURN: Duration = Duration::from_millis(50);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(1);
/// How many looks in a row must say the same: one alone is no picture of a single moment.
const LOOKS: usize = 4;
/// When to stop looking, on a machine that lets nobody run.
const LIMIT: Duration = Duration::from_secs(30);

/// A look at the other threads of this process, again and again.
#[derive(Default)]
pub struct Watch {
    /// The processor time of each thread when it was first seen running.
    begun: HashMap<i32, Duration>,
}

impl Watch {
    /// Whether every thread but the calling one sleeps or has had its turn since the watch began.
    pub fn is_quiet(&mut self) -> bool {
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return true };
        let ids = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // Each one is looked at, so that each one's time begins now.
        ids.filter(|id| *id != own).filter(|id| !self.has_had_its_turn(*id)).count() == 0
    }

    fn has_had_its_turn(&mut self, id: i32) -> bool {
        // A thread that has ended has.
        let Some((state, used)) = look(id) else { return true };
        if state == 'S' {
            self.begun.remove(&id);
            return true;
        }
        used.saturating_sub(*self.begun.entry(id).or_insert(used)) >= TURN
    }
}

/// Whether every thread but the calling one sleeps at this moment.
pub fn is_asleep() -> bool {
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() };
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    let ids = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| *id != own).all(|id| look(id).is_none_or(|(state, _)| state == 'S'))
}

/// The processor time that this process has used.
pub fn used_by_all() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The state of a thread and the processor time that it has used.
fn look(id: i32) -> Option<(char, Duration)> {
    let line = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let mut words = line.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?.chars().next()?;
    let mut ticks = words.skip(10).filter_map(|word| word.parse::<u64>().ok());
    let used = ticks.next()? + ticks.next()?;
    // SAFETY: asks for a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Some((state, Duration::from_millis(used * 1000 / per_second)))
}

/// Waits until everything that could go on by itself has gone on: work that ought to stand behind a gate
/// and does not has then been done, and is seen.
pub fn settle() {
    let started = Instant::now();
    let mut watch = Watch::default();
    let mut quiet = 0;
    while quiet < LOOKS && started.elapsed() < LIMIT {
        quiet = if watch.is_quiet() { quiet + 1 } else { 0 };
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_that_runs_has_not_had_its_turn_and_one_that_spins_for_long_has() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let spinning = thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop()
            }
        });
        // Its number, by what it does: others of the test runner may come and go.
        let mut watch = Watch::default();
        let running = loop {
            let threads = std::fs::read_dir("/proc/self/task").expect("it is always there");
            let ids =
                threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            // SAFETY: takes nothing.
            let own = unsafe { libc::gettid() };
            let found = ids.into_iter().find(|id| *id != own && !watch.has_had_its_turn(*id));
            if let Some(id) = found {
                break id;
            }
        };
        while !watch.has_had_its_turn(running) {
            thread::sleep(PAUSE);
        }
        STOP.store(true, Ordering::Relaxed);
        spinning.join().expect("it does nothing that panics");
    }
}
