//! Pages of the commands that measure loads and compare them.

use super::page::{
    ANSWERED, CORRUPT, FAULT, JOURNAL, LAB_CACHE, ON_NODE, PLAIN, Page, REFUSED, SCRATCH, STOPPED, STORE, STORE_ASKED,
    SUBMITTED, TYPES, WRONG,
};

pub const BENCH: Page = Page {
    description: &[
        "Runs one load through one I/O interface and prints the result: the answer, throughput, latency, time breakdown, and completion delivery paths.",
        "The ring is set up with exactly the flags that --ring names. An existing target is only read unless --allow-write is specified. With --size, a missing file is created, and kept.",
        "With --trace auto, if the probes cannot be loaded, iotrail measures the load without them and names the missing metrics. Delivery delays and latency stages need --follow.",
        "Ctrl-C stops the load and prints the measurement so far.",
    ],
    examples: &[
        ("iotrail bench --rw nop --depth 32 --batch 32", "Measure io_uring itself, without a device."),
        (
            "iotrail bench --file data --size 256m --follow 1",
            "Create a file, read it randomly, and trace every request.",
        ),
        ("iotrail bench --file data --ring coop_taskrun --json >coop.json", "Write a measurement for iotrail compare."),
        (
            "iotrail bench --file data --rate 1000 --runtime 10s",
            "Send 1000 I/Os per second; latency counts from their intended times.",
        ),
        ("iotrail bench --file data --engine libaio --cpus irq", "Run on the CPU that takes the disk's interrupts."),
        ("iotrail bench --rw nop --profile --flamegraph nop.svg", "Draw a flame graph of the CPU time."),
    ],
    exit: &[
        ("0", "The load was measured (with --repeats, every time)."),
        STOPPED,
        WRONG,
        ("3", "The machine, the kernel or the privileges do not allow it, or no I/O was measured."),
        CORRUPT,
        FAULT,
    ],
    files: &[
        ("PATH of --file", "The target. With --size, a missing file is created, and kept."),
        STORE_ASKED,
        (
            "FILE of --flamegraph, --folded",
            "Kernel stacks sampled by --profile. Existing files are overwritten only with --force.",
        ),
    ],
    see_also: &[
        "iotrail(1)",
        "iotrail-check(1)",
        "iotrail-run(1)",
        "iotrail-compare(1)",
        "io_uring_setup(2)",
        "fio(1)",
    ],
};

pub const RUN: Page = Page {
    description: &[
        "Runs an experiment: measures every cell in randomised blocks, stores each measurement immediately, compares the arms, and prints the answer. An experiment is either built in or a TOML file.",
        "Without --file, a read-only experiment uses the file or device that $IOTRAIL_TARGET names. Otherwise the experiment uses a scratch file, which is kept for later runs. An existing file or device is overwritten only if --allow-write is specified on the command line.",
        "iotrail changes the host settings that the experiment needs (scheduler, interrupt affinity, quota, ...) before the cells that use them, and restores them at the end. After a kill, iotrail-restore(1) restores them.",
        "With --kernels, the same plan runs in one virtual machine per kernel, alternately, and the kernels are compared.",
        "With --slurm, the same plan, with the same seed and blocks, runs on nodes of a Slurm cluster, with one exclusive job per node. Each node's run is added to the store, and the runs form one fleet. The job of a lost node is requeued once and resumes where it stopped; its earlier measurements are kept. The jobs continue if this command exits: --attach, with the ID of the first job, waits for them again.",
        "Ctrl-C stops the run and keeps its measurements; --resume continues it.",
    ],
    examples: &[
        ("iotrail run coop --quick", "Run a built-in experiment in two minutes."),
        ("iotrail run coop --plan", "Print its cells and the estimated time; measure nothing."),
        ("iotrail run coop --quick --resume", "Resume an interrupted run."),
        ("iotrail run coop --file /dev/nvme0n1 --repeats 10", "Run the full experiment on a drive, with ten blocks."),
        ("iotrail run my-question.toml --json >run.json", "Run an experiment of your own; print it as JSON."),
        ("iotrail run tw-order --quick --kernels 6.1,newest", "Compare two kernels."),
        (
            "iotrail run coop --quick --slurm --nodes 'n[1-8]' --sbatch '--time=30'",
            "Run it on eight nodes of a cluster, for at most 30 minutes.",
        ),
        (
            "iotrail run coop --slurm --count 4 --constraint nvme --detach",
            "Submit it to four nodes that Slurm chooses.",
        ),
        ("iotrail run --attach 4711", "Wait for that job, and collect its results."),
    ],
    exit: &[
        ("0", "The run is complete. The answer names cells that could not be measured."),
        (
            "1",
            "The run was interrupted (its measurements are stored and printed). With --fail-on-unmet: an expectation is not met. With --kernels: a boot did not complete its run. With --slurm: a node did not complete its part.",
        ),
        WRONG,
        (
            "3",
            "The machine, the kernel or the privileges do not allow it; another program changed a host setting; or, with --kernels or --slurm, \
               no kernel or node made any measurement.",
        ),
        (
            "4",
            "With --fail-on-unmet: an expectation could not be evaluated, or the experiment has none. The reason is printed on standard error.",
        ),
        (
            "5",
            "Data corruption: a load with verify read back data that differs from the data written. Earlier measurements remain stored.",
        ),
        FAULT,
    ],
    files: &[
        STORE,
        SCRATCH,
        JOURNAL,
        LAB_CACHE,
        SUBMITTED,
        ON_NODE,
        ("/usr/local/share/doc/iotrail/examples", "The built-in experiments as TOML files, to start from."),
    ],
    see_also: &[
        "iotrail(1)",
        "iotrail-list(1)",
        "iotrail-report(1)",
        "iotrail-compare(1)",
        "iotrail-restore(1)",
        "iotrail-lab(1)",
        "sbatch(1)",
        "squeue(1)",
    ],
};

pub const REPLAY: Page = Page {
    description: &[
        "Submits the I/O of a recorded program again, without the program: unchanged, and with other options. Recordings are made with iotrail trace --record FILE --for-replay. A fio iolog (version 2 or 3) is also accepted; it contains no calls or latencies, so the replay cannot be checked against the program.",
        "Each recorded thread is replayed by one thread. Before each submission it reaps exactly as many completions as the program had reaped in the recording; a chain of linked requests counts once. Between calls, the thread computes for as long as the program did.",
        "The unchanged recording is also replayed, twice in each block, to show the noise. The order within a block is random. A third replay is itself recorded, in the same way as the program. The self-check compares this recording with the original one. An effect within the error of the self-check, or within the noise, does not count.",
        "The answer lists counts per I/O from one traced replay, then CPU time per I/O, and then IOPS and latencies as ratios with their 95 % intervals. A list of limits names what the answer does not cover.",
        "Recorded files are only read. If the recording writes to a file, iotrail creates a copy next to the scratch files and removes it at the end; --map names a different file. An existing file is overwritten only with --allow-write; a recorded file is never overwritten.",
        "With --engine io_uring or libaio, synchronous calls become requests: once one to one, and once overlapped. The overlapped replay is an upper bound: reads and writes are considered independent unless they touch the same bytes, and a sync waits for all earlier requests.",
    ],
    examples: &[
        ("iotrail replay r.iotrail", "Check how well the replay matches the recorded program."),
        ("iotrail replay r.iotrail --register files,buffers", "Predict the effect of registered files and buffers."),
        ("iotrail replay r.iotrail --batch 8", "Submit 8 requests per call."),
        (
            "iotrail replay r.iotrail --engine io_uring --depth 16",
            "Estimate the gain of io_uring for a program with synchronous calls.",
        ),
        ("iotrail replay r.iotrail --map /data=/mnt/other", "Replay on another disk."),
        ("iotrail replay r.iotrail --kernels 6.1,newest", "Compare two kernels, in virtual machines."),
    ],
    exit: &[("0", "The replays were made."), WRONG, REFUSED, FAULT],
    files: &[
        ("FILE", "The recording, or a fio iolog."),
        (
            "~/.cache/iotrail/replay-PID-N",
            "Copies of the files that the recording writes. They exist only during the replay.",
        ),
        TYPES,
    ],
    see_also: &["iotrail(1)", "iotrail-trace(1)", "iotrail-try(1)", "iotrail-bench(1)", "fio(1)"],
};

pub const ADVISE: Page = Page {
    description: &[
        "Searches for the best configuration of a program, by means of iotrail-try(1), or of a load described by iotrail-bench(1) options: ring flags, CPUs, batches, registration, waiting, engines. Candidates are measured in blocks. A candidate clearly beaten by another is dropped. The search ends when one candidate remains, when the remaining candidates are equivalent, or when the time budget is spent.",
        "Among the candidates that are indistinguishable from the best, the one that takes the least effort is recommended, and is measured against the current configuration in new blocks. Only that result is printed. If the current configuration is indistinguishable from the best, the answer is to keep it.",
        "--host-settings adds the I/O schedulers and nr_requests of the target's disk. They affect other users of the disk while a candidate is being measured, and are restored afterwards (by iotrail-restore(1) if iotrail was killed). Without --host-settings, no host setting is changed.",
        "Ctrl-C stops the search and answers from the measurements so far; --resume continues the search.",
    ],
    examples: &[
        ("iotrail advise -- ./app-bench", "Search by the wall time of a program."),
        (
            "iotrail advise --metric 'tps=/tps = ([0-9.]+)/' -- pgbench -T 5 db",
            "Search by a metric that the program prints.",
        ),
        (
            "iotrail advise --file /data/f --depth 16 --constraint 'p99<2ms'",
            "Search for the most IOPS of a load, with a latency limit.",
        ),
        ("iotrail advise --rw nop --depth 16 --objective cpu", "Search for the least CPU time per I/O."),
    ],
    exit: &[ANSWERED, STOPPED, WRONG, REFUSED, FAULT],
    files: &[STORE, JOURNAL],
    see_also: &[
        "iotrail(1)",
        "iotrail-try(1)",
        "iotrail-advise-net(1)",
        "iotrail-bench(1)",
        "iotrail-run(1)",
        "iotrail-report(1)",
        "iotrail-restore(1)",
        "iotrail-check(1)",
    ],
};

pub const TRY: Page = Page {
    description: &[
        "Runs a program unmodified and with other settings, in randomised blocks, and compares wall time, CPU time and the program's own metrics. The program is not changed: a seccomp supervisor rewrites the flags of its io_uring_setup(2) calls.",
        "First it traces one unmodified run of the program and, based on this trace, classifies each arm as legal, risky, or illegal by the kernel's rules. Then it traces one run of each legal arm, and drops arms that stall, fail or use a different path. The compared runs are not traced.",
        "Without an arm it tries coop_taskrun,taskrun_flag, then defer_taskrun,single_issuer, then sqpoll.",
        "With --slurm, the program is tried on nodes of a Slurm cluster, with one exclusive job per node. Each job uses the working directory and environment of this command, and the same arms, seed and blocks. Each node's run is added to the store, and one answer covers all nodes. For lost nodes, see iotrail-run(1).",
        "Ctrl-C stops the program and all processes that it started, and keeps the measurements.",
    ],
    examples: &[
        ("iotrail try -- fio job.fio", "Try the usual flags on fio."),
        ("iotrail try --metric 'riops=/IOPS=([0-9.]+[kM]?)/' -- fio job.fio", "Also compare a metric that fio prints."),
        (
            "iotrail try --server ./server --ready port:7000 -- ./client",
            "Try the usual flags on a server, compared by its client's time.",
        ),
        ("iotrail try --arm 'threads: ./app --io threads' -- ./app --io uring", "Compare two modes of one program."),
        ("iotrail try --slurm --nodes 'n[1-8]' -- fio job.fio", "Try the usual flags on eight nodes of a cluster."),
        ("iotrail try --save mine.toml -- ./app", "Write the experiment, to edit and run with iotrail run."),
    ],
    exit: &[
        ("0", "The run is complete. The answer names arms that were dropped or that failed."),
        (
            "1",
            "The run was interrupted, or a verdict matches --fail-on. With --slurm: a node did not complete its part.",
        ),
        (
            "2",
            "Usage error or invalid input; the program cannot be run, does not print a metric that --metric names, or sets up no ring.",
        ),
        (
            "3",
            "The machine, the kernel or the privileges do not allow it. Without root, use --watch none. With --slurm: no node made any measurement.",
        ),
        ("4", "A --fail-on verdict could not be evaluated. The reason is printed on standard error."),
        FAULT,
    ],
    files: &[STORE, SUBMITTED, ON_NODE],
    see_also: &[
        "iotrail(1)",
        "iotrail-trace(1)",
        "iotrail-run(1)",
        "iotrail-report(1)",
        "io_uring_setup(2)",
        "seccomp_unotify(2)",
    ],
};

pub const COMPARE: Page = Page {
    description: &[
        "Compares two sides and prints, for each metric, the ratio of B to A, its 95 % interval, and a verdict: faster, slower, equivalent, inconclusive or not comparable. A side is a stored run, cells of a stored run, or JSON output of bench, run or net.",
        "Cells of one run that were measured in the same blocks are compared pair by pair. Sides that were measured separately are compared as a whole; drift between them affects the ratio but is not included in the interval.",
        "A single measurement per side gives a ratio but no verdict.",
        "Two fleets (f3 f5) are compared machine by machine, and the combined result is printed.",
    ],
    examples: &[
        ("iotrail compare 12:arm=default 12:arm=coop_taskrun", "Compare two arms of run 12, cell by cell."),
        ("iotrail compare 11 12 --metric iops,latency_p99", "Compare two runs of one experiment."),
        ("iotrail compare before.json after.json --fail-on slower", "In a script, exit 1 if the second is slower."),
        ("iotrail compare a1.json,a2.json b1.json,b2.json", "Compare repeats in files."),
        ("iotrail compare f3 f5 --fail-on slower", "Exit 1 if the second fleet is slower on average in any cell."),
        ("iotrail compare last:arm=default last:arm=coop_taskrun --full", "Print the table of every comparison."),
    ],
    exit: &[
        ("0", "The sides were compared, whatever the result."),
        ("1", "A verdict matches --fail-on."),
        WRONG,
        REFUSED,
        (
            "4",
            "No verdict matches --fail-on, but at least one comparison cannot rule it out. Standard error names the comparison and the reason.",
        ),
        FAULT,
    ],
    files: &[STORE, ("JSON files", "Output of bench --json, run --json, net bench --json or net load --json.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-bench(1)", "iotrail-list(1)", "iotrail-report(1)"],
};

pub const TRACK: Page = Page {
    description: &[
        "Checks all stored runs of one experiment, oldest first, and reports level shifts of metrics: in which run, by how much, and what else changed at that point (kernel, options, target, iotrail version).",
        "Each run is one point: the geometric mean of its repeats. Changes are found with E-divisive and tested with Student's t, corrected for the number of metrics, so that a change is reported in at most 2 of 100 histories that contain none. Metrics from different hosts are kept separate.",
        "Runs of one experiment with different options (a --quick run among full runs) are different loads; use --from to start after them.",
    ],
    examples: &[
        ("iotrail track coop", "Report the latest changes in every metric."),
        ("iotrail track coop --metric latency_p99 --at arm=coop_taskrun", "Check one metric of one arm."),
        ("iotrail track nightly --fail-on slower", "Fail a pipeline if the latest change was a regression."),
        ("iotrail track coop -o history.html", "Draw every metric run by run, on one page."),
        ("iotrail track coop --json >history.json", "Write every point and every change."),
    ],
    exit: &[
        ("0", "The runs were checked, whatever the result."),
        ("1", "The latest change in a metric matches --fail-on."),
        WRONG,
        REFUSED,
        (
            "4",
            "--fail-on cannot be evaluated: a series has fewer than six runs, or other work disturbed all runs on one side of the change.",
        ),
        FAULT,
    ],
    files: &[STORE],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-list(1)"],
};

pub const REPRODUCE: Page = Page {
    description: &[
        "Runs the experiments of a published study as far as this machine allows, and compares the results with the study's figures. Since machines differ, figures are compared by shape: ratios, counts per I/O, knees of curves, orderings.",
        "A figure agrees if the measured 95 % interval is within a band around the published value, disagrees if it is outside, and is inconclusive if it crosses an edge of the band. All studies use the same rule for the bands; see the document reproduce.md. For a figure that this machine cannot test, the reason is printed, with the command that tests it in a virtual machine (iotrail lab run) if there is one.",
        "Each part of a study is stored as an ordinary run, for use with report, compare and export. Without a study, all studies are listed.",
    ],
    examples: &[
        ("iotrail reproduce", "List the studies, and their parts."),
        ("iotrail reproduce vldb26 --quick", "Run the short form of all parts, and evaluate their figures."),
        ("iotrail reproduce thesis --only kicks,async", "Run two parts."),
        (
            "iotrail reproduce thesis --stored --full",
            "Evaluate the stored parts, and print every figure with its source.",
        ),
    ],
    exit: &[("0", "The figures were evaluated, whatever the result."), STOPPED, WRONG, REFUSED, FAULT],
    files: &[STORE, SCRATCH, JOURNAL],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-report(1)", "iotrail-lab-run(1)", "iotrail-list(1)"],
};

pub const FLEET: Page = Page {
    description: &[
        "Groups the runs of one experiment on several machines into a fleet, and reports what holds on all of them: the mean ratio of each arm, its 95 % interval, and the spread between machines. It also reports on how many machines the effect holds, on which machines it changes sign, which machines are outliers, and how these differ: kernel, CPU, driver, the drive's interrupt vectors.",
        "A run comes from this store, or is copied from another machine's store. A run that is already in this store is not copied again. iotrail report f3 shows the fleet again; iotrail list lists all fleets.",
        "The answer applies to exactly these machines: differences between them are treated as facts, not noise. The document fleets.md explains the numbers; method.md explains how they are computed.",
    ],
    examples: &[
        ("iotrail fleet rack4 12 13 17", "Group three stored runs of one experiment into a fleet."),
        ("iotrail fleet rack4 c1.db c2.db c3.db:5", "Take the runs from the stores of three machines."),
        ("iotrail fleet zones eu=12 us=13", "Give the machines other names."),
        ("iotrail report f1 --full", "Print every comparison and every machine."),
        ("iotrail report f1 -o fleet.html", "Draw machines and situations as one picture."),
    ],
    exit: PLAIN,
    files: &[STORE, ("PAGE.html of -o", "The page. An older page is overwritten; any other file only with --force.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-report(1)", "iotrail-compare(1)", "iotrail-list(1)"],
};

pub const REPORT: Page = Page {
    description: &[
        "Shows a stored run: on the terminal as printed by run, as JSON, or as one HTML page with figures, tables and the command of every cell. The page is self-contained and needs no network.",
        "With a second run, the page compares the two, cell by cell. f3 shows a fleet, with the combined result of its machines.",
    ],
    examples: &[
        ("iotrail report", "Print the answer of the last run."),
        ("iotrail report 12 --full", "Print everything about run 12."),
        ("iotrail report last -o report.html", "Write a page to open in a browser."),
        ("iotrail report 3 7 -o both.html", "Write two runs on one page, the second compared with the first."),
        ("iotrail report f3", "Print the combined result of the machines in fleet 3."),
        ("iotrail report run.json -o report.html", "Write a page from run --json output of another machine."),
    ],
    exit: PLAIN,
    files: &[STORE, ("PAGE.html of -o", "The page. An older page is overwritten; any other file only with --force.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-export(1)", "iotrail-fleet(1)"],
};

pub const EXPORT: Page = Page {
    description: &[
        "Writes a stored run, JSON output, or a recording in the formats of other tools. Several formats may be requested at once. The document exports.md describes each format.",
        "Unless --force is specified, an existing file is kept and the exit status is 2. Either all files of a directory are written, or none.",
    ],
    examples: &[
        ("iotrail export last --csv run.csv", "Write one row per measurement."),
        ("iotrail export last --csv - --table vehicles", "Print the delivery paths, one row each."),
        ("iotrail export 12 --parquet runs", "Write every table as Parquet, for DuckDB or Spark."),
        ("iotrail export 12 --fio fio --hdr run.hlog", "Write for fio-plot, and for HdrHistogram's tools."),
        ("iotrail export r.iotrail --perfetto r.pf", "Write a recording for ui.perfetto.dev."),
    ],
    exit: PLAIN,
    files: &[STORE, ("OUT, DIR", "The output. - is standard output.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-trace(1)", "iotrail-report(1)"],
};
