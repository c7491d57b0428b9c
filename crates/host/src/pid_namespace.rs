//! PID namespaces of this process and of /proc. Only a BPF program can determine IDs in the initial namespace: see
//! `probe::numbers`.

use super::procfs::Status;

/// Inode of the initial PID namespace (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const INITIAL: &str = "pid:[4026531836]";

/// The namespace of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The initial namespace, with its own /proc: all IDs are the kernel's.
    Initial,
    /// A nested namespace, as in a container, or /proc does not show which.
    Other {
        /// Number of levels by which /proc's namespace is further out; 0: it is this process's. `None` if no mounted
        /// /proc shows this process.
        proc_outwards: Option<u32>,
    },
}

impl Standing {
    pub fn of_this_process() -> Self {
        let ours = std::fs::read_link("/proc/self/ns/pid").ok();
        let numbers = super::procfs::text("/proc/self/status").and_then(|s| Status::parse(&s)).map(|s| s.numbers.len());
        decide(ours.is_some_and(|link| link.as_os_str() == INITIAL), numbers)
    }

    pub fn outwards(self) -> Option<u32> {
        match self {
            Standing::Initial => Some(0),
            Standing::Other { proc_outwards } => proc_outwards,
        }
    }
}

/// `numbers`: how many IDs /proc lists for this process, from its own namespace inwards to this process's.
fn decide(in_the_initial: bool, numbers: Option<usize>) -> Standing {
    match (in_the_initial, numbers) {
        (true, _) => Standing::Initial,
        (false, numbers) => Standing::Other { proc_outwards: numbers.map(|n| n.saturating_sub(1) as u32) },
    }
}

/// PID of this process in /proc; `None` if /proc does not show it.
pub fn own_number_in_proc() -> Option<u32> {
    std::fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_namespace_of_proc_is_determined() {
        assert_eq!(decide(true, Some(1)), Standing::Initial);
        assert_eq!(decide(false, Some(1)).outwards(), Some(0), "a container's own");
        assert_eq!(decide(false, Some(3)).outwards(), Some(2), "that of the one around the one around");
        assert_eq!(decide(false, None), Standing::Other { proc_outwards: None }, "not mounted");
        let status = Status::parse("Tgid:\t300\nPid:\t300\nNSpid:\t300\t7\n").unwrap();
        assert_eq!(decide(false, Some(status.numbers.len())).outwards(), Some(1));
    }

    #[test]
    fn this_process_has_a_process_id_in_proc() {
        let number = own_number_in_proc().unwrap();
        assert_eq!(Status::of(number).unwrap().numbers.last(), Some(&std::process::id()));
    }
}
