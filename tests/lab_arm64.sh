#!/bin/sh
# Kernel tests in an arm64 guest, built with the toolchain of `make arm64`, in a root directory of Debian packages.
#
#   sh tests/lab_arm64.sh KERNEL FILTER [FILTER …]        sh tests/lab_arm64.sh 6.12 vehicles::peek order::
#
# Needs mmdebstrap and root. LAB: this machine's iotrail binary, which boots the guest. Each filter runs in its own machine.
set -u
kernel=${1:?a kernel of the lab}
shift
target=${CARGO_TARGET_DIR:-$PWD/target}
. "$target/arm64/env"
lab=${LAB:-$target/release/iotrail}
root=$target/tmp/arm64-root
if [ ! -e "$root/usr/bin/strace" ]; then
    # Only unpacked: no package script runs.
    packages=base-files,bash,coreutils,dash,e2fsprogs,findutils,grep,hostname,iproute2,kmod,libelf1t64,libgcc-s1,mount,procps,sed,strace,util-linux,zlib1g
    mmdebstrap --quiet --architectures=arm64 --variant=extract --skip=check/qemu --include="$packages" trixie "$root" || exit 3
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
fi
cargo build --profile checked --locked --target "$CROSS_TARGET" --bins --example ground || exit 3
program=$(cargo test --profile checked --locked --target "$CROSS_TARGET" --test kernel --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*kernel-[^"]*\)".*/\1/p' | tail -n 1)
[ -n "$program" ] || { echo "the tests do not build: see cargo test --profile checked --target $CROSS_TARGET --test kernel --no-run" >&2; exit 3; }
built=$target/$CROSS_TARGET/checked
# The paths that the tests expect.
for file in "$built/iotrail" "$built/examples/ground" "$program"; do
    mkdir -p "$root$(dirname "$file")" && "$CROSS_GNU-strip" -o "$root$file" "$file" || exit 3
done
# The drive is mounted where the tests create their files.
folder=$target/$CROSS_TARGET/tmp
mkdir -p "$root$folder" && ln -sfn ../proc/self/mounts "$root/etc/mtab"
failed=
# In this guest, 6.1 does not detect which caches the CPUs share, and would complete requests on the submitting CPU by function-call IPIs: set rq_affinity.
for filter in "$@"; do
    echo "== arm64, Linux $kernel: $filter"
    "$lab" lab run --arch arm64 --kernel "$kernel" --root "$root" --program "$root$built/iotrail" --cpus 2 --memory 2g --timeout 60m \
        --nvme queues=1,size=1g,data=keep -- sh -c \
        'echo 0 >/sys/block/nvme0n1/queue/rq_affinity; modprobe ext4 && mkfs.ext4 -q -F /dev/nvme0n1 && mount -o noatime /dev/nvme0n1 "$1" || { echo "the drive cannot be used" >&2; exit 3; }
         export TMPDIR="$1"; shift; exec "$@"' sh "$folder" "$program" "$filter" 2>&1 | tee "$target/tmp/arm64-said"
    grep -q '^test result: ok. [1-9]' "$target/tmp/arm64-said" || failed="$failed $filter"
done
[ -z "$failed" ] || { echo "== arm64, Linux $kernel: FAILED:$failed"; exit 1; }
