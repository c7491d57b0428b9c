//! CPU time of processes.

use std::ops::AddAssign;

use super::counter::Span;
use iotrail_host::procfs::{self, Stat};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, more: Self) {
        self.user_ns += more.user_ns;
        self.system_ns += more.system_ns;
    }
}

/// CPU time of a process: the scheduler's total, split into user and system time by ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub ran_ns: Span,
    pub user_ticks: Span,
    pub system_ticks: Span,
}

impl Used {
    /// `found`: the process existed before, and its earlier time is not counted.
    pub fn first(ran_ns: Option<u64>, stat: &Stat, found: bool) -> Self {
        let first = |value| Span { first: Some(if found { value } else { 0 }), last: Some(value) };
        Self {
            ran_ns: ran_ns.map(first).unwrap_or_default(),
            user_ticks: first(stat.user_ticks),
            system_ticks: first(stat.system_ticks),
        }
    }

    pub fn take(&mut self, ran_ns: Option<u64>, stat: &Stat) {
        self.ran_ns.take(ran_ns);
        self.user_ticks.take(Some(stat.user_ticks));
        self.system_ticks.take(Some(stat.system_ticks));
    }

    pub fn count_from_now(&mut self) {
        for span in [&mut self.ran_ns, &mut self.user_ticks, &mut self.system_ticks] {
            span.first = span.last;
        }
    }

    pub fn grown(self) -> Option<CpuTime> {
        let (user, system) = (self.user_ticks.grown()?, self.system_ticks.grown()?);
        let Some(ran_ns) = self.ran_ns.grown() else {
            return Some(CpuTime { user_ns: procfs::ticks_to_ns(user), system_ns: procfs::ticks_to_ns(system) });
        };
        // As the kernel does: without a tick in the kernel, all of it is user time.
        let ticks = u128::from(user + system).max(1);
        let system_ns = (u128::from(ran_ns) * u128::from(system) / ticks) as u64;
        Some(CpuTime { user_ns: ran_ns - system_ns, system_ns })
    }
}
