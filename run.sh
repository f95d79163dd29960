#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Sets up what is missing, builds, runs the lessons in order and ends with a table; or builds the book, with --docs.
# ./run.sh --help tells more. With --view it runs any program, and shows what that asks of CUDA.
set -euo pipefail
started_in=$PWD  # the paths of --view are from here
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

if [[ ${1:-} == --view ]]; then
  bring_package
  exec python3 -B -m scripts.view -C "$started_in" "${@:2}"
fi
exec python3 -B -m scripts.run "$@"
