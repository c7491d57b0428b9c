"""`track` beside Apache Otava, the maintained implementation of Hunter: the same made histories, change for change.

200 histories of 40 runs vary by 3 %: a quarter are level, the others rise or fall once or twice, by 10 to 40 %. Otava decides each by the
values, iotrail by their logarithms and with three runs a side at least, so that a few may differ. What is known here is where the changes
were made: what each of the two missed and invented is printed beside the other's.
"""

import json
import math
import random
import sqlite3

from common import differ, end, fresh, same, tool

HISTORIES, RUNS, NOISE = 200, 40, 0.03
# After the run from which they are created.
FIRST = 2


def made(rng):
    """Values, and the places of the changes."""
    places = {0: [], 1: [rng.randint(8, 31)], 2: [rng.randint(8, 17), rng.randint(23, 31)]}[rng.choice([0, 1, 1, 2])]
    level, values = 1000.0, []
    for i in range(RUNS):
        if i in places:
            level *= math.exp(rng.choice([-1, 1]) * rng.uniform(0.1, 0.35))
        values.append(level * math.exp(rng.gauss(0, NOISE)))
    return values, places


def ours(histories):
    folder = fresh("track")
    folder.mkdir()
    store = folder / "store.db"
    tool("bench", "--rw", "nop", "--count", 100, "--warmup", 0, "--trace", "off", "--store", store)
    db = sqlite3.connect(store)
    db.row_factory = sqlite3.Row
    a_run, a_measurement = (dict(db.execute(f"SELECT * FROM {table}").fetchone()) for table in ("runs", "measurements"))
    told = json.loads(a_measurement["json"])

    def insert(table, row):
        db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))

    for i, (values, _) in enumerate(histories):
        for j, value in enumerate(values):
            number = FIRST + i * RUNS + j
            insert("runs", a_run | {"run": number, "experiment": f"made-{i}"})
            insert("cells", {"run": number, "cell": 1, "params": "{}"})
            insert("measurements", a_measurement | {"measurement": number, "run": number, "iops": value, "json": json.dumps(told | {"iops": value})})
    db.commit()
    db.close()
    for i in range(len(histories)):
        h = json.loads(tool("track", f"made-{i}", "--metric", "iops", "--at-least", "0.0001", "--json", "--store", store).stdout)
        yield [c["run"] - FIRST - i * RUNS for c in h["series"][0]["changes"]]
    fresh("track")


def theirs(histories):
    from otava.series import Metric, Series

    for values, _ in histories:
        series = Series("made", None, list(range(RUNS)), {"iops": Metric(1, 1.0)}, {"iops": values}, {})
        yield [int(c.index) for c in series.analyze().change_points["iops"]]


def missed(found, truth):
    """Changes without one found within two runs of them."""
    return sum(all(abs(f - t) > 2 for f in found) for t in truth)


try:
    rng = random.Random(7)
    histories = [made(rng) for _ in range(HISTORIES)]
    both = list(zip(histories, theirs(histories), ours(histories)))
    alike = sum(a == b for _, a, b in both)
    truth = [places for (_, places), _, _ in both]
    counts = {}
    for name, who in (("Otava", 1), ("iotrail", 2)):
        found = [entry[who] for entry in both]
        counts[name] = [sum(map(missed, found, truth)), sum(map(missed, truth, found))]
        print(f"   {name} missed {counts[name][0]} of {sum(map(len, truth))} changes, and reported {counts[name][1]} false ones")
    for (_, places), otava, iotrail in both:
        if otava != iotrail:
            print(f"   made at {places}: Otava {otava}, iotrail {iotrail}")
    same(f"the same changes in nine of ten histories ({alike} of {HISTORIES})", True, alike >= 0.9 * HISTORIES)
    for i, what in enumerate(("missed", "found that were not made")):
        same(f"changes {what}: no more than one in a hundred histories beyond Otava's", True, counts["iotrail"][i] <= counts["Otava"][i] + HISTORIES // 100)
except ImportError:
    print("not installed: apache-otava")
    differ.append("Otava could not be had")
end()
