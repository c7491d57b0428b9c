"""What the checks share: a run to export, the tool, and how two numbers are compared."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

BINARY = sys.argv[1]
WORK = Path.cwd()

EXPERIMENT = """
name = "interop"
title = "Something of everything"
question = "Is what is exported what was measured?"
expect = "It is."
repeats = 2
follow = 4

[load]
engine = "io_uring"
runtime = "200ms"
rw = "randread"
warmup = "50ms"

[matrix]
depth = [1, 16]


[[arm]]
name = "=default"

[[arm]]
name = "coop,\\"taskrun\\""
ring = "coop_taskrun"
"""

differ = []


def tool(*args, check=True):
    done = subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"iotrail {' '.join(map(str, args))}: {done.stderr}")
    return done


def fresh(name):
    shutil.rmtree(WORK / name, ignore_errors=True)
    return WORK / name


def store():
    """One run of ours, made once."""
    path = WORK / "store.db"
    if not path.exists():
        (WORK / "interop.toml").write_text(EXPERIMENT)
        tool("run", WORK / "interop.toml", "--store", path, "--file", WORK / "data", "--size", "64m")
    return path


def elsewhere(path):
    """The same run as if another host had made it."""
    other = WORK / "other.db"
    shutil.copy(path, other)
    db = sqlite3.connect(other)
    db.execute("UPDATE measurements SET hostname = 'else/where', json = json_set(json, '$.host.hostname', 'else/where')")
    db.execute("UPDATE measured_by SET hostname = 'else/where'")
    db.commit()
    return other


def measurements(path):
    db = sqlite3.connect(path)
    return [json.loads(text) for (text,) in db.execute("SELECT json FROM measurements ORDER BY cell, repeat")]


def same(what, ours, theirs, within=0.0):
    fits = ours == theirs or (within and abs(ours - theirs) <= within * abs(ours))
    print(f"   {'' if fits else 'DIFFERENT '}{what}: {ours} here, {theirs} there")
    if not fits:
        differ.append(what)


def end():
    if differ:
        sys.exit(f"different: {', '.join(differ)}")
