//! Reported system calls, and their counts over the full trace.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::raw::text;
use crate::skel::types::{call_count, wait_kind, wake, wake_key};
use iotrail_base::error::errno_name;
use iotrail_path::delivery::syscall_name;
use iotrail_schema::account::{CallRecord, WaitEnds, WokenBy};
use iotrail_schema::syscall::{self, Wait, moves_bytes};
use iotrail_stats::expansion::{self, Rest, Total, Window};

/// `CALLS_MAX` in record.h.
pub(crate) const CALLS_MAX: u32 = 512;

/// How a system call waits, by its number.
pub(crate) fn kind_of(nr: u32) -> wait_kind {
    match syscall::find(&syscall_name(nr)).and_then(|call| call.wait) {
        None => wait_kind::WAIT_NONE,
        Some(Wait::Enter) => wait_kind::WAIT_ENTER,
        Some(Wait::Events) => wait_kind::WAIT_EVENTS,
        Some(Wait::Epoll) => wait_kind::WAIT_EPOLL,
        Some(Wait::Poll) => wait_kind::WAIT_POLL,
        Some(Wait::Futex) => wait_kind::WAIT_FUTEX,
        Some(Wait::Sleep) => wait_kind::WAIT_SLEEP,
    }
}

/// The numbers of the reported calls.
pub(crate) fn reported() -> &'static [u32] {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    NUMBERS.get_or_init(|| (0..CALLS_MAX).filter(|nr| syscall::find(&syscall_name(*nr)).is_some()).collect())
}

/// Calls within one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallWindow {
    pub ns: u64,
    pub completions: u64,
    /// Counts by number, without calls that did not occur.
    pub counts: Vec<(u32, u64)>,
}

impl CallWindow {
    fn count(&self, nr: u32) -> u64 {
        self.counts.iter().find(|(n, _)| *n == nr).map_or(0, |(_, count)| *count)
    }
}

/// Count of one call over the full trace; `None` if there is time outside the windows but no window.
pub(crate) fn total(nr: u32, seen: u64, windows: &[CallWindow], rest: Rest) -> Option<Total> {
    let in_windows: u64 = windows.iter().map(|w| w.count(nr)).sum();
    let window =
        |w: &CallWindow| Window { span: w.ns as f64, counted: w.completions as f64, events: w.count(nr) as f64 };
    let windows: Vec<Window> = windows.iter().map(window).collect();
    expansion::total(seen.saturating_sub(in_windows) as f64, &windows, rest)
}

/// The record of one call. The caller adds the time for which threads blocked in it.
pub(crate) fn record(nr: u32, seen: &call_count, errors: &[(u32, u64)], total: Total) -> CallRecord {
    let exact = total.interval == Some((total.total, total.total));
    let scale = |n: u64| if exact { n } else { (n as f64 * total.total / seen.count.max(1) as f64).round() as u64 };
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (errno, n) in errors {
        *by_name.entry(name(*errno)).or_default() += *n;
    }
    CallRecord {
        syscall: syscall_name(nr),
        count: total.total.round() as u64,
        errors: by_name,
        blocked_ns: 0,
        bytes: moves_bytes(&syscall_name(nr)).then(|| scale(seen.results)),
        ended: (kind_of(nr) != wait_kind::WAIT_NONE).then(|| WaitEnds {
            completions: scale(seen.completions),
            time_limit: scale(seen.time_limits),
            signal: scale(seen.signals),
            nothing: scale(seen.nothing),
            partial: scale(seen.partial),
        }),
        woken_by: vec![],
        count_ci95: total.interval.filter(|_| !exact).map(|(lo, hi)| [lo, hi]),
        seen: (!exact).then_some(seen.count),
    }
}

/// Maximum number of listed descriptors per call.
const WOKEN_BY: usize = 4;

/// include/uapi/linux/eventpoll.h; poll(2) uses the same bits.
const EVENTS: [(u32, &str); 7] =
    [(1, "IN"), (2, "PRI"), (4, "OUT"), (8, "ERR"), (0x10, "HUP"), (0x20, "NVAL"), (0x2000, "RDHUP")];

pub(crate) fn woken_by(nr: u32, wakes: &[(wake_key, wake)]) -> Vec<WokenBy> {
    let mut of: Vec<&(wake_key, wake)> = wakes.iter().filter(|(key, _)| key.nr == nr).collect();
    of.sort_by_key(|(key, wake)| (std::cmp::Reverse(wake.count), key.tgid, key.fd));
    let all: u64 = of.iter().map(|(_, wake)| wake.count).sum();
    let prefix = if matches!(kind_of(nr), wait_kind::WAIT_EPOLL) { "EPOLL" } else { "POLL" };
    let one = |(key, wake): &(wake_key, wake)| WokenBy {
        tgid: key.tgid,
        fd: u32::try_from(key.fd).ok(),
        file: kind_of_file(wake.mode, &text(&wake.name)).filter(|_| key.fd >= 0),
        events: EVENTS
            .iter()
            .filter(|(bit, _)| key.events & bit != 0)
            .map(|(_, name)| format!("{prefix}{name}"))
            .collect(),
        share: wake.count as f64 / all.max(1) as f64,
        is_closed: wake.closed != 0,
    };
    of.into_iter().take(WOKEN_BY).map(one).collect()
}

/// `TCP socket`, `eventfd`, or the file's name; `None` if the file was not read.
fn kind_of_file(mode: u32, name: &str) -> Option<String> {
    let is_named = !name.is_empty();
    Some(match mode & libc::S_IFMT {
        libc::S_IFSOCK if is_named => format!("{name} socket"),
        libc::S_IFSOCK => "socket".into(),
        libc::S_IFIFO if is_named => format!("FIFO {name}"),
        libc::S_IFIFO => "pipe".into(),
        _ if name.starts_with('[') => name.trim_matches(['[', ']']).into(),
        _ if is_named => name.into(),
        _ => return None,
    })
}

/// Kernel-internal errno values of a restartable interrupted call count as EINTR.
fn name(errno: u32) -> String {
    errno_name(if (512..=516).contains(&errno) { libc::EINTR } else { errno as i32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str) -> u32 {
        *reported().iter().find(|nr| syscall_name(**nr) == name).unwrap()
    }

    #[test]
    fn a_call_counted_throughout_has_an_exact_count() {
        let nr = number("io_uring_setup");
        let rest = Rest { span: 0.0, counted: 0.0, slowed: 1.0 };
        let seen = call_count { count: 3, ..Default::default() };
        let all = record(nr, &seen, &[(12, 2), (512, 1)], total(nr, 3, &[], rest).unwrap());
        assert_eq!((all.syscall.as_str(), all.count), ("io_uring_setup", 3));
        assert_eq!(all.errors, BTreeMap::from([("ENOMEM".into(), 2), ("EINTR".into(), 1)]));
        assert_eq!((all.ended, all.count_ci95), (None, None));
    }

    #[test]
    fn window_counts_are_expanded_to_the_time_outside_the_windows() {
        let nr = number("read");
        let window = |n| CallWindow { ns: 5_000_000, completions: 0, counts: vec![(nr, n)] };
        let windows: Vec<CallWindow> = (0..20).map(|i| window(95 + i % 10)).collect();
        let rest = Rest { span: 1e9, counted: 0.0, slowed: 1.0 };
        let count: u64 = windows.iter().map(|w| w.count(nr)).sum();
        let seen = call_count { count, ..Default::default() };
        let read = record(nr, &seen, &[(11, count / 2)], total(nr, count, &windows, rest).unwrap());
        assert_eq!(read.count, 19_900, "1990 in 100 ms of 1 s");
        assert_eq!((read.errors["EAGAIN"], read.judged()), (995, 1990), "errors are not multiplied");
        let [lo, hi] = read.count_ci95.unwrap();
        assert!(lo < 19_900.0 && hi > 19_900.0, "{lo} {hi}");
        assert_eq!(total(nr, 5, &[], rest), None, "nothing is known outside");
    }
}
