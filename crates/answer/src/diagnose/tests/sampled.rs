//! Findings based on a small sample of traced requests.

use super::*;
use iotrail_schema::account::{Account, CallRecord, ThreadAccount};
use serde_json::Value;

/// Counts that a rule divides or compares with a threshold, anywhere in a trace.
const COUNTS: &[&str] = &[
    "completions",
    "requests",
    "notifications",
    "copied",
    "ios",
    "wakeups",
    "samples",
    "left_long",
    "punted_asked",
    "punted_would_block",
    "punted_drained",
];

fn few(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(few),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_u64().filter(|_| COUNTS.contains(&name.as_str())) {
                    Some(n) => *value = n.min(9).into(),
                    None => few(value),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn too_few_completions_yield_only_exact_findings() {
    // Calls and thread times are counted independently of completions.
    let of_completions = MATRIX.iter().filter(|(_, make)| make().account.is_none() && make().calls.is_none());
    for (code, make) in of_completions {
        let mut t = serde_json::to_value(make()).unwrap();
        few(&mut t);
        let mut t: TraceRecord = serde_json::from_value(t).unwrap();
        t.rings.iter_mut().filter_map(|r| r.sqpoll.as_mut()).for_each(|s| s.elapsed_ns = Some(9_000_000));
        // These findings count single events, not shares.
        let exact = [
            "errors",
            "short_writes",
            "cq_overflow",
            "multishot_ended",
            "buffers_exhausted",
            "bad_buffers",
            "refused_by_policy",
            "never_completed",
            "overlapping_buffers",
            "offset_ignored",
            "unregistered_in_flight",
            "left_lying",
            "held_by_requests",
            "distant_timeout",
            "no_progress",
            "unread_socket",
            "deadlock",
            "socket_drops",
            "memory_limit",
        ];
        assert_eq!(codes(&t).is_empty(), !exact.contains(code), "{code}: {:?}", findings(&t));
    }
}

/// A finding from a few traced requests is not based on many, no matter how many requests these represent.
#[test]
fn a_few_traced_requests_are_not_enough_for_a_finding() {
    let mut t = one_per_enter();
    let batches = &mut t.rings[0].enter_batches;
    *batches = vec![EnterBatch { at_least: 1, requests: 40, estimated: Some(4_000), calls: 4_000.0, calls_ci95: None }];
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut t = one_per_enter();
    t.rings[0].opcodes.iter_mut().for_each(|o| o.latency_ns.count = 40);
    assert_eq!(codes(&t), Vec::<String>::new(), "how many are in flight rests on their latency");
    let mut t = capped_batch();
    t.rings[0].run_items = vec![RunItems { items: 20, completions: 40, estimated: Some(80_000) }];
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut t = wrong_core();
    t.total.cpu_pairs =
        vec![CpuPair { ready_cpu: 1, posted_cpu: 0, completions: 40, estimated: Some(80_000), threads: Some(1) }];
    assert_eq!(codes(&t), Vec::<String>::new());
}

/// Half of the requests were submitted while windows finished: calls and crossings are estimated from the other half.
#[test]
fn rates_include_requests_submitted_while_windows_were_closing() {
    let later = |t: &mut TraceRecord| t.total.followed.came_later = Some(40_000);
    let halved = |mut t: TraceRecord| {
        t.rings[0].enter_batches.iter_mut().for_each(|b| b.calls /= 2.0);
        t.total.cpu_pairs.iter_mut().for_each(|p| (p.completions, p.estimated) = (p.completions / 2, None));
        t
    };
    let mut t = halved(one_per_enter());
    assert!(only(&t, "one_per_enter").text.contains("20.0 k such calls per second"));
    later(&mut t);
    assert!(only(&t, "one_per_enter").text.contains("40.0 k such calls per second"));
    let mut t = halved(wrong_core());
    t.total.interrupts[0].credited = Some(5_000);
    assert_eq!(codes(&t), ["wrong_core"], "one for eight of 39,500 completions");
    later(&mut t);
    assert_eq!(codes(&t), Vec::<String>::new(), "one for sixteen of all");
}

#[test]
fn shares_are_weighted_by_the_requests_each_sample_represents() {
    let mut t = capped_batch();
    // The small runs were traced completely; the large ones are a sample that represents most completions.
    t.rings[0].run_items = vec![
        RunItems { items: 2, completions: 200, estimated: Some(200) },
        RunItems { items: 20, completions: 100, estimated: Some(10_000) },
    ];
    let f = only(&t, "capped_batch");
    assert!(f.text.starts_with("98 % of completions were posted by task-work runs of exactly 20 items"), "{}", f.text);
    assert_eq!(f.evidence["from_followed"], 300.0);
}

#[test]
fn a_ring_with_a_waiting_thread_and_nothing_in_flight_hangs() {
    let with_threads = |ns, threads: u32| {
        let mut t = with_ring_state(|ring| {
            ring.starved_ns = ns;
            ring.starved_for = 36;
        });
        let tgid = t.state.as_ref().unwrap().rings[0].tgid;
        let thread = |tid| ThreadAccount { tid, tgid, ..ThreadAccount::default() };
        let threads = (0..threads).map(|n| thread(tgid + n)).collect();
        t.account = Some(Account { threads, more_threads: 0, requests: None, iowait: None });
        t
    };
    let with = |ns| with_threads(ns, 1);
    let f = only(&with(3_500_000_000), "no_progress");
    assert_eq!(codes(&with_threads(3_500_000_000, 2)), Vec::<String>::new(), "the other thread may submit later");
    let mut woken = with(3_500_000_000);
    woken.rings[0].opcodes[0].messages = 1;
    assert_eq!(codes(&woken), Vec::<String>::new(), "another ring may send a message");
    assert!(f.text.starts_with("io_uring_enter(2) had been waiting for 36 completions for 3.50 s"), "{}", f.text);
    assert!(f.remedy.contains("io_uring_get_sqe returns NULL"));
    assert_eq!(codes(&with(300_000_000)), Vec::<String>::new());
}

#[test]
fn a_program_with_an_idle_ring_that_works_without_it_does_not_hang() {
    let with = |count| {
        let mut t = no_progress();
        let writes = CallRecord { syscall: "pwrite64".into(), count, bytes: Some(4_096), ..CallRecord::default() };
        (t.total.elapsed_ns, t.calls) = (6_000_000_000, Some(vec![writes]));
        codes(&t)
    };
    assert_eq!((with(300), with(6)), (vec![], vec!["no_progress".to_owned()]));
}

#[test]
fn a_sample_may_be_too_small_to_rule_out_a_finding() {
    let of = |code: &str, whole: u64, completions: u64| {
        let mut t = clean();
        (t.total.followed.whole, t.total.followed.completions) = (whole, completions);
        unjudged(&t, code)
    };
    let untraced = Some("only a sample of the requests was traced; trace all requests with --one-in 1".to_owned());
    for code in ["overlapping_buffers", "unregistered_in_flight"] {
        assert_eq!((of(code, 800, 800), of(code, 0, 800)), (None, untraced.clone()), "{code}");
    }
    let few = "8 completions traced, which is too few; trace all requests with --one-in 1";
    assert_eq!(of("waiting_for_cpu", 0, 8).as_deref(), Some(few));
    // All completions were traced, or enough of them, or the finding does not depend on traced ones.
    assert_eq!([of("waiting_for_cpu", 8, 8), of("waiting_for_cpu", 0, 800), of("errors", 0, 8)], [None, None, None]);
}
