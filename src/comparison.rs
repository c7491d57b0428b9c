//! What is said of two sides that were measured: this type *is* the JSON schema `iotrail.comparison/1` (`docs/formats.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const SCHEMA: &str = "iotrail.comparison/1";

/// b against a, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema: String,
    /// By its name: `iops`, `latency_p99`.
    pub metric: String,
    /// The parameters that the two sides share, with their values.
    pub at: Map<String, Value>,
    /// Names of the sides: arms, or what the user called them by.
    pub a: String,
    pub b: String,
    /// Blocks in which both were measured; of sides that were not interleaved, the repeats of the one that has fewer.
    pub pairs: usize,
    /// Whether the sides were interleaved, so that repeats of one block are compared with each other.
    pub paired: bool,
    /// The metric of b over that of a.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    /// How far the load seems to differ from itself: a control arm against its twin, as a factor less 1.
    pub noise_floor: Option<f64>,
    /// The difference that so many repeats with this spread would show in 95 % of cases, as a factor less 1.
    pub smallest_visible: Option<f64>,
    pub verdict: Verdict,
    /// Why it is not comparable, and what else has to be known.
    pub reasons: Vec<String>,
}

/// Of b against a, in the metric's good direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Faster,
    Slower,
    NoDifference,
    NotComparable,
}

impl Verdict {
    /// As in the JSON, with spaces.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifference => "no difference",
            Verdict::NotComparable => "not comparable",
        }
    }
}
