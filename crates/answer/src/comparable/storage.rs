//! What the storage and the page cache did.

use super::threshold::MATTERS;
use iotrail_base::words::{bytes, percent};
use iotrail_schema::measurement::Rw;
use iotrail_schema::measurement::{BeforeAfter, Circumstances, DeviceBytes, Measurement, Warning};

/// Bytes that others may move in any span: a file system's journal, a daemon's log, a program's pages. In a short load they
/// are more than [`MATTERS`] and still no more than a few dozen I/Os.
const OTHERS_BYTES: f64 = (512 << 10) as f64;

/// And for each second: a machine that is otherwise idle writes some tens of KiB.
const OTHERS_BYTES_PER_S: f64 = (128 << 10) as f64;

/// A direct I/O over a page that waits to be written has to write it first.
const DIRTY: f64 = 0.01;

/// Direct I/O of a target whose disks count: what they moved is to be what was asked for.
fn direct_device<'a>(m: &Measurement, c: &'a Circumstances) -> Option<&'a DeviceBytes> {
    // The bytes of failed I/Os may have moved or not; a load with failures has a warning of its own.
    c.device.as_ref().filter(|_| m.load.direct && m.load.file.is_some() && m.errors == Some(0))
}

/// Bytes (read, written) that the load moved; where it mixes them, all of them are in the first.
pub(super) fn asked(m: &Measurement, d: &DeviceBytes) -> (u64, u64) {
    if m.load.rw.only_writes() { (0, d.asked_bytes) } else { (d.asked_bytes, 0) }
}

/// Bytes that the disks may have moved more, or less, than was asked for.
fn allowance(c: &Circumstances, d: &DeviceBytes) -> f64 {
    MATTERS * d.asked_bytes as f64 + OTHERS_BYTES + OTHERS_BYTES_PER_S * c.span_ns as f64 / 1e9
}

pub(super) fn other_io(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let d = direct_device(m, c)?;
    let (read, written) = asked(m, d);
    let several = m.host.target.as_ref().and_then(|t| t.device.as_ref()).is_some_and(|name| name.contains('+'));
    let (more_read, more_written) = match &m.load.rw {
        // Several disks keep copies and checksums: what they write, and read to do so, is not what was asked for.
        rw if rw.writes() && several => return None,
        Rw::RandRw => ((d.read_bytes + d.written_bytes).saturating_sub(read), 0),
        _ => (d.read_bytes.saturating_sub(read), d.written_bytes.saturating_sub(written)),
    };
    let more = more_read + more_written;
    (more as f64 > allowance(c, d)).then(|| {
        let what = match (&m.load.rw, more_read, more_written) {
            (Rw::RandRw, more, _) => bytes(more),
            (_, read, 0) => format!("{} of reads", bytes(read)),
            (_, 0, written) => format!("{} of writes", bytes(written)),
            (_, read, written) => format!("{} of reads and {} of writes", bytes(read), bytes(written)),
        };
        Warning::new(
            "other_io",
            format!("beside the load's {} the disk did {what} for others", bytes(d.asked_bytes)),
            "stop what else uses the disk (`iotrail trace -a` shows it), let `sync` finish before, and repeat",
        )
    })
}

pub(super) fn not_from_device(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let d = direct_device(m, c)?;
    let (what, did) = match &m.load.rw {
        Rw::RandRw => ("moved", d.read_bytes + d.written_bytes),
        Rw::Write | Rw::RandWrite => ("written", d.written_bytes),
        _ => ("read", d.read_bytes),
    };
    let missing = d.asked_bytes.saturating_sub(did);
    if missing as f64 <= allowance(c, d) {
        return None;
    }
    let (asked, did) = (bytes(d.asked_bytes), bytes(did));
    let target = m.host.target.as_ref();
    let above = target.and_then(|t| Some((t.queue_device.as_deref()?, t.device.as_deref()?)));
    let (text, remedy) = match above {
        Some((above, disk)) if above.starts_with("loop") => (
            format!(
                "of {asked} {what} by direct I/O on {above} the disk below it, {disk}, did {did}: the rest never reached it"
            ),
            "make the loop device pass the page cache by (losetup --direct-io=on), look for holes in a sparse file, or lay the \
             target out anew (--size) on a plain disk",
        ),
        _ => (
            format!("of {asked} {what} by direct I/O the disk did {did}: the rest never reached it"),
            "look for holes in a sparse file, a volume that compresses or caches, a loop device; lay the target out anew \
             (--size) on a plain disk",
        ),
    };
    Some(Warning::new("not_from_device", text, remedy))
}

pub(super) fn cache_changed(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let resident = c.page_cache.as_ref()?.resident;
    if m.load.direct || m.load.file.is_none() || m.load.rw.only_writes() || apart(resident) <= MATTERS {
        return None;
    }
    // All of it read from the device is one state, cold, from beginning to end.
    let cold = c.device.as_ref().is_some_and(|d| d.read_bytes as f64 >= (1.0 - MATTERS) * d.asked_bytes as f64);
    (!cold).then(|| {
        Warning::new(
            "cache_changed",
            format!(
                "{} of the target was in the page cache at the beginning and {} at the end: part of the reads came from \
                 memory, and that part changed",
                percent(resident.before),
                percent(resident.after)
            ),
            "read the target into memory beforehand (a longer --warmup), use a smaller --size, or leave --buffered away",
        )
    })
}

pub(super) fn apart(x: BeforeAfter<f64>) -> f64 {
    (x.after - x.before).abs()
}

pub(super) fn dirty_cache(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let dirty = c.page_cache.as_ref()?.dirty?.before;
    (m.load.direct && m.load.file.is_some() && dirty > DIRTY).then(|| {
        Warning::new(
            "dirty_cache",
            format!(
                "{} of the target waited in the page cache to be written: direct I/O there has to write it first",
                percent(dirty)
            ),
            "let `sync` finish before",
        )
    })
}
