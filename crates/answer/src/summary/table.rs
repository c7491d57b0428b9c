//! All situations of a run in one table: situations with equal results share a row, the strongest effect comes first.

use serde_json::Value;

use super::ByArm;
use super::change::{agree, value};
use super::effect::Effect;
use super::when;
use crate::compare::{Metric, why_open};
use crate::group::row_axis;
use crate::spread::over_repeats;
use crate::verdicts::factor as visible_factor;
use iotrail_base::distinct::distinct;
use iotrail_base::grouped::grouped;
use iotrail_base::words::{UNKNOWN, plural, three_digits};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::run_record::{ARM, RunRecord};

/// Maximum number of rows.
const ROWS: usize = 6;
/// Maximum number of columns besides the name.
const COLUMNS: usize = 4;

#[derive(Debug, Clone, PartialEq)]
pub struct Situations {
    /// Column titles, without the first column.
    pub columns: Vec<String>,
    pub rows: Vec<Situation>,
    /// Number of omitted rows.
    pub more: usize,
    /// Range of the minimum detectable effects of inconclusive comparisons, as factors less 1.
    pub visible: Option<[f64; 2]>,
    /// The narrowest band that contains all equivalent comparisons.
    pub band: Option<f64>,
    /// Why a comparison is inconclusive although its interval excludes 1.
    pub open: Option<String>,
}

impl Situations {
    /// Legend of the signs in use.
    pub fn legend(&self) -> Vec<String> {
        let mut legend = signs(self.rows.iter().flat_map(|r| r.marks.iter().flatten()), self.visible, self.band);
        legend.extend(self.open.clone());
        legend
    }
}

/// Legend of these effects' signs.
pub fn legend<'m>(marks: impl Iterator<Item = &'m Mark> + Clone, effects: &[Effect<'_>]) -> Vec<String> {
    let mut legend = signs(marks, visible(effects.iter()), band(effects.iter()));
    legend.extend(open(effects.iter()));
    legend
}

/// The first reason why a comparison is inconclusive although its interval excludes 1, or although it has none.
pub(super) fn open<'e, 'r: 'e>(mut effects: impl Iterator<Item = &'e Effect<'r>>) -> Option<String> {
    let (e, why) = effects.find_map(|e| why_open(e.c).map(|why| (e, why)))?;
    let which = e.c.ci95.map_or("without an interval", |_| "with an interval that excludes 1");
    Some(format!("? {which}: {why}"))
}

/// Range of the minimum detectable effects of inconclusive comparisons, as factors less 1.
pub(super) fn visible<'e, 'r: 'e>(effects: impl Iterator<Item = &'e Effect<'r>>) -> Option<[f64; 2]> {
    let unsure = effects.filter(|e| e.c.verdict == Verdict::Inconclusive).filter_map(|e| e.c.smallest_visible);
    unsure.map(|v| [v, v]).reduce(|[a, b], [v, _]| [a.min(v), b.max(v)])
}

pub(super) fn band<'e, 'r: 'e>(effects: impl Iterator<Item = &'e Effect<'r>>) -> Option<f64> {
    effects.filter(|e| e.c.verdict == Verdict::Equivalent).map(|e| e.c.equivalent_within).reduce(f64::max)
}

fn signs<'m>(
    marks: impl Iterator<Item = &'m Mark> + Clone,
    visible: Option<[f64; 2]>,
    band: Option<f64>,
) -> Vec<String> {
    let has = |verdict| marks.clone().any(|m| m.verdict == verdict);
    let mut legend: Vec<String> = Vec::new();
    legend.extend(has(Verdict::Slower).then(|| "▼ worse".into()));
    legend.extend(has(Verdict::Faster).then(|| "▲ better".into()));
    let band = band.map(|b| format!(" within {}", visible_factor(b))).unwrap_or_default();
    legend.extend(has(Verdict::Equivalent).then(|| format!("≈ equivalent{band}")));
    let range = |[least, most]: [f64; 2]| match (seen(least), seen(most)) {
        (a, b) if a == b => format!(" (smallest detectable ratio: {a})"),
        (a, b) => format!(" (smallest detectable ratio: {a} to {b})"),
    };
    let visible = visible.map(range).unwrap_or_default();
    legend.extend(has(Verdict::Inconclusive).then(|| format!("? inconclusive{visible}")));
    legend.extend(has(Verdict::NotComparable).then(|| "– not comparable".into()));
    legend.extend(marks.clone().any(|m| m.disturbed).then(|| "* disturbed by other work".into()));
    legend
}

/// Formats a factor less 1 as a ratio.
fn seen(difference: f64) -> String {
    if difference < 9.0 { format!("×{}", three_digits(1.0 + difference)) } else { "more than ×10".into() }
}

/// Situations with equal results.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    pub name: String,
    pub marks: Vec<Option<Mark>>,
}

/// One comparison, or several with equal results.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub verdict: Verdict,
    /// The metric's ratio; `None` if several situations share the mark or the ratio is unknown.
    pub ratio: Option<f64>,
    /// The same for an inconclusive comparison, which does not claim it.
    pub open: Option<f64>,
    /// Disturbed repeats were included.
    pub disturbed: bool,
    /// `13.1 k → 253`.
    pub levels: Option<String>,
}

impl Mark {
    pub(super) fn of(metric: Metric, e: &Effect<'_>) -> Self {
        let of = |cell| over_repeats(cell, |m| metric.of(m));
        let both = of(e.a).zip(of(e.b)).filter(|(a, b)| agree(*a, *b, e.c.ratio));
        let levels = both.map(|(a, b)| format!("{} → {}", value(metric, a), value(metric, b)));
        Mark {
            verdict: e.c.verdict,
            ratio: e.c.ratio.filter(|_| e.differs()),
            open: e.c.ratio.filter(|_| e.c.verdict == Verdict::Inconclusive),
            disturbed: e.c.disturbed.counted > 0,
            levels,
        }
    }

    /// `▼ ÷59`, `▲ +12 %`, `≈`, `? +3.0 %`.
    pub fn text(&self) -> String {
        let sign = sign(self.verdict);
        let star = if self.disturbed { "*" } else { "" };
        let differs = matches!(self.verdict, Verdict::Slower | Verdict::Faster);
        match self.ratio.filter(|_| differs).or(self.open) {
            Some(ratio) => format!("{sign} {}{star}", factor(ratio)),
            None => format!("{sign}{star}"),
        }
    }

    fn size(&self) -> f64 {
        match self.ratio {
            Some(r) if r > 0.0 => r.ln().abs(),
            Some(_) => f64::MAX,
            None => 0.0,
        }
    }
}

/// The sign used in tables.
pub(super) fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "▼",
        Verdict::Faster => "▲",
        Verdict::Equivalent => "≈",
        Verdict::Inconclusive => "?",
        Verdict::NotComparable => UNKNOWN,
    }
}

/// `×2.1`, `÷59`, `+12 %`, `−7.0 %`.
pub(super) fn factor(ratio: f64) -> String {
    let digits = |f: f64| if f < 9.95 { format!("{f:.1}") } else { format!("{f:.0}") };
    let percent = |p: f64| if p < 9.95 { format!("{p:.1} %") } else { format!("{p:.0} %") };
    match ratio {
        0.0 => "to 0".into(),
        r if r >= 2.0 => format!("×{}", digits(r)),
        r if r <= 0.5 => format!("÷{}", digits(1.0 / r)),
        r if r >= 1.0 => format!("+{}", percent((r - 1.0) * 100.0)),
        r => format!("−{}", percent((1.0 - r) * 100.0)),
    }
}

/// `None` if there is a single comparison, which the answer already contains.
pub fn of(run: &RunRecord, metric: Metric, all: &[ByArm<'_>]) -> Option<Situations> {
    let effects = || all.iter().flat_map(|(_, e)| e);
    let situations = all.iter().map(|(_, e)| e.len()).max()?;
    if situations == 1 && all.len() == 1 {
        return None;
    }
    let (columns, mut rows) = match all {
        [(_, effects)] => one_arm(run, metric, effects),
        _ if situations == 1 => by_arm_alone(metric, all),
        _ if all.len() <= COLUMNS => by_situation(run, metric, all),
        _ => by_arm(run, metric, all),
    };
    let size = |s: &Situation| s.marks.iter().flatten().map(Mark::size).fold(0.0, f64::max);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let more = rows.len().saturating_sub(ROWS);
    if more > 1 {
        rows.truncate(ROWS);
    }
    Some(Situations {
        columns,
        rows,
        more: if more > 1 { more } else { 0 },
        visible: visible(effects()),
        band: band(effects()),
        open: open(effects()),
    })
}

/// Columns are the values of the parameter with the most values; rows are combinations of the others.
fn one_arm(run: &RunRecord, metric: Metric, effects: &[Effect<'_>]) -> (Vec<String>, Vec<Situation>) {
    let varying = run.axes.iter().filter(|a| *a != ARM && run.values(a).len() > 1).count();
    let short = |a: &&str| run.values(a).iter().all(|v| when::text(a, v).chars().count() < 8);
    let axis = row_axis(run).filter(|a| varying > 1 && (2..=COLUMNS).contains(&run.values(a).len())).filter(short);
    let Some(axis) = axis else { return rows_of(run, metric, &[("", effects)], &[]) };
    let values = run.values(axis);
    let columns: Vec<String> = values.iter().map(|v| column(axis, v)).collect();
    let mut rows: Vec<Row> = Vec::new();
    for e in effects {
        let at: Vec<(String, Value)> = others(run, e, &[axis]);
        let place = rows.iter().position(|r| r.at == at).unwrap_or_else(|| {
            rows.push(Row { at, marks: vec![None; values.len()] });
            rows.len() - 1
        });
        if let Some(i) = e.c.at.get(axis).and_then(|v| values.iter().position(|x| *x == v)) {
            rows[place].marks[i] = Some(Mark::of(metric, e));
        }
    }
    (columns, merged(run, rows))
}

fn column(axis: &str, value: &Value) -> String {
    let text = when::text(axis, value);
    if axis == when::SETTING { text } else { format!("{axis} {text}") }
}

fn by_situation(run: &RunRecord, metric: Metric, all: &[ByArm<'_>]) -> (Vec<String>, Vec<Situation>) {
    let sides: Vec<(&str, &[Effect<'_>])> = all.iter().map(|(name, e)| (*name, &e[..])).collect();
    rows_of(run, metric, &sides, &all.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>())
}

/// One row per situation, one column per side.
fn rows_of(
    run: &RunRecord,
    metric: Metric,
    sides: &[(&str, &[Effect<'_>])],
    columns: &[String],
) -> (Vec<String>, Vec<Situation>) {
    let mut rows: Vec<Row> = Vec::new();
    for (i, (_, effects)) in sides.iter().enumerate() {
        for e in *effects {
            let at = others(run, e, &[]);
            let place = rows.iter().position(|r| r.at == at).unwrap_or_else(|| {
                rows.push(Row { at, marks: vec![None; sides.len()] });
                rows.len() - 1
            });
            rows[place].marks[i] = Some(Mark::of(metric, e));
        }
    }
    (columns.to_vec(), merged(run, rows))
}

/// For a single situation: one row per arm, with its levels.
fn by_arm_alone(metric: Metric, all: &[ByArm<'_>]) -> (Vec<String>, Vec<Situation>) {
    let row = |(name, effects): &ByArm<'_>| Situation {
        name: (*name).to_owned(),
        marks: vec![effects.first().map(|e| Mark::of(metric, e))],
    };
    (vec![String::new()], all.iter().map(row).collect())
}

/// For many arms: one row per arm, one column per situation if there are few, otherwise the largest effect in each
/// direction.
fn by_arm(run: &RunRecord, metric: Metric, all: &[ByArm<'_>]) -> (Vec<String>, Vec<Situation>) {
    let places = distinct(all.iter().flat_map(|(_, e)| e).map(|e| others(run, e, &[])));
    if places.len() <= COLUMNS {
        let row = |(name, effects): &ByArm<'_>| {
            let mark = |at: &Vec<(String, Value)>| {
                effects.iter().find(|e| others(run, e, &[]) == *at).map(|e| Mark::of(metric, e))
            };
            Situation { name: (*name).to_owned(), marks: places.iter().map(mark).collect() }
        };
        return (places.iter().map(|at| name(at)).collect(), all.iter().map(row).collect());
    }
    let row = |(name, effects): &ByArm<'_>| {
        let of = |verdict| {
            let these = effects.iter().filter(|e| e.c.verdict == verdict);
            these.max_by(|a, b| a.size().total_cmp(&b.size())).map(|e| Mark::of(metric, e))
        };
        Situation { name: (*name).to_owned(), marks: vec![of(Verdict::Slower), of(Verdict::Faster)] }
    };
    (vec!["at worst".into(), "at best".into()], all.iter().map(row).collect())
}

#[derive(Clone)]
struct Row {
    /// Varying parameters, except those of the columns.
    at: Vec<(String, Value)>,
    marks: Vec<Option<Mark>>,
}

impl Row {
    /// The common values of rows that are printed as one row.
    fn says(&self) -> Vec<Option<String>> {
        self.marks
            .iter()
            .map(|m| m.as_ref().map(|m| Mark { disturbed: false, open: None, ..m.clone() }.text()))
            .collect()
    }

    fn differs(&self) -> bool {
        self.marks.iter().flatten().any(|m| matches!(m.verdict, Verdict::Slower | Verdict::Faster))
    }
}

/// Parameters that vary in the run, except `but` and the arm.
pub fn others(run: &RunRecord, e: &Effect<'_>, but: &[&str]) -> Vec<(String, Value)> {
    let varies = |a: &&String| *a != ARM && !but.contains(&a.as_str()) && run.values(a).len() > 1;
    let mut axes: Vec<&String> = run.axes.iter().filter(varies).collect();
    axes.sort_by_key(|a| when::rank(a));
    axes.into_iter().filter_map(|a| Some((a.clone(), e.c.at.get(a)?.clone()))).collect()
}

/// Merges rows with equal results. Rows that differ from the first arm are merged only if no other row shares their
/// common parameter values.
fn merged(run: &RunRecord, rows: Vec<Row>) -> Vec<Situation> {
    let kinds = grouped(rows.into_iter().map(|row| (row.says(), row)));
    let many = kinds.len() > 1;
    let mut out = Vec::new();
    for (_, rows) in kinds {
        let apart = rows[0].differs() && rows.len() > 1 && !is_product(run, &rows);
        let parts: Vec<&[Row]> = if apart { rows.chunks(1).collect() } else { vec![&rows] };
        out.extend(parts.into_iter().map(|rows| Situation { name: together(run, rows, many), marks: marks_of(rows) }));
    }
    out
}

fn marks_of(rows: &[Row]) -> Vec<Option<Mark>> {
    let disturbed = |i: usize| rows.iter().any(|r| r.marks[i].as_ref().is_some_and(|m| m.disturbed));
    let mark = |(i, m): (usize, &Option<Mark>)| {
        let levels = |m: &Mark| m.levels.clone().filter(|_| rows.len() == 1);
        let open = |m: &Mark| m.open.filter(|_| rows.len() == 1);
        m.as_ref().map(|m| Mark { disturbed: disturbed(i), open: open(m), levels: levels(m), ..m.clone() })
    };
    rows[0].marks.iter().enumerate().map(mark).collect()
}

/// Parameters with the same value in all rows.
fn shared(rows: &[Row]) -> Vec<&(String, Value)> {
    rows[0].at.iter().filter(|p| rows.iter().all(|r| r.at.contains(p))).collect()
}

/// Whether these rows are all situations with the common values.
fn is_product(run: &RunRecord, rows: &[Row]) -> bool {
    let shared = shared(rows);
    let free = rows[0].at.iter().filter(|p| !shared.contains(p));
    free.map(|(axis, _)| run.values(axis).len()).product::<usize>() == rows.len()
}

/// Describes several situations by their common values: `block · all 4`, `4 others`.
fn together(run: &RunRecord, rows: &[Row], others: bool) -> String {
    if let [one] = rows {
        return name(&one.at);
    }
    let shared = shared(rows);
    let what = if is_product(run, rows) { format!("all {}", rows.len()) } else { plural(rows.len(), "situation") };
    match shared.is_empty() {
        true if others => format!("{} others", rows.len()),
        true => what,
        false => format!("{} · {what}", shared.iter().map(|(a, v)| short(a, v)).collect::<Vec<_>>().join(" · ")),
    }
}

pub fn name(at: &[(String, Value)]) -> String {
    at.iter().map(|(axis, value)| short(axis, value)).collect::<Vec<_>>().join(" · ")
}

/// Omits the parameter's name if the value identifies it.
fn short(axis: &str, value: &Value) -> String {
    let text = when::text(axis, value);
    match (axis, value.as_str()) {
        ("cpus", Some("irq")) => "IRQ CPU".into(),
        ("cpus", Some("non-irq")) => "other CPU".into(),
        ("neighbour", Some("none")) => "alone".into(),
        ("neighbour", Some("busy:1")) => "busy".into(),
        ("wait" | "variant" | when::SETTING | "reaper" | "engine" | "rw", Some(_)) => text,
        _ => format!("{axis} {text}"),
    }
}
