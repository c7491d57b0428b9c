//! Turns options into arms.

use super::{INTERFACES, ReplayOptions, name};
use iotrail_base::error::{Error, Result};
use iotrail_load::engine::io_uring::flags::{Flag, Setup};
use iotrail_replay::change::{self, ThinkPer};
use iotrail_replay::program::{LINKED, Program};
use iotrail_replay::run::{Interface, Options, Speed};

/// A way of replaying the recording.
pub(super) struct Arm {
    pub name: String,
    pub program: Program,
    pub options: Options,
    pub upper_bound: bool,
    /// The unchanged replay again; the difference between the two is the noise.
    pub is_control: bool,
    /// The previous arm, with think time per call instead of per request.
    pub per_call: bool,
    /// Index of the arm that it is compared with.
    pub base: usize,
}

pub(super) const UNCHANGED: &str = "unchanged";
const AGAIN: &str = "unchanged again";

/// Requests in flight if synchronous calls are overlapped without a specified depth.
const OVERLAP: u32 = 16;

/// Above this share of the threads' time, think time decides the result, so both extremes are measured.
pub(super) const MOST_THINK: f64 = 0.5;

/// The unchanged replay, its control, then the variants.
pub(super) fn of(program: &Program, asked: &ReplayOptions) -> Result<Vec<Arm>> {
    let base = Options { speed: asked.speed.unwrap_or_default(), ..as_recorded(program) };
    let unchanged = |name: &str, is_control| Arm {
        name: name.into(),
        program: program.clone(),
        options: base,
        upper_bound: false,
        is_control,
        per_call: false,
        base: 0,
    };
    let mut arms = vec![unchanged(UNCHANGED, false), unchanged(AGAIN, true)];
    let variants = variants(program, asked, base)?;
    let has_variants = !variants.is_empty();
    arms.extend(variants);
    if has_variants && asked.speed.is_none() && thinks(program) {
        let first = arms.len();
        let without: Vec<Arm> = arms
            .iter()
            .filter(|arm| !arm.is_control && !arm.per_call)
            .map(|arm| Arm {
                name: format!("{}, no think time", arm.name),
                program: arm.program.clone(),
                options: Options { speed: Speed::None, ..arm.options },
                upper_bound: arm.upper_bound,
                is_control: false,
                per_call: false,
                base: first,
            })
            .collect();
        arms.extend(without);
    }
    Ok(arms)
}

/// If think time per call and per request differ by at most this share of the threads' time, only one is replayed.
const LEAST_THINK: f64 = 0.02;

/// The arm with batches of `n`, and the arm with think time per call if that is different.
fn batched(arm: Arm, n: Option<u32>) -> Vec<Arm> {
    let Some(n) = n else { return vec![arm] };
    let program = change::with_batch(arm.program.clone(), n, ThinkPer::Call);
    let arm = Arm { program: change::with_batch(arm.program, n, ThinkPer::Request), ..arm };
    let apart = change::think_ns(&arm.program).abs_diff(change::think_ns(&program));
    let least = arm.program.observed.sums.threads_ns as f64 * LEAST_THINK;
    let is_apart = arm.options.speed == Speed::Think && apart as f64 > least;
    let name = format!("{}, think time per call", arm.name);
    let per_call = is_apart.then_some(Arm { name, program, per_call: true, ..arm });
    std::iter::once(arm).chain(per_call).collect()
}

/// Whether think time dominates the threads' time.
pub(super) fn thinks(program: &Program) -> bool {
    let o = &program.observed.sums;
    o.think_ns as f64 > o.threads_ns as f64 * MOST_THINK
}

fn as_recorded(program: &Program) -> Options {
    Options {
        register_files: program.observed.registered_files,
        register_buffers: program.observed.registered_buffers,
        ..Options::default()
    }
}

fn variants(program: &Program, asked: &ReplayOptions, base: Options) -> Result<Vec<Arm>> {
    let mut options = base;
    let mut names = Vec::new();
    let synchronous = program.is_synchronous();
    if let Some(interface) = asked.interface {
        options.interface = Some(interface);
        names.push(format!("--engine {}", name(&INTERFACES, interface)));
    }
    if let Some(ring) = &asked.ring {
        let refused = |r: iotrail_load::engine::io_uring::flags::Refusal| Error::input(r.what, r.remedy);
        let setup: Setup = ring.parse().map_err(refused)?;
        setup.check(1).map_err(refused)?;
        if setup.has(Flag::Sqpoll) {
            return Err(Error::input("a replay has no SQPOLL thread", "omit sqpoll from --ring, or use `iotrail try`"));
        }
        options.ring = Some((setup.bits(), setup.cq_entries));
        names.push(format!("--ring {}", if ring.trim().is_empty() { "none" } else { ring }));
    }
    if let Some(register) = &asked.register {
        let words: Vec<&str> = register.split(',').map(str::trim).filter(|w| !w.is_empty() && *w != "none").collect();
        if let Some(other) = words.iter().find(|w| !["files", "buffers"].contains(w)) {
            return Err(Error::input(format!("cannot register '{other}'"), "use files, buffers or none"));
        }
        options.register_files = words.contains(&"files");
        options.register_buffers = words.contains(&"buffers");
        names.push(format!("--register {register}"));
    }
    let without_ring = match options.interface {
        Some(Interface::IoUring) => None,
        Some(other) => Some(format!("--engine {} has no ring", name(&INTERFACES, other))),
        None => options
            .interfaces(program)
            .iter()
            .eq(&[Interface::Libaio])
            .then(|| "the recorded program uses libaio".into()),
    };
    if let Some(why) = without_ring {
        if asked.ring.is_some() || asked.register.is_some() {
            return Err(Error::input(
                format!("--ring and --register apply only to io_uring; {why}"),
                "omit them, or use --engine io_uring",
            ));
        }
        (options.register_files, options.register_buffers) = (false, false);
    }
    let is_linked = || program.threads.iter().flat_map(|t| &t.ops).any(|op| op.sqe_flags & LINKED != 0);
    if options.interface == Some(Interface::Libaio) && is_linked() {
        return Err(Error::input(
            "the recording has linked requests, but native aio has no links",
            "use --engine io_uring",
        ));
    }
    if options.interface == Some(Interface::Sync) && (asked.depth.is_some() || asked.batch.is_some()) {
        return Err(Error::input("synchronous calls have no --depth and no --batch", "omit them"));
    }
    if synchronous && asked.interface.is_none() && (asked.ring.is_some() || asked.register.is_some()) {
        return Err(Error::input(
            "the recorded program has no ring: its calls are synchronous",
            "add --engine io_uring",
        ));
    }
    let mut changed = program.clone();
    let mut upper_bound = false;
    let mut arms = Vec::new();
    if synchronous && options.interface != Some(Interface::Sync) && (asked.interface.is_some() || asked.depth.is_some())
    {
        let arm = |suffix: &str, program: Program, upper_bound| Arm {
            name: format!("{}, {suffix}", if names.is_empty() { "--engine io_uring".into() } else { names.join(" ") }),
            program,
            options,
            upper_bound,
            is_control: false,
            per_call: false,
            base: 0,
        };
        let depth = asked.depth.unwrap_or(OVERLAP);
        arms.push(arm("one to one", change::overlapped(program.clone(), 1), false));
        let many = change::overlapped(program.clone(), depth);
        let many = arm(&format!("{depth} overlapped"), many, true);
        arms.extend(batched(many, asked.batch));
        return Ok(arms);
    }
    if let Some(depth) = asked.depth {
        upper_bound = depth > change::depth(program);
        changed = change::with_depth(changed, depth);
        names.push(format!("--depth {depth}"));
    }
    names.extend(asked.batch.map(|batch| format!("--batch {batch}")));
    if names.is_empty() {
        return Ok(arms);
    }
    let name = names.join(" ");
    let arm = Arm { name, program: changed, options, upper_bound, is_control: false, per_call: false, base: 0 };
    Ok(batched(arm, asked.batch))
}
