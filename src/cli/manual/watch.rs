//! Pages of the commands that watch other programs.

use super::page::{Entry, FAULT, PLAIN, Page, REFUSED, STORE, TYPES, WRONG};

const RECORDING: Entry = (
    "FILE of --record",
    "The recording, for iotrail-explain(1) and iotrail-export(1). It is named from its first line on.",
);

pub const TRACE: Page = Page {
    description: &[
        "Traces the asynchronous I/O of a command, of processes, or of every program: io_uring, native aio and POSIX AIO. The program needs no \
         change. Its children are traced too.",
        "The first line is the answer: the main finding with its number, and what to change. Throughput, latency, the division of the time and the delivery paths of the completions follow. --full adds each ring, file, opcode and interrupt.",
        "Counts cover every request. Latencies, stages and order come from requests that are traced end to end: all of them up to 20,000 per second per CPU, 1 in 100 beyond. --one-in sets another rate.",
        "After ten seconds iotrail measures the cost of the probes. If they cost the program more than 3 % of its CPU time, the trace continues in \
         windows. Their counts are expanded to the time between them; an estimate is printed as ~16.2, or as – if its interval is wide. \
         --exact traces everything.",
        "The trace ends with the last process of the command, with the processes of -p, at --duration, or on Ctrl-C. Programs that were running before continue.",
        "Each trace is stored with a number (t1, t2 …). iotrail report t12 prints it again, in full or as a page; iotrail explain t12 shows its \
         slowest requests. The store keeps at most 500 traces and 256 MiB of them. If iotrail is killed, the last checkpoint of the trace remains, \
         marked as partial. --redact stores the command without its arguments, --no-store stores nothing.",
        "The probes need root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG.",
    ],
    examples: &[
        ("iotrail trace -- fio job.fio", "Trace a program and its children from start to end."),
        ("iotrail trace -p $(pgrep -n mariadbd) -d 10", "Trace a running server for ten seconds."),
        ("iotrail trace -a -d 10 --json >trace.json", "Trace every program; print the result as JSON."),
        ("iotrail trace --slowest 5 -- fio job.fio", "Print the five slowest requests, each as a timeline."),
        (
            "iotrail trace --record r.iotrail -- fio job.fio",
            "Record every request, for iotrail explain and iotrail export.",
        ),
        ("iotrail trace --windows 10ms/1s -a -d 60", "Attach the probes 1 % of the time."),
        (
            "iotrail trace --fail-on kick_storm -- fio job.fio",
            "Exit 1 if the finding is present, as a test in a script.",
        ),
        ("iotrail trace --metrics 9464 -a", "Serve counters to Prometheus until Ctrl-C."),
    ],
    exit: &[
        (
            "0",
            "The trace ended, and no status below applies. A command that was sent SIGTERM at the end of --duration counts as done.",
        ),
        ("1", "A finding that --fail-on names is present."),
        WRONG,
        REFUSED,
        ("4", "A finding that --fail-on names could not be evaluated. Standard error has the reason."),
        FAULT,
        (
            "other",
            "The exit status of CMD, or 128 + the signal that killed it. CMD's own 1 to 4 look like those above; --json has CMD's status in subject.command.exit_status.",
        ),
    ],
    files: &[
        STORE,
        RECORDING,
        (
            "FILE of --flamegraph, --folded",
            "Kernel stacks of --profile. Like a recording they are replaced only with --force.",
        ),
        TYPES,
    ],
    see_also: &["iotrail(1)", "iotrail-top(1)", "iotrail-explain(1)", "iotrail-export(1)", "io_uring(7)", "aio(7)"],
};

pub const TOP: Page = Page {
    description: &[
        "Shows the activity of every process and ring per interval: requests, completions and bytes per second, latencies, delivery paths, CPU time. On a terminal the screen is redrawn; otherwise each interval is a block of lines.",
        "The last line of the screen lists the keys; ? explains them. q or Ctrl-C ends it, and the programs continue.",
        "The probes need root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG.",
    ],
    examples: &[
        ("iotrail top", "Trace every program that does asynchronous I/O."),
        ("iotrail top -p $(pgrep -n mariadbd) -i 5", "Trace one server, with a new screen every five seconds."),
        ("iotrail top -n 10 --json >top.jsonl", "Write ten intervals of one second, one JSON object per line."),
    ],
    exit: &[
        ("0", "The intervals are over, the traced processes have exited, or Ctrl-C or q ended it."),
        WRONG,
        REFUSED,
        FAULT,
    ],
    files: &[TYPES],
    see_also: &["iotrail(1)", "iotrail-trace(1)", "top(1)", "pidstat(1)"],
};

pub const MONITOR: Page = Page {
    description: &[
        "Runs continuously, as a service. It samples the kernel's state of threads, rings and cgroups, without a probe, and captures stalls with their cause. iotrail stalls lists them.",
        "The budget is a share of the CPU time of all CPUs. The time between two samples follows from it. If the monitor costs more, it sheds \
         traces, windows, kernel stacks and samples, in this order; each step is logged and exported.",
        "After a trigger it traces the requests of that process for some seconds, if the budget allows it. In windows it counts requests, errors, \
         io-wq punts and delivery paths.",
        "docs/monitoring.md describes each trigger with its threshold, the metrics, alert rules and a runbook.",
        "SIGHUP reads the processes again and reopens the capture directory. SIGTERM writes the captures in progress and ends the monitor. The monitor notifies systemd when it is ready, and systemd's watchdog every second.",
        "It needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG. --cgroup and --unit read /proc/PID/cgroup of other users.",
    ],
    examples: &[
        ("iotrail monitor --metrics 9464", "Monitor every program that uses io_uring or native aio, for Prometheus."),
        ("iotrail monitor --unit mariadb --threshold slow_sync=200ms", "Capture syncs of one unit that take 200 ms."),
        (
            "iotrail monitor -p $(pgrep -n db) --when 'unreaped > 1000' --for 1h",
            "Capture when a metric exceeds a number.",
        ),
    ],
    exit: &[("0", "It was stopped, --for is over, or the named processes have ended."), WRONG, REFUSED, FAULT],
    files: &[
        (
            "$XDG_STATE_HOME/iotrail/iotrail.db.stalls/",
            "The captures, one file each, at most 1,000 files and 64 MiB; the oldest are deleted. --dir or --store name another directory.",
        ),
        TYPES,
    ],
    see_also: &["iotrail(1)", "iotrail-stalls(1)", "iotrail-trace(1)", "systemd.service(5)"],
};

pub const STALLS: Page = Page {
    description: &[
        "Lists the stalls that iotrail monitor captured, the newest first, or shows one: its explanation, the state of threads and rings at that time, kernel stacks, and the threads that ran on the CPUs.",
        "Captures of this user need no root.",
    ],
    examples: &[
        ("iotrail stalls", "List the captured stalls."),
        ("iotrail stalls 1", "Show the newest."),
        ("iotrail stalls --json --dir /var/lib/iotrail/stalls", "Print those of the service as JSON."),
    ],
    exit: PLAIN,
    files: &[("$XDG_STATE_HOME/iotrail/iotrail.db.stalls/", "The captures. They are only read."), TYPES],
    see_also: &["iotrail(1)", "iotrail-monitor(1)"],
};

pub const EXPLAIN: Page = Page {
    description: &[
        "Reads a recording and prints the longest wait of its slowest request. Then it prints each of the slowest requests as a timeline: when it was submitted, issued, ready, posted and reaped, the state of its thread meanwhile, and its delivery path.",
        "Root is not needed, and the recording may come from another machine. A truncated recording is read up to its end.",
    ],
    examples: &[
        ("iotrail trace --record r.iotrail -- fio job.fio", "Make a recording."),
        ("iotrail explain r.iotrail", "Tell its five slowest requests."),
        ("iotrail explain t12", "Show the slowest requests of a stored trace."),
        (
            "iotrail explain r.iotrail --by delay --slowest 20",
            "Print the twenty with the longest delay from ready to posted.",
        ),
        ("iotrail explain r.iotrail --opcode read --json", "Print the slowest reads as JSON."),
    ],
    exit: PLAIN,
    files: &[STORE, ("FILE", "The recording of iotrail trace --record. It is only read.")],
    see_also: &["iotrail(1)", "iotrail-trace(1)", "iotrail-export(1)"],
};
