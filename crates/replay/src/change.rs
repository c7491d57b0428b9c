//! Modifies a program: a different depth or batch, or requests in place of synchronous calls.

use crate::program::{Op, OpKind, Program, Step, Thread, Wait};
use iotrail_schema::replay_log::{ReplayInterface, ReplayRing};

/// What think time belongs to. A recording does not show this; it matters if calls are merged or divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkPer {
    /// To the requests: a merged call has the sum, and a part of a divided call has its share.
    Request,
    /// To the call: a merged call has the longest, and each part of a divided call has all of it.
    Call,
}

/// Maximum number of chain ends that any thread has in flight on a ring.
pub fn depth(program: &Program) -> u32 {
    program.threads.iter().map(|t| depths(t, program.rings.len()).into_iter().max().unwrap_or(0)).max().unwrap_or(0)
}

fn depths(thread: &Thread, rings: usize) -> Vec<u32> {
    let (mut submitted, mut most) = (vec![0u32; rings], vec![0u32; rings]);
    for (step, ops) in thread.each() {
        let Some(ring) = step.ring.map(usize::from) else { continue };
        submitted[ring] += tails(ops);
        most[ring] = most[ring].max(submitted[ring].saturating_sub(step.needs));
    }
    most
}

fn tails(ops: &[Op]) -> u32 {
    ops.iter().filter(|op| op.ends_chain()).count() as u32
}

/// Divides submissions of more than `n` requests at the ends of chains. The chains of the later parts are not in flight
/// yet, so a part needs fewer completions by their number.
fn split(thread: &mut Thread, n: u32, rings: usize, think: ThinkPer) {
    let mut steps = Vec::with_capacity(thread.steps.len());
    let mut needed = vec![0u32; rings];
    for (step, ops) in thread.each() {
        let Some(ring) = step.ring.map(usize::from).filter(|_| step.ops > n) else {
            if let Some(ring) = step.ring {
                needed[usize::from(ring)] = step.needs;
            }
            steps.push(*step);
            continue;
        };
        let mut parts: Vec<&[Op]> = Vec::new();
        let mut rest = ops;
        while !rest.is_empty() {
            let last = rest.iter().skip(n as usize - 1).position(Op::ends_chain);
            let (part, later) = rest.split_at(last.map_or(rest.len(), |at| at + n as usize));
            parts.push(part);
            rest = later;
        }
        let mut later = tails(ops);
        let share = if think == ThinkPer::Request { parts.len() as u32 } else { 1 };
        for part in parts {
            later -= tails(part);
            needed[ring] = step.needs.saturating_sub(later).max(needed[ring]);
            steps.push(Step {
                ops: part.len() as u32,
                needs: needed[ring],
                wait_for: step.wait_for.min(n),
                min_complete: step.min_complete.min(n),
                think_before_ns: step.think_before_ns / share,
                think_ns: step.think_ns / share,
                ..*step
            });
        }
    }
    thread.steps = steps;
}

/// A thread that merges its submissions, with one chain per step: a program that submits as many requests as it has
/// reaped submits fewer if it has reaped fewer. `None` if it does not merge, or waits for several completions at once.
pub fn into_chains(thread: &Thread, rings: usize) -> Option<Thread> {
    let waits_for_one = thread.steps.iter().all(|step| step.wait_for <= 1 && step.min_complete <= 1);
    let mut divided = (thread.merges && waits_for_one).then(|| thread.clone())?;
    split(&mut divided, 1, rings, ThinkPer::Request);
    Some(divided)
}

/// The program with `n` chains in flight per thread and ring. If that is more than recorded, the result is an upper
/// bound, because a request might depend on data of an earlier one.
pub fn with_depth(mut program: Program, n: u32) -> Program {
    let rings = program.rings.len();
    for thread in &mut program.threads {
        let recorded = depths(thread, rings);
        if recorded.iter().any(|recorded| n < *recorded) {
            split(thread, n, rings, ThinkPer::Request);
        }
        let mut submitted = vec![0u32; rings];
        let mut ops = thread.ops.as_slice();
        for step in &mut thread.steps {
            let (of_step, rest) = ops.split_at(step.ops as usize);
            ops = rest;
            let Some(ring) = step.ring.map(usize::from) else { continue };
            let before = submitted[ring];
            submitted[ring] += tails(of_step);
            step.needs = match n.checked_sub(recorded[ring]) {
                Some(more) => step.needs.saturating_sub(more),
                None => step.needs.max(submitted[ring].saturating_sub(n)).min(before),
            };
        }
        thread.most_in_flight = thread.most_in_flight.max(n);
    }
    program
}

/// The program with `n` requests per submission, and as many completions per wait.
pub fn with_batch(mut program: Program, n: u32, think: ThinkPer) -> Program {
    let merged = |a: u32, b: u32| if think == ThinkPer::Request { a.saturating_add(b) } else { a.max(b) };
    let rings = program.rings.len();
    for thread in &mut program.threads {
        split(thread, n, rings, think);
        let mut steps: Vec<Step> = Vec::with_capacity(thread.steps.len());
        let mut submitted = vec![0u32; rings];
        // Chains submitted before the current batch.
        let (mut before, mut is_open) = (0, false);
        let mut ops = thread.ops.as_slice();
        for step in &thread.steps {
            let (of_step, rest) = ops.split_at(step.ops as usize);
            ops = rest;
            let ring = step.ring.map(usize::from);
            let fits = |last: &&mut Step| is_open && last.ring == step.ring && last.ops + step.ops <= n;
            match steps.last_mut().filter(|last| ring.is_some() && fits(last)) {
                Some(last) => {
                    last.needs = step.needs.max(last.needs).min(before);
                    last.ops += step.ops;
                    last.think_before_ns = merged(last.think_before_ns, step.think_before_ns);
                    last.idle_ns = last.idle_ns.saturating_add(step.idle_ns);
                    last.think_ns = merged(last.think_ns, step.think_ns);
                    last.min_complete = last.min_complete.max(step.min_complete);
                    last.gets_events |= step.gets_events;
                }
                None => {
                    before = ring.map_or(0, |ring| submitted[ring]);
                    steps.push(*step);
                }
            }
            if let Some(ring) = ring {
                submitted[ring] += tails(of_step);
            }
            if let Some(last) = steps.last_mut() {
                last.wait_for = last.wait_for.max(n);
                if last.min_complete > 0 {
                    last.min_complete = n;
                }
                is_open = last.ops < n;
            }
        }
        thread.steps = steps;
        thread.merges = false;
    }
    program
}

/// Think time of all threads.
pub fn think_ns(program: &Program) -> u64 {
    let steps = program.threads.iter().flat_map(|t| &t.steps);
    steps.map(|step| u64::from(step.think_before_ns) + u64::from(step.think_ns)).sum()
}

/// The program with synchronous calls turned into requests on one ring per thread, with `n` in flight. With more than
/// one, a sync waits for all earlier requests, and all later ones wait for the sync. A request waits for earlier ones
/// on the same bytes of a file if either writes. All others count as independent, so the result is an upper bound.
pub fn overlapped(mut program: Program, n: u32) -> Program {
    let ring = program.rings.len() as u16;
    let entries = n.max(8).next_power_of_two();
    program.rings.push(ReplayRing {
        ring: u32::MAX,
        interface: ReplayInterface::IoUring,
        sq_entries: entries,
        cq_entries: entries * 2,
        setup_flags: 0,
    });
    for thread in &mut program.threads {
        thread.waits.push(Wait::Sleep);
        // A thread with requests is already asynchronous, and its calls have a fixed position between them.
        if thread.steps.iter().any(|step| step.ring.is_some() || step.ops != 1) {
            continue;
        }
        let (mut needs, mut submitted) = (0u32, 0u32);
        for (at, (step, op)) in thread.steps.iter_mut().zip(&thread.ops).enumerate() {
            let in_flight = submitted.saturating_sub(needs).min(n) as usize;
            let earlier = &thread.ops[at.saturating_sub(in_flight)..at];
            let waits_for_all = is_barrier(op) || earlier.iter().any(|e| is_barrier(e) || conflict(e, op));
            needs = needs.max(if waits_for_all { submitted } else { (submitted + 1).saturating_sub(n) });
            (step.ring, step.needs, step.wait_for) = (Some(ring), needs, 1);
            (step.min_complete, step.gets_events) = (1, true);
            submitted += 1;
        }
        thread.most_in_flight = thread.most_in_flight.max(n);
    }
    program
}

fn is_barrier(op: &Op) -> bool {
    matches!(op.kind, OpKind::Fsync | OpKind::SyncFileRange | OpKind::Fallocate)
}

fn conflict(a: &Op, b: &Op) -> bool {
    let end = |op: &Op| op.offset.saturating_add(op.len.into());
    (a.writes() || b.writes()) && a.file == b.file && a.offset < end(b) && b.offset < end(a)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
