//! `top` without a terminal, and the details of a ring: text with at most 80 columns.

use super::columns::{Column, OF_PROCESSES, Row, fit};
use crate::terminal::layout;
use crate::terminal::measured::{self, VEHICLES};
use crate::terminal::spent;
use crate::terminal::{Screen, Style, WIDTH};
use iotrail_base::words::{UNKNOWN, bytes, count, known_span, numbers, percent, plural};
use iotrail_schema::measurement::Latency;
use iotrail_schema::top_record::{DeliveryPathShare, OpcodeRates, ProcessRates, Rates, RingRates, TopRecord};

/// An interval: the totals, then each active ring.
pub fn block(t: &TopRecord, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    o.field(&clock(t.ended_unix_s), &heading(t));
    o.field("delivered by", &shares(&t.total.rates.vehicles));
    t.processes.iter().for_each(|p| out.field("threads", &threads(p)));
    let o = &mut out;
    let columns = fit(WIDTH as u16, Column::Completions, &[&[Column::DeliveryPaths], OF_PROCESSES].concat());
    let busy: Vec<&RingRates> = t.rings.iter().filter(|r| !Row::of_ring(r).is_idle()).collect();
    if !busy.is_empty() {
        line(o, &columns, |c| c.name().into());
    }
    for r in busy {
        let row = Row::of_ring(r);
        line(o, &columns, |c| c.text(&row));
        o.field("", &beside(&row, &columns));
    }
    out.blank();
    out
}

/// UTC.
fn clock(unix_s: u64) -> String {
    let s = unix_s % 86_400;
    format!("{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// The totals, on one or two lines.
pub(super) fn heading(t: &TopRecord) -> Vec<String> {
    let r = &t.total.rates;
    let mut items = vec![
        format!("{} requests/s", count(r.requests_per_s)),
        format!("{} completions/s", count(r.completions_per_s)),
        format!("{}/s", bytes(r.bytes_per_s.round() as u64)),
        format!("{} errors/s", count(r.errors_per_s)),
        format!("{} kicks/s", t.total.kicks_per_s.map_or(UNKNOWN.into(), count)),
        format!("{} punts/s", count(r.punts_per_s)),
        format!("{} overflows", count(r.overflows as f64)),
    ];
    if t.total.of_no_ring_per_s > 0.0 {
        items.push(format!("{} native aio/s", count(t.total.of_no_ring_per_s)));
    }
    if t.total.lost > 0 {
        items.push(format!("{} events lost", count(t.total.lost as f64)));
    }
    if t.total.followed_lost > 0 {
        items.push(format!("{} traced requests lost", count(t.total.followed_lost as f64)));
    }
    items
}

/// A process's thread time by state.
pub(super) fn threads(p: &ProcessRates) -> Vec<String> {
    let Some(time) = &p.threads else { return Vec::new() };
    let mut items = vec![format!("{} ({}), {}", p.comm, p.tgid, plural(time.threads as usize, "thread"))];
    items.extend(spent::shares(time.rows.iter(), time.wall_ns));
    items
}

fn line(out: &mut Screen, columns: &[(Column, u16)], text: impl Fn(Column) -> String) {
    let mut line = String::new();
    for (i, (column, width)) in columns.iter().enumerate() {
        let text = text(*column);
        let pad = usize::from(*width).saturating_sub(textwrap::core::display_width(&text));
        let (before, after) = if column.is_number() { (pad, 0) } else { (0, pad) };
        line.push_str(if i > 0 { " " } else { "" });
        line.extend([" ".repeat(before).as_str(), text.as_str(), " ".repeat(after).as_str()]);
    }
    out.line(&line);
}

/// Facts about a row that have no column.
fn beside(row: &Row<'_>, columns: &[(Column, u16)]) -> Vec<String> {
    let there = |column| columns.iter().any(|(c, _)| *c == column);
    let mut items = shares(&row.rates.vehicles);
    let some =
        |column: Column, is: bool, what: &str| (is && !there(column)).then(|| format!("{what} {}", column.text(row)));
    items.extend(some(Column::Errors, row.rates.errors_per_s > 0.0, "errors/s"));
    items.extend(some(Column::Punts, row.rates.punts_per_s > 0.0, "punts/s"));
    items.extend(some(Column::Overflows, row.rates.overflows > 0, "overflows"));
    items.extend(some(Column::Sqpoll, row.sqpoll_cpu.is_some(), "SQPOLL"));
    items.extend(some(Column::Delay50, row.rates.delivery_delay_ns.p50.is_some(), "late p50"));
    items
}

fn shares(vehicles: &[DeliveryPathShare]) -> Vec<String> {
    vehicles.iter().map(|v| format!("{} {}", v.vehicle, percent(v.share))).collect()
}

/// A ring's properties, opcodes, delivery paths and stages.
pub(super) fn ring(r: &RingRates, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    let mut head = vec![format!("{} ({})", r.comm, r.tgid)];
    if !r.fds.is_empty() {
        head.push(format!("fd {}", numbers(&r.fds)));
    }
    head.push(if r.flags.is_empty() { "no flags".into() } else { r.flags.join(",") });
    head.push(format!("{} and {} entries", r.sq_entries, r.cq_entries));
    o.field(&format!("ring {}", r.ring), &head);
    o.field("rates", &rates(&r.rates));
    o.field("latency", &quantiles(&r.rates.latency_ns));
    o.field("late by", &quantiles(&r.rates.delivery_delay_ns));
    o.field("SQPOLL", &r.sqpoll_cpu.map(|cpu| format!("{} of a CPU", percent(cpu))).into_iter().collect::<Vec<_>>());
    o.field("stages", &measured::stages(r.stages.as_ref(), true));
    if !r.opcodes.is_empty() {
        o.blank();
        opcodes(o, &r.opcodes);
    }
    if !r.carried.is_empty() {
        o.blank();
        measured::vehicles(o, &r.carried, &Default::default(), VEHICLES);
    }
    out
}

fn rates(r: &Rates) -> Vec<String> {
    vec![
        format!("{} requests/s", count(r.requests_per_s)),
        format!("{} completions/s", count(r.completions_per_s)),
        format!("{}/s", bytes(r.bytes_per_s.round() as u64)),
        format!("{} errors/s", count(r.errors_per_s)),
        format!("{} punts/s", count(r.punts_per_s)),
        format!("{} overflows", count(r.overflows as f64)),
    ]
}

fn quantiles(l: &Latency) -> Vec<String> {
    if l.count == 0 {
        return vec![];
    }
    let text = |name: &str, ns: Option<u64>| format!("{name} {}", known_span(ns));
    let of = plural(l.count as usize, "traced completion");
    vec![text("p50", l.p50), text("p99", l.p99), text("max", l.max), format!("of {of}")]
}

fn opcodes(out: &mut Screen, opcodes: &[OpcodeRates]) {
    let number = layout::Column::number;
    let columns = [
        layout::Column::words("opcode", 15),
        number("req/s", 7),
        number("done/s", 7),
        number("bytes/s", 9),
        number("err/s", 7),
        number("punt/s", 7),
        number("p50", 8),
        number("p99", 8),
    ];
    let row = |o: &OpcodeRates| {
        vec![
            o.opcode.clone(),
            count(o.requests_per_s),
            count(o.completions_per_s),
            bytes(o.bytes_per_s.round() as u64),
            count(o.errors_per_s),
            count(o.punts_per_s),
            known_span(o.latency_ns.p50),
            known_span(o.latency_ns.p99),
        ]
    };
    out.table(&columns, opcodes.iter().map(row).collect());
}
