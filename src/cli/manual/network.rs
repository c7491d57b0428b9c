//! Pages of the network load.

use super::page::{ANSWERED, DONE, FAULT, ON_NODE, Page, REFUSED, STOPPED, STORE, STORE_ASKED, SUBMITTED, WRONG};

pub const NET: Page = Page {
    description: &[
        "Measures a network load: a server answers requests through epoll or io_uring, and a sender checks every byte of every answer. Both ends \
         run on this machine or on two nodes of a cluster (bench), or on two machines (serve and load).",
        "One measurement has both sides: the sender's latency and throughput, the server's CPU time, system calls, interrupts and delivery paths.",
    ],
    examples: &[
        ("iotrail net bench --engine epoll,io_uring", "Compare the engines, both ends on this machine."),
        ("iotrail net serve 10.0.0.2:7000 --engine io_uring", "Serve on one machine ..."),
        ("iotrail net load 10.0.0.2:7000 --connections 64", "... and measure from another."),
    ],
    exit: &[DONE, ("1", "A comparison of net bench was stopped before its end."), WRONG, REFUSED, FAULT],
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
        "Answers requests through epoll or io_uring, and prints its activity every second. Each thread has an epoll instance or a ring of its own.",
        "In addition to the address it listens on a control address, the next port, where a sender agrees on the measurement. There is no encryption and \
         no password: use both only in a trusted network.",
        "The server runs until Ctrl-C or for --duration, and then prints a table of its complete run.",
    ],
    examples: &[
        ("iotrail net serve 127.0.0.1:7000", "Serve through io_uring until Ctrl-C."),
        ("iotrail net serve 127.0.0.1:7000 --engine epoll --duration 60", "Serve through epoll for a minute."),
        (
            "iotrail net serve unix:/tmp/s --ring defer_taskrun,single_issuer",
            "Serve on a UNIX socket, with ring flags.",
        ),
        (
            "iotrail net serve 127.0.0.1:7000 --json >served.json",
            "Write the server's totals as JSON at the end; the seconds go to standard error.",
        ),
    ],
    exit: &[("0", "The server ended by Ctrl-C, SIGTERM or --duration."), WRONG, REFUSED, FAULT],
    files: &[("PATH, PATH.control", "The sockets of unix:PATH. They are removed at the end.")],
    see_also: &["iotrail-net(1)", "iotrail-net-load(1)", "iotrail-net-bench(1)", "epoll(7)", "io_uring(7)"],
};

pub const LOAD: Page = Page {
    description: &[
        "Sends requests to a server and checks every answer. With an iotrail server it prints both sides of one measurement: throughput and \
         latency of the sender; CPU time, system calls, interrupts and delivery paths of the server.",
        "Without --rate each connection keeps --window requests in flight (closed loop). With --rate requests have intended times, and latency counts \
         from these (open loop).",
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
            "Measure a server of another program; check only lengths.",
        ),
    ],
    exit: &[
        ("0", "The load was measured."),
        WRONG,
        (
            "3",
            "No server answered, the connection or the server broke off (the measurement is printed, not stored), or the machine does not allow it.",
        ),
        FAULT,
    ],
    files: &[STORE_ASKED],
    see_also: &["iotrail-net(1)", "iotrail-net-serve(1)", "iotrail-net-bench(1)", "iotrail-compare(1)"],
};

pub const BENCH: Page = Page {
    description: &[
        "Measures a server and a sender, both on this machine: in two network namespaces with a veth pair between them if iotrail may create them, otherwise over \
         loopback. --between chooses.",
        "With one value per option it is one measurement. With several for --engine, --ring, --receive, --connections or --window it is an \
         experiment: every combination is measured in random blocks, stored and compared, as iotrail-run(1) does.",
        "With --slurm the server runs on one node of a Slurm cluster and the sender on another, as one exclusive job, and their measurements are added \
         to the store. A lost node is requeued once; iotrail-run(1) describes it.",
        "Without --slurm both ends share the machine. --server-cpus and --sender-cpus assign CPUs to each; a note reports whether the sender limits the rate.",
    ],
    examples: &[
        ("iotrail net bench --engine epoll --connections 64", "Measure one server once."),
        ("iotrail net bench --engine epoll,io_uring --quick", "Compare epoll and io_uring."),
        ("iotrail net bench --ring coop_taskrun --ring defer_taskrun,single_issuer", "Compare two sets of ring flags."),
        ("iotrail net bench --connections 4,64,256 --plan", "Print the planned measurements and their duration."),
        (
            "iotrail net bench --server-cpus 0 --sender-cpus 1 --json >net.json",
            "Give each end its CPU; write the measurement as JSON.",
        ),
        (
            "iotrail net bench --slurm --nodes n1,n2 --engine epoll,io_uring",
            "Compare the engines on node n1, with the sender on n2.",
        ),
    ],
    exit: &[
        ("0", "Every measurement was made."),
        (
            "1",
            "Several combinations, stopped before the end; or with --slurm, an incomplete measurement. The measurements are stored and printed.",
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
        ("$TMPDIR or /tmp", "The directory for the socket of --between unix. The socket is removed at the end."),
        SUBMITTED,
        ON_NODE,
    ],
    see_also: &["iotrail-net(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-report(1)", "veth(4)"],
};

pub const ADVISE: Page = Page {
    description: &[
        "Searches for the best configuration of iotrail's own server for the load that the options describe: epoll or io_uring, ring flags, ways \
         to receive, registration, the number of completions per wait, threads and their CPUs. The server's options are the current configuration; \
         the sender's options do not change.",
        "The search, its end and its answer are those of iotrail-advise(1): candidates are measured in blocks with both ends on this machine, and \
         the recommended one is measured again against the current configuration, in fresh blocks.",
        "Settings that the server's rules forbid, or that are useless between two ends on one machine, are not candidates; --plan prints them with the reason.",
        "By requests per second a sender at its limit hides the server's limit, and the answer reports it; --objective cpu compares the \
         server's CPU time per request.",
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
        ("$TMPDIR or /tmp", "The directory for the socket of --between unix. The socket is removed at the end."),
    ],
    see_also: &[
        "iotrail-advise(1)",
        "iotrail-net-bench(1)",
        "iotrail-net-serve(1)",
        "iotrail-report(1)",
        "io_uring(7)",
    ],
};
