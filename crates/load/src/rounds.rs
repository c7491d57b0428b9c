//! A job thread's work around its I/Os: when to stop, waiting and computing in between, and failures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use iotrail_base::error::{Error, Result};

use super::clock::Clock;
use super::gate::Stage;
use super::job::{LOST, Shared};
use super::pace::Pace;
use super::spec::{End, LoadSpec};
use super::tally::Tally;
use crate::engine::Wait;

/// Number of I/Os and end time, for one job and stage.
pub struct Limits {
    pub ios: u64,
    pub until: u64,
    pub pace: Option<Pace>,
}

pub fn limits(shared: &Shared, job: u32, stage: Stage, start: u64) -> Limits {
    let (spec, clock) = (shared.spec, &shared.clock);
    let (ios, span) = match (stage, spec.end) {
        (Stage::Warmup, _) => (u64::MAX, Some(spec.warmup)),
        (Stage::Measured, End::After(span)) => (u64::MAX, Some(span)),
        (Stage::Measured, End::Ios(n)) => {
            let (share, rest) = (n / u64::from(spec.jobs), n % u64::from(spec.jobs));
            (share + u64::from(u64::from(job) < rest), None)
        }
    };
    let pace = spec.rate.map(|rate| {
        let jobs = f64::from(spec.jobs);
        Pace::new(clock, start, rate / jobs, f64::from(job) / jobs)
    });
    Limits { ios, until: span.map_or(u64::MAX, |s| start.saturating_add(clock.ticks(s))), pace }
}

/// Computes for `ns` in user mode.
pub fn think(clock: &Clock, ns: u64) {
    let until = clock.now() + clock.ticks(Duration::from_nanos(ns));
    let mut x = 0u64;
    while clock.now() < until {
        x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
}

/// Maximum time between two checks of `halt` in an open loop.
pub const NAP: Duration = Duration::from_millis(100);

/// Until `due`, but for at most [`NAP`], sleeps (when blocking) or polls the clock (when peeking). Returns the number
/// of system calls.
pub fn wait_until(clock: &Clock, due: u64, now: u64, wait: Wait) -> u64 {
    let span = Duration::from_nanos(clock.ns(due.saturating_sub(now))).min(NAP);
    match wait {
        Wait::Block => {
            let t = libc::timespec { tv_sec: 0, tv_nsec: span.subsec_nanos().into() };
            // SAFETY: a live structure; the remaining time of an interrupted sleep is not requested.
            unsafe { libc::nanosleep(&t, std::ptr::null_mut()) };
            1
        }
        Wait::Peek => {
            let until = now + clock.ticks(span);
            while clock.now() < until {
                std::hint::spin_loop();
            }
            0
        }
    }
}

/// A failure of the interface itself.
pub fn broken(spec: &LoadSpec, doing: &str, cause: std::io::Error) -> Error {
    Error::machine(format!("{} failed while {doing}", spec.engine), "see `iotrail check`").because(cause)
}

/// If this many I/Os all fail, the load reports it immediately, not at its end.
pub const ALL_FAILED: u64 = 64;

pub fn check_errors(shared: &Shared, tally: &Tally) -> Result<()> {
    if tally.errors >= ALL_FAILED && tally.errors == tally.ios {
        return Err(super::outcome::all_failed(shared.spec, tally));
    }
    if tally.in_vain >= LOST {
        shared.halt.store(true, Ordering::Relaxed);
    }
    Ok(())
}
