//! Pages of the commands that measure loads and compare them.

use super::page::{
    ANSWERED, CORRUPT, FAULT, JOURNAL, LAB_CACHE, ON_NODE, PLAIN, Page, REFUSED, SCRATCH, STOPPED, STORE, STORE_ASKED,
    SUBMITTED, TYPES, WRONG,
};

pub const BENCH: Page = Page {
    description: &[
        "Runs one load through one I/O interface and prints its result: the answer, throughput, latency, where the time went, and the delivery \
         paths of the completions.",
        "The ring has exactly the setup flags that --ring names. An existing target is only read, except with --allow-write. A missing file is created with --size, and kept.",
        "With --trace auto, if the probes cannot be loaded, iotrail measures the load without them and names the missing metrics. Delivery delays \
         and stages need --follow.",
        "Ctrl-C ends the load, and the measurement until then is printed.",
    ],
    examples: &[
        ("iotrail bench --rw nop --depth 32 --batch 32", "Measure io_uring itself, without a device."),
        (
            "iotrail bench --file data --size 256m --follow 1",
            "Create a file, read it at random, and trace every request.",
        ),
        ("iotrail bench --file data --ring coop_taskrun --json >coop.json", "Write a measurement for iotrail compare."),
        (
            "iotrail bench --file data --rate 1000 --runtime 10s",
            "Send 1000 I/Os per second; latency counts from their intended times.",
        ),
        ("iotrail bench --file data --engine libaio --cpus irq", "Run on the CPU that takes the disk's interrupts."),
        ("iotrail bench --rw nop --profile --flamegraph nop.svg", "Draw where the CPU time goes."),
    ],
    exit: &[
        ("0", "The load was measured. With --repeats: each time."),
        WRONG,
        ("3", "The machine, the kernel or the privileges do not allow it, or no I/O was measured."),
        CORRUPT,
        FAULT,
    ],
    files: &[
        ("PATH of --file", "The target. A missing file is created with --size, and kept."),
        STORE_ASKED,
        ("FILE of --flamegraph, --folded", "Kernel stacks of --profile. They are replaced only with --force."),
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
        "Runs an experiment: measures every cell in blocks of random order, stores each measurement at once, compares the arms, and prints \
         the answer. An experiment is built in, or a TOML file.",
        "Without --file an experiment that only reads uses what $IOTRAIL_TARGET names. Otherwise it uses a scratch file, which is kept for later \
         runs. An existing file or device is overwritten only with --allow-write on the command line.",
        "iotrail changes the host settings that the experiment needs (scheduler, interrupt affinity, quota, ...) before the cells that use them, and restores them at the end. After a kill, iotrail-restore(1) restores them.",
        "With --kernels the same plan runs in a virtual machine per kernel, alternately, and the kernels are compared.",
        "With --slurm the same plan, with the same seed and blocks, runs on nodes of a Slurm cluster, one exclusive job each. Each node's run is \
         added to the store, and together they are one fleet. A lost node is requeued once and continues where it was; its earlier measurements \
         are kept. The jobs outlive this command: --attach waits for them again, by the number of the first.",
        "Ctrl-C keeps the measurements; --resume continues from there.",
    ],
    examples: &[
        ("iotrail run coop --quick", "Run a built-in experiment in two minutes."),
        ("iotrail run coop --plan", "Print its cells and their duration; measure nothing."),
        ("iotrail run coop --quick --resume", "Resume a run that was stopped."),
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
        ("0", "Every measurement was made."),
        (
            "1",
            "The run was stopped before its end (its measurements are stored and printed). With --fail-on-unmet: an expectation is not met. With \
               --kernels: a boot did not end its run. With --slurm: a node has not completed its part.",
        ),
        WRONG,
        (
            "3",
            "The machine, the kernel or the privileges do not allow it; another program changed a host setting; or, with --kernels or --slurm, \
               no measurement was made anywhere.",
        ),
        (
            "4",
            "With --fail-on-unmet: an expectation could not be evaluated, or there is none. Standard error has the reason.",
        ),
        ("5", "A load with verify read data that differs from the written data. Earlier measurements stay stored."),
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
        "Submits the I/O of a recorded program again, without the program: unchanged, and with other options. The recording is made with iotrail \
         trace --record FILE --for-replay. An iolog of fio (version 2 or 3) is accepted too; it has no calls and no latencies, so the replay \
         cannot be checked against the program.",
        "Each thread is replayed by one thread. A submission needs as many reaped completions as in the recording, and reaps exactly as many; a \
         chain of linked requests counts once. The thread computes between its calls as long as the program did.",
        "The unchanged recording is always replayed too, twice in each block, to show the noise. The order in a block is random. A third replay is \
         recorded as the program was: its difference to the recorded figures is the self-check. An effect within the error of the self-check or within the noise does not count.",
        "The answer has layers: counts per I/O of one traced replay, then CPU time per I/O, then IOPS and latencies as ratios with their 95 % \
         intervals. The limits name what the answer does not cover.",
        "The files of the recording are only read. If the recording writes to a file, iotrail creates a copy next to the scratch files and removes it at the end; --map names another file. An existing file is overwritten only with --allow-write, and a recorded one never.",
        "Synchronous calls become requests with --engine io_uring or libaio: one to one, and overlapped. The second is an upper bound: reads and \
         writes count as independent unless they touch the same bytes, and a sync waits for all requests before it.",
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
    ],
    exit: &[("0", "The replays were made."), WRONG, REFUSED, FAULT],
    files: &[
        ("FILE", "The recording, or an iolog of fio."),
        ("~/.cache/iotrail/replay-PID-N", "Copies of the files that the recording writes, while the replay runs."),
        TYPES,
    ],
    see_also: &["iotrail(1)", "iotrail-trace(1)", "iotrail-try(1)", "iotrail-bench(1)", "fio(1)"],
};

pub const ADVISE: Page = Page {
    description: &[
        "Searches for the best configuration of a program, through iotrail-try(1), or of a load that is described by the options of \
         iotrail-bench(1): ring flags, CPUs, batches, registration, waiting, engines. Candidates are measured in blocks. A candidate that another clearly beats \
         is no longer measured. The search ends when one remains, when the remaining ones are equivalent, or when the time is used up.",
        "Of the candidates that are indistinguishable from the best, the one with the least effort is recommended, and is measured against the current \
         configuration in fresh blocks. Only that result is printed. If the current configuration is indistinguishable from the best, the answer is to keep it.",
        "--host-settings adds the I/O schedulers and nr_requests of the target's disk. They affect other users of the disk while a candidate is \
         measured; they are restored, after a kill by iotrail-restore(1). Without it no host setting is changed.",
        "Ctrl-C ends the search and answers from the measurements so far; --resume continues.",
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
        "Runs a program unmodified and under other settings, in blocks of random order, and compares wall time, CPU time and the program's own metrics. The program is not changed: a seccomp supervisor rewrites the flags of its io_uring_setup(2) calls.",
        "First it traces one unmodified run of the program, and judges each arm by it: legal, risky, or illegal by the kernel's rules. Then it \
         traces one run of each legal arm, and drops the arms that stall, fail or use a different path. The compared runs are not traced.",
        "Without an arm it tries coop_taskrun,taskrun_flag, then defer_taskrun,single_issuer, then sqpoll.",
        "With --slurm the program is tried on nodes of a Slurm cluster, one exclusive job each: in the directory and the environment of this \
         command, with the same arms, seed and blocks. Each node's run is added to the store, and one answer covers all of them. iotrail-run(1) \
         describes lost nodes.",
        "Ctrl-C ends the program and all processes that it started, and keeps the measurements.",
    ],
    examples: &[
        ("iotrail try -- fio job.fio", "Try the usual flags on fio."),
        ("iotrail try --metric 'riops=/IOPS=([0-9.]+[kM]?)/' -- fio job.fio", "Compare its own metric too."),
        (
            "iotrail try --server ./server --ready port:7000 -- ./client",
            "Try the usual flags on a server, by its client's time.",
        ),
        ("iotrail try --arm 'threads: ./app --io threads' -- ./app --io uring", "Compare two ways of one program."),
        ("iotrail try --slurm --nodes 'n[1-8]' -- fio job.fio", "Try the usual flags on eight nodes of a cluster."),
        ("iotrail try --save mine.toml -- ./app", "Write the experiment, to edit and run with iotrail run."),
    ],
    exit: &[
        ("0", "Every measurement was made."),
        (
            "1",
            "It was stopped before its end, or --fail-on names a verdict. With --slurm: a node has not completed its part.",
        ),
        (
            "2",
            "Usage error or wrong input; the program cannot run, prints no metric that --metric names, or sets up no io_uring.",
        ),
        (
            "3",
            "The machine, the kernel or the privileges do not allow it. Without root: --watch none. With --slurm: no measurement was made anywhere.",
        ),
        ("4", "A verdict that --fail-on names could not be evaluated. Standard error has the reason."),
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
        "Compares two sides and prints for each metric the ratio of B to A, its 95 % interval, and the verdict: faster, slower, equivalent, \
         inconclusive or not comparable. A side is a stored run, cells of one, or JSON output of bench, run or net.",
        "Cells of one run that were measured in the same blocks are compared pair by pair. Sides that were measured separately are compared as a whole, and \
         drift between the two is in the ratio, not in the interval.",
        "One measurement per side gives a ratio and no verdict.",
        "Two fleets (f3 f5) are compared machine by machine, and the machines' common result is printed.",
    ],
    examples: &[
        ("iotrail compare 12:arm=default 12:arm=coop_taskrun", "Compare two arms of run 12, cell by cell."),
        ("iotrail compare 11 12 --metric iops,latency_p99", "Compare two runs of one experiment."),
        (
            "iotrail compare before.json after.json --fail-on slower",
            "Exit 1 if the second is slower, as a test in a script.",
        ),
        ("iotrail compare a1.json,a2.json b1.json,b2.json", "Compare repeats in files."),
        ("iotrail compare f3 f5 --fail-on slower", "Exit 1 if the mean over the second fleet is slower in any cell."),
        ("iotrail compare last:arm=default last:arm=coop_taskrun --full", "Print the table of every comparison."),
    ],
    exit: &[
        ("0", "The sides were compared, with any result."),
        ("1", "A verdict is one that --fail-on names."),
        WRONG,
        REFUSED,
        (
            "4",
            "No verdict is one that --fail-on names, and a comparison cannot rule it out. Standard error names the comparison and the reason.",
        ),
        FAULT,
    ],
    files: &[STORE, ("JSON files", "Output of bench --json, run --json, net bench --json or net load --json.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-bench(1)", "iotrail-list(1)", "iotrail-report(1)"],
};

pub const TRACK: Page = Page {
    description: &[
        "Checks all stored runs of one experiment, oldest first, and reports where a metric changed its level: in which run, by how much, and \
         what else changed with it: kernel, options, target, version of iotrail.",
        "A run is one point: the geometric mean of its repeats. Changes are found by E-divisive and tested by Student's t, as strictly as the number \
         of metrics requires: of 100 histories without a change up to two have one. Metrics of different hosts are separate.",
        "Runs of one experiment with different options (a --quick run among full ones) are different loads: --from starts after them.",
    ],
    examples: &[
        ("iotrail track coop", "Report the latest changes of every metric."),
        ("iotrail track coop --metric latency_p99 --at arm=coop_taskrun", "Check one metric of one arm."),
        ("iotrail track nightly --fail-on slower", "Fail a pipeline if its last change was a regression."),
        ("iotrail track coop -o history.html", "Draw every metric run by run, on one page."),
        ("iotrail track coop --json >history.json", "Write every point and every change."),
    ],
    exit: &[
        ("0", "The runs were checked, with any result."),
        ("1", "The last change of a metric is the one that --fail-on names."),
        WRONG,
        REFUSED,
        ("4", "--fail-on cannot be evaluated: fewer than six runs are stored."),
        FAULT,
    ],
    files: &[STORE],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-list(1)"],
};

pub const REPRODUCE: Page = Page {
    description: &[
        "Runs the experiments of a published study as far as this machine can, and compares the study's figures with the results. Machines differ, so figures \
         are compared as shapes: ratios, counts per I/O, knees of curves, orders.",
        "A figure agrees if the measured 95 % interval is within a band around the published one, disagrees if it is outside, and is inconclusive if \
         it crosses an edge. The bands follow from one rule for all studies, which the document reproduce.md states. A figure that this machine cannot test \
         has the reason, and the command that tests it in a virtual machine (iotrail lab run) if there is one.",
        "Each part of a study is an ordinary run of the store, for report, compare and export. Without a study the studies are listed.",
    ],
    examples: &[
        ("iotrail reproduce", "List the studies, and their parts."),
        ("iotrail reproduce vldb26 --quick", "Run the short form of all parts, and judge their figures."),
        ("iotrail reproduce thesis --only kicks,async", "Run two parts."),
        ("iotrail reproduce thesis --stored --full", "Judge the stored parts, and print every figure with its source."),
    ],
    exit: &[("0", "The figures were judged, with any result."), STOPPED, WRONG, REFUSED, FAULT],
    files: &[STORE, SCRATCH, JOURNAL],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-report(1)", "iotrail-lab-run(1)", "iotrail-list(1)"],
};

pub const FLEET: Page = Page {
    description: &[
        "Keeps the runs of one experiment on several machines as one fleet, and reports what holds on all of them: the mean ratio of each arm, its 95 % \
         interval, and the spread between machines; on how many machines it holds, on which it changes sign, which are outliers, and \
         the differences between these: kernel, CPU, driver, interrupt vectors of the drive.",
        "A run is from this store, or from another machine's store and copied into this one; a run that is already in this store is not copied \
         again. iotrail report f3 shows the fleet again, iotrail list lists all fleets.",
        "The answer is about exactly these machines: their difference is a fact, not noise. The document fleets.md explains the \
         numbers, method.md their computation.",
    ],
    examples: &[
        ("iotrail fleet rack4 12 13 17", "Keep three stored runs of one experiment as a fleet."),
        ("iotrail fleet rack4 c1.db c2.db c3.db:5", "Take the runs from the stores of three machines."),
        ("iotrail fleet zones eu=12 us=13", "Give the machines other names."),
        ("iotrail report f1 --full", "Print every comparison and every machine."),
        ("iotrail report f1 -o fleet.html", "Draw machines and situations as one picture."),
    ],
    exit: PLAIN,
    files: &[STORE, ("PAGE.html of -o", "The page. An older page is replaced; any other file only with --force.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-report(1)", "iotrail-compare(1)", "iotrail-list(1)"],
};

pub const REPORT: Page = Page {
    description: &[
        "Shows a stored run: on the terminal as run printed it, as JSON, or as one HTML page with figures, tables and the command of \
         every cell. The page needs no network and no other file.",
        "With a second run the page compares both, cell by cell. f3 shows a fleet: the machines' common result.",
    ],
    examples: &[
        ("iotrail report", "Print the answer of the last run."),
        ("iotrail report 12 --full", "Print everything about run 12."),
        ("iotrail report last -o report.html", "Write a page to open in a browser."),
        ("iotrail report 3 7 -o both.html", "Write two runs on one page, the second compared with the first."),
        ("iotrail report f3", "Print the common result of the machines of fleet 3."),
        ("iotrail report run.json -o report.html", "Write a page of what run --json printed elsewhere."),
    ],
    exit: PLAIN,
    files: &[STORE, ("PAGE.html of -o", "The page. An older page is replaced; any other file only with --force.")],
    see_also: &["iotrail(1)", "iotrail-run(1)", "iotrail-compare(1)", "iotrail-export(1)", "iotrail-fleet(1)"],
};

pub const EXPORT: Page = Page {
    description: &[
        "Writes a stored run, JSON output, or a recording in formats of other tools. Several formats may be requested at once. The document \
         exports.md describes each.",
        "An existing file is kept, and the exit status is 2, unless --force is given. A directory gets all of its files, or none.",
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
