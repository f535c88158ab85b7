#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Runs in a Debian that has nothing, see script/packages: the packages are in /out. Each thing that holds is told by a
# line that begins with "ok"; the last is "ok all".
set -euo pipefail
cd /trial
export DEBIAN_FRONTEND=noninteractive
port=$((20000 + RANDOM % 20000))

trap 'echo "not ok: line $LINENO"' ERR

apt_get() {
  apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >>apt.log 2>&1 ||
    { tail -n 30 apt.log; return 1; }
}
state() { dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null || echo none; }
is() { # is STATE PACKAGE...
  local wanted=$1 package
  shift
  for package in "$@"; do
    [ "$(state "$package")" = "$wanted" ] || { echo "not ok: $package is $(state "$package"), not $wanted"; return 1; }
  done
}

# repository FOLDER: what apt installs from it.
repository() {
  (cd "$1" && apt-ftparchive packages . >Packages)
  echo "deb [trusted=yes] file:$1 ./" >/etc/apt/sources.list.d/udapl.list
  apt-get -qq update
}

# Two processes over the software RNIC.
uses() {
  local tries
  dapltest -T S -D soft -n "$port" >server.log 2>&1 &
  for tries in $(seq 100); do
    ! grep -qs Ready server.log || break
    sleep 0.1
  done
  dapltest -T T -s 127.0.0.1 -D soft -n "$port" -i 20 -V client RW 4096 2 server RR 2048 4 client SR 1024 4 server SR 4096 2 >client.log
  dapltest -T Q -s 127.0.0.1 -D soft -n "$port" >/dev/null
  wait
  port=$((port + 1))
}

all=(libdat2-2 udapl-providers libdat-dev udapl-utils udapl-lttng udapl-doc)
mkdir -p /now /next
cp /out/*.deb /now
apt_get install apt-utils

echo "==> over from the old packages and back"
apt_get install libdapl2 dapl2-utils
libdat=$(ls /usr/lib/*/libdat2.so.2.0.0)
old_sum=$(sha256sum <"$libdat")
repository /now
apt_get install libdat2-2 udapl-providers udapl-utils
is installed libdat2-2 udapl-providers udapl-utils
[ "$(state libdapl2)" != installed ] && [ "$(state dapl2-utils)" != installed ]
[ "$(sha256sum <"$libdat")" != "$old_sum" ]
grep -q libdaplsoft /etc/dat.conf
datinfo list soft >/dev/null
uses
echo "ok: one command moves over, dat.conf included"
apt_get install libdapl2 dapl2-utils
is installed libdapl2 dapl2-utils
[ "$(state libdat2-2)" != installed ]
[ "$(sha256sum <"$libdat")" = "$old_sum" ]
echo "ok: one command moves back"
apt_get install libdat2-2 dapl2-utils
is installed libdat2-2 dapl2-utils
echo "ok: the old programs are happy with the new library"
apt_get purge libdapl2 dapl2-utils libdat2-2
[ ! -e /etc/dat.conf ]

echo "==> from nothing"
apt_get install "${all[@]}"
is installed "${all[@]}"
uses
for package in "${all[@]}"; do
  dpkg --verify "$package"
done
echo "ok: all packages install, and dapltest passes"

datinfo check | grep -q 'errors: 0'
DAT_TRACE_LTTNG=1 DAT_TRACE_LEVEL=3 datinfo list soft >/dev/null
echo "ok: datinfo finds nothing wrong with the installed dat.conf"

apt_get install gcc libc6-dev pkg-config
flags=$(pkg-config --cflags --libs dat2)
[ "$(echo $flags)" = -ldat2 ] || { echo "not ok: pkg-config says '$flags'"; exit 1; }
for variable in libdir includedir; do
  [ -e "$(pkg-config --variable=$variable dat2)/$([ $variable = libdir ] && echo libdat2.so || echo dat/udat.h)" ]
done
gcc -std=gnu11 -o add /usr/share/doc/udapl-doc/examples/add.c $flags
./add --server --port "$port" >server.log &
until grep -qs listening server.log; do sleep 0.1; done
[ "$(./add --port "$port" 127.0.0.1 40 2)" = 42 ]
wait
echo "ok: a program is compiled and runs"

echo "==> upgrade"
for package in /now/*.deb; do
  name=$(dpkg-deb --field "$package" Package)
  case $name in *-dbgsym) continue ;; esac
  rm -rf unpacked
  dpkg-deb --raw-extract "$package" unpacked
  sed -i -E '/^(Version|Depends)/ s/2\.0\.0/2.0.0+next/' unpacked/DEBIAN/control
  [ ! -e unpacked/etc/dat.conf ] || echo '# the next version' >>unpacked/etc/dat.conf
  dpkg-deb --root-owner-group -Znone --build unpacked "/next/$name.deb" >/dev/null
done
echo '# edited' >>/etc/dat.conf
repository /next
apt_get -o Dpkg::Options::=--force-confold dist-upgrade
for package in "${all[@]}"; do
  [ "$(dpkg-query --show --showformat='${Version}' "$package")" = 2.0.0+next ]
done
tail -n 1 /etc/dat.conf | grep -q edited
grep -q 'the next version' /etc/dat.conf.dpkg-dist
uses
echo "ok: upgrade; an edited dat.conf stays"

echo "==> removal"
apt_get remove "${all[@]}"
[ -e /etc/dat.conf ]
apt_get purge "${all[@]}"
[ ! -e /etc/dat.conf ]
left=$(find / -xdev \( -path /trial -o -path /proc -o -path /now -o -path /next -o -path /out -o -path /var/lib/apt \
  -o -path /var/cache \) -prune -o \( -name '*libdat2*' -o -name '*libdapl*' -o -name '*udapl*' \) -print |
  grep -v sources.list.d || true)
[ -z "$left" ] || { echo "not ok: left: $left"; exit 1; }
echo "ok: nothing is left"

echo "ok all"
