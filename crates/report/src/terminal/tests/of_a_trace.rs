use super::of_files::file;
use super::*;
use iotrail_answer::diagnose;
use iotrail_schema::account::{Account, End, Iowait, RequestAccount, Start};
use iotrail_schema::file::Kind;
use iotrail_schema::measurement::{Waits, Warning};
use iotrail_schema::trace_record::{
    ContextRecord, CpuPair, EndedBy, EnterBatch, EnterWaits, ErrnoCount, Estimate, FileRecord, IowqRecord, NapiRecord,
    OpcodeRecord, OtherFiles, OthersRecord, RunItems, SqpollRecord, Subject, TraceRecord, Windows,
};
use iotrail_testing::trace::{carried, clean, opcode, ring};

/// Two rings, one of them with a spinning SQPOLL thread, and most parts of a screen.
pub fn busy() -> TraceRecord {
    let mut t = clean();
    t.subject = Subject::Command { argv: vec!["server".into(), "--port=80".into()], exit_status: None };
    let mut r = ring(1);
    (r.comm, r.flags, r.found) = ("server".into(), vec!["sqpoll".into()], true);
    let mut recv = opcode("recv", 3_000, 40_000);
    (recv.completions, recv.more, recv.errors) = (9_000, 6_000, 3);
    recv.errnos = vec![ErrnoCount { errno: "ECONNRESET".into(), count: 3, user_data: None }];
    (r.opcodes, r.completions) = (vec![recv], 9_000);
    r.vehicles = (0..20).map(|n| carried(DeliveryPath::Sqpoll, 450, Some(&format!("detail {n}")), None)).collect();
    r.run_items = vec![RunItems { items: 2, completions: 9_000, estimated: None }];
    (r.enter_batches, r.enter_calls) = (vec![], None);
    r.sqpoll = Some(SqpollRecord {
        tid: 1240,
        cpu: Some(1),
        elapsed_ns: Some(2_000_000_000),
        cpu_ns: Some(1_960_000_000),
        work_ns: Some(20_000_000),
        wakeups: Some(0),
        requests: 1_500,
        shared_with: vec![],
    });
    t.rings.push(r);
    t.total.iowq = IowqRecord { workers: 3, most_at_once: None, completions: 12, cpu_ns: Some(4_000_000) };
    t.total.warnings.push(Warning::new("virtual-machine", "this is a virtual machine", "compare ratios, not times"));
    let log = FileRecord { path: Some("/srv/wal".into()), path_is_whole: true, ..file(Kind::File, 1_000) };
    t.total.files = vec![log, file(Kind::Socket, 500)];
    t.total.other_files =
        Some(OtherFiles { files: 3, followed: 12, requests: Estimate { total: 12.0, ci95: [12.0, 12.0] } });
    t.findings = diagnose::findings(&t);
    t
}

#[test]
fn the_screen_of_a_traced_program_matches_the_golden_file() {
    let text = trace::screen(&busy(), true, PLAIN).to_string();
    narrow(&text);
    assert_eq!(text, include_str!("trace.txt"), "\n{text}");
}

#[test]
fn iowait_is_noted_with_the_ring_that_causes_it() {
    let mut t = clean();
    let waits = EnterWaits { waits: 200, iowait_ns: Some(1_500_000_000), ..EnterWaits::default() };
    t.rings[0].enter_waits = Some(waits);
    let iowait = Iowait { ns: 2_000_000_000, enter_ns: 1_500_000_000, no_iowait_available: Some(false) };
    t.account = Some(Account { iowait: Some(iowait), ..Account::default() });
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("\nwaited       200 times · iowait 1.50 s\n"), "{text}");
    let note = "\niowait       2.00 s blocked, idle time of the CPU and not load\n             1.50 s in io_uring_enter\n             \
                removable by IORING_ENTER_NO_IOWAIT from Linux 6.15 on\n";
    assert!(text.contains(note), "{text}");
    assert!(t.findings.is_empty(), "it is not a finding");
    t.account.as_mut().unwrap().iowait = Some(Iowait { enter_ns: 0, ..iowait });
    assert!(!trace::screen(&t, true, PLAIN).to_string().contains("NO_IOWAIT"), "other calls are not affected");
}

#[test]
fn napi_busy_polling_of_a_ring_is_shown_with_its_limit() {
    let mut t = clean();
    t.rings[0].napi = Some(NapiRecord { busy_poll_ns: 50_000, is_static: false });
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("busy poll    NAPI, at most 50.0 µs before a sleep, dynamic tracking"), "{text}");
}

#[test]
fn the_file_system_worker_is_part_of_delivery() {
    let mut t = clean();
    let s = t.rings[0].stages.as_mut().unwrap();
    s.file_system_ns = Some(s.delivery_ns * 0.75);
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("75 % of delivery in a kernel worker of the file system"), "{text}");
}

#[test]
fn punts_are_printed_with_their_cause() {
    let mut t = clean();
    let read = &mut t.rings[0].opcodes[0];
    (read.punted_asked, read.punted_would_block, read.punted_drained, read.skips) = (7, 12, 1, 3);
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    for told in [
        "punted to io-wq as requested (IOSQE_ASYNC)",
        "12 punted to io-wq: would have blocked",
        "read: 3 requested no completion",
        "1 punted to io-wq: drained (IOSQE_IO_DRAIN)",
    ] {
        assert!(text.contains(told), "{text}");
    }
    assert!(!text.contains("requests these are"), "{text}");
    t.rings[0].opcodes[0].punted_requests = Some(Estimate { total: 11.0, ci95: [11.0, 11.0] });
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(text.contains("11 requests punted to io-wq, some more than once"), "{text}");
}

#[test]
fn too_small_a_sample_has_no_estimate() {
    let mut t = clean();
    t.total.followed.one_in = 64;
    let r = &mut t.rings[0];
    r.enter_batches =
        vec![EnterBatch { at_least: 1, requests: 1, estimated: None, calls: 64.0, calls_ci95: Some([1.0, 357.0]) }];
    r.run_items = vec![RunItems { items: 1, completions: 400, estimated: Some(25_600) }];
    r.enter_calls = None;
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("submitted    io_uring_enter calls –: only 1 request traced, too few\n"), "{text}");
    assert!(text.contains("task work    100 % in runs of 1 · of 400 traced\n"), "{text}");
}

#[test]
fn values_of_traced_requests_are_labelled() {
    let whole = trace::screen(&clean(), true, PLAIN).to_string();
    assert!(!whole.contains("max seen") && whole.contains(" 2 unfinished at the end"), "{whole}");
    assert!(!whole.contains("have no stages"), "{whole}");
    let mut t = clean();
    t.total.followed.one_in = 64;
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains(" max seen\n") && text.contains("2 traced requests unfinished at the end"), "{text}");
    // A worker executed most of them.
    let mut t = clean();
    t.rings[0].stages.as_mut().unwrap().completions = 20_000;
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("the other 60.0 k of 80.0 k traced have no stages: completed inline or by a worker"),
        "{text}"
    );
}

#[test]
fn worker_only_opcodes_are_not_reported_as_blocking() {
    let mut t = clean();
    let punted = |name| OpcodeRecord { punted_would_block: 7, ..opcode(name, 7, 1_000) };
    t.rings[0].opcodes = vec![punted("fsync"), punted("openat")];
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(text.contains("fsync: 7 punted to io-wq: always executed by a worker\n"), "{text}");
    assert!(text.contains("openat: 7 punted to io-wq: would have blocked\n"), "{text}");
}

#[test]
fn opcodes_with_unknown_short_results_are_named() {
    let mut t = clean();
    let untold = |name| OpcodeRecord { short: None, ..opcode(name, 7, 1_000) };
    t.total.opcodes = ["splice", "readv", "recv", "writev", "fsync"].map(untold).into();
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(text.contains("short: unknown for recv, splice and vectored requests\n"), "{text}");
}

#[test]
fn a_long_command_keeps_its_options_and_loses_its_paths() {
    let mut t = clean();
    let options = "--rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=16 --time_based --runtime=3";
    let command = format!("/usr/bin/fio --name=j --filename=/srv/data/{}file {options}", "long/".repeat(30));
    t.subject = Subject::Command { argv: command.split(' ').map(str::to_owned).collect(), exit_status: Some(0) };
    let text = trace::screen(&t, false, PLAIN).to_string();
    assert!(text.contains(&"long/".repeat(9)), "the whole command fits: {text}");
    t.total.warnings = (0..4).map(|i| Warning::new("limit", "words ".repeat(20) + &i.to_string(), "")).collect();
    let text = trace::screen(&t, false, PLAIN).to_string();
    narrow(&text);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = format!("program fio --name=j --filename=…/file {options} exit status 0");
    assert!(said.contains(&short), "{text}");
    t.subject = Subject::Command { argv: vec!["python3".into(), "-c".into(), "a\nb".into()], exit_status: Some(0) };
    let text = trace::screen(&t, false, PLAIN).to_string();
    assert!(text.contains(r"python3 -c 'a\nb' · exit status 0"), "{text}");
}

#[test]
fn a_command_that_did_not_exit_by_itself_is_reported_with_the_cause() {
    let mut t = clean();
    for (by, status, says) in [
        (EndedBy::Duration, 143, "cp · stopped by --duration · for "),
        (EndedBy::Duration, 1, "cp · stopped by --duration · exit status 1 · for "),
        (EndedBy::Interrupt, 130, "cp · interrupted · for "),
        (EndedBy::Signal, 139, "cp · killed by SIGSEGV · for "),
    ] {
        t.subject = Subject::Command { argv: vec!["cp".into()], exit_status: Some(status) };
        t.ended_by = Some(by);
        let text = trace::screen(&t, false, PLAIN).to_string();
        assert!(text.contains(says), "{text}");
    }
}

/// A share needs as many completions as a median; with fewer, the count is printed.
#[test]
fn shares_of_few_requests_are_counts() {
    let mut t = clean();
    t.rings[0].stages.as_mut().unwrap().completions = 1;
    t.rings[0].run_items = vec![
        RunItems { items: 2, completions: 2, estimated: Some(200) },
        RunItems { items: 1, completions: 1, estimated: Some(1) },
    ];
    t.total.cpu_pairs =
        vec![CpuPair { ready_cpu: 0, posted_cpu: 1, completions: 1, estimated: Some(100), threads: Some(1) }];
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    for told in [
        "stages       –: only 1 completion with all stages, too few\n",
        "task work    2 of 3 in runs of 2 · 1 of 3 in runs of 1 · of 3 traced\n",
        "ready where  1 of 1 on CPU 0, posted on CPU 1 · of 1 traced\n",
    ] {
        assert!(text.contains(told), "{text}");
    }
    t.rings[0].stages.as_mut().unwrap().completions = 12;
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(text.contains("mean total 110 µs, of 12\n"), "{text}");
}

#[test]
fn requests_excluded_from_means_are_printed() {
    let mut t = clean();
    let waits = Some(Waits { requests: 3, estimated: 3, estimated_ci95: Some([3.0, 3.0]), mean_ns: 2.4e9 });
    (t.rings[0].waits, t.total.waits) = (waits.clone(), waits);
    t.total.order.as_mut().unwrap().waits = 3;
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    let told = "waits        3 requests open for 2.40 s (mean) · excluded from means and order\n";
    assert_eq!(text.matches(told).count(), 1, "{text}");
}

#[test]
fn time_in_the_completion_queue_has_bounds() {
    let mut t = clean();
    t.rings[0].reaping = Some(iotrail_testing::trace::reaping());
    let text = trace::screen(&t, true, PLAIN).to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("after p50 4.00 ms to 6.00 ms · max 520 ms to 524 ms"), "{text}");
    assert!(text.contains("up to 96 completions in the queue of 128") && text.contains("of 300 sampled"), "{text}");
    let r = t.rings[0].reaping.as_mut().unwrap();
    (r.at_least_ns.p50, r.unreaped, r.unreaped_estimated) = (Some(1), 2, 16);
    let text = trace::screen(&t, true, PLAIN).to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("after p50 at most 6.00 ms") && text.contains("16 not reaped at the end"), "{text}");
}

#[test]
fn a_sampled_mean_is_printed_only_with_its_interval() {
    let mut t = busy();
    t.total.followed.one_in = 100;
    t.total.latency_ns.mean_ci95 = Some([88_000.0, 160_000.0]);
    let s = t.rings[0].stages.as_mut().unwrap();
    s.total_ci95 = Some([90_000.0, 150_000.0]);
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("latency      mean 110 µs (95 % CI 88.0 µs to 160 µs) · min"), "{text}");
    assert!(text.contains("mean total 110 µs (95 % CI 90.0 µs to 150 µs)"), "{text}");
    // The other ring and the total have too few completions.
    assert_eq!(text.matches(" sampled completions with all stages, too few\n").count(), 2, "{text}");
    t.total.latency_ns.mean_ci95 = None;
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(text.contains("latency      mean – · min"), "{text}");
    // Adaptive tracing traces all requests if there are few.
    (t.total.followed.adaptive, t.total.followed.sampled_from) = (true, Some(0));
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(text.contains("latency      mean 110 µs · min") && !text.contains("too few"), "{text}");
}

#[test]
fn windows_print_their_duration_and_the_untraced_requests() {
    let mut t = clean();
    t.total.windows = Some(Windows {
        open_ns: 10_000_000,
        period_ns: 1_000_000_000,
        opened: 90,
        span_ns: 90_000_000_000,
        choosing_ns: Some(1_400_000_000),
        finishing_ns: Some(1_100_000_000),
        whole_ns: None,
        cost: None,
        posted: None,
        posted_is_all: None,
        user_ns: Some(9_000_000_000),
        system_ns: Some(18_000_000_000),
    });
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("1.40 s to select requests, 1.10 s to finish them\n"), "{text}");
    assert!(
        text.contains(
            "CPU          user 9.00 s (10 % of a CPU) · system 18.0 s (20 % of a CPU)\n             over 90.0 s\n"
        ),
        "{text}"
    );
    assert!(
        !text.contains("submitted while windows finished") && !text.contains("while requests were selected"),
        "{text}"
    );
    t.total.followed.came_later = Some(7_600);
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("7.60 k requests submitted while windows finished: counted, not\n"), "{text}");
    assert!(text.contains("io_uring_enter calls while requests were selected"), "{text}");
}

#[test]
fn a_switch_to_windows_is_printed_with_time_and_reason() {
    let mut t = clean();
    t.total.windows = Some(Windows {
        open_ns: 150_000_000,
        period_ns: 1_000_000_000,
        opened: 51,
        span_ns: 60_000_000_000,
        choosing_ns: Some(17_400_000_000),
        finishing_ns: Some(1_000_000),
        whole_ns: Some(10_300_000_000),
        cost: Some(0.13),
        posted: Some(36_400_000),
        posted_is_all: Some(true),
        user_ns: Some(9_000_000_000),
        system_ns: None,
    });
    t.total.errors = 1_234;
    let ios = t.total.ios as f64;
    let path = format!("vehicles.{}", t.total.vehicles[0].vehicle.name());
    t.total.count_intervals.insert(path.clone(), Some([0.9 * ios, 1.1 * ios]));
    t.total.count_intervals.insert("bytes".into(), None);
    for full in [true, false] {
        let text = trace::screen(&t, full, PLAIN).to_string();
        narrow(&text);
        // Window counts are extrapolated.
        let unmarked = |line: &str| line.starts_with("delivered by ") && line.contains('%') && !line.contains('~');
        assert!(full || text.contains(" ~100 %") && !text.lines().any(unmarked), "{text}");
        assert!(!full || text.contains("counts and shares are estimates"), "{text}");
        for part in [
            "at least 1234 errors",
            " · – · –/s",
            "all of the first 10.3 s, then",
            "50 windows of 150 ms",
            "13 % of its CPU time",
            "36.4 M completions by the rings' own counters",
            "--exact",
        ] {
            assert!(text.replace("\n             ", " ").contains(part), "{part}: {text}");
        }
    }
    // The number of completions has the same mark everywhere.
    for (interval, mark) in [(Some([0.9 * ios, 1.1 * ios]), "~"), (None, "–")] {
        t.total.count_intervals.insert("ios".into(), interval);
        let (from, to) = (Start::Submitted, End::Posted);
        let requests = RequestAccount { count: t.total.ios, latency_sum_ns: 9_000_000, from, to, rows: vec![] };
        t.account = Some(Account { requests: Some(requests), ..Account::default() });
        for full in [true, false] {
            let text = trace::screen(&t, full, PLAIN).to_string().replace("\n             ", " ");
            let of = |field: &str| text.lines().find(|line| line.starts_with(field)).unwrap().to_owned();
            let rate = of("I/O ").split(" · ").nth(1).unwrap().to_owned();
            assert!(of("I/O ").contains(&format!("I/O          {mark}")) && rate.starts_with(mark), "{text}");
            assert!(!full || of("requests ").starts_with(&format!("requests     {mark}")), "{text}");
        }
    }
    // A wide interval, and an unknown one.
    for interval in [Some([0.1 * ios, 0.6 * ios]), None] {
        t.total.count_intervals.insert(path.clone(), interval);
        let text = trace::screen(&t, false, PLAIN).to_string();
        let line = text.lines().find(|line| line.starts_with("delivered by")).unwrap();
        assert!(line.contains(&format!("{} –", t.total.vehicles[0].vehicle.name())), "{line}");
    }
}

#[test]
fn a_ring_in_windows_has_marked_counts_and_lower_bounds_of_errors() {
    let mut t = clean();
    let r = &mut t.rings[0];
    let o = &mut r.opcodes[0];
    (o.errors, o.seen) = (7, Some(1_000));
    let name = format!("opcodes.{}.", o.opcode);
    let requests = o.requests as f64;
    r.count_intervals.insert(format!("{name}requests"), Some([0.95 * requests, 1.05 * requests]));
    r.count_intervals.insert(format!("{name}completions"), Some([0.5 * requests, 1.05 * requests]));
    let text = trace::screen(&t, true, PLAIN).to_string();
    let line = text.lines().find(|line| line.starts_with(&t.rings[0].opcodes[0].opcode)).unwrap();
    let columns: Vec<&str> = line.split_whitespace().collect();
    assert!(columns[1].starts_with('~') && columns.contains(&"–") && columns.contains(&"≥7"), "{line}");
}

#[test]
fn totals_of_a_single_ring_are_printed_once() {
    let text = trace::screen(&clean(), true, PLAIN).to_string();
    narrow(&text);
    assert_eq!(text.matches("delivered by").count(), 1, "{text}");
    assert!(text.contains("program      fio job.fio · exit status 0 · for 2.50 s\n"), "{text}");
    assert!(!text.contains("warning") && !text.contains("note:"), "{text}");
}

#[test]
fn further_rings_are_summed_in_one_line() {
    let mut t = clean();
    t.rings = (0..40).map(ring).collect();
    for r in &mut t.rings {
        r.completions = 1_000 * u64::from(r.ring);
    }
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    let shown: Vec<&str> = text.lines().filter(|l| l.starts_with("ring ")).map(|l| &l[..7]).collect();
    assert_eq!(shown, ["ring 39", "ring 38", "ring 37", "ring 36"]);
    assert!(text.contains("other rings  36 less busy rings · 2.88 M requests · 630 k completions · "), "{text}");
}

#[test]
fn contexts_are_listed_after_rings() {
    let mut t = clean();
    let mut reads = opcode("pread", 4_000, 90_000);
    (reads.stages, reads.short) = (None, Some(40));
    let of_aio = ContextRecord {
        context: 1,
        interface: "libaio".into(),
        tgid: 1234,
        comm: "fio".into(),
        entries: Some(127),
        found: true,
        requests: 4_000,
        completions: 4_000,
        reaped: 3_990,
        bytes: Some(4_000 * 4_096),
        errors: Some(0),
        active_ns: None,
        opcodes: vec![reads],
        vehicles: vec![carried(DeliveryPath::IrqDirect, 4_000, None, None)],
        latency_ns: Default::default(),
    };
    t.contexts.push(of_aio.clone());
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    let head = "context 1    libaio · fio (1234) · 127 entries · there before · 4.00 k requests\n";
    assert!(text.contains(head), "{text}");
    assert!(text.contains("in all       1 ring · 1 aio context · 1 process\n"), "{text}");
    // The totals and their heading include unlisted rings.
    let mut more = t.clone();
    more.total.more_processes = 1_500;
    more.others.push(OthersRecord {
        interface: "io_uring".into(),
        tgid: Some(1234),
        comm: "fio".into(),
        rings: 988,
        requests: 2_964,
        completions: 2_964,
        bytes: 0,
        errors: 0,
        overflows: 0,
        opcodes: vec![],
        vehicles: vec![],
    });
    let text = trace::screen(&more, true, PLAIN).to_string();
    assert!(text.contains("in all       989 rings · 1 aio context · 1501 processes\n"), "{text}");
    // With a single context, its lines already show all totals.
    (t.rings, t.total.vehicles) = (vec![], of_aio.vehicles.clone());
    assert!(!trace::screen(&t, true, PLAIN).to_string().contains("in all"));
    t.contexts = (0..9).map(|context| ContextRecord { context, ..of_aio.clone() }).collect();
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("others       5 contexts · less busy · 20.0 k requests · 20.0 k completions"), "{text}");
}

#[test]
fn a_program_name_cannot_control_the_terminal() {
    let nasty = format!("\x1b]0;x\x07{}\u{9b}31m世界\u{202e}", "long/".repeat(30));
    let mut t = busy();
    t.subject = Subject::Process { tgid: 7, comm: nasty.clone(), descendants: 0 };
    t.total.processes[0].comm = nasty.clone();
    for r in &mut t.rings {
        r.comm = nasty.clone();
        r.opcodes[0].opcode = nasty.clone();
        r.vehicles[0].detail = Some(nasty.clone().into());
    }
    t.findings = diagnose::findings(&t);
    assert!(t.findings[0].text.contains('\x1b'));
    narrow(&trace::screen(&t, true, PLAIN).to_string());
}

#[test]
fn unknown_values_are_printed_as_unknown() {
    let mut t = clean();
    t.rings.clear();
    t.total.vehicles.clear();
    t.total.opcodes.clear();
    t.total.stages = None;
    t.total.order = None;
    (t.total.cpu.user_ns, t.total.latency_ns) = (None, Default::default());
    t.total.cpu_pairs.clear();
    let text = trace::screen(&t, true, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("CPU          user – · system 800 ms (32 % of a CPU)\n"), "{text}");
    assert!(text.contains("system calls –"), "{text}");
    (t.total.cpu.user_ns, t.total.cpu.system_ns) = (Some(3_000_000), Some(0));
    let text = trace::screen(&t, true, PLAIN).to_string();
    assert!(
        text.contains("CPU          3.00 ms (0.1 % of a CPU) · too short to separate user from system\n"),
        "{text}"
    );
}
