//! One replay → one measurement; one traced replay → counts.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use super::arms::Arm;
use super::{INTERFACES, name};
use crate::follow;
use crate::watched::{self, Counted, ProbeFigures};
use iotrail_answer::per_io;
use iotrail_base::error::{Error, Result};
use iotrail_host::circumstances;
use iotrail_load::Boundary;
use iotrail_load::options::Trace;
use iotrail_probe::subject::{Interface as Seen, Scope, Subject};
use iotrail_probe::watch::ObjectSlot;
use iotrail_replay::files::Files;
use iotrail_replay::run::{self, Interface, Replayed};
use iotrail_schema::measurement::{Cpu, LoadRecord, Measurement, PerIo, SCHEMA};
use iotrail_schema::replay_record::ReplayCounts;
use iotrail_stats::bootstrap::Counts;
use iotrail_stats::middle::median;
use iotrail_stats::quantile;

/// An arm's replays.
pub(super) struct Round {
    pub counts: ReplayCounts,
    /// The first errno in the traced replay.
    pub errno: Option<i32>,
    /// The reason why no replay was traced.
    pub untraced: Option<String>,
    /// The timed replays.
    pub runs: Vec<Run>,
}

/// A timed replay.
pub(super) struct Run {
    pub measurement: Measurement,
    pub latency: Arc<Counts>,
}

impl Round {
    /// Runs the first replay, with probes. It also warms up everything that later replays find warm.
    pub fn traced(arm: &Arm, files: &Files, trace: Trace, stop: &AtomicBool) -> Result<Self> {
        let mut room = ObjectSlot::default();
        let mut warnings = Vec::new();
        let follow = follow::follow(ONE_IN);
        let is_ring = matches!(seen(arm), Seen::IoUring { .. });
        let subject = Subject {
            who: Scope::OtherThreads,
            interface: seen(arm),
            target_irqs: Vec::new(),
            follow: is_ring.then_some(follow),
            aio_awaited: false,
            spans_timed: false,
        };
        let mut watch = watched::open(&mut room, subject, trace, &mut warnings)?;
        let mut observed = None;
        let mut failed = None;
        let replayed = replay(arm, files, stop, &mut |at| {
            let Some(watch) = watch.as_mut() else { return };
            let result = match at {
                Boundary::MeasureBegins => watch.begin(),
                Boundary::MeasureEnds => watch.end().map(|o| observed = Some(o)),
                Boundary::Ready => Ok(()),
            };
            failed = failed.take().or(result.err());
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        let mut m = Measurement { ios: Some(replayed.ios), ..Measurement::default() };
        let counted = Counted {
            ios: replayed.ios,
            // The number of completions is not comparable if completions were dropped or synchronous calls are mixed
            // with requests.
            completions: None,
            leave_events: false,
            syscalls: Some(replayed.calls),
        };
        ProbeFigures::of(observed, counted, trace)?.tell(&mut m);
        let submissions: usize = arm.program.threads.iter().map(|t| t.steps.len()).sum();
        let per_io = m.per_io;
        Ok(Self {
            counts: ReplayCounts {
                ios: replayed.ios,
                errors: replayed.errors,
                calls_per_io: per_io.syscalls,
                batch: (submissions > 0).then(|| replayed.ios as f64 / submissions as f64),
                kicks_per_io: per_io.kicks,
                device_irqs_per_io: per_io.device_irqs,
                resched_ipis_per_io: per_io.resched_ipis,
                context_switches_per_io: per_io.context_switches,
                task_work_runs_per_io: per_io.task_work_runs,
                punts_per_io: m
                    .punts
                    .filter(|_| is_ring && replayed.ios > 0)
                    .map(|p| (p.asked + p.would_block) as f64 / replayed.ios as f64),
            },
            errno: replayed.errno,
            untraced: warnings.into_iter().next().map(|w| w.text),
            runs: Vec::new(),
        })
    }

    /// Runs one more replay without probes. A replay that was stopped does not count.
    pub fn timed(&mut self, arm: &Arm, files: &Files, stop: &AtomicBool) -> Result<()> {
        self.runs.extend(Run::measured(arm, files, stop)?);
        Ok(())
    }

    pub fn median(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().map(of).collect::<Option<Vec<f64>>>()?)
    }
}

impl Run {
    /// Returns `None` if stopped.
    pub fn measured(arm: &Arm, files: &Files, stop: &AtomicBool) -> Result<Option<Self>> {
        let online = iotrail_host::cpu::online()?;
        let around = circumstances::Subject { target: None, bytes: None, cpus: &online };
        let (mut before, mut found) = (None, None);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let replayed = replay(arm, files, stop, &mut |at| match at {
            Boundary::MeasureBegins => before = Some(circumstances::before(around)),
            Boundary::MeasureEnds => found = before.take().map(circumstances::Before::after),
            Boundary::Ready => {}
        })?;
        if replayed.interrupted {
            return Ok(None);
        }
        let measurement = Measurement {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            load: LoadRecord {
                engine: engines(arm).as_str().into(),
                jobs: arm.program.threads.len() as u32,
                ..LoadRecord::default()
            }
            .into(),
            started_unix_s: began,
            elapsed_ns: replayed.elapsed_ns,
            ios: Some(replayed.ios),
            errors: Some(replayed.errors),
            iops: Some(replayed.iops()),
            latency_ns: quantile::summary(&replayed.latencies),
            // The split into user and system time is unknown; comparisons use the sum.
            cpu: Cpu { user_ns: Some(replayed.cpu_ns), system_ns: Some(0), ..Cpu::default() },
            per_io: PerIo {
                syscalls: (replayed.ios > 0).then(|| replayed.calls as f64 / replayed.ios as f64),
                ..PerIo::default()
            },
            circumstances: found.map(Into::into),
            ..Measurement::default()
        };
        let latency = Arc::new(Counts::of(&replayed.latencies));
        Ok(Some(Run { measurement, latency }))
    }
}

/// Requests are traced only to count their opcodes.
const ONE_IN: u32 = 1 << 20;

pub(super) fn cpu_per_io(run: &Run) -> Option<f64> {
    per_io::cpu_ns(&run.measurement)
}

fn replay(arm: &Arm, files: &Files, stop: &AtomicBool, boundary: &mut dyn FnMut(Boundary)) -> Result<Replayed> {
    files.reset()?;
    run::run(&arm.program, &arm.options, &files.descriptors(), boundary, stop)
        .map_err(|e| Error { what: format!("{}: {}", arm.name, e.what), ..e })
}

/// The names of the arm's interfaces.
fn engines(arm: &Arm) -> String {
    let used = arm.options.interfaces(&arm.program);
    let names: Vec<&str> = used.iter().map(|interface| name(&INTERFACES, *interface)).collect();
    if names.is_empty() { name(&INTERFACES, Interface::Sync).into() } else { names.join(",") }
}

/// How the arm's completions can be observed.
fn seen(arm: &Arm) -> Seen {
    match arm.options.interfaces(&arm.program).first() {
        // Native AIO next to io_uring is not observed: it has no kicks, task work and punts.
        Some(Interface::IoUring) => Seen::IoUring { iopoll: false },
        Some(Interface::Libaio) => Seen::Aio,
        Some(Interface::Sync | Interface::Null) | None => Seen::OwnCalls,
    }
}
