//! Two ways of doing one thing, timed fairly.
//!
//! Rules: both are timed in turn in one run, and who is first alternates, so that a change of the
//! clock rate or a noisy neighbour meets both. A batch is timed as a whole; what brings the device
//! back to rest happens between batches, outside the time. Medians count.

use std::time::{Duration, Instant};

/// How much is done.
#[derive(Clone, Copy)]
pub struct Plan {
    /// How often each side is timed, after a warm-up.
    pub runs: u32,
    /// The calls of a batch.
    pub calls: u32,
    /// What `p50` and `p99` are taken from.
    pub sample: Sample,
}

/// What one sample is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// One call, less what the clock costs; in batches of their own, for the clock slows the calls.
    Call,
    /// The mean of a batch: for calls that are shorter than the clock's step.
    Batch,
}

/// What came of it, in nanoseconds a call; at least 0.01, so that a ratio is a number.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Our median of the batches.
    pub ours: f64,
    /// Their median of the batches.
    pub theirs: f64,
    /// Our median of the samples.
    pub p50: f64,
    /// Our 99th percentile of the samples.
    pub p99: f64,
    /// The runs.
    pub runs: u32,
}

impl Summary {
    /// The same of calls that each did something `times` times.
    pub fn of_each(self, times: u32) -> Summary {
        let each = |time: f64| (time / f64::from(times)).max(0.01);
        let Summary { ours, theirs, p50, p99, runs } = self;
        Summary { ours: each(ours), theirs: each(theirs), p50: each(p50), p99: each(p99), runs }
    }
}

/// Times two calls, which answer 0 when all is well.
///
/// `settle` is called after each batch, with what the batch answered.
///
/// # Errors
/// The first of `settle`.
pub fn interleave<E>(
    plan: Plan,
    mut ours: impl FnMut() -> i32,
    mut theirs: impl FnMut() -> i32,
    mut settle: impl FnMut(Answers) -> Result<(), E>,
) -> Result<Summary, E> {
    let (mut our_times, mut their_times, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    let clock = clock_cost();
    let warm_up = plan.runs.div_ceil(10);
    for run in 0..warm_up + plan.runs {
        let measured = run >= warm_up;
        for turn in 0..2 {
            let answers = if (run + turn) % 2 == 0 {
                let (time, answer) = batch(plan.calls, &mut ours);
                our_times.extend(measured.then_some(time));
                Answers { ours: answer, theirs: 0 }
            } else {
                let (time, answer) = batch(plan.calls, &mut theirs);
                their_times.extend(measured.then_some(time));
                Answers { ours: 0, theirs: answer }
            };
            settle(answers)?;
        }
        if plan.sample == Sample::Call {
            let answer = singly(plan.calls, clock, &mut ours, &mut samples);
            if !measured {
                samples.clear();
            }
            settle(Answers { ours: answer, theirs: 0 })?;
        }
    }
    if plan.sample == Sample::Batch {
        samples.clone_from(&our_times);
    }
    Ok(Summary {
        ours: percentile(&mut our_times, 50),
        theirs: percentile(&mut their_times, 50),
        p50: percentile(&mut samples, 50),
        p99: percentile(&mut samples, 99),
        runs: plan.runs,
    })
}

/// All answers of a batch, or-ed: 0 when each was 0. One side's is 0, for it was not called.
pub struct Answers {
    /// Ours.
    pub ours: i32,
    /// Theirs.
    pub theirs: i32,
}

/// Kept out of line so that both sides run the same loop around their call.
#[inline(never)]
fn batch(calls: u32, call: &mut impl FnMut() -> i32) -> (f64, i32) {
    let mut answer = 0;
    let start = Instant::now();
    for _ in 0..calls {
        answer |= call();
    }
    (nanoseconds(start.elapsed()) / f64::from(calls), answer)
}

fn singly(calls: u32, clock: f64, call: &mut impl FnMut() -> i32, samples: &mut Vec<f64>) -> i32 {
    let mut answer = 0;
    for _ in 0..calls {
        let start = Instant::now();
        answer |= call();
        samples.push(nanoseconds(start.elapsed()) - clock);
    }
    answer
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// What reading the clock twice costs.
fn clock_cost() -> f64 {
    let mut times: Vec<f64> = (0..1001).map(|_| nanoseconds(Instant::now().elapsed())).collect();
    percentile(&mut times, 50)
}

/// The smallest value that `percent` of 100 do not exceed.
fn percentile(times: &mut [f64], percent: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default().max(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let mut times: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut times, 50), 100.0);
        assert_eq!(percentile(&mut times, 99), 198.0);
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
    }

    #[test]
    fn both_sides_are_called_equally_often_and_the_slower_one_is_seen() {
        let plan = Plan { runs: 5, calls: 4, sample: Sample::Batch };
        let (mut ours, mut theirs, mut batches) = (0, 0, 0);
        let summary = interleave::<()>(
            plan,
            || {
                ours += 1;
                0
            },
            || {
                theirs += 1;
                std::thread::sleep(Duration::from_micros(100));
                0
            },
            |_| {
                batches += 1;
                Ok(())
            },
        );
        let summary = summary.expect("nothing fails");
        assert_eq!((ours, theirs, batches), (24, 24, 12));
        assert!(summary.theirs > summary.ours, "{summary:?}");
    }

    #[test]
    fn an_answer_that_is_not_0_reaches_the_caller() {
        let plan = Plan { runs: 1, calls: 2, sample: Sample::Call };
        let fails =
            |answers: Answers| if answers.theirs == 0 { Ok(()) } else { Err(answers.theirs) };
        assert_eq!(interleave(plan, || 0, || 3, fails).expect_err("they fail"), 3);
    }
}
