//! Other differences between two sides: hosts, targets, options. A comparison across hosts or kernels may be intended,
//! so these are only reported.

use serde_json::Value;

use iotrail_base::distinct::distinct;
use iotrail_base::grouped::grouped;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::value_text;

/// One sentence each for hosts, targets and loads that differ.
pub fn said(a: &[&Measurement], b: &[&Measurement]) -> Vec<String> {
    [("hosts", host as fn(&Measurement) -> Facts), ("targets", target), ("loads", load)]
        .into_iter()
        .filter_map(|(what, facts)| {
            let differing = differing(&all(a, facts), &all(b, facts));
            (!differing.is_empty()).then(|| format!("the {what} differ: {}", differing.join(", ")))
        })
        .collect()
}

/// `kernel 6.1.0 → 6.18.5`: each fact that changed between the measurements.
pub fn changed(before: &Measurement, after: &Measurement) -> Vec<String> {
    let facts = |m| [host(m), target(m), load(m)].concat();
    let (old, new) = (facts(before), facts(after));
    let of = |(name, new): (String, String)| {
        let was = old.iter().find(|(n, _)| *n == name).map_or("none", |(_, fact)| fact.as_str());
        (was != new).then(|| format!("{name} {was} → {new}"))
    };
    new.into_iter().filter_map(of).collect()
}

/// Name and value.
type Facts = Vec<(String, String)>;

fn host(m: &Measurement) -> Facts {
    let h = &m.host;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".into());
    [
        ("host", h.hostname.clone()),
        ("kernel", h.kernel.clone()),
        ("CPU model", h.cpu_model.clone()),
        ("CPUs", h.cpus.to_string()),
        ("clock source", known(&h.clock_source)),
        ("lockdown", known(&h.lockdown)),
        ("virtualisation", known(&h.virtualisation)),
        ("iotrail", m.version.to_string()),
    ]
    .map(|(name, fact)| (name.to_owned(), fact))
    .to_vec()
}

fn target(m: &Measurement) -> Facts {
    let Some(t) = &m.host.target else { return vec![("target".into(), "none".into())] };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".into());
    let device = match &t.queue_device {
        Some(above) => format!("{above} on {}", known(&t.device)),
        None => known(&t.device),
    };
    let number = |n: Option<u32>| n.map_or_else(|| "not known".into(), |n| n.to_string());
    let mut cpus: Vec<u32> = t.interrupts.iter().flat_map(|i| i.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    [
        ("device", device),
        ("driver", known(&t.driver)),
        ("file system", known(&t.filesystem)),
        ("queues", number(t.queues)),
        ("polled queues", number(t.poll_queues)),
        ("scheduler", known(&t.scheduler)),
        ("CPUs of its interrupts", if cpus.is_empty() { "none".into() } else { cpus.join("+") }),
    ]
    .map(|(name, fact)| (name.to_owned(), fact))
    .to_vec()
}

/// The command of a user's program; `None`: the load is iotrail's own.
pub fn command(m: &Measurement) -> Option<String> {
    m.program.as_ref().map(|p| p.argv.join(" "))
}

/// All options as recorded.
fn load(m: &Measurement) -> Facts {
    let Ok(Value::Object(options)) = serde_json::to_value(&m.load) else { return Vec::new() };
    let text = |value: &Value| match value {
        Value::Null => "none".into(),
        Value::Array(items) if items.is_empty() => "none".into(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join("+"),
        // The requested flags identify a load; flags that were not granted have their own warning.
        Value::Object(ring) => ring.get("requested").map_or_else(String::new, |v| match v {
            Value::Array(flags) if flags.is_empty() => "none".into(),
            Value::Array(flags) => flags.iter().map(value_text).collect::<Vec<_>>().join("+"),
            other => value_text(other),
        }),
        other => value_text(other),
    };
    // The seed selects the I/Os but does not change the load.
    let said = options.iter().filter(|(name, _)| *name != "seed");
    let mut facts: Facts = said.map(|(name, value)| (name.clone(), text(value))).collect();
    facts.extend(command(m).map(|argv| ("command".into(), argv)));
    let Some(net) = &m.net else { return facts };
    facts.push(("between".into(), net.between.clone()));
    let of_server = net.server.iter().flat_map(|server| &server.options);
    facts.extend(of_server.map(|(name, value)| (format!("server's {name}"), text(value))));
    if let Ok(Value::Object(asked)) = serde_json::to_value(&net.asked) {
        facts.extend(asked.iter().map(|(name, value)| (format!("sender's {name}"), text(value))));
    }
    facts
}

/// Distinct values of each fact over the repeats.
fn all(measurements: &[&Measurement], facts: fn(&Measurement) -> Facts) -> Vec<(String, Vec<String>)> {
    let mut out = grouped(distinct(measurements.iter().flat_map(|m| facts(m))));
    out.iter_mut().for_each(|(_, seen)| seen.sort());
    out
}

fn differing(a: &[(String, Vec<String>)], b: &[(String, Vec<String>)]) -> Vec<String> {
    let none = vec!["none".to_owned()];
    let names = a.iter().map(|(n, _)| n).chain(b.iter().map(|(n, _)| n).filter(|n| !a.iter().any(|(m, _)| m == *n)));
    let of = |side: &[(String, Vec<String>)], name: &str| {
        side.iter().find(|(n, _)| n == name).map_or_else(|| none.clone(), |(_, seen)| seen.clone())
    };
    let words = |name: &String| {
        let (a, b) = (of(a, name), of(b, name));
        (a != b).then(|| format!("{name} {} against {}", a.join(" and "), b.join(" and ")))
    };
    names.filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::net_record::{NetRecord, SenderPlan, ServerRecord};
    use iotrail_schema::program_record::ProgramRecord;
    use iotrail_testing::sample;

    #[test]
    fn kernel_and_load_changes_of_a_later_measurement_are_listed() {
        let before = sample::measurement();
        assert_eq!(changed(&before, &before), [""; 0]);
        let mut after = before.clone();
        after.host.kernel = "6.18.7".into();
        after.load.depth += 1;
        after.load.seed = Some(4711);
        let kernel = format!("kernel {} → 6.18.7", before.host.kernel);
        assert_eq!(changed(&before, &after), [kernel, format!("depth {} → {}", before.load.depth, after.load.depth)]);
    }

    #[test]
    fn differing_server_and_sender_options_are_listed() {
        let of = |window, trigger: &str| {
            let mut net = NetRecord { asked: SenderPlan { window, ..SenderPlan::default() }, ..NetRecord::default() };
            let options = serde_json::json!({ "trigger": trigger, "napi_ns": null });
            let options = options.as_object().unwrap().clone();
            net.server = Some(ServerRecord { options, ..ServerRecord::default() });
            Measurement { net: Some(net.into()), ..sample::measurement() }
        };
        assert_eq!(
            said(&[&of(1, "level")], &[&of(2, "edge")]),
            ["the loads differ: server's trigger level against edge, sender's window 1 against 2"]
        );
    }

    #[test]
    fn differing_commands_are_listed() {
        let of = |command: &str| {
            let argv = command.split(' ').map(str::to_owned).collect();
            let program = ProgramRecord { argv, ..ProgramRecord::default() };
            Measurement { program: Some(program.into()), ..sample::measurement() }
        };
        assert_eq!(
            said(&[&of("./server -t 2")], &[&of("fio job.fio")]),
            ["the loads differ: command ./server -t 2 against fio job.fio"]
        );
    }

    #[test]
    fn identical_measurements_have_no_differences() {
        let (a, b) = (sample::measurement(), sample::measurement());
        assert_eq!(said(&[&a, &a], &[&b]), Vec::<String>::new());
    }

    #[test]
    fn host_target_and_load_differences_have_one_sentence_each() {
        let (a, mut b) = (sample::measurement(), sample::measurement());
        b.host.kernel = "7.2.0".into();
        b.host.cpu_model = "Another".into();
        if let Some(target) = &mut b.host.target {
            (target.device, target.scheduler) = (Some("vdb".into()), None);
        }
        b.load.depth = 16;
        b.load.ring.requested.clear();
        assert_eq!(
            said(&[&a], &[&b]),
            [
                "the hosts differ: kernel 6.18.0 against 7.2.0, CPU model A processor against Another",
                "the targets differ: device vda against vdb, scheduler none against not known",
                "the loads differ: depth 1 against 16, ring coop_taskrun against none",
            ]
        );
        assert_eq!(
            said(&[&a, &b], &[&a])[0],
            "the hosts differ: kernel 6.18.0 and 7.2.0 against 6.18.0, CPU model A processor and Another against A processor"
        );
        b = a.clone();
        b.host.target.as_mut().unwrap().queue_device = Some("loop0".into());
        assert_eq!(said(&[&a], &[&b]), ["the targets differ: device vda against loop0 on vda"]);
        b = a.clone();
        b.host.target = None;
        assert!(said(&[&a], &[&b])[0].starts_with("the targets differ: device vda against none, driver virtio_blk"));
    }
}
