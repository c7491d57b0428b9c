#!/bin/sh
# Runs a test program in a lab kernel, on one of the guest's drives: cargo's runner for `make lab-test`.
#
#   LAB_KERNEL=6.1 LAB_TESTS="order:: vehicles::" sh tests/lab.sh PROGRAM [OPTIONS]
#
# PROGRAM is the test program of tests/kernel. It runs once per filter, with the drives that these tests need: drives without a file
# system for nvme::, otherwise a file system on the first drive.
set -u
kernel=${LAB_KERNEL:?a kernel of the lab} filters=${LAB_TESTS:?the beginnings of names of tests} program=$1
shift
built=$(dirname "$(dirname "$program")")
folder=$(dirname "$built")/tmp
mkdir -p "$folder"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=
for filter in $filters; do
    echo "== Linux $kernel: $filter"
    skip=
    case $filter in
    nvme::iopoll_on_a_drive_without_poll_queues*)
        # The driver has a single poll queue setting for all drives.
        prepare=:
        drives="--nvme queues=1,size=16m,data=keep --nvme queues=1,size=16m,data=keep,errors=read@1m,errors=write@2m" ;;
    nvme::*)
        skip="--skip nvme::iopoll_on_a_drive_without_poll_queues"
        prepare=:
        drives="--nvme queues=2,poll=1,size=64m,data=keep --nvme queues=1,poll=1,size=16m,data=keep,errors=read@1m,errors=write@2m" ;;
    *)
        prepare='modprobe ext4 && mkfs.ext4 -q -F /dev/nvme0n1 && mount -o noatime /dev/nvme0n1 "$1"'
        drives="--nvme queues=1,size=1g,data=keep" ;;
    esac
    # shellcheck disable=SC2086 # the drives are several words
    "$built/iotrail" lab run --kernel "$kernel" --cpus 2 --memory 3g --timeout 60m $drives -- sh -c \
        "$prepare"' || { echo "the drive cannot be used" >&2; exit 3; }; export TMPDIR="$1"; shift; exec "$@"' \
        sh "$folder" "$program" "$filter" $skip "$@" 2>&1 | tee "$said"
    # No result: the guest crashed. No test passed: all were skipped, which proves nothing.
    grep -q '^test result: ok. [1-9]' "$said" || failed="$failed $filter"
done
[ -z "$failed" ] || { echo "== Linux $kernel: FAILED:$failed"; exit 1; }
echo "== Linux $kernel: passed: $filters"
