//! The call sites by activity, and the missing parts of the stacks.

use super::super::layout::Screen;
use iotrail_answer::callsites::{self, Concern, SiteValue};
use iotrail_schema::stacks::Stacks;

const VALUES: [(&str, SiteValue); 6] = [
    ("blocked", SiteValue::Blocked),
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
    for gap in &stacks.gaps {
        out.note("note: ", &callsites::gap(gap), false);
    }
}
