//! Pages of the program itself, and of the commands about this machine and what iotrail keeps on it.

use super::page::{DONE, FAULT, JOURNAL, LAB_CACHE, PLAIN, Page, REFUSED, SCRATCH, STORE, TYPES, WRONG};

pub const ROOT: Page = Page {
    description: &[
        "iotrail traces each asynchronous I/O from submission to the application. It reports the delivery path and the delay of each completion, and measures whether another flag, core or interface is faster.",
        "It traces running programs (trace, top), measures its own loads (bench, run, net), compares settings (run, compare), and runs each of these on another kernel (lab).",
        "The probes are BTF tracepoints: they need no kernel module, no kprobe and no debug build. Loading them needs root, or the capabilities \
         CAP_BPF, CAP_PERFMON and CAP_SYSLOG. Without them iotrail measures its own loads, and names the missing metrics.",
        "A user who runs iotrail with these capabilities can trace every process, root's included. Set them (setcap) only on a program of mode 0750 \
         whose group may do so.",
        "The first line of every result is the answer. --full prints the rest, --json is for programs.",
    ],
    examples: &[
        ("iotrail check", "Print the capabilities of this machine."),
        ("iotrail bench --rw nop", "Measure a load that needs no device."),
        ("iotrail run coop --quick", "Run an experiment: two minutes, and its answer."),
        ("iotrail trace -- fio job.fio", "Report where a program's I/O time goes, and what to change."),
    ],
    exit: &[
        ("0", "Done. trace -- CMD and lab run -- CMD exit with the status of CMD."),
        ("1", "A finding or verdict that the caller asked to fail on, or a run that was stopped before its end."),
        WRONG,
        REFUSED,
        ("4", "A gate (--fail-on, --fail-on-unmet) could not be evaluated. Standard error has the reason."),
        ("5", "A load with --verify read data that differs from the written data."),
        FAULT,
    ],
    files: &[STORE, JOURNAL, SCRATCH, LAB_CACHE],
    see_also: &["io_uring(7)", "aio(7)", "epoll(7)", "fio(1)", "bpftrace(8)"],
};

pub const CHECK: Page = Page {
    description: &[
        "Tries what iotrail uses on this machine with these privileges: probes, ring flags, interfaces, clocks, and the target's queues and \
         interrupts. For each missing item it prints what is lost without it and what restores it.",
        "Nothing is changed. Missing items are not an error: the exit status is 0 in any case.",
    ],
    examples: &[
        ("iotrail check", "Check this machine, with the disk of the current directory as the target."),
        ("iotrail check --file /dev/nvme0n1", "Check a drive: its queues, poll queues, scheduler and interrupts."),
        ("iotrail check --verbose 2>verifier.log", "Keep the verifier's log of probes that the kernel refuses."),
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
        ("/proc/kallsyms", "Addresses of kernel functions, for call sites of IPIs and for profiles."),
        ("/proc/interrupts, /sys/block", "The target's interrupts, queues and scheduler."),
    ],
    see_also: &["iotrail(1)", "iotrail-lab(1)", "capabilities(7)", "bpf(2)"],
};

pub const LIST: Page = Page {
    description: &[
        "Lists the built-in experiments, and every run and every fleet of the store: its number, experiment, start, and how much of it is measured. A store that \
         does not exist yet is treated as empty, and is not created.",
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
        "Restores host settings that a killed run left changed: scheduler, queue depth, interrupt affinity, governor, poll queues, CPU quota. A run \
         that ends in any other way restores them itself.",
        "A setting that another program has changed since is not modified, except with --force.",
    ],
    examples: &[
        ("iotrail restore", "Restore the changed settings; print each of them."),
        ("iotrail restore --force", "Also restore settings that another program has changed since."),
        ("iotrail restore --json", "Print the settings as JSON."),
    ],
    exit: &[
        ("0", "Every setting is as it was before the run."),
        ("1", "Another program has changed a setting since. iotrail does not modify it."),
        WRONG,
        ("3", "A setting could not be restored, or another iotrail process holds the host-settings lock."),
        FAULT,
    ],
    files: &[JOURNAL, ("~/.local/state/iotrail/settings.lock", "The lock of the process that changes settings.")],
    see_also: &["iotrail(1)", "iotrail-run(1)"],
};

pub const COMPLETIONS: Page = Page {
    description: &[
        "Prints a script by which a shell completes commands, options, their values, experiments, stored runs and their cells. `make install` and the \
         Debian package install it for bash, zsh and fish.",
    ],
    examples: &[
        ("source <(iotrail completions bash)", "Complete in this bash."),
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
        "Writes a manual page for iotrail and each of its commands into a directory. Older pages of iotrail there are replaced. If another file has a page's name, nothing is written, except with --force.",
    ],
    examples: &[
        ("iotrail man ~/.local/share/man/man1", "Install the pages for one user."),
        ("iotrail man /tmp/pages && man -l /tmp/pages/iotrail-run.1", "Read one without installing it."),
    ],
    exit: &[
        DONE,
        ("2", "Usage error, DIR cannot be written, or a file that is not an iotrail page has a page's name."),
        REFUSED,
        FAULT,
    ],
    files: &[("DIR/iotrail.1, DIR/iotrail-COMMAND.1", "The pages: all of them are written, or none.")],
    see_also: &["iotrail(1)", "man(1)", "manpath(1)"],
};
