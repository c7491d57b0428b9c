//! Options of a trace, and the events reported during it.

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
    /// `None`: until the subject exits, or until it is stopped.
    pub duration: Option<Duration>,
    /// Selection of requests to trace end to end.
    pub choice: Choice,
    /// `None`: all the time.
    pub windows: Option<Windows>,
    /// A command's standard output goes to iotrail's standard error.
    pub stdout_apart: bool,
    /// Further actions on a command before it is started.
    pub prepare: Option<Prepare>,
    /// [`Progress::counts`] are reported.
    pub tell_counts: bool,
    pub until: Until,
    /// Costly events are sampled in windows while the program is busy.
    pub spare: bool,
    /// Everything is traced for this long, at any cost; after it, a trace that costs too much continues in windows. `None`: to the end.
    pub light_after: Option<Duration>,
    /// [`News::Checkpoint`] is reported.
    pub checkpoints: bool,
    /// User stacks of call sites are sampled.
    pub stacks: bool,
    pub numbers: Rc<Numbers>,
}

/// When the trace of a command ends, unless it is stopped before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When the command itself has exited.
    Command,
    /// When all processes that it left have exited too.
    Last,
}

/// Requested results in addition to the counts.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    pub keep: Keep,
    pub sampling: Option<Sampling>,
    /// The cost of the probes.
    pub cost: bool,
    /// The exchange through which scrapes request the counts so far.
    pub metrics: Option<Arc<MetricsExchange>>,
}

/// Events reported during the span.
#[derive(Debug)]
pub enum News<'a> {
    /// State of named processes before they are traced.
    Now(&'a Moment),
    /// Named processes are traced, and this many descendants.
    Begins {
        descendants: usize,
    },
    /// The command has exited, and processes that it left continue.
    Left {
        status: i32,
        left: &'a Left,
    },
    Goes(Progress),
    /// The record so far, without findings.
    Checkpoint(Box<TraceRecord>),
}

/// Progress of the span.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Completions of traced requests.
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

/// Whether, and how, the span is to be stopped before its end.
pub struct Stop<'a> {
    pub asked: &'a dyn Fn() -> bool,
    /// The stopping signal, if the command has not received it too (as from a terminal).
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
