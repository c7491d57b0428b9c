#!/bin/sh
# Reads every export with the tool that it is intended for, and prints the numbers from both sides. A tool that is not available is reported, and
# its check is skipped. Nothing is installed on this machine: Python's packages go into a virtual environment, and Debian's are
# unpacked below target/interop.
#
#   tests/interop/run.sh BINARY [tables|latencies|scrapes|lake|track ...]      as root, because it uses the probes
set -eu
binary=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- tables latencies scrapes lake track
here=$(cd "$(dirname "$0")" && pwd)
work=$(cd "$here/../.." && pwd)/target/interop
mkdir -p "$work"
cd "$work"

if [ ! -x venv/bin/python ]; then
    python3 -m venv venv 2>/dev/null || { echo "not installed: python3 with venv (apt-get install python3-venv)"; exit 1; }
fi
for package in duckdb chdb pyspark fio-plot hdrhistogram setuptools apache-otava; do
    # The check that needs a missing package reports it.
    venv/bin/pip show -q "$package" 2>/dev/null || venv/bin/pip install -q "$package" 2>/dev/null || echo "not available: $package"
done
if [ ! -x prometheus/usr/bin/prometheus ]; then
    mkdir -p prometheus
    # shellcheck disable=SC2015
    (cd prometheus && apt-get download -qq prometheus 2>/dev/null && dpkg -x prometheus_*.deb .) || echo "not available: prometheus"
fi

failed=
for check in "$@"; do
    echo "== $check"
    PATH="$work/prometheus/usr/bin:$PATH" venv/bin/python "$here/$check.py" "$binary" || failed="$failed $check"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
