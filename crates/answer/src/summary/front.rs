//! The answer of a search by two objectives: the front members confirmed in fresh blocks, each compared with the
//! current configuration.

use super::change::range;
use super::effect::{Effect, of_arm};
use super::searched::{Searched, breaks, how_found, keeps, of_what, price, search_longer, undecided, unwatched};
use super::table::{factor, sign};
use super::{Head, program, why};
use crate::compare::Metric;
use crate::search::MATTERS;
use crate::unit::Unit;
use iotrail_base::words::{list, percent, plural};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::search_record::{Effort, SearchOutcome};
use iotrail_stats::{holm, search};

/// False-positive rate of the whole table: the probability that any value is marked better or worse if nothing differs.
const ALPHA: f64 = 0.05;

/// The confirmed front of a search by two objectives.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Front {
    /// The metrics as text.
    pub objectives: Vec<String>,
    /// The current configuration, then the members.
    pub members: Vec<Member>,
}

/// A configuration of a front.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Member {
    /// Its arm.
    pub candidate: String,
    /// Effort of adopting it.
    pub effort: Effort,
    /// Each objective compared with the current configuration; empty for that configuration.
    pub figures: Vec<Figure>,
    /// No measured candidate beats it in both objectives, and it is the current one or gains in one.
    pub on_front: bool,
    /// The constraint that it violates.
    #[serde(skip)]
    pub breaks: Option<String>,
}

/// One objective of one member, compared with the current configuration.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Null: not known.
    pub ratio: Option<f64>,
    /// Its 95 % interval; null: not known.
    pub ci95: Option<[f64; 2]>,
    /// `faster` is better, by at least 1 %; all verdicts of the table share their false-positive rate.
    pub verdict: Verdict,
}

impl Member {
    /// Name and adoption effort, or why it should not be adopted.
    pub fn title(&self) -> String {
        if let Some(text) = &self.breaks {
            return format!("{} (breaks {text})", self.candidate);
        }
        let gains = self.figures.iter().any(|f| f.verdict == Verdict::Faster);
        match (self.on_front, self.figures.is_empty()) {
            (true, true) => self.candidate.clone(),
            (true, false) => format!("{} ({})", self.candidate, self.effort.words()),
            (false, is_base) if gains || is_base => format!("{} (beaten)", self.candidate),
            (false, _) => format!("{} (no gain)", self.candidate),
        }
    }
}

impl Figure {
    /// The text with its verdict's sign.
    pub fn marked(&self) -> String {
        format!("{} {}", sign(self.verdict), self.text())
    }

    /// `+51 % (48 to 54)`, `×2.1 (2.0 to 2.2)`.
    pub fn text(&self) -> String {
        let (Some(ratio), Some([lo, hi])) = (self.ratio, self.ci95) else { return "not known".into() };
        let digits = |x: f64| {
            let text = if x.abs() < 9.95 { format!("{:.1}", x.abs()) } else { format!("{:.0}", x.abs()) };
            if x < 0.0 && text != "0.0" { format!("−{text}") } else { text }
        };
        let [lo, hi] = match ratio {
            r if r >= 2.0 => [lo, hi],
            r if r <= 0.5 => [1.0 / hi, 1.0 / lo],
            _ => [lo, hi].map(|x| (x - 1.0) * 100.0),
        };
        format!("{} ({} to {})", factor(ratio), digits(lo), digits(hi))
    }

    /// Improvement as a logarithm: estimate and interval.
    fn good(&self, metric: Metric) -> (f64, Option<(f64, f64)>) {
        let logs = |x: f64| if metric.higher_is_better() { x.ln() } else { -x.ln() };
        let interval = self.ci95.map(|[lo, hi]| (logs(lo), logs(hi))).map(|(a, b)| (a.min(b).exp(), a.max(b).exp()));
        (self.ratio.map_or(0.0, logs), interval)
    }
}

impl Front {
    /// One line per member with values, followed by the legend of the signs: `sqpoll (a flag): IOPS ▲ +13 % (3.4 to
    /// 22), CPU time ▼ ×2.1 (2.0 to 2.1)`.
    pub fn lines(&self) -> Vec<String> {
        let line = |m: &Member| {
            let figures = self.objectives.iter().zip(&m.figures);
            let figures: Vec<String> = figures.map(|(name, f)| format!("{name} {}", f.marked())).collect();
            (!figures.is_empty()).then(|| format!("{}: {}", m.title(), figures.join(", ")))
        };
        self.members.iter().filter_map(line).chain([self.legend()]).collect()
    }

    /// Legend of the signs in use and of the values.
    pub fn legend(&self) -> String {
        let has = |verdict| self.members.iter().flat_map(|m| &m.figures).any(|f| f.verdict == verdict);
        let signs = [
            (Verdict::Faster, "▲ better"),
            (Verdict::Slower, "▼ worse"),
            (Verdict::Equivalent, "≈ within 2 %"),
            (Verdict::Inconclusive, "? inconclusive"),
        ];
        let signs: Vec<&str> = signs.into_iter().filter(|(v, _)| has(*v)).map(|(_, text)| text).collect();
        let than = self.members.first().map_or("", |m| &m.candidate);
        let excludes_1 = |f: &Figure| f.ci95.is_some_and(|[lo, hi]| lo > 1.0 || hi < 1.0);
        let open = self.members.iter().flat_map(|m| &m.figures).filter(|f| f.verdict == Verdict::Inconclusive);
        let together = match open.into_iter().any(excludes_1) {
            true => {
                "; ? with an interval that excludes 0: too close to 0 for a table whose signs share a 5 % chance of error"
            }
            false => "",
        };
        format!("{}; each compared with {than}, with its 95 % CI{together}", signs.join("  "))
    }
}

/// For a confirmation, where each arm except the first is a member.
pub(super) fn confirmed(run: &RunRecord, s: &Searched<'_>, found: &SearchOutcome) -> Head {
    let base = run.arms.first().map_or("", String::as_str);
    let unit = Unit::of_run(run);
    let effects: Vec<Vec<Option<Effect<'_>>>> = run
        .arms
        .iter()
        .skip(1)
        .map(|arm| s.metrics.iter().map(|m| of_arm(run, *m, arm).into_iter().find(unwatched)).collect())
        .collect();
    let front = front(run, s, &effects);
    let blocks = effects.iter().flatten().flatten().map(|e| e.b.measurements.len()).max().unwrap_or(0);
    let fresh = format!("in {}", plural(blocks, "fresh block"));
    let names = list(&s.names);
    let changes = |i: usize, verdict: Verdict| -> Vec<String> {
        let which = (0..s.metrics.len()).filter(|o| front.members[i + 1].figures[*o].verdict == verdict);
        which.filter_map(|o| Some(range(s.metrics[o], unit, &[effects[i][o].as_ref()?], true))).collect()
    };
    let good =
        |i: usize| (0..s.metrics.len()).map(|o| front.members[i + 1].figures[o].good(s.metrics[o]).0).sum::<f64>();
    let is_allowed = |i: &usize| front.members[i + 1].breaks.is_none();
    let gains: Vec<usize> =
        (0..effects.len()).filter(is_allowed).filter(|i| !changes(*i, Verdict::Faster).is_empty()).collect();
    let dominates = |i: &usize| {
        let kept = |o: usize| {
            front.members[i + 1].figures[o].good(s.metrics[o]).1.is_some_and(|(lo, _)| lo >= 1.0 / (1.0 + MATTERS))
        };
        (0..s.metrics.len()).all(kept)
    };
    let most = |a: &usize, b: &usize| good(*a).total_cmp(&good(*b));
    let best = gains.iter().copied().filter(dominates).max_by(most);
    let kept = |i: usize| keeps(run, s.search, (base, run.arms[i + 1].as_str()), &fresh);
    let is_compared = |i: &usize| effects[*i].iter().flatten().any(|e| e.c.ci95.is_some());
    // The current configuration violates a constraint, so a member that meets all constraints may have a cost.
    let best = best.or_else(|| (0..effects.len()).filter(|i| is_compared(i) && kept(*i).is_some()).max_by(most));
    let with_effort = |i: usize| format!("{} ({})", run.arms[i + 1], front.members[i + 1].effort.words());
    let (answer, advice) = match (best, &gains[..]) {
        (Some(i), _) => {
            let better = changes(i, Verdict::Faster);
            let is_better = |o: &usize| front.members[i + 1].figures[*o].verdict == Verdict::Faster;
            let same = (0..s.metrics.len()).find(|o| !is_better(o)).map(|o| format!(", {} no worse", s.names[o]));
            let same = same.unwrap_or_default();
            let answer = match kept(i) {
                Some(kept) => {
                    let both = [better, changes(i, Verdict::Slower)].concat();
                    let change = if both.is_empty() { String::new() } else { format!(": {} than {base}", list(&both)) };
                    kept + &change
                }
                None => format!("{}: {} than {base}{same}, {fresh}", run.arms[i + 1], list(&better)),
            };
            (answer, format!("use {}{}", with_effort(i), price(run, &run.arms[i + 1], &s.metrics)))
        }
        (None, []) if found.undecided as usize > effects.len() => {
            let open = SearchOutcome { undecided: found.undecided - effects.len() as u64, ..found.clone() };
            let none = format!("{fresh} {} is better than {base}", none_of(effects.len()));
            (format!("undecided: {}; {none}", undecided(&open, s.search.candidates.len())), search_longer(found))
        }
        (None, []) => (
            format!(
                "keep as-is: {fresh} {} is better than {base} in {}{}",
                none_of(effects.len()),
                either(&s.names),
                if (0..effects.len()).all(|i| is_allowed(&i)) { "" } else { " and keeps every constraint" }
            ),
            "nothing: fresh blocks did not reproduce the search's gain".into(),
        ),
        (None, gains) => {
            let trade = |i: &usize| {
                let worse = changes(*i, Verdict::Slower);
                let price = if worse.is_empty() { String::new() } else { format!(", at {}", list(&worse)) };
                format!("{} gives {}{price}", with_effort(*i), list(&changes(*i, Verdict::Faster)))
            };
            let trades: Vec<String> = gains.iter().map(trade).collect();
            (
                format!(
                    "keep as-is: nothing beats {base} in both {names}, {fresh}; {}",
                    match gains.iter().any(|i| changes(*i, Verdict::Slower).is_empty()) {
                        true => format!("{} in one of them", better_count(gains.len())),
                        false => trade_count(gains.len()),
                    }
                ),
                format!("nothing, unless one metric matters more: {}", trades.join("; ")),
            )
        }
    };
    let arm = best.map(|i| run.arms[i + 1].as_str());
    let reasons = arm.and_then(|arm| match run.tried.is_empty() {
        true => {
            let watched: Vec<Effect<'_>> =
                s.metrics.iter().flat_map(|m| of_arm(run, *m, arm)).filter(|e| !unwatched(e)).collect();
            why::of(run, base, arm, &watched).0
        }
        false => program::why(run, base, arm),
    });
    let how = arm.and_then(|arm| s.search.candidates.iter().find(|c| c.name == arm)).map(|c| c.how.clone());
    let breaking = front.members.iter().filter_map(|m| Some((&m.candidate, m.breaks.as_ref()?)));
    let broken: Vec<String> = breaking.map(|(name, text)| format!("{name} breaks {text} {fresh}")).collect();
    let not_confirmed: Vec<String> = found.set.iter().filter(|name| !run.arms.contains(name)).cloned().collect();
    Head {
        answer,
        when: None,
        why: reasons,
        advice: Some(advice),
        also: how
            .into_iter()
            .flatten()
            .chain(broken)
            .chain(of_what(run))
            .chain([how_found(found, &not_confirmed, s.search, None)])
            .collect(),
        table: None,
        forest: None,
        front: Some(front),
        notes: Vec::new(),
        on: None,
    }
}

fn none_of(n: usize) -> String {
    if n == 1 { "the candidate".into() } else { format!("none of {n} candidates") }
}

fn better_count(n: usize) -> String {
    if n == 1 { "1 candidate is better".into() } else { format!("{n} candidates are better") }
}

fn trade_count(n: usize) -> String {
    if n == 1 {
        "1 candidate trades one for the other".into()
    } else {
        format!("{n} candidates trade one for the other")
    }
}

fn either(names: &[String]) -> String {
    names.join(" or ")
}

fn front(run: &RunRecord, s: &Searched<'_>, effects: &[Vec<Option<Effect<'_>>>]) -> Front {
    let p = |e: &Option<Effect<'_>>| e.as_ref().and_then(|e| e.c.p).unwrap_or(1.0);
    let adjusted = holm::adjusted(&effects.iter().flatten().map(p).collect::<Vec<_>>());
    let of = s.metrics.len();
    let figure = |(at, e): (usize, &Option<Effect<'_>>)| {
        let metric = s.metrics[at % of];
        let (ratio, ci95) = (e.as_ref().and_then(|e| e.c.ratio), e.as_ref().and_then(|e| e.c.ci95));
        let figure = Figure { ratio, ci95, verdict: Verdict::Inconclusive };
        let verdict = match figure.good(metric).1 {
            Some((lo, _)) if adjusted[at] < ALPHA && lo > 1.0 + MATTERS / 2.0 => Verdict::Faster,
            Some((lo, hi)) if lo >= 1.0 / (1.0 + MATTERS) && hi <= 1.0 + MATTERS => Verdict::Equivalent,
            Some((_, hi)) if adjusted[at] < ALPHA && hi < 1.0 => Verdict::Slower,
            _ => Verdict::Inconclusive,
        };
        Figure { verdict, ..figure }
    };
    let figures: Vec<Figure> = effects.iter().flatten().enumerate().map(figure).collect();
    let effort = |arm: &str| s.search.candidates.iter().find(|c| c.name == arm).map_or(Effort::None, |c| c.effort);
    let member = |(i, arm): (usize, &String)| Member {
        candidate: arm.clone(),
        effort: effort(arm),
        figures: if i == 0 { Vec::new() } else { figures[(i - 1) * of..i * of].to_vec() },
        on_front: true,
        breaks: breaks(run, s.search, arm),
    };
    let mut members: Vec<Member> = run.arms.iter().enumerate().map(member).collect();
    // Other pairs were not compared.
    let good = |i: usize, o: usize| members[i].figures.get(o).map_or((0.0, None), |f| f.good(s.metrics[o]));
    let points: Vec<[f64; 2]> = (0..members.len()).map(|i| [0, 1].map(|o| good(i, o).0)).collect();
    let advantage = |o: usize, a: usize, b: usize| match (a, b) {
        (a, 0) => good(a, o).1,
        (0, b) => good(b, o).1.map(|(lo, hi)| (1.0 / hi, 1.0 / lo)),
        _ => None,
    };
    let stay = search::front(&points, advantage, MATTERS);
    let gains = |m: &Member| m.figures.iter().any(|f| f.verdict == Verdict::Faster);
    let any_gains = members.iter().any(gains);
    for (i, m) in members.iter_mut().enumerate() {
        // Fresh blocks have to confirm the gain that puts a member on the front.
        let on = if i == 0 { stay.contains(&0) || !any_gains } else { gains(m) && stay.contains(&i) };
        m.on_front = on && m.breaks.is_none();
    }
    Front { objectives: s.names.clone(), members }
}

/// For a search by two objectives: the front as found, without values, and whether to keep the current configuration.
pub(super) fn searched(
    run: &RunRecord,
    s: &Searched<'_>,
    set: &[String],
    state: &crate::search::State,
) -> (bool, String) {
    let base = run.arms.first().map_or("", String::as_str);
    let of = plural(run.arms.len(), "candidate");
    let names = list(&s.names);
    let stays = set.iter().any(|name| name == base);
    let stay = |text: String| (true, format!("keep as-is: {text}"));
    let text = match (state.blocks, run.finished_unix_s) {
        (0, _) => "nothing was compared: no block is complete".into(),
        _ if stays && set.len() == 1 => {
            return stay(format!("none of the others among {of} is better in {}", either(&s.names)));
        }
        (_, Some(_)) if state.picks.is_empty() => {
            let most = percent(state.most_better);
            return stay(format!("by {names} none of {of} can be better by more than {most}"));
        }
        (_, Some(_)) if set.len() == 1 => {
            format!("{} beats the others of {of} in {names}; not confirmed in fresh blocks", set[0])
        }
        (_, Some(_)) => {
            format!("{} of {of} remain: no other beats them in both {names}; not confirmed in fresh blocks", set.len())
        }
        (blocks, None) => {
            let after = plural(blocks, "block");
            format!("undecided: {} of {of} remain after {after}, none clearly beaten in both {names}", set.len())
        }
    };
    (false, text)
}

#[cfg(test)]
#[path = "front_tests.rs"]
mod tests;
