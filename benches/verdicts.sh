#!/bin/sh
# Whether the verdicts of `run` and `compare` hold what they say. No-ops, unwatched, by IOPS and by CPU time per I/O, which a machine
# with other work varies less: the statistics are tested, not a device.
#
# A/A     runs of 26 comparisons of a load with itself: how many runs call any difference. At most one in twenty.
# Known   a load against itself with 1, 2, 5, 10 and 50 % of its own time of computing added: the verdict has to be right (slower; or
#         equivalent, where less was added than the band of 5 %), or inconclusive. Never the wrong sign.
# Same    equal arms with 32 pairs are to be called equivalent within 5 % in 4 of 5 runs, arms that differ by 10 % in one of 20 at most.
# Apart   three separate runs a side, 0.25 s each: how often equal sides fail a gate (`--fail-on slower`), and 20 % more time is found. The latter
#         needs runs that vary by less than 4 % from process to process: the spread of eight of them stands beside it.
#
# With DISTURB=1 a neighbour computes in bursts, 30 % of the time, on the CPU of the load. Some twenty minutes each way.
#
# usage: verdicts.sh [IOTRAIL] [RUNS] [PAIRS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=$(realpath "${1:-target/release/iotrail}")
runs=${2:-40}
pairs=${3:-10}
cpu=${CPU:-0}

dir=$(mktemp -d)
neighbour=
trap 'rm -rf "$dir"; [ -z "$neighbour" ] || kill "$neighbour" 2>/dev/null' EXIT INT TERM

if [ -n "${DISTURB:-}" ]; then
    # shellcheck disable=SC2016
    taskset -c "$cpu" sh -c 'while :; do timeout 0.3 sh -c "while :; do :; done"; sleep 0.7; done' &
    neighbour=$!
    echo "disturbed: a neighbour computes on CPU $cpu for 0.3 of each second"
fi

# The arms' options differ in a warm-up of a millisecond, which nothing is measured of.
experiment() { # pairs, computing time of the second arm in ns, further lines
    cat >"$dir/e.toml" <<TOML
name = "verdicts"
title = "A load and its twins"
question = "Is it the same?"
expect = "It is, unless something was added."
repeats = $1
metrics = ["iops", "cpu_per_io"]
[load]
rw = "nop"
batch = 128
cpus = "$cpu"
trace = "off"
runtime = "40ms"
$3
[[arm]]
name = "load"
warmup = "5ms"
[[arm]]
name = "other"
warmup = "6ms"
think = $2
TOML
}

# One run: of each comparison a line, metric and verdict and smallest visible difference (a dash: there is none).
verdicts() { # seed
    rm -f "$dir/store.db"
    "$iotrail" run "$dir/e.toml" --seed "$1" --store "$dir/store.db" --json |
        tr -d ' \n' | sed 's/.*"comparisons"://' | grep -o '"metric":"[a-z_0-9]*"\|"smallest_visible":[0-9.a-z]*\|"verdict":"[a-z_]*"' |
        awk -F: '{ gsub(/"/, "", $2) }
            $1 ~ /metric/ { metric = $2 } $1 ~ /visible/ { visible = $2 == "null" ? "-" : $2 } $1 ~ /verdict/ { print metric, $2, visible }'
}

failed=0
check() { # condition of awk
    awk "BEGIN { exit !($1) }" || { echo "  NOT HELD: $1"; failed=1; }
}

# A/A
experiment 5 0 'depth = 128'
sed -i '/^depth/d' "$dir/e.toml"
sed -i 's/^\[\[arm\]\]$/&/; /^\[load\]$/i [matrix]\ndepth = [128, 136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224]\n' "$dir/e.toml"
wrong=0
all=0
differences=0
seed=0
while [ "$seed" -lt "$runs" ]; do
    verdicts "$seed" >"$dir/run"
    called=$(awk '$2 == "faster" || $2 == "slower"' "$dir/run" | wc -l)
    all=$((all + $(wc -l <"$dir/run")))
    differences=$((differences + called))
    if [ "$called" -gt 0 ]; then wrong=$((wrong + 1)); fi
    seed=$((seed + 1))
done
echo "A/A: $wrong of $runs runs called a difference ($differences of $all comparisons)"
check "$wrong <= $runs / 20"

# The time of one round, a batch of 128: what is added is a share of it.
round_ns=$("$iotrail" bench --rw nop --depth 128 --batch 128 --cpus "$cpu" --trace off --warmup 100ms --runtime 2s --json |
    cost | awk '{ printf "%.0f", $1 * 128 }')
added_ns() { awk -v r="$round_ns" -v p="$1" 'BEGIN { printf "%.0f", r * p / 100 }'; }

# Known
for added in 1 2 5 10 50; do
    experiment "$pairs" "$(added_ns "$added")" 'depth = 128'
    seed=0
    while [ "$seed" -lt "$runs" ]; do
        verdicts "$seed" >>"$dir/known$added"
        seed=$((seed + 1))
    done
    # What was added is of the time that a round takes by itself, which differs from run to run: the truth is known to a part.
    awk -v added="$added" '
        { n++; what[$2]++ }
        $2 == "faster" { wrong++ }
        $2 == "slower" || $2 == "equivalent" && added <= 6 { right++ }
        # Of an inconclusive one, the smallest effect that would have shown is true if it is not below what was there.
        $2 == "inconclusive" { if ($3 == "-" || $3 * 100 >= added * 0.8) right++ }
        END {
            printf "%s %% added: %d of %d right or rightly inconclusive (slower %d, equivalent %d, inconclusive %d), wrong sign %d\n",
                added, right, n, what["slower"], what["equivalent"], what["inconclusive"], wrong
            exit right < 0.95 * n || wrong > 0 }' "$dir/known$added" || failed=1
done

# Same
experiment 32 0 'depth = 128'
seed=0
while [ "$seed" -lt "$runs" ]; do
    verdicts "$seed" >>"$dir/same"
    seed=$((seed + 1))
done
for metric in iops cpu_per_io; do
    same=$(awk -v m=$metric '$1 == m && $2 == "equivalent"' "$dir/same" | wc -l)
    ten=$(awk -v m=$metric '$1 == m && $2 == "equivalent"' "$dir/known10" | wc -l)
    echo "by $metric: equal arms of 32 pairs called equivalent within 5 % in $same of $runs runs, arms that differ by 10 % in $ten of $runs"
    check "$same >= 0.8 * $runs"
    check "$ten <= $runs / 20"
done

# Apart
one() { # file, computing time
    "$iotrail" bench --rw nop --depth 128 --batch 128 --cpus "$cpu" --trace off --warmup 20ms --runtime 250ms --think "$2" --json >"$dir/$1.json"
}
gates=$((runs * 5 / 2))
for n in 1 2 3 4 5 6 7 8; do one "spread$n" 0 && cost <"$dir/spread$n.json"; done |
    awk '{ sum += $1; squares += $1 * $1 } END { mean = sum / NR; printf "CPU time varies by %.1f %% from process to process\n", 100 * sqrt((squares - NR * mean * mean) / (NR - 1)) / mean }'
for added in 0 20; do
    ns=$(added_ns "$added")
    for status in 0 1 2 3 4 127; do eval "of$status=0"; done
    i=0
    while [ "$i" -lt "$gates" ]; do
        for n in 1 2 3; do one "a$n" 0 && one "b$n" "$ns"; done
        status=0
        (cd "$dir" && "$iotrail" compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json --metric cpu_per_io --fail-on slower) \
            >/dev/null 2>&1 || status=$?
        eval "of$status=\$((of$status + 1))"
        i=$((i + 1))
    done
    # shellcheck disable=SC2154
    echo "$gates gates of three separate runs a side, $added % added, by CPU time: $of1 failed, $of0 passed, $of4 could not be evaluated"
    case $added in
    0) check "$of1 <= $gates / 20" ;;
    *) check "$of1 >= 0.95 * $gates" ;;
    esac
done
exit $failed
