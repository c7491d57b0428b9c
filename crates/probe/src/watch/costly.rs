//! Programs that cost the watched much, since their events are frequent: system calls, and the block layer's. What they tell can be
//! estimated: where there is much of it they are attached in short windows alone, at random moments, beside those that count all
//! the time. Native and POSIX AIO rest on them: where these are used, they stay.

use std::time::Instant;

use libbpf_rs::skel::Skel;

use super::aio::{AWAITED, ENTERED, aio_is_due};
use super::attached::{Costly, Watch, attach};
use super::tables;
use crate::pace::{Pace, Step};
use crate::raw::peek;
use crate::sampled_events::{SampledEvents, Sums};
use crate::skel::types;
use iotrail_base::error::Result;

const COSTLY: [&str; 13] = [
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

/// Places of bios whose end was not seen that are left in the table before it is emptied.
const LEFT: u32 = 2048;

impl Watch<'_> {
    /// From here on they are there when there is little for them to do, and in windows when there is much. Call [`pace`](Self::pace)
    /// then, again and again.
    pub fn spare(&mut self) {
        let pace = Pace::new(Instant::now(), iotrail_host::clock::monotonic_ns());
        self.costly = Some(Costly { pace, opened: Some(self.sums()), events: SampledEvents::default() });
    }

    /// Attaches or detaches them, if it is time to.
    pub fn pace(&mut self) -> Result<()> {
        // In windows of all programs these are there as long as the others.
        if self.windows.is_some() {
            return Ok(());
        }
        let Some(mut costly) = self.costly.take() else { return Ok(()) };
        let needed = peek(&self.bss().calls_needed) != 0;
        let done = match costly.pace.step(Instant::now(), self.costly_runs(), self.sum(|s| &s.posted), needed) {
            Some(Step::Open) => self.attach_costly().map(|()| costly.opened = Some(self.sums())),
            Some(Step::Close) => {
                if let Some(opened) = costly.opened.take() {
                    costly.events.window(self.sums().since(&opened));
                }
                self.detach_costly()
            }
            None => Ok(()),
        };
        self.costly = Some(costly);
        done
    }

    /// What was seen in the windows, and how much there was in all; `None`: they were there all the time.
    pub(super) fn sampled_events(&self) -> Option<SampledEvents> {
        let costly = self.costly.as_ref()?;
        let mut events = costly.events.clone();
        if events.windows() == 0 {
            return None;
        }
        let now = self.sums();
        if let Some(opened) = &costly.opened {
            events.window(now.since(opened));
        }
        events.completions = now.completions;
        Some(events)
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
        self.links.retain(|(name, _)| !COSTLY.contains(name));
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

    /// Completions of the watched so far.
    pub fn completions(&self) -> u64 {
        self.sum(|s| &s.posted)
    }

    pub(super) fn sums(&self) -> Sums {
        Sums {
            completions: self.sum(|s| &s.posted),
            syscalls: self.sum(|s| &s.syscalls),
            stray_calls: self.sum(|s| &s.stray_calls),
            rw_calls: self.sum(|s| &s.rw_calls),
            credits: self.sum(|s| &s.credits),
        }
    }
}
