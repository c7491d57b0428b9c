//! Circumstances of the storage and the page cache.

use super::threshold::MATTERS;
use iotrail_base::words::{bytes, percent};
use iotrail_schema::measurement::Rw;
use iotrail_schema::measurement::{BeforeAfter, Circumstances, DeviceBytes, Measurement, Warning};

/// Bytes that other programs may transfer in any span: a file system journal, a daemon's log, a program's pages. In a
/// short load they exceed [`MATTERS`] but amount to a few dozen I/Os.
const OTHERS_BYTES: f64 = (512 << 10) as f64;

/// The same per second: an otherwise idle machine writes tens of KiB per second.
const OTHERS_BYTES_PER_S: f64 = (128 << 10) as f64;

/// A direct I/O to a page under writeback has to wait for its write.
const DIRTY: f64 = 0.01;

/// Direct I/O to a target whose disks have counters: they should have transferred the requested bytes.
fn direct_device<'a>(m: &Measurement, c: &'a Circumstances) -> Option<&'a DeviceBytes> {
    // Bytes of failed I/Os may or may not have been transferred; loads with failures have their own warning.
    c.device.as_ref().filter(|_| m.load.direct && m.load.file.is_some() && m.errors == Some(0))
}

/// Bytes (read, written) that the load transferred; for mixed loads, the first value contains all.
pub(super) fn asked(m: &Measurement, d: &DeviceBytes) -> (u64, u64) {
    if m.load.rw.only_writes() { (0, d.asked_bytes) } else { (d.asked_bytes, 0) }
}

/// Allowed difference between the bytes that the disks transferred and the requested bytes.
fn allowance(c: &Circumstances, d: &DeviceBytes) -> f64 {
    MATTERS * d.asked_bytes as f64 + OTHERS_BYTES + OTHERS_BYTES_PER_S * c.span_ns as f64 / 1e9
}

pub(super) fn other_io(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let d = direct_device(m, c)?;
    let (read, written) = asked(m, d);
    let several = m.host.target.as_ref().and_then(|t| t.device.as_ref()).is_some_and(|name| name.contains('+'));
    let (more_read, more_written) = match &m.load.rw {
        // Arrays of disks write copies and checksums, and read for them, in addition to the requested bytes.
        rw if rw.writes() && several => return None,
        // Each commit writes to the file system's journal.
        _ if m.load.commit.is_durable() => return None,
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
            format!(
                "in addition to the load's {}, the disk transferred {what} for other programs",
                bytes(d.asked_bytes)
            ),
            "stop other users of the disk (`iotrail trace -a` lists them), run `sync`, and measure again",
        )
    })
}

pub(super) fn not_from_device(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let d = direct_device(m, c)?;
    let (what, did) = match &m.load.rw {
        Rw::RandRw => ("moved", d.read_bytes + d.written_bytes),
        rw if rw.only_writes() => ("written", d.written_bytes),
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
                "of {asked} {what} by direct I/O on {above}, the underlying disk {disk} transferred only {did}: the rest never reached the disk"
            ),
            "let the loop device bypass the page cache (losetup --direct-io=on), check for holes in a sparse file, or recreate the target (--size) \
             on a plain disk",
        ),
        _ => (
            format!(
                "of {asked} {what} by direct I/O, the disk transferred only {did}: the rest never reached the disk"
            ),
            "check for holes in a sparse file, for a volume that compresses or caches, and for a loop device; or recreate the target (--size) on a \
             plain disk",
        ),
    };
    Some(Warning::new("not_from_device", text, remedy))
}

pub(super) fn cache_changed(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let resident = c.page_cache.as_ref()?.resident;
    if m.load.direct || m.load.file.is_none() || m.load.rw.only_writes() || apart(resident) <= MATTERS {
        return None;
    }
    // A target that was read entirely from the device had one state throughout: a cold cache.
    let cold = c.device.as_ref().is_some_and(|d| d.read_bytes as f64 >= (1.0 - MATTERS) * d.asked_bytes as f64);
    (!cold).then(|| {
        Warning::new(
            "cache_changed",
            format!(
                "the page cache held {} of the target at the start and {} at the end: the share of reads from memory changed",
                percent(resident.before),
                percent(resident.after)
            ),
            "read the target into memory first (a longer --warmup), use a smaller --size, or drop --buffered",
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
                "{} of the target was dirty in the page cache: direct I/O must write these pages back first",
                percent(dirty)
            ),
            "run `sync` before the measurement",
        )
    })
}
