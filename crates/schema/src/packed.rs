//! The measurements of a cell in few bytes. They are unpacked together when one of them is read, and stay unpacked for some time:
//! tables and figures read a cell many times, and the cells one after another.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use crate::measurement::{Host, LoadRecord, Measurement};
use crate::shared::Shared;

/// Number of cells that stay unpacked after they were read: two or three are compared while a figure or a table reads another.
const KEPT: usize = 4;

/// The unpacked cells of a run.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// In the order of the last read; the most recent is last.
    kept: Mutex<VecDeque<Arc<Cell>>>,
    now: AtomicUsize,
    most: AtomicUsize,
    /// Number of times that a cell was unpacked.
    times: AtomicUsize,
}

impl Unpacked {
    /// The largest number unpacked at one time.
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Number of times that a cell was unpacked.
    pub fn times(&self) -> usize {
        self.times.load(Relaxed)
    }

    fn keep(&self, cell: &Arc<Cell>) {
        let mut kept = held(&self.kept);
        if kept.back().is_some_and(|last| Arc::ptr_eq(last, cell)) {
            return;
        }
        kept.retain(|one| !Arc::ptr_eq(one, cell));
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(cell));
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An unpacked cell.
#[derive(Debug)]
pub struct Cell {
    pub all: Vec<Measurement>,
    of: Arc<Unpacked>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.of.now.fetch_sub(1, Relaxed);
    }
}

/// A packed cell, with at least one measurement.
#[derive(Debug)]
pub struct Packed {
    /// Not packed: the options of the cell are read from it.
    first: Measurement,
    /// The machine and the options of the other measurements, also not packed.
    rest: Vec<(Shared<Host>, Shared<LoadRecord>)>,
    /// Compressed MessagePack: the measurements of one cell repeat each other's names and texts.
    bytes: Box<[u8]>,
    unpacked: Mutex<Weak<Cell>>,
    of: Arc<Unpacked>,
}

impl Packed {
    pub fn count(&self) -> usize {
        1 + self.rest.len()
    }

    pub fn first(&self) -> &Measurement {
        &self.first
    }

    pub fn set_up(&self) -> impl Iterator<Item = (&Host, &LoadRecord)> {
        let first = (&*self.first.host, &*self.first.load);
        [first].into_iter().chain(self.rest.iter().map(|(host, load)| (&**host, &**load)))
    }

    pub fn unpacked(&self) -> Arc<Cell> {
        let mut unpacked = held(&self.unpacked);
        let cell = unpacked.upgrade().unwrap_or_else(|| {
            let cell = Arc::new(self.unpack());
            *unpacked = Arc::downgrade(&cell);
            cell
        });
        self.of.keep(&cell);
        cell
    }

    fn unpack(&self) -> Cell {
        self.of.times.fetch_add(1, Relaxed);
        self.of.most.fetch_max(self.of.now.fetch_add(1, Relaxed) + 1, Relaxed);
        let mut raw = FrameDecoder::new(&*self.bytes);
        let mut all = Vec::with_capacity(self.count());
        all.push(self.first.clone());
        all.extend(self.rest.iter().map(|(host, load)| {
            let m: Measurement = rmp_serde::from_read(&mut raw).expect("it was packed here");
            Measurement { host: host.clone(), load: load.clone(), ..m }
        }));
        Cell { all, of: Arc::clone(&self.of) }
    }
}

/// Packs cells, measurement by measurement.
#[derive(Debug, Default)]
pub struct Packer {
    first: Option<Measurement>,
    rest: Vec<(Shared<Host>, Shared<LoadRecord>)>,
    bytes: Option<FrameEncoder<Vec<u8>>>,
    /// Hosts of the cells so far, each stored once.
    hosts: Vec<Shared<Host>>,
    loads: Vec<Shared<LoadRecord>>,
}

impl Packer {
    /// Adds a measurement to the cell. All but the first lose their seed and their counts per second and thread, which no report
    /// reads.
    pub fn push(&mut self, mut m: Measurement) {
        m.host.join(&mut self.hosts);
        if self.first.is_none() {
            self.first = Some(m);
            return;
        }
        m.load.seed = None;
        m.load.join(&mut self.loads);
        if let Some(server) = m.net.as_mut().and_then(|net| net.server.as_mut()) {
            server.seconds = Vec::new();
            // One thread stays, so that a report sees whether there are any.
            server.threads.truncate(1);
        }
        (m.errors_by, m.followed, m.task_work_batches, m.probe.programs) = Default::default();
        let set_up = (take(&mut m.host), take(&mut m.load));
        let bytes = self.bytes.get_or_insert_with(|| FrameEncoder::new(Vec::new()));
        rmp_serde::encode::write_named(bytes, &m).expect("memory takes every record");
        self.rest.push(set_up);
    }

    /// Finishes the cell, which `of` counts, and empties the packer. `None`: the packer was empty.
    pub fn end(&mut self, of: &Arc<Unpacked>) -> Option<Packed> {
        let first = self.first.take()?;
        let bytes = self.bytes.take().map(|all| all.finish().expect("memory takes every record"));
        let bytes = bytes.unwrap_or_default().into();
        let mut rest = take(&mut self.rest);
        rest.shrink_to_fit();
        Some(Packed { first, rest, bytes, unpacked: Mutex::default(), of: Arc::clone(of) })
    }
}
