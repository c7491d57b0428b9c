//! One request's latency, divided by what held it. The parts sum to it. Pure.

use iotrail_schema::account::{RequestReason as Reason, RequestRow, RequestStage as Stage};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::opcode::{self, WAITS};
use iotrail_schema::trail::{Course, Link, Meanwhile, Punt, RequestTrace};

type Row = (Stage, Option<Reason>);

const INLINE: Row = (Stage::Inline, None);
const LINK: Row = (Stage::Ordered, Some(Reason::Link));
const DRAIN: Row = (Stage::Ordered, Some(Reason::Drain));
const IOWQ_QUEUE: Row = (Stage::IowqQueue, None);
const IOWQ: Row = (Stage::Iowq, None);
const LIMIT: Row = (Stage::Block, Some(Reason::CgroupIoLimit));
const TAG: Row = (Stage::Block, Some(Reason::RequestTag));
const SCHEDULER: Row = (Stage::Block, Some(Reason::Scheduler));
const BLOCK: Row = (Stage::Block, None);
const DEVICE: Row = (Stage::Device, None);
const IN_FLIGHT: Row = (Stage::InFlight, None);
const PEER: Row = (Stage::Poll, Some(Reason::Peer));
const TIMER: Row = (Stage::Poll, Some(Reason::Timer));
const FILE_SYSTEM: Row = (Stage::Ready, Some(Reason::FileSystem));
const NO_CPU: Row = (Stage::Ready, Some(Reason::NoCpu));
const RUNNING: Row = (Stage::Ready, Some(Reason::ThreadRunning));
const ASLEEP: Row = (Stage::Ready, Some(Reason::ThreadAsleep));
const READY: Row = (Stage::Ready, None);
const POSTED: Row = (Stage::Posted, None);
const UNKNOWN: Row = (Stage::Unknown, None);

/// Every part that there is, in the order of a request's life.
const ROWS: [Row; 20] = [
    LINK,
    DRAIN,
    INLINE,
    IOWQ_QUEUE,
    IOWQ,
    LIMIT,
    TAG,
    SCHEDULER,
    BLOCK,
    DEVICE,
    IN_FLIGHT,
    PEER,
    TIMER,
    FILE_SYSTEM,
    NO_CPU,
    RUNNING,
    ASLEEP,
    READY,
    POSTED,
    UNKNOWN,
];

/// Sums over requests, in weighted nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Division([f64; ROWS.len()]);

/// Stamps of a request of native or POSIX AIO between its submission and its reaping. CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapedStamps {
    /// The block layer had a request for it.
    pub allocated_ns: Option<u64>,
    pub issued_ns: Option<u64>,
    pub ready_ns: Option<u64>,
    pub ended_ns: Option<u64>,
    /// It ended in its own submission.
    pub inlined: bool,
}

/// The part of a latency that no row has yet.
struct Rest<'d> {
    sums: &'d mut Division,
    from: u64,
    to: u64,
    weight: f64,
}

impl Rest<'_> {
    /// Gives a row the time up to this moment. A stamp out of order takes nothing.
    fn until(&mut self, ns: Option<u64>, row: Row) {
        if let Some(ns) = ns {
            let ns = ns.clamp(self.from, self.to);
            self.add(ns - self.from, row);
        }
    }

    fn add(&mut self, ns: u64, row: Row) {
        let ns = ns.min(self.to - self.from);
        if let Some(i) = ROWS.iter().position(|r| *r == row) {
            self.sums.0[i] += ns as f64 * self.weight;
            self.from += ns;
        }
    }

    fn all(mut self, row: Row) {
        self.until(Some(self.to), row);
    }
}

impl Division {
    fn of(&mut self, from: u64, to: u64, weight: u32) -> Rest<'_> {
        Rest { sums: self, from, to: to.max(from), weight: f64::from(weight.max(1)) }
    }

    pub fn take(&mut self, t: &RequestTrace) {
        let before = &t.before;
        let mut rest = self.of(t.submitted.ns, t.posted.ns, t.weight);
        let issued = t.issued.map(|issued| issued.ns);
        let first = before.punted_ns.or(before.bio_ns).or(issued);
        // A linked request does nothing before its predecessor completes.
        let is_first = before.link != Some(Link::Linked);
        let held = match t.punted {
            Some(Punt::Drained) => DRAIN,
            _ if is_first => INLINE,
            _ => LINK,
        };
        if before.punted_ns.is_none() && before.throttled {
            rest.until(before.bio_ns, if is_first { LIMIT } else { LINK });
        }
        rest.until(first, held);
        let runs = if before.punted_ns.is_some() {
            rest.until(before.worker_ns, IOWQ_QUEUE);
            IOWQ
        } else {
            held
        };
        if t.course == Course::Block {
            rest.until(before.bio_ns, runs);
            // The plug caches the time that the block layer uses: it may be older than the bio.
            let allocated = before.allocated_ns.filter(|ns| before.bio_ns.is_some_and(|bio| bio <= *ns));
            rest.until(allocated, TAG);
            rest.until(issued, if allocated.is_some() { SCHEDULER } else { BLOCK });
            match (issued, t.ready) {
                (Some(_), Some(ready)) => rest.until(Some(ready.ns), DEVICE),
                _ if t.vehicle == DeliveryPath::Iowq => {}
                _ => return rest.all(IN_FLIGHT),
            }
        } else {
            rest.until(issued, runs);
            let ready = t.ready.map(|ready| ready.ns);
            rest.until(ready, if opcode::is(&t.opcode, opcode::TIMERS) { TIMER } else { PEER });
        }
        rest.until(t.ended.map(|ended| ended.ns), FILE_SYSTEM);
        match t.vehicle {
            DeliveryPath::Inline => return rest.all(if is_first { INLINE } else { held }),
            DeliveryPath::Iowq => return rest.all(IOWQ),
            _ => {}
        }
        if t.ready.is_none() {
            return rest.all(match () {
                () if before.punted_ns.is_some() => IOWQ,
                () if opcode::is(&t.opcode, opcode::TIMERS) => TIMER,
                () if opcode::is(&t.opcode, WAITS) => PEER,
                () if opcode::is(&t.opcode, opcode::PASSTHROUGH) => IN_FLIGHT,
                () if !is_first => LINK,
                // The kernel begins a chain when it has taken all of it; an SQPOLL thread runs what it takes.
                () if before.link.is_some() || t.vehicle == DeliveryPath::Sqpoll => INLINE,
                () => UNKNOWN,
            });
        }
        rest.add(t.runnable_ns().unwrap_or(0), NO_CPU);
        rest.all(match t.meanwhile {
            Some(Meanwhile::Running { .. }) => RUNNING,
            Some(Meanwhile::Sleeping { .. }) => ASLEEP,
            Some(Meanwhile::Runnable { .. }) => NO_CPU,
            None => READY,
        });
    }

    /// A request of native or POSIX AIO.
    pub fn take_reaped(&mut self, submitted_ns: u64, seen: &ReapedStamps, reaped_ns: u64, weight: u32) {
        let mut rest = self.of(submitted_ns, reaped_ns, weight);
        let without_end = if seen.issued_ns.is_some() && seen.ready_ns.is_some() {
            rest.until(seen.allocated_ns, INLINE);
            rest.until(seen.issued_ns, if seen.allocated_ns.is_some() { SCHEDULER } else { BLOCK });
            rest.until(seen.ready_ns, DEVICE);
            rest.until(seen.ended_ns, FILE_SYSTEM);
            READY
        } else {
            rest.until(seen.ended_ns, if seen.inlined { INLINE } else { IN_FLIGHT });
            UNKNOWN
        };
        rest.all(if seen.ended_ns.is_some() { POSTED } else { without_end });
    }

    pub fn add(&mut self, other: &Division) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// In whole nanoseconds, those that are not 0, the largest first.
    pub fn rows(&self, exact: bool) -> Vec<RequestRow> {
        let row = |(&(stage, reason), &ns): (&Row, &f64)| RequestRow {
            stage,
            reason,
            ns: ns.round() as u64,
            exact,
            ns_ci95: None,
        };
        let mut rows: Vec<RequestRow> = ROWS.iter().zip(&self.0).map(row).filter(|row| row.ns > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail::{Before, Stamp};
    use iotrail_schema::trail_example;

    const US: u64 = 1_000;

    fn at(us: u64) -> Stamp {
        Stamp { ns: us * US, cpu: 0 }
    }

    /// Submitted at 0 µs, issued at 10, ready at 90, posted at 100.
    fn read() -> RequestTrace {
        RequestTrace {
            submitted: at(0),
            issued: Some(at(10)),
            ready: Some(at(90)),
            posted: at(100),
            ..trail_example::trail()
        }
    }

    /// Rows in µs, in the order of a request's life; they sum to its latency.
    fn rows(trail: &RequestTrace) -> Vec<(Row, u64)> {
        let mut sums = Division::default();
        sums.take(trail);
        let rows: Vec<(Row, u64)> =
            ROWS.into_iter().zip(sums.0.map(|ns| ns as u64 / US)).filter(|(_, us)| *us > 0).collect();
        assert_eq!(rows.iter().map(|(_, us)| us).sum::<u64>(), trail.latency_ns() / US, "{rows:?}");
        rows
    }

    #[test]
    fn a_block_read_waits_for_a_tag_and_for_the_scheduler() {
        let seen = Before { bio_ns: Some(2 * US), allocated_ns: Some(7 * US), ..Before::default() };
        let whole = RequestTrace { before: seen, ..read() };
        assert_eq!(rows(&whole), [(INLINE, 2), (TAG, 5), (SCHEDULER, 3), (DEVICE, 80), (READY, 10)]);
        // The plug's time is of before the bio.
        let plugged = RequestTrace { before: Before { allocated_ns: Some(US), ..seen }, ..read() };
        assert_eq!(rows(&plugged), [(INLINE, 2), (BLOCK, 8), (DEVICE, 80), (READY, 10)]);
        let limited = RequestTrace { before: Before { throttled: true, ..seen }, ..read() };
        assert_eq!(rows(&limited)[0], (LIMIT, 2));
        let end_unseen = RequestTrace { before: seen, ready: None, ..read() };
        assert_eq!(rows(&end_unseen), [(INLINE, 2), (TAG, 5), (SCHEDULER, 3), (IN_FLIGHT, 90)]);
    }

    #[test]
    fn a_punted_request_waits_for_a_worker_and_is_run_by_it() {
        let seen = Before { punted_ns: Some(3 * US), worker_ns: Some(40 * US), ..Before::default() };
        let fsync = RequestTrace {
            opcode: "fsync".into(),
            course: Course::Direct,
            issued: None,
            ready: None,
            before: seen,
            vehicle: DeliveryPath::Iowq,
            ..read()
        };
        assert_eq!(rows(&fsync), [(INLINE, 3), (IOWQ_QUEUE, 37), (IOWQ, 60)]);
        // Posted by its ring's thread: when the worker began is not seen.
        let deferred =
            RequestTrace { vehicle: DeliveryPath::Enter, before: Before { worker_ns: None, ..seen }, ..fsync.clone() };
        assert_eq!(rows(&deferred), [(INLINE, 3), (IOWQ, 97)]);
        let drained = RequestTrace { punted: Some(Punt::Drained), ..fsync };
        assert_eq!(rows(&drained), [(DRAIN, 3), (IOWQ_QUEUE, 37), (IOWQ, 60)]);
    }

    #[test]
    fn a_linked_request_waits_for_the_one_before_it() {
        let seen = Before { link: Some(Link::Linked), bio_ns: Some(8 * US), ..Before::default() };
        assert_eq!(rows(&RequestTrace { before: seen, ..read() })[..2], [(LINK, 8), (BLOCK, 2)]);
        let nop = RequestTrace {
            opcode: "nop".into(),
            course: Course::Direct,
            issued: None,
            ready: None,
            before: seen,
            vehicle: DeliveryPath::Inline,
            ..read()
        };
        assert_eq!(rows(&nop), [(LINK, 100)]);
    }

    #[test]
    fn what_is_ready_waits_for_its_thread() {
        let running = RequestTrace { meanwhile: Some(Meanwhile::Running { cpu: 0 }), ..read() };
        assert_eq!(rows(&running), [(INLINE, 10), (DEVICE, 80), (RUNNING, 10)]);
        let other = |cpu| Meanwhile::Runnable { cpu, tid: 9, comm: "other".into() };
        let starved = RequestTrace { meanwhile: Some(other(0)), on_cpu: Some(at(97)), ended: Some(at(95)), ..read() };
        assert_eq!(rows(&starved), [(INLINE, 10), (DEVICE, 80), (FILE_SYSTEM, 5), (NO_CPU, 5)]);
    }

    #[test]
    fn polls_timers_and_commands() {
        let poll = RequestTrace { course: Course::Poll, opcode: "recv".into(), ..read() };
        assert_eq!(rows(&poll), [(INLINE, 10), (PEER, 80), (READY, 10)]);
        let of = |opcode: &str| RequestTrace {
            opcode: opcode.into(),
            course: Course::Direct,
            issued: None,
            ready: None,
            vehicle: DeliveryPath::Enter,
            ..read()
        };
        assert_eq!(rows(&of("timeout")), [(TIMER, 100)]);
        assert_eq!(rows(&of("futex_wait")), [(PEER, 100)]);
        assert_eq!(rows(&of("uring_cmd")), [(IN_FLIGHT, 100)]);
        assert_eq!(rows(&of("splice")), [(UNKNOWN, 100)]);
    }

    #[test]
    fn stamps_out_of_order_take_nothing() {
        let seen = Before { bio_ns: Some(200 * US), allocated_ns: Some(50 * US), ..Before::default() };
        rows(&RequestTrace { before: seen, issued: Some(at(95)), ready: Some(at(20)), ..read() });
    }

    #[test]
    fn requests_of_contexts_and_weights() {
        let mut sums = Division::default();
        let ended = ReapedStamps { ended_ns: Some(30 * US), ..ReapedStamps::default() };
        sums.take_reaped(0, &ended, 50 * US, 2);
        sums.take_reaped(0, &ReapedStamps::default(), 10 * US, 1);
        let rows = |sums: Division| sums.rows(true).into_iter().map(|row| (row.stage, row.ns / US)).collect::<Vec<_>>();
        assert_eq!(rows(sums), [(Stage::InFlight, 60), (Stage::Posted, 40), (Stage::Unknown, 10)]);
        let mut sums = Division::default();
        let block = ReapedStamps { issued_ns: Some(5 * US), ready_ns: Some(27 * US), ..ended };
        sums.take_reaped(0, &block, 50 * US, 1);
        assert_eq!(rows(sums), [(Stage::Device, 22), (Stage::Posted, 20), (Stage::Block, 5), (Stage::Ready, 3)]);
    }
}
