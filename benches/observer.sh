#!/bin/sh
# What watching costs the watched: CPU time per completion of the no-op load with the default probes, and with bpftrace
# counting the same (where it is installed and root allows), each against the unwatched load; then IOPS of
# direct reads with and without the probes. Interleaved rounds; medians of the rounds' differences and ratios. A disk's IOPS
# vary more from second to second than watching costs: so the direct reads have many short pairs, their order alternating.
# Needs root. Some five minutes.
#
# usage: observer.sh [IOTRAIL] [ROUNDS] [PAIRS of direct reads]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
rounds=${2:-7}
pairs=${3:-60}
cpu=${CPU:-0}
# The probes' own rule (docs/accuracy.md), so that both give the same counts: of one process, the completions of
# io_uring's own threads (PF_IO_WORKER) apart; of those pending at a run of n items the last n came by it, those before it inline.
script='tracepoint:io_uring:io_uring_complete /pid == PID/ {
            if (((struct task_struct *)curtask)->flags & 0x10) { @helper[tid] = count(); } else { @pending[tid]++; } }
        tracepoint:io_uring:io_uring_task_work_run /pid == PID && args->count > 0/ {
            $run = (uint64)args->count < @pending[tid] ? (uint64)args->count : @pending[tid];
            @run[tid] = sum($run); @inlined[tid] = sum(@pending[tid] - $run); @pending[tid] = 0; }'

if [ "$(id -u)" != 0 ]; then
    echo "cost of watching: skipped, the probes need root"
    exit 0
fi
dir=$(mktemp -d)
tracer=
stop_tracer() {
    if [ -n "$tracer" ]; then kill -INT "$tracer" 2>/dev/null || true; wait "$tracer" 2>/dev/null || true; tracer=; fi
}
trap 'stop_tracer; rm -rf "$dir"' EXIT INT TERM

nop="--rw nop --depth 16 --batch 8 --cpus $cpu --runtime 1s --json"

# The load under bpftrace: it attaches while the load warms up, to the load's process.
traced() {
    "$iotrail" bench $nop --warmup 5s --trace off >"$dir/json" &
    load=$!
    start_tracer "$load" || { wait "$load"; stop_tracer; return 1; }
    wait "$load"
    stop_tracer
    grep -q '@pending\[' "$dir/tracer" || { echo "bpftrace counted nothing" >&2; return 1; }
    cost <"$dir/json"
}

direct() { # trace: IOPS
    "$iotrail" bench --file "$dir/file" --depth 16 --warmup 100ms --runtime 1s --trace "$1" --json | value iops
}

# Of the ratios in the file: the median, and the 95 % interval that order statistics give it (sign test).
ratio() {
    sort -n "$1" | awk '{ v[NR] = $1 } END {
        k = int((NR - 1.96 * sqrt(NR)) / 2); if (k < 1) k = 1
        printf "%s (95 %% interval %s to %s)", v[int((NR + 1) / 2)], v[k], v[NR + 1 - k] }'
}

start_tracer() { # process
    bpftrace -e "$(printf %s "$script" | sed "s/PID/$1/g")" >"$dir/tracer" 2>&1 &
    tracer=$!
    # It says so when it attaches.
    waited=0
    while ! grep -q Attaching "$dir/tracer" 2>/dev/null; do
        waited=$((waited + 1))
        if [ "$waited" -gt 100 ] || ! kill -0 "$tracer" 2>/dev/null; then return 1; fi
        sleep 0.1
    done
    sleep 1
}

"$iotrail" bench --file "$dir/file" --size 256m --count 64 --warmup 0 --trace off --json >/dev/null
have_bpftrace=
if command -v bpftrace >/dev/null 2>&1; then have_bpftrace=1; fi

round=0
while [ "$round" -lt "$rounds" ]; do
    off=$("$iotrail" bench $nop --warmup 200ms --trace off | cost)
    on=$("$iotrail" bench $nop --warmup 200ms --trace on | cost)
    echo "$off" >>"$dir/off"
    awk -v a="$on" -v b="$off" 'BEGIN { printf "%.2f\n", a - b }' >>"$dir/probes"
    if [ -n "$have_bpftrace" ] && traced=$(traced); then
        awk -v a="$traced" -v b="$off" 'BEGIN { printf "%.2f\n", a - b }' >>"$dir/bpftrace"
    fi
    stop_tracer
    round=$((round + 1))
done

pair=0
while [ "$pair" -lt "$pairs" ]; do
    if [ $((pair % 2)) = 0 ]; then on=$(direct on) off=$(direct off); else off=$(direct off) on=$(direct on); fi
    awk -v a="$on" -v b="$off" 'BEGIN { printf "%.4f\n", a / b }' >>"$dir/direct"
    pair=$((pair + 1))
done

echo "cost of watching, median of $rounds interleaved rounds, CPU $cpu:"
printf '  no-ops, unwatched          %8s ns of CPU time per completion\n' "$(median "$dir/off")"
printf '  with the default probes    %+8.1f ns\n' "$(median "$dir/probes")"
if [ -s "$dir/bpftrace" ]; then
    printf '  with bpftrace              %+8.1f ns   %s times as much\n' "$(median "$dir/bpftrace")" \
        "$(awk -v a="$(median "$dir/bpftrace")" -v b="$(median "$dir/probes")" 'BEGIN { printf "%.1f", a / b }')"
else
    echo "  with bpftrace              not installed"
fi
printf '  direct 4 KiB reads, depth 16: %s times the IOPS of the unwatched load, %s pairs\n' \
    "$(ratio "$dir/direct")" "$pairs"
