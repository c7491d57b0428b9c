//! Diagnoses of a single measurement: what stands out, the numbers that show it, and what would change it. What puts the
//! numbers in doubt is not here: the measurement has it in its warnings (`doubt.rs`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::words::{count, percent, three_digits};
use crate::measurement::Measurement;
use crate::path::vehicle::Vehicle;

/// Below this share of the completions, or this many kicks per I/O, something is part of the ordinary mixture of vehicles and
/// not worth a sentence.
const WORTH_SAYING: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Explains.
    Note,
    /// Costs something that could be had back.
    Warning,
}

/// One sentence, with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub code: String,
    pub severity: Severity,
    pub text: String,
    /// The numbers that the sentence rests on, by name; units are in the names.
    pub evidence: BTreeMap<String, f64>,
    /// What to do about it; empty where there is nothing to be done.
    pub remedy: String,
}

impl Finding {
    fn new(code: &str, severity: Severity, text: String, remedy: &str, evidence: &[(&str, f64)]) -> Self {
        let evidence = evidence.iter().map(|(name, x)| ((*name).to_owned(), *x)).collect();
        Self { code: code.into(), severity, text, evidence, remedy: remedy.into() }
    }
}

/// Everything that can be said of one measurement, the most telling first.
pub fn findings(m: &Measurement) -> Vec<Finding> {
    [timer_tick(m), kicks(m), device_irq(m), iowq(m), not_granted(m)].into_iter().flatten().collect()
}

fn share(m: &Measurement, vehicle: Vehicle) -> f64 {
    let seen: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    let these: u64 = m.vehicles.iter().filter(|v| v.vehicle == vehicle).map(|v| v.completions).sum();
    if seen == 0 { 0.0 } else { these as f64 / seen as f64 }
}

fn has_flag(m: &Measurement, flag: &str) -> bool {
    m.load.ring.requested.iter().any(|f| f == flag)
}

/// Timer interrupts a second on the CPUs of the jobs, as counted during the measurement. With no tick stopped, this is the
/// kernel's tick rate.
pub fn tick_rate(m: &Measurement) -> Option<f64> {
    let ticks: Vec<u64> =
        m.interrupts.iter().filter(|i| i.vector == "LOC" && m.load.cpus.contains(&i.cpu)).map(|i| i.count).collect();
    if ticks.is_empty() || m.elapsed_ns == 0 {
        return None;
    }
    let seconds = m.elapsed_ns as f64 / 1e9;
    Some(ticks.iter().sum::<u64>() as f64 / ticks.len() as f64 / seconds)
}

/// Why completions wait for the tick under these options, and nothing more than these options say.
pub fn why_the_tick(m: &Measurement) -> &'static str {
    if m.load.engine == "io_uring"
        && has_flag(m, "coop_taskrun")
        && m.load.wait == "peek"
        && !has_flag(m, "taskrun_flag")
    {
        "COOP_TASKRUN sends no interrupt for them and the job makes no system call while it peeks, so their task work \
         waits until the kernel is entered for another reason, and the next one is the tick"
    } else {
        "nothing else entered the kernel on the job's CPU before it"
    }
}

fn timer_tick(m: &Measurement) -> Option<Finding> {
    let share = share(m, Vehicle::TimerTick);
    if share < WORTH_SAYING {
        return None;
    }
    let mut text = format!("{} of completions waited for the timer tick: {}", percent(share), why_the_tick(m));
    let mut evidence = vec![("share", share), ("iops", m.iops)];
    if let Some(ticks) = tick_rate(m) {
        text += &format!(
            ". The CPU took {} ticks a second and {} I/Os completed a second: {} a tick",
            count(ticks.round()),
            count(m.iops.round()),
            three_digits(m.iops / (ticks * m.load.cpus.len() as f64))
        );
        evidence.push(("ticks_per_s", ticks));
    }
    let remedy = if has_flag(m, "coop_taskrun") && !has_flag(m, "taskrun_flag") {
        "add taskrun_flag, with which a job that peeks enters the kernel when the ring says that task work waits; or \
         --wait block; or leave coop_taskrun out"
    } else {
        ""
    };
    let severity = if share >= 0.5 { Severity::Warning } else { Severity::Note };
    Some(Finding::new("timer-tick", severity, text, remedy, &evidence))
}

fn kicks(m: &Measurement) -> Option<Finding> {
    let kicks = m.per_io.kicks.filter(|k| *k >= WORTH_SAYING)?;
    let text = format!(
        "{} kicks per I/O: the job was running when completions were ready, and another CPU sent it a reschedule interrupt \
         to make it notice",
        three_digits(kicks)
    );
    let remedy = match (m.load.wait.as_str(), m.load.engine.as_str()) {
        ("peek", "io_uring") => {
            "coop_taskrun,taskrun_flag sends none; nor does a CPU that takes the target's interrupt need one"
        }
        (_, "io_uring") => "coop_taskrun sends none; nor does a CPU that takes the target's interrupt need one",
        _ => "",
    };
    Some(Finding::new("kicks", Severity::Note, text, remedy, &[("kicks_per_io", kicks)]))
}

fn device_irq(m: &Measurement) -> Option<Finding> {
    let share = share(m, Vehicle::DeviceIrq);
    // Half: the vehicle that explains the measurement, not one among others.
    if share < 0.5 {
        return None;
    }
    let most = m.vehicles.iter().filter(|v| v.vehicle == Vehicle::DeviceIrq).max_by_key(|v| v.completions);
    let which = most.and_then(|v| v.detail.clone()).map(|d| format!(" ({d})")).unwrap_or_default();
    let text = format!(
        "{} of completions were posted on return from a device's interrupt{which} on the job's own CPU: it lets the job into \
         the kernel without a kick",
        percent(share)
    );
    Some(Finding::new("device-irq", Severity::Note, text, "", &[("share", share)]))
}

fn iowq(m: &Measurement) -> Option<Finding> {
    let share = share(m, Vehicle::Iowq);
    if m.load.force_async || share < WORTH_SAYING {
        return None;
    }
    let text = format!("{} of completions came from io-wq workers, which nobody asked for", percent(share));
    let remedy = "the file system or the device could not take these requests without waiting: try --direct, laid-out files, or \
                  a smaller depth";
    Some(Finding::new("io-wq", Severity::Warning, text, remedy, &[("share", share)]))
}

fn not_granted(m: &Measurement) -> Option<Finding> {
    let missing: Vec<String> =
        m.load.ring.requested.iter().filter(|f| !m.load.ring.granted.contains(f)).cloned().collect();
    if missing.is_empty() {
        return None;
    }
    let text = format!("ring flags asked for and not granted: {}", missing.join(", "));
    Some(Finding::new(
        "not-granted",
        Severity::Warning,
        text,
        "run `iotrail check`",
        &[("flags", missing.len() as f64)],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::VehicleCount;
    use crate::store::sample;

    fn only(m: &Measurement, code: &str) -> Option<Finding> {
        findings(m).into_iter().find(|f| f.code == code)
    }

    fn carried_by(vehicle: Vehicle, detail: Option<&str>) -> Measurement {
        let mut m = sample::measurement();
        m.vehicles = vec![VehicleCount { vehicle, completions: 500, detail: detail.map(Into::into), delay_ns: None }];
        m
    }

    #[test]
    fn coop_and_peek_wait_for_the_tick_and_the_words_say_why() {
        let f = only(&sample::measurement(), "timer-tick").unwrap();
        assert_eq!(
            f.text,
            "99.4 % of completions waited for the timer tick: COOP_TASKRUN sends no interrupt for them and the job makes no \
             system call while it peeks, so their task work waits until the kernel is entered for another reason, and the \
             next one is the tick. The CPU took 250 ticks a second and 250 I/Os completed a second: 1.00 a tick"
        );
        assert!(f.remedy.starts_with("add taskrun_flag"));
        assert_eq!((f.severity, f.evidence["ticks_per_s"]), (Severity::Warning, 250.0));
    }

    #[test]
    fn other_reasons_for_the_tick_are_not_blamed_on_coop() {
        let mut m = sample::measurement();
        m.load.ring.requested.clear();
        m.interrupts.clear();
        let f = only(&m, "timer-tick").unwrap();
        assert_eq!(
            f.text,
            "99.4 % of completions waited for the timer tick: nothing else entered the kernel on the job's CPU before it"
        );
        assert_eq!(f.remedy, "");
        assert_eq!(only(&carried_by(Vehicle::Enter, None), "timer-tick"), None);
    }

    #[test]
    fn kicks_are_explained_where_there_are_some() {
        let mut m = carried_by(Vehicle::ReschedIpi, None);
        m.per_io.kicks = Some(1.0);
        let f = only(&m, "kicks").unwrap();
        assert!(f.text.starts_with("1.00 kicks per I/O: ") && f.remedy.starts_with("coop_taskrun,taskrun_flag"));
        m.per_io.kicks = Some(0.01);
        assert_eq!(only(&m, "kicks"), None);
        m.per_io.kicks = None;
        assert_eq!(only(&m, "kicks"), None);
    }

    #[test]
    fn the_interrupt_that_carries_is_named() {
        let f = only(&carried_by(Vehicle::DeviceIrq, Some("36 virtio1-req.0")), "device-irq").unwrap();
        assert_eq!(
            f.text,
            "100 % of completions were posted on return from a device's interrupt (36 virtio1-req.0) on the job's own CPU: \
             it lets the job into the kernel without a kick"
        );
    }

    #[test]
    fn a_flag_that_was_not_granted_is_named() {
        let mut m = sample::measurement();
        assert_eq!(only(&m, "not-granted"), None);
        m.load.ring.granted.clear();
        assert_eq!(only(&m, "not-granted").unwrap().text, "ring flags asked for and not granted: coop_taskrun");
    }

    #[test]
    fn unasked_workers_are_a_finding_and_asked_ones_are_not() {
        let mut m = carried_by(Vehicle::Iowq, None);
        assert!(only(&m, "io-wq").unwrap().text.starts_with("100 % of completions came from io-wq workers"));
        m.load.force_async = true;
        assert_eq!(only(&m, "io-wq"), None);
    }
}
