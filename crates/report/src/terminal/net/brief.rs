//! A network load in 20 lines: the answer, then both sides without each thread and each count.

use serde_json::Map;

use super::{between, load, server, throughput};
use crate::terminal::layout::Screen;
use crate::terminal::style::Style;
use crate::terminal::{measured, verdict};
use iotrail_answer::head::measured::Verdict;
use iotrail_base::words::{UNKNOWN, percent, plural};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::NetRecord;

/// Lines of a screen that is not in full.
const LINES: usize = 20;

/// With as much detail as there is room for.
pub fn screen(m: &Measurement, net: &NetRecord, answer: &Verdict, style: Style) -> Screen {
    let mut more = [Detail::All, Detail::Some].into_iter().map(|detail| with(m, net, answer, detail, style));
    more.find(|screen| screen.as_str().lines().count() <= LINES)
        .unwrap_or_else(|| with(m, net, answer, Detail::Least, style))
}

/// How much of it the first lines tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Least,
    Some,
    All,
}

fn with(m: &Measurement, net: &NetRecord, answer: &Verdict, detail: Detail, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    verdict::of(o, answer);
    if detail > Detail::Least {
        o.field("load", &load(&net.asked));
    }
    o.field("server", &at_shortly(m, net));
    o.field("throughput", &throughput(m));
    o.field("latency", &verdict::latency(&m.latency_ns, false));
    if detail == Detail::All {
        verdict::time(o, m.stages.as_ref(), measured::is_sample(m));
    }
    o.field("CPU", &both_cpus(m, net));
    if net.server.is_some() {
        o.field("delivered by", &verdict::delivered(&m.vehicles));
        if detail == Detail::All {
            o.field("per request", &verdict::per_io(&m.per_io));
        }
    }
    verdict::limits(o, &m.warnings, &answer.answer, if detail == Detail::All { verdict::LIMITS } else { 0 });
    out
}

fn at_shortly(m: &Measurement, net: &NetRecord) -> Vec<String> {
    let mut items = vec![net.address.clone(), between(&net.between).into()];
    match &net.server {
        Some(s) => {
            items.push(s.engine.clone());
            items.push(plural(s.threads.len().max(1), "thread"));
            if s.engine == "io_uring" {
                items.extend(server("io_uring", &Map::new(), &m.load.ring).into_iter().skip(1));
            }
        }
        None => items.push("not measured".into()),
    }
    items
}

/// What either side took of the CPUs.
fn both_cpus(m: &Measurement, net: &NetRecord) -> Vec<String> {
    let share = |ns: u64| if m.elapsed_ns == 0 { UNKNOWN.into() } else { percent(ns as f64 / m.elapsed_ns as f64) };
    let mut items = Vec::new();
    if let Some((user, system)) = m.cpu.user_ns.zip(m.cpu.system_ns).filter(|_| net.server.is_some()) {
        items.push(format!("server {} of a CPU", share(user + system)));
    }
    items.push(format!("sender {} of a CPU", share(net.sender.user_ns + net.sender.system_ns)));
    items.extend(net.sender.busiest_thread.map(|busy| format!("its busiest thread {}", percent(busy))));
    items
}
