# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Completion for bash: options and commands are taken from the program's --help, names of adapters
# from dat.conf; everything else completes to files.

# The dat.conf that the registry reads: DAT_OVERRIDE alone, or the first one that can be read.
_udapl_conf() {
  local file
  if [ -n "${DAT_OVERRIDE-}" ]; then
    printf '%s' "$DAT_OVERRIDE"
    return
  fi
  for file in '@UDAPL_SYSCONFDIR@/dat.conf' /etc/dat.conf /etc/rdma/dat.conf; do
    [ -r "$file" ] || continue
    printf '%s' "$file"
    return
  done
}

_udapl_adapters() {
  local file
  file=$(_udapl_conf)
  # Only a file: a pipe without a writer would make the shell wait.
  [ -f "$file" ] && [ -r "$file" ] || return 0
  # The first field of each entry, without its quotes; names that contain blanks are omitted.
  sed -n -E 's/^[[:blank:]]*"?([^"#[:blank:]]+)"?[[:blank:]].*/\1/p' "$file"
}

# Offers the lines of $1 that begin with the word $2. Not with compgen -W, which expands its words: a
# name in dat.conf could contain a command. Readline quotes what it inserts (complete -o filenames).
_udapl_offer() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    [[ -n $line && $line == "$2"* ]] && COMPREPLY+=("$line")
  done <<<"$1"
}

_udapl() {
  local program=$1 word=$2 before=$3 index command=
  COMPREPLY=()
  case $before in
    --ia | -D | -P | --device)
      _udapl_offer "$(_udapl_adapters)" "$word"
      return
      ;;
  esac
  for ((index = 1; index < COMP_CWORD; ++index)); do
    case ${COMP_WORDS[index]} in
      list | paths | check | generate | server | client | both) command=${COMP_WORDS[index]} ;;
    esac
  done
  # Lines like "  -h,--help  text": the options and commands of the program or of the given command.
  local said words
  said=$("$program" ${command:+"$command"} --help 2>/dev/null)
  case $word in
    -*) words=$(grep -oE -- '(^|[ ,[|])--?[A-Za-z][A-Za-z_-]*' <<<"$said" | tr -d ' ,[|' | sort -u) ;;
    *)
      [ -n "$command" ] || words=$(sed -n '/^Subcommands:/,$ s/^  \([a-z]*\)  .*/\1/p' <<<"$said")
      [[ $command != list && $command != paths ]] || words=$(_udapl_adapters)
      ;;
  esac
  _udapl_offer "$words" "$word"
  [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -o filenames -F _udapl datinfo dattx datperf dapltest dtest dtestx dtestcm dtestsrq datmesh datconform dattrace dattrace-chart
