//! The row from which completions are delayed.

use super::part::Part;
use crate::compare::Metric;
use crate::verdicts::compared;
use iotrail_schema::comparison::Verdict;

pub fn thresholds(part: &Part<'_>) -> Vec<String> {
    part.run.arms.iter().skip(1).filter_map(|other| threshold(part, other)).collect()
}

/// The row from which on the mean latency is always higher.
fn threshold(part: &Part<'_>, other: &str) -> Option<String> {
    let (rows, base) = (part.rows?, part.run.arms.first()?);
    let verdicts = part.group.rows.iter().filter_map(|r| {
        let verdict = compared(part.run, Metric::LatencyMean, other, r)?.verdict;
        (verdict != Verdict::NotComparable).then_some((&r.value, verdict))
    });
    let told: Vec<(&String, Verdict)> = verdicts.collect();
    let first_worse = told.iter().rposition(|(_, v)| *v != Verdict::Slower).map_or(0, |i| i + 1);
    if told.iter().all(|(_, v)| *v != Verdict::Slower) {
        return (!told.is_empty())
            .then(|| format!("{other} is not shown to be slower than {base} in mean latency at any compared {rows}."));
    }
    let (from, _) = told.get(first_worse)?;
    Some(match first_worse.checked_sub(1).map(|i| told[i]) {
        None => format!("{other} is slower than {base} at every compared {rows}, from {from}."),
        Some((before, Verdict::Inconclusive)) => format!(
            "{other} is slower than {base} at {rows} {from} and above; at {rows} {before} the measurements are inconclusive."
        ),
        Some((before, verdict)) => format!(
            "{other} is slower than {base} at {rows} {from} and above; at {rows} {before} it is {}, so the threshold is between the two.",
            verdict.words()
        ),
    })
}
