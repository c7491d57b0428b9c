//! The run's differences as a forest plot: one line per comparison of the answer's metric, the largest difference
//! first. If there are many, comparisons without a difference share a line.

use serde_json::Value;

use super::effect::Effect;
use super::table::{self, Mark};
use super::{ByArm, most};
use crate::compare::{Metric, compared_on, why_open};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::run_record::{RunRecord, value_text};

/// Maximum lines, so that the plot fits on the first screen.
const LINES: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    pub metric: Metric,
    /// Base of the comparison, and the arm (`None` if several).
    pub a: String,
    pub b: Option<String>,
    pub lines: Vec<Line>,
    /// Number of omitted comparisons, which have smaller differences.
    pub more: usize,
    pub legend: Vec<String>,
    /// The comparison with the largest difference, and its sides' common parameters.
    pub largest: Option<(Comparison, String)>,
}

/// One comparison, or several with the same verdict and no difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    pub mark: Mark,
    /// One per comparison, if known and positive.
    pub ratios: Vec<f64>,
    /// 95 % interval; for several comparisons, the hull of their intervals.
    pub interval: Option<[f64; 2]>,
    pub comparisons: usize,
    /// Why the result is inconclusive although its interval excludes 1.
    pub open: Option<String>,
}

pub fn of(run: &RunRecord, metric: Metric, all: &[ByArm<'_>]) -> Forest {
    let situations = all.iter().map(|(_, e)| e.len()).max().unwrap_or(0);
    let name = |arm: &str, e: &Effect<'_>| {
        let at = table::name(&table::others(run, e, &[]));
        match (all.len(), situations) {
            (1, 1) | (_, 1) => arm.to_owned(),
            (1, _) => at,
            _ => format!("{arm} · {at}"),
        }
    };
    let named = all.iter().flat_map(|(arm, effects)| effects.iter().map(|e| (name(arm, e), *e))).collect();
    let (_, effects) = most(all);
    let shown = largest(effects).or_else(|| all.iter().filter_map(|(_, e)| largest(e)).next());
    let at = |e: &Effect<'_>| table::name(&table::others(run, e, &[]));
    forest(metric, named, shown.map(|e| (e.c.clone(), at(e))))
}

/// For comparisons without a run, on the first metric with a difference: the second of two runs compared with the
/// first.
pub fn of_two(run: &RunRecord, list: &[Comparison]) -> Option<Forest> {
    let of = |metric: &Metric| -> Vec<Effect<'_>> {
        list.iter().filter(|c| c.metric == metric.name()).map(Effect::alone).collect()
    };
    let all: Vec<(Metric, Vec<Effect<'_>>)> =
        compared_on(list).iter().map(|m| (*m, of(m))).filter(|(_, e)| !e.is_empty()).collect();
    let (metric, effects) = all.iter().find(|(_, e)| e.iter().any(Effect::differs)).or(all.first())?;
    let name = |e: &Effect<'_>| {
        let varies = |(axis, _): &(&String, &Value)| run.values(axis).len() > 1;
        let words = e.c.at.iter().filter(varies).map(|(axis, value)| format!("{axis} {}", value_text(value)));
        let words = words.collect::<Vec<_>>().join(" · ");
        if words.is_empty() { e.c.b.clone() } else { words }
    };
    let named = effects.iter().map(|e| (name(e), *e)).collect();
    Some(forest(*metric, named, largest(effects).map(|e| (e.c.clone(), name(e)))))
}

/// The effect with the largest difference; without differences, the one whose ratio is farthest from 1.
fn largest<'a, 'r>(effects: &'a [Effect<'r>]) -> Option<&'a Effect<'r>> {
    let far = |e: &Effect<'_>| e.c.ratio.filter(|r| *r > 0.0).map_or(0.0, |r| r.ln().abs());
    let rank = |e: &Effect<'_>| (e.size(), far(e));
    effects.iter().reduce(|a, b| if rank(b) > rank(a) { b } else { a })
}

fn forest(metric: Metric, mut named: Vec<(String, Effect<'_>)>, largest: Option<(Comparison, String)>) -> Forest {
    let effects: Vec<Effect<'_>> = named.iter().map(|(_, e)| *e).collect();
    let first = effects.first().map(|e| e.c);
    let b = first.map(|c| c.b.clone()).filter(|b| effects.iter().all(|e| e.c.b == *b));
    let a = first.map_or_else(String::new, |c| c.a.clone());
    named.sort_by(|a, b| b.1.size().total_cmp(&a.1.size()));
    let many = named.len() > LINES;
    let (differing, rest): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, e)| e.differs());
    let mut lines: Vec<Line> = differing.iter().map(|(name, e)| line(metric, name.clone(), &[*e])).collect();
    let falls = lines.first().is_some_and(|l| ratio(l) > 1.0);
    let mut last: Vec<Line> = Vec::new();
    for verdict in [Verdict::Equivalent, Verdict::Inconclusive, Verdict::NotComparable] {
        let of: Vec<&(String, Effect<'_>)> = rest.iter().filter(|(_, e)| e.c.verdict == verdict).collect();
        if many && of.len() > 1 {
            let effects: Vec<Effect<'_>> = of.iter().map(|(_, e)| *e).collect();
            last.push(line(metric, format!("{} {}", of.len(), verdict.words()), &effects));
        } else {
            let mut each: Vec<Line> = of.iter().map(|(name, e)| line(metric, name.clone(), &[*e])).collect();
            in_order(&mut each, falls);
            last.extend(each);
        }
    }
    let room = LINES.saturating_sub(last.len()).max(1);
    // Showing one more line takes no more space than reporting its omission.
    let more = if lines.len() > room + 1 { lines.len() - room } else { 0 };
    lines.truncate(lines.len() - more);
    in_order(&mut lines, falls);
    lines.extend(last);
    let legend = table::legend(lines.iter().map(|l| &l.mark), &effects);
    Forest { metric, a, b, lines, more, legend, largest }
}

fn ratio(line: &Line) -> f64 {
    line.ratios.first().copied().unwrap_or(0.0)
}

/// Sorted from the strongest effect's end to the other, so that the marks form a slope.
fn in_order(lines: &mut [Line], falls: bool) {
    lines.sort_by(|a, b| if falls { ratio(b).total_cmp(&ratio(a)) } else { ratio(a).total_cmp(&ratio(b)) });
}

fn line(metric: Metric, name: String, effects: &[Effect<'_>]) -> Line {
    let intervals = effects.iter().filter_map(|e| e.c.ci95);
    let mut mark = Mark::of(metric, &effects[0]);
    mark.disturbed = effects.iter().any(|e| e.c.disturbed.counted > 0);
    if effects.len() > 1 {
        (mark.levels, mark.open) = (None, None);
    }
    Line {
        name,
        mark,
        ratios: effects.iter().filter_map(|e| e.c.ratio).filter(|r| *r > 0.0).collect(),
        interval: intervals.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]),
        comparisons: effects.len(),
        open: effects.iter().find_map(|e| why_open(e.c)).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::comparison::{Disturbed, EQUIVALENT_WITHIN, SCHEMA};
    use iotrail_schema::run_record::CellRecord;
    use serde_json::json;

    fn comparison(depth: u32, ratio: f64, verdict: Verdict) -> Comparison {
        let at = json!({"depth": depth});
        Comparison {
            schema: SCHEMA.into(),
            metric: "iops".into(),
            at: at.as_object().unwrap().clone(),
            a: "run 1".into(),
            b: "run 2".into(),
            pairs: 5,
            paired: false,
            disturbed: Disturbed::default(),
            ratio: Some(ratio),
            ci95: Some([ratio * 0.9, ratio * 1.1]),
            noise_floor: None,
            smallest_visible: Some(0.2),
            p: None,
            p_adjusted: None,
            together: 1,
            equivalent_within: EQUIVALENT_WITHIN,
            to_show_10_percent: None,
            verdict,
            reasons: Vec::new(),
        }
    }

    fn run(depths: u32) -> RunRecord {
        let mut run = iotrail_testing::run::two_by_two();
        let cell = |depth: u32| CellRecord {
            cell: depth,
            params: comparison(depth, 1.0, Verdict::Equivalent).at,
            untestable: None,
            measurements: Vec::new().into(),
        };
        run.cells = (1..=depths).map(cell).collect();
        run
    }

    #[test]
    fn differing_rows_are_sorted_and_many_equal_rows_share_a_line() {
        use Verdict::*;
        let verdicts = [(0.5, Slower), (0.1, Slower), (1.5, Faster)];
        let few: Vec<Comparison> =
            verdicts.iter().enumerate().map(|(i, (r, v))| comparison(i as u32 + 1, *r, *v)).collect();
        let forest = of_two(&run(3), &few).unwrap();
        let names = |f: &Forest| f.lines.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&forest), ["depth 2", "depth 1", "depth 3"]);
        assert_eq!(forest.largest.as_ref().unwrap().1, "depth 2");
        assert_eq!(forest.lines[0].mark.text(), "▼ ÷10");
        let mut many = few;
        many.extend((4..=9).map(|d| comparison(d, 1.0 + f64::from(d) / 100.0, Inconclusive)));
        let forest = of_two(&run(9), &many).unwrap();
        assert_eq!(names(&forest), ["depth 2", "depth 1", "depth 3", "6 inconclusive"]);
        let last = &forest.lines[3];
        assert_eq!((last.comparisons, last.ratios.len()), (6, 6));
        assert_eq!(last.interval, Some([1.04 * 0.9, 1.09 * 1.1]));
        let many: Vec<Comparison> = (1..=20).map(|d| comparison(d, 1.0 / f64::from(d + 1), Slower)).collect();
        let forest = of_two(&run(20), &many).unwrap();
        assert_eq!((forest.lines.len(), forest.more), (8, 12));
        assert_eq!(forest.lines[0].name, "depth 20");
    }
}
