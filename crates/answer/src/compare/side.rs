//! The sides of a comparison.

use std::sync::Arc;

use hdrhistogram::Histogram;

use crate::figure::Metric;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::measurements::One;
use iotrail_schema::run_record::CellRecord;
use iotrail_stats::bootstrap::Counts;

/// Returns the latencies of one repeat (1-based) of a cell; `None` if they are not stored.
pub type Histograms<'a> = &'a dyn Fn(u32, u32) -> Option<Histogram<u64>>;

/// One side: the repeats of one load.
#[derive(Clone)]
pub struct Side<'a> {
    pub name: String,
    /// In measurement order.
    pub repeats: Vec<Repeat<'a>>,
}

#[derive(Clone)]
pub struct Repeat<'a> {
    pub measurement: One<'a>,
    /// Latency histogram of the repeat, if a metric needs it and it is stored.
    pub latency: Option<Arc<Counts>>,
    /// The run of this repeat, if the side consists of several runs.
    pub run: Option<usize>,
}

impl<'a> Repeat<'a> {
    pub fn new(measurement: impl Into<One<'a>>, latency: Option<Arc<Counts>>) -> Self {
        Self { measurement: measurement.into(), latency, run: None }
    }
}

impl<'a> Side<'a> {
    /// A cell's repeats. Reads their histograms only if one of the metrics needs them.
    pub fn of_cell(name: &str, cell: &'a CellRecord, histograms: Histograms<'_>, metrics: &[Metric]) -> Self {
        let needed = metrics.iter().any(|m| m.quantile().is_some());
        let repeat = |(measurement, number): (One<'a>, u32)| {
            let latency = if needed { histograms(cell.cell, number).as_ref().map(Counts::of) } else { None };
            Repeat::new(measurement, latency.map(Arc::new))
        };
        Self { name: name.into(), repeats: cell.measurements.each().zip(1..).map(repeat).collect() }
    }

    pub(super) fn measurements(&self) -> impl Iterator<Item = &Measurement> {
        self.repeats.iter().map(|r| &*r.measurement)
    }

    pub(super) fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.repeats.iter().map(|r| metric.of(&r.measurement)).collect()
    }

    pub(super) fn latencies(&self) -> Option<Vec<&Counts>> {
        self.repeats.iter().map(|r| r.latency.as_deref()).collect()
    }

    /// Indices of the repeats, grouped by run.
    pub(super) fn runs(&self) -> Vec<Vec<usize>> {
        let mut runs: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        for (i, repeat) in self.repeats.iter().enumerate() {
            match runs.iter_mut().find(|(run, _)| run.is_some() && *run == repeat.run) {
                Some((_, of)) => of.push(i),
                None => runs.push((repeat.run, vec![i])),
            }
        }
        runs.into_iter().map(|(_, of)| of).collect()
    }

    pub(super) fn first(&self, n: usize) -> Self {
        Self { name: self.name.clone(), repeats: self.repeats[..n].to_vec() }
    }
}
