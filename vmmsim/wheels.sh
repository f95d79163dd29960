#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# The tool as it goes to PyPI, into DIRECTORY: a source archive, and of that a wheel with the tag of the oldest systems
# that its symbols allow, for this processor, or cross-compiled for 64-bit Arm: wheels.sh DIRECTORY [aarch64]
#
# This system's C++ library decides that tag. For old systems run it in the container manylinux_2_28_x86_64 of the
# Python Packaging Authority, or _aarch64 on Arm; nobody has done that yet. CUPTI is the user's, and is not taken in.
set -euo pipefail
(($# == 1)) || [[ $# == 2 && $2 == aarch64 ]] || { echo "usage: wheels.sh DIRECTORY [aarch64]" >&2; exit 2; }
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
out=$(cd -P -- "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --only-binary=:all: -r "$here/requirements-wheels.txt"
PATH=$scratch/venv/bin:$PATH

if (($# == 2)) && [[ $(uname -m) != "$2" ]]; then
  # The processor of its CUDA libraries must be the wheel's; pip brings those that pyproject.toml names.
  export CXX=${CXX:-aarch64-linux-gnu-g++} _PYTHON_HOST_PLATFORM=linux-aarch64
  command -v "$CXX" > /dev/null || { echo "wheels.sh: no $CXX; install g++-aarch64-linux-gnu, or set CXX" >&2; exit 1; }
  mapfile -t packages < <(grep -oE 'nvidia-[a-z-]+==[0-9.]+' "$here/pyproject.toml" | sort -u)
  pip install --quiet --only-binary=:all: --no-deps --platform manylinux2014_aarch64 \
    --platform manylinux_2_25_aarch64 --target "$scratch/arm" "${packages[@]}"
  libraries=$scratch/arm/nvidia/cu13/lib
  export CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$2
    -DVMM_CUDART=$libraries/libcudart.so.13 -DVMM_CUPTI_LIBRARY=$libraries/libcupti.so.13"
fi
python3 -m build --outdir "$scratch/built" "$here"
auditwheel repair --exclude 'libcupti.so.*' --wheel-dir "$out" "$scratch"/built/*.whl
mv "$scratch"/built/*.tar.gz "$out"
