//! Synthetic runs about CPU time, and their expected conclusions.

use serde_json::json;

use super::made_runs::{cell, run, said, samples};
use crate::compare;
use iotrail_schema::measurement::{Measurement, Punts};
use iotrail_schema::place::Place;

#[test]
fn the_iocb_cost_is_the_additional_copy_time_of_native_aio() {
    let batch = |engine: &'static str, arm: &str, copy: u64| {
        cell(json!({"batch": 16, "arm": arm}), move |m, _| {
            m.load.engine = engine.into();
            m.load.batch = 16;
            m.ios = Some(1_000_000);
            samples(m, &[(Place::Copy, copy), (Place::SyscallEntry, 20), (Place::User, 400)]);
        })
    };
    let arms = ["io_uring", "native aio"];
    let mut r =
        run("shares", &["batch", "arm"], &arms, vec![batch("io_uring", arms[0], 100), batch("libaio", arms[1], 200)]);
    // 100 more samples of 1 ms, for a million I/Os; the errors are √400 and √200 over two million.
    assert_eq!(
        said(&r)[2..],
        [
            "CPU time per I/O against io_uring, by samples: native aio 520 ns → 620 ns (copy +100 ns) at batch 16.",
            "Copying takes native aio 200 ns per I/O (32 % of its CPU time) at batch 16, and io_uring 100 ns: an iocb costs 100 ns ± 24 \
             ns to copy in.",
            "System call entry and exit, per I/O: 20 ns at batch 16.",
            "Entry and exit of a system call for several I/Os: 320 ns at batch 16.",
        ]
    );
    r.cells[1]
        .measurements
        .open()
        .iter_mut()
        .for_each(|m| samples(m, &[(Place::User, 400), (Place::SyscallEntry, 20), (Place::Copy, 101)]));
    assert_eq!(
        said(&r)[2..4],
        [
            "CPU time per I/O against io_uring, by samples: native aio no difference beyond the sampling error and \
             the spread of repeats at batch 16.",
            "Copying takes native aio 101 ns per I/O (19 % of its CPU time) at batch 16, and io_uring 100 ns: the \
             sampling error (± 20 ns) is larger than the iocb's copy.",
        ]
    );
}

#[test]
fn sqpoll_wakeup_and_idle_spinning_costs_are_compared() {
    let arm = |rate: u64, arm: &str, wakeups: Option<u64>, thread_ns: Option<u64>, mean: f64| {
        cell(json!({"rate": rate, "arm": arm}), move |m, _| {
            m.latency_ns.mean = Some(mean);
            (m.cpu.user_ns, m.cpu.system_ns) = (Some(5_000_000), Some(5_000_000));
            (m.cpu.sqpoll_ns, m.cpu.sqpoll_wakeups, m.cpu.helpers_ns) = (thread_ns, wakeups, Some(0));
            m.load.ring.granted = if arm == "none" { vec![] } else { vec!["sqpoll".into()] };
        })
    };
    let cells = vec![
        arm(1000, "2 s", Some(0), Some(990_000_000), 90_000.0),
        arm(1000, "1 ms", Some(1000), Some(40_000_000), 120_000.0),
        arm(1000, "none", None, None, 95_000.0),
    ];
    let mut r = run("wakeups", &["rate", "arm"], &["2 s", "1 ms", "none"], cells);
    let words = said(&r);
    assert_eq!(
        words,
        [
            "Mean latency with 1 ms against 2 s: higher at rate 1000 (×1.33, 1.33–1.33).",
            "Mean latency with none against 2 s: higher at rate 1000 (×1.056, 1.056–1.056).",
            "CPU time per I/O with 1 ms against 2 s: lower at rate 1000 (×0.050, 0.050–0.050).",
            "CPU time per I/O with none against 2 s: lower at rate 1000 (×0.010, 0.010–0.010).",
            "An I/O that has to wake the thread takes 30.0 µs longer on average.",
            "The fastest SQPOLL arm (by mean latency in every other block) against no thread (in the other blocks): \
             inconclusive at rate 1000 (2 s: 90.0 µs against 95.0 µs, ×0.947, no interval; CPU time ×100).",
            "Mean latency: 2 s 90.0 µs at rate 1000; 1 ms 120 µs at rate 1000; none 95.0 µs at rate 1000.",
            "I/Os that had to wake the SQPOLL thread: 2 s 0 % at rate 1000; 1 ms 100 % at rate 1000.",
            "CPU share of the SQPOLL thread: 2 s 99.0 % at rate 1000; 1 ms 4 % at rate 1000.",
            "CPU time per I/O: 2 s 1.00 ms at rate 1000; 1 ms 50.0 µs at rate 1000; none 10.0 µs at rate 1000.",
        ]
    );
    // A thread with an unreadable time counts too. Effects that do not show in the repeats are not reported.
    let hidden = |m: &mut Measurement| m.cpu.sqpoll_ns = None;
    r.cells[0].measurements.open().iter_mut().for_each(hidden);
    r.comparisons = compare::of_run(&r, &|_, _| None);
    let words = said(&r);
    assert!(
        words.iter().any(|s| s.contains("against no thread") && s.contains("(2 s: 90.0 µs against 95.0 µs")),
        "{words:?}"
    );
    let unknown = "CPU time per I/O with 1 ms against 2 s: not comparable at rate 1000 (cpu_per_io is not known in 2 of 2 measurements of 2 s).";
    assert!(words.iter().any(|s| s == unknown), "{words:?}");
    assert_eq!(
        words.last().map(String::as_str),
        Some("CPU time per I/O: 1 ms 50.0 µs at rate 1000; none 10.0 µs at rate 1000.")
    );
}

#[test]
fn the_punt_cost_is_the_additional_cpu_time_of_forced_punts() {
    let arm = |arm: &str, forced: bool, punts: Punts, system_ns: u64, workers_ns: u64| {
        cell(json!({"variant": "cached read", "arm": arm}), move |m, _| {
            m.load.force_async = forced;
            m.punts = Some(punts);
            m.latency_ns.mean = Some(if forced { 9_000.0 } else { 3_000.0 });
            (m.cpu.user_ns, m.cpu.system_ns, m.cpu.helpers_ns) = (Some(0), Some(system_ns), Some(workers_ns));
        })
    };
    let cells = vec![
        arm("as it is", false, Punts::default(), 2_000_000, 0),
        arm("forced", true, Punts { asked: 1000, would_block: 0 }, 4_000_000, 3_000_000),
    ];
    let mut r = run("punts", &["variant", "arm"], &["as it is", "forced"], cells);
    assert_eq!(
        said(&r),
        [
            "Mean latency with forced against as it is: higher for cached read (×3.00, 3.00–3.00).",
            "CPU time per I/O with forced against as it is: higher for cached read (×3.50, 3.50–3.50).",
            "CPU time of a punt, against as it is: forced 5.00 µs for cached read.",
            "Punted to io-wq per I/O, because it would have blocked: 0.00 for cached read.",
            "Punted to io-wq per I/O, because the load requested it: as it is 0.00 for cached read; forced 1.00 for \
             cached read.",
            "Mean latency: as it is 3.00 µs for cached read; forced 9.00 µs for cached read.",
            "IOPS: 1.00 k for cached read.",
            "CPU time per I/O: as it is 2.00 µs for cached read; forced 7.00 µs for cached read.",
            "CPU time per I/O in workers: as it is 0 ns for cached read; forced 3.00 µs for cached read.",
        ]
    );
    // On an emulated machine only the counts remain.
    r.cells.iter_mut().flat_map(|c| c.measurements.open()).for_each(|m| m.host.virtualisation = Some("qemu".into()));
    r.comparisons.clear();
    assert_eq!(
        said(&r),
        [
            "Punted to io-wq per I/O, because it would have blocked: 0.00 for cached read.",
            "Punted to io-wq per I/O, because the load requested it: as it is 0.00 for cached read; forced 1.00 for \
             cached read.",
        ]
    );
}
