//! Pages of the lab.

use super::page::{Entry, FAULT, LAB_CACHE, PLAIN, Page, REFUSED, STORE, WRONG};

const INSTALLED: Entry = ("/boot/vmlinuz-RELEASE, /lib/modules/RELEASE", "Installed kernels. They are only read.");

pub const LAB: Page = Page {
    description: &[
        "Runs any command in a virtual machine with a chosen kernel and NVMe drives. The command sees this machine's files and cannot change them; \
         runs that it stores are added to the store here.",
        "It needs QEMU, or apt to fetch it into a cache. Nothing is installed, and root is not needed.",
    ],
    examples: &[
        ("iotrail lab kernels", "List the kernels that can be booted."),
        ("iotrail lab fetch 6.12", "Fetch one in advance."),
        ("iotrail lab run --kernel 6.12 -- iotrail check", "Boot it, and run a command there."),
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
        "Boots a kernel in QEMU, with KVM if it runs the kernel and otherwise by emulation, and runs a command there as root. The command sees this \
         machine's files, working directory and environment. Its changes to files stay in the guest's memory.",
        "Runs that the command stores are added to the store here with new numbers. Files that it writes to $IOTRAIL_LAB_OUT are copied to the directory of \
         --artifacts.",
        "Under emulation counts are valid (interrupts, system calls, kicks, delivery paths), and times are meaningless.",
        "If KVM does not bring the guest up within 20 s, iotrail emulates it, and remembers the failure for this host and kernel in the lab's cache. \
         --accel kvm tries KVM again, and forgets the failure if the guest comes up.",
        "With --arch of another processor the machine is emulated, and the command sees other files: the directory of --root, otherwise a small root of \
         Debian's packages. --program names an iotrail built for that processor.",
        "Standard input, output and error are the command's. Ctrl-C and SIGTERM reach it; after 20 s the machine is ended.",
    ],
    examples: &[
        ("iotrail lab run -- uname -r", "Boot the newest local kernel."),
        ("iotrail lab run --kernel 6.1 -- iotrail check", "Print what another kernel allows."),
        (
            "iotrail lab run --nvme queues=2,poll=1 -- iotrail run polling --quick",
            "Run an experiment on a drive with a poll queue.",
        ),
        (
            "iotrail lab run --cpus 4 --sockets 2 -- iotrail trace -- ./app",
            "Trace a program on a machine of two sockets.",
        ),
        (
            "iotrail lab run --arch arm64 --program ./iotrail-arm64 -- iotrail check",
            "Print what an arm64 kernel allows.",
        ),
        ("iotrail lab run --artifacts out -- sh -c 'dmesg >$IOTRAIL_LAB_OUT/log'", "Copy a file from the guest."),
    ],
    exit: &[
        ("2", "Usage error or wrong input: the machine was not booted."),
        ("3", "The machine could not be booted, or was ended by --timeout or because it did not respond."),
        FAULT,
        (
            "other",
            "The exit status of COMMAND: 128 + the signal that killed it; 127 if it was not found, 126 if it could not be run. \
                   COMMAND's own 2 and 3 look like those above, which come with a line on standard error.",
        ),
    ],
    files: &[STORE, LAB_CACHE, INSTALLED, ("DIR of --artifacts", "Files that the command left in $IOTRAIL_LAB_OUT.")],
    see_also: &["iotrail-lab(1)", "iotrail-run(1)", "iotrail-lab-kernels(1)", "qemu-system-x86_64(1)"],
};

pub const KERNELS: Page = Page {
    description: &[
        "Lists the kernels that iotrail-lab-run(1) can boot, the newest first: installed here, fetched before, or available in Debian's registry. \
         Without a network it lists only local kernels, and reports that on standard error.",
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
        "Fetches a Debian kernel with its modules into the cache, and prints its release. A kernel that is in the cache is not fetched again.",
    ],
    examples: &[
        ("iotrail lab fetch 6.12", "Fetch the newest 6.12."),
        ("iotrail lab fetch newest", "Fetch the newest kernel of all."),
    ],
    exit: &[
        ("0", "The kernel is in the cache."),
        ("2", "Usage error, or there is no such kernel."),
        ("3", "The registry cannot be reached, or the cache cannot be written."),
        FAULT,
    ],
    files: &[LAB_CACHE],
    see_also: &["iotrail-lab(1)", "iotrail-lab-kernels(1)", "iotrail-lab-run(1)"],
};
