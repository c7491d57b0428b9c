//! Whether the comparisons confirm the experiment's expectations.

use serde::Serialize;
use serde_json::Value;

use iotrail_base::words::three_digits;
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::run_record::{Expectation, Expected, RunRecord, value_text};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The comparison confirms it.
    Met,
    /// The comparison contradicts it.
    NotMet,
    /// No comparison could decide: not measured, not comparable, too few pairs.
    Open,
}

/// One expectation, at one combination of the other parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// The outcome.
    pub outcome: Outcome,
    /// The expectation, and what was measured. `iops of coop against default at depth 16: expected faster; it is faster (×1.2,
    /// 1.1–1.3)`.
    pub text: String,
}

/// Judges all expectations of a run, each at all its combinations.
pub fn judge(run: &RunRecord) -> Vec<Judged> {
    run.expectations.iter().flat_map(|e| one(run, e)).collect()
}

fn one(run: &RunRecord, expected: &Expectation) -> Vec<Judged> {
    let here = |c: &&Comparison| {
        let at = |(name, value): (&String, &Value)| c.at.get(name) == Some(value);
        c.metric == expected.metric && c.b == expected.arm && expected.at.iter().all(at)
    };
    let what = |at: &serde_json::Map<String, Value>| {
        let base = run.arms.first().map_or("", String::as_str);
        let at: Vec<String> = at.iter().map(|(name, value)| format!("{name} {}", value_text(value))).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        format!("{} of {} against {base}{at}: expected {}", expected.metric, expected.arm, wanted(expected))
    };
    let judged: Vec<Judged> = run
        .comparisons
        .iter()
        .filter(here)
        .map(|c| {
            let outcome = outcome(expected, c);
            let ratio = match (c.ratio, c.ci95) {
                (Some(r), Some([lo, hi])) => {
                    format!(" (×{}, {}–{})", three_digits(r), three_digits(lo), three_digits(hi))
                }
                _ => String::new(),
            };
            let why = if outcome == Outcome::Open && !c.reasons.is_empty() {
                format!(": {}", c.reasons.join("; "))
            } else {
                String::new()
            };
            Judged { outcome, text: format!("{}; it is {}{ratio}{why}", what(&c.at), c.verdict.words()) }
        })
        .collect();
    if judged.is_empty() {
        return vec![Judged { outcome: Outcome::Open, text: format!("{}; it was not measured", what(&expected.at)) }];
    }
    judged
}

fn wanted(e: &Expectation) -> String {
    let is = match e.is {
        Expected::Faster => "faster",
        Expected::Slower => "slower",
        Expected::NoDifference => "no difference (equivalent)",
        Expected::NotSlower => "not slower",
        Expected::NotFaster => "not faster",
    };
    let bound = |word: &str, x: Option<f64>| x.map(|x| format!(", at {word} ×{}", three_digits(x))).unwrap_or_default();
    format!("{is}{}{}", bound("least", e.at_least), bound("most", e.at_most))
}

/// A bound is met if the whole interval is within it, and not met if the whole interval is outside.
fn outcome(e: &Expectation, c: &Comparison) -> Outcome {
    if matches!(c.verdict, Verdict::NotComparable | Verdict::Inconclusive) {
        return Outcome::Open;
    }
    let is = match e.is {
        Expected::Faster => c.verdict == Verdict::Faster,
        Expected::Slower => c.verdict == Verdict::Slower,
        Expected::NoDifference => c.verdict == Verdict::Equivalent,
        Expected::NotSlower => c.verdict != Verdict::Slower,
        Expected::NotFaster => c.verdict != Verdict::Faster,
    };
    if !is {
        return Outcome::NotMet;
    }
    if e.at_least.is_none() && e.at_most.is_none() {
        return Outcome::Met;
    }
    // A verdict on counts that are partly 0 has no interval.
    let Some([lo, hi]) = c.ci95 else { return Outcome::Open };
    if e.at_least.is_some_and(|x| hi < x) || e.at_most.is_some_and(|x| lo > x) {
        return Outcome::NotMet;
    }
    if e.at_least.is_some_and(|x| lo < x) || e.at_most.is_some_and(|x| hi > x) {
        return Outcome::Open;
    }
    Outcome::Met
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::comparison::SCHEMA;

    fn comparison(verdict: Verdict, ci95: Option<[f64; 2]>) -> Comparison {
        Comparison {
            schema: SCHEMA.into(),
            metric: "iops".into(),
            at: Default::default(),
            a: "default".into(),
            b: "coop".into(),
            pairs: 8,
            paired: true,
            disturbed: Default::default(),
            ratio: ci95.map(|[lo, hi]| (lo + hi) / 2.0),
            ci95,
            noise_floor: None,
            smallest_visible: None,
            p: None,
            p_adjusted: None,
            together: 1,
            equivalent_within: 0.05,
            to_show_10_percent: None,
            verdict,
            reasons: vec![],
        }
    }

    fn expected(is: Expected, at_least: Option<f64>) -> Expectation {
        let (metric, arm) = ("iops".into(), "coop".into());
        Expectation { metric, arm, at: Default::default(), is, at_least, at_most: None }
    }

    #[test]
    fn the_outcome_depends_on_verdict_and_interval() {
        let of = |is, at_least, verdict, ci| outcome(&expected(is, at_least), &comparison(verdict, ci));
        let faster = Some([1.1, 1.3]);
        assert_eq!(of(Expected::Faster, None, Verdict::Faster, faster), Outcome::Met);
        assert_eq!(of(Expected::Slower, None, Verdict::Faster, faster), Outcome::NotMet);
        assert_eq!(of(Expected::NotSlower, None, Verdict::Equivalent, Some([0.98, 1.02])), Outcome::Met);
        assert_eq!(of(Expected::NotSlower, None, Verdict::Inconclusive, Some([0.9, 1.1])), Outcome::Open);
        assert_eq!(of(Expected::NoDifference, None, Verdict::Inconclusive, Some([0.9, 1.1])), Outcome::Open);
        assert_eq!(of(Expected::NoDifference, None, Verdict::Equivalent, Some([0.98, 1.02])), Outcome::Met);
        assert_eq!(of(Expected::NoDifference, None, Verdict::Faster, faster), Outcome::NotMet);
        assert_eq!(of(Expected::Faster, Some(1.05), Verdict::Faster, faster), Outcome::Met);
        assert_eq!(of(Expected::Faster, Some(1.2), Verdict::Faster, faster), Outcome::Open, "it may be either");
        assert_eq!(of(Expected::Faster, Some(1.4), Verdict::Faster, faster), Outcome::NotMet);
        assert_eq!(of(Expected::Faster, None, Verdict::NotComparable, faster), Outcome::Open);
        assert_eq!(of(Expected::Faster, None, Verdict::NotComparable, None), Outcome::Open);
        assert_eq!(of(Expected::Faster, None, Verdict::Faster, None), Outcome::Met, "by order, without an interval");
        assert_eq!(of(Expected::Faster, Some(1.1), Verdict::Faster, None), Outcome::Open);
    }
}
