//! The screen of a watched program.

use super::layout::{Column, Screen};
use super::measured::{self, VEHICLES};
use super::style::Style;
use crate::answer::words::{UNKNOWN, and_descendants, bytes, count, known_span, percent, plural, span};
use crate::measurement::{Latency, StageRecord, VehicleCount};
use crate::trace_record::{
    ContextRecord, CpuPair, EnterBatch, Estimate, IowqRecord, OpcodeRecord, OthersRecord, ProcessRecord, RingRecord,
    RunItems, SqpollRecord, Subject, Total, TraceRecord,
};

/// Rings that are shown in full, the busiest first.
const RINGS: usize = 4;
/// Processes that are named.
const PROCESSES: usize = 6;
/// Sizes of batches and runs that are listed, the most frequent first.
const SIZES: usize = 6;

pub fn screen(t: &TraceRecord, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    o.field("watched", &subject(t));
    o.field("processes", &processes(&t.total.processes, t.total.more_processes));
    o.field("I/O", &throughput(t));
    o.field("followed", &followed(&t.total));
    o.field("CPU", &cpu(&t.total));

    let mut busiest: Vec<&RingRecord> = t.rings.iter().collect();
    busiest.sort_by_key(|r| (std::cmp::Reverse(r.completions), r.ring));
    // One ring less shown in full than there are would only hide that one.
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
        context(o, c);
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

    measured::remarks(o, &t.findings, &t.total.warnings);
    out
}

fn subject(t: &TraceRecord) -> Vec<String> {
    let what = match &t.subject {
        Subject::Command { argv, exit_status } => {
            let end = match exit_status {
                Some(status) => format!("exit status {status}"),
                None => "no exit status known".into(),
            };
            vec![argv.join(" "), end]
        }
        Subject::Process { tgid, comm, descendants } => {
            vec![format!("{comm} ({tgid}){}", and_descendants(*descendants))]
        }
        Subject::Processes { tgids, descendants } => {
            let list: Vec<String> = tgids.iter().map(u32::to_string).collect();
            vec![format!("processes {}{}", list.join(", "), and_descendants(*descendants))]
        }
        Subject::All => vec!["all programs".into()],
    };
    let watched = span(t.total.elapsed_ns as f64);
    let time = match t.total.windows {
        None => format!("for {watched}"),
        Some(w) => format!(
            "for {watched} in {} over {} ({} in each {}): all that follows is of these alone",
            plural(w.opened as usize, "window"),
            span(w.span_ns as f64),
            span(w.open_ns as f64),
            span(w.period_ns as f64),
        ),
    };
    [what, vec![time]].concat()
}

fn processes(processes: &[ProcessRecord], more: u64) -> Vec<String> {
    let one = |p: &ProcessRecord| match p.here {
        None => format!("{} ({})", p.comm, p.tgid),
        Some(here) => format!("{} ({}, here {here})", p.comm, p.tgid),
    };
    let mut items: Vec<String> = processes.iter().take(PROCESSES).map(one).collect();
    let more = processes.len().saturating_sub(PROCESSES) as u64 + more;
    if more > 0 {
        items.push(format!("and {more} more"));
    }
    items
}

fn throughput(t: &TraceRecord) -> Vec<String> {
    let total = &t.total;
    // What requests moved that succeeded without a completion is not known.
    let in_part = total.opcodes.iter().any(OpcodeRecord::bytes_unknown);
    let moved = |n: u64, per: &str| match (in_part, n) {
        (false, n) => format!("{}{per}", bytes(n)),
        (true, 0) => format!("bytes{per} {UNKNOWN}"),
        (true, n) => format!("more than {}{per}", bytes(n)),
    };
    let mut items = vec![
        format!("{} completions", count(total.ios as f64)),
        format!("{} a second", count(total.iops)),
        moved(total.bytes, ""),
        plural(total.errors as usize, "error"),
        format!("{} short", count(total.short_ios as f64)),
    ];
    if total.elapsed_ns > 0 {
        let per_s = total.bytes as f64 / (total.elapsed_ns as f64 / 1e9);
        items.insert(3, moved(per_s.round() as u64, "/s"));
    }
    items
}

/// Which completions latencies and stages are of.
fn followed(total: &Total) -> Vec<String> {
    let f = &total.followed;
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    let mut items = vec![
        f.sampling(),
        format!("{} completions", count(f.completions as f64)),
        format!("{} with all stages", count(f.with_stages as f64)),
    ];
    items.extend(some(f.skipped, "without a completion, as asked"));
    items.extend(some(f.no_completion, "without a completion that was seen"));
    items.extend(some(f.unfinished, "unfinished at the end"));
    items.extend(some(f.no_room, "given up: no room"));
    items.extend(some(f.ring_buffer_full, "lost: buffer full"));
    items.extend(some(f.shared_user_data, "of multishot requests with the same user data: not told apart"));
    items
}

fn cpu(total: &Total) -> Vec<String> {
    let of = |name: &str, ns: Option<u64>| match (ns, total.elapsed_ns) {
        (None, _) => format!("{name} {UNKNOWN}"),
        (Some(ns), 0) => format!("{name} {}", span(ns as f64)),
        (Some(ns), wall) => format!("{name} {} ({} of a CPU)", span(ns as f64), percent(ns as f64 / wall as f64)),
    };
    vec![of("user", total.cpu.user_ns), of("system", total.cpu.system_ns)]
}

fn ring(o: &mut Screen, t: &TraceRecord, r: &RingRecord) {
    let mut head = vec![format!("{} ({})", r.comm, r.tgid)];
    match r.fds.as_slice() {
        [] => {}
        fds => head.push(format!("fd {}", fds.iter().map(u32::to_string).collect::<Vec<_>>().join(","))),
    }
    head.push(if r.flags.is_empty() { "no flags".into() } else { r.flags.join(",") });
    head.push(format!("{} and {} entries", r.sq_entries, r.cq_entries));
    if r.found {
        head.push("there before".into());
    }
    if r.overflows > 0 {
        head.push(format!("{} overflows", count(r.overflows as f64)));
    }
    o.field(&format!("ring {}", r.ring), &head);
    opcodes(o, &r.opcodes);
    o.blank();
    measured::vehicles(o, &r.vehicles, VEHICLES);
    o.field("stages", &stages(r.stages.as_ref()));
    o.field("submitted", &enter_batches(&r.enter_batches, r.enter_calls.as_ref()));
    o.field("task work", &run_items(&r.run_items));
    if t.rings.len() > 1 {
        o.field("order", &measured::order(r.order.as_ref()));
    }
    o.field("SQPOLL", &sqpoll(r.sqpoll.as_ref()));
}

/// A context of native aio, or a process's POSIX AIO.
fn context(o: &mut Screen, c: &ContextRecord) {
    let mut head = vec![c.interface.clone(), format!("{} ({})", c.comm, c.tgid)];
    head.extend(c.entries.map(|n| format!("{n} entries")));
    if c.found {
        head.push("there before".into());
    }
    head.push(format!("{} requests", count(c.requests as f64)));
    head.push(format!("{} results reaped", count(c.reaped as f64)));
    o.field(&format!("context {}", c.context), &head);
    opcodes(o, &c.opcodes);
    o.blank();
    measured::vehicles(o, &c.vehicles, VEHICLES);
    o.field("latency", &latency(&c.latency_ns));
}

/// The contexts that are not shown, in one.
fn other_contexts(contexts: &[&ContextRecord]) -> Vec<String> {
    let sum = |f: fn(&ContextRecord) -> u64| contexts.iter().map(|c| f(c)).sum::<u64>();
    vec![
        plural(contexts.len(), "context"),
        "less busy".into(),
        format!("{} requests", count(sum(|c| c.requests) as f64)),
        format!("{} completions", count(sum(|c| c.completions) as f64)),
        "--json has each".into(),
    ]
}

fn opcodes(o: &mut Screen, opcodes: &[OpcodeRecord]) {
    let number = Column::number;
    let columns = [
        Column::words("opcode", 15),
        number("requests", 8),
        number("done", 6),
        number("bytes", 8),
        number("errors", 6),
        number("io-wq", 6),
        number("p50", 7),
        number("p99", 7),
        number("max", 7),
    ];
    let mut sorted: Vec<&OpcodeRecord> = opcodes.iter().filter(|o| o.requests + o.completions > 0).collect();
    if sorted.is_empty() {
        return;
    }
    sorted.sort_by_key(|o| std::cmp::Reverse((o.completions, o.requests)));
    let whole = |n: u64| count(n as f64);
    let row = |op: &&OpcodeRecord| {
        let l: &Latency = &op.latency_ns;
        vec![
            op.opcode.clone(),
            whole(op.requests),
            whole(op.completions),
            moved(op),
            whole(op.errors),
            whole(op.punted_asked + op.punted_would_block + op.punted_drained),
            known_span(l.p50),
            known_span(l.p99),
            known_span(l.max),
        ]
    };
    o.table(&columns, sorted.iter().map(row).collect());
    for op in sorted {
        o.field("", &odd(op));
    }
}

/// Where some succeeded without a completion, what these moved is not known.
fn moved(op: &OpcodeRecord) -> String {
    match (op.bytes_unknown(), op.bytes) {
        (false, n) => bytes(n),
        (true, 0) => UNKNOWN.into(),
        (true, n) => format!("> {}", bytes(n)),
    }
}

/// What an opcode's row has no column for.
fn odd(op: &OpcodeRecord) -> Vec<String> {
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    let mut items: Vec<String> = [
        some(op.short, "short"),
        some(op.skips, "asked for no completion"),
        some(op.silent(), "had none: they succeeded, or were unfinished at the end"),
        some(op.more, "with more to come"),
        some(op.notifications, "notifications"),
        some(op.punted_asked, "handed to io-wq as asked (IOSQE_ASYNC)"),
        some(op.punted_would_block, "handed to io-wq: would have blocked"),
        some(op.punted_drained, "handed to io-wq: drained (IOSQE_IO_DRAIN)"),
    ]
    .into_iter()
    .flatten()
    .collect();
    items.extend(op.errnos.iter().map(|e| format!("{} {}", count(e.count as f64), e.errno)));
    match items.first_mut() {
        Some(first) => *first = format!("{}: {first}", op.opcode),
        None => return items,
    }
    items
}

/// The parts of the mean latency, and quantiles of the last one.
fn stages(stages: Option<&StageRecord>) -> Vec<String> {
    let mut items = measured::stages(stages);
    let Some(s) = stages.filter(|_| !items.is_empty()) else { return items };
    let delay = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", span(ns as f64)));
    let delays: Vec<String> =
        [delay("p50", s.delivery_delay_ns.p50), delay("p99", s.delivery_delay_ns.p99)].into_iter().flatten().collect();
    if !delays.is_empty() {
        items.push(format!("delivery delay {}", delays.join(", ")));
    }
    items
}

/// Calls by how many requests they brought.
fn enter_batches(batches: &[EnterBatch], all: Option<&Estimate>) -> Vec<String> {
    let requests: u64 = batches.iter().map(|b| b.requests).sum();
    let calls: f64 = batches.iter().map(|b| b.calls).sum();
    if calls <= 0.0 || requests == 0 {
        return Vec::new();
    }
    let Some(all) = all else {
        return vec![format!(
            "io_uring_enter calls {UNKNOWN}: {} followed, which is too few",
            plural(requests as usize, "request")
        )];
    };
    let mut most: Vec<&EnterBatch> = batches.iter().collect();
    most.sort_by(|a, b| b.calls.total_cmp(&a.calls));
    let shown = most.iter().take(SIZES).filter(|b| b.calls > 0.0);
    let one = |b: &&EnterBatch| {
        let size = match b.at_least {
            0 | 1 => "1".to_owned(),
            n => format!("{n} to {}", n * 2 - 1),
        };
        format!("{} of {size}", percent(b.calls / calls))
    };
    let about = format!("about {} io_uring_enter calls", estimated(all));
    std::iter::once(about).chain(shown.map(one)).collect()
}

/// With its interval, where it has one.
fn estimated(e: &Estimate) -> String {
    let of = |n: f64| count(n.round());
    let [lo, hi] = e.ci95;
    if lo == hi { of(e.total) } else { format!("{} ({} to {})", of(e.total), of(lo), of(hi)) }
}

/// Completions by the size of the run that carried them. How many runs there were is counted, not estimated from these.
fn run_items(items: &[RunItems]) -> Vec<String> {
    let carried: u64 = items.iter().map(RunItems::stands_for).sum();
    if carried == 0 {
        return Vec::new();
    }
    let mut most: Vec<&RunItems> = items.iter().filter(|i| i.completions > 0).collect();
    most.sort_by_key(|i| std::cmp::Reverse(i.stands_for()));
    let one = |i: &&RunItems| format!("{} in runs of {}", percent(i.stands_for() as f64 / carried as f64), i.items);
    let rest: u64 = most.iter().skip(SIZES).map(|i| i.stands_for()).sum();
    let rest = (rest > 0).then(|| format!("{} in others", percent(rest as f64 / carried as f64)));
    most.iter().take(SIZES).map(one).chain(rest).collect()
}

fn sqpoll(s: Option<&SqpollRecord>) -> Vec<String> {
    let Some(s) = s else { return Vec::new() };
    let place = s.cpu.filter(|cpu| *cpu >= 0).map(|cpu| format!(", bound to CPU {cpu}")).unwrap_or_default();
    let elapsed_ns = s.elapsed_ns.filter(|ns| *ns > 0);
    let of_a_cpu = s.cpu_ns.zip(elapsed_ns).map(|(ns, elapsed)| percent(ns as f64 / elapsed as f64));
    let worked = s.work_ns.zip(s.cpu_ns.filter(|ns| *ns > 0)).map(|(work, cpu)| percent(work as f64 / cpu as f64));
    let shared =
        (!s.shared_with.is_empty()).then(|| format!("shared with {}", plural(s.shared_with.len(), "other ring")));
    let mut items = vec![
        format!("tid {}{place}", s.tid),
        format!("{} of a CPU", of_a_cpu.unwrap_or(UNKNOWN.into())),
        format!("{} of that work", worked.unwrap_or(UNKNOWN.into())),
        format!("{} requests", count(s.requests as f64)),
        format!("woken {} times", s.wakeups.map_or(UNKNOWN.into(), |n| count(n as f64))),
    ];
    items.extend(shared);
    items
}

/// The rings that are not shown, in one.
fn others(rings: &[&RingRecord]) -> Vec<String> {
    let sum = |f: fn(&RingRecord) -> u64| rings.iter().map(|r| f(r)).sum::<u64>();
    vec![
        format!("{} more, less busy", rings.len()),
        format!("{} requests", count(sum(|r| r.requests) as f64)),
        format!("{} completions", count(sum(|r| r.completions) as f64)),
        bytes(sum(|r| r.bytes)),
        plural(sum(|r| r.errors) as usize, "error"),
        format!("{} overflows", count(sum(|r| r.overflows) as f64)),
        "--json has each".into(),
    ]
}

/// Rings and contexts that the record does not have one by one.
fn not_listed(others: &[OthersRecord]) -> Vec<String> {
    let sum = |f: fn(&OthersRecord) -> u64| others.iter().map(f).sum::<u64>();
    vec![
        format!("{} more rings or contexts", count(sum(|o| o.rings) as f64)),
        format!("{} requests", count(sum(|o| o.requests) as f64)),
        format!("{} completions", count(sum(|o| o.completions) as f64)),
        bytes(sum(|o| o.bytes)),
        plural(sum(|o| o.errors) as usize, "error"),
        "in the totals".into(),
    ]
}

/// What is counted for the program as a whole.
fn whole(o: &mut Screen, t: &TraceRecord) {
    let total = &t.total;
    // One ring or context that did it all has said it.
    let said = |vehicles: &[VehicleCount]| sum(vehicles) == sum(&total.vehicles);
    let said = match (t.rings.as_slice(), t.contexts.as_slice()) {
        ([one], []) => said(&one.vehicles),
        ([], [one]) => said(&one.vehicles),
        _ => false,
    };
    if !said {
        // Those that are not listed one by one are in the totals too.
        let others = |of_rings: bool| {
            let of = t.others.iter().filter(|o| (o.interface == "io_uring") == of_rings);
            of.map(|o| o.rings as usize).sum::<usize>()
        };
        let (rings, contexts) = (t.rings.len() + others(true), t.contexts.len() + others(false));
        let mut items = vec![plural(rings, "ring")];
        items.extend((contexts > 0).then(|| plural(contexts, "aio context")));
        items.push(match total.processes.len() + total.more_processes as usize {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        });
        o.field("in all", &items);
        measured::vehicles(o, &total.vehicles, VEHICLES);
        o.field("latency", &latency(&total.latency_ns));
        o.field("stages", &stages(total.stages.as_ref()));
    }
    o.field("per I/O", &measured::per_io(&total.per_io));
    let mut switches = measured::mode_switches(&total.mode_switches);
    let counted = total.mode_switches.iter().any(|s| s.cause == "page_fault");
    switches.extend(total.page_faults.filter(|_| !counted).map(|n| format!("page_fault {}", count(n as f64))));
    o.field("to user mode", &switches);
    o.field("run sizes", &measured::task_work(&total.task_work_batches));
    o.field("io-wq", &iowq(&total.iowq));
    o.field("interrupts", &measured::interrupts(&total.interrupts));
    o.field("IPIs", &measured::ipis(&total.ipis));
    o.field("ready where", &cpu_pairs(total));
    o.field("order", &measured::order(total.order.as_ref()));
    o.field("probes", &measured::probes(&total.probe));
    measured::where_the_cpu_went(o, total.cpu_shares.as_deref(), total.cpu_samples.as_ref());
    o.field("host", &measured::host(&total.host));
}

fn sum(vehicles: &[VehicleCount]) -> u64 {
    vehicles.iter().map(|v| v.completions).sum()
}

fn latency(l: &Latency) -> Vec<String> {
    if l.count == 0 { Vec::new() } else { measured::latency(l) }
}

fn iowq(w: &IowqRecord) -> Vec<String> {
    if w.workers == 0 && w.completions == 0 {
        return Vec::new();
    }
    let mut items = vec![
        plural(w.workers as usize, "worker"),
        format!("at most {} at a time", w.most_at_once.map_or(UNKNOWN.into(), |n| n.to_string())),
        format!("{} completions", count(w.completions as f64)),
    ];
    items.extend(w.cpu_ns.map(|ns| format!("{} of CPU time", span(ns as f64))));
    items
}

/// Where completions were ready, and where they were posted.
fn cpu_pairs(total: &Total) -> Vec<String> {
    let all: u64 = total.cpu_pairs.iter().map(CpuPair::stands_for).sum();
    let mut most: Vec<_> = total.cpu_pairs.iter().filter(|p| p.completions > 0).collect();
    most.sort_by_key(|p| std::cmp::Reverse(p.stands_for()));
    let followed: u64 = total.cpu_pairs.iter().map(|p| p.completions).sum();
    let one = |p: &&CpuPair| {
        let share = match followed {
            0..measured::FEW => format!("{} of {followed}", p.completions),
            _ => percent(p.stands_for() as f64 / all as f64),
        };
        match p.ready_cpu == p.posted_cpu {
            true => format!("{share} on CPU {} and posted there", p.ready_cpu),
            false => format!("{share} on CPU {}, posted on CPU {}", p.ready_cpu, p.posted_cpu),
        }
    };
    let of = (followed > 0 && followed < total.ios).then(|| format!("of {} followed", count(followed as f64)));
    most.iter().take(SIZES).map(one).chain(of).collect()
}
