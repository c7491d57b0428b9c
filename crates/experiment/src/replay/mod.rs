//! Replays a recording: the unchanged recording and a variant, interleaved; the self-check; and the conclusions from
//! both.
//!
//! | file | responsible for |
//! |---|---|
//! | `arms` | options → the arms: programs and how each is submitted |
//! | `measure` | one replay → one measurement; one traced replay → counts |
//! | `check` | an unchanged replay, recorded as the program was |
//! | `fidelity` | recorded figures against replayed ones |
//! | `limits` | what the answer does not cover |
//! | `answer` | comparisons, cut down to those that exceed the errors; the first sentence |

mod answer;
mod arms;
mod check;
mod fidelity;
mod limits;
mod measure;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::schedule::fresh_seed;
use crate::scratch;
use arms::Arm;
use check::{Check, Checks};
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Bytes;
use iotrail_load::options::Trace;
use iotrail_replay::batches;
use iotrail_replay::files::{Files, Places};
use iotrail_replay::program::Program;
use iotrail_replay::run::{Interface, Speed};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::replay_record::{BatchKind, ReplayArm, ReplayRecord, SCHEMA};
use iotrail_stats::random::SplitMix64;
use measure::{Round, Run};
use serde::{Deserialize, Serialize};

/// Interfaces by name. The last is not an option of `replay`.
pub static INTERFACES: [(&str, Interface); 4] = [
    ("io_uring", Interface::IoUring),
    ("libaio", Interface::Libaio),
    ("sync", Interface::Sync),
    ("null", Interface::Null),
];
pub static SPEEDS: [(&str, Speed); 3] =
    [("think", Speed::Think), ("none", Speed::None), ("timestamps", Speed::Timestamps)];

pub fn name<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, known)| *known == value).expect("each value has a name").0
}

/// The options of `replay`.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// `None`: as recorded. The same applies to the options below.
    pub interface: Option<Interface>,
    /// Setup flags in the format of `bench`.
    pub ring: Option<String>,
    /// `files` and `buffers`, separated by a comma.
    pub register: Option<String>,
    pub batch: Option<u32>,
    pub depth: Option<u32>,
    pub speed: Option<Speed>,
    /// Number of recorded requests read so far.
    pub requests: u64,
    pub maps: Vec<(PathBuf, PathBuf)>,
    pub allow_write: bool,
    pub repeats: u32,
    /// `None` for a random seed.
    pub seed: Option<u32>,
    /// Whether one replay of each arm is traced.
    pub trace: Trace,
}

/// Progress of a replay.
#[derive(Debug, Clone)]
pub enum Progress<'a> {
    Copying,
    /// A replay of this arm, with its number and the total.
    Replaying {
        arm: &'a str,
        done: usize,
        of: usize,
    },
}

/// Replays the program. Fails on file errors, rings that cannot be set up, and an interruption before the first result.
pub fn replay(
    program: Program,
    recording: &Path,
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Progress<'_>),
    stop: &AtomicBool,
) -> Result<ReplayRecord> {
    let arms = arms::of(&program, options)?;
    progress(Progress::Copying);
    let files = prepare(&program, options, stop)?;
    // An import lacks bytes and calls, and `--trace off` has no probes.
    let is_checked = !program.observed.doubts.imported && options.trace != Trace::Off;
    let check = is_checked.then(|| Check::new(recording, &files, options, &folder(0)?)).transpose()?;
    let mut checks = Checks::default();

    let mut rounds: Vec<Round> = Vec::new();
    let of = arms.len() * (1 + options.repeats as usize) + usize::from(is_checked) * options.repeats as usize;
    for (done, arm) in arms.iter().enumerate() {
        progress(Progress::Replaying { arm: &arm.name, done, of });
        rounds.push(Round::traced(arm, &files, options.trace, stop)?);
    }
    let mut random = SplitMix64::new(options.seed.unwrap_or_else(fresh_seed).into());
    let mut done = arms.len();
    for _ in 0..options.repeats {
        let mut order: Vec<usize> = (0..arms.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        for at in order {
            progress(Progress::Replaying { arm: &arms[at].name, done, of });
            done += 1;
            rounds[at].timed(&arms[at], &files, stop)?;
        }
        if let Some(check) = check.as_ref().filter(|_| checks.failed.is_none()) {
            progress(Progress::Replaying { arm: "self-check", done, of });
            done += 1;
            match check.run(&files, stop) {
                Ok(observed) => checks.observed.push(observed),
                Err(e) if options.trace == Trace::On => return Err(e),
                Err(e) => checks.failed = Some(e.to_string()),
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    // An interrupted block contains no pairs.
    let pairs = rounds.iter().map(|r| r.runs.len()).min().unwrap_or(0);
    if pairs == 0 {
        return Err(Error::machine(
            "stopped before a replay was measured",
            "let the replay run longer, or record less",
        ));
    }
    rounds.iter_mut().for_each(|r| r.runs.truncate(pairs));
    Ok(record(&program, recording, &arms, &rounds, &checks, &files))
}

/// A single replay.
#[derive(Debug, Serialize, Deserialize)]
pub struct Once {
    #[serde(flatten)]
    pub measurement: Measurement,
    /// Latencies in ns with their numbers of requests, in ascending order.
    pub latency_histogram: Vec<(u64, u64)>,
}

/// Replays the program once with the options and without probes; another process may trace it.
pub fn once(program: Program, options: &ReplayOptions, stop: &AtomicBool) -> Result<Once> {
    let arms = arms::of(&program, options)?;
    let files = prepare(&program, options, stop)?;
    let is_asked = |arm: &&Arm| !arm.is_control && !arm.per_call && arm.base == 0;
    let arm = arms.iter().rev().find(is_asked).expect("the unchanged replay is one");
    let interrupted = || Error::machine("stopped during the replay", "let the replay run longer, or record less");
    let Run { measurement, latency } = Run::measured(arm, &files, stop)?.ok_or_else(interrupted)?;
    Ok(Once { measurement, latency_histogram: latency.iter().collect() })
}

fn prepare(program: &Program, options: &ReplayOptions, stop: &AtomicBool) -> Result<Files> {
    Files::prepare(program, &Places { maps: &options.maps, allow_write: options.allow_write, scratch: &folder }, stop)
}

/// A directory for scratch files with this much free space.
fn folder(size: u64) -> Result<PathBuf> {
    let file = scratch::file(Bytes(size))?;
    scratch::make_folder(&file)?;
    file.parent().map(Path::to_path_buf).ok_or_else(|| Error::internal("a scratch file has no directory"))
}

fn record(
    program: &Program,
    recording: &Path,
    arms: &[Arm],
    rounds: &[Round],
    checks: &Checks,
    files: &Files,
) -> ReplayRecord {
    let fidelity = fidelity::of(&program.observed, &checks.observed);
    let slowdown = fidelity::slowdown(&checks.observed, &rounds[0]);
    let comparisons = answer::comparisons(arms, rounds, &fidelity, slowdown);
    let tail_error = fidelity.get("latency_p99").and_then(|p99| p99.error).map(|e| e * slowdown.unwrap_or(1.0));
    let of_arm = |(at, (arm, round)): (usize, (&Arm, &Round))| ReplayArm {
        name: arm.name.clone(),
        upper_bound: arm.upper_bound,
        per_call: arm.per_call,
        counts: round.counts.clone(),
        cpu_per_io_ns: round.median(measure::cpu_per_io),
        iops: round.median(|run| run.measurement.iops),
        comparisons: comparisons.iter().filter(|c| at > 0 && c.b == arm.name).cloned().collect(),
    };
    let shown = arms.iter().zip(rounds).enumerate().filter(|(_, (arm, _))| !arm.is_control);
    let arms_shown: Vec<ReplayArm> = shown.map(of_arm).collect();
    let answer = answer::sentence(&arms_shown, &fidelity, &program.observed);
    ReplayRecord {
        schema: SCHEMA.into(),
        recording: recording.display().to_string(),
        answer,
        ios: program.requests(),
        threads: program.threads.len(),
        pairs: rounds[0].runs.len(),
        batches: match program.observed.batches.kind {
            batches::Kind::Fixed => BatchKind::Fixed,
            batches::Kind::AsReaped => BatchKind::AsReaped,
            batches::Kind::Varied => BatchKind::Varied,
            batches::Kind::Unknown => BatchKind::Unknown,
        },
        limits: limits::of(program, arms, rounds, checks, files, tail_error, slowdown),
        fidelity,
        capture_slowdown: slowdown,
        arms: arms_shown,
    }
}
