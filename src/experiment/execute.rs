//! The run itself: slot after slot, each measurement stored before the next one starts.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::cell::Measured;
use super::enough::{Budget, narrow_enough};
use super::load::Load;
use super::plan::{Cell, Plan, difference};
use super::schedule::{Slot, load_seed, order};
use iotrail_answer::comparable::disturbances;
use iotrail_base::corruption::Corruption;
use iotrail_base::error::{Error, Kind, Result};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::Stop;
use iotrail_store::Store;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Finished,
    /// Somebody asked it to stop; what is stored is whole.
    Interrupted,
    /// A verified load read data that is not what was written: the run ended there, and holds what was measured before.
    Corrupted,
}

/// What happens, for those who show it.
#[derive(Debug)]
pub enum Step<'a> {
    /// A measurement begins: the `done`th of `planned` is over, counting those of the run that is resumed.
    Begins { done: usize, planned: usize, repeat: u32, cell: &'a Cell },
    /// One that others disturbed begins once more.
    Again { done: usize, planned: usize, repeat: u32, cell: &'a Cell },
    /// The machine cannot do this cell; the run goes on without it.
    Untestable { cell: &'a Cell, reason: &'a Error },
}

/// A run that is stored and has measurements to come.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    pub run: i64,
    pub seed: u32,
    /// The slots to come, in order.
    pub slots: Vec<Slot>,
    pub planned: usize,
}

/// Seconds since the epoch (UTC).
pub fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Stores the run, with nothing measured yet.
pub fn start(plan: &Plan, seed: u32, store: &mut Store) -> Result<Started> {
    let slots = slots(plan, seed)?;
    let run = store.begin(&plan.record(seed, now_unix_s()), &plan.key())?;
    Ok(Started { run, seed, planned: slots.len(), slots })
}

/// What `--resume` says where there is no unfinished run.
pub fn nothing_to_resume(experiment: &str, store: &Path) -> Error {
    Error::input(
        format!("no run of '{experiment}' in {} waits to be resumed", store.display()),
        "start one without --resume",
    )
}

/// Takes up the last run of this experiment that has not ended; refuses where this plan would measure something else.
pub fn resume(plan: &Plan, store: &Store, kernel: Option<&str>) -> Result<Started> {
    let Some(last) = store.last_unfinished(&plan.name)? else {
        return Err(nothing_to_resume(&plan.name, store.path()));
    };
    let refuse = |why: String| {
        Error::input(
            format!("run {} of '{}' cannot be resumed: {why}", last.run, plan.name),
            "use the options it was started with, or start a new run without --resume",
        )
    };
    if last.plan_key != plan.key() {
        return Err(refuse(difference(&last.plan_key, &plan.key())));
    }
    if let (Some(now), Some(then)) = (kernel, last.kernels.iter().find(|k| kernel != Some(k.as_str()))) {
        return Err(refuse(format!("it was measured on kernel {then}, and this is {now}")));
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
            format!("nothing of '{}' can be tested here: {reason}", plan.name),
            "choose another target with --file, or run `iotrail check`",
        ));
    }
    Ok(order(&cells, plan.repeats, seed))
}

/// What measuring a run takes.
pub struct Execution<'a> {
    pub plan: &'a Plan,
    pub started: &'a Started,
    pub store: &'a mut Store,
    pub stop: &'a AtomicBool,
    /// Runs one cell.
    pub measure: &'a mut dyn FnMut(&Cell) -> Result<Measured>,
    pub tell: &'a mut dyn FnMut(Step<'_>),
}

/// Measures what is to come; a measurement that `stop` cut short is dropped. A run that fails before anything is stored
/// leaves no trace: there is nothing to report and nothing to resume.
pub fn execute(mut e: Execution<'_>) -> Result<Outcome> {
    let outcome = measure_slots(&mut e);
    let run = e.started.run;
    if outcome.is_err() && e.store.done(run)?.is_empty() {
        e.store.forget(run)?;
    }
    outcome
}

/// Asked before each block.
fn is_enough(store: &Store, run: i64, rule: &Stop, has_time: bool) -> Result<bool> {
    let record = store.load(run)?;
    Ok(!has_time || record.is_some_and(|record| narrow_enough(&record, rule)))
}

/// The cell as this block measures it; an experiment that says a seed has the same one in all.
fn with_seed(cell: &Cell, seed: u32) -> Cell {
    let mut cell = cell.clone();
    match &mut cell.load {
        Load::Storage(load) => load.seed = load.seed.or(Some(seed)),
        Load::Net(net) => net.sender.seed = Some(seed),
        Load::Program(program) => program.seed = Some(seed),
    }
    cell
}

/// Of the planned measurements, so many may be made once more since others disturbed them.
pub const AGAIN: f64 = 0.5;

/// And each so often at most.
const TIMES: u32 = 2;

/// What became of one slot.
enum Made {
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
    last_reason: Option<Error>,
    done: usize,
    measured_any: bool,
    /// Slots of this block that were disturbed, with how often.
    disturbed: Vec<(Slot, u32)>,
    /// Measurements that may still be made again.
    again: usize,
}

fn measure_slots(execution: &mut Execution<'_>) -> Result<Outcome> {
    let (plan, started) = (execution.plan, execution.started);
    let done = started.planned - started.slots.len();
    let budget = Budget::new(plan.stop.as_ref());
    // The first one may be what is left of a block that was interrupted: it is measured whatever is enough.
    let (mut block, mut blocks) = (started.slots.first().map(|s| s.repeat), 0);
    let mut slots = Slots {
        again: (AGAIN * started.slots.len() as f64) as usize,
        e: execution,
        untestable: HashSet::new(),
        last_reason: None,
        done,
        measured_any: done > 0,
        disturbed: Vec::new(),
    };
    for slot in &started.slots {
        if block != Some(slot.repeat) {
            if let Some(outcome) = slots.once_more()? {
                return Ok(outcome);
            }
            if let Some(rule) = plan.stop.as_ref() {
                blocks += 1;
                if slot.repeat > rule.at_least && is_enough(slots.e.store, started.run, rule, budget.has_room(blocks))?
                {
                    break;
                }
            }
        }
        block = Some(slot.repeat);
        if let Some(outcome) = slots.first(*slot)? {
            return Ok(outcome);
        }
    }
    if let Some(outcome) = slots.once_more()? {
        return Ok(outcome);
    }
    let Slots { last_reason, measured_any, .. } = slots;
    execution.store.finish(started.run, now_unix_s())?;
    match last_reason {
        Some(e) if !measured_any => Err(e),
        _ => Ok(Outcome::Finished),
    }
}

impl Slots<'_, '_> {
    /// `Some`: the run ends here.
    fn first(&mut self, slot: Slot) -> Result<Option<Outcome>> {
        if self.untestable.contains(&slot.cell) {
            self.done += 1;
            return Ok(None);
        }
        let made = self.measure(slot, 0)?;
        self.done += 1;
        match made {
            Made::Ends(outcome) => return Ok(Some(outcome)),
            Made::Kept { disturbed: true } => self.disturbed.push((slot, 1)),
            Made::Kept { disturbed: false } => {}
            Made::Untestable(reason) => {
                self.untestable.insert(slot.cell);
                self.last_reason = Some(reason);
            }
        }
        Ok(None)
    }

    /// What others disturbed in this block is measured again at its end, near in time to those that it is compared with.
    fn once_more(&mut self) -> Result<Option<Outcome>> {
        let mut disturbed = std::mem::take(&mut self.disturbed);
        while !disturbed.is_empty() {
            let mut still = Vec::new();
            for (slot, times) in disturbed {
                if self.again == 0 || self.untestable.contains(&slot.cell) {
                    continue;
                }
                self.again -= 1;
                match self.measure(slot, times)? {
                    Made::Kept { disturbed: true } if times < TIMES => still.push((slot, times + 1)),
                    Made::Kept { .. } => {}
                    // The measurement that is there stands.
                    Made::Untestable(_) => {}
                    Made::Ends(outcome) => return Ok(Some(outcome)),
                }
            }
            disturbed = still;
        }
        Ok(None)
    }

    /// Measures and stores it; `thrown_away` measurements of this slot were disturbed before.
    fn measure(&mut self, slot: Slot, thrown_away: u32) -> Result<Made> {
        let Execution { plan, started, store, stop, measure, tell } = &mut *self.e;
        if stop.load(Ordering::Relaxed) {
            return Ok(Made::Ends(Outcome::Interrupted));
        }
        let Some(cell) = plan.cells.iter().find(|c| c.number == slot.cell) else {
            return Ok(Made::Kept { disturbed: false });
        };
        match thrown_away {
            0 => tell(Step::Begins { done: self.done, planned: started.planned, repeat: slot.repeat, cell }),
            _ => tell(Step::Again { done: self.done, planned: started.planned, repeat: slot.repeat, cell }),
        }
        match measure(&with_seed(cell, load_seed(started.seed, slot.repeat))) {
            // What ends early measured a shorter run than the others.
            Ok(measured) if measured.interrupted => Ok(Made::Ends(Outcome::Interrupted)),
            Ok(measured) => {
                let m = Measurement { thrown_away, ..measured.measurement };
                let disturbed = !disturbances(&m).is_empty();
                match thrown_away {
                    0 => store.save(started.run, slot.cell, slot.repeat, &m, &measured.histogram)?,
                    _ => store.replace(started.run, slot.cell, slot.repeat, &m, &measured.histogram)?,
                }
                self.measured_any = true;
                Ok(Made::Kept { disturbed })
            }
            Err(e) if e.kind == Kind::Corruption => {
                let Some(found) = e.as_corruption() else { return Err(e) };
                let found = Corruption { cell: Some(slot.cell), ..found.clone() };
                store.end_corrupted(started.run, &found, now_unix_s())?;
                Ok(Made::Ends(Outcome::Corrupted))
            }
            // A fault of ours says nothing of the cell.
            Err(e) if e.kind == Kind::Internal => Err(e),
            // A load that was told to stop may fail for that; the failure says nothing of the machine.
            Err(_) if stop.load(Ordering::Relaxed) => Ok(Made::Ends(Outcome::Interrupted)),
            Err(e) if e.kind == Kind::Machine && thrown_away == 0 => {
                store.mark_untestable(started.run, slot.cell, &e.to_string())?;
                tell(Step::Untestable { cell, reason: &e });
                Ok(Made::Untestable(e))
            }
            Err(e) if e.kind == Kind::Machine => Ok(Made::Untestable(e)),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::plan::tests::two_by_two;
    use iotrail_testing::sample;

    fn fresh() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        (dir, store)
    }

    fn measured(interrupted: bool) -> Measured {
        Measured { measurement: sample::measurement(), histogram: sample::histogram(), samples: vec![], interrupted }
    }

    /// Executes what is to come, and nobody is told of it.
    fn untold(
        plan: &Plan,
        started: &Started,
        store: &mut Store,
        stop: &AtomicBool,
        measure: &mut dyn FnMut(&Cell) -> Result<Measured>,
    ) -> Result<Outcome> {
        execute(Execution { plan, started, store, stop, measure, tell: &mut |_| {} })
    }

    #[test]
    fn an_interrupted_run_keeps_what_is_whole_and_resumes_with_the_rest_in_the_same_order() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 7, &mut store).unwrap();
        assert_eq!((started.planned, started.slots.len()), (12, 12));
        let stop = AtomicBool::new(false);
        let mut n = 0;
        let mut measure = |_: &Cell| {
            n += 1;
            Ok(measured(n == 6))
        };
        let outcome = untold(&plan, &started, &mut store, &stop, &mut measure).unwrap();
        assert_eq!(outcome, Outcome::Interrupted);
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((record.done(), record.planned(), record.finished_unix_s), (5, 12, None));

        let again = resume(&plan, &store, Some("6.18.0")).unwrap();
        assert_eq!((again.run, again.seed, again.planned), (started.run, 7, 12));
        assert_eq!(again.slots, started.slots[5..]);
        let mut seen = Vec::new();
        let mut tell = |s: Step<'_>| {
            if let Step::Begins { done, cell, repeat, .. } = s {
                seen.push((done, Slot { cell: cell.number, repeat }));
            }
        };
        let outcome = execute(Execution {
            plan: &plan,
            started: &again,
            store: &mut store,
            stop: &stop,
            measure: &mut |_| Ok(measured(false)),
            tell: &mut tell,
        })
        .unwrap();
        assert_eq!(outcome, Outcome::Finished);
        assert_eq!(seen.first(), Some(&(5, started.slots[5])));
        assert_eq!(seen.len(), 7);
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!(record.done(), 12);
        assert!(record.finished_unix_s.is_some());
        assert!(resume(&plan, &store, None).unwrap_err().to_string().contains("waits to be resumed"));
    }

    #[test]
    fn a_run_is_not_resumed_under_another_plan_or_kernel() {
        let (_dir, mut store) = fresh();
        let mut plan = two_by_two();
        let started = start(&plan, 7, &mut store).unwrap();
        store.save(started.run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
        let e = resume(&plan, &store, Some("7.2.0")).unwrap_err().to_string();
        assert!(e.contains("measured on kernel 6.18.0, and this is 7.2.0"), "{e}");
        plan.repeats = 4;
        let e = resume(&plan, &store, None).unwrap_err();
        assert!(e.to_string().contains("repeats was 3 and is 4"), "{e}");
        assert_eq!(e.exit_status(), 2);
    }

    #[test]
    fn what_the_machine_refuses_is_noted_and_the_rest_is_measured() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 1, &mut store).unwrap();
        let mut tries = 0;
        let mut measure = |cell: &Cell| {
            if cell.load.storage().is_some_and(|l| l.depth == 4 && l.ring == "coop_taskrun") {
                tries += 1;
                return Err(Error::machine("the kernel refuses it", "use a newer one"));
            }
            Ok(measured(false))
        };
        let stop = AtomicBool::new(false);
        let outcome = untold(&plan, &started, &mut store, &stop, &mut measure).unwrap();
        assert_eq!((outcome, tries), (Outcome::Finished, 1));
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((record.done(), record.planned()), (9, 9));
        let refused: Vec<_> = record.cells.iter().filter_map(|c| c.untestable.as_deref()).collect();
        assert_eq!(refused, ["the kernel refuses it; use a newer one"]);
    }

    #[test]
    fn somebody_elses_change_ends_the_run_and_leaves_no_cell_untestable() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 1, &mut store).unwrap();
        let stop = AtomicBool::new(false);
        let mut n = 0;
        let mut measure = |_: &Cell| {
            n += 1;
            if n == 4 {
                Err(Error::disturbed("somebody else has changed it", "stop that"))
            } else {
                Ok(measured(false))
            }
        };
        let e = untold(&plan, &started, &mut store, &stop, &mut measure).unwrap_err();
        assert_eq!((e.kind, e.exit_status()), (Kind::Disturbed, 3));
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((record.done(), record.planned(), record.finished_unix_s), (3, 12, None));
        let again = resume(&plan, &store, None).unwrap();
        assert_eq!(again.slots, started.slots[3..]);
        let outcome = untold(&plan, &again, &mut store, &stop, &mut |_| Ok(measured(false))).unwrap();
        assert_eq!(outcome, Outcome::Finished);
        assert_eq!(store.load(started.run).unwrap().unwrap().done(), 12);
    }

    #[test]
    fn corruption_ends_the_run_and_what_was_measured_before_stays_with_it() {
        for good in [0, 5] {
            let (_dir, mut store) = fresh();
            let plan = two_by_two();
            let started = start(&plan, 1, &mut store).unwrap();
            let mut n = 0;
            let mut measure = |_: &Cell| {
                n += 1;
                match n > good {
                    true => Err(Error::corruption(corruption())),
                    false => Ok(measured(false)),
                }
            };
            let outcome = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
            assert_eq!((outcome, n), (Outcome::Corrupted, good + 1));
            let record = store.load(started.run).unwrap().unwrap();
            assert_eq!((record.done(), record.planned()), (good, 12));
            let found = record.corruption.unwrap();
            assert_eq!(found, Corruption { cell: Some(started.slots[good].cell), ..corruption() });
            assert!(
                found.to_string().starts_with("DATA CORRUPTION in /data/x: 3 blocks wrong; first at offset 8704: ")
            );
            let listed = store.list().unwrap().remove(0);
            assert_eq!((listed.done, listed.planned, listed.corruption), (good as u64, 12, Some(found)));
            assert!(record.cells.iter().all(|c| c.untestable.is_none()));
            assert!(resume(&plan, &store, None).is_err(), "it has ended");
        }
    }

    fn corruption() -> Corruption {
        Corruption {
            file: "/data/x".into(),
            offset: 8704,
            expected: "00".into(),
            found: "01".into(),
            blocks: 3,
            block_bytes: 4096,
            cell: None,
        }
    }

    #[test]
    fn a_fault_of_ours_ends_the_run_and_says_nothing_of_the_cell() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 1, &mut store).unwrap();
        let mut n = 0;
        let mut measure = |_: &Cell| {
            n += 1;
            if n == 3 { Err(Error::internal("a load thread panicked")) } else { Ok(measured(false)) }
        };
        let e = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap_err();
        assert_eq!(e.exit_status(), 70);
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((record.done(), record.planned(), record.finished_unix_s), (2, 12, None));
        assert!(record.cells.iter().all(|c| c.untestable.is_none()));
    }

    #[test]
    fn what_a_cell_measured_before_it_was_refused_counts_as_planned() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 1, &mut store).unwrap();
        let mut n = 0;
        let mut measure = |_: &Cell| {
            n += 1;
            if n > 5 { Err(Error::machine("the device is gone", "")) } else { Ok(measured(false)) }
        };
        let outcome = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((outcome, record.done(), record.planned()), (Outcome::Finished, 5, 5));
    }

    #[test]
    fn all_arms_of_a_block_have_one_seed_and_another_run_of_the_same_seed_has_the_same() {
        let seeds = |seed| {
            let (_dir, mut store) = fresh();
            let plan = two_by_two();
            let started = start(&plan, seed, &mut store).unwrap();
            let mut seen = Vec::new();
            let mut measure = |cell: &Cell| {
                seen.extend(cell.load.storage().and_then(|l| l.seed));
                Ok(measured(false))
            };
            untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
            seen
        };
        let one = seeds(7);
        assert!(one.chunks(4).all(|block| block.iter().all(|s| *s == block[0])), "{one:?}");
        let blocks: HashSet<u32> = one.iter().copied().collect();
        assert_eq!((one.len(), blocks.len()), (12, 3));
        assert_eq!(seeds(7), one);
        assert_ne!(seeds(8), one);
    }

    #[test]
    fn wrong_input_ends_the_run_and_a_machine_that_can_do_nothing_is_an_error() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let stop = AtomicBool::new(false);
        let started = start(&plan, 1, &mut store).unwrap();
        let mut bad = |_: &Cell| Err(Error::input("the file is too small", "use another"));
        let e = untold(&plan, &started, &mut store, &stop, &mut bad).unwrap_err();
        assert_eq!(e.exit_status(), 2);
        assert_eq!(store.load(started.run).unwrap(), None);
        let started = start(&plan, 1, &mut store).unwrap();
        let mut refused = |_: &Cell| Err(Error::machine("io_uring is disabled", "sysctl"));
        let e = untold(&plan, &started, &mut store, &stop, &mut refused).unwrap_err();
        assert_eq!(e.exit_status(), 3);
        assert_eq!(store.list().unwrap(), []);
    }

    #[test]
    fn a_stop_before_the_first_cell_measures_nothing() {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 1, &mut store).unwrap();
        let stop = AtomicBool::new(true);
        let mut never = |_: &Cell| -> Result<Measured> { unreachable!("nothing is to be measured") };
        let outcome = untold(&plan, &started, &mut store, &stop, &mut never).unwrap();
        assert_eq!(outcome, Outcome::Interrupted);
    }
}
