//! Thread time by state, in a few lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use iotrail_answer::diagnose::reason_name;
use iotrail_base::words::{percent, plural};
use iotrail_schema::account::{Account, Mode, Reason, Role, ThreadAccount, ThreadRow, ThreadState};

/// Maximum number of named rows, and their minimum share.
const ROWS: usize = 6;
const LEAST: f64 = 0.01;

/// `blocked in io_uring_enter for completions 62 % · in user mode 20 %`, largest first, for the threads with this role.
/// Empty if none was seen. Idle threads of the program are counted, and excluded from the shares.
pub fn spent(account: &Account, role: Role) -> Vec<String> {
    let of_role = || account.threads.iter().filter(|thread| thread.role == role);
    let shown: Vec<&ThreadAccount> = match role {
        Role::Thread => account.active_threads(),
        _ => of_role().collect(),
    };
    let wall: u64 = shown.iter().map(|thread| thread.wall_ns).sum();
    let shares = shares(shown.iter().flat_map(|thread| &thread.rows), wall);
    let all = of_role().count();
    let base = match shown.as_slice() {
        _ if all < 2 => None,
        [thread] => Some(format!("thread {} ({})", thread.tid, thread.comm)),
        several => Some(plural(several.len(), if role == Role::Iowq { "worker" } else { "thread" })),
    };
    let idle = (all > shown.len()).then(|| format!("{} idle", plural(all - shown.len(), "other")));
    base.into_iter().chain(shares).chain(idle).collect()
}

/// Shares of this total time in these rows; they sum to 100 %.
pub fn shares<'r>(rows: impl Iterator<Item = &'r ThreadRow>, wall_ns: u64) -> Vec<String> {
    let rows: Vec<&ThreadRow> = rows.collect();
    let in_kernel = |row: &&&ThreadRow| row.mode == Some(Mode::Kernel);
    // If kernel time is known per call, the rest is outside of calls.
    let by_call = rows.iter().filter(in_kernel).any(|row| row.syscall.is_some());
    let mut sums: BTreeMap<String, (u64, bool)> = BTreeMap::new();
    for row in rows {
        let outside = by_call && in_kernel(&&row) && row.syscall.is_none();
        let label = if outside { "in page faults and interrupts".into() } else { label(row) };
        let sum = sums.entry(label).or_insert((0, true));
        *sum = (sum.0 + row.ns, sum.1 && row.exact);
    }
    let mut rows: Vec<(String, (u64, bool))> = sums.into_iter().collect();
    rows.sort_by_key(|(_, (ns, _))| Reverse(*ns));
    let share = |ns: u64| ns as f64 / wall_ns.max(1) as f64;
    let shown = rows.iter().take(ROWS).filter(|(_, (ns, _))| share(*ns) >= LEAST).count();
    let rest = &rows[shown..];
    let other = (rest.iter().map(|(_, (ns, _))| ns).sum(), rest.iter().all(|(_, (_, exact))| *exact));
    rows.truncate(shown);
    rows.extend((shown > 0 && share(other.0) >= LEAST).then(|| ("other".to_owned(), other)));
    rows.into_iter().map(|(name, (ns, exact))| format!("{name} {}", marked(share(ns), exact))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::trace::thread;

    #[test]
    fn shares_cover_the_threads_that_do_not_only_sleep_and_sum_to_100_percent() {
        let mut submits = thread(
            8,
            &[
                (ThreadState::Blocked, Some("io_submit"), Some(Reason::PageIo), 420),
                (ThreadState::Runnable, None, None, 300),
                (ThreadState::Running, Some("io_submit"), None, 200),
                (ThreadState::Running, None, None, 75),
                (ThreadState::Running, Some("fadvise64"), None, 5),
            ],
        );
        submits.rows[3].mode = Some(Mode::Kernel);
        let polls = thread(7, &[(ThreadState::Blocked, Some("pselect6"), Some(Reason::Poll), 1_000)]);
        let sleeps = thread(9, &[(ThreadState::Blocked, Some("clock_nanosleep"), Some(Reason::Sleep), 1_000)]);
        let mut account = Account { threads: vec![polls.clone(), submits, sleeps], ..Account::default() };
        assert_eq!(
            spent(&account, Role::Thread),
            [
                "thread 8 (fio)",
                "blocked in io_submit for a page read or a page lock 42 %",
                "waiting for a CPU 30 %",
                "running in io_submit 20 %",
                "in page faults and interrupts 8 %",
                "2 others idle",
            ]
        );
        // Without asynchronous requests, a wait for events is a wait for a peer.
        let works = thread(8, &[(ThreadState::Running, Some("write"), None, 1_000)]);
        account.threads = vec![polls.clone(), works];
        assert_eq!(
            spent(&account, Role::Thread),
            ["2 threads", "blocked in pselect6 for events 50 %", "running in write 50 %"]
        );
        // Rows beyond the maximum are one row, so that the shares sum to 100 %.
        let calls = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let rows: Vec<_> = calls.iter().map(|call| (ThreadState::Blocked, Some(*call), None, 100)).collect();
        account.threads = vec![thread(8, &rows)];
        let shown = spent(&account, Role::Thread);
        assert_eq!((shown.len(), &shown[5][..], &shown[6][..]), (7, "blocked in f 10 %", "other 40 %"));
        account.threads = vec![polls];
        assert_eq!(spent(&account, Role::Thread), ["blocked in pselect6 for events 100 %"]);
    }
}
