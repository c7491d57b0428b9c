//! The monitor: samples without probes, continuously and within a budget, and traces when a trigger requests a trace.
//!
//! | module | responsible for |
//! |---|---|
//! | `subject` | the monitored processes |
//! | [`budget`] | the monitor's budget, and the layers that it sheds; pure |
//! | `account` | time and queues by program; pure |
//! | [`triggers`] | samples → stalls; pure |
//! | [`when`] | `--when`; pure |
//! | `limit` | time limits of waits |
//! | `figures` | exported metrics; pure |
//! | `traced` | traces and windows of the counting probes |
//! | [`capture`] | the capture directory |

mod account;
pub mod budget;
pub mod capture;
mod figures;
mod limit;
mod subject;
mod traced;
pub mod triggers;
pub mod when;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iotrail_answer::stall::{Facts, explain};
use iotrail_base::error::Result;
use iotrail_base::words;
use iotrail_host::{clock, procfs};
use iotrail_path::delivery::syscall_name;
use iotrail_path::sleep;
use iotrail_probe::snapshot::{self, Reader, Reading, Snapshot, SurveyedThread, Thread};
use iotrail_schema::metric_family::{Family, Scraped};
use iotrail_schema::opcode;
use iotrail_schema::recorded::ClockOrigin;
use iotrail_schema::stall::{CAPTURE, Capture, Ran, SleepStack, Stall, StalledProcess, Trigger};
use iotrail_schema::trace_record::{ErrnoCount, OpcodeRecord, TraceRecord};
use iotrail_stats::random::Random;
use rustix::process::{getpriority_process, setpriority_process};

use self::account::Accounts;
use self::budget::{Budget, Keeper, Layer, Slice, Step};
use self::capture::{Captures, History};
use self::figures::Own;
use self::subject::Subjects;
pub use self::subject::{Subject, exists};
use self::traced::{COST, Traced, Tracing};
use self::triggers::{Event, Key, Sleep, Sleeps, Thresholds, Triggers};
use self::when::{Values, When};
use crate::allowed::allowed;
use crate::command::own_cpu;
use crate::metrics::MetricsExchange;
use crate::namespace::Numbers;
use crate::recorder;
use crate::state::sums::Sums;
use crate::windows::Windows;

/// Assumed cost of a sample until one is measured.
const FIRST_NS: f64 = 80_000.0;

/// Length of a budget slice, and interval between two surveys of the machine.
const SLICE: Duration = Duration::from_secs(1);

/// Maximum cost of surveys: 1 in this many parts of a CPU.
const SURVEY_PART: u32 = 1000;

/// Interval of readings that include all lists.
const DEEP: Duration = Duration::from_secs(10);

/// Maximum interval between checks for scrapes and signals.
const TURN: Duration = Duration::from_millis(100);

/// A capture continues for this time after its trigger.
const AFTER: Duration = Duration::from_secs(2);

/// Nice value of the sampling thread.
const NICE: i32 = -10;

/// Limits of one capture: samples, threads with stacks, and threads that ran.
const SAMPLES: usize = 2048;
const STACKS: usize = 32;
const RAN: usize = 16;

/// Maximum number of stacks whose reason is cached.
const REASONS: usize = 2048;

#[derive(Debug)]
pub struct Options {
    pub subject: Subject,
    pub budget: Budget,
    pub thresholds: Thresholds,
    pub when: Vec<When>,
    pub dir: PathBuf,
    /// `None`: until stopped.
    pub duration: Option<Duration>,
    /// Windows with counting probes; `None`: none.
    pub windows: Option<Windows>,
    /// Length of a trace after a trigger; `None`: no trace.
    pub trace: Option<Duration>,
    /// Punts to io-wq per second above which a ring stalls.
    pub punts_per_s: f64,
    pub metrics: Option<Arc<MetricsExchange>>,
    pub numbers: Rc<Numbers>,
}

/// Events reported to the caller.
#[derive(Debug)]
pub enum News<'a> {
    /// Sampling has begun.
    Ready {
        processes: usize,
    },
    /// Another second has passed.
    Alive,
    Reloaded {
        processes: usize,
    },
    Step(Step),
    /// A stall began or ended.
    Stall(&'a Stall),
    /// A stall was counted but not captured, because of the limit.
    Limited {
        trigger: Trigger,
        process: &'a StalledProcess,
    },
    /// A capture or trace failed; the monitor continues.
    Failed(&'a iotrail_base::error::Error),
}

/// Requests by signals.
pub struct Asked<'a> {
    pub stop: &'a dyn Fn() -> bool,
    /// Whether a reload was requested since the last call.
    pub reload: &'a dyn Fn() -> bool,
}

/// Runs until it is stopped, the duration is over, or the named processes have exited.
pub fn monitor(options: Options, asked: &Asked<'_>, tell: &mut dyn FnMut(News<'_>)) -> Result<()> {
    allowed()?;
    prioritise();
    let mut monitor = Monitor::open(options)?;
    tell(News::Ready { processes: monitor.subjects.known.len() });
    monitor.run(asked, tell)
}

/// On an overloaded machine, samples must not wait for a CPU. The budget limits the cost to other programs.
fn prioritise() {
    // Other values are the user's choice. Without CAP_SYS_NICE, it stays 0.
    if getpriority_process(None) == Ok(0) {
        setpriority_process(None, NICE).unwrap_or(());
    }
}

/// Names of the metrics that --when accepts.
pub fn metrics() -> Vec<&'static str> {
    let keeper = Keeper::new(Budget { cpu: 1.0, cpus: 1, memory: 0 }, 1.0, Duration::ZERO);
    figures::families(&Own::default(), &Accounts::default(), &keeper).iter().map(|f| f.name).collect()
}

/// A capture in progress.
struct Pending {
    key: Key,
    capture: Capture,
    facts: Facts,
    fired_ns: u64,
    /// CPU time by thread at the trigger.
    ran: BTreeMap<u32, u64>,
    due: Instant,
}

/// Purpose of the running trace.
enum For {
    Capture(PathBuf),
    Window,
}

struct Monitor {
    options: Options,
    reader: Reader,
    subjects: Subjects,
    triggers: Triggers,
    accounts: Accounts,
    history: History,
    captures: Captures,
    keeper: Keeper,
    own: Own,
    sleeps: Sleeps,
    reasons: HashMap<Vec<u64>, Sleep>,
    suspects: BTreeSet<u32>,
    last: Snapshot,
    pending: Vec<Pending>,
    /// Stalls in progress whose capture is complete.
    ongoing: BTreeMap<Key, (Stall, Facts)>,
    tracing: Option<(Tracing, For)>,
    trace_cost: Duration,
    values: (Values, Instant),
    /// Per expression: time since which it is true.
    true_since: Vec<Option<u64>>,
    random: Random,
    began: Instant,
    next_sample: Instant,
    next_survey: Instant,
    next_deep: Instant,
    next_window: Instant,
    /// Number of completions posted by all rings up to the last window.
    posted: u64,
    slice: Progress,
}

/// State at the start of a slice.
#[derive(Debug, Clone, Copy)]
struct Progress {
    at: Instant,
    main: Duration,
    all_ns: u64,
    samples: u64,
    /// CPU time of samples and of probes since the start of the slice.
    sampled: Duration,
    probes: Duration,
}

impl Progress {
    fn now(samples: u64) -> Self {
        let cpu = own_cpu();
        let all_ns = cpu.user_ns + cpu.system_ns;
        let (sampled, probes) = (Duration::ZERO, Duration::ZERO);
        Progress { at: Instant::now(), main: clock::of_this_thread(), all_ns, samples, sampled, probes }
    }
}

impl Monitor {
    fn open(options: Options) -> Result<Self> {
        let now = Instant::now();
        let captures = Captures::open(&options.dir)?;
        let mut reader = Reader::open()?;
        // Loads the symbols before the budget applies.
        snapshot::functions(&[]);
        let mut subjects = Subjects::new(options.subject.clone(), &options.numbers);
        subjects.survey(&reader.survey().unwrap_or_default());
        let mut random = Random::new(std::process::id().into());
        let first = options.windows.map_or(now, |w| now + after(w.period, &mut random));
        Ok(Monitor {
            triggers: Triggers::new(options.thresholds.clone()),
            keeper: Keeper::new(options.budget, FIRST_NS, options.thresholds.least()),
            true_since: vec![None; options.when.len()],
            options,
            reader,
            subjects,
            accounts: Accounts::default(),
            history: History::default(),
            captures,
            own: Own::default(),
            sleeps: Sleeps::new(),
            reasons: HashMap::new(),
            suspects: BTreeSet::new(),
            last: Snapshot::default(),
            pending: vec![],
            ongoing: BTreeMap::new(),
            tracing: None,
            trace_cost: COST,
            values: (Values::new(), now),
            random,
            began: now,
            next_sample: now,
            next_survey: now + SLICE,
            next_deep: now,
            next_window: first,
            posted: 0,
            slice: Progress::now(0),
        })
    }

    fn run(&mut self, asked: &Asked<'_>, tell: &mut dyn FnMut(News<'_>)) -> Result<()> {
        let end = self.options.duration.map(|time| self.began + time);
        loop {
            let now = Instant::now();
            if (asked.stop)() || end.is_some_and(|end| now >= end) || !self.subjects.may_come() {
                break;
            }
            if (asked.reload)() {
                match Captures::open(&self.options.dir) {
                    Ok(captures) => self.captures = captures,
                    Err(e) => self.failed(&e, tell),
                }
                self.survey();
                tell(News::Reloaded { processes: self.subjects.known.len() });
            }
            if now >= self.next_survey {
                self.survey();
            }
            if now >= self.next_sample {
                self.sample(now, tell);
            }
            if now >= self.slice.at + SLICE {
                self.turn(tell);
                tell(News::Alive);
            }
            self.finish(now, false, tell);
            self.traces(now, tell);
            if let Some(exchange) = self.options.metrics.as_ref().filter(|m| m.is_asked()) {
                exchange.answer(Scraped::Monitor(self.families()));
            }
            let next = self.next_sample.min(self.next_survey).min(now + TURN);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        // Completes the captures in progress.
        if let Some((tracing, what)) = self.tracing.take() {
            drop(tracing);
            self.not_traced(what, "the monitor ended".into());
        }
        self.finish(Instant::now(), true, tell);
        let ongoing: Vec<(Key, u64, u64)> = self.triggers.ongoing().collect();
        for (key, since_ns, until_ns) in ongoing {
            self.over(key, until_ns - since_ns, false, tell);
        }
        Ok(())
    }

    fn survey(&mut self) {
        let began = clock::of_this_thread();
        // A failed survey is repeated a second later.
        if let Ok(threads) = self.reader.survey() {
            self.subjects.survey(&threads);
        }
        let here: BTreeSet<u32> =
            self.subjects.known.keys().filter_map(|tgid| self.options.numbers.here(*tgid)).collect();
        self.reader.keep(|pid| here.contains(&pid));
        let cost = clock::of_this_thread().saturating_sub(began);
        self.next_survey = Instant::now() + SLICE.max(cost * SURVEY_PART);
    }

    fn sample(&mut self, now: Instant, tell: &mut dyn FnMut(News<'_>)) {
        let began = clock::of_this_thread();
        let reading = if self.keeper.has(Layer::Stacks) { Reading::Sleeps } else { Reading::Brief };
        let is_deep = now >= self.next_deep;
        if is_deep {
            self.next_deep = now + DEEP;
        }
        let of = |tgid: &u32| {
            let reading = if is_deep || self.suspects.contains(tgid) { Reading::Deep } else { reading };
            self.options.numbers.here(*tgid).map(|pid| (pid, reading))
        };
        let processes: Vec<(u32, Reading)> = self.subjects.known.keys().filter_map(of).collect();
        let sample = self.reader.read(&processes);
        self.own.samples += u64::from(!processes.is_empty());
        self.resolve(&sample);
        self.accounts.take(&sample, &self.sleeps, &self.subjects.known);
        self.history.take(&sample, &self.sleeps);
        let events = self.triggers.take(&sample, &self.sleeps);
        self.suspects = self.triggers.suspects(&sample);
        self.last = sample;
        self.slice.sampled += clock::of_this_thread().saturating_sub(began);
        for event in events {
            match event {
                Event::Fired { key, since_ns, facts } => self.fired(key, since_ns, &facts, tell),
                Event::Over { key, since_ns, until_ns } => self.over(key, until_ns - since_ns, true, tell),
            }
        }
        self.keeper.set_idle(!self.triggers.is_busy() && self.pending.is_empty());
        let jitter = Duration::from_nanos(self.random.below(self.keeper.period().as_nanos() as u64 / 2 + 1));
        self.next_sample = now + self.keeper.period() * 3 / 4 + jitter;
    }

    /// Determines why each thread sleeps.
    fn resolve(&mut self, sample: &Snapshot) {
        let late_ns = self.options.thresholds.ns(Trigger::LateTimer);
        let threads: BTreeSet<u32> = sample.threads.iter().map(|t| t.tid).collect();
        self.sleeps.retain(|tid, _| threads.contains(tid));
        for t in &sample.threads {
            if !t.asleep {
                self.sleeps.remove(&t.tid);
            } else if !t.stack.is_empty() {
                if self.reasons.len() >= REASONS {
                    self.reasons.clear();
                }
                let sleep = match self.reasons.get(&t.stack) {
                    Some(known) => known.clone(),
                    None => self.reasons.entry(t.stack.clone()).or_insert_with(|| of_stack(&t.stack)).clone(),
                };
                self.sleeps.insert(t.tid, sleep);
            } else if !t.is_same_sleep {
                self.sleeps.insert(t.tid, of_call(t));
            }
            // Reads the program's memory once per wait, and only if the sleep may be too long.
            let may_be_late = t.asleep_ns.is_some_and(|ns| ns >= late_ns / 2);
            if let Some(sleep) = self.sleeps.get_mut(&t.tid).filter(|s| may_be_late && !s.limit_was_read) {
                (sleep.limit, sleep.limit_was_read) = (limit::of(t, &self.options.numbers), true);
            }
        }
    }

    fn fired(&mut self, key: Key, since_ns: u64, facts: &Facts, tell: &mut dyn FnMut(News<'_>)) {
        let process = self.subjects.known.get(&key.tgid).cloned().unwrap_or_default();
        if key.tgid != 0 {
            self.accounts.stalled(&process, key.trigger);
        }
        let ClockOrigin { monotonic_ns: at_ns, unix_ns } = recorder::now();
        if !self.captures.may(key.trigger, at_ns) {
            self.own.limited += 1;
            tell(News::Limited { trigger: key.trigger, process: &process });
            return;
        }
        let began_unix_ns = unix_ns.saturating_sub(at_ns.saturating_sub(since_ns));
        let path = self.captures.path(key.trigger, key.tgid, began_unix_ns);
        let here = self.options.numbers.here(key.tgid).filter(|_| key.tgid != 0);
        let deep = here.map(|pid| self.reader.read(&[(pid, Reading::Deep)])).filter(|s| !s.threads.is_empty());
        let mut facts = facts.clone();
        let depth = deep.iter().flat_map(|s| &s.rings).find(|r| r.address == key.id).and_then(|r| r.depth.as_ref());
        if let Some((ring, depth)) = facts.ring.as_mut().zip(depth) {
            ring.overflowed = ring.overflowed.or(Some(u64::from(depth.overflow_list)).filter(|n| *n > 0));
            if key.trigger == Trigger::WaitsForMore {
                ring.in_flight = depth.in_flight.map(u64::from);
            }
        }
        let explained = explain(key.trigger, &facts);
        let stall = Stall {
            trigger: key.trigger,
            began_unix_ns,
            lasted_ns: facts.for_ns,
            is_over: false,
            process,
            ring: facts.ring.as_ref().and_then(|r| r.fd),
            thread: facts.thread.as_ref().map(|t| t.tid),
            cause: explained.cause,
            text: explained.text,
            capture: path.display().to_string(),
        };
        let moment = deep.as_ref().and_then(|deep| {
            let mut sums = Sums::default();
            sums.take(&self.last);
            sums.take(deep);
            sums.moment()
        });
        let stacks = deep.iter().flat_map(|deep| &deep.threads).filter(|t| !t.stack.is_empty()).take(STACKS);
        let stacks = stacks.map(|t| SleepStack {
            tid: t.tid,
            comm: t.comm.clone(),
            functions: snapshot::functions(&t.stack).into_iter().map(str::to_owned).collect(),
        });
        let capture = Capture {
            schema: CAPTURE.into(),
            stall,
            sample_ns: None,
            rings: vec![],
            threads: vec![],
            moment,
            stacks: stacks.collect(),
            ran: vec![],
            ran_during_ns: None,
            trace: None,
            not_traced: self.start_trace(here, path),
        };
        // Reads the state first: the stall may end before the caller handles the event.
        tell(News::Stall(&capture.stall));
        let ran = self.reader.survey().unwrap_or_default().into_iter().map(|t| (t.tid, t.ran_ns)).collect();
        self.pending.push(Pending { key, capture, facts, fired_ns: at_ns, ran, due: Instant::now() + AFTER });
    }

    /// `None` if a trace was started, otherwise the reason why not.
    fn start_trace(&mut self, here: Option<u32>, path: PathBuf) -> Option<String> {
        let Some(span) = self.options.trace else { return Some("traces are off (--trace 0)".into()) };
        let Some(pid) = here else { return Some("the stall does not belong to a single process".into()) };
        if self.tracing.is_some() {
            return Some("another trace was running".into());
        }
        if !self.keeper.has(Layer::Traces) || !self.keeper.affords(self.trace_cost) {
            return Some("the CPU budget did not allow it".into());
        }
        match Tracing::start(vec![pid], span) {
            Ok(tracing) => {
                self.tracing = Some((tracing, For::Capture(path)));
                None
            }
            Err(e) => Some(e.to_string()),
        }
    }

    /// A stall ended, or the monitor is about to end.
    fn over(&mut self, key: Key, lasted_ns: u64, is_over: bool, tell: &mut dyn FnMut(News<'_>)) {
        if let Some(pending) = self.pending.iter_mut().find(|p| p.key == key && !p.capture.stall.is_over) {
            ended(&mut pending.capture.stall, &pending.facts, lasted_ns, is_over);
            tell(News::Stall(&pending.capture.stall));
        } else if let Some((mut stall, facts)) = self.ongoing.remove(&key) {
            ended(&mut stall, &facts, lasted_ns, is_over);
            tell(News::Stall(&stall));
            let path = PathBuf::from(&stall.capture);
            // The disk may have been full, or the file was deleted in favour of newer ones.
            if path.exists()
                && let Err(e) = self.amend(&path, |capture| capture.stall = stall)
            {
                self.failed(&e, tell);
            }
        }
    }

    /// Changes a capture file.
    fn amend(&self, path: &std::path::Path, change: impl FnOnce(&mut Capture)) -> Result<()> {
        let mut capture = capture::read(path)?;
        change(&mut capture);
        self.captures.write(&capture)
    }

    fn failed(&mut self, e: &iotrail_base::error::Error, tell: &mut dyn FnMut(News<'_>)) {
        self.own.failed += 1;
        tell(News::Failed(e));
    }

    /// Writes complete captures; with `all`, also incomplete ones.
    fn finish(&mut self, now: Instant, all: bool, tell: &mut dyn FnMut(News<'_>)) {
        if !self.pending.iter().any(|p| all || now >= p.due) {
            return;
        }
        let threads = self.reader.survey().unwrap_or_default();
        let (due, rest) = self.pending.drain(..).partition(|p| all || now >= p.due);
        self.pending = rest;
        let due: Vec<Pending> = due;
        for mut p in due {
            let (rings, samples) = self.history.of(p.key.tgid, p.fired_ns, SAMPLES);
            let times: BTreeSet<i64> = samples.iter().map(|s| s.at_ns).collect();
            let span = times.last().zip(times.first()).map(|(last, first)| (last - first) as u64);
            p.capture.sample_ns = span.filter(|_| times.len() > 1).map(|span| span / (times.len() as u64 - 1));
            (p.capture.rings, p.capture.threads) = (rings, samples);
            p.capture.ran = ran(&p.ran, &threads);
            p.capture.ran_during_ns = Some((now + AFTER - p.due).as_nanos() as u64);
            if !p.capture.stall.is_over {
                let ongoing = self.triggers.ongoing().find(|(key, ..)| *key == p.key);
                let lasted = ongoing.map(|(_, since, last)| last - since);
                p.capture.stall.lasted_ns = p.capture.stall.lasted_ns.max(lasted.unwrap_or(0));
                self.ongoing.insert(p.key, (p.capture.stall.clone(), p.facts));
            }
            match self.captures.write(&p.capture) {
                Ok(()) => self.own.captured += 1,
                Err(e) => self.failed(&e, tell),
            }
        }
    }

    /// Collects the result of a trace, or opens a window when due.
    fn traces(&mut self, now: Instant, tell: &mut dyn FnMut(News<'_>)) {
        if let Some((tracing, _)) = &mut self.tracing {
            let Some(result) = tracing.poll() else { return };
            let Some((_, what)) = self.tracing.take() else { return };
            match result {
                Ok(traced) => self.traced(traced, what, tell),
                // The process may have exited since the trigger.
                Err(e) if e.exit_status() == 2 => self.not_traced(what, e.to_string()),
                Err(e) => {
                    self.not_traced(what, e.to_string());
                    tell(News::Failed(&e));
                }
            }
            return;
        }
        let Some(windows) = self.options.windows.filter(|_| now >= self.next_window) else { return };
        self.next_window = now + after(windows.period, &mut self.random);
        let posted = self.accounts.programs().values().map(|sums| sums.posted).sum();
        let is_idle = posted == self.posted;
        self.posted = posted;
        let may = self.keeper.has(Layer::Windows) && self.keeper.affords(self.trace_cost);
        if is_idle || !may || self.subjects.known.is_empty() {
            return;
        }
        let here = |tgid: &u32| self.options.numbers.here(*tgid);
        let processes = match self.options.subject {
            Subject::All => vec![],
            _ => self.subjects.known.keys().filter_map(here).collect(),
        };
        match Tracing::start(processes, windows.open) {
            Ok(tracing) => self.tracing = Some((tracing, For::Window)),
            Err(e) => tell(News::Failed(&e)),
        }
    }

    fn traced(&mut self, traced: Traced, what: For, tell: &mut dyn FnMut(News<'_>)) {
        self.trace_cost = traced.cost;
        self.slice.probes += traced.probes;
        self.own.traced_ns += traced.probes.as_nanos() as u64;
        match what {
            For::Window => self.window(&traced.record, tell),
            For::Capture(path) => {
                self.own.traces += 1;
                let mut record = Some(Box::new(traced.record));
                let name = path.display().to_string();
                if let Some(p) = self.pending.iter_mut().find(|p| p.capture.stall.capture == name) {
                    p.capture.trace = record;
                } else if let Err(e) = self.amend(&path, |capture| capture.trace = record.take()) {
                    self.failed(&e, tell);
                }
            }
        }
    }

    fn not_traced(&mut self, what: For, why: String) {
        let For::Capture(path) = what else { return };
        let name = path.display().to_string();
        if let Some(p) = self.pending.iter_mut().find(|p| p.capture.stall.capture == name) {
            p.capture.not_traced = Some(why);
        } else if self.amend(&path, |capture| capture.not_traced = Some(why)).is_err() {
            self.own.failed += 1;
        }
    }

    /// Collects the counts of a window.
    fn window(&mut self, record: &TraceRecord, tell: &mut dyn FnMut(News<'_>)) {
        let t = &record.total;
        let punts: u64 = t.opcodes.iter().map(|o| o.punted_asked + o.punted_would_block + o.punted_drained).sum();
        let w = &mut self.own.windows;
        w.opened += 1;
        w.open_ns += t.elapsed_ns;
        w.requests += t.opcodes.iter().map(|o| o.requests).sum::<u64>();
        w.errors += t.errors;
        w.punts += punts;
        for path in &t.vehicles {
            *w.completions.entry(path.vehicle.name()).or_default() += path.completions;
        }
        for ring in &record.rings {
            let of = |tgid: &&u32| self.options.numbers.here(**tgid) == Some(ring.tgid);
            let (Some(tgid), Some(p99_9)) = (self.subjects.known.keys().find(of), ring.latency_ns.p99_9) else {
                continue;
            };
            ring.fds.iter().for_each(|fd| self.triggers.learn(*tgid, *fd, p99_9));
        }
        let mut failed: BTreeMap<String, u64> = BTreeMap::new();
        for o in t.opcodes.iter().filter(|o| writes(o)) {
            let is_error = |e: &&ErrnoCount| !["EAGAIN", "EINTR", "ECANCELED"].contains(&e.errno.as_str());
            for e in o.errnos.iter().filter(is_error) {
                *failed.entry(format!("{}: {}", o.opcode, e.errno)).or_default() += e.count;
            }
        }
        let at_ns = clock::monotonic_ns();
        let since_ns = at_ns.saturating_sub(t.elapsed_ns);
        let tgid = match self.subjects.known.keys().collect::<Vec<_>>().as_slice() {
            [only] => **only,
            _ => 0,
        };
        let facts =
            |amount: u64, detail| Facts { for_ns: t.elapsed_ns, amount: amount as f64, detail, ..Facts::default() };
        if !failed.is_empty() {
            let names: Vec<String> = failed.keys().cloned().collect();
            let key = Key { trigger: Trigger::WriteErrors, tgid, id: 0 };
            self.fired(key, since_ns, &facts(failed.values().sum(), words::list(&names)), tell);
            self.over(key, t.elapsed_ns, true, tell);
        }
        let per_s = punts as f64 / (t.elapsed_ns as f64 / 1e9).max(1e-3);
        if per_s > self.options.punts_per_s {
            let key = Key { trigger: Trigger::Punts, tgid, id: 0 };
            self.fired(key, since_ns, &facts(per_s as u64, String::new()), tell);
            self.over(key, t.elapsed_ns, true, tell);
        }
    }

    /// Ends a slice: updates the budget and checks --when.
    fn turn(&mut self, tell: &mut dyn FnMut(News<'_>)) {
        let now = Progress::now(self.own.samples);
        let since = |now: Duration, then: Duration| now.saturating_sub(then);
        let spent = since(now.main, self.slice.main);
        let all = Duration::from_nanos(now.all_ns.saturating_sub(self.slice.all_ns));
        let others = since(all, spent);
        let memory = memory();
        let slice = Slice {
            wall: now.at - self.slice.at,
            spent,
            traced: others + self.slice.probes,
            samples: now.samples - self.slice.samples,
            sampled: self.slice.sampled,
            memory,
        };
        self.own.elapsed_ns = self.began.elapsed().as_nanos() as u64;
        self.own.spent_ns += spent.as_nanos() as u64;
        self.own.traced_ns += others.as_nanos() as u64;
        self.own.memory = memory;
        self.own.processes = self.subjects.known.len() as u64;
        self.own.unsampled = self.subjects.unsampled;
        self.slice = now;
        if let Some(step) = self.keeper.turn(slice) {
            tell(News::Step(step));
        }
        self.conditions(tell);
    }

    fn conditions(&mut self, tell: &mut dyn FnMut(News<'_>)) {
        if self.options.when.is_empty() {
            return;
        }
        let (values, now) = (when::values(&self.families()), Instant::now());
        let (before, then) = std::mem::replace(&mut self.values, (values, now));
        let seconds = (now - then).as_secs_f64();
        let at_ns = clock::monotonic_ns();
        for i in 0..self.options.when.len() {
            let when = &self.options.when[i];
            let met = when.met(&self.values.0, &before, seconds);
            let key = Key { trigger: Trigger::When, tgid: 0, id: i as u64 };
            match (met, self.true_since[i]) {
                (Some(met), None) => {
                    self.true_since[i] = Some(at_ns);
                    let facts = Facts { amount: met.value, detail: when.text.clone(), ..Facts::default() };
                    self.fired(key, at_ns, &facts, tell);
                }
                (None, Some(since)) => {
                    self.true_since[i] = None;
                    self.over(key, at_ns - since, true, tell);
                }
                _ => {}
            }
        }
    }

    fn families(&self) -> Vec<Family> {
        let mut own = self.own.clone();
        own.pressure = pressure();
        own.group_pressure = group_pressure(self.accounts.programs().keys().map(|(_, cgroup)| cgroup.as_str()));
        figures::families(&own, &self.accounts, &self.keeper)
    }
}

/// Completes the stall with its duration.
fn ended(stall: &mut Stall, facts: &Facts, lasted_ns: u64, is_over: bool) {
    (stall.lasted_ns, stall.is_over) = (lasted_ns, is_over);
    // Sentences with the duration that was known when the stall began.
    let has_sum =
        matches!(stall.trigger, Trigger::ThrottledCpu | Trigger::WriteErrors | Trigger::Punts | Trigger::When);
    if !has_sum {
        // A timeout is late by the additional duration of the stall as well.
        let amount = match stall.trigger {
            Trigger::LateTimer => facts.amount + lasted_ns.saturating_sub(facts.for_ns) as f64,
            _ => facts.amount,
        };
        stall.text = explain(stall.trigger, &Facts { for_ns: lasted_ns, amount, ..facts.clone() }).text;
    }
}

/// Whether the operation writes to a file or syncs it.
fn writes(o: &OpcodeRecord) -> bool {
    let is_sync = matches!(o.opcode.as_str(), "fsync" | "fdsync" | "aio_fsync" | "sync_file_range");
    is_sync || opcode::is(&o.opcode, opcode::WRITES) && !opcode::is(&o.opcode, opcode::SOCKET)
}

/// A random time of about one period: regular samples would alias with the program's periodic activity.
fn after(period: Duration, random: &mut Random) -> Duration {
    period / 2 + Duration::from_nanos(random.below(period.as_nanos() as u64))
}

fn of_stack(stack: &[u64]) -> Sleep {
    let functions = snapshot::functions(stack);
    Sleep { reason: sleep::reason(&functions), is_sync: functions.contains(&"vfs_fsync_range"), ..Sleep::default() }
}

/// The sleep of a thread whose stack is unknown.
fn of_call(t: &Thread) -> Sleep {
    let call = t.call.filter(|_| !t.is_kernels).map(syscall_name);
    Sleep { reason: call.and_then(|call| sleep::reason_of_call(&call)), ..Sleep::default() }
}

/// Threads that ran between two surveys, most CPU time first.
fn ran(before: &BTreeMap<u32, u64>, after: &[SurveyedThread]) -> Vec<Ran> {
    let of = |t: &SurveyedThread| Ran {
        tid: t.tid,
        tgid: t.tgid,
        comm: t.comm.clone(),
        cpu: t.cpu,
        ns: t.ran_ns.saturating_sub(before.get(&t.tid).copied().unwrap_or(0)),
    };
    let mut all: Vec<Ran> = after.iter().map(of).filter(|ran| ran.ns > 0).collect();
    all.sort_by_key(|ran| std::cmp::Reverse(ran.ns));
    all.truncate(RAN);
    all
}

/// Memory of this process, excluding mapped files.
fn memory() -> u64 {
    let statm = procfs::text("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split(' ').skip(1).filter_map(|n| n.parse::<u64>().ok());
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

/// Pressure Stall Information, if the kernel has it.
fn pressure() -> Vec<(&'static str, &'static str, u64)> {
    let mut all = vec![];
    for resource in ["cpu", "io", "memory"] {
        let text = procfs::text(format!("/proc/pressure/{resource}")).unwrap_or_default();
        all.extend(stalled(&text).map(|(kind, ns)| (resource, kind, ns)));
    }
    all
}

/// The same per cgroup, if cgroup v2 is mounted.
fn group_pressure<'g>(groups: impl Iterator<Item = &'g str>) -> Vec<(String, &'static str, u64)> {
    let groups: BTreeSet<&str> = groups.filter(|group| !group.is_empty()).collect();
    let mounts = procfs::text("/proc/self/mountinfo").unwrap_or_default();
    let Some(point) = mounts.lines().find(|l| l.contains(" - cgroup2 ")).and_then(|l| l.split(' ').nth(4)) else {
        return vec![];
    };
    let of = |group: &str| {
        let path = Path::new(point).join(group.trim_start_matches('/')).join("io.pressure");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        stalled(&text).map(|(kind, ns)| (group.to_owned(), kind, ns)).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of).collect()
}

/// `some` and `full` in a Pressure Stall Information file, in ns.
fn stalled(text: &str) -> impl Iterator<Item = (&'static str, u64)> {
    ["some", "full"].into_iter().filter_map(move |kind| {
        let line = text.lines().find(|l| l.starts_with(kind))?;
        let us = line.rsplit_once("total=")?.1.trim().parse::<u64>().ok()?;
        Some((kind, us * 1000))
    })
}
