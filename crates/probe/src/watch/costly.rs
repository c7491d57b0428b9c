//! Programs whose events are frequent: system calls, and the block layer's. If they cost the traced programs too much, they are attached
//! only in short windows at random moments, and their counts are estimated. Native and POSIX AIO depend on them: while these are used,
//! they stay.

use std::time::{Duration, Instant};

use libbpf_rs::skel::Skel;

use super::aio::{AWAITED, ENTERED, aio_is_due};
use super::attached::{Costly, Span, Watch, attach};
use super::tables;
use crate::pace::{Pace, Step};
use crate::raw::peek;
use crate::sampled_events::{Sampled, SampledEvents, Sums};
use crate::skel::types;
use iotrail_base::error::Result;

pub(super) const COSTLY: [&str; 13] = [
    AWAITED,
    ENTERED,
    "mode_sys_exit",
    "aio_iomap_complete",
    "aio_block_complete",
    "credit_block",
    "credit_bio",
    "block_queued",
    "block_was_split",
    "block_issued",
    "block_completed",
    "block_bio_completed",
    "block_ended",
];

/// Time for which a program behaves differently after the programs were attached: the kernel patches code on all CPUs.
const SETTLES: Duration = Duration::from_millis(1);

/// Maximum stale entries of bios whose end was missed, before the table is emptied.
const LEFT: u32 = 2048;

impl Watch<'_> {
    /// From here on they may be attached only in windows, once [`sample`](Self::sample) starts that. Call [`pace`](Self::pace) repeatedly.
    pub fn spare(&mut self) {
        let pace = Pace::new(Instant::now(), iotrail_host::clock::monotonic_ns());
        let mut costly = Costly { pace, began: None, opened: None, events: SampledEvents::default() };
        costly.begin(self.sums(), Span::Whole);
        self.costly = Some(costly);
    }

    /// Whether they run so often that their cost is worth measuring.
    pub fn costly_are_busy(&self) -> bool {
        self.windows.is_none() && self.costly.as_ref().is_some_and(|costly| costly.pace.is_busy())
    }

    /// They cost too much, this share of the traced CPU time: from now on they are attached only in windows.
    pub fn sample(&mut self, cost: f64) -> Result<()> {
        let Some(mut costly) = self.costly.take() else { return Ok(()) };
        costly.events.cost(cost);
        let step = costly.pace.close(Instant::now());
        let done = self.follow_pace(&mut costly, step);
        self.costly = Some(costly);
        done
    }

    /// Attaches or detaches them, if due.
    pub fn pace(&mut self) -> Result<()> {
        // In windows of all programs these are attached as long as the others.
        if self.windows.is_some() {
            return Ok(());
        }
        let Some(mut costly) = self.costly.take() else { return Ok(()) };
        let needed = peek(&self.bss().calls_needed) != 0;
        let step = costly.pace.step(Instant::now(), self.costly_runs(), self.sum(|s| &s.posted), needed);
        let done = self.follow_pace(&mut costly, step);
        self.costly = Some(costly);
        done
    }

    /// Time until [`pace`](Self::pace) has to be called.
    pub fn pace_rest(&self) -> Duration {
        match &self.costly {
            Some(costly) if self.windows.is_none() => costly.pace.rest(Instant::now()),
            _ => Duration::MAX,
        }
    }

    fn follow_pace(&mut self, costly: &mut Costly, step: Option<Step>) -> Result<()> {
        match step {
            None => Ok(()),
            Some(Step::Open) => {
                self.attach_costly()?;
                std::thread::sleep(SETTLES);
                costly.pace.opened(Instant::now(), self.costly_runs());
                costly.opened = Some((self.sums(), Span::Window));
                self.open_calls()
            }
            Some(Step::Stay) => {
                let now = self.sums();
                costly.end_span(now);
                costly.opened = Some((now, Span::Whole));
                self.close_calls()
            }
            Some(Step::Close) => {
                // The first step closes the complete span before it.
                let is_window = costly.opened.is_some_and(|(_, span)| span == Span::Window);
                costly.end_span(self.sums());
                match is_window {
                    true => self.close_calls()?,
                    false => self.call_windows.opened = None,
                }
                self.detach_costly()
            }
        }
    }

    /// Counts while they were attached, and over the complete time; `None`: they stayed attached.
    pub(super) fn sampled_events(&self) -> Option<SampledEvents> {
        let costly = self.costly.as_ref()?;
        let now = self.sums();
        let mut costly = Costly { events: costly.events.clone(), pace: costly.pace.clone(), ..*costly };
        costly.end(now);
        Some(costly.events).filter(SampledEvents::is_sampled)
    }

    fn attach_costly(&mut self) -> Result<()> {
        for program in self.skel.object_mut().progs_mut() {
            let Some(name) = self.plan.attach.iter().find(|name| program.name() == **name) else { continue };
            let own = self.plan.attach.contains(&AWAITED);
            if COSTLY.contains(name) && aio_is_due(name, self.aio_awaited, own, self.aio_as_i386) {
                self.links.push((name, attach(&program, &self.plan)?));
            }
        }
        let now = iotrail_host::clock::monotonic_ns();
        let bss = self.bss_mut();
        (bss.costly_since, bss.costly_gone) = (now, 0);
        Ok(())
    }

    fn detach_costly(&mut self) -> Result<()> {
        self.bss_mut().costly_gone = 1;
        // The kernel waits for each second program of a tracepoint, so system calls, which have one only, go first.
        for name in COSTLY {
            self.links.retain(|(link, _)| *link != name);
        }
        if peek(&self.bss().bios_followed) > LEFT {
            tables::clear_buckets(&self.skel.maps.bios)?;
            self.bss_mut().bios_followed = 0;
        }
        Ok(())
    }

    pub(super) fn sum(&self, of: fn(&types::cpu_slot) -> &u64) -> u64 {
        let slots = &self.bss().slots;
        slots.iter().take(self.cpus).map(|s| peek(of(s))).sum()
    }

    fn costly_runs(&self) -> u64 {
        self.sum(|s| &s.costly)
    }

    /// Completions of the traced programs so far.
    pub fn completions(&self) -> u64 {
        self.sum(|s| &s.posted)
    }

    /// Of the costly programs.
    pub(super) fn sums(&self) -> Sums {
        let mut events = [0; Sampled::ALL.len()];
        events[Sampled::Syscalls as usize] = self.sum(|s| &s.syscalls);
        events[Sampled::StrayCalls as usize] = self.sum(|s| &s.stray_calls);
        events[Sampled::PreadPwriteCalls as usize] = self.sum(|s| &s.rw_calls);
        events[Sampled::DeviceIrqs as usize] = self.sum(|s| &s.credits);
        Sums { ns: iotrail_host::clock::monotonic_ns(), completions: self.completions(), events }
    }
}
