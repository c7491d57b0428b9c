//! Synthetic runs, and their expected conclusions.

use serde_json::{Value, json};

use super::conclude;
use crate::compare;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{
    CpuShare, Delay, DeliveryPathCount, Interrupt, Measurement, ModeSwitch, PerIo, StageRecord,
};
use iotrail_schema::place::Place;
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_testing::sample;

/// A cell with these parameters and two repeats, which `make` modifies (indices 0 and 1).
pub(super) fn cell(params: Value, make: impl Fn(&mut Measurement, usize)) -> CellRecord {
    let one = |repeat| {
        let mut m = sample::measurement();
        m.iops = Some(1000.0 + repeat as f64);
        m.ios = Some(1000);
        m.elapsed_ns = 1_000_000_000;
        m.per_io = PerIo::default();
        m.warnings.clear();
        m.vehicles.clear();
        make(&mut m, repeat);
        m
    };
    let params = params.as_object().expect("an object").clone();
    CellRecord { cell: 0, params, untestable: None, measurements: vec![one(0), one(1)].into() }
}

pub(super) fn run(table: &str, axes: &[&str], arms: &[&str], mut cells: Vec<CellRecord>) -> RunRecord {
    cells.iter_mut().zip(1..).for_each(|(c, n)| c.cell = n);
    let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
    let mut run =
        RunRecord { table: table.into(), repeats: 2, axes: names(axes), arms: names(arms), cells, ..sample::run() };
    run.comparisons = compare::of_run(&run, &|_, _| None);
    run
}

pub(super) fn said(run: &RunRecord) -> Vec<String> {
    conclude(run).remove(0).sentences
}

fn vehicle(
    vehicle: DeliveryPath,
    detail: Option<&str>,
    completions: u64,
    p50: u64,
    over_1ms: u64,
) -> DeliveryPathCount {
    let delay = Delay { p50: Some(p50), count: Some(completions), over_1ms: Some(over_1ms), ..Delay::default() };
    DeliveryPathCount { vehicle, completions, detail: detail.map(Into::into), delay_ns: Some(delay.into()) }
}

fn stages(m: &mut Measurement, p50: u64, p99: u64) {
    let mut delay = m.latency_ns.clone();
    (delay.p50, delay.p90, delay.p99) = (Some(p50), None, Some(p99));
    m.stages = Some(
        StageRecord {
            completions: 1000,
            issue_ns: 1.0,
            wait_ns: 1.0,
            delivery_ns: 1.0,
            file_system_ns: None,
            queued_ns: None,
            queued_completions: 0,
            queued_delivery_ns: None,
            runnable: None,
            total_ns: 3.0,
            total_ci95: None,
            delivery_delay_ns: delay,
        }
        .into(),
    );
}

#[test]
fn the_three_getevents_modes_are_reported_with_their_wake_sources() {
    let deep = |m: &mut Measurement, repeat: usize| {
        let exit = Some("io_uring_enter");
        m.vehicles = vec![
            vehicle(DeliveryPath::SyscallExit, exit, 700, [3_000, 5_000][repeat], 0),
            vehicle(DeliveryPath::ReschedIpi, None, 10, 9_000, 0),
            vehicle(DeliveryPath::Enter, Some("ready"), 280, 2_000, 0),
            vehicle(DeliveryPath::Enter, Some("slept, woken by irq 36 vda on CPU 1"), 10, 20_000, 0),
        ];
        m.per_io = PerIo { syscalls: Some(1.01), context_switches: Some(0.01), kicks: Some(0.2), ..PerIo::default() };
    };
    let shallow = |m: &mut Measurement, _| {
        m.vehicles = vec![vehicle(DeliveryPath::Enter, Some("slept, woken by irq 36 vda on CPU 1"), 1000, 20_000, 0)];
    };
    let handed_over = |m: &mut Measurement, _| {
        m.vehicles = vec![
            vehicle(DeliveryPath::Iowq, None, 700, 9_000, 0),
            vehicle(DeliveryPath::Enter, Some("ready"), 300, 2_000, 0),
        ];
    };
    let r = run(
        "timelines",
        &["depth", "arm"],
        &["default"],
        vec![
            cell(json!({"depth": 1, "arm": "default"}), shallow),
            cell(json!({"depth": 64, "arm": "default"}), deep),
            cell(json!({"depth": 128, "arm": "default"}), handed_over),
        ],
    );
    assert_eq!(
        said(&r),
        [
            "GETEVENTS mostly sleeps (100 %) at depth 1, finds them posted (71 %) at depth 64 and leaves them to a \
             kernel thread, or the path is unknown (70 %) at depth 128 with default.",
            "Completions were mostly delivered by enter (100 %) at depth 1, syscall_exit (70 %) at depth 64 and iowq (70 %) at depth \
             128 with default.",
            "GETEVENTS at depth 1: default sleeps 100 % (woken by irq 36 vda on CPU 1, 20.0 µs after ready).",
            "GETEVENTS at depth 64: default finds them posted 71 % (by task work at the exit of io_uring_enter 99 %, \
             4.00 µs after ready), runs task work and returns 28 % (2.00 µs after ready) and sleeps 1 %.",
            "GETEVENTS at depth 128: default runs task work and returns 30 % (2.00 µs after ready) and leaves them \
             to a kernel thread, or the path is unknown 70 % (by iowq, 9.00 µs after ready).",
            "Kicks per I/O: default 0.20 at depth 64.",
            "Context switches per I/O: default 0.01 at depth 64.",
            "System calls per I/O: default 1.01 at depth 64.",
        ]
    );
}

#[test]
fn the_threshold_is_between_the_last_equal_and_the_first_slower_row() {
    let think = |ns: u64, arm: &str, mean: [f64; 2], delay: u64, late: u64| {
        cell(json!({"think": ns, "arm": arm}), move |m, repeat| {
            m.latency_ns.mean = Some(mean[repeat]);
            m.vehicles = vec![vehicle(DeliveryPath::SyscallExit, Some("io_uring_enter"), 1000, delay, late)];
            stages(m, delay, 2 * delay);
        })
    };
    const BASE: [f64; 2] = [80_000.0, 80_000.0];
    const EQUAL: [f64; 2] = [79_990.0, 80_010.0];
    const TWICE: [f64; 2] = [160_000.0, 160_000.0];
    let cells = vec![
        think(0, "default", BASE, 5_000, 0),
        think(0, "coop", EQUAL, 5_000, 0),
        think(100_000, "default", BASE, 5_000, 0),
        think(100_000, "coop", EQUAL, 60_000, 0),
        think(1_000_000, "default", BASE, 5_000, 0),
        think(1_000_000, "coop", TWICE, 700_000, 100),
    ];
    let mut r = run("delays", &["think", "arm"], &["default", "coop"], cells);
    let words = said(&r);
    let threshold = "coop is slower than default at think 1.00 ms and above; at think 100 µs it is equivalent, so \
                     the threshold is between the two.";
    assert!(words[0].starts_with(
        "Mean latency with coop against default: higher at think 1.00 ms (×2.00, 2.00–2.00); equivalent "
    ));
    assert_eq!(
        words[words.len() - 4..],
        [
            threshold,
            "Delivery delay, p50: default 5.00 µs throughout; coop 5.00 µs at think none, 60.0 µs at think 100 µs and 700 µs at think \
             1.00 ms.",
            "Delivery delay, p99: default 10.0 µs throughout; coop 10.0 µs at think none, 120 µs at think 100 µs and 1.40 ms at think \
             1.00 ms.",
            "Delivered more than 1 ms after ready: default 0 % throughout; coop 0 % at think none and 100 µs and 10 % at think \
             1.00 ms.",
        ]
    );
    r.cells[5].measurements = r.cells[1].measurements.clone();
    r.comparisons = compare::of_run(&r, &|_, _| None);
    assert!(
        said(&r)
            .contains(&"coop is not shown to be slower than default in mean latency at any compared think.".to_owned())
    );
}

/// Samples at these places, in 1 ms units.
pub(super) fn samples(m: &mut Measurement, places: &[(Place, u64)]) {
    let how = m.cpu_samples.as_mut().expect("the sample has samples");
    how.period_ns = Some(1_000_000);
    let share = |&(place, samples): &(Place, u64)| CpuShare { place, samples, share: None, lo: None, hi: None };
    m.cpu_shares = Some(places.iter().map(share).collect());
}

#[test]
fn interrupts_on_another_cpu_free_the_handlers_cpu_time() {
    let arm = |name: &str, cpus: &'static str, coop: bool, iops: f64, idle: u64| {
        cell(json!({"depth": 64, "arm": name}), move |m, repeat| {
            m.iops = Some(iops + repeat as f64);
            m.load.wait = "block".into();
            m.load.cpus_requested = Some(cpus.into());
            m.load.cpus = vec![u32::from(cpus == "irq")];
            m.load.ring.requested = if coop { vec!["coop_taskrun".into()] } else { vec![] };
            m.per_io.kicks = Some(if coop || cpus == "irq" { 0.0 } else { 1.0 });
            m.vehicles = vec![vehicle(DeliveryPath::Enter, Some("ready"), 1000, 1, 0)];
            m.interrupts = vec![Interrupt {
                vector: "36".into(),
                name: "vda".into(),
                cpu: 1,
                count: 500,
                on_watched: 0,
                credited: None,
                credited_ci95: None,
                proc_count: None,
                spent_ns: Some(200_000_000),
            }];
            samples(m, &[(Place::User, 1000 - idle), (Place::Idle, idle)]);
        })
    };
    let of = |idle| {
        let cells = vec![
            arm("irq", "irq", false, 10_000.0, idle),
            arm("non-irq", "non-irq", false, 11_000.0, 0),
            arm("non-irq coop", "non-irq", true, 12_000.0, 0),
        ];
        said(&run("placement", &["depth", "arm"], &["irq", "non-irq", "non-irq coop"], cells))
    };
    let words = of(0);
    assert!(
        words.contains(&"Interrupts per I/O of irq (the job on CPU 1): 36 vda on CPU 1 0.50 at depth 64.".to_owned())
    );
    assert!(words.contains(
        &"IOPS with non-irq coop against non-irq, by medians: ×1.09 at depth 64 (1.00 fewer kicks per I/O).".to_owned()
    ));
    let [.., forecast, kicks] = &words[..] else { panic!("{words:?}") };
    assert_eq!(kicks, "Kicks per I/O: irq and non-irq coop 0.00 at depth 64; non-irq 1.00 at depth 64.");
    assert!(forecast.starts_with(
        "Handling device interrupts took 20 % of the job's CPU that receives them at depth 64, with an idle time of 0 %. If that \
         time became I/Os, moving the job away would give 1/(1 − 0.200) = ×1.25 the IOPS; measured on the other CPU: ×1.20 without \
         kicks (non-irq coop) and ×1.10 with kicks (non-irq)."
    ));
    assert!(of(300).iter().any(|s| s.contains("The CPU was partly idle, so the device limits the rate")));
}

#[test]
fn remaining_kernel_entries_are_listed_by_cause() {
    let mode = |variant: &str, arm: &str, calls: u64, faults: u64| {
        cell(json!({"variant": variant, "arm": arm}), move |m, _| {
            let switch = |cause: &str, count| ModeSwitch { cause: cause.into(), count };
            m.mode_switches = vec![switch("syscall", calls), switch("page_fault", faults), switch("timer_tick", 10)];
            m.per_io.mode_switches = Some((calls + faults + 10) as f64 / 1000.0);
        })
    };
    let cells = vec![
        mode("neither", "lazy", 1000, 30),
        mode("neither", "prefault", 1000, 0),
        mode("sqpoll", "lazy", 0, 30),
        mode("sqpoll", "prefault", 0, 0),
    ];
    assert_eq!(
        said(&run("mode_switches", &["variant", "arm"], &["lazy", "prefault"], cells))[2..],
        [
            "Mode switches per I/O with prefault against lazy: lower for sqpoll (×0.250, 0.250–0.250); equivalent within ±5 % for \
             neither.",
            "Returns to user mode are mostly from syscall (96 %) for neither and page_fault (75 %) for sqpoll with lazy; syscall \
             (99.0 %) for neither and timer_tick (100 %) for sqpoll with prefault.",
            "Against neither (lazy), by medians: sqpoll IOPS ×1.00, returns to user mode per I/O ×0.038 and CPU time per I/O ×1.00.",
            "Mode switches per I/O: lazy 1.04 for neither and 0.040 for sqpoll; prefault 1.01 for neither and 0.010 for sqpoll.",
            "Returns from system calls: 1.00 for neither and 0.00 for sqpoll.",
            "Returns from page faults: lazy 0.030 throughout; prefault 0.00 throughout.",
            "Returns from device interrupts: 0.00 throughout.",
            "Returns from timer ticks: 0.010 throughout.",
            "Returns from reschedule IPIs: 0.00 throughout.",
        ]
    );
}

#[test]
fn kicks_that_rise_and_fall_with_depth_are_reported_with_their_peak() {
    let arm = |depth: u32, arm: &str, kicks: f64, sleeps: f64| {
        cell(json!({"depth": depth, "arm": arm}), move |m, _| {
            m.per_io = PerIo { kicks: Some(kicks), context_switches: Some(sleeps), ..PerIo::default() };
        })
    };
    let cells = vec![
        arm(1, "default", 0.0, 1.0),
        arm(1, "coop", 0.0, 1.0),
        arm(16, "default", 0.6, 0.2),
        arm(16, "coop", 0.0, 0.2),
        arm(64, "default", 0.1, 0.02),
        arm(64, "coop", 0.01, 0.02),
    ];
    let words = said(&run("kicks", &["depth", "arm"], &["default", "coop"], cells));
    assert_eq!(
        words[3..],
        [
            "Kicks per I/O: default 0.00 at depth 1, 0.60 at depth 16 and 0.10 at depth 64; coop 0.00 to 0.01 throughout.",
            "Context switches per I/O: 1.00 at depth 1, 0.20 at depth 16 and 0.02 at depth 64.",
        ]
    );
}
