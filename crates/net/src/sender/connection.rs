//! Requests and responses of one connection: to be sent, sent, to be received. Makes no system calls and stores no
//! data: requests and responses are generated again from their numbers.

use iotrail_load::clock::Clock;

use super::check::{Checker, InFlight, Run, Shape, What, Wrong};
use super::spec::SenderSpec;
use super::tally::Tally;
use crate::options::Check;
use crate::wire::HEADER;

/// A peer that answers a complete request, or transfers this many bytes, counts as alive.
const SIGN_OF_LIFE: u64 = 16 << 10;

/// Parameters shared by all connections of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub shape: Shape,
    pub run: Run,
    pub clock: Clock,
    pub window: u64,
    pub burst: u64,
    pub check: Check,
    /// Open loop: latency counts from the intended time.
    pub paced: bool,
    /// Number of requests over a connection's lifetime.
    pub life: u64,
}

impl Terms {
    pub fn of(spec: &SenderSpec, run: Run, clock: Clock) -> Self {
        Self {
            shape: Shape { request: spec.request_bytes, response: spec.response_bytes },
            run,
            clock,
            window: spec.window.into(),
            burst: spec.burst.into(),
            check: spec.check,
            paced: spec.rate.is_some(),
            life: spec.reconnect_after.unwrap_or(u64::MAX),
        }
    }
}

/// A connection. Counts are of requests since the connection began.
#[derive(Debug)]
pub struct Connection {
    serial: u64,
    /// Requests accepted for sending, whether sent or not.
    admitted: u64,
    /// Requests sent completely.
    sent: u64,
    /// Bytes sent of the next request, header and body.
    sent_bytes: u32,
    answered: u64,
    /// Bytes received of the next response.
    answered_bytes: u32,
    /// Start of each in-flight request's latency, by number; the length is a power of two.
    since: Box<[u64]>,
    /// When the peer last showed a sign of life, or when the first request after a silence was sent.
    alive_at: u64,
    /// Bytes transferred in both directions since then.
    moved: u64,
}

/// Number of requests that a connection with `free` slots accepts: complete bursts, except for the last one when at
/// most `most` are left.
pub fn admissible(free: u64, burst: u64, most: u64) -> u64 {
    let group = burst.min(most);
    if free < group { 0 } else { (free - free % burst).max(group).min(most) }
}

impl Connection {
    pub fn new(window: u32) -> Self {
        let slots = if window == 0 { 0 } else { (window as usize).next_power_of_two() };
        Self {
            serial: 0,
            admitted: 0,
            sent: 0,
            sent_bytes: 0,
            answered: 0,
            answered_bytes: 0,
            since: vec![0; slots].into(),
            alive_at: 0,
            moved: 0,
        }
    }

    /// Restarts this as connection `serial` of the run.
    pub fn begin(&mut self, serial: u64) {
        *self = Self { serial, since: std::mem::take(&mut self.since), ..Self::new(0) };
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Number of requests that it accepts, at most `most`.
    #[inline]
    pub fn room(&self, terms: &Terms, most: u64) -> u64 {
        let free = terms.window - (self.admitted - self.answered);
        admissible(free, terms.burst, most.min(terms.life - self.admitted))
    }

    /// Accepts `count` requests, whose latency starts at `since` (in a closed loop, when they are sent).
    #[inline]
    pub fn admit(&mut self, count: u64, since: u64) {
        for number in self.admitted..self.admitted + count {
            *self.slot(number) = since;
        }
        self.admitted += count;
    }

    #[inline]
    fn slot(&mut self, number: u64) -> &mut u64 {
        let mask = self.since.len() - 1;
        &mut self.since[number as usize & mask]
    }

    /// Number of requests at least partly sent.
    pub fn begun(&self) -> u64 {
        self.sent + u64::from(self.sent_bytes > 0)
    }

    /// Number of requests at least partly sent and not answered.
    pub fn unanswered(&self) -> u64 {
        self.begun().saturating_sub(self.answered)
    }

    /// Number of requests accepted but not even partly sent.
    pub fn unsent(&self) -> u64 {
        self.admitted - self.begun()
    }

    /// Whether everything was sent and answered.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.admitted == self.answered && self.admitted == self.sent
    }

    /// Whether it is quiet and will remain so.
    pub fn is_spent(&self, terms: &Terms) -> bool {
        self.answered == terms.life && self.is_quiet()
    }

    /// Whether the peer owes a response, and was last active before `since`.
    pub fn is_silent(&self, since: u64) -> bool {
        !self.is_quiet() && self.alive_at < since
    }

    /// The current position in the exchange, for error messages.
    pub fn midway(&self, shape: Shape) -> Option<String> {
        let request = self.answered + 1;
        (self.answered_bytes > 0).then(|| {
            format!(
                "{} of {} bytes of the response to request {request} had arrived",
                self.answered_bytes, shape.response
            )
        })
    }

    /// Writes as much pending data as fits into `out`, and returns the number of bytes. `now`: before the send.
    #[inline]
    pub fn compose(&mut self, terms: &Terms, now: u64, out: &mut [u8], tally: &mut Tally) -> usize {
        let mut at = 0;
        let mut offset = self.sent_bytes;
        let whole = HEADER as u32 + terms.shape.request;
        for number in self.sent..self.admitted {
            if at == out.len() {
                break;
            }
            if offset == 0 {
                let since = self.slot(number);
                match terms.paced {
                    true => tally.sums.worst_lag = tally.sums.worst_lag.max(now.saturating_sub(*since)),
                    false => *since = now,
                }
            }
            let n = ((whole - offset) as usize).min(out.len() - at);
            let content = terms.run.content(self.serial, number);
            content.request_at(terms.shape.request, terms.shape.response, offset as usize, &mut out[at..at + n]);
            at += n;
            offset = 0;
        }
        at
    }

    /// Accounts for this many composed bytes as accepted by the kernel.
    #[inline]
    pub fn taken(&mut self, bytes: usize, terms: &Terms, now: u64, tally: &mut Tally) {
        let begun = self.begun();
        if begun == self.answered && bytes > 0 {
            (self.alive_at, self.moved) = (now, 0);
        }
        let whole = u64::from(terms.shape.request) + HEADER as u64;
        let total = u64::from(self.sent_bytes) + bytes as u64;
        self.sent += total / whole;
        self.sent_bytes = (total % whole) as u32;
        tally.sums.requests += self.begun() - begun;
        tally.sums.bytes += bytes as u64;
        self.moved(bytes, now);
    }

    /// Accounts for received bytes, found at `now`, and for the responses that they complete.
    #[inline]
    pub fn receive(
        &mut self,
        input: &[u8],
        terms: &Terms,
        now: u64,
        checker: &mut Checker,
        tally: &mut Tally,
    ) -> Result<u64, Wrong> {
        let (mut rest, before) = (input, self.answered);
        let begun = self.begun();
        let (mut since, mut run) = (0, 0);
        while !rest.is_empty() {
            if self.answered >= begun {
                return Err(self.wrong(terms, What::Unasked { bytes: rest.len() }));
            }
            let offset = self.answered_bytes;
            let piece = &rest[..rest.len().min((terms.shape.response - offset) as usize)];
            if terms.check == Check::Full {
                let content = terms.run.content(self.serial, self.answered);
                if let Some(wrong) = checker.differs(content, offset as usize, piece) {
                    let asked = InFlight { serial: self.serial, answered: self.answered, begun };
                    return Err(checker.explain(asked, offset as usize, rest, wrong));
                }
            }
            rest = &rest[piece.len()..];
            self.answered_bytes += piece.len() as u32;
            if self.answered_bytes == terms.shape.response {
                // Requests sent together and answered together have the same latency, and are recorded as one value
                // with a count.
                let began = *self.slot(self.answered);
                if began != since {
                    tally.record(&terms.clock, since, now, run);
                    (since, run) = (began, 0);
                }
                run += 1;
                self.answered += 1;
                self.answered_bytes = 0;
            }
        }
        tally.record(&terms.clock, since, now, run);
        tally.sums.bytes += input.len() as u64;
        let whole = self.answered - before;
        if whole > 0 {
            (self.alive_at, self.moved) = (now, 0);
            tally.sums.last = now;
        } else {
            self.moved(input.len(), now);
        }
        tally.sums.responses += whole;
        Ok(whole)
    }

    fn wrong(&self, terms: &Terms, what: What) -> Wrong {
        Wrong { connection: self.serial, request: self.answered, of_bytes: terms.shape.response, what }
    }

    fn moved(&mut self, bytes: usize, now: u64) {
        self.moved += bytes as u64;
        if self.moved >= SIGN_OF_LIFE {
            (self.alive_at, self.moved) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Responder;

    fn terms(request: u32, response: u32, window: u64) -> Terms {
        Terms {
            shape: Shape { request, response },
            run: Run { first: 1234 },
            clock: Clock::get(),
            window,
            burst: 1,
            check: Check::Full,
            paced: false,
            life: u64::MAX,
        }
    }

    #[test]
    fn a_connection_sends_full_bursts_except_for_the_last_one() {
        assert_eq!([0, 1, 3, 8].map(|free| admissible(free, 1, u64::MAX)), [0, 1, 3, 8]);
        assert_eq!([3, 4, 7, 8].map(|free| admissible(free, 4, u64::MAX)), [0, 4, 4, 8]);
        assert_eq!([1, 2, 8].map(|free| admissible(free, 4, 2)), [0, 2, 2]);
        assert_eq!([4, 8].map(|free| admissible(free, 4, 6)), [4, 6]);
        assert_eq!(admissible(8, 4, 0), 0);
    }

    /// Passes data through the server's half of the protocol, in pieces of every size in both directions.
    #[test]
    fn each_request_is_answered_for_any_fragmentation() {
        for (request, response) in [(64, 64), (1, 1), (200, 9), (9, 200), (5000, 5000)] {
            for (take, give) in [(1, 1), (3, 7), (64, 64), (100_000, 100_000), (8, 100_000)] {
                let terms = Terms { life: 9, ..terms(request, response, 4) };
                let (mut checker, mut tally) = (Checker::new(terms.run, terms.shape), Tally::default());
                let mut c = Connection::new(4);
                c.begin(3);
                let mut responder = Responder::default();
                let (mut out, mut at_server, mut back) = (vec![0; take.min(1000)], vec![], vec![]);
                while !c.is_spent(&terms) {
                    c.admit(c.room(&terms, u64::MAX), 0);
                    let n = c.compose(&terms, 5, &mut out, &mut tally);
                    c.taken(n, &terms, 5, &mut tally);
                    at_server.extend_from_slice(&out[..n]);
                    let p = responder.respond(&at_server, &mut back, 100_000).unwrap();
                    at_server.drain(..p.consumed);
                    let n = back.len().min(give);
                    c.receive(&back[..n], &terms, 9, &mut checker, &mut tally).unwrap();
                    back.drain(..n);
                }
                let bytes = 9 * u64::from(8 + request + response);
                assert_eq!(
                    (tally.sums.requests, tally.sums.responses, tally.sums.bytes),
                    (9, 9, bytes),
                    "{request} → {response}"
                );
                assert_eq!((tally.histogram.len(), back.len(), at_server.len()), (9, 0, 0));
            }
        }
    }

    #[test]
    fn latency_counts_from_the_send_or_from_the_intended_time() {
        let ms = |n| Clock::get().ticks(std::time::Duration::from_millis(n));
        for (paced, latency) in [(false, 10_000_000u64), (true, 30_000_000)] {
            let terms = Terms { paced, ..terms(64, 64, 4) };
            let (mut checker, mut tally) = (Checker::new(terms.run, terms.shape), Tally::default());
            let mut c = Connection::new(4);
            c.admit(2, ms(1000));
            let mut out = [0; 1000];
            let n = c.compose(&terms, ms(1020), &mut out, &mut tally);
            c.taken(n, &terms, ms(1020), &mut tally);
            let mut back = vec![];
            (0..2).for_each(|n| terms.run.content(0, n).response(64, 64, &mut back));
            assert_eq!(c.receive(&back, &terms, ms(1030), &mut checker, &mut tally), Ok(2));
            assert_eq!(tally.histogram.len(), 2);
            assert!(
                tally.histogram.min().abs_diff(latency) < latency / 500
                    && tally.histogram.max().abs_diff(latency) < latency / 500
            );
            assert!(terms.clock.ns(tally.sums.worst_lag).abs_diff(if paced { 20_000_000 } else { 0 }) < 20_000);
        }
    }

    #[test]
    fn a_peer_is_silent_without_progress_on_an_outstanding_response() {
        let terms = terms(64, 100_000, 1);
        let (mut checker, mut tally) = (Checker::new(terms.run, terms.shape), Tally::default());
        let mut c = Connection::new(1);
        assert!(!c.is_silent(50), "nothing is owed");
        c.admit(1, 0);
        let mut out = [0; 1000];
        let n = c.compose(&terms, 100, &mut out, &mut tally);
        c.taken(n, &terms, 100, &mut tally);
        let mut back = vec![];
        terms.run.content(0, 0).response(64, 100_000, &mut back);
        c.receive(&back[..1000], &terms, 300, &mut checker, &mut tally).unwrap();
        assert!(c.is_silent(101) && !c.is_silent(100), "a trickle is no sign of life");
        c.receive(&back[1000..20_000], &terms, 400, &mut checker, &mut tally).unwrap();
        assert!(!c.is_silent(400));
        assert_eq!((c.unanswered(), c.unsent()), (1, 0));
        assert_eq!(c.midway(terms.shape).unwrap(), "20000 of 100000 bytes of the response to request 1 had arrived");
        c.receive(&back[20_000..], &terms, 500, &mut checker, &mut tally).unwrap();
        assert!(c.is_quiet() && !c.is_silent(u64::MAX));
        let unasked = c.receive(&[1, 2], &terms, 600, &mut checker, &mut tally).unwrap_err();
        assert_eq!(unasked.what, What::Unasked { bytes: 2 });
    }
}
