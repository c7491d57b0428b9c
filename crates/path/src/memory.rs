//! Requests in flight that conflict in memory: concurrent reads into the same bytes, and requests on registered buffers
//! that were unregistered before the requests completed. Neither causes an error. Requires that all requests are
//! traced. Pure.

use std::collections::{BTreeMap, VecDeque};

use iotrail_schema::opcode;
use iotrail_schema::trail::{Course, Punt, RequestTrace};

/// Number of reads kept per process for the comparison; more are rarely in flight.
const KEPT: usize = 1024;

/// Maximum number of processes with kept reads.
const PROCESSES: usize = 256;

/// Number of kept unregistrations, which may affect requests in flight.
const UNREGISTERED: usize = 256;

/// All buffers of a ring were unregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unregistered {
    pub ring: u32,
    pub ns: u64,
}

/// Memory written by a read, and the time in which the read may have written it.
#[derive(Debug, Clone, Copy)]
struct Read {
    from: u64,
    to: u64,
    submitted_ns: u64,
    /// End of that time.
    done_ns: u64,
    posted_ns: u64,
    user_data: u64,
}

impl Read {
    /// Whether the two overlap in time.
    fn overlaps(&self, other: &Read) -> bool {
        self.submitted_ns < other.done_ns && other.submitted_ns < self.done_ns
    }
}

/// Two concurrent reads of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    pub ring: Option<u32>,
    pub opcode: String,
    /// Number of bytes that both wrote.
    pub bytes: u64,
    pub user_data: [u64; 2],
}

/// The first of several requests. Its user data identifies it in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct First {
    pub ring: Option<u32>,
    pub opcode: String,
    pub user_data: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Memory {
    reads: BTreeMap<u32, VecDeque<Read>>,
    unregistered: VecDeque<Unregistered>,
    /// Reads that overlap with another concurrent read; the later of the two counts.
    pub overlapping: u64,
    pub overlap: Option<Overlap>,
    /// Requests on registered buffers that completed after these were unregistered.
    pub outlived: u64,
    pub outlived_first: Option<First>,
}

impl Memory {
    pub fn unregistered(&mut self, at: Unregistered) {
        if self.unregistered.len() == UNREGISTERED {
            self.unregistered.pop_front();
        }
        self.unregistered.push_back(at);
    }

    pub fn take(&mut self, trail: &RequestTrace) {
        if opcode::is(&trail.opcode, opcode::INDEXED) {
            self.take_fixed(trail);
        }
        // A drained ring serialises its requests. In a sample, concurrent requests may be missing.
        let alone = trail.weight > 1 || trail.punted == Some(Punt::Drained);
        if let (Some(from), Ok(written @ 1..)) = (trail.buffer.filter(|_| !alone), u64::try_from(trail.result)) {
            self.take_read(trail, from, from.saturating_add(written));
        }
    }

    fn take_fixed(&mut self, trail: &RequestTrace) {
        let in_flight =
            |at: &Unregistered| Some(at.ring) == trail.ring && (trail.submitted.ns..trail.posted.ns).contains(&at.ns);
        if self.unregistered.iter().any(in_flight) {
            self.outlived += 1;
            self.outlived_first.get_or_insert_with(|| First {
                ring: trail.ring,
                opcode: trail.opcode.clone(),
                user_data: trail.user_data,
            });
        }
    }

    fn take_read(&mut self, trail: &RequestTrace, from: u64, to: u64) {
        if self.reads.len() == PROCESSES && !self.reads.contains_key(&trail.tgid) {
            return;
        }
        let reads = self.reads.entry(trail.tgid).or_default();
        // A request that completes during its submission ends before the next one is submitted, whenever its
        // completion is posted.
        let at_once = trail.course == Course::Direct && trail.ready.is_none() && trail.punted.is_none();
        let done_ns = if at_once { trail.submitted.ns } else { trail.posted.ns };
        let read = Read {
            from,
            to,
            submitted_ns: trail.submitted.ns,
            done_ns,
            posted_ns: trail.posted.ns,
            user_data: trail.user_data,
        };
        // Reads arrive roughly in the order of posting.
        let lately = reads.iter().rev().take_while(|r| r.posted_ns > read.submitted_ns);
        let other = lately.filter(|r| r.from < to && from < r.to).find(|r| r.overlaps(&read)).copied();
        if reads.len() == KEPT {
            reads.pop_front();
        }
        reads.push_back(read);
        let Some(other) = other else { return };
        self.overlapping += 1;
        self.overlap.get_or_insert_with(|| Overlap {
            ring: trail.ring,
            opcode: trail.opcode.clone(),
            bytes: to.min(other.to) - from.max(other.from),
            user_data: [other.user_data, trail.user_data],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail::Stamp;
    use iotrail_schema::trail_example::trail;

    /// A 4 KiB read to this address, in flight from `submitted` to `posted`.
    fn read(user_data: u64, buffer: u64, submitted: u64, posted: u64) -> RequestTrace {
        let at = |ns| Stamp { ns, cpu: 0 };
        let (ready, course) = (Some(at(posted)), Course::Block);
        RequestTrace {
            buffer: Some(buffer),
            user_data,
            submitted: at(submitted),
            ready,
            course,
            posted: at(posted),
            ..trail()
        }
    }

    #[test]
    fn an_inline_request_does_not_overlap_the_next_one() {
        let cached =
            |n, submitted| RequestTrace { ready: None, course: Course::Direct, ..read(n, 0x1000, submitted, 100) };
        assert_eq!(of(&[cached(1, 10), cached(2, 20), cached(3, 30)]).overlapping, 0);
        // It does overlap with a read that was already in flight.
        assert_eq!(of(&[cached(1, 20), read(2, 0x1000, 10, 110)]).overlapping, 1);
    }

    fn of(trails: &[RequestTrace]) -> Memory {
        let mut memory = Memory::default();
        trails.iter().for_each(|trail| memory.take(trail));
        memory
    }

    #[test]
    fn concurrent_reads_into_the_same_memory_overlap() {
        let memory = of(&[read(1, 0x1000, 10, 30), read(2, 0x1800, 20, 40), read(3, 0x8000, 20, 41)]);
        assert_eq!(memory.overlapping, 1);
        let overlap = memory.overlap.unwrap();
        assert_eq!((overlap.bytes, overlap.user_data), (0x800, [1, 2]));
    }

    #[test]
    fn consecutive_reads_into_the_same_memory_do_not_overlap() {
        assert_eq!(of(&[read(1, 0x1000, 10, 20), read(2, 0x1000, 20, 30)]).overlapping, 0);
        // Adjacent byte ranges.
        assert_eq!(of(&[read(1, 0x1000, 10, 30), read(2, 0x2000, 10, 30)]).overlapping, 0);
    }

    #[test]
    fn requests_that_do_not_write_memory_are_not_compared() {
        let first = read(1, 0x1000, 10, 30);
        let second = read(2, 0x1000, 10, 30);
        let with = |spoil: fn(&mut RequestTrace)| {
            let mut trail = second.clone();
            spoil(&mut trail);
            of(&[first.clone(), trail]).overlapping
        };
        assert_eq!(with(|_| ()), 1);
        assert_eq!(with(|t| t.result = -5), 0, "failed");
        assert_eq!(with(|t| t.result = 0), 0, "the end of the file");
        assert_eq!(with(|t| t.weight = 100), 0, "one of a hundred");
        assert_eq!(with(|t| t.tgid += 1), 0, "another process's memory");
        assert_eq!(with(|t| t.punted = Some(Punt::Drained)), 0, "after the others");
        assert_eq!(with(|t| t.buffer = None), 0, "not known");
    }

    #[test]
    fn requests_that_outlive_their_registered_buffers_are_counted() {
        let mut memory = Memory::default();
        memory.unregistered(Unregistered { ring: 0, ns: 20 });
        memory.unregistered(Unregistered { ring: 1, ns: 25 });
        memory.take(&read(7, 0x1000, 10, 30));
        memory.take(&read(8, 0x2000, 10, 19));
        memory.take(&read(9, 0x3000, 21, 30));
        memory.take(&RequestTrace { opcode: "read".into(), ..read(10, 0x4000, 10, 30) });
        assert_eq!(memory.outlived, 1);
        assert_eq!(memory.outlived_first.unwrap().user_data, 7);
    }
}
