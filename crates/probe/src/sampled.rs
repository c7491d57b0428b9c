//! Results of CPU samples: CPU shares by place. Pure.

use std::collections::BTreeSet;

use crate::sampling::{Clock, period_ns};
use iotrail_path::sample::{Sample, Tally};
use iotrail_schema::measurement::{CpuSamples, CpuShare, FunctionSamples};
use iotrail_schema::place::Place;
use iotrail_stats::share::share;

/// Samples of one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub clock: Clock,
    pub hz: u32,
    pub samples: Vec<Sample>,
    /// Samples of untraced programs.
    pub unwatched: u64,
    /// Number of sampling periods over all CPUs; `None` if paced by cycles.
    pub expected: Option<u64>,
    /// Samples that found a map full. If paced by time, also samples that were expected but did not occur (the timer
    /// was late by more than a period, or no program ran).
    pub lost: u64,
}

/// The samples in the measurement's form.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuShares {
    /// Shares of all places, in the order of the places.
    pub shares: Vec<CpuShare>,
    pub how: CpuSamples,
    /// The samples behind the shares.
    pub samples: Vec<Sample>,
}

/// Maximum number of listed functions that no table knows.
const LISTED: usize = 10;

impl Profile {
    /// Shares of the traced threads' samples and of the idle samples of the CPUs in `idle_on`; `None`: of CPUs on which
    /// a traced thread was sampled.
    pub fn shares(self, idle_on: Option<&[u32]>) -> CpuShares {
        let idle_cpus: BTreeSet<u32> = match idle_on {
            Some(cpus) => cpus.iter().copied().collect(),
            None => self.samples.iter().filter(|s| !s.is_idle()).map(|s| s.cpu).collect(),
        };
        let (counted, other_idle): (Vec<_>, Vec<_>) =
            self.samples.into_iter().partition(|s| !s.is_idle() || idle_cpus.contains(&s.cpu));
        let tally = Tally::of(&counted);
        let taken = tally.all();
        let shares = Place::ALL.map(|place| {
            let samples = tally.by_place.get(&place).copied().unwrap_or(0);
            let s = share(samples, taken);
            CpuShare { place, samples, share: s.map(|s| s.share), lo: s.map(|s| s.lo), hi: s.map(|s| s.hi) }
        });
        let other_idle: u64 = other_idle.iter().map(|s| s.count).sum();
        let unplaced = tally.unplaced.into_iter().take(LISTED);
        CpuShares {
            shares: shares.to_vec(),
            how: CpuSamples {
                clock: self.clock.name().into(),
                hz: self.hz,
                period_ns: (self.clock == Clock::Time).then(|| period_ns(self.hz)),
                taken,
                elsewhere: self.unwatched + other_idle,
                lost: self.lost,
                expected: self.expected,
                idle_cpus: idle_cpus.into_iter().collect(),
                unplaced: unplaced.map(|(function, samples)| FunctionSamples { function, samples }).collect(),
            },
            samples: counted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_path::sample::Stack;

    fn profile() -> Profile {
        let kernel = |frames: &[&str]| Stack::Kernel(frames.iter().map(|f| f.to_string()).collect());
        let of = |tgid, cpu, stack, count| Sample { tgid, comm: "load-0".into(), cpu, stack, count };
        Profile {
            clock: Clock::Time,
            hz: 997,
            samples: vec![
                of(7, 0, Stack::User, 60),
                of(7, 0, kernel(&["_copy_to_iter", "filemap_read", "do_syscall_64"]), 30),
                of(7, 0, kernel(&["x"]), 1),
                of(0, 0, kernel(&["default_idle", "do_idle"]), 9),
                of(0, 1, kernel(&["default_idle", "do_idle"]), 80),
            ],
            unwatched: 19,
            expected: Some(200),
            lost: 1,
        }
    }

    #[test]
    fn profile_shares_cover_the_traced_threads_and_their_idle_cpus() {
        for idle_on in [None, Some(&[0][..])] {
            let got = profile().shares(idle_on);
            assert_eq!(got.shares.iter().map(|s| s.place).collect::<Vec<_>>(), Place::ALL);
            assert_eq!(got.shares.iter().map(|s| s.samples).sum::<u64>(), got.how.taken);
            assert_eq!(got.samples.iter().map(|s| s.count).sum::<u64>(), got.how.taken);
            let of = |place| got.shares.iter().find(|s| s.place == place).unwrap().share.unwrap();
            assert_eq!([Place::User, Place::Copy, Place::Idle, Place::Other].map(of), [0.6, 0.3, 0.09, 0.01]);
            let s = &got.how;
            assert_eq!((s.taken, s.elsewhere, s.lost, s.expected), (100, 99, 1, Some(200)));
            assert_eq!((s.period_ns, &s.idle_cpus[..]), (Some(1_003_009), &[0][..]));
            assert_eq!(s.unplaced, [FunctionSamples { function: "x".into(), samples: 1 }]);
        }
        let both = profile().shares(Some(&[0, 1]));
        assert_eq!((both.how.taken, both.how.elsewhere), (180, 19));
    }

    #[test]
    fn too_few_samples_have_counts_but_no_shares() {
        let few = Profile { samples: profile().samples[..1].to_vec(), ..profile() }.shares(None);
        assert_eq!((few.shares[0].samples, few.shares[0].share, few.shares[0].lo), (60, None, None));
    }
}
