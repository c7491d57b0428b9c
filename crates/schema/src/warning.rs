//! Conditions that put numbers in doubt.

use serde::{Deserialize, Serialize};

/// A warning includes advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable name: `sender_bound`.
    pub code: String,
    /// Its effect on the numbers.
    pub text: String,
    /// How to correct it.
    pub remedy: String,
}

impl Warning {
    pub fn new(code: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into(), remedy: remedy.into() }
    }
}
