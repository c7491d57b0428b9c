//! A manual page's text in addition to its options.

/// The text for one command. `examples`: shell command lines with their effects.
pub struct Page {
    pub description: &'static [&'static str],
    pub examples: &'static [Entry],
    pub exit: &'static [Entry],
    pub files: &'static [Entry],
    pub see_also: &'static [&'static str],
}

/// A term and its description.
pub type Entry = (&'static str, &'static str);

pub const ANSWERED: Entry = ("0", "An answer was found, which may be to keep the current configuration.");
pub const STOPPED: Entry = ("1", "The command was interrupted.");
pub const DONE: Entry = ("0", "Done.");
pub const WRONG: Entry = ("2", "Usage error or invalid input.");
pub const REFUSED: Entry =
    ("3", "The machine, the kernel or the privileges do not allow it, or another program interfered.");
pub const CORRUPT: Entry = ("5", "Data corruption: --verify read back data that differs from the data written.");
pub const FAULT: Entry = ("70", "A bug in iotrail: report it with the command and the printed error.");

/// For commands that only print and have no specific failures.
pub const PLAIN: &[Entry] = &[DONE, WRONG, REFUSED, FAULT];

pub const STORE: Entry = (
    "~/.local/state/iotrail/iotrail.db",
    "The store (SQLite), unless --store names another. $XDG_STATE_HOME replaces ~/.local/state.",
);
/// If a single measurement is stored only with `--store`.
pub const STORE_ASKED: Entry =
    ("PATH of --store", "The store (SQLite) for the measurement. Without --store, nothing is stored.");
pub const JOURNAL: Entry = (
    "~/.local/state/iotrail/settings.journal",
    "Host settings changed by a run. The file exists only while settings are changed.",
);
pub const SCRATCH: Entry =
    ("~/.cache/iotrail/scratch-SIZE", "Scratch files, kept for later runs. $XDG_CACHE_HOME replaces ~/.cache.");
pub const LAB_CACHE: Entry = (
    "~/.cache/iotrail/lab",
    "Fetched kernels, tools and package lists, unless --cache names another directory. The directory can be deleted.",
);
pub const SUBMITTED: Entry =
    ("STORE-slurm-JOB", "Next to the store: the jobs submitted by --slurm, until all results are collected.");
pub const ON_NODE: Entry = (
    "/var/tmp/iotrail-slurm-UID",
    "On a node: a task's measurements, until they are collected, and scratch files, which are kept.",
);
pub const TYPES: Entry = ("/sys/kernel/btf/vmlinux", "The kernel's type information, which the probes need.");
