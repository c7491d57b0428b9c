//! One thread's account: rows that sum to its wall time. The times come from the thread's context switches and, between
//! windows, from the kernel's counters.

use std::collections::BTreeMap;

use crate::raw::text;
use crate::skel::types;
use iotrail_path::delivery::{IO_URING_ENTER, syscall_name};
use iotrail_path::sleep::reason_of_call;
use iotrail_schema::account::{Mode, Reason, Role, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::runnable::HadCpu;

/// include/linux/sched.h
const PF_IO_WORKER: u32 = 0x10;

/// `HOLDER_UNSEEN` in record.h.
const HOLDER_UNSEEN: u32 = u32::MAX;
/// `KERNEL_BUSY_POLL` in record.h.
const KERNEL_BUSY_POLL: u32 = u32::MAX;

/// Minimum number of ticks for a split into user and system time by ticks.
const TICKS: u64 = 25;
const TICK_NS: u64 = 4_000_000;

/// A system call's number and the flags of its sleeps.
type Call = (i32, u32);

/// Sleeps of one kind.
pub(crate) struct Sleep {
    pub key: types::sleep_key,
    pub sum: types::sleep_sum,
    /// From the sampled stack; `None` if no stack was sampled.
    pub reason: Option<Reason>,
}

impl Sleep {
    fn has(&self, flag: types::sleep_flag) -> bool {
        self.key.flags.0 & flag.0 != 0
    }

    fn call(&self) -> Call {
        (self.key.nr, self.key.flags.0 & !types::sleep_flag::SLEEP_SAMPLED.0)
    }
}

/// Map entries of one thread.
#[derive(Default)]
pub(crate) struct ThreadEntries {
    pub sleeps: Vec<Sleep>,
    /// Threads that occupied the CPU while this thread was runnable.
    pub holders: Vec<(u32, types::holder)>,
    /// Kernel time by system call, from ticks; for busy polling, measured.
    pub kernel_ns: BTreeMap<u32, u64>,
}

/// Maximum number of listed CPU holders.
const HOLDERS: usize = 8;

fn holders(holders: &[(u32, types::holder)]) -> Vec<HadCpu> {
    let all: u64 = holders.iter().map(|(_, of)| of.ns).sum();
    let mut holders: Vec<&(u32, types::holder)> = holders.iter().collect();
    holders.sort_by_key(|(tid, of)| (std::cmp::Reverse(of.ns), *tid));
    let had = |(tid, of): &(u32, types::holder)| HadCpu {
        tid: (*tid != HOLDER_UNSEEN).then_some(*tid),
        comm: (*tid != HOLDER_UNSEEN).then(|| text(&of.comm)),
        share: of.ns as f64 / all.max(1) as f64,
    };
    holders.into_iter().take(HOLDERS).map(had).collect()
}

/// Name of a system call by number, if the thread was in a system call.
pub(crate) fn call_name(nr: i32) -> Option<String> {
    u32::try_from(nr).ok().map(syscall_name)
}

/// `sampled`: switches were not observed between windows, so the kernel's counters give the total.
pub(crate) fn thread(total: &types::thread_total, of: &ThreadEntries, sampled: bool) -> ThreadAccount {
    let comm = text(&total.comm);
    let role = match total.flags & PF_IO_WORKER {
        0 => Role::Thread,
        _ if comm.starts_with("iou-sqp") => Role::Sqpoll,
        _ => Role::Iowq,
    };
    let (began, ended) = (&total.began, &total.ended);
    let since = |of: fn(&types::thread_counters) -> u64| of(ended).saturating_sub(of(began));
    let wall_ns = since(|c| c.ns);
    let cpu_ns = since(|c| c.ran_ns);
    let mut waiting = vec![
        row(ThreadState::Runnable, Some(Reason::Woken), &total.woken),
        row(ThreadState::Runnable, Some(Reason::Preempted), &total.preempted),
        row(ThreadState::Throttled, None, &total.throttled),
    ];
    let mut blocked = sleep_rows(&of.sleeps);
    let mut running_ns = total.running_ns;
    if sampled {
        let off = wall_ns.saturating_sub(cpu_ns);
        running_ns = wall_ns - off;
        let queued = since(|c| c.queued_ns).min(off);
        expand(&mut waiting, queued, ThreadState::Runnable);
        expand(&mut blocked, off - queued, ThreadState::Blocked);
    }
    let mut rows = running_rows(running_ns, since(|c| c.user_ns), since(|c| c.system_ns), &of.kernel_ns);
    rows.append(&mut waiting);
    rows.append(&mut blocked);
    let seen: u64 = rows.iter().map(|row| row.ns).sum();
    rows.push(ThreadRow::new(ThreadState::Unknown, wall_ns.saturating_sub(seen)));
    rows.retain(|row| row.ns > 0);
    rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    let cpu_had = holders(&of.holders);
    let iowait_ns = rows.iter().map(|row| row.iowait_ns).sum();
    ThreadAccount {
        tid: total.tid,
        tgid: total.tgid,
        comm,
        role,
        wall_ns,
        cpu_ns: Some(cpu_ns),
        cpus: Some(total.cpus),
        only_cpu: (total.cpus == 1).then_some(total.cpu),
        policy: policy(total.policy),
        nice: nice(total.policy, total.priority),
        iowait_ns,
        rows,
        cpu_had,
    }
}

/// Name of a SCHED_* policy (include/uapi/linux/sched.h); `None` for SCHED_NORMAL.
fn policy(policy: u16) -> Option<String> {
    let name = match policy {
        0 => return None,
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        _ => "another policy",
    };
    Some(name.into())
}

/// `None` if the nice value is 0 or the policy has no nice value.
fn nice(policy: u16, priority: u16) -> Option<i32> {
    Some(i32::from(priority) - 120).filter(|nice| matches!(policy, 0 | 3) && *nice != 0 && priority >= 100)
}

fn row(state: ThreadState, reason: Option<Reason>, sum: &types::sleep_sum) -> ThreadRow {
    ThreadRow { reason, longest_ns: Some(sum.longest_ns), count: Some(sum.count), ..ThreadRow::new(state, sum.ns) }
}

/// Scales `ns` by `part` / `whole`.
fn share(ns: u64, part: u64, whole: u64) -> u64 {
    (u128::from(ns) * u128::from(part)).checked_div(whole.into()).unwrap_or(0) as u64
}

/// Splits running time by mode, and kernel time by system call, in proportion to the ticks if there are enough.
fn running_rows(ns: u64, user_ns: u64, system_ns: u64, by_call: &BTreeMap<u32, u64>) -> Vec<ThreadRow> {
    let polled = by_call.get(&KERNEL_BUSY_POLL).copied().unwrap_or(0).min(ns);
    let polling = ThreadRow {
        mode: Some(Mode::Kernel),
        syscall: call_name(IO_URING_ENTER as i32),
        reason: Some(Reason::BusyPoll),
        ..ThreadRow::new(ThreadState::Running, polled)
    };
    if user_ns + system_ns < TICKS * TICK_NS {
        return vec![ThreadRow::new(ThreadState::Running, ns - polled), polling];
    }
    let user = share(ns, user_ns, user_ns + system_ns).min(ns - polled);
    let of = |mode, ns| ThreadRow { mode: Some(mode), exact: false, ..ThreadRow::new(ThreadState::Running, ns) };
    let kernel = ns - user;
    let mut left = kernel - polled;
    let mut rows = vec![of(Mode::User, user)];
    let ticks = || by_call.iter().filter(|(nr, _)| **nr != KERNEL_BUSY_POLL);
    let whole = system_ns.max(ticks().map(|(_, ns)| ns).sum());
    for (nr, call_ns) in ticks() {
        let busy = if *nr == IO_URING_ENTER { polled } else { 0 };
        let part = share(kernel, *call_ns, whole).saturating_sub(busy).min(left);
        left -= part;
        rows.push(ThreadRow { syscall: call_name(*nr as i32), ..of(Mode::Kernel, part) });
    }
    rows.extend([of(Mode::Kernel, left), polling]);
    rows
}

/// Distributes sleeps without a stack in proportion to the sampled sleeps in the same call. Without samples, the call
/// itself may imply the reason.
fn sleep_rows(sleeps: &[Sleep]) -> Vec<ThreadRow> {
    let mut samples: BTreeMap<Call, BTreeMap<&Reason, u64>> = BTreeMap::new();
    for sleep in sleeps.iter().filter(|sleep| sleep.has(types::sleep_flag::SLEEP_SAMPLED)) {
        if let Some(reason) = &sleep.reason {
            *samples.entry(sleep.call()).or_default().entry(reason).or_default() += sleep.sum.ns.max(1);
        }
    }
    // Each row, and its time that is distributed by samples.
    let mut rows: BTreeMap<(i32, Option<Reason>), (ThreadRow, u64)> = BTreeMap::new();
    let mut add = |key: &types::sleep_key, reason: Option<&Reason>, sum: types::sleep_sum, exact: bool| {
        let nr = key.nr;
        let empty = || ThreadRow {
            syscall: call_name(nr),
            ..row(ThreadState::Blocked, reason.cloned(), &types::sleep_sum::default())
        };
        let (row, divided) = rows.entry((nr, reason.cloned())).or_insert_with(|| (empty(), 0));
        row.ns += sum.ns;
        row.iowait_ns += if key.flags.0 & types::sleep_flag::SLEEP_IO.0 != 0 { sum.ns } else { 0 };
        row.count = row.count.map(|count| count + sum.count);
        row.longest_ns = row.longest_ns.max(Some(sum.longest_ns));
        *divided += if exact { 0 } else { sum.ns };
    };
    for sleep in sleeps {
        let (key, sum) = (&sleep.key, sleep.sum);
        if sleep.reason.is_some() {
            add(key, sleep.reason.as_ref(), sum, true);
            continue;
        }
        match samples.get(&sleep.call()) {
            Some(of) if of.len() > 1 => {
                let all: u64 = of.values().sum();
                let mut left = sum;
                for (i, (reason, ns)) in of.iter().enumerate() {
                    let last = i + 1 == of.len();
                    let part = |n: u64, left: u64| if last { left } else { share(n, *ns, all).min(left) };
                    let (ns, count) = (part(sum.ns, left.ns), part(sum.count, left.count));
                    (left.ns, left.count) = (left.ns - ns, left.count - count);
                    add(key, Some(reason), types::sleep_sum { ns, count, longest_ns: 0 }, false);
                }
            }
            // The call implies the reason, or all samples agree.
            of => {
                let deep = sleep.has(types::sleep_flag::SLEEP_DEEP);
                let only = call_name(key.nr).filter(|_| !deep).and_then(|name| reason_of_call(&name));
                let sampled = of.and_then(|of| of.keys().next().copied());
                add(key, sampled.or(only.as_ref()), sum, sampled.is_none() || sampled == only.as_ref());
            }
        }
    }
    rows.into_values().map(|(row, divided)| ThreadRow { exact: divided <= row.ns / 100, ..row }).collect()
}

/// Scales the rows, which are a sample, to `ns` and keeps their proportions. Without rows, all of the time becomes one
/// row in `state`.
fn expand(rows: &mut Vec<ThreadRow>, ns: u64, state: ThreadState) {
    let seen: u64 = rows.iter().map(|row| row.ns).sum();
    if seen == 0 {
        *rows = vec![ThreadRow::new(state, ns)];
        return;
    }
    let mut left = ns;
    rows.retain(|row| row.ns > 0);
    let last = rows.len() - 1;
    for (i, row) in rows.iter_mut().enumerate() {
        let of_all = if i == last { left } else { share(ns, row.ns, seen).min(left) };
        row.iowait_ns = share(of_all, row.iowait_ns, row.ns);
        row.ns = of_all;
        left -= row.ns;
        // Counts and maxima cover only the windows.
        (row.count, row.longest_ns, row.exact) = (None, None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(ns: u64, ran_ns: u64, queued_ns: u64) -> types::thread_counters {
        types::thread_counters { ns, ran_ns, queued_ns, ..Default::default() }
    }

    fn sleep(nr: i32, flags: u32, ns: u64, count: u64, reason: Option<Reason>) -> Sleep {
        let key = types::sleep_key { nr, flags: types::sleep_flag(flags), ..Default::default() };
        Sleep { key, sum: types::sleep_sum { ns, count, longest_ns: ns }, reason }
    }

    fn of(sleeps: Vec<Sleep>) -> ThreadEntries {
        ThreadEntries { sleeps, ..ThreadEntries::default() }
    }

    const SAMPLED: u32 = types::sleep_flag::SLEEP_SAMPLED.0;
    const ENTER: i32 = 426;
    const READ: i32 = libc::SYS_read as i32;

    fn total() -> types::thread_total {
        types::thread_total {
            began: counters(1000, 500, 10),
            ended: counters(11_000, 2500, 1010),
            running_ns: 2000,
            woken: types::sleep_sum { ns: 1000, count: 10, longest_ns: 500 },
            ..Default::default()
        }
    }

    fn ns(account: &ThreadAccount, state: ThreadState) -> u64 {
        account.rows.iter().filter(|row| row.state == state).map(|row| row.ns).sum()
    }

    #[test]
    fn time_rows_add_up_to_the_wall_time_with_a_row_for_unobserved_time() {
        let whole = thread(&total(), &of(vec![sleep(ENTER, 0, 7000, 10, Some(Reason::RequestTag))]), false);
        assert_eq!((whole.wall_ns, whole.cpu_ns), (10_000, Some(2000)));
        assert_eq!(whole.rows.iter().map(|row| row.ns).sum::<u64>(), whole.wall_ns);
        assert_eq!(ns(&whole, ThreadState::Unknown), 0);
        let first = &whole.rows[0];
        assert_eq!(
            (first.syscall.as_deref(), first.reason.clone()),
            (Some("io_uring_enter"), Some(Reason::RequestTag))
        );
        let part = thread(&total(), &of(vec![sleep(ENTER, 0, 6000, 10, None)]), false);
        assert_eq!(ns(&part, ThreadState::Unknown), 1000);
    }

    #[test]
    fn short_sleeps_are_attributed_like_sampled_sleeps_of_the_same_call() {
        let sleeps = [
            sleep(READ, SAMPLED, 30, 3, Some(Reason::PipeEmpty)),
            sleep(READ, SAMPLED, 10, 1, Some(Reason::SocketData)),
            sleep(READ, 0, 4000, 400, None),
            sleep(ENTER, 0, 500, 50, None),
            sleep(ENTER, types::sleep_flag::SLEEP_DEEP.0, 700, 7, None),
        ];
        let rows = sleep_rows(&sleeps);
        let of = |nr: &str, reason: Option<Reason>| {
            let row = rows.iter().find(|r| r.syscall.as_deref() == Some(nr) && r.reason == reason).unwrap();
            (row.ns, row.count, row.exact)
        };
        assert_eq!(of("read", Some(Reason::PipeEmpty)), (3030, Some(303), false));
        assert_eq!(of("read", Some(Reason::SocketData)), (1010, Some(101), false));
        assert_eq!(of("io_uring_enter", Some(Reason::UringCompletions)), (500, Some(50), true));
        assert_eq!(of("io_uring_enter", None), (700, Some(7), true), "a deep sleep is not a wait for completions");
    }

    #[test]
    fn iowait_is_the_time_of_sleeps_marked_as_iowait() {
        let io = types::sleep_flag::SLEEP_IO.0;
        let deep = types::sleep_flag::SLEEP_DEEP.0;
        let sleeps = [
            sleep(ENTER, io, 4000, 40, None),
            sleep(ENTER, 0, 500, 5, None),
            sleep(ENTER, io | deep, 300, 3, Some(Reason::RequestTag)),
            sleep(READ, io | deep, 200, 2, None),
        ];
        let whole = thread(&total(), &of(sleeps.into()), false);
        let of_waits: u64 = whole.rows.iter().filter(|row| row.is_completion_wait()).map(|row| row.iowait_ns).sum();
        assert_eq!((whole.iowait_ns, of_waits), (4500, 4000));
        let row = whole.rows.iter().find(|row| row.is_completion_wait()).unwrap();
        assert_eq!((row.ns, row.count), (4500, Some(45)), "waits in and outside of iowait are one row");
        // 5000 of 7000 sleeps were sampled.
        let part = thread(&total(), &of(vec![sleep(ENTER, io, 4000, 40, None), sleep(ENTER, 0, 1000, 5, None)]), true);
        assert_eq!(part.iowait_ns, 5600);
    }

    #[test]
    fn window_samples_break_down_the_exact_totals() {
        let mut seen = total();
        seen.running_ns = 20;
        seen.woken = types::sleep_sum { ns: 5, count: 1, longest_ns: 5 };
        seen.preempted = types::sleep_sum { ns: 15, count: 1, longest_ns: 15 };
        let sleeps =
            vec![sleep(ENTER, 0, 30, 1, Some(Reason::UringCompletions)), sleep(74, 0, 40, 1, Some(Reason::Writeback))];
        let account = thread(&seen, &of(sleeps), true);
        assert_eq!(ns(&account, ThreadState::Running), 2000);
        assert_eq!(ns(&account, ThreadState::Runnable), 1000);
        let rows: Vec<_> = account.rows.iter().map(|row| (row.ns, row.reason.clone(), row.exact)).collect();
        assert_eq!(rows[0], (4000, Some(Reason::Writeback), false));
        assert_eq!(rows[1], (3000, Some(Reason::UringCompletions), false));
        let unseen = thread(&seen, &ThreadEntries::default(), true);
        assert!(unseen.rows.iter().any(|row| row.state == ThreadState::Blocked && row.ns == 7000 && row.exact));
    }

    #[test]
    fn running_time_is_divided_by_mode_if_there_are_enough_ticks() {
        let few = running_rows(1000, TICK_NS, 3 * TICK_NS, &BTreeMap::new());
        assert_eq!(few.iter().map(|row| (row.mode, row.ns)).next(), Some((None, 1000)));
        let by_call = BTreeMap::from([(ENTER as u32, 60 * TICK_NS)]);
        let rows = running_rows(1000, 25 * TICK_NS, 75 * TICK_NS, &by_call);
        assert_eq!((rows[0].mode, rows[0].ns, rows[0].exact), (Some(Mode::User), 250, false));
        assert_eq!((rows[1].syscall.as_deref(), rows[1].ns, rows[2].ns), (Some("io_uring_enter"), 600, 150));
        let polled = by_call.into_iter().chain([(KERNEL_BUSY_POLL, 500)]).collect();
        let rows = running_rows(1000, 25 * TICK_NS, 75 * TICK_NS, &polled);
        assert_eq!(rows.iter().map(|row| row.ns).collect::<Vec<_>>(), [250, 100, 150, 500], "a part of its call");
        assert_eq!((rows[3].reason.clone(), rows[3].exact), (Some(Reason::BusyPoll), true));
        assert_eq!(running_rows(1000, 0, 0, &polled).iter().map(|row| row.ns).collect::<Vec<_>>(), [500, 500]);
    }

    #[test]
    fn cpu_holders_have_shares_of_the_known_time() {
        let had = |ns| types::holder { ns, ..Default::default() };
        let had = holders(&[(0, had(10)), (HOLDER_UNSEEN, had(30)), (7, had(60))]);
        assert_eq!(
            had.iter().map(|by| (by.tid, by.share)).collect::<Vec<_>>(),
            [(Some(7), 0.6), (None, 0.3), (Some(0), 0.1)]
        );
    }
}
