//! Determines the delivery path of every completion from recorded events.
//!
//! Implements the rules of `docs/accuracy.md`, "How a delivery path is decided", independently of the probes'
//! aggregation. Both must agree on the same events.

use std::collections::{BTreeMap, HashMap};

use super::delivery::{Carrier, IO_URING_ENTER};
use super::event::{Entered, Event, Poster, What};
use super::loss::Oddities;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::waker::Waker;

/// One completion and its delivery path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Time and CPU of the posting.
    pub time_ns: u64,
    pub cpu: u32,
    pub tid: u32,
    pub carrier: Carrier,
}

/// The delivery paths of all completions in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// In the order of posting.
    pub completions: Vec<Delivered>,
    pub oddities: Oddities,
}

impl Assembled {
    /// Number of completions by delivery path and detail.
    pub fn vehicles(&self) -> BTreeMap<(DeliveryPath, Option<String>), u64> {
        let mut by_vehicle = BTreeMap::new();
        for completion in &self.completions {
            *by_vehicle.entry(completion.carrier.vehicle()).or_insert(0) += 1;
        }
        by_vehicle
    }
}

/// Assigns a delivery path to every completion. `events` must be sorted by time, and complete for the traced threads
/// since a time when no completion was pending.
pub fn assemble(events: &[Event]) -> Assembled {
    let mut assembler = Assembler::default();
    for event in events {
        assembler.take(event);
    }
    let Assembler { completions, oddities, .. } = assembler;
    Assembled { completions, oddities }
}

/// State of a thread, as far as observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    NotSeen,
    On(u32),
    Off,
}

/// State of a thread's current wait in io_uring_enter.
#[derive(Debug, Default)]
struct Wait {
    /// The thread has left the CPU in this wait, and no run has posted a completion since.
    slept: bool,
    /// The last wake-up since the wait began or since the last run that posted a completion.
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Thread {
    place: Place,
    /// Indices of completions posted by this thread with an undecided delivery path, oldest first.
    pending: Vec<usize>,
    wait: Option<Wait>,
}

impl Thread {
    /// Tracks the thread across CPUs, and counts missed steps.
    fn follow(&mut self, event: &Event, oddities: &mut Oddities) {
        let here = Place::On(event.cpu);
        match event.what {
            // The event occurs in the waker: the CPU is not the thread's own.
            What::Woken { .. } => return,
            What::SwitchedIn => {
                if matches!(self.place, Place::On(_)) {
                    oddities.unseen_switches_out += 1;
                }
            }
            _ => match self.place {
                Place::Off => oddities.unseen_switches_in += 1,
                Place::On(_) if self.place != here => oddities.unseen_moves += 1,
                Place::On(_) | Place::NotSeen => {}
            },
        }
        self.place = if matches!(event.what, What::SwitchedOut { .. }) { Place::Off } else { here };
    }

    /// Returns the completions that a run posted, and their delivery path.
    fn run(
        &mut self,
        items: u64,
        looped: bool,
        entered: &Entered,
        oddities: &mut Oddities,
    ) -> Option<(Vec<usize>, Carrier)> {
        if items == 0 {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        if items > pending.len() as u64 {
            oddities.overclaimed_runs += 1;
        }
        let before = match usize::try_from(items) {
            Ok(items) if !looped => pending.len().saturating_sub(items),
            _ => 0,
        };
        let carried = pending[before..].to_vec();
        let in_enter = matches!(entered, Entered::Syscall { nr: IO_URING_ENTER, finished: false });
        if !in_enter {
            self.wait = None;
        }
        if carried.is_empty() {
            return None;
        }
        let slept = match &mut self.wait {
            Some(wait) if wait.slept => Some(std::mem::take(wait).waker),
            _ => None,
        };
        let carrier = match (entered, slept) {
            (_, Some(waker)) => {
                if waker.is_none() {
                    oddities.unseen_wakers += 1;
                }
                Carrier::RunAfterSleep { waker: waker.unwrap_or(Waker::Unseen) }
            }
            (Entered::Syscall { nr, finished: false }, None) => Carrier::RunInSyscall { nr: *nr },
            (Entered::Syscall { nr, finished: true }, None) => Carrier::RunAtSyscallExit { nr: *nr },
            (Entered::Interrupt { symbol, fired, line }, None) => {
                Carrier::RunAtReturn { entry: symbol.clone(), fired: fired.clone(), line: line.clone() }
            }
        };
        Some((carried, carrier))
    }
}

#[derive(Debug, Default)]
struct Assembler {
    threads: HashMap<u32, Thread>,
    completions: Vec<Delivered>,
    oddities: Oddities,
    last_ns: u64,
}

impl Assembler {
    fn take(&mut self, event: &Event) {
        if event.time_ns < self.last_ns {
            self.oddities.out_of_order += 1;
        }
        self.last_ns = event.time_ns;
        let thread = self.threads.entry(event.tid).or_default();
        thread.follow(event, &mut self.oddities);
        match &event.what {
            What::Complete { by } => {
                let carrier = match by {
                    Poster::Sqpoll => Carrier::SqpollThread,
                    Poster::Iowq => Carrier::IowqWorker,
                    Poster::Iopoll => Carrier::DevicePoll,
                    // The default, unless a run follows.
                    Poster::Submitter => {
                        thread.pending.push(self.completions.len());
                        Carrier::Inline
                    }
                };
                let Event { time_ns, cpu, tid, .. } = *event;
                self.completions.push(Delivered { time_ns, cpu, tid, carrier });
            }
            What::Run { items, looped, entered } => {
                if let Some((carried, carrier)) = thread.run(*items, *looped, entered, &mut self.oddities) {
                    for index in carried {
                        self.completions[index].carrier = carrier.clone();
                    }
                }
            }
            What::WaitBegins => {
                // No run is in progress: the pending completions were posted inline.
                thread.pending.clear();
                thread.wait = Some(Wait::default());
            }
            What::SwitchedOut { asleep: true, inside_io_uring_enter: true } => {
                if let Some(wait) = &mut thread.wait {
                    wait.slept = true;
                }
            }
            What::SwitchedOut { asleep: true, inside_io_uring_enter: false } => thread.wait = None,
            What::Woken { by } => {
                if let Some(wait) = &mut thread.wait {
                    wait.waker = Some(by.clone());
                }
            }
            What::SwitchedOut { asleep: false, .. } | What::SwitchedIn => {}
        }
    }
}
