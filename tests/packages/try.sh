#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Runs in a minimal Debian system, see script/packages: the packages are in /out. Each passed check prints a line that
# begins with "ok"; the last is "ok all".
set -euo pipefail
cd /trial
export DEBIAN_FRONTEND=noninteractive
port=$((20000 + RANDOM % 20000))

trap 'echo "not ok: line $LINENO: $BASH_COMMAND"' ERR

fail() {
  echo "not ok: $*"
  exit 1
}
apt_get() {
  apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >>apt.log 2>&1 ||
    { tail -n 30 apt.log; return 1; }
}
state() { dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null || echo none; }
is() { # is STATE PACKAGE...
  local wanted=$1 package
  shift
  for package in "$@"; do
    [ "$(state "$package")" = "$wanted" ] || fail "$package is $(state "$package"), not $wanted"
  done
}
gone() { # gone PACKAGE...: the packages are not installed, not even partially
  local package
  for package in "$@"; do
    case $(state "$package") in none | not-installed | config-files) ;; *) fail "$package is $(state "$package")" ;; esac
  done
}

# repository FOLDER: makes apt install from this folder.
repository() {
  (cd "$1" && apt-ftparchive packages . >Packages)
  echo "deb [trusted=yes] file:$1 ./" >/etc/apt/sources.list.d/udapl.list
  apt-get -qq update
}

# started FILE WORD: waits until the server that writes to FILE has written WORD.
started() {
  local tries
  for tries in $(seq 200); do
    ! grep -qs "$2" "$1" || return 0
    sleep 0.1
  done
  cat "$1"
  fail "no server"
}

# Two processes over the software RNIC: dapltest, ours or that of dapl2-utils, compares data.
uses_dapltest() {
  port=$((port + 1))
  dapltest -T S -D soft -n "$port" >server.log 2>&1 &
  started server.log Ready
  dapltest -T T -s 127.0.0.1 -D soft -n "$port" -i 20 -V \
    client RW 4096 2 server RR 2048 4 client SR 1024 4 server SR 4096 2 >client.log
  dapltest -T Q -s 127.0.0.1 -D soft -n "$port" >/dev/null
  wait
}

# datperf measures: every cell has a number.
uses_datperf() {
  port=$((port + 1))
  datperf server --clients 1 --ia soft --port "$port" >server.log 2>&1 &
  started server.log listen
  datperf client --ia soft --port "$port" --sizes 8,4096 --rounds 3 --seconds 0.05 --json perf.json 127.0.0.1 >perf.log
  wait
  python3 -c '
import json, sys
rows = json.load(open("perf.json"))["rows"]
operations = {row["operation"] for row in rows}
sys.exit(not operations >= {"send", "write", "read", "connect"} or any(row["median"] <= 0 for row in rows))'
}

# files: all files of the system, except the internal ones of apt and dpkg.
files() {
  find / -xdev \( -path /trial -o -path /proc -o -path /dev -o -path /sys -o -path /now -o -path /next -o -path /out \
    -o -path /tmp -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg \) -prune -o \
    ! -path '*/__pycache__*' ! -path /etc/ld.so.cache ! -path /etc/apt/sources.list.d/udapl.list -print | sort
}

libraries=(libdat2-2 udapl-providers)
all=("${libraries[@]}" libdat-dev udapl-utils udapl-mesh udapl-lttng udapl-doc)
mkdir -p /now /next
for package in /out/*.deb; do
  case $package in *-dbgsym_*) ;; *) cp "$package" /now ;; esac
done
(cd /now && ls -- *.deb) | sed 's/_.*//' | sort | diff - <(printf '%s\n' "${all[@]}" | sort) || fail "other packages"
apt_get install apt-utils

echo "==> over from the old packages and back"
apt_get install libdapl2 dapl2-utils
libdat=$(ls /usr/lib/*/libdat2.so.2.0.0)
old_sum=$(sha256sum <"$libdat")
old_conf=$(sha256sum </etc/dat.conf)
repository /now
apt_get install "${libraries[@]}" udapl-utils
is installed "${libraries[@]}" udapl-utils
gone libdapl2 dapl2-utils
[ "$(sha256sum <"$libdat")" != "$old_sum" ]
grep -q libdaplsoft /etc/dat.conf
datinfo list soft >/dev/null
uses_dapltest
uses_datperf
echo "ok: one command moves over, dat.conf included"
apt_get install libdapl2 dapl2-utils
is installed libdapl2 dapl2-utils
gone libdat2-2 udapl-utils
[ "$(sha256sum <"$libdat")" = "$old_sum" ]
[ "$(sha256sum </etc/dat.conf)" = "$old_conf" ] || fail "dat.conf is not that of libdapl2"
dpkg --verify libdapl2 dapl2-utils
echo "ok: one command moves back, dat.conf included"
apt_get install "${libraries[@]}" dapl2-utils
is installed "${libraries[@]}" dapl2-utils
gone libdapl2
uses_dapltest
echo "ok: the programs of dapl2-utils run on our libraries"
apt_get purge libdapl2 dapl2-utils "${libraries[@]}" udapl-utils
apt_get autoremove --purge
[ ! -e /etc/dat.conf ]

echo "==> from nothing"
files >before
apt_get install "${all[@]}"
is installed "${all[@]}"
for package in "${all[@]}"; do
  dpkg --verify "$package"
done
uses_dapltest
uses_datperf
echo "ok: all packages install; dapltest and datperf run"

said=$(datinfo check)
grep -q 'errors: 0' <<<"$said"
DAT_TRACE_LTTNG=1 DAT_TRACE_LEVEL=3 datinfo list soft >/dev/null
echo "ok: datinfo finds nothing wrong with the installed dat.conf"

html=/usr/share/doc/udapl-doc/html
for page in $(grep -oh 'href="[^"#:]*' $html/*.html | sed 's/href="//' | sort -u); do
  [ -e "$html/$page" ] || fail "$page is referred to, and not there"
done
[ -e $html/dat_ia_openv.3.html ] || [ -e $html/dat_ia.3.html ] || fail "no page of dat_ia"
echo "ok: the pages of the reference refer to pages that are there"

apt_get install openmpi-bin
mpirun --allow-run-as-root --oversubscribe -n 3 datmesh --port $((port += 1)) --count 4 >mesh.log
grep -q '3 ranks, 3 pairs, 0 failed' mesh.log
echo "ok: datmesh runs as a job"

apt_get install g++ libc6-dev pkg-config cmake make
flags=$(pkg-config --cflags --libs dat2)
[ "$(echo $flags)" = -ldat2 ] || fail "pkg-config says '$flags'"
for variable in libdir includedir; do
  [ -e "$(pkg-config --variable=$variable dat2)/$([ $variable = libdir ] && echo libdat2.so || echo dat/udat.h)" ]
done
samples=/usr/share/doc/udapl-doc/examples
gcc -std=gnu11 -o add $samples/add.c $flags
g++ -std=c++20 -o echo++ $samples/echo.cpp $flags
printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(consumer C)' 'find_package(udapl 2.0 REQUIRED)' \
  "add_executable(add_cmake $samples/add.c)" 'target_link_libraries(add_cmake PRIVATE udapl::dat2)' >CMakeLists.txt
cmake -B consumer . >cmake.log && cmake --build consumer >>cmake.log
for program in ./add consumer/add_cmake; do
  port=$((port + 1))
  rm -f server.log
  $program --server --port "$port" >server.log &
  started server.log listening
  [ "$($program --port "$port" 127.0.0.1 40 2)" = 42 ]
  wait
done
echo "ok: programs are compiled, by pkg-config and by CMake, and run"

echo "==> upgrade"
for package in /now/*.deb; do
  name=$(dpkg-deb --field "$package" Package)
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
uses_dapltest
uses_datperf
echo "ok: upgrade; an edited dat.conf stays"

echo "==> removal"
apt_get remove "${all[@]}"
[ -e /etc/dat.conf ]
apt_get purge "${all[@]}" openmpi-bin g++ libc6-dev pkg-config cmake make
apt_get autoremove --purge
files >after
left=$(comm -13 before after)
[ -z "$left" ] || fail "left: $left"
lost=$(comm -23 before after)
[ -z "$lost" ] || fail "gone with it: $lost"
said=$(ldconfig -p)
! grep -E 'libdat2|libdapl' <<<"$said" || fail "the linker's cache still has them"
echo "ok: nothing is left"

echo "ok all"
