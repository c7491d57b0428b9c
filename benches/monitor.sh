#!/bin/sh
# What `monitor` costs the programs that it monitors, and itself.
#
# Each load runs PAIRS times without and with the monitor, in random order. The ratio of the throughputs has a 95 % interval (t, of the logarithms).
# `spent` is the monitor's own metric, `/proc` the CPU time of its process, both as shares of all CPUs; memory is its largest RssAnon.
#
# usage: monitor.sh [IOTRAIL] [PAIRS] [SECONDS] [BUDGET...]
set -eu
iotrail=$(realpath "${1:-target/release/iotrail}")
pairs=${2:-10}
seconds=${3:-5}
[ $# -gt 3 ] && shift 3 || set -- 1%
dir=$(mktemp -d "${SCRATCH:-/var/tmp}/monitor.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
dd if=/dev/urandom of="$dir/data" bs=1M count=128 status=none
cat >"$dir/threads.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *sleeps(void *end) { sleep(*(int *)end); return 0; }
int main(int n, char **argument)
{
	int end = atoi(argument[1]);
	pthread_attr_t small;
	pthread_t thread;
	(void)n;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = 0; i < 2000; i++)
		pthread_create(&thread, &small, sleeps, &end);
	sleep(end);
}
END
cc -O2 -o "$dir/threads" "$dir/threads.c" -lpthread

python3 - "$iotrail" "$pairs" "$seconds" "$dir" "$@" <<'END'
import json, math, os, random, signal, statistics, subprocess, sys, time, urllib.request

iotrail, pairs, seconds, dir, budgets = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5:]
cpus, tick = os.cpu_count(), os.sysconf("SC_CLK_TCK")
load = lambda options: [iotrail, "bench", "--json", "--trace", "off", "--runtime", "%gs" % seconds] + options.split()
loads = {
    "no-ops, batches of 32, every CPU": load("--rw nop --depth 32 --batch 32 --jobs %d" % cpus),
    "no-ops, one per call, every CPU": load("--rw nop --depth 1 --jobs %d" % cpus),
    "direct reads, depth 16": load("--file %s/data --depth 16" % dir),
    "2,000 idle threads": [dir + "/threads", "%d" % math.ceil(seconds + 10)],
    "idle machine": None,
}

class Monitor:
    def __init__(self, budget, of):
        command = [iotrail, "monitor", "--cpu-budget", budget, "--metrics", "0", "--dir", dir + "/stalls"]
        self.process = subprocess.Popen(command + of, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            if line.startswith("metrics: "):
                self.address = line.split()[1]
                break
        os.set_blocking(self.process.stderr.fileno(), False)
        time.sleep(2)
        self.first = self.now()
    def now(self):
        fields = open("/proc/%d/stat" % self.process.pid).read().rsplit(")", 1)[1].split()
        text = urllib.request.urlopen(self.address).read().decode()
        value = lambda name: sum(float(l.rsplit(" ", 1)[1]) for l in text.splitlines() if l.split("{")[0].split(" ")[0] == "iotrail_" + name)
        memory = [int(l.split()[1]) for l in open("/proc/%d/status" % self.process.pid) if l.startswith("RssAnon")][0]
        return (time.monotonic(), (int(fields[11]) + int(fields[12])) / tick, value("spent_cpu_seconds_total"), memory / 1024,
                value("over_budget_seconds_total"), value("samples_total"))
    def end(self):
        first, last = self.first, self.now()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        span = last[0] - first[0]
        return [(last[i] - first[i]) / span for i in (1, 2)] + [last[3], last[4] - first[4], (last[5] - first[5]) / span]

def throughput(command):
    if command is None:
        time.sleep(seconds)
        return None
    out = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return json.loads(out.stdout)["iops"] if out.stdout else None

T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 14: 2.14, 19: 2.09, 29: 2.05}
def interval(logs):
    n = len(logs)
    if n < 2:
        return "–"
    t = T.get(n - 1) or T[max(k for k in T if k <= n - 1)]
    half, mean = t * statistics.stdev(logs) / math.sqrt(n), statistics.mean(logs)
    return "%.3f (%.3f–%.3f)" % tuple(math.exp(x) for x in (mean, mean - half, mean + half))

print("| budget | load | throughput, with / without | spent | /proc | memory | over the budget | samples per second |\n|" + "---|" * 8)
for budget in budgets:
    for name, command in loads.items():
        logs, costs = [], []
        if "threads" in name:
            # They use no ring: the process is named.
            program = subprocess.Popen(command)
            time.sleep(1)
            monitor = Monitor(budget, ["-p", str(program.pid)])
            time.sleep(seconds)
            costs.append(monitor.end())
            program.kill()
            program.wait()
        for _ in range(0 if costs else pairs if command else 1):
            both = {}
            for with_monitor in random.sample([False, True], 2):
                monitor = Monitor(budget, ["-a"]) if with_monitor else None
                both[with_monitor] = throughput(command)
                if monitor:
                    costs.append(monitor.end())
            if both[False]:
                logs.append(math.log(both[True] / both[False]))
        proc, spent, memory, over, rate = (statistics.median(c[i] for c in costs) for i in range(5))
        print("| %s | %s | %s | %.2f %% | %.2f %% | %.0f MiB | %.1f s | %.0f |" % (budget, name, interval(logs) if logs else "–",
              100 * spent / cpus, 100 * proc / cpus, memory, over, rate), flush=True)
END
