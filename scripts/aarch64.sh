#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Lessons and simulator as programs for 64-bit Arm, cross-compiled on 64-bit x86 into build-aarch64, and those of their
# tests run there that an emulator of the processor lets run: scripts/aarch64.sh [ctest's arguments]
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
check_machine
[[ $(uname -m) == x86_64 ]] || die "this compiles for Arm on 64-bit x86, and this is $(uname -m): run ./test.sh"
if ! command -v aarch64-linux-gnu-g++ > /dev/null || [[ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]]; then
  die "a compiler for Arm is missing, or an emulator that the kernel starts. On Debian and Ubuntu, as root:" \
    "    apt-get install g++-aarch64-linux-gnu qemu-user-static binfmt-support" \
    "In a container, as its root, if that is allowed:" \
    "    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc" \
    "    cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register"
fi
# Debian's libraries for Arm where they are, else the cross-compiler's. Never some of each: with the loader of one and
# the C library of the other, a program that forks does not end.
[[ -e /lib/ld-linux-aarch64.so.1 ]] || export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
# The simulator loads libzstd to unpack what nvcc compressed, so the way to know is to load it as the tests will.
probe=$(mktemp -d)
aarch64-linux-gnu-g++ -x c++ -o "$probe/loads" - -ldl <<< '#include <dlfcn.h>
  int main() { delete new int; return dlopen("libzstd.so.1", RTLD_NOW) == nullptr; }' ||
  { rm -r "$probe"; die "the compiler for Arm does not work; its message is above"; }
"$probe/loads" ||
  say "a C++ program for Arm cannot load libzstd.so.1: tests with compressed PTX will fail, or all. On Debian, as root:
    dpkg --add-architecture arm64 && apt-get update && apt-get install libstdc++6:arm64 libzstd1:arm64"
rm -r "$probe"

setup scripts/requirements-ninja.txt

# A toolkit: the compiler that is here, and the headers and libraries for Arm that belong to the one from PyPI.
toolkit=build-aarch64/cuda
parts=$toolkit/targets/aarch64-linux
if [[ ! -f $parts/lib/stubs/libcuda.so ]]; then
  say "fetching CUDA's headers and libraries for Arm from PyPI into $toolkit (16 MB)"
  rm -rf $toolkit
  mkdir -p $toolkit/bin $toolkit/targets
  mapfile -t packages < <(grep -hE '^nvidia-cuda-(crt|runtime|cccl|cupti)==' scripts/requirements-c{uda,upti}.txt)
  venv_python -m pip --disable-pip-version-check install --quiet --progress-bar=off --only-binary=:all: --no-deps \
    --platform manylinux2014_aarch64 --platform manylinux_2_25_aarch64 --target $toolkit/wheels "${packages[@]}" >&2 ||
    die "they could not be fetched; pip's message is above"
  nvcc=$(cached CMAKE_CUDA_COMPILER)
  nvcc=$(readlink -f "$(command -v "${nvcc:-${CUDACXX:-nvcc}}")")
  root=$(dirname "$(dirname "$nvcc")")
  ln -s "$root"/bin/* $toolkit/bin
  ln -s "$root/nvvm" $toolkit/nvvm
  ln -s ../wheels/nvidia/cu13 $parts
  cp "$root/include/fatbinary_section.h" $parts/include
  close_gaps $parts aarch64-linux-gnu-g++
fi
exec 9<&-  # the next set-up may begin

cmake --preset aarch64 -DCMAKE_MAKE_PROGRAM="$ninja" -DPython3_EXECUTABLE="$(command -v python3)"
cmake --build --preset aarch64
exec ctest --preset aarch64 "$@"
