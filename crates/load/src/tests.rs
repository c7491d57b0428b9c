//! Complete small loads on every engine. A load that cannot run on this machine (for example, without io_uring) fails
//! the test.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::engine::capabilities::Completions;
use super::options::{Commit, EngineKind, LoadOptions, Rw, Scratch, Wait};
use super::spec::LoadSpec;
use super::{Boundary, Doing, Outcome, run, sum_of_all, verify};
use iotrail_base::error::{Error, Result};
use iotrail_base::units::{Bytes, Span};

static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

fn options(file: &Path) -> LoadOptions {
    LoadOptions {
        file: Some(file.into()),
        size: Some(Bytes(1 << 20)),
        count: Some(1000),
        warmup: Span(Duration::from_millis(10)),
        buffered: true, // the directory for temporary files may not support direct I/O
        ..LoadOptions::default()
    }
}

fn go(o: &LoadOptions) -> Result<Outcome> {
    let spec = LoadSpec::resolve(o, None, &[0])?;
    run(&spec, &mut |_| {}, &mut |_| {}, &NOT_STOPPED)
}

fn refused(o: &LoadOptions) -> Error {
    go(o).expect_err("an error")
}

#[test]
fn each_engine_does_exactly_the_requested_operations() {
    let dir = tempfile::tempdir().unwrap();
    let base = options(&dir.path().join("f"));
    for &engine in EngineKind::ALL.iter().filter(|kind| !kind.engine().target.is_past_files()) {
        let can = engine.engine();
        for (wait, reaper, rw) in [
            (Wait::Block, "same", Rw::RandRead),
            (Wait::Peek, "same", Rw::Read),
            (Wait::Block, "thread", Rw::RandRead),
            (Wait::Peek, "thread", Rw::RandRw),
        ] {
            if reaper == "thread" && can.completes_in_queue {
                continue;
            }
            let o = LoadOptions {
                engine,
                wait,
                reaper: reaper.into(),
                rw,
                jobs: 2,
                batch: 4,
                count: Some(1001), // not a multiple of anything
                allow_write: true,
                ..base.clone()
            };
            let got = go(&o).unwrap_or_else(|e| panic!("{engine} {wait} {reaper}: {e}"));
            assert_eq!((got.ios, got.bytes), (1001, 1001 * 4096), "{engine} {wait} {reaper}");
            assert_eq!((got.errors, got.short_ios, got.histogram.len()), (0, 0, 1001));
            assert_eq!(got.tids.len(), if reaper == "thread" { 4 } else { 2 });
            let p = &got.phases;
            assert!((p.submit + p.poll + p.clear + p.other - 1.0).abs() < 1e-9, "{p:?}");
            assert_eq!(got.syscalls.is_none(), can.completions == Completions::HelperCalls);
        }
    }
}

#[test]
fn each_write_of_a_committing_load_counts_as_one_io() {
    let dir = tempfile::tempdir().unwrap();
    let base =
        LoadOptions { rw: Rw::Write, depth: 4, count: Some(40), allow_write: true, ..options(&dir.path().join("f")) };
    let (sync, ring) = (EngineKind::Sync, EngineKind::IoUring);
    // System calls per batch: the writes, and those that make them durable.
    let forms = [
        (sync, Commit::Fsync, 1, Some(2)),
        (sync, Commit::Fdatasync, 1, Some(2)),
        (sync, Commit::Fdatasync, 8, Some(9)),
        (sync, Commit::Dsync, 1, Some(1)),
        (ring, Commit::Fsync, 1, None),
        (ring, Commit::Fdatasync, 8, None),
        (ring, Commit::Dsync, 1, None),
        (ring, Commit::Linked, 1, None),
    ];
    for rw in [Rw::Write, Rw::Append] {
        for (engine, commit, batch, calls) in forms {
            let depth = if commit.is_of_batch() || engine == sync { batch } else { base.depth };
            let o = LoadOptions { engine, commit, depth, batch, rw, warmup: Span(Duration::ZERO), ..base.clone() };
            let got = go(&o).unwrap_or_else(|e| panic!("{engine} {commit} {rw}: {e}"));
            assert_eq!((got.ios, got.bytes, got.errors, got.short_ios), (40, 40 * 4096, 0, 0), "{engine} {commit}");
            let calls = calls.map(|n| n * 40 / u64::from(batch));
            assert!(calls.is_none() || got.syscalls == calls, "{commit}: {:?}", got.syscalls);
            assert_eq!(got.record.commit.name(), commit.to_string());
        }
    }
    // Appended files are removed.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let e = refused(&LoadOptions { engine: EngineKind::Libaio, commit: Commit::Fsync, depth: 1, ..base.clone() });
    assert!(e.to_string().contains("--engine libaio does not support --commit fsync"), "{e}");
    let e = refused(&LoadOptions { commit: Commit::Dsync, rw: Rw::RandRead, ..base.clone() });
    assert!(e.to_string().contains("--commit dsync needs a write load"), "{e}");
    let e = refused(&LoadOptions { rw: Rw::Append, count: Some(1 << 30), ..base.clone() });
    assert!(e.to_string().contains("measured appends of 4096 bytes per job, but 1073741824 are needed"), "{e}");
    std::fs::write(dir.path().join("f.append-0"), "").unwrap();
    let e = refused(&LoadOptions { rw: Rw::Append, ..base });
    assert!(e.to_string().contains("f.append-0 exists"), "{e}");
}

#[test]
fn an_append_load_without_a_count_fills_half_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let o = LoadOptions {
        engine: EngineKind::Sync,
        rw: Rw::Append,
        depth: 1,
        runtime: Some(Span(Duration::from_secs(60))),
        warmup: Span(Duration::from_secs(60)),
        size: Some(Bytes(64 * 4096)),
        ..options(&dir.path().join("f"))
    };
    // Each stage ends at its part of the file, long before its run time.
    let got = go(&LoadOptions { count: None, ..o }).unwrap();
    assert_eq!((got.ios, got.errors), (32, 0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_sum_of_thread_times_is_unknown_if_one_thread_is_missing() {
    let time = |tid: i32| (tid != 7).then_some(tid as u64);
    assert_eq!(sum_of_all([3, 4].into_iter(), time), Some(7));
    assert_eq!(sum_of_all([3, 0].into_iter(), time), None, "a job's thread was not told");
    assert_eq!(sum_of_all([3, 7].into_iter(), time), None, "/proc does not say");
    assert_eq!(sum_of_all([0, 0].into_iter(), time), None, "there are none");
}

#[test]
fn exactly_the_requested_ring_options_are_granted() {
    let dir = tempfile::tempdir().unwrap();
    let base = options(&dir.path().join("f"));
    for (ring, register) in [
        ("", ""),
        ("coop_taskrun,taskrun_flag", "files,buffers,ring"),
        ("defer_taskrun,single_issuer", "ring"),
        ("sqpoll", "files"),
        ("submit_all,cqsize=64", "buffers"),
    ] {
        for wait in [Wait::Block, Wait::Peek] {
            let o = LoadOptions { ring: ring.into(), register: register.into(), wait, batch: 3, ..base.clone() };
            let got = go(&o).unwrap_or_else(|e| panic!("{ring}: {e}"));
            assert_eq!((got.ios, got.errors), (1000, 0), "{ring}");
            assert_eq!(got.record.ring.granted, got.record.ring.requested, "{ring}");
            assert_eq!(got.record.ring.granted.join(","), ring);
            assert_eq!(got.cpu.sqpoll_ns.is_some(), ring == "sqpoll");
        }
    }
}

#[test]
fn a_load_that_does_not_wait_makes_one_system_call_per_batch() {
    let o = LoadOptions {
        rw: Rw::Nop,
        count: Some(3200),
        depth: 64,
        batch: 32,
        wait: Wait::Peek,
        warmup: Span(Duration::ZERO),
        ..LoadOptions::default()
    };
    let got = go(&o).unwrap();
    assert_eq!((got.ios, got.bytes, got.syscalls), (3200, 0, Some(100)));
}

#[test]
fn load_boundaries_are_reported_in_order_on_the_calling_thread() {
    let spec = LoadSpec::resolve(
        &LoadOptions {
            engine: EngineKind::Null,
            runtime: Some(Span(Duration::from_millis(600))),
            ..LoadOptions::default()
        },
        None,
        &[0],
    )
    .unwrap();
    let (caller, mut seen, mut told) = (std::thread::current().id(), Vec::new(), 0);
    let mut boundary = |b| {
        assert_eq!(std::thread::current().id(), caller);
        seen.push(b);
    };
    let mut progress = |p: super::Progress| told += u32::from(p.doing == Doing::Measuring && p.done > 0);
    let got = run(&spec, &mut boundary, &mut progress, &NOT_STOPPED).unwrap();
    assert_eq!(seen, [Boundary::Ready, Boundary::MeasureBegins, Boundary::MeasureEnds]);
    assert!(told >= 1);
    assert!(!got.tids.contains(&super::usage::tid()));
    // At least the requested time; longer only if other programs use the CPU.
    assert!((600_000_000..5_000_000_000).contains(&got.elapsed_ns), "{}", got.elapsed_ns);
}

#[test]
fn an_interrupted_load_keeps_its_measurement() {
    let stop = AtomicBool::new(false);
    let long = LoadOptions {
        engine: EngineKind::Null,
        runtime: Some(Span(Duration::from_secs(600))),
        ..LoadOptions::default()
    };
    let spec = LoadSpec::resolve(&long, None, &[0]).unwrap();
    let mut progress = |p: super::Progress| stop.store(p.doing == Doing::Measuring, Ordering::Relaxed);
    let got = run(&spec, &mut |_| {}, &mut progress, &stop).unwrap();
    assert!(got.interrupted && got.ios > 0);
}

#[test]
fn open_loop_latency_counts_from_the_intended_time() {
    let dir = tempfile::tempdir().unwrap();
    let span = Span(Duration::from_millis(500));
    let base = LoadOptions { rate: Some(2000.0), runtime: Some(span), count: None, ..options(&dir.path().join("f")) };
    for (engine, wait) in
        [(EngineKind::IoUring, Wait::Block), (EngineKind::Libaio, Wait::Peek), (EngineKind::Sync, Wait::Block)]
    {
        let got = go(&LoadOptions { engine, wait, ..base.clone() }).unwrap();
        // If other programs use the CPU at the end, some I/Os are not submitted in time, which is reported with their
        // number.
        let not_met = got.warnings.iter().filter(|w| w.code == "rate_not_met");
        let missed: u64 = not_met.map(|w| w.text.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        assert!((999..=1001).contains(&(got.ios + missed)), "{engine}: {} and {missed} missed", got.ios);
        assert!(got.ios >= 500, "{engine}: {}", got.ios);
    }
    // Computing 20 µs per I/O at 100,000 I/Os per second makes half of them impossible, and delays the last by half the
    // time.
    let o = LoadOptions { engine: EngineKind::Null, rate: Some(100_000.0), think: 20_000, depth: 1, ..base };
    let got = go(&o).unwrap();
    assert!(got.ios < 30_000 && got.histogram.max() > 150_000_000, "{} {}", got.ios, got.histogram.max());
    assert!(got.warnings.iter().any(|w| w.code == "rate_not_met"), "{:?}", got.warnings);
}

#[test]
fn verification_detects_damaged_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let base = LoadOptions { verify: true, allow_write: true, jobs: 2, ..options(&file) };
    for rw in [Rw::RandRead, Rw::RandWrite, Rw::RandRw, Rw::Write, Rw::Read] {
        assert_eq!(go(&LoadOptions { rw, ..base.clone() }).unwrap().errors, 0, "{rw}");
    }
    let data = std::fs::read(&file).unwrap();
    assert_eq!(verify::check(&data, 0), Ok(()), "every block is marked, written over or not");
    let mut damaged = data.clone();
    damaged[512 * 1024 + 100] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let e = refused(&LoadOptions { rw: Rw::Read, jobs: 1, ..base.clone() });
    let first = format!("DATA CORRUPTION in {}: 1 block wrong; first at offset 524288: expected ", file.display());
    assert!(e.to_string().starts_with(&first), "{e}");
    assert_eq!(e.exit_status(), 5);
}

#[test]
fn invalid_targets_are_rejected_without_leaving_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let base = options(&file);
    let line = |o: LoadOptions| (refused(&o).exit_status(), refused(&o).to_string());
    let (status, text) = line(LoadOptions { size: None, ..base.clone() });
    assert!(status == 2 && text.ends_with("does not exist; specify --size to create it"), "{text}");
    let (status, text) = line(LoadOptions { file: Some(dir.path().into()), ..base.clone() });
    assert!(status == 2 && text.contains("is a directory; specify a file in it"), "{text}");
    // Larger than any disk: rejected before anything is written, and removed.
    let (status, text) = line(LoadOptions { size: Some(Bytes(1 << 50)), ..base.clone() });
    assert!(status == 3 && text.contains("cannot lay out"), "{text}");
    assert!(!file.exists());
    std::fs::write(&file, [0; 1000]).unwrap();
    let (status, text) = line(LoadOptions { size: None, ..base.clone() });
    assert!(status == 2 && text.contains("has 1000 usable bytes, less than one block of 4096"), "{text}");
    let (status, text) = line(LoadOptions { rw: Rw::RandWrite, size: None, ..base.clone() });
    assert!(status == 2 && text.contains("add --allow-write"), "{text}");
    assert_eq!(std::fs::read(&file).unwrap(), [0; 1000], "an existing file is only read");
    let (status, text) = line(LoadOptions { file: Some("/dev/null".into()), ..base });
    assert!(status == 2 && text.contains("neither a file nor a block device"), "{text}");
}

#[test]
fn scratch_think_and_neighbour_options_do_not_change_the_io_count() {
    let o = LoadOptions {
        engine: EngineKind::Null,
        count: Some(5000),
        scratch: Scratch::Lazy,
        think: 1000,
        neighbour: "busy:1".into(),
        cpus: Some("0".into()),
        ..LoadOptions::default()
    };
    let got = go(&o).unwrap();
    assert_eq!((got.ios, got.record.cpus.as_slice()), (5000, [0].as_slice()));
    // One computation per successful poll: 5,000 at batch 1.
    assert!(got.elapsed_ns >= 5_000_000, "{}", got.elapsed_ns);
}

#[test]
fn the_cpu_time_of_a_short_span_does_not_exceed_its_duration() {
    let o =
        LoadOptions { rw: Rw::Nop, count: Some(1), warmup: Span(Duration::from_millis(10)), ..LoadOptions::default() };
    for jobs in [1, 2] {
        let spans: Vec<(u64, u64)> = (0..15)
            .map(|_| go(&LoadOptions { jobs, ..o.clone() }).unwrap())
            .map(|got| (got.cpu.user_ns.unwrap() + got.cpu.system_ns.unwrap(), got.elapsed_ns))
            .collect();
        assert!(spans.iter().all(|(cpu, elapsed)| (1..=u64::from(jobs) * elapsed).contains(cpu)), "{spans:?}");
    }
}
