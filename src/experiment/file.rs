//! The experiment file: TOML → [`Experiment`], everything that can be refused from the text alone refused with line and column.
//!
//! Load options have the names they have on `bench`'s command line. Their values are checked one by one, where they stand,
//! so that a wrong one is pointed at; how they go together is for the plan, which knows the host.

use std::collections::BTreeMap;
use std::ops::Range;

use clap::Args as _;
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::error::{Error, Result};
use crate::load::options::{Bytes, LoadOptions};
use crate::run_record::{ARM, Table, VARIANT};

/// Cells times repeats; beyond it a file is a slip of the pen and its plan would not fit in memory.
pub const MOST_MEASUREMENTS: usize = 100_000;

/// An experiment as its file states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub title: String,
    pub question: String,
    pub expect: String,
    pub table: Table,
    /// The CPUs are sampled in every cell.
    pub profile: bool,
    /// One of io_uring's requests in so many is followed whole in every cell.
    pub follow: Option<u32>,
    pub seed: Option<u32>,
    /// Of the target that is made when none is given.
    pub size: Option<Bytes>,
    pub full: Scale,
    /// What `--quick` runs; null: the file has no quick form.
    pub quick: Option<Scale>,
}

/// One size of the experiment: the whole, or the quick one.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    pub repeats: u32,
    /// Options that hold in every cell.
    pub load: Options,
    /// In the order of the file; the arms' axis is the last one, so that arms stand beside each other.
    pub axes: Vec<Axis>,
}

/// Option name → value. The names are `bench`'s without the dashes in front.
pub type Options = toml::Table;

/// A parameter and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub name: String,
    pub points: Vec<Point>,
}

/// One value of a parameter: what it is called, and the options it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub value: Value,
    pub options: Options,
}

type RawOptions = BTreeMap<Spanned<String>, Spanned<Value>>;
type RawMatrix = BTreeMap<Spanned<String>, Spanned<Vec<Spanned<Value>>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: Spanned<String>,
    title: String,
    question: String,
    expect: String,
    #[serde(default = "delivery")]
    table: Table,
    #[serde(default)]
    profile: bool,
    follow: Option<Spanned<u32>>,
    repeats: Spanned<u32>,
    seed: Option<u32>,
    size: Option<Spanned<Value>>,
    /// The matrix parameter whose values are the arms.
    compare: Option<Spanned<String>>,
    #[serde(default)]
    load: RawOptions,
    #[serde(default)]
    matrix: RawMatrix,
    #[serde(default)]
    variant: Vec<Spanned<RawOptions>>,
    #[serde(default)]
    arm: Vec<Spanned<RawOptions>>,
    quick: Option<RawQuick>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawQuick {
    repeats: Option<Spanned<u32>>,
    #[serde(default)]
    load: RawOptions,
    #[serde(default)]
    matrix: RawMatrix,
}

fn delivery() -> Table {
    Table::Delivery
}

/// Reads an experiment; `origin` is the file's name in messages.
pub fn parse(text: &str, origin: &str) -> Result<Experiment> {
    let file = File { text, origin };
    let raw: Raw = toml::from_str(text).map_err(|e| file.refuse(e.span().unwrap_or(0..0), e.message()))?;
    file.experiment(raw)
}

/// The text that spans point into.
struct File<'a> {
    text: &'a str,
    origin: &'a str,
}

impl File<'_> {
    fn refuse(&self, at: Range<usize>, what: impl std::fmt::Display) -> Error {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Error::input(
            format!("{}:{line}:{column}: {what}", self.origin),
            "docs/formats.md describes the experiment file, `iotrail bench --help` the load's options",
        )
    }

    fn experiment(&self, raw: Raw) -> Result<Experiment> {
        let name = raw.name.get_ref();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(self.refuse(raw.name.span(), "a name is made of letters, digits, '-' and '_'"));
        }
        let size = raw.size.as_ref().map(|s| self.size(s)).transpose()?;
        let load = self.options(&raw.load, &[])?;
        let matrix = self.matrix(&raw.matrix)?;
        for (axis, at) in &matrix {
            if load.contains_key(&axis.name) {
                return Err(
                    self.refuse(at.clone(), format!("'{}' is fixed under [load] and varied under [matrix]", axis.name))
                );
            }
        }
        let variants = self.named("variant", VARIANT, &raw.variant, &load, &matrix)?;
        let axes = self.with_arms(&raw, matrix, variants, &load)?;
        let full = Scale { repeats: self.at_least_1("repeats", &raw.repeats)?, load, axes };
        let quick = raw.quick.as_ref().map(|q| self.quick(q, &full)).transpose()?;
        for scale in [Some(&full), quick.as_ref()].into_iter().flatten() {
            let cells = scale.axes.iter().try_fold(scale.repeats as usize, |n, a| n.checked_mul(a.points.len()));
            if cells.is_none_or(|n| n > MOST_MEASUREMENTS) {
                return Err(self.refuse(
                    raw.repeats.span(),
                    format!("the parameters and repeats make more than {MOST_MEASUREMENTS} measurements"),
                ));
            }
        }
        Ok(Experiment {
            name: name.clone(),
            title: raw.title,
            question: raw.question,
            expect: raw.expect,
            table: raw.table,
            profile: raw.profile,
            follow: raw.follow.as_ref().map(|n| self.at_least_1("follow", n)).transpose()?,
            seed: raw.seed,
            size,
            full,
            quick,
        })
    }

    fn at_least_1(&self, key: &str, n: &Spanned<u32>) -> Result<u32> {
        match n.get_ref() {
            0 => Err(self.refuse(n.span(), format!("'{key}' is at least 1"))),
            n => Ok(*n),
        }
    }

    fn size(&self, value: &Spanned<Value>) -> Result<Bytes> {
        Bytes::deserialize(value.get_ref().clone())
            .map_err(|e| self.refuse(value.span(), format!("'size': {}", e.message())))
    }

    /// Checks each option where it stands; `skip` are keys that are no options.
    fn options(&self, raw: &RawOptions, skip: &[&str]) -> Result<Options> {
        let mut out = Options::new();
        for (key, value) in raw.iter().filter(|(k, _)| !skip.contains(&k.get_ref().as_str())) {
            self.option(key, value)?;
            out.insert(key.get_ref().clone(), value.get_ref().clone());
        }
        Ok(out)
    }

    fn option(&self, key: &Spanned<String>, value: &Spanned<Value>) -> Result<()> {
        let name = key.get_ref();
        let known = option_names();
        if !known.contains(name) {
            return Err(
                self.refuse(key.span(), format!("no load option is called '{name}': there are {}", known.join(", ")))
            );
        }
        let alone = Value::Table([(name.clone(), value.get_ref().clone())].into_iter().collect());
        match LoadOptions::deserialize(alone) {
            Ok(_) => Ok(()),
            Err(e) => {
                Err(self.refuse(value.span(), format!("'{name}' does not take {}: {}", value.get_ref(), e.message())))
            }
        }
    }

    /// The matrix's axes in the order of the file, with the place of each name.
    fn matrix(&self, raw: &RawMatrix) -> Result<Vec<(Axis, Range<usize>)>> {
        let mut axes = Vec::new();
        for (key, values) in raw {
            if values.get_ref().is_empty() {
                return Err(self.refuse(values.span(), format!("'{}' has no values", key.get_ref())));
            }
            let mut points: Vec<Point> = Vec::new();
            for value in values.get_ref() {
                self.option(key, value)?;
                if points.iter().any(|p| p.value == *value.get_ref()) {
                    return Err(self.refuse(value.span(), format!("{} stands twice among the values", value.get_ref())));
                }
                let options = [(key.get_ref().clone(), value.get_ref().clone())].into_iter().collect();
                points.push(Point { value: value.get_ref().clone(), options });
            }
            axes.push((Axis { name: key.get_ref().clone(), points }, key.span()));
        }
        axes.sort_by_key(|(_, at)| at.start);
        Ok(axes)
    }

    /// `[[arm]]` or `[[variant]]`: named sets of options. Their sets have to differ once the defaults are filled in.
    fn named(
        &self,
        what: &str,
        axis: &str,
        raw: &[Spanned<RawOptions>],
        load: &Options,
        matrix: &[(Axis, Range<usize>)],
    ) -> Result<Option<Axis>> {
        let mut points: Vec<Point> = Vec::new();
        for entry in raw {
            let fields = entry.get_ref();
            let Some(name) = fields.get("name") else {
                return Err(self.refuse(entry.span(), format!("this [[{what}]] has no name")));
            };
            if name.get_ref().as_str().is_none_or(str::is_empty) {
                return Err(self.refuse(name.span(), "a name is a text that is not empty"));
            }
            if points.iter().any(|p| p.value == *name.get_ref()) {
                return Err(self.refuse(name.span(), format!("two of [[{what}]] are called {}", name.get_ref())));
            }
            for key in fields.keys() {
                if matrix.iter().any(|(a, _)| a.name == *key.get_ref()) {
                    return Err(self.refuse(
                        key.span(),
                        format!("'{}' is set by a [[{what}]] and varied under [matrix]", key.get_ref()),
                    ));
                }
            }
            let options = self.options(fields, &["name"])?;
            // What does not go together is refused by the plan, with the reason.
            let this = resolved(load, &options);
            let same = |p: &&Point| this.is_some() && resolved(load, &p.options) == this;
            if let Some(twin) = points.iter().find(same) {
                return Err(self.refuse(
                    entry.span(),
                    format!(
                        "[[{what}]] {} does not differ from {}: all options are the same",
                        name.get_ref(),
                        twin.value
                    ),
                ));
            }
            points.push(Point { value: name.get_ref().clone(), options });
        }
        Ok((!points.is_empty()).then(|| Axis { name: axis.into(), points }))
    }

    /// Puts the axis of the arms last, whichever way they are given.
    fn with_arms(
        &self,
        raw: &Raw,
        matrix: Vec<(Axis, Range<usize>)>,
        variants: Option<Axis>,
        load: &Options,
    ) -> Result<Vec<Axis>> {
        let named_arms = self.named("arm", ARM, &raw.arm, load, &matrix)?;
        if let Some(arms) = &named_arms {
            for entry in &raw.arm {
                for key in entry.get_ref().keys().filter(|k| k.get_ref() != "name") {
                    let set = |p: &Point| p.options.contains_key(key.get_ref());
                    if variants.as_ref().is_some_and(|v| v.points.iter().any(set)) {
                        return Err(self.refuse(
                            key.span(),
                            format!("'{}' is set by an [[arm]] and by a [[variant]]", key.get_ref()),
                        ));
                    }
                }
            }
            if arms.points.len() == 1 {
                return Err(self.refuse(raw.arm[0].span(), "one [[arm]] alone has nothing to be compared with"));
            }
        }
        let mut axes: Vec<Axis> = variants.into_iter().chain(matrix.into_iter().map(|(a, _)| a)).collect();
        let arms = match (&raw.compare, named_arms) {
            (Some(compare), None) => {
                let Some(i) = axes.iter().position(|a| a.name == *compare.get_ref()) else {
                    return Err(self.refuse(
                        compare.span(),
                        format!("'compare' names no parameter of [matrix] and not 'variant': '{}'", compare.get_ref()),
                    ));
                };
                if axes[i].points.len() == 1 {
                    return Err(self.refuse(compare.span(), format!("'{}' has one value: no arms", compare.get_ref())));
                }
                let axis = axes.remove(i);
                let named = |p: Point| Point { value: Value::String(arm_name(&p.value)), ..p };
                Axis { name: ARM.into(), points: axis.points.into_iter().map(named).collect() }
            }
            (None, Some(arms)) => arms,
            (Some(compare), Some(_)) => {
                return Err(self.refuse(compare.span(), "'compare' and [[arm]] both say what is compared: keep one"));
            }
            (None, None) => {
                return Err(self.refuse(
                    raw.name.span(),
                    "nothing says what is compared: add two or more [[arm]], or 'compare' with a parameter's name",
                ));
            }
        };
        axes.push(arms);
        Ok(axes)
    }

    fn quick(&self, raw: &RawQuick, full: &Scale) -> Result<Scale> {
        let mut scale = full.clone();
        if let Some(n) = &raw.repeats {
            scale.repeats = self.at_least_1("repeats", n)?;
        }
        for (key, value) in &raw.load {
            self.option(key, value)?;
            if full.axes.iter().any(|a| a.points.iter().any(|p| p.options.contains_key(key.get_ref()))) {
                return Err(self.refuse(
                    key.span(),
                    format!("'{}' is a parameter: restrict it under [quick.matrix]", key.get_ref()),
                ));
            }
            // A run ends by time or by number: the quick form's choice takes the other's place.
            match key.get_ref().as_str() {
                "runtime" => scale.load.remove("count"),
                "count" => scale.load.remove("runtime"),
                _ => None,
            };
            scale.load.insert(key.get_ref().clone(), value.get_ref().clone());
        }
        for (axis, at) in self.matrix(&raw.matrix)? {
            let Some(place) = scale.axes.iter_mut().find(|a| a.name == axis.name) else {
                return Err(self.refuse(at, format!("'{}' is not varied under [matrix]", axis.name)));
            };
            *place = axis;
        }
        Ok(scale)
    }
}

fn arm_name(value: &Value) -> String {
    match value {
        Value::String(s) if s.is_empty() => "none".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// Names of the load's options, from the one place that defines them.
fn option_names() -> Vec<String> {
    LoadOptions::augment_args(clap::Command::new("load"))
        .get_arguments()
        .filter_map(|a| a.get_long().map(str::to_owned))
        .collect()
}

/// Options as the load will see them: `base`, then `over`, defaults where neither speaks. `None` where they don't go together.
fn resolved(base: &Options, over: &Options) -> Option<LoadOptions> {
    let merged: Options = base.iter().chain(over).map(|(k, v)| (k.clone(), v.clone())).collect();
    load_options(merged).ok()
}

/// Options → what the load takes.
pub fn load_options(options: Options) -> std::result::Result<LoadOptions, String> {
    if options.contains_key("runtime") && options.contains_key("count") {
        return Err("'runtime' and 'count' exclude each other: a load ends by time or by number of I/Os".into());
    }
    if options.get("direct") == Some(&Value::Boolean(true)) && options.get("buffered") == Some(&Value::Boolean(true)) {
        return Err("'direct' and 'buffered' exclude each other".into());
    }
    LoadOptions::deserialize(Value::Table(options)).map_err(|e| e.message().to_owned())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
