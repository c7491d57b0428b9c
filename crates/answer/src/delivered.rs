//! Statements about completion delivery that apply to every submitter: iotrail's own load or another program.

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Measurement};

/// Below this share of completions, a delivery path is part of the normal mix.
pub const WORTH_SAYING: f64 = 0.05;

/// The share of completions delivered by `vehicle`.
pub fn share(vehicles: &[DeliveryPathCount], vehicle: DeliveryPath) -> f64 {
    share_of(vehicles, |v| v.vehicle == vehicle)
}

/// The share of completions delivered by these paths; 0 without completions.
pub fn share_of(vehicles: &[DeliveryPathCount], which: impl Fn(&DeliveryPathCount) -> bool) -> f64 {
    let all: u64 = vehicles.iter().map(|v| v.completions).sum();
    let these: u64 = vehicles.iter().filter(|v| which(v)).map(|v| v.completions).sum();
    if all == 0 { 0.0 } else { these as f64 / all as f64 }
}

pub fn has(flags: &[String], flag: &str) -> bool {
    flags.iter().any(|f| f == flag)
}

/// Why completions wait for the tick, judging by the ring's flags. `peeks`: the thread polls the CQ ring from user
/// mode.
pub fn why_the_tick(ring_flags: &[String], peeks: bool) -> &'static str {
    if peeks && has(ring_flags, "coop_taskrun") && !has(ring_flags, "taskrun_flag") {
        "With COOP_TASKRUN the kernel sends no interrupt for them, and the thread makes no system call while it polls the CQ ring. Their task \
         work waits for the next kernel entry, which is the tick"
    } else {
        "Before the tick, no other event made the thread's CPU enter the kernel"
    }
}

/// Timer interrupts per second on the jobs' CPUs, counted during the measurement. Equals the kernel's tick rate unless
/// a tick was stopped.
pub fn tick_rate(m: &Measurement) -> Option<f64> {
    let ticks: Vec<u64> =
        m.interrupts.iter().filter(|i| i.vector == "LOC" && m.load.cpus.contains(&i.cpu)).map(|i| i.count).collect();
    if ticks.is_empty() || m.elapsed_ns == 0 {
        return None;
    }
    let seconds = m.elapsed_ns as f64 / 1e9;
    Some(ticks.iter().sum::<u64>() as f64 / ticks.len() as f64 / seconds)
}
