//! Metrics that the monitor exports. Pure.

use std::collections::BTreeMap;

use iotrail_answer::diagnose::state::reason_name;
use iotrail_schema::metric_family::{Family, Kind, Labels, Value};
use iotrail_schema::stall::Trigger;

use super::account::{Accounts, Program, Sums};
use super::budget::{Keeper, Layer};

/// Counters of the monitor itself.
#[derive(Debug, Default, Clone)]
pub struct Own {
    pub elapsed_ns: u64,
    pub samples: u64,
    pub spent_ns: u64,
    /// CPU time of traces, windows, and their probes.
    pub traced_ns: u64,
    pub memory: u64,
    pub processes: u64,
    /// Matching processes beyond the limit of sampled ones.
    pub unsampled: u64,
    pub captured: u64,
    /// Captures skipped because of the burst limit.
    pub limited: u64,
    /// Captures that could not be written.
    pub failed: u64,
    pub traces: u64,
    /// Pressure Stall Information: `some` and `full` of each resource, in ns.
    pub pressure: Vec<(&'static str, &'static str, u64)>,
    /// `some` and `full` of io.pressure in the programs' cgroups, in ns.
    pub group_pressure: Vec<(String, &'static str, u64)>,
    pub windows: Windows,
}

/// Counts in the windows with counting probes.
#[derive(Debug, Default, Clone)]
pub struct Windows {
    pub opened: u64,
    pub open_ns: u64,
    pub requests: u64,
    pub errors: u64,
    pub punts: u64,
    /// Completions by delivery path.
    pub completions: BTreeMap<&'static str, u64>,
}

/// All metrics; the totals include programs without their own series.
pub fn families(own: &Own, accounts: &Accounts, keeper: &Keeper) -> Vec<Family> {
    let mut all = vec![];
    let mut family = |name, kind, help, samples: Vec<(Labels, Value)>| all.push(Family { name, help, kind, samples });
    use Kind::{Counter, Gauge};
    let one = |value| vec![(vec![], value)];
    let by = |name, text: &str, value| (vec![(name, text.to_owned())], value);
    let version = vec![by("version", env!("CARGO_PKG_VERSION"), Value::Now(1.0))];
    family("build_info", Gauge, "The version of iotrail.", version);
    family("monitored_seconds", Gauge, "Time since the monitor started.", one(Value::Now(own.elapsed_ns as f64 / 1e9)));
    family("monitored_processes", Gauge, "Processes that are sampled.", one(Value::Now(own.processes as f64)));
    let help = "Matching processes that are not sampled: there are more than 64.";
    family("unsampled_processes", Gauge, help, one(Value::Now(own.unsampled as f64)));
    family("samples", Counter, "Samples of all monitored processes.", one(Value::Count(own.samples)));
    let help = "Time from one sample to the next.";
    family("sample_period_seconds", Gauge, help, one(Value::Now(keeper.period().as_secs_f64())));

    let budget = keeper.budget();
    family("cpu_budget_ratio", Gauge, "The CPU budget, as a share of all CPU time.", one(Value::Now(budget.cpu)));
    let spent = vec![
        by("part", "monitor", Value::Nanoseconds(own.spent_ns)),
        by("part", "probes", Value::Nanoseconds(own.traced_ns)),
    ];
    family("spent_cpu_seconds", Counter, "CPU time of the monitor, including its traces and their probes.", spent);
    let (over, longest) = keeper.over();
    family(
        "over_budget_seconds",
        Counter,
        "Seconds in which the monitor cost more than the budget.",
        one(nanoseconds(over)),
    );
    let help = "Longest uninterrupted time in which the monitor cost more than the budget.";
    family("longest_over_budget_seconds", Gauge, help, one(Value::Now(longest.as_secs_f64())));
    family("memory_bytes", Gauge, "Memory of this process.", one(Value::Now(own.memory as f64)));
    family("memory_budget_bytes", Gauge, "The budget.", one(Value::Now(budget.memory as f64)));
    let shed = Layer::ALL.map(|layer| by("layer", layer.name(), Value::Now(f64::from(u8::from(!keeper.has(layer))))));
    family("shed", Gauge, "1: the layer is shed to keep the budget.", shed.into());

    let outcomes = [("written", own.captured), ("limited", own.limited), ("failed", own.failed)];
    let captures = outcomes.map(|(outcome, n)| by("outcome", outcome, Value::Count(n)));
    family("captures", Counter, "Captures of stalls; limited: too many of one trigger.", captures.into());
    family("captured_traces", Counter, "Traces after a trigger.", one(Value::Count(own.traces)));

    let programs = accounts.programs();
    let labels =
        |(comm, cgroup): &Program| vec![("process", comm.clone()), ("cgroup", cgroup.clone()), ("unit", unit(cgroup))];
    let each = |of: &dyn Fn(&Sums) -> Option<Value>| -> Vec<(Labels, Value)> {
        programs.iter().filter_map(|(program, sums)| Some((labels(program), of(sums)?))).collect()
    };
    let with = |mut labels: Labels, name, text: &str| {
        labels.push((name, text.to_owned()));
        labels
    };
    let mut time = vec![];
    for (program, sums) in programs {
        let state = |state, reason: &str, ns| {
            (with(with(labels(program), "state", state), "reason", reason), Value::Nanoseconds(ns))
        };
        time.push(state("running", "", sums.running_ns));
        time.push(state("runnable", "", sums.runnable_ns));
        let blocked = |(reason, ns): (&Option<_>, &u64)| {
            let name = reason.as_ref().map_or("unknown".into(), |r| reason_name(r).replace(' ', "_"));
            state("blocked", &name, *ns)
        };
        time.extend(sums.blocked_ns.iter().map(blocked));
    }
    let help = "Time of the threads. Running is exact; samples divide blocked time by its reason.";
    family("thread_seconds", Counter, help, time);
    let help = "Blocked time of threads in which their CPU counted as iowait, by samples.";
    family("iowait_seconds", Counter, help, each(&|s| Some(Value::Nanoseconds(s.iowait_ns))));
    let help = "The part of iowait_seconds in io_uring_enter, which IORING_ENTER_NO_IOWAIT removes.";
    family("enter_iowait_seconds", Counter, help, each(&|s| Some(Value::Nanoseconds(s.enter_iowait_ns))));
    let help = "CPU time of SQPOLL threads and io-wq workers.";
    family("kernel_thread_seconds", Counter, help, each(&|s| Some(Value::Nanoseconds(s.kernel_ns))));
    let help = "Time for which the CPU quota of the cgroup throttled threads, summed over CPUs.";
    family("quota_seconds", Counter, help, each(&|s| Some(Value::Nanoseconds(s.quota_ns))));
    family("sqes_taken", Counter, "SQEs consumed by the kernel.", each(&|s| Some(Value::Count(s.taken))));
    family("cqes_posted", Counter, "Completions that the kernel posted.", each(&|s| Some(Value::Count(s.posted))));
    let now = |of: fn(&Sums) -> u64| each(&|s| Some(Value::Now(of(s) as f64)));
    family("threads", Gauge, "Threads in the last sample.", now(|s| s.now.threads));
    family("rings", Gauge, "Rings in the last sample.", now(|s| s.now.rings));
    family("unreaped", Gauge, "Completions in the CQs in the last sample.", now(|s| s.now.unreaped));
    family("unsubmitted", Gauge, "Published SQEs not yet consumed in the last sample.", now(|s| s.now.unsubmitted));
    family("overflowed_rings", Gauge, "Rings with completions in the overflow list.", now(|s| s.now.overflowed));
    let help = "Requests in flight when the rings' lists were last read.";
    family("in_flight", Gauge, help, each(&|s| s.now.in_flight.map(|n| Value::Now(n as f64))));
    let mut stalls = vec![];
    for (program, sums) in programs {
        let of = |(trigger, n): (&Trigger, &u64)| (with(labels(program), "trigger", trigger.name()), Value::Count(*n));
        stalls.extend(sums.stalls.iter().map(of));
    }
    family("stalls", Counter, "Stalls, captured or not, by trigger.", stalls);

    let pressure = own.pressure.iter().map(|(resource, kind, ns)| {
        (vec![("resource", (*resource).to_owned()), ("kind", (*kind).to_owned())], Value::Nanoseconds(*ns))
    });
    let help = "Time in which some or all tasks of the machine waited for the resource (/proc/pressure).";
    family("pressure_seconds", Counter, help, pressure.collect());
    let pressure = own.group_pressure.iter().map(|(cgroup, kind, ns)| {
        let labels = vec![("cgroup", cgroup.clone()), ("unit", unit(cgroup)), ("kind", (*kind).to_owned())];
        (labels, Value::Nanoseconds(*ns))
    });
    let help = "Time in which some or all tasks of the cgroup waited for I/O (io.pressure).";
    family("cgroup_io_pressure_seconds", Counter, help, pressure.collect());

    let w = &own.windows;
    let seen = |value| if w.opened > 0 { one(value) } else { vec![] };
    let help = "Time in which the counting probes were attached; the counts of windows cover this time.";
    family("window_seconds", Counter, help, seen(Value::Nanoseconds(w.open_ns)));
    family("window_requests", Counter, "Requests in windows.", seen(Value::Count(w.requests)));
    family("window_errors", Counter, "Completions with an error in windows.", seen(Value::Count(w.errors)));
    family("window_punts", Counter, "Requests punted to io-wq in windows.", seen(Value::Count(w.punts)));
    let paths = w.completions.iter().map(|(path, n)| by("vehicle", path, Value::Count(*n))).collect();
    family("window_completions", Counter, "Completions in windows, by delivery path.", paths);
    all
}

fn nanoseconds(time: std::time::Duration) -> Value {
    Value::Nanoseconds(time.as_nanos() as u64)
}

/// systemd unit in a cgroup path: the last component that names a unit, or empty.
fn unit(cgroup: &str) -> String {
    let is_unit = |part: &&str| [".service", ".scope", ".socket", ".mount"].iter().any(|suffix| part.ends_with(suffix));
    cgroup.rsplit('/').find(is_unit).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use iotrail_schema::stall::StalledProcess;

    #[test]
    fn the_systemd_unit_is_the_last_unit_of_the_cgroup_path() {
        assert_eq!(unit("/system.slice/docker-1.scope/a.service/x"), "a.service");
        assert_eq!(unit("/system.slice"), "");
    }

    #[test]
    fn metric_families_have_unique_names_and_labels() {
        let mut accounts = Accounts::default();
        for comm in ["a", "b"] {
            let process = StalledProcess { tgid: 1, comm: comm.into(), cgroup: Some("/x.service".into()) };
            accounts.stalled(&process, Trigger::Overflow);
            accounts.stalled(&process, Trigger::SlowSync);
        }
        let keeper = Keeper::new(Budget { cpu: 0.01, cpus: 2, memory: 1 }, 1.0, std::time::Duration::ZERO);
        let windows = Windows { opened: 1, ..Windows::default() };
        let group_pressure = ["some", "full"].map(|kind| ("/x.service".to_owned(), kind, 2)).into();
        let own =
            Own { pressure: vec![("io", "some", 5), ("io", "full", 3)], group_pressure, windows, ..Own::default() };
        let families = families(&own, &accounts, &keeper);
        let mut names = std::collections::BTreeSet::new();
        for family in &families {
            assert!(names.insert(family.name), "{}", family.name);
            let labels: std::collections::BTreeSet<&Labels> = family.samples.iter().map(|(labels, _)| labels).collect();
            assert_eq!(labels.len(), family.samples.len(), "{}", family.name);
        }
        let stalls = families.iter().find(|f| f.name == "stalls").unwrap();
        assert_eq!(stalls.samples.len(), 4);
        let in_flight = families.iter().find(|f| f.name == "in_flight").unwrap();
        assert!(in_flight.samples.is_empty(), "unknown is not 0");
    }
}
