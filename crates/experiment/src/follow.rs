//! Traces requests of iotrail's loads end to end, as `trace` does for other programs.

use iotrail_answer::warnings::doubt;
use iotrail_base::error::Result;
use iotrail_path::multishot::Multishot;
use iotrail_path::order::OrderTracker;
use iotrail_path::times::{Delays, Times};
use iotrail_probe::choice::Choice;
use iotrail_probe::function;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::FollowLoss;
use iotrail_probe::subject::Follow;
use iotrail_probe::watch::{BATCHES, Watch};
use iotrail_schema::measurement::{Measurement, Punts};
use iotrail_schema::trail::RequestTrace;
use iotrail_stats::estimate::{self, Stratum};

/// Size of a request trace in the ring buffer, including the record header.
const TRAIL_BYTES: u64 = 256;

/// Ring buffer capacity for tracing 1 in `one_in` requests. Reading a request trace takes about 1 µs of CPU time, in
/// parallel with the load, so for loads of a few seconds the traces stay in the buffer until the end.
pub fn follow(one_in: u32) -> Follow {
    let ring_bytes = if one_in < 16 { 64 << 20 } else { 16 << 20 };
    Follow { choice: Choice::fixed(one_in), ring_bytes, stacks: false }
}

/// The request traces read so far.
pub struct Requests {
    how: Follow,
    completions: u64,
    whole: u64,
    requests: Stratum,
    times: Times,
    delays: Delays,
    multishot: Multishot,
    passages: OrderTracker,
    /// Number of completed I/Os when the buffer was last drained.
    emptied_at: u64,
}

impl Requests {
    pub fn new(how: Follow) -> Self {
        Self {
            how,
            completions: 0,
            whole: 0,
            requests: Stratum::default(),
            times: Times::default(),
            delays: Delays::default(),
            multishot: Multishot::default(),
            passages: OrderTracker::default(),
            emptied_at: 0,
        }
    }

    /// Drains the ring buffer if it may be half full after `done` I/Os.
    pub fn make_room(&mut self, watch: &mut Watch<'_>, done: u64) -> Result<()> {
        let waiting = done.saturating_sub(self.emptied_at) / u64::from(self.how.choice.one_in);
        if waiting * TRAIL_BYTES < u64::from(self.how.ring_bytes) / 2 {
            return Ok(());
        }
        self.emptied_at = done;
        self.take_out(watch)
    }

    pub fn take_out(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        for _ in 0..BATCHES {
            let more = watch.read_batch()?;
            watch.trails(&mut |trail| self.take(trail))?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, trail: RequestTrace) {
        self.completions += 1;
        self.whole += u64::from(trail.weight <= 1);
        let is_first = !self.multishot.is_later(&trail);
        let is_whole = is_first && trail.is_last_result();
        if is_first {
            self.requests.take(trail.weight, 1.0);
        }
        self.passages.take(&trail, is_whole);
        if is_whole {
            self.times.take(&trail);
        }
        self.delays.take(trail);
    }

    /// Adds the results to the measurement.
    pub fn tell(self, m: &mut Measurement, loss: FollowLoss) {
        m.vehicles = self.delays.beside(&m.vehicles);
        m.stages = self.times.stages(self.how.choice.one_in).map(Into::into);
        m.order = self.passages.order(function::sees_ends(&m.probe.programs), &|_, _, _| false).map(Into::into);
        let requests = estimate::interval(&[self.requests], self.how.choice.one_in);
        let completions = (self.completions, self.whole);
        let followed = loss.followed(self.how.choice, completions, requests, &self.times, &m.probe.programs);
        m.warnings.extend(doubt::followed_lost(&followed, "--follow"));
        m.followed = Some(followed.into());
    }
}

/// Requests punted to io-wq, over all rings; `None` if the BPF program is not loaded.
pub fn punts(observed: &Observed) -> Option<Punts> {
    let opcodes = || observed.rings.iter().flat_map(|ring| &ring.opcodes);
    observed.programs.iter().any(|name| name == "follow_punt").then(|| Punts {
        asked: opcodes().map(|o| o.punted_asked).sum(),
        would_block: opcodes().map(|o| o.punted_would_block).sum(),
    })
}
