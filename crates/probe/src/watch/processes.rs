//! The traced processes.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags};

use super::attached::Watch;
use super::tables::entries;
use crate::raw::peek;
use crate::skel::types;
use crate::subject::Scope;
use iotrail_base::error::{OrFail, Result};

impl Watch<'_> {
    /// Adds a process for [`Scope::Followed`]; its later children are traced too. `in_proc`: its PID in /proc; `None`
    /// if /proc does not show the process, whose data then comes only from later events. `whole`: the process of a
    /// command, which is traced from its exec, and whose CPU time since then is reported at its exit.
    pub fn follow(&mut self, tgid: u32, in_proc: Option<u32>, whole: bool) -> Result<()> {
        if let Some(number) = in_proc {
            self.attach_to_library(number);
        }
        if self.aio_awaited && in_proc.is_none_or(iotrail_host::aio::has_context) {
            self.attach_awaited()?;
        }
        if whole && self.plan.attach.contains(&"process_executes") {
            self.bss_mut().awaited_tgid = tgid;
            return Ok(());
        }
        let mut info = types::process_info { whole: whole.into(), ..Default::default() };
        // It may have exited already; then its name is not needed.
        let comm = in_proc.and_then(|n| std::fs::read(format!("/proc/{n}/comm")).ok()).unwrap_or_default();
        for (to, from) in info.comm.iter_mut().take(15).zip(comm.iter().take_while(|b| **b != b'\n')) {
            *to = *from as i8;
        }
        // SAFETY: process_info is 64 bytes of plain integers.
        let value: [u8; 64] = unsafe { std::mem::transmute(info) };
        self.skel
            .maps
            .followed
            .update(&tgid.to_ne_bytes(), &value, MapFlags::ANY)
            .or_machine(format_args!("cannot trace process {tgid}"), "report this")?;
        // The process may be cached as untraced.
        self.bss_mut().slots.iter_mut().for_each(|slot| slot.untraced_caller = 0);
        Ok(())
    }

    /// Traced processes that have not exited, by PID in the initial namespace.
    pub fn followed(&self) -> Result<BTreeSet<u32>> {
        let living = entries::<u32, types::process_info>(&self.skel.maps.followed)?;
        Ok(living.into_iter().map(|(tgid, _)| tgid).collect())
    }

    /// Map of the traced processes, for the programs of another object.
    pub(crate) fn followed_map(&self) -> BorrowedFd<'_> {
        self.skel.maps.followed.as_fd()
    }

    /// User and system CPU time of exited processes that were traced from their start, waited for or not; `None` if all
    /// processes are traced.
    pub fn ended_cpu_ns(&self) -> Option<(u64, u64)> {
        if self.subject.who == Scope::Everyone {
            return None;
        }
        let bss = self.bss();
        Some(shared_out(peek(&bss.gone_ran_ns), peek(&bss.gone_user_ns), peek(&bss.gone_system_ns)))
    }

    /// Total CPU time of the traced processes' exited io-wq workers.
    pub fn ended_workers_ns(&self) -> u64 {
        peek(&self.bss().gone_workers_ns)
    }
}

/// Splits a process's CPU time as the kernel does (cputime_adjust): the sum is exact, and the ratio is that of the
/// ticks. Without ticks, all of it is user time.
fn shared_out(ran_ns: u64, user_ns: u64, system_ns: u64) -> (u64, u64) {
    let ticks = u128::from(user_ns) + u128::from(system_ns);
    let system = (u128::from(ran_ns) * u128::from(system_ns)).checked_div(ticks).unwrap_or(0) as u64;
    (ran_ns - system, system)
}
