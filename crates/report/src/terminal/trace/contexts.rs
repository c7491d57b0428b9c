//! Native AIO contexts, and POSIX AIO.

use super::opcodes::opcodes;
use super::times::latency;
use crate::terminal::layout::Screen;
use crate::terminal::measured::{self, VEHICLES};
use iotrail_base::words::{count, plural};
use iotrail_schema::measurement::Followed;
use iotrail_schema::trace_record::{ContextRecord, CountIntervals};

/// A native AIO context, or a process's POSIX AIO.
pub fn context(o: &mut Screen, c: &ContextRecord, followed: &Followed) {
    let mut head = vec![c.interface.clone(), format!("{} ({})", c.comm, c.tgid)];
    head.extend(c.entries.map(|n| format!("{n} entries")));
    if c.found {
        head.push("there before".into());
    }
    head.push(format!("{} requests", count(c.requests as f64)));
    head.push(format!("{} results reaped", count(c.reaped as f64)));
    o.field(&format!("context {}", c.context), &head);
    opcodes(o, &c.opcodes, followed, &CountIntervals::new());
    o.blank();
    measured::vehicles(o, &c.vehicles, &Default::default(), VEHICLES);
    o.field("latency", &latency(&c.latency_ns, followed));
}

/// The sum of contexts that are not shown.
pub fn other_contexts(contexts: &[&ContextRecord]) -> Vec<String> {
    let sum = |f: fn(&ContextRecord) -> u64| contexts.iter().map(|c| f(c)).sum::<u64>();
    vec![
        plural(contexts.len(), "context"),
        "less busy".into(),
        format!("{} requests", count(sum(|c| c.requests) as f64)),
        format!("{} completions", count(sum(|c| c.completions) as f64)),
        "--json lists each".into(),
    ]
}
