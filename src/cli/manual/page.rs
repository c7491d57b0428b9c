//! The text of a manual page in addition to its options.

/// Text of one command. `examples` are command lines in shell syntax, each with its effect.
pub struct Page {
    pub description: &'static [&'static str],
    pub examples: &'static [Entry],
    pub exit: &'static [Entry],
    pub files: &'static [Entry],
    pub see_also: &'static [&'static str],
}

/// A term and its description.
pub type Entry = (&'static str, &'static str);

pub const ANSWERED: Entry = ("0", "There is an answer, which may be to keep the current configuration.");
pub const STOPPED: Entry = ("1", "It was stopped before its end.");
pub const DONE: Entry = ("0", "Done.");
pub const WRONG: Entry = ("2", "Wrong use or wrong input.");
pub const REFUSED: Entry =
    ("3", "The machine, the kernel or the privileges do not allow it, or another program interfered.");
pub const CORRUPT: Entry = ("5", "--verify read data that differs from the written data.");
pub const FAULT: Entry = ("70", "A fault of iotrail itself: report it with the command and the line that it printed.");

/// For commands that print, without failures of their own.
pub const PLAIN: &[Entry] = &[DONE, WRONG, REFUSED, FAULT];

pub const STORE: Entry = (
    "~/.local/state/iotrail/iotrail.db",
    "The store (SQLite), unless --store names another. $XDG_STATE_HOME replaces ~/.local/state.",
);
/// Where a single measurement is stored only if `--store` asks for it.
pub const STORE_ASKED: Entry =
    ("PATH of --store", "The store (SQLite) that keeps the measurement. Without --store nothing is stored.");
pub const JOURNAL: Entry = (
    "~/.local/state/iotrail/settings.journal",
    "Host settings that a run has changed. The file exists only while they are changed.",
);
pub const SCRATCH: Entry =
    ("~/.cache/iotrail/scratch-SIZE", "Scratch files, kept for later runs. $XDG_CACHE_HOME replaces ~/.cache.");
pub const LAB_CACHE: Entry = (
    "~/.cache/iotrail/lab",
    "Fetched kernels, tools and package lists, unless --cache names another directory. It can be deleted.",
);
pub const SUBMITTED: Entry =
    ("STORE-slurm-JOB", "Next to the store: the jobs submitted by --slurm, until all results are collected.");
pub const ON_NODE: Entry = (
    "/var/tmp/iotrail-slurm-UID",
    "On a node: the measurements of a task, until they are collected; scratch files, which are kept.",
);
pub const TYPES: Entry = ("/sys/kernel/btf/vmlinux", "The kernel's type information, which the probes need.");
