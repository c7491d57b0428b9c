//! Pages of the program itself, and of commands about this machine and iotrail's stored data.

use super::page::{DONE, FAULT, JOURNAL, LAB_CACHE, PLAIN, Page, REFUSED, SCRATCH, STORE, TYPES, WRONG};

pub const ROOT: Page = Page {
    description: &[
        "iotrail traces each asynchronous I/O from submission until the application reaps its completion. It reports the delivery path and the delay of each completion, and measures whether another flag, core or interface is faster.",
        "It traces running programs (trace, top), measures its own loads (bench, run, net), compares settings (run, compare), and runs each of these on another kernel (lab).",
        "The probes are BTF tracepoints: they need no kernel module, kprobes or debug build. Loading them needs root, or the capabilities \
         CAP_BPF, CAP_PERFMON and CAP_SYSLOG. Without them iotrail measures its own loads, and names the missing metrics.",
        "A user who runs iotrail with these capabilities can trace every process, root's included. Set them (setcap) only on a binary with mode 0750, whose group contains only users who may do so.",
        "The first line of every result is the answer. --full prints all details; --json prints machine-readable output.",
    ],
    examples: &[
        ("iotrail check", "Print the capabilities of this machine."),
        ("iotrail bench --rw nop", "Measure a load that needs no device."),
        ("iotrail run coop --quick", "Run a two-minute experiment, and print its answer."),
        ("iotrail trace -- fio job.fio", "Report where a program's I/O time goes, and what to change."),
    ],
    exit: &[
        ("0", "Done. trace -- CMD and lab run -- CMD exit with the status of CMD."),
        ("1", "A finding or verdict matches --fail-on or a similar option, or a run was interrupted."),
        WRONG,
        REFUSED,
        ("4", "A gate (--fail-on, --fail-on-unmet) could not be evaluated. The reason is printed on standard error."),
        ("5", "Data corruption: a load with --verify read back data that differs from the data written."),
        FAULT,
    ],
    files: &[STORE, JOURNAL, SCRATCH, LAB_CACHE],
    see_also: &["io_uring(7)", "aio(7)", "epoll(7)", "fio(1)", "bpftrace(8)"],
};

pub const CHECK: Page = Page {
    description: &[
        "Tries everything that iotrail uses on this machine with your privileges: probes, ring flags, interfaces, clocks, and the target's queues and interrupts. For each missing item it prints what is lost and how to enable it.",
        "Nothing is changed. Missing items are not an error: the exit status is 0 with or without them.",
    ],
    examples: &[
        ("iotrail check", "Check this machine, with the disk of the current directory as the target."),
        ("iotrail check --file /dev/nvme0n1", "Check a drive: its queues, poll queues, scheduler and interrupts."),
        ("iotrail check --verbose 2>verifier.log", "Save the verifier log of probes that the kernel rejects."),
        ("iotrail check --json >check.json", "Write the items as JSON, for a script."),
    ],
    exit: &[
        ("0", "The report was printed, with or without missing items."),
        ("2", "Usage error, or --file names a missing file."),
        REFUSED,
        FAULT,
    ],
    files: &[
        TYPES,
        ("/proc/kallsyms", "Kernel function addresses, for IPI call sites and profiles."),
        ("/proc/interrupts, /sys/block", "The target's interrupts, queues and scheduler."),
    ],
    see_also: &["iotrail(1)", "iotrail-lab(1)", "capabilities(7)", "bpf(2)"],
};

pub const LIST: Page = Page {
    description: &[
        "Lists the built-in experiments, and every run and fleet in the store with its number, experiment, start time and progress. A store that does not exist yet is treated as empty, and is not created.",
        "--salvage copies the readable part of a damaged store to a new one. The damaged file is only read.",
    ],
    examples: &[
        ("iotrail list", "List experiments and stored runs."),
        ("iotrail list --json >list.json", "Write both lists as JSON."),
        ("iotrail list --salvage new.db --store broken.db", "Copy the readable part of a damaged store."),
    ],
    exit: PLAIN,
    files: &[STORE, ("NEW of --salvage", "The new store. It must not exist.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-report(1)", "iotrail-compare(1)"],
};

pub const RESTORE: Page = Page {
    description: &[
        "Restores host settings that a killed run left changed: scheduler, queue depth, interrupt affinity, governor, poll queues, CPU quota. Otherwise, a run restores them itself when it ends.",
        "A setting that another program has changed since then is left alone unless --force is specified.",
    ],
    examples: &[
        ("iotrail restore", "Restore the changed settings; print each of them."),
        ("iotrail restore --force", "Also restore settings that another program has changed since."),
        ("iotrail restore --json", "Print the settings as JSON."),
    ],
    exit: &[
        ("0", "All settings are as they were before the run."),
        ("1", "Another program has changed a setting since then; iotrail left it alone."),
        WRONG,
        ("3", "A setting could not be restored, or another iotrail process holds the host-settings lock."),
        FAULT,
    ],
    files: &[JOURNAL, ("~/.local/state/iotrail/settings.lock", "The lock of the process that changes settings.")],
    see_also: &["iotrail(1)", "iotrail-run(1)"],
};

pub const COMPLETIONS: Page = Page {
    description: &[
        "Prints a shell completion script for commands, options, option values, experiments, stored runs and their cells. `make install` and the Debian package install it for bash, zsh and fish.",
    ],
    examples: &[
        ("source <(iotrail completions bash)", "Enable completion in the current bash."),
        ("iotrail completions zsh >~/.zfunc/_iotrail", "Install for zsh, where ~/.zfunc is in $fpath."),
        ("iotrail completions fish >~/.config/fish/completions/iotrail.fish", "Install for fish."),
    ],
    exit: PLAIN,
    files: &[
        ("/usr/local/share/bash-completion/completions/iotrail", "The installed script for bash."),
        ("/usr/local/share/zsh/site-functions/_iotrail", "The installed script for zsh."),
        ("/usr/local/share/fish/vendor_completions.d/iotrail.fish", "The installed script for fish."),
    ],
    see_also: &["iotrail(1)", "bash(1)"],
};

pub const MAN: Page = Page {
    description: &[
        "Writes manual pages for iotrail and each of its commands to a directory, replacing older iotrail pages. If another file has the name of a page, nothing is written unless --force is specified.",
    ],
    examples: &[
        ("iotrail man ~/.local/share/man/man1", "Install the pages for one user."),
        ("iotrail man /tmp/pages && man -l /tmp/pages/iotrail-run.1", "Read a page without installing it."),
    ],
    exit: &[
        DONE,
        ("2", "Usage error, DIR cannot be written, or a file that is not an iotrail page has a page's name."),
        REFUSED,
        FAULT,
    ],
    files: &[("DIR/iotrail.1, DIR/iotrail-COMMAND.1", "The pages. Either all pages are written, or none.")],
    see_also: &["iotrail(1)", "man(1)", "manpath(1)"],
};
