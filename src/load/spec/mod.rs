//! Options → one validated plan, once. Nothing after this parses or guesses a default.

use std::path::PathBuf;
use std::time::Duration;

use crate::engine;
use crate::engine::io_uring::flags::{Flag, Setup};
use crate::error::{Error, Result};
use crate::measurement::{LoadRecord, Ring, Target, Warning};

use super::cpus;
use super::options::{EngineKind, LoadOptions, Rw, Scratch, Wait};

/// Who reaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaperKind {
    /// The submitting thread.
    Same,
    /// A thread of its own, on that CPU; `None`: where the scheduler puts it.
    Thread { cpu: Option<u32> },
}

/// When the measured part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    After(Duration),
    /// This many I/Os over all jobs.
    Ios(u64),
}

/// A load, resolved: every combination is one that can run, as far as can be told without touching the target.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    pub engine: EngineKind,
    pub ring: Setup,
    pub sq_cpu: Option<u32>,
    pub sq_idle_ms: Option<u32>,
    pub register_files: bool,
    pub register_buffers: bool,
    pub register_ring: bool,
    pub force_async: bool,
    pub rw: Rw,
    pub block_bytes: u32,
    pub depth: u32,
    pub batch: u32,
    pub jobs: u32,
    pub cpus_requested: Option<String>,
    /// The CPU of each job; empty: not pinned.
    pub cpus: Vec<u32>,
    pub wait: Wait,
    pub reaper: ReaperKind,
    pub think_ns: u64,
    pub scratch: Scratch,
    /// Computing processes on each of `neighbour_cpus`.
    pub neighbours: u32,
    /// The load's CPUs, each once: those of the jobs, or all online ones where the jobs are not pinned.
    pub neighbour_cpus: Vec<u32>,
    pub file: Option<PathBuf>,
    pub size: Option<u64>,
    pub direct: bool,
    pub end: End,
    pub warmup: Duration,
    /// I/Os per second over all jobs; `None`: closed loop.
    pub rate: Option<f64>,
    pub verify: bool,
    pub allow_write: bool,
    pub trace: super::options::Trace,
    /// What was resolved otherwise than asked for.
    pub warnings: Vec<Warning>,
}

/// How long is measured when neither time nor count is given.
const RUNTIME: Duration = Duration::from_secs(5);
/// The kernel's limit of submission entries (IORING_MAX_ENTRIES).
const DEPTH_MAX: u32 = 32768;
/// A thread that thinks looks at nothing else: beyond this it would not hear that it is to stop.
const THINK_MAX_NS: u64 = 1_000_000_000;

impl LoadSpec {
    /// Checks what was asked for and settles the rest. `target` is what is known of the target (its interrupts decide
    /// `--cpus irq`); `online_cpus` are this machine's. Touches no file.
    ///
    /// Errors: a combination that cannot run (input), a CPU that is not there (input), `irq` where none can be told (machine).
    pub fn resolve(options: &LoadOptions, target: Option<&Target>, online_cpus: &[u32]) -> Result<LoadSpec> {
        let o = options;
        let mut warnings = Vec::new();
        let needs_file = o.engine != EngineKind::Null && o.rw != Rw::Nop;
        let ring = ring(o, needs_file)?;
        let register = register(o, needs_file)?;
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
                "name one with --file; a missing file is made with --size",
            ));
        }
        if let Some(rate) = o.rate
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(Error::input(format!("--rate {rate} is no rate"), "use I/Os per second, above 0"));
        }
        if o.think > THINK_MAX_NS {
            return Err(Error::input(
                format!("--think {} is out of range", o.think),
                "use at most 1000000000, a second",
            ));
        }
        let end = match (o.count, o.runtime) {
            (Some(_), Some(_)) => {
                return Err(Error::input("--count and --runtime are both given", "end by one of them"));
            }
            (Some(0), _) => return Err(Error::input("--count 0 measures nothing", "use 1 or more")),
            (Some(n), None) => End::Ios(n),
            (None, Some(span)) if span.0.is_zero() => {
                return Err(Error::input("--runtime 0 measures nothing", "use a longer time"));
            }
            (None, Some(span)) => End::After(span.0),
            (None, None) => End::After(RUNTIME),
        };
        if o.verify && needs_file && !block_bytes.is_multiple_of(super::verify::UNIT as u32) {
            return Err(Error::input(
                format!("--verify needs a block size that is a multiple of {} bytes", super::verify::UNIT),
                "use another --bs",
            ));
        }
        if o.verify && !needs_file {
            return Err(Error::input("--verify has nothing to check without a target", "leave it away"));
        }
        if o.engine == EngineKind::Libaio && o.buffered {
            warnings.push(Warning::new(
                "libaio_buffered",
                "native aio through the page cache is synchronous: io_submit itself waits for the data",
                "leave --buffered away",
            ));
        }
        Ok(LoadSpec {
            engine: o.engine,
            ring,
            sq_cpu: o.sq_cpu,
            sq_idle_ms: o.sq_idle,
            register_files: register.contains(&"files"),
            register_buffers: register.contains(&"buffers"),
            register_ring: register.contains(&"ring"),
            force_async: o.force_async,
            rw: o.rw,
            block_bytes,
            depth,
            batch,
            jobs: o.jobs,
            cpus_requested: o.cpus.clone(),
            cpus,
            wait: o.wait,
            reaper: reaper(o, online_cpus)?,
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
            allow_write: o.allow_write,
            trace: o.trace,
            warnings,
        })
    }

    /// The load as a measurement records it. `granted` are the ring flags that the kernel's answer held.
    pub fn record(&self, granted: &[String]) -> LoadRecord {
        let registered =
            [("files", self.register_files), ("buffers", self.register_buffers), ("ring", self.register_ring)];
        LoadRecord {
            engine: self.engine.to_string(),
            ring: Ring { requested: self.ring.names(), granted: granted.to_vec() },
            sq_cpu: self.sq_cpu,
            sq_idle_ms: self.sq_idle_ms,
            register: registered.iter().filter(|(_, on)| *on).map(|(name, _)| name.to_string()).collect(),
            force_async: self.force_async,
            rw: self.rw.to_string(),
            bs: u64::from(self.block_bytes),
            depth: self.depth,
            batch: self.batch,
            jobs: self.jobs,
            cpus_requested: self.cpus_requested.clone(),
            cpus: self.cpus.clone(),
            wait: self.wait.to_string(),
            reaper: match self.reaper {
                ReaperKind::Same => "same".into(),
                ReaperKind::Thread { cpu: None } => "thread".into(),
                ReaperKind::Thread { cpu: Some(cpu) } => format!("thread:{cpu}"),
            },
            think_ns: self.think_ns,
            scratch: self.scratch.to_string(),
            neighbour: if self.neighbours == 0 { "none".into() } else { format!("busy:{}", self.neighbours) },
            file: self.file.as_ref().map(|p| p.display().to_string()),
            size: self.size,
            direct: self.direct,
            runtime_ns: match self.end {
                End::After(span) => Some(span.as_nanos() as u64),
                End::Ios(_) => None,
            },
            count: match self.end {
                End::After(_) => None,
                End::Ios(n) => Some(n),
            },
            warmup_ns: self.warmup.as_nanos() as u64,
            rate: self.rate,
            verify: self.verify,
            trace: self.trace.to_string(),
        }
    }

    /// Whether the load writes to its target.
    pub fn writes(&self) -> bool {
        matches!(self.rw, Rw::Write | Rw::RandWrite | Rw::RandRw)
    }

    /// How the engine is to wait.
    pub fn engine_wait(&self) -> engine::Wait {
        match self.wait {
            Wait::Block => engine::Wait::Block,
            Wait::Peek => engine::Wait::Peek,
        }
    }

    /// What the ring is asked for.
    pub fn ring_config(&self) -> engine::io_uring::Config {
        engine::io_uring::Config {
            setup: self.ring.clone(),
            sq_entries: self.depth,
            sq_cpu: self.sq_cpu,
            sq_idle_ms: self.sq_idle_ms,
            register_files: self.register_files,
            register_buffers: self.register_buffers,
            register_ring: self.register_ring,
            force_async: self.force_async,
        }
    }
}

fn ring(o: &LoadOptions, needs_file: bool) -> Result<Setup> {
    let refused = |r: engine::io_uring::flags::Refusal| Error::input(r.what, r.remedy);
    let setup: Setup = o.ring.parse().map_err(refused)?;
    if o.engine == EngineKind::IoUringCmd {
        return Err(Error::input("--engine io_uring_cmd is not in this version", "use --engine io_uring"));
    }
    if o.engine != EngineKind::IoUring {
        for (given, option) in [
            (!setup.flags.is_empty(), "--ring"),
            (!o.register.trim().is_empty(), "--register"),
            (o.sq_cpu.is_some(), "--sq-cpu"),
            (o.sq_idle.is_some(), "--sq-idle"),
            (o.force_async, "--force-async"),
        ] {
            if given {
                return Err(Error::input(
                    format!("{option} is io_uring's; --engine {} has no ring", o.engine),
                    "leave it away, or use --engine io_uring",
                ));
            }
        }
        if o.rw == Rw::Nop && o.engine != EngineKind::Null {
            return Err(Error::input(
                format!("--rw nop is io_uring's no-op; --engine {} has none", o.engine),
                "use --engine io_uring, or --engine null",
            ));
        }
        return Ok(setup);
    }
    setup.check(o.depth).map_err(refused)?;
    for (given, option) in [(o.sq_cpu.is_some(), "--sq-cpu"), (o.sq_idle.is_some(), "--sq-idle")] {
        if given && !setup.has(Flag::Sqpoll) {
            return Err(Error::input(format!("{option} is for the SQPOLL thread"), "add sqpoll to --ring"));
        }
    }
    if setup.has(Flag::Iopoll) && o.buffered && needs_file {
        return Err(Error::input(
            "ring flag iopoll is refused by the kernel for I/O through the page cache",
            "leave --buffered away",
        ));
    }
    if setup.has(Flag::SingleIssuer) && o.reaper.trim() != "same" && listed(&o.register).any(|w| w == "ring") {
        return Err(Error::input(
            "ring flag single_issuer is refused by the kernel with --reaper thread and --register ring: only the submitting thread may register",
            "leave ring out of --register, or use --reaper same",
        ));
    }
    if setup.has(Flag::DeferTaskrun) && o.reaper.trim() != "same" {
        return Err(Error::input(
            "ring flag defer_taskrun is refused by the kernel with --reaper thread: only the submitting thread may wait",
            "leave defer_taskrun away, or use --reaper same",
        ));
    }
    Ok(setup)
}

/// The words of a comma list.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|w| !w.is_empty())
}

fn register(o: &LoadOptions, needs_file: bool) -> Result<Vec<&str>> {
    let list: Vec<&str> = listed(&o.register).collect();
    for word in &list {
        if !["files", "buffers", "ring"].contains(word) {
            return Err(Error::input(format!("'{word}' cannot be registered"), "use some of files, buffers, ring"));
        }
        if *word == "files" && !needs_file {
            return Err(Error::input("--register files: a no-op has no file", "leave files away"));
        }
    }
    if list.contains(&"buffers") && o.depth > 16384 {
        return Err(Error::input(
            format!("--register buffers: the kernel takes at most 16384, one per I/O in flight, not {}", o.depth),
            "use a smaller --depth",
        ));
    }
    Ok(list)
}

fn depth_and_batch(o: &LoadOptions, warnings: &mut Vec<Warning>) -> Result<(u32, u32)> {
    if o.depth == 0 || o.depth > DEPTH_MAX {
        return Err(Error::input(format!("--depth {} is out of range", o.depth), format!("use 1 to {DEPTH_MAX}")));
    }
    if o.batch == 0 || o.batch > o.depth {
        return Err(Error::input(
            format!(
                "--batch {} with --depth {}: a submission cannot hold more I/Os than are in flight",
                o.batch, o.depth
            ),
            format!("use a --batch from 1 to {}", o.depth),
        ));
    }
    if o.engine == EngineKind::Sync && o.depth > 1 {
        warnings.push(Warning::new(
            "sync_depth",
            format!("pread and pwrite have one I/O in flight per job: depth 1 is used, not {}", o.depth),
            "give --depth 1, and more --jobs for more in flight",
        ));
        return Ok((1, 1));
    }
    Ok((o.depth, o.batch))
}

fn block_bytes(o: &LoadOptions) -> Result<u32> {
    match u32::try_from(o.bs.0) {
        Ok(bytes) if bytes > 0 && bytes <= 1 << 30 => Ok(bytes),
        _ => Err(Error::input(format!("--bs {} is out of range", o.bs.0), "use 1 byte to 1 GiB")),
    }
}

fn reaper(o: &LoadOptions, online: &[u32]) -> Result<ReaperKind> {
    let kind = match o.reaper.trim() {
        "same" => return Ok(ReaperKind::Same),
        "thread" => ReaperKind::Thread { cpu: None },
        other => match other.strip_prefix("thread:").and_then(|n| n.parse().ok()) {
            Some(cpu) => {
                cpus::online(cpu, online, "--reaper thread")?;
                ReaperKind::Thread { cpu: Some(cpu) }
            }
            None => {
                return Err(Error::input(format!("--reaper '{other}' is unknown"), "use same, thread or thread:CPU"));
            }
        },
    };
    if matches!(o.engine, EngineKind::Sync | EngineKind::Null) {
        return Err(Error::input(
            format!("--reaper thread: --engine {} completes its I/Os when they are submitted", o.engine),
            "leave it away",
        ));
    }
    Ok(kind)
}

fn neighbours(text: &str) -> Result<u32> {
    match text.trim() {
        "none" => Ok(0),
        other => match other.strip_prefix("busy:").and_then(|n| n.parse().ok()) {
            Some(n) if (1..=64).contains(&n) => Ok(n),
            _ => Err(Error::input(
                format!("--neighbour '{other}' is unknown"),
                "use none, or busy:N with N from 1 to 64",
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::{Bytes, Span};
    use super::*;
    use crate::measurement::TargetInterrupt;

    fn options() -> LoadOptions {
        LoadOptions { file: Some("/data/x".into()), ..LoadOptions::default() }
    }

    fn refused(o: LoadOptions) -> String {
        let e = LoadSpec::resolve(&o, None, &[0, 1]).unwrap_err();
        assert_eq!(e.exit_status(), 2);
        e.to_string()
    }

    #[test]
    fn jobs_go_round_the_cpus() {
        let o = LoadOptions { jobs: 3, cpus: Some("0-1".into()), ..options() };
        let spec = LoadSpec::resolve(&o, None, &[0, 1]).unwrap();
        assert_eq!(spec.cpus, [0, 1, 0]);
        assert_eq!(spec.neighbour_cpus, [0, 1]);
        assert_eq!(spec.end, End::After(Duration::from_secs(5)));
        assert!(refused(LoadOptions { cpus: Some("0,7".into()), ..options() }).contains("CPU 7"));
    }

    #[test]
    fn irq_means_the_cpus_of_the_targets_interrupts() {
        let irq = TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] };
        let target = Target { interrupts: vec![irq], ..Target::default() };
        let cpus = |list: &str, online: &[u32]| {
            let o = LoadOptions { cpus: Some(list.into()), ..options() };
            LoadSpec::resolve(&o, Some(&target), online).map(|s| s.cpus).map_err(|e| e.to_string())
        };
        assert_eq!(cpus("irq", &[0, 1]), Ok(vec![1]));
        assert_eq!(cpus("non-irq", &[0, 1]), Ok(vec![0]));
        assert!(cpus("non-irq", &[1]).unwrap_err().contains("every online CPU"));
        let o = LoadOptions { cpus: Some("irq".into()), ..options() };
        assert_eq!(LoadSpec::resolve(&o, None, &[0, 1]).unwrap_err().exit_status(), 3);
    }

    #[test]
    fn what_cannot_run_is_refused_in_one_line_with_a_remedy() {
        assert!(refused(LoadOptions::default()).contains("needs a target; name one with --file"));
        assert!(refused(LoadOptions { ring: "defer_taskrun".into(), ..options() }).contains("add single_issuer"));
        assert!(refused(LoadOptions { sq_cpu: Some(1), ..options() }).contains("add sqpoll to --ring"));
        assert!(refused(LoadOptions { batch: 32, ..options() }).contains("--batch 32 with --depth 16"));
        assert!(
            refused(LoadOptions { engine: EngineKind::Libaio, ring: "iopoll".into(), ..options() }).contains("--ring")
        );
        assert!(refused(LoadOptions { rw: Rw::Nop, engine: EngineKind::Sync, ..options() }).contains("no-op"));
        assert!(refused(LoadOptions { register: "file".into(), ..options() }).contains("'file'"));
        assert!(refused(LoadOptions { neighbour: "busy".into(), ..options() }).contains("busy:N"));
        assert!(refused(LoadOptions { reaper: "thread:9".into(), ..options() }).contains("CPU 9"));
        assert!(refused(LoadOptions { rate: Some(0.0), ..options() }).contains("--rate 0"));
        assert!(refused(LoadOptions { think: 1_000_000_001, ..options() }).contains("a second"));
        let registers =
            LoadOptions { ring: "single_issuer".into(), reaper: "thread".into(), register: "ring".into(), ..options() };
        assert!(refused(registers).contains("leave ring out of --register"));
        let both = LoadOptions { count: Some(1), runtime: Some(Span(RUNTIME)), ..options() };
        assert!(refused(both).contains("both"));
        assert!(refused(LoadOptions { bs: Bytes(1000), verify: true, ..options() }).contains("512"));
    }

    #[test]
    fn the_record_holds_what_was_resolved() {
        let o = LoadOptions {
            ring: "single_issuer,defer_taskrun,cqsize=64".into(),
            register: "files,ring".into(),
            count: Some(9),
            neighbour: "busy:2".into(),
            ..options()
        };
        let r = LoadSpec::resolve(&o, None, &[0]).unwrap().record(&["single_issuer".into()]);
        assert_eq!(r.ring.requested, ["defer_taskrun", "single_issuer", "cqsize=64"]);
        assert_eq!(r.ring.granted, ["single_issuer"]);
        assert_eq!((r.count, r.runtime_ns, r.bs, r.neighbour.as_str()), (Some(9), None, 4096, "busy:2"));
        assert_eq!(r.register, ["files", "ring"]);
        assert!(r.direct && r.cpus.is_empty());
    }

    #[test]
    fn sync_runs_at_depth_one_and_says_so() {
        let spec = LoadSpec::resolve(&LoadOptions { engine: EngineKind::Sync, ..options() }, None, &[0]).unwrap();
        assert_eq!((spec.depth, spec.batch), (1, 1));
        assert_eq!(spec.warnings[0].code, "sync_depth");
    }
}
