//! A job with a separate reaping thread.
//!
//! The submitting thread generates and submits I/Os, and receives free slots through a ring of indices. The reaping
//! thread polls, counts, and returns slots. Either sleeps only if it is idle and `--wait block` is set, on a futex that
//! the other wakes; these system calls are added to the engine's.

mod link;
#[cfg(test)]
mod link_tests;
mod reaping;
mod submitting;
mod sync;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use self::link::Link;
use self::reaping::Reaping;
use self::submitting::Submitting;
use super::feeder::Feeder;
use super::gate::{self, AtGate};
use super::job::{JobOutcome, Shared};
use super::scratch::Pages;
use crate::engine::{Reaper, Submitter};
use iotrail_base::error::{Error, Result};

/// Runs a job's two threads; the calling thread submits. Sets `left` to the number of I/Os that could not be reaped.
#[allow(clippy::too_many_arguments)]
pub fn run<S: Submitter, R: Reaper>(
    shared: &Shared,
    job: u32,
    cpu: Option<u32>,
    submitter: S,
    reaper: R,
    feeder: Feeder,
    scratch: Option<Pages>,
    granted: Vec<String>,
    left: &mut u32,
) -> Result<JobOutcome> {
    let link = Link::new(shared.spec.depth);
    let memory = feeder.memory();
    let slots = Arc::clone(&feeder.slots);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(format!("reap-{job}"));
        let reaping = Reaping { shared, job, cpu, link: &link, reaper, scratch, slots, memory };
        let handle = thread.spawn_scoped(scope, || {
            let _at_gate = AtGate(&shared.gate);
            let reaped = reaping.all_stages();
            reaped.unwrap_or_else(|e| {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                shared.halt.store(true, Ordering::Relaxed);
                link.fail();
                None
            })
        });
        let handle = match handle {
            Ok(handle) => handle,
            Err(e) => {
                shared.gate.leave(); // in the place of the thread that is not there
                return Err(Error::machine("cannot start a reaper thread", "use fewer --jobs").because(e));
            }
        };
        let submitting = Submitting { shared, job, link: &link, submitter, feeder, head: 0, syscalls: 0 };
        let submitted = submitting.all_stages();
        if submitted.is_err() {
            shared.halt.store(true, Ordering::Relaxed);
            link.fail();
        }
        let reaped = handle.join().map_err(|payload| Error::of_panic("a reaper thread", payload.as_ref()))?;
        let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (submitted, failed, reaped) {
            (_, Some(e), _) | (Err(e), None, _) => Err(e),
            (Ok(Some(mut of_submitter)), None, Some(reaped)) => {
                of_submitter.tally = reaped.tally;
                of_submitter.ended = of_submitter.ended.max(reaped.ended);
                of_submitter.parts.push(reaped.part);
                of_submitter.granted = granted;
                Ok(of_submitter)
            }
            _ => Err(gate::called_off()),
        }
    });
    *left = link.left();
    outcome
}
