//! Selects the monitored processes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use iotrail_host::{cgroup, procfs};
use iotrail_probe::snapshot::SurveyedThread;
use iotrail_schema::stall::StalledProcess;

use crate::namespace::Numbers;

/// Maximum number of sampled processes, the busiest.
pub const PROCESSES: usize = 64;

/// PIDs are from the initial namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// All processes that use io_uring or native aio.
    All,
    /// These processes and their descendants.
    Processes(Vec<u32>),
    /// All processes in or below this cgroup path, in any hierarchy.
    Cgroup(String),
    /// All processes of this systemd unit.
    Unit(String),
}

/// Number of surveys in which a new process's cgroups are read: its parent may move it after the first one.
const SETTLING: u32 = 3;

/// A process's cgroups.
#[derive(Debug, Default)]
struct Membership {
    /// Contents of /proc/PID/cgroup.
    text: Option<String>,
    surveys: u32,
}

/// The currently monitored processes.
#[derive(Debug)]
pub struct Subjects {
    subject: Subject,
    numbers: Rc<Numbers>,
    pub known: BTreeMap<u32, StalledProcess>,
    memberships: BTreeMap<u32, Membership>,
    /// CPU time at the last survey.
    ran: BTreeMap<u32, u64>,
    pub unsampled: u64,
}

impl Subjects {
    pub fn new(subject: Subject, numbers: &Rc<Numbers>) -> Self {
        Subjects {
            subject,
            numbers: Rc::clone(numbers),
            known: BTreeMap::new(),
            memberships: BTreeMap::new(),
            ran: BTreeMap::new(),
            unsampled: 0,
        }
    }

    /// Updates the processes from all threads on the machine.
    pub fn survey(&mut self, threads: &[SurveyedThread]) {
        let mut ran: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut names, mut asynchronous) = (BTreeMap::new(), BTreeSet::new());
        for t in threads {
            *ran.entry(t.tgid).or_default() += t.ran_ns;
            if t.tid == t.tgid && !t.is_kernels {
                names.insert(t.tgid, &t.comm);
            }
            if t.is_asynchronous {
                asynchronous.insert(t.tgid);
            }
        }
        let own = self.numbers.own();
        self.memberships.retain(|tgid, _| names.contains_key(tgid));
        for known in self.memberships.values_mut().filter(|known| known.surveys < SETTLING) {
            (known.text, known.surveys) = (None, known.surveys + 1);
        }
        let mut wanted: Vec<u32> = match &self.subject {
            Subject::All => asynchronous.into_iter().filter(|tgid| names.contains_key(tgid)).collect(),
            Subject::Processes(tgids) => {
                let below = tgids.iter().flat_map(|tgid| self.numbers.descendants(*tgid).unwrap_or_default());
                let all: BTreeSet<u32> = tgids.iter().copied().chain(below).collect();
                all.into_iter().filter(|tgid| names.contains_key(tgid)).collect()
            }
            Subject::Cgroup(_) | Subject::Unit(_) => names
                .keys()
                .copied()
                .filter(|tgid| is_member(&self.subject, membership(&mut self.memberships, &self.numbers, *tgid)))
                .collect(),
        };
        wanted.retain(|tgid| Some(*tgid) != own);
        let busy =
            |tgid: &u32| ran.get(tgid).copied().unwrap_or(0).saturating_sub(self.ran.get(tgid).copied().unwrap_or(0));
        wanted.sort_by_key(|tgid| (std::cmp::Reverse(busy(tgid)), *tgid));
        self.unsampled = wanted.len().saturating_sub(PROCESSES) as u64;
        wanted.truncate(PROCESSES);
        let mut known = BTreeMap::new();
        for tgid in wanted {
            let comm = names.get(&tgid).map(|name| (*name).clone()).unwrap_or_default();
            let group = path(membership(&mut self.memberships, &self.numbers, tgid));
            known.insert(tgid, StalledProcess { tgid, comm, cgroup: group });
        }
        self.known = known;
        self.ran = ran;
    }

    /// Whether monitoring can continue: a named process still runs, or, for other subjects, processes may appear.
    pub fn may_come(&self) -> bool {
        match &self.subject {
            Subject::Processes(_) => !self.known.is_empty(),
            _ => true,
        }
    }
}

fn membership<'m>(known: &'m mut BTreeMap<u32, Membership>, numbers: &Numbers, tgid: u32) -> &'m str {
    let read = || numbers.in_proc(tgid).and_then(cgroup::membership).unwrap_or_default();
    known.entry(tgid).or_default().text.get_or_insert_with(read)
}

fn paths(membership: &str) -> impl Iterator<Item = (&str, &str)> {
    membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    })
}

/// Path in cgroup v2, otherwise in systemd's hierarchy, otherwise the first path that is not the root.
fn path(membership: &str) -> Option<String> {
    let is_of = |name: &'static str| paths(membership).find(move |(kind, path)| *kind == name && *path != "/");
    let found =
        is_of("").or_else(|| is_of("name=systemd")).or_else(|| paths(membership).find(|(_, path)| *path != "/"));
    found.or_else(|| paths(membership).next()).map(|(_, path)| path.to_owned())
}

fn is_member(subject: &Subject, membership: &str) -> bool {
    paths(membership).any(|(_, path)| match subject {
        Subject::Cgroup(group) => {
            let group = group.trim_end_matches('/');
            path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Subject::Unit(unit) => path.split('/').any(|part| part == unit || part.strip_suffix(".service") == Some(unit)),
        _ => false,
    })
}

/// Whether a mounted hierarchy contains this cgroup.
pub fn exists(group: &str) -> bool {
    let relative = group.trim_start_matches('/');
    let mounts = procfs::text("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter(|l| l.contains(" - cgroup")).filter_map(|l| l.split(' ').nth(4));
    points.map(std::path::Path::new).any(|point| point.join(relative).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "4:memory:/m\n2:cpu:/a/b\n1:name=systemd:/system.slice/db.service\n0::/\n";

    #[test]
    fn a_process_is_a_member_of_its_cgroups_and_their_ancestors() {
        let in_group = |path: &str| is_member(&Subject::Cgroup(path.into()), V1);
        assert!(in_group("/a") && in_group("/a/b/") && in_group("/m") && !in_group("/a/c") && !in_group("/a/bb"));
        let in_unit = |unit: &str| is_member(&Subject::Unit(unit.into()), V1);
        assert!(in_unit("db") && in_unit("db.service") && in_unit("system.slice") && !in_unit("d"));
        assert_eq!(path(V1).as_deref(), Some("/system.slice/db.service"));
        assert_eq!(path("0::/x\n").as_deref(), Some("/x"));
        assert_eq!(path(""), None);
    }

    fn thread(tgid: u32, ran_ns: u64, is_asynchronous: bool) -> SurveyedThread {
        SurveyedThread {
            tid: tgid,
            tgid,
            ran_ns,
            is_asynchronous,
            comm: format!("p{tgid}"),
            ..SurveyedThread::default()
        }
    }

    #[test]
    fn the_cgroups_of_a_new_process_are_read_again() {
        let mut subjects = Subjects::new(Subject::Cgroup("/left".into()), &Rc::new(Numbers::SAME));
        let parent = std::os::unix::process::parent_id();
        let mut is_known = |surveys| {
            let membership = Membership { text: Some("0::/left\n".into()), surveys };
            subjects.memberships.insert(parent, membership);
            subjects.survey(&[thread(parent, 1, false)]);
            subjects.known.contains_key(&parent)
        };
        assert_eq!([is_known(0), is_known(SETTLING - 1), is_known(SETTLING)], [false, false, true]);
    }

    #[test]
    fn the_busiest_processes_with_rings_are_sampled() {
        let mut subjects = Subjects::new(Subject::All, &Rc::new(Numbers::SAME));
        let at = |factor: u64| {
            (1_000_000..1_000_100).map(|i| thread(i, u64::from(i) * factor, i % 100 != 99)).collect::<Vec<_>>()
        };
        subjects.survey(&at(1));
        subjects.survey(&at(2));
        assert_eq!((subjects.known.len(), subjects.unsampled), (PROCESSES, 99 - PROCESSES as u64));
        assert!(subjects.known.contains_key(&1_000_098) && !subjects.known.contains_key(&1_000_000));
        assert!(!subjects.known.contains_key(&1_000_099), "it has no ring");
        subjects.survey(&[]);
        assert!(subjects.known.is_empty() && subjects.memberships.is_empty());
    }
}
