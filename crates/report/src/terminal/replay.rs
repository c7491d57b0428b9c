//! The screen of `replay`: the answer, the self-check, the arms, and the limits.

use super::layout::{Cell, Column, Screen};
use super::style::Style;
use iotrail_base::words::{UNKNOWN, count, list, per_io, percent, plural, span, three_digits};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::replay_record::{BatchKind, Fidelity, ReplayArm, ReplayLimit, ReplayRecord};

/// Lines without `--full`.
const SHORT: usize = 20;

pub fn screen(r: &ReplayRecord, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    out.heading(&r.answer);
    out.field(
        "replayed",
        &[
            plural(r.ios as usize, "request"),
            plural(r.threads, "thread"),
            plural(r.pairs, "pair"),
            batches(r.batches).into(),
        ],
    );
    self_check(&mut out, r);
    arms(&mut out, r);
    limits(&mut out, &r.limits, full);
    if full {
        counts(&mut out, &r.arms);
        reasons(&mut out, &r.arms);
    }
    out
}

fn batches(kind: BatchKind) -> &'static str {
    match kind {
        BatchKind::Fixed => "batches of one size (not merged)",
        BatchKind::AsReaped => "batches equal to the number reaped (merged)",
        BatchKind::Varied => "batches of varied sizes (not merged)",
        BatchKind::Unknown => "batches not classified",
    }
}

fn self_check(out: &mut Screen, r: &ReplayRecord) {
    let columns = [
        Column::words("self-check, traced", 18),
        Column::number("recorded", 10),
        Column::number("replayed", 10),
        Column::number("error", 8),
        Column::words("95 % interval", 22),
    ];
    type Show = fn(f64) -> String;
    let figures: [(&str, &str, Show); 5] = [
        ("iops", "IOPS", count),
        ("latency_p50", "latency p50", span),
        ("latency_p99", "latency p99", span),
        ("in_flight", "in flight", three_digits),
        ("calls_per_io", "calls per I/O", per_io),
    ];
    let row = |(id, words, show): &(&str, &str, Show)| -> Option<Vec<Cell>> {
        let f: &Fidelity = r.fidelity.get(*id)?;
        let shown = |x: Option<f64>| x.map_or(UNKNOWN.into(), show);
        let signed = |x: f64| format!("{}{}", if x < 0.0 { "-" } else { "+" }, percent(x.abs()));
        let interval = f.ci95.map_or(UNKNOWN.into(), |[lo, hi]| format!("{} to {}", signed(lo), signed(hi)));
        Some(vec![
            (*words).into(),
            shown(f.recorded).into(),
            shown(f.replayed).into(),
            f.error.map_or(UNKNOWN.into(), signed).into(),
            interval.into(),
        ])
    };
    out.table(&columns, figures.iter().filter_map(row).collect());
}

fn arms(out: &mut Screen, r: &ReplayRecord) {
    let columns = [
        Column::words("replay, not traced", 30),
        Column::number("calls/I/O", 9),
        Column::number("CPU/I/O", 8),
        Column::number("IOPS", 8),
        Column::words("ratio (95 %)", 19),
    ];
    let row = |arm: &ReplayArm| -> Vec<Cell> {
        let iops = arm.comparisons.iter().find(|c| c.metric == "iops");
        vec![
            arm.name.as_str().into(),
            arm.counts.calls_per_io.map_or(UNKNOWN.into(), per_io).into(),
            arm.cpu_per_io_ns.map_or(UNKNOWN.into(), span).into(),
            arm.iops.map_or(UNKNOWN.into(), count).into(),
            iops.map_or(String::new(), ratio).into(),
        ]
    };
    out.table(&columns, r.arms.iter().map(row).collect());
}

fn ratio(c: &Comparison) -> String {
    match (c.verdict, c.ratio, c.ci95) {
        (Verdict::Faster | Verdict::Slower | Verdict::Equivalent, Some(ratio), Some([lo, hi])) => {
            format!("{} ({}–{})", three_digits(ratio), three_digits(lo), three_digits(hi))
        }
        _ => "no answer".into(),
    }
}

fn limits(out: &mut Screen, limits: &[ReplayLimit], full: bool) {
    let lines = |out: &Screen| out.as_str().lines().count();
    for (at, limit) in limits.iter().enumerate() {
        let mut with = out.clone();
        with.note("limit: ", &format!("{} ({})", limit.text, limit.code), true);
        let has_more = at + 1 < limits.len();
        if !full && lines(&with) + usize::from(has_more) > SHORT {
            let codes: Vec<String> = limits[at..].iter().map(|l| l.code.clone()).collect();
            out.note("", &format!("more limits: {}; --full prints them", list(&codes)), true);
            return;
        }
        *out = with;
    }
}

fn counts(out: &mut Screen, arms: &[ReplayArm]) {
    out.blank();
    let columns = [
        Column::words("per I/O", 26),
        Column::number("kicks", 7),
        Column::number("device\nIRQs", 7),
        Column::number("resched.\nIPIs", 8),
        Column::number("context\nswitches", 8),
        Column::number("task-work\nruns", 9),
        Column::number("punts", 7),
    ];
    let row = |arm: &ReplayArm| -> Vec<Cell> {
        let c = &arm.counts;
        let of = |x: Option<f64>| Cell::from(x.map_or(UNKNOWN.into(), per_io));
        vec![
            arm.name.as_str().into(),
            of(c.kicks_per_io),
            of(c.device_irqs_per_io),
            of(c.resched_ipis_per_io),
            of(c.context_switches_per_io),
            of(c.task_work_runs_per_io),
            of(c.punts_per_io),
        ]
    };
    out.table(&columns, arms.iter().map(row).collect());
}

/// All comparisons with their caveats.
fn reasons(out: &mut Screen, arms: &[ReplayArm]) {
    for arm in arms.iter().filter(|arm| !arm.comparisons.is_empty()) {
        out.blank();
        super::compare::tables(out, &arm.comparisons);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(code: &str) -> ReplayLimit {
        ReplayLimit {
            code: code.into(),
            text: "a limit that takes more than one line, since it explains what it does to the numbers".into(),
        }
    }

    #[test]
    fn a_replay_screen_has_at_most_20_lines_and_lists_other_limits() {
        let f =
            Fidelity { recorded: Some(1000.0), replayed: Some(980.0), error: Some(-0.02), ci95: Some([-0.03, 0.01]) };
        let figures = ["iops", "latency_p50", "latency_p99", "in_flight", "calls_per_io"];
        let arm = ReplayArm {
            name: "unchanged".into(),
            upper_bound: false,
            per_call: false,
            counts: Default::default(),
            cpu_per_io_ns: Some(5000.0),
            iops: Some(980.0),
            comparisons: Vec::new(),
        };
        let record = ReplayRecord {
            schema: "iotrail.replay/1".into(),
            recording: "r".into(),
            answer: "The unchanged replay has 0.98 times the recorded IOPS.".into(),
            ios: 1000,
            threads: 1,
            pairs: 10,
            batches: BatchKind::Fixed,
            fidelity: figures.iter().map(|name| (name.to_string(), f)).collect(),
            capture_slowdown: Some(1.1),
            arms: vec![arm.clone(), ReplayArm { name: "--depth 4".into(), ..arm }],
            limits: ["think_time", "page_cache", "left_out", "errors", "copies"].map(limit).to_vec(),
        };
        let short = screen(&record, false, Style::PLAIN);
        let text = short.as_str();
        assert!(text.lines().count() <= SHORT, "{text}");
        assert!(text.starts_with("The unchanged replay has 0.98 times"), "{text}");
        assert!(text.contains("copies; --full prints them"), "{text}");
        assert!(screen(&record, true, Style::PLAIN).as_str().contains("(copies)"));
    }
}
