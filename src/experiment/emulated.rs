//! An experiment where software runs the machine's instructions: counts mean what they say and times mean nothing, so that the blocks
//! which only make intervals of times narrower are left out. Each of them takes long there.

use super::file::{Experiment, Scale};

/// Two show whether counts repeat.
const BLOCKS: u32 = 2;

/// Leaves out the blocks beyond the second, and the control arm, which tells how far times differ by themselves.
pub fn shorten(experiment: &mut Experiment) {
    experiment.control = false;
    for scale in scales(experiment) {
        scale.repeats = scale.repeats.min(BLOCKS);
        scale.stop = None;
    }
}

/// So many blocks, whatever the experiment says.
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
    use crate::experiment::builtin;

    #[test]
    fn two_blocks_and_no_control_are_left() {
        let mut e = builtin::find("irq-placement").unwrap();
        shorten(&mut e);
        let quick = e.quick.as_ref().unwrap();
        assert_eq!((e.full.repeats, quick.repeats, e.control), (2, 2, false));
        repeat(&mut e, 7);
        assert_eq!((e.full.repeats, e.quick.unwrap().repeats), (7, 7));
    }
}
