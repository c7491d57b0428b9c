//! The watched processes.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags};

use super::attached::Watch;
use super::tables::entries;
use crate::raw::peek;
use crate::skel::types;
use crate::subject::Scope;
use iotrail_base::error::{Error, Result};

impl Watch<'_> {
    /// Adds a process to the watched ones, for [`Scope::Followed`]. Its children from now on are watched too. `in_proc`: its number in
    /// /proc; `None`: /proc does not show it, and what it tells has to be waited for.
    /// `whole`: nothing that it does was before; what it has used is told when it ends.
    pub fn follow(&mut self, tgid: u32, in_proc: Option<u32>, whole: bool) -> Result<()> {
        if let Some(number) = in_proc {
            self.attach_to_library(number);
        }
        if self.aio_awaited && in_proc.is_none_or(iotrail_host::aio::has_context) {
            self.attach_awaited()?;
        }
        let mut info = types::process_info { whole: whole.into(), ..Default::default() };
        // It may be gone already; its name is not needed for anything else.
        let comm = in_proc.and_then(|n| std::fs::read(format!("/proc/{n}/comm")).ok()).unwrap_or_default();
        for (to, from) in info.comm.iter_mut().take(15).zip(comm.iter().take_while(|b| **b != b'\n')) {
            *to = *from as i8;
        }
        // SAFETY: a process_info is 64 plain bytes.
        let value: [u8; 64] = unsafe { std::mem::transmute(info) };
        self.skel
            .maps
            .followed
            .update(&tgid.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|e| Error::machine(format!("process {tgid} cannot be followed"), "report this").because(e))?;
        // The calls that it made before were untraced.
        self.bss_mut().slots.iter_mut().for_each(|slot| slot.untraced_caller = 0);
        Ok(())
    }

    /// The followed processes that have not ended, by the kernel's numbers.
    pub fn followed(&self) -> Result<BTreeSet<u32>> {
        let living = entries::<u32, types::process_info>(&self.skel.maps.followed)?;
        Ok(living.into_iter().map(|(tgid, _)| tgid).collect())
    }

    /// The map of the followed processes, for programs of another object.
    pub(crate) fn followed_map(&self) -> BorrowedFd<'_> {
        self.skel.maps.followed.as_fd()
    }

    /// CPU time, user and system, of the processes that have ended and were watched from their beginning, whoever waited for them;
    /// `None`: where everyone is watched, nobody is.
    pub fn ended_cpu_ns(&self) -> Option<(u64, u64)> {
        if self.subject.who == Scope::Everyone {
            return None;
        }
        let bss = self.bss();
        Some(shared_out(peek(&bss.gone_ran_ns), peek(&bss.gone_user_ns), peek(&bss.gone_system_ns)))
    }

    /// CPU time of the io-wq workers of watched processes that have ended, each from its beginning.
    pub fn ended_workers_ns(&self) -> u64 {
        peek(&self.bss().gone_workers_ns)
    }
}

/// As the kernel shares out what a process ran (cputime_adjust): the sum is exact, the parts are what the ticks say; without one, all of it
/// is the user's.
fn shared_out(ran_ns: u64, user_ns: u64, system_ns: u64) -> (u64, u64) {
    let ticks = u128::from(user_ns) + u128::from(system_ns);
    let system = (u128::from(ran_ns) * u128::from(system_ns)).checked_div(ticks).unwrap_or(0) as u64;
    (ran_ns - system, system)
}
