//! Per-process thread time within an interval, from the threads' totals at both ends. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use iotrail_schema::account::{Reason, Role, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::top_record::ThreadTime;

/// Running time is not split further: its parts are estimates, which may decrease.
type Key = (ThreadState, Option<String>, Option<Reason>);
/// Time in ns, and whether it is exact.
type Sums = BTreeMap<Key, (u64, bool)>;

/// A thread's times up to the last interval.
#[derive(Debug, Default)]
struct Before {
    wall_ns: u64,
    rows: BTreeMap<Key, u64>,
}

#[derive(Debug, Default)]
pub struct ThreadMeter {
    before: HashMap<u32, Before>,
}

impl ThreadMeter {
    /// Times per process. `now`: the threads' totals, by unique thread number.
    pub fn turn(&mut self, now: Vec<(u32, ThreadAccount)>) -> BTreeMap<u32, ThreadTime> {
        let mut all: BTreeMap<u32, (ThreadTime, Sums)> = BTreeMap::new();
        let mut after = HashMap::new();
        for (number, thread) in now.into_iter().filter(|(_, thread)| thread.role == Role::Thread) {
            let before = self.before.remove(&number).unwrap_or_default();
            let (time, sums) = all.entry(thread.tgid).or_default();
            time.threads += 1;
            time.wall_ns += thread.wall_ns.saturating_sub(before.wall_ns);
            let mut rows: Sums = BTreeMap::new();
            for row in thread.rows {
                let is_divided = row.state == ThreadState::Running;
                let key = if is_divided { (row.state, None, None) } else { (row.state, row.syscall, row.reason) };
                let sum = rows.entry(key).or_insert((0, true));
                *sum = (sum.0 + row.ns, sum.1 && (is_divided || row.exact));
            }
            for (key, (ns, exact)) in &rows {
                let sum = sums.entry(key.clone()).or_insert((0, true));
                *sum = (sum.0 + ns.saturating_sub(before.rows.get(key).copied().unwrap_or(0)), sum.1 && *exact);
            }
            let rows = rows.into_iter().map(|(key, (ns, _))| (key, ns)).collect();
            after.insert(number, Before { wall_ns: thread.wall_ns, rows });
        }
        self.before = after;
        all.into_iter().map(|(tgid, (time, sums))| (tgid, ThreadTime { rows: rows(sums), ..time })).collect()
    }
}

fn rows(sums: Sums) -> Vec<ThreadRow> {
    let row = |((state, syscall, reason), (ns, exact))| {
        let (mode, longest_ns, count) = (None, None, None);
        ThreadRow { state, mode, syscall, reason, ns, iowait_ns: 0, longest_ns, count, exact }
    };
    let mut rows: Vec<ThreadRow> = sums.into_iter().map(row).filter(|row| row.ns > 0).collect();
    rows.sort_by_key(|row| Reverse(row.ns));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tgid: u32, running: u64, asleep: u64) -> ThreadAccount {
        let row = |state, ns| rows([((state, None, None), (ns, true))].into());
        let rows = [row(ThreadState::Running, running), row(ThreadState::Blocked, asleep)].concat();
        ThreadAccount { tid: tgid, tgid, wall_ns: running + asleep, rows, ..ThreadAccount::default() }
    }

    #[test]
    fn thread_times_are_relative_to_the_last_interval() {
        let mut meter = ThreadMeter::default();
        meter.turn(vec![(1, thread(7, 100, 900)), (2, thread(7, 500, 500))]);
        let time = &meter.turn(vec![(1, thread(7, 400, 1600)), (3, thread(7, 0, 500))])[&7];
        assert_eq!((time.threads, time.wall_ns), (2, 1500), "a thread that began in between has no time before");
        assert_eq!(time.rows.iter().map(|row| row.ns).collect::<Vec<_>>(), [1200, 300]);
        assert!((time.average(ThreadState::Running) - 0.4).abs() < 1e-9);
    }
}
