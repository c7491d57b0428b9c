//! CPU time of the traced processes and of iotrail.

use std::collections::BTreeSet;
use std::time::Duration;

use super::watched::Watched;
use crate::command;
use crate::namespace::Numbers;
use crate::processes::{CpuTime, Processes};
use iotrail_base::error::Result;
use iotrail_probe::watch::Watch;
use iotrail_schema::metrics_record::Observer;

/// CPU time of all threads of this process.
pub(super) fn own_cpu() -> Observer {
    let used = command::own_cpu();
    Observer { user_ns: used.user_ns, system_ns: used.system_ns }
}

/// CPU time of the traced processes, from the probes for exited processes and from /proc for running ones.
pub(super) fn cpu(
    watch: &mut Watch<'_>,
    processes: &mut Processes,
    watched: &Watched,
    numbers: &Numbers,
) -> Result<Option<CpuTime>> {
    /// Number of retries: the kernel accounts for a process shortly after it has left /proc.
    const LOOKS: u32 = 40;
    let lacks_command = |living: &BTreeSet<u32>, ended: (u64, u64)| {
        let Watched::Command(command) = watched else { return false };
        ended == (0, 0) && command.kernels_tgid().is_none_or(|tgid| !living.contains(&tgid))
    };
    let mut looks = 0;
    let (ended, living) = loop {
        let (ended, workers) = (watch.ended_cpu_ns(), watch.ended_workers_ns());
        let living = watch.followed()?;
        living.iter().for_each(|tgid| processes.noticed(*tgid));
        processes.look(false);
        let settled = living.iter().all(|tgid| processes.tracks(*tgid))
            && watch.ended_cpu_ns() == ended
            && watch.ended_workers_ns() == workers
            && ended.is_none_or(|ended| !lacks_command(&living, ended));
        looks += 1;
        if settled || looks == LOOKS || ended.is_none() || !numbers.has_proc() {
            break (ended, living);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if ended.is_some_and(|ended| lacks_command(&living, ended)) {
        return Ok(None);
    }
    Ok(processes.cpu(ended.map(|(user_ns, system_ns)| CpuTime { user_ns, system_ns })))
}
