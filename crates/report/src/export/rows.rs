//! The measurements of one run, one after the other: what tables, logs and job files are made of.

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

use iotrail_base::error::Result;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// A run as far as exports need it; one measurement in a file is a run of one cell.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// In the store that it came from.
    pub number: Option<i64>,
    pub experiment: Option<String>,
    pub started_unix_s: u64,
    pub cells: Vec<CellRecord>,
}

/// One measurement, and where it stands. Cells and repeats count from 1.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub run: &'a Run,
    pub cell: u32,
    pub repeat: u32,
    pub params: &'a Map<String, Value>,
    pub measurement: &'a Measurement,
}

/// The latencies of a cell's repeat, read when they are needed; `None`: they are not kept.
pub type Latencies<'a> = dyn FnMut(u32, u32) -> Result<Option<Histogram<u64>>> + 'a;

impl Run {
    /// By cell, then by repeat.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.cells.iter().flat_map(move |cell| {
            cell.measurements.iter().zip(1..).map(move |(measurement, repeat)| Row {
                run: self,
                cell: cell.cell,
                repeat,
                params: &cell.params,
                measurement,
            })
        })
    }

    /// Names of the parameters, each once, in the order in which the cells have them.
    pub fn parameters(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec![];
        for name in self.cells.iter().flat_map(|c| c.params.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

impl From<RunRecord> for Run {
    fn from(record: RunRecord) -> Self {
        Run {
            number: Some(record.run),
            experiment: Some(record.experiment),
            started_unix_s: record.started_unix_s,
            cells: record.cells,
        }
    }
}

impl From<Measurement> for Run {
    fn from(measurement: Measurement) -> Self {
        Run {
            number: None,
            experiment: None,
            started_unix_s: measurement.started_unix_s,
            cells: vec![CellRecord { cell: 1, params: Map::new(), untestable: None, measurements: vec![measurement] }],
        }
    }
}
