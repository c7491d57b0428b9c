//! What was watched in a run, and what was not seen of it.

use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::vehicle::Vehicle;

/// By name, of all watched measurements together; `None`: not known of one of them, or nothing was watched. Empty: nothing is measured.
pub fn losses(run: &RunRecord) -> Vec<(&'static str, Option<u64>)> {
    let all = || run.measurements();
    let known = |f: fn(&Measurement) -> Option<u64>| -> Option<u64> {
        // An epoll server has no completions.
        let watched = all().filter(|m| m.probe.mode != "off" && m.load.engine != "epoll");
        let sum = watched.map(f).try_fold((0u64, false), |(sum, _), n| Some((sum + n?, true)));
        sum.and_then(|(sum, any)| any.then_some(sum))
    };
    let unknown = |m: &Measurement| {
        Some(m.vehicles.iter().filter(|v| v.vehicle == Vehicle::Unknown).map(|v| v.completions).sum())
    };
    if all().next().is_none() {
        return Vec::new();
    }
    vec![
        ("completions seen", known(|m| m.probe.completions_seen)),
        ("of unknown vehicle", known(unknown)),
        ("untracked", known(|m| m.probe.untracked)),
        ("events lost", known(|m| m.probe.lost)),
    ]
}
