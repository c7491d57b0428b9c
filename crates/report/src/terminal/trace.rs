//! The screen of a watched program.

use super::layout::{Column, Screen};
use super::measured::{self, SPLIT_NS, TOO_SHORT, VEHICLES};
use super::style::Style;
use super::verdict;
use iotrail_answer::diagnose::threads;
use iotrail_answer::head::measured::of_trace;
use iotrail_base::plain::sanitise;
use iotrail_base::words::{
    UNKNOWN, and_descendants, bytes, count, known_span, list, percent, plural, so_many, span, three_digits,
};
use iotrail_schema::measurement::{Followed, Latency, StageRecord, VehicleCount, Waits};
use iotrail_schema::opcode::always_by_a_worker;
use iotrail_schema::trace_record::{
    ContextRecord, CpuPair, EnterBatch, Estimate, FileRecord, FileRequests, IowqRecord, OpcodeRecord, OthersRecord,
    ProbeCost, ProcessRecord, Reaping, RingRecord, RunItems, Subject, Total, TraceRecord, Windows,
};

/// Rings that are shown in full, the busiest first.
const RINGS: usize = 4;
/// Processes that are named.
const PROCESSES: usize = 6;
/// Sizes of batches and runs that are listed, the most frequent first.
const SIZES: usize = 6;
/// Files that are listed.
const FILES: usize = 8;

pub fn screen(t: &TraceRecord, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    let answer = of_trace(t);
    verdict::of(o, &answer);
    o.field("watched", &subject(t));
    if !full {
        let sampled = t.total.followed.is_sample();
        o.field("I/O", &throughput(t));
        o.field("latency", &verdict::latency(&t.total.latency_ns, sampled));
        verdict::time(o, t.total.stages.as_ref(), sampled);
        o.field("delivered by", &verdict::delivered(&t.total.vehicles));
        o.field("per I/O", &verdict::per_io(&t.total.per_io));
        o.field("CPU", &cpu(&t.total));
        verdict::limits(o, &t.total.warnings, &answer.answer, verdict::LIMITS);
        o.blank();
        o.line("details: trace again with --full or --json; --record FILE keeps each request");
        return out;
    }
    o.field("processes", &processes(&t.total.processes, t.total.more_processes));
    o.field("I/O", &throughput(t));
    o.field("followed", &followed(&t.total, t.rings.iter().map(|r| r.overflows).sum()));
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
        None => vec![format!("for {watched}")],
        Some(w) => windows(&watched, &w),
    };
    [what, time].concat()
}

/// That it was watched by windows, and how long these were.
fn windows(watched: &str, w: &Windows) -> Vec<String> {
    let asked = format!(
        "for {watched} in {} over {} ({} in each {}): all that follows is of these alone",
        plural(w.opened as usize, "window"),
        span(w.span_ns as f64),
        span(w.open_ns as f64),
        span(w.period_ns as f64),
    );
    let parts = w.choosing_ns.zip(w.finishing_ns).map(|(choosing, finishing)| {
        format!("{} to choose requests, {} to finish them", span(choosing as f64), span(finishing as f64))
    });
    [Some(asked), parts].into_iter().flatten().collect()
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

/// Reads and writes of which it is not known how much they ask for.
const VECTORED: [&str; 6] = ["readv", "writev", "readv_fixed", "writev_fixed", "preadv", "pwritev"];

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
        so_many(total.ios, "completion"),
        format!("{} a second", count(total.iops)),
        moved(total.bytes, ""),
        format!("{}{}", plural(total.errors as usize, "error"), errnos(&total.opcodes)),
        format!("{} short{}", count(total.short_ios as f64), short_not_told(&total.opcodes)),
    ];
    if total.elapsed_ns > 0 {
        let per_s = total.bytes as f64 / (total.elapsed_ns as f64 / 1e9);
        items.insert(3, moved(per_s.round() as u64, "/s"));
    }
    items
}

/// Kinds of errors that are named.
const ERRNOS: usize = 3;

/// ` (900 EAGAIN, 100 ECANCELED)`: the most frequent.
fn errnos(opcodes: &[OpcodeRecord]) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for e in opcodes.iter().flat_map(|o| &o.errnos) {
        match sums.iter_mut().find(|(name, _)| *name == e.errno) {
            Some((_, n)) => *n += e.count,
            None => sums.push((&e.errno, e.count)),
        }
    }
    sums.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let named: Vec<String> = sums.iter().take(ERRNOS).map(|(name, n)| format!("{} {name}", count(*n as f64))).collect();
    let more = if sums.len() > ERRNOS { ", …" } else { "" };
    if named.is_empty() { String::new() } else { format!(" ({}{more})", named.join(", ")) }
}

/// Of which operations it is not known whether they were short.
fn short_not_told(opcodes: &[OpcodeRecord]) -> String {
    let of = opcodes.iter().filter(|o| o.short_not_told());
    let (vectored, mut named): (Vec<String>, Vec<String>) =
        of.map(|o| o.opcode.clone()).partition(|name| VECTORED.contains(&name.as_str()));
    named.sort_unstable();
    if !vectored.is_empty() {
        named.push("vectored ones".into());
    }
    if named.is_empty() { String::new() } else { format!(" (of {} not told)", list(&named)) }
}

/// Which completions latencies and stages are of.
fn followed(total: &Total, overflows: u64) -> Vec<String> {
    let f = &total.followed;
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    let mut items = vec![
        f.sampling(),
        so_many(f.completions, "completion"),
        format!("{} with all stages", count(f.with_stages as f64)),
    ];
    items.extend(some(f.came_later.unwrap_or(0), "requests came later, while windows finished: counted, not followed"));
    items.extend(some(f.skipped, "without a completion, as asked"));
    let overflowed = match overflows {
        0 => "without a completion that was seen",
        _ => "without a completion that was seen: one that finds the queue full names no request, and is in no latency",
    };
    items.extend(some(f.no_completion, overflowed));
    let unfinished = if f.is_sample() { "followed ones unfinished at the end" } else { "unfinished at the end" };
    items.extend(some(f.unfinished, unfinished));
    items.extend(some(f.no_room, "given up: no room"));
    items.extend(some(f.ring_buffer_full, "lost: buffer full"));
    items.extend(some(f.unreaped, "whose result was not seen to be reaped"));
    items.extend(some(
        f.shared_user_data,
        "of requests with the same user data or iocb as another open one: not told apart",
    ));
    items
}

fn cpu(total: &Total) -> Vec<String> {
    let of = |name: &str, ns: u64| match total.elapsed_ns {
        0 => format!("{name}{}", span(ns as f64)),
        wall => format!("{name}{} ({} of a CPU)", span(ns as f64), percent(ns as f64 / wall as f64)),
    };
    let (user, system) = (total.cpu.user_ns, total.cpu.system_ns);
    match user.zip(system).map(|(user, system)| user + system) {
        Some(all) if all < SPLIT_NS => vec![of("", all), TOO_SHORT.into()],
        _ => [("user ", user), ("system ", system)]
            .map(|(name, ns)| ns.map_or(format!("{name}{UNKNOWN}"), |ns| of(name, ns)))
            .into(),
    }
}

fn ring(o: &mut Screen, t: &TraceRecord, r: &RingRecord) {
    let mut head = vec![format!("{} ({})", r.comm, r.tgid)];
    match r.fds.as_slice() {
        [] => {}
        fds => head.push(format!("fd {}", fds.iter().map(u32::to_string).collect::<Vec<_>>().join(","))),
    }
    head.push(if r.flags.is_empty() { "no flags".into() } else { r.flags.join(",") });
    head.push(format!("{} and {} entries", r.sq_entries, r.cq_entries));
    head.extend(r.use_of.map(|ring| format!("use of ring {ring}, another process's")));
    if r.found {
        head.push("there before".into());
    }
    if r.overflows > 0 {
        head.push(format!("{} overflows", count(r.overflows as f64)));
    }
    o.field(&format!("ring {}", r.ring), &head);
    opcodes(o, &r.opcodes, &t.total.followed);
    o.blank();
    measured::vehicles(o, &r.vehicles, VEHICLES);
    o.field("stages", &stages(r.stages.as_ref(), r.latency_ns.count, r.waits.as_ref(), &t.total));
    o.field("waits", &waits(r.waits.as_ref()));
    o.field("submitted", &enter_batches(&r.enter_batches, r.enter_calls.as_ref(), &t.total.followed));
    o.field("task work", &run_items(&r.run_items, r.completions));
    if t.rings.len() > 1 {
        o.field("order", &measured::order(r.order.as_ref()));
    }
    o.field("reaped", &reaping(r.reaping.as_ref(), r.cq_entries, &t.total.followed));
    o.field("threads", &threads::told(r, &t.total.followed));
    o.field("SQPOLL", &sqpoll(r));
}

/// A context of native aio, or a process's POSIX AIO.
fn context(o: &mut Screen, c: &ContextRecord, followed: &Followed) {
    let mut head = vec![c.interface.clone(), format!("{} ({})", c.comm, c.tgid)];
    head.extend(c.entries.map(|n| format!("{n} entries")));
    if c.found {
        head.push("there before".into());
    }
    head.push(format!("{} requests", count(c.requests as f64)));
    head.push(format!("{} results reaped", count(c.reaped as f64)));
    o.field(&format!("context {}", c.context), &head);
    opcodes(o, &c.opcodes, followed);
    o.blank();
    measured::vehicles(o, &c.vehicles, VEHICLES);
    o.field("latency", &latency(&c.latency_ns, followed));
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

fn opcodes(o: &mut Screen, opcodes: &[OpcodeRecord], followed: &Followed) {
    let number = Column::number;
    // Of those that were not followed one may have taken longer.
    let max = if followed.is_sample() { number("max seen", 8) } else { number("max", 7) };
    let columns = [
        Column::words("opcode", 15),
        number("requests", 8),
        number("done", 6),
        number("bytes", 8),
        number("errors", 6),
        number("io-wq", 6),
        number("p50", 7),
        number("p99", 7),
        max,
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
        some(op.short.unwrap_or(0), "short"),
        some(op.skips, "asked for no completion"),
        some(op.silent(), "had none: they succeeded, or were unfinished at the end"),
        some(op.unposted, "cancelled without one: a request before them in their chain asked for none, and failed"),
        some(op.more, "with more to come"),
        (op.opcode == "recvmsg" && op.more > 0).then(|| "bytes are those of the buffers, headers included".into()),
        some(op.notifications, "notifications"),
        some(op.punted_asked, "handed to io-wq as asked (IOSQE_ASYNC)"),
        some(
            op.punted_would_block,
            if always_by_a_worker(&op.opcode) {
                "handed to io-wq: always done by a worker"
            } else {
                "handed to io-wq: could not be done without waiting"
            },
        ),
        some(op.punted_drained, "handed to io-wq: drained (IOSQE_IO_DRAIN)"),
        punted_again(op).and_then(|n| some(n, "requests these are, some handed over again")),
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

/// How many requests were handed to io-wq, where that was more often than there are.
fn punted_again(op: &OpcodeRecord) -> Option<u64> {
    let hand_overs = (op.punted_asked + op.punted_would_block + op.punted_drained) as f64;
    op.punted_requests.filter(|e| e.ci95[1] < hand_overs).map(|e| e.total.round() as u64)
}

/// The parts of the mean latency, and quantiles of the last one. `followed`: requests that could have such parts.
fn stages(stages: Option<&StageRecord>, followed: u64, waits: Option<&Waits>, total: &Total) -> Vec<String> {
    let mut items = measured::stages(stages, total.followed.is_sample());
    let Some(s) = stages.filter(|_| !items.is_empty()) else { return items };
    let delay = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", span(ns as f64)));
    let delays: Vec<String> =
        [delay("p50", s.delivery_delay_ns.p50), delay("p99", s.delivery_delay_ns.p99)].into_iter().flatten().collect();
    if !delays.is_empty() {
        items.push(format!("delivery delay {}", delays.join(", ")));
    }
    let without = followed.saturating_sub(waits.map_or(0, |w| w.requests)).saturating_sub(s.completions);
    if without as f64 > WITHOUT_STAGES * followed as f64 {
        let unseen = if total.sampled_events.is_some() { ", or not looked at by the block layer's probes" } else { "" };
        let (without, followed) = (count(without as f64), count(followed as f64));
        items
            .push(format!("the other {without} of {followed} followed have none: done at once or by a worker{unseen}"));
    }
    items
}

/// Fewer than one in ten without stages change little of what the stages say of all.
const WITHOUT_STAGES: f64 = 0.1;

/// What the mean latency, the stages and the order of submission are not of.
fn waits(waits: Option<&Waits>) -> Vec<String> {
    let Some(w) = waits else { return Vec::new() };
    let requests = match w.estimated_ci95 {
        Some([lo, hi]) if hi - lo >= 1.0 => {
            format!("{} to {} requests ({} followed)", count(lo.round()), count(hi.round()), w.requests)
        }
        _ => plural(w.estimated as usize, "request"),
    };
    vec![format!("{requests} open for {} on average", span(w.mean_ns)), "in no mean and no order".into()]
}

/// How long completions lay in the queue, each quantile between its bounds; and how many.
fn reaping(reaping: Option<&Reaping>, cq_entries: u32, followed: &Followed) -> Vec<String> {
    let Some(r) = reaping else { return Vec::new() };
    let between = |name: &str, least: Option<u64>, most: Option<u64>| {
        let (least, most) = (least?, span(most? as f64));
        // What was not met with once has no lower bound.
        Some(if least <= 1 {
            format!("{name} at most {most}")
        } else {
            format!("{name} {} to {most}", span(least as f64))
        })
    };
    let mut items: Vec<String> = [
        between("p50", r.at_least_ns.p50, r.at_most_ns.p50),
        between("p99", r.at_least_ns.p99, r.at_most_ns.p99),
        between("max", r.at_least_ns.max, r.at_most_ns.max),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(first) = items.first_mut() {
        *first = format!("after {first}");
    }
    let deepest = plural(r.deepest as usize, "completion");
    items.push(format!("up to {deepest} in the queue of {cq_entries}"));
    if r.unreaped > 0 {
        items.push(format!("{} not taken out at the end", count(r.unreaped_estimated as f64)));
    }
    let looked_at = r.completions + r.unreaped;
    items.extend((looked_at < followed.completions).then(|| format!("of {} looked at", count(looked_at as f64))));
    items
}

/// Calls by how many requests they brought.
fn enter_batches(batches: &[EnterBatch], all: Option<&Estimate>, followed: &Followed) -> Vec<String> {
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
    let of = if followed.came_later.unwrap_or(0) > 0 { " while requests were chosen" } else { "" };
    let calls = if all.ci95 == [1.0; 2] { "call" } else { "calls" };
    let about = format!("about {} io_uring_enter {calls}{of}", estimated(all));
    std::iter::once(about).chain(shown.map(one)).collect()
}

/// With its interval, where it has one.
fn estimated(e: &Estimate) -> String {
    let of = |n: f64| count(n.round());
    let [lo, hi] = e.ci95;
    if lo == hi { of(e.total) } else { format!("{} ({} to {})", of(e.total), of(lo), of(hi)) }
}

/// Completions by the size of the run that carried them. How many runs there were is counted, not estimated from these.
fn run_items(items: &[RunItems], completions: u64) -> Vec<String> {
    let carried: u64 = items.iter().map(RunItems::stands_for).sum();
    if carried == 0 {
        return Vec::new();
    }
    let mut most: Vec<&RunItems> = items.iter().filter(|i| i.completions > 0).collect();
    most.sort_by_key(|i| std::cmp::Reverse(i.stands_for()));
    let followed: u64 = most.iter().map(|i| i.completions).sum();
    let part = |these: &[&RunItems]| {
        let stands_for: u64 = these.iter().map(|i| i.stands_for()).sum();
        measured::part(these.iter().map(|i| i.completions).sum(), followed, stands_for as f64 / carried as f64)
    };
    let one = |i: &&RunItems| format!("{} in runs of {}", part(&[*i]), i.items);
    let rest = most.get(SIZES..).filter(|rest| !rest.is_empty()).map(|rest| format!("{} in others", part(rest)));
    let of = of_followed(followed, completions);
    most.iter().take(SIZES).map(one).chain(rest).chain(of).collect()
}

/// How many shares are of, where that is not all.
fn of_followed(followed: u64, completions: u64) -> Option<String> {
    (followed > 0 && followed < completions).then(|| format!("of {} followed", count(followed as f64)))
}

fn sqpoll(r: &RingRecord) -> Vec<String> {
    let Some(s) = &r.sqpoll else { return Vec::new() };
    let place = r.sq_thread_place().map(|place| format!(", {place}")).unwrap_or_default();
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
        let rings = t.rings.iter().filter(|r| r.use_of.is_none()).count() + others(true);
        let contexts = t.contexts.len() + others(false);
        let mut items = vec![plural(rings, "ring")];
        items.extend((contexts > 0).then(|| plural(contexts, "aio context")));
        items.push(match total.processes.len() + total.more_processes as usize {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        });
        o.field("in all", &items);
        measured::vehicles(o, &total.vehicles, VEHICLES);
        o.field("latency", &latency(&total.latency_ns, &total.followed));
        // Native and POSIX AIO has none.
        let followed = if t.contexts.is_empty() { total.latency_ns.count } else { 0 };
        o.field("stages", &stages(total.stages.as_ref(), followed, total.waits.as_ref(), total));
        o.field("waits", &waits(total.waits.as_ref()));
    }
    files(o, total);
    o.field("per I/O", &measured::per_io(&total.per_io));
    o.field("estimated", &sampled_events(total));
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
    probe_costs(o, total);
    measured::where_the_cpu_went(o, total.cpu_shares.as_deref(), total.cpu_samples.as_ref());
    o.field("host", &measured::host(&total.host));
}

/// What was looked at a part of the time, since it is frequent.
fn sampled_events(total: &Total) -> Vec<String> {
    let Some(sampled) = &total.sampled_events else { return vec![] };
    let interval = |name: &str, ci95: Option<[f64; 2]>| {
        let [lo, hi] = ci95?;
        Some(format!("{name} {} to {} (95 %)", three_digits(lo), three_digits(hi)))
    };
    let part = sampled.completions as f64 / total.ios.max(1) as f64;
    let mut items = vec![format!("from {} windows with {} of the completions", sampled.windows, percent(part))];
    items.extend(interval("system calls", sampled.syscalls_ci95));
    items.extend(interval("device interrupts", sampled.device_irqs_ci95));
    items.push("--exact looks all the time".into());
    items
}

/// Where followed requests went, the busiest first.
fn files(o: &mut Screen, total: &Total) {
    if total.files.is_empty() {
        return;
    }
    let number = Column::number;
    let columns = [
        Column::words("file", FILE_WIDTH as u16),
        number("reads", 6),
        number("bytes", 8),
        number("writes", 6),
        number("bytes", 8),
        number("other", 6),
        number("mean", 7),
        number("p99", 7),
    ];
    // Of those that were not followed there may have been some.
    let none = if total.followed.is_estimate() { UNKNOWN } else { "0" };
    let requests = |r: &Option<FileRequests>| r.map_or(none.into(), |r| count(r.requests.total.round()));
    let moved = |r: &Option<FileRequests>| {
        r.and_then(|r| r.bytes).filter(|b| b.total > 0.0).map_or(String::new(), |b| bytes(b.total.round() as u64))
    };
    let row = |f: &FileRecord| {
        vec![
            file_name(f),
            requests(&f.reads),
            moved(&f.reads),
            requests(&f.writes),
            moved(&f.writes),
            requests(&f.others),
            f.latency_ns.mean.map_or(String::new(), span),
            known_span(f.latency_ns.p99),
        ]
    };
    // One file less than there are would only hide that one.
    let shown = if total.files.len() > FILES + 1 { FILES } else { total.files.len() };
    if !o.as_str().ends_with("\n\n") {
        o.blank();
    }
    o.table(&columns, total.files[..shown].iter().map(row).collect());
    let rest = &total.files[shown..];
    let n = rest.len() as u64 + total.other_files.map_or(0, |others| others.files);
    if n > 0 {
        let sorts =
            |f: &FileRecord| [f.reads, f.writes, f.others].into_iter().flatten().map(|r| r.requests.total).sum::<f64>();
        let requests: f64 = rest.iter().map(sorts).sum::<f64>() + total.other_files.map_or(0.0, |o| o.requests.total);
        o.line(&format!("{}: {} requests", plural(n as usize, "other"), count(requests.round())));
    }
    if total.followed.is_estimate() {
        o.line("(estimated from the requests that were followed; opcodes are counted)");
        o.line(&format!("({UNKNOWN}: none was followed; files to which none went are missing)"));
    } else if total.opcodes.iter().flat_map(|op| &op.errnos).any(|e| e.user_data.is_none()) {
        o.line("(requests that were refused at their submission have no file here)");
    }
    if total.opcodes.iter().any(|op| matches!(op.opcode.as_str(), "splice" | "tee") && op.requests > 0) {
        o.line("(splice and tee count where they write: what they read from is not looked at)");
    }
    o.blank();
}

/// Columns of a file's name.
const FILE_WIDTH: usize = 24;

/// The end of a path says most.
fn file_name(f: &FileRecord) -> String {
    let named = match (&f.path, f.descriptors.as_slice()) {
        (Some(path), _) => sanitise(path),
        (None, [one]) => format!("{} ({one})", f.kind.name()),
        (None, _) => f.kind.name().into(),
    };
    let deleted = if f.deleted { " (del)" } else { "" };
    let room = FILE_WIDTH - deleted.len();
    let letters = named.chars().count();
    if letters <= room {
        return named + deleted;
    }
    let end: String = named.chars().skip(letters - (room - 1)).collect();
    // Whole parts, where that leaves most of it.
    let from = end.find('/').filter(|at| *at < end.len() / 2).unwrap_or(0);
    format!("…{}{deleted}", &end[from..])
}

/// What watching took, program by program.
fn probe_costs(o: &mut Screen, total: &Total) {
    let Some(costs) = &total.probe_costs else { return };
    let number = Column::number;
    let columns = [
        Column::words("probe", 24),
        Column::words("on", 22),
        number("runs", 8),
        number("per I/O", 8),
        number("ns a run", 9),
        number("ns an I/O", 9),
    ];
    let per_io = |n: u64| if total.ios > 0 { three_digits(n as f64 / total.ios as f64) } else { UNKNOWN.into() };
    let row = |program: &str, event: &str, runs: u64, spent_ns: u64| {
        let of_run = if runs > 0 { three_digits(spent_ns as f64 / runs as f64) } else { UNKNOWN.into() };
        vec![program.into(), event.into(), count(runs as f64), per_io(runs), of_run, per_io(spent_ns)]
    };
    let ran: Vec<&ProbeCost> = costs.iter().filter(|c| c.runs > 0).collect();
    let mut rows: Vec<Vec<String>> = ran.iter().map(|c| row(&c.program, &c.event, c.runs, c.spent_ns)).collect();
    rows.push(row("all", "", ran.iter().map(|c| c.runs).sum(), ran.iter().map(|c| c.spent_ns).sum()));
    o.blank();
    o.table(&columns, rows);
    o.blank();
}

fn sum(vehicles: &[VehicleCount]) -> u64 {
    vehicles.iter().map(|v| v.completions).sum()
}

fn latency(l: &Latency, followed: &Followed) -> Vec<String> {
    if l.count == 0 { Vec::new() } else { measured::latency(l, followed.is_sample()) }
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
        let share = measured::part(p.completions, followed, p.stands_for() as f64 / all as f64);
        match p.ready_cpu == p.posted_cpu {
            true => format!("{share} on CPU {} and posted there", p.ready_cpu),
            false => format!("{share} on CPU {}, posted on CPU {}", p.ready_cpu, p.posted_cpu),
        }
    };
    most.iter().take(SIZES).map(one).chain(of_followed(followed, total.ios)).collect()
}
