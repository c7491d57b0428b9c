//! The events of a recording for replay: as a table (CSV), and as fio's I/O log with a job file that replays it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use super::csv::written;
use super::requests::field;
use super::table::Field;
use iotrail_base::words::plural;
use iotrail_schema::replay_log::{
    ReplayCallKind, ReplayEvent, ReplayFile, ReplayInterface, ReplayOp, ReplayRequest, ReplaySync,
};

/// File names from the events read so far.
#[derive(Debug, Default)]
pub struct Files(HashMap<u32, ReplayFile>);

impl Files {
    fn take(&mut self, event: &ReplayEvent) {
        if let ReplayEvent::File(file) = event {
            self.0.insert(file.file, file.clone());
        }
    }

    fn find(&self, file: Option<u32>) -> Option<&ReplayFile> {
        self.0.get(&file?)
    }
}

/// Column name, and JSON pointers for requests and for synchronous calls.
const COLUMNS: [(&str, &str, &str); 15] = [
    ("thread", "/tid", "/tid"),
    ("ring", "/ring", ""),
    ("submitted_ns", "/at_ns", "/enter_ns"),
    ("returned_ns", "", "/exit_ns"),
    ("think_ns", "", "/think_ns"),
    ("op", "/op", "/op"),
    ("opcode", "/opcode", ""),
    ("sqe_flags", "/sqe_flags", ""),
    ("offset_bytes", "/offset", "/offset"),
    ("bytes", "/len", "/len"),
    ("buffer", "/buffer", ""),
    ("op_flags", "/op_flags", "/op_flags"),
    ("reaped", "/reaped", ""),
    ("result", "", "/result"),
    ("file_number", "/file", "/file"),
];

/// One row per request and per synchronous call, in recording order. Timestamps are CLOCK_MONOTONIC.
pub struct Table<W: Write> {
    out: csv::Writer<W>,
    files: Files,
    rows: u64,
}

impl<W: Write> Table<W> {
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
        let names = COLUMNS.iter().map(|(name, ..)| *name);
        out.write_record(["kind"].into_iter().chain(names).chain(["file"])).map_err(io::Error::from)?;
        Ok(Self { out, files: Files::default(), rows: 0 })
    }

    pub fn event(&mut self, event: &ReplayEvent) -> io::Result<()> {
        self.files.take(event);
        let (kind, json, file, offset) = match event {
            ReplayEvent::Request(r) => ("request", serde_json::to_value(r)?, r.file, r.offset),
            ReplayEvent::Sync(s) => ("sync", serde_json::to_value(s)?, s.file, s.offset),
            _ => return Ok(()),
        };
        let at = |(name, request, sync): &(&str, &str, &str)| match *name {
            "offset_bytes" if offset == u64::MAX => Field::Unknown,
            _ => match if kind == "request" { *request } else { *sync } {
                "" => Field::Unknown,
                at => field(json.pointer(at)),
            },
        };
        let path = self.files.find(file).map_or(Field::Unknown, |file| Field::Text(file.path.clone()));
        let row = [Field::Text(kind.into())].into_iter().chain(COLUMNS.iter().map(at)).chain([path]);
        self.out.write_record(row.map(|field| written(&field))).map_err(io::Error::from)?;
        self.rows += 1;
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.rows)
    }
}

/// One read, write or sync.
struct Logged {
    ns: u64,
    file: Option<u32>,
    op: ReplayOp,
    offset: u64,
    bytes: u64,
}

impl Logged {
    fn of(event: &ReplayEvent) -> Option<Self> {
        match *event {
            ReplayEvent::Request(ReplayRequest { at_ns: ns, file, op, offset, len, .. }) => {
                Some(Self { ns, file, op, offset, bytes: len.into() })
            }
            ReplayEvent::Sync(ReplaySync { enter_ns: ns, file, op, offset, len: bytes, .. }) => {
                Some(Self { ns, file, op, offset, bytes })
            }
            _ => None,
        }
    }

    fn action(&self) -> Option<&'static str> {
        match self.op {
            ReplayOp::Read if self.offset != u64::MAX => Some("read"),
            ReplayOp::Write if self.offset != u64::MAX => Some("write"),
            ReplayOp::Fsync => Some("sync"),
            ReplayOp::Fdatasync => Some("datasync"),
            _ => None,
        }
    }
}

/// fio's I/O log, version 3, in recording order.
pub struct IoLog<W: Write> {
    out: W,
    files: Files,
    /// Paths opened in the log.
    open: BTreeSet<String>,
    /// Files whose size has changed since they were opened.
    written_files: BTreeSet<String>,
    began: Option<u64>,
    last_us: u64,
    pub written: u64,
    /// Requests and calls that the log format cannot express.
    pub left_out: u64,
}

impl<W: Write> IoLog<W> {
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "fio version 3 iolog")?;
        let (files, open, written_files) = (Files::default(), BTreeSet::new(), BTreeSet::new());
        Ok(Self { out, files, open, written_files, began: None, last_us: 0, written: 0, left_out: 0 })
    }

    pub fn event(&mut self, event: &ReplayEvent) -> io::Result<()> {
        self.files.take(event);
        let Some(logged) = Logged::of(event) else { return Ok(()) };
        // fio splits at blanks and requires absolute paths.
        let is_path = |path: &str| path.starts_with('/') && !path.contains(char::is_whitespace);
        let file = self.files.find(logged.file).filter(|file| file.replayable && is_path(&file.path));
        let (Some(action), Some(file)) = (logged.action(), file) else {
            self.left_out += 1;
            return Ok(());
        };
        // fio stops at the end of a file: a read that was cut short there keeps its actual bytes, a read beyond it has
        // none.
        let mut bytes = logged.bytes;
        if action == "read" && file.size > 0 && !self.written_files.contains(&file.path) {
            bytes = bytes.min(file.size.saturating_sub(logged.offset));
            if bytes == 0 {
                self.left_out += 1;
                return Ok(());
            }
        }
        if action == "write" {
            self.written_files.insert(file.path.clone());
        }
        let began = *self.began.get_or_insert(logged.ns);
        // Events of several threads can be out of order, which fio does not accept.
        self.last_us = self.last_us.max(logged.ns.saturating_sub(began) / 1000);
        let (us, path) = (self.last_us, &file.path);
        if self.open.insert(path.clone()) {
            writeln!(self.out, "{us} {path} add\n{us} {path} open")?;
        }
        let (offset, bytes) = if action.ends_with("sync") { (0, 0) } else { (logged.offset, bytes) };
        writeln!(self.out, "{us} {path} {action} {offset} {bytes}")?;
        self.written += 1;
        Ok(())
    }

    pub fn finish(&mut self) -> io::Result<()> {
        for path in &self.open {
            writeln!(self.out, "{} {path} close", self.last_us)?;
        }
        self.out.flush()
    }
}

/// The fio job options besides the log.
#[derive(Debug, Default)]
pub struct Job {
    files: Files,
    /// Per ring: interface, setup flags, requests, maximum in flight.
    rings: BTreeMap<u32, (ReplayInterface, u32, u64, u64)>,
    used: BTreeMap<u32, u64>,
    batch: u32,
    buffers: bool,
    sqe_flags: u8,
    threads: BTreeSet<u32>,
}

const O_SYNC: u32 = libc::O_SYNC as u32;
const O_DSYNC: u32 = libc::O_DSYNC as u32;
const O_DIRECT: u32 = libc::O_DIRECT as u32;
const IOPOLL: u32 = 1;
const SQPOLL: u32 = 2;
const FIXED_FILE: u8 = 1;
/// Maximum number of files named in the job file.
const NAMED: usize = 10;

impl Job {
    pub fn event(&mut self, event: &ReplayEvent) {
        self.files.take(event);
        match event {
            ReplayEvent::Ring(r) => drop(self.rings.insert(r.ring, (r.interface, r.setup_flags, 0, 0))),
            ReplayEvent::Request(r) => {
                if let Some((_, _, requests, most)) = self.rings.get_mut(&r.ring) {
                    *requests += 1;
                    *most = (*most).max(requests.saturating_sub(r.reaped));
                }
                self.buffers |= r.buffer.is_some();
                self.sqe_flags |= r.sqe_flags;
                self.threads.insert(r.tid);
            }
            ReplayEvent::Call(c) if c.kind != ReplayCallKind::GetEvents => self.batch = self.batch.max(c.to_submit),
            _ => {}
        }
        if let Some(file) = Logged::of(event).filter(|logged| logged.action().is_some()).and_then(|logged| logged.file)
        {
            *self.used.entry(file).or_default() += 1;
        }
    }

    /// A fio job file that replays `log`.
    pub fn text(&self, log: &str) -> String {
        let busiest = self.rings.values().max_by_key(|(_, _, requests, _)| *requests).filter(|(_, _, n, _)| *n > 0);
        let mut out = format!("; replays {log}: writes go to the recorded files\n");
        let used = || self.used.iter().filter_map(|(file, n)| Some((self.files.0.get(file)?, *n)));
        let mut busy: Vec<(&ReplayFile, u64)> = used().filter(|(file, _)| file.replayable).collect();
        busy.sort_by_key(|(file, requests)| (std::cmp::Reverse(*requests), file.file));
        for (file, requests) in busy.iter().take(NAMED) {
            let is = |bits: u32| file.open_flags & bits == bits;
            let named =
                [(is(O_DIRECT), ", O_DIRECT"), (is(O_SYNC), ", O_SYNC"), (is(O_DSYNC) && !is(O_SYNC), ", O_DSYNC")];
            let flags: String = named.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
            let requests = plural(*requests as usize, "request");
            out += &format!("; {}: {} bytes{flags}, {requests}\n", file.path, file.size);
        }
        if busy.len() > NAMED {
            out += &format!("; {} more files\n", busy.len() - NAMED);
        }
        if self.threads.len() > 1 {
            out += &format!("; {} threads submitted: fio replays them in a single thread\n", self.threads.len());
        }
        out += &format!("[replay]\nread_iolog={log}\n");
        let mut option = |name: &str, value: &dyn std::fmt::Display| out += &format!("{name}={value}\n");
        let engine = busiest.map(|(interface, ..)| match interface {
            ReplayInterface::IoUring => "io_uring",
            ReplayInterface::NativeAio => "libaio",
            ReplayInterface::PosixAio => "posixaio",
        });
        option("ioengine", &engine.unwrap_or("psync"));
        if let Some((interface, flags, _, most)) = busiest {
            option("iodepth", most);
            option("iodepth_batch_submit", &self.batch.clamp(1, u32::try_from(*most).unwrap_or(u32::MAX).max(1)));
            if *interface == ReplayInterface::IoUring {
                let is = |bit: u32| u8::from(flags & bit != 0);
                let all = [
                    ("sqthread_poll", is(SQPOLL)),
                    ("hipri", is(IOPOLL)),
                    ("fixedbufs", u8::from(self.buffers)),
                    ("registerfiles", u8::from(self.sqe_flags & FIXED_FILE != 0)),
                ];
                all.iter().filter(|(_, on)| *on == 1).for_each(|(name, on)| option(name, on));
            }
        }
        // The ring with the most requests determines the job options.
        let share = |bits: u32| {
            let of = |(file, n): (&ReplayFile, u64)| if file.open_flags & bits == bits { n } else { 0 };
            2 * used().map(of).sum::<u64>() > used().map(|(_, n)| n).sum()
        };
        option("direct", &u8::from(share(O_DIRECT)));
        if share(O_SYNC) {
            option("sync", &"sync");
        } else if share(O_DSYNC) {
            option("sync", &"dsync");
        }
        out
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
