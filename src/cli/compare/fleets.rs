//! Compares two fleets by machine: each machine's ratio of the second fleet to the first, and the summary over all
//! machines.

use super::{CompareArgs, FailOn, cannot, gate_or, of_sides};
use crate::cli::fleet;
use crate::cli::given::Stored;
use iotrail_answer::fleet::{Brought, Gathered, nodes};
use iotrail_base::error::{self, Error, Result};
use iotrail_base::words::{list, plural};
use iotrail_report::terminal;
use iotrail_schema::comparison::{Comparison, Disturbed, SCHEMA, Verdict};
use iotrail_schema::fleet_answer::FleetEffect;
use iotrail_schema::fleet_record::{FleetRecord, id};
use iotrail_schema::run_record::{ARM, CONTROL};
use iotrail_store::named;

pub fn run(args: &CompareArgs, a: i64, b: i64) -> Result<u8> {
    let store = Stored::new(args.store.as_deref()).all()?;
    let [base, other] = [fleet::stored(&store, a)?, fleet::stored(&store, b)?];
    drop(store);
    if base.experiment != other.experiment {
        return Err(Error::input(
            format!("{} is a fleet of {}, but {} is a fleet of {}", id(a), base.experiment, id(b), other.experiment),
            "compare fleets of the same experiment (see `iotrail list`)",
        ));
    }
    let (mut gathered, mut notes) = (Gathered::default(), Vec::from_iter(own_figures(&base, &other)));
    let mut in_common = 0;
    for (node, run) in other.runs() {
        let Some((_, before)) = base.runs().find(|(n, _)| n.node == node.node) else { continue };
        match compared(args, [a, b], before, run, &node.node) {
            Ok((brought, left_over)) => {
                gathered.add(brought);
                in_common += 1;
                notes.extend(left_over.into_iter().map(|text| format!("{}: {text}", node.node)));
            }
            // This machine has nothing to compare, but others may.
            Err(e) if e.kind == error::Kind::Input => notes.push(format!("{}: {}", node.node, e.what)),
            Err(e) => return Err(e),
        }
    }
    if in_common < 2 {
        let why = notes.first().map_or_else(String::new, |note| format!(" ({note})"));
        return Err(Error::input(
            format!("{} and {} have {} to compare{why}", id(a), id(b), plural(in_common, "machine")),
            "specify fleets of the same machines, or compare two runs: iotrail compare 12 17",
        ));
    }
    notes.extend([(&base, &other), (&other, &base)].into_iter().filter_map(|(one, not)| alone(one, not)));
    let unit = gathered.unit();
    let mut answer = gathered.answer(other);
    answer.notes.extend(notes);
    answer.against = Some(base);
    match args.json {
        true => terminal::print_json(&answer)?,
        false => terminal::show(&terminal::fleet(&answer, unit, args.full, &named(args.store.as_deref())))?,
    }
    let all: Vec<Comparison> = answer.effects.iter().map(|e| of_effect(e, args.equivalent_within)).collect();
    Ok(gate_or(&args.fail_on, &all, &not_evaluated))
}

/// One machine's comparisons of its later run with its earlier one, and the cells without a counterpart.
fn compared(args: &CompareArgs, fleets: [i64; 2], before: i64, now: i64, node: &str) -> Result<(Brought, Vec<String>)> {
    // Limits memory: the runs of a large fleet do not fit at once.
    let mut stored = Stored::new(args.store.as_deref());
    let (earlier, later) = (before.to_string(), now.to_string());
    let sides = of_sides(&earlier, &later, &mut stored, &args.metric, args.equivalent_within)?;
    let mut record = stored.run(now)?;
    record.equivalent_within = Some(args.equivalent_within);
    // The control arm repeats the first arm's result.
    let is_own = |c: &Comparison| c.at.get(ARM).and_then(|arm| arm.as_str()) != Some(CONTROL);
    let [a, b] = fleets.map(id);
    let of_fleets = |c: Comparison| Comparison { a: a.clone(), b: b.clone(), ..c };
    record.comparisons = sides.all.into_iter().filter(is_own).map(of_fleets).collect();
    let brought = Brought::new(node, &record).against(&record, &stored.run(before)?, &a);
    Ok((brought, sides.left_over))
}

/// Reports a program's own metrics that are not the compared metric.
fn own_figures(base: &FleetRecord, other: &FleetRecord) -> Option<String> {
    let plan: serde_json::Value = serde_json::from_str(&other.plan).ok()?;
    let text = plan.get("experiment")?.as_str()?;
    let file: toml::Table = text.parse().ok()?;
    let metrics = match file.get("load")?.get("metric")? {
        toml::Value::Array(all) => all.iter().filter_map(toml::Value::as_str).collect(),
        one => vec![one.as_str()?],
    };
    let name = |metric: &str| metric.split('=').next().unwrap_or_default().trim().to_owned();
    let names: Vec<String> = metrics.into_iter().map(name).filter(|name| !name.is_empty()).collect();
    let (a, b) = (base.id(), other.id());
    let of = list(&names);
    (!names.is_empty())
        .then(|| format!("{of}: not compared between fleets, see `iotrail report {a}` and `iotrail report {b}`"))
}

/// Machines that only one of the fleets has.
fn alone(one: &FleetRecord, other: &FleetRecord) -> Option<String> {
    let is_there = |node: &str| other.runs().any(|(n, _)| n.node == node);
    let names: Vec<&str> = one.runs().map(|(n, _)| n.node.as_str()).filter(|n| !is_there(n)).collect();
    (!names.is_empty()).then(|| format!("only in {}, and not compared: {}", one.id(), nodes(&names)))
}

/// The effect in the form that --fail-on evaluates.
fn of_effect(e: &FleetEffect, equivalent_within: f64) -> Comparison {
    Comparison {
        schema: SCHEMA.into(),
        metric: e.metric.clone(),
        at: e.at.clone(),
        a: e.a.clone(),
        b: e.b.clone(),
        pairs: e.machines,
        paired: true,
        disturbed: Disturbed::default(),
        ratio: e.ratio,
        ci95: e.ci95,
        noise_floor: None,
        smallest_visible: None,
        p: e.p,
        p_adjusted: e.p_adjusted,
        together: 0,
        equivalent_within,
        to_show_10_percent: None,
        verdict: e.verdict,
        reasons: Vec::new(),
    }
}

fn not_evaluated(asked: FailOn, first: &Comparison, open: usize, all: usize) -> String {
    let cannot = cannot(asked, first, open, all);
    let on = plural(first.pairs, "machine");
    match first.verdict {
        Verdict::NotComparable => format!("{cannot}: not comparable on {on}; see --full, and measure again"),
        _ => format!("{cannot}: inconclusive on {on}; compare more machines, or measure more blocks on each"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::fleet_record::SCHEMA;

    fn fleet(fleet: i64, experiment: &str) -> FleetRecord {
        FleetRecord {
            schema: SCHEMA.into(),
            fleet,
            name: String::new(),
            experiment: "try".into(),
            plan: serde_json::json!({"seed": 1, "experiment": experiment}).to_string(),
            command: None,
            started_unix_s: 0,
            finished_unix_s: None,
            nodes: vec![],
        }
    }

    #[test]
    fn metrics_of_a_program_are_reported_as_not_compared() {
        let own = |text| own_figures(&fleet(1, text), &fleet(3, text));
        let said = "speed and riops: not compared between fleets, see `iotrail report f1` and `iotrail report f3`";
        let text = "kind = \"program\"\n[load]\nmetric = [\"speed=/speed = ([0-9]+)/\", \"riops=IOPS\"]\n";
        assert_eq!(own(text).as_deref(), Some(said));
        assert_eq!((own("[load]\nrw = \"nop\"\n"), own("")), (None, None));
    }
}
