//! The measurements of a run in order: the source of tables, logs and job files. Each measurement is read on demand, so
//! memory use does not depend on the run's length.

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

use iotrail_base::distinct::distinct;
use iotrail_base::error::Result;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};
pub use iotrail_store::Order;

/// The parts of a run that exports need. A single measurement from a file is a run with one cell.
pub struct Run<'a> {
    /// Its number in the store.
    pub number: Option<i64>,
    pub experiment: Option<String>,
    pub started_unix_s: u64,
    pub cells: Vec<Cell>,
    from: Box<dyn Source + 'a>,
}

#[derive(Debug, Clone)]
pub struct Cell {
    pub cell: u32,
    pub params: Map<String, Value>,
}

/// The source of a run's measurements.
pub trait Source {
    /// Calls the function for each measurement, with cell and repeat.
    fn each(&self, order: Order, take: &mut Take<'_>) -> Result<()>;

    /// Latencies of one repeat of a cell; `None` if not stored.
    fn latency(&self, cell: u32, repeat: u32) -> Result<Option<Histogram<u64>>>;

    fn count(&self) -> Result<u64>;

    /// Names of the measuring hosts, without duplicates.
    fn hosts(&self) -> Result<Vec<String>>;
}

/// Callback for a measurement with its cell and repeat.
pub type Take<'a> = dyn FnMut(u32, u32, &Measurement) -> Result<()> + 'a;

/// A measurement and its position. Cells and repeats are 1-based.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub run: &'a Run<'a>,
    pub cell: u32,
    pub repeat: u32,
    pub params: &'a Map<String, Value>,
    pub measurement: &'a Measurement,
}

impl<'a> Run<'a> {
    /// Takes only the run's description from `record`; measurements come from `from`.
    pub fn new(record: RunRecord, from: impl Source + 'a) -> Self {
        Self {
            number: Some(record.run),
            experiment: Some(record.experiment),
            started_unix_s: record.started_unix_s,
            cells: record.cells.into_iter().map(|c| Cell { cell: c.cell, params: c.params }).collect(),
            from: Box::new(from),
        }
    }

    pub fn rows(&self, order: Order, take: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        self.from.each(order, &mut |cell, repeat, measurement| {
            let Some(Cell { params, .. }) = self.cells.iter().find(|c| c.cell == cell) else { return Ok(()) };
            take(&Row { run: self, cell, repeat, params, measurement })
        })
    }

    pub fn latency(&self, row: &Row<'_>) -> Result<Option<Histogram<u64>>> {
        self.from.latency(row.cell, row.repeat)
    }

    /// Number of measurements.
    pub fn count(&self) -> Result<u64> {
        self.from.count()
    }

    pub fn hosts(&self) -> Result<Vec<String>> {
        self.from.hosts()
    }

    /// Parameter names without duplicates, in cell order.
    pub fn parameters(&self) -> Vec<&str> {
        distinct(self.cells.iter().flat_map(|c| c.params.keys()).map(String::as_str))
    }
}

impl From<RunRecord> for Run<'_> {
    fn from(mut record: RunRecord) -> Self {
        let cells =
            record.cells.iter_mut().map(|c| Held { cell: c.cell, measurements: std::mem::take(c.measurements.open()) });
        let cells: Vec<Held> = cells.collect();
        Run::new(record, cells)
    }
}

impl From<Measurement> for Run<'_> {
    fn from(measurement: Measurement) -> Self {
        let mut record = RunRecord::single(&measurement);
        record.cells = vec![CellRecord { measurements: vec![measurement].into(), ..record.cells.remove(0) }];
        // A single measurement belongs to no store and no experiment.
        Run { number: None, experiment: None, ..Run::from(record) }
    }
}

/// A cell's measurements in memory, from a file without histograms.
struct Held {
    cell: u32,
    measurements: Vec<Measurement>,
}

impl Source for Vec<Held> {
    fn each(&self, order: Order, take: &mut Take<'_>) -> Result<()> {
        let mut all: Vec<(usize, usize)> =
            self.iter().enumerate().flat_map(|(i, c)| (0..c.measurements.len()).map(move |j| (i, j))).collect();
        if order == Order::Start {
            all.sort_by_key(|(i, j)| self[*i].measurements[*j].started_unix_s);
        }
        all.into_iter().try_for_each(|(i, j)| take(self[i].cell, j as u32 + 1, &self[i].measurements[j]))
    }

    fn latency(&self, _cell: u32, _repeat: u32) -> Result<Option<Histogram<u64>>> {
        Ok(None)
    }

    fn count(&self) -> Result<u64> {
        Ok(self.iter().map(|c| c.measurements.len() as u64).sum())
    }

    fn hosts(&self) -> Result<Vec<String>> {
        let mut hosts: Vec<String> =
            self.iter().flat_map(|c| &c.measurements).map(|m| m.host.hostname.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        Ok(hosts)
    }
}
