"""liburing's own tests."""

import shutil
import subprocess
from fnmatch import fnmatch

from trace import heading, told

SKIPPED = 77


def check(peers):
    print("== liburing's tests")
    folder = peers.asked.liburing or sources(peers.work)
    if folder is None:
        print("  not installed: `apt-get source liburing` brings nothing here (--liburing FOLDER names its sources)")
        return True
    tests = build(folder.resolve())
    tests = [test for test in tests if fnmatch(test.stem, peers.asked.test)]
    # Files that a test makes are made there.
    scratch = peers.work / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()

    def once(test, how):
        return how([test], cwd=scratch, seconds=90)

    alone, traced = {}, {}
    for test in tests:
        alone[test] = once(test, peers.alone)
        traced[test] = once(test, peers.traced)
    fine = statuses(peers, tests, alone, traced, once)
    counts(peers, [test for test in tests if alone[test].status == 0], once)
    return fine


def statuses(peers, tests, alone, traced, once):
    differ = [test for test in tests if alone[test].status != traced[test].status]
    passed = sum(ran.status == 0 for ran in alone.values())
    skipped = sum(ran.status == SKIPPED for ran in alone.values())
    print(f"  {len(tests)} tests: alone {passed} pass, {skipped} are skipped; under trace {len(tests) - len(differ)} end with the same status")
    fine = True
    for test in differ:
        # Some end one way or the other by themselves.
        ever = {alone[test].status, *(once(test, peers.alone).status for _ in range(4))}
        seen = {traced[test].status, *(once(test, peers.traced).status for _ in range(2))}
        same = bool(ever & seen)
        fine &= same
        print(f"  {test.stem:<40} alone {sorted(map(str, ever))}, under trace {sorted(map(str, seen))}{'' if same else '  DIFFERS'}")
    both = [t for t in tests if alone[t].status == traced[t].status != "too long" and traced[t].record]
    sum_alone = sum(alone[t].seconds for t in both)
    sum_traced = sum(traced[t].seconds for t in both)
    watched = sum(traced[t].record["total"]["elapsed_ns"] / 1e9 for t in both)
    print(f"  time of {len(both)} tests: alone {sum_alone:.1f} s, the same while watched {watched:.1f} s ({watched / sum_alone:.2f} times), "
          f"iotrail's start and end included {sum_traced:.1f} s")
    return fine


def counts(peers, tests, once):
    heading()
    peers.counter.start()
    ran = {test: once(test, peers.traced) for test in tests}
    counted = peers.counter.stop()
    agree, total = 0, 0
    # Numbers of sessions are used again: those that have one in common are compared together.
    by_session = {}
    for test, one in ran.items():
        if one.record is None or one.session is None or one.status == "too long":
            print(f"  {test.stem:<40} no record: it ended with {one.status}")
            continue
        by_session.setdefault(one.session, []).append((test, one))
    for session, these in by_session.items():
        here = counted.get(session, 0)
        seen = sum(one.completions() for _, one in these)
        total += here
        if here == seen:
            agree += len(these)
        else:
            told(" + ".join(test.stem for test, _ in these), here, seen)
    print(f"  agree: {agree} of {len(ran)} tests, {total} completions in all")


def sources(work):
    """Debian's source package, unpacked."""
    folder = work / "debian"
    found = sorted(folder.glob("liburing-*/test"))
    if not found and shutil.which("dpkg-source"):
        folder.mkdir(exist_ok=True)
        lists = folder / "apt"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (folder / "sources.list").write_text("deb-src http://deb.debian.org/debian bookworm main\n")
        apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Etc::SourceList={folder}/sources.list",
               "-o", "Dir::Etc::SourceParts=/dev/null"]
        if subprocess.run([*apt, "update"]).returncode == 0:
            subprocess.run([*apt, "source", "liburing"], cwd=folder)
        found = sorted(folder.glob("liburing-*/test"))
    return found[0].parent if found else None


def build(folder):
    """Programs that are built already stay as they are."""
    tests = folder / "test"
    if not list(tests.glob("*.t")):
        quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["./configure"], **quiet)
        subprocess.run(["make", "-j2", "-C", "src"], **quiet)
        # One that this compiler refuses is not there then.
        subprocess.run(["make", "-k", "-j2", "-C", "test"], **{**quiet, "check": False})
    return sorted(tests.glob("*.t"))
