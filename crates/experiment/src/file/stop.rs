//! `[stop]`: measure blocks until the intervals are narrow enough, or the maximum is reached.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::source::File;
use iotrail_base::error::Result;
use iotrail_base::units::Span;
use iotrail_schema::run_record::Stop;
use iotrail_stats::bootstrap::FEWEST;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table such as stop = { within = 0.05 }")]
pub(super) struct RawStop {
    /// Maximum relative half-width of the comparisons' intervals.
    within: Spanned<f64>,
    at_least: Option<Spanned<u32>>,
    at_most: Option<Spanned<u32>>,
    budget: Option<Spanned<toml::Value>>,
}

/// Minimum number of blocks if only `within` is set. With fewer, the spread is not known well enough.
const AT_LEAST: u32 = 5;
const AT_MOST: u32 = 50;

impl File<'_> {
    /// The maximum number of blocks, and the rule.
    pub(super) fn stop(&self, raw: &RawStop) -> Result<(u32, Stop)> {
        let within = *raw.within.get_ref();
        if !(within > 0.0 && within < 1.0) {
            return Err(self.refuse(raw.within.span(), "'within' must be above 0 and below 1; 0.02 means 2 %"));
        }
        let fewest = FEWEST as u32;
        let at_least = match &raw.at_least {
            Some(n) if *n.get_ref() < fewest => {
                return Err(self.refuse(
                    n.span(),
                    format!("'at-least' must be at least {fewest}: fewer blocks yield no interval"),
                ));
            }
            Some(n) => *n.get_ref(),
            None => AT_LEAST,
        };
        let at_most = raw.at_most.as_ref().map_or(at_least.max(AT_MOST), |n| *n.get_ref());
        if let Some(n) = raw.at_most.as_ref().filter(|_| at_most < at_least) {
            return Err(self.refuse(n.span(), format!("'at-most' is below 'at-least', {at_least}")));
        }
        let budget = match &raw.budget {
            None => None,
            Some(value) => match Span::deserialize(value.get_ref().clone()) {
                Ok(Span(time)) if time > Duration::ZERO => Some(time),
                Ok(_) => return Err(self.refuse(value.span(), "'budget' must be a time above 0")),
                Err(e) => return Err(self.refuse(value.span(), format!("'budget': {}", e.message()))),
            },
        };
        Ok((at_most, Stop { within, at_least, budget_s: budget.map(|b| b.as_secs_f64()) }))
    }
}
