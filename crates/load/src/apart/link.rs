//! The link between a job's two threads: returned slots, and which thread sleeps.
//!
//! Atomics and futexes come from `sync`; `link_tests` replaces that module.

use std::time::Duration;

use super::sync::{AtomicBool, AtomicU32, Ordering, futex_wait, futex_wake};

pub struct Link {
    /// Returned slots. Its length is at least the number of slots, so it never overflows.
    returned: Box<[AtomicU32]>,
    /// Number of returned slots (mod 2^32). Written by the reaping thread, which wakes a submitter that sleeps on it.
    tail: AtomicU32,
    submitter_asleep: AtomicBool,
    /// I/Os queued but not reaped; the reaping thread sleeps on it at 0.
    in_flight: AtomicU32,
    reaper_asleep: AtomicBool,
    /// Number of stages whose submissions are complete.
    finished: AtomicU32,
    /// Set if either thread has failed.
    failed: AtomicBool,
}

impl Link {
    pub fn new(depth: u32) -> Self {
        Self {
            returned: (0..depth.next_power_of_two()).map(|_| AtomicU32::new(0)).collect(),
            tail: AtomicU32::new(0),
            submitter_asleep: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            reaper_asleep: AtomicBool::new(false),
            finished: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn cell(&self, index: u32) -> &AtomicU32 {
        &self.returned[index as usize & (self.returned.len() - 1)]
    }

    /// Called by the submitter: takes the slots returned since `head`.
    pub fn take_back(&self, head: &mut u32, mut each: impl FnMut(u32)) {
        // Acquire: the reaping thread has finished with the returned slots.
        let tail = self.tail.load(Ordering::Acquire);
        while *head != tail {
            each(self.cell(*head).load(Ordering::Relaxed));
            *head = head.wrapping_add(1);
        }
    }

    /// Called by the reaper: returns slots, starting at `tail`. Returns the number of system calls.
    pub fn give_back(&self, tail: &mut u32, slots: impl ExactSizeIterator<Item = u32>) -> u64 {
        let reaped = slots.len() as u32;
        for slot in slots {
            self.cell(*tail).store(slot, Ordering::Relaxed);
            *tail = tail.wrapping_add(1);
        }
        self.in_flight.fetch_sub(reaped, Ordering::SeqCst);
        self.tail.store(*tail, Ordering::SeqCst);
        self.wake_submitter()
    }

    /// Number of returned slots; called by the reaper.
    pub fn tail(&self) -> u32 {
        self.tail.load(Ordering::Relaxed)
    }

    /// Called by the submitter before the kernel receives the I/Os, so that the reaper never counts below 0.
    pub fn queued(&self, ios: u32) {
        self.in_flight.fetch_add(ios, Ordering::SeqCst);
    }

    /// Undoes `queued` for I/Os that the kernel did not accept.
    pub fn refused(&self, ios: u32) {
        self.in_flight.fetch_sub(ios, Ordering::SeqCst);
    }

    /// Whether nothing is in flight; called by both threads. Acquire: makes the other thread's earlier writes visible.
    pub fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// I/Os still in flight; called after both threads have ended.
    pub fn left(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Marks the stage's submissions as complete: the reaping thread ends the stage once nothing is in flight.
    pub fn stage_over(&self) {
        self.finished.fetch_add(1, Ordering::SeqCst);
        self.wake_reaper();
    }

    /// Whether this many stages are over.
    pub fn is_over(&self, stages: u32) -> bool {
        self.finished.load(Ordering::SeqCst) > stages || self.failed.load(Ordering::SeqCst)
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.wake_submitter();
        self.wake_reaper();
    }

    /// Sleeps until a slot after `head` is returned. SeqCst on both sides: either the sleeper sees the slot, or the
    /// other thread sees the sleeper. Returns the number of system calls.
    pub fn sleep_for_slot(&self, head: u32, span: Duration) -> u64 {
        self.submitter_asleep.store(true, Ordering::SeqCst);
        let mut calls = 0;
        if self.tail.load(Ordering::SeqCst) == head && !self.failed.load(Ordering::SeqCst) {
            calls = 1;
            futex_wait(&self.tail, head, span);
        }
        self.submitter_asleep.store(false, Ordering::SeqCst);
        calls
    }

    fn wake_submitter(&self) -> u64 {
        if !self.submitter_asleep.load(Ordering::SeqCst) {
            return 0;
        }
        futex_wake(&self.tail);
        1
    }

    /// Sleeps while nothing is in flight but more submissions may follow. `span`: maximum sleep, because `finished` can
    /// change without waking the futex.
    pub fn sleep_for_io(&self, stages: u32, span: Duration) -> u64 {
        self.reaper_asleep.store(true, Ordering::SeqCst);
        let mut calls = 0;
        if self.in_flight.load(Ordering::SeqCst) == 0 && self.finished.load(Ordering::SeqCst) == stages {
            calls = 1;
            futex_wait(&self.in_flight, 0, span);
        }
        self.reaper_asleep.store(false, Ordering::SeqCst);
        calls
    }

    pub fn wake_reaper(&self) -> u64 {
        if !self.reaper_asleep.load(Ordering::SeqCst) {
            return 0;
        }
        futex_wake(&self.in_flight);
        1
    }
}
