//! A trace from start to end.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::checkpoint::Checkpoints;
use super::cpu::own_cpu;
use super::opening::Opening;
use super::price::Price;
use super::taking::{PERIOD, take};
use super::terms::{Counts, Extra, News, Options, Progress, Stop, Until};
use super::watched::{Watched, follow, still_there, subject, whose_numbers};
use crate::callsites::CallSites;
use crate::capture::Capturing;
use crate::files::Names;
use crate::left::Left;
use crate::processes::Processes;
use crate::quota::Quotas;
use crate::recorder::{self, Recorder};
use crate::sampler::Sampler;
use crate::state::State;
use crate::summary::Summary;
use crate::{end, metrics};
use iotrail_base::error::Result;
use iotrail_probe::watch::Watch;
use iotrail_probe::{capture, profile};
use iotrail_schema::measurement::{Host, Warning};
use iotrail_schema::metric_family::Scraped;
use iotrail_schema::recorded::{self, ClockOrigin, Header};

/// Time for a command to exit after it was asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Interval between two reports of the counts.
const COUNTS: Duration = Duration::from_millis(500);

/// Interval at which the counters of all rings are read between windows.
const RINGS: Duration = Duration::from_secs(1);

/// Parts of a running trace. Fields are dropped in order, the probes before the traced programs.
pub(super) struct Running<'room> {
    pub how: Options,
    pub host: Host,
    pub warnings: Vec<Warning>,
    pub origin: ClockOrigin,
    pub began: Instant,
    /// Number of descendants of the named processes.
    pub descendants: usize,
    /// A stop was requested.
    pub stopped: bool,
    /// A stop was requested before the command exited.
    pub interrupted: bool,
    /// Processes left by an exited command; `None` while the command runs.
    pub left: Option<Left>,
    pub files: Names,
    /// `None` if no user stacks are sampled.
    pub callsites: Option<CallSites>,
    pub summary: Summary,
    pub windows: Option<Opening>,
    price: Option<Price>,
    /// Time when the counters of all rings were last read.
    pub rings_read: Instant,
    pub recorder: Option<Recorder>,
    pub capturing: Option<Capturing<'room>>,
    pub processes: Processes,
    pub sampler: Option<Sampler<'room>>,
    pub state: State,
    pub watch: Watch<'room>,
    pub watched: Watched,
    until: Option<Instant>,
    /// Time of the last report of the counts.
    counted: Instant,
    /// `None` if no checkpoints are requested.
    checkpoints: Option<Checkpoints>,
}

impl<'room> Running<'room> {
    /// Starts counting, then lets a command continue.
    pub fn begin(
        mut watched: Watched,
        (mut watch, state): (Watch<'room>, State),
        (sampling_room, capture_room): (&'room mut profile::ObjectSlot, &'room mut capture::ObjectSlot),
        host: Host,
        how: &Options,
        extra: &Extra,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<Self> {
        let warnings = warnings(&watch, how);
        if extra.cost {
            watch.count_cost()?;
        }
        let mut sampler = extra.sampling.map(|s| Sampler::open(sampling_room, s)).transpose()?;

        let mut processes = Processes::new(!matches!(watched, Watched::Everyone), Rc::clone(&how.numbers));
        processes.quotas = Some(Quotas::default());
        let descendants = follow(&mut watched, &mut watch, &mut processes, &how.numbers)?;

        still_there(&watched)?;
        if descendants > 0 {
            tell(News::Begins { descendants });
        }
        let origin = recorder::now();
        // First of all, so that a file that cannot be created fails here.
        let is_for_replay = extra.keep.for_replay.is_some();
        let header = Header {
            schema: if is_for_replay { recorded::SCHEMA_FOR_REPLAY } else { recorded::SCHEMA }.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            subject: subject(&mut watched, descendants),
            one_in: if is_for_replay { 1 } else { how.choice.one_in },
            adaptive: how.choice.adaptive && !is_for_replay,
            slowest: extra.keep.slowest.map(|k| k as u64),
            windows: how.windows.map(|w| (w.open.as_nanos() as u64, w.period.as_nanos() as u64)),
            origin,
            host: host.clone(),
        };
        let capturing = match (extra.keep.for_replay, &extra.keep.file) {
            (Some(asked), Some(file)) => {
                Some(Capturing::start(capture::Capture::open(capture_room, &watch)?, file, asked, header.clone())?)
            }
            _ => None,
        };
        let recorder = Recorder::start(&extra.keep, header)?;
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
        Ok(Running {
            how: how.clone(),
            host,
            warnings,
            origin,
            began,
            descendants,
            stopped: false,
            interrupted: false,
            left: None,
            files: Names::new(Rc::clone(&how.numbers)),
            callsites: how.stacks.then(|| CallSites::new(Rc::clone(&how.numbers))),
            summary: Summary::new(how.choice),
            windows: how.windows.map(|windows| Opening::new(windows, began)),
            price: how.spare.then(|| Price::new(how.light_after, began)),
            rings_read: began,
            recorder,
            capturing,
            processes,
            sampler,
            state,
            watch,
            watched,
            until: how.duration.map(|d| began + d),
            counted: began,
            checkpoints: how.checkpoints.then(|| Checkpoints::new(began)),
        })
    }

    /// Runs until the trace is over.
    pub fn run(&mut self, extra: &Extra, tell: &mut dyn FnMut(News<'_>), stop: &Stop<'_>) -> Result<()> {
        while !self.is_over(tell, stop)? && !self.is_stopped(stop) {
            self.look(extra)?;
            self.checkpoint(tell)?;
            let counts = self.counts()?;
            tell(News::Goes(Progress { elapsed: self.began.elapsed(), followed: self.summary.completions(), counts }));
            self.rest();
        }
        Ok(())
    }

    /// Whether the traced programs have exited or the time is over.
    fn is_over(&mut self, tell: &mut dyn FnMut(News<'_>), stop: &Stop<'_>) -> Result<bool> {
        if self.watched.have_ended() {
            let Watched::Command(command) = &mut self.watched else { return Ok(true) };
            // Ctrl-C also reaches the command, which may exit first.
            self.interrupted |= self.left.is_none() && (stop.asked)();
            if self.stopped || self.how.until == Until::Command {
                return Ok(true);
            }
            let is_first = self.left.is_none();
            let left = self.left.get_or_insert_default();
            left.look(&self.watch, &self.how.numbers)?;
            if left.is_over() {
                return Ok(true);
            }
            if is_first && left.running().len() > 0 {
                let status = command.ended().unwrap_or(0);
                tell(News::Left { status, left });
            }
        }
        Ok(self.until.is_some_and(|until| Instant::now() >= until))
    }

    /// Whether to stop now. A command is asked to exit first.
    fn is_stopped(&mut self, stop: &Stop<'_>) -> bool {
        if self.stopped || !(stop.asked)() {
            return false;
        }
        self.stopped = true;
        self.interrupted |= self.left.is_none();
        let Watched::Command(command) = &mut self.watched else { return true };
        if self.left.is_some() {
            return true;
        }
        if let Some(signal) = (stop.to_pass_on)() {
            command.signal(signal);
        }
        // The command's activity until its exit is still traced.
        self.until = Some(Instant::now() + PATIENCE);
        false
    }

    fn look(&mut self, extra: &Extra) -> Result<()> {
        self.weigh()?;
        // First, because reading takes time, and a window that stays open too long costs the traced programs.
        let closing = self.turn_windows()?;
        self.watch.pace()?;
        if closing != Some(true) {
            self.take()?;
            self.processes.sample();
        }
        self.state.turn(self.processes.running());
        if let Some(sampler) = &mut self.sampler {
            sampler.tell(&self.processes);
        }
        if let Some(recorder) = self.recorder.as_mut().filter(|r| r.is_note_due()) {
            recorder.note(self.watch.follow_loss());
        }
        if let Some(desk) = extra.metrics.as_ref().filter(|desk| desk.is_asked()) {
            let elapsed_ns = self.began.elapsed().as_nanos() as u64;
            let record = metrics::record(self.watch.look()?, &self.summary, elapsed_ns, own_cpu());
            desk.answer(Scraped::Trace(Box::new(record)));
        }
        Ok(())
    }

    /// Whether a window is about to close; `None` without windows. Requests traced before a change of the windows have
    /// a smaller weight.
    fn turn_windows(&mut self) -> Result<Option<bool>> {
        let Some(windows) = &mut self.windows else { return Ok(None) };
        let mut scale = self.summary.scale;
        let closing = windows.turn(&mut self.watch, &mut scale)?;
        if scale != self.summary.scale {
            self.take()?;
            self.summary.scale = scale;
        }
        Ok(Some(closing))
    }

    /// Traces everything for as long as this costs little.
    fn weigh(&mut self) -> Result<()> {
        let Some(price) = &mut self.price else { return Ok(()) };
        match &mut self.windows {
            Some(windows) if !windows.is_whole() => {
                price.again(Instant::now());
                if self.rings_read.elapsed() >= RINGS {
                    self.processes.look(true);
                    self.rings_read = Instant::now();
                }
            }
            windows => {
                let (watch, processes) = (&mut self.watch, &mut self.processes);
                let Some(light) = price.turn(watch, processes, &self.watched, &self.how.numbers)? else {
                    return Ok(());
                };
                match windows {
                    None => *windows = Some(Opening::instead(light, self.began, watch)),
                    Some(windows) => windows.close_whole(light, watch),
                }
            }
        }
        Ok(())
    }

    /// With windows, the last checkpoint is the one before the first window: counts of windows are extrapolated only at
    /// the end.
    fn checkpoint(&mut self, tell: &mut dyn FnMut(News<'_>)) -> Result<()> {
        if self.windows.is_some() || !self.checkpoints.as_ref().is_some_and(Checkpoints::is_due) {
            return Ok(());
        }
        let from = Instant::now();
        let record = self.record_so_far()?;
        tell(News::Checkpoint(Box::new(record)));
        self.checkpoints.iter_mut().for_each(|checkpoints| checkpoints.done(from));
        Ok(())
    }

    /// `None` if counts are not requested, or were just reported.
    fn counts(&mut self) -> Result<Option<Counts>> {
        if !self.how.tell_counts || self.counted.elapsed() < COUNTS {
            return Ok(None);
        }
        self.counted = Instant::now();
        let seen = self.watch.look()?;
        let of_rings = seen.rings.iter().map(|r| &r.opcodes);
        let all =
            of_rings.chain(seen.contexts.iter().map(|c| &c.opcodes)).chain(seen.others.iter().map(|o| &o.opcodes));
        Ok(Some(all.flatten().fold(Counts::default(), Counts::add)))
    }

    /// Reads the requests traced since the last call.
    pub fn take(&mut self) -> Result<()> {
        let (files, recorder) = (Some(&mut self.files), self.recorder.as_mut());
        take(&mut self.watch, &mut self.summary, &mut self.processes, files, recorder)?;
        if let Some(callsites) = &mut self.callsites {
            callsites.met(self.watch.user_stacks());
        }
        Ok(())
    }

    /// Waits until the next sample is due or a process exits.
    fn rest(&self) {
        let until = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut rest = until.map_or(PERIOD, |until| PERIOD.min(until));
        if let Some(windows) = &self.windows {
            rest = rest.min(windows.rest());
        }
        rest = rest.min(self.watch.pace_rest());
        match &self.left {
            // Two samples in quick succession may both miss a process.
            Some(left) => end::wait(left.ends(), rest),
            None => self.watched.wait(rest),
        }
    }
}

/// Limitations that are known at the start.
pub(super) fn warnings(watch: &Watch<'_>, how: &Options) -> Vec<Warning> {
    let mut warnings = watch.missing();
    if iotrail_host::kernel::settings().io_uring_disabled == Some(2) {
        warnings.push(Warning::new(
            "io_uring_disabled",
            "kernel.io_uring_disabled is 2: no process can create a ring on this machine; existing rings and native aio are traced",
            "as root: sysctl kernel.io_uring_disabled=0",
        ));
    }
    warnings.extend(whose_numbers(&how.numbers));
    warnings
}
