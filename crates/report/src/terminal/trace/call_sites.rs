//! Call sites by activity, and gaps in the stacks.

use super::super::layout::Screen;
use iotrail_answer::callsites::{self, Concern, SiteValue};
use iotrail_schema::stacks::Stacks;

const VALUES: [(&str, SiteValue); 7] = [
    ("blocked", SiteValue::Blocked),
    ("CPU", SiteValue::Cpu),
    ("latency", SiteValue::Latency),
    ("calls", SiteValue::Calls),
    ("io-wq", SiteValue::Punts),
    ("errors", SiteValue::Errors),
    ("failed calls", SiteValue::CallErrors),
];

pub fn call_sites(out: &mut Screen, stacks: &Stacks) {
    let of = |(name, value)| (name, callsites::top(stacks, &Concern::all(value)));
    let found: Vec<_> = VALUES.map(of).into_iter().filter(|(_, sites)| !sites.is_empty()).collect();
    if found.is_empty() && stacks.gaps.is_empty() {
        return;
    }
    out.blank();
    out.line("call sites, by sampled stacks");
    for (name, sites) in found {
        out.field(name, &[callsites::text(&sites)]);
    }
    let samples: u64 = stacks.stacks.iter().flat_map(|stack| &stack.uses).map(|of| of.samples).sum();
    for gap in stacks.gaps.iter().filter(|gap| gap.samples as f64 >= callsites::LEAST * samples as f64) {
        out.note("note: ", &callsites::gap(gap), false);
    }
}
