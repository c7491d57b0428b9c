//! Programs with frequent events: system calls and block I/O. If they cost the traced programs too much, they are
//! attached only in short windows at random times, and their counts are estimated. They stay attached while native or
//! POSIX AIO is used, which depends on them.

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

/// Time for which programs behave differently after an attach, because the kernel patches code on all CPUs.
const SETTLES: Duration = Duration::from_millis(1);

/// Number of stale bio entries, whose end was missed, above which the table is cleared.
const LEFT: u32 = 2048;

impl Watch<'_> {
    /// From now on the programs may be attached in windows, once [`sample`](Self::sample) requests this. Call
    /// [`pace`](Self::pace) repeatedly.
    pub fn spare(&mut self) {
        let pace = Pace::new(Instant::now(), iotrail_host::clock::monotonic_ns());
        let mut costly = Costly { pace, began: None, opened: None, events: SampledEvents::default() };
        costly.begin(self.sums(), Span::Whole);
        self.costly = Some(costly);
    }

    /// Whether they run often enough for their cost to be worth measuring.
    pub fn costly_are_busy(&self) -> bool {
        self.windows.is_none() && self.costly.as_ref().is_some_and(|costly| costly.pace.is_busy())
    }

    /// Attaches them only in windows from now on, because they cost this share of the traced CPU time.
    pub fn sample(&mut self, cost: f64) -> Result<()> {
        let Some(mut costly) = self.costly.take() else { return Ok(()) };
        costly.events.cost(cost);
        let step = costly.pace.close(Instant::now());
        let done = self.follow_pace(&mut costly, step);
        self.costly = Some(costly);
        done
    }

    /// Attaches or detaches them when due.
    pub fn pace(&mut self) -> Result<()> {
        // In windows of all programs, the costly ones are attached together with the others.
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

    /// Time until [`pace`](Self::pace) must be called.
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
                // The first step ends the completely traced time before it.
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

    /// Counts while they were attached and over the full trace; `None` if they stayed attached.
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
        // The kernel waits when it detaches one of two programs on a tracepoint. The system-call programs, which are
        // alone on their tracepoints, go first.
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

    /// Number of completions of the traced programs so far.
    pub fn completions(&self) -> u64 {
        self.sum(|s| &s.posted)
    }

    /// Current counts of the costly programs.
    pub(super) fn sums(&self) -> Sums {
        let mut events = [0; Sampled::ALL.len()];
        events[Sampled::Syscalls as usize] = self.sum(|s| &s.syscalls);
        events[Sampled::StrayCalls as usize] = self.sum(|s| &s.stray_calls);
        events[Sampled::PreadPwriteCalls as usize] = self.sum(|s| &s.rw_calls);
        events[Sampled::DeviceIrqs as usize] = self.sum(|s| &s.credits);
        Sums { ns: iotrail_host::clock::monotonic_ns(), completions: self.completions(), events }
    }
}
