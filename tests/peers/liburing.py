"""liburing's own tests."""

import shutil
from fnmatch import fnmatch

from trace import heading, told

SKIPPED = 77


def check(peers):
    print("== liburing's tests")
    tests = built(peers.asked.liburing, peers.asked.test) if peers.asked.liburing else []
    if not tests:
        print("  not run: no built tests (*.t) were specified; set LIBURING=DIRECTORY")
        return True
    # The tests create their files there.
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
    print(f"  {len(tests)} tests: untraced, {passed} pass and {skipped} are skipped; traced, {len(tests) - len(differ)} end with the same status")
    fine = True
    for test in differ:
        # The result of these tests varies by itself.
        ever = {alone[test].status, *(once(test, peers.alone).status for _ in range(4))}
        seen = {traced[test].status, *(once(test, peers.traced).status for _ in range(2))}
        same = bool(ever & seen)
        fine &= same
        print(f"  {test.stem:<40} untraced {sorted(map(str, ever))}, traced {sorted(map(str, seen))}{'' if same else '  DIFFERS'}")
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
    # Session IDs are reused: tests with the same session ID are compared together.
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


def built(folder, pattern):
    """The programs of liburing's tests in the folder, or in its `test`. Without a pattern one in four, by name."""
    tests = sorted(folder.glob("*.t")) or sorted((folder / "test").glob("*.t"))
    return [test.resolve() for test in tests if fnmatch(test.stem, pattern)] if pattern else [test.resolve() for test in tests[::4]]
