//! What is said of two sides that were measured: this type *is* the JSON schema `iotrail.comparison/2` (`docs/formats.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const SCHEMA: &str = "iotrail.comparison/2";

/// What sides may differ by and still be equivalent, unless another band is asked for.
pub const EQUIVALENT_WITHIN: f64 = 0.05;

/// b against a, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// `iotrail.comparison/2`. Version 1 had `no_difference` for what is `equivalent` or `inconclusive` now.
    pub schema: String,
    /// What is compared, by its name: see `--metric`. `cpu_per_io` is user, system and SQPOLL time in ns.
    pub metric: String,
    /// The parameters that the two sides share, with their values.
    pub at: Map<String, Value>,
    /// The base side: an arm in a run, else as it was given.
    pub a: String,
    /// The side that is compared with it.
    pub b: String,
    /// Blocks in which both were measured. Where `paired` is false, the repeats of the side that has fewer.
    pub pairs: usize,
    /// Both sides were measured in the same blocks; false: apart.
    pub paired: bool,
    /// Measurements that other work disturbed.
    #[serde(default)]
    pub disturbed: Disturbed,
    /// The metric of b over that of a; null where a side has no number.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; null where there is none.
    pub ci95: Option<[f64; 2]>,
    /// How far the load differs from itself, as a factor less 1. Null without a control arm.
    pub noise_floor: Option<f64>,
    /// Difference that so many repeats would have shown in 95 % of cases, as a factor less 1.
    pub smallest_visible: Option<f64>,
    /// How often equal sides would seem to differ as much, or more. Null where there is no verdict to be had.
    #[serde(default)]
    pub p: Option<f64>,
    /// `p` with all comparisons made together in mind (Holm's): the verdict is by it.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// How many comparisons of the metric were made together, this one among them.
    #[serde(default)]
    pub together: usize,
    /// The band of equivalence, as a factor less 1.
    #[serde(default)]
    pub equivalent_within: f64,
    /// What would show a difference of 10 % in 95 % of cases. Null where no spread is known.
    #[serde(default)]
    pub to_show_10_percent: Option<Needed>,
    /// Of b against a, in the metric's good direction.
    pub verdict: Verdict,
    /// Why it is not comparable, and what else has to be known.
    pub reasons: Vec<String>,
}

/// Measurements of both sides that others disturbed, by what they saw of the machine: never by their result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbed {
    /// All that both sides have.
    pub measurements: usize,
    /// Measured again, since others disturbed them.
    pub repeated: usize,
    /// Pairs that were left out; of sides that were measured apart, measurements.
    pub left_out: usize,
    /// Disturbed and counted, since too few were left without them.
    pub counted: usize,
}

/// Of b against a, in the metric's good direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// b is better.
    Faster,
    /// b is worse.
    Slower,
    /// The interval lies within `equivalent_within`.
    Equivalent,
    /// The interval is too wide to call.
    #[serde(alias = "no_difference")]
    Inconclusive,
    /// The two sides measured different things.
    NotComparable,
}

/// Measurements that would be needed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    /// Pairs, or repeats of each side.
    pub repeats: usize,
    /// Time of both sides, one after the other. Null where it is not known.
    pub seconds: Option<f64>,
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
