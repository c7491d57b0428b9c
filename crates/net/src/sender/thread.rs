//! A sender thread: its connections, through the stages of the load.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;

use super::check::{Checker, Run};
use super::connection::Terms;
use super::epoll::Epoll;
use super::link::{Link, State};
use super::spec::SenderSpec;
use super::tally::Tally;
use crate::address::Address;
use iotrail_base::error::{Error, Result};
use iotrail_load::clock::Clock;
use iotrail_load::gate::{self, AtGate, Gate, Stage};
use iotrail_load::pace::Pace;
use iotrail_load::spec::End;
use iotrail_load::{cpus, usage};

/// State shared by all threads.
pub struct Shared<'a> {
    pub spec: &'a SenderSpec,
    pub address: &'a Address,
    pub clock: Clock,
    pub gate: Gate,
    /// Stops sends: the user has stopped the load, a thread has failed, or the server is gone.
    pub halt: AtomicBool,
    /// Responses of the current stage, by thread.
    pub done: Vec<AtomicU64>,
    pub run: Run,
    /// Serial number of the next connection.
    pub serial: AtomicU64,
    /// Why the measured stage ended early.
    pub broken_off: Mutex<Option<Error>>,
}

impl Shared<'_> {
    /// Ends the measured stage for all threads; the first reason is kept.
    pub fn break_off(&self, why: Error) {
        self.broken_off.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.halt.store(true, Ordering::Relaxed);
    }

    pub fn is_halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }
}

/// Result of a thread for the measured stage.
pub struct Done {
    pub tally: Tally,
    pub usage: usage::Usage,
    pub tid: i32,
    /// Whether the thread was pinned to a CPU and still is at the end.
    pub bound: Option<bool>,
    /// First and last timestamp.
    pub began: u64,
    pub ended: u64,
    /// Open loop: number of due requests that were not sent.
    pub unsent: Option<u64>,
    /// Idle connections that the server has closed since the start.
    pub idle_lost: u64,
}

/// Maximum time between two checks of `halt`.
const NAP: Duration = Duration::from_millis(100);
/// Interval between attempts to open a connection.
pub const RETRY: Duration = Duration::from_millis(10);
/// Bytes that are received or sent at a time.
const BUFFER: usize = 128 << 10;

pub struct Thread<'a, 'b> {
    pub shared: &'a Shared<'b>,
    number: u32,
    pub terms: Terms,
    pub epoll: Epoll,
    /// Active connections, followed by idle ones.
    pub links: Vec<Link>,
    pub speaking: usize,
    /// Connections to be opened.
    pub closed: Vec<usize>,
    pub connecting: usize,
    /// Open loop: connections with free slots, in order of use.
    pub turns: VecDeque<usize>,
    /// Connections that have just accepted requests.
    due: Vec<usize>,
    pub tally: Tally,
    pub checker: Checker,
    pub input: Box<[u8]>,
    pub output: Box<[u8]>,
    pub stage: Option<Stage>,
    /// Number of requests that may still be accepted in this stage.
    pub quota: u64,
    pace: Option<Pace>,
    /// Set when no more requests are accepted and no more connections opened.
    pub ending: bool,
    /// End of the stage; beyond all timestamps if it ends by count.
    until: u64,
    /// When to check for silent connections.
    look_at: u64,
    /// While the stage ends: connections below this index are quiet.
    quiet_below: usize,
    pub idle_lost: u64,
}

/// Runs thread `number` on the calling thread.
pub fn run(shared: &Shared, number: u32) -> Result<Done> {
    let _at_gate = AtGate(&shared.gate);
    let done = Thread::new(shared, number).and_then(Thread::all_stages);
    if done.is_err() {
        shared.halt.store(true, Ordering::Relaxed);
    }
    done
}

impl<'a, 'b> Thread<'a, 'b> {
    fn new(shared: &'a Shared<'b>, number: u32) -> Result<Self> {
        let spec = shared.spec;
        if let Some(cpu) = spec.cpu_of(number) {
            cpus::bind(cpu)?;
        }
        if spec.rate.is_some() {
            wake_in_time();
        }
        let terms = Terms::of(spec, shared.run, shared.clock);
        let speaking = spec.share(spec.connections.into(), number) as usize;
        let idle = spec.share(spec.idle_connections.into(), number) as usize;
        let link = |at| Link::new(if at < speaking { spec.window } else { 0 });
        Ok(Self {
            shared,
            number,
            terms,
            epoll: Epoll::new()?,
            links: (0..speaking + idle).map(link).collect(),
            speaking,
            closed: (0..speaking + idle).collect(),
            connecting: 0,
            turns: VecDeque::with_capacity(speaking),
            due: vec![],
            tally: Tally::default(),
            checker: Checker::new(shared.run, terms.shape),
            input: vec![0; BUFFER].into(),
            output: vec![0; BUFFER].into(),
            stage: None,
            quota: 0,
            pace: None,
            ending: false,
            until: u64::MAX,
            look_at: 0,
            quiet_below: 0,
            idle_lost: 0,
        })
    }

    fn all_stages(mut self) -> Result<Done> {
        let shared = self.shared;
        let now = shared.clock.now();
        self.links.iter_mut().for_each(|link| link.state = State::Closed { since: now, again_at: now });
        while !self.closed.is_empty() || self.connecting > 0 {
            if shared.is_halted() {
                return Err(gate::called_off());
            }
            self.turn(shared.clock.now())?;
        }
        let mut span = None;
        let usage = gate::stages(&shared.gate, |stage| {
            span = Some(self.stage(stage)?);
            Ok(())
        })?;
        let Some(((began, ended, unsent), usage)) = span.zip(usage) else {
            return Err(gate::called_off());
        };
        Ok(Done {
            bound: shared.spec.cpu_of(self.number).map(cpus::is_bound),
            tally: self.tally,
            usage,
            tid: usage::tid(),
            began,
            ended,
            unsent,
            idle_lost: self.idle_lost,
        })
    }

    /// Runs one stage, from quiet to quiet. Returns the first and last timestamps, and the number of unsent requests of
    /// an open loop.
    fn stage(&mut self, stage: Stage) -> Result<(u64, u64, Option<u64>)> {
        let (shared, spec, clock) = (self.shared, self.shared.spec, self.shared.clock);
        self.tally.clear();
        self.stage = Some(stage);
        let began = clock.now();
        let (quota, span) = match (stage, spec.end) {
            (Stage::Warmup, _) => (u64::MAX, Some(spec.warmup)),
            (Stage::Measured, End::After(span)) => (u64::MAX, Some(span)),
            (Stage::Measured, End::Ios(n)) => (spec.share(n, self.number), None),
        };
        self.until = span.map_or(u64::MAX, |span| began.saturating_add(clock.ticks(span)));
        self.quota = quota;
        self.pace = spec.rate.map(|rate| {
            let bursts = rate * self.speaking as f64 / f64::from(spec.connections) / f64::from(spec.burst);
            Pace::new(&clock, began, bursts, f64::from(self.number) / f64::from(spec.threads))
        });
        (self.ending, self.quiet_below) = (false, 0);
        // Connections closed at the end of the previous stage: waiting at the gate does not count as an attempt to open
        // them.
        for &at in &self.closed {
            self.links[at].state = State::Closed { since: began, again_at: began };
        }
        let mut now = began;
        let mut ended_sending = began;
        if now < self.until && !shared.is_halted() {
            (0..self.speaking).try_for_each(|at| self.go_on(at))?;
        }
        loop {
            if !self.ending {
                self.send_due(now.min(self.until - 1))?;
                if now >= self.until || self.quota == 0 || shared.is_halted() {
                    self.ending = true;
                    ended_sending = now;
                }
            }
            if self.ending && self.is_quiet() {
                break;
            }
            now = self.turn(now)?;
        }
        self.stage = None;
        self.turns.clear();
        self.links.iter_mut().for_each(|link| link.has_turn = false);
        let unsent = self.pace.as_ref().map(|pace| match self.quota {
            0 => 0,
            _ => pace.missed(ended_sending.min(self.until)) * u64::from(spec.burst),
        });
        self.quota = 0;
        Ok((began, now, unsent))
    }

    /// Waits once and handles the events; returns the time afterwards.
    fn turn(&mut self, now: u64) -> Result<u64> {
        self.open_closed(now)?;
        let n = self.epoll.wait(self.patience(now))?;
        let now = self.shared.clock.now();
        for event in 0..n {
            let (at, events) = self.epoll.event(event);
            self.ready(at, events, now)?;
        }
        if now >= self.look_at {
            self.look_at = now + self.shared.clock.ticks((self.shared.spec.give_up / 8).min(NAP));
            self.look_for_silent_ones(now)?;
        }
        self.shared.done[self.number as usize].store(self.tally.sums.responses, Ordering::Relaxed);
        Ok(now)
    }

    /// Time until something other than an event requires action.
    fn patience(&self, now: u64) -> Duration {
        let mut wake = self.look_at;
        if !self.ending {
            wake = wake.min(self.until);
            if let Some(pace) = &self.pace
                && !self.turns.is_empty()
                && self.quota > 0
            {
                wake = wake.min(pace.next());
            }
            if !self.closed.is_empty() {
                wake = wake.min(now + self.shared.clock.ticks(RETRY));
            }
        }
        Duration::from_nanos(self.shared.clock.ns(wake.saturating_sub(now))).min(NAP)
    }

    /// Open loop: accepts requests due by `now`, round-robin over connections with free slots, and sends them.
    fn send_due(&mut self, now: u64) -> Result<()> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        while self.quota > 0
            && let Some(&at) = self.turns.front()
            && let Some(intended) = pace.take(now)
        {
            self.turns.pop_front();
            let link = &mut self.links[at];
            let n = link.talk.room(&self.terms, self.quota.min(self.terms.burst));
            link.talk.admit(n, intended);
            if self.quota != u64::MAX {
                self.quota -= n;
            }
            self.due.push(at);
            link.has_turn = link.talk.room(&self.terms, self.terms.burst) > 0;
            if link.has_turn {
                self.turns.push_back(at);
            }
        }
        // Requests that became due on the same connection share a send.
        while let Some(at) = self.due.pop() {
            self.flush(at)?;
        }
        Ok(())
    }

    fn give_turn(&mut self, at: usize) {
        let link = &mut self.links[at];
        if !link.has_turn && link.is_open() && link.talk.room(&self.terms, self.terms.burst) > 0 {
            link.has_turn = true;
            self.turns.push_back(at);
        }
    }

    /// Accepts as many requests as fit; called at the start and after responses.
    pub fn go_on(&mut self, at: usize) -> Result<()> {
        let link = &mut self.links[at];
        if self.ending || self.stage.is_none() || !link.is_open() {
            return Ok(());
        }
        if self.terms.paced {
            self.give_turn(at);
            return Ok(());
        }
        let n = link.talk.room(&self.terms, self.quota);
        if n == 0 {
            return Ok(());
        }
        link.talk.admit(n, 0);
        if self.quota != u64::MAX {
            self.quota -= n;
        }
        self.flush(at)
    }

    fn is_quiet(&mut self) -> bool {
        while self.links.get(self.quiet_below).is_some_and(Link::is_quiet) {
            self.quiet_below += 1;
        }
        self.quiet_below == self.links.len()
    }

    /// Requests answered in this stage, over all threads.
    pub fn answered(&self) -> u64 {
        let own = &self.shared.done[self.number as usize];
        own.store(self.tally.sums.responses, Ordering::Relaxed);
        self.shared.done.iter().map(|done| done.load(Ordering::Relaxed)).sum()
    }
}

/// Minimises timer slack, by which the kernel may wake a thread up to 50 µs late to save wake-ups.
fn wake_in_time() {
    // On failure, requests are late and counted as late.
    set_current_timer_slack(Some(NonZeroU64::MIN)).unwrap_or(());
}
