//! Thread and request accounting, and system calls.

use super::watched::is_estimated;
use crate::terminal::layout::{Column, Screen};
use crate::terminal::measured::{self, estimate};
use crate::terminal::spent::marked;
use iotrail_answer::traced::in_words;
use iotrail_base::words::{UNKNOWN, count, known_span, percent, plural, span};
use iotrail_schema::account::{
    Account, CallRecord, End, Iowait, Mode, Reason, RequestAccount, RequestReason, RequestRow, RequestStage, Role,
    Start, ThreadAccount, ThreadRow, ThreadState,
};
use iotrail_schema::trace_record::Total;

/// Maximum number of threads shown, longest wall time first.
const THREADS: usize = 8;
/// Maximum number of rows per thread.
const ROWS: usize = 6;
/// Maximum number of calls, most frequent first; calls with errors are always listed.
const CALLS: usize = 8;

/// Maximum number of request account rows on the first screen.
const LARGEST: usize = 4;
/// Minimum share of such a row.
const LARGE: f64 = 0.02;
/// Minimum share of the rest.
const LEAST: f64 = 0.01;

pub fn account(o: &mut Screen, account: &Account, all: &Total) {
    for thread in account.threads.iter().take(THREADS) {
        o.blank();
        o.field("thread", &head(thread));
        let columns = [
            Column::words("state", 10),
            Column::words("in", 17),
            Column::words("waits for", 20),
            Column::number("share", 7),
            Column::number("time", 8),
            Column::number("longest", 8),
        ];
        let row = |row: &ThreadRow| {
            vec![
                state(row),
                row.syscall.clone().unwrap_or_default(),
                row.reason.as_ref().map(reason).unwrap_or_default(),
                marked(share(row.ns, thread.wall_ns), row.exact),
                span(row.ns as f64),
                if row.longest_ns.is_some() { known_span(row.longest_ns) } else { UNKNOWN.into() },
            ]
        };
        o.table(&columns, thread.rows.iter().take(ROWS).map(row).collect());
        let rest: u64 = thread.rows.iter().skip(ROWS).map(|row| row.ns).sum();
        if rest > 0 {
            let rows = plural(thread.rows.len() - ROWS, "other row");
            o.field("", &[format!("{rows}: {}", percent(share(rest, thread.wall_ns)))]);
        }
    }
    let more = account.more_threads + account.threads.len().saturating_sub(THREADS) as u64;
    if more > 0 {
        o.field("not listed", &[plural(more as usize, "thread")]);
    }
    if let Some(of_threads) = &account.iowait {
        o.blank();
        o.field("iowait", &iowait(of_threads));
    }
    if let Some(requests) = &account.requests {
        self::requests(o, requests, all);
    }
}

/// iowait costs nothing, so it is a note instead of a finding.
fn iowait(of: &Iowait) -> Vec<String> {
    let mut items = vec![format!("{} blocked, idle time of the CPU and not load", span(of.ns as f64))];
    if of.enter_ns > 0 {
        items.push(format!("{} in io_uring_enter", span(of.enter_ns as f64)));
        items.push(match of.no_iowait_available {
            Some(false) => "removable by IORING_ENTER_NO_IOWAIT from Linux 6.15 on".into(),
            _ => "removable by IORING_ENTER_NO_IOWAIT".into(),
        });
    }
    items
}

fn requests(o: &mut Screen, account: &RequestAccount, all: &Total) {
    let mean = |ns: u64| span(ns as f64 / account.count.max(1) as f64);
    o.blank();
    let number = count(account.count as f64);
    let number = match account.count == all.ios {
        true => estimate(number, all.ios, "ios", &all.count_intervals),
        false if all.followed.is_estimate() || is_estimated(all) => format!("~{number}"),
        false => number,
    };
    o.field("requests", &[number, total(account)]);
    let columns = [
        Column::words("stage", 22),
        Column::words("held by", 20),
        Column::number("share", 7),
        Column::number("mean", 8),
    ];
    let row = |row: &RequestRow| {
        vec![
            in_words(&row.stage),
            row.reason.as_ref().map(in_words).unwrap_or_default(),
            share_of(row, account),
            if account.is_narrow(row) { mean(row.ns) } else { UNKNOWN.into() },
        ]
    };
    o.table(&columns, account.rows.iter().map(row).collect());
}

/// `mean 157 µs, intended → reaped`.
fn total(account: &RequestAccount) -> String {
    let from = match account.from {
        Start::Intended => "intended",
        Start::Submitted => "submitted",
    };
    let to = match account.to {
        End::Reaped => "reaped",
        End::Posted => "posted",
    };
    format!("mean {}, {from} → {to}", span(account.mean_ns()))
}

/// `~17 %`, or `–` if the interval is too wide to print.
fn share_of(row: &RequestRow, account: &RequestAccount) -> String {
    match account.is_narrow(row) {
        true => marked(share(row.ns, account.latency_sum_ns), row.exact),
        false => UNKNOWN.into(),
    }
}

fn share(ns: u64, of_ns: u64) -> f64 {
    ns as f64 / of_ns.max(1) as f64
}

/// The mean latency and its largest parts, which sum to 100 %.
pub fn requests_spent(account: &RequestAccount) -> Vec<String> {
    let of = |row: &RequestRow| share(row.ns, account.latency_sum_ns);
    let known = |row: &&RequestRow| row.stage != RequestStage::Unknown && account.is_narrow(row);
    let (shown, small): (Vec<&RequestRow>, Vec<&RequestRow>) =
        account.rows.iter().filter(known).partition(|row| of(row) >= LARGE);
    let (shown, rest) = shown.split_at(shown.len().min(LARGEST));
    if shown.is_empty() {
        return vec![total(account), "stages unknown: too few requests traced".into()];
    }
    let row = |row: &&RequestRow| format!("{} {}", at_stage(row), marked(of(row), row.exact));
    let other: f64 = rest.iter().chain(&small).map(|row| of(row)).sum();
    let unknown = 1.0 - shown.iter().map(|row| of(row)).sum::<f64>() - other;
    let exact = account.rows.iter().all(|row| row.exact);
    let rest = [("other", other), ("unknown", unknown)].into_iter().filter(|(_, part)| *part >= LEAST);
    let rest = rest.map(|(name, part)| format!("{name} {}", marked(part, exact)));
    std::iter::once(total(account)).chain(shown.iter().map(row)).chain(rest).collect()
}

/// The stage and the reason of a row: `ready, no CPU`.
fn at_stage(row: &RequestRow) -> String {
    let stage = match row.stage {
        RequestStage::Unsubmitted => "in the SQ".into(),
        RequestStage::Inline => "in submission".into(),
        RequestStage::IowqQueue => "queued for io-wq".into(),
        RequestStage::Iowq => "in io-wq".into(),
        RequestStage::Block => "block layer".into(),
        RequestStage::Posted => "posted, not reaped".into(),
        stage => in_words(&stage),
    };
    let reason = row.reason.as_ref().map(|reason| match reason {
        RequestReason::NoCpu => "no CPU".into(),
        reason => in_words(reason),
    });
    reason.map_or_else(|| stage.clone(), |reason| format!("{stage} ({reason})"))
}

fn head(thread: &ThreadAccount) -> Vec<String> {
    let role = match thread.role {
        Role::Thread => "",
        Role::Sqpoll => ", SQPOLL thread",
        Role::Iowq => ", io-wq worker",
    };
    let mut items = vec![
        format!("{} ({}{role}) of process {}", thread.comm, thread.tid, thread.tgid),
        format!("{} of wall time", span(thread.wall_ns as f64)),
    ];
    if thread.rows.iter().any(|row| !row.exact) {
        items.push("~ estimated from samples".into());
    }
    items
}

fn state(row: &ThreadRow) -> String {
    match (row.state, row.mode) {
        (ThreadState::Running, Some(Mode::User)) => "in user mode",
        (ThreadState::Running, Some(Mode::Kernel)) => "in the kernel",
        (ThreadState::Running, None) => "running",
        (ThreadState::Runnable, _) => "runnable",
        (ThreadState::Throttled, _) => "throttled",
        (ThreadState::Blocked, _) => "blocked",
        (ThreadState::Unknown, _) => "unknown",
    }
    .into()
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Function(name) => format!("{name}()"),
        _ => in_words(reason),
    }
}

pub fn calls(o: &mut Screen, calls: &[CallRecord]) {
    let columns = [
        Column::words("system call", 18),
        Column::number("calls", 8),
        Column::number("blocked", 8),
        Column::words("errors", 36),
    ];
    let shown = |(i, call): &(usize, &CallRecord)| *i < CALLS || !call.errors.is_empty();
    let row = |(_, call): (usize, &CallRecord)| {
        let errors = call.errors.iter().map(|(errno, n)| format!("{errno} {}", count(*n as f64)));
        vec![
            call.syscall.clone(),
            measured::calls(call),
            span(call.blocked_ns as f64),
            errors.collect::<Vec<_>>().join(", "),
        ]
    };
    let rows: Vec<_> = calls.iter().enumerate().filter(shown).map(row).collect();
    if !rows.is_empty() {
        o.blank();
        o.table(&columns, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_a_wide_or_unknown_interval_are_not_printed() {
        let printed = |seen, count_ci95| {
            measured::calls(&CallRecord {
                syscall: "read".into(),
                count: 19,
                seen,
                count_ci95,
                ..CallRecord::default()
            })
        };
        assert_eq!(printed(None, None), "19");
        assert_eq!(printed(Some(2), Some([18.0, 21.0])), "~19");
        assert_eq!(printed(Some(2), Some([2.0, 5.9e6])), UNKNOWN);
        assert_eq!(printed(Some(2), None), UNKNOWN);
    }

    #[test]
    fn the_parts_of_the_latency_sum_to_100_percent_and_wide_intervals_are_unknown() {
        let row = |stage, reason, ns, ns_ci95: Option<[u64; 2]>| RequestRow {
            stage,
            reason,
            ns,
            exact: ns_ci95.is_none(),
            ns_ci95,
        };
        let mut account = RequestAccount {
            count: 10,
            latency_sum_ns: 1_000_000,
            from: Start::Submitted,
            to: End::Posted,
            rows: vec![
                row(RequestStage::Device, None, 500_000, Some([480_000, 520_000])),
                row(RequestStage::Ready, Some(RequestReason::NoCpu), 300_000, None),
                row(RequestStage::Block, None, 150_000, Some([20_000, 400_000])),
                row(RequestStage::Unknown, None, 40_000, None),
                row(RequestStage::Inline, None, 10_000, None),
            ],
        };
        assert_eq!(
            requests_spent(&account),
            ["mean 100 µs, submitted → posted", "device ~50 %", "ready (no CPU) 30 %", "other ~1 %", "unknown ~19 %"]
        );
        account.rows.drain(..2);
        account.rows.truncate(2);
        assert_eq!(
            requests_spent(&account),
            ["mean 100 µs, submitted → posted", "stages unknown: too few requests traced"]
        );
    }
}
