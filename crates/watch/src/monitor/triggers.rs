//! Detects stalls in samples. Pure: the caller passes samples and the reasons of sleeps.
//!
//! A trigger fires if its condition is true in all samples of its time. Between two samples no head or tail may move,
//! and the thread may not switch. So a busy program whose CQ is never empty does not stall.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use iotrail_answer::stall::{Facts, RingFacts, ThreadFacts, Usual};
use iotrail_base::units::Span;
use iotrail_path::delivery::{IO_URING_ENTER, syscall_name};
use iotrail_probe::snapshot::{Depth, Ring, Snapshot, Thread};
use iotrail_schema::account::Reason;
use iotrail_schema::stall::Trigger;

use crate::rings::SQPOLL;
use crate::state::sums::{DEFER_TASKRUN, Users, needs_wakeup, waits};

/// An SQPOLL thread counts as spinning if it runs for this share of the time in which it does not wait for a CPU.
const SPINS: f64 = 0.8;

/// Half of the time over which that share is computed: the kernel parks the thread briefly, for example in
/// io_uring_register(2).
const SPINS_HALF_NS: u64 = 250_000_000;

/// Maximum gap between throttled samples, since quotas are refilled every 100 ms.
const QUOTA_GAP_NS: u64 = 150_000_000;

/// Lower bound of a threshold that is a multiple of a ring's usual latency: several samples at any sampling period.
const LEAST_MULTIPLE_NS: u64 = 50_000_000;

/// A thread that is runnable for this long without running waits for a CPU.
const LACKS_CPU_NS: u64 = 50_000_000;

/// Minimum interval between two deep readings of a process.
const DEEP_GAP_NS: u64 = 100_000_000;

/// Time for which each condition must be true.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    times: BTreeMap<Trigger, Duration>,
    /// Multiple of a ring's usual latency that replaces the time of [`Trigger::SlowRequest`].
    multiple: Option<f64>,
}

impl Default for Thresholds {
    fn default() -> Self {
        let ms = |trigger| match trigger {
            Trigger::SlowRequest | Trigger::WaitsForMore => 1000,
            Trigger::AsleepWithCompletions | Trigger::TaskWorkWaits | Trigger::Overflow => 200,
            Trigger::Unreaped | Trigger::Unsubmitted | Trigger::SqpollAsleep | Trigger::LateTimer => 200,
            Trigger::SqpollSpins => 3000,
            Trigger::BlockedSubmission => 200,
            Trigger::SlowSync | Trigger::ThrottledIo | Trigger::ThrottledCpu | Trigger::WaitsForCpu => 500,
            Trigger::WriteErrors | Trigger::Punts | Trigger::When => 0,
        };
        let times = Trigger::ALL.map(|trigger| (trigger, Duration::from_millis(ms(trigger)))).into();
        Thresholds { times, multiple: None }
    }
}

/// `slow_sync=2s`, or `slow_request=20xp99.9`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    trigger: Trigger,
    length: Length,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Length {
    Time(Duration),
    Multiple(f64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, length) = text.split_once('=').ok_or("use TRIGGER=TIME, for example slow_sync=2s")?;
        let times = Thresholds::default().times;
        let timed: Vec<Trigger> = times.into_iter().filter(|(_, t)| !t.is_zero()).map(|(trigger, _)| trigger).collect();
        let names = || timed.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
        let trigger = timed
            .iter()
            .find(|t| t.name() == name)
            .ok_or_else(|| format!("unknown trigger '{name}': use one of {}", names()))?;
        let length = match length.strip_suffix("xp99.9").filter(|_| *trigger == Trigger::SlowRequest) {
            Some(number) => {
                let multiple = number.parse().ok().filter(|k: &f64| (1.0..=1000.0).contains(k));
                Length::Multiple(
                    multiple.ok_or("a multiple of p99.9 must be 1 to 1000, for example slow_request=20xp99.9")?,
                )
            }
            None => {
                let Span(time) = length.parse()?;
                Length::Time(Some(time).filter(|t| !t.is_zero()).ok_or("a threshold must be above 0")?)
            }
        };
        Ok(Threshold { trigger: *trigger, length })
    }
}

impl Thresholds {
    pub fn set(&mut self, threshold: Threshold) {
        match threshold.length {
            Length::Time(time) => drop(self.times.insert(threshold.trigger, time)),
            Length::Multiple(k) => self.multiple = Some(k),
        }
    }

    /// The shortest of the thresholds.
    pub fn least(&self) -> Duration {
        self.times.values().filter(|time| !time.is_zero()).min().copied().unwrap_or_default()
    }

    pub fn ns(&self, trigger: Trigger) -> u64 {
        self.times.get(&trigger).map_or(0, |time| time.as_nanos() as u64)
    }
}

/// Subject of a condition: a ring by its address, a thread by its ID, or the process (0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub trigger: Trigger,
    pub tgid: u32,
    pub id: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Fired {
        key: Key,
        /// Start of the condition, CLOCK_MONOTONIC.
        since_ns: u64,
        facts: Box<Facts>,
    },
    Over {
        key: Key,
        since_ns: u64,
        /// Last sample in which the condition was true.
        until_ns: u64,
    },
}

/// Why a thread sleeps, from its stack.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sleep {
    pub reason: Option<Reason>,
    /// Whether vfs_fsync_range is on the stack.
    pub is_sync: bool,
    /// Timeout of its wait in io_uring_enter(2); `None` if there is none or it is unknown.
    pub limit: Option<Duration>,
    /// Whether `limit` was looked up: this is done once, because the program's memory may be unreadable.
    pub limit_was_read: bool,
}

/// By thread.
pub type Sleeps = BTreeMap<u32, Sleep>;

#[derive(Debug)]
struct Held {
    since_ns: u64,
    last_ns: u64,
    has_fired: bool,
}

#[derive(Debug)]
struct RingTrack {
    taken: u32,
    posted: u32,
    head: u32,
    /// Times of the samples that found a value changed.
    taken_ns: u64,
    posted_ns: u64,
    head_ns: u64,
    /// Its SQPOLL thread in the last sample that found it working or asleep, and in two later ones.
    sq: Option<[SqMark; 3]>,
    deep: Option<Deep>,
}

/// An SQPOLL thread in one sample.
#[derive(Debug, Clone, Copy)]
struct SqMark {
    at_ns: u64,
    ran_ns: u64,
    runnable_ns: u64,
    sleeps: u64,
    asleep: bool,
}

impl SqMark {
    fn of(t: &Thread, at_ns: u64) -> Self {
        SqMark { at_ns, ran_ns: t.ran_ns, runnable_ns: t.runnable_ns, sleeps: t.sleeps, asleep: t.asleep }
    }

    /// Whether it has not slept for long since then. It also spins while it waits for a CPU.
    fn has_spun_since(&self, then: &SqMark) -> bool {
        let ran = self.ran_ns.saturating_sub(then.ran_ns);
        let known = ran + self.runnable_ns.saturating_sub(then.runnable_ns);
        // The kernel adds a wait for a CPU to its counter when the wait ends. A thread that did not sleep waited.
        let has_slept = self.asleep || then.asleep || self.sleeps != then.sleeps;
        let slept = if has_slept { (self.at_ns - then.at_ns).saturating_sub(known) } else { 0 };
        ran as f64 >= SPINS * (ran + slept) as f64
    }
}

/// Result of the last deep reading.
#[derive(Debug)]
struct Deep {
    at_ns: u64,
    taken: u32,
    posted: u32,
    /// Requests in flight, without polls and timeouts.
    busy: Option<u64>,
    overflowed: u64,
    soonest_ns: Option<u64>,
}

#[derive(Debug)]
struct ThreadTrack {
    switches: u64,
    /// Time of the sample that found them changed.
    since_ns: u64,
    ran_ns: u64,
    /// While it is runnable: time of the sample that found it changed, or found the thread awake.
    ran_at_ns: Option<u64>,
    /// Timeout of the wait that began then.
    limit: Option<Duration>,
}

#[derive(Debug)]
struct Quota {
    ns: u64,
    /// Time of the last increase, and the value before it.
    grew_ns: Option<u64>,
    before_ns: u64,
}

/// State carried from sample to sample.
#[derive(Debug)]
pub struct Triggers {
    thresholds: Thresholds,
    rings: BTreeMap<u64, RingTrack>,
    threads: BTreeMap<u32, ThreadTrack>,
    quotas: BTreeMap<u32, Quota>,
    held: BTreeMap<Key, Held>,
    /// Latency p99.9 in the last window, by process and ring descriptor.
    usual_ns: BTreeMap<(u32, u32), u64>,
    deep_ns: BTreeMap<u32, u64>,
    last_ns: u64,
}

/// Conditions of one sample: their earliest possible start, and the facts.
struct Now<'s> {
    sample: &'s Snapshot,
    sleeps: &'s Sleeps,
    conditions: Vec<(Key, u64, Facts)>,
    /// Start of conditions that are known to have been true before this sample.
    began_ns: BTreeMap<Key, u64>,
}

impl Triggers {
    pub fn new(thresholds: Thresholds) -> Self {
        Triggers {
            thresholds,
            rings: BTreeMap::new(),
            threads: BTreeMap::new(),
            quotas: BTreeMap::new(),
            held: BTreeMap::new(),
            usual_ns: BTreeMap::new(),
            deep_ns: BTreeMap::new(),
            last_ns: 0,
        }
    }

    /// Takes one sample of all processes.
    pub fn take(&mut self, sample: &Snapshot, sleeps: &Sleeps) -> Vec<Event> {
        let mut now = Now { sample, sleeps, conditions: vec![], began_ns: BTreeMap::new() };
        let rings: BTreeSet<u64> = sample.rings.iter().map(|r| r.address).collect();
        self.rings.retain(|address, _| rings.contains(address));
        self.usual_ns.retain(|(tgid, fd), _| sample.rings.iter().any(|r| (r.tgid, r.fd) == (*tgid, Some(*fd))));
        sample.rings.iter().for_each(|ring| self.ring(ring, &mut now));
        let threads: BTreeSet<u32> = sample.threads.iter().map(|t| t.tid).collect();
        self.threads.retain(|tid, _| threads.contains(tid));
        sample.threads.iter().for_each(|t| self.thread(t, &mut now));
        self.processes(&mut now);
        self.last_ns = sample.at_ns;
        self.blame_cpu(&mut now);
        self.judge(now, sample.at_ns)
    }

    /// A thread without a CPU cannot end its stalls: they are one stall with this cause.
    fn blame_cpu(&self, now: &mut Now<'_>) {
        let has_quota = |(key, ..): &(Key, u64, Facts)| (key.trigger == Trigger::ThrottledCpu).then_some(key.tgid);
        let throttled: BTreeSet<u32> = now.conditions.iter().filter_map(has_quota).collect();
        for (key, marker_ns, facts) in &mut now.conditions {
            let thread = facts.thread.as_ref().filter(|t| t.lacks_cpu && key.trigger != Trigger::SqpollSpins);
            let track = thread.and_then(|t| Some((t.tid, self.threads.get(&t.tid)?.ran_at_ns?)));
            let Some((tid, ran_at_ns)) = track else { continue };
            *key = Key { trigger: Trigger::WaitsForCpu, tgid: key.tgid, id: tid.into() };
            *marker_ns = ran_at_ns;
            now.began_ns.insert(*key, ran_at_ns);
        }
        // The quota has its own trigger.
        now.conditions.retain(|(key, ..)| key.trigger != Trigger::WaitsForCpu || !throttled.contains(&key.tgid));
    }

    /// Records a ring's latency p99.9.
    pub fn learn(&mut self, tgid: u32, fd: u32, p99_9_ns: u64) {
        self.usual_ns.insert((tgid, fd), p99_9_ns);
    }

    /// Latency above which the ring's requests count as slow, as a multiple of its usual latency.
    fn usual(&self, ring: &Ring) -> Option<Usual> {
        let p99_9_ns = *self.usual_ns.get(&(ring.tgid, ring.fd?))?;
        let multiple = self.thresholds.multiple?;
        Some(Usual { multiple, p99_9_ns, threshold_ns: ((multiple * p99_9_ns as f64) as u64).max(LEAST_MULTIPLE_NS) })
    }

    /// Whether a value changed in the last sample, or a condition is true.
    pub fn is_busy(&self) -> bool {
        let moved = |r: &RingTrack| r.taken_ns == self.last_ns || r.posted_ns == self.last_ns;
        !self.held.is_empty()
            || self.rings.values().any(moved)
            || self.threads.values().any(|t| t.since_ns == self.last_ns)
    }

    /// Processes whose lists must be read in the next sample, because a ring makes no progress or a timeout is due.
    pub fn suspects(&mut self, sample: &Snapshot) -> BTreeSet<u32> {
        let now = sample.at_ns;
        let half = |trigger| self.thresholds.ns(trigger) / 2;
        let is_suspect = |ring: &&Ring| {
            let Some(track) = self.rings.get(&ring.address) else { return false };
            let slow = self.usual(ring).map_or(half(Trigger::SlowRequest), |usual| usual.threshold_ns / 2);
            let stands = now - track.posted_ns >= slow && track.taken != 0;
            let is_due = |d: &Deep| {
                d.soonest_ns
                    .is_some_and(|ns| now > ns + half(Trigger::LateTimer) && d.at_ns < now - DEEP_GAP_NS.min(now))
            };
            match &track.deep {
                None => stands,
                Some(deep) => is_due(deep) || stands && (deep.taken, deep.posted) != (track.taken, track.posted),
            }
        };
        let mut found: BTreeSet<u32> = sample.rings.iter().filter(is_suspect).map(|r| r.tgid).collect();
        found.retain(|tgid| self.deep_ns.get(tgid).is_none_or(|at| now - at >= DEEP_GAP_NS));
        self.deep_ns.retain(|_, at| now - *at < DEEP_GAP_NS);
        self.deep_ns.extend(found.iter().map(|tgid| (*tgid, now)));
        found
    }

    fn ring(&mut self, ring: &Ring, now: &mut Now<'_>) {
        let at = now.sample.at_ns;
        let usual = self.usual(ring);
        let head = ring.posted.wrapping_sub(ring.unreaped);
        let ran = |tid: Option<u32>| now.sample.threads.iter().find(|t| Some(t.tid) == tid);
        let sq_thread = ran(ring.sq_thread);
        let shares_sq = |r: &&Ring| r.sq_thread.is_some() && r.sq_thread == ring.sq_thread;
        let tracks = now.sample.rings.iter().filter(shares_sq).filter_map(|r| self.rings.get(&r.address));
        let sq_worked_ns = tracks.map(|track| track.taken_ns.max(track.posted_ns)).max().unwrap_or(0);
        let track = self.rings.entry(ring.address).or_insert_with(|| RingTrack {
            taken: ring.taken,
            posted: ring.posted,
            head,
            taken_ns: at,
            posted_ns: at,
            head_ns: at,
            sq: None,
            deep: None,
        });
        let moved = |was: &mut u32, is: u32, when: &mut u64| {
            if *was != is {
                (*was, *when) = (is, at);
            }
        };
        moved(&mut track.taken, ring.taken, &mut track.taken_ns);
        moved(&mut track.posted, ring.posted, &mut track.posted_ns);
        moved(&mut track.head, head, &mut track.head_ns);
        if let Some(depth) = &ring.depth {
            track.deep = Some(Deep {
                at_ns: at,
                taken: ring.taken,
                posted: ring.posted,
                busy: busy(depth),
                overflowed: depth.overflow_list.into(),
                soonest_ns: depth.soonest_ns,
            });
        }
        let deep = track.deep.as_ref().filter(|d| d.posted == ring.posted);
        let users = Users::of(ring, now.sample);
        let key = |trigger| Key { trigger, tgid: ring.tgid, id: ring.address };
        let facts = |thread: Option<&Thread>| Facts {
            ring: Some(RingFacts {
                fd: ring.fd,
                is_defer: ring.setup_flags & DEFER_TASKRUN != 0,
                in_flight: deep.and_then(|d| d.busy),
                awaited: 0,
                unreaped: ring.unreaped.into(),
                unsubmitted: ring.unsubmitted.into(),
                overflowed: deep.map(|d| d.overflowed).filter(|n| *n > 0),
            }),
            thread: thread.map(|t| thread_facts(&self.threads, t, now)),
            ..Facts::default()
        };
        // A thread without a CPU may be about to act. Otherwise, a sleeping thread needs an explanation.
        let lacking = users.0.iter().find(|t| lacks_cpu(&self.threads, t, at));
        let user = lacking.or_else(|| users.0.iter().find(|t| t.asleep)).or(users.0.first()).copied();
        let (mut found, mut began) = (vec![], vec![]);
        if ring.unreaped > 0 {
            let slept =
                |t: &Thread| self.threads.get(&t.tid).filter(|k| k.switches == t.switches).map_or(at, |k| k.since_ns);
            let waiter = |enough: bool| {
                let sleeps = users.0.iter().filter(|t| waits(t) && t.asleep && t.arguments[2] > 0);
                let wanted = |t: &Thread| t.arguments[2].min(ring.cq_entries.into());
                sleeps.copied().find(|t| (wanted(t) <= ring.unreaped.into()) == enough)
            };
            match (waiter(true), waiter(false)) {
                (Some(t), _) => {
                    found.push((key(Trigger::AsleepWithCompletions), track.head_ns.max(slept(t)), facts(Some(t))));
                }
                (None, Some(t)) => {
                    let since = track.head_ns.max(track.posted_ns).max(slept(t));
                    let mut of = facts(Some(t));
                    if let Some(ring) = &mut of.ring {
                        (ring.in_flight, ring.awaited) = (None, t.arguments[2]);
                    }
                    found.push((key(Trigger::WaitsForMore), since, of));
                }
                // A non-empty overflow list has the same cause.
                (None, None) if !users.wait() && !ring.has_overflowed => {
                    found.push((key(Trigger::Unreaped), track.head_ns, facts(user)))
                }
                (None, None) => {}
            }
        }
        if let Some(tid) = users.runner(ring) {
            let runner = users.0.iter().find(|t| t.tid == tid).copied();
            found.push((key(Trigger::TaskWorkWaits), track.posted_ns, facts(runner)));
        }
        if ring.has_overflowed {
            found.push((key(Trigger::Overflow), 0, facts(user)));
        }
        let is_sqpoll = ring.setup_flags & SQPOLL != 0;
        if ring.unsubmitted > 0 && !is_sqpoll && !users.submit() {
            found.push((key(Trigger::Unsubmitted), track.taken_ns, facts(user)));
        }
        if needs_wakeup(ring) {
            found.push((key(Trigger::SqpollAsleep), track.taken_ns, facts(user)));
        }
        if let Some(sq) = sq_thread.filter(|_| is_sqpoll) {
            let mark = SqMark::of(sq, at);
            let worked_ns = sq_worked_ns.max(track.taken_ns).max(track.posted_ns);
            let marks = track.sq.get_or_insert([mark; 3]);
            if worked_ns > marks[0].at_ns {
                *marks = [mark; 3];
            }
            if !mark.has_spun_since(&marks[1]) {
                marks[0] = mark;
            }
            let ran = mark.ran_ns.saturating_sub(marks[0].ran_ns);
            if ran > 0 {
                let amount = (ran as f64 / (at - marks[0].at_ns).max(1) as f64).min(1.0);
                found.push((key(Trigger::SqpollSpins), worked_ns, Facts { amount, ..facts(Some(sq)) }));
            }
            if at - marks[2].at_ns >= SPINS_HALF_NS {
                *marks = [marks[0], marks[2], mark];
            }
        }
        if let Some(deep) = deep {
            // A blocked submission has its own trigger.
            if deep.busy.is_some_and(|n| n > 0) && !users.0.iter().any(|t| submits(t, now.sleeps)) {
                let is_stuck =
                    |t: &&Thread| t.tgid == ring.tgid && t.is_kernels && t.asleep && !is_idle(now.sleeps.get(&t.tid));
                let worker = now.sample.threads.iter().find(is_stuck);
                let waiter = || users.0.iter().find(|t| waits(t)).copied();
                let of = Facts { usual, ..facts(worker.or_else(waiter)) };
                // The requests in flight are older than both changes. At most half of the threshold may precede the first
                // reading that found them, because they may have waited as polls until then.
                let half = usual.map_or(self.thresholds.ns(Trigger::SlowRequest), |usual| usual.threshold_ns) / 2;
                let began_ns = track.taken_ns.max(track.posted_ns).max(at.saturating_sub(half));
                began.push((key(Trigger::SlowRequest), began_ns));
                found.push((key(Trigger::SlowRequest), track.posted_ns, of));
            }
            let late = deep.soonest_ns.and_then(|ns| deep.at_ns.checked_sub(ns)).filter(|ns| *ns > 0);
            if let Some(late) = late {
                let late_now = late + (at - deep.at_ns);
                began.push((key(Trigger::LateTimer), (at - late_now).max(track.posted_ns)));
                found.push((
                    key(Trigger::LateTimer),
                    track.posted_ns,
                    Facts { amount: late_now as f64, ..facts(user) },
                ));
            }
        }
        now.conditions.extend(found);
        now.began_ns.extend(began);
    }

    fn thread(&mut self, t: &Thread, now: &mut Now<'_>) {
        let at = now.sample.at_ns;
        let new = ThreadTrack { switches: t.switches, since_ns: at, ran_ns: t.ran_ns, ran_at_ns: None, limit: None };
        let track = self.threads.entry(t.tid).or_insert(new);
        if track.switches != t.switches {
            (track.switches, track.since_ns, track.limit) = (t.switches, at, None);
        }
        let waits_since = track.ran_at_ns.filter(|_| track.ran_ns == t.ran_ns).unwrap_or(at);
        (track.ran_ns, track.ran_at_ns) = (t.ran_ns, (!t.asleep).then_some(waits_since));
        let sleep = now.sleeps.get(&t.tid);
        track.limit = track.limit.or(sleep.and_then(|s| s.limit));
        let (since, limit) = (track.since_ns, track.limit);
        let fd = now
            .sample
            .rings
            .iter()
            .find(|r| {
                r.address == t.last_ring || waits(t) && r.tgid == t.tgid && r.fd.map(u64::from) == Some(t.arguments[0])
            })
            .map(|r| RingFacts { fd: r.fd, ..RingFacts::default() });
        let facts = Facts { thread: Some(thread_facts(&self.threads, t, now)), ..Facts::default() };
        // It may be runnable but without a CPU.
        if let Some(late_ns) =
            limit.and_then(|limit| (at - since).checked_sub(limit.as_nanos() as u64)).filter(|_| waits(t))
        {
            let key = Key { trigger: Trigger::LateTimer, tgid: t.tgid, id: t.tid.into() };
            let facts = Facts { limit, amount: late_ns as f64, ring: fd.clone(), ..facts.clone() };
            now.conditions.push((key, since, facts));
        }
        if !t.asleep {
            return;
        }
        let call = t.call.map(syscall_name).filter(|_| !t.is_kernels);
        let syncs = call
            .as_deref()
            .is_some_and(|c| matches!(c, "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync"));
        // The condition of the stalled ring already names the worker.
        let of_ring = |(key, ..): &(Key, u64, Facts)| key.trigger == Trigger::SlowRequest && key.tgid == t.tgid;
        let trigger = match (submits(t, now.sleeps), syncs || sleep.is_some_and(|s| s.is_sync)) {
            (_, true) => Trigger::SlowSync,
            (true, _) => Trigger::BlockedSubmission,
            _ if t.is_kernels && t.is_uninterruptible && !is_idle(sleep) && !now.conditions.iter().any(of_ring) => {
                Trigger::SlowRequest
            }
            _ => return,
        };
        let facts = Facts { ring: fd.filter(|_| trigger == Trigger::BlockedSubmission || t.is_kernels), ..facts };
        now.conditions.push((Key { trigger, tgid: t.tgid, id: t.tid.into() }, since, facts));
    }

    fn processes(&mut self, now: &mut Now<'_>) {
        let at = now.sample.at_ns;
        let processes: BTreeSet<u32> = now.sample.processes.iter().map(|p| p.tgid).collect();
        self.quotas.retain(|tgid, _| processes.contains(tgid));
        for p in &now.sample.processes {
            let key = |trigger| Key { trigger, tgid: p.tgid, id: 0 };
            if p.throttled_bios > 0 {
                let facts = Facts { amount: p.throttled_bios.into(), ..Facts::default() };
                now.conditions.push((key(Trigger::ThrottledIo), 0, facts));
            }
            let quota =
                self.quotas.entry(p.tgid).or_insert(Quota { ns: p.quota_ns, grew_ns: None, before_ns: p.quota_ns });
            if p.quota_ns > quota.ns {
                if quota.grew_ns.is_none() {
                    quota.before_ns = quota.ns;
                }
                (quota.ns, quota.grew_ns) = (p.quota_ns, Some(at));
            }
            quota.grew_ns = quota.grew_ns.filter(|grew| at - grew < QUOTA_GAP_NS);
            if quota.grew_ns.is_some() {
                let facts = Facts { amount: (quota.ns - quota.before_ns) as f64, ..Facts::default() };
                now.conditions.push((key(Trigger::ThrottledCpu), 0, facts));
            }
        }
    }

    /// Compares the conditions of this sample with those of the last one.
    fn judge(&mut self, now: Now<'_>, at: u64) -> Vec<Event> {
        let mut events = vec![];
        for (key, marker_ns, mut facts) in now.conditions {
            let since_ns = now.began_ns.get(&key).copied().unwrap_or(at);
            let held = self.held.entry(key).or_insert(Held { since_ns, last_ns: at, has_fired: false });
            if marker_ns > held.since_ns {
                if held.has_fired {
                    events.push(Event::Over { key, since_ns: held.since_ns, until_ns: held.last_ns });
                }
                *held = Held { since_ns, last_ns: at, has_fired: false };
            }
            held.last_ns = at;
            let threshold = facts.usual.map_or(self.thresholds.ns(key.trigger), |usual| usual.threshold_ns);
            if !held.has_fired && at - held.since_ns >= threshold {
                held.has_fired = true;
                facts.for_ns = at - held.since_ns;
                events.push(Event::Fired { key, since_ns: held.since_ns, facts: Box::new(facts) });
            }
        }
        let over = |(key, held): (&Key, &Held)| {
            let event = Event::Over { key: *key, since_ns: held.since_ns, until_ns: held.last_ns };
            (held.last_ns != at && held.has_fired).then_some(event)
        };
        events.extend(self.held.iter().filter_map(over));
        self.held.retain(|_, held| held.last_ns == at);
        events
    }

    /// Conditions that have fired and are still true, with the time of their last sample.
    pub fn ongoing(&self) -> impl Iterator<Item = (Key, u64, u64)> {
        self.held.iter().filter(|(_, held)| held.has_fired).map(|(key, held)| (*key, held.since_ns, held.last_ns))
    }
}

/// Whether a thread of the program sleeps in a call that submits rather than waits for completions.
fn submits(t: &Thread, sleeps: &Sleeps) -> bool {
    if !t.asleep || t.is_kernels {
        return false;
    }
    match t.call {
        Some(IO_URING_ENTER) => sleeps.get(&t.tid).and_then(|s| s.reason.as_ref()).is_some_and(|reason| match reason {
            Reason::UringSqSpace => true,
            Reason::UringCompletions => false,
            _ => t.arguments[1] > 0,
        }),
        Some(nr) => i64::from(nr) == libc::SYS_io_submit,
        None => false,
    }
}

/// Whether the worker has no request, as far as is known.
fn is_idle(sleep: Option<&Sleep>) -> bool {
    let reason = sleep.and_then(|s| s.reason.as_ref());
    reason.is_none_or(|r| matches!(r, Reason::IowqIdle | Reason::SqpollIdle))
}

fn busy(depth: &Depth) -> Option<u64> {
    let apart = depth.armed + depth.timeouts;
    depth.in_flight.map(|n| n.saturating_sub(apart).into())
}

fn lacks_cpu(tracks: &BTreeMap<u32, ThreadTrack>, t: &Thread, at_ns: u64) -> bool {
    let track = tracks.get(&t.tid).filter(|k| k.ran_ns == t.ran_ns && !t.asleep);
    track.and_then(|k| k.ran_at_ns).is_some_and(|ns| at_ns - ns >= LACKS_CPU_NS)
}

fn thread_facts(tracks: &BTreeMap<u32, ThreadTrack>, t: &Thread, now: &Now<'_>) -> ThreadFacts {
    ThreadFacts {
        tid: t.tid,
        comm: t.comm.clone(),
        is_asleep: t.asleep,
        lacks_cpu: lacks_cpu(tracks, t, now.sample.at_ns),
        call: t.call.map(syscall_name),
        reason: now.sleeps.get(&t.tid).and_then(|s| s.reason.clone()).filter(|_| t.asleep),
    }
}

#[cfg(test)]
#[path = "triggers_tests.rs"]
mod tests;
