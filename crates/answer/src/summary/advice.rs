//! The answer of a search: the recommended candidate with its gain over the current configuration, measured in blocks
//! that the search did not use; or the advice to keep the current configuration. See `crate::search`.

use super::change::{levels, range};
use super::effect::{Effect, of_arm};
use super::front;
use super::searched::{
    BESIDE, Searched, breaks, how_found, keeps, of_what, price, search_longer, unchecked, undecided, unwatched,
};
use super::{Head, notes, program, served, why};
use crate::compare::Metric;
use crate::search::{self, MATTERS, State, TOLD};
use crate::unit::Unit;
use iotrail_base::words::{list, percent, plural};
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::search_record::{Candidate, Ended, SearchOutcome, SearchRecord};

/// Maximum reasons listed for configurations that were not candidates.
const LEFT_OUT: usize = 3;

/// Number of confirmation blocks, if the budget covers them.
pub const FRESH: f64 = 12.0;

/// Approximate overhead of a measurement in seconds, in addition to its load.
const BESIDE_S: f64 = 0.2;

/// `None` if the run is not a search.
pub fn of_run(run: &RunRecord) -> Option<Head> {
    let search = run.search.as_ref()?;
    let of = Searched::of(run, search);
    let head = match &search.found {
        Some(found) if of.metrics.len() == 2 => front::confirmed(run, &of, found),
        Some(found) => confirmed(run, &of, found),
        None => searched(run, &of, &search::state(run)?),
    };
    let bound = served::sender_bound(run, &search.objective);
    let unchecked = unchecked(run, search);
    let notes = program::notes(run).into_iter().chain(notes::of_run(run)).chain(unchecked).chain(bound).collect();
    Some(Head { notes, on: notes::of_one_host(run), ..head })
}

/// A search's outcome, computed from its stored run.
fn of_state(run: &RunRecord, search: &SearchRecord, state: &State) -> SearchOutcome {
    SearchOutcome {
        run: run.run,
        set: set(run, search, state),
        leader: run.arms.get(state.leader).cloned().unwrap_or_default(),
        measurements: state.measurements,
        compared: run.cells.iter().filter(|c| !c.measurements.is_empty()).count() as u64,
        ended: ended(run, state),
        blocks: state.blocks as u64,
        undecided: state.undecided() as u64,
        decides_s: decides(run, state),
    }
}

/// Seconds for a decision: trials, blocks and confirmation, at the current pace of measurements.
fn decides(run: &RunRecord, state: &State) -> Option<f64> {
    let blocks = state.deciding_blocks.filter(|blocks| *blocks <= run.repeats as usize)?;
    let (all, ns) =
        run.measurements().fold((0.0, 0.0), |(n, sum), m| (n + 1.0, sum + (m.elapsed_ns + m.load.warmup_ns) as f64));
    let fresh = 2.0 * FRESH * if run.tried.is_empty() { 2.0 } else { 1.0 };
    let measurements = run.tried.len() as f64 + (blocks * state.set().len()) as f64 + fresh;
    // Rounded up to tens, because block durations vary.
    Some((measurements * (ns / all / 1e9 + BESIDE_S) / 10.0).ceil() * 10.0)
}

/// The candidates to confirm in fresh blocks (one, or at most three for two objectives), with the search's outcome.
/// `None` if the current configuration stays.
///
/// The current configuration needs the least effort, so it stays if it is indistinguishable from the best. If other
/// candidates may be much better, only the leader is compared with it, which is more precise than comparing all of
/// them.
pub fn to_confirm(run: &RunRecord) -> Option<(Vec<String>, SearchOutcome)> {
    let (search, state) = (run.search.as_ref()?, search::state(run)?);
    let (now, leader) = (run.arms.first()?, run.arms.get(state.leader)?);
    let found = of_state(run, search, &state);
    if search.second.is_some() {
        let picks: Vec<String> = state.picks.iter().map(|i| run.arms[*i].clone()).collect();
        return (state.blocks > 0 && !picks.is_empty()).then_some((picks, found));
    }
    let chosen = match found.set.contains(now) {
        true if state.blocks == 0 || state.most_better <= TOLD => now,
        true => leader,
        false => &recommended(search, &found.set, leader)?.name,
    };
    let chosen = chosen.clone();
    (chosen != *now).then(|| (vec![chosen], found))
}

/// The least-effort candidate of the set; on a tie, the leader.
fn recommended<'s>(search: &'s SearchRecord, set: &[String], leader: &str) -> Option<&'s Candidate> {
    let in_set = search.candidates.iter().filter(|c| set.contains(&c.name));
    in_set.min_by_key(|c| (c.effort, c.name != leader))
}

/// Names of the remaining candidates, least effort first.
fn set(run: &RunRecord, search: &SearchRecord, state: &State) -> Vec<String> {
    let mut left: Vec<&Candidate> =
        state.set().into_iter().filter_map(|i| search.candidates.iter().find(|c| c.name == run.arms[i])).collect();
    left.sort_by_key(|c| c.effort);
    left.into_iter().map(|c| c.name.clone()).collect()
}

/// The head of a confirmation: the recommended candidate compared with the current configuration, in fresh blocks.
fn confirmed(run: &RunRecord, s: &Searched<'_>, found: &SearchOutcome) -> Head {
    let search = s.search;
    let (base, arm) = (run.arms.first().map_or("", String::as_str), run.arms.last().map_or("", String::as_str));
    let unit = Unit::of_run(run);
    let objective = s.metrics.first().copied();
    let effects: Vec<Effect<'_>> = objective.map(|m| of_arm(run, m, arm)).unwrap_or_default();
    let its = effects.iter().find(|e| unwatched(e));
    let blocks = its.map_or(0, |e| e.b.measurements.len());
    let fresh = format!("in {}", plural(blocks, "fresh block"));
    let change = its.and_then(|e| change(s, unit, e, base));
    let broken = breaks(run, search, arm);
    let kept = keeps(run, search, (base, arm), &fresh).filter(|_| change.is_some());
    let is_better = broken.is_none() && its.is_some_and(|e| better(objective, e) == Some(true));
    let candidate = search.candidates.iter().find(|c| c.name == arm);
    let used = candidate.filter(|_| is_better || kept.is_some());
    // The confirmation decides about one more candidate.
    let open = SearchOutcome { undecided: found.undecided.saturating_sub(1), ..found.clone() };
    let otherwise = match &change {
        _ if broken.is_some() => {
            "search for longer: use a longer --budget; a candidate that breaks a constraint is removed after three blocks".to_owned()
        }
        Some(_) if open.undecided > 0 => format!("keep {base} for now; {}", search_longer(found)),
        Some(_) if its.is_some_and(|e| may_gain(objective, e)) => {
            format!("keep {base}: fresh blocks did not confirm the search's gain")
        }
        Some(_) => format!("keep {base}: fresh blocks did not reproduce the search's gain"),
        None => format!("keep {base} for now; remove the obstacle, and search again"),
    };
    // The interval, and its relation to a gain.
    let shows = |change: &str| match its.is_some_and(|e| may_gain(objective, e)) {
        true => format!("{arm} led the search; {fresh} it has {change}, so a gain is possible, but not shown"),
        false => format!("{arm} led the search; {fresh} it has {change}, so no gain"),
    };
    let answer = match (broken, kept, change) {
        (Some(text), ..) => format!("keep as-is: {arm} breaks {text} {fresh}"),
        (_, Some(kept), Some(change)) => format!("{kept}: {change}"),
        (.., Some(change)) if is_better => format!("{arm}: {change}, {fresh}"),
        (.., Some(change)) if open.undecided > 0 => {
            let undecided = undecided(&open, search.candidates.len());
            format!("undecided: {undecided}; {}", shows(&change))
        }
        (.., Some(change)) => format!("keep as-is: {}", shows(&change)),
        _ => match its {
            None => format!("{arm} led the search, but was not confirmed"),
            Some(e) => {
                let why = e.c.reasons.first().map(|why| format!(": {why}")).unwrap_or_default();
                format!("undecided: {arm} led the search, but {fresh} it cannot be compared with {base}{why}")
            }
        },
    };
    let advice = used.map(|c| format!("use {arm} ({}){}", c.effort.words(), price(run, arm, &[])));
    let how = used.into_iter().flat_map(|c| c.how.iter().cloned());
    // The fresh blocks measured and decide between two arms only.
    let others: Vec<String> = found.set.iter().filter(|name| !run.arms.contains(name)).cloned().collect();
    let watched: Vec<Effect<'_>> = effects.iter().filter(|e| !unwatched(e)).copied().collect();
    let reasons = match run.tried.is_empty() {
        true => why::of(run, base, arm, &watched).0,
        false => program::why(run, base, arm),
    };
    Head {
        answer,
        when: None,
        why: reasons.filter(|_| used.is_some()),
        advice: Some(advice.unwrap_or(otherwise)),
        also: how
            .chain(of_what(run))
            .chain([how_found(found, &others, search, None)])
            .chain(left_out(search))
            .collect(),
        table: None,
        forest: None,
        front: None,
        notes: Vec::new(),
        on: None,
    }
}

/// `51 % more IOPS than c0` for an improvement, otherwise `0.990–1.010 times the IOPS of c0 (95 % CI)`. `None` if the
/// ratio has no confidence interval.
fn change(s: &Searched<'_>, unit: Unit, e: &Effect<'_>, base: &str) -> Option<String> {
    let [low, high] = e.c.ci95?;
    let objective = s.metrics.first().copied();
    Some(match objective.filter(|_| better(objective, e) == Some(true)) {
        Some(metric) => format!("{} than {base}{}", range(metric, unit, &[e], true), levels(metric, e, false)),
        None => format!("{low:.3}–{high:.3} times the {} of {base} (95 % CI)", s.names[0].trim_start_matches("the ")),
    })
}

/// The head of the search itself.
fn searched(run: &RunRecord, s: &Searched<'_>, state: &State) -> Head {
    let search = s.search;
    let set = set(run, search, state);
    let base = run.arms.first().map_or("", String::as_str);
    let of = plural(run.arms.len(), "candidate");
    let name = &s.names[0];
    let stays = set.iter().any(|name| name == base);
    let leader = run.arms.get(state.leader).map_or("", String::as_str);
    let found = of_state(run, search, state);
    let stay = |text: String| (true, format!("keep as-is: {text}"));
    let (keep, answer) = match (stays, state.blocks) {
        (_, 1..) if set.is_empty() => {
            (false, format!("none of {of} remains: each breaks a constraint or could not be measured"))
        }
        _ if search.second.is_some() => front::searched(run, s, &set, state),
        (_, 0) => (false, "nothing was compared: no block is complete".into()),
        (true, _) if set.len() == 1 => stay(format!("the best of {of} by {name}")),
        (true, _) if state.most_better <= TOLD => {
            let most = percent(state.most_better);
            stay(format!("by {name} none of {of} can be better by more than {most}"))
        }
        (true, _) => {
            let most = Some(state.most_better).filter(|most| most.is_finite());
            let most =
                most.map(|most| format!(": a candidate may be better by up to {}", percent(most))).unwrap_or_default();
            (false, format!("undecided: {}{most}", undecided(&found, run.arms.len())))
        }
        (false, _) if set.len() == 1 => {
            (false, format!("{leader} is the best of {of} by {name}; not confirmed in fresh blocks"))
        }
        (false, _) => {
            (false, format!("{} of {of} are indistinguishable from the best by {name}: {}", set.len(), list(&set)))
        }
    };
    let others: Vec<String> = set.iter().filter(|name| *name != base).cloned().collect();
    let gain = keep.then(|| format!("at most {} better than {base}", percent(state.most_better)));
    let advice = match keep {
        true => "nothing".to_owned(),
        false if set.is_empty() && state.broken.iter().any(Option::is_some) => {
            "relax a constraint: no measured configuration meets all constraints".into()
        }
        false if set.is_empty() && state.blocks > 0 => "check why no candidate could be measured completely".into(),
        false if found.undecided > 0 && stays => format!("keep {base} for now; {}", search_longer(&found)),
        false if found.undecided > 0 => search_longer(&found),
        false => "search for longer: use a longer --budget".into(),
    };
    let broken =
        run.arms.iter().zip(&state.broken).filter_map(|(arm, why)| Some(format!("{arm} breaks {}", why.as_ref()?)));
    Head {
        answer,
        when: None,
        why: None,
        advice: Some(advice),
        also: broken
            .take(BESIDE)
            .chain(of_what(run))
            .chain([how_found(&found, &others, search, gain)])
            .chain(left_out(search))
            .collect(),
        table: None,
        forest: None,
        front: None,
        notes: Vec::new(),
        on: None,
    }
}

/// Why the search ended.
fn ended(run: &RunRecord, state: &State) -> Ended {
    state.ended.unwrap_or(if run.finished_unix_s.is_some() { Ended::Budget } else { Ended::Stopped })
}

/// Whether the interval shows an improvement; `None` without an interval.
fn better(metric: Option<Metric>, e: &Effect<'_>) -> Option<bool> {
    let [low, high] = e.c.ci95?;
    let matters = 1.0 + MATTERS / 2.0;
    Some(if metric?.higher_is_better() { low > matters } else { high < 1.0 / matters })
}

/// Whether the interval includes an improvement.
fn may_gain(metric: Option<Metric>, e: &Effect<'_>) -> bool {
    let matters = 1.0 + MATTERS / 2.0;
    match (metric, e.c.ci95) {
        (Some(metric), Some([_, high])) if metric.higher_is_better() => high > matters,
        (Some(_), Some([low, _])) => low < 1.0 / matters,
        _ => false,
    }
}

/// Configurations that were not candidates, each with its reason; if there are many, their number.
fn left_out(search: &SearchRecord) -> Option<String> {
    let all = &search.left_out;
    let each = || all.iter().map(|l| format!("{} ({})", l.name, l.reason)).collect::<Vec<_>>();
    match all.len() {
        0 => None,
        n if n > LEFT_OUT => Some(format!("left out {}: --plan lists the reasons", plural(n, "candidate"))),
        _ => Some(format!("left out: {}", each().join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;
    use crate::search::made;
    use iotrail_schema::comparison::Verdict;
    use iotrail_schema::measurement::Measurement;
    use iotrail_schema::search_record::{Constraint, LeftOut};

    fn head(run: &RunRecord) -> Head {
        Head::of_run(run, false)
    }

    #[test]
    fn excluded_candidates_are_listed_with_their_reason_or_counted() {
        let mut run = made::search(&[1.0, 1.3], 2);
        let last = |run: &RunRecord| head(run).also.pop().unwrap();
        assert!(last(&run).starts_with("searched 2 candidates"), "{}", last(&run));
        let out = |name: &str| LeftOut { name: name.into(), reason: "not here".into() };
        run.search.as_mut().unwrap().left_out = vec![out("a"), out("b")];
        assert_eq!(last(&run), "left out: a (not here); b (not here)");
        run.search.as_mut().unwrap().left_out = vec![out("a"); 4];
        assert_eq!(last(&run), "left out 4 candidates: --plan lists the reasons");
    }

    #[test]
    fn the_current_configuration_is_kept_if_no_candidate_is_better() {
        let h = head(&made::search(&[1.0, 0.8, 0.7], 40));
        assert_eq!(h.answer, "keep as-is: the best of 3 candidates by IOPS");
        assert_eq!(h.advice.as_deref(), Some("nothing"));
        let h = head(&made::search(&[1.0, 1.0, 0.7], 40));
        assert!(h.answer.starts_with("keep as-is: by IOPS none of 3 candidates can be better by more than "), "{h:?}");
        // The same statement, with the same number.
        let (_, most) = h.answer.rsplit_once("more than ").unwrap();
        let line = h.also.iter().find(|line| line.starts_with("searched ")).unwrap();
        assert!(line.ends_with(&format!("; at most {most} better than c0: c1 (a few lines)")), "{line}; {}", h.answer);
        let h = head(&made::search(&[1.0, 1.3, 0.7], 2));
        assert!(h.answer.starts_with("undecided: 2 of 3 candidates are undecided after 2 blocks"), "{}", h.answer);
        assert_eq!(head(&made::search(&[1.0, 1.3], 0)).answer, "nothing was compared: no block is complete");
    }

    #[test]
    fn a_constraint_that_cannot_break_is_reported() {
        let noted = |metric: &str| {
            let mut run = made::search(&[1.0, 1.3], 2);
            let c = Constraint {
                metric: metric.into(),
                below: true,
                limit: 1e9,
                inclusive: false,
                text: format!("{metric}<1s"),
            };
            run.search.as_mut().unwrap().constraints = vec![c];
            head(&run).notes
        };
        let said = "latency_p99<1s was not checked: no measurement has latency_p99".to_owned();
        assert!(noted("latency_p99").contains(&said), "too few I/Os: {:?}", noted("latency_p99"));
        assert!(!noted("latency_p50").iter().any(|note| note.contains("not checked")));
    }

    #[test]
    fn a_longer_search_is_not_advised_if_no_candidate_remains() {
        for second in [None, Some("cpu_per_io".to_owned())] {
            let mut run = made::search(&[1.0, 1.3, 0.7], 4);
            let c = Constraint {
                metric: "iops".into(),
                below: false,
                limit: 1e9,
                inclusive: false,
                text: "iops>1000000000".into(),
            };
            let search = run.search.as_mut().unwrap();
            (search.constraints, search.second) = (vec![c], second);
            run.finished_unix_s = Some(1);
            let h = head(&run);
            assert_eq!(h.answer, "none of 3 candidates remains: each breaks a constraint or could not be measured");
            assert!(h.advice.unwrap().starts_with("relax a constraint: "));
            assert!(
                h.also[0].starts_with("c0 breaks ") && h.also.last().unwrap().contains("none remained"),
                "{:?}",
                h.also
            );
            assert_eq!(to_confirm(&run), None);
        }
    }

    #[test]
    fn the_least_effort_among_indistinguishable_candidates_is_recommended() {
        let run = made::search(&[1.0, 1.5, 1.5, 0.9], 12);
        let (search, state) = (run.search.as_ref().unwrap(), search::state(&run).unwrap());
        let set = set(&run, search, &state);
        // c1 needs a few lines, c2 a flag.
        assert_eq!(set, ["c2", "c1"]);
        assert_eq!(recommended(search, &set, "c1").unwrap().name, "c2");
        let chosen = |run: &RunRecord| to_confirm(run).map(|(names, _)| names.concat());
        assert_eq!(chosen(&run).as_deref(), Some("c2"));
        // Still undecided, and one candidate may be much better: it is compared separately. Without a better candidate,
        // none is.
        assert_eq!(chosen(&made::search(&[1.0, 1.3, 0.7], 3)).as_deref(), Some("c1"));
        assert_eq!(chosen(&made::search(&[1.0, 0.9, 0.7], 40)), None);
    }

    /// c2 compared with c0 in fresh blocks.
    fn confirmation(times: f64) -> RunRecord {
        let mut run = made::search(&[1.0, 1.5, 1.5], 0);
        run.arms = vec!["c0".into(), "c2".into()];
        run.cells.remove(1);
        for (i, cell) in run.cells.iter_mut().enumerate() {
            let iops =
                |k: u32| 1e5 * if i == 1 { times } else { 1.0 } * (1.0 + f64::from((7 * k + i as u32) % 5) / 100.0);
            cell.measurements = (0..12)
                .map(|k| Measurement { iops: Some(iops(k)), ..iotrail_testing::sample::measurement() })
                .collect();
        }
        let ended = Ended::Equivalent;
        let set = vec!["c2".to_owned(), "c1".to_owned()];
        let found =
            SearchOutcome { run: 6, set, leader: "c1".into(), measurements: 30, compared: 3, ended, ..made::found() };
        run.search.as_mut().unwrap().found = Some(found);
        run.comparisons = compare::of_run(&run, &|_, _| None);
        run
    }

    #[test]
    fn the_reported_gain_comes_from_the_fresh_blocks() {
        let h = head(&confirmation(1.5));
        assert_eq!(h.answer, "c2: 51 % more IOPS (95 % CI 48–54 %) than c0 (102 k → 153 k), in 12 fresh blocks");
        assert_eq!(h.advice.as_deref(), Some("use c2 (a flag)"));
        assert_eq!(
            h.also,
            [
                "write c2",
                "as-is: io_uring randread of 4 KiB, direct, depth 1, wait peek, cpus non-irq, /data/scratch-1g",
                "searched 3 candidates with 30 measurements (run 6; the remaining candidates are equivalent); within 2 % of the best: c1 (a few lines)"
            ]
        );
        let h = head(&confirmation(1.0));
        assert!(
            h.answer.starts_with("keep as-is: c2 led the search; in 12 fresh blocks it has ")
                && h.answer.ends_with(" times the IOPS of c0 (95 % CI), so a gain is possible, but not shown"),
            "{}",
            h.answer
        );
        assert_eq!(h.advice.as_deref(), Some("keep c0: fresh blocks did not confirm the search's gain"));
        let h = head(&confirmation(0.9));
        assert!(h.answer.ends_with(" times the IOPS of c0 (95 % CI), so no gain"), "{}", h.answer);
        assert!(!h.also.iter().any(|line| line.contains("write")), "{h:?}");
    }

    /// A search over 18 candidates that ended after two blocks, with its confirmation.
    fn after_two_blocks(times: f64) -> Head {
        let mut run = confirmation(times);
        let search = run.search.as_mut().unwrap();
        let like = search.candidates[1].clone();
        search.candidates.extend((3..18).map(|i| Candidate { name: format!("c{i}"), ..like.clone() }));
        let set = (0..17).map(|i| format!("c{i}")).collect();
        let (ended, decides_s) = (Ended::Budget, Some(240.0));
        search.found = Some(SearchOutcome {
            set,
            ended,
            compared: 18,
            blocks: 2,
            undecided: 16,
            decides_s,
            ..search.found.clone().unwrap()
        });
        head(&run)
    }

    #[test]
    fn a_search_without_a_decision_is_undecided_if_its_leader_shows_no_gain() {
        let h = after_two_blocks(1.0);
        let said = "undecided: 15 of 18 candidates are undecided after 2 blocks; c2 led the search; in 12 fresh blocks it has ";
        assert!(h.answer.starts_with(said), "{}", h.answer);
        let advice = "keep c0 for now; search for longer: --budget 240s is enough if the spread of the measurements stays the same";
        assert_eq!(h.advice.as_deref(), Some(advice));
    }

    #[test]
    fn a_candidate_beaten_in_fresh_blocks_is_not_listed_as_undecided() {
        let h = after_two_blocks(3.4);
        assert!(h.answer.starts_with("c2: 3.4× more IOPS") && h.answer.contains(" than c0"), "{}", h.answer);
        let line = h.also.iter().find(|line| line.starts_with("searched ")).unwrap();
        let (_, others) = line.split_once("; undecided against c1, the leader: ").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(others, "c3 (a few lines), c4 (a few lines), c5 (a few lines), c6 (a few lines) and 10 more");
    }

    #[test]
    fn the_recommended_budget_is_based_on_the_widest_interval() {
        let run = made::search(&[1.0, 1.02, 1.0, 1.01], 6);
        let state = search::state(&run).unwrap();
        let blocks = state.deciding_blocks.unwrap();
        assert!((2..=run.repeats as usize).contains(&blocks), "{blocks}");
        let one = run.measurements().next().unwrap();
        let each = (one.elapsed_ns + one.load.warmup_ns) as f64 / 1e9 + BESIDE_S;
        let seconds = decides(&run, &state).unwrap();
        let measurements = (blocks * state.set().len()) as f64 + 4.0 * FRESH;
        assert!((0.0..=10.0).contains(&(seconds - measurements * each)), "{seconds} {measurements} {each}");
        // After a single block, the required budget is unknown.
        assert_eq!(search::state(&made::search(&[1.0, 0.7], 1)).unwrap().deciding_blocks, None);
    }

    /// p99 of c0 and c2 in ms, in fresh blocks; the constraint allows 1 ms.
    fn limited(times: f64, p99: [u64; 2]) -> Head {
        let mut run = confirmation(times);
        let constraint = Constraint {
            metric: "latency_p99".into(),
            below: true,
            limit: 1e6,
            inclusive: false,
            text: "p99<1ms".into(),
        };
        run.search.as_mut().unwrap().constraints = vec![constraint];
        for (cell, ms) in run.cells.iter_mut().zip(p99) {
            cell.measurements.open().iter_mut().for_each(|m| m.latency_ns.p99 = Some(ms * 1_000_000));
        }
        head(&run)
    }

    #[test]
    fn constraints_are_checked_in_fresh_blocks() {
        let h = limited(1.5, [0, 2]);
        assert_eq!(h.answer, "keep as-is: c2 breaks p99<1ms in 12 fresh blocks");
        assert!(
            h.advice.unwrap().starts_with("search for longer: use a longer --budget; ")
                && !h.also.contains(&"write c2".into())
        );
        // The current configuration violates the constraint, so an equal candidate suffices.
        let h = limited(1.0, [2, 0]);
        assert!(
            h.answer.starts_with("c2 keeps p99<1ms, which c0 breaks, in 12 fresh blocks: 0.9")
                && h.answer.ends_with(" times the IOPS of c0 (95 % CI)"),
            "{}",
            h.answer
        );
        assert_eq!(h.advice.as_deref(), Some("use c2 (a flag)"));
        let h = limited(1.5, [2, 0]);
        assert!(h.answer.starts_with("c2 keeps p99<1ms, which c0 breaks, in 12 fresh blocks: 51 % more IOPS"), "{h:?}");
        assert!(limited(1.5, [2, 2]).answer.starts_with("keep as-is: c2 breaks p99<1ms"));
        assert!(limited(1.5, [0, 0]).answer.starts_with("c2: 51 % more IOPS"));
    }

    #[test]
    fn cpu_time_per_request_is_attributed_to_the_server() {
        let run = confirmation(1.5);
        let effects = of_arm(&run, Metric::Iops, "c2");
        let text = range(Metric::CpuPerIo, Unit::Request, &[&effects[0]], true);
        assert_eq!(text, "51 % more of the server's CPU time per request (95 % CI 48–54 %)");
    }

    #[test]
    fn an_impossible_comparison_in_fresh_blocks_is_undecided() {
        let mut run = confirmation(1.3);
        for c in &mut run.comparisons {
            (c.ci95, c.verdict, c.reasons) = (None, Verdict::NotComparable, vec!["other flags".into()]);
        }
        let h = head(&run);
        assert_eq!(
            h.answer,
            "undecided: c2 led the search, but in 12 fresh blocks it cannot be compared with c0: other flags"
        );
        assert_eq!(h.advice.as_deref(), Some("keep c0 for now; remove the obstacle, and search again"));
    }
}
