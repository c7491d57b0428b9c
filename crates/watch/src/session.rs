//! One watched span: the probes are attached, the subject goes on (or starts), what was followed is taken out as it comes, and
//! at the end counts, followed requests and /proc's view become one record.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::allowed::allowed;
use super::command::{self, Gated, Prepare};
use super::end;
use super::files::Names;
use super::left::Left;
use super::metrics::{self, Desk};
use super::namespace::{self, Numbers};
use super::processes::{CpuTime, Processes};
use super::quota::Quotas;
use super::recorder::{self, Keep, Kept, Recorder};
use super::sampler::Sampler;
use super::subject::{Asked, Process};
use super::summary::{Seen, Span, Summary};
use super::windows::{Schedule, Step, Windows};
use iotrail_answer::doubt;
use iotrail_base::error::{Error, Result};
use iotrail_path::sample::Sample;
use iotrail_probe::choice::Choice;
use iotrail_probe::cost::Cost;
use iotrail_probe::profile;
use iotrail_probe::sampling::Sampling;
use iotrail_probe::subject::{Follow, Interface, Subject, Who};
use iotrail_probe::watch::{Room, Watch};
use iotrail_schema::file::Descriptor;
use iotrail_schema::measurement::Warning;
use iotrail_schema::metrics_record::Observer;
use iotrail_schema::recorded::{self, End, Header};
use iotrail_schema::trace_record::{self, ProbeCost, ProcessRecord, TraceRecord};

/// Between two looks at what was followed.
pub(super) const PERIOD: Duration = Duration::from_millis(20);

/// So long a command is waited for once it was asked to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// How it is watched.
#[derive(Debug, Clone)]
pub struct How {
    /// `None`: until the subject ends, or until it is stopped.
    pub duration: Option<Duration>,
    /// Requests that are followed whole.
    pub choice: Choice,
    /// `None`: all the time.
    pub windows: Option<Windows>,
    /// A command's standard output goes to our standard error.
    pub stdout_apart: bool,
    /// What else is done to a command before it is started.
    pub prepare: Option<Prepare>,
    /// [`Progress::counts`] are told.
    pub tell_counts: bool,
    pub until: Until,
    /// What costs much is looked at in windows while the program is busy.
    pub spare: bool,
    pub numbers: Rc<Numbers>,
}

/// When the watch of a command is over, if nothing stops it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The command itself has ended.
    Command,
    /// So have all processes that it left behind.
    Last,
}

/// What is wanted beside the counts.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    pub keep: Keep,
    pub sampling: Option<Sampling>,
    /// What the probes cost.
    pub cost: bool,
    /// Where scrapes ask for the counts so far.
    pub metrics: Option<Arc<Desk>>,
}

/// What a watched span yields.
pub struct Traced {
    pub record: TraceRecord,
    /// `None`: nothing was to be kept.
    pub kept: Option<Kept>,
    /// What the record's CPU shares are made of; empty unless samples were asked for.
    pub samples: Vec<Sample>,
    /// The command was asked to end, since the time was over.
    pub ended_by_us: bool,
}

/// What is told while it lasts.
#[derive(Debug)]
pub enum News<'a> {
    /// Named processes are watched, and so many that descend from them.
    Begins {
        descendants: usize,
    },
    /// The command has ended, and others that it left go on.
    Left {
        status: i32,
        left: &'a Left,
    },
    Goes(Progress),
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Completions of followed requests.
    pub followed: u64,
    /// Requests and completions so far, every half second; `None` at other times, or where they are not to be told.
    pub counts: Option<(u64, u64)>,
}

/// Between two looks at the counts.
const COUNTS: Duration = Duration::from_millis(500);

/// Requests, and completions of them.
fn counts(watch: &mut Watch<'_>) -> Result<(u64, u64)> {
    let seen = watch.look()?;
    let of_rings: u64 = seen.rings.iter().flat_map(|r| &r.opcodes).map(|o| o.requests).sum();
    let of_contexts: u64 = seen.contexts.iter().flat_map(|c| &c.opcodes).map(|o| o.requests).sum();
    Ok((of_rings + of_contexts, seen.seen))
}

/// Whether, and how, it is to be stopped before its end.
pub struct Stop<'a> {
    pub asked: &'a dyn Fn() -> bool,
    /// The signal that asked for it, where the command has not got it too (as from a terminal).
    pub to_pass_on: &'a dyn Fn() -> Option<libc::c_int>,
}

/// Who is watched, while it is.
pub(super) enum Watched {
    Command(Gated),
    Processes(Vec<Process>),
    Everyone,
}

impl Watched {
    pub fn have_ended(&mut self) -> bool {
        match self {
            Watched::Command(command) => command.ended().is_some(),
            Watched::Processes(processes) => all_ended(processes),
            Watched::Everyone => false,
        }
    }

    /// Waits for an end, so long at most.
    pub fn wait(&self, patience: Duration) {
        match self {
            Watched::Command(command) => end::wait([command.end()].into_iter(), patience),
            Watched::Processes(processes) => end::wait(processes.iter().map(|p| &p.end), patience),
            Watched::Everyone => end::wait([].into_iter(), patience),
        }
    }
}

fn all_ended(processes: &[Process]) -> bool {
    processes.iter().all(|p| p.end.is_there())
}

pub fn watch(
    asked: Asked,
    how: &How,
    extra: &Extra,
    tell: &mut dyn FnMut(News<'_>),
    stop: &Stop<'_>,
) -> Result<Traced> {
    allowed()?;
    if extra.sampling.is_some() && how.windows.is_some() {
        return Err(Error::input(
            "the CPU is sampled all the time, not by windows",
            "leave out --windows or --profile",
        ));
    }
    let subject_of_watch = probed(&asked, how.choice);
    // First of all: a command's process begins as a copy of ours and has to give back what it is a copy of when it becomes the
    // program, in the program's time.
    let mut watched = match asked {
        Asked::Command(argv) => Watched::Command(Gated::new(&argv, how.stdout_apart, how.prepare.as_ref())?),
        Asked::Processes(processes) => Watched::Processes(processes),
        Asked::Everyone => Watched::Everyone,
    };
    let host = iotrail_host::facts(None)?;
    let mut room = Room::default();
    let mut watch = Watch::open(&mut room, subject_of_watch)?;
    let mut warnings = watch.missing();
    if iotrail_host::kernel::settings().io_uring_disabled == Some(2) {
        warnings.push(Warning::new(
            "io_uring_disabled",
            "kernel.io_uring_disabled is 2: nobody can make a ring on this machine; rings that are there already are seen, and so is \
             native aio",
            "as root: sysctl kernel.io_uring_disabled=0",
        ));
    }
    warnings.extend(whose_numbers(&how.numbers));

    if extra.cost {
        watch.count_cost()?;
    }
    let mut sampling_room = profile::Room::default();
    let mut sampler = extra.sampling.map(|s| Sampler::open(&mut sampling_room, s)).transpose()?;

    let mut processes = Processes::new(!matches!(watched, Watched::Everyone), Rc::clone(&how.numbers));
    processes.quotas = Some(Quotas::default());
    let descendants = follow(&mut watched, &mut watch, &mut processes, &how.numbers)?;

    still_there(&watched)?;
    if descendants > 0 {
        tell(News::Begins { descendants });
    }
    let origin = recorder::now();
    // Before anything starts: a file that cannot be made is found out here.
    let header = Header {
        schema: recorded::SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        subject: subject(&mut watched, descendants),
        one_in: how.choice.one_in,
        adaptive: how.choice.adaptive,
        slowest: extra.keep.slowest.map(|k| k as u64),
        windows: how.windows.map(|w| (w.open.as_nanos() as u64, w.period.as_nanos() as u64)),
        origin,
        host: host.clone(),
    };
    let mut recorder = Recorder::start(&extra.keep, header)?;
    match how.windows {
        None => watch.begin()?,
        Some(_) => watch.begin_closed()?,
    }
    if how.spare {
        watch.spare();
    }
    if let Some(sampler) = &mut sampler {
        sampler.tell(&processes);
        sampler.begin()?;
    }
    let began = Instant::now();
    if let Watched::Command(command) = &mut watched {
        command.release()?;
    }
    let mut windows = how.windows.map(|windows| Opening::new(windows, began));
    let mut summary = Summary::new(how.choice);
    let mut files = Names::new(Rc::clone(&how.numbers));
    let mut until = how.duration.map(|d| began + d);
    let mut stopped = false;
    let mut left: Option<Left> = None;
    let mut counted = began;
    loop {
        if watched.have_ended() {
            let Watched::Command(command) = &mut watched else { break };
            if stopped || how.until == Until::Command {
                break;
            }
            let is_first = left.is_none();
            let left = left.get_or_insert_default();
            left.look(&watch, &how.numbers)?;
            if left.is_over() {
                break;
            }
            if is_first && left.running().len() > 0 {
                let status = command.ended().unwrap_or(0);
                tell(News::Left { status, left });
            }
        }
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            break;
        }
        if !stopped && (stop.asked)() {
            stopped = true;
            let Watched::Command(command) = &mut watched else { break };
            if left.is_some() {
                break;
            }
            if let Some(signal) = (stop.to_pass_on)() {
                command.signal(signal);
            }
            // What it still does until it has ended belongs to it.
            until = Some(now + PATIENCE);
        }
        // First of all, since taking takes its time: a window that should have closed costs the watched.
        let closing = windows.as_mut().map(|windows| windows.turn(&mut watch)).transpose()?;
        watch.pace()?;
        if closing != Some(true) {
            take(&mut watch, &mut summary, &mut processes, Some(&mut files), recorder.as_mut())?;
            processes.sample();
        }
        if let Some(sampler) = &mut sampler {
            sampler.tell(&processes);
        }
        if let Some(recorder) = recorder.as_mut().filter(|r| r.is_note_due()) {
            recorder.note(watch.follow_loss());
        }
        if let Some(desk) = extra.metrics.as_ref().filter(|desk| desk.is_asked()) {
            let elapsed_ns = began.elapsed().as_nanos() as u64;
            desk.answer(metrics::record(watch.look()?, &summary, elapsed_ns, own_cpu()));
        }
        let due = how.tell_counts && counted.elapsed() >= COUNTS;
        let now_counted = due.then(|| counts(&mut watch)).transpose()?;
        if due {
            counted = Instant::now();
        }
        let (elapsed, followed) = (began.elapsed(), summary.completions());
        tell(News::Goes(Progress { elapsed, followed, counts: now_counted }));
        let mut rest = until.map_or(PERIOD, |until| PERIOD.min(until.saturating_duration_since(Instant::now())));
        if let Some(windows) = &windows {
            rest = rest.min(windows.schedule.rest(Instant::now()));
        }
        match &left {
            // Two looks that follow each other closely may miss the same.
            Some(left) => end::wait(left.ends(), rest),
            None => watched.wait(rest),
        }
    }
    let windows = windows.map(|windows| windows.end(&mut watch, began)).transpose()?;
    let elapsed_ns = windows.and_then(|w| w.open_for_ns()).unwrap_or(began.elapsed().as_nanos() as u64);
    let ended_ns = recorder::now().monotonic_ns;
    let over = watched.have_ended();
    processes.look(true);
    let cpu = cpu(&mut watch, &mut processes, &watched, &how.numbers)?.filter(|_| windows.is_none());
    // What ends the watch is none of the watched programs' CPU time.
    let shares = sampler.as_mut().map(Sampler::end).transpose()?;
    let costs = watch.costs()?;
    let observed = watch.end()?;
    take(&mut watch, &mut summary, &mut processes, Some(&mut files), recorder.as_mut())?;

    if let Watched::Command(command) = &mut watched {
        if !stopped {
            command.signal(libc::SIGTERM);
        }
        let ended = if stopped { command.ended() } else { command.wait(PATIENCE) };
        if ended.is_none() {
            warnings.push(Warning::new(
                "still_running",
                format!("the command (process {}) was asked to end and still runs, unwatched", command.tgid()),
                "end it yourself",
            ));
        }
    }
    if let (Watched::Command(_), true) = (&watched, over) {
        let mut left = left.unwrap_or_default();
        left.look(&watch, &how.numbers)?;
        if left.running().len() > 0 {
            warnings.push(Warning::new(
                "left_running",
                format!("the watch has ended before {}", left.words()),
                "what they do from here on is not counted; end them yourself if they are not wanted",
            ));
        }
    }
    warnings.extend(processes.quotas.as_ref().and_then(Quotas::warning));
    let subject = subject(&mut watched, descendants);
    // The probes' name of one that is found at its I/O is the thread's; that of /proc may be of before it became its program.
    let mut names: BTreeMap<u32, String> = processes.names().map(|(tgid, name)| (tgid, name.to_owned())).collect();
    let (watched_by_probes, more) = (observed.processes.len() as u64, observed.more_processes);
    let newer = observed.processes.iter().filter(|p| !processes.looked_at_since(p.tgid, p.executed_ns));
    names.extend(newer.map(|p| (p.tgid, p.comm.clone())));
    let span = Span {
        started_unix_s: origin.unix_ns / 1_000_000_000,
        elapsed_ns,
        subject,
        host,
        cpu,
        processes: names
            .into_iter()
            .map(|(tgid, comm)| ProcessRecord {
                tgid,
                here: processes.here(tgid),
                comm,
                found: processes.was_there(tgid),
            })
            .collect(),
        most_workers: processes.most_workers(),
        workers_cpu_ns: processes.workers_cpu_ns(watch.ended_workers_ns()).filter(|_| windows.is_none()),
        warnings,
    };
    let sq_thread = |tgid, tid| processes.sq_thread(tgid, tid);
    let seen = Seen { rings: processes.rings.all(), sq_thread: &sq_thread, files: &files };
    let loss = observed.follow_loss;
    let mut record = summary.record(observed, &seen, span);
    record.total.reaping_lost = Some(watch.stays_lost());
    // The probes know of all of them; a name that was used again is there once.
    record.total.more_processes = (watched_by_probes + more).saturating_sub(record.total.processes.len() as u64);
    if let Some(windows) = windows {
        of_windows(&mut record, windows, loss.came_later);
    }
    record.total.probe_costs = costs.map(|costs| {
        let record = |c: Cost| ProbeCost {
            program: c.program.into(),
            event: c.tracepoint.into(),
            runs: c.runs,
            spent_ns: c.spent_ns,
        };
        costs.into_iter().map(record).collect()
    });
    let mut samples = vec![];
    if let Some(shares) = shares {
        record.total.warnings.extend(doubt::samples_lost(&shares.how));
        record.total.warnings.extend(sampler.as_ref().and_then(Sampler::doubt));
        record.total.cpu_shares = Some(shares.shares);
        record.total.cpu_samples = Some(shares.how);
        samples = shares.samples;
    }
    let kept = recorder.map(|recorder| {
        let (rings, processes) = (record.rings.clone(), record.total.processes.clone());
        recorder.finish(ended_ns, loss, End { rings, processes, files: files.named(), ..End::default() })
    });
    let ended_by_us = matches!(watched, Watched::Command(_)) && !over && !stopped;
    Ok(Traced { record, kept, samples, ended_by_us })
}

/// Windows as they open and close.
struct Opening {
    windows: Windows,
    schedule: Schedule,
    open_since: Option<Instant>,
    /// From then on no requests are chosen.
    finishing_since: Option<Instant>,
    /// How long requests were chosen in those that are over, and how long these finished then.
    choosing: Duration,
    finishing: Duration,
    opened: u64,
}

impl Opening {
    fn new(windows: Windows, now: Instant) -> Self {
        let seed = recorder::now().monotonic_ns;
        Opening {
            windows,
            schedule: Schedule::new(windows, now, seed),
            open_since: None,
            finishing_since: None,
            choosing: Duration::ZERO,
            finishing: Duration::ZERO,
            opened: 0,
        }
    }

    /// Does what is due. Whether a window is about to close.
    fn turn(&mut self, watch: &mut Watch<'_>) -> Result<bool> {
        let unfinished = if self.schedule.is_finishing() { watch.finish_window() } else { 0 };
        match self.schedule.step(Instant::now(), unfinished) {
            Some(Step::Open) => {
                watch.open_window()?;
                let now = Instant::now();
                self.schedule.opened(now);
                self.open_since = Some(now);
                self.opened += 1;
            }
            Some(Step::Finish) => {
                watch.finish_window();
                self.finishing_since = Some(Instant::now());
            }
            Some(Step::Close) => self.close(watch)?,
            None => {}
        }
        Ok(self.open_since.is_some() && self.schedule.rest(Instant::now()) <= PERIOD)
    }

    fn close(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        if let Some(since) = self.open_since.take() {
            let now = Instant::now();
            // One that the watch's end closes need not finish.
            let finishes = self.finishing_since.take().unwrap_or(now);
            self.choosing += finishes - since;
            self.finishing += now - finishes;
        }
        watch.close_window()
    }

    /// What there was of them.
    fn end(mut self, watch: &mut Watch<'_>, began: Instant) -> Result<trace_record::Windows> {
        if self.open_since.is_some() {
            self.close(watch)?;
        }
        let windows = trace_record::Windows {
            open_ns: self.windows.open.as_nanos() as u64,
            period_ns: self.windows.period.as_nanos() as u64,
            opened: self.opened,
            span_ns: began.elapsed().as_nanos() as u64,
            choosing_ns: Some(self.choosing.as_nanos() as u64),
            finishing_ns: Some(self.finishing.as_nanos() as u64),
        };
        Ok(windows)
    }
}

/// What /proc says is of all the time, and is left out beside counts that are not.
fn of_windows(record: &mut TraceRecord, windows: trace_record::Windows, came_later: u64) {
    record.total.windows = Some(windows);
    record.total.followed.came_later = Some(came_later);
    for ring in &mut record.rings {
        ring.active_ns = None;
        if let Some(sqpoll) = &mut ring.sqpoll {
            (sqpoll.elapsed_ns, sqpoll.cpu_ns, sqpoll.work_ns, sqpoll.wakeups) = (None, None, None, None);
        }
    }
}

/// Loading takes its time: what was there when it was asked for may be gone.
pub(super) fn still_there(watched: &Watched) -> Result<()> {
    if let Watched::Processes(gone) = watched
        && all_ended(gone)
    {
        let names: Vec<String> = gone.iter().map(|p| format!("{} ({})", p.tgid, p.comm)).collect();
        return Err(Error::input(
            format!("process {} has ended before it could be watched", names.join(", ")),
            "start it with the watch: iotrail trace -- CMD",
        ));
    }
    Ok(())
}

/// What the probes are to look at.
pub(super) fn probed(asked: &Asked, choice: Choice) -> Subject {
    // Room for what ends between two looks: at one in one, a million requests a second and more.
    let ring_bytes = if choice.one_in < 16 { 32 << 20 } else { 4 << 20 };
    Subject {
        who: if matches!(asked, Asked::Everyone) { Who::Everyone } else { Who::Followed },
        interface: Interface::Any,
        target_irqs: vec![],
        follow: Some(Follow { choice, ring_bytes }),
        // Who begins with the watch, or is met in it, may use it at once.
        aio_awaited: matches!(asked, Asked::Processes(_)),
        spans_timed: false,
    }
}

/// What this process has used, all its threads together.
fn own_cpu() -> Observer {
    let used = command::own_cpu();
    Observer { user_ns: used.user_ns, system_ns: used.system_ns }
}

/// Tells the probes and /proc's reader who is watched. Children from then on are followed by the probes themselves. How many descend
/// from the named processes.
pub(super) fn follow(
    watched: &mut Watched,
    watch: &mut Watch<'_>,
    seen: &mut Processes,
    numbers: &Numbers,
) -> Result<usize> {
    match watched {
        Watched::Command(command) => {
            let number = command.tgid();
            let found = numbers.find(number)?.ok_or_else(|| {
                Error::machine(format!("cannot tell the kernel's number of process {number}"), "report this")
            })?;
            command.is_known_as(found.tgid);
            watch.follow(found.tgid, numbers.in_proc(found.tgid), true)?;
            seen.track(found.tgid, false);
            seen.count_cpu_from_now(found.tgid);
            Ok(0)
        }
        Watched::Processes(roots) => {
            let mut all: Vec<u32> = vec![];
            for root in roots.iter() {
                let mut new = vec![root.tgid];
                // A child that is made while we look is followed through its parent, or is seen by the next look.
                while !new.is_empty() {
                    for tgid in &new {
                        watch.follow(*tgid, numbers.in_proc(*tgid), false)?;
                    }
                    all.append(&mut new);
                    new = numbers.descendants(root.tgid)?.into_iter().filter(|d| !all.contains(d)).collect();
                }
            }
            let descendants = all.iter().filter(|tgid| roots.iter().all(|root| root.tgid != **tgid)).count();
            all.into_iter().for_each(|tgid| seen.track(tgid, true));
            Ok(descendants)
        }
        Watched::Everyone => {
            namespace::with_rings(numbers).into_iter().for_each(|tgid| seen.track(tgid, true));
            Ok(0)
        }
    }
}

/// That the numbers of processes are not those that are used in here.
pub(super) fn whose_numbers(numbers: &Numbers) -> Option<Warning> {
    let text = match (numbers.differ(), numbers.has_proc()) {
        (false, _) => return None,
        (true, true) => {
            "numbers of processes are the kernel's, as the host has them; this PID namespace's own stand beside them as `here`"
        }
        (true, false) => {
            "/proc is not mounted, or is of another PID namespace: CPU times, file descriptors and some names are not told; \
             numbers of processes are the kernel's, and those in use here stand beside them as `here`"
        }
    };
    let remedy = if numbers.has_proc() { "`ps` shows the latter" } else { "mount -t proc proc /proc" };
    Some(Warning::new("pid_namespace", text, remedy))
}

pub(super) fn take(
    watch: &mut Watch<'_>,
    summary: &mut Summary,
    processes: &mut Processes,
    mut files: Option<&mut Names>,
    mut recorder: Option<&mut Recorder>,
) -> Result<()> {
    watch.attach_if_used()?;
    let mut last = 0;
    watch.unregistered()?.into_iter().for_each(|at| summary.unregistered(at));
    watch.trails(&mut |trail| {
        // Most of them come from the process that the one before came from.
        if trail.tgid != last {
            last = trail.tgid;
            processes.noticed(last);
        }
        if let Some(recorder) = &mut recorder {
            recorder.take(&trail);
        }
        if let Some(files) = &mut files {
            files.met(trail.tgid, trail.file, trail.descriptor);
        }
        summary.take(trail);
    })?;
    for trail in watch.overflowed() {
        if let Some(files) = &mut files {
            files.met(trail.tgid, trail.file, trail.descriptor);
        }
        summary.take_overflowed(&trail);
    }
    watch.reaped(&mut |reaped| {
        if reaped.tgid != last {
            last = reaped.tgid;
            processes.noticed(last);
        }
        if let Some(files) = &mut files {
            files.met(reaped.tgid, None, Some(Descriptor::Fd(reaped.fd)));
        }
        summary.take_reaped(reaped);
    });
    let told = watch.file_names();
    if let Some(files) = files {
        told.into_iter().for_each(|name| files.told(name));
        files.look();
    }
    watch.stays(&mut |stay| summary.take_stay(&stay));
    processes.sq_threads_ended(watch.ended_sq_threads());
    summary.fold(&watch.folded());
    Ok(())
}

/// CPU time of the watched processes: of those that have ended as the probes account for it, of the others as /proc does.
fn cpu(
    watch: &mut Watch<'_>,
    processes: &mut Processes,
    watched: &Watched,
    numbers: &Numbers,
) -> Result<Option<CpuTime>> {
    /// The kernel accounts for a process some moments after /proc has it no more.
    const LOOKS: u32 = 40;
    // A command that has ended is among those that have, with what it had used before it became the program.
    let before = match watched {
        Watched::Command(command) => Some((command.kernels_tgid(), command.cpu_before())),
        _ => None,
    };
    let lacks_command = |living: &BTreeSet<u32>, ended: (u64, u64)| {
        let gone = before.as_ref().filter(|(tgid, _)| tgid.is_none_or(|tgid| !living.contains(&tgid)));
        gone.is_some_and(|(_, before)| ended.0 + ended.1 <= before.user_ns + before.system_ns)
    };
    let mut looks = 0;
    let (ended, living) = loop {
        let (ended, workers) = (watch.ended_cpu_ns(), watch.ended_workers_ns());
        let living = watch.followed()?;
        living.iter().for_each(|tgid| processes.noticed(*tgid));
        processes.look(false);
        let settled = living.iter().all(|tgid| processes.tracks(*tgid))
            && watch.ended_cpu_ns() == ended
            && watch.ended_workers_ns() == workers
            && ended.is_none_or(|ended| !lacks_command(&living, ended));
        looks += 1;
        if settled || looks == LOOKS || ended.is_none() || !numbers.has_proc() {
            break (ended, living);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if ended.is_some_and(|ended| lacks_command(&living, ended)) {
        return Ok(None);
    }
    let mut ended = ended.map(|(user_ns, system_ns)| CpuTime { user_ns, system_ns });
    if let (Some((tgid, before)), Some(ended)) = (before, &mut ended)
        && tgid.is_none_or(|tgid| !living.contains(&tgid))
    {
        ended.user_ns = ended.user_ns.saturating_sub(before.user_ns);
        ended.system_ns = ended.system_ns.saturating_sub(before.system_ns);
    }
    Ok(processes.cpu(ended))
}

fn subject(watched: &mut Watched, descendants: usize) -> trace_record::Subject {
    match watched {
        Watched::Command(command) => {
            let exit_status = command.ended();
            trace_record::Subject::Command { argv: command.argv(), exit_status }
        }
        Watched::Processes(processes) => match processes.as_slice() {
            [p] => trace_record::Subject::Process { tgid: p.tgid, comm: p.comm.clone(), descendants },
            several => {
                let tgids = several.iter().map(|p| p.tgid).collect();
                trace_record::Subject::Processes { tgids, descendants }
            }
        },
        Watched::Everyone => trace_record::Subject::All,
    }
}
