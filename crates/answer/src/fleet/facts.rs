//! Differences between machines: host facts recorded with a measurement, ordered by likely effect.

use iotrail_base::distinct::distinct;
use iotrail_base::words::{list, plural};
use iotrail_schema::fleet_answer::{Fact, Factor, FactorValue, FleetMachine};
use iotrail_schema::measurement::Measurement;

const NONE: &str = "none";
const NOT_KNOWN: &str = "not known";

/// Name of the fact about the distribution of the drive's interrupts.
const VECTORS: &str = "vectors";

/// Host names, disk names and interrupt numbers differ everywhere and explain nothing.
pub fn of(m: &Measurement) -> Vec<Fact> {
    let h = &m.host;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| NOT_KNOWN.into());
    let number = |n: Option<u32>| n.map_or_else(|| NOT_KNOWN.into(), |n| n.to_string());
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(t) = &h.target {
        facts.push((VECTORS, vectors(t.interrupts.len(), h.cpus)));
        facts.push(("drive", known(&t.model)));
        facts.push(("driver", known(&t.driver)));
        facts.push(("queues", number(t.queues)));
        facts.push(("polled queues", number(t.poll_queues)));
        facts.push(("scheduler", known(&t.scheduler)));
        facts.push(("file system", t.filesystem.clone().unwrap_or_else(|| NONE.into())));
    }
    facts.push(("kernel", h.kernel.clone()));
    facts.push(("CPU model", h.cpu_model.clone()));
    facts.push(("CPUs", h.cpus.to_string()));
    facts.push(("virtualisation", known(&h.virtualisation)));
    facts.push(("clock source", known(&h.clock_source)));
    facts.push(("lockdown", known(&h.lockdown)));
    facts.push(("iotrail", m.version.to_string()));
    facts.into_iter().map(|(name, is)| Fact { name: name.to_owned(), is }).collect()
}

fn vectors(n: usize, cpus: u32) -> String {
    match n {
        0 => NOT_KNOWN.into(),
        n if n >= cpus as usize && cpus > 1 => "one per CPU".into(),
        1 => "one for all CPUs".into(),
        n => format!("{n} for {cpus} CPUs"),
    }
}

fn value<'a>(machine: &'a FleetMachine, name: &str) -> &'a str {
    machine.facts.iter().find(|f| f.name == name).map_or(NONE, |f| f.is.as_str())
}

/// Facts that differ between machines.
pub fn factors(machines: &[FleetMachine]) -> Vec<Factor> {
    let names = distinct(machines.iter().flat_map(|m| &m.facts).map(|f| &f.name));
    let of = |name: &String| {
        let mut values: Vec<FactorValue> = Vec::new();
        for m in machines {
            let is = value(m, name);
            match values.iter_mut().find(|v| v.is == is) {
                Some(v) => v.nodes.push(m.node.clone()),
                None => values.push(FactorValue { is: is.into(), nodes: vec![m.node.clone()] }),
            }
        }
        values.sort_by_key(|v| std::cmp::Reverse(v.nodes.len()));
        (values.len() > 1).then(|| Factor { name: name.clone(), values })
    };
    names.into_iter().filter_map(of).collect()
}

/// `kernel 6.1.0`: facts shared by all of these machines and by no other.
pub fn only_on(factors: &[Factor], nodes: &[&str], others: &[&str]) -> Vec<String> {
    let has = |v: &FactorValue, node: &&str| v.nodes.iter().any(|n| n == node);
    let of = |f: &Factor| {
        let value = f.values.iter().find(|v| nodes.iter().all(|n| has(v, n)) && !others.iter().any(|n| has(v, n)))?;
        Some(format!("{} {}", f.name, value.is))
    };
    if nodes.is_empty() { Vec::new() } else { factors.iter().filter_map(of).collect() }
}

/// Maximum number of facts per text.
const SAID: usize = 2;

/// `the drive has a vector per CPU and the kernel is 6.1.0`; `None` without a recorded fact.
pub fn words(facts: &[String]) -> Option<String> {
    let one = |fact: &String| -> String {
        const NAMES: [(&str, &str); 13] = [
            ("vectors one per CPU", "the drive has a vector per CPU"),
            ("vectors one for all CPUs", "the drive has one vector for all CPUs"),
            ("vectors ", "the drive's vectors are "),
            ("drive ", "the drive is "),
            ("driver ", "the drive's driver is "),
            ("queues ", "the drive's queues are "),
            ("polled queues ", "the drive's polled queues are "),
            ("scheduler ", "the I/O scheduler is "),
            ("file system ", "the file system is "),
            ("kernel ", "the kernel is "),
            ("CPU model ", "the CPU is "),
            ("CPUs ", "the number of CPUs is "),
            ("iotrail ", "iotrail is "),
        ];
        let named = NAMES.iter().find_map(|(name, words)| Some(format!("{words}{}", fact.strip_prefix(name)?)));
        named.unwrap_or_else(|| fact.clone())
    };
    let mut said: Vec<String> = facts.iter().take(SAID).map(one).collect();
    said.extend((facts.len() > SAID).then(|| format!("{} more", plural(facts.len() - SAID, "fact"))));
    (!said.is_empty()).then(|| list(&said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::sample;

    fn machine(node: &str, change: impl Fn(&mut Measurement)) -> FleetMachine {
        let mut m = sample::measurement();
        change(&mut m);
        FleetMachine { node: node.into(), run: 1, measurements: 1, planned: 1, facts: of(&m), cannot_test: Vec::new() }
    }

    #[test]
    fn differing_facts_are_listed_with_their_machines() {
        let all = [
            machine("c1", |_| {}),
            machine("c2", |m| m.host.hostname = "elsewhere".into()),
            machine("c7", |m| {
                m.host.kernel = "6.1.0".into();
                let target = m.host.target.as_mut().unwrap();
                target.interrupts = [target.interrupts.clone(), target.interrupts.clone()].concat();
            }),
        ];
        let found = factors(&all);
        let names: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, [VECTORS, "kernel"]);
        assert_eq!(found[1].values[0].nodes, ["c1", "c2"]);
        let only = only_on(&found, &["c7"], &["c1", "c2"]);
        assert_eq!(only, ["vectors one per CPU", "kernel 6.1.0"]);
        assert_eq!(words(&only).unwrap(), "the drive has a vector per CPU and the kernel is 6.1.0");
        assert_eq!(only_on(&found, &["c1"], &["c2", "c7"]), [""; 0]);
        assert_eq!(words(&[]), None);
        assert_eq!(words(&["a 1", "b 2", "c 3"].map(String::from)).unwrap(), "a 1, b 2 and 1 fact more");
    }

    #[test]
    fn interrupt_vectors_are_described_relative_to_the_cpu_count() {
        let of = [(0, 8), (1, 8), (1, 1), (4, 8), (8, 8), (9, 8)].map(|(n, cpus)| vectors(n, cpus));
        assert_eq!(
            of,
            ["not known", "one for all CPUs", "one for all CPUs", "4 for 8 CPUs", "one per CPU", "one per CPU"]
        );
    }
}
