//! Captures events for replay ([`ReplayEvent`]) with the programs of `capture.bpf.c`, a separate object that is loaded
//! only for replay recordings. It uses the traced processes of a [`Watch`].

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject, RingBuffer, RingBufferBuilder};
use linux_raw_sys::general::__NR_io_pgetevents;
use linux_raw_sys::io_uring::{IORING_FSYNC_DATASYNC, io_uring_op};

use super::capture_skel::{CaptureSkel, CaptureSkelBuilder, types};
use super::numbers::KernelIds;
use super::support::{self, Facts};
use crate::raw::read;
use crate::watch::Watch;
use iotrail_base::error::{Error, Result};
use iotrail_schema::replay_log::{
    ReplayCall, ReplayCallKind, ReplayEvent, ReplayFile, ReplayInterface, ReplayOp, ReplayRequest, ReplayRing,
    ReplaySync,
};

const REQUEST: usize = size_of::<types::captured_request>();
const CALL: usize = size_of::<types::captured_call>();
const SYNC: usize = size_of::<types::captured_sync>();
const RING: usize = size_of::<types::captured_ring>();
const FILE: usize = size_of::<types::captured_file>();
const _: () = assert!(RING < REQUEST && REQUEST < SYNC && SYNC < CALL && CALL < FILE);

/// Number of calibration calls, which measure the probes' share of a think time.
const CALIBRATION: usize = 2000;
/// Maximum number of records per read.
const AT_ONCE: usize = 8192;

/// Memory of the loaded object; it must outlive the [`Capture`].
#[derive(Default)]
pub struct ObjectSlot(Option<MaybeUninit<OpenObject>>);

/// Attached programs. Dropping it detaches them.
pub struct Capture<'room> {
    skel: CaptureSkel<'room>,
    links: Vec<Link>,
    floor_ns: u64,
}

fn failed(e: libbpf_rs::Error) -> Error {
    support::refused("the program cannot be captured for a replay", e)
}

impl<'room> Capture<'room> {
    /// Loads and attaches the programs, and starts the capture.
    pub fn open(room: &'room mut ObjectSlot, watch: &Watch<'_>) -> Result<Self> {
        support::quiet();
        let facts = Facts::of_this_kernel();
        let mut open = CaptureSkelBuilder::default().open(room.0.insert(MaybeUninit::uninit())).map_err(failed)?;
        let constants = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        constants.preemptible = facts.preemptible;
        for (nr, kind) in calls() {
            constants.captured_calls[nr as usize] = kind as u8;
        }
        open.maps.followed.reuse_fd(watch.followed_map()).map_err(failed)?;
        let renamed = facts.tracepoints.as_ref().is_some_and(|all| all.contains("io_uring_submit_req"));
        open.progs.capture_request.set_autoload(renamed);
        open.progs.capture_request_sqe.set_autoload(!renamed);
        let skel = open.load().map_err(failed)?;
        let mut capture = Capture { skel, links: vec![], floor_ns: 0 };
        let programs = capture.skel.object_mut().progs_mut().filter(|program| program.autoload());
        capture.links = programs.map(|program| program.attach()).collect::<libbpf_rs::Result<_>>().map_err(failed)?;
        capture.floor_ns = capture.calibrate()?;
        Ok(capture)
    }

    /// Measures the time between two calls of a thread that does nothing in between.
    fn calibrate(&mut self) -> Result<u64> {
        let tid = KernelIds::of_this_thread()?.tid;
        let unreadable = |e| Error::machine("cannot read a byte of /proc/self/exe", "mount /proc").because(e);
        let file = File::open("/proc/self/exe").map_err(unreadable)?;
        self.bss().calibrating_tid = tid;
        for _ in 0..CALIBRATION {
            file.read_at(&mut [0], 0).map_err(unreadable)?;
        }
        let bss = self.bss();
        bss.calibrating_tid = 0;
        let taken = (bss.floors_taken as usize).min(bss.floors.len());
        let mut floors = bss.floors[..taken].to_vec();
        floors.sort_unstable();
        Ok(floors.get(taken / 2).copied().unwrap_or(0))
    }

    fn bss(&mut self) -> &mut types::bss {
        self.skel.maps.bss_data.as_deref_mut().expect("the object has counters")
    }

    /// The events and counters for the reading thread.
    pub fn source(&self) -> Result<Source> {
        let records = MapHandle::try_from(&self.skel.maps.captured).map_err(failed)?;
        let counters = MapHandle::try_from(&self.skel.maps.bss).map_err(failed)?;
        Ok(Source { records, counters, floor_ns: self.floor_ns })
    }

    /// Stops the capture.
    pub fn detach(&mut self) {
        self.links.clear();
    }
}

/// System calls by number, with their `enum call_class` and argument meaning.
fn calls() -> Vec<(libc::c_long, u32)> {
    use types::call_class as class;
    let of = |kind: class, more: &[class]| more.iter().fold(kind.0, |all, one| all | one.0);
    let (read, write) = (class::CALL_READ, class::CALL_WRITE);
    let (vectored, positioned, flagged) = (class::CALL_VECTORED, class::CALL_POSITIONED, class::CALL_FLAGGED);
    vec![
        (libc::SYS_io_uring_enter, of(class::CALL_ENTER, &[])),
        (libc::SYS_io_submit, of(class::CALL_SUBMIT, &[])),
        (libc::SYS_io_getevents, of(class::CALL_GETEVENTS, &[])),
        (__NR_io_pgetevents.into(), of(class::CALL_GETEVENTS, &[])),
        (libc::SYS_io_setup, of(class::CALL_SETUP, &[])),
        (libc::SYS_read, of(read, &[])),
        (libc::SYS_write, of(write, &[])),
        (libc::SYS_readv, of(read, &[vectored])),
        (libc::SYS_writev, of(write, &[vectored])),
        (libc::SYS_pread64, of(read, &[positioned])),
        (libc::SYS_pwrite64, of(write, &[positioned])),
        (libc::SYS_preadv, of(read, &[vectored, positioned])),
        (libc::SYS_pwritev, of(write, &[vectored, positioned])),
        (libc::SYS_preadv2, of(read, &[vectored, positioned, flagged])),
        (libc::SYS_pwritev2, of(write, &[vectored, positioned, flagged])),
        (libc::SYS_fsync, of(class::CALL_FSYNC, &[])),
        (libc::SYS_fdatasync, of(class::CALL_FDATASYNC, &[])),
        (libc::SYS_sync_file_range, of(class::CALL_SYNC_FILE_RANGE, &[])),
        (libc::SYS_fallocate, of(class::CALL_FALLOCATE, &[])),
    ]
}

/// The reader's view of the ring buffer, passed to its thread.
pub struct Source {
    records: MapHandle,
    counters: MapHandle,
    floor_ns: u64,
}

impl Source {
    /// Opens the buffer; called in the reading thread.
    pub fn open(self) -> Result<Events> {
        let arrived = Rc::new(RefCell::new(VecDeque::new()));
        let mut builder = RingBufferBuilder::new();
        let maker = RefCell::new(Maker { floor_ns: self.floor_ns, ..Maker::default() });
        let out = Rc::clone(&arrived);
        let take = move |record: &[u8]| {
            maker.borrow_mut().take(record, &mut out.borrow_mut());
            0
        };
        builder.add(&self.records, take).map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        Ok(Events { ring, arrived, counters: self.counters })
    }
}

/// Captured events in the order of arrival.
pub struct Events {
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<VecDeque<ReplayEvent>>>,
    counters: MapHandle,
}

/// Number of events that could not be captured since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uncaptured {
    /// Events lost because the ring buffer or a map was full.
    pub lost: u64,
    /// System calls in the 32-bit table.
    pub narrow_calls: u64,
}

impl Events {
    /// Passes all available events to `each`, in order.
    pub fn take(&self, each: &mut dyn FnMut(ReplayEvent) -> Result<()>) -> Result<()> {
        loop {
            let taken = self.ring.consume_raw_n(AT_ONCE);
            if taken < 0 {
                let cause = std::io::Error::from_raw_os_error(-taken);
                return Err(Error::machine("cannot read captured events", "report this").because(cause));
            }
            self.arrived.borrow_mut().drain(..).try_for_each(&mut *each)?;
            if (taken as usize) < AT_ONCE {
                return Ok(());
            }
        }
    }

    pub fn uncaptured(&self) -> Result<Uncaptured> {
        let bytes = self.counters.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        let bss: types::bss = read(&bytes.unwrap_or_default());
        Ok(Uncaptured { lost: bss.lost, narrow_calls: bss.narrow_calls })
    }
}

/// Converts records to events.
#[derive(Default)]
struct Maker {
    floor_ns: u64,
    rings: HashMap<u32, Reaped>,
    /// Pending io_submit requests by thread: until the call returns, it is unknown how many it accepts.
    submitting: HashMap<u32, Vec<ReplayRequest>>,
}

impl Maker {
    fn take(&mut self, record: &[u8], out: &mut VecDeque<ReplayEvent>) {
        match record.len() {
            RING => out.push_back(ReplayEvent::Ring(self.ring(read(record)))),
            FILE => out.push_back(ReplayEvent::File(file(&read(record)))),
            SYNC => out.push_back(ReplayEvent::Sync(self.sync(read(record)))),
            CALL => {
                let call = self.call(read(record));
                let taken = usize::try_from(call.result).unwrap_or(0);
                let submitted = self.submitting.get_mut(&call.tid).filter(|_| call.kind == ReplayCallKind::Submit);
                if let Some(requests) = submitted {
                    requests.truncate(taken);
                    let reaped = call.reaped;
                    out.extend(requests.drain(..).map(|r| ReplayEvent::Request(ReplayRequest { reaped, ..r })));
                }
                out.push_back(ReplayEvent::Call(call));
            }
            _ => {
                let (request, interface) = self.request(read(record));
                match interface {
                    ReplayInterface::IoUring => out.push_back(ReplayEvent::Request(request)),
                    _ => self.submitting.entry(request.tid).or_default().push(request),
                }
            }
        }
    }

    fn ring(&mut self, r: types::captured_ring) -> ReplayRing {
        let reaped = Reaped::met(&r);
        let interface = reaped.interface;
        let cq_entries = if interface == ReplayInterface::IoUring { r.cq_entries } else { 0 };
        self.rings.insert(r.ring, reaped);
        ReplayRing { ring: r.ring, interface, sq_entries: r.sq_entries, cq_entries, setup_flags: r.flags }
    }

    /// Completions reaped so far, at the entry of a call.
    fn reaped(&mut self, c: &types::captured_call) -> u64 {
        let Some(ring) = self.rings.get_mut(&c.ring) else { return 0 };
        if ring.interface == ReplayInterface::IoUring {
            return ring.at(c.head);
        }
        let reaps = c.class == types::call_class::CALL_GETEVENTS;
        ring.of_context(c.head, c.flags, if reaps { u32::try_from(c.result).unwrap_or(0) } else { 0 })
    }

    fn request(&mut self, r: types::captured_request) -> (ReplayRequest, ReplayInterface) {
        let ring = self.rings.get_mut(&r.ring);
        let interface = ring.as_ref().map_or(ReplayInterface::IoUring, |ring| ring.interface);
        let reaped = ring.filter(|_| interface == ReplayInterface::IoUring).map_or(0, |ring| ring.at(r.head));
        let file = r.file.checked_sub(1);
        let (op, fixed) = match interface {
            ReplayInterface::IoUring => op_of_ring(r.opcode, r.op_flags),
            _ => (op_of_context(r.opcode), false),
        };
        let can_be_done = r.refused == 0 && (file.is_some() || op == ReplayOp::Nop);
        let request = ReplayRequest {
            tid: r.tid,
            ring: r.ring,
            at_ns: r.ns,
            op: if can_be_done { op } else { ReplayOp::Other },
            opcode: r.opcode,
            sqe_flags: r.sqe_flags,
            file,
            offset: r.offset,
            len: r.len,
            buffer: fixed.then_some(r.buffer),
            op_flags: r.op_flags,
            reaped,
        };
        (request, interface)
    }

    fn think(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.floor_ns)
    }

    fn call(&mut self, c: types::captured_call) -> ReplayCall {
        use types::call_class as class;
        let kind = match c.class {
            class::CALL_ENTER => ReplayCallKind::Enter,
            class::CALL_SUBMIT => ReplayCallKind::Submit,
            _ => ReplayCallKind::GetEvents,
        };
        ReplayCall {
            tid: c.tid,
            ring: c.ring,
            kind,
            enter_ns: c.entered_ns,
            exit_ns: c.left_ns,
            think_ns: self.think(c.think_ns),
            to_submit: c.to_submit,
            min_complete: c.min_complete,
            flags: if kind == ReplayCallKind::Enter { c.flags } else { 0 },
            result: c.result,
            reaped: self.reaped(&c),
            heads_reaped: (c.has_heads != 0).then_some(c.heads_reaped),
        }
    }

    fn sync(&self, s: types::captured_sync) -> ReplaySync {
        use types::call_class as class;
        ReplaySync {
            tid: s.tid,
            enter_ns: s.entered_ns,
            exit_ns: s.left_ns,
            think_ns: self.think(s.think_ns),
            op: match s.class {
                class::CALL_READ => ReplayOp::Read,
                class::CALL_WRITE => ReplayOp::Write,
                class::CALL_FSYNC => ReplayOp::Fsync,
                class::CALL_FDATASYNC => ReplayOp::Fdatasync,
                class::CALL_SYNC_FILE_RANGE => ReplayOp::SyncFileRange,
                class::CALL_FALLOCATE => ReplayOp::Fallocate,
                _ => ReplayOp::Other,
            },
            file: s.file.checked_sub(1),
            offset: s.offset,
            len: s.len,
            op_flags: s.op_flags,
            result: s.result,
        }
    }
}

/// The operation, and whether its buffer is registered.
fn op_of_ring(opcode: u8, op_flags: u32) -> (ReplayOp, bool) {
    use io_uring_op::*;
    let is = |ops: &[io_uring_op]| ops.iter().any(|op| *op as u32 == u32::from(opcode));
    match opcode {
        // IORING_OP_READV_FIXED, IORING_OP_WRITEV_FIXED (6.15)
        60 => (ReplayOp::Read, true),
        61 => (ReplayOp::Write, true),
        _ if is(&[IORING_OP_READ_FIXED]) => (ReplayOp::Read, true),
        _ if is(&[IORING_OP_WRITE_FIXED]) => (ReplayOp::Write, true),
        _ if is(&[IORING_OP_READ, IORING_OP_READV]) => (ReplayOp::Read, false),
        _ if is(&[IORING_OP_WRITE, IORING_OP_WRITEV]) => (ReplayOp::Write, false),
        _ if is(&[IORING_OP_FSYNC]) && op_flags & IORING_FSYNC_DATASYNC != 0 => (ReplayOp::Fdatasync, false),
        _ if is(&[IORING_OP_FSYNC]) => (ReplayOp::Fsync, false),
        _ if is(&[IORING_OP_SYNC_FILE_RANGE]) => (ReplayOp::SyncFileRange, false),
        _ if is(&[IORING_OP_FALLOCATE]) => (ReplayOp::Fallocate, false),
        _ if is(&[IORING_OP_NOP]) => (ReplayOp::Nop, false),
        _ => (ReplayOp::Other, false),
    }
}

/// IOCB_CMD_…: include/uapi/linux/aio_abi.h.
fn op_of_context(opcode: u8) -> ReplayOp {
    match opcode {
        0 | 7 => ReplayOp::Read,
        1 | 8 => ReplayOp::Write,
        2 => ReplayOp::Fsync,
        3 => ReplayOp::Fdatasync,
        6 => ReplayOp::Nop,
        _ => ReplayOp::Other,
    }
}

/// Counts the completions that the program has reaped, from the queue's head, which wraps around.
#[derive(Debug)]
struct Reaped {
    interface: ReplayInterface,
    /// The head wraps around at this value.
    values: u64,
    last: u32,
    all: u64,
    /// Completions of requests from before the trace.
    earlier: u64,
}

/// IORING_SETUP_SQ_REWIND (7.0): the SQ head does not count SQEs.
const SQ_REWIND: u32 = 1 << 20;

impl Reaped {
    fn met(r: &types::captured_ring) -> Self {
        let is_context = r.aio != 0;
        let in_flight = u64::from(r.submitted.wrapping_sub(r.head));
        // A larger difference is not a number of requests: multishot requests post several completions, others none.
        let is_known = !is_context && r.flags & SQ_REWIND == 0 && in_flight <= 2 * u64::from(r.cq_entries);
        Reaped {
            interface: if is_context { ReplayInterface::NativeAio } else { ReplayInterface::IoUring },
            values: 1 << 32,
            last: r.head,
            all: 0,
            earlier: if is_known { in_flight } else { 0 },
        }
    }

    /// Threads of a ring may report an older head after a newer one, which looks like almost a full turn. One call may
    /// reap nearly all events of a context, so only the last sixteenth counts as an older head.
    fn at(&mut self, head: u32) -> u64 {
        let ahead = (u64::from(head) + self.values - u64::from(self.last) % self.values) % self.values;
        if ahead <= self.values - self.values / 16 {
            self.all += ahead;
            self.last = head;
        }
        self.all.saturating_sub(self.earlier)
    }

    /// The same for a context. `events`: size of its ring; 0: unknown, so that only calls count. `result`: number of
    /// events that the call is about to reap.
    fn of_context(&mut self, head: u32, events: u32, result: u32) -> u64 {
        if events > 0 {
            self.values = events.into();
            return self.at(head);
        }
        let before = self.all;
        self.all += u64::from(result);
        self.last = self.last.wrapping_add(result);
        before
    }
}

/// include/uapi/linux/stat.h
const S_IFMT: u32 = 0o170_000;
const S_IFBLK: u32 = 0o060_000;

/// File systems whose files contain no replayable data: procfs, sysfs, cgroups, debugfs, tracefs, securityfs, bpffs,
/// configfs.
const WITHOUT_DATA: [u64; 9] =
    [0x9fa0, 0x6265_6572, 0x27_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0xcafe_4a11, 0x6265_6570];

fn file(f: &types::captured_file) -> ReplayFile {
    let bytes: Vec<u8> = f.path.iter().take(f.bytes as usize).map(|b| *b as u8).collect();
    let mut names: Vec<&[u8]> = bytes.split(|b| *b == 0).filter(|name| !name.is_empty()).collect();
    let is_named = !names.is_empty();
    names.reverse();
    let path: String = names.iter().map(|name| format!("/{}", String::from_utf8_lossy(name))).collect();
    let deleted = if f.links == 0 { " (deleted)" } else { "" };
    let has_data = f.mode & S_IFMT == S_IFBLK || !WITHOUT_DATA.contains(&f.magic);
    ReplayFile {
        file: f.file - 1,
        path: if is_named { path } else { "/".into() } + deleted,
        replayable: is_named && has_data,
        open_flags: f.flags,
        size: f.size,
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
