//! Kills runs that do not end by themselves.

use std::fmt;
use std::time::Duration;

use iotrail_base::words::span;
use iotrail_watch::session::Counts;

/// Limits after which a run is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// Maximum time with requests in flight but no completion, for traced runs.
    pub stall: Duration,
    /// Maximum time without a request or completion; `None` for no limit.
    pub idle: Option<Duration>,
    /// Maximum total time; `None` for no limit.
    pub in_all: Option<Duration>,
}

/// Why a run was killed, as the cause of an error.
#[derive(Debug)]
pub struct Hung {
    pub why: String,
    pub waited_ns: u64,
}

impl fmt::Display for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Hung {}

/// Detects that a traced program makes no progress.
pub struct Guard {
    pub patience: Patience,
    /// The latest counts, and when they last changed.
    pub last: Option<(Counts, Duration)>,
    pub stuck: Option<String>,
}

impl Guard {
    pub fn look(&mut self, elapsed: Duration, counts: Option<Counts>) {
        if let Some(most) = self.patience.in_all
            && elapsed > most
        {
            self.stuck.get_or_insert(format!("it was still running after {}", span(elapsed.as_nanos() as f64)));
        }
        let Some(now @ Counts { requests, in_flight, .. }) = counts else { return };
        match self.last {
            Some((then, since)) if then == now => {
                let idle = elapsed - since;
                let long = span(idle.as_nanos() as f64);
                if in_flight > 0 && idle > self.patience.stall {
                    self.stuck.get_or_insert(format!(
                        "it stalled: {in_flight} of {requests} requests in flight, and none was delivered for {long}"
                    ));
                } else if self.patience.idle.is_some_and(|most| idle > most) {
                    self.stuck.get_or_insert(format!("it stalled: no request was submitted or delivered for {long}"));
                }
            }
            _ => self.last = Some((now, elapsed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_progress_is_stuck_only_with_requests_in_flight() {
        let patience = |idle| Patience { stall: Duration::from_secs(1), idle, in_all: None };
        let guard = |idle| Guard { patience: patience(idle), last: None, stuck: None };
        let within = |idle, looks: &[(u64, Option<(u64, u64)>)]| {
            let of = |(requests, completions)| Counts { requests, completions, in_flight: requests - completions };
            let mut guard = guard(idle);
            looks.iter().for_each(|(ms, counts)| guard.look(Duration::from_millis(*ms), counts.map(of)));
            guard.stuck
        };
        let after = |looks: &[(u64, Option<(u64, u64)>)]| within(None, looks);
        assert_eq!(after(&[(500, Some((3, 3))), (9000, Some((3, 3)))]), None);
        assert_eq!(after(&[(500, Some((4, 3))), (1200, Some((5, 3))), (2100, Some((5, 3))), (2150, None)]), None);
        let stuck = after(&[(500, Some((4, 3))), (1000, None), (1600, Some((4, 3)))]).unwrap();
        assert_eq!(stuck, "it stalled: 1 of 4 requests in flight, and none was delivered for 1.10 s");
        // The SQPOLL thread sleeps, so the kernel has no requests.
        let most = Some(Duration::from_secs(5));
        assert_eq!(within(most, &[(500, Some((3, 3))), (5400, Some((3, 3)))]), None);
        let stuck = within(most, &[(500, Some((3, 3))), (5600, Some((3, 3)))]).unwrap();
        assert_eq!(stuck, "it stalled: no request was submitted or delivered for 5.10 s");
    }
}
