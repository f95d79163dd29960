#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The same set-up as ./run.sh, what the tests and the book need into .venv, then every test. Arguments go to ctest.
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

case " $* " in *" --help "* | *" -h "*)
  echo "usage: ./test.sh [ctest's arguments]"
  echo "Sets up what is missing, builds, and runs every test; ./test.sh -R 01 runs those with 01 in their names."
  exit ;;
esac

setup docs/requirements.txt tests/requirements.txt
get_browser
# Where CI is true a warning of the compiler is an error.
build all -DPython3_EXECUTABLE="$PWD/.venv/bin/python3" ${CI:+-DCMAKE_COMPILE_WARNING_AS_ERROR=ON}
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(nproc)}"
exec ctest --preset default "$@"
