//! A history's result in words, for terminals and HTML pages.

use iotrail_base::distinct::distinct;
use iotrail_base::words::{plural, three_digits};
use iotrail_schema::run_record::value_text;

use super::{Change, FEWEST, History, Series};
use crate::compare::Metric;
use crate::summary::of_figure;
use crate::verdicts::factor;

/// Maximum number of metrics named in the answer.
const NAMED: usize = 3;

impl History {
    /// Each series' latest change; `all`: every change.
    pub fn shown(&self, all: bool) -> Vec<(&Series, &Change)> {
        let each = self.series.iter().flat_map(|s| s.changes.iter().map(move |c| (s, c)));
        each.filter(|(_, c)| all || c.is_latest).collect()
    }

    /// The worst of the latest changes; without changes, a statement of that with the number of series.
    pub fn answer(&self) -> String {
        let size = |c: &Change| c.ratio.ln().abs();
        let latest = self.shown(false);
        let worst =
            latest.iter().max_by(|(_, a), (_, b)| a.is_worse.cmp(&b.is_worse).then(size(a).total_cmp(&size(b))));
        let Some((series, change)) = worst else { return self.unchanged() };
        let by = match series.metric.parse::<Metric>() {
            Ok(metric) => of_figure(metric, self.unit, change.ratio, change.ci95),
            Err(_) => format!("×{} of {}", three_digits(change.ratio), series.metric),
        };
        let at = self.at(series);
        let at = if at.is_empty() { at } else { format!(", at {at}") };
        let disturbed = match change.disturbed_before + change.disturbed_since {
            0 => String::new(),
            _ => format!(
                "; other work disturbed {} of the {} since, {} of the {} before",
                change.disturbed_since,
                plural(change.runs_since, "run"),
                change.disturbed_before,
                change.runs_before
            ),
        };
        let others = latest.iter().filter(|(_, c)| c.run == change.run).count() - 1;
        let others = match others {
            0 => String::new(),
            n => format!(" ({} changed with it)", plural(n, "other figure")),
        };
        format!("{}: {by} since run {} of {}{at}{others}{disturbed}", self.experiment, change.run, day(&change.started))
    }

    fn unchanged(&self) -> String {
        let over = match &self.runs[..] {
            [first, .., last] => format!("{} ({} to {})", plural(self.runs.len(), "run"), first.run, last.run),
            one => plural(one.len(), "run"),
        };
        let most = self.longest();
        let over = match most < self.runs.len() {
            true => format!("{most} of {over} in the longest series"),
            false => over,
        };
        match most < FEWEST {
            true => {
                format!("{}: too few runs to detect a change: {over}; at least {FEWEST} are needed", self.experiment)
            }
            false => format!("{}: no change over {over}; {}", self.experiment, self.would_have_shown()),
        }
    }

    /// The number of runs in the longest series.
    pub fn longest(&self) -> usize {
        self.series.iter().map(|s| s.points.len()).max().unwrap_or(0)
    }

    /// Series in which no change can be detected, if there are others: `too few runs to detect a change in 2 of 4 series
    /// (at least 6 are needed): command ./server (4 runs)`.
    pub fn too_few(&self) -> Option<String> {
        let short: Vec<&Series> = self.series.iter().filter(|s| s.points.len() < FEWEST).collect();
        if short.is_empty() || self.longest() < FEWEST {
            return None;
        }
        let names = distinct(short.iter().map(|s| {
            let at = self.at(s);
            format!("{} ({})", if at.is_empty() { &s.metric } else { &at }, plural(s.points.len(), "run"))
        }));
        let more = names.len().saturating_sub(NAMED);
        let mut named = names;
        named.truncate(NAMED);
        named.extend((more > 0).then(|| format!("{more} more")));
        Some(format!(
            "too few runs to detect a change in {} of {} series (at least {FEWEST} are needed): {}",
            short.len(),
            self.series.len(),
            named.join("; ")
        ))
    }

    /// `iops: minimum detectable effect ±3.1 %; latency_p99: ±8.0 % to ±12 %, in 4 series`
    fn would_have_shown(&self) -> String {
        let names = distinct(self.series.iter().map(|series| series.metric.as_str()));
        let one = |name: &&str| {
            let of = self.series.iter().filter(|s| s.metric == *name);
            let mut visible: Vec<f64> = of.filter_map(|s| s.smallest_visible).collect();
            visible.sort_by(f64::total_cmp);
            let several = if visible.len() > 1 { format!(" in {} series", visible.len()) } else { String::new() };
            match visible[..] {
                [] => format!("{name}: too few runs"),
                [least, .., most] if factor(least) != factor(most) => {
                    format!("{name}{several}: minimum detectable effect {} to {}", factor(least), factor(most))
                }
                [one, ..] => format!("{name}{several}: minimum detectable effect {}", factor(one)),
            }
        };
        let more = names.len().saturating_sub(NAMED);
        let mut said: Vec<String> = names.iter().take(NAMED).map(one).collect();
        said.extend((more > 0).then(|| format!("{} more", plural(more, "metric"))));
        said.join("; ")
    }

    /// The series' name: `depth 16 · arm coop`. Includes its host, form and command if several occur.
    pub fn at(&self, series: &Series) -> String {
        let differs = |f: &dyn Fn(&Series) -> bool| self.series.iter().any(f);
        let host = differs(&|s| s.hostname != series.hostname).then(|| format!("host {}", series.hostname));
        let form =
            differs(&|s| s.quick != series.quick).then_some(if series.quick { "quick form" } else { "full form" });
        let command =
            series.command.as_ref().filter(|_| differs(&|s| s.at == series.at && s.command != series.command));
        let command = command.map(|argv| format!("command {argv}"));
        let params = series.at.iter().map(|(name, value)| format!("{name} {}", value_text(value)));
        params.chain(host).chain(form.map(str::to_owned)).chain(command).collect::<Vec<_>>().join(" · ")
    }
}

/// Facts that changed with the first run of the new level, for changes that start at the same run.
pub fn with<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    let changes: Vec<&Change> = changes.into_iter().collect();
    // The runs before the changes may differ.
    let mut with: Vec<String> = changes.iter().flat_map(|c| c.with.iter().cloned()).collect();
    with.sort_unstable();
    with.dedup();
    let disturbed = changes.iter().filter(|c| c.disturbed_before + c.disturbed_since > 0);
    let disturbed =
        distinct(disturbed.map(|c| {
            format!("{} of {} → {} of {}", c.disturbed_before, c.runs_before, c.disturbed_since, c.runs_since)
        }));
    if !disturbed.is_empty() {
        let by_figure = if disturbed.len() > 1 { ", by figure" } else { "" };
        with.push(format!("runs that other work disturbed{by_figure}: {}", disturbed.join(", ")));
    }
    match with.is_empty() {
        true => "no recorded difference: host, kernel, target and options are the same".into(),
        false => with.join("; "),
    }
}

/// `2026-03-01` from `2026-03-01 12:00:00`.
pub fn day(started: &str) -> &str {
    started.split(' ').next().unwrap_or(started)
}
