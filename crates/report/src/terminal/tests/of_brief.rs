//! The brief screens of `trace` and `bench` have at most 20 lines, whatever the findings.

use super::*;
use iotrail_answer::summary::measured::of_trace;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::{Latency, Warning};
use iotrail_schema::trace_record::{ErrnoCount, Subject, TraceRecord};
use iotrail_testing::trace::{carried, clean};

/// Real findings, longest first; the last two are notes.
fn findings() -> Vec<Finding> {
    let warns = |code: &str, text: &str, remedy: &str| Finding::new(code, Severity::Warning, text.into(), remedy, &[]);
    let note = |code: &str, text: &str, remedy: &str| Finding::new(code, Severity::Note, text.into(), remedy, &[]);
    vec![
        warns(
            "bad_buffers",
            "1.20 k requests (12 % of the I/Os with these opcodes) failed with EFAULT: 1.10 k of read_fixed \
             (the first traced one has user_data 0x7f3a1c002b40) and 100 of write. The kernel could not access their memory. Basis: 10.0 k \
             completions",
            "check the index of the registered buffer, and that address and length are within the buffer; and do not unregister \
             or replace the buffer (IORING_REGISTER_BUFFERS_UPDATE) before the request is issued; keep buffers, iovecs and other \
             arguments mapped until the completion: the memory of a request was never mapped, was freed or moved while the \
             request was in flight, or is not writable; search the program's own log for the user_data",
        ),
        warns(
            "waiting_for_cpu",
            "63 % of completions waited 50.0 µs or longer for a CPU that was running another thread, although their submitter was \
             runnable (p50 2.10 ms, p99 4.00 ms, max 12.4 ms). These waits are 91 % of the delivery time. The CPU was running \
             stress-ng-cpu (4243) 61 %, stress-ng-cpu (4244) 30 % and no thread (idle, waking up) 9 %. Basis: 80.0 k traced \
             completions",
            "keep a CPU free for the submitter (`taskset` or a cpuset for other threads), run at most one busy thread per CPU, or \
             prioritise the thread that waits for I/O: SCHED_FIFO, SCHED_RR (`chrt`) or a lower nice value; SCHED_BATCH or a \
             higher one for computing threads",
        ),
        warns(
            "one_per_enter",
            "94 % of the io_uring_enter calls submitted only one request: 48.2 k calls per second while the ring was in use, with \
             15.8 requests in flight on average. Basis: 96.4 k traced completions",
            "reap all available completions, prepare the next requests, and submit them with one io_uring_enter: they share the \
             cost of the call, and the block layer and the driver receive them as one batch",
        ),
        note("reordered", "12 % of completions overtook an earlier submission, by up to 9 positions", ""),
        note(
            "overlapping_buffers",
            "3 reads wrote to the same memory as another in-flight read",
            "use a separate buffer for each in-flight read",
        ),
    ]
}

fn limits() -> Vec<Warning> {
    vec![
        Warning::new(
            "threads_lost",
            "the probes' maps had no space for 12 thread states: some completions are counted under the wrong \
             delivery path (slept counts as inline); counts by operation are unaffected",
            "trace fewer threads at once",
        ),
        Warning::new(
            "unknown_vehicle",
            "the delivery path of 2 % of completions is unknown",
            "see their details and docs/delivery.md for the conditions (task work in execve or another call outside io_uring, native \
             aio without a completion event); `iotrail check` reports missing probes",
        ),
        Warning::new(
            "cpu_quota",
            "the CPU quota of the control group /x kept its threads off their CPUs for 2.00 s",
            "",
        ),
        Warning::new("left_running", "the trace ended before process 4711", "end it if it is not needed"),
    ]
}

/// The text without line ends.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn fits(text: &str) {
    narrow(text);
    assert!(text.lines().count() <= 20, "{} lines\n{text}", text.lines().count());
}

/// A command and errors that take several lines.
fn wordy(t: &mut TraceRecord) {
    let argv = format!("fio --name=job --filename=/srv/data/{} --rw=randread --iodepth=16", "long/".repeat(30));
    t.subject = Subject::Command { argv: argv.split(' ').map(str::to_owned).collect(), exit_status: Some(1) };
    let errno = |errno: &str, count| ErrnoCount { errno: errno.into(), count, user_data: None };
    t.total.opcodes[0].errnos = vec![errno("EAGAIN", 900_000), errno("ECANCELED", 1_000), errno("EINVAL", 3)];
    t.total.errors = 901_003;
}

#[test]
fn a_trace_has_at_most_20_lines_with_any_findings() {
    let paths = [
        DeliveryPath::Enter,
        DeliveryPath::SyscallExit,
        DeliveryPath::TimerTick,
        DeliveryPath::ReschedIpi,
        DeliveryPath::DeviceIrq,
    ];
    let all = findings();
    for found in 0..=5 {
        for first in 0..5 {
            for limited in 0..=4 {
                for (delivered, plain) in [(1, true), (5, true), (1, false), (5, false)] {
                    let mut t = clean();
                    t.findings = (0..found).map(|i| all[(first + i) % 5].clone()).collect();
                    t.total.warnings = limits().into_iter().take(limited).collect();
                    let vehicles = paths.iter().take(delivered);
                    t.total.vehicles = vehicles.map(|v| carried(*v, 16_000, None, None)).collect();
                    if !plain {
                        wordy(&mut t);
                    }
                    let text = trace::screen(&t, false, PLAIN).to_string();
                    fits(&text);
                    let (answer, said) = (of_trace(&t), flat(&text));
                    assert!(said.starts_with(&answer.answer), "{text}");
                    let advice = answer.advice.unwrap_or_default();
                    assert!(advice.is_empty() || said.contains(&format!("do {advice}")), "{text}");
                    assert!(said.contains(" I/O 80.0 k completions · 32.0 k per second"), "{text}");
                    assert!(said.contains(" latency p50 100 µs · p99 300 µs"), "{text}");
                    for w in &t.total.warnings {
                        assert!(said.contains(&w.text) || said.contains(&w.code), "{} in\n{text}", w.code);
                    }
                    // The screen names omitted parts and the command that prints them.
                    for part in ["program", "time", "delivered by", "per I/O", "CPU"] {
                        let shown = text.lines().any(|l| l.starts_with(&format!("{part:13}")));
                        let named = said.split_once("left out (trace again with --full): ");
                        assert_ne!(shown, named.is_some_and(|(_, names)| names.contains(part)), "{part} in\n{text}");
                    }
                    let others = answer.others.len();
                    assert!(others == 0 || said.contains("also ") && said.contains("--full)"), "{text}");
                }
            }
        }
    }
}

#[test]
fn a_measurement_has_at_most_20_lines_with_any_findings() {
    for case in 0..64 {
        let is = |bit: u32| case & (1 << bit) != 0;
        let mut m = sample::measurement();
        m.vehicles =
            vec![carried(if is(0) { DeliveryPath::TimerTick } else { DeliveryPath::Iowq }, 500, Some("detail"), None)];
        (m.per_io.kicks, m.iops) = (Some(if is(1) { 1.0 } else { 0.0 }), Some(100_000.0));
        if is(2) {
            m.load.ring.granted.clear();
        }
        m.warnings = if is(3) { limits() } else { Vec::new() };
        if is(4) {
            m.load.file = Some(format!("/srv/data/{}", "long/".repeat(30)));
        }
        m.latency_ns = Latency { p50: Some(20_000), p99: Some(50_000), ..m.latency_ns };
        (m.cpu.sqpoll_ns, m.cpu.sqpoll_wakeups) = (is(5).then_some(1_000_000_000), is(5).then_some(9));
        let text = bench::screen(&m, false, PLAIN).to_string();
        fits(&text);
        let (answer, said) = (of_measurement(&m), flat(&text));
        assert!(said.starts_with(&answer.answer), "{text}");
        assert!(said.contains(&format!("do {}", answer.advice.unwrap_or_default())), "{text}");
        assert!(
            said.contains("throughput 100 k IOPS · ") && said.contains("latency p50 20.0 µs · p99 50.0 µs"),
            "{text}"
        );
        assert!(m.warnings.iter().all(|w| said.contains(&w.text) || said.contains(&w.code)), "{text}");
    }
}

#[test]
fn a_long_answer_and_its_remedy_are_truncated_separately() {
    let mut t = clean();
    wordy(&mut t);
    let mut f = findings().remove(0);
    (f.text, f.remedy) = (format!("7 {}", "words and ".repeat(100)), format!("do this {}", "and that ".repeat(100)));
    (t.findings, t.total.warnings) = (vec![f; 4], limits());
    let text = trace::screen(&t, false, PLAIN).to_string();
    fits(&text);
    let begins = text.starts_with("the command exited with status 1; 7 words and ");
    assert!(begins && text.contains("\n  do    do this and that "), "{text}");
    assert_eq!(
        text.lines().filter(|l| l.ends_with('…')).count(),
        2,
        "the ends of the answer and of the remedy\n{text}"
    );
}

#[test]
fn the_brief_screen_of_a_trace_with_all_parts_matches_the_golden_file() {
    let mut t = clean();
    wordy(&mut t);
    (t.findings, t.total.warnings) = (findings(), limits());
    t.findings.rotate_left(1);
    same_as_golden("trace-crowded", &trace::screen(&t, false, PLAIN).to_string());
}

#[test]
fn the_brief_screen_of_a_full_measurement_matches_the_golden_file() {
    let mut m = sample::measurement();
    (m.per_io.kicks, m.iops, m.warnings) = (Some(1.0), Some(100_000.0), limits());
    same_as_golden("bench-crowded", &bench::screen(&m, false, PLAIN).to_string());
}
