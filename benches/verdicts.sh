#!/bin/sh
# Whether the verdicts of `run` and `compare` hold what they say. No-ops, unwatched, by IOPS and by CPU time per I/O, which a machine
# with other work varies less: the statistics are tested, not a device.
#
# A/A     runs of 26 comparisons of a load with itself: how many runs call any difference. At most one in twenty.
# Known   a load against itself with 1, 2, 5, 10 and 50 % of its own time of computing added: the verdict has to be right (slower; or
#         equivalent, where less was added than the band of 5 %), or inconclusive. Never the wrong sign.
# Same    equal arms with 32 pairs are to be called equivalent within 5 % in 4 of 5 runs, arms that differ by 10 % in one of 20 at most.
# Apart   separate runs (five a side, or APART) of 5 s, as `bench` makes them, or APART_RUNTIME: how often equal sides fail a gate
#         (`--fail-on slower`), and 20 % more time is found. Three find it in 19 of 20 gates where runs vary by 3 % or less, five where they vary
#         by 6.5 %. What all runs of the section varied by stands beside it, and what pieces of a single process vary by: the latter is the machine,
#         and no ring or buffer mapped anew. Pieces that follow each other are alike: short runs vary more than long ones.
# Coop    runs of `coop --quick` beside a neighbour that computes 0.3 s and reads 16 times 1 MiB in each second: the verdicts on the four cells
#         that peek on the CPU without the disk's interrupt, where coop_taskrun is slower, and false differences of the 12 others. 3 to 5 minutes each.
#
# Search  searches of `advise` among the ring flags for a program whose time is not in its ring: how many answers claim an improvement. Some 20 s each.
#
# With DISTURB=1 a neighbour computes in bursts, 30 % of the time, on the CPU of the load. Some twenty minutes each way, without coop.
#
# usage: [ONLY="aa known same apart coop search"] [APART=5] [APART_RUNTIME=5s] [COOP=4] verdicts.sh [IOTRAIL] [RUNS] [PAIRS]
set -eu
. "$(dirname "$0")/common.sh"
iotrail=$(realpath "${1:-target/release/iotrail}")
runs=${2:-40}
pairs=${3:-10}
cpu=${CPU:-0}
only=${ONLY:-aa known same apart}
of_side=${APART:-5}
apart_runtime=${APART_RUNTIME:-5s}

dir=$(mktemp -d)
neighbour=
trap 'rm -rf "$dir"; [ -z "$neighbour" ] || kill "$neighbour" 2>/dev/null' EXIT
trap 'exit 1' INT TERM

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

is_asked() { case " $only " in *" $1 "*) ;; *) return 1 ;; esac; }

if is_asked aa; then
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
fi

# The time of one round, a batch of 128: what is added is a share of it.
nops() { "$iotrail" bench --rw nop --depth 128 --batch 128 --cpus "$cpu" --trace off --json "$@"; }
round_ns=$(nops --warmup 100ms --runtime 2s | cost | awk '{ printf "%.0f", $1 * 128 }')
added_ns() { awk -v r="$round_ns" -v p="$1" 'BEGIN { printf "%.0f", r * p / 100 }'; }

known() { # share that is added, pairs
    experiment "$2" "$(added_ns "$1")" 'depth = 128'
    seed=0
    while [ "$seed" -lt "$runs" ]; do
        verdicts "$seed"
        seed=$((seed + 1))
    done
}
if is_asked known; then
    for added in 1 2 5 10 50; do
        known "$added" "$pairs" >"$dir/known$added"
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
fi

if is_asked same; then
    known 0 32 >"$dir/same"
    [ -s "$dir/known10" ] || known 10 "$pairs" >"$dir/known10"
    for metric in iops cpu_per_io; do
        same=$(awk -v m=$metric '$1 == m && $2 == "equivalent"' "$dir/same" | wc -l)
        ten=$(awk -v m=$metric '$1 == m && $2 == "equivalent"' "$dir/known10" | wc -l)
        echo "by $metric: equal arms of 32 pairs called equivalent within 5 % in $same of $runs runs, arms that differ by 10 % in $ten of $runs"
        check "$same >= 0.8 * $runs"
        check "$ten <= $runs / 20"
    done
fi

# How much the numbers of one column vary, in percent.
spread() {
    awk '{ sum += $1; squares += $1 * $1 }
        END { mean = sum / NR; if (NR > 1) printf "%.1f", 100 * sqrt((squares - NR * mean * mean) / (NR - 1)) / mean }' "$@"
}

# How one gate of these ended is counted by its exit status: 0, 1, 4, or another one.
gate() { # what is counted, JSON files of a side, of the other
    status=0
    (cd "$dir" && "$iotrail" compare "$2" "$3" --metric cpu_per_io --fail-on slower) >/dev/null 2>"$dir/said" || status=$?
    echo "$status" >>"$dir/$1"
    if [ "$status" = 4 ]; then cat "$dir/said" >>"$dir/inconclusive"; fi
}
ended() { grep -c "^$2\$" "$dir/$1" || true; } # what was counted, exit status
told() { # what was counted, what was added
    echo "$(wc -l <"$dir/$1") gates of $of_side separate runs of $apart_runtime a side, $2 added, by CPU time: $(ended "$1" 1) failed, $(ended "$1" 0) passed, $(ended "$1" 4) could not be evaluated"
}

# Sides with nothing and with 20 % added, in turns; and each side against the same one of the gate before, which differs by the moment alone.
gates() {
    ns=$(added_ns 20)
    i=0
    : >"$dir/costs" >"$dir/found" >"$dir/false"
    while [ "$i" -lt "$gates" ]; do
        list_a= list_b= n=0
        while [ "$n" -lt "$of_side" ]; do
            nops --warmup 20ms --runtime "$apart_runtime" --think 0 >"$dir/a$i-$n.json"
            nops --warmup 20ms --runtime "$apart_runtime" --think "$ns" >"$dir/b$i-$n.json"
            cost <"$dir/a$i-$n.json" >>"$dir/costs"
            list_a=${list_a:+$list_a,}a$i-$n.json list_b=${list_b:+$list_b,}b$i-$n.json n=$((n + 1))
        done
        gate found "$list_a" "$list_b"
        if [ $((i % 2)) = 1 ]; then
            gate false "$before_a" "$list_a"
            gate false "$before_b" "$list_b"
        fi
        before_a=$list_a before_b=$list_b
        i=$((i + 1))
    done
}

if is_asked apart; then
    gates=$((runs * 5 / 2))
    # IOPS, of one process in pieces of a quarter of a second; no work but the machine's changes them.
    nops --warmup 20ms --runtime 8s | tr -d ' \n' | sed 's/.*"throughput"://' |
        awk -F'[][]' '{ match($1, /[0-9]+/); each = substr($1, RSTART, RLENGTH); n = split($2, ios, ","); k = int(250000000 / each + 0.5); if (k < 1) k = 1
            for (i = 1; i + k - 1 <= n; i += k) { sum = 0; for (j = 0; j < k; j++) sum += ios[i + j]; print sum } }' >"$dir/pieces"
    echo "pieces of 0.25 s of one process vary by $(spread "$dir/pieces") % ($(wc -l <"$dir/pieces") pieces, IOPS)"
    : >"$dir/inconclusive"
    gates
    echo "runs of $apart_runtime vary by $(spread "$dir/costs") %"
    told false "nothing"
    check "$(ended false 1) <= $(wc -l <"$dir/false") / 20"
    told found "20 %"
    check "$(ended found 1) >= 0.95 * $(wc -l <"$dir/found")"
    said=$(grep -o '[0-9]* repeats ([^)]*) would show ±[0-9.]* %' "$dir/inconclusive" | awk '{ print $1 }' | median)
    [ -z "$said" ] || echo "those that could not be evaluated ask for $said repeats a side, in the median, to show 10 %"
fi

# One run of coop: of each comparison by IOPS a line: whether it is of the four cells, verdict, ratio.
coop() {
    rm -f "$dir/store.db"
    "$iotrail" run coop --quick --json --store "$dir/store.db" 2>/dev/null | tr -d ' \n' | sed 's/.*"comparisons":\[//; s/{"schema":"iotrail.comparison/\n&/g' |
        awk '/"metric":"iops"/ {
            what = match($0, /"cpus":"non-irq"/) && match($0, /"wait":"peek"/) ? "peeking" : "other"
            match($0, /"ratio":[0-9.a-z]*/); ratio = substr($0, RSTART + 8, RLENGTH - 8)
            match($0, /"verdict":"[a-z_]*"/); print what, substr($0, RSTART + 11, RLENGTH - 12), ratio }'
}

if is_asked coop; then
    file=${FILE:-$dir/neighbour.dat}
    [ -e "$file" ] || dd if=/dev/urandom of="$file" bs=1M count=64 conv=fsync status=none
    # shellcheck disable=SC2016
    taskset -c "$cpu" sh -c 'while :; do timeout 0.3 sh -c "while :; do :; done"; dd if="$1" of=/dev/null bs=1M count=16 iflag=direct status=none; sleep 0.65; done' sh "$file" &
    [ -z "$neighbour" ] || kill "$neighbour" 2>/dev/null
    neighbour=$!
    i=0 found=0 false=0
    while [ "$i" -lt "${COOP:-4}" ]; do
        i=$((i + 1))
        coop >"$dir/coop"
        slower=$(grep -c '^peeking slower' "$dir/coop" || true)
        differ=$(grep -c '^other \(slower\|faster\)' "$dir/coop" || true)
        echo "coop $i, beside a neighbour: peeking $(awk '$1 == "peeking" { printf "%s x%.3f, ", $2, $3 }' "$dir/coop")false differences $differ of $(grep -c '^other' "$dir/coop" || true)"
        found=$((found + slower)) false=$((false + (differ > 0)))
    done
    echo "coop: $found of $((4 * i)) peeking cells found slower; $false of $i runs called another difference"
    check "$found >= 0.95 * 4 * $i"
    check "$false <= $i / 20"
fi
# A ring that does one no-op, and then computing: whatever the flags are, it takes as long.
if is_asked search; then
    i=0 claimed=0
    while [ "$i" -lt "$runs" ]; do
        i=$((i + 1))
        rm -f "$dir/search.db"
        # shellcheck disable=SC2016
        "$iotrail" advise --cpus "$cpu" --budget 12s --objective elapsed --store "$dir/search.db" --json -- \
            sh -c '"$1" bench --rw nop --count 1 --warmup 0 --trace off >/dev/null && i=0 && while [ "$i" -lt 30000 ]; do i=$((i + 1)); done' sh "$iotrail" \
            2>"$dir/said" >"$dir/search" || { cat "$dir/said" >&2; exit 1; }
        answer=$(tr -d '\n' <"$dir/search" | grep -o '"answer": *"[^"]*"' | head -n 1)
        case $answer in *'"stay as you are'* | *'"undecided'*) ;; *) claimed=$((claimed + 1)); echo "  claimed: $answer" ;; esac
    done
    echo "search: $claimed of $runs searches among equals claim an improvement"
    check "$claimed <= $runs / 20"
fi
exit $failed
