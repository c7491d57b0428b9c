# What the benchmarks share: to be read by them (`.`), not run.

# One number out of JSON on standard input: the first value of the key.
value() { tr -d ' \n' | grep -o "\"$1\":[0-9.]*" | head -n 1 | cut -d: -f2; }

cost() { # JSON on standard input: CPU nanoseconds per I/O
    json=$(cat)
    printf '%s %s %s\n' "$(printf %s "$json" | value user_ns)" "$(printf %s "$json" | value system_ns)" \
        "$(printf %s "$json" | value ios)" | awk '{ printf "%.2f\n", ($1 + $2) / $3 }'
}

# Of the numbers in the file or on standard input, one a line; nothing where there are none.
median() { sort -n "$@" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }
