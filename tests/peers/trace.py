"""One program, alone or traced; and an observer that counts beside."""

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# By session: all processes and threads of a program share one, including io_uring's threads; kernel workers have none. A completion
# that finds its queue full fires a different event.
COUNTING = """
BEGIN { printf("counting\\n"); }
tracepoint:io_uring:io_uring_complete,
tracepoint:io_uring:io_uring_cqe_overflow {
    $sid = ((struct task_struct *)curtask)->signal->pids[3];
    @[((struct upid *)((uint64)$sid + sizeof(struct pid)))->nr] = count();
}
"""

# bpftrace needs tracefs, which may not be mounted: mount it in its own namespace.
MOUNTED = 'mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing; exec bpftrace -f json -e "$1"'


class Counter:
    """bpftrace, which counts completions by session from `start` to `stop`."""

    def start(self):
        self.process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", MOUNTED, "sh", COUNTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "BPFTRACE_MAP_KEYS_MAX": "65536"}, start_new_session=True)
        for line in self.process.stdout:
            if "counting" in line:
                return
        raise SystemExit(f"bpftrace: {self.process.stderr.read()}")

    def stop(self):
        self.process.send_signal(2)
        out, _ = self.process.communicate()
        counts = {}
        for line in out.splitlines():
            record = json.loads(line) if line.startswith("{") else {}
            if record.get("type") == "map":
                counts.update({int(sid): n for sid, n in record["data"].get("@", {}).items()})
        return counts


@dataclass
class Ran:
    status: int | str
    seconds: float
    session: int | None = None
    record: dict | None = None

    def completions(self):
        """As traced: all of io_uring's, whichever ring they are of."""
        total = self.record["total"]
        apart = [o for context in self.record.get("contexts", []) for o in context["opcodes"]]
        return sum(o["completions"] for o in total["opcodes"]) - sum(o["completions"] for o in apart)


@dataclass
class Peers:
    iotrail: Path
    work: Path
    counter: Counter
    asked: object

    def alone(self, command, **how):
        return self.run(command, [], **how)

    def traced(self, command, options=(), **how):
        with tempfile.TemporaryDirectory() as folder:
            session, record = Path(folder, "session"), Path(folder, "record")
            inside = ["setsid", "--wait", "sh", "-c", f'echo $$ >{session}; exec "$@"', "sh", *map(str, command)]
            with open(record, "w") as out:
                ran = self.run(inside, [self.iotrail, "trace", "--json", *options, "--"], stdout=out, **how)
            ran.session = int(session.read_text()) if session.exists() else None
            text = record.read_text()
            ran.record = json.loads(text) if text else None
            return ran

    def run(self, command, before, seconds=60, cwd=None, env=None, stdout=subprocess.DEVNULL):
        began = time.monotonic()
        process = subprocess.Popen(
            [*map(str, before), *map(str, command)], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL,
            cwd=cwd, env=env, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            # The tracer ends its command when it ends; without a tracer, there is nothing else to end.
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            status = "too long"
        if isinstance(status, int) and status < 0:
            status = 128 - status
        return Ran(status, time.monotonic() - began)


def heading():
    print(f"  {'completions':<40} {'bpftrace':>12} {'iotrail':>12}")


def told(name, counted, seen):
    """A line of the table; whether they agree."""
    agrees = counted == seen
    print(f"  {name:<40} {counted:>12} {seen:>12}  {'' if agrees else f'differs by {seen - counted:+}'}", flush=True)
    return agrees
