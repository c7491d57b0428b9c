//! A metric with its series, as a scrape exports it.

use crate::metrics_record::{Buckets, MetricsRecord};

/// The source of an answer to a scrape.
#[derive(Debug, Clone, PartialEq)]
pub enum Scraped {
    Trace(Box<MetricsRecord>),
    Monitor(Vec<Family>),
}

pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Without `iotrail_` before it and `_total` behind it.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<(Labels, Value)>,
}

crate::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        Counter = "counter",
        Gauge = "gauge",
        Histogram = "histogram",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Count(u64),
    /// Exported in seconds.
    Nanoseconds(u64),
    Now(f64),
    Buckets(Buckets),
}

impl Family {
    /// By its name, as OpenMetrics wants it.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| self.name.ends_with(&format!("_{unit}")))
    }
}
