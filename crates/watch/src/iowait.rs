//! Adds the blocked time that counts as iowait: the total, and each ring's share. Pure.

use std::collections::{BTreeMap, BTreeSet};

use iotrail_schema::account::{Account, Iowait, ThreadAccount};
use iotrail_schema::trace_record::{RingRecord, TraceRecord};

/// Requires the threads' accounts in `record`. `available`: whether the kernel has IORING_ENTER_NO_IOWAIT.
pub(crate) fn add(record: &mut TraceRecord, available: impl Fn() -> Option<bool>) {
    let Some(account) = &mut record.account else { return };
    account.iowait = sum(account).map(|all| Iowait { no_iowait_available: available(), ..all });
    // If some threads are not listed, a ring's sum may be incomplete.
    if account.more_threads == 0 {
        let waits = |thread: &ThreadAccount| (thread.tid, enter_ns(thread));
        of_rings(&mut record.rings, &account.threads.iter().map(waits).collect());
    }
}

fn enter_ns(thread: &ThreadAccount) -> u64 {
    thread.rows.iter().filter(|row| row.is_completion_wait()).map(|row| row.iowait_ns).sum()
}

fn sum(account: &Account) -> Option<Iowait> {
    let ns = account.threads.iter().map(|thread| thread.iowait_ns).sum();
    let enter_ns = account.threads.iter().map(enter_ns).sum();
    (ns > 0).then_some(Iowait { ns, enter_ns, no_iowait_available: None })
}

/// A thread's account does not separate its waits by ring. A ring therefore has a sum only if its threads wait on no
/// other ring.
fn of_rings(rings: &mut [RingRecord], of_threads: &BTreeMap<u32, u64>) {
    let mut waited: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for ring in rings.iter() {
        for thread in ring.threads.iter().flat_map(|t| &t.threads).filter(|thread| thread.waits > 0) {
            waited.entry(thread.tid).or_default().insert(ring.ring);
        }
    }
    for ring in rings {
        let Some(waits) = &mut ring.enter_waits else { continue };
        let threads = ring.threads.as_ref().filter(|t| t.more == 0).map(|t| t.threads.as_slice());
        let waiters = threads.map(|threads| threads.iter().filter(|thread| thread.waits > 0));
        waits.iowait_ns = match waiters {
            _ if waits.waits == 0 => Some(0),
            Some(mut waiters) if waiters.clone().next().is_some() => waiters.try_fold(0, |all, thread| {
                let only = waited[&thread.tid].len() == 1;
                of_threads.get(&thread.tid).filter(|_| only).map(|ns| all + ns)
            }),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::account::{Reason, ThreadRow, ThreadState};
    use iotrail_schema::trace_record::{EnterWaits, RingThreads, ThreadRecord};

    const MS: u64 = 1_000_000;

    fn thread(tid: u32, waits_ms: u64, other_ms: u64) -> ThreadAccount {
        let row = |reason, iowait_ns| ThreadRow {
            syscall: Some("io_uring_enter".into()),
            reason: Some(reason),
            iowait_ns,
            ..ThreadRow::new(ThreadState::Blocked, 10_000 * MS)
        };
        let rows = vec![row(Reason::UringCompletions, waits_ms * MS), row(Reason::RequestTag, other_ms * MS)];
        ThreadAccount { tid, iowait_ns: (waits_ms + other_ms) * MS, rows, ..ThreadAccount::default() }
    }

    fn ring(number: u32, waiters: &[u32], more: u64) -> RingRecord {
        let of = |tid: &u32| ThreadRecord { tid: *tid, waits: 5, ..ThreadRecord::default() };
        let threads = waiters.iter().map(of).collect();
        RingRecord {
            ring: number,
            enter_waits: Some(EnterWaits { waits: 5 * waiters.len() as u64, ..EnterWaits::default() }),
            threads: Some(RingThreads { threads, more, ..RingThreads::default() }),
            ..iotrail_testing::trace::clean().rings.remove(0)
        }
    }

    #[test]
    fn only_threads_that_wait_on_a_ring_contribute_to_its_iowait() {
        let mut record = iotrail_testing::trace::clean();
        let threads = vec![thread(7, 100, 20), thread(8, 30, 0), thread(9, 5, 0)];
        record.account = Some(Account { threads, ..Account::default() });
        // 9 waits on rings 3 and 4; no thread waits on 5; some threads of 6 are unknown.
        let rings = [ring(1, &[7], 0), ring(2, &[8], 0), ring(3, &[9], 0), ring(4, &[9], 0), ring(5, &[], 0)];
        record.rings = rings.into_iter().chain([ring(6, &[8], 1)]).collect();
        record.rings[5].threads.as_mut().unwrap().threads[0].tid = 10;
        add(&mut record, || Some(true));
        let of = |r: &RingRecord| r.enter_waits.unwrap().iowait_ns;
        let wanted = [Some(100 * MS), Some(30 * MS), None, None, Some(0), None];
        assert_eq!(record.rings.iter().map(of).collect::<Vec<_>>(), wanted);
        let all = record.account.unwrap().iowait;
        assert_eq!(all, Some(Iowait { ns: 155 * MS, enter_ns: 135 * MS, no_iowait_available: Some(true) }));
    }
}
