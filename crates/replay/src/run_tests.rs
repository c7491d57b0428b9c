use std::fs::File;
use std::os::fd::AsRawFd as _;

use super::*;
use crate::compile::Compiler;
use crate::files::{Files, Places};
use crate::program::{Op, OpKind, Step, Wait};
use iotrail_schema::replay_log::{
    ReplayCall, ReplayCallKind, ReplayEvent, ReplayFile, ReplayInterface, ReplayOp, ReplayRequest, ReplayRing,
};

const BLOCK: u32 = 4096;

/// `n` requests with `depth` in flight, on a file of 64 blocks.
fn program(n: u32, depth: u32, kind: OpKind) -> Program {
    let op = |i: u32| Op {
        kind,
        sqe_flags: 0,
        file: 0,
        flags: 0,
        len: if kind == OpKind::Nop { 0 } else { BLOCK },
        offset: u64::from(i % 64) * u64::from(BLOCK),
    };
    let step =
        |i: u32| Step { ring: Some(0), ops: 1, needs: (i + 1).saturating_sub(depth), wait_for: 1, ..Step::default() };
    let thread = Thread {
        tid: 1,
        steps: (0..n).map(step).collect(),
        ops: (0..n).map(op).collect(),
        merges: false,
        has_links: false,
        waits: vec![Wait::Sleep],
        most_in_flight: depth,
    };
    let ring =
        ReplayRing { ring: 0, interface: ReplayInterface::IoUring, sq_entries: 64, cq_entries: 128, setup_flags: 0 };
    Program { rings: vec![ring], threads: vec![thread], ..Program::default() }
}

fn file() -> File {
    let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    rustix::io::pwrite(&file, &vec![7u8; 64 * BLOCK as usize], 0).unwrap();
    file
}

/// `None` if this machine does not support the interface.
fn replayed(program: &Program, options: Options, file: &File) -> Option<Replayed> {
    let stop = AtomicBool::new(false);
    match run(program, &options, &[file.as_raw_fd()], &mut |_| {}, &stop) {
        Ok(replayed) => Some(replayed),
        Err(e) if e.to_string().contains("cannot set up") => None,
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn each_interface_submits_each_request_once() {
    let file = file();
    for interface in [Interface::IoUring, Interface::Libaio, Interface::Sync, Interface::Null] {
        for kind in [OpKind::Read, OpKind::Write, OpKind::Fsync] {
            let options = Options { interface: Some(interface), ..Options::default() };
            let Some(r) = replayed(&program(300, 8, kind), options, &file) else { continue };
            let null = interface == Interface::Null;
            assert_eq!((r.ios, r.latencies.len()), (300, 300), "{interface:?} {kind:?}");
            assert!(null || r.errors == 0, "{interface:?} {kind:?}: {:?}", r.errno);
            // Each submission is a call, with at most one wait per submission.
            let most = if interface == Interface::Sync { 300 } else { 610 };
            assert!((300..=most).contains(&r.calls), "{interface:?} {kind:?}: {} calls", r.calls);
        }
    }
}

#[test]
fn registered_files_registered_buffers_and_batches_are_replayed() {
    let file = file();
    let options = Options { register_files: true, register_buffers: true, ..Options::default() };
    let batched = crate::change::with_batch(program(304, 16, OpKind::Read), 8, crate::change::ThinkPer::Request);
    let Some(r) = replayed(&batched, options, &file) else { return };
    assert_eq!((r.ios, r.errors), (304, 0));
    assert!((38..=38 * 2 + 1).contains(&r.calls), "{}", r.calls);
}

#[test]
fn linked_chains_keep_their_order_and_errors_are_counted() {
    let file = file();
    let mut chains = program(200, 4, OpKind::Write);
    for (at, op) in chains.threads[0].ops.iter_mut().enumerate() {
        (op.kind, op.sqe_flags) = if at % 2 == 0 { (OpKind::Write, 1 << 2) } else { (OpKind::Fsync, 0) };
    }
    // One chain per step.
    let thread = &mut chains.threads[0];
    thread.steps.truncate(100);
    thread.steps.iter_mut().for_each(|step| step.ops = 2);
    let Some(r) = replayed(&chains, Options::default(), &file) else { return };
    assert_eq!((r.ios, r.errors), (200, 0));
    let mut past_the_end = program(10, 2, OpKind::Read);
    past_the_end.threads[0].ops.iter_mut().for_each(|op| op.offset = 1 << 30);
    let r = replayed(&past_the_end, Options::default(), &file).unwrap();
    assert_eq!((r.ios, r.errors, r.errno), (10, 10, Some(0)));
}

#[test]
fn a_call_waits_for_all_completions_of_linked_requests() {
    let file = file();
    // Batches of 7: three chains of a write and a sync, and a read. The program waits for 7 completions, thus 4 chain ends.
    let mut batches = program(70, 7, OpKind::Read);
    let thread = &mut batches.threads[0];
    for (at, op) in thread.ops.iter_mut().enumerate() {
        (op.kind, op.sqe_flags) = match at % 7 {
            0 | 2 | 4 => (OpKind::Write, 1 << 2),
            1 | 3 | 5 => (OpKind::Fsync, 0),
            _ => (OpKind::Read, 0),
        };
    }
    thread.has_links = true;
    thread.steps.truncate(10);
    for (at, step) in thread.steps.iter_mut().enumerate() {
        (step.ops, step.needs, step.wait_for, step.min_complete) = (7, 4 * at as u32, 7, 7);
        step.gets_events = true;
    }
    let Some(r) = replayed(&batches, Options::default(), &file) else { return };
    assert_eq!((r.ios, r.errors, r.calls), (70, 0, 10));
}

#[test]
fn each_ring_is_replayed_with_its_recorded_interface() {
    let mut two = program(20, 1, OpKind::Read);
    two.rings.push(ReplayRing { ring: 1, interface: ReplayInterface::NativeAio, ..two.rings[0].clone() });
    let mut thread = two.threads[0].clone();
    thread.waits.push(Wait::Sleep);
    thread.steps.iter_mut().for_each(|step| step.ring = Some(1));
    two.threads.push(thread);
    let used = |interface| Options { interface, ..Options::default() }.interfaces(&two).into_iter().collect::<Vec<_>>();
    assert_eq!(used(None), [Interface::IoUring, Interface::Libaio]);
    assert_eq!(used(Some(Interface::Libaio)), [Interface::Libaio]);
    // Native AIO submits and waits in separate calls.
    two.threads.iter_mut().flat_map(|t| &mut t.steps).for_each(|step| step.min_complete = 1);
    let Some(r) = replayed(&two, Options::default(), &file()) else { return };
    assert_eq!((r.ios, r.errors, r.calls), (40, 0, 20 + 40));
}

#[test]
fn synchronous_calls_are_replayed_on_their_threads_until_a_stop() {
    let file = file();
    let mut calls = program(100, 1, OpKind::Read);
    calls.threads[0].steps.iter_mut().for_each(|step| step.ring = None);
    calls.threads.push(calls.threads[0].clone());
    let r = replayed(&calls, Options::default(), &file).unwrap();
    assert_eq!((r.ios, r.calls, r.errors), (200, 200, 0));
    let stop = AtomicBool::new(true);
    let r = run(&calls, &Options::default(), &[file.as_raw_fd()], &mut |_| {}, &stop).unwrap();
    assert!(r.interrupted && r.ios < 200);
}

#[test]
fn recorded_think_time_is_replayed_between_calls() {
    let mut thinks = program(20, 1, OpKind::Nop);
    thinks.threads[0].steps.iter_mut().for_each(|step| step.think_ns = 1_000_000);
    let of = |speed| {
        run(
            &thinks,
            &Options { speed, interface: Some(Interface::Null), ..Options::default() },
            &[],
            &mut |_| {},
            &AtomicBool::new(false),
        )
    };
    let (with, without) = (of(Speed::Think).unwrap(), of(Speed::None).unwrap());
    assert!(with.elapsed_ns >= 20_000_000, "{}", with.elapsed_ns);
    assert!(without.elapsed_ns < with.elapsed_ns);
}

/// A recording of one thread's reads, writes and syncs of a file.
fn events(path: &std::path::Path) -> Vec<ReplayEvent> {
    let mut all = vec![
        ReplayEvent::File(ReplayFile {
            file: 1,
            path: path.display().to_string(),
            replayable: true,
            open_flags: 0,
            size: 64 * u64::from(BLOCK),
        }),
        ReplayEvent::Ring(ReplayRing {
            ring: 1,
            interface: ReplayInterface::IoUring,
            sq_entries: 8,
            cq_entries: 16,
            setup_flags: 0,
        }),
    ];
    for i in 0..24u64 {
        let at = 100 + i * 20;
        all.push(ReplayEvent::Request(ReplayRequest {
            tid: 1,
            ring: 1,
            at_ns: at,
            op: [ReplayOp::Read, ReplayOp::Write, ReplayOp::Fsync][i as usize % 3],
            opcode: 22,
            sqe_flags: 0,
            file: Some(1),
            offset: i * u64::from(BLOCK),
            len: BLOCK,
            buffer: None,
            op_flags: 0,
            reaped: i.saturating_sub(3),
        }));
        all.push(ReplayEvent::Call(ReplayCall {
            tid: 1,
            ring: 1,
            kind: ReplayCallKind::Enter,
            enter_ns: at,
            exit_ns: at + 5,
            think_ns: 3,
            to_submit: 1,
            min_complete: 1,
            flags: 1,
            result: 1,
            reaped: i.saturating_sub(3),
            heads_reaped: None,
        }));
    }
    all
}

/// File names below a directory, with their contents.
fn contents(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = entries.map(|p| (p.clone(), std::fs::read(&p).unwrap_or_default())).collect();
    all.sort();
    all
}

#[test]
fn mutated_recordings_write_nothing_outside_the_scratch_directory() {
    // In memory, where syncs take no time.
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::path::Path::new(env!("CARGO_MANIFEST_DIR")) };
    let dir = tempfile::tempdir_in(place).unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![7u8; 64 * BLOCK as usize]).unwrap();
    std::fs::write(dir.path().join("other"), vec![8u8; BLOCK as usize]).unwrap();
    let scratch = tempfile::tempdir_in(place).unwrap();
    let before = contents(dir.path());
    let mut random = SplitMix64::new(4);
    let mut replays = 0;
    for round in 0..2500u64 {
        let mut all = events(&path);
        for _ in 0..1 + round % 4 {
            let at = random.below(all.len() as u64) as usize;
            let odd = [0, 1, 4095, u64::MAX, 1 << 60, random.draw()][random.below(6) as usize];
            let part = random.below(4);
            match &mut all[at] {
                ReplayEvent::File(f) => match part {
                    0 => f.size = odd,
                    1 => f.open_flags = odd as u32,
                    2 => {
                        f.path = ["", "data", "/", "/dev/null", "/proc/self/mem", "/nowhere/x"][odd as usize % 6].into()
                    }
                    _ => f.replayable = false,
                },
                ReplayEvent::Ring(r) => match part {
                    0 => r.sq_entries = odd as u32,
                    1 => r.cq_entries = odd as u32,
                    _ => r.interface = ReplayInterface::NativeAio,
                },
                ReplayEvent::Request(r) => match part {
                    0 => r.offset = odd,
                    1 => r.len = odd as u32 % (1 << 20),
                    2 => (r.sqe_flags, r.op_flags) = (odd as u8, odd as u32),
                    _ => r.op = [ReplayOp::Fallocate, ReplayOp::SyncFileRange, ReplayOp::Other][odd as usize % 3],
                },
                ReplayEvent::Call(c) => match part {
                    0 => c.reaped = odd,
                    1 => (c.min_complete, c.flags) = (odd as u32, odd as u32),
                    2 => c.tid = odd as u32 % 3,
                    _ => (c.enter_ns, c.think_ns) = (odd, odd),
                },
                ReplayEvent::Sync(_) | ReplayEvent::Lost { .. } => {}
            }
            if odd == 1 {
                all.remove(at);
            }
        }
        let mut compiler = Compiler::new(1000);
        all.iter().for_each(|event| assert!(compiler.take(event).is_continue()));
        let Ok(program) = compiler.finish() else { continue };
        let (folder, stop) = (|_| Ok(scratch.path().to_owned()), AtomicBool::new(false));
        let places = Places { maps: &[], allow_write: true, scratch: &folder };
        let Ok(files) = Files::prepare(&program, &places, &stop) else { continue };
        let options = Options { speed: Speed::None, ..Options::default() };
        // Either rejected by this kernel, or replayed.
        replays += usize::from(run(&program, &options, &files.descriptors(), &mut |_| {}, &stop).is_ok());
    }
    assert_eq!(contents(dir.path()), before);
    assert_eq!(contents(scratch.path()), []);
    assert!(replays > 1000, "{replays}");
}
