"""Blocked time by system call, in the account of `iotrail trace` and as bpftrace adds it up from the scheduler's events in the same run."""

import collections
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# A thread is blocked from the switch to its wake-up (sched_waking, where the waker begins). A stack per switch would cost bpftrace more than the shortest waits last, and
# iotrail's own probe runs after it. The system call is known without a stack.
COUNTING = """
BEGIN { printf("counting\\n"); }
tracepoint:sched:sched_process_exec / comm == "peer_waits" / { @traced[tid] = 1; }
tracepoint:task:task_newtask / @traced[tid] / { @traced[args->pid] = 1; }
tracepoint:raw_syscalls:sys_enter / @traced[tid] / { @call[tid] = args->id; }
tracepoint:sched:sched_switch / @traced[args->prev_pid] && (args->prev_state & 0xff) / { @since[args->prev_pid] = nsecs; }
tracepoint:sched:sched_waking / @since[args->pid] / {
    @blocked[@call[args->pid]] = sum(nsecs - @since[args->pid]);
    delete(@since[args->pid]);
}
END { clear(@traced); clear(@since); clear(@call); }
"""

# Numbers of x86-64.
CALLS = {
    0: "read", 1: "write", 7: "poll", 17: "pread64", 18: "pwrite64", 23: "select", 35: "nanosleep", 61: "wait4", 74: "fsync",
    75: "fdatasync", 202: "futex", 230: "clock_nanosleep", 232: "epoll_wait", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
    426: "io_uring_enter",
}

# Threads that sleep, contend for a lock, wait for a pipe and for an epoll instance, and sync a file.
WAITS = """
import os, select, sys, threading, time
r, w = os.pipe()
lock = threading.Lock()
def write():
    for _ in range(300): time.sleep(0.003); os.write(w, b"x")
def read():
    for _ in range(300): os.read(r, 1)
def contend():
    for _ in range(150):
        with lock: time.sleep(0.002)
        time.sleep(0.001)
def expire():
    e = select.epoll()
    for _ in range(100): e.poll(0.007)
def sync():
    fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
    for i in range(200): os.pwrite(fd, b"x" * 4096, i * 4096); os.fdatasync(fd)
threads = [threading.Thread(target=f) for f in (write, read, contend, contend, expire, sync)]
for t in threads: t.start()
for t in threads: t.join()
"""

# Sums below this many nanoseconds consist of only a few waits, and an observer may miss the end of each.
SMALL = 20_000_000
WITHIN = 0.02


def counted(program, arguments, iotrail, folder):
    """The account's blocked time and bpftrace's, both by system call."""
    name = Path(folder, "peer_waits")
    name.symlink_to(program)
    mounted = 'mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing; exec bpftrace -e "$1"'
    observer = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", mounted, "sh", COUNTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "BPFTRACE_MAP_KEYS_MAX": "65536"}, start_new_session=True)
    for line in observer.stdout:
        if "counting" in line:
            break
    traced = subprocess.run(
        [iotrail, "trace", "--no-store", "--exact", "--json", "--", name, *arguments], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120)
    observer.send_signal(2)
    theirs = collections.Counter()
    for number, ns in re.findall(r"@blocked\[(\d+)\]: (\d+)", observer.communicate()[0]):
        theirs[CALLS.get(int(number), "other")] += int(ns)
    ours = collections.Counter()
    for thread in json.loads(traced.stdout)["account"]["threads"]:
        for row in thread["rows"]:
            if row["state"] == "blocked":
                call = row.get("syscall")
                ours[call if call in CALLS.values() else "other"] += row["ns"]
    return ours, theirs


def compared(name, ours, theirs):
    print(f"  {name:<24} {'bpftrace ms':>12} {'iotrail ms':>12}")
    agree = True
    for call in sorted(theirs | ours, key=lambda call: -theirs[call]):
        larger = max(ours[call], theirs[call])
        within = larger < SMALL or abs(ours[call] - theirs[call]) <= WITHIN * larger
        agree &= within
        note = "" if within else f"  differs by {ours[call] / theirs[call] - 1:+.1%}" if theirs[call] else "  differs"
        print(f"  {call:<24} {theirs[call] / 1e6:>12.2f} {ours[call] / 1e6:>12.2f}{note}", flush=True)
    return agree


def check(peers):
    print("== blocked time by system call")
    if platform.machine() != "x86_64":
        print("  not run: the system call numbers are those of x86-64")
        return True
    agree = True
    for name, program, arguments in (
        ("python3", shutil.which("python3"), lambda folder: ["-c", WAITS, f"{folder}/synced"]),
        ("fio", shutil.which("fio"), lambda folder: [
            "--name=uring", "--ioengine=io_uring", "--rw=randread", "--direct=1", "--iodepth=4", "--size=64M", "--runtime=3",
            "--time_based", "--thread", f"--filename={folder}/data",
            "--name=synced", "--ioengine=psync", "--rw=randwrite", "--fdatasync=1", "--size=64M", "--runtime=3", "--time_based",
            "--thread", f"--filename={folder}/synced"]),
    ):
        if not program:
            print(f"  not installed: {name}")
            continue
        with tempfile.TemporaryDirectory(dir=peers.work) as folder:
            agree &= compared(name, *counted(os.path.realpath(program), arguments(folder), peers.iotrail, folder))
    return agree
