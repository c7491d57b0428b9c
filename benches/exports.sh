#!/bin/sh
# How long exports and reports of a stored run take, and the most memory they hold, at 1,000 and at 10,000 measurements: both should grow
# by no more than the measurements do, and the memory of what is streamed not at all.
# usage: benches/exports.sh IOTRAIL STORED (the example `stored`)
set -eu
iotrail=$(realpath "$1") stored=$(realpath "$2")
command -v python3 >/dev/null || { echo "skipped: python3 is not installed, and tells the memory"; exit 0; }
# In memory: making a store waits for the disk at each of its measurements.
place=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$place"' EXIT
for repeats in 21 208; do "$stored" "$place/$repeats.db" coop "$repeats"; done
python3 -B - "$iotrail" "$place" <<'PYTHON'
import os, shutil, subprocess, sys, time

iotrail, place = sys.argv[1:]
ways = {
    "report": ["report", "1"],
    "report -o page": ["report", "1", "-o", f"{place}/page.html"],
    "export --json": ["export", "1", "--json", f"{place}/out"],
    "export --csv": ["export", "1", "--csv", f"{place}/out"],
    "export --csv --table histogram": ["export", "1", "--table", "histogram", "--csv", f"{place}/out"],
    "export --parquet": ["export", "1", "--parquet", f"{place}/folder"],
    "export --hdr": ["export", "1", "--hdr", f"{place}/out"],
    "export --fio": ["export", "1", "--fio", f"{place}/folder"],
}

def once(args, store):
    """Seconds and MiB."""
    begin = time.monotonic()
    child = subprocess.Popen([iotrail, *args, "--store", store], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    took = time.monotonic() - begin
    if status:
        sys.exit(f"{args}: status {status}")
    for left in ("out", "page.html"):
        if os.path.exists(f"{place}/{left}"):
            os.remove(f"{place}/{left}")
    shutil.rmtree(f"{place}/folder", ignore_errors=True)
    return took, usage.ru_maxrss / 1024

print(f"{'':32}{'seconds':>9}{'10 times':>10}{'ratio':>7}{'MiB':>8}{'10 times':>10}")
for name, args in ways.items():
    # The best of three: what else runs only adds.
    few, many = ([once(args, f"{place}/{n}.db") for _ in range(3)] for n in (21, 208))
    (s, m), (ten_s, ten_m) = ((min(t for t, _ in of), min(m for _, m in of)) for of in (few, many))
    print(f"{name:32}{s:9.2f}{ten_s:10.2f}{ten_s / s:7.1f}{m:8.0f}{ten_m:10.0f}", flush=True)
PYTHON
