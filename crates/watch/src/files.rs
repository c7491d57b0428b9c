//! Names of traced requests' files, and the records by file. /proc shows the full path while the process lives and has
//! the file open. The probes report the last path component once per file.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::namespace::Numbers;
use iotrail_host::procfs;
use iotrail_path::files::{Files, Key, Use};
use iotrail_probe::files::LastName;
use iotrail_schema::file::{Descriptor, FileSeen, Kind};
use iotrail_schema::recorded::FileName;
use iotrail_schema::trace_record::{Estimate, FileRecord, FileRequests, OtherFiles};
use iotrail_stats::estimate::{self, Stratum};

/// Names and numbers of a file, in addition to the probes' data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub kind: Kind,
    pub path: String,
    /// Whether this is the path from /proc, not just the last component.
    pub is_whole: bool,
    pub deleted: bool,
    /// Device and inode from stat(2); `None` if not read.
    pub stat: Option<((u32, u32), u64)>,
}

/// A file that is still to be looked up in /proc.
#[derive(Debug)]
struct Waiting {
    key: Key,
    tgid: u32,
    descriptor: Option<Descriptor>,
    looks: u8,
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Is(Name),
    Not,
    /// The lookup stopped early because of its time limit.
    Later,
}

/// Maximum number of known files.
const KEPT: usize = 16_384;
/// Maximum number of lookups per call, and their maximum duration.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_millis(2);
/// Pause after a scan of all descriptors of a process, as a multiple of the scan's duration.
const REST: u32 = 20;
/// Maximum number of descriptors per scan.
const DESCRIPTORS: usize = 4096;
/// Number of scans for a descriptor, which may appear and disappear between two.
const LOOKS: u8 = 3;

#[derive(Debug)]
pub struct Names {
    numbers: Rc<Numbers>,
    last: HashMap<(u32, u64, u32), String>,
    /// `None` if not looked up yet, or if /proc has no path.
    found: HashMap<Key, Option<Name>>,
    waiting: VecDeque<Waiting>,
    next_scan: Instant,
}

impl Names {
    pub fn new(numbers: Rc<Numbers>) -> Self {
        Names {
            numbers,
            last: HashMap::new(),
            found: HashMap::new(),
            waiting: VecDeque::new(),
            next_scan: Instant::now(),
        }
    }

    /// Takes the last path component that the probes report.
    pub fn told(&mut self, name: LastName) {
        let key = (name.device, name.inode, name.generation);
        if self.last.len() < KEPT || self.last.contains_key(&key) {
            self.last.insert(key, name.name);
        }
    }

    /// Records a request on the file.
    pub fn met(&mut self, tgid: u32, file: Option<FileSeen>, descriptor: Option<Descriptor>) {
        let Some(key) = Key::of(tgid, file, descriptor) else { return };
        let is_asked_for = match key {
            Key::Inode { .. } => true,
            Key::Descriptor { kind, .. } => kind == Kind::Unknown,
        };
        if !is_asked_for || self.found.contains_key(&key) || self.found.len() >= KEPT {
            return;
        }
        self.found.insert(key, None);
        self.waiting.push_back(Waiting { key, tgid, descriptor, looks: 0 });
    }

    /// Looks up new files in /proc, within a time limit.
    pub fn look(&mut self) {
        let began = Instant::now();
        for _ in 0..self.waiting.len().min(AT_ONCE) {
            let Some(mut asked) = self.waiting.pop_front() else { return };
            let Some(number) = self.numbers.in_proc(asked.tgid) else { continue };
            match self.find(number, &asked) {
                Answer::Is(name) => drop(self.found.insert(asked.key, Some(name))),
                Answer::Not if asked.looks + 1 == LOOKS => {}
                answer => {
                    asked.looks += u8::from(answer == Answer::Not);
                    self.waiting.push_back(asked);
                }
            }
            if began.elapsed() > PATIENCE {
                return;
            }
        }
    }

    fn last_part(&self, key: &Key) -> Option<&String> {
        match key {
            Key::Inode { device, inode, generation } => self.last.get(&(*device, *inode, *generation)),
            Key::Descriptor { .. } => None,
        }
    }

    fn find(&mut self, number: u32, asked: &Waiting) -> Answer {
        let last = self.last_part(&asked.key).cloned();
        if let Some(Descriptor::Fd(fd)) = asked.descriptor
            && let Some(name) = link(number, fd).filter(|name| is_it(&asked.key, last.as_deref(), name, true))
        {
            return Answer::Is(name);
        }
        let began = Instant::now();
        match asked.key {
            Key::Descriptor { .. } => return Answer::Not,
            Key::Inode { .. } if began < self.next_scan => return Answer::Later,
            Key::Inode { .. } => {}
        }
        let fds: Vec<i32> = procfs::numbers(format!("/proc/{number}/fd")).into_iter().map(|fd| fd as i32).collect();
        let held = fds.iter().take(DESCRIPTORS).filter_map(|fd| link(number, *fd));
        let found = held.into_iter().find(|name| is_it(&asked.key, last.as_deref(), name, false));
        let found = found.or_else(|| match asked.descriptor {
            Some(Descriptor::Fixed(index)) => registered(number, &fds, index)
                .into_iter()
                .find(|name| is_it(&asked.key, last.as_deref(), name, name.stat.is_none())),
            _ => None,
        });
        let now = Instant::now();
        self.next_scan = now + (now - began) * REST;
        found.map_or(Answer::Not, Answer::Is)
    }

    /// Path from /proc, or at least the last component.
    pub fn name(&self, key: &Key) -> Option<Name> {
        let found = self.found.get(key).and_then(Option::as_ref);
        found.cloned().or_else(|| {
            let path = self.last_part(key).filter(|name| !name.is_empty())?.clone();
            Some(Name { kind: Kind::File, path, is_whole: false, deleted: false, stat: None })
        })
    }

    /// Names by inode for a recording.
    pub fn named(&self) -> Vec<FileName> {
        const NAMED: usize = 4096;
        let mut blocks: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        let name = |key: &Key| {
            let Key::Inode { device, inode, generation } = *key else { return None };
            let name = self.name(key)?;
            let path = || Some(Path::new(&name.path)).filter(|_| name.is_whole && !name.deleted);
            let block = || iotrail_host::block::describe(path()?).ok()?.queues.first()?.logical_block_bytes;
            let logical_block_bytes = *blocks.entry(device).or_insert_with(|| block().map(u64::from));
            Some(FileName { device, inode, generation, path: name.path, logical_block_bytes })
        };
        let mut all: Vec<FileName> = self.found.keys().filter_map(name).take(NAMED).collect();
        all.sort_by_key(|f| (f.device, f.inode, f.generation));
        all
    }

    /// File for which a pending request waits: its path or kind; `None` if unknown.
    pub fn of_open(&self, tgid: u32, file: Option<FileSeen>, descriptor: Option<Descriptor>) -> Option<String> {
        let key = Key::of(tgid, file, descriptor)?;
        let now = || match (file, descriptor) {
            // Not looked up yet, but the descriptor can still be read while the process lives.
            (None, Some(Descriptor::Fd(fd))) => link(self.numbers.in_proc(tgid)?, fd),
            _ => None,
        };
        let name = self.name(&key).or_else(now);
        match (name, file) {
            (Some(name), _) => Some(name.path),
            (None, Some(file)) => Some(file.kind.name().into()),
            (None, None) => None,
        }
    }
}

/// Whether `name`, which a descriptor of the process currently refers to, is the file that the kernel reported.
/// `named`: found by the request's own descriptor. In that case an equal last component suffices if stat(2) shows other
/// numbers than the kernel's (btrfs, overlayfs).
fn is_it(key: &Key, last: Option<&str>, name: &Name, named: bool) -> bool {
    let Key::Inode { device, inode, .. } = *key else { return true };
    let alike = || last.is_some_and(|last| name.path.rsplit('/').next() == Some(last));
    match name.stat {
        Some((stat_device, stat_inode)) if stat_inode == inode => stat_device == split(device) || alike(),
        _ => named && alike(),
    }
}

/// Splits the kernel's device number into major and minor.
fn split(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

const DELETED: &str = " (deleted)";

/// The file that a process's descriptor currently refers to.
fn link(number: u32, fd: i32) -> Option<Name> {
    let at = format!("/proc/{number}/fd/{fd}");
    let path = std::fs::read_link(&at).ok()?.into_os_string().into_vec();
    let mut path = String::from_utf8_lossy(&path).into_owned();
    // The link of a pipe, socket or eventfd is its kind and a number.
    let stat = stat(&at)?;
    let is_named = path.starts_with('/');
    let deleted = is_named && path.ends_with(DELETED) && stat.links == 0;
    if deleted {
        path.truncate(path.len() - DELETED.len());
    }
    let kind = match is_named {
        true => Kind::of_mode(stat.mode),
        false if Kind::of_mode(stat.mode) == Kind::Pipe => Kind::Pipe,
        false if Kind::of_mode(stat.mode) == Kind::Socket => Kind::Socket,
        false => Kind::of_anonymous(path.trim_start_matches("anon_inode:").as_bytes().get(..8).unwrap_or_default()),
    };
    if !is_named {
        path = kind.name().into();
    }
    Some(Name { kind, path, is_whole: is_named, deleted, stat: Some((stat.device, stat.inode)) })
}

struct Stat {
    device: (u32, u32),
    inode: u64,
    mode: u32,
    links: u32,
}

/// stat(2) without contacting a file server, which may not respond.
fn stat(path: &str) -> Option<Stat> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
    let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    Some(Stat {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        mode: stat.stx_mode.into(),
        links: stat.stx_nlink,
    })
}

/// Candidates for a registered file by its index: its descriptor may be closed, but the ring's fdinfo has its path
/// (Linux 6.10 and later; previously the last component).
fn registered(number: u32, fds: &[i32], index: u32) -> Vec<Name> {
    let is_ring = |fd: &&i32| {
        std::fs::read_link(format!("/proc/{number}/fd/{fd}")).is_ok_and(|to| to.as_os_str() == "anon_inode:[io_uring]")
    };
    let text = |fd: &i32| std::fs::read(format!("/proc/{number}/fdinfo/{fd}")).ok();
    let paths = fds.iter().take(DESCRIPTORS).filter(is_ring).filter_map(text).filter_map(|t| registered_at(&t, index));
    let name = |path: String| {
        let there = stat(&format!("/proc/{number}/root{path}"));
        let deleted = there.is_none() && path.ends_with(DELETED);
        let kind = there.as_ref().map_or(Kind::File, |s| Kind::of_mode(s.mode));
        let path = if deleted { path[..path.len() - DELETED.len()].to_owned() } else { path };
        Name { kind, path, is_whole: true, deleted, stat: there.map(|s| (s.device, s.inode)) }
    };
    paths.map(name).collect()
}

/// Path at this index in a ring's fdinfo.
fn registered_at(fdinfo: &[u8], index: u32) -> Option<String> {
    let lines = fdinfo.split(|b| *b == b'\n').skip_while(|line| !line.starts_with(b"UserFiles:")).skip(1);
    let row = |line: &[u8]| {
        let text = String::from_utf8_lossy(line).into_owned();
        let (number, path) = text.split_once(": ")?;
        (number.trim().parse() == Ok(index) && path.starts_with('/')).then(|| unescaped(path))
    };
    lines.take_while(|line| line.first().is_some_and(|b| *b == b' ' || b.is_ascii_digit())).find_map(row)
}

/// Decodes seq_path's octal escapes of blanks, newlines and backslashes.
fn unescaped(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let number = after.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()).filter(u8::is_ascii);
        match number {
            Some(b) => out.push(b.into()),
            None => out.push('\\'),
        }
        rest = if number.is_some() { &after[3..] } else { after };
    }
    out + rest
}

/// Maximum number of files in a record, and of descriptors per file.
const LISTED: usize = 20;
const DESCRIPTORS_LISTED: usize = 8;

/// Key for merging: /proc may show that two of the probes' files are the same file.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord, Clone)]
enum Identity {
    Stat(((u32, u32), u64), String),
    Key(Key),
}

/// The busiest files, and the sum of the others; `None` if there are no others.
pub fn records(
    files: &Files,
    name: &dyn Fn(&Key) -> Option<Name>,
    one_in: u32,
) -> (Vec<FileRecord>, Option<OtherFiles>) {
    let mut all: HashMap<Identity, (Key, Option<Name>, Use)> = HashMap::new();
    for (key, of) in files.iter() {
        let name = name(key);
        let told = match &name {
            Some(Name { stat: Some(stat), path, is_whole: true, .. }) => Identity::Stat(*stat, path.clone()),
            _ => Identity::Key(*key),
        };
        match all.get_mut(&told) {
            Some((_, _, sum)) => sum.add(of),
            None => drop(all.insert(told, (*key, name, of.clone()))),
        }
    }
    let mut all: Vec<(Key, Option<Name>, Use)> = all.into_values().collect();
    all.sort_by_key(|(key, _, of)| (std::cmp::Reverse(of.requests().stands_for(one_in)), *key));
    let rest = all.split_off(LISTED.min(all.len()));
    let listed = all.iter().map(|(key, name, of)| record(key, name.as_ref(), of, one_in)).collect();
    let mut requests = files.folded_requests;
    rest.iter().for_each(|(_, _, of)| requests.add(&of.requests()));
    let n = rest.len() as u64 + files.folded;
    let others = (n > 0).then(|| OtherFiles {
        files: n,
        followed: requests.items(),
        requests: estimate(&[requests], one_in).unwrap_or(Estimate { total: 0.0, ci95: [0.0, 0.0] }),
    });
    (listed, others)
}

fn record(key: &Key, name: Option<&Name>, of: &Use, one_in: u32) -> FileRecord {
    let kind = name.map(|n| n.kind).filter(|_| of.kind == Kind::Unknown).unwrap_or(of.kind);
    let (device, inode) = match (name.and_then(|n| n.stat), key) {
        (Some((device, inode)), _) => (Some(device), Some(inode)),
        (None, Key::Inode { device, inode, .. }) => (Some(split(*device)), Some(*inode)),
        _ => (None, None),
    };
    let own = kind.is_named();
    let moved = |m: &iotrail_path::files::Moved| {
        let requests = estimate(&[m.requests], one_in)?;
        let none = Estimate { total: 0.0, ci95: [0.0, 0.0] };
        let bytes = estimate(&m.bytes(), one_in).unwrap_or(none);
        Some(FileRequests { followed: m.requests.items(), requests, bytes: Some(bytes) })
    };
    let descriptors: BTreeSet<&Descriptor> = of.descriptors.iter().collect();
    let path = name.filter(|n| own && n.is_whole && !n.deleted).map(|n| Path::new(&n.path));
    let below = path.and_then(|path| iotrail_host::block::describe(path).ok());
    let queue = below.as_ref().and_then(|below| below.queues.first());
    FileRecord {
        kind,
        path: name.filter(|_| own).map(|n| n.path.clone()),
        path_is_whole: name.is_some_and(|n| own && n.is_whole),
        deleted: of.deleted || name.is_some_and(|n| n.deleted),
        device: device.filter(|_| own).map(|(major, minor)| format!("{major}:{minor}")),
        inode: inode.filter(|_| own),
        logical_block_bytes: queue.and_then(|queue| queue.logical_block_bytes).map(u64::from),
        nr_requests: queue.and_then(|queue| queue.nr_requests),
        queue_device: queue.map(|queue| queue.name.clone()),
        filesystem: below.and_then(|below| below.filesystem),
        tgid: of.processes.first().copied().filter(|_| of.processes.len() == 1),
        processes: of.processes.len() as u64,
        descriptors: descriptors.iter().take(DESCRIPTORS_LISTED).map(ToString::to_string).collect(),
        more_descriptors: descriptors.len().saturating_sub(DESCRIPTORS_LISTED) as u64,
        followed: of.requests().items(),
        reads: moved(&of.reads),
        writes: moved(&of.writes),
        others: estimate(&[of.others], one_in).map(|requests| FileRequests {
            followed: of.others.items(),
            requests,
            bytes: None,
        }),
        latency_ns: of.latency.latency(one_in),
        appended: of.appended,
    }
}

fn estimate(taken: &[Stratum], one_in: u32) -> Option<Estimate> {
    let t = estimate::interval(taken, one_in)?;
    Some(Estimate { total: t.total, ci95: [t.lo, t.hi] })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
