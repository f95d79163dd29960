#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The labs: exercises that are judged by what your program did on simulated GPUs. The same set-up as ./run.sh, once.
# ./lab.sh --help tells more.
set -euo pipefail
started_in=$PWD  # paths are from here
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

labs=(python3 -B -m labs.judge -C "$started_in")
case " $* " in *" --help "* | *" -h "*) exec "${labs[@]}" --help ;; esac
if ! simulator_is_ready; then
  "${labs[@]}" --parse "$@"  # bad arguments show now, not after the build
  echo "lab: setting up, once, about two minutes" >&2
  prepare simulator
fi
exec "${labs[@]}" "$@"
