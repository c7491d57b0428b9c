//! The first lines of one measurement: the answer, the remedy, then throughput, latency, time and delivery paths.

use std::collections::BTreeMap;

use super::fit::{Brief, Turn};
use super::layout::{Screen, WIDTH, cut};
use super::measured;
use iotrail_answer::callsites;
use iotrail_answer::compare::Metric;
use iotrail_answer::group::shares_of;
use iotrail_answer::summary::by;
use iotrail_answer::summary::measured::{Verdict, bound_text, parts_known};
use iotrail_base::words::{count, known_span, list, percent, plural, span};
use iotrail_schema::account::Bound;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Latency, PerIo, StageRecord, Warning};
use iotrail_schema::trace_record::CountIntervals;

/// Maximum number of limits.
const LIMITS: usize = 2;
/// Maximum number of delivery paths named, and their minimum share.
const PATHS: usize = 4;
const RARE: f64 = 0.001;
/// Length of the bar.
const BAR: usize = WIDTH - 13;

/// Printed above all other results.
pub fn of(out: &mut Screen, v: &Verdict) {
    answer(out, &v.answer);
    advice(out, v.advice.as_deref());
    gain(out, v);
    from(out, v);
    others(out, v, "below");
    out.blank();
}

/// The first lines of the brief screen.
pub fn head(b: &mut Brief, v: &Verdict) {
    let cut = |text: &str, lines: usize| cut(text, lines * (WIDTH - SIGN.len()) - SIGN.len());
    b.part("", |o| answer(o, &v.answer)).or(Turn::Endings, |o| answer(o, &cut(&v.answer, ANSWER)));
    let advised = v.advice.as_deref();
    b.part("", |o| advice(o, advised))
        .or(Turn::Endings, |o| advice(o, advised.map(|text| cut(text, ADVICE)).as_deref()));
    b.part("gain", |o| gain(o, v)).gives_way(Turn::PerIo);
    b.part("call sites", |o| from(o, v)).gives_way(Turn::KernelThreads);
    b.part("", |o| others(o, v, "--full")).or(Turn::OtherFindings, |o| others_in_a_line(o, v));
    b.part("", Screen::blank);
}

/// Indentation below the answer.
const SIGN: &str = "        ";
/// Maximum number of lines of an answer and of its remedy on a full screen.
const ANSWER: usize = 5;
const ADVICE: usize = 5;

fn answer(out: &mut Screen, text: &str) {
    out.heading(text);
}

fn advice(out: &mut Screen, text: Option<&str>) {
    if let Some(text) = text {
        out.paragraph("  do    ", text);
    }
}

/// The most that the remedy could save, unless the answer contains this share.
fn gain(out: &mut Screen, v: &Verdict) {
    let says = |bound: &Bound| v.answer.contains(&percent(bound.share));
    if let Some(bound) = v.bound.filter(|bound| v.advice.is_some() && !says(bound)) {
        out.paragraph("  gain  ", &bound_text(bound));
    }
}

/// The answer's call sites.
fn from(out: &mut Screen, v: &Verdict) {
    if !v.from.is_empty() {
        out.paragraph("  from  ", &callsites::text(&v.from));
    }
}

/// The first warning and the number of others; `rest`: the command or option that prints them.
fn others(out: &mut Screen, v: &Verdict, rest: &str) {
    let first = v.others.iter().find(|f| f.warns());
    if let Some(first) = first {
        out.paragraph("  also  ", first.headline());
    }
    let more = v.others.len() - usize::from(first.is_some());
    if more > 0 {
        let sign = if first.is_some() { SIGN } else { "  also  " };
        out.paragraph(sign, &format!("{} ({rest})", plural(more, "more finding")));
    }
}

fn others_in_a_line(out: &mut Screen, v: &Verdict) {
    let Some(first) = v.others.iter().find(|f| f.warns()) else { return others(out, v, "--full") };
    let end = match v.others.len() {
        1 => " (--full)".to_owned(),
        n => format!(" (and {} more: --full)", n - 1),
    };
    let first = cut(first.headline(), WIDTH - SIGN.len() - end.len());
    out.paragraph("  also  ", &format!("{first}{end}"));
}

/// `p50 91.0 µs · p99 210 µs · max 4.00 ms · mean 95.2 µs`.
pub fn latency(l: &Latency, sampled: bool) -> Vec<String> {
    if l.count == 0 {
        return Vec::new();
    }
    let quantile = |name: &str, ns: Option<u64>| format!("{name} {}", known_span(ns));
    let mut items = vec![quantile("p50", l.p50), quantile("p99", l.p99), quantile("p99.9", l.p99_9)];
    items.push(match sampled {
        true => format!("max {} of {} traced", known_span(l.max), count(l.count as f64)),
        false => quantile("max", l.max),
    });
    items
}

/// The parts of mean latency, also as a bar.
pub fn time(b: &mut Brief, stages: Option<&StageRecord>, sampled: bool) {
    let Some(s) = parts_known(stages, sampled) else { return };
    let shares = |o: &mut Screen| o.field("time", &parts(s).map(|(sign, name, ns)| share(s, sign, name, ns)));
    let part = b.part("time", |o| {
        shares(o);
        o.field("", &[bar(s)]);
    });
    part.or(Turn::Bar, shares).gives_way(Turn::Time);
}

fn parts(s: &StageRecord) -> [(char, &'static str, f64); 3] {
    [('░', "issue", s.issue_ns), ('█', "wait", s.wait_ns), ('▒', "delivery", s.delivery_ns)]
}

/// `▒ delivery 2 % (14.7 µs) of 192 µs (mean)`: the last part names the total.
fn share(s: &StageRecord, sign: char, name: &str, ns: f64) -> String {
    let of = if name == "delivery" { format!(" of {} (mean)", span(s.total_ns)) } else { String::new() };
    format!("{sign} {name} {} ({}){of}", percent(ns / s.total_ns), span(ns))
}

fn bar(s: &StageRecord) -> String {
    let mut bar = String::new();
    let mut until = 0.0;
    for (sign, _, ns) in parts(s) {
        until += ns / s.total_ns;
        let end = (until * BAR as f64).round() as usize;
        while bar.chars().count() < end.min(BAR) {
            bar.push(sign);
        }
    }
    bar
}

/// `enter 82 % (in io_uring_enter) · inline 12 % · others 0.3 %`.
pub fn delivered(vehicles: &[DeliveryPathCount], intervals: &CountIntervals) -> Vec<String> {
    let all: u64 = vehicles.iter().map(|v| v.completions).sum();
    let shares = shares_of(vehicles);
    let is_shown = |(v, share): &(DeliveryPath, f64)| *share >= RARE || *v == DeliveryPath::Unknown;
    let (shown, rare): (Vec<_>, Vec<_>) = shares.into_iter().partition(is_shown);
    let (shown, rest) = shown.split_at(shown.len().min(PATHS));
    let one = |(i, (v, share)): (usize, &(DeliveryPath, f64))| {
        let n = (share * all as f64).round() as u64;
        let share = measured::estimated_share(n, all, &format!("vehicles.{}", v.name()), intervals);
        let words = in_words(*v).filter(|_| i == 0).map(|words| format!(" ({words})")).unwrap_or_default();
        format!("{} {share}{words}", v.name())
    };
    let others: f64 = rest.iter().chain(&rare).map(|(_, share)| share).sum();
    let others = (others > 0.0).then(|| format!("others {}", percent(others)));
    shown.iter().enumerate().map(one).chain(others).collect()
}

/// Explains a path whose name does not.
fn in_words(path: DeliveryPath) -> Option<&'static str> {
    Some(match path {
        DeliveryPath::Inline => "at submission",
        DeliveryPath::ReschedIpi => "on return from a reschedule IPI",
        DeliveryPath::TimerTick | DeliveryPath::PageFault | DeliveryPath::OtherIrq => return None,
        DeliveryPath::Sqpoll | DeliveryPath::Unknown => return None,
        path => by(path),
    })
}

/// Empty if no count is known.
pub fn per_io(p: &PerIo, intervals: &BTreeMap<String, [f64; 2]>) -> Vec<String> {
    const SHOWN: [Metric; 4] =
        [Metric::SyscallsPerIo, Metric::KicksPerIo, Metric::DeviceIrqsPerIo, Metric::ContextSwitchesPerIo];
    let is_known = [p.syscalls, p.kicks, p.device_irqs, p.context_switches].iter().any(Option::is_some);
    if is_known { measured::counted(&SHOWN, p, intervals) } else { Vec::new() }
}

/// The limits that the answer does not mention. Each is at least named.
pub fn limits(b: &mut Brief, warnings: &[Warning], said: &str) {
    let all: Vec<&Warning> = warnings.iter().filter(|w| !said.contains(&w.text)).collect();
    if all.is_empty() {
        return;
    }
    b.blank();
    b.part("", |o| some_limits(o, &all, LIMITS, true))
        .or(Turn::SecondLimit, |o| some_limits(o, &all, 1, true))
        .or(Turn::Remedies, |o| some_limits(o, &all, 1, false))
        .or(Turn::LimitNames, |o| some_limits(o, &all, 0, false));
}

/// The first `most` limits, and the names of the rest.
fn some_limits(out: &mut Screen, all: &[&Warning], most: usize, remedies: bool) {
    for (i, w) in all.iter().take(most).enumerate() {
        let end = if w.remedy.is_empty() || !remedies { String::new() } else { format!("; {}", w.remedy) };
        out.note(if i == 0 { "limits  " } else { SIGN }, &format!("{}{end}", w.text), true);
    }
    if let rest @ [_, ..] = &all[all.len().min(most)..] {
        let codes: Vec<String> = rest.iter().map(|w| w.code.clone()).collect();
        let (label, more) = if most == 0 { ("limits  ", "") } else { (SIGN, " more") };
        out.paragraph(label, &format!("{}{more} (--full): {}", count(rest.len() as f64), list(&codes)));
    }
}
