//! Waits: requests that stay pending until an event occurs (a wake-up, a timer, an idle peer). They take much longer
//! than the ring's other requests. They would distort the mean latency, its stages, the requests in flight and the
//! order. Only this module decides which requests are waits. The rule is in `docs/tracing.md`, "Waits".

use std::collections::BTreeMap;

use iotrail_schema::opcode::{WAITS, is};
use iotrail_schema::trail::{Course, RequestTrace};

/// Minimum share of a ring's requests, one tenth, to count as the ring's main purpose.
const SHARE: u64 = 10;

/// Minimum number of traced requests for a median.
const LEAST: u64 = 10;

/// A request is a wait at this multiple of the median, as a power of two: 128.
const FAR: u8 = 7;

/// Exponent of the largest power of two not above `ns`.
pub(crate) fn power(ns: u64) -> u8 {
    ns.max(1).ilog2() as u8
}

/// Power of two of the time for which a poll was armed before the request was ready; `None` without a poll, or if
/// unobserved.
pub(crate) fn armed(trail: &RequestTrace) -> Option<u8> {
    let polled = trail.course == Course::Poll || trail.opcode == "poll_add";
    let ready = trail.ready.filter(|_| polled)?;
    Some(power(ready.ns.checked_sub(trail.submitted.ns)?))
}

/// Number of durations per power of two.
#[derive(Debug, Clone, Default)]
pub struct Powers(BTreeMap<u8, Sampled>);

#[derive(Debug, Clone, Copy, Default)]
struct Sampled {
    requests: u64,
    /// The sum of their weights.
    weight: u64,
}

impl Powers {
    pub fn take(&mut self, power: u8, weight: u32) {
        let seen = self.0.entry(power).or_default();
        seen.requests += 1;
        seen.weight += u64::from(weight.max(1));
    }

    pub fn add(&mut self, other: &Powers) {
        for (power, more) in &other.0 {
            let seen = self.0.entry(*power).or_default();
            seen.requests += more.requests;
            seen.weight += more.weight;
        }
    }

    fn weight(&self) -> u64 {
        self.0.values().map(|seen| seen.weight).sum()
    }

    /// Power of two of the median.
    fn median(&self) -> Option<u8> {
        if self.0.values().map(|seen| seen.requests).sum::<u64>() < LEAST {
            return None;
        }
        let half = self.weight().div_ceil(2);
        let mut below = 0;
        self.0.iter().find_map(|(power, seen)| {
            below += seen.weight;
            (below >= half).then_some(*power)
        })
    }
}

/// Which of a ring's requests of one operation are waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Limit {
    #[default]
    None,
    /// Those whose poll was armed for this power of two or longer.
    From(u8),
    All,
}

impl Limit {
    pub fn is_wait(self, armed: Option<u8>) -> bool {
        match self {
            Limit::None => false,
            Limit::From(power) => armed.is_some_and(|armed| armed >= power),
            Limit::All => true,
        }
    }
}

/// Latencies of one ring's requests of one operation; and for those with a poll, the time for which it was armed.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    pub latency: Powers,
    pub armed: Powers,
}

impl Spans {
    pub fn add(&mut self, other: &Spans) {
        self.latency.add(&other.latency);
        self.armed.add(&other.armed);
    }
}

/// The limits of one ring by operation.
pub fn limits<'a>(ring: impl Iterator<Item = (&'a String, &'a Spans)>) -> BTreeMap<String, Limit> {
    let by_opcode: Vec<_> = ring.collect();
    let mut all = Powers::default();
    by_opcode.iter().for_each(|(_, spans)| all.add(&spans.latency));
    let waiting: u64 =
        by_opcode.iter().filter(|(opcode, _)| is(opcode, WAITS)).map(|(_, spans)| spans.latency.weight()).sum();
    let is_much = |weight: u64| weight * SHARE >= all.weight();
    let works = is_much(all.weight() - waiting);
    let limit = |opcode: &str, spans: &Spans| {
        if is(opcode, WAITS) && works {
            return Limit::All;
        }
        // Requests with similar waits are compared with each other: a server's receives, for example.
        let median = if is_much(spans.armed.weight()) { spans.armed.median() } else { all.median() };
        // Above this multiple of any duration with that power of two.
        median.map_or(Limit::None, |power| Limit::From(power + 1 + FAR))
    };
    by_opcode.into_iter().map(|(opcode, spans)| (opcode.clone(), limit(opcode, spans))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail::Stamp;
    use iotrail_schema::trail_example::trail;

    const MS: u64 = 1_000_000;

    /// Requests as (number, latency, with a poll).
    fn spans(requests: &[(u64, u64, bool)]) -> Spans {
        let mut spans = Spans::default();
        for &(n, ns, armed) in requests {
            for _ in 0..n {
                spans.latency.take(power(ns), 1);
                if armed {
                    spans.armed.take(power(ns), 1);
                }
            }
        }
        spans
    }

    fn of(ring: &[(&str, Spans)]) -> BTreeMap<String, Limit> {
        let ring: Vec<(String, Spans)> = ring.iter().map(|(name, spans)| ((*name).to_owned(), spans.clone())).collect();
        limits(ring.iter().map(|(name, spans)| (name, spans)))
    }

    fn waits(limits: &BTreeMap<String, Limit>, opcode: &str, ns: u64) -> bool {
        limits[opcode].is_wait(Some(power(ns)))
    }

    #[test]
    fn a_long_read_among_short_ones_counts_as_a_wait() {
        let limits = of(&[("read", spans(&[(5_000, 90_000, false), (1, 5_000 * MS, true)]))]);
        assert!(waits(&limits, "read", 5_000 * MS));
        // Up to 128 times the median none is a wait; from 256 times on, all are.
        assert!(!waits(&limits, "read", 90_000 * 128) && waits(&limits, "read", 90_000 * 256));
        // A stalled disk is not a wait, because no poll was armed.
        assert!(!limits["read"].is_wait(None));
    }

    #[test]
    fn few_requests_do_not_define_a_wait_limit() {
        let limits = of(&[("read", spans(&[(8, 90_000, false), (1, 5_000 * MS, true)]))]);
        assert_eq!(limits["read"], Limit::None);
    }

    #[test]
    fn requests_are_compared_only_with_the_same_opcode() {
        let recv = [(900, 10 * MS, true), (100, 20_000, false), (10, 10_000 * MS, true)];
        let limits = of(&[("recv", spans(&recv)), ("send", spans(&[(1_000, 5_000, false)]))]);
        assert!(!waits(&limits, "recv", 10 * MS), "clients that think");
        assert!(waits(&limits, "recv", 10_000 * MS), "connections that were idle");
        assert!(!limits["send"].is_wait(None));
    }

    #[test]
    fn timeouts_count_as_waits_if_the_ring_does_other_work() {
        let limits = of(&[("timeout", spans(&[(100, 9 * MS, false)])), ("read", spans(&[(100, 90_000, false)]))]);
        assert_eq!((limits["timeout"], limits["timeout"].is_wait(None)), (Limit::All, true));
        assert_eq!(limits["read"], Limit::From(power(90_000) + 8));
        // Polls are this ring's purpose. A poll that is pending throughout is separated from them.
        let polls = spans(&[(1_000, 20_000, true), (1, 5_000 * MS, true)]);
        let limits = of(&[("poll_add", polls), ("close", spans(&[(3, 900, false)]))]);
        assert!(!waits(&limits, "poll_add", 20_000) && waits(&limits, "poll_add", 5_000 * MS));
    }

    #[test]
    fn sampled_requests_count_by_their_weight() {
        let mut sampled = spans(&[(40, 5_000 * MS, true)]);
        for _ in 0..30 {
            sampled.latency.take(power(90_000), 100);
        }
        let limits = of(&[("read", sampled)]);
        assert!(waits(&limits, "read", 5_000 * MS), "40 of 3040");
    }

    #[test]
    fn the_armed_time_of_a_poll_ends_when_the_request_is_ready() {
        let at = |ns| Some(Stamp { ns: trail().submitted.ns + ns, cpu: 0 });
        let polled = RequestTrace { course: Course::Poll, ready: at(5_000), ..trail() };
        assert_eq!(armed(&polled), Some(12));
        assert_eq!(armed(&RequestTrace { ready: None, ..polled.clone() }), None, "not seen");
        assert_eq!(armed(&RequestTrace { course: Course::Block, ..polled.clone() }), None);
        assert_eq!(armed(&RequestTrace { course: Course::Direct, opcode: "poll_add".into(), ..polled }), Some(12));
    }
}
