# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Completion for bash: options and commands are taken from the program's --help, names of adapters
# from dat.conf; everything else completes to files.

_udapl_adapters() {
  local file
  for file in "${DAT_OVERRIDE-}" /etc/dat.conf /etc/rdma/dat.conf; do
    [ -r "$file" ] || continue
    # The first field of each entry, without its quotes; names that contain blanks are omitted.
    sed -n -E 's/^[[:blank:]]*"?([^"#[:blank:]]+)"?[[:blank:]].*/\1/p' "$file"
    return
  done
}

_udapl() {
  local program=$1 word=$2 before=$3 index command=
  COMPREPLY=()
  case $before in
    --ia | -D | -P | --device)
      mapfile -t COMPREPLY < <(compgen -W "$(_udapl_adapters)" -- "$word")
      return
      ;;
  esac
  for ((index = 1; index < COMP_CWORD; ++index)); do
    case ${COMP_WORDS[index]} in
      list | check | generate | server | client | both) command=${COMP_WORDS[index]} ;;
    esac
  done
  # Lines like "  -h,--help  text": the options and commands of the program or of the given command.
  local said words
  said=$("$program" ${command:+"$command"} --help 2>/dev/null)
  case $word in
    -*) words=$(grep -oE -- '(^|[ ,[|])--?[A-Za-z][A-Za-z_-]*' <<<"$said" | tr -d ' ,[|' | sort -u) ;;
    *)
      [ -n "$command" ] || words=$(sed -n '/^Subcommands:/,$ s/^  \([a-z]*\)  .*/\1/p' <<<"$said")
      [ "$command" != list ] || words=$(_udapl_adapters)
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -o filenames -F _udapl datinfo dattx datperf dapltest dtest dtestx dtestcm dtestsrq datmesh datconform dattrace dattrace-chart
