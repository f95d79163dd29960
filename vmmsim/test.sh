#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Sets up what is missing, builds vmmsim and its tests, and runs these: all but what takes long or builds it in another
# way. Arguments go to ctest in the place of that: vmmsim/test.sh -L unit
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR
source ./setup.sh
check_machine
(($#)) || set -- -LE "^(long|matrix)$"
cupti=()
has_cupti || cupti=(requirements-cupti.txt)
setup requirements-{notebooks,tests}.txt "${cupti[@]}"
make_targets "vmmsim and its tests" all -DPython3_EXECUTABLE="$PWD/.venv/bin/python3" \
  ${CI:+-DCMAKE_COMPILE_WARNING_AS_ERROR=ON}
exec 9<&-  # the next set-up may begin
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(($(nproc) + 4))}"
exec ctest --preset default "$@"
