//! A trace's page: time of threads and requests, findings with bounds, latencies, rates, rings, files, calls.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::figure::{Axis, Figure, Head, Kind, Line, Panel, Place, Scale, Unit};
use super::words::Sentence;
use super::{Answered, paths, safe};
use crate::terminal::measured::{self, estimate, path_name};
use crate::terminal::spent::label;
use crate::terminal::trace_words::{subject, throughput};
use iotrail_answer::histogram::powers;
use iotrail_answer::summary::measured::{bound_text, of_trace};
use iotrail_answer::traced::in_words;
use iotrail_base::error::Result;
use iotrail_base::words::{UNKNOWN, bytes, count, percent, span};
use iotrail_schema::account::{Bound, Role};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::trace_record::{CountIntervals, FileRequests, LatencyHistogram, RingRecord, TraceRecord};

/// Number of threads, rings, files and calls drawn, busiest first.
const LINES: usize = 12;
/// Number of parts with a class and name of their own.
const NAMED: usize = 8;
const OTHERS: &str = "others";

/// `again`: the command that prints the trace again.
pub fn page(name: &str, t: &TraceRecord, again: &str) -> Result<String> {
    let answer = of_trace(t);
    let figures = [
        account(t),
        latencies(t, Place::First, "latencies-path", "Latency by delivery path", |h| {
            h.vehicle.map_or(UNKNOWN, DeliveryPath::name).to_owned()
        }),
        latencies(t, Place::Open, "latencies", "Latency by opcode", |h| h.opcode.clone()),
        rates(t),
        delivered(t),
        rings(t),
        files(t),
        calls(t),
    ];
    let page = Answered {
        title: format!("{name}: {}", subject(t).join(" · ")),
        answer: answer.answer,
        name: format!("iotrail-{}", safe::file_name(name)),
        between_title: if t.findings.is_empty() {
            "What was traced"
        } else {
            "Findings, with upper bounds of the possible savings"
        },
        between: said(t, answer.advice, again),
        figures: figures.into_iter().flatten().collect(),
    };
    page.page()
}

fn said(t: &TraceRecord, advice: Option<String>, again: &str) -> Vec<Sentence> {
    let host = &t.total.host;
    let about = [subject(t), throughput(t), vec![format!("{}, Linux {}", host.hostname, host.kernel)]].concat();
    let finding = |f: &iotrail_schema::finding::Finding| {
        let bound = f.bound.map(bound).unwrap_or_default();
        let remedy = if f.remedy.is_empty() { String::new() } else { format!(" Do: {}.", f.remedy) };
        format!("{bound}{}.{remedy}", f.text)
    };
    let warnings = t.total.warnings.iter().map(|w| match w.remedy.as_str() {
        "" => format!("Limits: {}", w.text),
        remedy => format!("Limits: {}; {remedy}", w.text),
    });
    std::iter::once(about.join(" · "))
        .chain(advice.filter(|_| t.findings.is_empty()))
        .chain(t.findings.iter().map(finding))
        .chain(warnings)
        .chain([format!("{again} --full prints everything")])
        .map(Sentence::new)
        .collect()
}

/// `Saves at most 12 % of the latency: `.
fn bound(bound: Bound) -> String {
    format!("Saves {}: ", bound_text(bound))
}

/// Index of the column with the parts' lengths.
const LENGTH: usize = 2;

/// A figure of stacked bars, with details of each part.
struct Bars {
    id: &'static str,
    title: String,
    reads: &'static str,
    place: Place,
    columns: Vec<(&'static str, Unit)>,
    axis: &'static str,
    unit: Unit,
    rows: Vec<Vec<Value>>,
    panels: Vec<Panel>,
}

struct Part {
    name: String,
    size: f64,
    row: Vec<Value>,
}

impl Bars {
    /// The third column is the length of the parts, in the unit of the axis.
    fn new(
        (id, title): (&'static str, impl Into<String>),
        reads: &'static str,
        place: Place,
        columns: &[(&'static str, Unit)],
        axis: &'static str,
    ) -> Self {
        let (title, unit, columns) = (title.into(), columns[LENGTH].1, columns.to_vec());
        Self { id, title, reads, place, columns, axis, unit, rows: Vec::new(), panels: Vec::new() }
    }

    fn panel(
        &mut self,
        title: &str,
        lines_are: &str,
        lines: Vec<(Line, Vec<Part>)>,
        looks: &dyn Fn(&str, usize) -> &'static str,
    ) {
        let x = Axis::new(self.axis, self.unit, Scale::Linear);
        let mut panel = Panel::new(title, Kind::Bars, x, Axis::names(lines_are));
        panel.x_column = Some(LENGTH);
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        lines.iter().flat_map(|(_, parts)| parts).for_each(|p| *sums.entry(&p.name).or_default() += p.size);
        let mut names: Vec<(&str, f64)> = sums.into_iter().collect();
        names.sort_by(|a, b| b.1.total_cmp(&a.1));
        let names: Vec<String> = names.into_iter().take(NAMED).map(|(name, _)| name.to_owned()).collect();
        let mut marks: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (at, (line, parts)) in lines.into_iter().enumerate() {
            panel.lines.push(line);
            for part in parts {
                let look = names.iter().position(|name| *name == part.name).unwrap_or(names.len());
                marks.entry(look).or_default().push((self.rows.len(), at));
                self.rows.push(part.row);
            }
        }
        for (look, marks) in marks {
            let name = names.get(look).map_or(OTHERS, String::as_str);
            let series = panel.series(name, looks(name, look));
            marks.into_iter().for_each(|(row, at)| series.mark(row, at));
        }
        if panel.marks() > 0 {
            self.panels.push(panel);
        }
    }

    fn figure(self) -> Option<Figure> {
        let is_of_time = self.unit != Unit::Number;
        let head = Head { id: self.id, title: &self.title, reads: self.reads, is_of_time };
        Figure::plain(head, self.place, &self.columns, self.rows, self.panels)
    }
}

fn part_look(name: &str, look: usize) -> &'static str {
    // Delivery paths have fixed colours; other parts get well-separated colours.
    const LOOKS: [&str; 9] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "n3"];
    paths::class(name).unwrap_or(LOOKS[look.min(NAMED)])
}

/// Threads × time, and the requests' stages.
fn account(t: &TraceRecord) -> Option<Figure> {
    let account = t.account.as_ref()?;
    let reads = "A bar is a thread's total wall time, or the total latency of the requests. The table marks parts that are estimated from samples.";
    let columns =
        [("of", Unit::Text), ("part", Unit::Text), ("share", Unit::Share), ("ns", Unit::Ns), ("exact", Unit::Text)];
    let mut bars = Bars::new(("account", "Where the time went"), reads, Place::First, &columns, "share of the time");
    let yes = |exact: bool| json!(if exact { "yes" } else { "sampled" });
    let thread = |thread: &iotrail_schema::account::ThreadAccount| {
        let role = match thread.role {
            Role::Thread => "",
            Role::Sqpoll => ", SQPOLL",
            Role::Iowq => ", io-wq",
        };
        let name = format!("{} ({}{role})", thread.comm, thread.tid);
        let part = |row: &iotrail_schema::account::ThreadRow| {
            let share = row.ns as f64 / thread.wall_ns.max(1) as f64;
            let label = label(row);
            Part {
                row: vec![json!(name), json!(label), json!(share), json!(row.ns), yes(row.exact)],
                name: label,
                size: row.ns as f64,
            }
        };
        let line = Line { name: name.clone(), says: span(thread.wall_ns as f64), ..Line::default() };
        (line, thread.rows.iter().filter(|row| row.ns > 0).map(part).collect())
    };
    let shown = account.threads.len().min(LINES);
    let title_of_threads = title("Threads", shown, account.threads.len() + account.more_threads as usize);
    bars.panel(&title_of_threads, "thread", account.threads.iter().take(LINES).map(thread).collect(), &part_look);
    if let Some(requests) = &account.requests {
        let part = |row: &iotrail_schema::account::RequestRow| {
            let reason = row.reason.as_ref().map(|reason| format!(" ({})", in_words(reason))).unwrap_or_default();
            let name = format!("{}{reason}", in_words(&row.stage));
            let share = row.ns as f64 / requests.latency_sum_ns.max(1) as f64;
            let cells = vec![json!("requests"), json!(name), json!(share), json!(row.ns), yes(row.exact)];
            Part { row: cells, name, size: row.ns as f64 }
        };
        let name = format!("{} requests", count(requests.count as f64));
        let line = Line { name, says: format!("{} each", span(requests.mean_ns())), ..Line::default() };
        let title = format!("Requests, {} to {}", in_words(&requests.from), in_words(&requests.to));
        let parts = requests.rows.iter().filter(|row| row.ns > 0).map(part).collect();
        bars.panel(&title, "", vec![(line, parts)], &part_look);
    }
    bars.figure()
}

/// A histogram with stacked bars.
fn latencies(
    t: &TraceRecord,
    place: Place,
    id: &'static str,
    title: &str,
    part: impl Fn(&LatencyHistogram) -> String,
) -> Option<Figure> {
    let mut sums: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
    for histogram in &t.total.latency_histograms {
        for bucket in &histogram.buckets {
            *sums.entry(bucket.at_least_ns).or_default().entry(part(histogram)).or_default() += bucket.requests;
        }
    }
    let all: u64 = sums.values().flat_map(BTreeMap::values).sum();
    let reads = "Requests by latency, in powers of two: each row begins where the previous one ends. Traced requests represent all requests.";
    let columns = [("at_least_ns", Unit::Ns), ("part", Unit::Text), ("share", Unit::Share), ("requests", Unit::Number)];
    let mut bars = Bars::new((id, title), reads, place, &columns, "share of the requests");
    let mut lines = Vec::new();
    for at in powers(sums.keys().copied()) {
        let parts = sums.remove(&at).unwrap_or_default();
        let here: u64 = parts.values().sum();
        let name = format!("from {}", span(at as f64));
        let line = Line { name, says: percent(here as f64 / all as f64), ..Line::default() };
        let part = |(name, n): (String, u64)| {
            let share = n as f64 / all as f64;
            Part { row: vec![json!(at), json!(name), json!(share), json!(n)], name, size: n as f64 }
        };
        lines.push((line, parts.into_iter().map(part).collect()));
    }
    bars.panel("", "latency", lines, &part_look);
    bars.figure()
}

fn rates(t: &TraceRecord) -> Option<Figure> {
    let timeline = t.total.timeline.as_ref()?;
    let seconds = timeline.slice_ns as f64 / 1e9;
    // The last slice is shorter than the rest.
    let slices = timeline.slices.get(..timeline.slices.len().saturating_sub(1))?;
    let mut panels = Vec::new();
    let units = [
        (1, "Completions per second", Unit::PerSecond),
        (2, "Mean latency", Unit::Ns),
        (3, "Longest latency", Unit::Ns),
    ];
    for (column, title, unit) in units {
        let x = Axis::new("seconds", Unit::Number, Scale::Linear);
        let mut panel = Panel::new("", Kind::Points, x, Axis::new(title, unit, Scale::Auto));
        (panel.x_column, panel.y_column) = (Some(0), Some(column));
        let series = panel.series(title, "p-enter");
        let known = |slice: &iotrail_schema::trace_record::TimeSlice| column == 1 || slice.latency_mean_ns.is_some();
        slices.iter().enumerate().filter(|(_, slice)| known(slice)).for_each(|(row, _)| series.mark(row, 0));
        panels.push(panel);
    }
    let row = |(i, slice): (usize, &iotrail_schema::trace_record::TimeSlice)| {
        vec![
            json!(i as f64 * seconds),
            json!(slice.completions as f64 / seconds),
            json!(slice.latency_mean_ns),
            json!(slice.latency_max_ns),
        ]
    };
    let rows: Vec<Vec<Value>> = slices.iter().enumerate().map(row).collect();
    let columns = [
        ("at_s", Unit::Number),
        ("completions_per_second", Unit::PerSecond),
        ("latency_mean_ns", Unit::Ns),
        ("latency_max_ns", Unit::Ns),
    ];
    let slice = span(timeline.slice_ns as f64);
    let reads = format!("Each point covers {slice} of the trace, starting at the first traced completion.");
    let head = Head { id: "rates", title: "Rates over time", reads: &reads, is_of_time: true };
    Figure::plain(head, Place::Open, &columns, rows, panels).filter(|figure| figure.rows.len() > 1)
}

fn bars_of_counts(
    named: (&'static str, impl Into<String>),
    reads: &'static str,
    place: Place,
    of: &'static str,
    axis: &'static str,
    unit: Unit,
) -> Bars {
    let length = if unit == Unit::Ns { "ns" } else { "count" };
    let columns = [(of, Unit::Text), ("part", Unit::Text), (length, unit), ("detail", Unit::Text)];
    Bars::new(named, reads, place, &columns, axis)
}

fn counted(of: &str, part: &str, n: u64, detail: &str) -> Part {
    Part { name: part.to_owned(), size: n as f64, row: vec![json!(of), json!(part), json!(n), json!(detail)] }
}

fn paths_of(of: &str, all: &[DeliveryPathCount], intervals: &CountIntervals) -> Vec<Part> {
    let part = |v: &DeliveryPathCount| {
        let estimate = intervals.get(&path_name(v)).map(|interval| match interval {
            Some([lo, hi]) => format!("estimate, {} to {} (95 %)", count(*lo), count(*hi)),
            None => "estimate without an interval: fewer than 5 windows".into(),
        });
        let detail: Vec<String> = v.detail.iter().map(|detail| detail.to_string()).chain(estimate).collect();
        counted(of, v.vehicle.name(), v.completions, &detail.join("; "))
    };
    all.iter().filter(|v| v.completions > 0).map(part).collect()
}

fn delivered(t: &TraceRecord) -> Option<Figure> {
    let reads = "The kernel entry that delivered each completion, from ready to posted. Parts with the same colour differ in their details.";
    let mut bars = bars_of_counts(("delivered", "Delivered by"), reads, Place::Open, "of", "completions", Unit::Number);
    let says = estimate(count(t.total.ios as f64), t.total.ios, "ios", &t.total.count_intervals);
    let line = Line { name: "all".into(), says, ..Line::default() };
    bars.panel("", "", vec![(line, paths_of("all", &t.total.vehicles, &t.total.count_intervals))], &part_look);
    bars.figure()
}

fn title(what: &str, shown: usize, all: usize) -> String {
    if all > shown { format!("{what}: {shown} of {all}") } else { what.to_owned() }
}

fn rings(t: &TraceRecord) -> Option<Figure> {
    let mut all: Vec<&RingRecord> = t.rings.iter().collect();
    all.sort_by_key(|ring| (Reverse(ring.completions), ring.ring));
    let title = title("Rings, by delivery path", all.len().min(LINES), all.len());
    let reads = "Completions of each ring. Its flags are listed below its process.";
    let mut bars = bars_of_counts(("rings", title), reads, Place::Folded, "ring", "completions", Unit::Number);
    let line = |ring: &&RingRecord| {
        let name = format!("ring {} of {} ({}), {}", ring.ring, ring.comm, ring.tgid, ring.flags.join(","));
        let p50 = ring.latency_ns.p50.map_or(UNKNOWN.into(), |ns| span(ns as f64));
        let completions = count(ring.completions as f64);
        let completions = estimate(completions, ring.completions, "completions", &ring.count_intervals);
        let says = format!("{completions} · p50 {p50}");
        (Line { says, name: name.clone(), ..Line::default() }, paths_of(&name, &ring.vehicles, &ring.count_intervals))
    };
    bars.panel("", "ring", all.iter().take(LINES).map(line).collect(), &part_look);
    let context = |c: &iotrail_schema::trace_record::ContextRecord| {
        let name = format!("{} of {} ({})", c.interface, c.comm, c.tgid);
        let line = Line { name: name.clone(), says: count(c.completions as f64), ..Line::default() };
        (line, paths_of(&name, &c.vehicles, &CountIntervals::new()))
    };
    bars.panel("Native and POSIX AIO", "context", t.contexts.iter().take(LINES).map(context).collect(), &part_look);
    bars.figure()
}

fn files(t: &TraceRecord) -> Option<Figure> {
    let files = &t.total.files;
    let reads = "Requests to each file, estimated from the traced ones.";
    let title = title("Files", files.len().min(LINES), files.len());
    let mut bars = bars_of_counts(("files", title), reads, Place::Folded, "file", "requests", Unit::Number);
    let line = |file: &iotrail_schema::trace_record::FileRecord| {
        let name = file.path.clone().unwrap_or_else(|| file.descriptors.join(", "));
        let sorts = [("reads", file.reads), ("writes", file.writes), ("others", file.others)];
        let part = |(sort, requests): (&str, Option<FileRequests>)| {
            let requests = requests?;
            let moved = requests.bytes.map(|b| measured::total(bytes(b.total as u64), b.total, Some(b.ci95)));
            let [lo, hi] = requests.requests.ci95;
            let estimate = (lo < hi).then(|| format!("estimate, {} to {} (95 %)", count(lo), count(hi)));
            let detail: Vec<String> = moved.into_iter().chain(estimate).collect();
            Some(counted(&name, sort, requests.requests.total.round() as u64, &detail.join("; ")))
        };
        let parts = sorts.into_iter().filter_map(part).collect();
        let p50 = file.latency_ns.p50.map_or(UNKNOWN.into(), |ns| span(ns as f64));
        (Line { name: name.clone(), says: format!("p50 {p50}"), ..Line::default() }, parts)
    };
    bars.panel("", "file", files.iter().take(LINES).map(line).collect(), &part_look);
    bars.figure()
}

fn calls(t: &TraceRecord) -> Option<Figure> {
    let mut calls: Vec<_> = t.calls.iter().flatten().filter(|call| call.blocked_ns > 0).collect();
    calls.sort_by_key(|call| Reverse(call.blocked_ns));
    let reads = "Time for which threads were blocked in I/O system calls, summed over all threads.";
    let title = title("Blocked, by system call", calls.len().min(LINES), calls.len());
    let mut bars = bars_of_counts(("calls", title), reads, Place::Folded, "call", "time blocked", Unit::Ns);
    let line = |call: &&iotrail_schema::account::CallRecord| {
        let errors = call.errors.iter().map(|(errno, n)| format!("{errno} {n}")).collect::<Vec<_>>().join(", ");
        let says = format!("{} calls", measured::calls(call));
        let line = Line { name: call.syscall.clone(), says, ..Line::default() };
        (line, vec![counted(&call.syscall, "blocked", call.blocked_ns, &errors)])
    };
    bars.panel("", "system call", calls.iter().take(LINES).map(line).collect(), &part_look);
    bars.figure()
}
