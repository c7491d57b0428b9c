#!/bin/sh
# Speed of the load generator: I/Os per CPU second beside its peers, where they are on PATH (t/io_uring and fio, both
# from fio's source). Page-cached 4 KiB random reads, depth 128, batch 32, registered files and buffers, latency on,
# all pinned to one CPU; interleaved rounds, medians. No probes. Some 90 seconds.
#
# t/io_uring and fio set ring flags by themselves (coop_taskrun, single_issuer, defer_taskrun, no_sqarray, a registered
# ring). iotrail sets none unasked: it runs once with the same flags, and once with none.
#
# usage: generator.sh [IOTRAIL] [ROUNDS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
rounds=${2:-5}
cpu=${CPU:-0}
seconds=2

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
file=$dir/file
results=$dir/results

have() { command -v "$1" >/dev/null 2>&1; }
peer_t=
if have t/io_uring; then peer_t=t/io_uring; elif have io_uring; then peer_t=io_uring; fi

note() { # name value
    if [ -n "$2" ]; then echo "$1 $2" >>"$results"; fi
}

ours() { # name options…: I/Os per CPU second of the load's threads
    name=$1
    shift
    json=$("$iotrail" bench "$@" --depth 128 --batch 32 --cpus "$cpu" --runtime "${seconds}s" --warmup 200ms --trace off --json 2>/dev/null)
    ios=$(printf %s "$json" | value ios)
    user=$(printf %s "$json" | value user_ns)
    system=$(printf %s "$json" | value system_ns)
    note "$name" "$(awk -v i="$ios" -v u="$user" -v s="$system" 'BEGIN { printf "%.0f", i * 1e9 / (u + s) }')"
}

# The CPU seconds of a command, which `times` gives for the children of a shell; its output goes to $dir/out.
cpu_seconds() {
    (
        "$@" >"$dir/out" 2>/dev/null || true
        times
    ) | awk 'NR == 2 { n = split($0, t, /[ms ]+/); print t[1] * 60 + t[2] + t[3] * 60 + t[4] }'
}

theirs_t() {
    used=$(cpu_seconds taskset -c "$cpu" "$peer_t" -b4096 -d128 -s32 -c32 -p0 -O0 -B1 -F1 -n1 -t1 -r3 "$file")
    note t/io_uring "$(sed -n 's/^IOPS=\([0-9.]*\)\([KM]*\),.*/\1 \2/p' "$dir/out" | awk -v used="$used" '
        { n++; sum += $1 * ($2 == "K" ? 1e3 : $2 == "M" ? 1e6 : 1) }
        END { if (n && used > 0) printf "%.0f", sum / n * 3 / used }')"
}

theirs_fio() {
    taskset -c "$cpu" fio --name=b --filename="$file" --ioengine=io_uring --rw=randread --bs=4k --direct=0 --iodepth=128 \
        --iodepth_batch=32 --iodepth_batch_complete_min=32 --fixedbufs --registerfiles --thread --invalidate=0 \
        --runtime="$seconds" --time_based --output-format=json >"$dir/out" 2>/dev/null || return 0
    iops=$(value iops <"$dir/out")
    user=$(value usr_cpu <"$dir/out")
    system=$(value sys_cpu <"$dir/out")
    note fio "$(awk -v i="$iops" -v u="$user" -v s="$system" 'BEGIN { printf "%.0f", i * 100 / (u + s) }')"
}

# Laid out by the first load, and read into the page cache.
"$iotrail" bench --file "$file" --size 256m --buffered --rw read --bs 1m --count 256 --warmup 0 --trace off --json >/dev/null

round=0
while [ "$round" -lt "$rounds" ]; do
    ours iotrail --file "$file" --buffered --register files,buffers,ring \
        --ring coop_taskrun,single_issuer,defer_taskrun,no_sqarray
    ours iotrail-plain --file "$file" --buffered --register files,buffers
    if [ -n "$peer_t" ]; then theirs_t; fi
    if have fio; then theirs_fio; fi
    ours iotrail-nop --rw nop
    round=$((round + 1))
done

median_of() { # name
    awk -v name="$1" '$1 == name { print $2 }' "$results" | median
}

own=$(median_of iotrail)
echo "page-cached 4 KiB reads, I/Os per CPU second, median of $rounds interleaved rounds on CPU $cpu:"
printf '  %-12s %12s   with their ring flags\n' iotrail "$own"
printf '  %-12s %12s   without ring flags\n' iotrail "$(median_of iotrail-plain)"
for peer in t/io_uring fio; do
    theirs=$(median_of "$peer")
    if [ -n "$theirs" ]; then
        printf '  %-12s %12s   iotrail is %s times as fast\n' "$peer" "$theirs" \
            "$(awk -v a="$own" -v b="$theirs" 'BEGIN { printf "%.2f", a / b }')"
    else
        printf '  %-12s %12s\n' "$peer" "not installed"
    fi
done
printf 'no-ops: %s per CPU second\n' "$(median_of iotrail-nop)"
