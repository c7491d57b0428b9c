//! What is said of two sides that were measured: this type *is* the JSON schema `iotrail.comparison/2` (`docs/formats.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const SCHEMA: &str = "iotrail.comparison/2";

/// What sides may differ by and still be equivalent, unless another band is asked for.
pub const EQUIVALENT_WITHIN: f64 = 0.05;

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
    /// What others disturbed.
    #[serde(default)]
    pub disturbed: Disturbed,
    /// The metric of b over that of a.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    /// How far the load seems to differ from itself: a control arm against its twin, as a factor less 1.
    pub noise_floor: Option<f64>,
    /// The difference that so many repeats with this spread would show in 95 % of cases, as a factor less 1.
    pub smallest_visible: Option<f64>,
    /// How often equal sides would seem to differ as much, or more.
    #[serde(default)]
    pub p: Option<f64>,
    /// The same with all comparisons of the metric that were made together in mind (Holm's): the verdict is by it.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// How many these are, this one among them.
    #[serde(default)]
    pub together: usize,
    /// Sides that differ by no more are equivalent, as a factor less 1.
    #[serde(default)]
    pub equivalent_within: f64,
    /// What would show a difference of 10 %.
    #[serde(default)]
    pub to_show_10_percent: Option<Needed>,
    pub verdict: Verdict,
    /// Why it is not comparable, and what else has to be known.
    pub reasons: Vec<String>,
}

/// Measurements of both sides that others disturbed, by what they saw of the machine: never by their result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbed {
    /// All that both sides have.
    pub measurements: usize,
    /// Measured again, and thrown away before.
    pub repeated: usize,
    /// Left out: of these pairs, one measurement or both are disturbed all the same. Of sides that were measured apart, measurements.
    pub left_out: usize,
    /// Disturbed and counted, since too few were left without them.
    pub counted: usize,
}

/// Of b against a, in the metric's good direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Faster,
    Slower,
    /// The interval lies within `equivalent_within`.
    Equivalent,
    /// The sides may differ, or not.
    #[serde(alias = "no_difference")]
    Inconclusive,
    /// They measured different things.
    NotComparable,
}

/// Measurements that would be needed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    /// Pairs, or repeats of each side.
    pub repeats: usize,
    /// Of both sides, one after the other.
    pub seconds: f64,
}

impl Verdict {
    /// As in the JSON, with spaces.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotComparable => "not comparable",
        }
    }
}
