//! A network load in 20 lines: the answer, then both sides, without per-thread values and counts.

use serde_json::Map;

use super::{between, load, server, throughput};
use crate::terminal::fit::{Brief, Turn};
use crate::terminal::layout::Screen;
use crate::terminal::style::Style;
use crate::terminal::{measured, verdict};
use iotrail_answer::summary::measured::Verdict;
use iotrail_base::words::{UNKNOWN, percent, plural};
use iotrail_schema::measurement::Engine;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::NetRecord;

pub fn screen(m: &Measurement, net: &NetRecord, answer: &Verdict, style: Style) -> Screen {
    let mut out = Brief::new(style, "", "--full");
    let b = &mut out;
    verdict::head(b, answer);
    b.subject("load", &load(&net.asked));
    b.subject("server", &at_shortly(m, net));
    b.field("throughput", &throughput(m));
    b.field("latency", &verdict::latency(&m.latency_ns, false));
    verdict::time(b, m.stages.as_deref(), measured::is_sample(m));
    b.field("CPU", &both_cpus(m, net)).gives_way(Turn::Cpu);
    if net.server.is_some() {
        b.field("delivered by", &verdict::delivered(&m.vehicles, &Default::default())).gives_way(Turn::DeliveredBy);
        b.field("per request", &verdict::per_io(&m.per_io, &m.per_io_intervals)).gives_way(Turn::PerIo);
    }
    verdict::limits(b, &m.warnings, &answer.answer);
    out.fit()
}

fn at_shortly(m: &Measurement, net: &NetRecord) -> Vec<String> {
    let mut items = vec![net.address.clone(), between(&net.between).into()];
    match &net.server {
        Some(s) => {
            items.push(s.engine.to_string());
            items.push(plural(s.threads.len().max(1), "thread"));
            if s.engine == Engine::IoUring {
                items.extend(server(&s.engine, &Map::new(), &m.load.ring).into_iter().skip(1));
            }
        }
        None => items.push("not measured".into()),
    }
    items
}

/// CPU usage of both sides.
fn both_cpus(m: &Measurement, net: &NetRecord) -> Vec<String> {
    let share = |ns: u64| if m.elapsed_ns == 0 { UNKNOWN.into() } else { percent(ns as f64 / m.elapsed_ns as f64) };
    let mut items = Vec::new();
    if let Some((user, system)) = m.cpu.user_ns.zip(m.cpu.system_ns).filter(|_| net.server.is_some()) {
        items.push(format!("server {} of a CPU", share(user + system)));
    }
    items.push(format!("sender {} of a CPU", share(net.sender.user_ns + net.sender.system_ns)));
    items.extend(
        net.sender.busiest_thread.map(|busy| format!("its busiest thread {} (with waits for a CPU)", percent(busy))),
    );
    items
}
