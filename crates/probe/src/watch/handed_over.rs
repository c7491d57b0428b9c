//! Records of the programs that arrive one by one, read as they arrive.

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

/// More batches than a full ring buffer has: a program that fills it faster than it is read does not block its reader for ever.
pub const BATCHES: usize = 512;

impl Watch<'_> {
    /// Rings that are reported among the others from now on: those since the last call.
    pub fn folded(&mut self) -> Vec<u32> {
        self.past.folded()
    }

    /// Moves recorded events out of the ring buffer, to free space.
    pub fn drain(&self) -> Result<()> {
        self.recorder.iter().try_for_each(Recorder::drain)
    }

    /// Reads some of the records; the functions below return them. `false`: there are no more.
    pub fn read_batch(&mut self) -> Result<bool> {
        self.trails.as_ref().map_or(Ok(false), RequestTraces::read_batch)
    }

    /// Passes on the requests that were traced to their end, as far as they were read.
    pub fn trails(&mut self, each: &mut dyn FnMut(RequestTrace)) -> Result<()> {
        let Some(trails) = &self.trails else { return Ok(()) };
        let words = Words { symbols: self.symbols, interrupts: self.before.as_ref() };
        trails.take(&words, each);
        self.sweep(false)
    }

    /// The rings' buffers that were unregistered since the last call. Includes all that the requests returned next may have been affected
    /// by.
    pub fn unregistered(&mut self) -> Vec<Unregistered> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_unregistered)
    }

    /// Requests whose completion found the queue full, as far as [`trails`](Self::trails) has read them: the time and delivery
    /// path of that completion are unknown.
    pub fn overflowed(&mut self) -> Vec<RequestTrace> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_overflowed)
    }

    /// The same for requests of native and POSIX AIO, as far as [`trails`](Self::trails) has read them.
    pub fn reaped(&mut self, each: &mut dyn FnMut(Reaped)) {
        if let Some(trails) = &self.trails {
            trails.take_reaped(each);
        }
    }

    /// The same for completions that were sampled in the completion queue.
    pub fn stays(&mut self, each: &mut dyn FnMut(CqResidence)) {
        if let Some(trails) = &self.trails {
            trails.take_stays().for_each(each);
        }
    }

    /// Completions that could not be sampled there.
    pub fn stays_lost(&self) -> u64 {
        peek(&self.bss().stays_lost).iter().sum()
    }

    /// The same for exited SQPOLL threads, which /proc no longer shows.
    pub fn ended_sq_threads(&mut self) -> Vec<EndedSqThread> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_ended_sq_threads)
    }

    /// The last components of the names of requests' files, once per file.
    pub fn file_names(&mut self) -> Vec<LastName> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_file_names)
    }

    /// The user stacks that were seen for the first time since the last call.
    pub fn user_stacks(&mut self) -> Vec<UserStack> {
        self.trails.as_ref().map_or(vec![], RequestTraces::take_user_stacks)
    }

    /// Actions of the program's call sites so far, as far as their requests were passed on.
    pub fn sites(&self) -> Result<Sites> {
        let mut sites = self.trails.as_ref().map(RequestTraces::sites).unwrap_or_default();
        for (key, sum) in entries::<types::site_key, types::site_sum>(&self.skel.maps.sites)? {
            callsites::add(&mut sites, &key, &sum);
        }
        Ok(sites)
    }

    /// State of the selected requests so far: a sum over counters in shared memory, no system call. Unfinished requests
    /// are known only at the end, and 0 here; so are `sampled_from` and `came_later`.
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

    /// Returns the events recorded since [`begin`](Self::begin), once; `None` unless it was opened to record.
    pub fn recording(&mut self) -> Result<Option<Recording>> {
        let Some(recorder) = &self.recorder else { return Ok(None) };
        let lost = self.bss().slots.iter().map(|slot| slot.record_lost).sum();
        recorder.take(lost, self.symbols, iotrail_host::irq::snapshot().ok().as_ref()).map(Some)
    }
}
