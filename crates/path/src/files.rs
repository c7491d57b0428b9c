//! Files of traced requests, and the sums of the requests per file. Pure.
//!
//! A file is identified by its inode, independent of process and descriptor. An object without its own inode (socket,
//! pipe, eventfd) is identified by process, kind and descriptor.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iotrail_schema::file::{Descriptor, FileSeen, Kind};
use iotrail_schema::opcode;
use iotrail_schema::trail::RequestTrace;
use iotrail_stats::durations::Durations;
use iotrail_stats::estimate::Stratum;

/// Key of the per-file sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Inode { device: u32, inode: u64, generation: u32 },
    Descriptor { tgid: u32, kind: Kind, descriptor: Descriptor },
}

impl Key {
    /// `None` if the operation has no file.
    pub fn of(tgid: u32, file: Option<FileSeen>, descriptor: Option<Descriptor>) -> Option<Key> {
        match (file, descriptor) {
            (Some(f), _) if f.kind.is_named() => {
                Some(Key::Inode { device: f.device, inode: f.inode, generation: f.generation })
            }
            (file, Some(descriptor)) => {
                Some(Key::Descriptor { tgid, kind: file.map_or(Kind::Unknown, |f| f.kind), descriptor })
            }
            _ => None,
        }
    }
}

/// Effect of an operation on its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Reads,
    Writes,
    Other,
}

/// For splice and tee, the named file is the destination.
pub(crate) fn does(name: &str) -> Does {
    match () {
        () if opcode::is(name, opcode::READS) => Does::Reads,
        () if opcode::is(name, opcode::WRITES) => Does::Writes,
        () => Does::Other,
    }
}

/// Requests of one kind and the bytes that they transferred.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    pub requests: Stratum,
    /// Bytes by power of two of the length, because the interval estimate needs items of similar value.
    bytes: BTreeMap<u32, Stratum>,
}

impl Moved {
    fn bytes_taken(&mut self, (weight, scale): (u32, u32), bytes: u64) {
        if let Some(power) = bytes.checked_ilog2() {
            self.bytes.entry(power).or_default().take(weight, bytes as f64 * f64::from(scale));
        }
    }

    /// Strata for [`iotrail_stats::estimate::interval`].
    pub fn bytes(&self) -> Vec<Stratum> {
        self.bytes.values().copied().collect()
    }

    fn add(&mut self, other: &Moved) {
        self.requests.add(&other.requests);
        other.bytes.iter().for_each(|(power, taken)| self.bytes.entry(*power).or_default().add(taken));
    }
}

/// Requests on one file.
#[derive(Debug, Clone)]
pub struct Use {
    pub kind: Kind,
    pub deleted: bool,
    pub reads: Moved,
    pub writes: Moved,
    pub others: Stratum,
    /// Latencies of requests with a single completion.
    pub latency: Durations,
    pub descriptors: BTreeSet<Descriptor>,
    pub processes: BTreeSet<u32>,
    /// Writes that O_APPEND moved to the end.
    pub appended: u64,
}

/// Maximum number of descriptors and of processes kept per file.
const KEPT: usize = 256;

impl Use {
    fn new(kind: Kind) -> Self {
        Use {
            kind,
            deleted: false,
            reads: Moved::default(),
            writes: Moved::default(),
            others: Stratum::default(),
            latency: Durations::default(),
            descriptors: BTreeSet::new(),
            processes: BTreeSet::new(),
            appended: 0,
        }
    }

    /// Number of all requests.
    pub fn requests(&self) -> Stratum {
        let mut all = self.others;
        all.add(&self.reads.requests);
        all.add(&self.writes.requests);
        all
    }

    fn moved(&mut self, does: Does) -> Option<&mut Moved> {
        match does {
            Does::Reads => Some(&mut self.reads),
            Does::Writes => Some(&mut self.writes),
            Does::Other => None,
        }
    }

    fn used_by(&mut self, tgid: u32, descriptor: Option<Descriptor>) {
        if self.processes.len() < KEPT {
            self.processes.insert(tgid);
        }
        if let Some(descriptor) = descriptor.filter(|_| self.descriptors.len() < KEPT) {
            self.descriptors.insert(descriptor);
        }
    }

    pub fn add(&mut self, other: &Use) {
        self.deleted |= other.deleted;
        self.appended += other.appended;
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.others.add(&other.others);
        self.latency.add(&other.latency);
        self.descriptors.extend(&other.descriptors);
        self.processes.extend(&other.processes);
    }
}

/// Maximum number of files with their own sum. When there are twice as many, the least busy are merged.
const APART: usize = 256;

/// Sums of the traced requests per file.
#[derive(Debug, Clone, Default)]
pub struct Files {
    apart: HashMap<Key, Use>,
    /// Upper bound of the number of merged files: a file that returns is counted again.
    pub folded: u64,
    pub folded_requests: Stratum,
}

impl Files {
    /// `is_first`: first completion of its request. `scale`: ratio of the represented time to the traced time.
    pub fn take(&mut self, trail: &RequestTrace, is_first: bool, scale: u32) {
        let Some(of) = self.used(trail) else { return };
        let bytes = if trail.notification { 0 } else { trail.result.max(0) as u64 };
        let is_whole = is_first && trail.is_last_result();
        of.done(does(&trail.opcode), (trail.weight, scale), is_first, bytes, is_whole.then(|| trail.latency_ns()));
    }

    /// Adds a request whose completion found the CQ full, so that its latency is unknown.
    pub fn take_overflowed(&mut self, trail: &RequestTrace) {
        let Some(of) = self.used(trail) else { return };
        of.done(does(&trail.opcode), (trail.weight, 1), true, trail.result.max(0) as u64, None);
    }

    /// Adds a native or POSIX AIO request, of which only the descriptor is known. `weight`: its own weight and the
    /// scale.
    pub fn take_reaped(&mut self, tgid: u32, fd: i32, opcode: &str, weight: (u32, u32), result: i64, latency_ns: u64) {
        let descriptor = Descriptor::Fd(fd);
        let of = self.of(Key::Descriptor { tgid, kind: Kind::Unknown, descriptor }, Kind::Unknown);
        of.used_by(tgid, Some(descriptor));
        of.done(does(opcode), weight, true, result.max(0) as u64, Some(latency_ns));
    }

    /// The sum of the request's file; `None` if the request has no file.
    fn used(&mut self, trail: &RequestTrace) -> Option<&mut Use> {
        let key = Key::of(trail.tgid, trail.file, trail.descriptor)?;
        let of = self.of(key, trail.file.map_or(Kind::Unknown, |f| f.kind));
        of.deleted |= trail.file.is_some_and(|f| f.deleted);
        of.appended += u64::from(trail.file.is_some_and(|f| f.appended));
        of.used_by(trail.tgid, trail.descriptor);
        Some(of)
    }

    fn of(&mut self, key: Key, kind: Kind) -> &mut Use {
        if self.apart.len() >= 2 * APART && !self.apart.contains_key(&key) {
            self.thin();
        }
        self.apart.entry(key).or_insert_with(|| Use::new(kind))
    }

    /// Keeps the busiest files and merges the rest.
    fn thin(&mut self) {
        let mut all: Vec<(Key, Use)> = self.apart.drain().collect();
        all.sort_by_key(|(key, of)| (std::cmp::Reverse(of.requests().items()), *key));
        for (_, of) in all.drain(APART.min(all.len())..) {
            self.folded += 1;
            self.folded_requests.add(&of.requests());
        }
        self.apart.extend(all);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Use)> {
        self.apart.iter()
    }

    pub fn clear(&mut self) {
        *self = Files::default();
    }
}

impl Use {
    fn done(&mut self, does: Does, of: (u32, u32), is_first: bool, bytes: u64, latency_ns: Option<u64>) {
        let (weight, scale) = of;
        match self.moved(does) {
            Some(moved) => {
                if is_first {
                    moved.requests.take(weight, scale.into());
                }
                moved.bytes_taken(of, bytes);
            }
            None if is_first => self.others.take(weight, scale.into()),
            None => {}
        }
        if let Some(ns) = latency_ns {
            self.latency.take(ns, weight.max(1).saturating_mul(scale));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail_example::trail;
    use iotrail_stats::estimate;

    fn seen(kind: Kind, inode: u64) -> FileSeen {
        FileSeen { kind, device: 8 << 20 | 1, inode, generation: 5, deleted: false, appended: false }
    }

    fn on(inode: u64, fd: i32, opcode: &str, result: i32) -> RequestTrace {
        let file = Some(seen(Kind::File, inode));
        RequestTrace { file, descriptor: Some(Descriptor::Fd(fd)), opcode: opcode.into(), result, ..trail() }
    }

    #[test]
    fn descriptors_of_the_same_inode_count_as_one_file() {
        let mut files = Files::default();
        for (fd, opcode, result) in [(3, "read", 4096), (4, "readv", 100), (3, "write", 512), (3, "fsync", 0)] {
            files.take(&on(77, fd, opcode, result), true, 1);
        }
        files.take(&RequestTrace { descriptor: Some(Descriptor::Fixed(3)), ..on(77, 0, "read_fixed", -5) }, true, 1);
        files.take(&on(78, 3, "read", 1), true, 1);
        // A timeout has no file.
        files.take(&RequestTrace { file: None, descriptor: None, ..on(0, 0, "timeout", -62) }, true, 1);
        assert_eq!(files.iter().count(), 2);
        let key = Key::Inode { device: 8 << 20 | 1, inode: 77, generation: 5 };
        let of = &files.apart[&key];
        assert_eq!([&of.reads, &of.writes].map(|m| m.requests.items()), [3, 1]);
        assert_eq!([&of.reads, &of.writes].map(|m| estimate::interval(&m.bytes(), 1).unwrap().total), [4196.0, 512.0]);
        assert_eq!((of.others.items(), of.latency.latency(1).count), (1, 5));
        let descriptors: Vec<String> = of.descriptors.iter().map(Descriptor::to_string).collect();
        assert_eq!(descriptors, ["fd 3", "fd 4", "fixed 3"]);
    }

    #[test]
    fn sockets_are_identified_by_process_and_descriptor() {
        let mut files = Files::default();
        let recv =
            |tgid, fd, more| RequestTrace { tgid, file: Some(seen(Kind::Socket, 0)), more, ..on(0, fd, "recv", 10) };
        // Two completions of the same request.
        files.take(&recv(1, 5, true), true, 1);
        files.take(&recv(1, 5, false), false, 1);
        files.take(&recv(2, 5, false), true, 1);
        assert_eq!(files.iter().count(), 2);
        let key = Key::Descriptor { tgid: 1, kind: Kind::Socket, descriptor: Descriptor::Fd(5) };
        let of = &files.apart[&key];
        assert_eq!((of.reads.requests.items(), of.latency.latency(1).count), (1, 0));
        assert_eq!(estimate::interval(&of.reads.bytes(), 1).map(|t| t.total), Some(20.0));
    }

    #[test]
    fn the_least_busy_files_are_summed_together() {
        let mut files = Files::default();
        for inode in 0..2000 {
            files.take(&on(inode, 3, "read", 1), true, 1);
            files.take(&on(1_000_000, 3, "read", 1), true, 1);
        }
        assert!(files.iter().count() <= 2 * APART);
        let busiest = files.iter().map(|(_, of)| of.requests().items()).max();
        assert_eq!(busiest, Some(2000));
        let all: u64 = files.iter().map(|(_, of)| of.requests().items()).sum();
        assert_eq!(all + files.folded_requests.items(), 4000);
        assert_eq!(files.iter().count() as u64 + files.folded, 2001);
    }

    #[test]
    fn file_kinds_are_determined_by_mode_and_anonymous_inode_name() {
        assert_eq!(Kind::of_mode(0o100644), Kind::File);
        assert_eq!(Kind::of_mode(libc::S_IFSOCK), Kind::Socket);
        for (name, kind) in [
            ("[eventfd", Kind::Eventfd),
            ("[timerfd", Kind::Timerfd),
            ("[eventpo", Kind::Epoll),
            ("[io_urin", Kind::IoUring),
            ("inotify\0", Kind::Inotify),
            ("[pidfd]\0", Kind::Pidfd),
            ("bpf-map\0", Kind::Anonymous),
            ("\0\0\0\0\0\0\0\0", Kind::Anonymous),
        ] {
            assert_eq!(Kind::of_anonymous(name.as_bytes()), kind, "{name}");
        }
    }
}
