#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The labs: exercises that are judged by what your program did on simulated GPUs. The same set-up as ./run.sh, once.
# ./lab.sh --help tells more.
set -euo pipefail
started_in=$PWD  # paths are from here
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

# Of what the build prints: one line that counts, and what fails.
show_progress() {
  local line failed=no
  while IFS= read -r line; do
    [[ $line != FAILED* ]] || failed=yes
    if [[ $failed == yes ]]; then
      printf '%s\n' "$line" >&2
    elif [[ -t 2 && $line =~ ^\[\ *([0-9]+(%|/[0-9]+))\] ]]; then
      printf '\r\033[Klab: building %s' "${BASH_REMATCH[1]}" >&2
    fi
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
}

labs=(python3 -B -m labs.judge -C "$started_in")
case " $* " in *" --help "* | *" -h "*) exec "${labs[@]}" --help ;; esac
if ! simulator_is_ready; then
  "${labs[@]}" --parse "$@"  # bad arguments show now, not after the build
  echo "lab: setting up, once, about two minutes" >&2
  PIP_QUIET=1 prepare simulator | show_progress
fi
exec "${labs[@]}" "$@"
