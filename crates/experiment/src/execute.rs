//! Executes a run slot by slot, storing each measurement before the next one starts.

mod beyond;

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::beyond::most_beyond;
use self::beyond::{Beyond, is_disturbed};
use super::cell::Measured;
use super::enough::{Budget, narrow_enough};
use super::load::Load;
use super::plan::{Cell, Plan, difference};
use super::precheck::like_hung;
use super::program::guard::Hung;
use super::schedule::{Slot, load_seed, order};
use iotrail_answer::search::{self, State};
use iotrail_base::corruption::Corruption;
use iotrail_base::error::{Error, Kind, Result};
use iotrail_host::clock;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::program_record::Hang;
use iotrail_schema::run_record::{ARM, RunRecord, Stop};
use iotrail_store::Store;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Finished,
    /// Stopped on request; stored measurements are complete.
    Interrupted,
    /// A verified load read corrupt data. The run ended there and keeps its earlier measurements.
    Corrupted,
}

/// Progress events for display.
#[derive(Debug)]
pub enum Step<'a> {
    /// A measurement starts; `done` of `planned` are complete, including those from before a resume.
    Begins { done: usize, planned: usize, repeat: u32, cell: &'a Cell },
    /// A disturbed measurement is repeated.
    Again { done: usize, planned: usize, repeat: u32, cell: &'a Cell },
    /// The machine is permanently disturbed: `repeats` blocks are measured instead of `of_plan`.
    Added { planned: usize, repeats: u32, of_plan: u32 },
    /// A preliminary answer after two complete blocks, the minimum for an interval.
    SoFar { record: &'a RunRecord, repeats: u32 },
    /// A block of a search ended.
    Left { left: usize, leader: &'a str },
    /// This machine cannot run the cell; the run continues without it.
    Untestable { cell: &'a Cell, reason: &'a Error },
}

/// A stored run with slots left to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    pub run: i64,
    pub seed: u32,
    /// The remaining slots in order.
    pub slots: Vec<Slot>,
    pub planned: usize,
}

/// Stores the run, still without measurements.
pub fn start(plan: &Plan, seed: u32, store: &mut Store) -> Result<Started> {
    let slots = slots(plan, seed)?;
    let run = store.begin(&plan.record(seed, clock::unix_s()), &plan.key())?;
    Ok(Started { run, seed, planned: slots.len(), slots })
}

/// The error for `--resume` without an unfinished run.
pub fn nothing_to_resume(experiment: &str, store: &Path) -> Error {
    Error::input(
        format!("no unfinished run of '{experiment}' in {}", store.display()),
        "omit --resume to start a new run",
    )
}

/// Resumes this experiment's last unfinished run; fails if the plan differs in what it measures.
pub fn resume(plan: &Plan, store: &Store, kernel: Option<&str>) -> Result<Started> {
    let Some(last) = store.last_unfinished(&plan.name)? else {
        return Err(nothing_to_resume(&plan.name, store.path()));
    };
    let _nobody_measures_it = store.measuring(last.run)?;
    let refuse = |why: String| {
        Error::input(
            format!("run {} of '{}' cannot be resumed: {why}", last.run, plan.name),
            "use its original options, or omit --resume to start a new run",
        )
    };
    if last.plan_key != plan.key() {
        return Err(refuse(difference(&last.plan_key, &plan.key())));
    }
    if let (Some(now), Some(then)) = (kernel, last.kernels.iter().find(|k| kernel != Some(k.as_str()))) {
        return Err(refuse(format!("it was measured on kernel {then}, and this kernel is {now}")));
    }
    let all = slots(plan, last.seed)?;
    let done: HashSet<(u32, u32)> = store.done(last.run)?;
    let planned = all.len();
    let slots = all.into_iter().filter(|s| !done.contains(&(s.cell, s.repeat))).collect();
    Ok(Started { run: last.run, seed: last.seed, slots, planned })
}

fn slots(plan: &Plan, seed: u32) -> Result<Vec<Slot>> {
    let cells: Vec<u32> = plan.testable().map(|c| c.number).collect();
    if cells.is_empty() {
        let reason = plan.cells.iter().find_map(|c| c.untestable.as_deref()).unwrap_or("it has no cells");
        return Err(Error::machine(
            format!("no cell of '{}' can be tested here: {reason}", plan.name),
            "choose another target with --file, or run `iotrail check`",
        ));
    }
    Ok(order(&cells, plan.repeats, seed))
}

/// Inputs and callbacks for executing a run.
pub struct Execution<'a> {
    pub plan: &'a Plan,
    pub started: &'a Started,
    pub store: &'a mut Store,
    pub stop: &'a AtomicBool,
    /// Runs one cell.
    pub measure: &'a mut dyn FnMut(&Cell) -> Result<Measured>,
    pub tell: &'a mut dyn FnMut(Step<'_>),
}

/// Measures the remaining slots, discarding a measurement that `stop` interrupts. Deletes a run that fails before its
/// first measurement, because there is nothing to report or resume.
pub fn execute(mut e: Execution<'_>) -> Result<Outcome> {
    let run = e.started.run;
    let _nobody_else_measures_it = e.store.measuring(run)?;
    let done = e.store.done(run)?;
    if e.started.slots.iter().any(|s| done.contains(&(s.cell, s.repeat))) {
        return Err(Error::input(
            format!("another process has resumed run {run}"),
            "check its progress with iotrail list",
        ));
    }
    let outcome = measure_slots(&mut e);
    if outcome.is_err() && e.store.done(run)?.is_empty() {
        e.store.forget(run)?;
    }
    outcome
}

/// Whether to stop; called before each block.
fn is_enough(store: &Store, run: i64, rule: &Stop, has_time: bool) -> Result<bool> {
    let record = store.load(run)?;
    Ok(!has_time || record.is_some_and(|record| narrow_enough(&record, rule)))
}

/// The cell with this block's seed, unless the experiment fixes the seed for all blocks.
fn with_seed(cell: &Cell, seed: u32) -> Cell {
    let mut cell = cell.clone();
    match &mut cell.load {
        Load::Storage(load) => load.seed = load.seed.or(Some(seed)),
        Load::Net(net) => net.sender.seed = Some(seed),
        Load::Program(program) => program.seed = Some(seed),
    }
    cell
}

/// The outcome of one slot.
enum SlotOutcome {
    Kept {
        disturbed: bool,
    },
    /// The cell cannot be tested.
    Untestable(Error),
    /// The run ends here.
    Ends(Outcome),
}

struct Slots<'e, 'a> {
    e: &'e mut Execution<'a>,
    untestable: HashSet<u32>,
    /// Cells that failed before a resume; they are retried.
    failed_before: HashSet<u32>,
    last_reason: Option<Error>,
    done: usize,
    planned: usize,
    measured_any: bool,
    /// Disturbed slots of this block, with the number of disturbed measurements.
    disturbed: Vec<(Slot, u32)>,
    beyond: Beyond,
}

fn measure_slots(execution: &mut Execution<'_>) -> Result<Outcome> {
    let (plan, started) = (execution.plan, execution.started);
    let done = started.planned - started.slots.len();
    let record = execution.store.load(started.run)?.unwrap_or_else(|| plan.record(started.seed, 0));
    let mut slots = Slots {
        beyond: Beyond::new(started.planned, plan, &record),
        e: execution,
        untestable: HashSet::new(),
        failed_before: record.cells.iter().filter(|c| c.untestable.is_some()).map(|c| c.cell).collect(),
        last_reason: None,
        done,
        planned: started.planned,
        measured_any: done > 0,
        disturbed: Vec::new(),
    };
    if let Some(outcome) = slots.planned()? {
        return Ok(outcome);
    }
    if let Some(outcome) = slots.added()? {
        return Ok(outcome);
    }
    let Slots { last_reason, measured_any, .. } = slots;
    execution.store.finish(started.run, clock::unix_s())?;
    match last_reason {
        Some(e) if !measured_any => Err(e),
        _ => Ok(Outcome::Finished),
    }
}

impl Slots<'_, '_> {
    /// Measures the planned blocks, unless a stopping rule or a search ends earlier. `Some` if the run ends here.
    fn planned(&mut self) -> Result<Option<Outcome>> {
        let (plan, started) = (self.e.plan, self.e.started);
        let budget = Budget::new(plan.limit_s());
        // The first block may be the rest of an interrupted one, which is completed regardless of the stopping rule.
        let (mut block, mut blocks) = (started.slots.first().map(|s| s.repeat), 0);
        let mut search = self.search()?;
        let mut measured = 0;
        for slot in &started.slots {
            if block != Some(slot.repeat) {
                if let Some(outcome) = self.once_more()? {
                    return Ok(Some(outcome));
                }
                search = self.search()?;
                self.so_far(slot.repeat)?;
                // Fewer candidates shorten a block.
                let share = search.as_ref().map(|state| state.set().len() as f64 / measured.max(1) as f64);
                if share.is_some_and(|share| !budget.has_room(share)) {
                    break;
                }
                if share.is_some() {
                    self.beyond.next_block();
                }
                if let Some(rule) = plan.stop.as_ref() {
                    blocks += 1;
                    if slot.repeat > rule.at_least
                        && is_enough(self.e.store, started.run, rule, budget.has_room(1.0 / f64::from(blocks)))?
                    {
                        break;
                    }
                }
            }
            block = Some(slot.repeat);
            if let Some(state) = &search {
                if state.ended.is_some() {
                    break;
                }
                if !self.is_left(state, slot.cell) {
                    continue;
                }
            }
            if let Some(outcome) = self.first(*slot)? {
                return Ok(Some(outcome));
            }
            measured += 1;
        }
        self.once_more()
    }

    fn so_far(&mut self, next: u32) -> Result<()> {
        let Execution { plan, started, store, tell, .. } = &mut *self.e;
        if next == 3
            && plan.searches().is_none()
            && let Some(record) = store.load(started.run)?
        {
            tell(Step::SoFar { record: &record, repeats: plan.repeats });
        }
        Ok(())
    }

    /// The state of the search; `None` if the run is not a search.
    fn search(&mut self) -> Result<Option<State>> {
        let Execution { plan, started, store, tell, .. } = &mut *self.e;
        let record = if plan.searches().is_some() { store.load(started.run)? } else { None };
        let state = record.as_ref().and_then(search::state);
        if let Some(state) = state.as_ref().filter(|s| s.blocks > 0) {
            tell(Step::Left { left: state.set().len(), leader: &plan.arms[state.leader] });
        }
        Ok(state)
    }

    fn is_left(&self, state: &State, cell: u32) -> bool {
        let plan = self.e.plan;
        let arm = plan.cells.iter().find(|c| c.number == cell).and_then(|c| c.params.get(ARM)?.as_str());
        arm.and_then(|arm| plan.arms.iter().position(|a| a == arm)).is_none_or(|i| state.alive[i])
    }

    /// If an arm of a search hangs, stops measuring arms that include its settings.
    fn exclude_like(&mut self, cell: u32, error: &Error) -> Result<()> {
        let Execution { plan, started, store, .. } = &mut *self.e;
        let hung = error.source.as_ref().and_then(|cause| cause.downcast_ref::<Hung>());
        let Some(hung) = hung.filter(|_| plan.searches().is_some()) else { return Ok(()) };
        let arm_of = |cell: &Cell| cell.params.get(ARM).and_then(|arm| arm.as_str()).unwrap_or_default().to_owned();
        let Some(arm) = plan.cells.iter().find(|c| c.number == cell).map(arm_of) else { return Ok(()) };
        let with = plan.with_settings_of(&arm);
        let Some(mut tried) = store.load(started.run)?.map(|record| record.tried) else { return Ok(()) };
        let Some(its) = tried.iter().position(|t| t.name == arm) else { return Ok(()) };
        tried[its].dropped = Some(hung.why.clone());
        tried[its].hang = Some(Hang { arm, waited_ns: hung.waited_ns });
        let its = tried[its].clone();
        for other in tried.iter_mut().filter(|t| t.is_measured() && with.contains(&t.name.as_str())) {
            *other = like_hung(other.clone(), &its);
            for cell in plan.testable().filter(|c| arm_of(c) == other.name) {
                store.mark_untestable(started.run, cell.number, other.dropped.as_deref().unwrap_or_default())?;
                self.untestable.insert(cell.number);
            }
        }
        store.set_tried(started.run, &tried)
    }

    /// Measures a slot for the first time. `Some` if the run ends here.
    fn first(&mut self, slot: Slot) -> Result<Option<Outcome>> {
        if self.untestable.contains(&slot.cell) {
            self.done += 1;
            return Ok(None);
        }
        let made = self.measure(slot, 0)?;
        self.done += 1;
        match made {
            SlotOutcome::Ends(outcome) => return Ok(Some(outcome)),
            SlotOutcome::Kept { disturbed: true } => self.disturbed.push((slot, 1)),
            SlotOutcome::Kept { disturbed: false } => {}
            SlotOutcome::Untestable(reason) => {
                self.untestable.insert(slot.cell);
                self.last_reason = Some(reason);
            }
        }
        Ok(None)
    }

    /// Repeats the block's disturbed measurements at its end, close in time to the measurements that they are compared
    /// with.
    fn once_more(&mut self) -> Result<Option<Outcome>> {
        let mut disturbed = std::mem::take(&mut self.disturbed);
        while !disturbed.is_empty() {
            let mut still = Vec::new();
            for (slot, times) in disturbed {
                if !self.beyond.again(times) || self.untestable.contains(&slot.cell) {
                    continue;
                }
                match self.measure(slot, times)? {
                    SlotOutcome::Kept { disturbed } => {
                        self.beyond.take(disturbed);
                        if disturbed {
                            still.push((slot, times + 1));
                        }
                    }
                    // The existing measurement is kept.
                    SlotOutcome::Untestable(_) => {}
                    SlotOutcome::Ends(outcome) => return Ok(Some(outcome)),
                }
            }
            disturbed = still;
        }
        Ok(None)
    }

    /// Measures and stores one slot; `thrown_away`: number of its discarded disturbed measurements.
    fn measure(&mut self, slot: Slot, thrown_away: u32) -> Result<SlotOutcome> {
        let Execution { plan, started, store, stop, measure, tell } = &mut *self.e;
        if stop.load(Ordering::Relaxed) {
            return Ok(SlotOutcome::Ends(Outcome::Interrupted));
        }
        let Some(cell) = plan.cells.iter().find(|c| c.number == slot.cell) else {
            return Ok(SlotOutcome::Kept { disturbed: false });
        };
        match thrown_away {
            0 => tell(Step::Begins { done: self.done, planned: self.planned, repeat: slot.repeat, cell }),
            _ => tell(Step::Again { done: self.done, planned: self.planned, repeat: slot.repeat, cell }),
        }
        match measure(&with_seed(cell, load_seed(started.seed, slot.repeat))) {
            // A measurement that ended early is not comparable.
            Ok(measured) if measured.interrupted => Ok(SlotOutcome::Ends(Outcome::Interrupted)),
            Ok(measured) => {
                let m = Measurement { thrown_away, ..measured.measurement };
                let disturbed = is_disturbed(&m);
                match thrown_away {
                    0 => store.save(started.run, slot.cell, slot.repeat, &m, &measured.histogram)?,
                    _ => store.replace(started.run, slot.cell, slot.repeat, &m, &measured.histogram)?,
                }
                if self.failed_before.remove(&slot.cell) {
                    store.mark_testable(started.run, slot.cell)?;
                }
                self.measured_any = true;
                Ok(SlotOutcome::Kept { disturbed })
            }
            Err(e) if e.kind == Kind::Corruption => {
                let Some(found) = e.as_corruption() else { return Err(e) };
                let found = Corruption { cell: Some(slot.cell), ..found.clone() };
                store.end_corrupted(started.run, &found, clock::unix_s())?;
                Ok(SlotOutcome::Ends(Outcome::Corrupted))
            }
            // An internal error does not make the cell untestable.
            Err(e) if e.kind == Kind::Internal => Err(e),
            // A load may fail because it was stopped, which does not make the cell untestable.
            Err(_) if stop.load(Ordering::Relaxed) => Ok(SlotOutcome::Ends(Outcome::Interrupted)),
            Err(e) if e.kind == Kind::Machine && thrown_away == 0 => {
                store.mark_untestable(started.run, slot.cell, &e.to_string())?;
                tell(Step::Untestable { cell, reason: &e });
                self.exclude_like(slot.cell, &e)?;
                Ok(SlotOutcome::Untestable(e))
            }
            Err(e) if e.kind == Kind::Machine => Ok(SlotOutcome::Untestable(e)),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests;
