//! The screen of a traced program.

mod account;
mod call_sites;
pub mod compared;
mod contexts;
mod files;
pub mod histogram;
mod opcodes;
mod probes;
mod rings;
mod shares;
mod times;
mod watched;
mod whole;

use self::account::{account, calls};
use self::call_sites::call_sites;
use self::contexts::{context, other_contexts};
use self::rings::{not_listed, others, ring};
pub(super) use self::watched::command;
use self::watched::{cpu, followed, processes, shortly};
pub use self::watched::{subject, throughput};
use self::whole::whole;
use super::fit::{Brief, Turn};
use super::layout::{Column, Screen, cut};
use super::spent::spent;
use super::style::Style;
use super::{View, measured, verdict};
use iotrail_answer::summary::measured::{Verdict, of_trace};
use iotrail_base::words::bytes;
use iotrail_schema::account::Role;
use iotrail_schema::stored_trace::{StoredTrace, TraceState};
use iotrail_schema::trace_record::{ContextRecord, RingRecord, TraceRecord};

/// Maximum number of rings shown in full, busiest first.
const RINGS: usize = 4;

#[cfg(test)]
pub fn screen(t: &TraceRecord, full: bool, style: Style) -> Screen {
    stored(t, View { full, again: "" }, style)
}

/// `view.again`: the command that prints the trace again; empty if the trace is not stored.
pub fn stored(t: &TraceRecord, view: View<'_>, style: Style) -> Screen {
    let answer = of_trace(t);
    if !view.full {
        return brief(t, &answer, view.again, style);
    }
    let mut out = in_full(t, &answer, style);
    if !view.again.is_empty() {
        out.blank();
        out.field("stored", &[view.again.to_owned()]);
    }
    out
}

const CLOSING: &str = "details: trace again with --full, --json or --record FILE";

fn brief(t: &TraceRecord, answer: &Verdict, again: &str, style: Style) -> Screen {
    let full = format!("{again} --full");
    let mut out = match again {
        "" => Brief::new(style, CLOSING, "trace again with --full"),
        _ => Brief::new(style, &format!("details: {full}"), &full),
    };
    let (b, total) = (&mut out, &t.total);
    let sampled = total.followed.is_sample();
    verdict::head(b, answer);
    b.command("program", &subject(t), &shortly(t));
    b.field("I/O", &throughput(t));
    b.field("latency", &verdict::latency(&total.latency_ns, sampled));
    match t.account.as_ref().and_then(|account| account.requests.as_ref()) {
        Some(requests) => {
            let rows = account::requests_spent(requests);
            b.field("requests", &rows).or(Turn::Time, |o| o.field_in_a_line("requests", &rows)).gives_way(Turn::Time);
        }
        None => verdict::time(b, total.stages.as_ref(), sampled),
    }
    for (name, role) in [("threads", Role::Thread), ("SQPOLL", Role::Sqpoll), ("io-wq", Role::Iowq)] {
        let rows = t.account.as_ref().map(|account| spent(account, role)).unwrap_or_default();
        let turn = if role == Role::Thread { Turn::Threads } else { Turn::KernelThreads };
        b.field(name, &rows).or(turn, |o| o.field_in_a_line(name, &rows)).gives_way(turn);
    }
    b.field("delivered by", &verdict::delivered(&total.vehicles, &total.count_intervals)).gives_way(Turn::DeliveredBy);
    b.field("per I/O", &verdict::per_io(&total.per_io, &total.per_io_intervals)).gives_way(Turn::PerIo);
    b.field("CPU", &cpu(total)).gives_way(Turn::Cpu);
    verdict::limits(b, &total.warnings, &answer.answer);
    out.fit()
}

/// One line per stored trace.
pub fn list(out: &mut Screen, traces: &[StoredTrace]) {
    let columns = [
        Column::number("trace", 6),
        Column::words("of", 30),
        Column::words("started (UTC)", 19),
        Column::words("", 8),
        Column::number("bytes", 9),
    ];
    let row = |t: &StoredTrace| {
        let state = if t.state == TraceState::Complete { "" } else { t.state.name() };
        vec![t.trace.clone(), cut(&t.subject, 30), t.started.clone(), state.to_owned(), bytes(t.bytes)]
    };
    out.table(&columns, traces.iter().map(row).collect());
}

fn in_full(t: &TraceRecord, answer: &Verdict, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    verdict::of(o, answer);
    o.field("program", &subject(t));
    o.field("processes", &processes(&t.total.processes, t.total.more_processes));
    o.field("I/O", &throughput(t));
    o.field("traced", &followed(&t.total, t.rings.iter().map(|r| r.overflows).sum()));
    o.field("CPU", &cpu(&t.total));

    let mut busiest: Vec<&RingRecord> = t.rings.iter().collect();
    busiest.sort_by_key(|r| (std::cmp::Reverse(r.completions), r.ring));
    // Summarising a single ring would take the same space but hide its details.
    let shown = if busiest.len() > RINGS + 1 { RINGS } else { busiest.len() };
    for r in &busiest[..shown] {
        o.blank();
        ring(o, t, r);
    }
    if let rest @ [_, ..] = &busiest[shown..] {
        o.blank();
        o.field("other rings", &others(rest));
    }
    let mut busiest: Vec<&ContextRecord> = t.contexts.iter().collect();
    busiest.sort_by_key(|c| (std::cmp::Reverse(c.completions), c.context));
    let shown = if busiest.len() > RINGS + 1 { RINGS } else { busiest.len() };
    for c in &busiest[..shown] {
        o.blank();
        context(o, c, &t.total.followed);
    }
    if let rest @ [_, ..] = &busiest[shown..] {
        o.blank();
        o.field("others", &other_contexts(rest));
    }
    if !t.others.is_empty() {
        o.blank();
        o.field("not listed", &not_listed(&t.others));
    }
    o.blank();
    whole(o, t);

    t.account.iter().for_each(|of_threads| account(o, of_threads, &t.total));
    t.calls.iter().for_each(|of_threads| calls(o, of_threads));
    t.stacks.iter().for_each(|stacks| call_sites(o, stacks));
    measured::remarks(o, &t.findings, &t.total.warnings);
    out
}
