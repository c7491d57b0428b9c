//! A run as tables: one table with a row per measurement, and one table per list with a row per item. Columns do not
//! depend on the run, so tables of many runs and hosts can be merged. CSV and Parquet have the same tables.

mod columns;
mod lists;
#[cfg(test)]
mod tests;

use hdrhistogram::Histogram;
use serde_json::Value;

use super::rows::Row;

/// The name includes the unit.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// JSON pointer, relative to the row's object.
    at: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Number,
    /// A list's items, separated by commas.
    Text,
    Flag,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    Unknown,
    Integer(i64),
    Number(f64),
    Text(String),
    Flag(bool),
}

#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
    of: RowSubject,
}

/// The object that a row describes.
#[derive(Debug, Clone, Copy)]
enum RowSubject {
    Measurement,
    /// An item of the list at this pointer.
    Item(&'static str),
    /// A bucket of the latency histogram.
    Bucket,
}

const fn integer(name: &'static str, at: &'static str) -> Column {
    Column { name, kind: Kind::Integer, at }
}

const fn number(name: &'static str, at: &'static str) -> Column {
    Column { name, kind: Kind::Number, at }
}

const fn text(name: &'static str, at: &'static str) -> Column {
    Column { name, kind: Kind::Text, at }
}

const fn flag(name: &'static str, at: &'static str) -> Column {
    Column { name, kind: Kind::Flag, at }
}

pub const MEASUREMENTS: &Table =
    &Table { name: "measurements", columns: columns::MEASUREMENT, of: RowSubject::Measurement };

pub const HISTOGRAM: &Table = &Table { name: "histogram", columns: lists::BUCKET, of: RowSubject::Bucket };

/// All tables, measurements first.
pub fn all() -> impl Iterator<Item = &'static Table> {
    [MEASUREMENTS, HISTOGRAM].into_iter().chain(lists::LISTS)
}

/// The first columns of every table, which identify the row.
pub const IDENTITY: &[Column] = &[
    text("hostname", ""),
    integer("run_number", ""),
    text("experiment", ""),
    integer("run_started_unix_s", ""),
    integer("cell", ""),
    integer("repeat", ""),
];

/// The fields of [`IDENTITY`].
pub fn identity(row: &Row<'_>) -> [Field; 6] {
    let run = row.run;
    [
        Field::Text(row.measurement.host.hostname.clone()),
        run.number.map_or(Field::Unknown, Field::Integer),
        run.experiment.clone().map_or(Field::Unknown, Field::Text),
        whole(Some(run.started_unix_s)),
        Field::Integer(row.cell.into()),
        Field::Integer(row.repeat.into()),
    ]
}

impl Table {
    /// The rows of a measurement's JSON (`iotrail.measurement/1`), one at a time. The histogram table has no rows
    /// without a histogram.
    pub fn rows<E>(
        &self,
        measurement: &Value,
        latency: Option<&Histogram<u64>>,
        take: &mut dyn FnMut(&[Field]) -> Result<(), E>,
    ) -> Result<(), E> {
        let fields = |of: &Value, index: usize| -> Vec<Field> {
            self.columns.iter().map(|c| if c.at == INDEX { whole(Some(index as u64)) } else { c.field(of) }).collect()
        };
        match self.of {
            RowSubject::Measurement => take(&fields(measurement, 0)),
            RowSubject::Item(list) => {
                let items = measurement.pointer(list).and_then(Value::as_array);
                items.into_iter().flatten().enumerate().try_for_each(|(i, item)| take(&fields(item, i)))
            }
            RowSubject::Bucket => {
                let Some(latency) = latency else { return Ok(()) };
                latency.iter_recorded().try_for_each(|bucket| {
                    let from = latency.lowest_equivalent(bucket.value_iterated_to());
                    let to = bucket.value_iterated_to();
                    take(&[whole(Some(from)), whole(Some(to)), whole(Some(bucket.count_at_value()))])
                })
            }
        }
    }
}

/// Placeholder for the item's 0-based index in its list.
const INDEX: &str = "#";

/// Load options that also apply to a program.
const OF_PROGRAM: [&str; 8] = [
    "/load/engine",
    "/load/ring/requested",
    "/load/ring/granted",
    "/load/sq_cpu",
    "/load/sq_idle_ms",
    "/load/cpus_requested",
    "/load/seed",
    "/load/trace",
];

impl Column {
    fn field(&self, of: &Value) -> Field {
        let is_option = self.at.starts_with("/load/") && !OF_PROGRAM.contains(&self.at);
        let value = match of.pointer(self.at) {
            None | Some(Value::Null) => return Field::Unknown,
            Some(_) if is_option && of.get("program").is_some_and(Value::is_object) => return Field::Unknown,
            Some(value) => value,
        };
        match self.kind {
            Kind::Integer => whole(value.as_u64()).or(value.as_i64().map(Field::Integer)),
            Kind::Number => value.as_f64().map_or(Field::Unknown, Field::Number),
            Kind::Flag => value.as_bool().map_or(Field::Unknown, Field::Flag),
            Kind::Text => Field::Text(words(value)),
        }
    }
}

impl Field {
    fn or(self, other: Option<Field>) -> Field {
        if self == Field::Unknown { other.unwrap_or(self) } else { self }
    }
}

/// Tables support integers up to 2⁶³; iotrail's values are far smaller.
fn whole(n: Option<u64>) -> Field {
    n.and_then(|n| i64::try_from(n).ok()).map_or(Field::Unknown, Field::Integer)
}

fn words(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
