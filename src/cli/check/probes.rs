//! The BPF programs: loads and unloads each, and reports which features are lost without it.

use iotrail_probe::survey::{self, ProgramCheck};
use iotrail_report::check::{Item, Section};

pub(super) fn items() -> Vec<Item> {
    survey::survey().into_iter().map(item).collect()
}

fn item(program: ProgramCheck) -> Item {
    let id = format!("probe.{}", program.name);
    let item = match program.state {
        survey::State::Loads => Item::ok(Section::Probes, &id, program.name, program.purpose),
        survey::State::Missing { why, lost, restore, .. } => {
            Item::missing(Section::Probes, &id, program.name, why, lost, restore)
        }
    };
    item.in_group("programs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_report::check::State;

    #[test]
    fn a_probe_that_fails_to_load_is_reported_with_the_lost_features() {
        let program = |state| ProgramCheck { name: "interrupt_ipi_send", purpose: "IPIs sent", state };
        assert_eq!(item(program(survey::State::Loads)).state, State::Ok);
        let (why, restore) = ("no tracepoint ipi_send_cpu".to_owned(), "Linux 6.4 or later".to_owned());
        let got = item(program(survey::State::Missing { refused: false, why, lost: "kicks per I/O", restore }));
        assert_eq!((got.id.as_str(), got.state), ("probe.interrupt_ipi_send", State::Missing));
        assert_eq!((got.lost.as_deref(), got.restore.as_deref()), (Some("kicks per I/O"), Some("Linux 6.4 or later")));
    }
}
