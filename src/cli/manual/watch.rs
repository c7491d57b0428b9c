//! Pages of the commands that trace other programs.

use super::page::{Entry, FAULT, PLAIN, Page, REFUSED, STORE, TYPES, WRONG};

const RECORDING: Entry = (
    "FILE of --record",
    "The recording, for iotrail-explain(1) and iotrail-export(1). It appears under this name as soon as its first line is written.",
);

pub const TRACE: Page = Page {
    description: &[
        "Traces the asynchronous I/O of a command, of processes, or of every program: io_uring, native aio and POSIX AIO. Programs need no changes, and their children are traced too.",
        "The first line is the answer: the main finding with its number, and what to change. Then it prints throughput, latency, the time breakdown and completion delivery paths. --full adds every ring, file, opcode and interrupt.",
        "Counts cover every request. Latencies, stages and order are based on requests traced end to end: all requests up to 20,000 per second per CPU, and 1 in 100 above that. --one-in sets a different rate.",
        "After ten seconds iotrail measures the cost of the probes. If they take more than 1.5 % of the program's CPU time, the trace continues in windows. Window counts are extrapolated to the time between windows; an estimate is printed as ~16.2, or as – if its interval is wide. --exact traces everything.",
        "The trace ends when the last process of the command exits, when the -p processes exit, after --duration, or on Ctrl-C. Programs that were already running continue.",
        "Each trace is stored with a number (t1, t2 …). iotrail report t12 prints it again, in full or as a page; iotrail explain t12 shows its \
         slowest requests. The store keeps at most 500 traces and 256 MiB of them. If iotrail is killed, the last checkpoint of the trace is kept and marked as partial. --redact stores the command without its arguments, but with the paths of the files that it used; --no-store stores nothing.",
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
        ("iotrail trace --fail-on kick_storm -- fio job.fio", "In a script, exit 1 if the finding is present."),
        ("iotrail trace --metrics 9464 -a", "Serve counters to Prometheus until Ctrl-C."),
    ],
    exit: &[
        (
            "0",
            "The trace ended, and no status below applies. A command that was sent SIGTERM after --duration counts as successful.",
        ),
        ("1", "A --fail-on finding is present."),
        WRONG,
        REFUSED,
        ("4", "A --fail-on finding could not be evaluated. The reason is printed on standard error."),
        FAULT,
        (
            "other",
            "The exit status of CMD, or 128 + the signal that killed it. CMD's own statuses 1 to 4 look the same as those above; --json reports CMD's status in subject.command.exit_status.",
        ),
    ],
    files: &[
        STORE,
        RECORDING,
        (
            "FILE of --flamegraph, --folded",
            "Kernel stacks sampled by --profile. Like a recording, existing files are overwritten only with --force.",
        ),
        TYPES,
    ],
    see_also: &["iotrail(1)", "iotrail-top(1)", "iotrail-explain(1)", "iotrail-export(1)", "io_uring(7)", "aio(7)"],
};

pub const TOP: Page = Page {
    description: &[
        "Shows the activity of every process and ring per interval: requests, completions and bytes per second, latencies, delivery paths, CPU time. On a terminal the screen is redrawn; otherwise each interval is printed as a block of lines.",
        "The last line of the screen lists the keys; ? explains them. q or Ctrl-C quits; the programs continue.",
        "The probes need root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG.",
    ],
    examples: &[
        ("iotrail top", "Show every program that does asynchronous I/O."),
        ("iotrail top -p $(pgrep -n mariadbd) -i 5", "Show one server, refreshed every five seconds."),
        ("iotrail top -n 10 --json >top.jsonl", "Write ten intervals of one second, one JSON object per line."),
    ],
    exit: &[
        ("0", "All intervals have passed, the traced processes have exited, or q or Ctrl-C was pressed."),
        WRONG,
        REFUSED,
        FAULT,
    ],
    files: &[TYPES],
    see_also: &["iotrail(1)", "iotrail-trace(1)", "top(1)", "pidstat(1)"],
};

pub const MONITOR: Page = Page {
    description: &[
        "Runs continuously, as a service. It samples the kernel's state of threads, rings and cgroups without probes, and captures stalls with their causes. iotrail stalls lists them.",
        "The budget is a share of the CPU time of all CPUs, and determines the sampling interval. If the monitor exceeds it, it sheds traces, windows, kernel stacks and samples, in this order; each step is logged and exported.",
        "After a trigger, it traces the requests of that process for a few seconds if the budget allows it. In windows, it counts requests, errors, io-wq punts and delivery paths.",
        "docs/monitoring.md describes each trigger with its threshold, the metrics, alert rules and a runbook.",
        "On SIGHUP the monitor looks up the processes again and reopens the capture directory. On SIGTERM it writes the captures in progress and exits. It notifies systemd when it is ready, and the systemd watchdog every second.",
        "It needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG. --cgroup and --unit read /proc/PID/cgroup of other users' processes.",
    ],
    examples: &[
        ("iotrail monitor --metrics 9464", "Monitor every program that uses io_uring or native aio, for Prometheus."),
        (
            "iotrail monitor --unit mariadb --threshold slow_sync=200ms",
            "Capture one unit's syncs that take 200 ms or longer.",
        ),
        (
            "iotrail monitor -p $(pgrep -n db) --when 'unreaped > 1000' --for 1h",
            "Capture when a metric exceeds a threshold.",
        ),
    ],
    exit: &[
        ("0", "The monitor was stopped, the --for time elapsed, or the specified processes exited."),
        WRONG,
        REFUSED,
        FAULT,
    ],
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
        "Lists the stalls captured by iotrail monitor, newest first, or shows one: its explanation, the state of threads and rings at that time, kernel stacks, and the threads running on the CPUs.",
        "Root is not required to read your own captures.",
    ],
    examples: &[
        ("iotrail stalls", "List the captured stalls."),
        ("iotrail stalls 1", "Show the newest stall."),
        ("iotrail stalls --json --dir /var/lib/iotrail/stalls", "Print the service's stalls as JSON."),
    ],
    exit: PLAIN,
    files: &[("$XDG_STATE_HOME/iotrail/iotrail.db.stalls/", "The captures. They are only read."), TYPES],
    see_also: &["iotrail(1)", "iotrail-monitor(1)"],
};

pub const EXPLAIN: Page = Page {
    description: &[
        "Reads a recording and prints the longest wait of its slowest request. Then it prints each of the slowest requests as a timeline: when the request was submitted, issued, ready, posted and reaped, what its thread was doing meanwhile, and its delivery path.",
        "Root is not required, and the recording may come from another machine. A truncated recording is read as far as it goes.",
    ],
    examples: &[
        ("iotrail trace --record r.iotrail -- fio job.fio", "Make a recording."),
        ("iotrail explain r.iotrail", "Show its five slowest requests."),
        ("iotrail explain t12", "Show the slowest requests of a stored trace."),
        (
            "iotrail explain r.iotrail --by delay --slowest 20",
            "Print the twenty requests with the longest delay from ready to posted.",
        ),
        ("iotrail explain r.iotrail --opcode read --json", "Print the slowest reads as JSON."),
    ],
    exit: PLAIN,
    files: &[STORE, ("FILE", "The recording made with iotrail trace --record. It is only read.")],
    see_also: &["iotrail(1)", "iotrail-trace(1)", "iotrail-export(1)"],
};
