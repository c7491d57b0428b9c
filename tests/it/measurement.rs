//! `bench --json`: every documented field is present with its type.

use serde_json::Value;

use crate::options::sound;
use crate::tool::{Place, bench, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[("measurement::all_measurement_fields_are_present_with_their_types", schema)];

/// Path and type; `?` after a type allows null if unavailable. `[]` denotes the elements of a list.
const FIELDS: &str = "
    schema string, version string, started_unix_s number, elapsed_ns number, ios number, bytes number, errors number,
    short_ios number, iops number, load object, load.engine string, load.ring.requested list, load.ring.granted list,
    load.sq_cpu number?, load.sq_idle_ms number?, load.register list, load.force_async bool, load.rw string, load.commit string, load.bs number,
    load.depth number, load.batch number, load.jobs number, load.cpus_requested string?, load.cpus list, load.wait string, load.min_wait_ns number?, load.no_iowait bool,
    load.reaper string, load.think_ns number, load.scratch string, load.neighbour string, load.file string?,
    load.size number?, load.direct bool, load.runtime_ns number?, load.count number?, load.warmup_ns number, load.rate number?,
    load.verify bool, load.seed number, load.trace string, latency_ns.count number, latency_ns.mean number, latency_ns.min number,
    latency_ns.p50 number, latency_ns.p90 number, latency_ns.p95 number, latency_ns.p99 number?, latency_ns.p99_9 number?,
    latency_ns.p99_99 number?, latency_ns.max number, phases.submit number, phases.poll number, phases.clear number,
    phases.other number, phases.total_ns number, cpu.user_ns number, cpu.system_ns number, cpu.sqpoll_ns number?,
    vehicles list, per_io.syscalls number?, per_io.kicks number?, per_io.resched_ipis number?, per_io.device_irqs number?,
    per_io.mode_switches number?, per_io.context_switches number?, per_io.task_work_runs number?, mode_switches list,
    interrupts list, ipis list, order object?, probe.mode string, probe.completions_seen number?, probe.untracked number?,
    probe.lost number?, probe.programs list, host.hostname string, host.kernel string, host.cpu_model string, host.cpus number,
    host.target object, host.target.path string, host.target.filesystem string?, host.target.device string?,
    host.target.driver string?, host.target.queues number?, host.target.poll_queues number?, host.target.scheduler string?,
    circumstances object, circumstances.span_ns number, circumstances.cpus list, circumstances.device object?,
    circumstances.page_cache object?, circumstances.steal_ns number?, circumstances.cpu_quota number?,
    circumstances.throttled_ns number?, circumstances.thermal_throttles number?, circumstances.frequency_khz object?,
    circumstances.interrupts_after list, circumstances.runnable_before number?, circumstances.load_average_before number?,
    circumstances.run_queue_wait_ns number?, circumstances.others_had_cpu_ns number?,
    circumstances.involuntary_switches number?, circumstances.minor_faults number?,
    circumstances.major_faults number?, circumstances.throughput object?,
    host.target.interrupts list, host.clock_source string?, host.lockdown string?, host.virtualisation string?, warnings list,
    warnings[].code string, warnings[].text string, warnings[].remedy string, host.target.interrupts[].irq number,
    host.target.interrupts[].name string, host.target.interrupts[].cpus list";

/// The values at a path; empty if a list on the path is empty.
fn at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    path.split('.').fold(vec![value], |values, step| {
        let (name, each) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
        let of = |v: &'a Value| v.get(name).unwrap_or_else(|| panic!("{path}: no '{name}'"));
        values
            .into_iter()
            .map(of)
            .flat_map(|v| if each { v.as_array().expect("a list").iter().collect() } else { vec![v] })
            .collect()
    })
}

#[track_caller]
pub fn check(document: &Value, fields: &str) {
    for field in fields.split(',') {
        let (path, kind) = field.trim().split_once(' ').expect("a path and a type");
        for value in at(document, path) {
            let right = match kind.trim_end_matches('?') {
                _ if value.is_null() => kind.ends_with('?'),
                "string" => value.is_string(),
                "number" => value.is_number(),
                "bool" => value.is_boolean(),
                "list" => value.is_array(),
                "object" => value.is_object(),
                other => panic!("no type is called {other}"),
            };
            assert!(right, "{path} is no {kind}: {value}");
        }
    }
}

fn schema() -> End {
    let place = Place::new();
    let m = run(bench(&place, "--count 3000 --ring cqsize=64,coop_taskrun --json --file").arg(file())).ok().json();
    check(&m, FIELDS);
    sound(&m);
    assert_eq!(m["schema"], "iotrail.measurement/1");
    assert_eq!(m["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(m["ios"], 3000);
    assert_eq!(m["load"]["ring"]["requested"], serde_json::json!(["coop_taskrun", "cqsize=64"]));
    // 3,000 samples are enough for a p99, but not for a p99.99.
    let latency = &m["latency_ns"];
    let order: Vec<u64> =
        ["min", "p50", "p90", "p95", "p99", "max"].iter().map(|q| latency[q].as_u64().expect("supported")).collect();
    assert!(order.is_sorted() && order[0] > 0, "{order:?}");
    assert!(latency["p99_99"].is_null(), "one in 10,000 of 3,000 is nothing seen");
    // Without probes, an unknown value is null instead of 0.
    assert_eq!(m["probe"]["mode"], "off");
    assert!(m["probe"]["completions_seen"].is_null() && m["per_io"]["kicks"].is_null());
    assert_eq!(m["vehicles"].as_array().map(Vec::len), Some(0));
    // The load counts its own calls without probes: per I/O, at most one enter to submit and one to wait.
    let calls = m["per_io"]["syscalls"].as_f64().expect("counted by the load");
    assert!((1.0..=2.0).contains(&calls), "{calls}");
    let rate = m["ios"].as_f64().expect("a number") / (m["elapsed_ns"].as_f64().expect("a number") / 1e9);
    assert!((m["iops"].as_f64().expect("a number") / rate - 1.0).abs() < 1e-9);
    End::Passed
}
