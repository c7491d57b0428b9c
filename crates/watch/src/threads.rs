//! Threads that submit to a ring and threads that wait for its completions, from traced requests by thread and the
//! probes' counts of waits. Pure.

use std::collections::{BTreeMap, BTreeSet};

use iotrail_probe::rings::RingCounts;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::trace_record::{DeliveryPathShare, Detour, RingThreads, ThreadRecord};
use iotrail_schema::trail::RequestTrace;

/// Maximum number of individually counted submitters per ring.
const KEPT: usize = 1024;
/// Maximum number of listed threads per ring.
const TOLD: usize = 16;
/// Maximum number of listed delivery paths per detour.
const VEHICLES: usize = 5;

/// A thread leaves the waiting to others if it waits less than once per this many of its submitted requests and of its
/// ring's waits. Such a thread may wait for the ring's end, for example.
const RARELY: u64 = 100;

/// Traced requests of one ring by submitter.
#[derive(Debug, Clone, Default)]
pub(super) struct Submitters {
    by_tid: BTreeMap<u32, Submitted>,
    /// Completions of submitters that are not counted individually.
    others: u64,
}

/// Weighted sums over one thread's traced requests.
#[derive(Debug, Clone, Default)]
struct Submitted {
    requests: u64,
    completions: u64,
    /// Completions posted by its own task work.
    carried: Carried,
    by: BTreeMap<(DeliveryPath, Option<String>), u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    completions: u64,
    weight: u64,
    /// Completions with a known delivery delay, and the sum of the delays.
    timed: u64,
    delay: u128,
}

impl Carried {
    fn add(&mut self, other: &Carried) {
        self.completions += other.completions;
        self.weight += other.weight;
        self.timed += other.timed;
        self.delay += other.delay;
    }

    fn delivery_ns(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.delay as f64 / self.timed as f64)
    }
}

/// Whether the submitter's own task work posts on this path. The kernel queues task work to the submitting thread,
/// which runs it at its next kernel entry or exit.
fn by_submitter(vehicle: DeliveryPath) -> bool {
    use DeliveryPath::*;
    matches!(vehicle, Enter | SyscallExit | ReschedIpi | DeviceIrq | TimerTick | PageFault | OtherIrq)
}

impl Submitters {
    /// `is_first`: first completion of its request.
    pub fn take(&mut self, trail: &RequestTrace, is_first: bool) {
        let weight = u64::from(trail.weight.max(1));
        if self.by_tid.len() >= KEPT && !self.by_tid.contains_key(&trail.tid) {
            self.others += weight;
            return;
        }
        let of = self.by_tid.entry(trail.tid).or_default();
        of.requests += if is_first { weight } else { 0 };
        of.completions += weight;
        if !by_submitter(trail.vehicle) {
            return;
        }
        of.carried.completions += 1;
        of.carried.weight += weight;
        if let Some(ns) = trail.delay_ns() {
            of.carried.timed += weight;
            of.carried.delay += u128::from(ns) * u128::from(weight);
        }
        // Other details, such as a waker, have too many values.
        let detail = trail.detail.clone().filter(|_| trail.vehicle == DeliveryPath::SyscallExit);
        *of.by.entry((trail.vehicle, detail)).or_default() += weight;
    }

    pub fn add(&mut self, other: &Submitters) {
        self.others += other.others;
        for (tid, theirs) in &other.by_tid {
            if self.by_tid.len() >= KEPT && !self.by_tid.contains_key(tid) {
                self.others += theirs.completions;
                continue;
            }
            let of = self.by_tid.entry(*tid).or_default();
            of.requests += theirs.requests;
            of.completions += theirs.completions;
            of.carried.add(&theirs.carried);
            for (by, n) in &theirs.by {
                *of.by.entry(by.clone()).or_default() += n;
            }
        }
    }
}

/// For each ring, in order; `None` if no thread was seen using it. If several processes use a ring, all their waits
/// decide whose completions take a detour.
pub(super) fn of_rings<'a>(
    rings: &[RingCounts],
    followed: impl Fn(u32) -> Option<&'a Submitters>,
) -> Vec<Option<RingThreads>> {
    let mut waits: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
    for r in rings {
        let of = waits.entry(r.of.unwrap_or(r.ring)).or_default();
        for thread in r.threads.iter().filter(|thread| thread.waits > 0) {
            *of.entry(thread.tid).or_default() += thread.waits;
        }
    }
    let none = Submitters::default();
    rings.iter().map(|r| of_ring(r, followed(r.ring).unwrap_or(&none), &waits[&r.of.unwrap_or(r.ring)])).collect()
}

/// `waits`: by thread, over the full ring.
fn of_ring(r: &RingCounts, submitters: &Submitters, waits: &BTreeMap<u32, u64>) -> Option<RingThreads> {
    let tids: BTreeSet<u32> = r.threads.iter().map(|t| t.tid).chain(submitters.by_tid.keys().copied()).collect();
    let one = |tid: &u32| {
        let of = submitters.by_tid.get(tid);
        let counted = r.threads.iter().find(|t| t.tid == *tid);
        ThreadRecord {
            tid: *tid,
            comm: counted.map(|t| t.comm.clone()).filter(|comm| !comm.is_empty()),
            submitted: of.map_or(0, |of| of.requests),
            waits: counted.map_or(0, |t| t.waits),
            delivery_ns: of.and_then(|of| of.carried.delivery_ns()),
        }
    };
    let mut threads: Vec<ThreadRecord> = tids.iter().map(one).filter(|t| t.submitted + t.waits > 0).collect();
    threads.sort_by_key(|t| (std::cmp::Reverse(t.submitted.saturating_add(t.waits)), t.tid));
    let waiting = threads.iter().filter(|t| t.waits > 0).count() as u64;
    let more = threads.len().saturating_sub(TOLD) as u64 + u64::from(submitters.others > 0);
    threads.truncate(TOLD);
    (!threads.is_empty()).then(|| RingThreads {
        threads,
        more,
        waiting: (waiting > 0).then_some(waiting),
        detour: detour(submitters, waits),
    })
}

fn detour(submitters: &Submitters, waits: &BTreeMap<u32, u64>) -> Option<Detour> {
    let all_waits: u64 = waits.values().sum();
    let leaves_it_to_others = |tid: u32, of: &Submitted| {
        let own = waits.get(&tid).copied().unwrap_or(0);
        let rarely = |of: u64| own == 0 || own.saturating_mul(RARELY) < of;
        all_waits > own && rarely(of.requests) && rarely(all_waits)
    };
    let (mut these, mut others) = (Carried::default(), Carried::default());
    let mut by: BTreeMap<&(DeliveryPath, Option<String>), u64> = BTreeMap::new();
    let mut threads = 0;
    for (tid, of) in submitters.by_tid.iter().filter(|(_, of)| of.carried.completions > 0) {
        if !leaves_it_to_others(*tid, of) {
            others.add(&of.carried);
            continue;
        }
        these.add(&of.carried);
        threads += 1;
        for (vehicle, n) in &of.by {
            *by.entry(vehicle).or_default() += n;
        }
    }
    let completions: u64 = submitters.by_tid.values().map(|of| of.completions).sum::<u64>() + submitters.others;
    let mut most: Vec<_> = by.into_iter().collect();
    most.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let vehicle = |(vehicle, n): (&(DeliveryPath, Option<String>), u64)| DeliveryPathShare {
        vehicle: vehicle.0,
        detail: vehicle.1.clone(),
        share: n as f64 / these.weight as f64,
    };
    (these.completions > 0).then(|| Detour {
        completions: these.completions,
        estimated: these.weight,
        share: these.weight as f64 / completions as f64,
        threads,
        delivery_ns: these.delivery_ns(),
        others_delivery_ns: others.delivery_ns(),
        vehicles: most.into_iter().take(VEHICLES).map(vehicle).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_probe::rings::ThreadCounts;
    use iotrail_schema::trail::Stamp;
    use iotrail_schema::trail_example;

    /// Posted 1 µs or 2,899 µs after it was ready.
    fn trail(tid: u32, vehicle: DeliveryPath, detail: Option<&str>, soon: bool) -> RequestTrace {
        let t = trail_example::trail();
        let ready = Stamp { ns: t.posted.ns - if soon { 1_000 } else { 2_899_000 }, cpu: 1 };
        RequestTrace { tid, vehicle, detail: detail.map(Into::into), ready: Some(ready), ..t }
    }

    fn ring(ring: u32, of: Option<u32>, threads: &[(u32, &str, u64)]) -> RingCounts {
        let thread = |&(tid, comm, waits): &(u32, &str, u64)| ThreadCounts { tid, comm: comm.into(), waits };
        RingCounts { ring, of, threads: threads.iter().map(thread).collect(), ..RingCounts::default() }
    }

    /// 8 requests of thread 1, 2 of them posted inline, and 2 requests of thread 2.
    fn submitters() -> Submitters {
        let mut s = Submitters::default();
        for i in 0..8 {
            let t = match i {
                0 | 1 => trail(1, DeliveryPath::Inline, None, true),
                2 => trail(1, DeliveryPath::TimerTick, None, false),
                _ => trail(1, DeliveryPath::SyscallExit, Some("futex"), false),
            };
            s.take(&t, true);
        }
        (0..2).for_each(|_| {
            s.take(&trail(2, DeliveryPath::Enter, Some("slept, woken by something not seen"), true), true)
        });
        s
    }

    fn one(rings: &[RingCounts]) -> Option<RingThreads> {
        let s = submitters();
        of_rings(rings, |ring| (ring == 0).then_some(&s)).remove(0)
    }

    #[test]
    fn completions_awaited_by_another_thread_make_a_detour() {
        let t = one(&[ring(0, None, &[(1, "writer", 0), (2, "reaper", 500)])]).unwrap();
        let threads: Vec<_> = t
            .threads
            .iter()
            .map(|t| (t.tid, t.comm.as_deref().unwrap(), t.submitted, t.waits, t.delivery_ns))
            .collect();
        assert_eq!(threads, [(2, "reaper", 2, 500, Some(1_000.0)), (1, "writer", 8, 0, Some(2_899_000.0))]);
        assert_eq!((t.more, t.waiting), (0, Some(1)));
        let d = t.detour.unwrap();
        assert_eq!((d.completions, d.estimated, d.share, d.threads), (6, 6, 0.6, 1), "what was inline made none");
        assert_eq!((d.delivery_ns, d.others_delivery_ns), (Some(2_899_000.0), Some(1_000.0)));
        let by: Vec<_> = d.vehicles.iter().map(|v| (v.vehicle, v.detail.as_deref(), (v.share * 6.0).round())).collect();
        assert_eq!(by, [(DeliveryPath::SyscallExit, Some("futex"), 5.0), (DeliveryPath::TimerTick, None, 1.0)]);
    }

    #[test]
    fn there_is_no_detour_without_another_waiting_thread() {
        let polls = one(&[ring(0, None, &[(1, "writer", 0)])]).unwrap();
        assert_eq!((polls.waiting, polls.detour), (None, None), "who takes the completions is not known");
        let alone = one(&[ring(0, None, &[(1, "writer", 90), (2, "reaper", 90)])]).unwrap();
        assert_eq!((alone.waiting, alone.detour), (Some(2), None));
        // All threads wait rarely and equally often.
        let mut many = Submitters::default();
        for tid in [1, 2] {
            (0..1000).for_each(|_| many.take(&trail(tid, DeliveryPath::ReschedIpi, None, true), true));
        }
        let rings = [ring(0, None, &[(1, "a", 2), (2, "b", 2)])];
        assert_eq!(of_rings(&rings, |_| Some(&many)).remove(0).unwrap().detour, None);
        // A thread that waited once, at the end, leaves the waiting to the other thread.
        let rings = [ring(0, None, &[(1, "a", 1), (2, "b", 900)])];
        assert_eq!(of_rings(&rings, |_| Some(&many)).remove(0).unwrap().detour.unwrap().threads, 1);
        assert_eq!(of_rings(&[ring(0, None, &[])], |_| None), [None]);
    }

    #[test]
    fn completions_may_be_awaited_by_another_process() {
        let both = [ring(0, None, &[(1, "writer", 0), (2, "writer-2", 0)]), ring(1, Some(0), &[(9, "reaper", 70)])];
        let s = submitters();
        let of = of_rings(&both, |ring| (ring == 0).then_some(&s));
        let [Some(whole), Some(the_use)] = &of[..] else { panic!("{of:?}") };
        assert_eq!((whole.waiting, whole.detour.as_ref().unwrap().threads), (None, 2));
        assert_eq!((the_use.waiting, the_use.threads[0].waits, &the_use.detour), (Some(1), 70, &None));
    }

    #[test]
    fn the_number_of_kept_submitting_threads_is_bounded() {
        let mut s = Submitters::default();
        (0..3000).for_each(|tid| s.take(&trail(tid, DeliveryPath::TimerTick, None, true), true));
        let t = of_rings(&[ring(0, None, &[])], |_| Some(&s)).remove(0).unwrap();
        assert_eq!((t.threads.len(), t.more), (TOLD, (KEPT - TOLD) as u64 + 1));
    }
}
