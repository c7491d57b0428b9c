//! Each rule on both sides of its threshold.

use super::*;
use iotrail_schema::measurement::{
    BeforeAfter, Circumstances, DeviceBytes, Measurement, PageCache, TargetInterrupt, Throughput,
};
use iotrail_testing::sample;

/// A valid direct read load of 400 MiB in 2 s, changed by `change`.
fn with(change: impl FnOnce(&mut Measurement, &mut Circumstances)) -> Measurement {
    let mut m = sample::measurement();
    m.warnings.clear();
    let mut c = sample::circumstances();
    c.span_ns = 2_000_000_000;
    c.device =
        Some(DeviceBytes { read_bytes: 400 << 20, written_bytes: 0, asked_bytes: 400 << 20, ..DeviceBytes::default() });
    change(&mut m, &mut c);
    m.circumstances = Some(c.into());
    m
}

fn said(change: impl FnOnce(&mut Measurement, &mut Circumstances)) -> Vec<(String, String)> {
    warnings(&with(change)).into_iter().map(|w| (w.code, w.text)).collect()
}

fn text(code: &str, change: impl FnOnce(&mut Measurement, &mut Circumstances)) -> String {
    let said = said(change);
    assert_eq!(said.iter().map(|(c, _)| c.as_str()).collect::<Vec<_>>(), [code]);
    said[0].1.clone()
}

fn nothing(change: impl FnOnce(&mut Measurement, &mut Circumstances)) {
    assert_eq!(said(change), []);
}

fn moved_bytes(read: u64, written: u64) -> impl FnOnce(&mut Measurement, &mut Circumstances) {
    move |_, c| {
        c.device = Some(DeviceBytes {
            read_bytes: read,
            written_bytes: written,
            asked_bytes: 400 << 20,
            ..DeviceBytes::default()
        })
    }
}

#[test]
fn undisturbed_measurements_have_no_warnings() {
    assert_eq!(warnings(&sample::measurement()), []);
    nothing(|_, _| {});
    let mut m = with(|_, _| {});
    m.circumstances = None;
    assert_eq!(warnings(&m), []);
    assert_eq!((disturbances(&m), another_load(&m)), (vec![], vec![]));
}

#[test]
fn disk_io_beyond_the_load_is_reported_as_other_io() {
    // 5 % of 400 MiB is 20 MiB; plus 512 KiB, plus 128 KiB per second for 2 s.
    let allowed = (20 << 20) + (768 << 10);
    nothing(moved_bytes((400 << 20) + allowed, 0));
    nothing(moved_bytes(400 << 20, allowed));
    assert_eq!(
        text("other_io", moved_bytes((400 << 20) + allowed + 4096, 0)),
        "in addition to the load's 400 MiB, the disk transferred 20.8 MiB of reads for other programs"
    );
    assert_eq!(
        text("other_io", moved_bytes(410 << 20, 30 << 20)),
        "in addition to the load's 400 MiB, the disk transferred 10.0 MiB of reads and 30.0 MiB of writes for other programs"
    );
    // In 0.1 s a few pages exceed 5 % but are negligible.
    let short = |pages: u64| {
        move |_: &mut Measurement, c: &mut Circumstances| {
            c.span_ns = 100_000_000;
            let asked = 100 * 4096;
            c.device = Some(DeviceBytes {
                read_bytes: asked + pages * 4096,
                written_bytes: 0,
                asked_bytes: asked,
                ..DeviceBytes::default()
            });
        }
    };
    nothing(short(130));
    assert_eq!(
        text("other_io", short(140)),
        "in addition to the load's 400 KiB, the disk transferred 560 KiB of reads for \
                                              other programs"
    );
}

#[test]
fn writes_and_mixed_loads_are_checked_by_bytes_transferred() {
    let rw = |rw: &'static str, read: u64, written: u64| {
        move |m: &mut Measurement, c: &mut Circumstances| {
            m.load.rw = rw.into();
            moved_bytes(read << 20, written << 20)(m, c);
        }
    };
    nothing(rw("randwrite", 0, 410));
    nothing(rw("randrw", 190, 215));
    assert_eq!(
        text("other_io", rw("write", 50, 400)),
        "in addition to the load's 400 MiB, the disk transferred 50.0 MiB of reads for other programs"
    );
    assert_eq!(
        text("other_io", rw("randrw", 190, 300)),
        "in addition to the load's 400 MiB, the disk transferred 90.0 MiB \
                                                          for other programs"
    );
    let mirrored = |m: &mut Measurement, c: &mut Circumstances| {
        rw("randwrite", 0, 800)(m, c);
        m.host.target.as_mut().unwrap().device = Some("sda+sdb".into());
    };
    nothing(mirrored);
}

#[test]
fn direct_io_that_never_reached_the_disk_is_reported() {
    nothing(moved_bytes(380 << 20, 0));
    assert_eq!(
        text("not_from_device", moved_bytes(10 << 20, 0)),
        "of 400 MiB read by direct I/O, the disk transferred only 10.0 MiB: the rest never reached the disk"
    );
    let looped = |m: &mut Measurement, c: &mut Circumstances| {
        m.host.target.as_mut().unwrap().queue_device = Some("loop0".into());
        moved_bytes(10 << 20, 0)(m, c);
    };
    assert_eq!(
        text("not_from_device", looped),
        "of 400 MiB read by direct I/O on loop0, the underlying disk vda transferred only 10.0 MiB: the rest never reached the disk"
    );
    // Using the page cache is the purpose of a buffered load.
    nothing(|m, c| {
        m.load.direct = false;
        moved_bytes(0, 0)(m, c);
    });
    nothing(|_, c| c.device = None);
}

fn buffered(before: f64, after: f64, read: u64) -> impl FnOnce(&mut Measurement, &mut Circumstances) {
    move |m, c| {
        m.load.direct = false;
        c.page_cache = Some(PageCache { resident: BeforeAfter { before, after }, dirty: None });
        moved_bytes(read << 20, 0)(m, c);
    }
}

#[test]
fn a_change_of_page_cache_residency_during_a_measurement_is_reported() {
    nothing(buffered(1.0, 1.0, 0));
    nothing(buffered(0.40, 0.44, 200));
    nothing(buffered(0.0, 0.4, 400)); // cold throughout
    assert_eq!(
        text("cache_changed", buffered(0.1, 0.6, 200)),
        "the page cache held 10 % of the target at the start and 60 % at the end: the share of reads from memory changed"
    );
    let reasons = |a: f64, b: f64| reasons_between(&with(buffered(a, a, 0)), &with(buffered(b, b, 0)));
    assert_eq!(reasons(0.50, 0.54), Vec::<String>::new());
    assert_eq!(
        reasons(0.0, 1.0),
        ["the page cache held 0 % of the target before one measurement and 100 % before the other"]
    );
}

#[test]
fn direct_io_over_dirty_pages_is_reported() {
    let dirty = |share: f64| {
        move |_: &mut Measurement, c: &mut Circumstances| {
            let of = |x| BeforeAfter { before: x, after: 0.0 };
            c.page_cache = Some(PageCache { resident: of(0.5), dirty: Some(of(share)) });
        }
    };
    nothing(dirty(0.009));
    assert_eq!(
        text("dirty_cache", dirty(0.25)),
        "25 % of the target was dirty in the page cache: direct I/O must write these pages back first"
    );
}

#[test]
fn throttled_time_does_not_count_as_cpu_contention() {
    let waits = |throttled_ns| {
        let said = said(|_, c| (c.throttled_ns, c.run_queue_wait_ns) = (Some(throttled_ns), Some(900_000_000)));
        said.into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    assert_eq!(waits(0), ["cpu_contended"]);
    assert_eq!(waits(880_000_000), ["throttled"]);
}

#[test]
fn steal_and_quota_throttling_are_reported_above_their_limits() {
    nothing(|_, c| c.steal_ns = Some(200_000_000)); // 5 % of 2 CPUs
    assert_eq!(text("steal", |_, c| c.steal_ns = Some(210_000_000)), "the hypervisor took 5 % of the time of CPU 0,1");
    // 10 % of 100 ms, and two ticks.
    nothing(|_, c| (c.steal_ns, c.span_ns) = (Some(20_000_000), 100_000_000));
    nothing(|_, c| c.throttled_ns = Some(20_000_000));
    assert_eq!(
        text("throttled", |_, c| (c.throttled_ns, c.cpu_quota) = (Some(900_000_000), Some(0.5))),
        "the cgroup's CPU quota of 0.50 CPUs throttled its threads for 900 ms in 2.00 s"
    );
}

#[test]
fn thermal_throttling_and_frequency_changes_are_reported() {
    assert_eq!(text("thermal", |_, c| c.thermal_throttles = Some(1)), "the CPUs were thermally throttled 1 time");
    nothing(|_, c| c.thermal_throttles = Some(0));
    let khz = |before, after| {
        move |_: &mut Measurement, c: &mut Circumstances| c.frequency_khz = Some(BeforeAfter { before, after })
    };
    nothing(khz(3_000_000, 2_860_000));
    assert_eq!(
        text("frequency_changed", khz(3_000_000, 2_400_000)),
        "CPU 0,1 ran at 3000 MHz before and at 2400 MHz after"
    );
    assert_eq!(
        reasons_between(&with(khz(3_000_000, 3_000_000)), &with(khz(2_400_000, 2_500_000))),
        ["the CPUs ran at 3000 MHz in one measurement and at 2450 MHz in the other"]
    );
}

#[test]
fn differing_failure_rates_are_reported() {
    let failed = |errors| with(|m, _| (m.ios, m.errors) = (Some(1_000), Some(errors)));
    let apart = |a: u64, b: u64| {
        let (a, b) = (failed(a), failed(b));
        failed_apart(("old", &[&a]), ("new", &[&b]))
    };
    let said = "0 % of the I/Os of old failed, compared with 50 % of the I/Os of new: a failed I/O is different work";
    assert_eq!(apart(0, 500).unwrap(), said);
    assert!(apart(11, 0).is_some());
    assert_eq!([apart(10, 0), apart(500, 505), apart(0, 0)], [None, None, None]);
}

#[test]
fn an_interrupt_that_moves_between_cpus_is_reported() {
    let to = |cpus: Vec<u32>| {
        move |_: &mut Measurement, c: &mut Circumstances| {
            c.interrupts_after = vec![TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus }];
        }
    };
    assert_eq!(text("interrupt_moved", to(vec![0])), "interrupt 36 of the target moved from CPU 1 to CPU 0");
    nothing(|_, c| c.interrupts_after = vec![]); // not to be read
    assert_eq!(
        reasons_between(&with(to(vec![1])), &with(to(vec![0]))),
        ["the target's interrupt 36 arrived on CPU 1 in one measurement and on CPU 0 in the other"]
    );
}

#[test]
fn ring_flags_that_were_not_granted_are_listed() {
    let ring = |asked: &[&str], got: &[&str]| {
        let owned = |v: &[&str]| v.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let (asked, got) = (owned(asked), owned(got));
        move |m: &mut Measurement, _: &mut Circumstances| (m.load.ring.requested, m.load.ring.granted) = (asked, got)
    };
    nothing(ring(&["cqsize=60", "sqpoll"], &["sqpoll", "cqsize=64"]));
    assert_eq!(
        text("not_granted", ring(&["coop_taskrun", "sqpoll", "iopoll"], &["sqpoll"])),
        "the kernel did not grant coop_taskrun and iopoll"
    );
}

#[test]
fn a_cpu_used_by_another_program_is_reported() {
    let wait = |ns: u64| move |_: &mut Measurement, c: &mut Circumstances| c.run_queue_wait_ns = Some(ns);
    nothing(wait(200_000_000)); // 10 % of 2 s
    assert_eq!(
        text("cpu_contended", wait(500_000_000)),
        "the load's threads spent 25 % of the time waiting for a CPU that another program used"
    );
    assert_eq!(
        text("cpu_contended", wait(2_500_000_000)),
        "the load's threads waited 2.50 s for a CPU that another program used, around 2.00 s of measurement"
    );
    // The load requests it.
    let own = |change: fn(&mut Measurement)| {
        nothing(|m, c| {
            c.run_queue_wait_ns = Some(500_000_000);
            change(m);
        });
    };
    own(|m| m.load.neighbour = "busy:1".into());
    own(|m| m.load.jobs = 2);
    own(|m| m.load.reaper = "thread".into());
    own(|m| m.load.force_async = true);
    own(|m| m.load.engine = "posix_aio".into());
}

#[test]
fn run_queue_waits_count_only_if_another_program_used_the_cpu() {
    let program = |cpu_ns: u64, others_ns: u64| {
        move |m: &mut Measurement, c: &mut Circumstances| {
            m.program = Some(Default::default());
            (m.elapsed_ns, m.cpu.user_ns, m.cpu.system_ns) = (1_000_000_000, Some(cpu_ns), Some(0));
            (c.run_queue_wait_ns, c.others_had_cpu_ns) = (Some(3_000_000_000), Some(others_ns));
        }
    };
    nothing(program(250_000_000, 100_000_000));
    assert_eq!(
        text("cpu_contended", program(250_000_000, 750_000_000)),
        "the program's threads spent 75 % of the time waiting for a CPU that another program used"
    );
    // 8 compute-bound threads lost 5 % of their time.
    nothing(program(7_600_000_000, 400_000_000));
}

#[test]
fn throughput_that_changes_between_halves_is_reported() {
    let course = |first: u64, second: u64| {
        move |_: &mut Measurement, c: &mut Circumstances| {
            let ios = (0..40).map(|n| (if n < 20 { first } else { second }) + n % 3).collect();
            c.throughput = Some(Throughput { interval_ns: 50_000_000, ios });
        }
    };
    nothing(course(1000, 960));
    assert_eq!(
        text("not_steady", course(1000, 900)),
        "throughput fell by 10 % from the first half of the measurement (20.0 k IOPS) to the second (18.0 k IOPS)"
    );
    assert_eq!(
        text("unsteady", course(500, 700)),
        "throughput rose by 40 % from the first half of the measurement (10.0 k IOPS) to the second (14.0 k IOPS)"
    );
}

#[test]
fn disturbances_are_separated_from_changes_of_the_load() {
    let mut m = with(|_, _| {});
    m.warnings = vec![
        Warning::new("not_steady", "it changes a little", ""),
        Warning::new("steal", "the hypervisor took 9 %", ""),
        Warning::new("unpinned", "1 threads were moved off their CPU", ""),
    ];
    assert_eq!(
        (disturbances(&m), another_load(&m)),
        (vec!["the hypervisor took 9 %".to_owned()], vec!["1 threads were moved off their CPU".to_owned()],)
    );
}
