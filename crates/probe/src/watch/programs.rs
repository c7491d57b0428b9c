//! The kernel's statistics about the programs: missed events and cost.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys;
use libbpf_rs::skel::Skel;

use super::attached::Watch;
use super::costly::COSTLY;
use crate::cost::{Account, Cost, Runs, Spent};
use crate::support;
use iotrail_base::error::{Error, Result};
use iotrail_schema::measurement::Warning;

const COMPLETES: &str = "io_uring_complete";

impl Watch<'_> {
    /// One warning per optional program that is unavailable.
    pub fn missing(&self) -> Vec<Warning> {
        let warning = |(name, lost): &(&str, &str)| {
            let (why, remedy) = support::missing_why(name);
            Warning::new("probe_missing", format!("{why}; lost: {lost}"), remedy)
        };
        let mut warnings: Vec<Warning> = self.plan.missing.iter().map(warning).collect();
        // Two programs may share a purpose.
        warnings.dedup();
        warnings
    }

    /// Enables the kernel's cost statistics; call it before [`begin`](Self::begin).
    pub fn count_cost(&mut self) -> Result<()> {
        self.account = Some(Account::open()?);
        Ok(())
    }

    pub(super) fn account_begins(&mut self) -> Result<()> {
        let runs = if self.account.is_some() { self.runs()? } else { Default::default() };
        if let Some(account) = &mut self.account {
            account.before = runs;
        }
        Ok(())
    }

    /// Cost of each program since [`begin`](Self::begin), highest first; `None` if not requested.
    pub fn costs(&self) -> Result<Option<Vec<Cost>>> {
        let Some(account) = &self.account else { return Ok(None) };
        let mut costs: Vec<Cost> = self.runs()?.into_iter().map(|(name, now)| account.cost(name, now)).collect();
        costs.sort_by_key(|cost| (std::cmp::Reverse(cost.spent_ns), cost.program));
        Ok(Some(costs))
    }

    /// Enables the kernel's cost statistics for as long as the result exists.
    pub fn measure_cost() -> Result<Account> {
        Account::open()
    }

    /// Time in all programs while the statistics were enabled, over all CPUs and processes.
    pub fn spent(&self) -> Result<Spent> {
        let mut spent = Spent::default();
        for (name, (runs, ns)) in self.runs()? {
            let event = support::tracepoint(name);
            match event.starts_with("io_uring_") {
                true => spent.requests_ns += ns,
                false => spent.others_ns += ns,
            }
            if COSTLY.contains(&name) {
                spent.costly_ns += ns;
            }
            if event == COMPLETES {
                spent.completions += runs;
            }
        }
        Ok(spent)
    }

    pub(super) fn misses_since_begin(&self) -> Result<BTreeMap<&'static str, u64>> {
        let mut misses = self.recursion_misses()?;
        for (name, before) in &self.misses_before {
            misses.entry(name).and_modify(|n| *n -= before);
        }
        Ok(misses)
    }

    /// Events that each program missed because it was already running on the same CPU.
    pub(super) fn recursion_misses(&self) -> Result<BTreeMap<&'static str, u64>> {
        Ok(self.infos()?.map(|(name, info)| (name, info.recursion_misses)).collect())
    }

    /// Runs of each program since it was loaded, and their ns if statistics are enabled.
    pub(super) fn runs(&self) -> Result<Runs> {
        Ok(self.infos()?.map(|(name, info)| (name, (info.run_cnt, info.run_time_ns))).collect())
    }

    /// The kernel's info about each program.
    fn infos(&self) -> Result<impl Iterator<Item = (&'static str, libbpf_sys::bpf_prog_info)>> {
        let mut infos = vec![];
        for program in self.skel.object().progs() {
            let Some(name) = self.plan.attach.iter().find(|name| program.name() == **name) else { continue };
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
            // SAFETY: `info` is a plain struct of that size, which the kernel fills up to its own version's length.
            let failed =
                unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut size) };
            if failed != 0 {
                return Err(Error::machine("cannot read the kernel's data about the probes", "report this")
                    .because(std::io::Error::last_os_error()));
            }
            infos.push((*name, info));
        }
        Ok(infos.into_iter())
    }
}
