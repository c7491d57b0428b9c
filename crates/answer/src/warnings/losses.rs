//! Events that the probes lost, over a run's traced measurements.

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Engine;
use iotrail_schema::run_record::RunRecord;

/// Lost events by name, over all traced measurements; `None` if unknown for one of them or if none was traced. Empty
/// without measurements.
pub fn losses(run: &RunRecord) -> Vec<(&'static str, Option<u64>)> {
    if run.done() == 0 {
        return Vec::new();
    }
    let mut sums = [Some(0); 4];
    let mut any = false;
    // An epoll server posts no completions.
    for m in run.measurements().filter(|m| m.probe.mode != "off" && m.load.engine != Engine::Epoll) {
        any = true;
        let unknown = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Unknown).map(|v| v.completions).sum();
        let each = [m.probe.completions_seen, Some(unknown), m.probe.untracked, m.probe.lost];
        for (sum, n) in sums.iter_mut().zip(each) {
            *sum = sum.zip(n).map(|(sum, n)| sum + n);
        }
    }
    let names = ["completions seen", "of unknown delivery path", "untracked", "events lost"];
    names.into_iter().zip(sums).map(|(name, sum)| (name, sum.filter(|_| any))).collect()
}
