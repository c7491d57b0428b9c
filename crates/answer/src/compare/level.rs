//! One side's value of a metric, with its interval, for plots of a single cell. Two such intervals do not show whether
//! two sides differ; comparing the sides does.

use super::{Metric, Side};
use crate::spread::Spread;
use iotrail_stats::bootstrap::{Median, MergedQuantile, alone};

/// The median over the repeats, or a quantile of all their latencies merged; times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    pub value: f64,
    /// 95 % interval; `None` with one repeat, or if the metric is sometimes 0.
    pub interval: Option<[f64; 2]>,
}

/// `None` if a repeat has no value, or if there are too few samples.
pub fn level(metric: Metric, side: &Side<'_>) -> Option<Level> {
    let merged = metric.quantile().and_then(|q| Some((q, side.latencies().filter(|all| !all.is_empty())?)));
    let found = match merged {
        Some((q, latencies)) => alone(&MergedQuantile::new(&latencies, q)?),
        None => {
            let values = side.values(metric)?;
            match Median::new(&values) {
                Some(median) => alone(&median),
                None => return Spread::of(values).map(|s| Level { value: s.median, interval: None }),
            }
        }
    };
    Some(Level { value: found.ratio, interval: found.interval.map(|i| [i.lo, i.hi]) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Repeat;
    use iotrail_schema::measurement::Measurement;
    use iotrail_stats::bootstrap::Counts;
    use iotrail_stats::histogram;
    use iotrail_testing::sample;

    #[test]
    fn the_level_is_the_median_and_inside_its_confidence_interval() {
        let all: Vec<Measurement> = [100.0, 120.0, 90.0, 110.0, 105.0]
            .map(|iops| Measurement { iops: Some(iops), ..sample::measurement() })
            .into_iter()
            .collect();
        let side = |n: usize, latency: Option<Counts>| Side {
            name: "x".into(),
            repeats: all[..n]
                .iter()
                .map(|measurement| Repeat::new(measurement, latency.clone().map(Into::into)))
                .collect(),
        };
        let five = level(Metric::Iops, &side(5, None)).unwrap();
        assert!((five.value - 105.0).abs() < 1e-9, "{five:?}");
        let [lo, hi] = five.interval.unwrap();
        assert!(lo < 105.0 && 105.0 < hi && lo > 70.0 && hi < 150.0, "{five:?}");
        assert_eq!(level(Metric::Iops, &side(1, None)).unwrap().interval, None);
        assert_eq!(level(Metric::Iops, &side(0, None)), None);
        // The logarithm of 0 is undefined.
        let zero = level(Metric::KicksPerIo, &side(3, None)).unwrap();
        assert_eq!((zero.value, zero.interval), (0.0, None));
        // 500 I/Os are too few for a p99; two such measurements together are enough.
        let mut h = histogram::new();
        h.record_n(1000, 499).unwrap();
        assert_eq!(level(Metric::LatencyP99, &side(1, Some(Counts::of(&h)))), None);
        let two = level(Metric::LatencyP99, &side(2, Some(Counts::of(&h)))).unwrap();
        assert!((two.value - 1000.0).abs() < 1e-6 && two.interval.is_some(), "{two:?}");
    }
}
