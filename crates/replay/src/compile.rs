//! Compiles a recording's events into a program.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use linux_raw_sys::io_uring as sys;

use crate::batches::{self, Batches};
use crate::observed::{InOrder, Sums};
use crate::program::{Op, OpKind, Program, ProgramFile, Step, Thread, Wait};
use iotrail_base::error::{Error, Result};
use iotrail_schema::replay_log::{
    ReplayCall, ReplayCallKind, ReplayEvent, ReplayFile, ReplayInterface, ReplayOp, ReplayRequest, ReplayRing,
    ReplaySync,
};

/// A thread with only synchronous calls, and at most this share of the largest thread's requests, is not part of the
/// load.
const FEW_CALLS: f64 = 0.05;
/// Maximum number of a thread's synchronous steps before its first submission that are treated as preparation, not as
/// load.
const MOST_PREPARATIONS: usize = 1000;

/// Shorter times off the CPU are not waits, but variations of the probes' own time.
const SHORTEST_IDLE_NS: u64 = 10_000;

const FIXED_FILE: u8 = 1 << 0;
const ASYNC: u8 = 1 << 4;
const DRAIN: u8 = 1 << 1;
const SKIP_SUCCESS: u8 = 1 << 6;
/// The flags that are replayed. Skipped completions are requested in the replay, because a buffer would otherwise never
/// become free.
const KEPT: u8 = crate::program::LINKED | DRAIN | ASYNC;
/// RWF_HIPRI, RWF_DSYNC, RWF_SYNC and RWF_NOWAIT. RWF_APPEND is excluded because it would move the request to the end
/// of the file.
const RWF_KEPT: u32 = 0xf;

/// Consumes a recording's events one by one. Memory: 24 bytes per request and 48 bytes per submission.
pub struct Compiler {
    most: u64,
    taken: u64,
    /// `None` to find it in the events.
    load: Option<Load>,
    program: Program,
    files: BTreeMap<u32, FileSlot>,
    rings: BTreeMap<u32, usize>,
    states: Vec<RingState>,
    threads: BTreeMap<u32, Building>,
}

/// The threads of the load, each with the time of its first step.
pub type Load = BTreeMap<u32, u64>;

/// The program's index of a recorded file.
struct FileSlot {
    index: Option<u16>,
    /// The assumed file position, for requests without an offset.
    position: u64,
}

/// State of a ring so far.
#[derive(Default)]
struct RingState {
    /// Requests that post a completion and are followed by a linked request.
    heads: u64,
    /// Chain ends submitted.
    tails: u64,
    /// Lower bound on chain ends reaped.
    reaped_tails: u64,
    in_order: InOrder,
    users: BTreeSet<u32>,
}

/// State of a thread so far.
#[derive(Default)]
struct Building {
    thread: Thread,
    /// Requests whose call has not returned, by ring.
    pending: BTreeMap<usize, Vec<Pending>>,
    rings: BTreeMap<usize, OfRing>,
    /// User time since the previous step: before the first wait, and after it.
    think_before_ns: u64,
    think_ns: u64,
    /// Time off the CPU since the previous step, with the probes' own time.
    idle_ns: u64,
    /// Number of completions that the last sleeping call waited for.
    waited_for: Option<u32>,
    began_ns: Option<u64>,
    last_exit_ns: u64,
    /// Number of gaps between calls, and the smallest part of a gap that is not think time: the probes' own time, which
    /// is subtracted from think time.
    gaps: u64,
    probes_ns: Option<u64>,
    sums: Sums,
}

struct Pending {
    /// `None` if the request is not replayed.
    op: Option<Op>,
    is_tail: bool,
    posts: bool,
    at_ns: u64,
}

/// A thread's use of a ring.
#[derive(Default)]
struct OfRing {
    tails: u64,
    reaped_tails: u64,
    outstanding: u32,
    sleeps: u64,
    asks: u64,
    min_complete: u32,
    submissions: Vec<(u32, u32)>,
}

impl Compiler {
    /// Accepts at most `most` requests.
    pub fn new(most: u64) -> Self {
        Self {
            most,
            taken: 0,
            load: None,
            program: Program::default(),
            files: BTreeMap::new(),
            rings: BTreeMap::new(),
            states: Vec::new(),
            threads: BTreeMap::new(),
        }
    }

    /// Marks the events as those of a log without calls and completions.
    pub fn imported(&mut self) {
        self.program.observed.doubts.imported = true;
    }

    /// Accepts only events of this load, which [`Compiler::load`] found in the complete recording.
    pub fn only(&mut self, load: Load) {
        self.load = Some(load);
    }

    /// Breaks once it has the calls of the maximum number of requests.
    pub fn take(&mut self, event: &ReplayEvent) -> ControlFlow<()> {
        let is_part = self.program.observed.is_part;
        match event {
            ReplayEvent::File(file) => self.file(file),
            ReplayEvent::Ring(ring) => self.ring(ring),
            ReplayEvent::Request(_) | ReplayEvent::Sync(_) if self.taken >= self.most => {
                self.program.observed.is_part = true;
            }
            ReplayEvent::Request(request) => self.request(request),
            ReplayEvent::Sync(sync) => self.sync(sync),
            // Its requests are not replayed.
            ReplayEvent::Call(c) if is_part && self.threads.get(&c.tid).is_none_or(|b| b.pending.is_empty()) => {}
            ReplayEvent::Call(call) => self.call(call),
            ReplayEvent::Lost { events } => {
                let lost = &mut self.program.observed.doubts.lost_events;
                *lost = lost.saturating_add(*events);
            }
        }
        let is_complete = || self.threads.values().all(|b| b.pending.is_empty());
        if self.program.observed.is_part && is_complete() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The load, after all events.
    pub fn load(&self) -> Load {
        let most_ops = self.threads.values().map(|b| b.thread.ops.len()).max().unwrap_or(0);
        let first = |(tid, b): (&u32, &Building)| Some((*tid, b.thread.steps.first()?.at_ns));
        let is_few = |of: &Thread| of.is_synchronous() && of.ops.len() as f64 <= most_ops as f64 * FEW_CALLS;
        self.threads.iter().filter(|(_, b)| !is_few(&b.thread)).filter_map(first).collect()
    }

    /// Returns the program. Usage error: there is nothing to replay.
    pub fn finish(mut self) -> Result<Program> {
        let mut largest = 0;
        let (mut requests, mut submissions) = (0, 0);
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        let load = self.load.take().unwrap_or_else(|| self.load());
        let observed = &mut self.program.observed;
        for (tid, building) in self.threads {
            observed.doubts.unexplained += building.pending.values().map(|p| p.len() as u64).sum::<u64>();
            let idle_ns = building.idle_ns();
            let mut thread = Thread { tid, ..building.thread };
            thread.waits = vec![Wait::default(); self.states.len()];
            let mut kind = batches::Kind::Unknown;
            for (ring, of) in &building.rings {
                thread.waits[*ring] = match () {
                    () if of.sleeps == 0 && of.asks == 0 => Wait::Peek,
                    () if of.sleeps >= of.asks => Wait::Sleep,
                    () => Wait::Ask,
                };
                kind = kind.max(batches::kind(&of.submissions));
            }
            thread.merges = kind == batches::Kind::AsReaped;
            let Some(first_step) = thread.steps.first() else { continue };
            thread.has_links = thread.ops.iter().any(|op| !op.ends_chain());
            let is_synchronous = thread.is_synchronous();
            if !load.contains_key(&tid) {
                observed.doubts.side_calls += thread.ops.len() as u64;
                continue;
            }
            let first_at_ns = first_step.at_ns;
            // A thread with requests may have waited for their completions.
            let probes_ns = building.probes_ns.unwrap_or(0);
            let keeps_idle = is_synchronous && !observed.doubts.imported;
            for step in &mut thread.steps {
                let idle_ns = u64::from(step.idle_ns).saturating_sub(probes_ns);
                step.idle_ns = if keeps_idle && idle_ns >= SHORTEST_IDLE_NS { idle_ns as u32 } else { 0 };
            }
            first_ns = first_ns.min(first_at_ns);
            last_ns = last_ns.max(building.last_exit_ns);
            let threads_ns = building.last_exit_ns.saturating_sub(first_at_ns);
            observed.sums.add(&Sums { threads_ns, idle_ns, ..building.sums });
            requests += thread.ops.len();
            submissions += thread.steps.len();
            if thread.ops.len() > largest {
                (largest, observed.batches.kind) = (thread.ops.len(), kind);
            }
            self.program.threads.push(thread);
        }
        observed.batches = Batches { mean: requests as f64 / submissions.max(1) as f64, ..observed.batches };
        observed.doubts.shared_rings = self.states.iter().filter(|s| s.users.len() > 1).count() as u64;
        observed.elapsed_ns = last_ns.saturating_sub(first_ns);
        for step in self.program.threads.iter_mut().flat_map(|t| &mut t.steps) {
            step.at_ns = step.at_ns.saturating_sub(first_ns);
        }
        if self.program.threads.is_empty() {
            return Err(Error::input(
                "nothing in the recording can be replayed: it contains no file reads, writes or syncs",
                "record a program that reads or writes files, with `iotrail trace --record FILE --for-replay -- CMD`",
            ));
        }
        Ok(self.program)
    }

    fn file(&mut self, file: &ReplayFile) {
        let next = self.program.files.len();
        // A recording has absolute paths; other names are sockets and the like. An iolog has the names of fio's job.
        let is_path = self.program.observed.doubts.imported || file.path.starts_with('/');
        let index = u16::try_from(next).ok().filter(|_| file.replayable && is_path);
        if index.is_some() {
            let kept = libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC | libc::O_NOATIME;
            self.program.files.push(ProgramFile {
                path: PathBuf::from(&file.path),
                open_flags: file.open_flags as i32 & kept,
                size: file.size,
                ..ProgramFile::default()
            });
        }
        self.files.insert(file.file, FileSlot { index, position: 0 });
    }

    fn ring(&mut self, ring: &ReplayRing) {
        if self.states.len() > usize::from(u16::MAX) {
            return;
        }
        self.rings.insert(ring.ring, self.states.len());
        self.program.observed.doubts.sqpoll_rings += u64::from(ring.setup_flags & sys::IORING_SETUP_SQPOLL != 0);
        self.program.observed.doubts.posix_aio |= ring.interface == ReplayInterface::PosixAio;
        self.program.rings.push(ring.clone());
        self.states.push(RingState::default());
    }

    fn request(&mut self, r: &ReplayRequest) {
        let Some(&ring) = self.rings.get(&r.ring) else {
            self.program.observed.doubts.unexplained += 1;
            return;
        };
        let op = self.op(r.op, r.file, r.offset, u64::from(r.len), r.op_flags, r.sqe_flags & KEPT);
        let observed = &mut self.program.observed;
        observed.registered_files |= op.is_some() && r.sqe_flags & FIXED_FILE != 0;
        observed.registered_buffers |= op.is_some() && r.buffer.is_some();
        let posts = r.sqe_flags & SKIP_SUCCESS == 0;
        observed.doubts.skipped_completions += u64::from(!posts);
        let is_tail = r.sqe_flags & crate::program::LINKED == 0 && posts && op.is_some();
        self.taken += u64::from(op.is_some());
        self.states[ring].users.insert(r.tid);
        let pending = Pending { op, is_tail, posts, at_ns: r.at_ns };
        self.threads.entry(r.tid).or_default().pending.entry(ring).or_default().push(pending);
    }

    /// Returns `None` if the operation is not replayed, and counts it.
    fn op(&mut self, op: ReplayOp, file: Option<u32>, offset: u64, len: u64, flags: u32, sqe_flags: u8) -> Option<Op> {
        let observed = &mut self.program.observed;
        let (kind, kept) = match op {
            ReplayOp::Read => (OpKind::Read, RWF_KEPT),
            ReplayOp::Write => (OpKind::Write, RWF_KEPT),
            ReplayOp::Fsync => (OpKind::Fsync, 1),
            ReplayOp::Fdatasync => (OpKind::Fsync, 1),
            ReplayOp::SyncFileRange => (OpKind::SyncFileRange, 7),
            ReplayOp::Fallocate => (OpKind::Fallocate, 0x3f),
            ReplayOp::Nop => (OpKind::Nop, 0),
            ReplayOp::Other => {
                observed.doubts.other_requests += 1;
                return None;
            }
        };
        let datasync = if op == ReplayOp::Fdatasync { sys::IORING_FSYNC_DATASYNC } else { 0 };
        let op = Op { kind, sqe_flags, file: 0, flags: flags & kept | datasync, len: 0, offset: 0 };
        if kind == OpKind::Nop {
            return Some(op);
        }
        let slot = file.and_then(|file| self.files.get_mut(&file));
        let Some((slot, index)) = slot.and_then(|slot| slot.index.map(|index| (slot, index))) else {
            observed.doubts.other_files += 1;
            return None;
        };
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let at = match offset {
            u64::MAX => {
                observed.doubts.at_position += 1;
                slot.position
            }
            at => at,
        };
        let end = at.saturating_add(u64::from(len));
        let file = &mut self.program.files[usize::from(index)];
        match kind {
            OpKind::Read => file.read_to = file.read_to.max(end),
            OpKind::Write | OpKind::Fallocate => file.written_to = file.written_to.max(Some(end)),
            _ => {}
        }
        if matches!(kind, OpKind::Read | OpKind::Write) {
            slot.position = end;
        }
        file.uses += 1;
        Some(Op { file: index, len, offset: at, ..op })
    }

    fn call(&mut self, c: &ReplayCall) {
        let Some(&ring) = self.rings.get(&c.ring) else { return };
        let state = &mut self.states[ring];
        state.users.insert(c.tid);
        let building = self.threads.entry(c.tid).or_default();
        building.sums.calls += 1;
        let take = &mut building.sums.latencies;
        state.in_order.reap_to(c.reaped, |at| take.take(c.enter_ns.saturating_sub(at), 1));
        // Older recordings lack the number of heads: completions beyond the submitted heads must be chain ends.
        let heads = c.heads_reaped.unwrap_or(state.heads);
        state.reaped_tails = state.reaped_tails.max(c.reaped.saturating_sub(heads)).min(state.tails);

        building.begin(c.enter_ns, c.exit_ns, c.think_ns);
        let gets_events = c.kind == ReplayCallKind::GetEvents || c.flags & sys::IORING_ENTER_GETEVENTS != 0;
        let pending = building.pending.remove(&ring).unwrap_or_default();
        if pending.iter().any(|p| p.op.is_some()) {
            building.forget_preparations(c.enter_ns);
        }
        let of = building.rings.entry(ring).or_default();
        // Some programs make a submission call only to run task work; it does not show how they wait.
        if gets_events && (c.min_complete > 0 || pending.is_empty()) {
            *(if c.min_complete > 0 { &mut of.sleeps } else { &mut of.asks }) += 1;
        }
        let sleeps_for = (gets_events && c.min_complete > 0).then_some(c.min_complete);
        if !pending.is_empty() {
            let outstanding = state.tails - state.reaped_tails;
            let needs = of.tails.saturating_sub(outstanding);
            let reaped = needs.saturating_sub(of.reaped_tails);
            of.reaped_tails = of.reaped_tails.max(needs);
            let ops: Vec<Op> = pending.iter().filter_map(|p| p.op).collect();
            for p in pending.iter().filter(|p| p.posts) {
                state.in_order.submit(p.at_ns.max(c.enter_ns));
            }
            let tails = pending.iter().filter(|p| p.is_tail).count() as u64;
            state.heads += pending.iter().filter(|p| p.posts && !p.is_tail).count() as u64;
            state.tails += tails;
            of.tails += tails;
            of.outstanding = of.outstanding.max((state.tails + state.heads).saturating_sub(c.reaped) as u32);
            if !ops.is_empty() {
                building.sums.ios += ops.len() as u64;
                of.submissions.push((tails as u32, reaped as u32));
                let wait_for = building.waited_for.unwrap_or(of.min_complete).max(1);
                of.min_complete = sleeps_for.unwrap_or(0);
                let step = Step {
                    ring: Some(ring as u16),
                    needs: u32::try_from(needs).unwrap_or(u32::MAX),
                    wait_for,
                    min_complete: sleeps_for.unwrap_or(0),
                    gets_events,
                    ..Step::default()
                };
                building.thread.most_in_flight = building.rings.values().map(|r| r.outstanding).sum();
                building.push(step, c.enter_ns, &ops);
            }
        } else if let Some(min) = sleeps_for {
            building.waited_for.get_or_insert(min);
        }
    }

    fn sync(&mut self, s: &ReplaySync) {
        // A read past the end of the file returns fewer bytes or none, and so does its replay.
        let Ok(moved) = u64::try_from(s.result) else { return };
        let moves = matches!(s.op, ReplayOp::Read | ReplayOp::Write);
        let len = if moves { s.len.min(moved) } else { s.len };
        let Some(op) = self.op(s.op, s.file, s.offset, len, s.op_flags, 0) else { return };
        let first_ns = self.load.as_ref().map_or(Some(0), |load| load.get(&s.tid).copied());
        if first_ns.is_none_or(|first_ns| s.enter_ns < first_ns) {
            self.program.observed.doubts.side_calls += u64::from(first_ns.is_none());
            return;
        }
        self.taken += 1;
        let building = self.threads.entry(s.tid).or_default();
        building.sums.calls += 1;
        building.sums.ios += 1;
        building.sums.latencies.take(s.exit_ns.saturating_sub(s.enter_ns), 1);
        building.begin(s.enter_ns, s.exit_ns, s.think_ns);
        building.thread.most_in_flight = building.thread.most_in_flight.max(1);
        building.push(Step::default(), s.enter_ns, &[op]);
    }
}

impl Building {
    /// Time off the CPU between calls, without the probes' own time.
    fn idle_ns(&self) -> u64 {
        let probes_ns = self.probes_ns.unwrap_or(0).saturating_mul(self.gaps);
        self.sums.idle_ns.saturating_sub(probes_ns)
    }

    /// A call begins: records the time since the previous call.
    fn begin(&mut self, enter_ns: u64, exit_ns: u64, think_ns: u64) {
        if self.began_ns.is_some() {
            let gap = enter_ns.saturating_sub(self.last_exit_ns);
            let think = think_ns.min(gap);
            let of_step = if self.waited_for.is_some() { &mut self.think_ns } else { &mut self.think_before_ns };
            for (sum, ns) in [(of_step, think), (&mut self.sums.think_ns, think), (&mut self.sums.idle_ns, gap - think)]
            {
                *sum = sum.saturating_add(ns);
            }
            self.idle_ns = self.idle_ns.saturating_add(gap - think);
            self.gaps += 1;
            // If all of the gap is probe time, think time is 0, and the rest does not show how long the probes take.
            if think > 0 {
                let rest = gap - think;
                self.probes_ns = Some(self.probes_ns.map_or(rest, |least| least.min(rest)));
            }
        }
        self.began_ns.get_or_insert(enter_ns);
        self.last_exit_ns = self.last_exit_ns.max(exit_ns);
    }

    /// The thread starts to use a ring, so its few calls before that were preparation.
    fn forget_preparations(&mut self, enter_ns: u64) {
        if self.rings.values().any(|r| !r.submissions.is_empty()) || self.thread.steps.len() > MOST_PREPARATIONS {
            return;
        }
        self.thread.steps.clear();
        self.thread.ops.clear();
        self.sums = Sums { calls: 1, ..Sums::default() };
        (self.think_before_ns, self.think_ns, self.idle_ns, self.waited_for) = (0, 0, 0, None);
        self.began_ns = Some(enter_ns);
        (self.gaps, self.probes_ns) = (0, None);
    }

    fn push(&mut self, step: Step, enter_ns: u64, ops: &[Op]) {
        let brief = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        self.thread.steps.push(Step {
            ops: ops.len() as u32,
            think_before_ns: brief(self.think_before_ns),
            think_ns: brief(self.think_ns),
            idle_ns: brief(self.idle_ns),
            at_ns: enter_ns,
            ..step
        });
        self.thread.ops.extend_from_slice(ops);
        (self.think_before_ns, self.think_ns, self.idle_ns, self.waited_for) = (0, 0, 0, None);
    }
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
