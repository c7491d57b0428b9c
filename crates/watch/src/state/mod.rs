//! Samples kernel state of the traced threads, rings and sockets that exists anyway, without a probe.

mod limits;
mod queues;
pub(crate) mod sums;
mod waits;

use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace::Numbers;
use iotrail_probe::snapshot::{Reader, Reading, Ring, Snapshot};
use iotrail_schema::account::RequestAccount;
use iotrail_schema::state::{Moment, StateRecord};
use iotrail_stats::random::Random;
use limits::Limits;
use queues::Queues;
use sums::Sums;
use waits::Waits;

/// Minimum interval between two samples. A random time is added, because programs and timer ticks are periodic.
const PERIOD: Duration = Duration::from_millis(8);
const JITTER_NS: u64 = 8_000_000;

/// Interval between two deep samples, which also read lists and stacks.
const DEEP: Duration = Duration::from_millis(500);

/// Samples may use 1 in this many parts of a CPU.
const PART: u32 = 100;

/// Interval between the two readings of the initial state.
const APART: Duration = Duration::from_millis(200);

/// Maximum number of processes read per sample.
const PROCESSES: usize = 32;

/// The sampler and the sums of its samples.
#[derive(Debug)]
pub struct State {
    reader: Option<Reader>,
    opening: Option<JoinHandle<Option<Reader>>>,
    numbers: Rc<Numbers>,
    sums: Sums,
    queues: Queues,
    limits: Limits,
    waits: Waits,
    /// Some processes were not read.
    is_partial: bool,
    random: Random,
    start: Option<Moment>,
    next: Instant,
    deep: Instant,
}

impl State {
    /// Loads the reader in another thread: the verifier takes about as long for it as for the largest probe.
    pub fn open(numbers: &Rc<Numbers>) -> Self {
        let now = Instant::now();
        State {
            reader: None,
            opening: Some(std::thread::spawn(|| Reader::open().ok())),
            numbers: Rc::clone(numbers),
            sums: Sums::default(),
            queues: Queues::default(),
            limits: Limits::default(),
            waits: Waits::default(),
            is_partial: false,
            random: Random::new(std::process::id().into()),
            start: None,
            next: now,
            deep: now,
        }
    }

    /// Waits until the reader is loaded.
    pub fn loaded(&mut self) {
        if let Some(opening) = self.opening.take() {
            self.reader = opening.join().ok().flatten();
        }
    }

    /// State of these processes (PIDs in the initial namespace) before the trace, from two readings.
    pub fn start(&mut self, tgids: &[u32]) -> Option<&Moment> {
        let mut sums = Sums::default();
        for i in 0..2 {
            if i > 0 {
                std::thread::sleep(APART);
            }
            let now = self.read(tgids.iter().copied(), true)?;
            sums.take(&now);
        }
        self.start = sums.moment();
        self.start.as_ref()
    }

    /// Takes a sample if due.
    pub fn turn(&mut self, tgids: impl Iterator<Item = u32>) {
        let began = Instant::now();
        if began < self.next {
            return;
        }
        let is_deep = began >= self.deep;
        let Some(now) = self.read(tgids, is_deep) else { return };
        if is_deep {
            let numbers = now.processes.iter().filter_map(|p| self.numbers.in_proc(p.tgid));
            numbers.for_each(|number| self.limits.meet(number));
            self.waits.take(&now, &self.numbers, false);
        }
        self.sums.take(&now);
        if !now.threads.is_empty() {
            let sum = |length: fn(&Ring) -> u32| now.rings.iter().map(|ring| u64::from(length(ring))).sum();
            self.queues.take([sum(|ring| ring.unsubmitted), sum(|ring| ring.unreaped)]);
        }
        let jitter = Duration::from_nanos(self.random.below(JITTER_NS));
        self.next = began + PERIOD.max(now.spent * PART) + jitter;
        if is_deep {
            self.deep = began + DEEP;
        }
    }

    /// Final record. `runs`: the processes still run, or ran when the trace was stopped.
    pub fn end(&mut self, tgids: impl Iterator<Item = u32>, runs: bool) -> Option<StateRecord> {
        if let Some(now) = self.read(tgids, true).filter(|now| runs && !now.threads.is_empty()) {
            self.waits.take(&now, &self.numbers, true);
            self.sums.take(&now);
        }
        self.reader.as_ref()?;
        let (waits, stuck) = self.waits.record();
        Some(StateRecord { memory: self.limits.record(), stuck, waits, ..self.sums.record(self.start.take(), runs) })
    }

    /// Adds the time in the rings' queues to the account of requests.
    pub fn add_queues(&self, account: &mut RequestAccount, elapsed_ns: u64, reaped_ns: Option<[f64; 2]>) {
        if !self.is_partial {
            self.queues.add_to(account, elapsed_ns, reaped_ns);
        }
    }

    fn read(&mut self, tgids: impl Iterator<Item = u32>, deep: bool) -> Option<Snapshot> {
        let reader = self.reader.as_mut()?;
        let mut here = tgids.filter_map(|tgid| self.numbers.here(tgid));
        let reading = if deep { Reading::Deep } else { Reading::Brief };
        let read: Vec<(u32, Reading)> = here.by_ref().take(PROCESSES).map(|pid| (pid, reading)).collect();
        self.is_partial |= here.next().is_some();
        reader.keep(|pid| read.iter().any(|(read, _)| *read == pid));
        Some(reader.read(&read))
    }
}
