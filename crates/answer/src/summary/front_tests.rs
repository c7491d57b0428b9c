use super::*;
use crate::compare;
use crate::search::made;
use crate::summary::advice::to_confirm;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::search_record::{Constraint, Ended};
use iotrail_testing::sample;

/// c0 and these candidates in fresh blocks: factors of IOPS and of CPU time per I/O.
pub fn confirmation(times: &[[f64; 2]]) -> RunRecord {
    let all: Vec<[f64; 2]> = [[1.0, 1.0]].iter().chain(times).copied().collect();
    let mut run = made::of_two(&all, 0);
    for (i, cell) in run.cells.iter_mut().enumerate() {
        let measured = |k: u32| {
            let noise = |at: u32| 1.0 + f64::from((7 * k + at + i as u32) % 5) / 100.0;
            let mut m = Measurement { iops: Some(1e5 * all[i][0] * noise(0)), ..sample::measurement() };
            let cpu_ns = m.ios.unwrap() as f64 * 5e3 * all[i][1] * noise(2);
            (m.cpu.user_ns, m.cpu.system_ns, m.cpu.sqpoll_ns, m.cpu.helpers_ns) =
                (Some(0), Some(cpu_ns as u64), Some(0), None);
            m
        };
        cell.measurements = (0..12).map(measured).collect();
    }
    let set = run.arms[1..].iter().cloned().chain(["c9".into()]).collect();
    let found = SearchOutcome {
        run: 6,
        set,
        leader: "c1".into(),
        measurements: 90,
        compared: 5,
        ended: Ended::Settled,
        ..made::found()
    };
    run.search.as_mut().unwrap().found = Some(found);
    run.comparisons = compare::of_run(&run, &|_, _| None);
    run
}

fn head(run: &RunRecord) -> Head {
    Head::of_run(run, false)
}

fn on_front(h: &Head) -> Vec<bool> {
    h.front.as_ref().unwrap().members.iter().map(|m| m.on_front).collect()
}

fn verdicts(h: &Head) -> Vec<Verdict> {
    h.front.as_ref().unwrap().members.iter().flat_map(|m| &m.figures).map(|f| f.verdict).collect()
}

#[test]
fn a_candidate_better_in_both_objectives_is_recommended() {
    let h = head(&confirmation(&[[1.5, 0.5], [1.8, 1.4]]));
    assert_eq!(
        h.answer,
        "c1: 51 % more IOPS (95 % CI 48–54 %) and 50 % less CPU time per I/O (95 % CI 48–51 %) than c0, in 12 fresh blocks"
    );
    assert_eq!(h.advice.as_deref(), Some("use c1 (a few lines)"));
    assert_eq!(on_front(&h), [false, true, true]);
    let worse = Verdict::Slower;
    assert_eq!(verdicts(&h), [Verdict::Faster, Verdict::Faster, Verdict::Faster, worse]);
    assert_eq!(h.also[0], "write c1");
    let front = h.front.clone().unwrap();
    assert_eq!(front.legend(), "▲ better  ▼ worse; each compared with c0, with its 95 % CI");
    let lines = front.lines();
    assert_eq!((lines.len(), lines[2].as_str()), (3, front.legend().as_str()));
    assert!(lines[0].starts_with("c1 (a few lines): IOPS ▲ +51 % (48 to 54), CPU time per I/O ▲ "), "{lines:?}");
    assert_eq!(front.members[0].title(), "c0 (beaten)");
    assert!(h.also.last().unwrap().contains("; also unbeaten: c9"), "{h:?}");
    let text: Vec<String> = h.front.unwrap().members[2].figures.iter().map(Figure::text).collect();
    assert_eq!(text[0].split(' ').next(), Some("+79"), "{text:?}");
    // The candidate that is not worse in the other objective.
    let h = head(&confirmation(&[[1.5, 0.97]]));
    assert_eq!(h.answer, "c1: 51 % more IOPS (95 % CI 48–54 %) than c0, CPU time per I/O no worse, in 12 fresh blocks");
    // 0.5 % more on average, but the interval extends beyond 2 %, so it may be worse.
    let h = head(&confirmation(&[[1.5, 1.005]]));
    assert!(h.answer.starts_with("keep as-is: nothing beats c0 in both "), "{}", h.answer);
    assert!(h.answer.ends_with("; 1 candidate is better in one of them"), "{}", h.answer);
    let h = head(&confirmation(&[[1.5, 0.97]]));
    assert_eq!(on_front(&h), [false, true]);
}

#[test]
fn the_current_configuration_is_kept_if_candidates_only_trade_off() {
    let h = head(&confirmation(&[[1.5, 1.4], [0.7, 0.5]]));
    assert_eq!(
        h.answer,
        "keep as-is: nothing beats c0 in both IOPS and CPU time per I/O, in 12 fresh blocks; 2 \
         candidates trade one for the other"
    );
    let advice = h.advice.clone().unwrap();
    assert!(
        advice.starts_with(
            "nothing, unless one metric matters more: c1 (a few lines) gives 51 % more IOPS (95 % CI 48–54 %), at "
        ),
        "{advice}"
    );
    assert_eq!(on_front(&h), [true, true, true]);
}

#[test]
fn gains_not_confirmed_in_fresh_blocks_are_not_recommended() {
    let h = head(&confirmation(&[[1.0, 1.0], [0.9, 1.2]]));
    assert_eq!(
        h.answer,
        "keep as-is: in 12 fresh blocks none of 2 candidates is better than c0 in IOPS or CPU \
         time per I/O"
    );
    assert_eq!(h.advice.as_deref(), Some("nothing: fresh blocks did not reproduce the search's gain"));
    assert_eq!(verdicts(&h)[2..], [Verdict::Slower, Verdict::Slower]);
    assert_eq!(on_front(&h), [true, false, false]);
    let titles: Vec<String> = h.front.unwrap().members.iter().map(Member::title).collect();
    assert_eq!(titles, ["c0", "c1 (no gain)", "c2 (no gain)"]);
}

#[test]
fn a_gain_not_significant_after_adjustment_is_not_recommended() {
    let h = head(&confirmation(&[[1.01, 0.958], [1.0, 1.0], [1.0, 1.0]]));
    let front = h.front.clone().unwrap();
    // If only this value were tested, the interval would show a gain.
    assert!(front.lines()[0].ends_with("CPU time per I/O ? −3.3 % (−5.8 to −0.6)"), "{:?}", front.lines());
    assert!(front.legend().ends_with(
        "; ? with an interval that excludes 0: too close to 0 for a table whose signs share a 5 % chance of error"
    ));
    assert!(h.answer.contains("none of 3 candidates is better than c0"), "{}", h.answer);
    assert_eq!((front.members[0].title(), front.members[1].title()), ("c0".into(), "c1 (no gain)".into()));
}

#[test]
fn a_candidate_that_breaks_a_constraint_in_fresh_blocks_is_rejected() {
    // p99 of c0, c1 and c2 in ms; the constraint allows 1 ms.
    let limited = |times: &[[f64; 2]], p99: [u64; 3]| {
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
    };
    let both = [[1.5, 0.5], [1.2, 0.9]];
    let h = limited(&both, [0, 2, 0]);
    assert!(h.answer.starts_with("c2: "), "{}", h.answer);
    assert!(h.also.contains(&"c1 breaks p99<1ms in 12 fresh blocks".to_owned()), "{:?}", h.also);
    assert_eq!(on_front(&h)[1..], [false, true]);
    assert_eq!(h.front.unwrap().members[1].title(), "c1 (breaks p99<1ms)");
    let h = limited(&both, [0, 2, 2]);
    assert!(
        h.answer.starts_with("keep as-is: in 12 fresh blocks none of 2 candidates is better than c0 in ")
            && h.answer.ends_with(" and keeps every constraint"),
        "{}",
        h.answer
    );
    // The current configuration violates the constraint, and meeting it has a cost.
    let h = limited(&[[0.8, 1.0], [1.5, 0.5]], [2, 0, 2]);
    assert!(h.answer.starts_with("c1 keeps p99<1ms, which c0 breaks, in 12 fresh blocks: "), "{}", h.answer);
    assert!(h.answer.ends_with(" than c0") && h.answer.contains(" fewer IOPS"), "{}", h.answer);
    assert!(h.advice.unwrap().starts_with("use c1 (a few lines)"));
}

#[test]
fn the_search_phase_reports_no_gains() {
    let front = [[1.0, 1.0], [1.6, 1.1], [1.4, 0.7], [1.1, 0.5], [1.2, 0.8]];
    let mut run = made::of_two(&front, 40);
    run.finished_unix_s = Some(1);
    let h = head(&run);
    assert_eq!(
        (h.answer.as_str(), &h.front),
        (
            "3 of 5 candidates remain: no other beats them in both IOPS and CPU time per I/O; not confirmed in fresh \
             blocks",
            &None
        )
    );
    let mut confirmed = to_confirm(&run).unwrap().0;
    confirmed.sort_unstable();
    assert_eq!(confirmed, ["c1", "c2", "c3"]);
    let mut run = made::of_two(&front, 3);
    run.finished_unix_s = None;
    assert!(
        head(&run)
            .answer
            .starts_with("undecided: 5 of 5 candidates remain after 3 blocks, none clearly beaten in both IOPS and "),
        "{}",
        head(&run).answer
    );
    let mut run = made::of_two(&[[1.0, 1.0], [0.8, 1.2]], 40);
    run.finished_unix_s = Some(1);
    assert_eq!(
        head(&run).answer,
        "keep as-is: none of the others among 2 candidates is better in IOPS or CPU time per I/O"
    );
    assert_eq!(to_confirm(&run), None);
}

/// Twelve fresh blocks of identical configurations.
#[test]
fn equal_candidates_show_a_gain_in_at_most_5_of_100_fronts() {
    let mut random = iotrail_stats::random::Random::new(5);
    let mut noise = || (1..=12).map(|_| random.below(2001) as f64 / 1000.0 - 1.0).sum::<f64>() / 2.0;
    let mut run = confirmation(&[[1.0, 1.0]; 3]);
    let claimed = (0..100).filter(|_| {
        for m in run.cells.iter_mut().flat_map(|c| c.measurements.open()) {
            m.iops = Some(1e5 * (0.1 * noise()).exp());
            m.cpu.system_ns = Some((1e9 * (0.1 * noise()).exp()) as u64);
        }
        run.comparisons = compare::of_run(&run, &|_, _| None);
        verdicts(&head(&run)).contains(&Verdict::Faster)
    });
    let claimed = claimed.count();
    assert!(claimed <= 5, "{claimed}");
}
