#!/bin/sh
# What `trace` costs a program that it watches: CPU time per request of the no-op load (depth 16, batch 8), unwatched, watched by
# `trace -p` (all counted, one in 100 followed), and by uringscope where it is on PATH; then of no-ops with
# computing in between, about a million a second (page-cached reads vary more than recording costs): unwatched, recorded one request
# in 100, and recorded whole in one hundredth of the time. Interleaved rounds; medians. Needs root. Some three minutes.
#
# usage: watching.sh [IOTRAIL] [ROUNDS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
rounds=${2:-5}
cpu=${CPU:-0}

if [ "$(id -u)" != 0 ]; then
    echo "cost of tracing: skipped, the probes need root"
    exit 0
fi
dir=$(mktemp -d)
tracer=
stop_tracer() {
    if [ -n "$tracer" ]; then kill -INT "$tracer" 2>/dev/null || true; wait "$tracer" 2>/dev/null || true; tracer=; fi
}
trap 'stop_tracer; rm -rf "$dir"' EXIT INT TERM

# The load under a tracer, which is given the load's process and has the warm-up to attach itself.
watched() { # load's options, tracer's command
    load=$1
    shift
    "$iotrail" bench $load --cpus "$cpu" --warmup 2s --trace off --json >"$dir/json" &
    pid=$!
    sleep 0.3
    if [ $# -gt 0 ]; then
        "$@" -p "$pid" >"$dir/tracer" 2>&1 &
        tracer=$!
    fi
    wait "$pid"
    if [ -n "$tracer" ]; then wait "$tracer" || { cat "$dir/tracer" >&2; exit 1; }; tracer=; fi
    cost <"$dir/json"
}

# What the tracer that ended last says it lost.
lost() {
    for key in no_room ring_buffer_full lost; do value "$key" <"$dir/tracer"; done >>"$dir/lost"
    tr -d ' \n' <"$dir/tracer" | grep -o '"followed":{[^}]*"completions":[0-9]*' | grep -o '[0-9]*$' >>"$dir/followed"
}

nop="--rw nop --depth 16 --batch 8 --runtime 1s"
million="--rw nop --depth 16 --batch 8 --think 6000 --runtime 4s"
have_uringscope=
if command -v uringscope >/dev/null 2>&1; then have_uringscope=1; fi

round=0
while [ "$round" -lt "$rounds" ]; do
    off=$(watched "$nop")
    echo "$off" >>"$dir/off"
    awk -v a="$(watched "$nop" "$iotrail" trace --json)" -v b="$off" 'BEGIN { printf "%.2f\n", a - b }' >>"$dir/trace"
    if [ -n "$have_uringscope" ]; then
        awk -v a="$(watched "$nop" uringscope)" -v b="$off" 'BEGIN { printf "%.2f\n", a - b }' >>"$dir/uringscope"
    fi
    off=$(watched "$million")
    echo "$off" >>"$dir/million"
    recorded="$iotrail trace --json --force --record $dir/recording"
    awk -v a="$(watched "$million" $recorded --one-in 100)" -v b="$off" 'BEGIN { printf "%.4f\n", a / b }' >>"$dir/one_in"
    lost
    awk -v a="$(watched "$million" $recorded --windows 10ms/1s)" -v b="$off" 'BEGIN { printf "%.4f\n", a / b }' >>"$dir/windows"
    lost
    round=$((round + 1))
done

echo "cost of being traced, median of $rounds interleaved rounds, CPU $cpu:"
printf '  no-ops, unwatched             %8s ns of CPU time per request\n' "$(median "$dir/off")"
printf '  iotrail trace -p              %+8.1f ns\n' "$(median "$dir/trace")"
if [ -s "$dir/uringscope" ]; then
    printf '  uringscope -p                 %+8.1f ns   %s times as much\n' "$(median "$dir/uringscope")" \
        "$(awk -v a="$(median "$dir/uringscope")" -v b="$(median "$dir/trace")" 'BEGIN { printf "%.1f", a / b }')"
else
    echo "  uringscope -p                 not installed"
fi
printf '  a million a second, unwatched %8s ns of CPU time per request\n' "$(median "$dir/million")"
printf '  recorded, one in 100          %8s times as much\n' "$(median "$dir/one_in")"
printf '  recorded, 10 ms of each second%8s times as much\n' "$(median "$dir/windows")"
awk '{ n += $1 } END { printf "  lost by all recordings        %8d", n }' "$dir/lost"
awk '{ n += $1 } END { printf " of %d followed requests\n", n }' "$dir/followed"
