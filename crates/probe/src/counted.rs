//! Counts of one ring, in the maps' own types.

use std::collections::{BTreeMap, BTreeSet};

use super::skel::types;

/// Maximum number of threads counted separately; without it, the sums of many rings would list any number of threads.
const THREADS: usize = 4096;

/// A delivery's key without the ring.
type DeliveryKey = (u32, u32, u64, u32, u32, u32);

/// A set of counters.
trait Counts {
    /// Combines each counter with its counterpart in `other`.
    fn combine(&mut self, other: &Self, of: &dyn Fn(u64, u64) -> u64);

    fn is_any(&self) -> bool;
}

macro_rules! counts {
    ($($counts:ident: $($number:ident)*;)*) => {
        $(impl Counts for types::$counts {
            fn combine(&mut self, other: &Self, of: &dyn Fn(u64, u64) -> u64) {
                let types::$counts { $($number),* } = self;
                $(*$number = of(*$number, other.$number);)*
            }

            fn is_any(&self) -> bool {
                [$(self.$number),*].iter().any(|n| *n > 0)
            }
        })*
    };
}

counts! {
    // If the kernel rejects a request, it may be subtracted on a different CPU: the sums wrap around.
    op_count: requests skips completions bytes errors shorts more notifications copied reporting held held_ns messages denied unposted punted_asked punted_would_block punted_drained;
    ring_count: inlined sqpoll iowq iopoll overflows unseen waits waits_min waits_registered waits_no_iowait waits_loop;
}

/// Counts of one ring, or of several.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// By opcode.
    pub ops: BTreeMap<u32, types::op_count>,
    pub ring: types::ring_count,
    /// Completions whose delivery path was undecided when a window closed.
    pub undecided: u64,
    /// Observed results by opcode, if windows were extrapolated; errors, short and rejected requests are among these.
    /// Empty if all were observed.
    pub seen: BTreeMap<u32, u64>,
    /// By opcode and errno.
    pub errnos: BTreeMap<(u32, u32), u64>,
    /// By thread.
    pub threads: BTreeMap<u32, types::ring_thread>,
    deliveries: BTreeMap<DeliveryKey, u64>,
    /// Provided buffers, by group.
    pub buffers: BTreeMap<u32, types::buffer_count>,
    /// Selected requests by the number that their io_uring_enter was asked to submit, whether they are a sample, and
    /// whether each occupies two SQ entries.
    pub batches: BTreeMap<(u32, bool, bool), u64>,
}

impl Counted {
    pub fn op(&mut self, opcode: u32, n: &types::op_count) {
        self.ops.entry(opcode).or_default().combine(n, &u64::wrapping_add);
    }

    /// Adds one CPU's part of the counts.
    pub fn part(&mut self, opcode: u32, n: &types::op_part) {
        macro_rules! whole {
            ($($number:ident)*) => {{
                let &types::op_part { $($number),* } = n;
                types::op_count { $($number,)* ..Default::default() }
            }};
        }
        let whole = whole!(
            requests skips completions bytes errors shorts more notifications copied unposted
            punted_asked punted_would_block punted_drained
        );
        self.op(opcode, &whole);
    }

    pub fn ring(&mut self, n: &types::ring_count) {
        self.ring.combine(n, &u64::wrapping_add);
    }

    pub fn errno(&mut self, key: &types::errno_key, n: u64) {
        *self.errnos.entry((key.opcode.into(), key.number.into())).or_default() += n;
    }

    pub fn batch(&mut self, key: &types::batch_key, n: u64) {
        *self.batches.entry((key.batch, key.sampled != 0, key.wide != 0)).or_default() += n;
    }

    pub fn thread(&mut self, tid: u32, n: &types::ring_thread) {
        if self.threads.len() < THREADS || self.threads.contains_key(&tid) {
            let sum = self.threads.entry(tid).or_insert(types::ring_thread { waits: 0, ..*n });
            sum.waits += n.waits;
        }
    }

    pub fn delivery(&mut self, k: &types::delivery_key, n: u64) {
        let way = (k.carrier.0, k.nr, k.entry, k.waker.0, k.waker_nr, k.waker_cpu);
        *self.deliveries.entry(way).or_default() += n;
    }

    /// Delivery paths and counts of completions that were not posted inline.
    pub fn deliveries(&self) -> impl Iterator<Item = (types::delivery_key, u64)> {
        self.deliveries.iter().map(|(&(carrier, nr, entry, waker, waker_nr, waker_cpu), n)| {
            let key = types::delivery_key {
                carrier: types::carrier(carrier),
                nr,
                entry,
                waker: types::waker(waker),
                waker_nr,
                waker_cpu,
                ring: 0,
            };
            (key, *n)
        })
    }

    pub fn add(&mut self, other: &Counted) {
        other.ops.iter().for_each(|(opcode, n)| self.op(*opcode, n));
        self.ring(&other.ring);
        self.undecided += other.undecided;
        for (opcode, n) in &other.seen {
            *self.seen.entry(*opcode).or_default() += n;
        }
        for (key, n) in &other.errnos {
            *self.errnos.entry(*key).or_default() += n;
        }
        other.threads.iter().for_each(|(tid, n)| self.thread(*tid, n));
        for (way, n) in &other.deliveries {
            *self.deliveries.entry(*way).or_default() += n;
        }
        for (of, n) in &other.batches {
            *self.batches.entry(*of).or_default() += n;
        }
        self.buffers.extend(&other.buffers);
    }

    /// Growth since `told`. A later reading may be lower; then it counts as 0.
    pub fn beyond(&self, told: &Counted) -> Counted {
        fn less(n: u64, told: u64) -> u64 {
            if n.wrapping_sub(told) as i64 > 0 { n.wrapping_sub(told) } else { 0 }
        }
        self.combine(told, &less)
    }

    /// Combines each counter with its counterpart in `other`, or with 0.
    pub fn combine(&self, other: &Counted, of: &dyn Fn(u64, u64) -> u64) -> Counted {
        let mut ops = self.ops.clone();
        for opcode in self.ops.keys().chain(other.ops.keys()).copied().collect::<BTreeSet<u32>>() {
            ops.entry(opcode).or_default().combine(other.ops.get(&opcode).unwrap_or(&Default::default()), of);
        }
        let mut ring = self.ring;
        ring.combine(&other.ring, of);
        let mut threads = self.threads.clone();
        for (tid, n) in &other.threads {
            threads.entry(*tid).or_insert(types::ring_thread { waits: 0, ..*n });
        }
        for (tid, n) in &mut threads {
            n.waits = of(n.waits, other.threads.get(tid).map_or(0, |n| n.waits));
        }
        let mut buffers = other.buffers.clone();
        buffers.extend(&self.buffers);
        Counted {
            ops,
            ring,
            buffers,
            undecided: of(self.undecided, other.undecided),
            seen: self.seen.clone(),
            errnos: by_key(&self.errnos, &other.errnos, of),
            threads,
            deliveries: by_key(&self.deliveries, &other.deliveries, of),
            batches: by_key(&self.batches, &other.batches, of),
        }
    }

    /// Restores the observed numbers of failures after windows were extrapolated: failures are too rare for
    /// extrapolation.
    pub fn with_failures_of(&mut self, seen: &Counted) {
        self.errnos.clone_from(&seen.errnos);
        self.ring.overflows = seen.ring.overflows;
        for (opcode, n) in &seen.ops {
            let op = self.ops.entry(*opcode).or_default();
            (op.errors, op.shorts, op.denied) = (n.errors, n.shorts, n.denied);
            let ended = n.completions.saturating_sub(n.more + n.messages);
            let silent = n.skips.min(n.requests.saturating_sub(ended).saturating_sub(n.unposted));
            self.seen.insert(*opcode, n.completions.saturating_sub(n.notifications) + silent);
        }
    }

    pub fn is_any(&self) -> bool {
        let by_key = self.errnos.values().chain(self.deliveries.values()).copied();
        let waits = self.threads.values().map(|n| n.waits);
        let batches = self.batches.values().copied();
        let mut rest = by_key.chain(waits).chain(batches).chain([self.undecided]);
        self.ring.is_any() || self.ops.values().any(Counts::is_any) || rest.any(|n| n > 0)
    }

    /// Total number of requests and completions.
    pub fn activity(&self) -> u64 {
        self.ops.values().map(|op| op.requests.saturating_add(op.completions)).sum()
    }
}

fn by_key<K: Ord + Copy>(
    own: &BTreeMap<K, u64>,
    other: &BTreeMap<K, u64>,
    of: &dyn Fn(u64, u64) -> u64,
) -> BTreeMap<K, u64> {
    let n = |of: &BTreeMap<K, u64>, key| of.get(key).copied().unwrap_or_default();
    own.keys().chain(other.keys()).map(|key| (*key, of(n(own, key), n(other, key)))).collect()
}

/// A ring, a context, or the sum of a process's other rings; then `info.others` is their number.
#[derive(Debug, Clone)]
pub(super) struct RawRing {
    pub number: u32,
    pub info: types::ring_info,
    pub counted: Counted,
}

impl RawRing {
    pub fn is_others(&self) -> bool {
        self.info.others > 0 || self.number == OTHERS
    }
}

/// `RING_OTHERS` in record.h.
pub(super) const OTHERS: u32 = u32::MAX;
