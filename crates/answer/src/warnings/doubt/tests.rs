use super::*;
use iotrail_schema::measurement::{DeliveryPathCount, Interrupt, Missed};
use iotrail_schema::net_record::{NetRecord, ServerRecord};
use iotrail_testing::sample;

fn codes(m: &Measurement) -> Vec<String> {
    doubts(m).into_iter().map(|w| w.code).collect()
}

fn text(m: &Measurement, code: &str) -> String {
    doubts(m).into_iter().find(|w| w.code == code).unwrap().text
}

fn interrupt(cpu: u32, count: u64, proc_count: Option<u64>) -> Interrupt {
    Interrupt {
        vector: "36".into(),
        name: "virtio1-req.0".into(),
        cpu,
        count,
        on_watched: 0,
        credited: None,
        credited_ci95: None,
        proc_count,
        spent_ns: None,
    }
}

#[test]
fn complete_counts_and_untraced_loads_have_no_warning() {
    let mut m = sample::measurement();
    assert_eq!(doubts(&m), []);
    (m.probe, m.vehicles, m.interrupts) = Default::default();
    assert_eq!(doubts(&m), []);
}

#[test]
fn each_doubt_has_a_sentence() {
    let mut m = sample::measurement();
    m.probe.lost = Some(3);
    m.probe.missed = vec![
        Missed { program: "interrupt_ipi_send".into(), events: 1 },
        Missed { program: "ring_complete".into(), events: 3 },
    ];
    (m.probe.completions_seen, m.probe.untracked) = (Some(490), Some(10));
    assert_eq!(codes(&m), ["events_lost", "events_missed", "untracked"]);
    assert_eq!(
        text(&m, "events_lost"),
        "the probes lost 3 events, since a counter's map was full or a probe interrupted itself: counts are lower \
         bounds"
    );
    assert_eq!(
        text(&m, "events_missed"),
        "the probes missed events that arrived while their own program was running: interrupt_ipi_send 1, \
         ring_complete 3"
    );
    assert_eq!(
        text(&m, "untracked"),
        "10 of 500 completions left no event that the probes can use: counts are lower \
                                       bounds"
    );
    m = sample::measurement();
    m.probe.completions_seen = Some(501);
    assert_eq!(codes(&m), ["seen_too_many"]);
    assert_eq!(
        text(&m, "seen_too_many"),
        "the probes saw 501 completions, but the load had 500: shares are valid, counts \
                                           are too high"
    );
}

#[test]
fn each_full_map_warning_names_the_affected_counts() {
    let all = [
        (Full::Threads, "under the wrong delivery path"),
        (Full::Counts, "lower bounds"),
        (Full::Calls, "io_uring's counts are unaffected"),
        (Full::Children, "3 processes: their work is not counted"),
        (Full::Errnos, "the number of errors is exact"),
        (Full::Interrupts, "completions are unaffected"),
        (Full::Ipis, "completions are unaffected"),
        (Full::Workers, "a lower bound"),
    ];
    for (full, said) in all {
        let [warning] = &no_room(&[(full, 3)])[..] else { panic!("one warning") };
        assert!(warning.text.contains(said), "{}", warning.text);
    }
    assert_eq!(no_room(&[]), []);
}

#[test]
fn observed_completions_are_compared_with_the_network_servers_count() {
    let mut m = sample::measurement();
    let mut server = ServerRecord::default();
    server.total.counts.completions = 1000;
    m.net = Some(NetRecord { server: Some(server), ..NetRecord::default() }.into());
    (m.probe.completions_seen, m.probe.untracked) = (Some(990), Some(10));
    assert_eq!(
        text(&m, "untracked"),
        "10 of 1000 completions left no event that the probes can use: counts are \
                                       lower bounds"
    );
    m.probe.completions_seen = Some(1001);
    assert_eq!(
        text(&m, "seen_too_many"),
        "the probes saw 1001 completions, but the load had 1000: shares are valid, counts \
                                           are too high"
    );
}

#[test]
fn unknown_delivery_paths_cause_a_warning_at_1_percent() {
    let mut m = sample::measurement();
    let by = |vehicle, completions| DeliveryPathCount { vehicle, completions, detail: None, delay_ns: None };
    m.vehicles = vec![by(DeliveryPath::Enter, 496), by(DeliveryPath::Unknown, 4)];
    assert_eq!(doubts(&m), []);
    m.vehicles = vec![by(DeliveryPath::Enter, 495), by(DeliveryPath::Unknown, 5)];
    assert_eq!(text(&m, "unknown_vehicle"), "the delivery path of 1 % of completions is unknown");
}

#[test]
fn a_program_without_asynchronous_requests_is_described_by_its_calls() {
    let text = |calls, positioned| nothing_asynchronous(calls, positioned).text;
    let none = "no request of io_uring, native aio or POSIX AIO was observed";
    assert_eq!(text(Some(731), Some(500)), format!("{none}; of 731 system calls, 500 were pread64 and pwrite64"));
    assert_eq!(text(Some(0), Some(0)), format!("{none}, nor any system call"));
    assert_eq!(text(None, None), none);
}

#[test]
fn idle_open_rings_are_reported() {
    let is = |rings: &[(u32, Vec<u32>)], head: &str| {
        let w = nothing_of_rings(rings);
        assert!(w.code == "idle_rings" && w.text.starts_with(head), "{}", w.text);
        assert!(!w.remedy.contains("synchronous"), "{}", w.remedy);
    };
    is(&[(7, vec![3, 5])], "1 io_uring is open (fd 3 of 7); no request was submitted");
    let many: Vec<(u32, Vec<u32>)> = (1..=5).map(|tgid| (tgid, vec![4])).collect();
    is(&many, "5 io_urings are open (fd 4 of 1, fd 4 of 2, fd 4 of 3 and 2 more); ");
}

#[test]
fn completions_missed_by_the_probes_are_estimated_from_interrupts() {
    let mut m = sample::measurement();
    (m.ios, m.probe.completions_seen, m.probe.untracked) = (Some(12_000), Some(11_976), Some(24));
    m.interrupts = vec![
        Interrupt { credited: Some(1497), ..interrupt(1, 1500, Some(1503)) },
        Interrupt { credited: Some(0), ..interrupt(0, 70, Some(90)) },
    ];
    assert_eq!(
        text(&m, "untracked"),
        "24 of 12000 completions left no event that the probes can use; about 24 ended in 3 interrupts \
         that the kernel counted but no probe saw: counts are lower bounds"
    );
}

#[test]
fn unreaped_results_cause_a_warning_at_more_than_1_percent() {
    assert_eq!(results_unseen(0, 0), None);
    assert_eq!(results_unseen(100, 99), None);
    let said = results_unseen(200, 0).unwrap().text;
    assert!(said.starts_with("no system call reaped 200 of 200 native aio completions: "), "{said}");
    assert_eq!(results_unreturned(100, 99), None);
    let said = results_unreturned(500, 0).unwrap().text;
    assert!(said.starts_with("500 of 500 POSIX AIO requests were not returned by aio_return(3): "), "{said}");
}

#[test]
fn interrupts_missed_by_the_probes_are_reported_once() {
    let mut m = sample::measurement();
    m.interrupts = vec![interrupt(0, 989, None), interrupt(0, 0, Some(10)), interrupt(0, 99_000, Some(100_000))];
    assert_eq!(doubts(&m), []);
    m.interrupts.push(interrupt(1, 900, Some(1000)));
    assert_eq!(
        text(&m, "interrupts_missed"),
        "the probes saw 900 of the 1000 interrupts of virtio1-req.0 (IRQ 36, CPU 1) in /proc/interrupts"
    );
    m.interrupts.push(interrupt(0, 0, Some(11)));
    assert_eq!(codes(&m), ["interrupts_missed"]);
    assert!(text(&m, "interrupts_missed").ends_with("CPU 1) in /proc/interrupts, and too few of 1 other"));
}

/// A short program next to others: timer ticks on a CPU that it hardly used, and a disk that completed others' I/O.
#[test]
fn missed_interrupts_that_affect_no_metric_cause_no_warning() {
    let mut m = sample::measurement();
    let tick = Interrupt { vector: "LOC".into(), name: "local_timer".into(), ..interrupt(0, 1, Some(84)) };
    let others = Interrupt { credited: Some(0), on_watched: 1, ..interrupt(1, 1, Some(84)) };
    m.interrupts = vec![tick, others.clone()];
    assert_eq!(doubts(&m), []);
    m.interrupts.push(Interrupt { credited: Some(1), ..others });
    assert_eq!(codes(&m), ["interrupts_missed"]);
}
