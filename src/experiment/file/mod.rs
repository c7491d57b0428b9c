//! The experiment file: TOML → [`Experiment`], everything that can be refused from the text alone refused with line and column.
//!
//! Load options have the names they have on the command line of `bench` or `net bench`. Their values are checked one by one, where they stand,
//! so that a wrong one is pointed at; how they go together is for the plan, which knows the host.

mod expectation;
mod options;
mod stop;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::{Spanned, Value};

use self::expectation::RawExpectation;
pub use self::options::{Options, Settled, settled};
use self::stop::RawStop;
use crate::experiment::load::Kind;
use iotrail_answer::compare::Metric;
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Bytes;
use iotrail_schema::run_record::{ARM, CONTROL, Expectation, Stop, Table, VARIANT};

/// Cells times repeats; beyond it a file is a slip of the pen and its plan would not fit in memory.
pub const MOST_MEASUREMENTS: usize = 100_000;

/// An experiment as its file states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub title: String,
    pub question: String,
    pub expect: String,
    pub kind: Kind,
    pub table: Table,
    /// The CPUs are sampled in every cell.
    pub profile: bool,
    /// One of io_uring's requests in so many is followed whole in every cell.
    pub follow: Option<u32>,
    /// What the arms are compared on; empty: what the table is about.
    pub metrics: Vec<String>,
    /// Arms that differ by no more, as a factor less 1, are equivalent; null: what is usual.
    pub equivalent_within: Option<f64>,
    pub expectations: Vec<Expectation>,
    /// The first arm is measured again in every block.
    pub control: bool,
    /// What a fio job file asks for and this cannot do, with its place.
    pub unmapped: Vec<String>,
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
    /// Blocks; with `stop`, at most.
    pub repeats: u32,
    pub stop: Option<Stop>,
    /// Options that hold in every cell.
    pub load: Options,
    /// In the order of the file; the arms' axis is the last one, so that arms stand beside each other.
    pub axes: Vec<Axis>,
}

impl Scale {
    /// The largest size that a load is told to use of its target; what is no size is refused where the cell is planned.
    pub fn largest_size(&self) -> Option<Bytes> {
        let points = self.axes.iter().flat_map(|axis| &axis.points);
        let sizes = std::iter::once(&self.load).chain(points.map(|p| &p.options)).filter_map(|o| o.get("size"));
        let bytes = |value: &Value| match value {
            Value::String(text) => text.parse::<Bytes>().ok(),
            Value::Integer(n) => u64::try_from(*n).ok().map(Bytes),
            _ => None,
        };
        sizes.filter_map(bytes).max_by_key(|b| b.0)
    }
}

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
    /// `FILE:LINE:COLUMN` of it.
    pub at: String,
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
    #[serde(default)]
    kind: Kind,
    table: Option<Spanned<Table>>,
    profile: Option<Spanned<bool>>,
    follow: Option<Spanned<u32>>,
    repeats: Option<Spanned<u32>>,
    stop: Option<Spanned<RawStop>>,
    #[serde(default)]
    metrics: Vec<Spanned<String>>,
    equivalent_within: Option<Spanned<f64>>,
    #[serde(default)]
    expectation: Vec<RawExpectation>,
    #[serde(default = "yes")]
    control: bool,
    seed: Option<u32>,
    size: Option<Spanned<Value>>,
    /// Path of a fio job file whose options come before those of `[load]`.
    fio: Option<Spanned<String>>,
    /// The matrix parameter whose values are the arms.
    compare: Option<Spanned<String>>,
    #[serde(default)]
    load: RawOptions,
    /// Host conditions that hold in every cell.
    #[serde(default)]
    host: RawOptions,
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
    stop: Option<Spanned<RawStop>>,
    #[serde(default)]
    load: RawOptions,
    #[serde(default)]
    matrix: RawMatrix,
}

fn yes() -> bool {
    true
}

/// Reads an experiment; `origin` is the file's name in messages, and what files that it names are looked for beside.
pub fn parse(text: &str, origin: &str) -> Result<Experiment> {
    let file = File { text, origin, kind: Kind::default() };
    let raw: Raw = toml::from_str(text).map_err(|e| file.refuse(e.span().unwrap_or(0..0), e.message()))?;
    File { kind: raw.kind, ..file }.experiment(raw)
}

/// The text that spans point into.
struct File<'a> {
    text: &'a str,
    origin: &'a str,
    kind: Kind,
}

impl File<'_> {
    fn refuse(&self, at: Range<usize>, what: impl std::fmt::Display) -> Error {
        Error::input(format!("{}: {what}", self.place(at)), self.kind.remedy())
    }

    /// `FILE:LINE:COLUMN`.
    fn place(&self, at: Range<usize>) -> String {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        format!("{}:{line}:{column}", self.origin)
    }

    fn experiment(&self, raw: Raw) -> Result<Experiment> {
        let name = raw.name.get_ref();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(self.refuse(raw.name.span(), "a name is made of letters, digits, '-' and '_'"));
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
        let variants = self.named("variant", VARIANT, &raw.variant, &load, &matrix)?;
        let axes = self.with_arms(&raw, matrix, variants, &load)?;
        let length = self.length(raw.repeats.as_ref(), raw.stop.as_ref(), "stop")?;
        let (repeats, stop) = length.ok_or_else(|| {
            self.refuse(raw.name.span(), "nothing says how many blocks there are: add 'repeats' or [stop]")
        })?;
        let expectations = raw.expectation.iter().map(|e| self.expectation(e, &axes)).collect::<Result<_>>()?;
        let full = Scale { repeats, stop, load, axes };
        let quick = raw.quick.as_ref().map(|q| self.quick(q, &full)).transpose()?;
        for scale in [Some(&full), quick.as_ref()].into_iter().flatten() {
            let cells = scale.axes.iter().try_fold(scale.repeats as usize, |n, a| n.checked_mul(a.points.len()));
            if cells.is_none_or(|n| n > MOST_MEASUREMENTS) {
                let at = raw.repeats.as_ref().map(Spanned::span).or(raw.stop.as_ref().map(Spanned::span));
                return Err(self.refuse(
                    at.unwrap_or(0..0),
                    format!("the parameters and repeats make more than {MOST_MEASUREMENTS} measurements"),
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

    fn band(&self, share: &Spanned<f64>) -> Result<f64> {
        let within = *share.get_ref();
        if !(within > 0.0 && within < 1.0) {
            let what = "'equivalent-within' is a share above 0 and below 1: 0.05 is 5 %";
            return Err(self.refuse(share.span(), what));
        }
        Ok(within)
    }

    /// `repeats`, or the table `name`: blocks, at most, and the rule. `None`: neither is there.
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
                let what = format!("'repeats' and [{name}] both say how many blocks there are: keep one");
                Err(self.refuse(n.span(), what))
            }
            (None, None) => Ok(None),
        }
    }

    fn table(&self, named: Option<&Spanned<Table>>) -> Result<Table> {
        let of_net = |table| matches!(table, Table::Net | Table::Order);
        match (self.kind, named) {
            (Kind::Storage, None) => Ok(Table::Delivery),
            (Kind::Net, None) => Ok(Table::Net),
            (Kind::Program, None) => Ok(Table::Program),
            (Kind::Program, Some(t)) if *t.get_ref() != Table::Program => {
                Err(self.refuse(t.span(), "a program's run has a table of its own: leave 'table' out"))
            }
            (Kind::Storage | Kind::Net, Some(t)) if *t.get_ref() == Table::Program => {
                Err(self.refuse(t.span(), "this table is for programs: add kind = \"program\", or use another"))
            }
            (Kind::Net, Some(t)) if !of_net(*t.get_ref()) => {
                Err(self.refuse(t.span(), "this table is for loads on storage: use net or order"))
            }
            (Kind::Storage, Some(t)) if of_net(*t.get_ref()) => {
                Err(self
                    .refuse(t.span(), "this table is for loads over the network: add kind = \"net\", or use another"))
            }
            (_, Some(t)) => Ok(*t.get_ref()),
        }
    }

    /// What means nothing to a load over the network.
    fn of_storage_alone(&self, raw: &Raw) -> Result<()> {
        let spans = [
            ("size", raw.size.as_ref().map(Spanned::span)),
            ("fio", raw.fio.as_ref().map(Spanned::span)),
            ("profile", raw.profile.as_ref().map(Spanned::span)),
        ];
        match spans.into_iter().find_map(|(name, span)| Some((name, span?))) {
            Some((name, at)) if raw.kind != Kind::Storage => {
                Err(self.refuse(at, format!("'{name}' is for loads on storage: leave it out with this kind")))
            }
            _ => Ok(()),
        }
    }

    fn metric(&self, name: &Spanned<String>) -> Result<String> {
        let metric: Metric = name.get_ref().parse().map_err(|e| self.refuse(name.span(), format!("'metrics': {e}")))?;
        Ok(metric.to_string())
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
                points.push(Point { value: value.get_ref().clone(), options, at: self.place(value.span()) });
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
            let this = self.settled_over(load, &options);
            let same = |p: &&Point| this.is_some() && self.settled_over(load, &p.options) == this;
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
            points.push(Point { value: name.get_ref().clone(), options, at: self.place(entry.span()) });
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
        if let Some(point) = arms.points.iter().find(|p| p.value.as_str() == Some(CONTROL)) {
            let what = format!("{}: '{CONTROL}' is the first arm measured again: call this one otherwise", point.at);
            return Err(Error::input(what, self.kind.remedy()));
        }
        axes.push(arms);
        Ok(axes)
    }

    /// Options as the load and the host will see them: `base`, then `over`. `None` where they don't go together.
    fn settled_over(&self, base: &Options, over: &Options) -> Option<Settled> {
        let mut merged = base.clone();
        overlay(&mut merged, over);
        settled(self.kind, merged).ok()
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
                return Err(self.refuse(at, format!("'{}' is not varied under [matrix]", axis.name)));
            };
            *place = axis;
        }
        Ok(scale)
    }
}

/// Puts `over` in place of what `base` says. A run ends by time or by number: one takes the other's place, and so do the two ways to
/// read.
pub fn overlay(base: &mut Options, over: &Options) {
    const EITHER: [(&str, &str); 2] = [("runtime", "count"), ("direct", "buffered")];
    for (one, other) in EITHER.into_iter().chain(EITHER.map(|(a, b)| (b, a))) {
        if over.contains_key(one) {
            base.remove(other);
        }
    }
    base.extend(over.clone());
}

/// As JSON, for the record.
pub fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(s) => serde_json::json!(s),
        Value::Integer(n) => serde_json::json!(n),
        Value::Float(x) => serde_json::json!(x),
        Value::Boolean(b) => serde_json::json!(b),
        Value::Array(items) => items.iter().map(to_json).collect(),
        // No option takes these, so none gets here; their text is as good as any.
        other => serde_json::json!(other.to_string()),
    }
}

fn arm_name(value: &Value) -> String {
    match value {
        Value::String(s) if s.is_empty() => "none".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
