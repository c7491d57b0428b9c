//! A cell's measurements as few bytes. They are unpacked together when one of them is read, and stay for a while: tables and figures
//! go through a cell many times, and through the cells one after the other.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::bytes::{self, Error};
use crate::measurement::{Circumstances, CpuSamples, Host, LoadRecord, Measurement};
use crate::shared::Shared;

/// So many cells stay unpacked after they were read: two or three are compared, while a figure or a table reads another.
const KEPT: usize = 4;

/// The cells of a run that are unpacked.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Read last; the latest is the last.
    kept: Mutex<VecDeque<Arc<Cell>>>,
    now: AtomicUsize,
    most: AtomicUsize,
    /// How often one was unpacked.
    times: AtomicUsize,
}

impl Unpacked {
    /// As many as ever were unpacked at once.
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// How often a cell was unpacked.
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

/// A packed cell; of one measurement at least.
#[derive(Debug)]
pub struct Packed {
    /// Not among the bytes: whoever asks what a cell is of reads this one alone.
    first: Measurement,
    /// What the others have in common with measurements of other cells too.
    rest: Vec<(Shared<Host>, Shared<LoadRecord>)>,
    /// Compressed: measurements of one cell repeat each other's texts.
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
        let mut all = Vec::with_capacity(self.count());
        all.push(self.first.clone());
        let raw = lz4_flex::decompress_size_prepended(&self.bytes).expect("it was compressed here");
        let mut raw = raw.as_slice();
        for (host, load) in &self.rest {
            all.push(one(&mut raw, host, load).expect("it was packed here"));
        }
        Cell { all, of: Arc::clone(&self.of) }
    }
}

/// A measurement after its shared parts.
fn one(bytes: &mut &[u8], host: &Shared<Host>, load: &Shared<LoadRecord>) -> Result<Measurement, Error> {
    let mut m: Measurement = bytes::read(bytes)?;
    (m.host, m.load) = (host.clone(), load.clone());
    m.circumstances = bytes::read::<Option<Circumstances>>(bytes)?.map(Shared::from);
    m.cpu_samples = bytes::read::<Option<CpuSamples>>(bytes)?.map(Shared::from);
    Ok(m)
}

/// Packs a cell, measurement by measurement.
#[derive(Debug, Default)]
pub struct Packer {
    first: Option<Measurement>,
    rest: Vec<(Shared<Host>, Shared<LoadRecord>)>,
    raw: Vec<u8>,
}

impl Packer {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub fn push(&mut self, m: Measurement) {
        if self.first.is_none() {
            self.first = Some(m);
            return;
        }
        write(&m, &mut self.raw).expect("memory takes every record");
        self.rest.push((m.host, m.load));
    }

    /// The cell, one of those that `of` counts; the packer is empty again. `None`: it was.
    pub fn end(&mut self, of: &Arc<Unpacked>) -> Option<Packed> {
        let first = self.first.take()?;
        let mut rest = take(&mut self.rest);
        rest.shrink_to_fit();
        let bytes = lz4_flex::compress_prepend_size(&self.raw).into();
        self.raw.clear();
        Some(Packed { first, rest, bytes, unpacked: Mutex::default(), of: Arc::clone(of) })
    }
}

fn write(m: &Measurement, to: &mut Vec<u8>) -> Result<(), Error> {
    bytes::write(m, to)?;
    bytes::write(&m.circumstances.as_deref(), to)?;
    bytes::write(&m.cpu_samples.as_deref(), to)
}
