//! How far a command is.
//!
//! Rule: it goes to standard error; standard output has results only.

use crate::print;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::time::Duration;

/// Shows what is running: a bar on a terminal, a line for each step elsewhere.
pub struct Progress {
    bar: ProgressBar,
    total: usize,
    begun: Cell<usize>,
}

impl Progress {
    /// Begins; there are `total` steps.
    pub fn new(total: usize) -> Progress {
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.expect("the template names fields that indicatif has"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, total, begun: Cell::new(0) }
    }

    /// The next step begins.
    pub fn step(&self, message: String) {
        if self.bar.is_hidden() {
            print::note(format!("[{}/{}] {message}", self.begun.get() + 1, self.total));
        }
        self.bar.set_position(self.begun.get() as u64);
        self.begun.set(self.begun.get() + 1);
        self.bar.set_message(message);
    }

    /// All steps are done.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
