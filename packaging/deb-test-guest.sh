#!/bin/sh
# Installs a package for another architecture in a minimal Debian system whose programs run in QEMU (binfmt-support, qemu-user-static,
# arch-test). Uses the package in a guest booted by the lab, and removes it there. Needs root, mmdebstrap and MIRROR, as deb-test.sh does.
#
# usage: deb-test-guest.sh IOTRAIL PACKAGE    IOTRAIL: this machine's binary, which boots the guest; KERNEL (default: 6.12)
set -eu
[ $# = 2 ] || { echo "specify exactly one package: $*" >&2; exit 2; }
iotrail=$1 package=$2 kernel=${KERNEL:-6.12} suite=trixie
export LC_ALL=C
architecture=$(dpkg-deb -f "$package" Architecture)
mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)}

work=$(mktemp -d "${DIR:-/var/tmp}/iotrail-deb.XXXXXX")
enabled=
end() {
    [ -z "$enabled" ] || update-binfmts --disable "$enabled" || :
    rm -rf --one-file-system "$work"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# If the binfmt-support service has not been started.
if ! arch-test "$architecture" >/dev/null; then
    enabled=qemu-$(echo "$architecture" | sed 's/^arm64$/aarch64/')
    update-binfmts --enable "$enabled"
fi
root=$work/$suite

mmdebstrap --quiet --variant=minbase --architectures="$architecture" --aptopt='APT::Install-Recommends "false"' \
    --customize-hook="cp '$package' \"\$1/root/iotrail.deb\"" --customize-hook='chroot "$1" apt-get -qq -y install /root/iotrail.deb' \
    --customize-hook='chroot "$1" dpkg -V iotrail' "$suite" "$root" "$mirror" >"$work/apt" 2>&1 || { cat "$work/apt"; exit 1; }
cp "$(dirname "$0")/deb-use.sh" "$root/root/use.sh"
"$iotrail" lab run --arch "$architecture" --kernel "$kernel" --root "$root" --program "$root/usr/bin/iotrail" --cpus 2 -- \
    sh -ec 'export PATH=/usr/sbin:/usr/bin HOME=/root; sh /root/use.sh; dpkg -P iotrail >/dev/null; [ ! -e /usr/bin/iotrail ] && [ -s ~/kept.db ]'
echo "$suite, $architecture, Linux $kernel: installed, used, removed; the user's store is kept"
