//! Tries a program before measuring it: one traced as-is run, a validity check of the arms, and one traced run per
//! valid arm. An arm that fails in the kernel or in the program is reported with the reason, and not measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::load::Load;
use super::plan::{Cell, Plan};
use super::program::expected::Expected;
use super::program::guard::Patience;
use super::program::input;
use super::program::options::{ProgramOptions, Watched};
use super::program::run::{Ended, Run, numbered, ring_records, run};
use iotrail_base::distinct::distinct;
use iotrail_base::error::{self, Error, Result};
use iotrail_base::grouped::grouped;
use iotrail_base::words::{last_line, list, percent};
use iotrail_host::refusal::{Circumstances, Refusal};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::opcode;
use iotrail_schema::program_record::{Hang, Legal, TriedArm, WatchedRun};
use iotrail_schema::run_record::{ARM, CONTROL};
use iotrail_schema::setup_flag;
use iotrail_schema::trace_record::{RingRecord, TraceRecord};
use iotrail_supervise::change::Params;
use iotrail_supervise::{rules, supervisor};

/// Maximum duration of a run: this multiple of the previous run, plus the time below.
const LONGER: u32 = 20;
const AT_LEAST: Duration = Duration::from_secs(10);
/// Approximate overhead of a timed run.
const BESIDE_A_RUN: Duration = Duration::from_millis(150);
/// If a larger share of requests changed their opcode, the program took a different code path.
const MIX: f64 = 0.1;
/// Maximum share of completions with errors beyond that of the as-is run.
const ERRORS: f64 = 0.01;

/// Reports progress: an arm's trial result.
pub type Tell<'a> = &'a mut dyn FnMut(&TriedArm);

/// The as-is run.
struct AsIs<'p> {
    name: &'p str,
    options: &'p ProgramOptions,
    run: Run,
    /// Trace; `None` if not traced.
    trace: Option<TraceRecord>,
    expected: Expected,
}

/// Tries all arms of the plan; cells of excluded arms become untestable. Returns `None` if stopped.
pub fn check(plan: &mut Plan, tell: Tell<'_>, stop: &AtomicBool) -> Result<Option<(Vec<TriedArm>, Expected)>> {
    let arms: Vec<(String, ProgramOptions)> = firsts(plan);
    let Some(((base, options), others)) = arms.split_first() else { return Ok(None) };
    if let (Some(budget), true) = (&plan.budget, options.watch != Watched::None) {
        budget.holds_trials(arms.len())?;
    }
    supervisor::allowed()?;
    input::no_pipe()?;
    if changes_rings(plan) {
        supervisor::gets_a_ring().map_err(|e| {
            let Refusal { why, restore } = Circumstances::read().ring(e.raw_os_error().unwrap_or(0));
            Error::machine(format!("programs cannot set up an io_uring here: {why}"), restore)
        })?;
    }
    let Some((first, as_is)) = look_as_is(base, options, plan, stop)? else { return Ok(None) };
    tell(&first);
    let mut tried = vec![first];
    let Expected { trial, each, .. } = as_is.expected;
    if let Some(budget) = &plan.budget {
        budget.check(each, arms.len(), trial * others.len() as u32, false)?;
    }
    for (name, options) in others {
        let has_hung = |t: &&TriedArm| t.hang.as_ref().is_some_and(|hang| hang.arm == t.name);
        let is_with = |t: &&TriedArm| plan.with_settings_of(&t.name).contains(&name.as_str());
        let hung = tried.iter().filter(|_| plan.searches().is_some()).find(|t| has_hung(t) && is_with(t));
        let measured = tried.iter().filter(|t| t.is_measured()).count();
        let arm = match hung {
            Some(hung) => like_hung(TriedArm::new(name), hung),
            None if plan.budget.is_some_and(|budget| !budget.holds(each, measured + 1, trial)) => {
                TriedArm { dropped: Some("no time left in the budget to try it".into()), ..TriedArm::new(name) }
            }
            None => match look(name, options, &as_is, stop)? {
                Some(arm) => arm,
                None => return Ok(None),
            },
        };
        tell(&arm);
        tried.push(arm);
    }
    for cell in &mut plan.cells {
        let of = tried.iter().find(|t| t.name == arm_of(cell));
        let why = of.and_then(|t| match t.legal {
            Legal::No => Some(t.reason.clone()),
            _ => t.dropped.clone(),
        });
        cell.untestable = cell.untestable.take().or(why);
        // The control repeats the first arm.
        let of = of.or(tried.first());
        if let (Load::Program(options), Some(of)) = (&mut cell.load, of)
            && options.change.is_none()
        {
            options.known_flags = Some(of.rings.iter().flat_map(|ring| ring.granted.clone()).collect());
        }
    }
    Ok(Some((tried, as_is.expected)))
}

/// An arm that is not tried because an arm with a subset of its settings hung.
pub fn like_hung(arm: TriedArm, hung: &TriedArm) -> TriedArm {
    let dropped = Some(format!("{} hung with the same settings", hung.name));
    TriedArm { dropped, hang: hung.hang.clone(), ..arm }
}

/// The as-is trial. Returns `None` if stopped.
fn look_as_is<'p>(
    name: &'p str,
    options: &'p ProgramOptions,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Option<(TriedArm, AsIs<'p>)>> {
    let began = Instant::now();
    let Some(mut run) = once(options, Patience { stall: options.stall, idle: None, in_all: None }, stop)? else {
        return Ok(None);
    };
    match usable(options, &run, plan, stop) {
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
        usable => usable?,
    }
    let (wall, trial) = (Duration::from_nanos(run.wall_ns), began.elapsed());
    // A trial takes additional time for the probes.
    let each = if options.watch == Watched::OnePerArm { trial.min(wall + BESIDE_A_RUN) } else { trial };
    let patient = wall * LONGER + AT_LEAST;
    // An arm that hangs must leave time for the others.
    let in_all = plan.budget.map_or(patient, |budget| patient.min(budget.left() / 8).max(wall * 3));
    let patience = Patience { stall: options.stall, idle: None, in_all: Some(in_all) };
    let expected = Expected { exit_status: run.exit_status, patience, trial, each };
    let arm = seen(TriedArm::new(name), &run);
    let trace = run.trace.take().map(|t| *t);
    Ok(Some((arm, AsIs { name, options, run, trace, expected })))
}

/// Checks another arm, then runs it. Returns `None` if stopped.
fn look(name: &str, options: &ProgramOptions, as_is: &AsIs<'_>, stop: &AtomicBool) -> Result<Option<TriedArm>> {
    let rings = as_is.trace.as_ref().map_or(&[][..], |t| t.rings.as_slice());
    let arm = judged(name, options, rings, &as_is.run);
    if arm.legal == Legal::No {
        return Ok(Some(arm));
    }
    if changes_nothing(options, as_is) {
        let dropped = Some("no change: the program already requests these settings".to_owned());
        return Ok(Some(TriedArm { dropped, ..arm }));
    }
    // With other flags, the program computes for as long as before. No pause in the as-is run was longer than the run
    // itself.
    let idle =
        is_same_program(options, as_is.options).then(|| options.stall + Duration::from_nanos(as_is.run.wall_ns) * 2);
    match once(options, Patience { idle, ..as_is.expected.patience }, stop) {
        Ok(None) => Ok(None),
        Ok(Some(run)) => {
            let dropped = other_than(&run, options, as_is);
            let is_hung = matches!(run.end, Ended::Stuck(_));
            let hang = is_hung.then(|| Hang { arm: name.to_owned(), waited_ns: run.wall_ns });
            Ok(Some(TriedArm { dropped, hang, ..seen(arm, &run) }))
        }
        // A failure of the program or its check concerns only this arm.
        Err(e) if e.kind == error::Kind::Machine => Ok(Some(TriedArm { dropped: Some(e.what), ..arm })),
        Err(e) => Err(e),
    }
}

/// Whether the arm only changes ring settings, and all rings of the as-is run already used them.
fn changes_nothing(options: &ProgramOptions, as_is: &AsIs<'_>) -> bool {
    let rings = &as_is.run.rings;
    let same = ProgramOptions { change: as_is.options.change, ..options.clone() } == *as_is.options;
    same && !rings.is_empty() && rings.iter().all(|ring| options.change.apply(ring.asked) == ring.asked)
}

/// Returns `None` if stopped.
fn once(options: &ProgramOptions, patience: Patience, stop: &AtomicBool) -> Result<Option<Run>> {
    let watched = options.watch != Watched::None;
    let run = run(options, 0, watched, patience, stop)?;
    Ok(Some(run).filter(|r| r.end != Ended::Stopped && !stop.load(Ordering::Relaxed)))
}

/// Below this CPU usage of the program, a polling thread cannot save CPU time.
const WORTH_POLLING: f64 = 0.05;

/// For a search: excludes arms that the trace shows to be pointless, with the reason.
pub fn spare(plan: &mut Plan) {
    let Some(seen) = plan.tried.first().and_then(|t| t.watched.as_ref()) else { return };
    let Some(cpu) = seen.cpu_per_io_ns else { return };
    let share = cpu * seen.completions as f64 / seen.elapsed_ns.max(1) as f64;
    if share >= WORTH_POLLING {
        return;
    }
    for cell in &mut plan.cells {
        if matches!(&cell.load, Load::Program(o) if o.change.sets(setup_flag::bit("sqpoll"))) {
            cell.untestable.get_or_insert_with(|| {
                format!("sqpoll: the program uses {} of a CPU, and a polling thread uses a full CPU", percent(share))
            });
        }
    }
}

fn seen(arm: TriedArm, run: &Run) -> TriedArm {
    TriedArm { rings: ring_records(run), watched: run.trace.as_deref().map(summed), ..arm }
}

fn arm_of(cell: &Cell) -> &str {
    match cell.params.get(ARM).and_then(serde_json::Value::as_str) {
        // The control repeats the first arm.
        Some(CONTROL) | None => "",
        Some(arm) => arm,
    }
}

/// Each arm with its first cell's options, in order.
fn firsts(plan: &Plan) -> Vec<(String, ProgramOptions)> {
    let of = |arm: &String| {
        let cell = plan.cells.iter().find(|c| arm_of(c) == arm)?;
        match &cell.load {
            Load::Program(options) => Some((arm.clone(), (**options).clone())),
            Load::Storage(_) | Load::Net(_) => None,
        }
    };
    plan.arms.iter().filter_map(of).collect()
}

/// Checks whether the as-is run is measurable.
fn usable(options: &ProgramOptions, r: &Run, plan: &Plan, stop: &AtomicBool) -> Result<()> {
    // The file may have been written in the meantime.
    input::no_pipe()?;
    let name = options.argv.join(" ");
    if let Ended::Stuck(why) = &r.end {
        return Err(Error::input(
            format!("{name}, unmodified: {why}"),
            "use a load that terminates, or increase --stall",
        ));
    }
    // The measured time would only be the startup time, and background processes are killed before they finish.
    let is_left = |pid: u32| r.background.iter().any(|(left, _)| *left == pid);
    if changes_rings(plan) && !r.background.is_empty() && r.rings.iter().all(|ring| is_left(ring.tgid)) {
        let left: Vec<String> = r.background.iter().map(numbered).collect();
        return Err(Error::input(
            format!("{name} exited without setting up an io_uring, and left background processes: {}", left.join(", ")),
            "start it in the foreground; for a server, use --server COMMAND --ready CONDITION, and its client after --",
        ));
    }
    for metric in &options.metrics {
        metric.find(&r.output, stop).map_err(|why| {
            let status = if r.exit_status == 0 { String::new() } else { format!(", exit status {}", r.exit_status) };
            Error::input(
                format!("--metric {}: {why} ({}{status})", metric.name, said_last(r)),
                "run the program by hand and check its output",
            )
        })?;
    }
    // A program that fails early looks fast. Only a metric or a check can prove that its exit status is normal.
    if r.exit_status != 0 && options.metrics.is_empty() && options.check.is_none() {
        return Err(Error::input(
            format!("{name}, unmodified, exited with status {} ({})", r.exit_status, said_last(r)),
            "run it by hand and fix the command; if this status is normal, verify the run with --metric or --check",
        ));
    }
    if changes_rings(plan) && r.rings.is_empty() {
        return Err(Error::input(
            format!("{name} did not set up an io_uring, so flags have no effect (exit status {})", r.exit_status),
            "check with iotrail trace -- CMD whether it is built and configured for io_uring",
        ));
    }
    Ok(())
}

fn said_last(r: &Run) -> String {
    last_line(&r.output).map_or("it printed nothing".into(), |l| format!("its last line: {l}"))
}

fn changes_rings(plan: &Plan) -> bool {
    plan.cells.iter().any(|c| matches!(&c.load, Load::Program(o) if !o.change.is_none()))
}

/// Checks an arm before its run, by the kernel's rules and the as-is run.
fn judged(name: &str, options: &ProgramOptions, seen: &[RingRecord], as_is: &Run) -> TriedArm {
    let mut arm = TriedArm::new(name);
    let change = options.change;
    let mut risks: Vec<String> = Vec::new();
    let mut risk = |text: &str| {
        if !risks.iter().any(|r| r == text) {
            risks.push(text.to_owned());
        }
    };
    let created = seen.iter().filter(|r| !r.found && r.use_of.is_none());
    for (ring, record) in as_is.rings.iter().zip(created.map(Some).chain(std::iter::repeat(None))) {
        let given: Params = change.apply(ring.asked);
        if given == ring.asked {
            continue;
        }
        if let Some(rule) = rules::broken(given.flags) {
            return TriedArm { legal: Legal::No, reason: rule.into(), ..arm };
        }
        let added = given.flags & !ring.asked.flags;
        let Some(record) = record else { continue };
        if added & setup_flag::bit("single_issuer") != 0
            && let Some(reason) = several_issuers(record, seen)
        {
            return TriedArm { legal: Legal::No, reason, ..arm };
        }
        if added & setup_flag::bit("iopoll") != 0
            && let Some(other) = record.opcodes.iter().find(|o| !opcode::is(&o.opcode, opcode::POLLED))
        {
            let reason = format!(
                "iopoll: the program submits {} requests, but only reads and writes can be polled",
                other.opcode
            );
            return TriedArm { legal: Legal::No, reason, ..arm };
        }
        let looks = polls(record);
        if looks && added & setup_flag::bit("defer_taskrun") != 0 {
            risk(
                "it does not wait in io_uring_enter: with defer_taskrun, no completion is posted until it enters the kernel",
            );
        }
        if looks && added & setup_flag::bit("coop_taskrun") != 0 && given.flags & setup_flag::bit("taskrun_flag") == 0 {
            risk("it does not wait in io_uring_enter: with coop_taskrun only, completions may wait for the timer tick");
        }
        if added & setup_flag::bit("sqpoll") != 0 {
            risk("sqpoll: a program that does not check IORING_SQ_NEED_WAKEUP stalls (liburing checks it)");
        }
        if ring.asked.flags & !given.flags & setup_flag::bit("sqpoll") != 0 {
            risk(
                "without sqpoll, requests are submitted only when the program enters the kernel: a program that relies on sqpoll stalls",
            );
        }
        if ring.asked.flags & !given.flags & setup_flag::bit("no_sqarray") != 0 {
            risk("without no_sqarray, the program must fill the array of the submission queue (liburing does)");
        }
        if added & setup_flag::bit("no_sqarray") != 0 {
            risk("no_sqarray: the program must support it (liburing 2.6 and later do)");
        }
        if added & (setup_flag::bit("iopoll") | setup_flag::bit("hybrid_iopoll")) != 0 {
            risk("iopoll: needs O_DIRECT and a device with poll queues");
        }
    }
    if !risks.is_empty() {
        (arm.legal, arm.reason) = (Legal::Risky, risks.join("; "));
    }
    arm
}

/// Why the kernel rejects single_issuer: several threads submit to the ring, possibly of several processes. `None` if
/// only one thread does.
fn several_issuers(ring: &RingRecord, seen: &[RingRecord]) -> Option<String> {
    let threads = |r: &RingRecord| {
        r.threads.as_ref().map_or(0, |t| t.threads.iter().filter(|t| t.submitted > 0).count() as u64 + t.more)
    };
    let uses = seen.iter().filter(|r| r.use_of == Some(ring.ring));
    let each: Vec<(&str, u64)> =
        std::iter::once(ring).chain(uses).map(|r| (&*r.comm, threads(r))).filter(|(_, n)| *n > 0).collect();
    let all: u64 = each.iter().map(|(_, n)| n).sum();
    let of = match &each[..] {
        [(comm, _)] => (*comm).to_owned(),
        several => {
            let comms = distinct(several.iter().map(|(comm, _)| (*comm).to_owned()));
            format!("{} processes ({})", several.len(), list(&comms))
        }
    };
    (all > 1)
        .then(|| format!("single_issuer: {all} threads of {of} submit to one ring, which the kernel rejects (EEXIST)"))
}

/// Whether the ring is polled, or waited for with poll or an eventfd. Completions posted during submission prove
/// nothing, because the program never waits for them.
fn polls(ring: &RingRecord) -> bool {
    let is_late = ring.vehicles.iter().any(|v| v.vehicle != DeliveryPath::Inline && v.completions > 0);
    is_late && ring.threads.as_ref().is_none_or(|t| t.waiting.is_none())
}

/// Why the run is not comparable with the as-is run; `None` if it is.
fn other_than(r: &Run, options: &ProgramOptions, as_is: &AsIs<'_>) -> Option<String> {
    let (base, expected) = (as_is.name, &as_is.expected);
    if let Ended::Stuck(why) = &r.end {
        return Some(why.clone());
    }
    if r.exit_status != expected.exit_status {
        let said = last_line(&r.output).map(|last| format!("; its last line: {last}")).unwrap_or_default();
        let interrupted = r.interrupted_setups().map(|why| format!("; {why}")).unwrap_or_default();
        let (status, expected) = (r.exit_status, expected.exit_status);
        return Some(format!("it exited with status {status}, {base} with {expected}{said}{interrupted}"));
    }
    if let Some(why) = as_asked(r) {
        return Some(why);
    }
    let trace = r.trace.as_deref()?;
    // A different command or environment may do different I/O, which is then the purpose of the comparison.
    if !is_same_program(options, as_is.options) {
        return None;
    }
    let before = as_is.trace.as_ref()?;
    let (errors, errors_before) = (error_share(trace), error_share(before));
    if errors > errors_before + ERRORS {
        let of = trace.rings.iter().flat_map(|r| &r.opcodes).flat_map(|o| &o.errnos).max_by_key(|e| e.count);
        let which = of.map(|e| format!(", {}", e.errno)).unwrap_or_default();
        return Some(format!("{} of its I/Os failed{which}; {base}: {}", percent(errors), percent(errors_before)));
    }
    let (apart, opcode) = mix(&summed(before).opcodes, &summed(trace).opcodes);
    if apart > MIX {
        return Some(format!(
            "not comparable: the program took a different code path ({} of its requests changed, mostly {opcode})",
            percent(apart)
        ));
    }
    None
}

fn is_same_program(a: &ProgramOptions, b: &ProgramOptions) -> bool {
    (&a.argv, &a.server, &a.env) == (&b.argv, &b.server, &b.env)
}

/// Reports that no ring has the arm's flags.
fn as_asked(r: &Run) -> Option<String> {
    let first = r.rings.first()?.left_as_asked.as_ref()?;
    r.rings.iter().all(|ring| ring.left_as_asked.is_some()).then(|| first.clone())
}

fn error_share(trace: &TraceRecord) -> f64 {
    trace.total.errors as f64 / trace.total.ios.max(1) as f64
}

/// The share of requests with changed opcodes, and the opcode that changed most.
fn mix(a: &[(String, u64)], b: &[(String, u64)]) -> (f64, String) {
    let all = |of: &[(String, u64)]| of.iter().map(|(_, n)| n).sum::<u64>().max(1) as f64;
    let (all_a, all_b) = (all(a), all(b));
    let share = |of: &[(String, u64)], all: f64, name: &str| {
        of.iter().filter(|(n, _)| n == name).map(|(_, n)| *n as f64 / all).sum::<f64>()
    };
    let names = a.iter().chain(b).map(|(name, _)| name);
    let mut apart: Vec<(f64, &String)> = names.map(|n| ((share(a, all_a, n) - share(b, all_b, n)).abs(), n)).collect();
    apart.sort_by(|x, y| x.1.cmp(y.1));
    apart.dedup_by(|x, y| x.1 == y.1);
    let sum = apart.iter().map(|(d, _)| d).sum::<f64>() / 2.0;
    let most = apart.iter().max_by(|x, y| x.0.total_cmp(&y.0)).map(|(_, n)| (*n).clone()).unwrap_or_default();
    (sum, most)
}

fn summed(trace: &TraceRecord) -> WatchedRun {
    let t = &trace.total;
    let cpu = t.cpu.user_ns.zip(t.cpu.system_ns).filter(|_| t.ios > 0).map(|(u, s)| (u + s) as f64 / t.ios as f64);
    let vehicles = grouped(t.vehicles.iter().map(|v| (v.vehicle, v.completions))).into_iter();
    WatchedRun {
        completions: t.ios,
        operations: t.operations,
        elapsed_ns: t.elapsed_ns,
        kicks_per_io: t.per_io.kicks,
        syscalls_per_io: t.per_io.syscalls,
        per_io_intervals: t.per_io_intervals.clone(),
        sleeps_per_io: t.per_io.context_switches,
        cpu_per_io_ns: cpu,
        vehicles: vehicles.map(|(vehicle, n)| (vehicle, n.iter().sum())).collect(),
        opcodes: t.opcodes.iter().map(|o| (o.opcode.clone(), o.requests)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trace_record::{RingThreads, ThreadRecord};
    use iotrail_testing::trace;

    fn counts(of: &[(&str, u64)]) -> Vec<(String, u64)> {
        of.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
    }

    #[test]
    fn inline_completions_alone_do_not_indicate_polling() {
        let mut ring = trace::ring(0);
        ring.threads = None;
        ring.vehicles = vec![trace::carried(DeliveryPath::Inline, 800, None, None)];
        assert!(!polls(&ring));
        ring.vehicles.push(trace::carried(DeliveryPath::TimerTick, 1, None, None));
        assert!(polls(&ring));
    }

    #[test]
    fn threads_of_all_processes_count_as_submitters() {
        let uses = |ring: u32, of: Option<u32>, comm: &str, submitted: &[u64]| {
            let thread = |(tid, n): (u32, &u64)| ThreadRecord { tid, submitted: *n, ..ThreadRecord::default() };
            let threads = (1..).zip(submitted).map(thread).collect();
            let threads = RingThreads { threads, more: 0, waiting: None, detour: None };
            RingRecord { use_of: of, comm: comm.into(), threads: Some(threads), ..trace::ring(ring) }
        };
        let why = |all: &[RingRecord]| several_issuers(&all[0], all).unwrap_or_default();
        let alone = uses(0, None, "db", &[9]);
        assert_eq!(why(&[alone.clone(), uses(1, None, "db", &[9, 9])]), "");
        // A thread or process that only waits is not rejected.
        assert_eq!(why(&[uses(0, None, "db", &[9, 0]), uses(1, Some(0), "db", &[0])]), "");
        let end = "submit to one ring, which the kernel rejects (EEXIST)";
        assert_eq!(why(&[uses(0, None, "db", &[9, 8])]), format!("single_issuer: 2 threads of db {end}"));
        let two = [alone.clone(), uses(1, Some(0), "db", &[5])];
        assert_eq!(why(&two), format!("single_issuer: 2 threads of 2 processes (db) {end}"));
        let two = [alone, uses(1, None, "sh", &[5]), uses(2, Some(0), "wal", &[5])];
        assert_eq!(why(&two), format!("single_issuer: 2 threads of 2 processes (db and wal) {end}"));
    }

    #[test]
    fn a_different_opcode_mix_is_detected_as_a_different_path() {
        let as_is = counts(&[("read", 900), ("nop", 100)]);
        assert_eq!(mix(&as_is, &counts(&[("read", 1800), ("nop", 200)])).0, 0.0);
        let (apart, which) = mix(&as_is, &counts(&[("read", 100), ("nop", 900)]));
        assert!((apart - 0.8).abs() < 1e-9 && (which == "read" || which == "nop"), "{apart} {which}");
        assert_eq!(mix(&as_is, &counts(&[("openat", 5)])).0, 1.0);
    }
}
