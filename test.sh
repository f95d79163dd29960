#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The same set-up as ./run.sh, what the tests and the book need into .venv, then the tests: with --all the long ones
# too, with --matrix those that repeat a build, with -L LABEL those that have the label, else all but the long ones.
# Other arguments go to ctest.
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
source scripts/setup.sh
check_machine

preset=default
words=()
for word in "$@"; do
  case $word in
    --help | -h)
      echo "usage: ./test.sh [--all] [ctest's arguments]"
      echo "Sets up what is missing, builds, and runs the tests; ./test.sh -R 01 runs those with 01 in their names."
      echo "  --all   the long ones too, which tell nothing about this machine; continuous integration runs these"
      echo "  --matrix  what repeats a build: other toolkits and compilers, sanitizers, a bare root, wheels,"
      echo "          fuzzing; -R picks"
      echo "  -L lint all that have this label, the long ones too; CONTRIBUTING.md has the labels"
      echo "REQUIRE_GPU=1 ./test.sh fails where a lesson is skipped for want of a GPU, a driver or a second GPU."
      exit ;;
    --all) preset=all ;;
    --matrix) preset=matrix ;;
    -L | --label-regex) preset=all words+=("$word") ;;
    *) words+=("$word") ;;
  esac
done

# The system's packages and PyPI's at the same time, once there is what fetches them.
get_packages compiler venv
trap wait EXIT
get_packages_of_tests "$preset" &
cupti=()
has_cupti || cupti=(vmmsim/requirements-cupti.txt)
more=()
[[ " $* " != *" --all "* ]] || more=(vmmsim/requirements-python.txt tests/requirements-jupyterlab.txt)
setup vmmsim/requirements-{notebooks,tests}.txt {docs,labs,tests}/requirements.txt "${cupti[@]}" "${more[@]}"
wait
# Where CI is true a warning of the compiler is an error.
build all -DPython3_EXECUTABLE="$PWD/.venv/bin/python3" ${CI:+-DCMAKE_COMPILE_WARNING_AS_ERROR=ON}
# Four more than there are cores: many tests wait for others most of their time.
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(($(nproc) + 4))}"
status=0
ctest --preset $preset "${words[@]}" || status=$?
if [[ $preset == default ]]; then
  count() { ctest --preset "$1" -N "${words[@]}" 2> /dev/null | sed -n 's/^Total Tests: //p' || true; }
  left_out=$(($(count all) - $(count default)))
  ((left_out == 0)) ||
    echo "$left_out long tests were left out. They tell nothing about this machine; ./test.sh --all runs them too."
fi
exit $status
