//! What stands out in what was watched.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::account::Bound;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Explains.
    Note,
    /// Costs something that could be had back.
    Warning,
}

impl Severity {
    /// A warning where `it_costs`, else a note.
    pub fn warning_if(it_costs: bool) -> Self {
        if it_costs { Severity::Warning } else { Severity::Note }
    }
}

/// A diagnosis, with its evidence and what would change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, as in the table of findings.
    pub code: String,
    /// Whether it costs something.
    pub severity: Severity,
    /// The sentence.
    pub text: String,
    /// Figures that the sentence rests on, units in the names.
    pub evidence: BTreeMap<String, f64>,
    /// What would change it, and why.
    pub remedy: String,
    /// The ring it is about; null: the whole program.
    pub ring: Option<u32>,
    /// The most that removing its cause could save; null: not known, or no matter of time.
    #[serde(default)]
    pub bound: Option<Bound>,
}

impl Finding {
    /// About everything that was watched. `evidence`: the numbers that the sentence rests on, units in their names.
    /// `remedy`: empty where there is nothing to be done.
    pub fn new(code: &str, severity: Severity, text: String, remedy: &str, evidence: &[(&str, f64)]) -> Self {
        let evidence = evidence.iter().map(|(name, x)| ((*name).to_owned(), *x)).collect();
        Self { code: code.into(), severity, text, evidence, remedy: remedy.into(), ring: None, bound: None }
    }

    /// It costs something that could be had back, or puts the numbers in doubt; a note only explains.
    pub fn warns(&self) -> bool {
        self.severity == Severity::Warning
    }
}
