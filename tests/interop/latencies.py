"""HdrHistogram's log, read by another implementation; fio's JSON, beside fio's own, and drawn by fio-plot."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from common import WORK, end, fresh, measurements, same, store, tool

path = store()
ours = measurements(path)

log = WORK / "latencies.hlog"
tool("export", "1", "--store", path, "--hdr", log, "--force")
try:
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    print("HdrHistogram log, HdrHistogram_py")
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000_000, 3))
    found = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found.append(histogram)
    same("lines", len(ours), len(found))
    same("latencies", sum(m["latency_ns"]["count"] for m in ours), sum(h.get_total_count() for h in found))
    # Quantiles are ranks that each library rounds in its own way; the ends and the mean are not. The mean is of the buckets.
    for what, of, within in (("min", "get_min_value", 0), ("max", "get_max_value", 0), ("mean", "get_mean_value", 0.001)):
        known = sorted(m["latency_ns"][what] for m in ours)
        theirs = sorted(getattr(h, of)() for h in found)
        for a, b in zip(known, theirs):
            same(f"{what} in ns", a, b, within)
    same("tags", len(ours), log.read_text().count("Tag=cell="))
except ImportError:
    print("not installed: hdrhistogram")

folder = fresh("fio")
tool("export", "1", "--store", path, "--fio", folder)
files = sorted(folder.glob("*/*/*.json"))
same("fio's files", len(ours), len(files))
same("fio's ios", sum(m["ios"] for m in ours), sum(json.loads(f.read_text())["jobs"][0]["read"]["total_ios"] for f in files))


def kinds(value, at=""):
    """Field -> kind; of the names that are values (bins, percentiles) the kind alone."""
    if isinstance(value, dict) and at.rsplit("/", 1)[-1] not in ("bins", "percentile", "job options"):
        for name, v in value.items():
            yield from kinds(v, f"{at}/{name}")
    else:
        yield at, "number" if isinstance(value, (int, float)) else type(value).__name__


if shutil.which("fio"):
    own = WORK / "own.json"
    subprocess.run(
        ["fio", "--name=x", f"--filename={WORK}/data", "--size=4m", "--rw=randread", "--ioengine=psync", "--runtime=1",
         "--lat_percentiles=1", "--disable_clat=1", "--disable_slat=1", "--output-format=json+", f"--output={own}"],
        check=True, capture_output=True,
    )
    theirs = json.loads(own.read_text())
    print(f"fio's JSON, {theirs['fio version']}")
    theirs, made = (dict(kinds(job)) for job in (theirs["jobs"][0], json.loads(files[0].read_text())["jobs"][0]))
    same("fields that fio does not have", [], sorted(made.keys() - theirs.keys()))
    same("fields of another kind", [], sorted(k for k in made.keys() & theirs.keys() if made[k] != theirs[k]))
    print(f"   omitted, because unknown: {', '.join(sorted(theirs.keys() - made.keys()))}")
else:
    print("not installed: fio")

plot = Path(sys.executable).with_name("fio-plot")
if plot.exists():
    print("fio-plot")
    # Plain directory names; the drawn data is the same.
    drawn = fresh("drawn")
    drawn.mkdir()
    repeat = sorted(folder.glob("*/repeat-1"))[0]
    for name, args in (("3d", ["-L", "-t", "iops", "-r", "randread"]), ("2d", ["-l", "-d", "1", "16", "-n", "1", "-r", "randread"]),
                       ("histogram", ["-H", "-d", "16", "-n", "1", "-r", "randread"])):
        done = subprocess.run([plot, "-i", repeat, "-T", name, "-o", drawn / f"{name}.png", *args], capture_output=True, text=True)
        size = (drawn / f"{name}.png").stat().st_size if (drawn / f"{name}.png").exists() else 0
        same(f"{name} is drawn ({size} bytes)", (0, True), (done.returncode, size > 10_000))
        if done.returncode:
            print(done.stdout[-500:], done.stderr[-1500:])
else:
    print("not installed: fio-plot")
end()
