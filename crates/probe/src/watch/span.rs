//! One trace from start to end, and its intermediate readings.

use iotrail_schema::setup_flag;
use std::collections::BTreeMap;
use std::time::Duration;

use super::attached::Watch;
use super::tables::{self, entries};
use crate::counted::{Counted, RawRing};
use crate::observed::window_counts::Known;
use crate::observed::{self, Observed, Raw};
use crate::overflow;
use crate::raw::peek;
use crate::sampled_events::Sums;
use crate::skel::types;
use iotrail_base::error::Result;
use iotrail_host::irq::Interrupts;

impl Watch<'_> {
    /// Discards all counts so far; exact if the traced threads are idle. If requests are traced, counting starts here,
    /// and `begin` may be called only once.
    pub fn begin(&mut self) -> Result<()> {
        if self.subject.follow.is_some() {
            self.misses_before = self.recursion_misses()?;
            self.account_begins()?;
            self.before = iotrail_host::irq::snapshot().ok();
            self.bss_mut().counting = 1;
            self.open_account()?;
            return Ok(());
        }
        // Otherwise a thread that goes to sleep would move uncounted events from a slot that is not cleared yet to a
        // place that already is.
        self.freeze();
        for map in [
            &self.skel.maps.threads,
            &self.skel.maps.deliveries,
            &self.skel.maps.irqs,
            &self.skel.maps.returns,
            &self.skel.maps.ipis,
        ] {
            tables::clear(map)?;
        }
        let bss = self.bss_mut();
        for slot in &mut bss.slots {
            // Keeps the state of the CPU and clears the counts.
            *slot = types::cpu_slot {
                current: slot.current,
                tid: slot.tid,
                watched_here: slot.watched_here,
                in_irq: slot.in_irq,
                last_irq: slot.last_irq,
                in_vector: slot.in_vector,
                in_softirq: slot.in_softirq,
                raisers: slot.raisers,
                raiser: slot.raiser,
                handlers: slot.handlers,
                ..types::cpu_slot::default()
            };
        }
        bss.frozen = 0;
        if let Some(recorder) = &self.recorder {
            recorder.restart()?;
        }
        self.misses_before = self.recursion_misses()?;
        self.before = iotrail_host::irq::snapshot().ok();
        Ok(())
    }

    /// Stops the programs from moving thread state between CPU and thread. Waits for running programs.
    fn freeze(&mut self) {
        self.bss_mut().frozen = 1;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    /// Counts since [`begin`](Self::begin); exact if the traced threads are idle.
    pub fn end(&mut self) -> Result<Observed> {
        if let Some(windows) = &self.windows {
            let undecided = windows.undecided.clone();
            let (skipped, overflowed) = (windows.skipped, windows.overflowed);
            let (unfinished, unreaped) = (windows.unfinished, windows.unreaped);
            let mut raw = self.counters()?;
            (raw.skipped, raw.overflowed) = (skipped, overflowed);
            (raw.unfinished, raw.unreaped) = (unfinished, unreaped);
            self.expand(&mut raw);
            self.add_segments(&mut raw, &undecided, |counted, n| counted.undecided += n);
            raw.rings = std::mem::take(&mut self.past).told(raw.rings);
            return Ok(self.observed(&raw, self.interrupts().as_ref()));
        }
        if self.subject.follow.is_some() {
            self.bss_mut().counting = 0;
        }
        self.freeze();
        let interrupts = self.interrupts();
        let mut raw = self.counters()?;
        let mut pending = vec![];
        for (_, state) in entries::<u32, types::thread_state>(&self.skel.maps.threads)? {
            raw.parked += state.pending;
            pending.extend(state.segments);
        }
        if let Some(trails) = &self.trails {
            let (completed, mut open) = self.kept()?;
            // Requests in flight when their ring was torn down.
            let (abandoned, all) = trails.abandoned()?;
            raw.unfinished = all - abandoned.len() as u64;
            open.extend(abandoned);
            raw.overflowed = self.without_overflowed(&mut open)?;
            raw.skipped = open.iter().filter(|trail| trail.skips != 0).count() as u64;
            raw.unfinished += open.len() as u64 - raw.skipped;
            let aio = self.open_aio()?;
            raw.unfinished += aio.unfinished;
            raw.unreaped = aio.unreaped;
            raw.open = open.into_iter().filter(|trail| trail.skips == 0).collect();
            trails.leave(completed);
            for (_, queue) in entries::<u32, types::cq_backlog>(&self.skel.maps.cq_backlogs)? {
                trails.leave_backlog(&queue);
            }
        }
        if self.subject.follow.is_some() {
            // Completions that are pending while all threads are idle were posted inline, without a run.
            for slot in &mut raw.slots {
                pending.extend(std::mem::take(&mut slot.segments));
                slot.pending = 0;
            }
            raw.parked = 0;
            self.add_segments(&mut raw, &pending, |counted, n| counted.ring.inlined += n);
            if observed::lost(&raw, &self.subject) == 0 {
                // A ring that was created in this span was completely observed.
                let whole = |ring: &&mut RawRing| {
                    let is_ring = ring.info.interface == types::interface::INTERFACE_IO_URING;
                    is_ring && !ring.is_others() && ring.info.found == 0
                };
                raw.rings.iter_mut().filter(whole).for_each(|ring| overflow::name(&mut ring.counted));
            }
            raw.rings = std::mem::take(&mut self.past).told(raw.rings);
        }
        Ok(self.observed(&raw, interrupts.as_ref()))
    }

    /// If the trace switched to windows: its full duration, and the completions from the rings' counters. `is_all`: the
    /// counters were read at the end; otherwise `unread` earlier, or up to one second.
    pub fn lasted(&mut self, span: Duration, (posted, is_all): (u64, bool), unread: Duration) {
        if let Some(light) = &mut self.light {
            light.events.all = Sums { ns: span.as_nanos() as u64, completions: posted, ..Sums::default() };
            light.posted_is_all = is_all;
            light.unread_ns = unread.as_nanos().max(1_000_000_000) as u64;
        }
    }

    /// Extrapolates windows by completions if all are known, otherwise by time, but never below the known number.
    fn expand(&mut self, raw: &mut Raw) {
        /// In such a ring, the counter counts a 32-byte CQE twice.
        const CQE_MIXED: u32 = setup_flag::bit("cqe_mixed");
        let Some(light) = &mut self.light else { return };
        let mut events = light.events.clone();
        let (whole, windows, all) = (events.whole, events.seen().since(&events.whole), events.all);
        let is_mixed = raw.rings.iter().any(|ring| ring.info.setup_flags & CQE_MIXED != 0);
        let ratio = |all: u64, whole: u64, windows: u64| all.saturating_sub(whole) as f64 / windows as f64;
        let posted = |raw: &Raw| raw.slots.iter().map(|s| s.posted).sum::<u64>();
        let (seen, seen_whole) = (posted(raw), posted(&light.whole));
        let by_time = ratio(all.ns, whole.ns, windows.ns.max(1));
        let is_known = all.completions > seen && seen > seen_whole && !is_mixed;
        let posted_factor = if is_known { ratio(all.completions, seen_whole, seen - seen_whole) } else { 0.0 };
        let known = match is_known {
            true if light.posted_is_all => Known::All,
            true if posted_factor > by_time => Known::UpTo { end_ns: light.unread_ns },
            _ => Known::Time,
        };
        let factor = if known == Known::Time { by_time } else { posted_factor };
        raw.expand(&light.whole, factor.max(1.0));
        events.all.completions = posted(raw);
        light.events.all = events.all;
        let mut costly = raw.sampled_events.take().unwrap_or_default();
        costly.all = events.all;
        (raw.sampled_events, raw.light) = (Some(costly), Some(events));
        raw.window_counts = Some((light.counts.clone(), known));
    }

    /// Counts from [`begin`](Self::begin) until now, while counting continues. Excludes completions whose delivery path
    /// is undecided, and requests in flight. Counts may differ slightly in age.
    pub fn look(&mut self) -> Result<Observed> {
        self.looked().map(|(observed, _)| observed)
    }

    /// Like [`look`](Self::look), but returns each closed ring once, if it was returned before or few rings are closed.
    /// Counts of the other rings are also returned once, and do not accumulate.
    pub fn turn(&mut self) -> Result<Observed> {
        let (observed, among_others) = self.looked()?;
        for (number, counted) in among_others {
            self.past.tell(number, &counted);
        }
        self.past.forget();
        self.told_below = peek(&self.bss().rings_made);
        Ok(observed)
    }

    fn looked(&mut self) -> Result<(Observed, Vec<(u32, Counted)>)> {
        self.sweep(true)?;
        let interrupts = self.interrupts();
        let mut raw = self.counters()?;
        for slot in &mut raw.slots {
            slot.pending = 0;
            slot.segments = Default::default();
        }
        Ok((self.observed(&raw, interrupts.as_ref()), raw.among_others))
    }

    /// Adds completions of which only the ring is known.
    fn add_segments(&self, raw: &mut Raw, segments: &[types::segment], to: fn(&mut Counted, u64)) {
        let mut by_ring: BTreeMap<u32, u64> = BTreeMap::new();
        for s in segments.iter().filter(|s| s.count > 0) {
            *by_ring.entry(s.ring).or_default() += u64::from(s.count);
        }
        for (number, n) in by_ring {
            match raw.rings.iter_mut().find(|r| r.number == number && !r.is_others()) {
                Some(ring) => to(&mut ring.counted, n),
                None => {
                    let mut late = Counted::default();
                    to(&mut late, n);
                    raw.rings.push(self.past.as_late(number, late));
                }
            }
        }
    }

    /// Counts of /proc/interrupts since [`begin`](Self::begin), or in the windows.
    fn interrupts(&self) -> Option<Interrupts> {
        if let Some(windows) = self.windows.as_ref().filter(|_| self.light.is_none()) {
            return windows.interrupts.clone();
        }
        Some(iotrail_host::irq::snapshot().ok()?.since(self.before.as_ref()?))
    }

    pub(super) fn observed(&self, raw: &Raw, interrupts: Option<&Interrupts>) -> Observed {
        observed::observe(raw, &self.subject, &self.plan, self.symbols, interrupts)
    }
}
