#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# What the first cell of a notebook runs: sets up what its cells need, once.
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
check_machine
notebook
