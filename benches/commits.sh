#!/bin/sh
# Commits of a write-ahead log beside fio: 4 KiB writes that are made durable one by one, with the page cache. The same pattern, in
# interleaved rounds: medians of the commits per second, and the median, least and greatest ratio of the pairs. A round runs both within
# seconds. fio's file grows as the load's does (--fallocate=none on a new file), or is overwritten. fio cannot link an fsync to its write:
# `linked` has only iotrail's rate. A round takes some 25 seconds.
#
# usage: commits.sh [IOTRAIL] [ROUNDS] [DIRECTORY on the disk] [SECONDS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
rounds=${2:-7}
seconds=${4:-1}

dir=$(mktemp -d -p "${3:-/var/tmp}")
trap 'rm -rf "$dir"' EXIT INT TERM
results=$dir/results
have_fio=$(command -v fio || true)

ours() { # pattern arm options…
    name=$1-$2
    rw=$3
    shift 3
    n=$("$iotrail" bench --rw "$rw" --buffered --file "$dir/log" --size 512m --depth 1 --runtime "${seconds}s" --warmup 100ms \
        --allow-write --trace off --json "$@" 2>/dev/null | value iops)
    echo "$name-iotrail $n" >>"$results"
}

theirs() { # pattern arm options…
    [ -n "$have_fio" ] || return 0
    name=$1-$2
    pattern=$1
    shift 2
    if [ "$pattern" = append ]; then file=$dir/fio-append; else file=$dir/log; fi
    n=$(fio --name=b --filename="$file" --rw=write --bs=4k --size=512m --fallocate=none --direct=0 --iodepth=1 --thread \
        --invalidate=0 --runtime="$seconds" --time_based --output-format=json "$@" 2>/dev/null | value_of_writes)
    rm -f "$dir/fio-append"
    echo "$name-fio $n" >>"$results"
}

# fio reports reads first.
value_of_writes() { tr -d ' \n' | sed 's/.*"write":{//' | value iops; }

# The file that is overwritten.
"$iotrail" bench --rw write --buffered --file "$dir/log" --size 512m --bs 1m --count 512 --warmup 0 --trace off --json >/dev/null
sync -f "$dir"

arms="fsync fdatasync dsync ring linked"
round=0
while [ "$round" -lt "$rounds" ]; do
    for pattern in append overwrite; do
        if [ "$pattern" = append ]; then rw=append; else rw=write; fi
        ours $pattern fsync $rw --engine sync --commit fsync
        theirs $pattern fsync --ioengine=psync --fsync=1
        ours $pattern fdatasync $rw --engine sync --commit fdatasync
        theirs $pattern fdatasync --ioengine=psync --fdatasync=1
        ours $pattern dsync $rw --engine sync --commit dsync
        theirs $pattern dsync --ioengine=pvsync2 --sync=dsync
        ours $pattern ring $rw --engine io_uring --commit fdatasync
        theirs $pattern ring --ioengine=io_uring --fdatasync=1
        ours $pattern linked $rw --engine io_uring --commit linked
    done
    round=$((round + 1))
done

median_of() { awk -v name="$1" '$1 == name { print $2 }' "$results" | median; }

# Of the pairs of a name, in the order of the rounds: the median, and the least and the greatest in brackets.
ratios() {
    awk -v own="$1-iotrail" -v fio="$1-fio" '$1 == own { a[++n] = $2 } $1 == fio { print a[++m] / $2 }' "$results" | sort -n |
        awk '{ v[NR] = $1 } END { printf "%.3f (%.2f to %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

echo "commits per second of 4 KiB, median of $rounds interleaved rounds in $dir:"
for pattern in append overwrite; do
    for arm in $arms; do
        own=$(median_of "$pattern-$arm-iotrail")
        fio=$(median_of "$pattern-$arm-fio")
        if [ -n "$fio" ]; then
            printf '  %-10s %-10s iotrail %9.0f   fio %9.0f   ratio %s\n' "$pattern" "$arm" "$own" "$fio" "$(ratios "$pattern-$arm")"
        elif [ "$arm" = linked ]; then
            printf '  %-10s %-10s iotrail %9.0f\n' "$pattern" "$arm" "$own"
        else
            printf '  %-10s %-10s iotrail %9.0f   fio: not installed\n' "$pattern" "$arm" "$own"
        fi
    done
done
