//! The screen of `explain`: the recording and its losses, then the slowest I/Os.

use super::layout::{Column, Screen};
use super::style::Style;
use super::trace::command;
use iotrail_answer::explain::{Explained, ExplainedIo};
use iotrail_answer::timeline::request;
use iotrail_base::words::{UNKNOWN, and_descendants, list, plural, span};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::recorded::Ending;
use iotrail_schema::trace_record::Subject;
use iotrail_schema::trail::RequestTrace;

pub fn screen(file: &str, e: &Explained, style: Style) -> Screen {
    let mut out = Screen::new(style);
    head(&mut out, file, e);
    out.append(&ios(e, style));
    out
}

/// Only the I/Os, each preceded by an empty line.
pub fn ios(e: &Explained, style: Style) -> Screen {
    let mut out = Screen::new(style);
    for (i, io) in e.ios.iter().enumerate() {
        out.blank();
        one(&mut out, e, i + 1, io);
    }
    out
}

fn head(out: &mut Screen, file: &str, e: &Explained) {
    out.heading(&e.answer);
    if let Some(also) = &e.also {
        out.paragraph("  also  ", also);
    }
    out.blank();
    let h = &e.recording;
    let subject = match &h.subject {
        Subject::Command { argv, .. } => command(argv),
        Subject::Process { tgid, comm, descendants } => {
            format!("process {tgid} ({comm}){}", and_descendants(*descendants))
        }
        Subject::Processes { tgids, descendants } => {
            let tgids = list(&tgids.iter().map(u32::to_string).collect::<Vec<_>>());
            format!("processes {tgids}{}", and_descendants(*descendants))
        }
        Subject::All => "every process".into(),
    };
    out.field("recording", &[file.to_owned(), subject, format!("{}, Linux {}", h.host.hostname, h.host.kernel)]);
    let share = match h.one_in {
        1 if e.losses.is_some_and(|l| l.lost() > 0) => "all requests to be traced".to_owned(),
        1 => "all requests traced".to_owned(),
        n => format!("1 in {n} requests traced"),
    };
    let share = match h.windows {
        None => share,
        Some((open, period)) => format!("{share}, for {} in each {}", span(open as f64), span(period as f64)),
    };
    let completions = plural(e.completions as usize, "completion");
    let completions = match (h.slowest, e.losses) {
        (None, _) => completions,
        (Some(_), Some(all)) => format!("{completions}, the slowest of {}", all.followed),
        (Some(_), None) => format!("{completions}, the slowest"),
    };
    let mut recorded = vec![completions, share, span(e.length_ns as f64)];
    if !e.rings().is_empty() {
        recorded.push(plural(e.rings().len(), "ring"));
    }
    if e.selected != e.completions {
        recorded.push(format!("{} of them selected", e.selected));
    }
    out.field("recorded", &recorded);
    out.field("lost", &lost(e));
    let breaks_off = |at: u64, why: &str| {
        format!("the recording ends at byte {at}: {why}. Later events and their losses are unknown.")
    };
    match e.ending {
        Ending::Whole(_) => (),
        Ending::Cut { at_byte } => out.note(
            "warning: ",
            &breaks_off(at_byte, "iotrail was killed, or the copy of the file is incomplete"),
            true,
        ),
        Ending::Damaged { at_byte } => {
            out.note("warning: ", &breaks_off(at_byte, "the bytes after it are corrupt"), true)
        }
    }
}

fn lost(e: &Explained) -> Vec<String> {
    let Some(l) = e.losses else { return vec!["unknown: the recording has no loss counters".into()] };
    let unfinished = e.ending.end().map_or(0, |end| end.unfinished);
    let mut items = Vec::new();
    match l.lost() {
        0 => items.push("nothing".to_owned()),
        lost => {
            items.push(format!("{lost} of {} completions", l.followed + lost));
            let classes = [
                (l.no_room, "the map was full"),
                (l.ring_buffer_full, "ring buffer full"),
                (l.no_completion, "completion not seen (completion queue full, or event missed)"),
            ];
            let some = classes.into_iter().filter(|(n, _)| *n > 0);
            items.extend(some.map(|(n, what)| format!("{what}: {n}")));
        }
    }
    const SHOWN: usize = 3;
    let when = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
    for s in e.loss_spans.iter().take(SHOWN) {
        items.push(format!("{} from {} to {}", s.no_room + s.ring_buffer_full, when(s.from_ns), when(s.to_ns)));
    }
    if e.loss_spans.len() > SHOWN {
        items.push(format!("and in {} more", plural(e.loss_spans.len() - SHOWN, "span")));
    }
    if unfinished > 0 {
        items.push(format!("{unfinished} unfinished at the end"));
    }
    items
}

/// The I/O's file: `/data/a (fd 7)`, `socket (fd 9)`.
fn file(e: &Explained, t: &RequestTrace) -> Option<String> {
    let name = e.ending.end().and_then(|end| end.file_of(t)).or(t.file.map(|f| f.kind.name().into()));
    match (name, t.descriptor) {
        (Some(name), Some(descriptor)) => Some(format!("{name} ({descriptor})")),
        (name, descriptor) => name.or(descriptor.map(|d| d.to_string())),
    }
}

fn one(out: &mut Screen, e: &Explained, number: usize, io: &ExplainedIo) {
    let t = &io.trail;
    let process = e.processes().iter().find(|p| p.tgid == t.tgid);
    let of = process.map_or(format!("process {}", t.tgid), |p| format!("{} ({})", p.comm, p.tgid));
    let ring = match t.ring {
        Some(r) => {
            let flags = e.rings().iter().find(|x| x.ring == r).map(|x| x.flags.join(",")).unwrap_or_default();
            if flags.is_empty() { format!("ring {r}") } else { format!("ring {r} ({flags})") }
        }
        None => "unknown ring".into(),
    };
    let sign = if io.submitted_after_ns < 0 { "-" } else { "" };
    let what = if io.is_of_delivery() { " of delivery" } else { "" };
    let slow = format!("{}{what}", span(io.slowness_ns as f64));
    let mut title = vec![request(t)];
    title.extend(file(e, t));
    title.extend([
        ring,
        format!("thread {} of {of}", t.tid),
        format!("at {sign}{:.6} s", io.submitted_after_ns.unsigned_abs() as f64 / 1e9),
    ]);
    out.heading_after(&format!("{number}. {slow}  "), &title.join(" · "));
    for sentence in &io.sentences {
        out.paragraph("   ", sentence);
    }
    let columns = [(11, true), (9, true), (9, false), (6, false), (40, false)]
        .map(|(width, number)| Column::named("", width, number));
    let mut before = None;
    let rows = io.moments.iter().map(|m| {
        // Prints both the time since submission and the time since the previous known stage: after a long wait, the
        // former hides a short delivery.
        let after = m.after_ns.map_or(UNKNOWN.into(), signed);
        let step = m.after_ns.zip(before).map_or(String::new(), |(now, before): (i64, i64)| match now - before {
            step if step < 0 => signed(step),
            step => format!("+{}", signed(step)),
        });
        before = m.after_ns.or(before);
        vec![after, step, m.what.to_owned(), m.cpu.map_or(String::new(), |c| format!("CPU {c}")), m.text.clone()]
    });
    out.rows(&columns, rows.collect());
    let mut also = Vec::new();
    match t.switches_meanwhile {
        // Completions posted by a worker or helper did not wait for that CPU.
        Some(n) if n > 0 && !matches!(t.vehicle, DeliveryPath::Iowq | DeliveryPath::Kworker | DeliveryPath::Thread) => {
            also.push(format!("its CPU switched threads {} in this time", times(n)))
        }
        _ => (),
    }
    if t.more {
        also.push("it has further completions".into());
    }
    if t.notification {
        also.push("it is the notification that the buffer is free".into());
    }
    if !also.is_empty() {
        out.paragraph("   ", &format!("Also: {}.", list(&also)));
    }
}

fn signed(ns: i64) -> String {
    match ns {
        0 => "0".into(),
        ns if ns < 0 => format!("-{}", span(ns.unsigned_abs() as f64)),
        ns => span(ns as f64),
    }
}

fn times(n: u32) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}
