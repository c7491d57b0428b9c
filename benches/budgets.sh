#!/bin/sh
# Whether saved budgets keep. Saves a budget of each program, traces the unchanged program RUNS times under it, and counts the failures, which should be 0.
# Then traces batches.c PLANTED times with each planted change, and counts the runs that find it, which should be all. The programs are batches.c (a fixed
# number of reads in batches of 16, and four fsyncs), fio, qemu-img, Node.js, and MariaDB and PostgreSQL servers with a fixed number of transactions. A
# program that is not installed is left out. Other work on the machine is no reason to stop: budgets should keep under it.
#
# usage: [PROGRAMS="batches fio qemu node mariadb postgres"] budgets.sh [IOTRAIL] [RUNS] [PLANTED]
set -eu
iotrail=$(realpath "${1:-target/release/iotrail}")
runs=${2:-200} planted=${3:-50}
programs=${PROGRAMS:-batches fio qemu node mariadb postgres}
here=$(realpath "$(dirname "$0")")

[ "$(id -u)" = 0 ] || { echo "budgets: skipped, the probes need root"; exit 0; }
dir=$(mktemp -d "${DIR:-/var/tmp}/iotrail-budgets.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
chmod 755 "$dir"
cd "$dir"
cc -O2 -o batches "$here/batches.c" -luring
dd if=/dev/zero of=data bs=1M count=256 status=none
mariadbd=$(PATH=$PATH:/usr/sbin command -v mariadbd || true)
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)

postgres_data() {
    as="setpriv --reuid=postgres --regid=postgres --clear-groups"
    install -d -o postgres "$dir/pg"
    $as "$pg/initdb" -D "$dir/pg/data" -A trust >/dev/null
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$dir/pg'" "autovacuum = off" "checkpoint_timeout = 1d" \
        "max_wal_size = 10GB" "bgwriter_lru_maxpages = 0" >>"$dir/pg/data/postgresql.conf"
    # The server waits for the client to disconnect: otherwise it may report a broken connection, in one of some 15 runs.
    cat >pg.sh <<SH
$pg/pg_ctl -D $dir/pg/data -w -s -l $dir/pg/log start || exit 1
$pg/pgbench -h $dir/pg -n -N -c 1 -t 300 postgres >/dev/null 2>&1 || exit 1
$pg/pg_ctl -D $dir/pg/data -w -s -m smart stop
SH
    $as "$pg/pg_ctl" -D "$dir/pg/data" -w -s -l "$dir/pg/log" start
    $as "$pg/pgbench" -h "$dir/pg" -i -s 2 postgres >/dev/null 2>&1
    $as "$pg/pg_ctl" -D "$dir/pg/data" -w -s -m smart stop
}

# A server that executes 300 transactions at its start, and stops.
mariadb_data() {
    mariadb-install-db --datadir="$dir/my" --user=root --auth-root-authentication-method=normal >/dev/null 2>&1
    {
        echo "drop database if exists b;"
        echo "create database b;"
        echo "create table b.t (id int primary key, v varchar(200)) engine=innodb;"
        seq 300 | sed "s/.*/insert into b.t values (&, repeat('x', 200));/"
        echo "shutdown;"
    } >my.sql
}

command_of() { # program: its command; nothing if it is not installed
    case $1 in
    batches) echo "./batches data" ;;
    fio) command -v fio >/dev/null && echo "fio --name=j --filename=data --size=256m --rw=randread --bs=4k --ioengine=io_uring --direct=1 --iodepth=16 --io_size=64m --thread --output=/dev/null" ;;
    qemu) command -v qemu-img >/dev/null && echo "qemu-img bench -i io_uring -f raw -t none -c 20000 -d 16 data" ;;
    node) command -v node >/dev/null && echo "env UV_USE_IO_URING=1 node $here/reads.js data" ;;
    mariadb) [ -n "$mariadbd" ] && mariadb_data && echo "$mariadbd --no-defaults --datadir=$dir/my --socket=$dir/my/socket --skip-networking --user=root --innodb-flush-method=O_DIRECT --init-file=$dir/my.sql" ;;
    postgres) [ -n "$pg" ] && postgres_data && echo "$as sh pg.sh" ;;
    esac || true
}

# Statuses of this many traces under a budget, and the limits that broke.
statuses() { # budget, count, command
    budget=$1 left=$2
    shift 2
    : >statuses
    : >broken
    while [ "$left" -gt 0 ]; do
        status=0
        "$iotrail" trace --no-store --expect "$budget" -- "$@" >out 2>err || status=$?
        echo "$status" >>statuses
        sed -n 's/^budget  \(BROKEN\|not evaluated\): \([^:]*\):.*/\2/p' out >>broken
        left=$((left - 1))
    done
}

load() { cut -d' ' -f1 /proc/loadavg; }
names() { sort broken | uniq -c | sort -rn | awk '{ n = $1; $1 = ""; printf "%s%s (%d)", (NR > 1 ? "," : ""), $0, n }'; }

for program in $programs; do
    command=$(command_of "$program")
    [ -n "$command" ] || { echo "$program: not installed"; continue; }
    # shellcheck disable=SC2086
    "$iotrail" trace --no-store --expect-save "$program.toml" -- $command >out 2>err || { cat err; exit 1; }
    # shellcheck disable=SC2086
    statuses "$program.toml" "$runs" $command
    echo "$program: $(grep -c '^"' "$program.toml") limits, $(grep -cv '^0$' statuses || true) of $runs runs failed, load $(load):$(names)"
done

found() { # name, budget, arguments of batches
    name=$1 budget=$2
    shift 2
    statuses "$budget" "$planted" ./batches data "$@"
    echo "$name: found in $(grep -c '^1$' statuses || true) of $planted runs, load $(load):$(names)"
}
case " $programs " in *" batches "*) ;; *) exit 0 ;; esac
found "one more system call per 100 reads" batches.toml call
found "one more fsync" batches.toml fsync
found "200 of 20,000 reads punted" batches.toml punt
"$iotrail" trace --no-store --expect-save sqpoll.toml -- ./batches data sqpoll >out 2>err || { cat err; exit 1; }
found "SQPOLL lost" sqpoll.toml
