//! Rules for a single measurement.

use super::{Check, RULE, Rule};
use crate::delivered::{WORTH_SAYING, share};
use iotrail_base::words::percent;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::Measurement;

pub const DEVICE_IRQ: Rule = Rule {
    code: "device_irq",
    about: "at least half of the completions were posted on return from a device interrupt on the job's own CPU",
    checks: &[Check::Measurement(device_irq)],
    ..RULE
};

fn device_irq(m: &Measurement) -> Option<Finding> {
    let share = share(&m.vehicles, DeliveryPath::DeviceIrq);
    // If it delivered at least half of the completions, the path explains the measurement.
    if share < 0.5 {
        return None;
    }
    let most = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::DeviceIrq).max_by_key(|v| v.completions);
    let which = most.and_then(|v| v.detail.clone()).map(|d| format!(" ({d})")).unwrap_or_default();
    let text = format!(
        "{} of completions were posted on return from a device interrupt{which} on the job's own CPU. The interrupt enters the kernel, so the job \
         needs no kick",
        percent(share)
    );
    Some(DEVICE_IRQ.finding(Severity::Note, text, &[("share", share)]))
}

pub const IOWQ: Rule = Rule {
    code: "iowq",
    about: "io-wq workers completed at least 5 % of the requests, without `--force-async`",
    advice: "try --direct, preallocated files, or a smaller depth: the file system or the device could not accept these requests without blocking",
    checks: &[Check::Measurement(iowq)],
    ..RULE
};

fn iowq(m: &Measurement) -> Option<Finding> {
    let share = share(&m.vehicles, DeliveryPath::Iowq);
    if m.load.force_async || share < WORTH_SAYING {
        return None;
    }
    let text = format!("io-wq workers completed {} of the requests, without --force-async", percent(share));
    let mut finding = IOWQ.finding(Severity::Warning, text, &[("share", share)]);
    if m.load.direct {
        finding.remedy = finding.remedy.replace("--direct, ", "");
    }
    Some(finding)
}

pub const NOT_GRANTED: Rule = Rule {
    code: "not_granted",
    about: "the kernel did not grant a requested ring flag",
    advice: "run `iotrail check`",
    checks: &[Check::Measurement(not_granted)],
    ..RULE
};

fn not_granted(m: &Measurement) -> Option<Finding> {
    let missing: Vec<String> =
        m.load.ring.requested.iter().filter(|f| !m.load.ring.granted.contains(f)).cloned().collect();
    if missing.is_empty() {
        return None;
    }
    let text = format!("ring flags requested but not granted: {}", missing.join(", "));
    Some(NOT_GRANTED.finding(Severity::Warning, text, &[("flags", missing.len() as f64)]))
}

#[cfg(test)]
mod tests {
    use super::super::findings_of;
    use super::*;
    use iotrail_schema::measurement::DeliveryPathCount;
    use iotrail_testing::sample;

    fn only(m: &Measurement, code: &str) -> Option<Finding> {
        findings_of(m).into_iter().find(|f| f.code == code)
    }

    fn carried_by(vehicle: DeliveryPath, detail: Option<&str>) -> Measurement {
        let mut m = sample::measurement();
        m.vehicles =
            vec![DeliveryPathCount { vehicle, completions: 500, detail: detail.map(Into::into), delay_ns: None }];
        m
    }

    #[test]
    fn completions_under_coop_and_peek_are_stranded_until_the_tick() {
        let f = only(&sample::measurement(), "stranded").unwrap();
        assert_eq!(
            f.text,
            "99.4 % of completions waited for the timer tick. With COOP_TASKRUN the kernel sends no interrupt for them, and the thread makes no \
             system call while it polls the CQ ring. Their task work waits for the next kernel entry, which is the tick. The CPU took 250 \
             ticks per second, and 250 I/Os per second completed: 1.00 per tick"
        );
        assert!(f.remedy.starts_with("set `taskrun_flag`"));
        assert_eq!((f.warns(), f.evidence["ticks_per_s"], f.evidence["iops"]), (true, 250.0, 250.0));
    }

    #[test]
    fn coop_is_not_blamed_for_tick_delivery_without_the_flag() {
        let mut m = sample::measurement();
        m.load.ring.requested.clear();
        m.interrupts.clear();
        let f = only(&m, "stranded").unwrap();
        assert_eq!(
            f.text,
            "99.4 % of completions waited for the timer tick. Before the tick, no other event made the thread's CPU enter the kernel"
        );
        assert!(f.remedy.starts_with("wait in io_uring_enter"));
        assert_eq!(only(&carried_by(DeliveryPath::Enter, None), "stranded"), None);
    }

    #[test]
    fn a_high_kick_rate_is_reported_as_a_kick_storm() {
        let mut m = carried_by(DeliveryPath::ReschedIpi, None);
        (m.per_io.kicks, m.iops) = (Some(1.0), Some(14_900.0));
        let f = only(&m, "kick_storm").unwrap();
        assert!(
            f.text.starts_with("1.00 kicks per I/O, 14.9 k per second. ") && f.remedy.starts_with("set coop_taskrun")
        );
        assert!(f.warns());
        m.iops = Some(2_000.0);
        assert!(!only(&m, "kick_storm").unwrap().warns());
        m.iops = Some(900.0);
        assert_eq!(only(&m, "kick_storm"), None);
        (m.per_io.kicks, m.iops) = (Some(0.4), Some(100_000.0));
        assert_eq!(only(&m, "kick_storm"), None);
        m.per_io.kicks = None;
        assert_eq!(only(&m, "kick_storm"), None);
    }

    #[test]
    fn the_delivering_interrupt_is_named() {
        let f = only(&carried_by(DeliveryPath::DeviceIrq, Some("36 virtio1-req.0")), "device_irq").unwrap();
        assert_eq!(
            f.text,
            "100 % of completions were posted on return from a device interrupt (36 virtio1-req.0) on the job's own CPU. \
             The interrupt enters the kernel, so the job needs no kick"
        );
    }

    #[test]
    fn a_ring_flag_that_was_not_granted_is_reported() {
        let mut m = sample::measurement();
        assert_eq!(only(&m, "not_granted"), None);
        m.load.ring.granted.clear();
        assert_eq!(only(&m, "not_granted").unwrap().text, "ring flags requested but not granted: coop_taskrun");
    }

    #[test]
    fn io_wq_punts_are_a_finding_unless_the_load_forces_them() {
        let mut m = carried_by(DeliveryPath::Iowq, None);
        m.load.direct = false;
        let f = only(&m, "iowq").unwrap();
        assert!(f.text.starts_with("io-wq workers completed 100 % of the requests"), "{}", f.text);
        assert!(f.remedy.starts_with("try --direct, preallocated files"), "{}", f.remedy);
        m.load.direct = true;
        let f = only(&m, "iowq").unwrap();
        assert!(f.remedy.starts_with("try preallocated files, or a smaller depth"), "{}", f.remedy);
        m.load.force_async = true;
        assert_eq!(only(&m, "iowq"), None);
    }
}
