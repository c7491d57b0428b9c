//! Each finding occurs in its own trace, and in no other trace.

use std::collections::BTreeSet;

use super::*;
use iotrail_schema::account::{Bound, BoundOf, Reason};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Delay, DeliveryPathCount, Interrupt, Ipi, Latency, Order, OrderBy};
use iotrail_schema::runnable::{HadCpu, Runnable};
use iotrail_schema::state::{
    LongWait, MemoryLimit, NamedProcess, RingState, SendBuffer, SocketDrops, StateRecord, Unread, UnreadSocket,
};
use iotrail_schema::trace_record::{
    CpuPair, DeliveryPathShare, Detour, EnterBatch, ErrnoCount, Estimate, FileRecord, IowqRecord, MemoryRecord,
    OpenRecord, OverlapRecord, Reaping, RingThreads, RunItems, SqpollRecord, Subject, ThreadRecord,
};
use iotrail_schema::trail::Course;
use iotrail_testing::state;
use iotrail_testing::trace::{carried, clean, delivered_in_order, latency, opcode, reaping, ring, with_ring};
use made::*;

mod account;
mod calls;
mod ends;
mod made;
mod notify;
mod results;
mod sampled;

fn codes(t: &TraceRecord) -> Vec<String> {
    findings(t).into_iter().map(|f| f.code).collect()
}

fn only(t: &TraceRecord, code: &str) -> Finding {
    let mut found: Vec<Finding> = findings(t).into_iter().filter(|f| f.code == code).collect();
    assert_eq!(found.len(), 1, "{code}: {found:?}");
    found.remove(0)
}

type Make = fn() -> TraceRecord;

/// A code, and the trace that causes it.
const MATRIX: &[(&str, Make)] = &[
    ("setup_failed", account::setup_failed),
    ("posix_aio_serial", account::posix_aio_serial),
    ("submission_failed", account::submission_failed),
    ("epoll_spins", account::epoll_spins),
    ("empty_enters", account::empty_enters),
    ("waits_time_out", account::waits_time_out),
    ("setup_per_operation", account::setup_per_operation),
    ("linked_timeouts_expire", account::linked_timeouts_expire),
    ("timeouts_end_early", account::timeouts_end_early),
    ("epoll_ctl_per_operation", account::epoll_ctl_per_operation),
    ("calls_fail", account::calls_fail),
    ("small_calls", account::small_calls),
    ("reads_fault", account::reads_fault),
    ("blocked_in_submission", account::blocked_in_submission),
    ("lock_contended", account::lock_contended),
    ("synchronous_calls", account::synchronous_calls),
    ("slow_connects", account::slow_connects),
    ("idle_poller", account::idle_poller),
    ("cpu_quota", account::cpu_quota),
    ("sqpoll_shares_cpu", account::sqpoll_shares_cpu),
    ("refused_by_policy", refused_by_policy),
    ("copied_zero_copy", copied_zero_copy),
    ("requests_fail", account::requests_fail),
    ("submitter_exited", account::submitter_exited),
    ("waiting_for_cpu", waiting_for_cpu),
    ("reaped_elsewhere", reaped_elsewhere),
    ("bad_buffers", bad_buffers),
    ("stranded", stranded),
    ("kick_storm", kick_storm),
    ("wrong_core", wrong_core),
    ("one_per_enter", one_per_enter),
    ("capped_batch", capped_batch),
    ("iopoll_without_queues", iopoll_without_queues),
    ("sqpoll_spinning", sqpoll_spinning),
    ("sqpoll_napping", sqpoll_napping),
    ("sqpoll_shared", account::sqpoll_shared),
    ("punted", punted),
    ("iowq_queue", account::iowq_queue),
    ("iowq_fanout", iowq_fanout),
    ("cq_overflow", cq_overflow),
    ("buffers_exhausted", buffers_exhausted),
    ("multishot_ended", account::multishot_ended),
    ("errors", errors),
    ("short_reads", short_reads),
    ("short_writes", short_writes),
    ("faulting_poller", faulting_poller),
    ("chatty_poller", chatty_poller),
    ("delivered_out_of_order", delivered_out_of_order),
    ("reordered", reordered),
    ("never_completed", never_completed),
    ("overlapping_buffers", overlapping_buffers),
    ("offset_ignored", account::offset_ignored),
    ("unregistered_in_flight", unregistered_in_flight),
    ("left_lying", left_lying),
    ("pending_work_not_run", pending_work_not_run),
    ("overflow_not_flushed", overflow_not_flushed),
    ("unsubmitted", unsubmitted),
    ("unreaped_asleep", unreaped_asleep),
    ("held_by_requests", held_by_requests),
    ("nagle", nagle),
    ("unread_socket", unread_socket),
    ("deadlock", deadlock),
    ("socket_drops", socket_drops),
    ("small_send_buffer", small_send_buffer),
    ("cgroup_io_max", cgroup_io_max),
    ("memory_limit", memory_limit),
    ("distant_timeout", distant_timeout),
    ("no_progress", no_progress),
];

#[test]
fn each_trace_rule_has_its_own_code_and_sample_trace() {
    let sorted = |mut codes: Vec<&'static str>| {
        codes.sort_unstable();
        codes
    };
    let codes = sorted(RULES.iter().filter(|rule| rule.is_of_traces()).map(|rule| rule.code).collect());
    assert_eq!(sorted(MATRIX.iter().map(|(code, _)| *code).collect()), codes);
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.code).collect();
    assert_eq!(all.len(), RULES.len());
    assert!(RULES.iter().all(|rule| !rule.about.is_empty()));
}

#[test]
fn failures_are_listed_first_and_then_the_largest_bounds() {
    let bound = |share| Some(Bound { of: BoundOf::ThreadTime, share });
    let with = |rule: &Rule, bound| Finding { bound, ..rule.finding(Severity::Warning, String::new(), &[]) };
    let of = |rule: &Rule| match rule.code {
        "kick_storm" => vec![with(rule, None)],
        "stranded" => vec![with(rule, bound(0.019))],
        "punted" => vec![with(rule, bound(0.2)), with(rule, bound(0.5))],
        "errors" => vec![with(rule, None)],
        _ => vec![],
    };
    let found = ranked(of, |_| 1.0);
    let order: Vec<(&str, bool)> = found.iter().map(|f| (f.code.as_str(), f.warns())).collect();
    let expected = [("errors", true), ("punted", true), ("punted", true), ("stranded", false), ("kick_storm", true)];
    assert_eq!(order, expected);
    assert_eq!(found[1].bound, bound(0.5));
}

#[test]
fn a_busy_loop_is_listed_before_the_cpu_wait_it_causes() {
    let bound = |share| Some(Bound { of: BoundOf::ThreadTime, share });
    let with = |codes: &'static [(&'static str, f64)]| {
        let of = move |rule: &Rule| {
            let found = codes.iter().filter(|(code, _)| *code == rule.code);
            found
                .map(|(_, share)| Finding {
                    bound: bound(*share),
                    ..rule.finding(Severity::Warning, String::new(), &[])
                })
                .collect()
        };
        ranked(of, |_| 1.0).into_iter().map(|f| f.code).collect::<Vec<_>>()
    };
    assert_eq!(with(&[("waiting_for_cpu", 0.99), ("empty_enters", 0.3)]), ["empty_enters", "waiting_for_cpu"]);
    assert_eq!(with(&[("waiting_for_cpu", 0.99), ("wrong_core", 0.3)]), ["waiting_for_cpu", "wrong_core"]);
}

#[test]
fn a_clean_program_has_no_finding() {
    assert_eq!(codes(&clean()), Vec::<String>::new());
    let busy = sqpoll(|_| {});
    assert_eq!(codes(&busy), Vec::<String>::new());
}

#[test]
fn each_sample_trace_has_only_its_own_finding() {
    for (code, make) in MATRIX {
        let mut got = codes(&make());
        got.dedup();
        assert_eq!(got, [*code], "in the trace of {code}");
    }
}

#[test]
fn time_based_findings_are_suppressed_on_emulated_machines() {
    let emulated = |make: Make| {
        let mut t = make();
        t.total.host.virtualisation = Some("qemu".into());
        t
    };
    let is_silent = |(code, make): &&(&'static str, Make)| {
        let t = emulated(*make);
        codes(&t).is_empty() && unjudged(&t, code).is_some()
    };
    let silent: Vec<&str> = MATRIX.iter().filter(is_silent).map(|(code, _)| *code).collect();
    assert_eq!(
        silent,
        [
            "waits_time_out",
            "blocked_in_submission",
            "lock_contended",
            "synchronous_calls",
            "slow_connects",
            "idle_poller",
            "cpu_quota",
            "sqpoll_shares_cpu",
            "waiting_for_cpu",
            "sqpoll_spinning",
            "sqpoll_shared",
            "left_lying",
            "unreaped_asleep"
        ]
    );
    for (code, make) in MATRIX {
        assert_eq!(codes(&emulated(*make)).is_empty(), silent.contains(code), "{code}");
        assert_eq!(unjudged(&make(), code), None, "{code}");
    }
}

#[test]
fn each_finding_has_evidence_and_each_warning_a_remedy() {
    for (code, make) in MATRIX {
        for f in findings(&make()) {
            assert!(!f.evidence.is_empty() && f.evidence.values().all(|x| x.is_finite()), "{code}: {f:?}");
            assert!(!f.remedy.is_empty() || !f.warns(), "{code}");
            for part in [&f.text, &f.remedy] {
                assert!(!part.ends_with('.') && !part.contains("  "), "{code}: {part}");
            }
        }
    }
}

#[test]
fn unread_socket_data_is_a_finding_only_if_it_stays_unread() {
    let f = only(&unread_socket(), "unread_socket");
    assert!(
        f.text.starts_with("488 bytes unread in descriptor 5 of process 7 for 2.10 s, while thread 7"),
        "{}",
        f.text
    );
    let with = |change: fn(&mut UnreadSocket)| {
        let mut t = unread_socket();
        change(t.state.as_mut().unwrap().unread.as_mut().unwrap());
        codes(&t)
    };
    assert_eq!(with(|of| of.for_ns = 900_000_000), Vec::<String>::new());
    assert_eq!(with(|of| (of.at_end, of.for_ns) = (false, 1_200_000_000)), ["unread_socket"], "of 2 s of samples");
    let mut long = unread_socket();
    long.state.as_mut().unwrap().samples = 1_000;
    long.state.as_mut().unwrap().unread.as_mut().unwrap().at_end = false;
    assert_eq!(codes(&long), Vec::<String>::new(), "it was read later");
}

#[test]
fn connections_and_unarmed_receives_have_their_own_remedy() {
    let with = |because, backlog| {
        let mut t = unread_socket();
        let of = t.state.as_mut().unwrap().unread.as_mut().unwrap();
        (of.because, of.bytes, of.backlog) = (because, 19, backlog);
        only(&t, "unread_socket")
    };
    let f = with(Unread::Unaccepted, Some(64));
    assert!(
        f.text.starts_with("19 connections not accepted from descriptor 5 of process 7 (backlog 64) for 2.10 s"),
        "{}",
        f.text
    );
    assert!(f.remedy.contains("accept4(2) at each event until EAGAIN"), "{}", f.remedy);
    let f = with(Unread::NotAccepting, Some(64));
    assert!(f.text.contains("sleeps in io_uring_enter(2). No request of its rings accepts them"), "{}", f.text);
    let f = with(Unread::NotArmed, None);
    assert!(f.text.contains("sleeps in io_uring_enter(2). No request of its rings is in flight"), "{}", f.text);
    assert!(f.remedy.contains("without IORING_CQE_F_MORE"), "{}", f.remedy);
}

#[test]
fn a_segment_that_waits_for_no_acknowledgement_was_delayed_by_the_program() {
    let mut t = nagle();
    t.state.as_mut().unwrap().nagle.as_mut().unwrap().corked = 90;
    let f = only(&t, "nagle");
    assert!(f.text.starts_with("MSG_MORE or TCP_CORK delayed short TCP segments in 95 of 100 samples"), "{}", f.text);
    assert!(f.remedy.contains("without MSG_MORE"), "{}", f.remedy);
}

#[test]
fn dropped_datagrams_are_compared_with_received_ones() {
    let f = only(&socket_drops(), "socket_drops");
    assert!(
        f.text.starts_with("17.0 k datagrams were dropped at descriptor 5 of process 7: its receive buffer of 4 KiB, which the program set, was full"),
        "{}",
        f.text
    );
    let received = |n| {
        let mut t = account::with_calls(vec![account::call("recvfrom", n, &[])]);
        t.state = socket_drops().state;
        t
    };
    assert!(only(&received(17_000), "socket_drops").text.contains("(at least 50 % of those that arrived)"));
    assert_eq!(codes(&received(17_000_000)), Vec::<String>::new(), "one in a thousand");
    let mut listening = socket_drops();
    let of = listening.state.as_mut().unwrap().drops.as_mut().unwrap();
    (of.listens, of.limit) = (true, 2);
    assert!(only(&listening, "socket_drops").text.contains("its accept queue (backlog 2) was full"));
}

#[test]
fn a_finding_that_applies_to_several_rings_is_reported_once() {
    let mut t = cq_overflow();
    for n in 1..4 {
        let mut more = ring(n);
        more.overflows = if n == 3 { 0 } else { 10 };
        t.rings.push(more);
    }
    let f = only(&t, "cq_overflow");
    assert!(f.text.starts_with("ring 0 of fio (1234): 4.00 k completions (5 %) found"), "{}", f.text);
    assert!(f.text.ends_with("The finding applies to 3 of 4 rings; this ring is affected most"), "{}", f.text);
    assert_eq!((f.ring, f.evidence["rings"]), (Some(0), 3.0));
}
