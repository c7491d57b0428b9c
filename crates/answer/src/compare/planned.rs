//! Estimated duration of further blocks of a run.

use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;
use iotrail_stats::middle::median;

/// Minimum time between the starts of two measurements.
const BETWEEN_NS: f64 = 0.5e9;

/// Duration of one repeat of every cell.
pub(super) fn block_ns(run: &RunRecord) -> f64 {
    of_one(run) * run.cells.iter().filter(|c| c.untestable.is_none()).count() as f64
}

/// A pause longer than the median pause by this is not the run's own, as after a resume.
const PAUSE_NS: f64 = 5e9;

/// Duration of one measurement including warm-up and pauses, from the starts of all of them.
fn of_one(run: &RunRecord) -> f64 {
    let own = |m: &Measurement| (m.load.warmup_ns + m.elapsed_ns) as f64;
    let mut all: Vec<(u64, f64)> = run.measurements().map(|m| (m.started_unix_s, own(&m))).collect();
    all.sort_by_key(|(start, _)| *start);
    let measured = all.iter().map(|(_, own)| own).sum::<f64>() / all.len().max(1) as f64;
    let pause = |pair: &[(u64, f64)]| (pair[1].0 - pair[0].0) as f64 * 1e9 - pair[0].1;
    let pauses: Vec<f64> = all.windows(2).map(pause).collect();
    let usual = median(pauses.iter().copied()).unwrap_or(0.0);
    let own: Vec<f64> = pauses.into_iter().filter(|ns| *ns <= usual + PAUSE_NS).collect();
    let between = own.iter().sum::<f64>() / own.len() as f64;
    // Starts are in whole seconds, and equal in a short run.
    measured + if between >= 0.0 { between } else { BETWEEN_NS }
}

#[cfg(test)]
mod tests {
    use iotrail_testing::{run::two_by_two, sample};

    #[test]
    fn the_duration_of_a_sub_second_run_is_its_measured_time() {
        let mut run = two_by_two();
        run.cells.iter_mut().for_each(|c| c.measurements = vec![sample::measurement(); 3].into());
        run.finished_unix_s = Some(run.started_unix_s);
        let measured = sample::measurement().elapsed_ns as f64;
        assert!(super::of_one(&run) >= measured, "{}", super::of_one(&run));
    }

    #[test]
    fn the_pause_before_a_resume_is_not_part_of_a_measurement() {
        let with = |pause: u64, each: u64| {
            let mut run = two_by_two();
            run.cells.truncate(1);
            let start = |i: u64| {
                let mut m = sample::measurement();
                m.started_unix_s = 1_000 + each * i + if i < 10 { 0 } else { pause };
                (m.elapsed_ns, m.load.warmup_ns) = (2_000_000_000, 0);
                m
            };
            run.cells[0].measurements = (0..20).map(start).collect::<Vec<_>>().into();
            super::of_one(&run)
        };
        // All starts but the one after the pause are 3 s apart.
        assert_eq!([with(0, 3), with(60, 3), with(86_400, 3)], [3e9; 3]);
        // Here the long pauses are the run's own.
        assert_eq!([with(0, 30), with(60, 30)], [30e9; 2]);
    }
}
