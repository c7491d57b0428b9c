#!/bin/sh
# Whether `monitor` catches stalls on a busy machine, names their causes, and reports none of healthy programs.
#
# Five healthy programs run all the time: cached and direct reads of 128 MiB with fio (io_uring, depth 8), direct reads with fio (libaio, depth 4), no-ops
# at a rate, and an HTTP server (node with io_uring). Each kind of stall is injected TIMES times, at random moments within MINUTES, at most four at once.
# A stall lasts for the trigger's threshold plus two of the longest intervals between samples, or three (1.25 sample periods each, of that moment, from the
# metrics), plus the time that the injection needs: 0.3 s for the program to begin, and what the table `KINDS` adds. The programs of the stalls have a nice
# value of -20, so that they begin in time. The monitor has its default budget and thresholds. It monitors the cgroup of these programs.
# Triggers that need a window have their own program and monitor (`-p`, 1s/8s, a budget of 50 %). Afterwards the healthy programs run alone for half of
# MINUTES. Delays are measured from the injection to the line in the monitor's log.
#
# A healthy program whose thread waits for a CPU stalls as well, if the machine is overloaded. Such reports (waits_for_cpu) are counted apart. Exits
# with status 1 if fewer than 98 % of a kind were caught, or another stall was reported that was not injected. Needs root, fio, node, liburing, FUSE,
# userfaultfd, and the cgroup controllers cpu and blkio (version 1) or cpu and io (version 2; not tried).
#
# usage: triggers.sh [IOTRAIL] [TIMES] [MINUTES]
set -eu
iotrail=$(realpath "${1:-target/release/iotrail}")
times=${2:-50}
minutes=${3:-60}
here=$(dirname "$(realpath "$0")")
dir=$(mktemp -d "${SCRATCH:-/var/tmp}/triggers.XXXXXX")
trap 'rm -rf "$dir"' EXIT
dd if=/dev/urandom of="$dir/data" bs=1M count=128 status=none
cc -O2 -o "$dir/stalls" "$here/../tests/kernel/stalls.c" -luring -lpthread
cc -O2 -o "$dir/triggers" "$here/triggers.c" -luring -lpthread
cat >"$dir/server.js" <<'END'
const fs = require("fs"), http = require("http");
const server = http.createServer((_, answer) => fs.readFile(process.argv[2], (_, text) => answer.end(text)));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
END
cat >"$dir/client.js" <<'END'
const http = require("http");
const agent = new http.Agent({ keepAlive: true });
setInterval(() => http.get({ port: process.argv[2], agent }, (answer) => answer.resume()), 100);
END

python3 - "$iotrail" "$times" "$minutes" "$dir" <<'END'
import json, os, random, re, signal, statistics, subprocess, sys, threading, time, urllib.request

iotrail, times, seconds, dir = sys.argv[1], int(sys.argv[2]), 60 * float(sys.argv[3]), sys.argv[4]
MARGIN, AT_ONCE, WINDOW = 0.3, 4, 8
# Program, trigger, its threshold, other time that the injection needs, and what the sentence must contain.
KINDS = {
    "unreaped": ("stalls", "unreaped", 0.2, 0, "sleeps in read"),
    "overflow": ("stalls", "overflow", 0.2, 0, "the CQ was full"),
    "task_work_waits": ("stalls", "task_work_waits", 0.2, 0, "task work of ring"),
    "unsubmitted": ("stalls", "unsubmitted", 0.2, 0, "no thread called io_uring_enter"),
    "sqpoll_asleep": ("stalls", "sqpoll_asleep", 0.2, 0, "the SQPOLL thread sleeps"),
    # The lists of a process are read every 100 ms.
    "slow_request": ("stalls", "slow_request", 1, 0.1, "fifo"),
    "slow_worker": ("stalls", "slow_request", 1, 0, "shmem_fallocate"),
    "blocked_submission": ("stalls", "blocked_submission", 0.2, 0, "handle_userfault"),
    "waits_for_more": ("stalls", "waits_for_more", 1, 0, "none arrived"),
    "timeout_unread": ("stalls", "waits_for_more", 1, 0, "cannot arrive"),
    # The wait's own time limit.
    "late_wait": ("stalls", "late_timer", 0.2, 1, "stopped"),
    "asleep_with_c": ("triggers", "asleep_with_completions", 0.2, 0, "stopped"),
    "sqpoll_spins": ("triggers", "sqpoll_spins", 3, 0, "consumed no SQE"),
    "slow_sync": ("triggers", "slow_sync", 0.5, 0, "fsync(2)"),
    # The depth must exceed what the limit lets pass at first.
    "throttled_io": ("triggers", "throttled_io", 0.5, 0.1, "`io.max`"),
    # The end of the first throttled period, and the last one.
    "throttled_cpu": ("triggers", "throttled_cpu", 0.5, 0.2, "`cpu.max`"),
    # The interval of the checks is a second.
    "when_threads": ("triggers", "when", 1, 0, "threads"),
    # The longest time between two windows, and twice the window with the time to attach its probes.
    "write_errors": ("windows", "write_errors", 0, WINDOW * 1.5 + 8, "write: ENOSPC"),
    "punts": ("windows", "punts", 0, WINDOW * 1.5 + 8, "punted to io-wq"),
}
NO_CPU = "waits_for_cpu"
begun, cgroup, children, stalls, events, groups, lock = time.time(), "iotrail-triggers-%d" % os.getpid(), [], [], [], [], threading.Lock()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

def say(text):
    print("%6.0f s  %s" % (time.time() - begun, text), file=sys.stderr, flush=True)

def write(path, text):
    with open(path, "w") as file:
        file.write(text)

is_unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")

def group(controller, name=""):
    path = "/sys/fs/cgroup/" + ("" if is_unified else controller + "/") + cgroup
    if is_unified and not os.path.exists(path):
        write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +io")
        os.mkdir(path)
        groups.append(path)
        write(path + "/cgroup.subtree_control", "+cpu +io")
    for path in [path, path + "/" + name] if name else [path]:
        with lock:
            if not os.path.exists(path):
                os.mkdir(path)
                groups.append(path)
    return path

def start(command, members, **how):
    join = "".join("echo $$ >%s/cgroup.procs; " % path for path in members)
    program = subprocess.Popen(["sh", "-c", join + 'exec "$@"', "sh"] + command, **how)
    children.append(program)
    return program

class Monitor:
    def __init__(self, name, options):
        self.name, self.dir = name, "%s/%s" % (dir, name)
        command = [iotrail, "monitor", "--dir", self.dir, "--metrics", "0"] + options
        say(" ".join(command))
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        children.append(self.process)
        self.captures, self.period, self.samples = {}, 0.1, []
        for line in self.process.stderr:
            if line.startswith("metrics: "):
                self.address = line.split()[1]
                break
        threading.Thread(target=self.hear, daemon=True).start()
    def hear(self):
        for line in self.process.stderr:
            at = time.time()
            said = re.match(r"stall (?!ended)(\w+) pid=(\d+) comm=(.*?) (?:ring=\d+ )?(?:lasted=[^:]*): (.*)", line)
            limited = re.match(r"stall (\w+) of (.*) is counted, not captured", line)
            if said:
                of = dict(monitor=self.name, trigger=said[1], pid=int(said[2]), comm=said[3], at=at, text=said[4])
            elif limited:
                of = dict(monitor=self.name, trigger=limited[1], pid=None, comm=limited[2], at=at, text="")
            else:
                if not line.startswith(("stall ended", "monitoring")):
                    say("%s: %s" % (self.name, line.strip()))
                continue
            with lock:
                events.append(of)
    def metrics(self):
        text = urllib.request.urlopen(self.address, timeout=30).read().decode()
        return [(l.rsplit(" ", 1)[0], float(l.rsplit(" ", 1)[1])) for l in text.splitlines() if l and l[0] != "#"]
    def look(self):
        for name, value in self.metrics():
            if name == "iotrail_sample_period_seconds":
                # The larger of this one and the last ones: it changes with the load.
                self.period = max(value, 0.9 * self.period)
            elif name == "iotrail_samples_total":
                self.samples.append((time.time(), value))
    def rate(self, begin, end):
        before = [s for s in self.samples if s[0] <= begin][-1:] + [s for s in self.samples if s[0] >= end][:1]
        return (before[1][1] - before[0][1]) / (before[1][0] - before[0][0]) if len(before) == 2 else 0
    def list(self):
        out = subprocess.run([iotrail, "stalls", "--json", "--dir", self.dir], capture_output=True, text=True)
        for stall in json.loads(out.stdout)["stalls"]:
            self.captures[stall["capture"]] = stall

def looks(monitors):
    turn = 0
    while not is_over.wait(2):
        turn += 1
        for monitor in monitors:
            try:
                monitor.look()
                # The oldest captures are removed, from 64 MiB on.
                if turn % 15 == 0:
                    monitor.list()
            except (OSError, ValueError) as e:
                say("%s: %s" % (monitor.name, e))

def healthy():
    fio = lambda name, more: ["fio", "--name=" + name, "--filename=%s/data" % dir, "--rw=randread", "--bs=4k", "--thread", "--time_based", "--runtime=%d" %
                              (2 * seconds + 600), "--invalidate=0"] + more.split()
    members, quiet = [group("pids", "load")], dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    programs = [
        start(fio("cached", "--ioengine=io_uring --iodepth=8 --rate_iops=2000"), members, **quiet),
        start(fio("direct", "--ioengine=io_uring --direct=1 --iodepth=8 --rate_iops=1000"), members, **quiet),
        start(fio("aio", "--ioengine=libaio --direct=1 --iodepth=4 --rate_iops=200"), members, **quiet),
        start([iotrail, "bench", "--json", "--trace", "off", "--rw", "nop", "--depth", "8", "--rate", "20000", "--runtime", "%ds" % (2 * seconds + 600)],
              members, **quiet),
        start(["node", dir + "/server.js", dir + "/server.js"], members, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "UV_USE_IO_URING": "1"}),
    ]
    port = programs[-1].stdout.readline().decode().strip()
    client = start(["node", dir + "/client.js", port], [], stdin=subprocess.DEVNULL)
    return programs + [client]

def disk():
    at = os.stat(dir).st_dev
    path = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(at), os.minor(at)))
    return open((os.path.dirname(path) if os.path.exists(path + "/partition") else path) + "/dev").read().strip()

def limit(kind, path, on):
    if kind == "throttled_io":
        if is_unified:
            write(path + "/io.max", "%s riops=%s" % (disk(), "20" if on else "max"))
        else:
            write(path + "/blkio.throttle.read_iops_device", "%s %d" % (disk(), 20 if on else 0))
    elif kind == "throttled_cpu":
        if is_unified:
            write(path + "/cpu.max", ("10000" if on else "max") + " 100000")
        else:
            write(path + "/cpu.cfs_quota_us", "10000" if on else "-1")

def inject(kind, number):
    program, trigger, threshold, extra, _ = KINDS[kind]
    controller = {"throttled_io": "blkio", "throttled_cpu": "cpu"}.get(kind)
    members, path = [group("pids", "load")], None
    if controller:
        path = group(controller, "%s-%d" % (kind, number))
        members = [path] if is_unified else members + [path]
    argument = "%s/data" % dir
    if kind == "slow_sync":
        argument = "%s/file-%d" % (dir, number)
        write(argument, "")
    # The SQPOLL thread shares the CPUs with the load.
    nice = [] if kind == "sqpoll_spins" else ["nice", "-n", "-20"]
    process = start(nice + ["%s/%s" % (dir, program), kind, argument], members, stdin=subprocess.PIPE)
    # The monitor finds new processes once a second.
    time.sleep(3)
    intervals = 3 if trigger in ("slow_request", "sqpoll_spins") else 2
    length = threshold + extra + intervals * 1.25 * main.period + MARGIN
    limit(kind, path, True)
    begin = time.time()
    os.write(process.stdin.fileno(), b"\n")
    time.sleep(length)
    end = time.time()
    if kind in ("late_wait", "asleep_with_c"):
        process.send_signal(signal.SIGCONT)
    limit(kind, path, False)
    os.write(process.stdin.fileno(), b"\n")
    time.sleep(0.3)
    process.stdin.close()
    try:
        status = process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    if path:
        os.rmdir(path)
        groups.remove(path)
    if status:
        say("%s ended with %d" % (kind, status))
    with lock:
        stalls.append(dict(kind=kind, trigger=trigger, pid=process.pid, comm=program if program == "stalls" else kind, begin=begin, end=end))

def windows(process, all):
    each = seconds / len(all)
    for kind in all:
        length = KINDS[kind][3]
        time.sleep(random.uniform(1, max(2, each - length - 1)))
        begin = time.time()
        os.write(process.stdin.fileno(), kind.encode() + b"\n")
        time.sleep(length)
        os.write(process.stdin.fileno(), b"\n")
        with lock:
            stalls.append(dict(kind=kind, trigger=KINDS[kind][1], pid=process.pid, comm="windows", begin=begin, end=time.time()))

def is_of(event, stall):
    late = 8 if KINDS[stall["kind"]][0] == "windows" else 1.5
    if event["trigger"] != stall["trigger"] or not stall["begin"] <= event["at"] <= stall["end"] + late:
        return False
    # Process 0: an expression, or a window over several processes.
    return event["pid"] in (0, stall["pid"]) if event["pid"] is not None else event["comm"] == stall["comm"]

def load():
    return "load average " + ", ".join("%.1f" % n for n in os.getloadavg())

def phase():
    threads, free = [], threading.Semaphore(AT_ONCE)
    jobs = [kind for kind, of in KINDS.items() if of[0] != "windows"] * times
    def run(kind, number, after):
        time.sleep(after)
        with free:
            inject(kind, number)
    for number, kind in enumerate(jobs):
        threads.append(threading.Thread(target=run, args=(kind, number, random.uniform(0, seconds))))
    both = ["write_errors", "punts"] * times
    random.shuffle(both)
    threads.append(threading.Thread(target=windows, args=(of_windows, both)))
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join()

def report():
    # The last captures are written two seconds after their trigger.
    time.sleep(4)
    for monitor in monitors:
        monitor.list()
    captures = [stall for monitor in monitors for stall in monitor.captures.values()]
    print("| stall | trigger | injected | caught | cause named | median delay | stall lasted |\n|" + "---|" * 7)
    is_good = True
    for kind, (_, trigger, _, _, words) in KINDS.items():
        of = [s for s in stalls if s["kind"] == kind]
        caught, named, delays = 0, 0, []
        for stall in of:
            found = [e for e in events if is_of(e, stall)]
            sentences = [c["text"] for c in captures if c["trigger"] == trigger and c["process"]["tgid"] in (0, stall["pid"])
                         and stall["begin"] - 2 <= c["began_unix_ns"] / 1e9 <= stall["end"] + 8]
            caught += bool(found)
            named += any(words in text for text in sentences)
            delays += [min(e["at"] for e in found) - stall["begin"]] if found else []
            if not found:
                say("missed: %s of process %d, %.1f s after the start, for %.2f s, at %.0f samples per second" % (
                    kind, stall["pid"], stall["begin"] - begun, stall["end"] - stall["begin"], main.rate(stall["begin"], stall["end"])))
            elif not any(words in text for text in sentences):
                say("not named: %s: %s" % (kind, sentences or [e["text"] for e in found]))
        is_good &= caught >= 0.98 * len(of)
        of_length = "%.2f s" % statistics.median(s["end"] - s["begin"] for s in of) if of else "–"
        print("| %s | `%s` | %d | %d | %d | %s | %s |" % (
            kind, trigger, len(of), caught, named, "%.2f s" % statistics.median(delays) if delays else "–", of_length))
    false = [e for e in events if not any(is_of(e, s) for s in stalls)]
    for e in false:
        of = [s["kind"] for s in stalls if s["pid"] == e["pid"]]
        print("not injected: %.1f s after the start: %s of %s (%s)%s: %s" % (
            e["at"] - begun, e["trigger"], e["comm"], e["pid"], ", in which %s was injected" % of[0] if of else "", e["text"]))
    lacking = sum(e["trigger"] == NO_CPU for e in false)
    print("stalls that were not injected: %d, and %d of threads that waited for a CPU" % (len(false) - lacking, lacking))
    for monitor in monitors:
        counted = sum(value for name, value in monitor.metrics() if name.startswith("iotrail_stalls_total"))
        heard = sum(e["monitor"] == monitor.name for e in events)
        print("%s: iotrail_stalls_total %d, in the log %d, captures %d" % (monitor.name, counted, heard, len(monitor.captures)))
        for name, value in monitor.metrics():
            if re.match(r"iotrail_(spent_cpu|over_budget|longest_over|shed|samples_total|sample_period|unsampled|window_seconds|captures_total|monitored_seconds)", name):
                say("%s: %s %g" % (monitor.name, name, value))
    sys.stdout.flush()
    return is_good and len(false) == lacking

is_over = threading.Event()
programs, monitors, code = [], [], 1
try:
    programs = healthy()
    of_windows = start([dir + "/triggers", "windows"], [group("pids", "load")], stdin=subprocess.PIPE)
    time.sleep(2)
    main = Monitor("main", ["--cgroup", "/" + cgroup, "--when", 'threads{process="when_threads"} >= 5'])
    of_window = Monitor("windows", ["-p", str(of_windows.pid), "--cpu-budget", "50%", "--windows", "1s/%ds" % WINDOW, "--trace", "0"])
    monitors = [main, of_window]
    threading.Thread(target=looks, args=(monitors,), daemon=True).start()
    time.sleep(3)
    say(load())
    phase()
    say(load())
    is_good = report()
    of_windows.stdin.close()
    quiet, minutes = len(events), seconds / 120
    until = time.time() + seconds / 2
    while time.time() < until:
        time.sleep(1)
    say(load())
    later = events[quiet:]
    for e in later:
        print("%.1f s after the start: %s of %s (%s): %s" % (e["at"] - begun, e["trigger"], e["comm"], e["pid"], e["text"]))
    lacking = sum(e["trigger"] == NO_CPU for e in later)
    print("stalls in %g minutes of the healthy programs: %d, and %d of threads that waited for a CPU" % (minutes, len(later) - lacking, lacking))
    dead = [program.args[4] for program in programs if program.poll() is not None]
    if dead:
        print("ended before the end: %s" % dead)
    code = 0 if is_good and len(later) == lacking and not dead else 1
finally:
    is_over.set()
    for program in children:
        if program.poll() is None:
            program.send_signal(signal.SIGCONT)
            program.terminate()
    for program in children:
        try:
            program.wait(10)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
    for path in reversed(groups):
        try:
            os.rmdir(path)
        except OSError as e:
            say(e)
sys.exit(code)
END
