//! The probes' own promises.

use iotrail::probe::support::{Facts, State, survey};
use libtest_mimic::{Failed, Trial};

use crate::bench::watched;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("probes::every_program_loads_alone", every_program_loads),
        Trial::test("probes::what_is_attached_is_listed", attached_is_listed),
    ]
}

fn every_program_loads() -> Result<(), Failed> {
    let got = survey();
    assert_eq!(got.len(), Facts::of_this_kernel().programs().count());
    let refused: Vec<_> = got.iter().filter(|p| p.state != State::Loads).collect();
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}

fn attached_is_listed() -> Result<(), Failed> {
    let m = watched("--depth 4 --count 1000");
    assert_eq!(m.probe.mode, "aggregate");
    assert!(m.probe.programs.iter().any(|p| p == "ring_complete"));
    assert!(!m.probe.programs.iter().any(|p| p == "mode_sys_exit"), "no system-call probe by default");
    Ok(())
}
