//! The comparison of two measured sides. These types *are* the JSON schema `iotrail.comparison/2` (`docs/formats.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const SCHEMA: &str = "iotrail.comparison/2";

/// Default equivalence band: a difference of at most this much counts as equivalent.
pub const EQUIVALENT_WITHIN: f64 = 0.05;

/// b compared with a, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// `iotrail.comparison/2`. Version 1 had `no_difference` for both `equivalent` and `inconclusive`.
    pub schema: String,
    /// Name of the metric, as in `--metric`. `cpu_per_io` is user, system and SQPOLL time in ns.
    pub metric: String,
    /// Parameters that have the same value on both sides.
    pub at: Map<String, Value>,
    /// The base side: an arm of a run, otherwise the name from the command line.
    pub a: String,
    /// The side that is compared with the base.
    pub b: String,
    /// Number of blocks in which both were measured. If `paired` is false: repeats of the side that has fewer.
    pub pairs: usize,
    /// True if both sides were measured in the same blocks; false if at different times.
    pub paired: bool,
    /// Measurements disturbed by other work.
    #[serde(default)]
    pub disturbed: Disturbed,
    /// Metric of b divided by metric of a; null: a side has no value.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; null: it has no interval.
    pub ci95: Option<[f64; 2]>,
    /// Difference between two arms with the same load, as a factor minus 1. Null without a control arm.
    pub noise_floor: Option<f64>,
    /// Difference that this number of repeats detects in 95 % of cases, as a factor minus 1.
    pub smallest_visible: Option<f64>,
    /// Probability of a difference this large or larger if the sides are equal. Null: no verdict is possible.
    #[serde(default)]
    pub p: Option<f64>,
    /// `p` adjusted for all comparisons tested together (Holm); the verdict uses it.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// Number of comparisons of the metric that were tested together, including this one.
    #[serde(default)]
    pub together: usize,
    /// Equivalence band, as a factor minus 1.
    #[serde(default)]
    pub equivalent_within: f64,
    /// Measurements needed to detect a difference of 10 % in 95 % of cases. Null: the spread is not known.
    #[serde(default)]
    pub to_show_10_percent: Option<Needed>,
    /// Verdict on b compared with a; faster is better in the metric's good direction.
    pub verdict: Verdict,
    /// Why the sides are not comparable, and other facts needed to read the verdict.
    pub reasons: Vec<String>,
}

/// Disturbed measurements of both sides. They are identified from the machine's state, never from the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbed {
    /// Measurements of both sides.
    pub measurements: usize,
    /// Disturbed measurements that were repeated.
    pub repeated: usize,
    /// Excluded pairs, or excluded measurements if the sides were measured at different times.
    pub left_out: usize,
    /// Disturbed pairs (or measurements) that were counted, because too few would remain without them.
    pub counted: usize,
}

/// Verdict on b compared with a, in the metric's good direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// b is better.
    Faster,
    /// b is worse.
    Slower,
    /// The interval is within `equivalent_within`.
    Equivalent,
    /// The interval is too wide for a verdict.
    #[serde(alias = "no_difference")]
    Inconclusive,
    /// The two sides measured different things.
    NotComparable,
}

/// Measurements needed for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    /// Number of pairs, or of repeats per side.
    pub repeats: usize,
    /// Time needed for them: in a run, for all cells with their pauses; otherwise, for both sides. Null: not known.
    pub seconds: Option<f64>,
}

impl Verdict {
    /// The name in the JSON, with spaces.
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
