use super::*;
use crate::answer::diagnose;
use crate::answer::diagnose::sample::{carried, clean, opcode, ring};
use crate::measurement::Warning;
use crate::trace_record::{
    ContextRecord, EnterBatch, ErrnoCount, IowqRecord, OthersRecord, RunItems, SqpollRecord, Subject, TraceRecord,
};

/// Two rings, one of them with a submission-queue thread that spins, and most of what a screen can hold.
pub fn busy() -> TraceRecord {
    let mut t = clean();
    t.subject = Subject::Command { argv: vec!["server".into(), "--port=80".into()], exit_status: None };
    let mut r = ring(1);
    (r.comm, r.flags, r.found) = ("server".into(), vec!["sqpoll".into()], true);
    let mut recv = opcode("recv", 3_000, 40_000);
    (recv.completions, recv.more, recv.errors) = (9_000, 6_000, 3);
    recv.errnos = vec![ErrnoCount { errno: "ECONNRESET".into(), count: 3 }];
    (r.opcodes, r.completions) = (vec![recv], 9_000);
    r.vehicles = (0..20).map(|n| carried(Vehicle::Sqpoll, 450, Some(&format!("detail {n}")), None)).collect();
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
    t.findings = diagnose::findings(&t);
    t
}

#[test]
fn the_screen_of_a_watched_program() {
    let text = trace::screen(&busy(), PLAIN).to_string();
    narrow(&text);
    assert_eq!(text, include_str!("trace.txt"), "\n{text}");
}

#[test]
fn the_file_systems_worker_is_a_part_of_delivery() {
    let mut t = clean();
    let s = t.rings[0].stages.as_mut().unwrap();
    s.file_system_ns = Some(s.delivery_ns * 0.75);
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("75 % of delivery in a kernel worker of the file system"), "{text}");
}

#[test]
fn punts_are_told_with_their_cause() {
    let mut t = clean();
    let read = &mut t.rings[0].opcodes[0];
    (read.punted_asked, read.punted_would_block, read.punted_drained, read.skips) = (7, 12, 1, 3);
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    for told in [
        "handed to io-wq as asked (IOSQE_ASYNC)",
        "12 handed to io-wq: would have blocked",
        "read: 3 asked for no completion",
        "1 handed to io-wq: drained (IOSQE_IO_DRAIN)",
    ] {
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn a_sample_too_small_is_no_estimate() {
    let mut t = clean();
    t.total.followed.one_in = 64;
    let r = &mut t.rings[0];
    r.enter_batches =
        vec![EnterBatch { at_least: 1, requests: 1, estimated: None, calls: 64.0, calls_ci95: Some([1.0, 357.0]) }];
    r.run_items = vec![RunItems { items: 1, completions: 400, estimated: Some(25_600) }];
    r.enter_calls = None;
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("submitted    io_uring_enter calls –: 1 request followed, which is too few\n"), "{text}");
    assert!(text.contains("task work    100 % in runs of 1\n"), "{text}");
}

#[test]
fn one_ring_says_it_once() {
    let text = trace::screen(&clean(), PLAIN).to_string();
    narrow(&text);
    assert_eq!(text.matches("carried by").count(), 1, "{text}");
    assert!(text.contains("watched      fio job.fio · exit status 0 · for 2.50 s\n"), "{text}");
    assert!(!text.contains("warning") && !text.contains("note:"), "{text}");
}

#[test]
fn many_rings_are_summed_and_it_is_said() {
    let mut t = clean();
    t.rings = (0..40).map(ring).collect();
    for r in &mut t.rings {
        r.completions = 1_000 * u64::from(r.ring);
    }
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    let shown: Vec<&str> = text.lines().filter(|l| l.starts_with("ring ")).map(|l| &l[..7]).collect();
    assert_eq!(shown, ["ring 39", "ring 38", "ring 37", "ring 36"]);
    assert!(text.contains("other rings  36 more, less busy · 2.88 M requests · 630 k completions · "), "{text}");
}

#[test]
fn contexts_stand_beside_rings() {
    let mut t = clean();
    let mut reads = opcode("pread", 4_000, 90_000);
    (reads.stages, reads.short) = (None, 40);
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
        vehicles: vec![carried(Vehicle::IrqDirect, 4_000, None, None)],
        latency_ns: Default::default(),
    };
    t.contexts.push(of_aio.clone());
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    let head = "context 1    libaio · fio (1234) · 127 entries · there before · 4.00 k requests\n";
    assert!(text.contains(head), "{text}");
    assert!(text.contains("in all       1 ring · 1 aio context · 1 process\n"), "{text}");
    // What is not listed is in the totals, and so in their heading.
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
    let text = trace::screen(&more, PLAIN).to_string();
    assert!(text.contains("in all       989 rings · 1 aio context · 1501 processes\n"), "{text}");
    // Alone, it has said it all.
    (t.rings, t.total.vehicles) = (vec![], of_aio.vehicles.clone());
    assert!(!trace::screen(&t, PLAIN).to_string().contains("in all"));
    t.contexts = (0..9).map(|context| ContextRecord { context, ..of_aio.clone() }).collect();
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("others       5 contexts · less busy · 20.0 k requests · 20.0 k completions"), "{text}");
}

#[test]
fn what_a_program_calls_itself_cannot_steer_the_terminal() {
    let nasty = format!("\x1b]0;x\x07{}\u{9b}31m世界\u{202e}", "long/".repeat(30));
    let mut t = busy();
    t.subject = Subject::Process { tgid: 7, comm: nasty.clone(), descendants: 0 };
    t.total.processes[0].comm = nasty.clone();
    for r in &mut t.rings {
        r.comm = nasty.clone();
        r.opcodes[0].opcode = nasty.clone();
        r.vehicles[0].detail = Some(nasty.clone());
    }
    t.findings = diagnose::findings(&t);
    assert!(t.findings[0].text.contains('\x1b'));
    narrow(&trace::screen(&t, PLAIN).to_string());
}

#[test]
fn what_is_not_known_is_said_to_be_so() {
    let mut t = clean();
    t.rings.clear();
    t.total.vehicles.clear();
    t.total.opcodes.clear();
    t.total.stages = None;
    t.total.order = None;
    (t.total.cpu.user_ns, t.total.latency_ns) = (None, Default::default());
    t.total.cpu_pairs.clear();
    let text = trace::screen(&t, PLAIN).to_string();
    narrow(&text);
    assert!(text.contains("CPU          user – · system 800 ms (32 % of a CPU)\n"), "{text}");
    assert!(text.contains("system calls –"), "{text}");
}
