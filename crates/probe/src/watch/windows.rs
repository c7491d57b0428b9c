//! Tracing in windows: between windows nothing is counted, and no program that costs the traced programs time is
//! attached.

use std::time::Duration;

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags};

use super::aio::{AWAITED, aio_is_due};
use super::attached::{Light, Span, Watch, Windows, attach};
use super::errors::unreadable;
use super::tables::{self, entries};
use crate::observed::Raw;
use crate::posix_aio;
use crate::raw::peek;
use crate::sampled_events::Sums;
use crate::skel::types;
use iotrail_base::error::Result;

/// Programs that stay attached: their events are rare, and the creation of a ring or process is observed only once. The
/// last two cost time only in POSIX AIO calls, and detaching them takes longer than a window. Not included is a probe
/// on a single system call: while it is attached, all system calls of all programs take the slow path.
const ALWAYS: [&str; 9] = [
    "follow_create",
    "process_forked",
    "process_executes",
    "process_exits",
    "process_freed",
    "ring_ends",
    "ring_ended",
    posix_aio::AT_ONCE,
    posix_aio::EACH,
];

impl Watch<'_> {
    /// Replaces [`begin`](Watch::begin): counting begins with the first window.
    pub fn begin_closed(&mut self) -> Result<()> {
        self.misses_before = self.recursion_misses()?;
        self.account_begins()?;
        // For the names of the lines.
        self.before = iotrail_host::irq::snapshot().ok();
        self.windows = Some(Windows::default());
        // Reads the initial counters of existing threads.
        self.open_account()?;
        self.close_account()?;
        self.detach();
        Ok(())
    }

    pub fn open_window(&mut self) -> Result<()> {
        for program in self.skel.object_mut().progs_mut() {
            let Some(name) = self.plan.attach.iter().find(|name| program.name() == **name) else { continue };
            let own = self.plan.attach.contains(&AWAITED);
            if !ALWAYS.contains(name) && aio_is_due(name, self.aio_awaited, own, self.aio_as_i386) {
                self.links.push((name, attach(&program, &self.plan)?));
            }
        }
        if let Some(windows) = &mut self.windows {
            windows.opened = iotrail_host::irq::snapshot().ok();
        }
        let now = iotrail_host::clock::monotonic_ns();
        let bss = self.bss_mut();
        (bss.costly_since, bss.costly_gone) = (now, 0);
        bss.finishing = 0;
        bss.counting = 1;
        self.open_account()?;
        let sums = self.sums();
        let span = if self.light.is_some() { Span::Window } else { Span::Whole };
        self.costly.iter_mut().for_each(|costly| costly.begin(sums, span));
        if let Some(light) = &mut self.light {
            (light.opened.ns, light.opened.completions) = (sums.ns, sums.completions);
        }
        Ok(())
    }

    /// From the next [close](Self::close_window) on, uses windows and extrapolates to the time between them. The last
    /// `whole` was traced completely. `cost`: of all programs, as a share of the traced CPU time.
    pub fn lighten(&mut self, whole: Duration, cost: f64) {
        let ns = iotrail_host::clock::monotonic_ns() - whole.as_nanos() as u64;
        let opened = Sums { ns, ..Sums::default() };
        let first = || Light { since: Some(Raw::default()), opened, ..Light::default() };
        self.light.get_or_insert_with(first).events.cost(cost);
        self.costly.iter_mut().for_each(|costly| costly.events.cost(cost));
    }

    /// Keeps the open window open: everything is traced again.
    pub fn stay(&mut self) -> Result<()> {
        self.account(self.sums())?;
        let raw = self.counters()?;
        let sums = self.sums();
        if let Some(costly) = &mut self.costly {
            costly.end_span(sums);
            costly.opened = Some((sums, Span::Whole));
        }
        self.close_calls()?;
        if let Some(light) = &mut self.light {
            light.since = Some(raw);
        }
        Ok(())
    }

    /// Adds the counts since all programs were attached to a window, or to the completely traced time.
    fn account(&mut self, at: Sums) -> Result<()> {
        if self.light.is_none() {
            return Ok(());
        }
        let mut raw = self.counters()?;
        let observed = self.observed(&raw, None);
        let sums = observed.sums(at.ns, at.completions);
        let Some(light) = &mut self.light else { return Ok(()) };
        let seen = sums.since(&light.opened);
        light.opened = sums;
        match light.since.take() {
            Some(since) => {
                raw.since(&since);
                light.whole.add(&raw);
                light.events.whole(seen);
                light.counts.whole(&observed);
            }
            None => {
                light.events.window(seen);
                light.counts.window(&observed, seen.ns, seen.completions);
            }
        }
        Ok(())
    }

    /// Whether the time traced completely since [`begin`](Self::begin) can become the first window, with windows from
    /// its [close](Self::close_window) on. Not if native or POSIX AIO is used, whose counts depend on all earlier
    /// events.
    pub fn can_be_windows(&self) -> bool {
        self.subject.follow.is_some() && peek(&self.bss().calls_needed) == 0
    }

    /// Stops selecting requests; counting continues. Returns the number of selected requests in flight.
    pub fn finish_window(&mut self) -> u32 {
        let bss = self.bss_mut();
        bss.finishing = 1;
        peek(&bss.followed_now)
    }

    /// Stops counting and detaches the programs. Selected requests that are still in flight count as unfinished.
    pub fn close_window(&mut self) -> Result<()> {
        self.close_account()?;
        self.bss_mut().counting = 0;
        let now = iotrail_host::irq::snapshot().ok();
        let sums = self.sums();
        self.costly.iter_mut().for_each(|costly| costly.end(sums));
        self.detach();
        // Waits for running programs.
        std::thread::sleep(Duration::from_millis(2));
        self.account(sums)?;
        // Usually no request is in flight, so the table is not walked.
        let (_, mut open) = if self.bss().followed_now > 0 { self.kept()? } else { Default::default() };
        let overflowed = self.without_overflowed(&mut open)?;
        let skipped = open.iter().filter(|trail| trail.skips != 0).count() as u64;
        let aio = self.open_aio()?;
        let first = || Windows { opened: self.before.clone(), ..Windows::default() };
        let mut windows = self.windows.take().unwrap_or_else(first);
        windows.skipped += skipped;
        windows.overflowed += overflowed;
        windows.unfinished += aio.unfinished;
        windows.unreaped += aio.unreaped;
        if let (Some(now), Some(opened)) = (now, windows.opened.take()) {
            let grown = now.since(&opened);
            match &mut windows.interrupts {
                Some(sum) => sum.add(&grown),
                None => windows.interrupts = Some(grown),
            }
        }
        let maps = &self.skel.maps;
        for (tid, state) in entries::<u32, types::thread_state>(&maps.threads)? {
            windows.undecided.extend(state.segments.into_iter().filter(|s| s.count > 0));
            tables::delete(&maps.threads, &tid)?;
        }
        // Their results may be reaped between windows.
        tables::clear(&maps.aio_requests)?;
        tables::clear(&maps.overflowed)?;
        for slot in &mut self.bss_mut().slots {
            windows.undecided.extend(slot.segments.into_iter().filter(|s| s.count > 0));
            forget_the_moment(slot);
        }
        if self.bss().followed_now > 0 {
            let cleared = tables::clear_buckets(&self.skel.maps.requests)?;
            windows.unfinished += cleared.saturating_sub(skipped + overflowed);
            self.bss_mut().followed_now = 0;
        }
        if self.bss().bios_followed > 0 {
            tables::clear_buckets(&self.skel.maps.bios)?;
            self.bss_mut().bios_followed = 0;
        }
        self.leave_backlog()?;
        self.windows = Some(windows);
        Ok(())
    }

    /// Drops the completions in the queues at the end of a window: their reaping is not observed.
    pub(super) fn leave_backlog(&mut self) -> Result<()> {
        if self.bss().backlog_now == 0 {
            return Ok(());
        }
        for (place, queue) in entries::<u32, types::cq_backlog>(&self.skel.maps.cq_backlogs)? {
            if let Some(trails) = self.trails.as_ref().filter(|_| queue.count > 0) {
                trails.leave_backlog(&queue);
                let empty = vec![0; size_of::<types::cq_backlog>()];
                self.skel.maps.cq_backlogs.update(&place.to_ne_bytes(), &empty, MapFlags::ANY).map_err(unreadable)?;
            }
        }
        let bss = self.bss_mut();
        (bss.backlog_now, bss.backlog_groups) = (0, Default::default());
        Ok(())
    }

    fn detach(&mut self) {
        self.links.retain(|(name, _)| ALWAYS.contains(name));
    }
}

/// Clears a slot's transient state; keeps the counts and the last keys.
fn forget_the_moment(slot: &mut types::cpu_slot) {
    let zero = types::cpu_slot::default();
    slot.current = zero.current;
    slot.waker = zero.waker;
    slot.segments = zero.segments;
    slot.raisers = zero.raisers;
    (slot.tid, slot.pending, slot.waiting, slot.slept) = (0, 0, 0, 0);
    (slot.waker_nr, slot.waker_cpu, slot.woken_ns, slot.running_ns, slot.running) = (0, 0, 0, 0, 0);
    (slot.submitted, slot.submits, slot.last_request, slot.submitting) = (0, 0, 0, 0);
    (slot.trails, slot.trails_waiting, slot.aio_tail) = (0, 0, 0);
    (slot.in_irq, slot.in_vector, slot.in_softirq) = (0, 0, 0);
    (slot.watched_here, slot.waking, slot.kicks_watched) = (0, 0, 0);
    slot.raiser = zero.raiser;
}
