#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Checks the files in the RPMs, and which packages these replace: rpms.sh FOLDER. Installs nothing.
set -euo pipefail
folder=$1
failed=0

check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then echo "ok $what"; else echo "not ok $what"; failed=1; fi
}
package() { find "$folder" -name "$1-[0-9]*.rpm" | grep . ; }
# Not "rpm | grep -q": grep exits at the first match, and rpm then fails, because its pipe has no reader.
has() {
  local files
  files=$(rpm -qpl "$(package "$1")" 2>/dev/null) && grep -qE "$2" <<<"$files"
}
lacks() {
  local files
  files=$(rpm -qpl "$(package "$1")" 2>/dev/null) && ! grep -qE "$2" <<<"$files"
}
no_pmix() {
  local needs
  needs=$(rpm -qp --requires "$(package "$1")" 2>/dev/null) && ! grep pmix <<<"$needs"
}
in_one() {  # except in the folders of licences and of build IDs
  local twice
  twice=$(for one in "$folder"/*.rpm; do rpm -qpl "$one" 2>/dev/null; done |
    grep -vE '/licenses/|/usr/lib/debug|/usr/lib/\.build-id(/[0-9a-f]*)?$' | sort | uniq -d)
  [ -z "$twice" ] || { echo "$twice"; return 1; }
}
says() {
  local said
  said=$(rpm -qp "$2" "$(package "$1")" 2>/dev/null) && grep -qF "$3" <<<"$said"
}

check "libdat2 has the library" has libdat2 '/libdat2\.so\.2$'
check "libdat2 has dat.conf" has libdat2 '^/etc/dat\.conf$'
check "libdat2 has no link to compile with" lacks libdat2 '/libdat2\.so$'
check "an edited dat.conf is kept" says libdat2 --configfiles /etc/dat.conf
check "libdat2 takes the place of dapl" says libdat2 --obsoletes 'dapl < 2.1.11'
check "libdat2 exports the versions of dapl" says libdat2 --provides 'libdat2.so.2(DAT_2.0)'
for library in libdaplofa libdaplsoft; do
  check "udapl-providers has $library" has udapl-providers "/$library\.so\.2$"
done
check "udapl-devel has the headers" has udapl-devel '/include/dat2/udat\.h$'
check "udapl-devel has dat2.pc" has udapl-devel '/pkgconfig/dat2\.pc$'
check "udapl-devel has the manual" has udapl-devel '/man3/dat_ia_openv\.3'
programs="datinfo dattx datperf dapltest datconform dattrace dattrace-chart dtest dtestx dtestcm dtestsrq"
for program in $programs datmesh; do
  package=udapl-utils
  [ "$program" != datmesh ] || package=udapl-mesh
  check "$package has $program" has $package "/bin/$program$"
  check "$package has the page of $program" has $package "/man1/$program\.1"
  check "$package completes $program" has $package "/completions/$program$"
done
check "udapl-utils needs no PMIx" no_pmix udapl-utils
check "udapl-utils takes the place of dapl-utils" says udapl-utils --obsoletes 'dapl-utils < 2.1.11'
check "udapl-lttng has the probes" has udapl-lttng '/libudapl-lttng\.so\.1'
check "udapl-doc has documents" has udapl-doc '/udapl-doc/docs/cpp\.md$'
check "udapl-doc has samples" has udapl-doc '/examples/echo\.cpp$'
check "udapl-doc has the reference" has udapl-doc '/html/index\.html$'
check "no file is in two packages" in_one
[ "$failed" -eq 0 ] && echo "ok all"
exit "$failed"
