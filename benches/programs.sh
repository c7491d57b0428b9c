#!/bin/sh
# What watching costs programs of others': CPU time of an operation while `iotrail trace -p` watches, against the same running program
# just before and just after, by the kernel's own counters (/proc/PID/stat, and the completions in the rings' fdinfo).
# Spans unwatched and watched in turn; median of the ratios with its 95 % interval (sign test). fio from the page cache in batches of 8, fio
# direct at depth 32, our own no-ops, and MariaDB and PostgreSQL where experiments/programs/setup.sh has laid out their data. As a watch goes
# on by itself (light: after 2 s instead of 10, to save time), in its first seconds (first), with everything looked at all the time
# (exact), and in windows of 10 ms a second (windows); and what each program of the probes takes (cost). Needs root. Some 7 minutes with 30 spans
# for each program and way.
#
# usage: [MODES="light first exact windows cost"] [PROGRAMS="cached direct nop mariadb postgres"] programs.sh [IOTRAIL] [SPANS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
spans=${2:-30}
cpu=${CPU:-0}
modes=${MODES:-light first exact windows cost}
programs=${PROGRAMS:-cached direct nop mariadb postgres}
data=/var/tmp/iotrail-programs

if [ "$(id -u)" != 0 ]; then
    echo "cost of being watched: skipped, the probes need root"
    exit 0
fi
dir=$(mktemp -d)
program=
client=
tracer=
stop() {
    for p in $tracer $client $program; do kill "$p" 2>/dev/null || true; wait "$p" 2>/dev/null || true; done
    program= client= tracer=
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
    # Of the whole process: threads that have ended (io-wq's) count too. What follows its name: state, ten numbers, then ticks of 10 ms.
    sed 's/.*) //' "/proc/$1/stat" | awk -v posted="$posted" '{ printf "%.0f %.0f\n", ($12 + $13) * 10000000, posted }'
}

# CPU nanoseconds of an operation over a span from now.
span() { # process, seconds
    before=$(counters "$1")
    sleep "$2"
    after=$(counters "$1")
    echo "$before $after" | awk '{ n = $4 - $2; if (n < 0) n += 4294967296; if (n > 0) printf "%.2f", ($3 - $1) / n }'
}

# The process's ratios under these options of trace: each span watched over the mean of the unwatched ones around it.
compared() { # name, process, seconds until the watch has settled, options
    name=$1 process=$2 settle=$3
    shift 3
    span "$process" 3 >"$dir/spans"
    echo >>"$dir/spans"
    i=0
    while [ "$i" -lt "$spans" ]; do
        "$iotrail" trace -p "$process" --json "$@" >"$dir/trace" 2>&1 &
        tracer=$!
        sleep "$settle"
        on=$(span "$process" 6)
        kill -INT "$tracer"
        wait "$tracer" || { cat "$dir/trace" >&2; exit 1; }
        tracer=
        echo "$on" >>"$dir/spans"
        sleep 0.5
        span "$process" 3 >>"$dir/spans"
        echo >>"$dir/spans"
        i=$((i + 1))
    done
    awk 'NR % 2 { if (NR > 1) print on / (off + $1) * 2; off = $1 } !(NR % 2) { on = $1 }' "$dir/spans" | sort -n >"$dir/ratios"
    awk 'NR % 2' "$dir/spans" >"$dir/off"
    awk -v name="$name $*" -v off="$(median "$dir/off")" '{ v[NR] = $1 } END {
        k = int((NR - 1.96 * sqrt(NR)) / 2); if (k < 1) k = 1
        m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        printf "  %-48s %8.0f ns  %.3f times as much (95 %% interval %.3f to %.3f)\n", name, off, m, v[k], v[NR + 1 - k] }' "$dir/ratios"
}

# What each program of the probes takes of this process's operations, everything looked at: by the kernel's account, which leaves out the calls.
each_probe() { # name, process
    "$iotrail" trace -p "$2" --exact --cost --full >"$dir/trace" 2>/dev/null &
    tracer=$!
    sleep 10
    kill -INT "$tracer"
    wait "$tracer" || { cat "$dir/trace" >&2; exit 1; }
    tracer=
    echo "  $1:"
    awk '/^ *probe +on +runs/ { on = 1 } on { print "    " $0 } on && /^ *all / { exit }' "$dir/trace"
}

watched() { # name, process
    for mode in $modes; do
        case $mode in
        # It loads, and then looks at everything for a moment before it spares the program.
        light) compared "$1" "$2" 5 --light-after 2s ;;
        first) compared "$1" "$2" 2 ;;
        exact) compared "$1" "$2" 2 --exact ;;
        windows) compared "$1" "$2" 2 --windows 10ms/1s ;;
        cost) each_probe "$1" "$2" ;;
        esac
    done
}

is_asked() { case " $programs " in *" $1 "*) ;; *) return 1 ;; esac; }

echo "CPU time of an operation, and how much more it is while watched; $spans spans of 6 s, load on CPU $cpu:"
fio_job() { # options
    fio --name=g --thread --ioengine=io_uring --rw=randread --bs=4k --size=64m --filename="$dir/data" --iodepth=32 --norandommap \
        --time_based --runtime=3600 --cpus_allowed="$cpu" "$@" >/dev/null 2>&1 &
    program=$!
    sleep 3
}
if ! is_asked cached && ! is_asked direct; then :
elif command -v fio >/dev/null 2>&1; then
    fio --name=g --rw=write --bs=1m --size=64m --filename="$dir/data" >/dev/null 2>&1
    if is_asked cached; then
        fio_job --iodepth_batch_submit=8 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=8
        watched "fio, page cache, batches of 8" "$program"
        stop
    fi
    if is_asked direct; then
        fio_job --direct=1
        watched "fio, direct, depth 32" "$program"
        stop
    fi
else
    echo "  fio                          not installed"
fi
if is_asked nop; then
    "$iotrail" bench --rw nop --depth 16 --batch 8 --cpus "$cpu" --warmup 0 --runtime 3600s --trace off >/dev/null 2>&1 &
    program=$!
    sleep 1
    watched "no-ops, depth 16, batches of 8" "$program"
    stop
fi

# The servers, as their experiments start them; their operations are their rings' completions.
if is_asked mariadb; then
    if [ -e $data/mariadb/ready ]; then
        cp -r $data/mariadb/data "$dir/mariadb"
        PATH=$PATH:/usr/sbin mariadbd --no-defaults --datadir="$dir/mariadb" --socket="$dir/socket" --user=root --skip-networking \
            --innodb-buffer-pool-size=24M --innodb-flush-method=O_DIRECT --innodb-flush-log-at-trx-commit=2 >"$dir/log" 2>&1 &
        program=$!
        until mariadb-admin --no-defaults --socket="$dir/socket" --user=root ping >/dev/null 2>&1; do kill -0 "$program" || exit 1; sleep 0.2; done
        sysbench oltp_update_non_index --mysql-socket="$dir/socket" --mysql-user=root --tables=1 --table-size=300000 --rand-type=uniform \
            --threads=4 --time=36000 run >"$dir/client" 2>&1 &
        client=$!
        sleep 10
        watched "MariaDB, updates" "$program"
        stop
    else
        echo "  MariaDB                      not set up (experiments/programs/setup.sh mariadb)"
    fi
fi
if is_asked postgres; then
    if [ -e $data/postgres/ready ]; then
        $data/postgres/server >"$dir/log" 2>&1 &
        program=$!
        until grep -q "ready to accept connections" "$dir/log"; do kill -0 "$program" || exit 1; sleep 0.2; done
        sed 's/-t 20 /-T 36000 /' $data/postgres/client >"$dir/pgbench"
        sh "$dir/pgbench" >"$dir/client" 2>&1 &
        client=$!
        sleep 5
        # What runs the scans: the child that is called by its database.
        backend=$(pgrep -f 'postgres: postgres postgres')
        watched "PostgreSQL, bitmap scans" "$backend"
        stop
    else
        echo "  PostgreSQL 18                not set up (experiments/programs/setup.sh postgres)"
    fi
fi
