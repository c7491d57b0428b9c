//! Findings: faults and costs that iotrail found in a trace or a measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::account::Bound;
use crate::stacks::CallSite;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Explains, without a cost.
    Note,
    /// Has a cost that can be saved.
    Warning,
}

impl Severity {
    /// A warning if `it_costs`, otherwise a note.
    pub fn warning_if(it_costs: bool) -> Self {
        if it_costs { Severity::Warning } else { Severity::Note }
    }
}

/// A diagnosis with its evidence and its remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, as in the list of findings.
    pub code: String,
    /// Whether the finding has a cost.
    pub severity: Severity,
    /// The text.
    pub text: String,
    /// Numbers on which the text is based; units are in the names.
    pub evidence: BTreeMap<String, f64>,
    /// The change that removes the cause, and why.
    pub remedy: String,
    /// The ring concerned; null: the whole program.
    pub ring: Option<u32>,
    /// Upper bound of what removing the cause saves; null: not known, or not a matter of time.
    #[serde(default)]
    pub bound: Option<Bound>,
    /// Call sites that cause it, the largest share first; empty: none, or no stacks were sampled.
    #[serde(default)]
    pub from: Vec<CallSite>,
}

impl Finding {
    /// A finding about the complete trace. `evidence`: the numbers on which the text is based, with units in their
    /// names.
    /// `remedy`: empty if no change is needed.
    pub fn new(code: &str, severity: Severity, text: String, remedy: &str, evidence: &[(&str, f64)]) -> Self {
        let evidence = evidence.iter().map(|(name, x)| ((*name).to_owned(), *x)).collect();
        Self {
            code: code.into(),
            severity,
            text,
            evidence,
            remedy: remedy.into(),
            ring: None,
            bound: None,
            from: vec![],
        }
    }

    /// It has a cost that can be saved, or it puts the numbers in doubt; a note only explains.
    pub fn warns(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// The metrics of the text, without its ring, cause, explanation and basis.
    pub fn headline(&self) -> &str {
        let text =
            self.text.strip_prefix("ring ").and_then(|text| Some(text.split_once(": ")?.1)).unwrap_or(&self.text);
        let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
        let metrics = sentence.split_once(": ").filter(|(head, _)| head.contains(|c: char| c.is_ascii_digit()));
        metrics.map_or(sentence, |(head, _)| head)
    }
}
