//! The answer of a run in a few lines: one sentence with a number, its conditions, the reason, the remedy, and one
//! table. Works for every experiment, using only the run's comparisons; the conclusions contain the rest.

mod across;
pub mod advice;
mod change;
mod effect;
pub mod forest;
mod front;
pub mod measured;
mod notes;
mod program;
mod searched;
mod served;
mod table;
mod when;
mod why;

pub use self::change::of_figure;
pub use self::forest::Forest;
pub use self::front::{Figure, Front, Member};
pub use self::table::{Mark, Situation, Situations};
pub use self::why::by;

use self::change::{called, levels};
use self::effect::{Effect, of_arm};
use crate::compare::{Metric, metrics};
use crate::spread::Spread;
use crate::table::PROGRAM;
use crate::unit::Unit;
use iotrail_base::words::plural;
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::run_record::{CONTROL, RunRecord};

/// The answer of a run, which comes first.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Head {
    /// The answer in one sentence, with its number.
    pub answer: String,
    /// The situations for which it is true; null: all, or none.
    pub when: Option<String>,
    /// Counts of the probes that explain it; null: none.
    pub why: Option<String>,
    /// The recommended change; null: none.
    #[serde(rename = "do")]
    pub advice: Option<String>,
    /// Results of the other metrics.
    pub also: Vec<String>,
    #[serde(skip)]
    pub table: Option<Situations>,
    /// The same as a figure.
    #[serde(skip)]
    pub forest: Option<Forest>,
    /// For a search by two objectives: the confirmed front; otherwise omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front: Option<Front>,
    /// Limits of the answer.
    pub notes: Vec<String>,
    /// The machine; null: nothing was measured.
    pub on: Option<String>,
}

/// An arm with its comparison to the first arm in each situation.
type ByArm<'r> = (&'r str, Vec<Effect<'r>>);

/// Maximum number of lines for other metrics.
const ALSO: usize = 2;
/// Maximum number of arms without a difference whose observed values are listed.
const SEEN: usize = 3;

impl Head {
    /// `is_built_in`: the run's experiment is built into iotrail, so `run` knows its name.
    pub fn of_run(run: &RunRecord, is_built_in: bool) -> Head {
        let mut head = Head::with_all_notes(run, is_built_in);
        head.answer += &program::failing(run).unwrap_or_default();
        head.notes.retain(|note| !head.answer.contains(note.as_str()));
        head
    }

    fn with_all_notes(run: &RunRecord, is_built_in: bool) -> Head {
        if let Some(head) = advice::of_run(run) {
            return head;
        }
        let metrics = metrics(run);
        let arms = |metric: Metric| -> Vec<ByArm<'_>> {
            let of = |arm: &'_ String| of_arm(run, metric, arm);
            run.arms.iter().skip(1).map(|arm| (arm.as_str(), of(arm))).filter(|(_, e)| !e.is_empty()).collect()
        };
        let notes: Vec<String> = program::notes(run).into_iter().chain(notes::of_run(run)).collect();
        let on = notes::of_one_host(run);
        let compared: Vec<(Metric, Vec<ByArm<'_>>)> =
            metrics.iter().map(|m| (*m, arms(*m))).filter(|(_, all)| !all.is_empty()).collect();
        let differs = |all: &[ByArm<'_>]| all.iter().flat_map(|(_, e)| e).any(Effect::differs);
        // A metric named by the user always comes first. The run's own metric comes first unless only another metric
        // differs.
        let named = compared.first().filter(|(metric, _)| matches!(metric, Metric::Own(_)));
        let differing = compared.iter().find(|(_, all)| differs(all));
        let Some((metric, all)) = named.or(differing).or(compared.first()) else {
            return Head {
                answer: level(run),
                when: None,
                why: None,
                advice: None,
                also: Vec::new(),
                table: None,
                forest: None,
                front: None,
                notes,
                on,
            };
        };
        let unit = Unit::of_run(run);
        let base = run.arms.first().map_or("", String::as_str);
        let (arm, effects) = most(all);
        let shown = effect::strongest(effects);
        let about = compared.first().filter(|(first, _)| first != metric);
        let first = about.map(|(first, all)| pooled(*first, unit, all));
        let others = compared.iter().filter(|(m, _)| m != metric).filter_map(|(m, all)| also(run, *m, unit, all));
        let open = |advice: &why::Advice| {
            about.map(|(first, all)| reservation((*metric, *first), unit, all, advice)).unwrap_or_default()
        };
        let answer = answer(*metric, unit, base, all)
            + notes::all_disturbed(run.comparisons.iter().filter(|c| c.metric == metric.name())).unwrap_or_default();
        let more = || notes::more_repeats(run, is_built_in, all.iter().flat_map(|(_, e)| e));
        if run.table == PROGRAM {
            let gains = |(_, all): &&(Metric, Vec<ByArm<'_>>)| {
                all.iter().flat_map(|(_, e)| e).any(|e| e.c.verdict == Verdict::Faster)
            };
            // If the named metric does not differ, a gain in another metric still deserves advice.
            let other = compared.iter().filter(|_| named.is_some() && !differs(all)).find(gains);
            let (arm, by) = other.map_or((arm, all), |(_, by)| (most(by).0, by));
            let advice = why::advice(base, arm, by, None, more);
            let open =
                other.map_or_else(|| open(&advice), |(other, _)| reservation((*other, *metric), unit, all, &advice));
            let advice = (advice, open);
            let head = of_program(run, (base, arm), answer, &compared, advice);
            // Otherwise the advice includes their cost.
            let beside = others.filter(|_| named.is_some() && !differs(all));
            let also = first.iter().cloned().chain(beside).chain(head.also).take(ALSO).collect();
            return Head { forest: Some(forest::of(run, *metric, all)), also, notes, on, ..head };
        }
        let (why, remedy) = why::of(run, base, arm, &shown);
        Head {
            answer,
            when: when::of(run, effects, &shown),
            advice: Some(if run.is_emulated() {
                "nothing yet: counts do not decide which is faster; measure on real hardware".into()
            } else {
                let advice = why::advice(base, arm, all, remedy, more);
                let open = open(&advice);
                advice.text + &open
            }),
            why,
            also: crate::conclude::of_a_commit(run)
                .into_iter()
                .chain(first.iter().cloned())
                .chain(others)
                .take(ALSO)
                .collect(),
            table: table::of(run, *metric, all),
            forest: Some(forest::of(run, *metric, all)),
            front: None,
            notes,
            on,
        }
    }
}

/// Appended to advice that is based on `metric`. `about`: the run's first metric, whose effects may be unknown.
fn reservation((metric, first): (Metric, Metric), unit: Unit, about: &[ByArm<'_>], advice: &why::Advice) -> String {
    let mut effects = about.iter().flat_map(|(_, e)| e);
    let is_known = effects.all(|e| e.c.verdict == Verdict::Equivalent);
    let rest = if is_known { String::new() } else { format!("; the effect on {} is unknown", called(first, unit)) };
    let matters = advice.changes.then(|| format!(", if {} matters", called(metric, unit)));
    matters.unwrap_or_default() + &rest
}

/// For a program: all its metrics, and the counts of its traced runs. `open`: metrics that the advice does not cover.
fn of_program(
    run: &RunRecord,
    (base, arm): (&str, &str),
    answer: String,
    compared: &[(Metric, Vec<ByArm<'_>>)],
    (advice, open): (why::Advice, String),
) -> Head {
    let measured = |name: &str| run.tried.iter().any(|t| t.name == name && t.is_measured());
    let of_others = run.arms.iter().skip(1).filter(|other| *other != arm && measured(other)).filter_map(|other| {
        let counted = program::why(run, base, other)?;
        counted.starts_with(other.as_str()).then_some(counted)
    });
    let price = program::price(run, arm, compared).filter(|_| advice.changes);
    let to_write = program::to_write(run, arm).filter(|_| advice.changes).map(|text| format!(": {text}"));
    Head {
        answer,
        when: None,
        why: program::why(run, base, arm),
        advice: Some(advice.text + &to_write.unwrap_or_default() + &open + &price.unwrap_or_default()),
        also: of_others.take(ALSO).collect(),
        table: program::table(compared),
        forest: None,
        front: None,
        notes: Vec::new(),
        on: None,
    }
}

/// The answer for comparisons outside a run: by metric, those with a difference first; and its limits.
pub fn of_comparisons(list: &[Comparison], unit: Unit) -> (String, Vec<String>) {
    let of = |metric: &Metric| -> Vec<Effect<'_>> {
        list.iter().filter(|c| c.metric == metric.name()).map(Effect::alone).collect()
    };
    let mut metrics: Vec<Metric> = list.iter().filter_map(|c| c.metric.parse().ok()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let all = metrics.iter().map(|m| (*m, of(m))).filter(|(_, e)| !e.is_empty());
    let (differing, rest): (Vec<_>, Vec<_>) = all.partition(|(_, e)| e.iter().any(Effect::differs));
    let mut said = differing.iter().chain(&rest).map(|(m, e)| outcome(*m, unit, e));
    let sides = list.first().map(|c| format!("{} against {}", c.b, c.a)).unwrap_or_default();
    let caveat = notes::all_disturbed(list.iter().filter(|c| c.metric == list[0].metric)).unwrap_or_default();
    let answer = format!("{sides}: {}{caveat}", said.next().unwrap_or_else(|| "nothing was compared".into()));
    (answer, said.collect())
}

/// Pools all arms' comparisons on a metric.
fn pooled(metric: Metric, unit: Unit, all: &[ByArm<'_>]) -> String {
    let effects: Vec<Effect<'_>> = all.iter().flat_map(|(_, e)| e).copied().collect();
    let text = outcome(metric, unit, &effects);
    if all.len() > 1 { text.replace("situation", "comparison") } else { text }
}

/// The cells' values if nothing was compared.
fn level(run: &RunRecord) -> String {
    let Some(metric) = metrics(run).into_iter().next() else { return "nothing was compared".into() };
    let cells = run.cells.iter().filter(|c| c.arm() != CONTROL);
    let all = cells.flat_map(|c| c.measurements.each()).filter_map(|m| metric.of(&m));
    let Some(spread) = Spread::of(all) else { return "nothing was measured".into() };
    let text = |x| change::value(metric, x);
    let measured = run.cells.iter().filter(|c| !c.measurements.is_empty() && c.arm() != CONTROL).count();
    let of = if measured > 1 { format!(" in {}", plural(measured, "cell")) } else { String::new() };
    let why = if run.arms.len() > 1 { "the other arms were not measured" } else { "one arm" };
    format!(
        "{}: {} ({} to {}){of}; {why}, so nothing is compared",
        metric.words(Unit::of_run(run)),
        text(spread.median),
        text(spread.min),
        text(spread.max)
    )
}

/// The arm with the largest gain over the first arm; without a gain, the arm with the largest loss.
fn most<'a, 'r>(all: &'a [ByArm<'r>]) -> (&'a str, &'a [Effect<'r>]) {
    let size = |effects: &[Effect<'_>], verdict| {
        effects.iter().filter(|e| e.c.verdict == verdict).map(Effect::size).fold(0.0, f64::max)
    };
    let rank = |effects: &[Effect<'_>]| (size(effects, Verdict::Faster), size(effects, Verdict::Slower));
    let (arm, effects) =
        all.iter().reduce(|a, b| if rank(&b.1) > rank(&a.1) { b } else { a }).expect("at least one arm");
    (arm, effects)
}

fn answer(metric: Metric, unit: Unit, base: &str, all: &[ByArm<'_>]) -> String {
    if all.len() > 1 && !all.iter().flat_map(|(_, e)| e).any(Effect::differs) {
        let one = |(arm, effects): &ByArm<'_>| match &effects[..] {
            [e] => Some(format!("{arm}{}", change::seen(metric, e))).filter(|text| text.len() > arm.len()),
            _ => None,
        };
        let each: Vec<String> = all.iter().filter_map(one).take(SEEN).collect();
        let each = if each.is_empty() { String::new() } else { format!("; {}", each.join("; ")) };
        return format!("{} against {base}: {}{each}", plural(all.len(), "arm"), pooled(metric, unit, all));
    }
    let (arm, effects) = most(all);
    let mut text = format!("{arm} against {base}: {}", outcome(metric, unit, effects));
    text += &others(metric, arm, all);
    text
}

/// Results of the other arms.
fn others(metric: Metric, arm: &str, all: &[ByArm<'_>]) -> String {
    let others = || all.iter().filter(|(name, _)| *name != arm);
    let n = others().count();
    if n == 0 {
        return String::new();
    }
    let of_speed = metric.is_of_time() && !metric.is_of_cpu() && !matches!(metric, Metric::Own(_));
    let word = |better: bool| match (of_speed, better) {
        (true, true) => "faster",
        (true, false) => "slower",
        (false, true) => "better",
        (false, false) => "worse",
    };
    // The arms with this verdict in at least one of their situations.
    let with = |verdict, better| {
        let those = |(_, e): &ByArm<'_>| (e.iter().filter(|e| e.c.verdict == verdict).count(), e.len());
        let found: Vec<(usize, usize)> = others().map(those).filter(|(those, _)| *those > 0).collect();
        let (least, most) = (found.iter().map(|f| f.0).min()?, found.iter().map(|f| f.0).max()?);
        let every = found.iter().map(|f| f.1).max()?;
        let place = match (least, most) {
            _ if found.iter().all(|(those, all)| those == all) => String::new(),
            (a, b) if a == b => format!(" in {a} of {every}"),
            (a, b) => format!(" in {a}–{b} of {every}"),
        };
        Some(format!("{} {}{place}", found.len(), word(better)))
    };
    let said: Vec<String> = [(Verdict::Faster, true), (Verdict::Slower, false)]
        .into_iter()
        .filter_map(|(v, better)| with(v, better))
        .collect();
    let said = if said.is_empty() { "no difference detected".into() } else { said.join(", ") };
    format!("; of {}: {said}", plural(n, "other arm"))
}

/// `14–59× fewer IOPS in 4 of 16 situations; 3 equivalent within ±5 %, 9 inconclusive`.
fn outcome(metric: Metric, unit: Unit, effects: &[Effect<'_>]) -> String {
    let n = effects.len();
    let of = |verdict: Verdict| effects.iter().filter(|e| e.c.verdict == verdict).collect::<Vec<_>>();
    let (slower, faster) = (of(Verdict::Slower), of(Verdict::Faster));
    let mut differing: Vec<&Vec<&Effect<'_>>> = [&slower, &faster].into_iter().filter(|e| !e.is_empty()).collect();
    let size = |e: &[&Effect<'_>]| e.iter().map(|e| e.size()).fold(0.0, f64::max);
    differing.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let mut parts: Vec<String> = Vec::new();
    for (i, these) in differing.into_iter().enumerate() {
        let change = change::range(metric, unit, these, i == 0);
        let strongest = these.iter().max_by(|a, b| a.size().total_cmp(&b.size()));
        let levels = strongest.map(|e| levels(metric, e, these.len() > 1)).unwrap_or_default();
        parts.push(match (n, i) {
            (1, _) => format!("{change}{levels}"),
            (_, 0) => format!("{change} in {} of {}{levels}", these.len(), plural(n, "situation")),
            _ => format!("{change} in {}", these.len()),
        });
    }
    let same = of(Verdict::Equivalent);
    let mut rest = Vec::new();
    if let Some(one) = same.first() {
        let band = crate::verdicts::factor(one.c.equivalent_within);
        rest.push(match parts.is_empty() && same.len() == n {
            true if n == 1 && change::is_0(one) => format!("{} is 0 in both arms", called(metric, unit)),
            true if n == 1 => format!("{} equivalent within {band}{}", called(metric, unit), change::seen(metric, one)),
            true => format!("{} equivalent within {band}{}", called(metric, unit), in_all(n)),
            false => format!("{} equivalent within {band}", same.len()),
        });
    }
    let unsure = of(Verdict::Inconclusive);
    if !unsure.is_empty() {
        rest.push(match parts.is_empty() && unsure.len() == n {
            true => {
                let seen = if n == 1 { change::seen(metric, unsure[0]) } else { String::new() };
                format!("{} inconclusive{}{seen}{}", called(metric, unit), in_all(n), change::visible(&unsure))
            }
            false => format!("{} inconclusive", unsure.len()),
        });
    }
    let apart = of(Verdict::NotComparable);
    if !apart.is_empty() {
        let why = apart[0].c.reasons.first().cloned().unwrap_or_default();
        rest.push(match parts.is_empty() && apart.len() == n {
            true => format!("not comparable{}: {why}", in_all(n)),
            false => format!("{} not comparable", apart.len()),
        });
    }
    if parts.is_empty() && rest.len() > 1 {
        parts.push(format!("no difference in {} detected in {}", called(metric, unit), plural(n, "situation")));
    }
    let rest = rest.join(", ");
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts.join("; ")
}

fn in_all(n: usize) -> String {
    if n == 1 { String::new() } else { format!(" in all {n} situations") }
}

/// Results of another metric, if any: arms with a difference, the largest first.
fn also(run: &RunRecord, metric: Metric, unit: Unit, all: &[ByArm<'_>]) -> Option<String> {
    let mut differing: Vec<_> = all.iter().filter(|(_, e)| e.iter().any(Effect::differs)).collect();
    let size = |e: &[Effect<'_>]| e.iter().map(Effect::size).fold(0.0, f64::max);
    differing.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    let (arm, effects) = differing.first()?;
    let one = |effects: &[Effect<'_>]| {
        let with = |verdict| effects.iter().filter(|e| e.c.verdict == verdict).collect::<Vec<_>>();
        let parts = [with(Verdict::Slower), with(Verdict::Faster)].into_iter().filter(|e| !e.is_empty()).enumerate();
        let part = |(i, e): (usize, Vec<&Effect<'_>>)| {
            let change = change::range(metric, unit, &e, i == 0);
            match &e[..] {
                _ if effects.len() == 1 => change,
                [only] => {
                    format!("{change} in 1 of {} ({})", effects.len(), table::name(&table::others(run, only, &[])))
                }
                several => format!("{change} in {} of {}", several.len(), effects.len()),
            }
        };
        parts.map(part).collect::<Vec<_>>().join(", ")
    };
    let who = if all.len() > 1 { format!("{arm}: ") } else { String::new() };
    let more = match differing.len() {
        1 => String::new(),
        n => format!("; {} too", plural(n - 1, "other arm")),
    };
    Some(format!("{who}{}{more}", one(effects)))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
