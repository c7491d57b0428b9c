#!/bin/sh
# Whether the verdicts of `run` and `compare` hold what they say. A/A: a load compared with itself, with a control arm, 200 times:
# how often a difference is called, which must be at most one time in twenty. A/B: the load against itself with 2, 5 and 10 % of
# its own time of computing added, 40 times each: wherever the reported smallest visible difference is below what was added, the
# verdict must be right in at least 95 %. No-ops, unwatched: the statistics are tested, not a device. By IOPS, and by CPU time per
# I/O, which a machine with other work varies less. Some ten minutes.
#
# usage: verdicts.sh [IOTRAIL] [COMPARISONS] [RUNS of each addition] [PAIRS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=${1:-target/release/iotrail}
comparisons=${2:-200}
runs=${3:-40}
pairs=${4:-10}
cpu=${CPU:-0}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

# The arms' options differ in a warm-up of a millisecond, which nothing is measured of.
experiment() { # computing time of the second arm in ns
    cat >"$dir/e.toml" <<TOML
name = "verdicts"
title = "A load and its twins"
question = "Is it the same?"
expect = "It is, unless something was added."
repeats = $pairs
[load]
rw = "nop"
depth = 128
batch = 128
cpus = "$cpu"
trace = "off"
runtime = "40ms"
[[arm]]
name = "load"
warmup = "5ms"
[[arm]]
name = "other"
warmup = "6ms"
think = $1
TOML
}

# One run; of its comparison on each metric a line in its file: the verdict, the ratio, the smallest visible difference, the
# noise floor.
verdict() { # seed, files' name
    rm -f "$dir/store.db"
    "$iotrail" run "$dir/e.toml" --seed "$1" --store "$dir/store.db" --json >"$dir/run.json"
    for metric in iops cpu_per_io; do
        "$iotrail" compare 1:arm=load 1:arm=other --metric $metric --store "$dir/store.db" --json >"$dir/json"
        # Without an interval there is no figure, and a line of its own word alone.
        echo "$(grep -o '"verdict": *"[a-z_]*"' "$dir/json" | cut -d'"' -f4) $(value ratio <"$dir/json")" \
            "$(value smallest_visible <"$dir/json") $(value noise_floor <"$dir/json")" >>"$dir/$2.$metric"
    done
}

percent() { # column of a file: its median
    awk -v c="$1" 'NF == 4 { print $c * 100 }' "$2" | median | awk '{ printf "%.2f %%", $1 } END { if (!NR) printf "–" }'
}

failed=0

experiment 0
i=0
while [ "$i" -lt "$comparisons" ]; do
    verdict "$i" same
    i=$((i + 1))
done
for metric in iops cpu_per_io; do
    same=$dir/same.$metric
    called=$(grep -c '^[fs]' "$same" || true)
    untold=$(grep -c '^not' "$same" || true)
    printf 'A/A by %s, %s pairs: %s of %s comparisons of a load with itself called a difference (at most %s), %s not comparable\n' \
        "$metric" "$pairs" "$called" "$comparisons" $((comparisons / 20)) "$untold"
    printf '  medians: noise floor %s, smallest visible difference %s\n' "$(percent 4 "$same")" "$(percent 3 "$same")"
    if [ "$called" -gt $((comparisons / 20)) ]; then failed=1; fi
    if [ "$untold" -gt $((comparisons / 10)) ]; then
        echo "  too many are not comparable for that to say anything: run it on an idle machine"
        failed=1
    fi
done

# The time of one round, a batch of 128: what is added is a share of it.
round_ns=$("$iotrail" bench --rw nop --depth 128 --batch 128 --cpus "$cpu" --trace off --warmup 100ms --runtime 2s --json |
    cost | awk '{ printf "%.0f", $1 * 128 }')
for added in 2 5 10; do
    experiment "$(awk -v r="$round_ns" -v p="$added" 'BEGIN { printf "%.0f", r * p / 100 }')"
    i=0
    while [ "$i" -lt "$runs" ]; do
        verdict "$i" "slower$added"
        i=$((i + 1))
    done
    for metric in iops cpu_per_io; do
        slower=$dir/slower$added.$metric
        awk -v added="$added" -v by="$metric" -v pairs="$pairs" -v visible="$(percent 3 "$slower")" \
            -v ratio="$(awk 'NF == 4 { print $2 }' "$slower" | median)" '
            { n++; right += $1 == "slower"; wrong += $1 == "faster" }
            NF == 4 && $3 * 100 < added { below++; right_below += $1 == "slower" }
            END {
                printf "A/B by %s, %s pairs, %s %% added: ", by, pairs, added
                printf "%d of %d verdicts right, %d of the wrong sign; median ratio %.4f\n", right, n, wrong, ratio
                printf "  smallest visible difference %s (median); ", visible
                printf "below what was added in %d runs, %d of these right\n", below, right_below
                exit right_below < 0.95 * below || wrong > 0.05 * n }' "$slower" || failed=1
    done
done
exit $failed
