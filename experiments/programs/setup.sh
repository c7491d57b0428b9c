#!/bin/sh
# Lays out the data of a server for its experiment, once: below /var/tmp/iotrail-programs, some 200 MB (PostgreSQL: 800 MB).
# Installs nothing outside that folder.
#
# usage: [PGROOT=DIR] setup.sh mariadb|postgres
set -eu
trap '[ -z "${!:-}" ] || kill "$!" 2>/dev/null || true' EXIT
folder=/var/tmp/iotrail-programs
mkdir -p "$folder"

needs() {
    for program in "$@"; do
        command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 2; }
    done
}

mariadb() {
    PATH=$PATH:/usr/sbin
    needs mariadbd mariadb-install-db mariadb-admin sysbench
    at=$folder/mariadb
    rm -rf "$at" && mkdir "$at"
    mariadb-install-db --no-defaults --datadir="$at/data" --user=root --auth-root-authentication-method=normal >"$at/log"
    mariadbd --no-defaults --datadir="$at/data" --socket="$at/socket" --user=root --skip-networking >>"$at/log" 2>&1 &
    until mariadb-admin --no-defaults --socket="$at/socket" --user=root ping >/dev/null 2>&1; do
        kill -0 $! || exit 1
        sleep 0.2
    done
    mariadb-admin --no-defaults --socket="$at/socket" --user=root create sbtest
    sysbench oltp_point_select --mysql-socket="$at/socket" --mysql-user=root --tables=1 --table-size=300000 prepare
    mariadb-admin --no-defaults --socket="$at/socket" --user=root shutdown
    wait
    touch "$at/ready"
}

# The first PostgreSQL with io_uring is 18. PGROOT: where it stands below a root of its own (a container's tree).
postgres() {
    at=$folder/postgres
    mkdir -p "$at"
    bin=/usr/lib/postgresql/18/bin
    root=${PGROOT:-/}
    chroot "$root" ldd $bin/postgres 2>/dev/null | grep -q liburing || {
        echo "no PostgreSQL 18 with liburing in $root$bin" >&2
        exit 2
    }
    # The server refuses to run as root.
    in="chroot --userspec=postgres:postgres $root"
    rm -rf "$root/var/tmp/iotrail"
    install -d -m 700 -o "$(chroot "$root" id -u postgres)" -g "$(chroot "$root" id -g postgres)" "$root/var/tmp/iotrail"
    settings="-k /var/tmp/iotrail -c listen_addresses= -c shared_buffers=16MB -c max_connections=10 -c max_parallel_workers_per_gather=0"
    cat >"$at/server" <<END
#!/bin/sh
exec $in $bin/postgres -D /var/tmp/iotrail/data $settings -c io_method=\${IO_METHOD:-io_uring} -c effective_io_concurrency=32
END
    cat >"$at/client" <<END
#!/bin/sh
exec $in $bin/pgbench -h /var/tmp/iotrail -n -c 1 -t 20 -f /var/tmp/iotrail/read.sql postgres
END
    chmod +x "$at/server" "$at/client"
    $in $bin/initdb -D /var/tmp/iotrail/data -A trust >/dev/null
    : >"$at/log"
    "$at/server" >>"$at/log" 2>&1 &
    until grep -q "ready to accept connections" "$at/log"; do
        kill -0 $! || exit 1
        sleep 0.2
    done
    $in $bin/psql -q -h /var/tmp/iotrail -c "create table t as select i, repeat(i::text, 50) as v from generate_series(1, 400000) as i" \
        -c "vacuum analyze t" -c "create index on t ((i::bigint * 7919 % 400000))" postgres
    # Pages in no order, 32 ahead.
    echo "set enable_seqscan = off; set enable_indexscan = off; select sum(length(v)) from t where i::bigint * 7919 % 400000 < 4000;" \
        >"$root/var/tmp/iotrail/read.sql"
    chmod 644 "$root/var/tmp/iotrail/read.sql"
    kill -INT $!
    wait || true
    touch "$at/ready"
}

case ${1:-} in
mariadb | postgres) "$1" ;;
*) echo "usage: $0 mariadb|postgres" >&2; exit 2 ;;
esac
