"""Servers and tools with io_uring in them, where they are installed."""

import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from trace import heading, told

PAIRS = 3


def compared(peers, name, command, **how):
    """Times in turn, alone and traced; then once more with bpftrace beside."""
    alone, traced = [], []
    for _ in range(PAIRS):
        alone.append(peers.alone(command, **how))
        traced.append(peers.traced(command, **how))
    peers.counter.start()
    last = peers.traced(command, **how)
    counted = peers.counter.stop().get(last.session, 0)
    # The program's own work succeeds, with and without the trace.
    same = all(ran.status == 0 for ran in [*alone, *traced, last])
    if last.record is None:
        print(f"  {name}: no record, status {last.status}")
        return False
    ratios = [t.record["total"]["elapsed_ns"] / 1e9 / a.seconds for a, t in zip(alone, traced)]
    print(f"  {name}: status {sorted({str(ran.status) for ran in alone})}, under trace {sorted({str(ran.status) for ran in traced})}, "
          f"{statistics.median(ratios):.2f} times as long while watched ({', '.join(f'{r:.2f}' for r in ratios)})")
    heading()
    return told(name, counted, last.completions()) and same


def qemu(peers):
    print("== QEMU")
    if not shutil.which("qemu-img"):
        print("  not installed: qemu-img")
        return True
    image = peers.work / "image"
    subprocess.run(["fallocate", "-l", "256M", image], check=True)
    bench = ["qemu-img", "bench", "-i", "io_uring", "-t", "none", "-c", "40000", "-d", "32", "-s", "4096", "-f", "raw", image]
    return compared(peers, "qemu-img bench -i io_uring", bench)


NODE = """
const { open } = require('fs/promises');
(async () => {
  const f = await open(process.argv[1], 'w+');
  const b = Buffer.alloc(4096, 7);
  for (let i = 0; i < 20000; i++) await f.write(b, 0, b.length, i * 4096);
  for (let i = 0; i < 20000; i++) await f.read(b, 0, b.length, i * 4096);
  await f.close();
})();
"""


def node(peers):
    print("== Node")
    if not shutil.which("node"):
        print("  not installed: node")
        return True
    script = peers.work / "files.js"
    script.write_text(NODE.replace("process.argv[1]", repr(str(peers.work / "node-data"))))
    return compared(peers, "node, 20000 writes and reads", ["node", script], env={**os.environ, "UV_USE_IO_URING": "1"})


def compared_session(peers, name, prepare, command, user=None):
    """A server's start, some work and its end, alone and then traced with bpftrace beside: `prepare` and `command` in a folder of their
    own, which stands after `command`. It leaves in `answer` what the server answered.
    """

    def session(how):
        with tempfile.TemporaryDirectory(dir=peers.work) as folder:
            if user:
                shutil.chown(folder, user)
            subprocess.run(prepare(folder), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ran = how([*command, folder], seconds=180)
            answer = Path(folder, "answer")
            return ran, answer.read_text() if answer.exists() else None

    alone, answer = session(peers.alone)
    peers.counter.start()
    traced, again = session(peers.traced)
    counts = peers.counter.stop()
    print(f"  {name}: status {alone.status} in {alone.seconds:.1f} s, rows and bytes {answer}; "
          f"under trace and bpftrace status {traced.status} in {traced.seconds:.1f} s, {again}")
    if traced.record is None:
        return False
    heading()
    # Each of a server's processes may have its own session: include those of all traced processes.
    sessions = {traced.session, *(p["tgid"] for p in traced.record["total"]["processes"])}
    counted = sum(n for session, n in counts.items() if session in sessions)
    return told(name, counted, traced.completions()) and (alone.status, answer) == (traced.status, again)


def mariadb(peers):
    print("== MariaDB")
    server = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    install = shutil.which("mariadb-install-db")
    if not server or not install:
        print("  not installed: mariadb-server")
        return True

    def prepare(folder):
        return [install, f"--datadir={folder}/data", "--user=root", "--auth-root-authentication-method=normal"]

    return compared_session(peers, "mariadbd", prepare, ["python3", Path(__file__).with_name("mariadb_session.py"), server])


def postgres(peers):
    print("== PostgreSQL")
    # Debian installs each version's programs in its own directory.
    own = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    path = os.pathsep.join([*map(str, reversed(own)), os.environ["PATH"]])
    server = shutil.which("postgres", path=path)
    if not server:
        print("  not installed: postgres")
        return True
    version = subprocess.run([server, "--version"], check=True, capture_output=True, text=True).stdout.split()[2]
    if int(version.split(".")[0].rstrip("abcdefghijklmnopqrstuvwxyz")) < 18:
        print(f"  not used: PostgreSQL supports io_uring since version 18, this is {version}")
        return True
    other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", f"PATH={path}"]

    def prepare(folder):
        return [*other, "initdb", "-D", f"{folder}/data", "-U", "peers", "-A", "trust", "--no-sync"]

    command = [*other, "python3", "-B", Path(__file__).with_name("postgres_session.py"), server]
    return compared_session(peers, f"postgres {version}", prepare, command, user="nobody")


CHECKS = {"qemu": qemu, "node": node, "mariadb": mariadb, "postgres": postgres}
