//! Call sites, from the probes' data: user stacks by hash, and the actions of each.

use std::collections::BTreeMap;

use crate::opcode::opcode;
use crate::raw::text;
use crate::skel::types::{site_key, site_kind, site_sum, trail, user_stack};
use iotrail_path::delivery::syscall_name;

/// `SITE_USER` in record.h.
const USER: u32 = u32::MAX;

/// Window in which each CPU samples the stacks of the first events, in ms.
const WINDOW_MS: u32 = 100;

/// The same window in ticks.
pub(crate) fn window_jiffies(tick_hz: Option<u32>) -> u32 {
    (tick_hz.unwrap_or(1000) * WINDOW_MS / 1000).max(1)
}

/// One user stack, innermost address first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserStack {
    pub hash: u64,
    pub tgid: u32,
    pub comm: String,
    pub frames: Vec<u64>,
    /// Possible callers of innermost functions that have no frame.
    pub callers: Vec<u64>,
}

impl UserStack {
    pub(crate) fn of(raw: &user_stack) -> Self {
        UserStack {
            hash: raw.hash,
            tgid: raw.tgid,
            comm: text(&raw.comm),
            frames: raw.frames.iter().copied().take_while(|frame| *frame != 0).collect(),
            callers: raw
                .callers
                .iter()
                .copied()
                .take_while(|caller| *caller != 0 && *caller != raw.frames[1])
                .collect(),
        }
    }
}

/// The action at a call site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteAction {
    /// Sleeps in this system call.
    Sleeps(String),
    /// Makes this system call.
    Calls(String),
    /// Is on the CPU in this system call, or in `user` mode, which includes page faults and interrupts.
    Runs(String),
    /// Submits requests of this operation.
    Submits(String),
}

/// Sums over the sampled events of one call site and action, weighted by the inverse of the sampling probability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SiteSum {
    pub samples: u64,
    pub count: u64,
    /// Time asleep, or latency of completed requests.
    pub ns: u64,
    pub errors: u64,
    pub punts: u64,
}

/// By stack hash (0: unreadable) and action.
pub type Sites = BTreeMap<(u64, SiteAction), SiteSum>;

fn action(key: &site_key) -> SiteAction {
    match key.kind {
        site_kind::SITE_SLEEPS => SiteAction::Sleeps(syscall_name(key.nr)),
        site_kind::SITE_CALLS => SiteAction::Calls(syscall_name(key.nr)),
        site_kind::SITE_RUNS => SiteAction::Runs(match key.nr {
            USER => "user".into(),
            nr => syscall_name(nr),
        }),
        _ => SiteAction::Submits(opcode(key.nr)),
    }
}

pub(crate) fn add(sites: &mut Sites, key: &site_key, sum: &site_sum) {
    let of = sites.entry((key.stack, action(key))).or_default();
    of.samples += sum.samples;
    of.count += sum.count;
    of.ns += sum.ns;
    of.errors += sum.errors;
}

/// Adds a traced request that has a stack sample. A request with several completions is added at its last one.
pub(crate) fn add_request(sites: &mut BTreeMap<(u64, u16), SiteSum>, raw: &trail, more: bool) {
    if raw.site_weight == 0 || more {
        return;
    }
    let weight = u64::from(raw.site_weight) * u64::from(raw.weight.max(1));
    let of = sites.entry((raw.site, raw.opcode)).or_default();
    of.samples += 1;
    of.count += weight;
    of.ns += weight * raw.posted_ns.saturating_sub(raw.submitted_ns);
    of.errors += if raw.result < 0 { weight } else { 0 };
    of.punts += if raw.punt.0 != 0 { weight } else { 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampled_request_counts_by_its_inverse_sampling_probability() {
        let mut sites = BTreeMap::new();
        let raw = trail { site: 7, site_weight: 16, weight: 100, opcode: 22, ..trail::default() };
        let times = trail { submitted_ns: 1000, posted_ns: 3000, result: -5, ..raw };
        add_request(&mut sites, &times, false);
        add_request(&mut sites, &times, true);
        add_request(&mut sites, &trail { site_weight: 0, ..times }, false);
        let expected = SiteSum { samples: 1, count: 1600, ns: 3_200_000, errors: 1600, punts: 0 };
        assert_eq!(sites, BTreeMap::from([((7, 22), expected)]));
    }

    #[test]
    fn callers_already_among_the_frames_are_not_added() {
        let mut raw = user_stack { hash: 1, tgid: 5, ..user_stack::default() };
        raw.frames[..2].copy_from_slice(&[0x10, 0x20]);
        raw.callers[0] = 0x20;
        assert_eq!((UserStack::of(&raw).frames, UserStack::of(&raw).callers), (vec![0x10, 0x20], vec![]));
        raw.callers[..2].copy_from_slice(&[0x18, 0x20]);
        assert_eq!(UserStack::of(&raw).callers, [0x18]);
    }
}
