//! PID namespaces. The probes see processes by the initial namespace's numbers; a user gives the numbers of ours.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::host::procfs::{self, Stat, Status};

/// The initial PID namespace's inode (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const INITIAL: &str = "pid:[4026531836]";

/// Where we stand, and what our /proc shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// In the initial one: all numbers are the kernel's own.
    Initial,
    /// In one of our own, with the initial one's /proc: it tells both numbers.
    Translated,
    /// In one of our own, and only its numbers can be seen.
    Hidden,
}

impl Namespace {
    pub fn of_this_process() -> Self {
        let ours = std::fs::read_link("/proc/self/ns/pid").ok();
        // The kernel's own threads are in the initial namespace only, and the second process is the parent of them all.
        let kernel_threads = Stat::of(2).is_some_and(|s| s.is_kernel_thread());
        decide(ours.is_some_and(|link| link.as_os_str() == INITIAL), kernel_threads)
    }

    /// The kernel's number of the process that has this number in our namespace; both are equal in the initial one.
    /// `Ok(None)`: there is none.
    pub fn kernels_number(self, tgid: u32) -> Result<Option<u32>> {
        match self {
            Namespace::Initial => Ok(Some(tgid)),
            Namespace::Translated => {
                let ours = std::fs::read_link("/proc/self/ns/pid").map_err(|e| {
                    Error::machine("cannot tell this PID namespace from others", "report this").because(e)
                })?;
                let same = |n: &u32| std::fs::read_link(format!("/proc/{n}/ns/pid")).is_ok_and(|theirs| theirs == ours);
                let all: HashMap<u32, Status> =
                    procfs::processes().into_iter().filter_map(|n| Some((n, Status::of(n)?))).collect();
                Ok(all.iter().find(|(n, s)| s.numbers.last() == Some(&tgid) && same(n)).map(|(n, _)| *n))
            }
            Namespace::Hidden => Err(Error::machine(
                "this is a PID namespace of its own, and the numbers by which the kernel knows its processes can't be told \
                 in here",
                "run iotrail on the host (in a container: with --pid=host), or watch everyone with -a",
            )),
        }
    }
}

fn decide(in_the_initial: bool, proc_is_the_initials: bool) -> Namespace {
    match (in_the_initial, proc_is_the_initials) {
        (true, _) => Namespace::Initial,
        (false, true) => Namespace::Translated,
        (false, false) => Namespace::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_told_from_inside() {
        assert_eq!(decide(true, true), Namespace::Initial);
        assert_eq!(decide(false, true), Namespace::Translated);
        assert_eq!(decide(false, false), Namespace::Hidden);
        assert_eq!(Namespace::Initial.kernels_number(7).unwrap(), Some(7));
        assert_eq!(Namespace::Hidden.kernels_number(7).unwrap_err().exit_status(), 3);
    }
}
