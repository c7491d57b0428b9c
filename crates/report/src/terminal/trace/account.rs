//! The threads' account, and their system calls.

use crate::terminal::layout::{Column, Screen};
use iotrail_base::words::{UNKNOWN, count, known_span, percent, plural, span};
use iotrail_schema::account::{Account, CallRecord, Mode, Reason, Role, ThreadAccount, ThreadRow, ThreadState};

/// Threads that are shown, the longest wall time first.
const THREADS: usize = 8;
/// Rows of a thread.
const ROWS: usize = 6;
/// Calls, the most frequent first, those with errors in any case.
const CALLS: usize = 8;

pub fn account(o: &mut Screen, account: &Account) {
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
                share(row, thread.wall_ns),
                span(row.ns as f64),
                if row.longest_ns.is_some() { known_span(row.longest_ns) } else { UNKNOWN.into() },
            ]
        };
        o.table(&columns, thread.rows.iter().take(ROWS).map(row).collect());
        let rest: u64 = thread.rows.iter().skip(ROWS).map(|row| row.ns).sum();
        if rest > 0 {
            let rows = plural(thread.rows.len() - ROWS, "other row");
            o.field("", &[format!("{rows}: {}", percent(rest as f64 / thread.wall_ns.max(1) as f64))]);
        }
    }
    let more = account.more_threads + account.threads.len().saturating_sub(THREADS) as u64;
    if more > 0 {
        o.field("not listed", &[plural(more as usize, "thread")]);
    }
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
        items.push("~ divided by samples".into());
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

/// As JSON has it, in words.
fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Function(name) => format!("{name}()"),
        _ => serde_json::to_value(reason)
            .ok()
            .and_then(|value| value.as_str().map(|name| name.replace('_', " ")))
            .unwrap_or_default(),
    }
}

fn share(row: &ThreadRow, wall_ns: u64) -> String {
    let share = percent(row.ns as f64 / wall_ns.max(1) as f64);
    if row.exact { share } else { format!("~{share}") }
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
        let about = if call.count_ci95.is_some() { "~" } else { "" };
        let errors = call.errors.iter().map(|(errno, n)| format!("{errno} {}", count(*n as f64)));
        vec![
            call.syscall.clone(),
            format!("{about}{}", count(call.count as f64)),
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
