#!/bin/sh
# How often the intervals of `trace`'s estimates hold. Records system calls, completions and items of task work of programs by the millisecond
# with bpftrace. Replays them through the windows and the estimators with 1,000 seeds each. Then traces each program LIVE times and compares the
# estimate with a count of bpftrace over the same time.
#
# usage: [SEEDS=1000] [SPAN=5] [LIVE=5] [KEEP=DIR] estimates.sh [IOTRAIL] [ESTIMATES]
# KEEP: the recorded streams stay there, and are used again.
set -eu
. "$(dirname "$0")/common.sh"
iotrail=$(realpath "${1:-target/release/iotrail}")
estimates=$(realpath "${2:-target/release/examples/estimates}")
seeds=${SEEDS:-1000} seconds=${SPAN:-5} live=${LIVE:-5}

command -v bpftrace >/dev/null || { echo "bpftrace: not installed"; exit 0; }
command -v fio >/dev/null || { echo "fio: not installed"; exit 0; }
mountpoint -q /sys/kernel/tracing || { echo "skipped: tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)"; exit 0; }

dir=$(mktemp -d)
streams=${KEEP:-$dir}
mkdir -p "$streams"
program=
trap '[ -z "$program" ] || kill "$program" 2>/dev/null || true; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
dd if=/dev/zero of="$dir/data" bs=1M count=256 status=none

# name: command, for 12 s
programs() {
    fio="fio --name=j --filename=$dir/data --invalidate=0 --time_based --runtime=12 --thread --ioengine=io_uring --bs=4k --rw=randread --output=/dev/null"
    echo "direct32: $fio --direct=1 --iodepth=32"
    echo "direct1: $fio --direct=1 --iodepth=1"
    echo "cached: $fio --iodepth=16 --iodepth_batch_submit=8"
    echo "thinktime: $fio --iodepth=1 --thinktime=3000 --thinktime_blocks=20"
    echo "poisson: $fio --iodepth=8 --rate_iops=3000 --rate_process=poisson"
    echo "writes: fio --name=j --filename=$dir/written --size=64m --time_based --runtime=12 --thread --ioengine=io_uring --bs=16k --rw=randwrite --fsync=32 --iodepth=4 --output=/dev/null"
    echo "rate: $fio --direct=1 --iodepth=4 --rate_iops=2000 --thinktime=100000 --thinktime_blocks=500"
    echo "nops: $iotrail bench --rw nop --depth 16 --batch 8 --runtime 12s --trace off"
    echo "nops1: $iotrail bench --rw nop --depth 1 --runtime 12s --trace off"
    echo "jobs: $fio --numjobs=2 --iodepth=4 --thinktime=500 --thinktime_blocks=64"
    command -v qemu-img >/dev/null && echo "qemu: timeout 12 qemu-img bench -i io_uring -f raw -t none -c 100000000 -d 8 $dir/data"
    command -v node >/dev/null && echo "node: env UV_USE_IO_URING=1 node $(dirname "$0")/bursts.js $dir/data 12"
    return 0
}

# Starts the command of a program; its process is $program, and the condition for bpftrace is $own.
start() {
    # shellcheck disable=SC2086
    $1 >/dev/null 2>&1 &
    program=$!
    sleep 1
    own="pid == $program"
    for child in $(cat "/proc/$program/task/$program/children" 2>/dev/null); do own="$own || pid == $child"; done
}

stop() {
    kill $(cat "/proc/$program/task/$program/children" 2>/dev/null) "$program" 2>/dev/null || true
    wait "$program" 2>/dev/null || true
    program=
}

# Each CPU has its own counter, and none is set back: counters that CPUs share, or that are cleared while they run, repeat or lose a millisecond.
over_cpus() {
    seq 0 $(($(nproc --all) - 1)) | sed "s/.*/$1[&]/" | paste -sd+
}

programs >"$dir/programs"
while IFS= read -r line; do
    name=${line%%:*}
    [ ! -s "$streams/$name.ms" ] || continue
    start "${line#*: }"
    bpftrace -q -e "
        BEGIN { @ring = (uint64)0; }
        tracepoint:io_uring:io_uring_complete /$own/ { @c[cpu]++; if (@ring == 0) { @ring = (uint64)args->ctx; }
            if (@ring == (uint64)args->ctx) { @f[cpu]++; } }
        tracepoint:io_uring:io_uring_task_work_run /$own/ { @r[cpu] += args->count; }
        tracepoint:io_uring:io_uring_local_work_run /$own/ { @r[cpu] += args->count; }
        tracepoint:raw_syscalls:sys_exit /($own) && args->id != 426/ { @o[cpu]++; }
        tracepoint:raw_syscalls:sys_exit /$own/ { @s[cpu]++; }
        interval:ms:1 { printf(\"%d %d %d %d %d %d\n\", elapsed / 1000, $(over_cpus @c), $(over_cpus @o), $(over_cpus @s), $(over_cpus @r), $(over_cpus @f)); }
        interval:s:8 { exit(); } END { clear(@c); clear(@o); clear(@s); clear(@r); clear(@f); clear(@ring); }" >"$streams/$name.ms" 2>"$dir/errors" || { cat "$dir/errors"; exit 1; }
    stop
done <"$dir/programs"

echo "replayed: $seeds seeds, $seconds s each; a number is printed if its interval is narrow enough"
"$estimates" --seeds "$seeds" --seconds "$seconds" "$streams"/*.ms

[ "$live" -gt 0 ] || exit 0
echo
echo "live: calls per completion, traced for 5 s, and by bpftrace over the same time"
while IFS= read -r line; do
    for _ in $(seq "$live"); do
        start "${line#*: }"
        bpftrace -q -e "
            tracepoint:io_uring:io_uring_complete /$own/ { @c[cpu]++; }
            tracepoint:raw_syscalls:sys_exit /$own/ { @s[cpu]++; }
            interval:ms:100 { printf(\"%llu %d %d\n\", nsecs, $(over_cpus @s), $(over_cpus @c)); }
            interval:s:20 { exit(); } END { clear(@s); clear(@c); }" >"$dir/truth" 2>/dev/null &
        observer=$!
        until [ -s "$dir/truth" ]; do sleep 0.1; done
        "$iotrail" trace --json --no-store -d 5 -p "$program" >"$dir/trace.json" 2>/dev/null || true
        ended=$(python3 -c 'import time; print(time.monotonic_ns())')
        kill "$observer" && wait "$observer" || true
        stop
        python3 - "${line%%:*}" "$dir/trace.json" "$dir/truth" "$ended" <<'PY'
import json, sys
name, trace, truth, ended = sys.argv[1:]
total = json.load(open(trace))["total"]
# iotrail prints some 0.2 s after the end of the trace.
end = int(ended) - 200_000_000
lines = [list(map(int, line.split())) for line in open(truth) if len(line.split()) == 3]
lines = [line for line in lines if end - total["elapsed_ns"] <= line[0] <= end]
calls, completions = (lines[-1][i] - lines[0][i] for i in (1, 2))
value, ci = total["per_io"]["syscalls"], total["per_io_intervals"].get("syscalls")
right = calls / max(completions, 1)
kind = "estimate" if ci else "exact"
held = "" if not ci else " held" if ci[0] <= right * 1.01 and right * 0.99 <= ci[1] else " MISSED"
print(f"{name:<12} {kind:<9} {value if value is None else round(value, 3)} {[round(x, 3) for x in ci] if ci else ''} bpftrace {right:.3f}{held}")
PY
    done
done <"$dir/programs"
