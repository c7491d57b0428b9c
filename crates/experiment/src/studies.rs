//! The built-in published studies, and the experiments that test them.

use super::builtin::nearest;
use super::file::{Experiment, parse};
use iotrail_answer::reproduce::study::{Part, Study};
use iotrail_base::error::{Error, Result};

/// A study's file, and the files of its parts.
struct Files {
    study: &'static str,
    text: &'static str,
    parts: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($study:literal: $($part:literal)*) => {
        Files {
            study: $study,
            text: include_str!(concat!("../../../experiments/reproduce/", $study, ".toml")),
            parts: &[$(($part, include_str!(concat!("../../../experiments/reproduce/", $study, "/", $part, ".toml")))),*],
        }
    };
}

const ALL: [Files; 3] = [
    files!("vldb26": "nop" "worker" "registered" "wake" "net" "nvme" "fsync"),
    files!("thesis": "kicks" "reaper" "async" "sqpoll" "polling" "neighbour"),
    files!("systor22": "polling"),
];

/// Names of the studies.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|files| files.study).collect()
}

pub fn find(name: &str) -> Result<Study> {
    let Some(files) = ALL.iter().find(|files| files.study == name) else {
        let meant = nearest(name, &names()).map_or_else(String::new, |name| format!("did you mean {name}? "));
        let remedy = format!("{meant}available: {}; `iotrail reproduce` lists them", names().join(", "));
        return Err(Error::input(format!("unknown study '{name}'"), remedy));
    };
    toml::from_str(files.text)
        .map_err(|e| Error::internal(format!("experiments/reproduce/{name}.toml: {}", e.message())))
}

/// The experiment of a study's part.
pub fn experiment(study: &Study, part: &Part) -> Result<Experiment> {
    let files = ALL.iter().find(|files| files.study == study.name);
    let text = files.and_then(|files| files.parts.iter().find(|(name, _)| *name == part.name));
    let (name, text) =
        text.ok_or_else(|| Error::internal(format!("{} has no file for its part {}", study.name, part.name)))?;
    parse(text, &format!("experiments/reproduce/{}/{name}.toml", study.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use iotrail_answer::compare::Metric;
    use iotrail_answer::reproduce::study::{Place, Shape};
    use iotrail_schema::run_record::value_text;

    use super::*;
    use crate::file::{Axis, to_json};

    /// Number of the plan's cells with these values.
    fn cells(axes: &[Axis], at: &Place) -> usize {
        assert!(at.keys().all(|name| axes.iter().any(|a| a.name == *name)), "{at:?}");
        let of_axis = |axis: &Axis| match at.get(&axis.name) {
            Some(value) => axis.points.iter().filter(|p| value_text(&to_json(&p.value)) == value_text(value)).count(),
            None => axis.points.len(),
        };
        axes.iter().map(of_axis).product()
    }

    #[test]
    fn each_claim_of_a_study_refers_to_exactly_one_planned_cell() {
        for name in names() {
            let study = find(name).unwrap();
            assert_eq!(study.name, name);
            let parts: BTreeSet<&str> = study.part.iter().map(|p| p.name.as_str()).collect();
            let experiments: Vec<Experiment> = study.part.iter().map(|p| experiment(&study, p).unwrap()).collect();
            for (part, e) in study.part.iter().zip(&experiments) {
                assert_eq!(e.name, format!("{name}-{}", part.name));
                assert!(e.quick.is_some(), "{}", e.name);
            }
            for claim in &study.claim {
                let says = &claim.says;
                let Some(part) = &claim.part else {
                    assert!(claim.untestable.is_some() && claim.published.is_some(), "{says}");
                    continue;
                };
                assert!(parts.contains(part.as_str()), "{says}");
                let e = experiments.iter().find(|e| e.name == format!("{name}-{part}")).unwrap();
                let (metric, places, has_figure) = match claim.shape.as_ref().expect("a shape") {
                    Shape::Ratio(r) => {
                        (&r.metric, vec![r.a.clone(), r.b.clone()], r.published.is_some() || r.band.is_some())
                    }
                    Shape::Count(c) => (&c.figure, vec![c.at.clone()], c.published.is_some() || c.band.is_some()),
                    Shape::Order(o) => (&o.metric, o.cells.clone(), o.published.len() == o.cells.len()),
                    Shape::Knee(k) => {
                        let at = |value: &serde_json::Value| {
                            let mut at = k.at.clone();
                            at.insert(k.along.clone(), value.clone());
                            at
                        };
                        (&k.metric, k.values.iter().map(at).collect(), k.published.len() == k.values.len())
                    }
                };
                assert!(metric.parse::<Metric>().is_ok(), "{says}: {metric}");
                assert!(has_figure, "{says}: nothing to agree with");
                for at in &places {
                    assert_eq!(cells(&e.full.axes, at), 1, "{says}: {at:?}");
                }
            }
        }
    }

    #[test]
    fn an_unknown_study_is_rejected_with_a_list_of_the_available_ones() {
        let e = find("vldb").unwrap_err().to_string();
        assert!(e.contains("did you mean vldb26?") && e.contains("thesis, systor22"), "{e}");
    }
}
