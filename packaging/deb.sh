#!/bin/sh
# Builds a Debian package of the files that `make install` installs, in TARGET/debian. The build is reproducible: the same tree and
# SOURCE_DATE_EPOCH (default: time of the last commit, otherwise of the change log) give identical bytes. DEBFULLNAME and DEBEMAIL name the maintainer.
#
# usage: deb.sh TARGET [ARCH]    ARCH: a different architecture, for which TARGET/ARCH/env and $BIN were built (see cross.sh)
set -eu
target=$1
umask 022
export LC_ALL=C

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=${2:-$(dpkg --print-architecture)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
root=$work/root
doc=$root/usr/share/doc/iotrail

make --no-print-directory install-files DESTDIR="$root" PREFIX=/usr >/dev/null
# Debian's own locations.
mkdir -p "$root/usr/share/zsh"
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
"${CROSS_GNU:+$CROSS_GNU-}strip" --strip-unneeded --remove-section=.comment "$root/usr/bin/iotrail"

install -D -m 644 packaging/iotrail-monitor.service "$root/usr/lib/systemd/system/iotrail-monitor.service"
install -m 644 packaging/copyright "$doc/copyright"
${CARGO:-cargo} tree --locked --prefix none --edges normal --format '{p}  {l}' | sed 's/ (\/[^)]*)//; s/ (proc-macro)//; s/ (\*)//' | sort -u |
    grep -v '^iotrail ' >"$doc/crates.txt"
maintainer="${DEBFULLNAME:-The iotrail developers} <${DEBEMAIL:-iotrail@example.org}>"
{
    printf 'iotrail (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n' "$version"
    printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$doc/changelog"
mv "$doc/CHANGELOG.md" "$work/CHANGELOG.md"
gzip -9n <"$work/CHANGELOG.md" >"$doc/CHANGELOG.md.gz"
gzip -9n "$doc/changelog" "$doc/crates.txt" "$root"/usr/share/man/man1/*.1
find "$doc" -type f -size +4k -name '*.md' -exec gzip -9n {} +

# dpkg-shlibdeps expects a source package.
mkdir -p "$work/debian"
printf 'Source: iotrail\n\nPackage: iotrail\nArchitecture: any\n' >"$work/debian/control"
shlibdeps() { (cd "$work" && dpkg-shlibdeps "$@" -O root/usr/bin/iotrail 2>"$work/told"); }
if [ -z "${CROSS_GNU:-}" ]; then
    depends=$(shlibdeps)
else
    # The status file that dpkg would have if the packages were installed.
    known=$work/known system=$(cd "$target/$architecture/system" && pwd)
    mkdir -p "$known/info" "$known/updates"
    echo 1 >"$known/info/format"
    for deb in "$target/$architecture"/debs/*.deb; do
        name=$(dpkg-deb -f "$deb" Package)
        case $name in *-dev) continue ;; esac
        { dpkg-deb -f "$deb"; printf 'Status: install ok installed\n\n'; } >>"$known/status"
        dpkg-deb -c "$deb" | sed -n "s|^[^d].* \./\([^ ]*\)\( -> .*\)*\$|$system/\1|p" >"$known/info/$name:$architecture.list"
        dpkg-deb -e "$deb" "$work/control"
        for file in symbols shlibs; do
            [ ! -e "$work/control/$file" ] || mv "$work/control/$file" "$known/info/$name:$architecture.$file"
        done
        rm -r "$work/control"
    done
    depends=$(DEB_HOST_ARCH=$architecture DEB_HOST_GNU_TYPE=$CROSS_GNU shlibdeps --admindir="$known" -l"$system/lib/$CROSS_GNU" -l"$system/usr/lib/$CROSS_GNU")
fi
depends=$(echo "$depends" | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { cat "$work/told" >&2; exit 1; }

mkdir "$root/DEBIAN"
size=$(find "$root" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@MAINTAINER@/$maintainer/; s/@SIZE@/$size/; s/@DEPENDS@/$depends/" \
    packaging/control.in >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -printf '%P\n' | sort | sed 's/^/usr\//' | xargs md5sum) >"$root/DEBIAN/md5sums"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$target/debian"
package=$target/debian/iotrail_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
