use super::*;
use iotrail_schema::replay_log::ReplayEvent::{Call, Request};

const LINK: u8 = 1 << 2;

fn file(number: u32) -> ReplayEvent {
    let path = format!("/data/{number}");
    ReplayEvent::File(ReplayFile { file: number, path, replayable: true, open_flags: 0, size: 1 << 20 })
}

fn ring(number: u32) -> ReplayEvent {
    ReplayEvent::Ring(ReplayRing {
        ring: number,
        interface: ReplayInterface::IoUring,
        sq_entries: 16,
        cq_entries: 32,
        setup_flags: 0,
    })
}

fn read(tid: u32, ring: u32, at_ns: u64, sqe_flags: u8) -> ReplayEvent {
    Request(ReplayRequest {
        tid,
        ring,
        at_ns,
        op: if sqe_flags & LINK != 0 { ReplayOp::Write } else { ReplayOp::Read },
        opcode: 22,
        sqe_flags,
        file: Some(1),
        offset: at_ns * 4096 % (1 << 20),
        len: 4096,
        buffer: None,
        op_flags: 0,
        reaped: 0,
    })
}

fn call(tid: u32, ring: u32, at: u64, submits: u32, min_complete: u32, reaped: u64) -> ReplayEvent {
    Call(ReplayCall {
        tid,
        ring,
        kind: ReplayCallKind::Enter,
        enter_ns: at,
        exit_ns: at + 5,
        think_ns: 3,
        to_submit: submits,
        min_complete,
        flags: u32::from(min_complete > 0),
        result: submits as i32,
        reaped,
        heads_reaped: None,
    })
}

fn compiled(events: &[ReplayEvent]) -> Program {
    let mut compiler = Compiler::new(u64::MAX);
    events.iter().for_each(|event| assert!(compiler.take(event).is_continue()));
    compiler.finish().unwrap()
}

/// A queue of 4 that is kept full: fills it, then repeatedly waits for one completion and submits one request.
fn steady(n: u64) -> Vec<ReplayEvent> {
    let mut all = vec![file(1), ring(7)];
    for i in 0..n {
        let at = 100 + i * 20;
        if i >= 4 {
            all.push(call(1, 7, at - 10, 0, 1, i - 4));
        }
        all.push(read(1, 7, at, 0));
        all.push(call(1, 7, at, 1, 0, i.saturating_sub(3)));
    }
    all
}

#[test]
fn time_off_the_cpu_excludes_the_probes_own_time() {
    // Each gap of 15 ns has 3 ns of think time and 12 ns of the probes. In the last gap, the thread sleeps 1 µs.
    let mut events = vec![file(1), ring(7)];
    for i in 0..5 {
        let at = 100 + 20 * i + u64::from(i == 4) * 1000;
        events.extend([read(1, 7, at, 0), call(1, 7, at, 1, 0, i)]);
    }
    let sums = compiled(&events).observed.sums;
    assert_eq!((sums.think_ns, sums.idle_ns), (12, 1000));
}

#[test]
fn a_submission_requires_the_completions_reaped_before_it() {
    let program = compiled(&steady(30));
    let thread = &program.threads[0];
    let needs: Vec<u32> = thread.steps.iter().map(|s| s.needs).collect();
    assert_eq!(needs, (0..30u32).map(|i| i.saturating_sub(3)).collect::<Vec<_>>());
    assert_eq!((thread.waits[0], thread.merges, thread.most_in_flight), (Wait::Sleep, false, 4));
    let late = &thread.steps[10];
    assert_eq!((late.wait_for, late.think_before_ns, late.think_ns, late.at_ns), (1, 3, 3, 200));
    let o = &program.observed;
    assert_eq!((o.sums.ios, o.sums.calls, o.elapsed_ns), (30, 56, 29 * 20 + 5));
    // Request n was reaped before request n + 4 was submitted.
    assert_eq!(o.sums.latencies.latency(1).count, 26);
    assert_eq!(o.batches.kind, batches::Kind::Fixed);
}

#[test]
fn only_the_last_completions_of_chains_are_required() {
    let mut all = vec![file(1), ring(1)];
    // Two chains of a write and a read in flight; a new chain is submitted whenever a chain's end is reaped.
    for i in 0..40u64 {
        let at = 100 + i * 20;
        all.extend([read(1, 1, at, LINK), read(1, 1, at, 0)]);
        // The program has reaped the previous chain's write, but its read has not completed.
        let reaped = if i < 2 { 0 } else { 2 * (i - 1) + 1 };
        all.push(call(1, 1, at, 2, 1, reaped));
    }
    let program = compiled(&all);
    let needs: Vec<u32> = program.threads[0].steps.iter().map(|s| s.needs).collect();
    assert_eq!(needs, (0..40u32).map(|i| i.saturating_sub(1)).collect::<Vec<_>>());
    assert!(program.threads[0].ops[0].sqe_flags & LINK != 0);
}

#[test]
fn reaped_heads_distinguish_ends_of_chains() {
    let mut all = vec![file(1), ring(1)];
    // Two chains in flight, and both have a completion: one its head and its end, the other none.
    for i in 0..40u64 {
        let at = 100 + i * 20;
        all.extend([read(1, 1, at, LINK), read(1, 1, at, 0)]);
        let ends = i.saturating_sub(1);
        let Call(c) = call(1, 1, at, 2, 1, 2 * ends) else { unreachable!() };
        all.push(Call(ReplayCall { heads_reaped: Some(ends), ..c }));
    }
    let program = compiled(&all);
    let needs: Vec<u32> = program.threads[0].steps.iter().map(|s| s.needs).collect();
    assert_eq!(needs, (0..40u32).map(|i| i.saturating_sub(1)).collect::<Vec<_>>());
    assert!(program.threads[0].has_links);
}

#[test]
fn an_iolog_may_use_relative_file_names() {
    let data = ReplayFile { file: 1, path: "data".into(), replayable: true, open_flags: 0, size: 1 << 20 };
    let events = [ReplayEvent::File(data), ring(1), read(1, 1, 100, 0), call(1, 1, 100, 1, 1, 0)];
    let mut log = Compiler::new(u64::MAX);
    log.imported();
    events.iter().for_each(|event| assert!(log.take(event).is_continue()));
    assert_eq!(log.finish().unwrap().files[0].path, PathBuf::from("data"));
    // In a recording, such a name is not a path.
    let mut recording = Compiler::new(u64::MAX);
    events.iter().for_each(|event| assert!(recording.take(event).is_continue()));
    assert!(recording.finish().is_err());
}

#[test]
fn rings_and_threads_are_compiled_separately() {
    let mut all = vec![file(1), ring(1), ring(2)];
    for i in 0..10u64 {
        for (tid, ring) in [(1, 1), (1, 2), (2, 2)] {
            let at = 100 + i * 50 + u64::from(tid + ring) * 10;
            // Ring 2 is shared: 2 of its requests are in flight after each iteration, one per thread.
            let reaped = if ring == 1 { i } else { 2 * i };
            all.extend([read(tid, ring, at, 0), call(tid, ring, at, 1, 1, reaped)]);
        }
    }
    let program = compiled(&all);
    assert_eq!(program.threads.iter().map(|t| t.steps.len()).collect::<Vec<_>>(), [20, 10]);
    let needs =
        |ring| program.threads[0].steps.iter().filter(move |s| s.ring == Some(ring)).map(|s| s.needs).next_back();
    assert_eq!((needs(0), needs(1)), (Some(9), Some(9)));
    assert_eq!(program.observed.doubts.shared_rings, 1);
}

#[test]
fn a_thread_that_resubmits_as_many_as_it_reaps_merges_steps() {
    let mut all = vec![file(1), ring(1)];
    let (mut submitted, mut reaped) = (0u64, 0u64);
    for i in 0..60u64 {
        let n = if i == 0 { 8 } else { 1 + i % 4 };
        reaped += if i == 0 { 0 } else { n };
        let at = 100 + i * 20;
        (0..n).for_each(|_| all.push(read(1, 1, at, 0)));
        all.push(call(1, 1, at, n as u32, 1, reaped));
        submitted += n;
    }
    let program = compiled(&all);
    assert!(program.threads[0].merges);
    assert_eq!(program.observed.batches.kind, batches::Kind::AsReaped);
    assert_eq!(program.requests(), submitted);
}

#[test]
fn requests_that_cannot_be_replayed_are_counted() {
    let socket = ReplayFile { file: 2, path: "socket:[1]".into(), replayable: false, open_flags: 0, size: 0 };
    let ReplayEvent::Request(base) = read(1, 1, 100, 0) else { panic!() };
    let other = ReplayRequest { op: ReplayOp::Other, ..base.clone() };
    let on_socket = ReplayRequest { file: Some(2), ..base.clone() };
    let unknown = ReplayRequest { ring: 9, ..base.clone() };
    let mut all = vec![file(1), ReplayEvent::File(socket), ring(1)];
    all.extend([other, on_socket, unknown, base].map(Request));
    all.push(call(1, 1, 100, 3, 0, 0));
    all.push(ReplayEvent::Lost { events: 5 });
    all.push(read(1, 1, 200, 0));
    let program = compiled(&all);
    let d = &program.observed.doubts;
    assert_eq!((d.other_requests, d.other_files, d.unexplained, d.lost_events), (1, 1, 2, 5));
    assert_eq!(program.threads[0].ops.len(), 1);
    let nothing = Compiler::new(9).finish().unwrap_err().to_string();
    assert!(nothing.starts_with("nothing in the recording can be replayed"), "{nothing}");
}

#[test]
fn arbitrary_events_compile_without_a_panic() {
    let mut random = iotrail_stats::random::SplitMix64::new(43);
    for round in 0..3000u64 {
        let mut events = steady(20);
        for _ in 0..1 + round % 6 {
            let at = random.below(events.len() as u64) as usize;
            let odd = [0, 1, u64::MAX, u64::MAX - 1, 1 << 32, random.draw()][random.below(6) as usize];
            match &mut events[at] {
                ReplayEvent::File(f) => (f.size, f.file) = (odd, odd as u32 & 1),
                ReplayEvent::Ring(r) => {
                    (r.sq_entries, r.cq_entries, r.setup_flags) = (odd as u32, odd as u32, odd as u32)
                }
                Request(r) => {
                    (r.offset, r.len, r.reaped, r.at_ns) = (odd, odd as u32, odd, odd);
                    (r.sqe_flags, r.tid) = (odd as u8, odd as u32 % 3);
                }
                Call(c) => {
                    (c.reaped, c.min_complete, c.enter_ns, c.think_ns) = (odd, odd as u32, odd, odd);
                    c.tid = odd as u32 % 3;
                }
                ReplayEvent::Sync(_) | ReplayEvent::Lost { .. } => {}
            }
            let other = random.below(events.len() as u64) as usize;
            if odd.is_multiple_of(2) {
                events.swap(at, other);
            }
        }
        let mut compiler = Compiler::new(1000);
        for event in &events {
            if compiler.take(event).is_break() {
                break;
            }
        }
        if let Ok(program) = compiler.finish() {
            for thread in &program.threads {
                assert_eq!(thread.steps.iter().map(|s| s.ops as usize).sum::<usize>(), thread.ops.len());
            }
            let deep = crate::change::with_depth(program.clone(), 2);
            assert_eq!(
                crate::change::with_batch(deep, 3, crate::change::ThinkPer::Request).requests(),
                program.requests()
            );
        }
    }
}

/// A synchronous read of file 1.
fn sync(tid: u32, at: u64) -> ReplayEvent {
    ReplayEvent::Sync(ReplaySync {
        tid,
        enter_ns: at,
        exit_ns: at + 2,
        think_ns: 0,
        op: ReplayOp::Read,
        file: Some(1),
        offset: 0,
        len: 4096,
        op_flags: 0,
        result: 100,
    })
}

#[test]
fn time_off_the_cpu_is_kept_between_synchronous_calls_only() {
    // 8 ns, 5 µs and 20 µs; only the last is long enough.
    let calls = [sync(1, 10), sync(1, 20), sync(1, 5030), sync(1, 25_040)];
    let idle = |events: &[ReplayEvent]| compiled(events).threads[0].steps.iter().map(|s| s.idle_ns).collect::<Vec<_>>();
    let mut all = vec![file(1)];
    all.extend(calls);
    assert_eq!(idle(&all), [0, 0, 0, 20_008]);
    let mut asynchronous = vec![file(1)];
    asynchronous.extend(steady(60));
    let Some(Call(last)) = asynchronous.last_mut() else { panic!("the last event is a call") };
    (last.enter_ns, last.exit_ns) = (last.enter_ns + 50_000, last.exit_ns + 50_000);
    assert!(idle(&asynchronous).iter().all(|ns| *ns == 0));
}

#[test]
fn setup_calls_and_threads_with_few_calls_are_excluded() {
    let mut all = vec![file(1), sync(1, 10), sync(2, 20)];
    all.extend(steady(60));
    all.push(sync(2, 9_000));
    let program = compiled(&all);
    assert_eq!(program.threads.iter().map(|t| (t.tid, t.steps.len())).collect::<Vec<_>>(), [(1, 60)]);
    let o = &program.observed;
    assert_eq!((o.doubts.side_calls, o.sums.ios, o.sums.calls, o.elapsed_ns), (2, 60, 116, 59 * 20 + 5));
    assert_eq!(program.threads[0].steps[0].at_ns, 0);
    // A program with only synchronous calls keeps all of them, with their durations.
    let program = compiled(&[file(1), sync(1, 10), sync(1, 20)]);
    assert_eq!((program.requests(), program.threads[0].ops[0].len, program.observed.doubts.side_calls), (2, 100, 0));
}

#[test]
fn the_first_n_requests_are_those_of_the_load_and_include_their_calls() {
    // Ten batches of 4 requests, after 2 calls by the same thread and 1 by a thread that makes no other.
    let mut all = vec![file(1), ring(7), sync(1, 10), sync(1, 20), sync(2, 30)];
    for i in 0..10u64 {
        let at = 100 + i * 20;
        all.extend((0..4).map(|_| read(1, 7, at, 0)));
        all.push(call(1, 7, at, 4, 4, i * 4));
    }
    let mut complete = Compiler::new(u64::MAX);
    all.iter().for_each(|event| assert!(complete.take(event).is_continue()));
    let load = complete.load();
    for n in [1, 2, 6, 8, 39, 40, 41] {
        let mut compiler = Compiler::new(n);
        compiler.only(load.clone());
        let _ = all.iter().try_for_each(|event| compiler.take(event));
        let program = compiler.finish().unwrap();
        assert_eq!(program.requests(), n.min(40), "{n}");
        assert_eq!((program.observed.is_part, program.observed.doubts.unexplained), (n < 40, 0), "{n}");
        assert_eq!(program.observed.sums.calls, n.min(40).div_ceil(4), "{n}");
        assert_eq!(program.observed.doubts.side_calls, 1);
    }
}

#[test]
fn a_submission_with_getevents_and_min_complete_0_is_not_a_wait() {
    let mut all = steady(30);
    for event in &mut all {
        if let Call(c) = event
            && c.to_submit > 0
        {
            c.flags = 1;
        }
    }
    let program = compiled(&all);
    assert_eq!(program.threads[0].waits[0], Wait::Sleep);
    assert!(program.threads[0].steps.iter().all(|s| s.gets_events && s.min_complete == 0));
}
