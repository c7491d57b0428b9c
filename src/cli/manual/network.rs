//! Pages of the network load.

use super::page::{ANSWERED, DONE, FAULT, ON_NODE, Page, REFUSED, STOPPED, STORE, STORE_ASKED, SUBMITTED, WRONG};

pub const NET: Page = Page {
    description: &[
        "Measures a network load: a server answers requests with epoll or io_uring, and a sender verifies every byte of every response. Both ends run on this machine or on two cluster nodes (bench), or on two machines (serve and load).",
        "A measurement covers both sides: the sender's latency and throughput, and the server's CPU time, system calls, interrupts and delivery paths.",
    ],
    examples: &[
        ("iotrail net bench --engine epoll,io_uring", "Compare the engines, both ends on this machine."),
        ("iotrail net serve 10.0.0.2:7000 --engine io_uring", "Serve on one machine ..."),
        ("iotrail net load 10.0.0.2:7000 --connections 64", "... and measure from another."),
    ],
    exit: &[DONE, ("1", "The load or a comparison was interrupted."), WRONG, REFUSED, FAULT],
    files: &[STORE],
    see_also: &[
        "iotrail(1)",
        "iotrail-net-bench(1)",
        "iotrail-net-serve(1)",
        "iotrail-net-load(1)",
        "epoll(7)",
        "io_uring(7)",
    ],
};

pub const SERVE: Page = Page {
    description: &[
        "Answers requests with epoll or io_uring, and prints its activity every second. Each thread has its own epoll instance or ring.",
        "The server also listens on a control address, the next port, where senders agree on the measurement. Neither connection is encrypted or authenticated: use both only in a trusted network.",
        "The server runs until Ctrl-C or for --duration, and then prints a table for the whole run.",
    ],
    examples: &[
        ("iotrail net serve 127.0.0.1:7000", "Serve with io_uring until Ctrl-C."),
        ("iotrail net serve 127.0.0.1:7000 --engine epoll --duration 60", "Serve with epoll for one minute."),
        (
            "iotrail net serve unix:/tmp/s --ring defer_taskrun,single_issuer",
            "Serve on a UNIX socket, with ring flags.",
        ),
        (
            "iotrail net serve 127.0.0.1:7000 --json >served.json",
            "Write the server's totals as JSON at exit; the per-second lines go to standard error.",
        ),
    ],
    exit: &[("0", "The server was stopped by Ctrl-C, SIGTERM or --duration."), WRONG, REFUSED, FAULT],
    files: &[("PATH, PATH.control", "The sockets of unix:PATH. They are removed at exit.")],
    see_also: &["iotrail-net(1)", "iotrail-net-load(1)", "iotrail-net-bench(1)", "epoll(7)", "io_uring(7)"],
};

pub const LOAD: Page = Page {
    description: &[
        "Sends requests to a server and verifies every response. With an iotrail server it prints both sides of the measurement: the sender's throughput and latency, and the server's CPU time, system calls, interrupts and delivery paths.",
        "Without --rate each connection keeps --window requests in flight (closed loop). With --rate, each request has an intended send time, and latency counts from that time (open loop).",
    ],
    examples: &[
        ("iotrail net load 127.0.0.1:7000", "Measure a server for five seconds, over four connections."),
        ("iotrail net load 127.0.0.1:7000 --connections 64 --window 2", "Keep 128 requests in flight."),
        (
            "iotrail net load 127.0.0.1:7000 --rate 10000 --json >open.json",
            "Send at a rate; write the measurement as JSON.",
        ),
        (
            "iotrail net load 127.0.0.1:7000 --check size --control none",
            "Measure another program's server; check only lengths.",
        ),
    ],
    exit: &[
        ("0", "The load was measured."),
        STOPPED,
        WRONG,
        (
            "3",
            "No server answered; the connection broke or the server exited (the measurement is printed but not stored); or the machine does not allow it.",
        ),
        FAULT,
    ],
    files: &[STORE_ASKED],
    see_also: &["iotrail-net(1)", "iotrail-net-serve(1)", "iotrail-net-bench(1)", "iotrail-compare(1)"],
};

pub const BENCH: Page = Page {
    description: &[
        "Measures a server and a sender, both on this machine: in two network namespaces connected by a veth pair if iotrail may create them, otherwise over loopback. --between selects the connection.",
        "With one value per option, it makes a single measurement. With several values for --engine, --ring, --receive, --connections or --window, it runs an experiment: every combination is measured in randomised blocks, stored and compared, as in iotrail-run(1).",
        "With --slurm, the server runs on one node of a Slurm cluster and the sender on another, in one exclusive job, and the measurements are added to the store. After losing a node, the job is requeued once; see iotrail-run(1).",
        "Without --slurm both ends share the machine. --server-cpus and --sender-cpus assign CPUs to each; a note reports whether the sender limits the rate.",
    ],
    examples: &[
        ("iotrail net bench --engine epoll --connections 64", "Measure one server once."),
        ("iotrail net bench --engine epoll,io_uring --quick", "Compare epoll and io_uring."),
        ("iotrail net bench --ring coop_taskrun --ring defer_taskrun,single_issuer", "Compare two sets of ring flags."),
        ("iotrail net bench --connections 4,64,256 --plan", "Print the planned measurements and their duration."),
        (
            "iotrail net bench --server-cpus 0 --sender-cpus 1 --json >net.json",
            "Give each end its own CPU; write the measurement as JSON.",
        ),
        (
            "iotrail net bench --slurm --nodes n1,n2 --engine epoll,io_uring",
            "Compare the engines on node n1, with the sender on n2.",
        ),
    ],
    exit: &[
        ("0", "The run is complete. The answer names combinations that could not be measured."),
        (
            "1",
            "The measurement or experiment was interrupted, or, with --slurm, a measurement is incomplete. What was measured is printed, and stored if there is a store.",
        ),
        WRONG,
        REFUSED,
        FAULT,
    ],
    files: &[
        (
            "~/.local/state/iotrail/iotrail.db",
            "The store: several combinations are always stored, one measurement only with --store.",
        ),
        ("$TMPDIR or /tmp", "The directory for the socket of --between unix. The socket is removed at exit."),
        SUBMITTED,
        ON_NODE,
    ],
    see_also: &["iotrail-net(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-report(1)", "veth(4)"],
};

pub const ADVISE: Page = Page {
    description: &[
        "Searches for the best configuration of iotrail's own server for the load that the options describe: epoll or io_uring, ring flags, receive methods, registration, completions per wait, threads and their CPUs. The server options are the current configuration; the sender options do not change.",
        "The search works as in iotrail-advise(1): candidates are measured in blocks with both ends on this machine, and the recommended candidate is measured again against the current configuration in new blocks.",
        "Settings that the server's rules forbid, or that are useless between two ends on one machine, are not candidates; --plan prints them with the reason.",
        "If the objective is requests per second, a sender at its limit hides the server's limit; the answer reports this. --objective cpu compares the server's CPU time per request instead.",
    ],
    examples: &[
        ("iotrail advise net --connections 64", "Search for the most requests per second."),
        ("iotrail advise net --objective cpu --server-cpus 0 --sender-cpus 1", "Search for the least CPU time."),
        ("iotrail advise net --engine epoll --constraint 'p99<2ms'", "Start from an epoll server, with a limit."),
        ("iotrail advise net --between unix --plan", "Print the candidates, and the excluded settings."),
    ],
    exit: &[ANSWERED, STOPPED, WRONG, REFUSED, FAULT],
    files: &[
        STORE,
        ("$TMPDIR or /tmp", "The directory for the socket of --between unix. The socket is removed at exit."),
    ],
    see_also: &[
        "iotrail-advise(1)",
        "iotrail-net-bench(1)",
        "iotrail-net-serve(1)",
        "iotrail-report(1)",
        "io_uring(7)",
    ],
};
