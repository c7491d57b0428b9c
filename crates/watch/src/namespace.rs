//! Process IDs in three PID namespaces. The probes and the records use IDs in the initial namespace. Users specify IDs
//! in iotrail's namespace. /proc shows IDs in the namespace that mounted it. Outside containers, all three are the
//! same.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::allowed;
use iotrail_base::error::Result;
use iotrail_host::pid_namespace::{Standing, own_number_in_proc};
use iotrail_host::procfs::{self, Stat, Status};
use iotrail_probe::numbers::{Task, Tasks};

/// Minimum interval between two listings of the tasks while a task is not in the last one.
const PERIOD: Duration = Duration::from_millis(20);

/// Pause after a listing, as a multiple of its duration.
const REST: u32 = 20;

/// Maps process IDs between the namespaces.
#[derive(Debug)]
pub struct Numbers(Option<RefCell<Listed>>);

#[derive(Debug)]
struct Listed {
    tasks: Tasks,
    standing: Standing,
    /// By TID in the initial namespace.
    known: HashMap<u32, Task>,
    by_proc: HashMap<u32, u32>,
    /// Processes that were found by a lookup.
    met: HashSet<u32>,
    next: Instant,
}

/// A running thread, with IDs of the initial namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    pub tgid: u32,
    /// PID in iotrail's namespace.
    pub process_here: u32,
    pub comm: String,
    pub is_kernel_thread: bool,
}

impl Numbers {
    /// For use if all namespaces are the same.
    pub const SAME: Numbers = Numbers(None);

    /// If the namespaces differ, a BPF iterator lists the tasks, which requires the probes' privileges.
    pub fn of_this_process() -> Result<Self> {
        let standing = Standing::of_this_process();
        if standing == Standing::Initial {
            return Ok(Self::SAME);
        }
        allowed::allowed()?;
        let tasks = Tasks::open(standing)?;
        let mut listed = Listed {
            tasks,
            standing,
            known: HashMap::new(),
            by_proc: HashMap::new(),
            met: HashSet::new(),
            next: Instant::now(),
        };
        listed.read()?;
        Ok(Numbers(Some(RefCell::new(listed))))
    }

    /// Whether iotrail may be outside the initial PID namespace.
    pub fn differ(&self) -> bool {
        self.0.is_some()
    }

    /// Whether /proc shows the processes of iotrail's PID namespace.
    pub fn has_proc(&self) -> bool {
        self.0.as_ref().is_none_or(|listed| listed.borrow().standing.outwards().is_some())
    }

    /// Looks up the thread with this ID in iotrail's namespace; `None` if there is none.
    pub fn find(&self, here: u32) -> Result<Option<Thread>> {
        let Some(listed) = &self.0 else {
            let found = Status::of(here).zip(Stat::of(here)).map(|(status, stat)| Thread {
                tid: here,
                tgid: status.tgid,
                process_here: status.tgid,
                is_kernel_thread: stat.is_kernel_thread(),
                comm: stat.comm,
            });
            return Ok(found);
        };
        let mut listed = listed.borrow_mut();
        listed.read()?;
        Ok(listed.known.values().find(|task| task.here == here).map(|task| Thread {
            tid: task.tid,
            tgid: task.tgid,
            process_here: listed.known.get(&task.tgid).map_or(0, |leader| leader.here),
            comm: task.comm.clone(),
            is_kernel_thread: task.is_kernel_thread,
        }))
    }

    /// /proc's ID of a thread, from its ID in the initial namespace; `None` if /proc does not show it.
    pub fn in_proc(&self, kernels: u32) -> Option<u32> {
        match &self.0 {
            None => Some(kernels),
            Some(listed) => listed.borrow_mut().known(kernels)?.in_proc,
        }
    }

    /// A thread's ID in iotrail's namespace, from its ID in the initial one; `None` if it is outside or has exited.
    pub fn here(&self, kernels: u32) -> Option<u32> {
        match &self.0 {
            None => Some(kernels),
            Some(listed) => listed.borrow_mut().known(kernels).map(|task| task.here),
        }
    }

    /// A thread's ID in the initial namespace, from /proc's ID; `None` if unknown or not listed yet.
    pub fn of_proc(&self, in_proc: u32) -> Option<u32> {
        let Some(listed) = &self.0 else { return Some(in_proc) };
        let mut listed = listed.borrow_mut();
        if !listed.by_proc.contains_key(&in_proc) {
            listed.read_again();
        }
        listed.by_proc.get(&in_proc).copied()
    }

    /// All running processes that can be listed, with IDs of the initial namespace.
    pub fn processes(&self) -> Vec<u32> {
        let Some(listed) = &self.0 else { return procfs::processes() };
        let mut listed = listed.borrow_mut();
        listed.read_again();
        listed.known.values().filter(|task| task.tid == task.tgid).map(|task| task.tid).collect()
    }

    /// All running descendants of this process, except iotrail.
    pub fn descendants(&self, tgid: u32) -> Result<Vec<u32>> {
        let Some(listed) = &self.0 else {
            let us = std::process::id();
            return Ok(procfs::descendants(tgid).into_iter().filter(|found| *found != us).collect());
        };
        let mut listed = listed.borrow_mut();
        listed.read()?;
        let processes = || listed.known.values().filter(|task| task.tid == task.tgid);
        let us = processes().find(|task| task.here == std::process::id()).map(|task| task.tgid);
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        processes().for_each(|task| children.entry(task.parent).or_default().push(task.tgid));
        let (mut found, mut open) = (vec![], vec![tgid]);
        while let Some(parent) = open.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                found.push(child);
                open.push(child);
            }
        }
        found.retain(|child| Some(*child) != us);
        Ok(found)
    }

    /// Whether a process exists; `None` if unknown, because it is outside iotrail's namespace.
    pub fn lives(&self, tgid: u32) -> Option<bool> {
        match &self.0 {
            None => Some(Stat::of(tgid).is_some()),
            Some(listed) => {
                let mut listed = listed.borrow_mut();
                listed.read_again();
                let is_there = listed.known.contains_key(&tgid);
                if is_there {
                    listed.met.insert(tgid);
                }
                (is_there || listed.met.contains(&tgid)).then_some(is_there)
            }
        }
    }

    /// iotrail's own PID in the initial namespace.
    pub fn own(&self) -> Option<u32> {
        match &self.0 {
            None => Some(std::process::id()),
            Some(listed) => listed.borrow().known.values().find(|t| t.asking).map(|t| t.tgid),
        }
    }
}

impl Listed {
    fn read(&mut self) -> Result<()> {
        let began = Instant::now();
        self.known = self.tasks.read()?.into_iter().map(|task| (task.tid, task)).collect();
        self.by_proc = self.known.values().filter_map(|task| Some((task.in_proc?, task.tid))).collect();
        let now = Instant::now();
        self.next = now + PERIOD.max((now - began) * REST);
        Ok(())
    }

    /// Lists the tasks if due. If this fails, new tasks stay unknown.
    fn read_again(&mut self) {
        if Instant::now() >= self.next {
            self.read().unwrap_or(());
        }
    }

    fn known(&mut self, kernels: u32) -> Option<&Task> {
        if !self.known.contains_key(&kernels) {
            self.read_again();
        }
        self.known.get(&kernels)
    }
}

/// All processes whose rings /proc shows, with IDs of the initial namespace.
pub(crate) fn with_rings(numbers: &Numbers) -> Vec<u32> {
    let us = own_number_in_proc();
    let others = procfs::processes().into_iter().filter(|number| Some(*number) != us);
    others.filter(|number| super::rings::has_rings(*number)).filter_map(|number| numbers.of_proc(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ids_are_identical_outside_containers() {
        let us = std::process::id();
        let same = Numbers::SAME;
        assert_eq!(
            (same.in_proc(us), same.here(us), same.of_proc(us), same.lives(us)),
            (Some(us), Some(us), Some(us), Some(true))
        );
        assert!(!same.differ() && same.has_proc() && same.processes().contains(&us));
        let found = same.find(us).unwrap().unwrap();
        assert_eq!((found.tid, found.tgid, found.process_here, found.is_kernel_thread), (us, us, us, false));
        assert_eq!(same.find(u32::MAX / 2).unwrap(), None);
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(same.descendants(us).unwrap().contains(&child.id()));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(same.lives(child.id()), Some(false));
    }
}
