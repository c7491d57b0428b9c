//! Options of a trace, and the events that it reports.

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

/// Options of a trace.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: until the subject exits or the trace is stopped.
    pub duration: Option<Duration>,
    /// Which requests to trace end to end.
    pub choice: Choice,
    /// `None`: trace throughout.
    pub windows: Option<Windows>,
    /// Redirect a command's standard output to iotrail's standard error.
    pub stdout_apart: bool,
    /// Hook that prepares a command before it is started.
    pub prepare: Option<Prepare>,
    /// Report [`Progress::counts`].
    pub tell_counts: bool,
    pub until: Until,
    /// Sample costly events in windows while the program is busy.
    pub spare: bool,
    /// Time for which everything is traced at any cost. Afterwards, a trace that costs too much continues in windows.
    /// `None`: never.
    pub light_after: Option<Duration>,
    /// Report [`News::Checkpoint`].
    pub checkpoints: bool,
    /// Sample user stacks of call sites.
    pub stacks: bool,
    pub numbers: Rc<Numbers>,
}

/// When the trace of a command ends, unless it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When the command has exited.
    Command,
    /// When all processes that it left running have exited too.
    Last,
}

/// Requested results besides the counts.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    pub keep: Keep,
    pub sampling: Option<Sampling>,
    /// Measure the cost of the probes.
    pub cost: bool,
    /// Exchange with the scrapes, which request the counts so far.
    pub metrics: Option<Arc<MetricsExchange>>,
}

/// Events reported during the trace.
#[derive(Debug)]
pub enum News<'a> {
    /// State of the named processes before the trace.
    Now(&'a Moment),
    /// Tracing has begun, of the named processes and this many descendants.
    Begins {
        descendants: usize,
    },
    /// The command exited, but processes that it started still run.
    Left {
        status: i32,
        left: &'a Left,
    },
    Goes(Progress),
    /// The record so far, without findings.
    Checkpoint(Box<TraceRecord>),
}

/// Progress of the trace.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Number of traced completions.
    pub followed: u64,
    /// Set every half second; `None` otherwise, or if not requested.
    pub counts: Option<Counts>,
}

/// Number of requests and completions so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: u64,
    pub completions: u64,
    /// Requests without a last completion, whether or not their delivery path is decided.
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

/// Whether and how to stop the trace early.
pub struct Stop<'a> {
    pub asked: &'a dyn Fn() -> bool,
    /// The signal that stops the trace, unless the command received it as well (from a terminal, for example).
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
