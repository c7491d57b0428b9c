//! Sample runs for export tests.

use hdrhistogram::Histogram;
use serde_json::{Map, json};

use super::rows::{Order, Run, Source, Take};
use iotrail_base::error::Result;
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_testing::sample::{histogram, measurement};

/// Characters with a special meaning in spreadsheets, terminals and file formats.
pub const HOSTILE: [&str; 6] =
    ["=cmd|'/c calc'!A1", "a,\"b\"\r\nc;d=e %", "'already", "\u{1b}[31mred\u{7}", "-1+2\t", "ä\u{202e}x/../y\u{fffd}"];

/// Measurements with histograms, except one repeat of one cell.
struct Sample {
    cells: Vec<CellRecord>,
    without: Option<(u32, u32)>,
}

impl Source for Sample {
    fn each(&self, order: Order, take: &mut Take<'_>) -> Result<()> {
        Run::from(record(self.cells.clone())).rows(order, &mut |row| take(row.cell, row.repeat, row.measurement))
    }

    fn latency(&self, cell: u32, repeat: u32) -> Result<Option<Histogram<u64>>> {
        Ok((self.without != Some((cell, repeat))).then(histogram))
    }

    fn count(&self) -> Result<u64> {
        Run::from(record(self.cells.clone())).count()
    }

    fn hosts(&self) -> Result<Vec<String>> {
        Run::from(record(self.cells.clone())).hosts()
    }
}

fn record(cells: Vec<CellRecord>) -> RunRecord {
    RunRecord {
        run: 3,
        experiment: HOSTILE[0].into(),
        started_unix_s: 1_772_366_400,
        cells,
        ..RunRecord::single(&measurement())
    }
}

/// Two cells with hostile names and two repeats each.
pub fn run() -> Run<'static> {
    run_of(cells())
}

pub fn run_of(cells: Vec<CellRecord>) -> Run<'static> {
    made(cells, None)
}

/// The same without one repeat's histogram.
pub fn run_without(cell: u32, repeat: u32) -> Run<'static> {
    made(cells(), Some((cell, repeat)))
}

fn made(cells: Vec<CellRecord>, without: Option<(u32, u32)>) -> Run<'static> {
    Run::new(record(cells.clone()), Sample { cells, without })
}

pub fn cells() -> Vec<CellRecord> {
    let cell = |number: u32| {
        let params: Map<String, serde_json::Value> =
            [("arm".to_owned(), json!(HOSTILE[number as usize % 6])), ("depth".to_owned(), json!(number * 16))]
                .into_iter()
                .collect();
        let repeat = |i: u64| {
            let mut m = measurement();
            m.started_unix_s += u64::from(number) * 10 + i;
            m.load.depth = number * 16;
            m.load.file = Some(HOSTILE[(number as usize + i as usize) % 6].into());
            m.host.hostname = HOSTILE[5].into();
            m
        };
        CellRecord { cell: number, params, untestable: None, measurements: vec![repeat(0), repeat(1)].into() }
    };
    vec![cell(1), cell(2)]
}
