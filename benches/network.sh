#!/bin/sh
# The network servers beside netbench's (github.com/DylanZA/netbench), where it is on PATH: requests of 64 bytes for each CPU second
# of the server, over loopback, the server on one CPU and the sender on another; interleaved rounds, medians. Each server is driven by
# the same two senders: iotrail's (--check size: netbench's servers answer with bytes of their own), and netbench's, which has one
# request in flight on each connection, so that 4 × 2 becomes 8 × 1 there. The CPU time is that of all threads of the server's process,
# from /proc/PID/task/*/schedstat, for all alike. Some five minutes.
#
# netbench's io_uring servers always set coop_taskrun or defer_taskrun, multishot receives, provided buffers, registered files and ring:
# iotrail's are given the same. (At abc0cb9 they do not serve on Linux 6.18, which wants a ring's number registered by the thread that
# uses it, and no server of netbench's gets on with more than one request in flight on a connection: mkIoUring and ProtocolParser.)
#
# usage: network.sh [IOTRAIL] [ROUNDS]   (PORT: from where on, 17700)
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
rounds=${2:-5}
server_cpu=${SERVER_CPU:-0}
sender_cpu=${SENDER_CPU:-1}
port=${PORT:-17700}
seconds=1

dir=$(mktemp -d)
server=
end() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    rm -rf "$dir"
}
trap end EXIT INT TERM
results=$dir/results

have() { command -v "$1" >/dev/null 2>&1; }

ring='--engine io_uring --receive multishot --register files,ring --buffers 8192'

start() { # name
    name=$1
    case $name in
        iotrail-epoll) set -- own --engine epoll ;;
        iotrail-coop) set -- own $ring --ring coop_taskrun ;;
        iotrail-defer) set -- own $ring --ring defer_taskrun,single_issuer ;;
        netbench-epoll) set -- theirs epoll ;;
        netbench-coop) set -- theirs io_uring ;;
        netbench-defer) set -- theirs 'io_uring --defer_taskrun 1' ;;
    esac
    whose=$1
    shift
    if [ "$whose" = own ]; then
        taskset -c "$server_cpu" "$iotrail" net serve "127.0.0.1:$port" --control none --trace off --server-threads 1 "$@" \
            >"$dir/said" 2>&1 &
    else
        taskset -c "$server_cpu" netbench --server_only 1 --v6 0 --use_port "$port" --rx "$1" >"$dir/said" 2>&1 &
    fi
    server=$!
    tries=0
    until "$iotrail" net load "127.0.0.1:$port" --control none --check size --connections 1 --warmup 0 --count 1 --json \
        >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
            echo "$name does not serve, and is left out: $(tail -n 1 "$dir/said")" >&2
            stop
            return 1
        fi
        sleep 0.05
    done
}

stop() {
    kill -KILL "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

cpu_ns() { cat "/proc/$server/task/"*/schedstat 2>/dev/null | awk '{ ns += $1 } END { printf "%.0f", ns }'; }

# Requests that were answered.
send_own() { # connections, window
    taskset -c "$sender_cpu" "$iotrail" net load "127.0.0.1:$port" --control none --check size --connections "$1" --window "$2" \
        --request 64 --response 64 --warmup 0 --runtime "${seconds}s" --json 2>/dev/null | value ios
}
send_theirs() { # connections, window
    taskset -c "$sender_cpu" netbench --client_only 1 --v6 0 --host 127.0.0.1 --use_port "$port" --time "$seconds" \
        --tx "epoll --threads 1 --per_thread $(($1 * $2)) --size 64 --resp 64" 2>&1 |
        grep -o 'count=[0-9]*' | head -n 1 | cut -d= -f2
}

measure() { # server's name, sender, connections, window
    # The kernel takes a killed server's ring down, and the socket that listens with it, after the process has gone.
    port=$((port + 1))
    start "$1" || return 0
    before=$(cpu_ns)
    requests=$("send_$2" "$3" "$4")
    after=$(cpu_ns)
    stop
    echo "$1/$2/$3×$4 $requests $before $after" | awk -v s="$seconds" \
        '$2 > 0 && $4 > $3 { printf "%s %.0f %.0f\n", $1, $2 * 1e9 / ($4 - $3), $2 / s }' >>"$results"
}

servers='iotrail-epoll iotrail-coop iotrail-defer'
senders=own
if have netbench; then
    servers="$servers netbench-epoll netbench-coop netbench-defer"
    senders='own theirs'
fi
shapes='4:2 64:1 256:1'

round=0
while [ "$round" -lt "$rounds" ]; do
    for shape in $shapes; do
        for sender in $senders; do
            for name in $servers; do
                measure "$name" "$sender" "${shape%:*}" "${shape#*:}"
            done
        done
    done
    round=$((round + 1))
done

median_of() { # key, column
    awk -v key="$1" -v c="$2" '$1 == key { print $c }' "$results" | median
}

echo "requests of 64 bytes for each CPU second of the server, median of $rounds interleaved rounds of $seconds s:"
for sender in $senders; do
    if [ "$sender" = own ]; then echo "driven by iotrail's sender:"; else echo "driven by netbench's sender (4 × 2: 8 × 1):"; fi
    for shape in $shapes; do
        at="${shape%:*}×${shape#*:}"
        for engine in epoll coop defer; do
            ours=$(median_of "iotrail-$engine/$sender/$at" 2)
            rate=$(median_of "iotrail-$engine/$sender/$at" 3)
            if have netbench; then
                peer=$(median_of "netbench-$engine/$sender/$at" 2)
                peer_rate=$(median_of "netbench-$engine/$sender/$at" 3)
                printf '  %-7s %-6s iotrail %8s (%s /s)   netbench %8s (%s /s)   iotrail has %s times as many\n' \
                    "$at" "$engine" "$ours" "$rate" "$peer" "$peer_rate" \
                    "$(awk -v a="$ours" -v b="$peer" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else printf "–" }')"
            else
                printf '  %-7s %-6s iotrail %8s (%s /s)   netbench not installed\n' "$at" "$engine" "$ours" "$rate"
            fi
        done
    done
done
