//! Replays all threads of a program once.

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::mm::MapFlags;

use crate::change;
use crate::engine::aio::Aio;
use crate::engine::null::Null;
use crate::engine::uring::{Setup, Uring};
use crate::engine::{Engine, Memory};
use crate::program::{Program, Thread};
pub use crate::thread::Speed;
use crate::thread::{self, Done, Tools};
use iotrail_base::error::{Error, Kind, Result};
use iotrail_base::mapping::Mapping;
use iotrail_load::clock::Clock;
use iotrail_load::gate::{AtGate, Gate};
use iotrail_load::{Boundary, buffers};
use iotrail_schema::replay_log::{ReplayInterface, ReplayRing};
use iotrail_stats::histogram;
use iotrail_stats::random::SplitMix64;

/// The interface through which requests are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interface {
    IoUring,
    Libaio,
    /// Each request is a synchronous call.
    Sync,
    /// Nothing is submitted, and everything completes immediately.
    Null,
}

/// How to replay a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// `None` to use that of each recorded ring.
    pub interface: Option<Interface>,
    /// Setup flags of all rings and size of their completion queues; `None` to use those of the recording.
    pub ring: Option<(u32, Option<u32>)>,
    pub register_files: bool,
    pub register_buffers: bool,
    pub speed: Speed,
}

impl Options {
    fn interface_of(&self, ring: &ReplayRing) -> Interface {
        self.interface.unwrap_or(match ring.interface {
            ReplayInterface::IoUring => Interface::IoUring,
            ReplayInterface::NativeAio | ReplayInterface::PosixAio => Interface::Libaio,
        })
    }

    /// The interfaces of all rings that the program uses.
    pub fn interfaces(&self, program: &Program) -> BTreeSet<Interface> {
        let used = program.threads.iter().flat_map(|t| &t.steps).filter_map(|s| s.ring);
        used.map(|ring| self.interface_of(&program.rings[usize::from(ring)])).collect()
    }
}

/// Results of a replay.
#[derive(Debug, Clone)]
pub struct Replayed {
    pub ios: u64,
    pub calls: u64,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// CPU time of the process, without the calling thread.
    pub cpu_ns: u64,
    /// From submission to reaping.
    pub latencies: Histogram<u64>,
    /// Requests that failed or transferred fewer bytes than recorded, and (below) the first errno.
    pub errors: u64,
    pub errno: Option<i32>,
    pub interrupted: bool,
}

impl Replayed {
    pub fn iops(&self) -> f64 {
        self.ios as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// Replays the program on these files, indexed by file number. Calls `boundary` on this thread when all threads are
/// ready, and when nothing is in flight any longer.
///
/// Fails if a ring or context cannot be set up, if memory is insufficient, or if the kernel rejects a call.
pub fn run(
    program: &Program,
    options: &Options,
    files: &[RawFd],
    boundary: &mut dyn FnMut(Boundary),
    stop: &AtomicBool,
) -> Result<Replayed> {
    let clock = Clock::get();
    let longest = program.longest();
    let slots: u32 = program.threads.iter().map(|t| slots(t, options)).fold(0, u32::saturating_add);
    buffers::check_room(1, slots, longest.max(1))
        .map_err(|e| Error { remedy: "use a smaller --depth, or replay on a machine with more memory".into(), ..e })?;
    let gate = Gate::new(program.threads.len());
    let start = std::sync::atomic::AtomicU64::new(0);
    let finished = Mutex::new(Vec::new());
    let mut cpu_ns = 0;
    std::thread::scope(|scope| {
        for thread in &program.threads {
            let (gate, start, finished) = (&gate, &start, &finished);
            let one = move || {
                let leaves = AtGate(gate);
                let run = AssertUnwindSafe(|| {
                    let memory = buffers(thread, longest, options)?;
                    let divided = (options.speed != Speed::Timestamps)
                        .then(|| change::into_chains(thread, program.rings.len()))
                        .flatten();
                    let thread = divided.as_ref().unwrap_or(thread);
                    let tools = Tools {
                        thread,
                        clock,
                        speed: options.speed,
                        files,
                        memory: memory.1,
                        stop,
                        synchronous: options.interface == Some(Interface::Sync),
                    };
                    let done = with_engines(program, tools, options, gate, start);
                    // After an error, requests may still be in flight.
                    if done.is_err() {
                        std::mem::forget(memory.0)
                    } else {
                        drop(memory.0)
                    }
                    done
                });
                let done = catch_unwind(run)
                    .unwrap_or_else(|payload| Err(Error::of_panic("a replay thread", payload.as_ref())));
                finished.lock().unwrap_or_else(PoisonError::into_inner).push(done);
                drop(leaves);
            };
            if let Err(e) = std::thread::Builder::new().name("replay".into()).spawn_scoped(scope, one) {
                let e = Error::machine("cannot start a replay thread", "raise ulimit -u").because(e);
                finished.lock().unwrap_or_else(PoisonError::into_inner).push(Err(e));
                gate.leave();
            }
        }
        while !gate.all_stand(TICK) {}
        let off = gate.someone_left();
        if !off {
            boundary(Boundary::MeasureBegins);
        }
        let before = iotrail_load::usage::of_others();
        start.store(clock.now() + clock.ticks(Duration::from_micros(200)), Ordering::Release);
        gate.open(off);
        // Threads that have finished wait at the gate again, so that their exit is not measured.
        while !gate.all_stand(TICK) {}
        cpu_ns = before.and_then(|before| Ok(iotrail_load::usage::of_others()?.saturating_sub(before))).unwrap_or(0);
        if !off {
            boundary(Boundary::MeasureEnds);
        }
        gate.open(off);
    });
    let all = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (done, failed): (Vec<_>, Vec<_>) = all.into_iter().partition(std::result::Result::is_ok);
    let mut failures: Vec<Error> = failed.into_iter().filter_map(std::result::Result::err).collect();
    failures.sort_by_key(|e| e.kind != Kind::Internal);
    if let Some(e) = failures.into_iter().next() {
        return Err(e);
    }
    let done: Vec<Done> = done.into_iter().flatten().flatten().collect();
    let mut sum = Replayed {
        ios: 0,
        calls: 0,
        elapsed_ns: 0,
        cpu_ns,
        latencies: histogram::new(),
        errors: 0,
        errno: None,
        interrupted: stop.load(Ordering::Relaxed),
    };
    let (mut began, mut ended) = (u64::MAX, 0);
    for one in &done {
        sum.ios += one.ios;
        sum.calls += one.calls;
        sum.errors += one.errors;
        sum.errno = sum.errno.or(one.errno);
        // Both have the same bounds and precision.
        sum.latencies.add(&one.latencies).expect("histograms of one kind");
        (began, ended) = (began.min(one.began), ended.max(one.ended));
    }
    sum.elapsed_ns = clock.ns(ended.saturating_sub(began));
    Ok(sum)
}

const TICK: Duration = Duration::from_millis(250);

/// Maximum number of registered buffers.
const MOST_BUFFERS: u32 = 16384;

/// Number of a thread's buffers. More requests than recorded may be in flight, because only chain ends are counted.
fn slots(thread: &Thread, options: &Options) -> u32 {
    let largest = thread.steps.iter().map(|s| s.ops).max().unwrap_or(1);
    if options.interface == Some(Interface::Sync) || thread.steps.iter().all(|s| s.ring.is_none()) {
        return 1;
    }
    let most = if options.register_buffers { MOST_BUFFERS } else { 1 << 16 };
    (thread.most_in_flight.saturating_mul(2)).max(thread.most_in_flight.saturating_add(largest)).clamp(8, most)
}

/// A thread's buffers, filled once with random data: some drives write zeroed blocks faster.
fn buffers(thread: &Thread, longest: u32, options: &Options) -> Result<(Mapping, Memory)> {
    let slots = slots(thread, options);
    let stride = (longest.max(1) as usize).next_multiple_of(4096);
    let mapping = Mapping::anonymous(stride * slots as usize, MapFlags::PRIVATE | MapFlags::POPULATE)
        .map_err(|e| Error::machine("cannot allocate the replay's buffers", "use a smaller --depth").because(e))?;
    let base = mapping.base().as_ptr();
    if thread.ops.iter().any(super::program::Op::writes) {
        let mut random = SplitMix64::new(u64::from(thread.tid));
        for word in 0..mapping.bytes() / 8 {
            // SAFETY: within the mapping, which only this thread uses.
            unsafe { base.cast::<u64>().add(word).write(random.draw()) };
        }
    }
    Ok((mapping, Memory { base, stride, slots }))
}

/// Returns `None` if the replay was cancelled.
fn with_engines(
    program: &Program,
    tools: Tools<'_>,
    options: &Options,
    gate: &Gate,
    start: &std::sync::atomic::AtomicU64,
) -> Result<Option<Done>> {
    let (files, memory, thread) = (tools.files, tools.memory, tools.thread);
    let largest = thread.steps.iter().map(|s| s.ops).max().unwrap_or(1);
    let mut is_used = vec![false; program.rings.len()];
    thread.steps.iter().filter_map(|s| s.ring).for_each(|ring| is_used[usize::from(ring)] = true);
    let engine = |(recorded, is_used): (&ReplayRing, bool)| -> Result<Option<Box<dyn Engine>>> {
        if !is_used {
            return Ok(None);
        }
        let (flags, cq_entries) = options.ring.unwrap_or((recorded.setup_flags, Some(recorded.cq_entries)));
        let setup = Setup {
            sq_entries: recorded.sq_entries.max(largest),
            cq_entries: cq_entries.unwrap_or(0).max(memory.slots),
            flags,
            register_files: options.register_files,
            register_buffers: options.register_buffers,
        };
        Ok(match options.interface_of(recorded) {
            Interface::IoUring => Some(Box::new(Uring::open(setup, files, memory)?)),
            Interface::Libaio => Some(Box::new(Aio::open(files, memory)?)),
            Interface::Sync => None,
            Interface::Null => Some(Box::new(Null::default())),
        })
    };
    let engines = program.rings.iter().zip(is_used).map(engine).collect::<Result<Vec<_>>>()?;
    if !gate.stand() {
        return Ok(None);
    }
    let done = thread::run(tools, engines, start.load(Ordering::Acquire));
    gate.stand();
    done.map(Some)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
