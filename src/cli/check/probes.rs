//! The probe programs: each loads here, or what is lost without it.

use crate::report::check::{Item, Section};

/// One program as the survey of the probes tells it.
struct Program {
    name: &'static str,
    purpose: &'static str,
    missing: Option<Missing>,
}

struct Missing {
    why: String,
    lost: &'static str,
    restore: String,
}

pub(super) fn items() -> Vec<Item> {
    survey().into_iter().map(item).collect()
}

/// The one place that asks `probe::support::survey`.
fn survey() -> Vec<Program> {
    Vec::new()
}

fn item(program: Program) -> Item {
    let id = format!("probe.{}", program.name);
    let item = match program.missing {
        None => Item::ok(Section::Probes, &id, program.name, program.purpose),
        Some(m) => Item::missing(Section::Probes, &id, program.name, m.why, m.lost, m.restore),
    };
    item.in_group("programs")
}
