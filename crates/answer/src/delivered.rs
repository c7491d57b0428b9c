//! What can be said of how completions were delivered, whoever submitted them: a load of ours or another's program.

use iotrail_base::words::{count, percent, span, three_digits};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::VehicleCount;
use iotrail_schema::vehicle::Vehicle;

/// Below this share of the completions a vehicle is part of the ordinary mixture and not worth a sentence.
pub const WORTH_SAYING: f64 = 0.05;

/// A tick that arrives a moment after the completion was ready carries it, and nothing had waited for it. Ten times what
/// delivery takes when nothing is wrong, and a hundredth of the tick's own period.
const WAITED_NS: u64 = 50_000;

/// A kick for every other I/O: below it, most I/Os found the thread in the kernel already, or came several at a time.
const KICKS_PER_IO: f64 = 0.5;
/// A kick takes about a microsecond of the thread it interrupts (in a virtual machine several): a thousandth of a CPU.
const KICKS_PER_S: f64 = 1_000.0;
/// A hundredth of a CPU.
const KICKS_COST_PER_S: f64 = 10_000.0;

/// The share of the completions that `vehicle` carried.
pub fn share(vehicles: &[VehicleCount], vehicle: Vehicle) -> f64 {
    share_of(vehicles, |v| v.vehicle == vehicle)
}

/// The share of the completions that some vehicles carried; 0 where there are none.
pub fn share_of(vehicles: &[VehicleCount], which: impl Fn(&VehicleCount) -> bool) -> f64 {
    let all: u64 = vehicles.iter().map(|v| v.completions).sum();
    let these: u64 = vehicles.iter().filter(|v| which(v)).map(|v| v.completions).sum();
    if all == 0 { 0.0 } else { these as f64 / all as f64 }
}

pub fn has(flags: &[String], flag: &str) -> bool {
    flags.iter().any(|f| f == flag)
}

/// Why completions wait for the tick, and nothing more than the ring's flags say. `peeks`: the thread looks for
/// completions from user mode.
pub fn why_the_tick(ring_flags: &[String], peeks: bool) -> &'static str {
    if peeks && has(ring_flags, "coop_taskrun") && !has(ring_flags, "taskrun_flag") {
        "COOP_TASKRUN sends no interrupt for them and the thread makes no system call while it peeks, so their task work \
         waits until the kernel is entered for another reason, and the next one is the tick"
    } else {
        "nothing else entered the kernel on the thread's CPU before it"
    }
}

/// Completions that waited for the timer tick.
pub fn stranded(vehicles: &[VehicleCount], ring_flags: &[String], peeks: bool) -> Option<Finding> {
    let share = share(vehicles, Vehicle::TimerTick);
    let delay = vehicles.iter().find(|v| v.vehicle == Vehicle::TimerTick).and_then(|v| v.delay_ns.as_ref()?.p50);
    if share < WORTH_SAYING || delay.is_some_and(|ns| ns < WAITED_NS) {
        return None;
    }
    let long =
        delay.map(|ns| format!(" ({} after they were ready, at the median)", span(ns as f64))).unwrap_or_default();
    let why = why_the_tick(ring_flags, peeks);
    let text = format!("{} of completions waited for the timer tick{long}: {why}", percent(share));
    let remedy = match (has(ring_flags, "coop_taskrun"), has(ring_flags, "taskrun_flag")) {
        (true, false) => {
            "add taskrun_flag, with which a thread that peeks enters the kernel when the ring says that task work waits; \
             or wait in io_uring_enter; or leave coop_taskrun out"
        }
        (true, true) => {
            "look at IORING_SQ_TASKRUN in the ring's flags and enter the kernel when it is set, as taskrun_flag is there \
             for; or wait in io_uring_enter"
        }
        _ => "wait in io_uring_enter rather than look at the ring from user mode: a thread in the kernel needs no tick",
    };
    let mut evidence = vec![("share", share)];
    evidence.extend(delay.map(|ns| ("delay_p50_ns", ns as f64)));
    Some(Finding::new("stranded", Severity::warning_if(share >= 0.5), text, remedy, &evidence))
}

/// Interrupts sent to make a running thread notice its completions, at a rate that costs.
pub fn kick_storm(kicks_per_io: Option<f64>, ios_per_s: f64, within: &str) -> Option<Finding> {
    let per_io = kicks_per_io.filter(|k| *k >= KICKS_PER_IO)?;
    let per_s = per_io * ios_per_s;
    if per_s < KICKS_PER_S {
        return None;
    }
    let text = format!(
        "{} kicks per I/O, {} a second{within}: the thread was running when completions were ready, and another CPU sent it a \
         reschedule interrupt to make it notice",
        three_digits(per_io),
        count(per_s)
    );
    let remedy = "coop_taskrun sends none (a thread that only looks at the ring needs taskrun_flag beside it), nor does \
                  defer_taskrun; and a thread on the CPU that takes the interrupts needs none";
    let evidence = [("kicks_per_io", per_io), ("kicks_per_s", per_s)];
    Some(Finding::new("kick_storm", Severity::warning_if(per_s >= KICKS_COST_PER_S), text, remedy, &evidence))
}
