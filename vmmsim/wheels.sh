#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The tool as it goes to PyPI, into DIRECTORY: a source archive, and of that a wheel for this processor, with the tag of
# the oldest systems that its symbols allow: wheels.sh DIRECTORY
#
# This system's C++ library decides that tag. For old systems run it in the container manylinux_2_28_x86_64 of the
# Python Packaging Authority, or _aarch64 on Arm; nobody has done that yet. CUPTI is the user's, and is not taken in.
set -euo pipefail
(($# == 1)) || { echo "usage: wheels.sh DIRECTORY" >&2; exit 2; }
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
out=$(cd -P -- "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --only-binary=:all: -r "$here/requirements-wheels.txt"
PATH=$scratch/venv/bin:$PATH
python3 -m build --outdir "$scratch/built" "$here"
auditwheel repair --exclude 'libcupti.so.*' --wheel-dir "$out" "$scratch"/built/*.whl
mv "$scratch"/built/*.tar.gz "$out"
