//! Additional measurements after disturbances.
//!
//! A disturbed measurement is repeated. If most repetitions are disturbed again, the machine is permanently disturbed:
//! repetitions stop, and complete blocks are added at the end. The decision depends on the machine's state, never on a
//! result, and uses stored data only, so a resumed run decides like an uninterrupted one.

use std::collections::HashSet;

use super::{Execution, Outcome, Slots, Step};
use crate::plan::Plan;
use crate::schedule::{Slot, order};
use iotrail_answer::comparable::disturbances;
use iotrail_base::error::Result;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;

/// Maximum additional measurements, relative to the plan.
const SHARE: f64 = 0.5;

/// The last added block may exceed that limit by this share of a block.
const MISSING: f64 = 0.25;

/// Maximum repetitions per measurement.
const TIMES: u32 = 2;

/// The number of repetitions after which their success is evaluated: minimum, maximum, and share of the allowed
/// repetitions.
const TELLS: (usize, usize, f64) = (3, 8, 1.0 / 12.0);

/// Blocks are added if more than this share of planned measurements is disturbed at the end, because a single burst may
/// have disturbed the few repetitions evaluated.
const MANY: f64 = 0.25;

/// Additional measurements so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beyond {
    /// Maximum number of repetitions, or of measurements in added blocks.
    share: usize,
    again: usize,
    /// Repetitions that were disturbed again.
    in_vain: usize,
    /// The number of repetitions after which their success is evaluated.
    tells: usize,
}

impl Beyond {
    pub fn new(planned: usize, plan: &Plan, record: &RunRecord) -> Self {
        let share = (SHARE * planned as f64) as usize;
        let (least, most, part) = TELLS;
        let mut beyond = Self { share, again: 0, in_vain: 0, tells: least };
        if plan.searches().is_some() {
            return beyond;
        }
        beyond.tells = ((part * share as f64) as usize).clamp(least, most);
        for m in record.measurements().filter(|m| m.thrown_away > 0) {
            // All but the last were disturbed, because only disturbed measurements are repeated.
            beyond.again += m.thrown_away as usize;
            beyond.in_vain += m.thrown_away as usize - 1 + usize::from(is_disturbed(&m));
        }
        beyond
    }

    /// A search plans more blocks than its budget allows, so each block is evaluated separately.
    pub fn next_block(&mut self) {
        (self.again, self.in_vain) = (0, 0);
    }

    /// Counts a repetition.
    pub fn take(&mut self, disturbed: bool) {
        self.again += 1;
        self.in_vain += usize::from(disturbed);
    }

    /// Whether to repeat a measurement that has been made `times` times.
    pub fn again(&self, times: u32) -> bool {
        times <= TIMES && self.again < self.share && !self.is_in_vain()
    }

    fn is_in_vain(&self) -> bool {
        self.again >= self.tells && 2 * self.in_vain > self.again
    }

    /// Number of complete blocks of this many cells that replace the remaining repetitions.
    fn blocks(&self, cells: usize) -> u32 {
        if !self.is_in_vain() || cells == 0 {
            return 0;
        }
        let left = self.share.saturating_sub(self.again) + (MISSING * cells as f64) as usize;
        u32::try_from(left / cells).unwrap_or(0)
    }
}

/// Maximum additional measurements, relative to the plan.
pub fn most_beyond(plan: &Plan) -> f64 {
    let blocks = f64::from(plan.repeats.max(1));
    let adds_blocks = may_add(plan) && (SHARE * blocks + MISSING).floor() >= 1.0;
    SHARE + if adds_blocks { MISSING / blocks } else { 0.0 }
}

/// Excludes runs with a stopping rule and searches, which decide by themselves, and confirmations, whose number of
/// blocks is fixed.
fn may_add(plan: &Plan) -> bool {
    plan.stop.is_none() && plan.search.is_none()
}

pub(super) fn is_disturbed(m: &Measurement) -> bool {
    !disturbances(m).is_empty()
}

/// Whether a large share of the first `repeats` of all cells is disturbed.
fn is_much_disturbed(record: &RunRecord, repeats: u32) -> bool {
    let planned = || record.cells.iter().flat_map(|c| c.measurements.each().take(repeats as usize));
    planned().filter(|m| is_disturbed(m)).count() as f64 > MANY * planned().count() as f64
}

impl Slots<'_, '_> {
    /// Measures additional blocks. `Some` if the run ends here.
    pub(super) fn added(&mut self) -> Result<Option<Outcome>> {
        let Execution { plan, started, store, tell, .. } = &mut *self.e;
        let Some(record) = store.load(started.run)?.filter(|_| may_add(plan)) else { return Ok(None) };
        let cells: Vec<u32> = plan.testable().map(|c| c.number).collect();
        let blocks = self.beyond.blocks(cells.len());
        if blocks == 0 || !is_much_disturbed(&record, plan.repeats) {
            return Ok(None);
        }
        let repeats = plan.repeats + blocks;
        let is_left = |slot: &Slot| record.cells.iter().any(|c| c.cell == slot.cell && c.untestable.is_none());
        let slots: Vec<Slot> = order(&cells, repeats, started.seed)
            .into_iter()
            .filter(|slot| slot.repeat > plan.repeats && is_left(slot))
            .collect();
        let stored: HashSet<(u32, u32)> = store.done(started.run)?;
        let is_done = |slot: &Slot| stored.contains(&(slot.cell, slot.repeat));
        self.planned += slots.len();
        self.done += slots.iter().filter(|slot| is_done(slot)).count();
        tell(Step::Added { planned: self.planned, repeats, of_plan: plan.repeats });
        for slot in slots.iter().filter(|slot| !is_done(slot)) {
            if let Some(outcome) = self.first(*slot)? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }
}
