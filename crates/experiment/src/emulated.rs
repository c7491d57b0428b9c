//! Experiments on an emulated machine (no KVM), where counts are valid but times are not. Omits blocks that only narrow
//! the intervals of times, because every block takes long there.

use super::file::{Experiment, Scale};
use super::load::Kind;

/// Two blocks show whether counts are reproducible.
const BLOCKS: u32 = 2;

/// Drops all blocks after the second, and the control arm, which only estimates the noise of times. Traces all runs of
/// a program, because a run without probes has no counts.
pub fn shorten(experiment: &mut Experiment) {
    experiment.control = false;
    let is_program = experiment.kind == Kind::Program;
    for scale in scales(experiment) {
        scale.repeats = scale.repeats.min(BLOCKS);
        scale.stop = None;
        if is_program {
            scale.load.entry("watch").or_insert_with(|| "all".into());
        }
    }
}

/// Overrides the number of blocks.
pub fn repeat(experiment: &mut Experiment, blocks: u32) {
    for scale in scales(experiment) {
        scale.repeats = blocks;
        scale.stop = None;
    }
}

fn scales(experiment: &mut Experiment) -> impl Iterator<Item = &mut Scale> {
    std::iter::once(&mut experiment.full).chain(&mut experiment.quick)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use crate::file::parse;

    #[test]
    fn an_experiment_on_emulated_machines_has_two_blocks_and_no_control() {
        let mut e = builtin::find("irq-placement").unwrap();
        shorten(&mut e);
        let quick = e.quick.as_ref().unwrap();
        assert_eq!((e.full.repeats, quick.repeats, e.control), (2, 2, false));
        repeat(&mut e, 7);
        assert_eq!((e.full.repeats, e.quick.unwrap().repeats), (7, 7));
    }

    #[test]
    fn all_runs_of_a_program_on_emulated_machines_are_traced_by_default() {
        let watched = |load: &str| {
            let text = format!(
                "name='p'\ntitle='t'\nquestion='q'\nexpect='e'\nkind='program'\nrepeats=9\n[load]\nprogram='true'\n{load}\n\
                 [[arm]]\nname='a'\n[[arm]]\nname='b'\nring='sqpoll'"
            );
            let mut e = parse(&text, "p.toml").unwrap();
            shorten(&mut e);
            assert_eq!(e.full.repeats, 2);
            e.full.load["watch"].as_str().unwrap().to_owned()
        };
        assert_eq!((watched("").as_str(), watched("watch='none'").as_str()), ("all", "none"));
    }
}
