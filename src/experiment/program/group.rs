//! The processes that a program has started, by their process group.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// So long they have to end once they were asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Ends what is left of the program's group: asked first, killed then. Only who is under our filter is meant.
pub fn end_group(leader: u32) {
    let left = members(leader);
    if left.is_empty() {
        return;
    }
    let all = |signal| {
        for pid in members(leader) {
            kill_process(pid, signal).unwrap_or(());
        }
    };
    all(Signal::TERM);
    let until = Instant::now() + GRACE;
    while !members(leader).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    all(Signal::KILL);
}

/// Living processes of this group that are under a seccomp filter.
fn members(group: u32) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_group = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // After the name, which may hold anything: state, parent, group.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let (state, its) = (fields.next()?, fields.nth(1)?);
        if state == "Z" || its.parse() != Ok(group) {
            return None;
        }
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let filtered = status.lines().any(|l| l.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
        Pid::from_raw(pid).filter(|_| filtered)
    });
    of_group.collect()
}
