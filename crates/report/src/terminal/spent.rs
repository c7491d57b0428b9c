//! Thread time by state, in a few lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use iotrail_answer::diagnose::reason_name;
use iotrail_base::words::percent;
use iotrail_schema::account::{Account, Mode, Reason, Role, ThreadAccount, ThreadRow, ThreadState};

/// Maximum number of named rows, and their minimum share.
const ROWS: usize = 6;
const LEAST: f64 = 0.01;

/// `blocked in io_uring_enter for completions 62 % · in user mode 20 %`, largest first. Empty if no thread with this
/// role was seen.
pub fn spent(account: &Account, role: Role) -> Vec<String> {
    let of_role: Vec<&ThreadAccount> = account.threads.iter().filter(|thread| thread.role == role).collect();
    let wall: u64 = of_role.iter().map(|thread| thread.wall_ns).sum();
    shares(of_role.iter().flat_map(|thread| &thread.rows), wall)
}

/// The same for these rows, relative to this total time.
pub fn shares<'r>(rows: impl Iterator<Item = &'r ThreadRow>, wall_ns: u64) -> Vec<String> {
    let mut sums: BTreeMap<String, (u64, bool)> = BTreeMap::new();
    for row in rows {
        let sum = sums.entry(label(row)).or_insert((0, true));
        *sum = (sum.0 + row.ns, sum.1 && row.exact);
    }
    let mut rows: Vec<(String, (u64, bool))> = sums.into_iter().collect();
    rows.sort_by_key(|(_, (ns, _))| Reverse(*ns));
    let share = |ns: u64| ns as f64 / wall_ns.max(1) as f64;
    let row = |(name, (ns, exact)): (String, (u64, bool))| format!("{name} {}", marked(share(ns), exact));
    rows.into_iter().filter(|(_, (ns, _))| share(*ns) >= LEAST).take(ROWS).map(row).collect()
}

/// A share, prefixed by ~ if it is an estimate.
pub fn marked(share: f64, exact: bool) -> String {
    format!("{}{}", if exact { "" } else { "~" }, percent(share))
}

/// `blocked in io_uring_enter for completions`.
pub fn label(row: &ThreadRow) -> String {
    let call = row.syscall.as_deref().map(|name| name.trim_end_matches("64"));
    match (row.state, row.mode) {
        (ThreadState::Running, Some(Mode::User)) => "in user mode".into(),
        (ThreadState::Running, Some(Mode::Kernel)) => {
            call.map_or("in the kernel".into(), |call| format!("running in {call}"))
        }
        (ThreadState::Running, None) => "running".into(),
        (ThreadState::Runnable, _) => "waiting for a CPU".into(),
        (ThreadState::Throttled, _) => "held by the CPU quota".into(),
        (ThreadState::Unknown, _) => "unknown".into(),
        (ThreadState::Blocked, _) => {
            let call = call.map_or(String::new(), |call| format!(" in {call}"));
            let named_by_call = matches!(
                (row.syscall.as_deref(), &row.reason),
                (Some("futex"), Some(Reason::Futex)) | (Some("clock_nanosleep" | "nanosleep"), Some(Reason::Sleep))
            );
            let reason = row.reason.as_ref().filter(|_| !named_by_call);
            let reason = reason.map(|reason| format!(" for {}", reason_name(reason))).unwrap_or_default();
            format!("blocked{call}{reason}")
        }
    }
}
