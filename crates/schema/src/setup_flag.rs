//! The setup flags of rings: the only table of them.

use crate::uring::Name;

/// A flag of io_uring_setup(2).
#[derive(Debug, PartialEq, Eq)]
pub struct SetupFlag {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    pub bit: u32,
    /// Flags that the kernel requires together with it.
    pub with: u32,
    /// The first kernel that has it: major and minor.
    pub since: (u32, u32),
    pub purpose: &'static str,
}

const fn flag(name: &'static str, bit: u32, with: &[u32], since: (u32, u32), purpose: &'static str) -> SetupFlag {
    let with = match with {
        [] => 0,
        [one, ..] => 1 << *one,
    };
    SetupFlag { name, bit: 1 << bit, with, since, purpose }
}

/// Flags of iotrail's own loads come first, in the order of their names in a list.
#[rustfmt::skip]
pub const ALL: [SetupFlag; 21] = [
    flag("coop_taskrun", 8, &[], (5, 19), "task work without interrupting the running task"),
    flag("taskrun_flag", 9, &[8], (5, 19), "a user-mode flag for pending task work"),
    flag("defer_taskrun", 13, &[12], (6, 1), "task work only when the task requests it"),
    flag("single_issuer", 12, &[], (6, 0), "a single submitting thread"),
    flag("sqpoll", 1, &[], (5, 1), "submission by a kernel thread"),
    flag("iopoll", 0, &[], (5, 1), "completions by polling the device"),
    flag("hybrid_iopoll", 17, &[0], (6, 13), "polling after an initial sleep"),
    flag("submit_all", 7, &[], (5, 18), "batches that continue after a bad request"),
    flag("no_sqarray", 16, &[], (6, 6), "a submission queue without its index array"),
    flag(CQSIZE, 3, &[], (5, 5), "a completion queue with a chosen size"),
    flag("sq_aff", 2, &[1], (5, 1), "an SQPOLL thread bound to a CPU"),
    flag("clamp", 4, &[], (5, 6), "rings reduced to the maximum size if too large"),
    flag("attach_wq", 5, &[], (5, 6), "workers shared with another ring"),
    flag("r_disabled", 6, &[], (5, 10), "a ring that starts disabled"),
    flag("sqe128", 10, &[], (5, 19), "128-byte submission entries, for device passthrough"),
    flag("cqe32", 11, &[], (5, 19), "32-byte completion entries, for device passthrough"),
    flag("no_mmap", 14, &[], (6, 5), "rings in the program's own memory"),
    flag("registered_fd_only", 15, &[14], (6, 5), "a ring without a descriptor"),
    flag("cqe_mixed", 18, &[], (6, 18), "completion entries of both sizes in one ring"),
    flag("sqe_mixed", 19, &[], (6, 19), "submission entries of both sizes in one ring"),
    flag("sq_rewind", 20, &[16], (7, 0), "a submission queue that each call reads from the start"),
];

/// The flag with a value.
const CQSIZE: &str = "cqsize";

/// The flag of this name.
pub fn find(name: &str) -> Option<&'static SetupFlag> {
    ALL.iter().find(|f| f.name == name)
}

/// The names in the order of their bits, without a gap.
pub fn by_bit() -> Vec<Name> {
    let mut all: Vec<&SetupFlag> = ALL.iter().collect();
    all.sort_by_key(|f| f.bit);
    all.iter().map(|f| Name { name: f.name, since: f.since }).collect()
}

/// Whether a record's flags include the flag of this name, which has to be in the table.
pub fn is_set(flags: &[String], name: &'static str) -> bool {
    debug_assert!(find(name).is_some(), "{name}");
    flags.iter().any(|flag| flag == name)
}

/// Bits of the flags of these names.
pub const fn bits(names: &[&str]) -> u32 {
    let (mut bits, mut i) = (0, 0);
    while i < names.len() {
        bits |= bit(names[i]);
        i += 1;
    }
    bits
}

/// Bit of a name in the table.
pub const fn bit(name: &str) -> u32 {
    let mut i = 0;
    while !is(ALL[i].name, name) {
        i += 1;
    }
    ALL[i].bit
}

const fn is(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Names of the flags that are set; `cq_entries` is the value of `cqsize`. Unknown bits are one number at the end.
pub fn names(bits: u32, cq_entries: Option<u32>) -> Vec<String> {
    let name = |f: &SetupFlag| match cq_entries {
        Some(n) if f.name == CQSIZE => format!("{CQSIZE}={n}"),
        _ => f.name.to_owned(),
    };
    let unknown = ALL.iter().fold(bits, |bits, f| bits & !f.bit);
    let rest = (unknown != 0).then(|| format!("{unknown:#x}"));
    ALL.iter().filter(|f| bits & f.bit != 0).map(name).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_flag_bits_and_names_are_unique() {
        for (i, f) in ALL.iter().enumerate() {
            assert!(ALL[i + 1..].iter().all(|g| g.bit != f.bit && g.name != f.name), "{}", f.name);
        }
        assert!(ALL.iter().all(|f| bit(f.name) == f.bit && find(f.name) == Some(f)));
        assert_eq!((bits(&["sqpoll", "sq_aff"]), bits(&[]), find("sq")), (6, 0, None));
        assert!(by_bit().iter().enumerate().all(|(bit, n)| find(n.name).map(|f| f.bit) == Some(1 << bit)));
        assert_eq!(names(1 << 8 | 1 << 3, Some(64)), ["coop_taskrun", "cqsize=64"]);
        assert_eq!(names(1 << 1 | 1 << 2 | 1 << 30, None), ["sqpoll", "sq_aff", "0x40000000"]);
    }
}
