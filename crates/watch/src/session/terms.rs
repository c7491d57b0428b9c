//! How a span is watched, and what is told of it while it lasts.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::command::Prepare;
use crate::left::Left;
use crate::metrics::MetricsExchange;
use crate::namespace::Numbers;
use crate::recorder::Keep;
use crate::windows::Windows;
use iotrail_probe::choice::Choice;
use iotrail_probe::rings::OpcodeCounts;
use iotrail_probe::sampling::Sampling;
use iotrail_schema::state::Moment;
use iotrail_schema::trace_record::TraceRecord;

/// How it is watched.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: until the subject ends, or until it is stopped.
    pub duration: Option<Duration>,
    /// Requests that are followed whole.
    pub choice: Choice,
    /// `None`: all the time.
    pub windows: Option<Windows>,
    /// A command's standard output goes to our standard error.
    pub stdout_apart: bool,
    /// What else is done to a command before it is started.
    pub prepare: Option<Prepare>,
    /// [`Progress::counts`] are told.
    pub tell_counts: bool,
    pub until: Until,
    /// What costs much is looked at in windows while the program is busy.
    pub spare: bool,
    /// So long all is watched, whatever that costs; after it, what costs the watched too much is watched by windows. `None`: to the end.
    pub light_after: Option<Duration>,
    /// [`News::Checkpoint`] is told.
    pub checkpoints: bool,
    /// User stacks of call sites are sampled.
    pub stacks: bool,
    pub numbers: Rc<Numbers>,
}

/// When the watch of a command is over, if nothing stops it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The command itself has ended.
    Command,
    /// So have all processes that it left behind.
    Last,
}

/// What is wanted beside the counts.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    pub keep: Keep,
    pub sampling: Option<Sampling>,
    /// What the probes cost.
    pub cost: bool,
    /// Where scrapes ask for the counts so far.
    pub metrics: Option<Arc<MetricsExchange>>,
}

/// What is told while it lasts.
#[derive(Debug)]
pub enum News<'a> {
    /// What named processes do before they are watched.
    Now(&'a Moment),
    /// Named processes are watched, and so many that descend from them.
    Begins {
        descendants: usize,
    },
    /// The command has ended, and others that it left go on.
    Left {
        status: i32,
        left: &'a Left,
    },
    Goes(Progress),
    /// The record up to now, without findings.
    Checkpoint(Box<TraceRecord>),
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Completions of followed requests.
    pub followed: u64,
    /// Every half second; `None` at other times, or if they are not requested.
    pub counts: Option<Counts>,
}

/// Requests and completions so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: u64,
    pub completions: u64,
    /// Requests without a final completion, whether or not their delivery path is decided.
    pub in_flight: u64,
}

impl Counts {
    pub(super) fn add(mut self, of: &OpcodeCounts) -> Self {
        self.requests += of.requests;
        self.completions += of.completions;
        self.in_flight += of.in_flight();
        self
    }
}

/// Whether, and how, it is to be stopped before its end.
pub struct Stop<'a> {
    pub asked: &'a dyn Fn() -> bool,
    /// The signal that asked for it, where the command has not got it too (as from a terminal).
    pub to_pass_on: &'a dyn Fn() -> Option<libc::c_int>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_flight_until_its_last_completion() {
        let of = |requests, completions| OpcodeCounts { requests, completions, ..OpcodeCounts::default() };
        let all = [
            of(5, 3),
            OpcodeCounts { more: 40, ..of(2, 41) },
            OpcodeCounts { skips: 3, ..of(4, 1) },
            OpcodeCounts { unposted: 1, ..of(2, 1) },
        ];
        let sum = all.iter().fold(Counts::default(), Counts::add);
        assert_eq!(sum, Counts { requests: 13, completions: 46, in_flight: 3 });
    }
}
