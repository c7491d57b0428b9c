#!/bin/sh
# Whether the effect of a change that `replay` predicts is the effect of the same change on the real program.
#
# The program is fio. For each change, fio runs PAIRS times with and without the change, alternately, with equal numbers of requests. `replay` predicts
# the effect from one recording of fio without the change. Ratios are of the IOPS with the change to the IOPS without it, with 95 % intervals.
# A change is answered if the verdict of `replay` is not "inconclusive". A measured ratio is inside if it is in the predicted interval.
# The sign is wrong if both intervals exclude 1, on different sides. The last column is the IOPS error of the self-check, without probes.
#
# 25 minutes on an idle machine. Needs root and fio. KEEP=DIR keeps recordings and JSON.
#
# usage: [KEEP=DIR] predictions.sh [IOTRAIL] [PAIRS] [SECONDS] [CHANGE...]
set -eu
iotrail=$(realpath "${1:-target/release/iotrail}")
pairs=${2:-8}
seconds=${3:-1.5}
[ $# -gt 3 ] && shift 3 || shift $#
dir=$(mktemp -d "${SCRATCH:-/var/tmp}/predictions.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
keep=${KEEP:-$dir}
mkdir -p "$keep"
dd if=/dev/urandom of="$dir/data" bs=1M count=128 status=none
sync "$dir/data"

python3 - "$iotrail" "$pairs" "$seconds" "$dir" "$(realpath "$keep")" "$@" <<'END'
import json, math, statistics, subprocess, sys

iotrail, pairs, seconds, dir, keep, only = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:6], sys.argv[6:]
STUDENT = [0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131]

def run(command):
    p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=dir)
    if p.returncode:
        sys.exit("%s: %s" % (" ".join(command), p.stderr))
    return p.stdout

def fio(options):
    return ["fio", "--output-format=json", "--name=j", "--filename=%s/data" % dir, "--rw=randread", "--bs=4k", "--size=128M", "--invalidate=0", *options]

def iops(text):
    job = json.loads(text[text.index("{"):])["jobs"][0]
    return job["read"]["total_ios"] * 1000 / job["read"]["runtime"]

def ratio(both):
    logs = [math.log(b / a) for a, b in both]
    half = STUDENT[min(len(logs), len(STUDENT)) - 1] * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
    mean = statistics.mean(logs)
    return math.exp(mean), [math.exp(mean - half), math.exp(mean + half)]

def interval(value, ends):
    return "%.3f (%.3f to %.3f)" % (value, *ends)

def result(ends, is_bound, measured, real):
    if ends[0] > 1 and real[1] < 1 or ends[1] < 1 and real[0] > 1:
        return "wrong sign"
    if ends[0] <= measured <= ends[1]:
        return "inside"
    if is_bound and measured < ends[0]:
        return "outside, below the upper bound"
    return "outside, intervals overlap" if ends[0] <= real[1] and real[0] <= ends[1] else "outside"

RING, FAST = ["--ioengine=io_uring"], ["--ioengine=io_uring", "--iodepth=16"]
batch = ["--iodepth_batch_submit=8", "--iodepth_batch_complete_min=8"]
# Change: fio without it, fio with it, options of `replay`.
changes = {
    "batch 8": (FAST, FAST + batch, ["--batch", "8"]),
    "depth 1 to 4": (RING + ["--iodepth=1"], RING + ["--iodepth=4"], ["--depth", "4"]),
    "depth 16 to 32": (FAST, RING + ["--iodepth=32"], ["--depth", "32"]),
    "psync to io_uring, depth 16": (["--ioengine=psync"], FAST, ["--engine", "io_uring", "--depth", "16"]),
    "registered buffers": (FAST, FAST + ["--fixedbufs=1"], ["--register", "buffers"]),
    "libaio": (FAST, ["--ioengine=libaio", "--iodepth=16"], ["--engine", "libaio"]),
    "registered files": (FAST, FAST + ["--registerfiles=1"], ["--register", "files"]),
}

def measure(name, kind, change):
    common = ["--direct=1"] if kind == "direct" else []
    base, variant, options = change
    open(dir + "/data", "rb").read()
    per_second = iops(run(fio(base + common + ["--time_based", "--runtime=1s"])))
    # A recording of cached reads is large, and half of the time is enough.
    count = int(per_second * seconds / (1 if kind == "direct" else 2))
    common.append("--io_size=%d" % (max(count, 1000) * 4096))
    base, variant = fio(base + common), fio(variant + common)
    file = "%s/%s" % (keep, "-".join((kind + " " + name).replace(",", "").split()))
    run([iotrail, "trace", "--for-replay", "--no-store", "--force", "--record", file + ".iotrail", "--", *base])
    out = run([iotrail, "replay", file + ".iotrail", "--json", "--repeats", str(pairs), *options])
    open(file + ".json", "w").write(out)
    out = json.loads(out)
    both = []
    for i in range(pairs):
        order = [base, variant] if i % 2 == 0 else [variant, base]
        first, second = [iops(run(command)) for command in order]
        both.append((first, second) if i % 2 == 0 else (second, first))
    real, ends = ratio(both)
    # For a program with synchronous calls, the last of these arms overlaps them. With think time per call, the arm has a second end.
    ends_of = [a for a in out["arms"] if "no think time" not in a["name"]]
    is_range = ends_of[-1].get("per_call", False)
    arm = ends_of[-2 if is_range else -1]
    both_ends = [next(c for c in a["comparisons"] if c["metric"] == "iops") for a in (ends_of[-2:] if is_range else ends_of[-1:])]
    c = next((c for c in both_ends if c["verdict"] == "inconclusive"), both_ends[0])
    if c["verdict"] == "inconclusive":
        why = (c["reasons"] or ["the interval is too wide"])[0]
        predicted, verdict = "%s: %s" % (interval(c["ratio"], c["ci95"]), why), "not answered"
    else:
        hull = [min(c["ci95"][0] for c in both_ends), max(c["ci95"][1] for c in both_ends)]
        predicted = interval(c["ratio"], hull) if not is_range else "%.3f to %.3f (%.3f to %.3f)" % (*(c["ratio"] for c in both_ends), *hull)
        predicted += ", no difference" if c["verdict"] == "equivalent" else ""
        verdict = result(hull, arm["upper_bound"], real, ends)
    check = out["fidelity"]["iops"]["error"] * out["capture_slowdown"]
    print("| %s, %s | %s | %s | %s | %+.1f %% |" % (name, kind, predicted, interval(real, ends), verdict, 100 * check), flush=True)
    open(file + ".fio", "w").write(json.dumps(both))

print("| change | predicted | fio | result | self-check |\n|---|---|---|---|---|", flush=True)
for name, change in changes.items():
    for kind in ("direct", "cached"):
        row = "%s, %s" % (name, kind)
        if not only or name in only or row in only:
            measure(name, kind, change)
END
