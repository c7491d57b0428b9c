//! Tables as Parquet, in a directory tree shared by many runs and hosts:
//!
//! ```text
//! DIR/measurements/host=NAME/run=NUMBER-STARTED_UNIX_S/part.parquet
//! DIR/histogram/host=NAME/run=…/part.parquet                     and so on, one directory per table
//! ```
//!
//! `host` and `run` appear only in the paths (Hive partitions), which readers turn into columns. All files of a table
//! have the same columns, all of them optional, and use Snappy compression, which every reader supports.

mod values;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdrhistogram::Histogram;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use self::values::{Params, Values, next};
use super::rows::{Order, Row, Run};
use super::table::{self, Column, IDENTITY, Kind, MEASUREMENTS, Table};
use iotrail_base::error::{Error, Result};

type Done<T> = std::result::Result<T, ParquetError>;

/// Maximum number of fields written at once.
const GROUP_FIELDS: usize = 1 << 19;

/// Maximum number of buffered fields over all files, so that an export's memory does not grow with the run.
const KEPT_FIELDS: usize = 2 * GROUP_FIELDS;

/// A complete file, and its path below the output directory.
#[derive(Debug)]
pub struct Part {
    pub table: &'static str,
    pub rows: u64,
    /// Path in the temporary directory.
    pub made: PathBuf,
    pub place: PathBuf,
}

/// Paths of a run's files relative to the output directory, by measuring host.
pub fn places(run: &Run<'_>) -> Result<Vec<PathBuf>> {
    Ok(run.hosts()?.iter().flat_map(|host| table::all().map(|t| place(t, host, run))).collect())
}

fn place(table: &Table, host: &str, run: &Run<'_>) -> PathBuf {
    // Hive's name for a null partition.
    let host = if host.is_empty() { "__HIVE_DEFAULT_PARTITION__".into() } else { super::file_name(host) };
    let number = run.number.map_or("file".into(), |n| n.to_string());
    // Run numbers are unique per store, and a host may have several stores.
    let folder = format!("run={number}-{}", run.started_unix_s);
    [table.name, &format!("host={host}"), &folder, "part.parquet"].iter().collect()
}

/// Writes all tables to `under_way`. `refused` receives the reason if a file fails.
pub fn write(run: &Run<'_>, under_way: &Path, refused: &dyn Fn(&Path, ParquetError) -> Error) -> Result<Vec<Part>> {
    let mut hosts: BTreeMap<String, Vec<Writing>> = BTreeMap::new();
    let mut kept = 0;
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
        for file in files {
            kept -= file.kept();
            file.take(row, &json, latency.as_ref()).map_err(|e| refused(&file.place, e))?;
            kept += file.kept();
        }
        while kept >= KEPT_FIELDS {
            // Readers prefer large groups, so write the fullest one.
            let Some(fullest) = hosts.values_mut().flatten().max_by_key(|file| file.kept()) else { break };
            kept -= fullest.kept();
            fullest.flush().map_err(|e| refused(&fullest.place, e))?;
        }
        Ok(())
    })?;
    let mut parts = vec![];
    for file in hosts.into_values().flatten() {
        let (table, made, place) = (file.table.name, file.made.clone(), file.place.clone());
        let rows = file.finish().map_err(|e| refused(&place, e))?;
        parts.push(Part { table, rows, made, place });
    }
    Ok(parts)
}

/// Number of fields per row of a table.
fn row_fields(table: &Table) -> usize {
    IDENTITY.len() + table.columns.len()
}

/// Maximum number of rows per group of a table.
fn group_rows(table: &Table) -> usize {
    GROUP_FIELDS / row_fields(table)
}

/// One file of one table.
struct Writing {
    table: &'static Table,
    made: PathBuf,
    place: PathBuf,
    file: SerializedFileWriter<File>,
    columns: Vec<Values>,
    /// Only for the table of measurements.
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
            // Groups are small enough for readers; a page index would stay in memory until the end of the file.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
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

    /// Number of buffered fields.
    fn kept(&self) -> usize {
        self.pending * row_fields(self.table)
    }

    fn flush(&mut self) -> Done<()> {
        if self.pending == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for (i, values) in self.columns.iter_mut().enumerate() {
            // The two parameter columns follow the identity columns.
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
    fn parquet_tables_are_read_back_unchanged() {
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
        // Text is stored unmodified, without a spreadsheet's apostrophe; unknown values are null.
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
    fn rows_beyond_one_row_group_are_written_completely() {
        let folder = tempfile::tempdir().unwrap();
        let at_once = group_rows(table::all().find(|t| t.name == "ipis").unwrap());
        let mut cells = cells();
        cells[0].measurements.open()[0].ipis = vec![cells[0].measurements.all()[0].ipis[0].clone(); at_once + 5];
        let parts = write(&run_of(cells), folder.path(), &refused).unwrap();
        let part = parts.iter().find(|p| p.table == "ipis").unwrap();
        assert_eq!(part.rows, at_once as u64 + 8);
        let reader = SerializedFileReader::new(File::open(&part.made).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        assert_eq!(reader.get_row_iter(None).unwrap().count(), at_once + 8);
    }
    #[test]
    fn buffered_fields_are_bounded_over_all_tables() {
        let folder = tempfile::tempdir().unwrap();
        let tenths = |table: &str, n: usize| n * group_rows(table::all().find(|t| t.name == table).unwrap()) / 10;
        let mut cells = cells();
        let m = &mut cells[0].measurements.open()[0];
        // More fields in total than two groups hold, but no table reaches a full group.
        m.ipis = vec![m.ipis[0].clone(); tenths("ipis", 9)];
        m.interrupts = vec![m.interrupts[0].clone(); tenths("interrupts", 6)];
        m.mode_switches = vec![m.mode_switches[0].clone(); tenths("mode_switches", 6)];
        let parts = write(&run_of(cells), folder.path(), &refused).unwrap();
        let groups = |table: &str| {
            let part = parts.iter().find(|p| p.table == table).unwrap();
            SerializedFileReader::new(File::open(&part.made).unwrap()).unwrap().num_row_groups()
        };
        // The fullest group was written; later rows form a new group.
        assert_eq!([groups("ipis"), groups("interrupts"), groups("mode_switches")], [2, 1, 1]);
    }
}
