#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Sets up what is missing, builds, runs the lessons in order and ends with a table; or builds the book, with --docs.
# ./run.sh --help tells more.
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/run_lessons.py --help ;; esac
words=$(python3 scripts/run_lessons.py --targets "$@")  # bad arguments show now, not after the build
case " $* " in *" --docs "*) book; exit ;; esac

# shellcheck disable=SC2119  # no arguments: nothing but what the build needs
setup
read -ra programs <<< "$words"
build "${programs[@]}"
exec python3 scripts/run_lessons.py "$@"
