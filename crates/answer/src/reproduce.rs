//! Compares a published study with iotrail's runs: whether each figure has the same shape here.
//!
//! Machines differ, so figures are compared as ratios, counts per I/O, knees or orders. A figure agrees if the measured
//! 95 % interval is within a band around it. A figure that no measurement can test here states the reason, and never
//! counts as agreement.

mod band;
mod judge;
mod said;
pub mod study;

use hdrhistogram::Histogram;

use self::judge::{Observation, judged};
use self::study::{Claim, Study};
use iotrail_schema::reproduction::{Reproduction, SCHEMA, StudyLine, StudyPart, Tally};
use iotrail_schema::run_record::RunRecord;

pub use self::said::{answer, shown};

/// Returns the latencies of one repeat of a cell of a run.
pub type Histograms<'a> = &'a dyn Fn(i64, u32, u32) -> Option<Histogram<u64>>;

/// A part's run, or the reason why there is none.
pub type Ran = Result<RunRecord, String>;

/// `ran`: the requested parts, with their experiments' names; claims of other parts are omitted. `refused`: why this
/// machine cannot test a claim.
pub fn reproduction(
    study: &Study,
    quick: bool,
    ran: &[(String, String, Ran)],
    refused: &dyn Fn(&Claim) -> Option<String>,
    histograms: Histograms<'_>,
) -> Reproduction {
    let all = ran.len() == study.part.len();
    let is_asked = |c: &&Claim| match &c.part {
        Some(part) => ran.iter().any(|(name, _, _)| name == part),
        None => all,
    };
    let lines: Vec<StudyLine> =
        study.claim.iter().filter(is_asked).map(|claim| line(claim, ran, refused, histograms)).collect();
    let part = |(name, experiment, ran): &(String, String, Ran)| StudyPart {
        part: name.clone(),
        title: study.part.iter().find(|p| p.name == *name).map_or_else(String::new, |p| p.title.clone()),
        experiment: experiment.clone(),
        run: ran.as_ref().ok().map(|run| run.run),
        reason: ran.as_ref().err().cloned(),
    };
    Reproduction {
        schema: SCHEMA.into(),
        study: study.name.clone(),
        title: study.title.clone(),
        citation: study.citation.clone(),
        repository: study.repository.clone(),
        commit: study.commit.clone(),
        machine: study.machine.clone(),
        quick,
        parts: ran.iter().map(part).collect(),
        tally: Tally::of(&lines),
        lines,
    }
}

fn line(
    claim: &Claim,
    ran: &[(String, String, Ran)],
    refused: &dyn Fn(&Claim) -> Option<String>,
    histograms: Histograms<'_>,
) -> StudyLine {
    let seen = match (&claim.part, &claim.untestable) {
        (_, Some(why)) => Observation::untestable(why),
        (None, None) => Observation::untestable("no part of the study's file tests it"),
        (Some(part), None) => match (refused(claim), ran.iter().find(|(name, _, _)| name == part)) {
            (Some(why), _) => Observation::untestable(why),
            (None, None) => Observation::untestable("its part was not requested"),
            (None, Some((_, _, Err(why)))) => Observation::untestable(why),
            (None, Some((_, _, Ok(run)))) => match &claim.shape {
                Some(shape) => judged(shape, run, &|cell, repeat| histograms(run.run, cell, repeat)),
                None => Observation::untestable("its file states no shape"),
            },
        },
    };
    let published = claim.shape.as_ref().map(said::published);
    let (shape, words, value, band) = match published {
        Some(p) => (Some(p.shape.to_owned()), p.words, p.value, p.band),
        None => (None, claim.published.clone().unwrap_or_default(), None, None),
    };
    StudyLine {
        says: claim.says.clone(),
        part: claim.part.clone(),
        source: claim.source.clone(),
        shape,
        published: claim.published.clone().unwrap_or(words),
        published_value: value,
        band,
        measured: seen.words,
        measured_value: seen.value,
        ci95: seen.ci95,
        outcome: seen.outcome,
        reason: seen.reason,
        depends: claim.depends.clone(),
    }
}

#[cfg(test)]
mod tests;
