//! The rings, and the sum of rings that are not shown.

use super::opcodes::opcodes;
use super::shares::{enter_batches, run_items};
use super::times::{stages, waits};
use super::watched::{ESTIMATED, is_estimated};
use crate::terminal::layout::Screen;
use crate::terminal::measured::{self, VEHICLES};
use iotrail_answer::diagnose::threads;
use iotrail_base::words::{UNKNOWN, bytes, count, percent, plural, span, three_digits};
use iotrail_schema::measurement::Followed;
use iotrail_schema::trace_record::{BufferGroup, OthersRecord, Reaping, RegisterCalls, RingRecord, TraceRecord};

pub fn ring(o: &mut Screen, t: &TraceRecord, r: &RingRecord) {
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
    head.extend(is_estimated(&t.total).then(|| ESTIMATED.to_owned()));
    o.field(&format!("ring {}", r.ring), &head);
    opcodes(o, &r.opcodes, &t.total.followed, &r.count_intervals);
    o.blank();
    measured::vehicles(o, &r.vehicles, &r.count_intervals, VEHICLES);
    o.field("stages", &stages(r.stages.as_ref(), r.latency_ns.count, r.waits.as_ref(), &t.total));
    o.field("waits", &waits(r.waits.as_ref()));
    o.field("submitted", &enter_batches(&r.enter_batches, r.enter_calls.as_ref(), &t.total.followed));
    o.field("task work", &run_items(&r.run_items, r.completions));
    if t.rings.len() > 1 {
        o.field("order", &measured::order(r.order.as_ref()));
    }
    o.field("reaped", &reaping(r.reaping.as_ref(), r.cq_entries, &t.total.followed));
    o.field("waited", &enter_waits(r));
    o.field("busy poll", &busy_poll(r));
    o.field("registered", &register_calls(r));
    r.buffers.iter().flatten().for_each(|b| o.field(&format!("buffers {}", b.group), &buffers(b)));
    o.field("threads", &threads::told(r, &t.total.followed));
    o.field("SQPOLL", &sqpoll(r));
}

/// How threads wait on the ring, and which waits count as iowait.
fn enter_waits(r: &RingRecord) -> Vec<String> {
    let Some(w) = &r.enter_waits else { return Vec::new() };
    let forms = [
        (w.min_wait, "with a minimum wait time"),
        (w.registered, "with registered arguments"),
        (w.no_iowait, "without iowait accounting"),
        (w.bpf_loop, "in the loop of a BPF program (waits without a sleep are unknown)"),
    ];
    let used = forms.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n as f64)));
    let used: Vec<String> = used.collect();
    let iowait = w.iowait_ns.filter(|ns| *ns > 0).map(|ns| format!("iowait {}", span(ns as f64)));
    if used.is_empty() && iowait.is_none() {
        return used;
    }
    [vec![format!("{} times", count(w.waits as f64))], used, iowait.into_iter().collect()].concat()
}

fn busy_poll(r: &RingRecord) -> Vec<String> {
    let Some(napi) = &r.napi else { return Vec::new() };
    let tracking = if napi.is_static { "static" } else { "dynamic" };
    let most = format!("NAPI, at most {} before a sleep, {tracking} tracking", span(napi.busy_poll_ns as f64));
    vec![most, "running for busy poll, in the threads' account".into()]
}

/// A group of provided buffers.
fn buffers(b: &BufferGroup) -> Vec<String> {
    let of = b.entries.map(|n| format!(" of a ring of {n}")).unwrap_or_default();
    let mut items = vec![format!("{} taken{of}", count(b.taken as f64))];
    if let (Some(mean), Some(least), Some(most)) = (b.available_mean, b.available_min, b.available_max) {
        items.push(format!("{} available on average, {least} to {most}", three_digits(mean)));
    }
    items.extend(b.sufficient.map(|n| format!("{n} are sufficient")));
    items.extend(b.not_returned.filter(|n| *n > 0).map(|n| format!("{n} not returned when the last was taken")));
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    items.extend(some(b.enobufs, "ENOBUFS"));
    items.extend((b.rearmed > 0).then(|| format!("no receive armed for {} after these", span(b.unarmed_ns as f64))));
    items.extend(b.out_of_order.and_then(|n| some(n, "completions out of buffer order")));
    items.extend(b.repeated_offsets.and_then(|n| some(n, "repeated offsets")));
    items
}

fn register_calls(r: &RingRecord) -> Vec<String> {
    let one = |c: &RegisterCalls| {
        let failed = c.errnos.iter().map(|e| format!("{} {}", count(e.count as f64), e.errno)).collect::<Vec<_>>();
        let failed = if failed.is_empty() { String::new() } else { format!(" ({})", failed.join(", ")) };
        format!("{} {}{failed}", count(c.calls as f64), c.operation)
    };
    r.register_calls.iter().flatten().map(one).collect()
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
        format!("{} of it working", worked.unwrap_or(UNKNOWN.into())),
        format!("{} requests", count(s.requests as f64)),
        format!("woken {} times", s.wakeups.map_or(UNKNOWN.into(), |n| count(n as f64))),
    ];
    items.extend(shared);
    items
}

/// How long and how many completions stay in the queue; each quantile has a lower and an upper bound.
fn reaping(reaping: Option<&Reaping>, cq_entries: u32, followed: &Followed) -> Vec<String> {
    let Some(r) = reaping else { return Vec::new() };
    let between = |name: &str, least: Option<u64>, most: Option<u64>| {
        let (least, most) = (least?, span(most? as f64));
        // A completion that was never observed in the queue has no lower bound.
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
        items.push(format!("{} not reaped at the end", count(r.unreaped_estimated as f64)));
    }
    let looked_at = r.completions + r.unreaped;
    items.extend((looked_at < followed.completions).then(|| format!("of {} sampled", count(looked_at as f64))));
    items
}

/// The sum of rings that are not shown.
pub fn others(rings: &[&RingRecord]) -> Vec<String> {
    let sum = |f: fn(&RingRecord) -> u64| rings.iter().map(|r| f(r)).sum::<u64>();
    vec![
        format!("{} less busy rings", rings.len()),
        format!("{} requests", count(sum(|r| r.requests) as f64)),
        format!("{} completions", count(sum(|r| r.completions) as f64)),
        bytes(sum(|r| r.bytes)),
        plural(sum(|r| r.errors) as usize, "error"),
        format!("{} overflows", count(sum(|r| r.overflows) as f64)),
        "--json lists each".into(),
    ]
}

/// Rings and contexts of which the record has only the sum.
pub fn not_listed(others: &[OthersRecord]) -> Vec<String> {
    let sum = |f: fn(&OthersRecord) -> u64| others.iter().map(f).sum::<u64>();
    vec![
        format!("{} further rings or contexts", count(sum(|o| o.rings) as f64)),
        format!("{} requests", count(sum(|o| o.requests) as f64)),
        format!("{} completions", count(sum(|o| o.completions) as f64)),
        bytes(sum(|o| o.bytes)),
        plural(sum(|o| o.errors) as usize, "error"),
        "included in the totals".into(),
    ]
}
