//! Between the two threads of a job: slots on their way back, and who sleeps.
//!
//! Its atomics and futexes are those of `sync`; `link_tests` has others.

use std::time::Duration;

use super::sync::{AtomicBool, AtomicU32, Ordering, futex_wait, futex_wake};

pub struct Link {
    /// Slots on their way back; as many as there are slots at least, so it never overflows.
    returned: Box<[AtomicU32]>,
    /// Slots returned so far (mod 2^32); written by the reaping thread, which wakes a submitter asleep on it.
    tail: AtomicU32,
    submitter_asleep: AtomicBool,
    /// Queued and not reaped; the reaping thread sleeps on it at 0.
    in_flight: AtomicU32,
    reaper_asleep: AtomicBool,
    /// Stages with no more submissions.
    finished: AtomicU32,
    /// Either side has failed.
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

    /// The submitter's: takes the slots that were returned since `head`.
    pub fn take_back(&self, head: &mut u32, mut each: impl FnMut(u32)) {
        // Acquire: the reaping thread is done with the slots it has returned.
        let tail = self.tail.load(Ordering::Acquire);
        while *head != tail {
            each(self.cell(*head).load(Ordering::Relaxed));
            *head = head.wrapping_add(1);
        }
    }

    /// Reaper: returns slots from `tail` on. Returns the number of system calls.
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

    /// Slots returned so far, of the reaper that returns them.
    pub fn tail(&self) -> u32 {
        self.tail.load(Ordering::Relaxed)
    }

    /// The submitter's, before the kernel has them, so that the reaping thread never counts below 0.
    pub fn queued(&self, ios: u32) {
        self.in_flight.fetch_add(ios, Ordering::SeqCst);
    }

    /// The kernel has not accepted this many of them.
    pub fn refused(&self, ios: u32) {
        self.in_flight.fetch_sub(ios, Ordering::SeqCst);
    }

    /// Checked by both sides. Acquire: makes the other side's earlier writes visible.
    pub fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// At the end, of both threads.
    pub fn left(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Nothing more is submitted in this stage: the reaping thread ends its own when nothing is in flight any more.
    pub fn stage_over(&self) {
        self.finished.fetch_add(1, Ordering::SeqCst);
        self.wake_reaper();
    }

    /// Whether that is true after this many stages.
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

    /// Sleeps while no slot after `head` was returned. SeqCst on both sides: either the sleeper sees the slot or the
    /// other side sees the sleeper. Returns the number of system calls.
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

    /// Sleeps while nothing is in flight and more may come. `span`: `finished` can change without a wake-up of the futex.
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
