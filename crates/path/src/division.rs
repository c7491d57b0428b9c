//! Splits the latency of requests by cause of the delay. The parts add up to the latency. Pure.

use super::waits::power;
use iotrail_schema::account::{RequestReason as Reason, RequestRow, RequestStage as Stage};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::opcode::{self, WAITS};
use iotrail_schema::trail::{Course, Link, Meanwhile, Punt, RequestTrace};
use iotrail_stats::student::interval_of_mean;

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
const PAGE: Row = (Stage::Device, Some(Reason::Page));
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

/// All rows in the order of a request's life cycle.
const ROWS: [Row; 21] = [
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
    PAGE,
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

/// Weighted sums over requests, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Division([f64; ROWS.len()]);

/// Timestamps of a native or POSIX AIO request between submission and reaping. CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapedStamps {
    /// Time at which the block layer had allocated a request.
    pub allocated_ns: Option<u64>,
    pub issued_ns: Option<u64>,
    pub ready_ns: Option<u64>,
    pub ended_ns: Option<u64>,
    /// It completed during its own submission.
    pub inlined: bool,
}

/// The part of a latency that is not assigned to a row yet.
struct Rest<'d> {
    sums: &'d mut Division,
    from: u64,
    to: u64,
    weight: f64,
}

impl Rest<'_> {
    /// Assigns the time up to this timestamp to a row. An out-of-order timestamp assigns nothing.
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
        let first = match t.course {
            Course::Poll => before.punted_ns.into_iter().chain(issued).min(),
            _ => before.punted_ns.or(before.bio_ns).or(issued),
        };
        // A linked request waits for its predecessor to complete.
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
        // A worker armed a poll instead of blocking, and the request was punted again once it was ready.
        if t.course == Course::Poll && issued.is_some() && issued < before.worker_ns {
            rest.until(issued, IOWQ_QUEUE);
            rest.until(t.ready.map(|ready| ready.ns), PEER);
        }
        let runs = if before.punted_ns.is_some() {
            rest.until(before.worker_ns, IOWQ_QUEUE);
            IOWQ
        } else {
            held
        };
        if t.course == Course::Block {
            rest.until(before.bio_ns, runs);
            // The block layer uses the plug's cached time, which may be older than the bio.
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
                () if before.waits_for_page => PAGE,
                () if opcode::is(&t.opcode, opcode::TIMERS) => TIMER,
                () if opcode::is(&t.opcode, WAITS) => PEER,
                () if opcode::is(&t.opcode, opcode::PASSTHROUGH) => IN_FLIGHT,
                () if !is_first => LINK,
                // The kernel starts a chain once it has consumed all its SQEs. An SQPOLL thread runs each request as
                // it consumes the SQE.
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

    /// Adds a native or POSIX AIO request.
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

    fn add(&mut self, other: &Division, factor: f64) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += factor * more);
    }

    fn total(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// Number of groups for the intervals. Requests are grouped by submission time, because adjacent requests are
/// correlated.
const GROUPS: usize = 10;

/// Low bits of the submission time (ns) that do not select the group: 134 ms.
const GROUP_BITS: u32 = 27;

/// Minimum number of groups for an interval.
const LEAST_GROUPS: usize = 5;

/// Splits the latency of many requests. Block I/O may be observed only part of the time because of its cost. Only
/// completely observed requests can be split, which favours short ones. All requests are therefore split in the
/// proportions of those with similar latency.
#[derive(Debug, Clone, Default)]
pub struct Divisions {
    /// Sums of the requests before the first sampled one.
    exact: Division,
    sampled: Option<Box<Sample>>,
}

#[derive(Debug, Clone, Default)]
struct Sample {
    /// Sorted by power of two of the latency.
    classes: Vec<(u8, Class)>,
    /// Split requests by group.
    groups: [Division; GROUPS],
    /// Total latency of the split requests, unweighted.
    observed: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    /// Total latency of all requests, in weighted ns.
    latency: f64,
    divided: Division,
}

impl Sample {
    fn class(&mut self, power: u8) -> &mut Class {
        let i = self.classes.binary_search_by_key(&power, |(power, _)| *power).unwrap_or_else(|i| {
            self.classes.insert(i, (power, Class::default()));
            i
        });
        &mut self.classes[i].1
    }

    /// Estimate for all requests, from the split ones.
    fn division(&self) -> Division {
        let mut sums = Division::default();
        for (_, class) in &self.classes {
            let divided = class.divided.total();
            if divided > 0.0 {
                sums.add(&class.divided, class.latency / divided);
            } else {
                sums.0[ROWS.len() - 1] += class.latency;
            }
        }
        sums
    }

    /// Half the width of the 95 % interval of a row's share, as a ratio of sums over groups.
    fn half_of_share(&self, row: usize) -> Option<f64> {
        let groups: Vec<(f64, f64)> =
            self.groups.iter().map(|g| (g.0[row], g.total())).filter(|(_, total)| *total > 0.0).collect();
        let (sum, total) = groups.iter().fold((0.0, 0.0), |(sum, total), (part, of)| (sum + part, total + of));
        let apart = |(part, of): &(f64, f64)| (part - sum / total * of) / total * groups.len() as f64;
        let [lo, hi] = interval_of_mean(&groups.iter().map(apart).collect::<Vec<_>>())?;
        let latency: f64 = self.classes.iter().map(|(_, class)| class.latency).sum();
        // Observed requests have no sampling error.
        let unobserved = (1.0 - self.observed / latency).max(0.0).sqrt();
        (groups.len() >= LEAST_GROUPS).then_some((hi - lo) / 2.0 * unobserved)
    }
}

impl Divisions {
    pub fn take(&mut self, t: &RequestTrace) {
        let mut division = Division::default();
        let is_known = !t.partly_observed
            || t.course == Course::Poll
            || t.vehicle == DeliveryPath::Inline
            || opcode::is(&t.opcode, opcode::WAITS);
        if is_known {
            division.take(t);
        }
        self.add_one(t.latency_ns(), t.weight, t.submitted.ns, is_known.then_some(division));
    }

    /// Adds a native or POSIX AIO request.
    pub fn take_reaped(&mut self, submitted_ns: u64, seen: &ReapedStamps, reaped_ns: u64, weight: u32) {
        let mut division = Division::default();
        division.take_reaped(submitted_ns, seen, reaped_ns, weight);
        self.add_one(reaped_ns.saturating_sub(submitted_ns), weight, submitted_ns, Some(division));
    }

    fn add_one(&mut self, latency_ns: u64, weight: u32, submitted_ns: u64, division: Option<Division>) {
        if self.sampled.is_none()
            && weight <= 1
            && let Some(division) = &division
        {
            return self.exact.add(division, 1.0);
        }
        let sample = self.sampled.get_or_insert_default();
        let class = sample.class(power(latency_ns));
        class.latency += latency_ns as f64 * f64::from(weight.max(1));
        if let Some(division) = division {
            class.divided.add(&division, 1.0);
            sample.observed += latency_ns as f64;
            sample.groups[(submitted_ns >> GROUP_BITS) as usize % GROUPS].add(&division, 1.0);
        }
    }

    pub fn add(&mut self, other: &Divisions) {
        self.exact.add(&other.exact, 1.0);
        let Some(more) = &other.sampled else { return };
        let sample = self.sampled.get_or_insert_default();
        for (power, more) in &more.classes {
            let class = sample.class(*power);
            class.latency += more.latency;
            class.divided.add(&more.divided, 1.0);
        }
        sample.groups.iter_mut().zip(&more.groups).for_each(|(group, more)| group.add(more, 1.0));
        sample.observed += more.observed;
    }

    /// Rows in full ns, largest first, without zeros.
    pub fn rows(&self) -> Vec<RequestRow> {
        let sampled = self.sampled.as_ref().map(|sample| sample.division()).unwrap_or_default();
        let total = sampled.total();
        let row = |(i, &(stage, reason)): (usize, &Row)| {
            let (exact, sampled) = (self.exact.0[i], sampled.0[i]);
            let ends = |half: f64| [sampled - half * total, sampled + half * total].map(|ns| ns.clamp(0.0, total));
            RequestRow {
                stage,
                reason,
                ns: (exact + sampled).round() as u64,
                exact: self.sampled.is_none(),
                ns_ci95: self
                    .sampled
                    .as_ref()
                    .and_then(|sample| sample.half_of_share(i))
                    .map(|half| ends(half).map(|ns| (exact + ns).round() as u64)),
            }
        };
        let mut rows: Vec<RequestRow> = ROWS.iter().enumerate().map(row).filter(|row| row.ns > 0).collect();
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

    /// Rows in µs, in life-cycle order. Asserts that they add up to the latency.
    fn rows(trail: &RequestTrace) -> Vec<(Row, u64)> {
        let mut sums = Division::default();
        sums.take(trail);
        let rows: Vec<(Row, u64)> =
            ROWS.into_iter().zip(sums.0.map(|ns| ns as u64 / US)).filter(|(_, us)| *us > 0).collect();
        assert_eq!(rows.iter().map(|(_, us)| us).sum::<u64>(), trail.latency_ns() / US, "{rows:?}");
        rows
    }

    #[test]
    fn a_block_reads_time_includes_tag_and_scheduler_waits() {
        let seen = Before { bio_ns: Some(2 * US), allocated_ns: Some(7 * US), ..Before::default() };
        let whole = RequestTrace { before: seen, ..read() };
        assert_eq!(rows(&whole), [(INLINE, 2), (TAG, 5), (SCHEDULER, 3), (DEVICE, 80), (READY, 10)]);
        // The plug's cached time precedes the bio.
        let plugged = RequestTrace { before: Before { allocated_ns: Some(US), ..seen }, ..read() };
        assert_eq!(rows(&plugged), [(INLINE, 2), (BLOCK, 8), (DEVICE, 80), (READY, 10)]);
        let limited = RequestTrace { before: Before { throttled: true, ..seen }, ..read() };
        assert_eq!(rows(&limited)[0], (LIMIT, 2));
        let end_unseen = RequestTrace { before: seen, ready: None, ..read() };
        assert_eq!(rows(&end_unseen), [(INLINE, 2), (TAG, 5), (SCHEDULER, 3), (IN_FLIGHT, 90)]);
    }

    #[test]
    fn a_punted_requests_time_includes_the_io_wq_queue_and_the_worker() {
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
        // Posted by its ring's thread; the start of the worker is unobserved.
        let deferred =
            RequestTrace { vehicle: DeliveryPath::Enter, before: Before { worker_ns: None, ..seen }, ..fsync.clone() };
        assert_eq!(rows(&deferred), [(INLINE, 3), (IOWQ, 97)]);
        let drained = RequestTrace { punted: Some(Punt::Drained), ..fsync };
        assert_eq!(rows(&drained), [(DRAIN, 3), (IOWQ_QUEUE, 37), (IOWQ, 60)]);
        // Read of an empty pipe: the first worker arms a poll, and the last one begins once data has arrived.
        let again = RequestTrace {
            course: Course::Poll,
            before: Before { punted_ns: Some(3 * US), worker_ns: Some(95 * US), ..Before::default() },
            vehicle: DeliveryPath::Iowq,
            ..read()
        };
        assert_eq!(rows(&again), [(INLINE, 3), (IOWQ_QUEUE, 12), (IOWQ, 5), (PEER, 80)]);
        let armed_first = RequestTrace { before: Before { punted_ns: Some(92 * US), ..again.before }, ..again };
        assert_eq!(rows(&armed_first), [(INLINE, 10), (IOWQ_QUEUE, 5), (IOWQ, 5), (PEER, 80)]);
    }

    #[test]
    fn a_linked_requests_time_includes_the_wait_for_its_predecessor() {
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
    fn delivery_time_is_attributed_to_the_state_of_the_thread() {
        let running = RequestTrace { meanwhile: Some(Meanwhile::Running { cpu: 0 }), ..read() };
        assert_eq!(rows(&running), [(INLINE, 10), (DEVICE, 80), (RUNNING, 10)]);
        let other = |cpu| Meanwhile::Runnable { cpu, tid: 9, comm: "other".into() };
        let starved = RequestTrace { meanwhile: Some(other(0)), on_cpu: Some(at(97)), ended: Some(at(95)), ..read() };
        assert_eq!(rows(&starved), [(INLINE, 10), (DEVICE, 80), (FILE_SYSTEM, 5), (NO_CPU, 5)]);
    }

    #[test]
    fn time_of_polls_timers_and_commands_is_attributed_by_opcode() {
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
        let before = Before { waits_for_page: true, ..Before::default() };
        assert_eq!(rows(&RequestTrace { issued: Some(at(10)), before, ..of("read") }), [(INLINE, 10), (PAGE, 90)]);
    }

    #[test]
    fn out_of_order_timestamps_do_not_change_the_total_time() {
        let seen = Before { bio_ns: Some(200 * US), allocated_ns: Some(50 * US), ..Before::default() };
        rows(&RequestTrace { before: seen, issued: Some(at(95)), ready: Some(at(20)), ..read() });
    }

    #[test]
    fn native_aio_requests_are_broken_down_by_weight() {
        let mut sums = Divisions::default();
        let ended = ReapedStamps { ended_ns: Some(30 * US), ..ReapedStamps::default() };
        sums.take_reaped(0, &ended, 50 * US, 2);
        sums.take_reaped(0, &ReapedStamps::default(), 10 * US, 1);
        let rows = |sums: Divisions| sums.rows().into_iter().map(|row| (row.stage, row.ns / US)).collect::<Vec<_>>();
        assert_eq!(rows(sums), [(Stage::InFlight, 60), (Stage::Posted, 40), (Stage::Unknown, 10)]);
        let mut sums = Divisions::default();
        let block = ReapedStamps { issued_ns: Some(5 * US), ready_ns: Some(27 * US), ..ended };
        sums.take_reaped(0, &block, 50 * US, 1);
        assert_eq!(rows(sums), [(Stage::Device, 22), (Stage::Posted, 20), (Stage::Block, 5), (Stage::Ready, 3)]);
    }

    /// A read of `us` µs that is submitted `after` groups later.
    fn read_of(us: u64, after: u64, partly_observed: bool) -> RequestTrace {
        let from = after << GROUP_BITS;
        let at = |part: u64| Stamp { ns: from + part * us * US / 100, cpu: 0 };
        let whole =
            RequestTrace { submitted: at(0), issued: Some(at(10)), ready: Some(at(90)), posted: at(100), ..read() };
        match partly_observed {
            true => RequestTrace { partly_observed, issued: None, ready: None, course: Course::Direct, ..whole },
            false => whole,
        }
    }

    #[test]
    fn partly_observed_requests_are_broken_down_like_similar_latencies() {
        let mut sums = Divisions::default();
        // Fewer of the long reads are observed completely. They spend all their time after the device.
        for after in 0..20 {
            sums.take(&read_of(100, after, false));
            (0..9).for_each(|_| sums.take(&read_of(1000, after, true)));
            sums.take(&RequestTrace {
                ready: Some(Stamp { ns: after << GROUP_BITS, cpu: 0 }),
                ..read_of(1000, after, false)
            });
        }
        let rows = sums.rows();
        let (all, long) = (20 * 10_100 * US, 20 * 10_000 * US);
        assert_eq!(rows.iter().map(|row| row.ns).sum::<u64>(), all);
        let device = rows.iter().find(|row| row.stage == Stage::Device).unwrap();
        assert_eq!((device.ns, device.exact), (20 * 80 * US, false));
        assert!(rows[0].ns > long * 9 / 10 && rows.iter().all(|row| row.ns_ci95.is_some()), "{rows:?}");
        // The longest read is unobserved.
        sums.take(&read_of(100_000, 0, true));
        let unknown = sums.rows().into_iter().find(|row| row.stage == Stage::Unknown).unwrap();
        assert_eq!(unknown.ns, 100_000 * US);
    }

    #[test]
    fn confidence_intervals_of_sampled_shares_cover_the_true_shares() {
        let mut random = iotrail_stats::random::Random::new(7);
        let (trials, mut held) = (400, 0);
        for _ in 0..trials {
            let mut sums = Divisions::default();
            for i in 0..600 {
                // At similar latencies the device takes 20 % or 90 %, the same in each window of five reads.
                let us = if random.below(2) == 0 { 20 } else { 90 };
                for _ in 0..5 {
                    let mut t = read_of(100, i / 5, false);
                    t.ready = Some(Stamp { ns: t.submitted.ns + (10 + us) * US, cpu: 0 });
                    t.weight = 100;
                    sums.take(&RequestTrace { posted: t.posted, ..t });
                }
            }
            let device = sums.rows().into_iter().find(|row| row.stage == Stage::Device).unwrap();
            let [lo, hi] = device.ns_ci95.unwrap().map(|ns| ns as f64 / (600.0 * 5.0 * 100.0 * 100.0 * US as f64));
            held += u32::from(lo <= 0.55 && 0.55 <= hi);
        }
        assert!((0.92 * f64::from(trials)..).contains(&f64::from(held)), "{held} of {trials}");
    }
}
