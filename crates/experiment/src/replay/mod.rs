//! A replayed recording: the unchanged one and a variant, interleaved; the self-check, and what follows from both.
//!
//! | file | responsible for |
//! |---|---|
//! | `arms` | options → the arms: programs and how each is submitted |
//! | `measure` | one replay → one measurement; one traced replay → counts |
//! | `fidelity` | recorded figures against replayed ones |
//! | `limits` | what the answer does not cover |
//! | `answer` | comparisons, cut down to those that exceed the errors; the first sentence |

mod answer;
mod arms;
mod fidelity;
mod limits;
mod measure;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::schedule::fresh_seed;
use crate::scratch;
use arms::Arm;
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Bytes;
use iotrail_load::options::Trace;
use iotrail_replay::batches;
use iotrail_replay::files::{Files, Places};
use iotrail_replay::program::Program;
use iotrail_replay::run::{Interface, Speed};
use iotrail_schema::replay_record::{BatchKind, ReplayArm, ReplayRecord, SCHEMA};
use iotrail_stats::random::SplitMix64;
use measure::Round;

/// The options of `replay`.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// `None`: as recorded, as are the others.
    pub interface: Option<Interface>,
    /// Setup flags, as `bench` takes them.
    pub ring: Option<String>,
    /// `files` and `buffers`.
    pub register: Option<String>,
    pub batch: Option<u32>,
    pub depth: Option<u32>,
    pub speed: Option<Speed>,
    pub maps: Vec<(PathBuf, PathBuf)>,
    pub allow_write: bool,
    pub repeats: u32,
    /// `None`: drawn.
    pub seed: Option<u32>,
    /// Whether one replay of each arm is traced.
    pub trace: Trace,
}

/// How far a replay is.
#[derive(Debug, Clone)]
pub enum Progress<'a> {
    Copying,
    /// One replay of this arm, of all of them.
    Replaying {
        arm: &'a str,
        done: usize,
        of: usize,
    },
}

/// Replays the program. Errors: those of the files, of rings that cannot be set up, and an interruption before there is a result.
pub fn replay(
    program: Program,
    recording: &Path,
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Progress<'_>),
    stop: &AtomicBool,
) -> Result<ReplayRecord> {
    let arms = arms::of(&program, options)?;
    let folder = |size: u64| {
        let file = scratch::file(Bytes(size))?;
        scratch::make_folder(&file)?;
        file.parent().map(Path::to_path_buf).ok_or_else(|| Error::internal("a scratch file has no directory"))
    };
    let places = Places { maps: &options.maps, allow_write: options.allow_write, scratch: &folder };
    progress(Progress::Copying);
    let files = Files::prepare(&program, &places, stop)?;

    let mut rounds: Vec<Round> = Vec::new();
    let of = arms.len() * (1 + options.repeats as usize);
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
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    // A block that was interrupted has no pairs.
    let pairs = rounds.iter().map(|r| r.runs.len()).min().unwrap_or(0);
    if pairs == 0 {
        return Err(Error::machine("stopped before a replay was measured", "let it run longer, or record less"));
    }
    rounds.iter_mut().for_each(|r| r.runs.truncate(pairs));
    Ok(record(&program, recording, &arms, &rounds, &files))
}

fn record(program: &Program, recording: &Path, arms: &[Arm], rounds: &[Round], files: &Files) -> ReplayRecord {
    let fidelity = fidelity::of(&program.observed, &rounds[0]);
    let comparisons = answer::comparisons(arms, rounds, &fidelity);
    let of_arm = |(at, (arm, round)): (usize, (&Arm, &Round))| ReplayArm {
        name: arm.name.clone(),
        upper_bound: arm.upper_bound,
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
        limits: limits::of(program, arms, rounds, files),
        fidelity,
        arms: arms_shown,
    }
}
