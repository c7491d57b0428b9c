//! Counts for the entire program.

use super::files::files;
use super::probes::costs;
use super::shares::cpu_pairs;
use super::times::{latency, stages, waits};
use super::watched::{ESTIMATED, is_estimated};
use crate::terminal::layout::Screen;
use crate::terminal::measured::{self, VEHICLES};
use iotrail_base::words::{UNKNOWN, count, percent, plural, span, three_digits};
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::trace_record::{IowqRecord, Total, TraceRecord};

/// Counts for the entire program.
pub fn whole(o: &mut Screen, t: &TraceRecord) {
    let total = &t.total;
    // A single ring or context has already printed these totals.
    let said = |vehicles: &[DeliveryPathCount]| sum(vehicles) == sum(&total.vehicles);
    let said = match (t.rings.as_slice(), t.contexts.as_slice()) {
        ([one], []) => said(&one.vehicles),
        ([], [one]) => said(&one.vehicles),
        _ => false,
    };
    if !said {
        // The totals include unlisted rings and contexts.
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
        items.extend(is_estimated(total).then(|| ESTIMATED.to_owned()));
        o.field("in all", &items);
        measured::vehicles(o, &total.vehicles, &total.count_intervals, VEHICLES);
        o.field("latency", &latency(&total.latency_ns, &total.followed));
        // Native and POSIX AIO contexts have none.
        let followed = if t.contexts.is_empty() { total.latency_ns.count } else { 0 };
        o.field("stages", &stages(total.stages.as_ref(), followed, total.waits.as_ref(), total));
        o.field("waits", &waits(total.waits.as_ref()));
    }
    files(o, total);
    o.field("per I/O", &measured::per_io(&total.per_io, &total.per_io_intervals));
    o.field("estimated", &sampled_events(total));
    let mut switches = measured::mode_switches(&total.mode_switches, &total.intervals);
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
    costs(o, total);
    measured::where_the_cpu_went(o, total.cpu_shares.as_deref(), total.cpu_samples.as_ref());
    o.field("host", &measured::host(&total.host));
}

/// The windows from which numbers marked `~` are extrapolated, and their intervals.
fn sampled_events(total: &Total) -> Vec<String> {
    let Some(sampled) = &total.sampled_events else { return vec![] };
    let interval = |name: &str, field: &str| {
        let [lo, hi] = total.per_io_intervals.get(field)?;
        Some(format!("{name} {} to {} (95 %)", three_digits(*lo), three_digits(*hi)))
    };
    let part = sampled.completions as f64 / total.ios.max(1) as f64;
    let windows = plural(sampled.windows as usize, "window");
    let mut items =
        vec![format!("from {windows} and the time before and after, with {} of the completions", percent(part))];
    items.extend(interval("system calls", "syscalls"));
    items.extend(interval("device interrupts", "device_irqs"));
    items.push("--exact counts without windows".into());
    items
}

fn sum(vehicles: &[DeliveryPathCount]) -> u64 {
    vehicles.iter().map(|v| v.completions).sum()
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
