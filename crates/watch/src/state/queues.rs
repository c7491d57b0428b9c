//! Time that SQEs and CQEs spend in their queues. By Little's law the total time is the mean queue length times the
//! duration. Samples estimate the mean without bias.

use iotrail_schema::account::{End, RequestAccount, RequestRow, RequestStage, Start, is_narrow};
use iotrail_stats::student::interval_of_mean;

/// Minimum number of samples for an estimate.
const LEAST: usize = 20;

/// Maximum number of kept sums; with more samples, each sum covers more of them.
const KEPT: usize = 1 << 12;

/// Number of batch means for an interval, because adjacent samples are correlated.
const BATCHES: usize = 10;

/// Lengths of all rings' submission and completion queues, per sample.
#[derive(Debug, Default)]
pub struct Queues {
    /// Sums of `per` samples each; the last one may have fewer.
    sums: Vec<[u64; 2]>,
    per: usize,
    in_last: usize,
}

impl Queues {
    pub fn take(&mut self, lengths: [u64; 2]) {
        self.per = self.per.max(1);
        if self.in_last == self.per || self.sums.is_empty() {
            if self.sums.len() == KEPT {
                self.sums = self.sums.chunks(2).map(|two| [0, 1].map(|i| two.iter().map(|sum| sum[i]).sum())).collect();
                self.per *= 2;
            }
            self.sums.push([0, 0]);
            self.in_last = 0;
        }
        if let Some(last) = self.sums.last_mut() {
            last.iter_mut().zip(lengths).for_each(|(sum, length)| *sum += length);
        }
        self.in_last += 1;
    }

    fn samples(&self) -> usize {
        self.sums.len().saturating_sub(1) * self.per + self.in_last
    }

    /// Total waiting time in one of the queues.
    fn waits(&self, queue: usize, elapsed_ns: u64) -> Option<Waits> {
        if self.samples() < LEAST {
            return None;
        }
        let total: u64 = self.sums.iter().map(|sum| sum[queue]).sum();
        if total == 0 {
            return Some(Waits::default());
        }
        let whole = self.sums.len() - self.sums.len() % BATCHES;
        let mean = |batch: &[[u64; 2]]| {
            batch.iter().map(|sum| sum[queue] as f64).sum::<f64>() / (batch.len() * self.per) as f64
        };
        let batches: Vec<f64> = self.sums[..whole].chunks((whole / BATCHES).max(1)).map(mean).collect();
        let elapsed = elapsed_ns as f64;
        let [lo, hi] = interval_of_mean(&batches)?.map(|end| end.max(0.0) * elapsed);
        Some(Waits { ns: total as f64 / self.samples() as f64 * elapsed, lo, hi })
    }

    /// Adds the waits in the queues. `reaped_ns`: bounds of the CQ waits, from individually observed CQEs. An estimate
    /// that is too wide is left out; the account then begins later or ends earlier.
    pub fn add_to(&self, account: &mut RequestAccount, elapsed_ns: u64, reaped_ns: Option<[f64; 2]>) {
        let known = account.latency_sum_ns as f64;
        let submission = self.waits(0, elapsed_ns).filter(|waits| waits.is_narrow(known));
        let sampled = self.waits(1, elapsed_ns);
        let reaping = match (sampled, reaped_ns) {
            (Some(sampled), Some(ends)) => Some(sampled.within(ends)),
            (None, Some([lo, hi])) => Some(Waits { ns: (lo + hi) / 2.0, lo, hi }),
            (sampled, None) => sampled,
        };
        let reaping = reaping.filter(|waits| waits.is_narrow(known));
        if let Some(waits) = submission {
            account.from = Start::Intended;
            add(account, RequestStage::Unsubmitted, waits);
        }
        if let Some(waits) = reaping {
            account.to = End::Reaped;
            add(account, RequestStage::Posted, waits);
        }
        account.rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    }
}

/// Total waiting time in ns, with its 95 % interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Waits {
    ns: f64,
    lo: f64,
    hi: f64,
}

impl Waits {
    /// Restricts the total to bounds from another measurement, which take precedence.
    fn within(self, [least, most]: [f64; 2]) -> Waits {
        let (lo, hi) = (self.lo.max(least), if self.ns > 0.0 { self.hi.min(most) } else { most });
        let (lo, hi) = if lo <= hi { (lo, hi) } else { (least, most) };
        Waits { ns: self.ns.clamp(lo, hi), lo, hi }
    }

    fn is_narrow(&self, known_ns: f64) -> bool {
        is_narrow([self.lo, self.hi], known_ns)
    }
}

/// Adds a stage's waits to the account.
fn add(account: &mut RequestAccount, stage: RequestStage, waits: Waits) {
    let [ns, lo, hi] = [waits.ns, waits.lo, waits.hi].map(|ns| ns.round() as u64);
    if hi == 0 {
        return;
    }
    account.latency_sum_ns += ns;
    let before = account.rows.iter().position(|row| row.stage == stage).map(|i| account.rows.remove(i));
    let ns_before = before.as_ref().map_or(0, |row| row.ns);
    let [lo_before, hi_before] = before.and_then(|row| row.ns_ci95).unwrap_or([ns_before; 2]);
    let ns_ci95 = Some([lo_before + lo, hi_before + hi]);
    account.rows.push(RequestRow { stage, reason: None, ns: ns_before + ns, exact: false, ns_ci95 });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(rows: Vec<RequestRow>) -> RequestAccount {
        let latency_sum_ns = rows.iter().map(|row| row.ns).sum();
        RequestAccount { count: 10, latency_sum_ns, from: Start::Submitted, to: End::Posted, rows }
    }

    #[test]
    fn the_wait_in_a_queue_is_its_mean_length_times_the_elapsed_time() {
        let mut queues = Queues::default();
        // More samples than kept sums.
        (0..3 * KEPT).for_each(|_| queues.take([3, 0]));
        assert_eq!(queues.samples(), 3 * KEPT);
        assert!(queues.sums.len() <= KEPT);
        let mut account = account(vec![]);
        queues.add_to(&mut account, 1_000, None);
        assert_eq!((account.from, account.latency_sum_ns), (Start::Intended, 3_000));
        assert_eq!(account.rows.len(), 1);
        let row = &account.rows[0];
        assert_eq!((row.stage, row.ns, row.exact), (RequestStage::Unsubmitted, 3_000, false));
        assert_eq!(row.ns_ci95, Some([3_000, 3_000]));
    }

    #[test]
    fn too_few_queue_samples_have_no_estimate() {
        let mut queues = Queues::default();
        (0..LEAST - 1).for_each(|_| queues.take([1, 1]));
        let mut few = account(vec![]);
        queues.add_to(&mut few, 1_000, None);
        assert_eq!((few.from, few.rows.len()), (Start::Submitted, 0));
    }

    #[test]
    fn known_times_of_posted_requests_stay_in_the_sum() {
        let mut queues = Queues::default();
        (0..100).for_each(|i| queues.take([0, i % 2]));
        let known = RequestRow { stage: RequestStage::Posted, reason: None, ns: 70, exact: true, ns_ci95: None };
        let mut account = account(vec![known]);
        queues.add_to(&mut account, 1_000, None);
        let row = &account.rows[0];
        assert_eq!((row.ns, row.exact, row.ns_ci95, account.latency_sum_ns), (570, false, Some([570, 570]), 570));
    }

    #[test]
    fn imprecise_queue_estimates_are_omitted() {
        let mut bursts = Queues::default();
        (0..100).for_each(|i| bursts.take([0, if i % 33 == 0 { 500 } else { 0 }]));
        let mut wide = account(vec![]);
        bursts.add_to(&mut wide, 1_000, None);
        assert_eq!((wide.from, wide.to, wide.rows.len()), (Start::Intended, End::Posted, 0));
        // Individually observed CQEs take precedence over the samples.
        bursts.add_to(&mut wide, 1_000, Some([18_000.0, 21_000.0]));
        assert_eq!((wide.to, wide.rows[0].ns, wide.rows[0].ns_ci95), (End::Reaped, 20_000, Some([18_000, 21_000])));
        let mut contradicted = account(vec![]);
        bursts.add_to(&mut contradicted, 1_000, Some([900_000.0, 910_000.0]));
        assert_eq!(contradicted.rows[0].ns, 900_000);
    }
}
