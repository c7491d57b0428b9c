#!/bin/sh
# How far `replay` is from the program that was recorded.
#
# Each load is recorded once, with requests for SECONDS. Then the program without probes, the program again, the unchanged replay and, if fio can, fio
# with its own iolog of the same load run PAIRS times, in random order. Ratios are to the program of the same round, as medians. Calls and
# requests in flight are those of the self-check: recorded and replayed, both while being recorded. p99 is that of the self-check too if a program does not print it.
# "withheld": `replay` reports that it does not predict tail latencies. fio replays an iolog at the recorded times (its default).
#
# 25 minutes on an idle machine. Needs root and fio; for the chains, a C compiler with liburing; for qemu, qemu-img; for MariaDB, mariadbd and
# sysbench. MariaDB's requests per second are those of its own counters. The server and sysbench are stopped (SIGSTOP) during the other arms.
#
# usage: replay.sh [IOTRAIL] [PAIRS] [SECONDS] [LOAD...]
set -eu
iotrail=$(realpath "${1:-target/release/iotrail}")
pairs=${2:-10}
seconds=${3:-2}
[ $# -gt 3 ] && shift 3 || shift $#
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${SCRATCH:-/var/tmp}/replay.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
for file in data other written copy; do
    dd if=/dev/urandom of="$dir/$file" bs=1M count=128 status=none
done
sync
cc -O2 -o "$dir/chains" "$here/chains.c" -luring 2>/dev/null || rm -f "$dir/chains"

python3 - "$iotrail" "$pairs" "$seconds" "$dir" "$@" <<'END'
import atexit, json, math, random, re, shutil, signal, statistics, subprocess, sys, time

iotrail, pairs, seconds, dir, only = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5:]

def run(command):
    p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=dir)
    if p.returncode:
        sys.exit("%s: %s" % (" ".join(command), p.stderr))
    return p.stdout

def fio(*jobs, end):
    common = ["fio", "--output-format=json", "--ioengine=io_uring", "--bs=4k", "--size=128M", "--lat_percentiles=1", "--invalidate=0"]
    return common + [option for job in jobs for option in job + end(len(jobs))]

def figures(text):
    """Requests per second, syncs included, and the p99 of the reads if there is nothing else."""
    qemu = re.search(r"Sending (\d+) .*Run completed in ([\d.]+) seconds", text, re.DOTALL)
    if qemu:
        return int(qemu[1]) / float(qemu[2]), None
    out = json.loads(text[text.index("{"):])
    if "iops" in out:
        return out["iops"], None
    jobs = out["jobs"]
    n = sum(j[kind]["total_ios"] for j in jobs for kind in ("read", "write", "sync"))
    ms = max(j[kind]["runtime"] for j in jobs for kind in ("read", "write"))
    reads_only = all(j["write"]["total_ios"] == 0 for j in jobs)
    p99 = [j["read"]["lat_ns"].get("percentile", {}).get("99.000000") for j in jobs]
    return n * 1000 / ms, max(p99) if reads_only and all(p99) else None

def replayed(text):
    out = json.loads(text)
    return out["iops"], out["latency_ns"]["p99"]

def job(name, file, depth, *more):
    return ["--name=" + name, "--filename=%s/%s" % (dir, file), "--rw=randread", "--iodepth=%d" % depth, *more]

loads = {"direct, depth %d" % d: [job("j", "data", d, "--direct=1")] for d in (1, 16, 64)}
loads["70/30, fdatasync"] = [job("j", "written", 16, "--direct=1", "--rw=randrw", "--rwmixread=70", "--fdatasync=32")]
loads["2 jobs"] = [job("j", "data", 16, "--direct=1"), job("k", "other", 16, "--direct=1")]
loads.update({"cached, depth %d" % d: [job("j", "data", d)] for d in (1, 16)})
loads.update({"chains": None, "qemu-img bench": None, "MariaDB": None})

class MariaDB:
    """A server with sysbench updates from 4 clients. Both are stopped except while they are measured."""
    def __init__(self):
        self.at = dir + "/mariadb"
        run(["mariadb-install-db", "--no-defaults", "--datadir=" + self.at, "--user=root", "--auth-root-authentication-method=normal"])
        socket = "--socket=%s/socket" % dir
        self.server = subprocess.Popen(["mariadbd", "--no-defaults", "--datadir=" + self.at, socket, "--user=root", "--skip-networking",
            "--innodb-buffer-pool-size=24M", "--innodb-flush-method=O_DIRECT"], stderr=subprocess.DEVNULL)
        atexit.register(self.all, signal.SIGKILL)
        self.client, self.ask = None, ["mariadb", "--no-defaults", socket, "--user=root", "-Ne"]
        while subprocess.run(self.ask + ["create database if not exists sbtest"], capture_output=True).returncode:
            if self.server.poll() is not None:
                sys.exit("mariadbd does not start")
            time.sleep(0.2)
        sysbench = ["sysbench", "oltp_update_non_index", "--mysql-" + socket[2:], "--mysql-user=root", "--tables=1", "--table-size=300000"]
        run(sysbench + ["prepare"])
        self.client = subprocess.Popen(sysbench + ["--rand-type=uniform", "--threads=4", "--time=36000", "run"], stdout=subprocess.DEVNULL)
        time.sleep(5)
        self.all(signal.SIGSTOP)
        shutil.copytree(self.at, dir + "/mariadb-copy")

    def all(self, number):
        for process in filter(None, (self.client, self.server)):
            process.send_signal(number)

    def loaded(self, what):
        self.all(signal.SIGCONT)
        time.sleep(1)
        result = what()
        self.all(signal.SIGSTOP)
        return result

    def count(self):
        names = "'Innodb_data_reads', 'Innodb_data_writes', 'Innodb_data_fsyncs'"
        rows = run(self.ask + ["show global status where variable_name in (%s)" % names])
        return time.monotonic(), sum(int(row.split()[1]) for row in rows.splitlines())

    def per_second(self):
        began, before = self.count()
        time.sleep(seconds)
        ended, after = self.count()
        return (after - before) / (ended - began), None

def measure(name, jobs):
    server = MariaDB() if name == "MariaDB" else None
    record = dir + "/r.iotrail"
    recorder = [iotrail, "trace", "--for-replay", "--no-store", "--force", "--record", record]
    by_time = lambda n: ["--time_based", "--runtime=%g" % seconds]
    if server:
        program = ["-d", "%g" % seconds, "-p", str(server.server.pid)]
    elif name == "qemu-img bench":
        qemu = lambda n: ["qemu-img", "bench", "-c", str(n), "-d", "16", "-f", "raw", "-i", "io_uring", "-t", "none", "-s", "4096", "-S", "20480", dir + "/data"]
        program = qemu(int(figures(run(qemu(10000)))[0] * seconds))
    elif jobs:
        per_second, _ = figures(run(fio(*jobs, end=by_time)))
        count = max(int(per_second * seconds), 100)
        program = fio(*jobs, end=lambda n: ["--io_size=%d" % (count // n * 4096)])
    else:
        chains = [dir + "/chains", dir + "/written"]
        per_second, _ = figures(run(chains + ["300", "8"]))
        program = chains + [str(max(int(per_second * seconds / 2), 100)), "8"]
    maps = ["--map", "%s/written=%s/copy" % (dir, dir), "--allow-write"] if name == "chains" or "written" in str(jobs) else []
    if server:
        maps = ["--map", "%s/mariadb=%s/mariadb-copy" % (dir, dir), "--allow-write"]
        server.loaded(lambda: run(recorder + program))
    else:
        run(recorder + ["--", *program])
    of = lambda command, read: lambda: read(run(command))
    original = (lambda: server.loaded(server.per_second)) if server else of(program, figures)
    arms = {"program": original, "again": original, "replay": of([iotrail, "replay", record, "--once", "--json", *maps], replayed)}
    if jobs:
        run([option for option in fio(*jobs, end=lambda n: ["--io_size=%d" % (count // n * 4096)]) for option in
             ([option, "--write_iolog=%s/%s.log" % (dir, option[7:])] if option.startswith("--name=") else [option])])
        logged = [[*(o for o in j if not o.startswith(("--filename", "--rw", "--fdatasync"))), "--read_iolog=%s/%s.log" % (dir, j[0][7:])] for j in jobs]
        arms["iolog"] = of(fio(*logged, end=lambda n: []), figures)
    rows = {arm: [] for arm in arms}
    for _ in range(pairs):
        for arm in random.sample(list(arms), len(arms)):
            rows[arm].append(arms[arm]())
    check = json.loads(run([iotrail, "replay", record, "--json", "--repeats", str(max(pairs // 3, 2)), *maps]))
    withheld = ", withheld" if any(limit["code"] == "tail_latency" for limit in check["limits"]) else ""
    check = check["fidelity"]
    def ratio(arm, figure):
        both = [(a[figure], b[figure]) for a, b in zip(rows["program"], rows.get(arm, []))]
        if not both or not all(a and b for a, b in both):
            return None
        logs = [math.log(b / a) for a, b in both]
        half = 2.262 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
        mean = statistics.mean(logs)
        return [math.expm1(x) for x in (mean, mean - half, mean + half)]
    percent = lambda x: "-" if x is None else "%+.0f %%" % (100 * x)
    interval = lambda r: "-" if r is None else "%s (%s to %s)" % tuple(percent(x) for x in r)
    error = lambda figure: percent(check[figure]["error"])
    p99 = ratio("replay", 1)
    print("| %s |" % " | ".join([name, error("calls_per_io"), error("in_flight"), interval(ratio("replay", 0)), interval(ratio("again", 0)),
        (percent(p99[0]) if p99 else error("latency_p99") + " (check)") + withheld, percent((ratio("again", 1) or [None])[0]), error("iops"),
        percent((ratio("iolog", 0) or [None])[0]), percent((ratio("iolog", 1) or [None])[0])]), flush=True)

print("| load | calls | in flight | IOPS | IOPS, program again | p99 | p99, program again | self-check's IOPS | iolog's IOPS | iolog's p99 |")
print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
for name, jobs in loads.items():
    if not only or name in only:
        if "cached" in name:
            open(dir + "/data", "rb").read()
        needs = {"chains": [dir + "/chains"], "qemu-img bench": ["qemu-img"], "MariaDB": ["mariadbd", "mariadb-install-db", "sysbench"]}
        if all(map(shutil.which, needs.get(name, ["fio"]))):
            measure(name, jobs)
END
