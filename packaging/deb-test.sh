#!/bin/sh
# Installs the package in minimal Debian systems created for this test, uses it there, and removes it again. Needs root, mmdebstrap and
# MIRROR (default: apt's mirror on this machine).
#
# usage: deb-test.sh PACKAGE [SUITE…]
set -eu
here=$(dirname "$0")
package=$1
shift
[ $# -gt 0 ] || set -- bookworm trixie
export LC_ALL=C
mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)}

work=$(mktemp -d "${DIR:-/var/tmp}/iotrail-deb.XXXXXX")
mounted=
end() {
    [ -z "$mounted" ] || umount -R "$mounted"
    rm -rf --one-file-system "$work"
}
trap end EXIT INT TERM

for suite; do
    root=$work/$suite
    mmdebstrap --quiet --variant=minbase --aptopt='APT::Install-Recommends "false"' "$suite" "$root" "$mirror"
    mounted=$root
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --make-rslave "$root/sys"
    in_it() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }

    # Only files and directories: kernel file systems and apt's downloads do not belong to the package.
    tree() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log \
        -o -path './var/lib/dpkg/*' -o -path ./root \) -prune -o -print | sort); }
    # Dependencies are installed first, so that all new files belong to the package. Minimal systems exclude manual pages.
    cp "$package" "$root/root/iotrail.deb"
    cp "$here/deb-use.sh" "$root/root/use.sh"
    in_it sh -c 'apt-get -qq update && apt-get -qq -y install man-db $(dpkg-deb -f /root/iotrail.deb Depends | sed "s/ ([^)]*)//g; s/,/ /g")' \
        >"$work/apt" 2>&1 || { cat "$work/apt"; exit 1; }
    rm -f "$root/etc/dpkg/dpkg.cfg.d/docker"
    tree >"$work/before"

    in_it apt-get -qq -y install /root/iotrail.deb >"$work/apt" 2>&1 || { cat "$work/apt"; exit 1; }
    in_it dpkg -V iotrail
    in_it dpkg -L iotrail | while read -r path; do [ -e "$root$path" ] || { echo "$path does not exist"; exit 1; }; done
    in_it sh /root/use.sh
    in_it env MANPAGER=cat MANWIDTH=80 man iotrail-bench | head -n 1

    in_it apt-get -qq -y purge iotrail >"$work/apt" 2>&1 || { cat "$work/apt"; exit 1; }
    tree >"$work/after"
    diff "$work/before" "$work/after" || { echo "$suite: other files changed"; exit 1; }
    [ -s "$root/root/kept.db" ] || { echo "$suite: the user's store is gone"; exit 1; }
    echo "$suite: installed, used, removed; no files are left, and the user's store is kept"
    umount -R "$root"
    mounted=
    rm -rf --one-file-system "$root"
done
