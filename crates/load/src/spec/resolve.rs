//! Turns options into the plan: validates them, and sets defaults.

use super::{End, LoadSpec, ReaperKind, ring};
use crate::engine::io_uring::flags::{Flag, Setup};
use crate::engine::io_uring::ring::Waits;
use crate::engine::io_uring::{BIG_ENTRIES, Config};
use crate::options::{Commit, EngineKind, LoadOptions, Wait};
use crate::{cpus, verify};
use iotrail_base::error::{Error, Result};
use iotrail_schema::measurement::{Target, Warning};

/// The kernel's maximum number of submission entries (IORING_MAX_ENTRIES).
const DEPTH_MAX: u32 = 32768;
/// A computing thread does not check for a stop, so this limits the delay.
const THINK_MAX_NS: u64 = 1_000_000_000;

impl LoadSpec {
    /// Validates the options and sets defaults. `target`: facts about the target, whose interrupts determine `--cpus
    /// irq`. `online_cpus`: this machine's CPUs. Does not access files.
    ///
    /// Usage errors: a combination that cannot run, a missing CPU. Machine error: `irq` without known interrupts.
    pub fn resolve(options: &LoadOptions, target: Option<&Target>, online_cpus: &[u32]) -> Result<LoadSpec> {
        let o = options;
        let mut warnings = Vec::new();
        let engine = o.engine.engine();
        let needs_file = o.uses_target();
        let setup = ring::setup(o, needs_file)?;
        let register = ring::register(o, needs_file)?;
        passage(o, &setup, target)?;
        let (depth, batch) = depth_and_batch(o, &mut warnings)?;
        if o.jobs == 0 || o.jobs > 4096 {
            return Err(Error::input(format!("--jobs {} is out of range", o.jobs), "use 1 to 4096"));
        }
        let block_bytes = block_bytes(o)?;
        let cpus = match &o.cpus {
            Some(list) => {
                let set = cpus::resolve(list, target, online_cpus)?;
                (0..o.jobs as usize).map(|job| set[job % set.len()]).collect()
            }
            None => Vec::new(),
        };
        if let Some(cpu) = o.sq_cpu {
            cpus::online(cpu, online_cpus, "--sq-cpu")?;
        }
        let neighbours = neighbours(&o.neighbour)?;
        let mut neighbour_cpus = if cpus.is_empty() { online_cpus.to_vec() } else { cpus.clone() };
        neighbour_cpus.sort_unstable();
        neighbour_cpus.dedup();
        if needs_file && o.file.is_none() {
            return Err(Error::input(
                format!("--engine {} with --rw {} needs a target", o.engine, o.rw),
                engine.target.name_one(),
            ));
        }
        if let Some(rate) = o.rate
            && !(rate > 0.0 && rate <= 1e9)
        {
            return Err(Error::input(
                format!("invalid --rate {rate}"),
                "use I/Os per second, above 0 and at most one billion",
            ));
        }
        if o.think > THINK_MAX_NS {
            return Err(Error::input(
                format!("--think {} is out of range", o.think),
                "use at most 1000000000 (one second)",
            ));
        }
        let end = End::of(o.count, o.runtime)?;
        if o.verify && needs_file && !block_bytes.is_multiple_of(verify::UNIT as u32) {
            return Err(Error::input(
                format!("--verify needs a block size that is a multiple of {} bytes", verify::UNIT),
                "use another --bs",
            ));
        }
        if o.verify && !needs_file {
            return Err(Error::input("--verify has nothing to check without a target", "omit it"));
        }
        if let Some((code, text)) = engine.synchronous_if_buffered.filter(|_| o.buffered) {
            warnings.push(Warning::new(code, text, "omit --buffered"));
        }
        Ok(LoadSpec {
            engine: o.engine,
            ring: Config {
                setup,
                sq_entries: if o.commit == Commit::Linked { 2 * depth } else { depth },
                sq_cpu: o.sq_cpu,
                sq_idle_ms: o.sq_idle,
                register_files: register.contains(&"files"),
                register_buffers: register.contains(&"buffers"),
                register_ring: register.contains(&"ring"),
                force_async: o.force_async,
                waits: Waits {
                    min_us: o.min_wait.map_or(0, |span| span.0.as_micros() as u32),
                    no_iowait: o.no_iowait,
                    registered: register.contains(&"wait"),
                },
                big_entries: if engine.ring.is_some_and(|ring| ring.big_entries) { BIG_ENTRIES } else { 0 },
            },
            rw: o.rw,
            commit: commit(o)?,
            block_bytes,
            depth,
            batch,
            jobs: o.jobs,
            cpus_requested: o.cpus.clone(),
            cpus,
            wait: wait(o, &mut warnings),
            reaper: reaper(o, target, online_cpus)?,
            think_ns: o.think,
            scratch: o.scratch,
            neighbours,
            neighbour_cpus,
            file: if needs_file { o.file.clone() } else { None },
            size: if needs_file { o.size.map(|s| s.0) } else { None },
            direct: !o.buffered,
            end,
            warmup: o.warmup.0,
            rate: o.rate,
            verify: o.verify,
            seed: o.seed,
            allow_write: o.allow_write,
            trace: o.trace,
            warnings,
        })
    }
}

fn depth_and_batch(o: &LoadOptions, warnings: &mut Vec<Warning>) -> Result<(u32, u32)> {
    if o.depth == 0 || o.depth > DEPTH_MAX {
        return Err(Error::input(format!("--depth {} is out of range", o.depth), format!("use 1 to {DEPTH_MAX}")));
    }
    if o.batch == 0 || o.batch > o.depth {
        return Err(Error::input(
            format!(
                "--batch {} with --depth {}: a submission cannot contain more I/Os than are in flight",
                o.batch, o.depth
            ),
            format!("use a --batch from 1 to {}", o.depth),
        ));
    }
    if o.commit.is_of_batch() {
        // The next batch is submitted once this one is durable.
        if o.depth != o.batch {
            warnings.push(Warning::new(
                "commit_depth",
                format!(
                    "--commit {} has one batch in flight per job: depth {} is used, not {}",
                    o.commit, o.batch, o.depth
                ),
                format!("use --depth {}", o.batch),
            ));
        }
        return Ok((o.batch, o.batch));
    }
    if let Some(calls) = o.engine.engine().one_in_flight.filter(|_| o.depth > 1) {
        warnings.push(Warning::new(
            "sync_depth",
            format!("{calls} have one I/O in flight per job: depth 1 is used, not {}", o.depth),
            "use --depth 1, and more --jobs for more I/Os in flight",
        ));
        return Ok((1, 1));
    }
    Ok((o.depth, o.batch))
}

/// Rejects options that are impossible for targets without files.
fn passage(o: &LoadOptions, setup: &Setup, target: Option<&Target>) -> Result<()> {
    let engine = o.engine.engine();
    if engine.target.is_past_files() && o.buffered {
        return Err(Error::input(format!("--buffered: --engine {} bypasses the page cache", o.engine), "omit it"));
    }
    // The kernel accepts it, but completes by interrupts.
    if engine.ring.is_some_and(|ring| ring.iopoll_may_be_ignored)
        && setup.has(Flag::Iopoll)
        && let Some(drive) = target.filter(|t| t.poll_queues == Some(0))
    {
        return Err(Error::machine(
            format!("ring flag iopoll: {} has no poll queues", drive.queue_device().unwrap_or(&drive.path)),
            "boot with nvme.poll_queues=N, load the module with poll_queues=N, or omit iopoll",
        ));
    }
    Ok(())
}

/// An engine that cannot sleep polls.
fn wait(o: &LoadOptions, warnings: &mut Vec<Warning>) -> Wait {
    if !o.engine.engine().sleeps && o.wait == Wait::Block {
        warnings.push(Warning::new(
            "polls",
            format!("{} polls for completions and never sleeps: --wait peek is used, not block", o.engine),
            "use --wait peek",
        ));
        return Wait::Peek;
    }
    o.wait
}

fn block_bytes(o: &LoadOptions) -> Result<u32> {
    match u32::try_from(o.bs.0) {
        Ok(bytes) if bytes > 0 && bytes <= 1 << 30 => Ok(bytes),
        _ => Err(Error::input(format!("--bs {} is out of range", o.bs.0), "use 1 byte to 1 GiB")),
    }
}

fn reaper(o: &LoadOptions, target: Option<&Target>, online: &[u32]) -> Result<ReaperKind> {
    let kind = match o.reaper.trim() {
        "same" => return Ok(ReaperKind::Same),
        "thread" => ReaperKind::Thread { cpu: None },
        other => match other.strip_prefix("thread:").and_then(|cpu| cpus::of_reaper(cpu, target, online)) {
            Some(cpu) => ReaperKind::Thread { cpu: Some(cpu?) },
            None => {
                return Err(Error::input(
                    format!("unknown --reaper '{other}'"),
                    "use same, thread or thread:CPU, where CPU is a number, irq or non-irq",
                ));
            }
        },
    };
    if o.engine.engine().completes_in_queue {
        return Err(Error::input(
            format!("--reaper thread: --engine {} completes I/Os at submission", o.engine),
            "omit it",
        ));
    }
    Ok(kind)
}

fn neighbours(text: &str) -> Result<u32> {
    match text.trim() {
        "none" => Ok(0),
        other => match other.strip_prefix("busy:").and_then(|n| n.parse().ok()) {
            Some(n) if (1..=64).contains(&n) => Ok(n),
            _ => Err(Error::input(format!("unknown --neighbour '{other}'"), "use none, or busy:N with N from 1 to 64")),
        },
    }
}

/// Only writes are made durable, and the available methods depend on the engine.
fn commit(o: &LoadOptions) -> Result<Commit> {
    let has = match o.commit {
        Commit::None => return Ok(Commit::None),
        Commit::Fsync | Commit::Fdatasync | Commit::Dsync => matches!(o.engine, EngineKind::Sync | EngineKind::IoUring),
        Commit::Linked => o.engine == EngineKind::IoUring && o.depth <= DEPTH_MAX / 2,
    };
    if !has {
        return Err(Error::input(
            format!("--engine {} does not support --commit {} at depth {}", o.engine, o.commit, o.depth),
            "use --engine io_uring, or fsync, fdatasync or dsync with --engine sync",
        ));
    }
    if !o.rw.only_writes() {
        return Err(Error::input(
            format!("--commit {} needs a write load", o.commit),
            "use --rw append, --rw write or --rw randwrite",
        ));
    }
    if o.commit.is_of_batch() && o.reaper.trim() != "same" {
        return Err(Error::input(
            format!("--commit {} cannot be combined with --reaper {}", o.commit, o.reaper),
            "omit --reaper",
        ));
    }
    Ok(o.commit)
}
