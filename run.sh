#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Sets up what is missing, builds, runs the lessons in order and ends with a table; or builds the book, with --docs.
# ./run.sh --help tells more. With --view it runs any program, and shows what that asks of CUDA.
set -euo pipefail
started_in=$PWD  # the paths of --view are from here
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

if [[ ${1:-} == --view ]]; then exec python3 -B -m scripts.view -C "$started_in" "${@:2}"; fi
case " $* " in *" --help "* | *" -h "*) exec python3 -B -m scripts.run_lessons --help ;; esac
words=$(python3 -B -m scripts.run_lessons --targets "$@")  # bad arguments show now, not after the build
case " $* " in
  *" --docs "*) book; exit ;;
  *" --notebooks "*) notebooks; exit ;;
  *" --setup "*) prepare_view simulator; exit ;;
esac

# shellcheck disable=SC2119  # no arguments: nothing but what the build needs
setup
read -ra programs <<< "$words"
build "${programs[@]}"
exec python3 -B -m scripts.run_lessons "$@"
