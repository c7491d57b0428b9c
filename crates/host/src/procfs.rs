//! Parsers for the files in /proc that iotrail reads. They return `None` for an unexpected format.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;

/// /proc/PID/stat or /proc/TGID/task/TID/stat (proc_pid_stat(5)). Times of a process include all its threads, exited
/// ones and io_uring's kernel threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    pub comm: String,
    pub state: char,
    pub flags: u32,
    /// In ticks: see [`ticks_to_ns`].
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// User and system time of reaped children, including the children that those have reaped, in ticks.
    pub reaped_ticks: u64,
    /// Start time since boot; distinguishes a process from a later one with the same ID.
    pub start_ticks: u64,
    /// CPU on which it last ran.
    pub cpu: u32,
}

/// PF_KTHREAD (include/linux/sched.h).
const KERNEL_THREAD: u32 = 0x0020_0000;

impl Stat {
    pub fn parse(text: &str) -> Option<Stat> {
        // The name may contain any characters, including parentheses and spaces.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let rest: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
        // proc_pid_stat(5) numbers fields from 1, and `rest` begins with field 3.
        let field = |n: usize| rest.get(n - 3).copied();
        Some(Stat {
            comm: text.get(open + 1..close)?.to_owned(),
            state: field(3)?.chars().next()?,
            flags: field(9)?.parse().ok()?,
            user_ticks: field(14)?.parse().ok()?,
            system_ticks: field(15)?.parse().ok()?,
            reaped_ticks: field(16)?.parse::<u64>().ok()? + field(17)?.parse::<u64>().ok()?,
            start_ticks: field(22)?.parse().ok()?,
            cpu: field(39).and_then(|n| n.parse().ok()).unwrap_or(0),
        })
    }

    /// `of`: a process or a thread by its directory in /proc.
    pub fn of(of: impl Display) -> Option<Stat> {
        Self::parse(&text(format!("/proc/{of}/stat"))?)
    }

    pub fn of_thread(tgid: u32, tid: u32) -> Option<Stat> {
        Self::of(format_args!("{tgid}/task/{tid}"))
    }

    /// Whether it is a zombie: it has exited, was not waited for, and so uses nothing.
    pub fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}

/// /proc/PID/status (proc_pid_status(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub tgid: u32,
    /// IDs from /proc's PID namespace inwards to the process's own.
    pub numbers: Vec<u32>,
    /// Voluntary context switches.
    pub voluntary_switches: Option<u64>,
}

impl Status {
    pub fn parse(text: &str) -> Option<Status> {
        let field = |name: &str| {
            text.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| *k == name).map(|(_, v)| v.trim())
        };
        let tgid = field("Tgid")?.parse().ok()?;
        let numbers = match field("NSpid") {
            Some(list) => list.split_whitespace().map(|n| n.parse().ok()).collect::<Option<_>>()?,
            None => vec![field("Pid")?.parse().ok()?],
        };
        let voluntary_switches = field("voluntary_ctxt_switches").and_then(|n| n.parse().ok());
        Some(Status { tgid, numbers, voluntary_switches })
    }

    /// Status of any thread, by TID.
    pub fn of(tid: u32) -> Option<Status> {
        Self::parse(&text(format!("/proc/{tid}/status"))?)
    }
}

/// Whether /proc is mounted and shows this process: it may belong to a PID namespace that does not contain this
/// process.
pub fn is_mounted() -> bool {
    std::path::Path::new("/proc/self/stat").exists()
}

/// Time on a CPU and time waiting for a CPU, with the scheduler's precision. `of`: as for [`Stat::of`].
pub fn schedstat(of: impl Display) -> Option<[u64; 2]> {
    let text = text(format!("/proc/{of}/schedstat"))?;
    let mut numbers = text.split_whitespace().map(|n| n.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

pub fn on_cpu_ns(tgid: u32, tid: u32) -> Option<u64> {
    schedstat(format_args!("{tgid}/task/{tid}")).map(|[ran, _]| ran)
}

/// A thread's name.
pub fn comm(tgid: u32, tid: u32) -> Option<String> {
    text(format!("/proc/{tgid}/task/{tid}/comm")).map(|name| name.trim_end().to_owned())
}

/// TIDs of a process's current threads; empty if it has exited.
pub fn threads(tgid: u32) -> Vec<u32> {
    numbers(format!("/proc/{tgid}/task"))
}

/// PIDs of all current processes.
pub fn processes() -> Vec<u32> {
    numbers("/proc")
}

/// Current children of a process's threads; empty without CONFIG_PROC_CHILDREN.
pub fn children(tgid: u32, threads: &[u32]) -> Vec<u32> {
    let of = |tid| text(format!("/proc/{tgid}/task/{tid}/children")).unwrap_or_default();
    threads.iter().flat_map(|tid| list(&of(tid))).collect()
}

fn list(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

/// The numeric entries of a directory.
pub fn numbers(folder: impl Into<PathBuf>) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder.into()) else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// Contents of a file as text; names in it may contain any bytes.
pub fn text(path: impl Into<PathBuf>) -> Option<String> {
    fs::read(path.into()).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Converts ticks (USER_HZ), the unit of time in /proc, to ns.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// All current descendants of `tgid` by /proc's IDs, nearest first.
pub fn descendants(tgid: u32) -> Vec<u32> {
    let mut found = vec![];
    let mut open = vec![tgid];
    while let Some(parent) = open.pop() {
        for child in children(parent, &threads(parent)) {
            // IDs can be reused during the search, so each process is visited only once.
            if child != tgid && !found.contains(&child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comm_with_parentheses_and_spaces_is_parsed() {
        let text =
            "812 (a) R (b) c) S 29982 29982 30050 0 -1 2129984 102 0 0 0 17 23 4 5 20 0 1 0 1311910 3133440 415 0\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(stat.comm, "a) R (b) c");
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (17, 23, 1311910));
        assert!(stat.is_kernel_thread() && !stat.is_zombie());
        assert_eq!(Stat::parse("812 (x"), None);
        assert_eq!(Stat::parse("812 (x) S 1 2"), None);
    }

    #[test]
    fn namespace_process_ids_and_context_switches_are_parsed() {
        let s =
            Status::parse("Name:\tx\nTgid:\t300\nPid:\t301\nNSpid:\t301\t7\nvoluntary_ctxt_switches:\t12\n").unwrap();
        assert_eq!(s, Status { tgid: 300, numbers: vec![301, 7], voluntary_switches: Some(12) });
        let old = Status::parse("Tgid:\t300\nPid:\t301\n").unwrap();
        assert_eq!((old.numbers, old.voluntary_switches), (vec![301], None));
        assert_eq!(Status::parse(""), None);
    }

    #[test]
    fn this_process_is_found_in_proc() {
        let us = std::process::id();
        assert!(processes().contains(&us) && threads(us).contains(&us));
        assert!(!Stat::of(us).unwrap().is_kernel_thread());
        assert_eq!(Status::of(us).unwrap().tgid, us);
        assert_eq!(list("12 13 \n"), [12, 13]);
    }
}
