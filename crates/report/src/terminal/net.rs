//! The network load: a server's seconds and their sum, and the screen of one measurement.

mod brief;

use std::io::{IsTerminal as _, Write as _};

use serde_json::{Map, Value};

use super::layout::{Column, Screen};
use super::style::Style;
use super::{measured, verdict};
use iotrail_answer::diagnose::findings_of;
use iotrail_answer::per_io;
use iotrail_answer::summary::measured::of_measurement;
use iotrail_base::words::{UNKNOWN, bytes, count, list, percent, plural, span};
use iotrail_schema::measurement::Engine;
use iotrail_schema::measurement::{Measurement, Ring};
use iotrail_schema::net_record::{
    Memory, NetRecord, SenderPlan, SenderRecord, ServedRecord, ServerCounts, ServerRecord,
};
use iotrail_schema::run_record::value_text;

/// Lines between two headings.
const HEADED: u64 = 20;

const HEADING: &str = "   req/s    in/s   out/s   idle   user system loops/s  each  over no-buf  conns";

/// Prints a server's per-second counts as each second ends.
pub struct Seconds {
    threads: usize,
    /// Standard output is used for something else.
    apart: bool,
    told: u64,
}

impl Seconds {
    /// `apart`: print on standard error.
    pub fn new(threads: usize, apart: bool) -> Self {
        Self { threads, apart, told: 0 }
    }

    pub fn tell(&mut self, counts: &ServerCounts, connections: u64) {
        let terminal = if self.apart { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        if self.told == 0 || (terminal && self.told.is_multiple_of(HEADED)) {
            self.line(HEADING);
        }
        self.told += 1;
        self.line(&second(counts, self.threads, connections));
    }

    fn line(&self, line: &str) {
        // The server continues even if its output has no reader.
        match self.apart {
            true => writeln!(std::io::stderr().lock(), "{line}").unwrap_or(()),
            false => writeln!(std::io::stdout().lock(), "{line}").unwrap_or(()),
        }
    }
}

/// Turns `1.00 M` into `1.00M` for narrow columns.
fn tight(text: String) -> String {
    text.replace(' ', "").replace("iB", "")
}

fn per_second(n: u64, wall_ns: u64) -> f64 {
    if wall_ns == 0 { 0.0 } else { n as f64 / (wall_ns as f64 / 1e9) }
}

/// A share of the time of all threads.
fn share(ns: Option<u64>, of: &ServerCounts, threads: usize) -> String {
    let all = of.wall_ns as f64 * threads as f64;
    ns.filter(|_| all > 0.0).map_or(UNKNOWN.into(), |ns| percent(ns as f64 / all))
}

fn each_loop(of: &ServerCounts) -> String {
    match of.counts.loops {
        0 => UNKNOWN.into(),
        loops => format!("{:.1}", of.counts.completions as f64 / loops as f64),
    }
}

fn second(of: &ServerCounts, threads: usize, connections: u64) -> String {
    let c = &of.counts;
    let rate = |n: u64| per_second(n, of.wall_ns);
    let whole = |n: u64| count(rate(n).round());
    format!(
        "{:>8}{:>8}{:>8}{:>7}{:>7}{:>7}{:>8}{:>6}{:>6}{:>7}{:>7}",
        tight(whole(c.requests)),
        tight(bytes(rate(c.bytes_in).round() as u64)),
        tight(bytes(rate(c.bytes_out).round() as u64)),
        tight(share(of.idle_ns, of, threads)),
        tight(share(of.user_ns, of, threads)),
        tight(share(of.system_ns, of, threads)),
        tight(whole(c.loops)),
        each_loop(of),
        tight(count(c.cq_overflows as f64)),
        tight(count(c.buffers_exhausted as f64)),
        connections
    )
}

/// A server's entire run.
pub fn served(r: &ServedRecord, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    let mut at = vec![r.address.clone()];
    at.extend(r.control.as_ref().map(|control| format!("control {control}")));
    let ring = Ring { requested: listed(&r.options, "ring"), granted: r.granted.clone() };
    o.field("server", &server(&r.engine, &r.options, &ring));
    o.field("at", &at);
    o.blank();
    threads(o, &r.total, &r.threads);
    o.field("answered", &answered(&r.total));
    o.field("connections", &connections(&r.total, r.memory.as_ref()));
    let mut senders = vec![format!("{} measured", plural(r.spans as usize, "span"))];
    if r.broken_spans > 0 {
        senders.push(format!("{} ended early", r.broken_spans));
    }
    if r.refused > 0 {
        senders.push(format!("{} refused", plural(r.refused as usize, "control connection")));
    }
    o.field("senders", &senders);
    o.field("host", &measured::host(&r.host));
    measured::warnings(o, &r.warnings);
    out
}

fn cpu_list(cpus: &[u32]) -> String {
    list(&cpus.iter().map(u32::to_string).collect::<Vec<_>>())
}

/// An option whose value is a list; empty if absent.
fn listed<T: serde::de::DeserializeOwned>(options: &Map<String, Value>, name: &str) -> Vec<T> {
    options.get(name).and_then(|v| serde_json::from_value(v.clone()).ok()).unwrap_or_default()
}

fn server(engine: &Engine, options: &Map<String, Value>, ring: &Ring) -> Vec<String> {
    let mut items = vec![engine.to_string()];
    let threads = options.get("server-threads").and_then(Value::as_u64);
    items.extend(threads.map(|n| plural(n as usize, "thread")));
    let cpus: Vec<u32> = listed(options, "server-cpus");
    if !cpus.is_empty() {
        items.push(format!("on CPU {}", cpu_list(&cpus)));
    }
    for (name, value) in options {
        match (name.as_str(), value) {
            (_, Value::Null) | ("ring" | "server-threads" | "server-cpus", _) => {}
            (_, Value::Array(list)) if list.is_empty() => {}
            ("buffers", value) => items.push(format!("{} of them provided", value_text(value))),
            ("buffer-size", value) => items.push(format!("buffers of {}", bytes(value.as_u64().unwrap_or(0)))),
            (name, value) => match (name.strip_suffix("_ns"), value.as_u64()) {
                (Some(name), Some(ns)) => items.push(format!("{name} {}", span(ns as f64))),
                _ => items.push(format!("{name} {}", value_text(value))),
            },
        }
    }
    if *engine == Engine::IoUring {
        let flags = |v: &[String]| if v.is_empty() { "none".to_owned() } else { v.join(",") };
        let (asked, granted) = (flags(&ring.requested), flags(&ring.granted));
        items.push(if asked == granted { format!("ring {asked}") } else { format!("ring {asked}, granted {granted}") });
    }
    items
}

/// One row per thread, and the total.
fn threads(out: &mut Screen, total: &ServerCounts, threads: &[ServerCounts]) {
    let number = Column::number;
    let columns = [
        Column::words("thread", 6),
        number("requests", 9),
        number("req/s", 7),
        number("in", 8),
        number("out", 8),
        number("idle", 6),
        number("user", 6),
        number("system", 6),
        number("loops", 7),
        number("each", 5),
    ];
    let row = |name: String, of: &ServerCounts, threads: usize| {
        let c = &of.counts;
        vec![
            name,
            count(c.requests as f64),
            count(per_second(c.requests, of.wall_ns).round()),
            bytes(c.bytes_in).replace("iB", ""),
            bytes(c.bytes_out).replace("iB", ""),
            tight(share(of.idle_ns, of, threads)),
            tight(share(of.user_ns, of, threads)),
            tight(share(of.system_ns, of, threads)),
            count(c.loops as f64),
            each_loop(of),
        ]
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    if threads.len() > 1 {
        rows.extend(threads.iter().enumerate().map(|(n, of)| row(n.to_string(), of, 1)));
    }
    rows.push(row("all".into(), total, threads.len().max(1)));
    out.table(&columns, rows);
    out.blank();
}

fn answered(total: &ServerCounts) -> Vec<String> {
    let c = &total.counts;
    let mut items = vec![
        format!("{} in {}", plural(c.requests as usize, "request"), span(total.wall_ns as f64)),
        format!("{} receives, {} sends", count(c.receives as f64), count(c.sends as f64)),
    ];
    if c.requests > 0 {
        items.push(format!("system calls {} per request", measured::ratio(c.syscalls as f64 / c.requests as f64)));
    }
    let some = [
        (c.short_sends, "short sends"),
        (c.zero_copy_sends, "zero-copy sends"),
        (c.zero_copy_copied, "of these copied anyway"),
        (c.cq_overflows, "completions that overflowed the queue"),
        (c.buffers_exhausted, "receives without a free buffer"),
    ];
    items.extend(some.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n as f64))));
    items
}

fn connections(total: &ServerCounts, memory: Option<&Memory>) -> Vec<String> {
    let c = &total.counts;
    let mut items = vec![format!("{} accepted", c.accepted)];
    let some = [
        (c.closed, "closed"),
        (c.reset, "reset"),
        (c.garbage, "closed after invalid data"),
        (c.cut_off, "closed within a request"),
        (c.accept_failures, "accept failures"),
    ];
    items.extend(some.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    if let Some(m) = memory {
        let grown = m.resident_bytes.saturating_sub(m.resident_before_bytes);
        items.push(format!("{} open", m.connections));
        items.push(format!("{} resident, {} more than before the first", bytes(m.resident_bytes), bytes(grown)));
    }
    items
}

/// One measurement.
pub fn screen(m: &Measurement, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let Some(net) = &m.net else { return super::bench::screen(m, full, style) };
    let answer = of_measurement(m);
    if !full {
        return brief::screen(m, net, &answer, style);
    }
    let o = &mut out;
    verdict::of(o, &answer);
    measured::not_seen(o, &m.warnings);
    o.field("load", &load(&net.asked));
    o.field("server", &at(m, net));
    o.field("throughput", &throughput(m));
    o.field("latency", &measured::latency(&m.latency_ns, false));
    o.field("sender", &sender(&net.sender, m.elapsed_ns));
    if let Some(server) = &net.server {
        o.blank();
        threads(o, &server.total, &server.threads);
        o.field("server CPU", &server_cpu(m, server));
        o.field("answered", &answered(&server.total));
        o.field("connections", &connections(&server.total, server.memory.as_ref()));
        o.field("stages", &measured::stages(m.stages.as_deref(), measured::is_sample(m)));
        o.blank();
        match server.engine {
            Engine::Epoll => o.field("delivered by", &["nothing: epoll reports readiness, not completions".into()]),
            _ => measured::vehicles(o, &m.vehicles, &Default::default(), measured::VEHICLES),
        }
        measured::counts(o, "per request", m);
    }
    o.field("host", &measured::host(&m.host));
    if let Some(host) = &net.sender_host {
        o.field("sender's", &measured::host(host));
    }
    measured::remarks(o, &findings_of(m), &m.warnings);
    out
}

fn load(a: &SenderPlan) -> Vec<String> {
    let mut items = vec![
        plural(a.connections as usize, "connection"),
        format!("window {}", a.window),
        format!("request {}, response {}", bytes(a.request_bytes.into()), bytes(a.response_bytes.into())),
        plural(a.threads as usize, "sender thread"),
    ];
    items.extend(a.cpus.as_deref().map(|cpus| format!("on CPU {}", cpu_list(cpus))));
    items.push(match a.rate {
        Some(rate) => format!("open loop, {} requests per second", count(rate)),
        None => "closed loop".into(),
    });
    let mut when = |is: bool, text: String| {
        if is {
            items.push(text);
        }
    };
    when(a.burst > 1, format!("bursts of {}", a.burst));
    when(
        a.reconnect_after.is_some(),
        format!("a new connection after {} responses", a.reconnect_after.unwrap_or_default()),
    );
    when(a.reconnect, "broken connections reopened".into());
    when(a.idle_connections > 0, format!("{} idle connections", a.idle_connections));
    when(a.check != "full", format!("{} checked", a.check));
    when(a.seed.is_some(), format!("seed {}", a.seed.unwrap_or_default()));
    items
}

fn at(m: &Measurement, net: &NetRecord) -> Vec<String> {
    let mut items = vec![net.address.clone(), between(&net.between).into()];
    match &net.server {
        Some(s) => items.extend(server(&s.engine, &s.options, &m.load.ring)),
        None => items.push("not measured".into()),
    }
    items
}

/// How the two ends are connected, in words.
pub(super) fn between(word: &str) -> &str {
    match word {
        "unix" => "over a UNIX socket",
        "loopback" => "over loopback",
        "namespaces" => "between network namespaces",
        "hosts" => "between hosts",
        other => other,
    }
}

fn throughput(m: &Measurement) -> Vec<String> {
    let rate = per_second(m.bytes.unwrap_or(0), m.elapsed_ns).round() as u64;
    vec![
        format!("{} requests/s", m.iops.map_or(UNKNOWN.into(), count)),
        format!("{}/s", bytes(rate)),
        format!("{} in {}", plural(m.ios.unwrap_or(0) as usize, "request"), span(m.elapsed_ns as f64)),
    ]
}

fn sender(s: &SenderRecord, wall_ns: u64) -> Vec<String> {
    let of = |name: &str, ns: u64| match wall_ns {
        0 => format!("{name} {}", span(ns as f64)),
        wall => format!("{name} {} of a CPU", percent(ns as f64 / wall as f64)),
    };
    let mut items = vec![
        of("user", s.user_ns),
        of("system", s.system_ns),
        format!("busiest thread {} (with waits for a CPU)", s.busiest_thread.map_or(UNKNOWN.into(), percent)),
    ];
    let some = [
        (s.unanswered, "never answered"),
        (s.reconnects, "connections reopened"),
        (s.broken, "connections broken"),
        (s.unsent.unwrap_or(0), "not sent in time"),
    ];
    items.extend(some.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    items.extend(s.worst_lag_ns.filter(|ns| *ns > 0).map(|ns| format!("sent at most {} late", span(ns as f64))));
    items
}

fn server_cpu(m: &Measurement, s: &ServerRecord) -> Vec<String> {
    let t = &s.total;
    let of = |name: &str, ns: Option<u64>| match ns {
        Some(ns) if t.wall_ns > 0 => format!("{name} {} of a CPU", percent(ns as f64 / t.wall_ns as f64)),
        _ => format!("{name} {UNKNOWN}"),
    };
    let each = per_io::cpu_ns(m).filter(|ns| *ns > 0.0);
    let mut items = vec![
        format!("{} requests per CPU second", each.map_or(UNKNOWN.into(), |ns| count(1e9 / ns))),
        format!("{} per request", each.map_or(UNKNOWN.into(), span)),
        of("user", t.user_ns),
        of("system", t.system_ns),
    ];
    items.extend(m.cpu.sqpoll_ns.map(|ns| of("SQPOLL threads", Some(ns))));
    items.extend(m.cpu.helpers_ns.filter(|ns| *ns > super::bench::HELPERS_NS).map(|ns| of("other helpers", Some(ns))));
    items
}

#[cfg(test)]
mod tests;
