#!/bin/sh
# What watching costs programs of others': CPU time of an operation while `iotrail trace -p` watches, against the same running program
# a moment before, by the kernel's own counters (/proc/PID/task/*/schedstat, and the completions in the rings' fdinfo). Pairs of spans,
# off and on in turn; median of their ratios with its 95 % interval (sign test). fio from the page cache in batches of 8, fio direct at
# depth 32, and our own no-ops; in a watch's first ten seconds, after them (--light-after, sooner, to save time), with everything looked at all the
# time (--exact), and in windows of 10 ms a second. Needs root. Some 45 minutes with 20 pairs.
#
# usage: programs.sh [IOTRAIL] [PAIRS] [PID of another program with rings]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
pairs=${2:-20}
other=${3:-}
cpu=${CPU:-0}
seconds=2

if [ "$(id -u)" != 0 ]; then
    echo "cost of being watched: skipped, the probes need root"
    exit 0
fi
dir=$(mktemp -d)
program=
tracer=
stop() {
    for p in $program $tracer; do kill "$p" 2>/dev/null || true; wait "$p" 2>/dev/null || true; done
    program= tracer=
}
trap 'stop; rm -rf "$dir"' EXIT INT TERM

# Completions of a process's rings so far, then its CPU nanoseconds. While a ring is locked the kernel prints nothing of it: asked again.
counters() {
    posted=0
    for fd in /proc/"$1"/fd/*; do
        if [ "$(readlink "$fd")" != "anon_inode:[io_uring]" ]; then continue; fi
        tail=
        while [ -z "$tail" ] && [ -e "$fd" ]; do
            while read -r key value rest; do
                if [ "$key" = CachedCqTail: ]; then tail=$value; fi
            done <"/proc/$1/fdinfo/${fd##*/}"
        done
        posted=$((posted + ${tail:-0}))
    done
    spent=0
    for t in /proc/"$1"/task/*/schedstat; do
        if read -r ns rest <"$t"; then spent=$((spent + ns)); fi
    done 2>/dev/null
    echo "$spent $posted"
}

# CPU nanoseconds of an operation over a span from now.
span() {
    before=$(counters "$1")
    sleep "$seconds"
    after=$(counters "$1")
    echo "$before $after" | awk '{ n = $4 - $2; if (n < 0) n += 4294967296; if (n > 0) printf "%.2f", ($3 - $1) / n }'
}

# The process's ratios under these options of trace.
pairs_of() { # name, process, options
    name=$1 process=$2
    shift 2
    : >"$dir/ratios"
    : >"$dir/off"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        off=$(span "$process")
        "$iotrail" trace -p "$process" --json "$@" >"$dir/trace" 2>&1 &
        tracer=$!
        # It loads, and then looks at everything for a moment before it spares the program.
        sleep "$settle"
        on=$(span "$process")
        kill -INT "$tracer"
        wait "$tracer" || { cat "$dir/trace" >&2; exit 1; }
        tracer=
        echo "$off" >>"$dir/off"
        awk -v a="$on" -v b="$off" 'BEGIN { printf "%.4f\n", a / b }' >>"$dir/ratios"
        i=$((i + 1))
    done
    sort -n "$dir/ratios" | awk -v name="$name $*" -v off="$(median "$dir/off")" '{ v[NR] = $1 } END {
        k = int((NR - 1.96 * sqrt(NR)) / 2); if (k < 1) k = 1
        printf "  %-44s %8.0f ns  %.3f times as much (95 %% interval %.3f to %.3f)\n", name, off, v[int((NR + 1) / 2)], v[k], v[NR + 1 - k] }'
}

watched() { # name, process
    settle=5
    pairs_of "$1" "$2" --light-after 2s
    settle=2
    pairs_of "$1" "$2"
    pairs_of "$1" "$2" --exact
    pairs_of "$1" "$2" --windows 10ms/1s
}

echo "CPU time of an operation, and how much more it is while watched; $pairs pairs of $seconds s, CPU $cpu:"
fio_job() { # options
    fio --name=g --thread --ioengine=io_uring --rw=randread --bs=4k --size=64m --filename="$dir/data" --iodepth=32 --norandommap \
        --time_based --runtime=3600 --cpus_allowed="$cpu" "$@" >/dev/null 2>&1 &
    program=$!
    sleep 3
}
if command -v fio >/dev/null 2>&1; then
    fio --name=g --rw=write --bs=1m --size=64m --filename="$dir/data" >/dev/null 2>&1
    fio_job --iodepth_batch_submit=8 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=8
    watched "fio, page cache, batches of 8" "$program"
    stop
    fio_job --direct=1
    watched "fio, direct, depth 32" "$program"
    stop
else
    echo "  fio                          not installed"
fi
"$iotrail" bench --rw nop --depth 16 --batch 8 --cpus "$cpu" --warmup 0 --runtime 3600s --trace off >/dev/null 2>&1 &
program=$!
sleep 1
watched "no-ops, depth 16, batches of 8" "$program"
stop
if [ -n "$other" ]; then watched "process $other" "$other"; fi
