//! Parses an experiment file: TOML → [`Experiment`]. Errors include line and column.
//!
//! Load options are named as on the command line of `bench` or `net bench`. Each value is checked individually at its
//! position; the plan, which knows the host, checks combinations.

mod axes;
mod expectation;
mod options;
mod raw;
mod single;
mod source;
mod stated;
mod stop;
mod values;

use toml::Spanned;

pub use self::options::{Settled, settled};
use self::raw::{Raw, RawQuick};
use self::source::File;
pub use self::source::LONGEST;
pub use self::stated::{Axis, Experiment, Point, Scale};
use self::stop::RawStop;
pub use self::values::{Options, overlay, to_json};
use super::load::{Kind, Load};
use iotrail_answer::compare::Metric;
use iotrail_base::error::Result;
use iotrail_schema::run_record::{Stop, VARIANT};

/// Maximum product of cells and repeats. A larger plan is probably a typing error and would not fit into memory.
pub const MOST_MEASUREMENTS: usize = 100_000;

/// Parses an experiment. `origin`: the file's name in messages; paths in the file are relative to its directory.
pub fn parse(text: &str, origin: &str) -> Result<Experiment> {
    let file = File { text, origin, kind: Kind::default() };
    let raw: Raw = toml::from_str(text).map_err(|e| match missing(text) {
        // Serde reports only the first one.
        keys if e.message().starts_with("missing field") && keys.len() > 1 => {
            file.refuse(0..0, format!("missing keys: {}", keys.join(", ")))
        }
        _ => file.refuse(e.span().unwrap_or(0..0), e.message()),
    })?;
    File { kind: raw.kind, ..file }.experiment(raw)
}

/// Required keys that the file lacks.
fn missing(text: &str) -> Vec<&'static str> {
    let keys: toml::Table = text.parse().unwrap_or_default();
    ["name", "title", "question", "expect"].into_iter().filter(|key| !keys.contains_key(*key)).collect()
}

impl File<'_> {
    fn experiment(&self, raw: Raw) -> Result<Experiment> {
        let name = raw.name.get_ref();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(self.refuse(raw.name.span(), "a name consists of letters, digits, '-' and '_'"));
        }
        self.of_storage_alone(&raw)?;
        let size = raw.size.as_ref().map(|s| self.size(s)).transpose()?;
        let (mut load, unmapped) = raw.fio.as_ref().map(|path| self.fio(path)).transpose()?.unwrap_or_default();
        let own = self.fixed(&raw.load, &raw.host)?;
        let matrix = self.matrix(&raw.matrix)?;
        for (axis, at) in &matrix {
            if own.contains_key(&axis.name) {
                return Err(
                    self.refuse(at.clone(), format!("'{}' is fixed under [load] and varied under [matrix]", axis.name))
                );
            }
        }
        overlay(&mut load, &own);
        // From here on, the program's own metrics can be referenced.
        if let Ok(Load::Program(program)) = settled(self.kind, load.clone()).map(|s| s.load) {
            program.metrics.iter().for_each(|m| _ = Metric::own(&m.name, m.less_is_better));
        }
        let variants = self.named("variant", VARIANT, &raw.variant, &load, &matrix)?;
        let axes = self.with_arms(&raw, matrix, variants, &load)?;
        let length = self.length(raw.repeats.as_ref(), raw.stop.as_ref(), "stop")?;
        let (repeats, stop) = length
            .ok_or_else(|| self.refuse(raw.name.span(), "the number of blocks is missing: add 'repeats' or [stop]"))?;
        let expectations = raw.expectation.iter().map(|e| self.expectation(e, &axes)).collect::<Result<_>>()?;
        let full = Scale { repeats, stop, load, axes };
        let quick = raw.quick.as_ref().map(|q| self.quick(q, &full)).transpose()?;
        for scale in [Some(&full), quick.as_ref()].into_iter().flatten() {
            let cells = scale.axes.iter().try_fold(scale.repeats as usize, |n, a| n.checked_mul(a.points.len()));
            if cells.is_none_or(|n| n > MOST_MEASUREMENTS) {
                let at = raw.repeats.as_ref().map(Spanned::span).or(raw.stop.as_ref().map(Spanned::span));
                return Err(self.refuse(
                    at.unwrap_or(0..0),
                    format!("the parameters and repeats result in more than {MOST_MEASUREMENTS} measurements"),
                ));
            }
        }
        Ok(Experiment {
            name: name.clone(),
            title: raw.title,
            question: raw.question,
            expect: raw.expect,
            kind: raw.kind,
            table: self.table(raw.table.as_ref())?,
            columns: raw.columns.iter().map(|c| self.column(c)).collect::<Result<_>>()?,
            profile: raw.profile.is_some_and(|p| *p.get_ref()),
            follow: raw.follow.as_ref().map(|n| self.at_least_1("follow", n)).transpose()?,
            metrics: raw.metrics.iter().map(|m| self.metric(m)).collect::<Result<_>>()?,
            equivalent_within: raw.equivalent_within.as_ref().map(|x| self.band(x)).transpose()?,
            expectations,
            control: raw.control,
            unmapped,
            seed: raw.seed,
            size,
            full,
            quick,
        })
    }

    /// Parses `repeats` or the table `name` into the maximum number of blocks and the rule. `None` if both are missing.
    fn length(
        &self,
        repeats: Option<&Spanned<u32>>,
        stop: Option<&Spanned<RawStop>>,
        name: &str,
    ) -> Result<Option<(u32, Option<Stop>)>> {
        match (repeats, stop) {
            (Some(n), None) => Ok(Some((self.at_least_1("repeats", n)?, None))),
            (None, Some(stop)) => self.stop(stop.get_ref()).map(|(n, stop)| Some((n, Some(stop)))),
            (Some(n), Some(_)) => {
                let what = format!("'repeats' and [{name}] both define the number of blocks: keep only one");
                Err(self.refuse(n.span(), what))
            }
            (None, None) => Ok(None),
        }
    }

    fn quick(&self, raw: &RawQuick, full: &Scale) -> Result<Scale> {
        let mut scale = full.clone();
        if let Some(length) = self.length(raw.repeats.as_ref(), raw.stop.as_ref(), "quick.stop")? {
            (scale.repeats, scale.stop) = length;
        }
        for key in raw.load.keys() {
            if full.axes.iter().any(|a| a.points.iter().any(|p| p.options.contains_key(key.get_ref()))) {
                return Err(self.refuse(
                    key.span(),
                    format!("'{}' is a parameter: restrict it under [quick.matrix]", key.get_ref()),
                ));
            }
        }
        overlay(&mut scale.load, &self.options(&raw.load, &[])?);
        for (axis, at) in self.matrix(&raw.matrix)? {
            let Some(place) = scale.axes.iter_mut().find(|a| a.name == axis.name) else {
                return Err(self.refuse(at, format!("'{}' is not a parameter under [matrix]", axis.name)));
            };
            *place = axis;
        }
        Ok(scale)
    }
}

#[cfg(test)]
mod tests;
