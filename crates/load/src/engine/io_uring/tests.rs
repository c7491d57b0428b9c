//! Tests the kernel's rules for both halves on real rings; fails without io_uring.

use std::time::Duration;

use super::*;
use crate::engine::Op;

/// Completion entries; the kernel allows no fewer than submission entries.
const ENTRIES: u32 = 8;
const ALL: u32 = 5 * ENTRIES + 3;

/// Submits as many no-ops as the kernel accepts before any is reaped, on a ring with these flags and a small completion
/// queue, and waits until all have completed. Returns their slots in completion order, and whether the kernel reported
/// an overflow.
fn no_ops_beyond_the_queue(flags: &str, wait: Wait) -> (Vec<u32>, bool) {
    let setup = format!("cqsize={ENTRIES},{flags}").parse().unwrap();
    let config = Config { setup, sq_entries: ENTRIES, ..Config::default() };
    // A no-op does not access memory.
    let memory = Memory { base: std::ptr::NonNull::dangling(), stride: 4096, block_bytes: 512, slots: 0 };
    let job = Job { memory, fd: None, batch: 1, commit: Commit::None };
    let entry = ReadWrite(Common::new(&config, &job));
    let Opened { mut submitter, mut reaper, .. } = open_for(&config, &job, entry).unwrap();
    let ring = Arc::clone(&reaper.ring);
    assert_eq!(ring.params.cq_entries, ENTRIES);
    let overflown = || ring.sq_flags().load(Ordering::Acquire) & sys::IORING_SQ_CQ_OVERFLOW != 0;
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut found, mut seen, mut queued) = (Vec::with_capacity(2 * ALL as usize), false, 0);
    while found.len() < ALL as usize {
        while queued < ALL {
            match submitter.queue(&Io { op: Op::Nop, slot: queued, offset: 0 }) {
                Queued::Queued => queued += 1,
                // The kernel accepts no more requests (EBUSY), or its thread has not consumed them yet.
                _ if submitter.pending() > 0 || overflown() => break,
                _ => std::thread::yield_now(),
            }
            submitter.submit().unwrap();
        }
        while ring.sq_head().load(Ordering::Acquire) != submitter.tail && !overflown() {
            submitter.submit().unwrap();
            assert!(Instant::now() < deadline, "{flags}: {queued} queued, not all are taken");
        }
        seen |= overflown();
        let in_flight = queued - submitter.pending() - found.len() as u32;
        reaper.poll(in_flight, wait, Some(deadline), &mut found).unwrap();
        reaper.clear();
        assert!(Instant::now() < deadline, "{flags} {wait:?}: {} of {queued} came back", found.len());
    }
    // No completion is returned twice.
    reaper.get_events().unwrap();
    reaper.poll(0, wait, Some(deadline), &mut found).unwrap();
    assert!(!overflown(), "nothing is left that has overflown");
    assert!(found.iter().all(|c| c.result == 0), "{found:?}");
    (found.iter().map(|c| c.slot).collect(), seen)
}

#[test]
fn overflowed_completions_are_reaped_exactly_once() {
    for flags in ["", "coop_taskrun", "coop_taskrun,taskrun_flag", "defer_taskrun,single_issuer", "sqpoll", "iopoll"] {
        for wait in [Wait::Peek, Wait::Block] {
            let (mut slots, overflown) = no_ops_beyond_the_queue(flags, wait);
            assert!(overflown, "{flags} {wait:?}: the kernel never said that completions had overflown");
            slots.sort_unstable();
            assert_eq!(slots, (0..ALL).collect::<Vec<_>>(), "{flags} {wait:?}");
        }
    }
}
