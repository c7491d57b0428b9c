//! The screen of one measurement.

use super::layout::{Column, Style, field, paragraph, table};
use crate::answer::finding::{Severity, findings};
use crate::answer::words::{UNKNOWN, bytes, count, percent, plural, span, three_digits};
use crate::measurement::{CpuShare, Latency, LoadRecord, Measurement, PerIo};

pub fn screen(m: &Measurement, style: Style) -> String {
    let mut out = String::new();
    let o = &mut out;
    field(o, style, "load", &load(&m.load));
    field(o, style, "target", &target(m));
    field(o, style, "throughput", &throughput(m));
    field(o, style, "latency", &latency(&m.latency_ns));
    field(o, style, "phases", &phases(m));
    field(o, style, "CPU", &cpu(m));
    o.push('\n');
    vehicles(o, style, m);
    field(o, style, "per I/O", &per_io(&m.per_io));
    field(o, style, "to user mode", &mode_switches(m));
    field(o, style, "task work", &task_work(m));
    field(o, style, "interrupts", &interrupts(m));
    field(o, style, "IPIs", &ipis(m));
    if let Some(order) = &m.order {
        let text = format!(
            "{} of {} completions out of order",
            count(order.inversions as f64),
            count(order.completions as f64)
        );
        field(o, style, "order", &[text, format!("at most {} places off", order.max_displacement)]);
    }
    field(o, style, "probes", &probes(m));
    where_the_cpu_went(o, style, m);
    field(o, style, "host", &host(m));
    notes(o, style, m);
    out
}

fn load(l: &LoadRecord) -> Vec<String> {
    let list = |v: &[u32]| v.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let cpus = match (&l.cpus_requested, l.cpus.as_slice()) {
        (_, []) => "not pinned".into(),
        (Some(asked), cpus) if asked == "irq" || asked == "non-irq" => format!("CPU {} ({asked})", list(cpus)),
        (_, cpus) => format!("CPU {}", list(cpus)),
    };
    let mut items = vec![
        format!("{} {} {}", l.engine, l.rw, bytes(l.bs)),
        format!("depth {}", l.depth),
        format!("batch {}", l.batch),
        plural(l.jobs as usize, "job"),
        cpus,
        format!("wait {}", l.wait),
    ];
    if l.engine.starts_with("io_uring") {
        let flags = |v: &[String]| if v.is_empty() { "none".to_owned() } else { v.join(",") };
        let (asked, granted) = (flags(&l.ring.requested), flags(&l.ring.granted));
        items.push(if asked == granted { format!("ring {asked}") } else { format!("ring {asked}, granted {granted}") });
    }
    if !l.register.is_empty() {
        items.push(format!("registered {}", l.register.join(",")));
    }
    let mut when = |is: bool, text: String| {
        if is {
            items.push(text);
        }
    };
    when(l.force_async, "force-async".into());
    when(l.sq_cpu.is_some(), format!("SQPOLL on CPU {}", l.sq_cpu.unwrap_or_default()));
    when(l.sq_idle_ms.is_some(), format!("SQPOLL idle {} ms", l.sq_idle_ms.unwrap_or_default()));
    when(l.reaper != "same", format!("reaper {}", l.reaper));
    when(l.think_ns > 0, format!("think {}", span(l.think_ns as f64)));
    when(l.scratch != "none", format!("scratch {}", l.scratch));
    when(l.neighbour != "none", format!("neighbour {}", l.neighbour));
    when(l.rate.is_some(), format!("open loop, {} I/Os a second", count(l.rate.unwrap_or_default())));
    when(l.verify, "verified".into());
    items
}

fn target(m: &Measurement) -> Vec<String> {
    let Some(file) = &m.load.file else { return Vec::new() };
    let mut items = vec![file.clone()];
    items.extend(m.load.size.map(bytes));
    items.push(if m.load.direct { "direct" } else { "buffered" }.into());
    if let Some(t) = &m.host.target {
        items.extend(t.filesystem.clone());
        if let Some(device) = &t.device {
            items.push(match &t.driver {
                Some(driver) => format!("{device} ({driver})"),
                None => device.clone(),
            });
        }
        items.extend(t.queues.map(|n| plural(n as usize, "queue")));
        items.extend(t.scheduler.as_ref().map(|s| format!("scheduler {s}")));
        for i in &t.interrupts {
            let cpus: Vec<String> = i.cpus.iter().map(u32::to_string).collect();
            items.push(format!("interrupt {} {} on CPU {}", i.irq, i.name, cpus.join(",")));
        }
    }
    items
}

fn throughput(m: &Measurement) -> Vec<String> {
    let mut items = vec![format!("{} IOPS", count(m.iops))];
    if m.elapsed_ns > 0 {
        let per_s = m.bytes as f64 / (m.elapsed_ns as f64 / 1e9);
        items.push(format!("{}/s", bytes(per_s.round() as u64)));
    }
    items.push(format!("{} I/Os in {}", m.ios, span(m.elapsed_ns as f64)));
    if m.errors > 0 {
        items.push(plural(m.errors as usize, "error"));
    }
    if m.short_ios > 0 {
        items.push(format!("{} short", m.short_ios));
    }
    items
}

fn latency(l: &Latency) -> Vec<String> {
    let text = |name: &str, ns: Option<f64>| format!("{name} {}", ns.map_or(UNKNOWN.into(), span));
    let whole = |name: &str, ns: Option<u64>| text(name, ns.map(|n| n as f64));
    vec![
        text("mean", l.mean),
        whole("min", l.min),
        whole("p50", l.p50),
        whole("p90", l.p90),
        whole("p95", l.p95),
        whole("p99", l.p99),
        whole("p99.9", l.p99_9),
        whole("p99.99", l.p99_99),
        whole("max", l.max),
    ]
}

fn phases(m: &Measurement) -> Vec<String> {
    let p = &m.phases;
    [("submit", p.submit), ("poll", p.poll), ("clear", p.clear), ("other", p.other)]
        .map(|(name, share)| format!("{name} {}", percent(share)))
        .to_vec()
}

fn cpu(m: &Measurement) -> Vec<String> {
    let of = |name: &str, ns: u64| match m.elapsed_ns {
        0 => format!("{name} {}", span(ns as f64)),
        wall => format!("{name} {} ({} of a CPU)", span(ns as f64), percent(ns as f64 / wall as f64)),
    };
    let mut items = vec![of("user", m.cpu.user_ns), of("system", m.cpu.system_ns)];
    items.extend(m.cpu.sqpoll_ns.map(|ns| of("SQPOLL thread", ns)));
    items
}

fn vehicles(out: &mut String, style: Style, m: &Measurement) {
    let seen: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    if seen == 0 {
        return;
    }
    let mut sorted: Vec<_> = m.vehicles.iter().filter(|v| v.completions > 0).collect();
    sorted.sort_by_key(|v| std::cmp::Reverse(v.completions));
    let delays = sorted.iter().any(|v| v.delay_ns.is_some());
    let ns = |n: Option<u64>| n.map_or(UNKNOWN.into(), |n| span(n as f64));
    let rows = sorted.iter().map(|v| {
        let mut row = vec![
            v.vehicle.to_string(),
            v.detail.clone().unwrap_or_default(),
            v.completions.to_string(),
            percent(v.completions as f64 / seen as f64),
        ];
        if delays {
            let d = v.delay_ns.as_ref();
            row.extend([ns(d.and_then(|d| d.p50)), ns(d.and_then(|d| d.p99))]);
        }
        row
    });
    let mut columns = vec![
        Column { heading: "carried by", width: 12, number: false },
        Column { heading: "detail", width: if delays { 26 } else { 42 }, number: false },
        Column { heading: "completions", width: 11, number: true },
        Column { heading: "share", width: 8, number: true },
    ];
    if delays {
        columns.push(Column { heading: "delay p50", width: 9, number: true });
        columns.push(Column { heading: "p99", width: 8, number: true });
    }
    let text = table(&columns, rows.collect());
    let (heading, body) = text.split_once('\n').unwrap_or((text.as_str(), ""));
    out.push_str(&format!("{}\n{body}\n\n", style.bold(heading)));
}

fn per_io(p: &PerIo) -> Vec<String> {
    [
        ("system calls", p.syscalls),
        ("kicks", p.kicks),
        ("reschedule IPIs", p.resched_ipis),
        ("device interrupts", p.device_irqs),
        ("mode switches", p.mode_switches),
        ("context switches", p.context_switches),
        ("task-work runs", p.task_work_runs),
    ]
    .map(|(name, x)| format!("{name} {}", x.map_or(UNKNOWN.into(), ratio)))
    .to_vec()
}

/// Two decimals where these say something: per I/O, nothing below a thousandth matters.
pub fn ratio(x: f64) -> String {
    match x {
        0.0 => "0".into(),
        x if x < 0.001 => "<0.001".into(),
        x if x < 0.1 => format!("{x:.3}"),
        x if x < 100.0 => format!("{x:.2}"),
        x => three_digits(x),
    }
}

fn mode_switches(m: &Measurement) -> Vec<String> {
    let some = m.mode_switches.iter().filter(|s| s.count > 0);
    some.map(|s| format!("{} {}", s.cause, count(s.count as f64))).collect()
}

/// Runs by the number of completions each carried, in powers of two.
fn task_work(m: &Measurement) -> Vec<String> {
    let some = m.task_work_batches.iter().filter(|b| b.runs > 0);
    some.map(|b| {
        let items = match b.at_least {
            0 | 1 => format!("of {}", b.at_least),
            n => format!("of {n} to {}", n * 2 - 1),
        };
        format!("{} runs {items}", count(b.runs as f64))
    })
    .collect()
}

fn interrupts(m: &Measurement) -> Vec<String> {
    let mut some: Vec<_> = m.interrupts.iter().filter(|i| i.count > 0 || i.proc_count.is_some_and(|n| n > 0)).collect();
    some.sort_by_key(|i| std::cmp::Reverse(i.count));
    let one = |i: &&crate::measurement::Interrupt| {
        let differs = i.proc_count.filter(|n| *n != i.count);
        let proc = differs.map(|n| format!(" (/proc/interrupts {})", count(n as f64))).unwrap_or_default();
        format!("{} {} on CPU {}: {}{proc}", i.vector, i.name, i.cpu, count(i.count as f64))
    };
    some.iter().map(one).collect()
}

fn ipis(m: &Measurement) -> Vec<String> {
    let mut some: Vec<_> = m.ipis.iter().filter(|i| i.count > 0).collect();
    some.sort_by_key(|i| std::cmp::Reverse(i.count));
    let kick = |site: &str| if site == "task_work_add" { " (kicks)" } else { "" };
    some.iter()
        .map(|i| format!("{}{} CPU {} to {}: {}", i.site, kick(&i.site), i.from_cpu, i.to_cpu, count(i.count as f64)))
        .collect()
}

fn probes(m: &Measurement) -> Vec<String> {
    let number = |name: &str, n: Option<u64>| format!("{} {name}", n.map_or(UNKNOWN.into(), |n| n.to_string()));
    if m.probe.mode == "off" {
        return vec!["off: what delivered the completions is not known".into()];
    }
    vec![
        m.probe.mode.clone(),
        number("completions seen", m.probe.completions_seen),
        number("untracked", m.probe.untracked),
        number("events lost", m.probe.lost),
    ]
}

/// Places that got a sample, the most frequent first; then how they were taken.
fn where_the_cpu_went(out: &mut String, style: Style, m: &Measurement) {
    let (Some(shares), Some(how)) = (&m.cpu_shares, &m.cpu_samples) else { return };
    let mut sorted: Vec<_> = shares.iter().filter(|s| s.samples > 0).collect();
    sorted.sort_by_key(|s| std::cmp::Reverse(s.samples));
    let part = |x: Option<f64>| x.map_or(UNKNOWN.into(), percent);
    let row = |s: &&CpuShare| vec![s.place.to_string(), s.samples.to_string(), part(s.share), part(s.lo), part(s.hi)];
    let columns = [
        Column { heading: "CPU time went to", width: 22, number: false },
        Column { heading: "samples", width: 9, number: true },
        Column { heading: "share", width: 8, number: true },
        Column { heading: "95 %: from", width: 10, number: true },
        Column { heading: "to", width: 8, number: true },
    ];
    let text = table(&columns, sorted.iter().map(row).collect());
    let (heading, body) = text.split_once('\n').unwrap_or((text.as_str(), ""));
    out.push_str(&format!("\n{}\n{body}\n", style.bold(heading)));
    let cpus: Vec<String> = how.idle_cpus.iter().map(u32::to_string).collect();
    let mut items = vec![
        format!("{} taken at {} Hz by {}", how.taken, how.hz, how.clock),
        format!("{} elsewhere", how.elsewhere),
        format!("{} lost", how.lost),
        if cpus.is_empty() { "no idle CPU counted".into() } else { format!("idle is of CPU {}", cpus.join(",")) },
    ];
    if !how.unplaced.is_empty() {
        let functions: Vec<String> = how.unplaced.iter().map(|f| format!("{} {}", f.function, f.samples)).collect();
        items.push(format!("other: {}", functions.join(", ")));
    }
    field(out, style, "samples", &items);
    out.push('\n');
}

fn host(m: &Measurement) -> Vec<String> {
    let h = &m.host;
    let mut items = vec![
        format!("{}, Linux {}", h.hostname, h.kernel),
        format!("{}, {}", h.cpu_model, plural(h.cpus as usize, "CPU")),
    ];
    items.extend(h.clock_source.as_ref().map(|c| format!("clock {c}")));
    items.extend(h.lockdown.as_ref().map(|l| format!("lockdown {l}")));
    items.extend(h.virtualisation.as_ref().map(|v| format!("virtualisation {v}")));
    items
}

fn notes(out: &mut String, style: Style, m: &Measurement) {
    let found = findings(m);
    if found.is_empty() && m.warnings.is_empty() {
        return;
    }
    out.push('\n');
    for f in found {
        let end = if f.remedy.is_empty() { ".".into() } else { format!(". To change it: {}.", f.remedy) };
        let (mark, warns) = match f.severity {
            Severity::Note => ("note: ", false),
            Severity::Warning => ("warning: ", true),
        };
        note(out, style, mark, &format!("{}{end}", f.text), warns);
    }
    for w in &m.warnings {
        let end = if w.remedy.is_empty() { String::new() } else { format!("; {}", w.remedy) };
        note(out, style, "warning: ", &format!("{}{end}", w.text), true);
    }
}

pub fn note(out: &mut String, style: Style, mark: &str, text: &str, warns: bool) {
    let mut wrapped = String::new();
    paragraph(&mut wrapped, mark, text);
    for line in wrapped.lines() {
        out.push_str(&if warns { style.warning(line) } else { line.to_owned() });
        out.push('\n');
    }
}
