use super::*;
use iotrail_schema::account::CallRecord;
use iotrail_testing::trace::{clean, with_ring};

fn one(text: &str, t: &TraceRecord) -> (BudgetOutcome, String) {
    let judged = judge(&parse(&format!("[budget]\n{text}")).unwrap(), t);
    assert_eq!(judged.len(), 1);
    (judged[0].outcome, judged[0].text.clone())
}

#[test]
fn limits_are_parsed_with_units_and_sections() {
    let text = "[budget]\nsyscalls_per_io = \"<= 1.2\"\ndelivered.timer_tick = 0\nblocked_in_submit = \"<= 1 %\"\n\
                iops = { at_least = 1000, at_most = 5e4 }\n[opcode.read]\nlatency_p99 = \"<= 2 ms\"\n[file.\"/a.b\"]\nwrites = 3\n";
    let limits = parse(text).unwrap();
    let of = |scope: &str, figure: &str| {
        let found = limits.iter().find(|l| l.scope.text() == scope && l.figure == figure);
        found.map(|l| (l.at_least, l.at_most))
    };
    assert_eq!(of("", "syscalls_per_io"), Some((None, Some(1.2))));
    assert_eq!(of("", "delivered.timer_tick"), Some((Some(0.0), Some(0.0))));
    assert_eq!(of("", "blocked_in_submit"), Some((None, Some(0.01))));
    assert_eq!(of("", "iops"), Some((Some(1000.0), Some(5e4))));
    assert_eq!(of("opcode.read", "latency_p99"), Some((None, Some(2e6))));
    assert_eq!(of("file./a.b", "writes"), Some((Some(3.0), Some(3.0))));
    assert_eq!(limits.len(), 6);
}

#[test]
fn an_invalid_budget_is_rejected_with_the_name_of_the_limit() {
    let why = |text: &str| parse(text).unwrap_err();
    assert!(why("errors = 0").contains("errors is outside a section"));
    assert!(why("[budget]\nerrors = \"few\"").starts_with("errors: 'few' is not a limit"));
    assert!(why("[budget]\nerrors = { at_most = 1, at_lest = 0 }").contains("unknown key at_lest"));
    assert!(why("[budget]\nerrors = { at_least = 2, at_most = 1 }").contains("at_least is above at_most"));
    assert!(why("[rings.0]\nerrors = 0").contains("unknown section [rings]"));
    assert!(why("[ring.x]\nerrors = 0").contains("x is not a ring number"));
    assert!(why("").contains("no limit is set"));
}

#[test]
fn a_broken_limit_reports_its_excess() {
    let t = with_ring(|r| r.errors = 0);
    assert_eq!(one("requests = 80000", &t), (BudgetOutcome::Kept, "requests: 80000".into()));
    assert_eq!(
        one("requests = \"<= 64000\"", &t),
        (BudgetOutcome::Broken, "requests: 80000, at most 64000, off by 25 %".into())
    );
    assert_eq!(
        one("requests = \">= 100000\"", &t),
        (BudgetOutcome::Broken, "requests: 80000, at least 100000, off by 20 %".into())
    );
    assert_eq!(one("delivered.enter = \">= 90 %\"", &t).0, BudgetOutcome::Kept);
    assert_eq!(one("calls.fsync = 0", &t).0, BudgetOutcome::Kept);
    assert_eq!(one("calls.fsync = 1", &t).0, BudgetOutcome::Broken);
}

#[test]
fn unknown_and_borderline_values_are_not_evaluated() {
    let mut t = clean();
    assert_eq!(
        one("syscalls_per_io = 1", &t),
        (BudgetOutcome::NotEvaluated, "syscalls_per_io: its value is unknown".into())
    );
    assert!(one("delivered.ticks = 0", &t).1.contains("it has delivered.inline, "));
    let misspelt = judge(&parse("[opcode.read]\nreqests = 3").unwrap(), &t);
    assert!(misspelt[0].text.contains("opcode.read has requests, "), "{}", misspelt[0].text);
    t.total.per_io.syscalls = Some(1.0);
    t.total.per_io_intervals.insert("syscalls".into(), [0.9, 1.1]);
    assert_eq!(one("syscalls_per_io = \"<= 1.05\"", &t).0, BudgetOutcome::NotEvaluated);
    assert_eq!(one("syscalls_per_io = \"<= 1.2\"", &t).0, BudgetOutcome::Kept);
    assert_eq!(one("syscalls_per_io = \"<= 0.8\"", &t).0, BudgetOutcome::Broken);
    let judged = |text: &str, t: &TraceRecord| status(&judge(&parse(text).unwrap(), t));
    assert_eq!(judged("[budget]\nsyscalls_per_io = \"<= 1.05\"\nerrors = 0", &t), Some(4));
    assert_eq!(judged("[budget]\nsyscalls_per_io = \"<= 1.05\"\nerrors = 1", &t), Some(1));
    assert_eq!(judged("[budget]\nerrors = 0", &t), None);
}

#[test]
fn a_saved_budget_accepts_its_runs_and_omits_load_dependent_values() {
    let with = |switches: u64, ns: u64| {
        let mut t = clean();
        t.total.context_switches = switches;
        t.total.latency_ns.p50 = Some(ns);
        t
    };
    let runs = [with(5_000, 100_000), with(9_000, 180_000), with(5_100, 90_000)];
    let text = saved(&runs, "fio job.fio");
    let limits = parse(&text).unwrap();
    for run in &runs {
        assert_eq!(status(&judge(&limits, run)), None, "{text}");
    }
    assert!(text.contains("\n\"requests\" = 80000\n") && text.contains("\n\"rings.sqpoll\" = 0\n"), "{text}");
    assert!(text.contains("\"delivered.enter\" = { at_least = 0.5 }"), "{text}");
    assert!(text.contains("# left out: context_switches (5000 to 9000)"), "{text}");
    assert!(text.contains("# left out: latency_p50 (90.0 µs to 180 µs)"), "{text}");
    let mut more = clean();
    more.total.opcodes[0].punted_would_block = 1;
    assert_eq!(status(&judge(&limits, &more)), Some(1));
}

/// A trace of `seconds` seconds with these calls.
fn with_calls(seconds: f64, calls: &[(&str, u64)]) -> TraceRecord {
    let mut t = clean();
    t.total.elapsed_ns = (seconds * 1e9) as u64;
    let call = |&(name, count): &(&str, u64)| CallRecord { syscall: name.into(), count, ..CallRecord::default() };
    t.calls = Some(calls.iter().map(call).collect());
    t
}

#[test]
fn a_limit_on_a_time_dependent_count_allows_for_a_slower_run() {
    // 20 polls per second, 1,000 calls for the work itself, and `chance` additional calls.
    let run = |seconds: f64, chance: u64| {
        with_calls(seconds, &[("newfstatat", 1_000 + (20.0 * seconds) as u64), ("openat", 1_000 + chance)])
    };
    let limits = parse(&saved(&[run(1.0, 10), run(2.0, 0), run(2.0, 10), run(3.0, 0)], "fio")).unwrap();
    assert_eq!(status(&judge(&limits, &run(30.0, 0))), None);
    assert_eq!(status(&judge(&limits, &run(60.0, 0))), Some(1));
    // The limit of a count that does not grow with time: 1,010 plus four times the range of 10.
    let most = |name: &str| limits.iter().find(|l| l.figure == name).and_then(|l| l.at_most);
    assert_eq!((most("calls.openat"), most("calls.newfstatat")), (Some(1050.0), Some(1600.0)));
}

#[test]
fn a_count_that_would_double_in_a_slower_run_is_omitted() {
    let run = |seconds: f64| with_calls(seconds, &[("read", 100 + (10.0 * seconds) as u64)]);
    let text = saved(&[run(1.0), run(2.0), run(3.0)], "fio");
    assert!(text.contains("# left out: calls.read (110 to 130)"), "{text}");
}

#[test]
fn a_sync_call_absent_from_the_saved_runs_breaks_the_budget() {
    let run = |calls: &[(&str, u64)]| with_calls(1.0, calls);
    let text = saved(&[run(&[("read", 7), ("fsync", 4)]), run(&[("read", 7), ("fsync", 4)])], "db");
    let limits = parse(&text).unwrap();
    let after = |calls: &[(&str, u64)]| status(&judge(&limits, &run(calls)));
    assert_eq!(after(&[("read", 7), ("fsync", 4)]), None);
    assert_eq!(after(&[("read", 7), ("fsync", 4), ("fdatasync", 1)]), Some(1), "{text}");
    assert!(!saved(&[clean(), clean()], "db").contains("calls.fdatasync"), "calls were not counted");
}

#[test]
fn counts_of_calls_other_than_io_may_vary_by_one() {
    let run = |polls: u64, enters: u64| with_calls(1.0, &[("epoll_ctl", polls), ("io_uring_enter", enters)]);
    let limits = parse(&saved(&[run(22, 100), run(22, 100)], "db")).unwrap();
    let after = |polls, enters| status(&judge(&limits, &run(polls, enters)));
    assert_eq!([after(21, 100), after(23, 100), after(24, 100)], [None, None, Some(1)]);
    assert_eq!([after(22, 99), after(22, 101)], [Some(1); 2], "a submission is work");
}

#[test]
fn an_unused_opcode_has_zero_requests_unless_an_opcode_is_unknown() {
    let mut t = clean();
    let of = |t: &TraceRecord, name: &str| {
        let judged = judge(&parse(&format!("[opcode.{name}]\nlatency_p99 = 1\nrequests = 0")).unwrap(), t);
        [judged[0].outcome, judged[1].outcome]
    };
    let unevaluated = BudgetOutcome::NotEvaluated;
    assert_eq!(of(&t, "symlinkat"), [unevaluated, BudgetOutcome::Kept]);
    assert_eq!(of(&t, "symlinkatt"), [unevaluated; 2]);
    t.total.opcodes[0].opcode = "unknown".into();
    assert_eq!(of(&t, "symlinkat"), [unevaluated; 2]);
}
