//! Records that the programs send one by one.

use super::attached::Watch;
use super::tables::entries;
use crate::callsites::{self, Sites, UserStack};
use crate::files::LastName;
use crate::raw::peek;
use crate::recording::{Recorder, Recording};
use crate::rings::{Chosen, EndedSqThread, FollowLoss, Reaped};
use crate::skel::types;
use crate::trails::{RequestTraces, Words};
use iotrail_base::error::Result;
use iotrail_path::memory::Unregistered;
use iotrail_path::reaped::CqResidence;
use iotrail_schema::trail::RequestTrace;

/// More batches than a full ring buffer holds, so that a program that fills it faster than it is read cannot block the
/// reader forever.
pub const BATCHES: usize = 512;

impl Watch<'_> {
    /// Rings that were moved to the others since the last call.
    pub fn folded(&mut self) -> Vec<u32> {
        self.past.folded()
    }

    /// Moves recorded events out of the ring buffer to free its space.
    pub fn drain(&self) -> Result<()> {
        self.recorder.iter().try_for_each(Recorder::drain)
    }

    /// Reads a batch of records, which the functions below return. `false`: none are left.
    pub fn read_batch(&mut self) -> Result<bool> {
        self.trails.as_ref().map_or(Ok(false), RequestTraces::read_batch)
    }

    /// Passes on the completely traced requests read so far.
    pub fn trails(&mut self, each: &mut dyn FnMut(RequestTrace)) -> Result<()> {
        let Some(trails) = &self.trails else { return Ok(()) };
        let words = Words { symbols: self.symbols, interrupts: self.before.as_ref() };
        trails.take(&words, each);
        self.sweep(false)
    }

    /// Rings whose buffers were unregistered since the last call. Includes every event that may affect the requests
    /// returned next.
    pub fn unregistered(&mut self) -> Vec<Unregistered> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_unregistered)
    }

    /// Requests whose completion found the CQ full, as far as [`trails`](Self::trails) has read them. Their completion
    /// time and delivery path are unknown.
    pub fn overflowed(&mut self) -> Vec<RequestTrace> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_overflowed)
    }

    /// Requests of native and POSIX AIO, as far as [`trails`](Self::trails) has read them.
    pub fn reaped(&mut self, each: &mut dyn FnMut(Reaped)) {
        if let Some(trails) = &self.trails {
            trails.take_reaped(each);
        }
    }

    /// Completions sampled in the CQ, as far as [`trails`](Self::trails) has read them.
    pub fn stays(&mut self, each: &mut dyn FnMut(CqResidence)) {
        if let Some(trails) = &self.trails {
            trails.take_stays().for_each(each);
        }
    }

    /// Number of completions that could not be sampled in the CQ.
    pub fn stays_lost(&self) -> u64 {
        peek(&self.bss().stays_lost).iter().sum()
    }

    /// SQPOLL threads that exited since the last call, which /proc no longer shows.
    pub fn ended_sq_threads(&mut self) -> Vec<EndedSqThread> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_ended_sq_threads)
    }

    /// Last components of file names, once per file.
    pub fn file_names(&mut self) -> Vec<LastName> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_file_names)
    }

    /// User stacks that are new since the last call.
    pub fn user_stacks(&mut self) -> Vec<UserStack> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_user_stacks)
    }

    /// Call-site sums so far, as far as their requests were passed on.
    pub fn sites(&self) -> Result<Sites> {
        let mut sites = self.trails.as_ref().map(RequestTraces::sites).unwrap_or_default();
        for (key, sum) in entries::<types::site_key, types::site_sum>(&self.skel.maps.sites)? {
            callsites::add(&mut sites, &key, &sum);
        }
        Ok(sites)
    }

    /// Outcomes of the selected requests so far: sums counters in shared memory, without a system call. `unfinished`,
    /// `sampled_from` and `came_later` are known only at the end and are 0 here.
    pub fn follow_loss(&self) -> FollowLoss {
        let slots = &self.bss().slots;
        let sum = |of: fn(&types::cpu_slot) -> &u64| slots.iter().map(|s| peek(of(s))).sum();
        FollowLoss {
            no_room: sum(|s| &s.no_room),
            ring_buffer_full: sum(|s| &s.trails_lost),
            no_completion: sum(|s| &s.no_completion),
            skipped: sum(|s| &s.skipped),
            unfinished: 0,
            unreaped: 0,
            chosen: Chosen::default(),
            shared: slots.iter().map(|s| u64::from(peek(&s.shared))).sum(),
            sampled_from: 0,
            came_later: 0,
        }
    }

    /// Takes the events recorded since [`begin`](Self::begin); `None` unless opened for recording.
    pub fn recording(&mut self) -> Result<Option<Recording>> {
        let Some(recorder) = &self.recorder else { return Ok(None) };
        let lost = self.bss().slots.iter().map(|slot| slot.record_lost).sum();
        recorder.take(lost, self.symbols, iotrail_host::irq::snapshot().ok().as_ref()).map(Some)
    }
}
