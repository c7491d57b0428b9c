#!/bin/sh
# Prepares a build for another Debian architecture in TARGET/ARCH: libelf, zlib and zstd for that architecture, and the compiler's standard
# library if rustup has none. (The C compiler is a prerequisite.) Writes the build's variables to TARGET/ARCH/env. Nothing is installed.
#
# usage: cross.sh ARCH TARGET    (ARCH: arm64)
set -eu
arch=$1 target=$(mkdir -p "$2/$1" && cd "$2" && pwd)
case $arch in
arm64) rust=aarch64-unknown-linux-gnu gnu=aarch64-linux-gnu qemu=qemu-aarch64-static ;;
*) echo "cross.sh: $arch is not known here: see docs/contributing/new-architecture.md" >&2; exit 2 ;;
esac
folder=$target/$arch
host=$(dpkg --print-architecture)
# Files from another version of this script are created again.
[ "$folder/env" -nt "$0" ] && exit 0

# The host's own lists and sources are not changed.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(sed -n 's/^URIs: *\([^ ]*\/debian\)\/*$/\1/p; s/^deb \(\[[^]]*\] \)*\([^ ]*\/debian\)\/* .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
apt() {
    lists=$1 program=$2
    shift 2
    "$program" -o Dir::State::Lists="$folder/apt/$lists" -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt/cache" \
        -o Dir::Etc::SourceList="$folder/apt/$lists.list" -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root \
        -o APT::Architecture="$host" -o APT::Architectures::="$host" -o APT::Architectures::="$arch" -o Acquire::Languages=none "$@"
}
fetch() {
    lists=$1 into=$2
    shift 2
    mkdir -p "$into" && (cd "$into" && apt "$lists" apt-get -qq download "$@" >/dev/null)
}
mkdir -p "$folder/apt/libraries/partial" "$folder/apt/rust/partial" "$folder/apt/cache/archives/partial"
line() { echo "deb [signed-by=$keys] ${mirror:-http://deb.debian.org/debian} $1 main"; }
line "$here" >"$folder/apt/libraries.list"
apt libraries apt-get -qq update
elf=$(apt libraries apt-cache --names-only search '^libelf1(t64)?$' | sed 's/ .*//' | head -n 1)
fetch libraries "$folder/debs" "libelf-dev:$arch" "$elf:$arch" "zlib1g-dev:$arch" "zlib1g:$arch" "libzstd-dev:$arch" "libzstd1:$arch" "libc6:$arch" "libgcc-s1:$arch"
system=$folder/system
for deb in "$folder"/debs/*.deb; do dpkg-deb -x "$deb" "$system"; done
# If /lib is a link to usr/lib, packages contain only its target.
for loader in "$system"/usr/lib/ld-linux-*; do
    [ ! -e "$loader" ] || { mkdir -p "$system/lib" && ln -sfn "../usr/lib/${loader##*/}" "$system/lib/${loader##*/}"; }
done
# The links in -dev packages point to the libraries' location in a complete system.
for library in "$system/lib/$gnu"/lib*.so.*; do
    [ ! -e "$library" ] || [ -e "$system/usr/lib/$gnu/${library##*/}" ] || ln -s "$library" "$system/usr/lib/$gnu/${library##*/}"
done

rustc=${RUSTC:-rustc}
std() { ls "$("$1" --print target-libdir --target "$rust")"/libstd-*.rlib >/dev/null 2>&1; }
if ! std "$rustc" && command -v rustup >/dev/null; then
    echo "adding $rust to rustup's toolchain"
    timeout 120 rustup -q target add "$rust" 2>"$folder/rustup" || echo "rustup has none ($(tail -n 1 "$folder/rustup")): using Debian's compiler"
fi
if ! std "$rustc"; then
    for suite in trixie trixie-backports; do line $suite; done >"$folder/apt/rust.list"
    apt rust apt-get -qq update
    version=$(apt rust apt-cache madison "libstd-rust-dev:$arch" | sed -n '1s/^[^|]*| *\([^ ]*\) .*/\1/p')
    series=$(echo "$version" | sed 's/^\([0-9]*\.[0-9]*\).*/\1/')
    needs=$(apt rust apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
        "libstd-rust-$series=$version" | sed -n 's/^\([a-z0-9][^ :]*\)$/\1/p' | sort -u | grep -v -e "^libstd-rust-" -e '^debconf')
    fetch rust "$folder/rust-debs" "rustc=$version" "libstd-rust-$series=$version" "libstd-rust-dev=$version" "libstd-rust-dev:$arch=$version" $needs
    compiler=$folder/rust
    for deb in "$folder"/rust-debs/*.deb; do dpkg-deb -x "$deb" "$compiler"; done
    loader=$(find "$compiler" -name 'ld-linux-*.so.*' | head -n 1)
    llvm=$(find "$compiler/usr/lib" -name 'libLLVM*.so*' -printf '%h:' -quit)
    # The compiler's own C library may be newer than the host's.
    printf '#!/bin/sh\nexec %s --argv0 %s/usr/bin/rustc --library-path %s:%s %s/usr/bin/rustc --sysroot %s/usr "$@"\n' \
        "$loader" "$compiler" "$(dirname "$loader")" "$llvm" "$compiler" "$compiler" >"$folder/rustc"
    chmod 755 "$folder/rustc"
    rustc=$folder/rustc
    std "$rustc" || { echo "cross.sh: no Rust standard library for $rust: neither rustup nor Debian provides one" >&2; exit 3; }
fi

upper=$(echo "$rust" | tr 'a-z-' 'A-Z_')
lower=$(echo "$rust" | tr - _)
libraries=$system/usr/lib/$gnu
# The loader must match the C library: with a different version, a program starts, but hangs at its first thread.
run="$qemu -L $system -E LD_LIBRARY_PATH=$libraries"
cat >"$folder/env.new" <<ENV
export RUSTC=$rustc PKG_CONFIG_ALLOW_CROSS=1
export CARGO_TARGET_${upper}_LINKER=$gnu-gcc CC_$lower=$gnu-gcc
export CFLAGS_$lower="-idirafter $system/usr/include -idirafter $system/usr/include/$gnu"
export CARGO_TARGET_${upper}_RUSTFLAGS="-L native=$libraries -C link-arg=-Wl,-rpath-link=$libraries"
export CARGO_TARGET_${upper}_RUNNER="$run"
export CROSS_TARGET=$rust CROSS_GNU=$gnu CROSS_RUN="$run"
ENV
mv "$folder/env.new" "$folder/env"
