#!/bin/sh
# How long `iotrail list`, and the completion of a run's cells (in time for a key that was pressed: 50 ms), take over stores of 500 and 2,000 runs of 60 measurements each, with the file in the page cache and without.
# The stores are made by the store's own code, in a test's build; a run takes about half a MiB of DIR (/var/tmp).
#
# usage: list.sh [IOTRAIL] [RUNS…]
set -eu
iotrail=${1:-target/release/iotrail}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 500 2000

dir=$(mktemp -d "${DIR:-/var/tmp}/iotrail-list.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM

ms() { # command: milliseconds of wall time
    before=$(date +%s%N)
    "$@" >"$dir/out"
    echo $((($(date +%s%N) - before) / 1000000))
}

for runs; do
    store=$dir/$runs.db
    IOTRAIL_FILL=$store IOTRAIL_FILL_RUNS=$runs ${CARGO:-cargo} test --quiet --release --locked -p iotrail-store --lib tests::fill_a_store_for_the_list_benchmark -- --ignored >"$dir/made"
    sync "$store"
    size=$(($(stat -c %s "$store") >> 20))
    for how in "" --json; do
        cold= warm=
        for _ in 1 2 3 4 5; do
            # Of the page cache, the store alone is dropped.
            dd if="$store" iflag=nocache count=0 status=none
            cold="$cold $(ms "$iotrail" list --store "$store" $how)"
            warm="$warm $(ms "$iotrail" list --store "$store" $how)"
        done
        [ "$(grep -c two-by-two "$dir/out")" = "$runs" ] || { echo "not all of the $runs runs are listed"; exit 1; }
        echo "$runs runs, $size MiB: list $how: cold$cold ms, warm$warm ms"
    done
    mkdir -p "$dir/state/iotrail"
    ln -sf "$store" "$dir/state/iotrail/iotrail.db"
    keys=
    for _ in 1 2 3 4 5; do
        keys="$keys $(ms env XDG_STATE_HOME="$dir/state" "$iotrail" __complete compare "$runs:")"
    done
    grep -q "^$runs:" "$dir/out" || { echo "no cell of run $runs is completed"; exit 1; }
    echo "$runs runs, $size MiB: completion of a cell:$keys ms"
    [ "$(printf '%s\n' $keys | sort -n | head -n 1)" -le 50 ] || { echo "completion takes longer than 50 ms"; exit 1; }
done
