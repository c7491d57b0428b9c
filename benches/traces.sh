#!/bin/sh
# Measurements as they come one after another on this machine: one load, measured again and again as a run does it. What the simulation of the
# interval's coverage draws from (crates/stats/src/traces.txt) was made by this, beside other work. A line for each load: its name, and IOPS in order of
# time; the two of a block may stand the other way round.
#
# usage: traces.sh [IOTRAIL] [MEASUREMENTS]
set -eu
iotrail=${1:-target/release/iotrail}
measurements=${2:-400}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

series() { # name, lines of the load
    cat >"$dir/e.toml" <<TOML
name = "traces"
title = "One load, again and again"
question = "How do its measurements vary?"
expect = "No drift."
repeats = $((measurements / 2))
metrics = ["iops"]
[load]
trace = "off"
cpus = "0"
runtime = "60ms"
$2
[[arm]]
name = "load"
warmup = "10ms"
[[arm]]
name = "twin"
warmup = "11ms"
TOML
    rm -f "$dir/store.db"
    "$iotrail" run "$dir/e.toml" --seed 1 --store "$dir/store.db" --json >"$dir/run.json"
    python3 - "$1" "$dir/run.json" <<'PY'
import json, sys
cells = json.load(open(sys.argv[2]))["cells"]
blocks = zip(*([m["iops"] for m in c["measurements"]] for c in cells))
print(sys.argv[1] + ":", *(f"{v:.5g}" for block in blocks for v in block))
PY
}

series 'no-ops' 'rw = "nop"
depth = 128
batch = 128'
series 'no-ops, one a call' 'rw = "nop"
depth = 1'
series 'direct reads, depth 1' 'rw = "randread"
depth = 1'
series 'direct reads, depth 16' 'rw = "randread"
depth = 16'
