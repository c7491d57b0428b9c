//! A trace of a few seconds in its own thread, after a trigger or for a window with counting probes.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use iotrail_answer::diagnose;
use iotrail_base::error::{Error, Result};
use iotrail_host::clock;
use iotrail_host::privileges::{Capability, Privileges};
use iotrail_probe::choice::Choice;
use iotrail_schema::trace_record::TraceRecord;
use rustix::process::{getpriority_process, setpriority_process};

use crate::namespace::Numbers;
use crate::session::{self, Extra, Options, Stop, Until};
use crate::subject;

/// Requests beyond 20,000 per second per CPU are sampled 1 in N.
const ONE_IN: u32 = 1000;

/// Assumed cost of a trace until one is measured.
pub const COST: Duration = Duration::from_millis(1000);

/// A trace in progress.
#[derive(Debug)]
pub struct Tracing {
    thread: Option<JoinHandle<Result<Traced>>>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
pub struct Traced {
    pub record: TraceRecord,
    /// CPU time of the trace's thread and of the probes.
    pub cost: Duration,
    /// The probes' part of `cost`.
    pub probes: Duration,
}

impl Tracing {
    /// `processes`: PIDs in iotrail's namespace; empty: all processes.
    pub fn start(processes: Vec<u32>, span: Duration) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let run = move || trace(&processes, span, &asked);
        let thread = std::thread::Builder::new().name("traces".into()).spawn(run);
        let failed = |e| Error::machine("cannot start a thread", "check the process limit: ulimit -u").because(e);
        Ok(Tracing { thread: Some(thread.map_err(failed)?), stop })
    }

    /// The result, once the thread has finished.
    pub fn poll(&mut self) -> Option<Result<Traced>> {
        self.thread.take_if(|thread| thread.is_finished()).map(join)
    }
}

fn join(thread: JoinHandle<Result<Traced>>) -> Result<Traced> {
    thread.join().unwrap_or_else(|payload| Err(Error::of_panic("a trace of the monitor", payload.as_ref())))
}

impl Drop for Tracing {
    /// Waits until the probes are detached.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(join);
    }
}

fn trace(processes: &[u32], span: Duration, stop: &AtomicBool) -> Result<Traced> {
    let began = clock::of_this_thread();
    // A trace is less urgent than samples. The thread inherited their priority.
    if getpriority_process(None).is_ok_and(|nice| nice < 0) {
        setpriority_process(None, 0).unwrap_or(());
    }
    let numbers = Rc::new(Numbers::of_this_process()?);
    let asked = subject::resolve(&[], processes, processes.is_empty(), &numbers)?;
    let how = Options {
        duration: Some(span),
        choice: Choice::adaptive(ONE_IN),
        windows: None,
        stdout_apart: false,
        prepare: None,
        tell_counts: false,
        until: Until::Last,
        spare: true,
        light_after: None,
        checkpoints: false,
        stacks: false,
        numbers,
    };
    let stop = Stop { asked: &|| stop.load(Ordering::Relaxed), to_pass_on: &|| None };
    // Only CAP_SYS_ADMIN may enable the programs' cost statistics; without it, their cost is left out.
    let cost = Privileges::read().has(Capability::SysAdmin) != Some(false);
    let extra = Extra { cost, ..Extra::default() };
    let mut record = session::watch(asked, &how, &extra, &mut |_| {}, &stop)?.record;
    record.findings = diagnose::findings(&record);
    let probes = record.total.probe_costs.iter().flatten().map(|cost| cost.spent_ns).sum();
    let probes = Duration::from_nanos(probes);
    Ok(Traced { record, cost: clock::of_this_thread().saturating_sub(began) + probes, probes })
}
