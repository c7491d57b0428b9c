//! Tables as CSV (RFC 4180: CRLF, quotes doubled). The first line names the columns; unknown is an empty field.
//!
//! A spreadsheet interprets text that begins with `=`, `+`, `-`, `@`, a tab or a line end as a formula, and file names
//! are untrusted. Such text, and text that begins with an apostrophe, gets an apostrophe prepended, which readers must
//! remove. Numbers are unmodified, including negative ones.

use std::io::Write;

use super::rows::{Order, Run};
use super::table::{self, Field, HISTOGRAM, IDENTITY, MEASUREMENTS, Table};
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::value_text;

/// Writes rows without the header line. `refused` receives the reason if the output fails.
pub fn write(run: &Run<'_>, table: &Table, out: impl Write, refused: &dyn Fn(std::io::Error) -> Error) -> Result<u64> {
    let taken = |e: csv::Error| match e.into_kind() {
        csv::ErrorKind::Io(e) => refused(e),
        other => refused(std::io::Error::other(format!("{other:?}"))),
    };
    let mut out = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    // Parameters belong to the cell; the other tables refer to them by `cell`.
    let parameters = if table.name == MEASUREMENTS.name { run.parameters() } else { vec![] };
    for column in IDENTITY {
        out.write_field(column.name).map_err(&taken)?;
    }
    for name in &parameters {
        out.write_field(format!("param.{name}")).map_err(&taken)?;
    }
    for column in table.columns {
        out.write_field(column.name).map_err(&taken)?;
    }
    out.write_record(None::<&[u8]>).map_err(&taken)?;
    let mut rows = 0;
    run.rows(Order::Cell, &mut |row| {
        let mut first: Vec<String> = table::identity(row).iter().map(written).collect();
        first.extend(
            parameters.iter().map(|name| row.params.get(*name).map_or(String::new(), |v| guarded(&value_text(v)))),
        );
        let json = serde_json::to_value(row.measurement).map_err(|e| refused(e.into()))?;
        let latency = if table.name == HISTOGRAM.name { run.latency(row)? } else { None };
        table.rows(&json, latency.as_ref(), &mut |fields| {
            rows += 1;
            for field in &first {
                out.write_field(field).map_err(&taken)?;
            }
            for field in fields {
                out.write_field(written(field)).map_err(&taken)?;
            }
            out.write_record(None::<&[u8]>).map_err(&taken)
        })
    })?;
    out.flush().map_err(refused)?;
    Ok(rows)
}

pub(super) fn written(field: &Field) -> String {
    match field {
        Field::Unknown => String::new(),
        Field::Integer(n) => n.to_string(),
        Field::Number(x) => x.to_string(),
        Field::Flag(yes) => yes.to_string(),
        Field::Text(text) => guarded(text),
    }
}

fn guarded(text: &str) -> String {
    // Some spreadsheets treat full-width forms like the ASCII characters.
    let begins = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\'', '＝', '＋', '－', '＠']);
    if begins { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample::{HOSTILE, run};
    fn written(table: &str) -> (Vec<String>, Vec<Vec<String>>) {
        let table = table::all().find(|t| t.name == table).unwrap();
        let mut bytes = vec![];
        let refused = |e: std::io::Error| Error::machine(e.to_string(), "");
        let rows = write(&run(), table, &mut bytes, &refused).unwrap();
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        let names = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let read: Vec<Vec<String>> = reader.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect();
        assert_eq!(read.len() as u64, rows);
        (names, read)
    }

    #[test]
    fn csv_values_are_read_back_unchanged() {
        let (names, rows) = written("measurements");
        assert_eq!(rows.len(), 4);
        let of = |row: usize, name: &str| rows[row][names.iter().position(|n| n == name).expect(name)].as_str();
        assert_eq!((of(0, "run_number"), of(0, "cell"), of(1, "repeat"), of(3, "param.depth")), ("3", "1", "2", "32"));
        assert_eq!((of(0, "ios"), of(0, "iops"), of(0, "latency_mean_ns")), ("500", "250", "3998123.1"));
        assert_eq!((of(0, "latency_p99_ns"), of(0, "load_sq_cpu"), of(0, "load_direct")), ("", "", "true"));
        // Removing one apostrophe restores the text.
        assert_eq!(of(0, "experiment"), format!("'{}", HOSTILE[0]));
        assert_eq!(of(0, "param.arm"), HOSTILE[1]);
        assert_eq!((of(0, "load_file"), of(1, "load_file")), (HOSTILE[1], "''already"));
        assert_eq!(of(0, "hostname"), HOSTILE[5]);
    }

    #[test]
    fn item_tables_have_one_row_per_item() {
        let (names, rows) = written("histogram");
        assert_eq!(&names[4..], ["cell", "repeat", "from_ns", "to_ns", "ios"]);
        assert_eq!(rows.iter().map(|r| r[8].parse::<u64>().unwrap()).sum::<u64>(), 40_000);
        assert_eq!(written("vehicles").1.len(), 8);
        assert_eq!(written("ipis").1.len(), 4);
    }

    #[test]
    fn text_is_never_interpreted_as_a_formula() {
        for text in ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "'x", "＝1"] {
            assert_eq!(guarded(text), format!("'{text}"));
        }
        assert_eq!((guarded("a=1"), guarded("")), ("a=1".to_owned(), String::new()));
        assert_eq!(super::written(&Field::Integer(-5)), "-5");
    }
}
