#!/bin/sh
# Whether the verdicts of `run` and `compare` hold what they say. A/A: a load compared with itself, with a control arm, 200 times: how
# often a difference is called, which must be at most one time in twenty. A/B: the load against itself with 2, 5 and 10 % of its own time
# of computing added, 40 times each: wherever the reported smallest visible difference is below what was added, the
# verdict must be right in at least 95 %. No-ops, unwatched: the statistics are tested, not a device. Some ten minutes.
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
[[arm]]
name = "control"
warmup = "7ms"
TOML
}

# One run; of its comparison of IOPS: the verdict, the ratio, the smallest visible difference, the noise floor.
verdict() { # seed
    rm -f "$dir/store.db"
    "$iotrail" run "$dir/e.toml" --seed "$1" --store "$dir/store.db" --json >"$dir/run.json"
    "$iotrail" compare 1:arm=load 1:arm=other --store "$dir/store.db" --json | tr -d ' \n,' |
        sed 's/.*"ratio":\([0-9.]*\)"ci95".*"noise_floor":\([0-9.]*\)"smallest_visible":\([0-9.]*\)"verdict":"\([a-z_]*\)".*/\4 \1 \3 \2/'
}

failed=0

experiment 0
i=0
while [ "$i" -lt "$comparisons" ]; do
    verdict "$i" >>"$dir/same"
    i=$((i + 1))
done
called=$(grep -c -v '^no_difference ' "$dir/same" || true)
printf 'A/A, %s pairs: %s of %s comparisons of a load with itself called a difference (at most %s)\n' \
    "$pairs" "$called" "$comparisons" $((comparisons / 20))
printf '  medians: noise floor %s %%, smallest visible difference %s %%\n' \
    "$(awk '{ print $4 * 100 }' "$dir/same" | median)" "$(awk '{ print $3 * 100 }' "$dir/same" | median)"
if [ "$called" -gt $((comparisons / 20)) ]; then failed=1; fi

# The time of one round, a batch of 128: what is added is a share of it.
round_ns=$("$iotrail" bench --rw nop --depth 128 --batch 128 --cpus "$cpu" --trace off --warmup 100ms --runtime 2s --json | value iops |
    awk '{ printf "%.0f", 128e9 / $1 }')
for percent in 2 5 10; do
    experiment "$(awk -v r="$round_ns" -v p="$percent" 'BEGIN { printf "%.0f", r * p / 100 }')"
    i=0
    : >"$dir/slower"
    while [ "$i" -lt "$runs" ]; do
        verdict "$i" >>"$dir/slower"
        i=$((i + 1))
    done
    awk -v added="$percent" -v pairs="$pairs" -v visible="$(awk '{ print $3 * 100 }' "$dir/slower" | median)" \
        -v ratio="$(awk '{ print $2 }' "$dir/slower" | median)" '
        { n++; right += $1 == "slower"; wrong += $1 == "faster" }
        $3 * 100 < added { visible_n++; visible_right += $1 == "slower" }
        END {
            printf "A/B, %s pairs, %s %% added: %d of %d verdicts right, %d of the wrong sign; median ratio %s\n", pairs, added, right, n, wrong, ratio
            printf "  smallest visible difference %s %% (median); below the addition in %d runs, of these %d right\n", visible, visible_n, visible_right
            exit visible_right < 0.95 * visible_n || wrong > 0 }' "$dir/slower" || failed=1
done
exit $failed
