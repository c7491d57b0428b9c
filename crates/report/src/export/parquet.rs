//! Tables as Parquet, in folders that many runs of many hosts fill side by side:
//!
//! ```text
//! DIR/measurements/host=NAME/run=NUMBER-STARTED_UNIX_S/part.parquet
//! DIR/histogram/host=NAME/run=…/part.parquet                     and so on, a folder for each table
//! ```
//!
//! `host` and `run` are in the paths alone (Hive's partitions), which readers make columns of. Every file of a table has the
//! same columns, all of them optional; compressed with Snappy, which every reader knows.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdrhistogram::Histogram;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::rows::{Order, Row, Run};
use super::table::{self, Column, Field, IDENTITY, Kind, MEASUREMENTS, Table};
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::value_text;

type Done<T> = std::result::Result<T, ParquetError>;

/// Fields that are kept until they are written together.
const GROUP_FIELDS: usize = 1 << 19;

/// A file that is written, and where below the folder it belongs.
#[derive(Debug)]
pub struct Part {
    pub table: &'static str,
    pub rows: u64,
    /// In the folder for what is under way.
    pub made: PathBuf,
    pub place: PathBuf,
}

/// Where the parts of a run belong, below the folder, by the measurements' hosts.
pub fn places(run: &Run<'_>) -> Result<Vec<PathBuf>> {
    Ok(run.hosts()?.iter().flat_map(|host| table::all().map(|t| place(t, host, run))).collect())
}

fn place(table: &Table, host: &str, run: &Run<'_>) -> PathBuf {
    // As Hive has it where there is no name.
    let host = if host.is_empty() { "__HIVE_DEFAULT_PARTITION__".into() } else { super::file_name(host) };
    let number = run.number.map_or("file".into(), |n| n.to_string());
    // Numbers of runs are those of one store, and a host may have several.
    let folder = format!("run={number}-{}", run.started_unix_s);
    [table.name, &format!("host={host}"), &folder, "part.parquet"].iter().collect()
}

/// Writes every table into `under_way`. `refused` says why a file was not taken.
pub fn write(run: &Run<'_>, under_way: &Path, refused: &dyn Fn(&Path, ParquetError) -> Error) -> Result<Vec<Part>> {
    let mut hosts: BTreeMap<String, Vec<Writing>> = BTreeMap::new();
    run.rows(Order::Cell, &mut |row| {
        let host = row.measurement.host.hostname.clone();
        let files = match hosts.entry(host) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(none) => {
                let made = table::all().map(|t| Writing::new(t, none.key(), run, under_way));
                let made = made.collect::<Done<Vec<_>>>().map_err(|e| refused(under_way, e))?;
                none.insert(made)
            }
        };
        let json = serde_json::to_value(row.measurement)
            .map_err(|e| refused(under_way, ParquetError::General(e.to_string())))?;
        let latency = run.latency(row)?;
        files
            .iter_mut()
            .try_for_each(|file| file.take(row, &json, latency.as_ref()).map_err(|e| refused(&file.place, e)))
    })?;
    let mut parts = vec![];
    for file in hosts.into_values().flatten() {
        let (table, made, place) = (file.table.name, file.made.clone(), file.place.clone());
        let rows = file.finish().map_err(|e| refused(&place, e))?;
        parts.push(Part { table, rows, made, place });
    }
    Ok(parts)
}

/// Rows of a table that are written together.
fn group_rows(table: &Table) -> usize {
    GROUP_FIELDS / (IDENTITY.len() + table.columns.len())
}

/// One file of one table.
struct Writing {
    table: &'static Table,
    made: PathBuf,
    place: PathBuf,
    file: SerializedFileWriter<File>,
    columns: Vec<Values>,
    /// Of the measurements' table alone.
    params: Option<Params>,
    pending: usize,
    rows: u64,
}

impl Writing {
    fn new(table: &'static Table, host: &str, run: &Run<'_>, under_way: &Path) -> Done<Self> {
        let place = place(table, host, run);
        let made = under_way.join(super::file_name(&place.to_string_lossy()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("iotrail ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let has_params = table.name == MEASUREMENTS.name;
        let file =
            SerializedFileWriter::new(File::create_new(&made)?, schema(table, has_params)?, Arc::new(properties))?;
        let columns = IDENTITY.iter().chain(table.columns).map(|c| Values::of(c.kind)).collect();
        let params = has_params.then(Params::default);
        Ok(Self { table, made, place, file, columns, params, pending: 0, rows: 0 })
    }

    fn take(&mut self, row: &Row<'_>, json: &serde_json::Value, latency: Option<&Histogram<u64>>) -> Done<()> {
        let identity = table::identity(row);
        let table = self.table;
        table.rows(json, latency, &mut |fields| {
            for (column, field) in self.columns.iter_mut().zip(identity.iter().chain(fields)) {
                column.take(field);
            }
            if let Some(params) = &mut self.params {
                params.take(row);
            }
            self.pending += 1;
            if self.pending == group_rows(table) { self.flush() } else { Ok(()) }
        })
    }

    fn flush(&mut self) -> Done<()> {
        if self.pending == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for (i, values) in self.columns.iter_mut().enumerate() {
            // The parameters' two columns stand behind the identity's.
            if i == IDENTITY.len()
                && let Some(params) = &mut self.params
            {
                params.write(&mut group)?;
            }
            let mut column = next(&mut group)?;
            values.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.rows += std::mem::take(&mut self.pending) as u64;
        Ok(())
    }

    fn finish(mut self) -> Done<u64> {
        self.flush()?;
        self.file.close()?;
        Ok(self.rows)
    }
}

type Group<'a> = parquet::file::writer::SerializedRowGroupWriter<'a, File>;
type Chunk<'a> = parquet::file::writer::SerializedColumnWriter<'a>;

fn next<'a>(group: &'a mut Group<'_>) -> Done<Chunk<'a>> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))
}

/// The values of a column that are known, and which of the rows have one.
enum Values {
    Integers(Vec<i64>, Vec<i16>),
    Numbers(Vec<f64>, Vec<i16>),
    Texts(Vec<ByteArray>, Vec<i16>),
    Flags(Vec<bool>, Vec<i16>),
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Values::Integers(vec![], vec![]),
            Kind::Number => Values::Numbers(vec![], vec![]),
            Kind::Text => Values::Texts(vec![], vec![]),
            Kind::Flag => Values::Flags(vec![], vec![]),
        }
    }

    fn take(&mut self, field: &Field) {
        let known = match (&mut *self, field) {
            (Values::Integers(values, _), Field::Integer(n)) => push(values, *n),
            (Values::Numbers(values, _), Field::Number(x)) => push(values, *x),
            (Values::Texts(values, _), Field::Text(text)) => push(values, ByteArray::from(text.as_bytes().to_vec())),
            (Values::Flags(values, _), Field::Flag(yes)) => push(values, *yes),
            _ => false,
        };
        let (Values::Integers(_, there)
        | Values::Numbers(_, there)
        | Values::Texts(_, there)
        | Values::Flags(_, there)) = self;
        there.push(i16::from(known));
    }

    fn write(&mut self, column: &mut Chunk<'_>) -> Done<()> {
        match self {
            Values::Integers(values, there) => {
                column.typed::<Int64Type>().write_batch(values, Some(there), None)?;
                (values.clear(), there.clear())
            }
            Values::Numbers(values, there) => {
                column.typed::<DoubleType>().write_batch(values, Some(there), None)?;
                (values.clear(), there.clear())
            }
            Values::Texts(values, there) => {
                column.typed::<ByteArrayType>().write_batch(values, Some(there), None)?;
                (values.clear(), there.clear())
            }
            Values::Flags(values, there) => {
                column.typed::<BoolType>().write_batch(values, Some(there), None)?;
                (values.clear(), there.clear())
            }
        };
        Ok(())
    }
}

fn push<T>(values: &mut Vec<T>, value: T) -> bool {
    values.push(value);
    true
}

/// The cells' parameters: a map from name to value in each row.
#[derive(Default)]
struct Params {
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    /// 1: an entry; 0: the row has none.
    there: Vec<i16>,
    /// 0: the row's first; 1: a further one.
    further: Vec<i16>,
}

impl Params {
    fn take(&mut self, row: &Row<'_>) {
        if row.params.is_empty() {
            self.there.push(0);
            self.further.push(0);
        }
        for (i, (name, value)) in row.params.iter().enumerate() {
            self.keys.push(name.as_bytes().to_vec().into());
            self.values.push(value_text(value).into_bytes().into());
            self.there.push(1);
            self.further.push(i16::from(i > 0));
        }
    }

    fn write(&mut self, group: &mut Group<'_>) -> Done<()> {
        for values in [&self.keys, &self.values] {
            let mut column = next(group)?;
            column.typed::<ByteArrayType>().write_batch(values, Some(&self.there), Some(&self.further))?;
            column.close()?;
        }
        *self = Params::default();
        Ok(())
    }
}

fn schema(table: &Table, has_params: bool) -> Done<TypePtr> {
    let mut fields = IDENTITY.iter().map(column).collect::<Done<Vec<_>>>()?;
    if has_params {
        fields.push(params()?);
    }
    for c in table.columns {
        fields.push(column(c)?);
    }
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?))
}

fn column(c: &Column) -> Done<TypePtr> {
    let physical = match c.kind {
        Kind::Integer => Physical::INT64,
        Kind::Number => Physical::DOUBLE,
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Flag => Physical::BOOLEAN,
    };
    let logical = (c.kind == Kind::Text).then_some(LogicalType::String);
    let built = Type::primitive_type_builder(c.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(built))
}

fn params() -> Done<TypePtr> {
    let text = |name: &str| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()
            .map(Arc::new)
    };
    let entry = Type::group_type_builder("key_value")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![text("key")?, text("value")?])
        .build()?;
    let map = Type::group_type_builder("params")
        .with_repetition(Repetition::REQUIRED)
        .with_converted_type(ConvertedType::MAP)
        .with_logical_type(Some(LogicalType::Map))
        .with_fields(vec![Arc::new(entry)])
        .build()?;
    Ok(Arc::new(map))
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::export::sample::{HOSTILE, cells, run, run_of};

    fn refused(_: &Path, e: ParquetError) -> Error {
        Error::machine(e.to_string(), "")
    }

    #[test]
    fn tables_read_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let run = run();
        let parts = write(&run, folder.path(), &refused).unwrap();
        let mut by_place: Vec<PathBuf> = parts.iter().map(|p| p.place.clone()).collect();
        let mut expected = places(&run).unwrap();
        by_place.sort();
        expected.sort();
        assert_eq!(by_place, expected);
        let open = |table: &str| {
            let part = parts.iter().find(|p| p.table == table).unwrap();
            assert_eq!(
                part.place.to_str().unwrap(),
                format!("{table}/host=%C3%A4%E2%80%AEx%2F..%2Fy%EF%BF%BD/run=3-1772366400/part.parquet")
            );
            let reader = SerializedFileReader::new(File::open(&part.made).unwrap()).unwrap();
            assert_eq!(reader.metadata().file_metadata().num_rows() as u64, part.rows);
            reader
        };
        let reader = open("measurements");
        let names: Vec<String> =
            reader.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
        let at = |name: &str| names.iter().position(|n| n == name).expect(name);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].get_long(at("ios")).unwrap(), 500);
        assert_eq!(rows[0].get_double(at("latency_mean_ns")).unwrap(), 3_998_123.1);
        assert_eq!(rows[3].get_long(at("load_depth")).unwrap(), 32);
        assert!(rows[0].get_bool(at("load_direct")).unwrap());
        // As it was, whatever a spreadsheet makes of it; and unknown is no value.
        assert_eq!(rows[0].get_string(at("experiment")).unwrap(), HOSTILE[0]);
        assert!(rows[0].get_long(at("latency_p99_ns")).is_err());
        let params = rows[0].get_map(at("params")).unwrap();
        assert_eq!(format!("{:?}", params.entries()[1].1), "Str(\"16\")");
        let sum = |table: &str, column: usize| -> i64 {
            open(table).get_row_iter(None).unwrap().map(|row| row.unwrap().get_long(column).unwrap()).sum()
        };
        assert_eq!(sum("histogram", IDENTITY.len() + 2), 40_000);
        assert_eq!(sum("vehicles", IDENTITY.len() + 2), 2000);
    }

    #[test]
    fn more_rows_than_a_group_holds_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = group_rows(table::all().find(|t| t.name == "ipis").unwrap());
        let mut cells = cells();
        cells[0].measurements[0].ipis = vec![cells[0].measurements[0].ipis[0].clone(); at_once + 5];
        let parts = write(&run_of(cells), folder.path(), &refused).unwrap();
        let part = parts.iter().find(|p| p.table == "ipis").unwrap();
        assert_eq!(part.rows, at_once as u64 + 8);
        let reader = SerializedFileReader::new(File::open(&part.made).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        assert_eq!(reader.get_row_iter(None).unwrap().count(), at_once + 8);
    }
}
