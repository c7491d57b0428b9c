//! `[[expectation]]`: expected results of the comparisons, checked after the run.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::source::File;
use super::stated::Axis;
use super::values::to_json;
use iotrail_answer::compare::Metric;
use iotrail_base::error::Result;
use iotrail_schema::run_record::{ARM, Expectation, Expected};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawExpectation {
    metric: Spanned<String>,
    arm: Spanned<String>,
    #[serde(default)]
    at: BTreeMap<Spanned<String>, Spanned<Value>>,
    is: Spanned<Expected>,
    /// Minimum ratio of the arm to the first arm.
    at_least: Option<Spanned<f64>>,
    at_most: Option<Spanned<f64>>,
}

impl File<'_> {
    /// `axes`: all axes of the experiment; the arm axis is last.
    pub(super) fn expectation(&self, raw: &RawExpectation, axes: &[Axis]) -> Result<Expectation> {
        let metric: Metric =
            raw.metric.get_ref().parse().map_err(|e| self.refuse(raw.metric.span(), format!("'metric': {e}")))?;
        let arms: Vec<&str> = axes
            .iter()
            .filter(|a| a.name == ARM)
            .flat_map(|a| &a.points)
            .skip(1)
            .filter_map(|p| p.value.as_str())
            .collect();
        if !arms.contains(&raw.arm.get_ref().as_str()) {
            let what = format!("no compared arm is named '{}': the arms are {}", raw.arm.get_ref(), arms.join(", "));
            return Err(self.refuse(raw.arm.span(), what));
        }
        let mut at = serde_json::Map::new();
        for (name, value) in &raw.at {
            let Some(axis) = axes.iter().find(|a| a.name == *name.get_ref() && a.name != ARM) else {
                return Err(self.refuse(name.span(), format!("'{}' is not a parameter under [matrix]", name.get_ref())));
            };
            if !axis.points.iter().any(|p| p.value == *value.get_ref()) {
                let what = format!("{} is not among the values of '{}'", value.get_ref(), name.get_ref());
                return Err(self.refuse(value.span(), what));
            }
            at.insert(name.get_ref().clone(), to_json(value.get_ref()));
        }
        let ratio = |raw: &Option<Spanned<f64>>| match raw {
            Some(x) if !(*x.get_ref() > 0.0 && x.get_ref().is_finite()) => {
                Err(self.refuse(x.span(), "a ratio must be above 0"))
            }
            x => Ok(x.as_ref().map(|x| *x.get_ref())),
        };
        Ok(Expectation {
            metric: metric.to_string(),
            arm: raw.arm.get_ref().clone(),
            at,
            is: *raw.is.get_ref(),
            at_least: ratio(&raw.at_least)?,
            at_most: ratio(&raw.at_most)?,
        })
    }
}
