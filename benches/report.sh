#!/bin/sh
# How long a report takes, and how large its page is, over 1,000 to 10,000 measurements of 20 cells and of 48.
# usage: benches/report.sh IOTRAIL STORED (the example `stored`)
set -eu
iotrail=$1 stored=$2
# In memory: making a store waits for the disk at each of its measurements.
place=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$place"' EXIT
printf '%-16s %8s %8s %10s\n' experiment repeats seconds bytes
for what in "irq-placement 50" "irq-placement 250" "irq-placement 500" "coop 21" "coop 208"; do
    set -- $what
    "$stored" "$place/$1-$2.db" "$1" "$2"
    begin=$(date +%s%N)
    "$iotrail" report 1 --store "$place/$1-$2.db" -o "$place/page.html" 2>/dev/null
    end=$(date +%s%N)
    printf '%-16s %8s %8s %10s\n' "$1" "$2" "$(awk "BEGIN { printf \"%.2f\", ($end - $begin) / 1e9 }")" "$(wc -c <"$place/page.html")"
    rm -f "$place/$1-$2.db"
done
