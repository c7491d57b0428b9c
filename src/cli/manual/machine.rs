//! Pages of the lab.

use super::page::{Entry, FAULT, LAB_CACHE, PLAIN, Page, REFUSED, STORE, WRONG};

const INSTALLED: Entry = ("/boot/vmlinuz-RELEASE, /lib/modules/RELEASE", "Installed kernels (read-only).");

pub const LAB: Page = Page {
    description: &[
        "Runs a command in a virtual machine with a chosen kernel and NVMe drives. The command sees this machine's files but cannot change them. Runs that it stores are added to the store on this machine.",
        "It needs QEMU, or apt to download QEMU into a cache. Nothing is installed, and root is not required.",
    ],
    examples: &[
        ("iotrail lab kernels", "List the kernels that can be booted."),
        ("iotrail lab fetch 6.12", "Fetch a kernel in advance."),
        ("iotrail lab run --kernel 6.12 -- iotrail check", "Boot the kernel, and run a command in it."),
    ],
    exit: &[("0", "Done. iotrail lab run exits with the status of its command."), WRONG, REFUSED, FAULT],
    files: &[LAB_CACHE, INSTALLED],
    see_also: &[
        "iotrail(1)",
        "iotrail-lab-run(1)",
        "iotrail-lab-kernels(1)",
        "iotrail-lab-fetch(1)",
        "qemu-system-x86_64(1)",
    ],
};

pub const RUN: Page = Page {
    description: &[
        "Boots a kernel in QEMU, with KVM if possible and otherwise under emulation, and runs a command there as root. The command sees this \
         machine's files, working directory and environment. Its changes to files stay in guest memory.",
        "Runs that the command stores are added to the host's store with new numbers. Files that it writes to $IOTRAIL_LAB_OUT are copied to the --artifacts directory.",
        "Under emulation, counts (interrupts, system calls, kicks, delivery paths) are valid, but times are meaningless.",
        "If the guest does not boot under KVM within 20 s, iotrail falls back to emulation and records the failure for this host and kernel in the lab's cache. --accel kvm retries KVM, and clears the record if the guest boots.",
        "If --arch names another architecture, the machine is emulated, and the command sees a different root file system: the --root directory, or otherwise a small root built from Debian packages. --program names an iotrail binary built for that architecture.",
        "Standard input, output and error are connected to the command. Ctrl-C and SIGTERM are forwarded to it; if it has not exited after 20 s, the machine is stopped.",
    ],
    examples: &[
        ("iotrail lab run -- uname -r", "Boot the newest local kernel."),
        ("iotrail lab run --kernel 6.1 -- iotrail check", "Check what another kernel allows."),
        (
            "iotrail lab run --nvme queues=2,poll=1 -- iotrail run polling --quick",
            "Run an experiment on a drive with a poll queue.",
        ),
        ("iotrail lab run --cpus 4 --sockets 2 -- iotrail trace -- ./app", "Trace a program on a two-socket machine."),
        (
            "iotrail lab run --arch arm64 --program ./iotrail-arm64 -- iotrail check",
            "Check what an arm64 kernel allows.",
        ),
        ("iotrail lab run --artifacts out -- sh -c 'dmesg >$IOTRAIL_LAB_OUT/log'", "Copy a file from the guest."),
    ],
    exit: &[
        ("2", "Usage error or invalid input; the machine was not booted."),
        ("3", "The machine could not be booted, or was stopped because of --timeout or because it did not respond."),
        FAULT,
        (
            "other",
            "The exit status of COMMAND, or 128 + the signal that killed it; 127 if it was not found, 126 if it could not be run. If COMMAND itself exits with 2 or 3, iotrail prints no line on standard error.",
        ),
    ],
    files: &[STORE, LAB_CACHE, INSTALLED, ("DIR of --artifacts", "Files that the command wrote to $IOTRAIL_LAB_OUT.")],
    see_also: &["iotrail-lab(1)", "iotrail-run(1)", "iotrail-lab-kernels(1)", "qemu-system-x86_64(1)"],
};

pub const KERNELS: Page = Page {
    description: &[
        "Lists the kernels that iotrail-lab-run(1) can boot, newest first: installed, previously fetched, or available from Debian's archive. Without network access, it lists only local kernels, and reports this on standard error.",
    ],
    examples: &[
        ("iotrail lab kernels", "List releases, and where each is."),
        ("iotrail lab kernels --json", "Print the list as JSON."),
    ],
    exit: PLAIN,
    files: &[LAB_CACHE, INSTALLED],
    see_also: &["iotrail-lab(1)", "iotrail-lab-run(1)", "iotrail-lab-fetch(1)"],
};

pub const FETCH: Page = Page {
    description: &[
        "Fetches a Debian kernel with its modules into the cache, and prints its release. A cached kernel is not fetched again.",
    ],
    examples: &[
        ("iotrail lab fetch 6.12", "Fetch the newest 6.12."),
        ("iotrail lab fetch newest", "Fetch the newest kernel of all."),
    ],
    exit: &[
        ("0", "The kernel is in the cache."),
        ("2", "Usage error, or no such kernel."),
        ("3", "The archive is unreachable, or the cache is not writable."),
        FAULT,
    ],
    files: &[LAB_CACHE],
    see_also: &["iotrail-lab(1)", "iotrail-lab-kernels(1)", "iotrail-lab-run(1)"],
};
