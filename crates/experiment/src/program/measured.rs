//! Turns a run of a program into a measurement.

use std::sync::atomic::{AtomicBool, Ordering};

use super::expected::Expected;
use super::guard::Hung;
use super::options::{ProgramOptions, Watched};
use super::run::{Ended, Run, ring_records, run};
use crate::cell::Measured;
use iotrail_answer::comparable;
use iotrail_answer::traced;
use iotrail_answer::warnings::doubt::doubts;
use iotrail_base::error::{Error, Result};
use iotrail_base::words::last_line;
use iotrail_host::contention::{self, Contention};
use iotrail_host::{circumstances, clock};
use iotrail_schema::measurement::{Cpu, LoadRecord, Measurement, Probe, Ring, SCHEMA, Warning};
use iotrail_schema::program_record::ProgramRecord;
use iotrail_schema::trace_record::TraceRecord;
use iotrail_stats::expansion::is_narrow;
use iotrail_stats::histogram;

/// The engine name of programs.
const ENGINE: &str = "program";

/// Runs the program once. `expected`: the reference for its runs.
pub fn measure(options: &ProgramOptions, expected: &Expected, stop: &AtomicBool) -> Result<Measured> {
    let cpus = iotrail_host::cpu::online()?;
    let before = circumstances::before(circumstances::Subject { target: None, bytes: None, cpus: &cpus });
    let started_unix_s = clock::unix_s();
    let watched = options.watch == Watched::All;
    let contention = contention::begin();
    let r = run(options, options.seed.unwrap_or(0), watched, expected.patience, stop);
    let waits = contention.and_then(Contention::end);
    let mut r = r?;
    let mut around = before.after();
    around.run_queue_wait_ns = waits.map(|w| w.runnable_ns);
    around.others_had_cpu_ns = waits.map(|w| w.others_ns);
    let name = || options.argv.join(" ");
    if let Ended::Stuck(why) = &r.end {
        let hung = Hung { why: why.clone(), waited_ns: r.wall_ns };
        return Err(Error::machine(name(), "check whether it works with this arm").because(hung));
    }
    let mut interrupted = r.end == Ended::Stopped;
    if !interrupted && r.exit_status != expected.exit_status {
        let last = last_line(&r.output).unwrap_or_else(|| "it printed nothing".into());
        return Err(Error::machine(
            format!(
                "{} exited with status {}, previously with {}: {last}",
                name(),
                r.exit_status,
                expected.exit_status
            ),
            "run it by hand with the same settings",
        ));
    }
    let found = options.metrics.iter().map(|m| m.find(&r.output, stop).map_err(|why| (m, why)));
    let figures = match found.collect::<std::result::Result<Vec<_>, _>>() {
        Ok(figures) => figures,
        Err(_) if stop.load(Ordering::Relaxed) => {
            interrupted = true;
            Vec::new()
        }
        Err(_) if interrupted => Vec::new(),
        Err((metric, why)) => {
            return Err(Error::machine(format!("--metric {}: {why}", metric.name), "check its output with this arm"));
        }
    };
    let program = ProgramRecord {
        argv: options.argv.clone(),
        settings: settings(options),
        exit_status: r.exit_status,
        watched,
        figures,
        rings: ring_records(&r),
    };
    let (user_ns, system_ns) = r.cpu_ns.unzip();
    let mut m = Measurement {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix_s,
        load: load_record(options, &r).into(),
        elapsed_ns: r.wall_ns,
        cpu: Cpu { user_ns, system_ns, ..Cpu::default() },
        probe: Probe { mode: "off".into(), ..Probe::default() },
        circumstances: Some(around.into()),
        program: Some(program.into()),
        host: iotrail_host::facts(None)?.into(),
        ..Measurement::default()
    };
    if let Some(trace) = r.trace.take() {
        seen(&mut m, *trace);
    }
    let is_replay = options.replayed.recording.is_some();
    let mut latencies = histogram::new();
    if is_replay && !interrupted {
        latencies = options.replayed.take(&mut m, &r.output)?;
    }
    if !watched && !is_replay {
        m.warnings.push(Warning::new(
            "not_traced",
            "this run was not traced: its I/Os, bytes, errors and counts per I/O are unknown",
            "trace the timed runs as well: --watch all",
        ));
    }
    m.warnings.extend(left_as_asked(&r));
    let restart = "install the handlers with SA_RESTART, or repeat io_uring_setup after EINTR";
    m.warnings.extend(r.interrupted_setups().map(|text| Warning::new("setups_interrupted", text, restart)));
    m.warnings.extend(remaining(&r));
    let more: Vec<Warning> = doubts(&m).into_iter().chain(comparable::warnings(&m)).collect();
    m.warnings.extend(more);
    Ok(Measured { measurement: m, histogram: latencies, samples: vec![], interrupted })
}

/// The arm as `try` options.
fn settings(options: &ProgramOptions) -> Vec<String> {
    let change = &options.change;
    let number = |n: Option<u32>| n.map(|n| n.to_string());
    let given = [
        ("--ring", change.flags()),
        ("--sq-idle", number(change.sq_idle_ms)),
        ("--sq-cpu", number(change.sq_cpu)),
        ("--cq-entries", number(change.cq_entries)),
        ("--cpus", options.cpus.clone()),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let env = options.env.iter().map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]);
    given.chain(env).flatten().collect()
}

fn load_record(options: &ProgramOptions, r: &Run) -> LoadRecord {
    let of_rings = || r.rings.iter().flat_map(|ring| ring.given_flags()).collect();
    let mut granted: Vec<String> = options.known_flags.clone().unwrap_or_else(of_rings);
    granted.sort_unstable();
    granted.dedup();
    LoadRecord {
        engine: ENGINE.into(),
        ring: Ring { requested: granted.clone(), granted },
        sq_cpu: options.change.sq_cpu,
        sq_idle_ms: options.change.sq_idle_ms,
        cpus_requested: options.cpus.clone(),
        seed: options.seed,
        trace: if options.watch == Watched::All { "on" } else { "off" }.into(),
        ..LoadRecord::default()
    }
}

/// Adds the trace's results.
fn seen(m: &mut Measurement, trace: TraceRecord) {
    traced::fill(m, trace.total);
    // Pages and tables do not print intervals.
    for (name, value) in m.per_io.by_name() {
        let narrow = |x: f64| m.per_io_intervals.get(name).is_none_or(|[lo, hi]| is_narrow(x, (*lo, *hi)));
        *value = value.filter(|x| narrow(*x));
        if value.is_none() {
            m.per_io_intervals.remove(name);
        }
    }
}

/// Processes that were killed but have not exited.
fn remaining(r: &Run) -> Option<Warning> {
    (!r.remaining.is_empty()).then(|| {
        let text = format!("the run left processes that do not exit after SIGKILL: {}", r.remaining.join(", "));
        Warning::new("still_running", text, "check where they wait: cat /proc/PID/stack")
    })
}

/// Warns about rings without the arm's flags, with which the run measures a different arm.
fn left_as_asked(r: &Run) -> Option<Warning> {
    let left: Vec<&str> = r.rings.iter().filter_map(|ring| ring.left_as_asked.as_deref()).collect();
    let first = left.first()?;
    Some(Warning::new(
        "ring_as_asked",
        format!("{} of {} rings were set up as the program requested: {first}", left.len(), r.rings.len()),
        "this arm partly measures the unmodified program",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_with_wide_intervals_are_omitted() {
        let mut trace = iotrail_testing::trace::clean();
        trace.total.per_io.kicks = Some(2.0);
        trace.total.per_io.syscalls = Some(2.0);
        trace.total.per_io.device_irqs = Some(2.0);
        let ci95 = [("kicks", [1.0, 3.0]), ("syscalls", [1.9, 2.1])];
        trace.total.per_io_intervals = ci95.map(|(name, ci95)| (name.to_owned(), ci95)).into();
        let mut m = Measurement::default();
        seen(&mut m, trace);
        assert_eq!((m.per_io.kicks, m.per_io.syscalls, m.per_io.device_irqs), (None, Some(2.0), Some(2.0)));
        assert_eq!(m.per_io_intervals.into_keys().collect::<Vec<_>>(), ["syscalls"]);
    }
}
