//! The screens of `iotrail stalls`.

use super::layout::{Column, Screen};
use super::style::Style;
use iotrail_answer::diagnose::state;
use iotrail_base::words::{UNKNOWN, percent, plural, span};
use iotrail_schema::stall::{Capture, Stall};

/// Maximum number of stalls and of rows without --full.
const FEW: usize = 15;

pub fn list(all: &[Stall], now_unix_s: u64, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let Some(newest) = all.first() else {
        out.heading("no stall was captured");
        return out;
    };
    out.heading(&format!("{}; the newest: {}", plural(all.len(), "stall"), newest.cause));
    let columns = [
        Column::number("", 4),
        Column::number("ago", 8),
        Column::words("trigger", 23),
        Column::words("process", 24),
        Column::number("lasted", 9),
        Column::words("cause", 28),
    ];
    let row = |(i, s): (usize, &Stall)| {
        vec![
            (i + 1).to_string(),
            ago(s.began_unix_ns, now_unix_s),
            s.trigger.name().to_owned(),
            format!("{} ({})", s.process.comm, s.process.tgid),
            span(s.lasted_ns as f64),
            s.cause.clone(),
        ]
    };
    let most = if full { all.len() } else { FEW };
    out.table(&columns, all.iter().enumerate().take(most).map(row).collect());
    if all.len() > most {
        out.sentence(&format!("{} more: --full", all.len() - most));
    }
    out.sentence("Details of stall N: iotrail stalls N");
    out
}

fn ago(unix_ns: u64, now_unix_s: u64) -> String {
    match now_unix_s.saturating_sub(unix_ns / 1_000_000_000) {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

pub fn one(c: &Capture, now_unix_s: u64, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let s = &c.stall;
    out.heading(&format!("{}: {}", s.trigger.name(), s.text));
    out.blank();
    let group = s.process.cgroup.clone().unwrap_or_else(|| UNKNOWN.into());
    out.field("process", &[format!("{} ({})", s.process.comm, s.process.tgid), group]);
    let state = if s.is_over { "over" } else { "ongoing when the capture was written" };
    out.field(
        "lasted",
        &[span(s.lasted_ns as f64), state.into(), format!("began {} ago", ago(s.began_unix_ns, now_unix_s))],
    );
    out.field("cause", std::slice::from_ref(&s.cause));
    let samples = c.sample_ns.map(|ns| format!("one per {}", span(ns as f64)));
    let of = [plural(c.rings.len(), "sample") + " of rings", plural(c.threads.len(), "sample") + " of threads"];
    out.field("samples", &of.into_iter().chain(samples).collect::<Vec<_>>());
    if let Some(moment) = &c.moment {
        out.blank();
        out.sentence("When the stall was detected:");
        state::now(moment).iter().for_each(|line| out.paragraph("  ", line));
    }
    let most = if full { usize::MAX } else { 3 };
    for stack in c.stacks.iter().take(most) {
        out.paragraph(&format!("  {} ({}) ", stack.tid, stack.comm), &stack.functions.join(" < "));
    }
    if !c.ran.is_empty() {
        out.blank();
        let length = c.ran_during_ns.map_or_else(String::new, |ns| format!(" ({})", span(ns as f64)));
        out.sentence(&format!("On the CPUs from the trigger to the end of the capture{length}:"));
        let all: u64 = c.ran.iter().map(|r| r.ns).sum();
        let columns = [
            Column::number("CPU", 5),
            Column::number("thread", 9),
            Column::words("name", 18),
            Column::number("time", 9),
            Column::number("share", 8),
        ];
        let row = |r: &iotrail_schema::stall::Ran| {
            let share = percent(r.ns as f64 / all.max(1) as f64);
            vec![r.cpu.to_string(), r.tid.to_string(), r.comm.clone(), span(r.ns as f64), share]
        };
        out.table(&columns, c.ran.iter().take(if full { usize::MAX } else { 5 }).map(row).collect());
    }
    out.blank();
    match (&c.trace, &c.not_traced) {
        (Some(trace), _) => {
            out.sentence(&format!("{} traced afterwards.", plural(trace.total.ios as usize, "completion")));
            for f in trace.findings.iter().take(most) {
                out.paragraph("  ", &f.text);
            }
        }
        (None, Some(why)) => out.sentence(&format!("No trace of its requests: {why}.")),
        (None, None) => {}
    }
    out.field("file", std::slice::from_ref(&s.capture));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::stall::{CAPTURE, Ran, StalledProcess, Trigger};

    #[test]
    fn the_threads_on_the_cpus_are_listed_with_the_length_of_their_observation() {
        let stall = Stall {
            trigger: Trigger::Overflow,
            began_unix_ns: 0,
            lasted_ns: 882_000_000,
            is_over: true,
            process: StalledProcess::default(),
            ring: None,
            thread: None,
            cause: String::new(),
            text: String::new(),
            capture: String::new(),
        };
        let capture = Capture {
            schema: CAPTURE.into(),
            stall,
            sample_ns: None,
            rings: vec![],
            threads: vec![],
            moment: None,
            stacks: vec![],
            ran: vec![Ran { cpu: 1, tid: 7, tgid: 7, comm: "rustc".into(), ns: 932_000_000 }],
            ran_during_ns: Some(2_010_000_000),
            trace: None,
            not_traced: None,
        };
        let text = one(&capture, 0, false, Style::PLAIN).to_string();
        assert!(text.contains("\nOn the CPUs from the trigger to the end of the capture (2.01 s):\n"), "{text}");
    }
}
