//! A comparison of the run, together with its two cells.

use std::sync::LazyLock;

use serde_json::Map;

use crate::compare::{Metric, place};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::run_record::{CellRecord, RunRecord};

#[derive(Debug, Clone, Copy)]
pub struct Effect<'r> {
    pub c: &'r Comparison,
    /// The cells of the first arm and of the other arm.
    pub a: &'r CellRecord,
    pub b: &'r CellRecord,
}

/// Placeholder for unavailable cells.
static NONE: LazyLock<CellRecord> =
    LazyLock::new(|| CellRecord { cell: 0, params: Map::new(), untestable: None, measurements: Vec::new().into() });

impl<'r> Effect<'r> {
    /// For comparisons whose sides are not available.
    pub fn alone(c: &'r Comparison) -> Self {
        Effect { c, a: &NONE, b: &NONE }
    }

    pub fn differs(&self) -> bool {
        matches!(self.c.verdict, Verdict::Slower | Verdict::Faster)
    }

    /// Absolute logarithmic size, or 0 if no difference was detected.
    pub fn size(&self) -> f64 {
        match self.c.ratio {
            _ if !self.differs() => 0.0,
            Some(r) if r > 0.0 => r.ln().abs(),
            _ => f64::MAX,
        }
    }
}

/// An arm compared with the first arm, in every situation with both measured.
pub fn of_arm<'r>(run: &'r RunRecord, metric: Metric, arm: &str) -> Vec<Effect<'r>> {
    let of = |c: &'r Comparison| {
        let cell = |arm: &str| run.cells.iter().find(|cell| cell.arm() == arm && place(cell) == c.at);
        Some(Effect { c, a: cell(&c.a)?, b: cell(&c.b)? })
    };
    run.comparisons.iter().filter(|c| c.metric == metric.name() && c.b == arm).filter_map(of).collect()
}

/// The effects with the same direction as the strongest.
pub fn strongest<'r>(effects: &[Effect<'r>]) -> Vec<Effect<'r>> {
    let most = effects.iter().filter(|e| e.differs()).max_by(|a, b| a.size().total_cmp(&b.size()));
    let Some(most) = most else { return Vec::new() };
    effects.iter().filter(|e| e.c.verdict == most.c.verdict).copied().collect()
}
