#!/usr/bin/env bash
# SPDX-License-Identifier: MIT-0
# Lessons and simulator as programs for 64-bit Arm, cross-compiled on 64-bit x86 into build-aarch64, and those of their
# tests run there that an emulator of the processor lets run: scripts/aarch64.sh [--short] [ctest's arguments]
# --short: the components of the simulator, each by itself, and lessons 01 and 02.
set -euo pipefail
cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
check_machine
[[ $(uname -m) == x86_64 ]] || die "this compiles for Arm on 64-bit x86, and this is $(uname -m): run ./test.sh"
targets=(all)
if [[ ${1:-} == --short ]]; then
  shift
  targets=(vmm_basics growable)
  set -- -R '^(0[12]_[a-z_]+\.sim|simulator\.(ptx|ptx_replay|gpu|memory|trace_writer))$' "$@"
fi
emulator=/usr/lib/binfmt.d/qemu-aarch64.conf
if ! command -v aarch64-linux-gnu-g++ > /dev/null || [[ ! -e $emulator ]]; then
  die "a compiler for Arm is missing, or an emulator. On Debian and Ubuntu, as root:" \
    "    apt-get install g++-aarch64-linux-gnu qemu-user-static"
fi
# The kernel starts the emulator: for the whole machine where it was told to, else, since Linux 6.7, in a namespace.
emulated=()
registered=/proc/sys/fs/binfmt_misc
if [[ ! -e $registered/qemu-aarch64 ]]; then
  # shellcheck disable=SC2016  # the namespace's shell expands these
  emulated=(unshare --user --map-root-user --mount sh -c 'mount -t binfmt_misc binfmt_misc "$1" &&
    cat "$2" > "$1/register" && shift 2 && exec "$@"' sh "$registered" "$emulator")
  "${emulated[@]}" true || die "no namespace in which the kernel starts the emulator can be made here (above)." \
    "With an older one than Linux 6.7, or in a container, as the machine's root:" \
    "    apt-get install binfmt-support"
fi
# The libraries for Arm: those installed here, else some unpacked for this, else the cross-compiler's. Never some of
# each: with the loader of one and the C library of the other, a program that forks does not end.
libraries=$PWD/build-aarch64/libraries
if [[ ! -e /lib/ld-linux-aarch64.so.1 ]]; then
  if [[ ! -d $libraries ]] && ((EUID == 0)) && command -v mmdebstrap > /dev/null; then
    say "unpacking libraries for Arm from the system's packages into $libraries"
    mkdir -p build-aarch64
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include=libstdc++6,libzstd1,liblz4-1 \
      "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$libraries" ||
      { rm -rf "$libraries"; die "they could not be fetched; the message is above"; }
  fi
  export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
  [[ ! -d $libraries ]] || QEMU_LD_PREFIX=$libraries
fi
# The simulator loads two to unpack what nvcc compressed, so the way to know is to load them as the tests will.
probe=$(mktemp -d)
aarch64-linux-gnu-g++ -x c++ -o "$probe/loads" - -ldl <<< '#include <dlfcn.h>
  int main() { delete new int; return !dlopen("libzstd.so.1", RTLD_NOW) || !dlopen("liblz4.so.1", RTLD_NOW); }' ||
  { rm -r "$probe"; die "the compiler for Arm does not work; its message is above"; }
"${emulated[@]}" "$probe/loads" ||
  say "a C++ program for Arm cannot load libzstd.so.1 or liblz4.so.1: tests with compressed PTX will fail, or all." \
    "Run this as root with mmdebstrap installed."
rm -r "$probe"

setup vmmsim/requirements-ninja.txt

# A toolkit: the compiler that is here, and the headers and libraries for Arm that belong to the one from PyPI.
toolkit=build-aarch64/cuda
parts=$toolkit/targets/aarch64-linux
if [[ ! -f $parts/lib/stubs/libcuda.so ]]; then
  say "fetching CUDA's headers and libraries for Arm from PyPI into $toolkit (16 MB)"
  rm -rf $toolkit
  mkdir -p $toolkit/bin $toolkit/targets
  mapfile -t packages < <(grep -hE '^nvidia-cuda-(crt|runtime|cccl|cupti)==' vmmsim/requirements-c{uda,upti}.txt)
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

"${emulated[@]}" cmake --preset aarch64 -DCMAKE_MAKE_PROGRAM="$ninja" -DPython3_EXECUTABLE="$(command -v python3)"
"${emulated[@]}" cmake --build --preset aarch64 --target "${targets[@]}"
[[ ${targets[0]} == all ]] || "${emulated[@]}" cmake --build build-aarch64/vmmsim --target units installed
exec "${emulated[@]}" ctest --preset aarch64 "$@"
