//! Maps rings to file descriptors, by matching the rings in /proc with those that the probes counted.
//!
//! The two have no common key. A ring's file has its own inode number (Linux 5.16 and later), by which several
//! descriptors, of a process or its children, are recognised as one ring. The probes know the ring's size, process and
//! SQPOLL thread. An ambiguous match is not used. A ring whose descriptor was closed after registration has no match.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use iotrail_host::procfs;
use iotrail_probe::rings::{OtherCounts, RingCounts};
use iotrail_schema::trace_record::NapiRecord;

/// IORING_SETUP_SQPOLL.
pub const SQPOLL: u32 = linux_raw_sys::io_uring::IORING_SETUP_SQPOLL;

/// Contents of /proc/TGID/fdinfo/FD for a ring. Entries, tail and thread are missing while the ring is locked (Linux
/// 6.16 and later then print nothing, earlier kernels no thread).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FdInfo {
    pub inode: Option<u64>,
    pub sq_entries: Option<u32>,
    pub cq_entries: Option<u32>,
    /// Completions posted since the ring was created, mod 2³².
    pub cq_tail: Option<u32>,
    /// TID in the initial PID namespace; `None` if the ring has no SQPOLL thread or the TID is unknown.
    pub sq_thread: Option<u32>,
    pub sq_cpu: Option<i32>,
    /// Time for which the thread worked, as counted by the kernel (Linux 6.9 and later).
    pub sq_work_ns: Option<u64>,
    /// `None` if NAPI is not registered or this is unknown.
    pub napi: Option<NapiRecord>,
}

impl FdInfo {
    pub fn parse(text: &str) -> FdInfo {
        let mut info = FdInfo::default();
        let (mut napi_ns, mut is_static) = (None, false);
        for (key, value) in text.lines().filter_map(|line| line.split_once(":\t")) {
            let entries = || u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()?.checked_add(1);
            match key {
                "ino" => info.inode = value.parse().ok(),
                "SqMask" => info.sq_entries = entries(),
                "CqMask" => info.cq_entries = entries(),
                // The kernel's own tail, which may be ahead of the tail in shared memory.
                "CachedCqTail" => info.cq_tail = value.parse().ok(),
                // -1: no thread.
                "SqThread" => info.sq_thread = value.parse().ok(),
                "SqThreadCpu" => info.sq_cpu = value.parse().ok().filter(|cpu| *cpu >= 0),
                "SqWorkTime" => info.sq_work_ns = value.parse::<u64>().ok().map(|us| us * 1000),
                "napi tracking" => is_static = value == "static",
                // In µs and under another name before 6.11.
                "napi_busy_poll_dt" => napi_ns = value.parse().ok(),
                "napi_busy_poll_to" => napi_ns = value.parse::<u64>().ok().map(|us| us * 1000),
                _ => {}
            }
        }
        info.napi = napi_ns.map(|busy_poll_ns| NapiRecord { busy_poll_ns, is_static });
        if info.sq_thread.is_none() {
            (info.sq_cpu, info.sq_work_ns) = (None, None);
        }
        info
    }
}

/// One ring of one process, since its first sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenRing {
    pub tgid: u32,
    pub fds: BTreeSet<u32>,
    pub sq_entries: u32,
    pub cq_entries: u32,
    /// Size at the first sample; IORING_REGISTER_RESIZE_RINGS (Linux 6.13) changes it.
    pub first_entries: (u32, u32),
    /// The ring existed at the first sample.
    pub found: bool,
    /// Completions posted during the trace until the last sample.
    pub posted: u64,
    /// Completions posted during the trace before this process had the ring.
    pub before: u64,
    pub last_tail: u32,
    /// Read in the last thorough sample.
    pub is_read: bool,
    pub sq_thread: Option<u32>,
    pub sq_cpu: Option<i32>,
    pub first_work_ns: Option<u64>,
    pub last_work_ns: Option<u64>,
    pub napi: Option<NapiRecord>,
}

/// Time for which the SQPOLL thread of these rings worked during the trace until the last sample.
pub fn work_ns(rings: &[&SeenRing]) -> Option<u64> {
    let found: Vec<u64> =
        rings.iter().filter(|ring| ring.found).map(|ring| ring.first_work_ns).collect::<Option<_>>()?;
    let before = found.into_iter().min().unwrap_or(0);
    rings.iter().filter_map(|ring| ring.last_work_ns).max()?.checked_sub(before)
}

/// All sampled rings by process and inode; the rings of exited processes in order of exit; and the rings older than the
/// trace whose counters could not be read yet because the ring was locked.
#[derive(Debug, Default)]
pub struct SeenRings(BTreeMap<(u32, u64), SeenRing>, VecDeque<(u32, u64)>, BTreeSet<(u32, u64)>);

/// Attempts to read a locked ring in a thorough sample. A busy program holds the lock most of the time.
const TRIES: u32 = 100;

/// Descriptors of a process (PID in /proc) that are rings, with their fdinfo.
fn look(number: u32, tries: u32, wanted: impl Fn(u32) -> bool) -> Vec<(u32, String)> {
    let fds = procfs::numbers(format!("/proc/{number}/fd"));
    let is_ring = |fd: &u32| {
        std::fs::read_link(format!("/proc/{number}/fd/{fd}")).is_ok_and(|to| to.as_os_str() == "anon_inode:[io_uring]")
    };
    let text = |fd| {
        let text = || procfs::text(format!("/proc/{number}/fdinfo/{fd}"));
        let mut last = text()?;
        for _ in 1..tries {
            if FdInfo::parse(&last).cq_tail.is_some() {
                break;
            }
            last = text()?;
        }
        Some((fd, last))
    };
    fds.into_iter().filter(is_ring).filter(|fd| wanted(*fd)).filter_map(text).collect()
}

/// NAPI settings. Rings of one process and size may be indistinguishable; their settings are used only if all are equal.
pub fn napi(found: Option<&SeenRing>, counts: &RingCounts, all: &[&SeenRing]) -> Option<NapiRecord> {
    let may_be = |ring: &&&SeenRing| ring.tgid == counts.tgid && ring.cq_entries == counts.cq_entries;
    let mut equal = all.iter().filter(may_be).map(|ring| ring.napi);
    let first = found.map(|ring| ring.napi).or_else(|| equal.clone().next())?;
    first.filter(|_| found.is_some() || equal.all(|napi| napi == first))
}

/// Whether a sampled ring may be the counted one.
type Fits<'f> = &'f dyn Fn(&RingCounts, &SeenRing) -> bool;

/// Whether /proc shows rings of a process (PID in /proc).
pub fn has_rings(number: u32) -> bool {
    !look(number, 1, |_| true).is_empty()
}

impl SeenRings {
    /// Samples the rings of a process whose PID in /proc is `number`. The kernel locks a ring to print its fdinfo, so
    /// rings without an SQPOLL thread are only read when new and in a `thorough` sample.
    pub fn sample(&mut self, tgid: u32, number: u32, found: bool, thorough: bool) {
        let settled: BTreeSet<u32> = match thorough {
            true => BTreeSet::new(),
            false => {
                let of = self.0.range((tgid, 0)..=(tgid, u64::MAX)).map(|(_, ring)| ring);
                of.filter(|ring| ring.sq_thread.is_none()).flat_map(|ring| ring.fds.iter().copied()).collect()
            }
        };
        let tries = if thorough { TRIES } else { 1 };
        if thorough {
            self.unread(tgid);
        }
        for (fd, text) in look(number, tries, |fd| !settled.contains(&fd)) {
            self.take(tgid, fd, found, FdInfo::parse(&text));
        }
        self.thin(tgid);
    }

    /// Limits the kept rings of a process, which may create hundreds of thousands.
    fn thin(&mut self, tgid: u32) {
        const KEPT: usize = 4096;
        let of_it: Vec<u64> = self.0.range((tgid, 0)..=(tgid, u64::MAX)).map(|((_, inode), _)| *inode).collect();
        // Inode numbers increase, so the lowest are the oldest.
        for inode in of_it.iter().take(of_it.len().saturating_sub(KEPT)) {
            self.0.remove(&(tgid, *inode));
        }
    }

    fn take(&mut self, tgid: u32, fd: u32, found: bool, info: FdInfo) {
        let (Some(inode), Some(sq_entries), Some(cq_entries), Some(cq_tail)) =
            (info.inode, info.sq_entries, info.cq_entries, info.cq_tail)
        else {
            self.2.extend(info.inode.filter(|_| found).map(|inode| (tgid, inode)));
            return;
        };
        let found = found | self.2.remove(&(tgid, inode));
        let elsewhere = match self.0.contains_key(&(tgid, inode)) {
            true => None,
            false => self.elsewhere(inode),
        };
        let (found, last_tail, before) = elsewhere.unwrap_or((found, if found { cq_tail } else { 0 }, 0));
        let ring = self.0.entry((tgid, inode)).or_insert_with(|| SeenRing {
            tgid,
            fds: BTreeSet::new(),
            sq_entries,
            cq_entries,
            first_entries: (sq_entries, cq_entries),
            found,
            posted: 0,
            before,
            last_tail,
            is_read: false,
            sq_thread: None,
            sq_cpu: None,
            first_work_ns: info.sq_work_ns,
            last_work_ns: None,
            napi: None,
        });
        ring.fds.insert(fd);
        (ring.sq_entries, ring.cq_entries) = (sq_entries, cq_entries);
        ring.posted += u64::from(cq_tail.wrapping_sub(ring.last_tail));
        (ring.last_tail, ring.is_read) = (cq_tail, true);
        ring.first_work_ns = ring.first_work_ns.or(info.sq_work_ns);
        ring.last_work_ns = info.sq_work_ns.or(ring.last_work_ns);
        ring.sq_thread = info.sq_thread.or(ring.sq_thread);
        ring.sq_cpu = info.sq_cpu.or(ring.sq_cpu);
        ring.napi = info.napi.or(ring.napi);
    }

    /// For a ring that another process also has, after a fork for example: whether the ring is older than the trace,
    /// its counter at the last sample, and the completions posted until then.
    fn elsewhere(&self, inode: u64) -> Option<(bool, u32, u64)> {
        let of_it = self.0.iter().filter(|((_, its), _)| *its == inode).map(|(_, ring)| ring);
        let last = of_it.max_by_key(|ring| ring.before + ring.posted)?;
        Some((last.found, last.last_tail, last.before + last.posted))
    }

    /// Keeps only the last rings of exited processes.
    pub fn ended(&mut self, tgid: u32) {
        const KEPT: usize = 4096;
        self.unread(tgid);
        self.2.retain(|(of, _)| *of != tgid);
        let of_it = self.0.range((tgid, 0)..=(tgid, u64::MAX)).map(|(key, _)| *key);
        self.1.extend(of_it);
        while self.1.len() > KEPT {
            if let Some(key) = self.1.pop_front() {
                self.0.remove(&key);
            }
        }
    }

    fn unread(&mut self, tgid: u32) {
        self.0.range_mut((tgid, 0)..=(tgid, u64::MAX)).for_each(|(_, ring)| ring.is_read = false);
    }

    /// Completions posted to all rings during the trace, with each ring counted once; and whether each ring was read in
    /// the last thorough sample, so that the number is complete.
    pub fn posted(&self) -> (u64, bool) {
        let mut of: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        for ((_, inode), ring) in &self.0 {
            let (posted, is_read) = of.entry(*inode).or_default();
            (*posted, *is_read) = ((*posted).max(ring.before + ring.posted), *is_read || ring.is_read);
        }
        of.values().fold((0, true), |(sum, all), (posted, is_read)| (sum + posted, all && *is_read))
    }

    pub fn all(&self) -> Vec<&SeenRing> {
        self.0.values().collect()
    }
}

/// For each counted ring, in order, the matching sampled ring; `None`: no match, or more than one.
/// `sq_tids`: the SQPOLL threads that were observed to submit, by ring. Three rules, each for the rings that the earlier ones left:
///
/// 1. the SQPOLL thread, if no other ring has the same one;
/// 2. the process, the number of entries and whether there is an SQPOLL thread, if these match one ring on each side;
/// 3. among the remaining matches, the completions posted during the trace, if they are within 1 % (or 16) for one ring on each side.
///
/// If a process is in `partly`, only some of its rings are known, so a unique match proves nothing and only the first rule
/// applies. The same holds if more rings are alike than a record lists.
pub fn matched<'a>(
    counts: &[RingCounts],
    seen: &[&'a SeenRing],
    sq_tids: &HashMap<u32, u32>,
    partly: &BTreeSet<Option<u32>>,
) -> Vec<Option<&'a SeenRing>> {
    // Limit for comparing all pairs.
    const MANY: usize = 1024;
    if counts.len().max(seen.len()) > MANY || partly.contains(&None) {
        return vec![None; counts.len()];
    }
    let same_shape = |c: &RingCounts, s: &SeenRing| {
        c.tgid == s.tgid
            && [s.first_entries, (s.sq_entries, s.cq_entries)].contains(&(c.sq_entries, c.cq_entries))
            && (c.setup_flags & SQPOLL != 0 || s.sq_thread.is_none())
            && c.found == s.found
    };
    let same_thread = |c: &RingCounts, s: &SeenRing| {
        same_shape(c, s) && s.sq_thread.is_some() && sq_tids.get(&c.ring).copied() == s.sq_thread
    };
    let whole_shape = |c: &RingCounts, s: &SeenRing| !partly.contains(&Some(c.tgid)) && same_shape(c, s);
    let same_progress = |c: &RingCounts, s: &SeenRing| {
        let completions: u64 = c.opcodes.iter().map(|o| o.completions).sum();
        whole_shape(c, s) && completions.abs_diff(s.posted) <= (completions / 100).max(16)
    };
    let mut found = vec![None; counts.len()];
    let mut left: Vec<&'a SeenRing> = seen.to_vec();
    let rules: [Fits<'_>; 3] = [&same_thread, &whole_shape, &same_progress];
    for fits in rules {
        let open: Vec<usize> = (0..counts.len()).filter(|i| found[*i].is_none()).collect();
        let only = |i: usize| {
            let mut candidates = left.iter().filter(|s| fits(&counts[i], s));
            let (one, more) = (candidates.next()?, candidates.next());
            let alone = || open.iter().filter(|j| fits(&counts[**j], one)).nth(1).is_none();
            (more.is_none() && alone()).then_some(*one)
        };
        let new: Vec<(usize, &'a SeenRing)> = open.iter().filter_map(|i| Some((*i, only(*i)?))).collect();
        for (i, ring) in new {
            found[i] = Some(ring);
            left.retain(|s| !std::ptr::eq(*s, ring));
        }
    }
    found
}

/// Processes that have rings without a record.
pub fn partly_told(others: &[OtherCounts]) -> BTreeSet<Option<u32>> {
    others.iter().filter(|o| o.kind.is_none() && o.rings > 0).map(|o| o.tgid).collect()
}

#[cfg(test)]
#[path = "rings_tests.rs"]
mod tests;
