#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The labs: exercises that are judged by what your program did on simulated GPUs. The same set-up as ./run.sh, once.
# ./lab.sh --help tells more.
set -euo pipefail
started_in=$PWD  # paths are from here
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

bring_package
labs=(-B -m labs.judge -C "$started_in")
case " $* " in *" --help "* | *" -h "*) exec python3 "${labs[@]}" --help ;; esac
if ! simulator_is_ready || ! cmp -s labs/requirements.txt .venv/.installed/labs-requirements.txt; then
  python3 "${labs[@]}" --parse "$@"  # bad arguments show now, not after the build
  echo "lab: setting up, once, about two minutes" >&2
  setup labs/requirements.txt
  build_simulator
fi
exec .venv/bin/python3 "${labs[@]}" "$@"
