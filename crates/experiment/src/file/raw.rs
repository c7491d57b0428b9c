//! The file's tables.

use serde::Deserialize;
use toml::{Spanned, Value};

use super::expectation::RawExpectation;
use super::stop::RawStop;
use super::values::{RawMatrix, RawOptions};
use crate::load::Kind;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Raw {
    pub name: Spanned<String>,
    pub title: String,
    pub question: String,
    pub expect: String,
    #[serde(default)]
    pub kind: Kind,
    pub table: Option<Spanned<String>>,
    /// Columns that replace those of the run's table.
    #[serde(default)]
    pub columns: Vec<Spanned<String>>,
    pub profile: Option<Spanned<bool>>,
    pub follow: Option<Spanned<u32>>,
    pub repeats: Option<Spanned<u32>>,
    pub stop: Option<Spanned<RawStop>>,
    #[serde(default)]
    pub metrics: Vec<Spanned<String>>,
    pub equivalent_within: Option<Spanned<f64>>,
    #[serde(default)]
    pub expectation: Vec<RawExpectation>,
    #[serde(default = "yes")]
    pub control: bool,
    pub seed: Option<u32>,
    pub size: Option<Spanned<Value>>,
    /// Path of a fio job file, whose options `[load]` overrides.
    pub fio: Option<Spanned<String>>,
    /// The matrix parameter whose values are the arms.
    pub compare: Option<Spanned<String>>,
    #[serde(default)]
    pub load: RawOptions,
    /// Host conditions for all cells.
    #[serde(default)]
    pub host: RawOptions,
    #[serde(default)]
    pub matrix: RawMatrix,
    #[serde(default)]
    pub variant: Vec<Spanned<RawOptions>>,
    #[serde(default)]
    pub arm: Vec<Spanned<RawOptions>>,
    pub quick: Option<RawQuick>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawQuick {
    pub repeats: Option<Spanned<u32>>,
    pub stop: Option<Spanned<RawStop>>,
    #[serde(default)]
    pub load: RawOptions,
    #[serde(default)]
    pub matrix: RawMatrix,
}

fn yes() -> bool {
    true
}
