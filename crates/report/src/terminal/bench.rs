//! The screen of one measurement.

use super::fit::{Brief, Turn};
use super::layout::Screen;
use super::measured::{SPLIT_NS, TOO_SHORT};
use super::style::Style;
use super::{measured, verdict};
use iotrail_answer::diagnose::findings_of;
use iotrail_answer::summary::measured::{Verdict, of_measurement};
use iotrail_base::words::{UNKNOWN, bytes, count, numbers, percent, plural, span};
use iotrail_schema::measurement::{LoadRecord, Measurement, Reaper, Rw};

pub fn screen(m: &Measurement, full: bool, style: Style) -> Screen {
    let answer = of_measurement(m);
    if full { in_full(m, &answer, style) } else { brief(m, &answer, style) }
}

fn brief(m: &Measurement, answer: &Verdict, style: Style) -> Screen {
    let mut out = Brief::new(style, "", "--full");
    let b = &mut out;
    verdict::head(b, answer);
    let load = load(&m.load);
    b.subject_or("load", &load, &shortly(&m.load));
    b.subject("target", &target(m));
    b.field("throughput", &throughput(m));
    b.field("latency", &verdict::latency(&m.latency_ns, false));
    verdict::time(b, m.stages.as_deref(), measured::is_sample(m));
    b.field("delivered by", &verdict::delivered(&m.vehicles, &Default::default())).gives_way(Turn::DeliveredBy);
    b.field("per I/O", &verdict::per_io(&m.per_io, &m.per_io_intervals)).gives_way(Turn::PerIo);
    b.field("CPU", &cpu(m)).gives_way(Turn::Cpu);
    verdict::limits(b, &m.warnings, &answer.answer);
    out.fit()
}

fn in_full(m: &Measurement, answer: &Verdict, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    verdict::of(o, answer);
    measured::not_seen(o, &m.warnings);
    o.field("load", &load(&m.load));
    o.field("target", &target(m));
    o.field("throughput", &throughput(m));
    o.field("latency", &measured::latency(&m.latency_ns, false));
    o.field("phases", &phases(m));
    o.field("stages", &measured::stages(m.stages.as_deref(), measured::is_sample(m)));
    o.field("CPU", &cpu(m));
    o.blank();
    measured::vehicles(o, &m.vehicles, &Default::default(), usize::MAX);
    measured::counts(o, "per I/O", m);
    measured::where_the_cpu_went(o, m.cpu_shares.as_deref(), m.cpu_samples.as_deref());
    o.field("host", &measured::host(&m.host));
    measured::remarks(o, &findings_of(m), &m.warnings);
    out
}

fn load(l: &LoadRecord) -> Vec<String> {
    items(l).into_iter().map(|(_, text)| text).collect()
}

/// Priority of an item in the one-line form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Operation and depth.
    First,
    Ring,
    Rest,
    /// Default values, omitted in the one-line form.
    Default,
}

fn items(l: &LoadRecord) -> Vec<(Place, String)> {
    use Place::{Default, First, Rest, Ring};
    let unless = |default: bool| if default { Default } else { Rest };
    let cpus = match (&l.cpus_requested, l.cpus.as_slice()) {
        (_, []) => "not pinned".into(),
        (Some(asked), cpus) if asked == "irq" || asked == "non-irq" => format!("CPU {} ({asked})", numbers(cpus)),
        (_, cpus) => format!("CPU {}", numbers(cpus)),
    };
    let mut items = vec![
        (First, format!("{} {} {}", l.engine, l.rw, bytes(l.bs))),
        (First, format!("depth {}", l.depth)),
        (unless(l.batch == 1), format!("batch {}", l.batch)),
        (unless(l.jobs == 1), plural(l.jobs as usize, "job")),
        (unless(l.cpus.is_empty()), cpus),
        (Rest, format!("wait {}", l.wait)),
    ];
    if l.engine.has_ring() {
        let flags = |v: &[String]| if v.is_empty() { "none".to_owned() } else { v.join(",") };
        let (asked, granted) = (flags(&l.ring.requested), flags(&l.ring.granted));
        items.push((
            Ring,
            if asked == granted { format!("ring {asked}") } else { format!("ring {asked}, granted {granted}") },
        ));
    }
    if !l.register.is_empty() {
        items.push((Rest, format!("registered {}", l.register.join(","))));
    }
    let mut when = |is: bool, text: String| {
        if is {
            items.push((Rest, text));
        }
    };
    when(l.commit.is_durable(), format!("commit {}", l.commit));
    when(l.force_async, "force-async".into());
    when(l.sq_cpu.is_some(), format!("SQPOLL on CPU {}", l.sq_cpu.unwrap_or_default()));
    when(l.sq_idle_ms.is_some(), format!("SQPOLL idle {} ms", l.sq_idle_ms.unwrap_or_default()));
    when(l.min_wait_ns.is_some(), format!("min-wait {}", span(l.min_wait_ns.unwrap_or_default() as f64)));
    when(l.no_iowait, "no-iowait".into());
    when(l.reaper != Reaper::Same, format!("reaper {}", l.reaper));
    when(l.think_ns > 0, format!("think {}", span(l.think_ns as f64)));
    when(l.scratch != "none", format!("scratch {}", l.scratch));
    when(l.neighbour != "none", format!("neighbour {}", l.neighbour));
    when(l.rate.is_some(), format!("open loop, {} I/Os per second", count(l.rate.unwrap_or_default())));
    when(l.verify, "verified".into());
    if let Some(seed) = l.seed {
        items.push((Rest, format!("seed {seed}")));
    }
    items
}

/// One-line form: operation and depth, then ring flags, without defaults.
fn shortly(l: &LoadRecord) -> Vec<String> {
    let mut items = items(l);
    items.retain(|(place, _)| *place != Place::Default);
    items.sort_by_key(|(place, _)| *place);
    items.into_iter().map(|(_, text)| text).collect()
}

fn target(m: &Measurement) -> Vec<String> {
    let Some(file) = &m.load.file else { return Vec::new() };
    // It writes to new files next to the named one.
    let written = match m.load.jobs {
        _ if m.load.rw != Rw::Append => file.clone(),
        0 | 1 => format!("{file}.append-0 (new)"),
        n => format!("{file}.append-0 to -{} (new)", n - 1),
    };
    let mut items = vec![written];
    items.extend(m.load.size.map(bytes));
    items.push(if m.load.direct { "direct" } else { "buffered" }.into());
    if let Some(t) = &m.host.target {
        items.extend(t.filesystem.clone());
        // If another device queues the requests, its scheduler applies.
        let above = t.queue_device.as_ref().map(|above| match &t.scheduler {
            Some(scheduler) => format!("{above} (scheduler {scheduler})"),
            None => above.clone(),
        });
        items.extend(above);
        if let Some(device) = &t.device {
            let on = if t.queue_device.is_some() { "on " } else { "" };
            items.push(match &t.driver {
                Some(driver) => format!("{on}{device} ({driver})"),
                None => format!("{on}{device}"),
            });
        }
        items.extend(t.queues.map(|n| plural(n as usize, "queue")));
        if t.queue_device.is_none() {
            items.extend(t.scheduler.as_ref().map(|s| format!("scheduler {s}")));
        }
        items.extend(t.interrupts.iter().map(|i| format!("interrupt {i}")));
    }
    items
}

fn throughput(m: &Measurement) -> Vec<String> {
    let mut items = vec![format!("{} IOPS", m.iops.map_or(UNKNOWN.into(), count))];
    if let Some(n) = m.bytes.filter(|_| m.elapsed_ns > 0) {
        let per_s = n as f64 / (m.elapsed_ns as f64 / 1e9);
        items.push(format!("{}/s", bytes(per_s.round() as u64)));
    }
    let ios = m.ios.map_or(UNKNOWN.into(), |n| n.to_string());
    items.push(format!("{ios} I/Os in {}", span(m.elapsed_ns as f64)));
    items.extend(m.errors.filter(|n| *n > 0).map(|n| plural(n as usize, "error")));
    items.extend(m.short_ios.filter(|n| *n > 0).map(|n| format!("{n} short")));
    items
}

fn phases(m: &Measurement) -> Vec<String> {
    let Some(p) = &m.phases else { return Vec::new() };
    [("submit", p.submit), ("poll", p.poll), ("clear", p.clear), ("other", p.other)]
        .map(|(name, share)| format!("{name} {}", percent(share)))
        .to_vec()
}

/// A smaller remainder of the process's CPU time is measurement error.
pub const HELPERS_NS: u64 = 1_000_000;

fn cpu(m: &Measurement) -> Vec<String> {
    let of = |name: &str, ns: u64| match m.elapsed_ns {
        0 => format!("{name} {}", span(ns as f64)),
        wall => format!("{name} {} ({} of a CPU)", span(ns as f64), percent(ns as f64 / wall as f64)),
    };
    let known = |name: &str, ns: Option<u64>| ns.map_or(format!("{name} {UNKNOWN}"), |ns| of(name, ns));
    let mut items = match m.cpu.user_ns.zip(m.cpu.system_ns).map(|(user, system)| user + system) {
        Some(all) if all < SPLIT_NS => vec![of("threads", all), TOO_SHORT.into()],
        _ => vec![known("user", m.cpu.user_ns), known("system", m.cpu.system_ns)],
    };
    items.extend(m.cpu.sqpoll_ns.map(|ns| of("SQPOLL thread", ns)));
    items.extend(m.cpu.sqpoll_wakeups.map(|n| format!("woken {} times", count(n as f64))));
    items.extend(m.cpu.helpers_ns.filter(|ns| *ns > HELPERS_NS).map(|ns| of("other helpers", ns)));
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::sample::measurement;

    #[test]
    fn the_target_of_an_append_load_is_the_new_file() {
        let mut m = measurement();
        m.load.file = Some("ex".into());
        let first = |m: &Measurement| target(m).swap_remove(0);
        assert_eq!(first(&m), "ex");
        (m.load.rw, m.load.jobs) = (Rw::Append, 1);
        assert_eq!(first(&m), "ex.append-0 (new)");
        m.load.jobs = 3;
        assert_eq!(first(&m), "ex.append-0 to -2 (new)");
    }
}
