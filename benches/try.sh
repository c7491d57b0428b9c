#!/bin/sh
# Whether `try` can be believed.
#
# Supervisor  the same program with its io_uring_setup supervised and not, interleaved: no-ops, and direct reads. Ratio of wall time.
# A/A         the program against itself under another name of an environment variable: how often a difference is called. At most 5 %.
# Builds      a liburing program that was built for a set of flags, and the one without flags under `try --ring`: both against the one
#             without, in one run. The ratios have to agree within their intervals.
# Slowdowns   5, 10 and 50 % more computing between batches of 8 no-ops of 0.13 µs, as another command: found slower, or inconclusive; never
#             faster.
#
# Some ten minutes. Needs root for the watched runs.
#
# With LOAD=PATH another iotrail is the load.
#
# usage: try.sh [IOTRAIL] [A/A RUNS] [BLOCKS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=$(realpath "${1:-target/release/iotrail}")
runs=${2:-100}
blocks=${3:-10}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
dd if=/dev/zero of="$dir/file" bs=1M count=64 status=none
sync "$dir/file"

loader=${LOAD:-$iotrail}
nop="$loader bench --rw nop --depth 16 --batch 8 --cpus 0 --warmup 0 --trace off --count"
read="$loader bench --file $dir/file --size 64m --depth 4 --warmup 0 --trace off --count"

# metric, arm, ratio, interval and verdict of each comparison of a run's JSON.
compared() {
    python3 -c '
import json, sys
for c in json.load(sys.stdin)["comparisons"]:
    r, ci = c["ratio"], c["ci95"] or [float("nan")] * 2
    print("  %-9s %-34s %.3f (%.3f to %.3f)  %s" % (c["metric"], c["b"], r if r is not None else float("nan"), ci[0], ci[1], c["verdict"]))
'
}

echo "Supervisor (wall time, supervised against not, $blocks blocks):"
for load in "$nop 8000000" "$read 8000"; do
    cat >"$dir/e.toml" <<END
name = "supervisor"
title = "t"
question = "q"
expect = "e"
kind = "program"
repeats = $blocks
metrics = ["elapsed"]
[load]
program = "$load"
watch = "none"
[[arm]]
name = "alone"
supervised = false
[[arm]]
name = "supervised"
END
    echo " ${load##*/iotrail }"
    "$iotrail" run "$dir/e.toml" --json --store "$dir/s.db" 2>/dev/null | compared
done

echo "A/A, $runs runs of 2 metrics each:"
for load in "$nop 100000" "$read 200"; do
    i=0 called=0
    while [ "$i" -lt "$runs" ]; do
        "$iotrail" try --json --watch none --repeats 6 --env-arm B=1 --store "$dir/s.db" -- $load 2>/dev/null >"$dir/json"
        if grep -qE '"verdict": "(slower|faster)"' "$dir/json"; then called=$((called + 1)); fi
        i=$((i + 1))
    done
    echo "  a difference in $called of $runs: ${load##*/iotrail }"
done

echo "Builds against try, peeking on the CPU without the disk's interrupt ($blocks blocks; as-is: no flags):"
if "${CC:-cc}" -O2 -o "$dir/peek" "$(dirname "$0")/peek.c" -luring 2>/dev/null; then
    peek="$dir/peek $dir/file 400 peek"
    "$iotrail" try --json --repeats "$blocks" --store "$dir/s.db" --metric 'riops=/riops ([0-9.]+)/' --cpus non-irq \
        --ring coop_taskrun --arm "built coop_taskrun: $peek 8" \
        --ring coop_taskrun,taskrun_flag --arm "built coop_taskrun,taskrun_flag: $peek 8 9" \
        --ring defer_taskrun,single_issuer --arm "built defer_taskrun,single_issuer: $peek 12 13" \
        --ring single_issuer --arm "built single_issuer: $peek 12" \
        --ring sqpoll --arm "built sqpoll: $peek 1" -- $peek 2>"$dir/said" >"$dir/json" || true
    compared <"$dir/json" | grep riops || cat "$dir/said"
else
    echo "  cc or liburing                not installed"
fi

echo "Slowdowns ($blocks blocks):"
"$iotrail" try --json --repeats "$blocks" --watch none --store "$dir/s.db" \
    --arm "5 %: $nop 4000000 --think 52" --arm "10 %: $nop 4000000 --think 104" --arm "50 %: $nop 4000000 --think 520" \
    -- $nop 4000000 2>/dev/null | compared
