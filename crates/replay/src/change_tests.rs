use super::*;
use crate::program::LINKED;

fn op(kind: OpKind, block: u64) -> Op {
    Op { kind, sqe_flags: 0, file: 0, flags: 0, len: 4096, offset: block * 4096 }
}

/// One request per step, with `depth` in flight.
fn queue(n: u32, depth: u32) -> Program {
    let steps = (0..n).map(|i| Step {
        ring: Some(0),
        ops: 1,
        needs: (i + 1).saturating_sub(depth),
        wait_for: 1,
        ..Step::default()
    });
    let thread = Thread {
        steps: steps.collect(),
        ops: (0..n).map(|i| op(OpKind::Read, u64::from(i))).collect(),
        waits: vec![Wait::Sleep],
        ..Thread::default()
    };
    let ring =
        ReplayRing { ring: 0, interface: ReplayInterface::IoUring, sq_entries: 64, cq_entries: 128, setup_flags: 0 };
    Program { rings: vec![ring], threads: vec![thread], ..Program::default() }
}

fn needs(program: &Program) -> Vec<u32> {
    program.threads[0].steps.iter().map(|s| s.needs).collect()
}

#[test]
fn a_changed_depth_shifts_the_required_completions() {
    assert_eq!(depth(&queue(40, 16)), 16);
    for n in [1, 4, 16, 32] {
        let changed = with_depth(queue(40, 16), n);
        assert_eq!(needs(&changed), needs(&queue(40, n)), "depth {n}");
        assert_eq!(depth(&changed), n);
    }
}

#[test]
fn a_batch_requires_the_completions_of_its_last_submission() {
    let changed = with_batch(queue(40, 16), 8, ThinkPer::Request);
    let steps = &changed.threads[0].steps;
    assert_eq!(steps.iter().map(|s| s.ops).collect::<Vec<_>>(), [8; 5]);
    assert_eq!(needs(&changed), [0, 0, 8, 16, 24]);
    assert!(steps.iter().all(|s| s.wait_for == 8));
    // A batch cannot wait for its own requests.
    assert_eq!(needs(&with_batch(queue(40, 4), 8, ThinkPer::Request)), [0, 8, 16, 24, 32]);
}

#[test]
fn a_batch_or_depth_below_the_recorded_one_divides_submissions() {
    let recorded = || with_batch(queue(40, 16), 8, ThinkPer::Request);
    let halved = with_batch(recorded(), 4, ThinkPer::Request);
    assert_eq!(halved.threads[0].steps.iter().map(|s| (s.ops, s.wait_for)).collect::<Vec<_>>(), [(4, 4); 10]);
    assert_eq!(needs(&halved), [0, 0, 0, 0, 4, 8, 12, 16, 20, 24]);
    assert_eq!(depth(&halved), 16);
    let shallow = with_depth(recorded(), 2);
    assert_eq!(shallow.threads[0].steps.iter().map(|s| (s.ops, s.wait_for)).collect::<Vec<_>>(), [(2, 2); 20]);
    assert_eq!(depth(&shallow), 2);
    let mut chains = recorded();
    chains.threads[0].ops.iter_mut().step_by(2).for_each(|op| op.sqe_flags = LINKED);
    let kept = with_batch(chains, 3, ThinkPer::Request);
    assert!(
        kept.threads[0].steps.iter().all(|s| s.ops % 2 == 0),
        "chains are not divided: {:?}",
        kept.threads[0].steps
    );
}

#[test]
fn think_time_per_call_is_spent_once_in_a_merged_call_and_fully_in_each_part() {
    let mut program = queue(16, 16);
    for (at, step) in program.threads[0].steps.iter_mut().enumerate() {
        (step.think_before_ns, step.think_ns) = (100, at as u32);
    }
    let think = |program: &Program| {
        let steps = &program.threads[0].steps;
        steps.iter().map(|s| (s.think_before_ns, s.think_ns)).collect::<Vec<_>>()
    };
    let summed = with_batch(program.clone(), 8, ThinkPer::Request);
    let once = with_batch(program.clone(), 8, ThinkPer::Call);
    assert_eq!(think(&summed), [(800, 28), (800, 92)]);
    assert_eq!(think(&once), [(100, 7), (100, 15)]);
    assert_eq!((think_ns(&program), think_ns(&summed), think_ns(&once)), (1720, 1720, 222));
    assert_eq!(think(&with_batch(summed.clone(), 4, ThinkPer::Request)), [(400, 14), (400, 14), (400, 46), (400, 46)]);
    assert_eq!(think(&with_batch(summed, 4, ThinkPer::Call)), [(800, 28), (800, 28), (800, 92), (800, 92)]);
}

#[test]
fn a_thread_that_submits_what_it_reaped_is_divided_into_chains() {
    let mut thread = with_batch(queue(40, 16), 8, ThinkPer::Request).threads.remove(0);
    assert_eq!(into_chains(&thread, 1), None, "fixed batches");
    thread.merges = true;
    assert_eq!(into_chains(&thread, 1), None, "waits for 8");
    thread.steps.iter_mut().for_each(|step| (step.wait_for, step.min_complete) = (1, 1));
    let divided = into_chains(&thread, 1).unwrap();
    assert!(divided.steps.iter().all(|s| s.ops == 1), "{:?}", divided.steps);
    assert_eq!(divided.steps.iter().map(|s| s.needs).collect::<Vec<_>>(), needs(&queue(40, 16)));
}

#[test]
fn synchronous_calls_overlap_unless_they_conflict() {
    use OpKind::{Fsync, Read, Write};
    let ops = vec![op(Read, 0), op(Read, 1), op(Write, 2), op(Read, 2), op(Fsync, 0), op(Read, 9), op(Read, 8)];
    let thread = Thread { steps: vec![Step { ops: 1, ..Step::default() }; ops.len()], ops, ..Thread::default() };
    let program = Program { threads: vec![thread], ..Program::default() };
    assert!(program.is_synchronous());
    let one_by_one = overlapped(program.clone(), 1);
    assert_eq!(needs(&one_by_one), [0, 1, 2, 3, 4, 5, 6]);
    let overlapping = overlapped(program, 4);
    // The read of block 2 waits for its write, the sync for everything before it, and everything after it for the sync.
    assert_eq!(needs(&overlapping), [0, 0, 0, 3, 4, 5, 5]);
    assert_eq!((overlapping.rings.len(), overlapping.threads[0].waits.len()), (1, 1));
    assert!(!overlapping.is_synchronous());
}
