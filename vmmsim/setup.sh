# SPDX-License-Identifier: MIT-0
# shellcheck shell=bash
# Sets up what builds CUDA programs and runs tests, in the directory that a script sources this from: setup fetches what
# is missing, and build builds there.
#
# What is there is used: g++, CMake, make or ninja, and nvcc (on the PATH, or named by CUDACXX, or by a build tree that
# was configured with it). What is missing is fetched: g++ from the system's packages, all else from PyPI into .venv.
# A set-up that was interrupted is done again; one that is complete needs no network.

here=${BASH_SOURCE[0]%setup.sh}  # of the requirements, with a slash
package=${package:-build/installed}  # what of vmmsim is installed, for every Python here
export PYTHONPATH="$PWD/$package${PYTHONPATH:+:$PYTHONPATH}"
oldest_cuda=12.9
oldest_cmake=3.22

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$1"; shift; (( $# == 0 )) || printf '%s\n' "$@" >&2; exit 1; }  # one line for each argument
at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

# What even --help needs.
check_machine() {
  [[ $(uname -s) == Linux ]] || die "this needs Linux, and this is $(uname -s)"
  command -v python3 > /dev/null || die "python3 is missing: install it (apt-get install python3) and run this again"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "$(python3 --version) is too old, 3.10 or later is needed: put a newer python3 first on the PATH"
}

may_write() {
  [[ -w . ]] || die "no permission to write into $PWD: make it yours, or copy the checkout to a place of your own"
}

# setup [requirements file...]: all that the build needs; and what the files name, into .venv.
setup() {
  may_write
  lock

  forget_stale_build
  local wanted=("$@") file
  choose_cmake || wanted+=("$here"requirements-cmake.txt)
  choose_generator || wanted+=("$here"requirements-ninja.txt)
  choose_nvcc || wanted+=("$here"requirements-cuda.txt)
  (( ${#wanted[@]} == 0 )) || check_venv
  get_packages compiler ${wanted[0]:+venv}
  fetch "${wanted[@]}"
  use_fetched "${wanted[@]}"
}

# make_targets WHAT [TARGET...] [-D...]: configures with these options of CMake's, and builds the targets, which are
# WHAT in words. What CMake and they say is in build/configure.log and build/build.log, and is shown if they fail.
make_targets() {
  local what=$1 targets=() options=() word
  for word in "${@:2}"; do
    if [[ $word == -D* ]]; then options+=("$word"); else targets+=("$word"); fi
  done
  forget_stale_build  # again: .venv may have been made anew
  if [[ ! -f build/CMakeCache.txt && -z ${CMAKE_GENERATOR:-} && $ninja ]]; then
    options+=(-G Ninja "-DCMAKE_MAKE_PROGRAM=$ninja")
  fi
  local log=build/configure.log
  mkdir -p build
  if ! cmake --preset default "${options[@]}" > $log 2>&1; then
    cat $log >&2
    die "CMake could not configure the build; its message is above" \
      "If a tool was changed since the last time, remove build/ and run this again."
  fi
  sed -n '/^CMake Warning/,/^$/p' $log >&2
  export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
  log=build/build.log
  if ! (set -o pipefail && cmake --build --preset default --target "${targets[@]}" 2>&1 |
    show_progress $log "building $what"); then
    # Of ninja's output from the first failure on; make's ends with it.
    if grep -q '^FAILED' $log; then sed -n '/^FAILED/,$p' $log >&2; else tail -n 40 $log >&2; fi
    die "the build failed; the compiler's message is above, and all that was said in $log"
  fi
  ! grep -qE 'warning( #|:)' $log || say "the compiler has warned; see $log"
}

# show_progress LOG TEXT: of a build's output all goes into LOG. If it has anything to do, TEXT is said once; a terminal
# shows how far it is.
show_progress() {
  local line has_begun=""
  : > "$1"
  while IFS= read -r line; do
    printf '%s\n' "$line" >> "$1"
    # Ninja looks for new files each time, and make names all that is there.
    [[ $line != "[0/"* && $line != *"Built target "* && $line =~ ^\[\ *([0-9]+(%|/[0-9]+))\]\ [A-Z] ]] || continue
    if [[ -t 2 ]]; then
      printf '\r\033[Ksetup: %s [%s]' "$2" "${BASH_REMATCH[1]}" >&2
    elif [[ ! $has_begun ]]; then
      say "$2"
    fi
    has_begun=yes
  done
  [[ ! -t 2 || ! $has_begun ]] || printf '\n' >&2
}

# Two set-ups at once would spoil each other's files. The lock goes when this process and its children have ended.
lock() {
  exec 9< .
  command -v flock > /dev/null || return 0
  flock -n 9 || { say "another set-up is at work here; waiting for it"; flock 9; }
}

# --- what is there ---------------------------------------------------------------------------------------------------

cached() { sed -n "s/^$1:[A-Z]*=//p" build/CMakeCache.txt 2> /dev/null || true; }
cuda_release() { "$1" --version 2> /dev/null | sed -n 's/.*, release \([0-9.]*\),.*/\1/p' || true; }

# A build tree remembers its tools by their paths: with one of them gone, or the checkout moved, it must begin anew.
forget_stale_build() {
  [[ -f build/CMakeCache.txt ]] || return 0
  local stale="" name value release
  value=$(cached CMAKE_HOME_DIRECTORY)
  [[ $value -ef . ]] || stale="for a checkout in $value"
  for name in CMAKE_CXX_COMPILER CMAKE_CUDA_COMPILER CMAKE_MAKE_PROGRAM Python3_EXECUTABLE; do
    value=$(cached $name)
    [[ -z $value ]] || command -v "$value" > /dev/null || stale="with $value, which is not there"
  done
  value=$(cached CMAKE_CUDA_COMPILER)
  if [[ $value && ! $stale ]]; then
    release=$(cuda_release "$value")
    [[ -z $release ]] || at_least "$release" $oldest_cuda || stale="with $value, CUDA $release, older than $oldest_cuda"
  fi
  [[ $stale ]] || return 0
  say "build/ was configured $stale: configuring it anew (what was set with -D is forgotten)"
  rm -rf build/CMakeCache.txt build/CMakeFiles
}

choose_cmake() {
  local release
  release=$(cmake --version 2> /dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p' || true)
  why_cmake="there is no cmake on the PATH"
  [[ $release ]] || return 1
  why_cmake="cmake on the PATH is $release, older than $oldest_cmake"
  at_least "$release" $oldest_cmake
}

choose_generator() {
  ninja=$(command -v ninja || command -v ninja-build || true)
  why_ninja="there is neither ninja nor make on the PATH"
  [[ $ninja ]] || command -v make > /dev/null
}

choose_nvcc() {
  local nvcc release
  nvcc=$(cached CMAKE_CUDA_COMPILER)
  if [[ $nvcc ]]; then  # there, and new enough: see forget_stale_build
    why_cuda="build/ uses the one in .venv"
    [[ $nvcc != "$PWD/.venv/"* ]]
    return
  fi
  if [[ ${CUDACXX:-} ]]; then
    nvcc=$(command -v "$CUDACXX") || die "CUDACXX names $CUDACXX, which is not there: correct it, or unset it"
  else
    nvcc=$(command -v nvcc || true)
  fi
  why_cuda="there is no nvcc on the PATH, and CUDACXX names none"
  [[ $nvcc ]] || return 1
  release=$(cuda_release "$nvcc")
  [[ $release || -z ${CUDACXX:-} ]] || die "CUDACXX names $CUDACXX, which tells no release: correct it, or unset it"
  why_cuda="$nvcc tells no release"
  if [[ $release ]]; then
    if at_least "$release" $oldest_cuda; then return 0; fi
    why_cuda="$nvcc is CUDA $release, older than the $oldest_cuda that is needed"
  fi
  say "$why_cuda: using the one in .venv instead"
  return 1
}

# Whether the toolkit that is there has it, by which calls on real GPUs are recorded. The one in .venv is a part.
has_cupti() {
  local nvcc root
  nvcc=$(cached CMAKE_CUDA_COMPILER)
  nvcc=$(command -v "${nvcc:-${CUDACXX:-nvcc}}") || return 1
  root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  [[ $root != "$PWD/.venv/"* ]] &&
    [[ -f $root/include/cupti.h || -f $root/extras/CUPTI/include/cupti.h ||
      -f $root/targets/x86_64-linux/include/cupti.h || -f $root/targets/sbsa-linux/include/cupti.h ]]
}

# --- from the system's packages --------------------------------------------------------------------------------------

can_compile() {
  local scratch status=0
  scratch=$(mktemp -d) || die "no temporary directory can be made: is ${TMPDIR:-/tmp} full, or not writable?"
  printf '#include <cstdio>\nint main() { return std::puts("") < 0; }\n' > "$scratch/trial.cpp"
  complaint=$(g++ "$scratch/trial.cpp" -o "$scratch/trial" 2>&1) || status=1
  rm -rf "$scratch"
  return $status
}

can_make_venv() { [[ -x .venv/bin/python3 ]] || python3 -c 'import ensurepip, venv' 2> /dev/null; }

# get_packages [compiler] [venv]: what can compile, what can make a .venv.
get_packages() {
  local missing=() packages=() as_root=() line
  if [[ " $* " == *" compiler "* ]] && ! can_compile; then
    missing+=("a g++ that works")
    packages+=(g++ libc6-dev)
  fi
  if [[ " $* " == *" venv "* ]] && ! can_make_venv; then
    [[ $(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))') == /usr/bin/* ]] ||
      die "$(command -v python3) has no venv or no ensurepip: put a python3 that has them first on the PATH"
    missing+=("python3's venv")
    packages+=("$(python3 -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
  fi
  (( ${#packages[@]} )) || return 0

  local what="this machine lacks ${missing[0]}${missing[1]:+ and ${missing[1]}}"
  if ! command -v apt-get > /dev/null; then
    die "$what, and is neither Debian nor Ubuntu. Install that from its packages and run this again:" \
      "    dnf install gcc-c++ python3       # Fedora and the like" \
      "    zypper install gcc-c++ python3    # openSUSE" \
      "    pacman -S gcc python              # Arch"
  fi
  line="apt-get update && apt-get install -y ${packages[*]}"
  may_install || die "$what, and only root can install that. Run this line as root, then run this again:" "    $line"
  say "$what: installing ${packages[*]} from the system's packages (70 MB)"
  apt_install "${packages[@]}" ||
    die "apt-get could not install ${packages[*]}; its message is above. Mend that and run this again, or as root:" \
      "    $line"
  hash -r
  [[ " $* " != *" compiler "* ]] || can_compile ||
    die "g++ is installed and cannot build a program of one line:" "$complaint"
}

# Whether this user may install packages; as_root, a variable of the caller's, is what makes it so.
may_install() {
  if (( EUID == 0 )); then
    as_root=(env)
  elif command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [[ -t 0 && -t 2 ]]; }; then
    as_root=(sudo)
  else
    return 1
  fi
}

apt_install() {
  local apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq)
  "${apt[@]}" update > /dev/null || say "apt-get update failed (above); going on with the lists that are there"
  "${apt[@]}" install -y --no-install-recommends "$@" > /dev/null
}

# What the tests use of the system: a browser, to see the book in, mmdebstrap, to make a bare root, and clang++.
# Without them the set-up goes on: those tests say what is missing. It installs them as get_or_do_without does.
# What only long tests need, clang++ and emscripten, is left out where the preset given is the default; what makes a
# wheel for Arm and runs it is for the matrix alone.
get_packages_of_tests() {
  local missing=()
  command -v chromium > /dev/null || command -v google-chrome > /dev/null || missing+=(chromium)
  command -v mmdebstrap > /dev/null || (( EUID != 0 )) || missing+=(mmdebstrap)
  command -v bwrap > /dev/null || missing+=(bubblewrap)
  if [[ $1 != default ]]; then
    command -v clang++ > /dev/null || missing+=(clang)
    command -v em++ > /dev/null || missing+=(emscripten)
  fi
  if [[ $1 == matrix && $(uname -m) == x86_64 ]]; then
    command -v aarch64-linux-gnu-g++ > /dev/null || missing+=(g++-aarch64-linux-gnu)
    [[ -e /usr/lib/binfmt.d/qemu-aarch64.conf ]] || missing+=(qemu-user-static)
  fi
  get_or_do_without "for the tests" "the tests that need it will be skipped" "${missing[@]}"
}

# get_or_do_without WHAT_FOR WITHOUT [PACKAGE...]: for root, where CI is true, and for boxes that are wanted it installs
# them, else tells of them.
get_or_do_without() {
  local as_root=() name what_for=$1 without=$2
  shift 2
  (( $# )) || return 0
  if command -v apt-get > /dev/null && { (( EUID == 0 )) || [[ ${CI:-} || ${with_boxes:-} ]]; } && may_install; then
    say "this machine lacks $*, $what_for: installing from the system's packages"
    ! apt_install "$@" || return 0
    for name in "$@"; do  # those that can be had
      apt_install "$name" || say "$name could not be installed: $without"
    done
  else
    say "this machine lacks $*: $without, unless you install it"
  fi
}

# --- from PyPI, into .venv -------------------------------------------------------------------------------------------
# .venv/.unfinished stands while something is being changed. .venv/.installed holds a copy of each requirements file
# that has been installed: a file that differs from its copy is installed again.

# A .venv that was not finished, or whose Python is gone, is removed; one that somebody else made is left alone.
check_venv() {
  local why=""
  if [[ -e .venv/.unfinished ]]; then
    why="the last set-up did not come to its end"
  elif [[ -e .venv/.installed ]]; then
    know_venv 2> /dev/null ||
      why="the Python of .venv is gone"
  elif [[ -e .venv || -L .venv ]]; then
    rmdir .venv 2> /dev/null || die ".venv was not made by this set-up: rename or remove it, and run this again"
  fi
  [[ $why ]] || return 0
  say "$why: making .venv anew"
  rm -rf .venv
}

venv_python() { .venv/bin/python3 -I "$@"; }  # -I: no packages from PYTHONPATH or the home directory

# Where its packages are, to which vmmsim belongs.
know_venv() {
  site=$(venv_python -c 'import pip, sysconfig; print(sysconfig.get_path("purelib"))') || return 1
  printf '%s\n' "$PWD/$package" > "$site/vmmsim.pth"
}

# fetch [requirements file...]: those that are not there yet, by one call of pip, which takes long to begin.
fetch() {
  local file files=() what=() why
  for file in "$@"; do
    if cmp -s "$file" ".venv/.installed/${file//\//-}"; then continue; fi
    case $file in
      *cmake*) why=": $why_cmake" ;;
      *ninja*) why=": $why_ninja" ;;
      *cuda*) why=": $why_cuda" ;;
      *cupti*) why=": the CUDA toolkit here has none" ;;
      *) why="" ;;
    esac
    files+=("$file") what+=("$(sed -n '2s/^# //p' "$file")")
    say "fetching ${what[-1]} from PyPI into .venv$why"
  done
  (( ${#files[@]} )) || return 0
  { mkdir -p .venv/.installed && touch .venv/.unfinished; } || die "no .venv can be made in $PWD: is the disk full?"
  if [[ ! -x .venv/bin/python3 ]]; then
    python3 -I -m venv .venv || die "python3 could not make .venv; its message is above (is the disk full?)"
  fi
  # An index that cannot be reached pip would ask for six times, and wait between.
  PIP_USER=no PIP_RETRIES="${PIP_RETRIES:-1}" venv_python -m pip --log .venv/.installed/pip.log \
    --disable-pip-version-check install --quiet --progress-bar=off --only-binary=:all: --no-warn-script-location \
    "${files[@]/#/--requirement=}" >&2 ||
    explain_pip "$(printf ', %s' "${what[@]}" | cut -c3-)"
  know_venv
  [[ ${files[*]} != *cuda* ]] || close_gaps "$site/nvidia/cu13"
  for file in "${files[@]}"; do cp "$file" ".venv/.installed/${file//\//-}"; done
  rm -f .venv/.unfinished .venv/.installed/pip.log
}

# Whether pip could not reach an index, as far as its log tells.
no_index() {
  grep -qsE 'No matching distribution|Connection|Temporary failure|[Tt]imed out|unreachable|SSL|Proxy' \
    .venv/.installed/pip.log
}

explain_pip() {
  local log=.venv/.installed/pip.log
  if grep -qsE 'No space left|Errno 28' "$log"; then
    die "$1 could not be fetched: the disk is full. Make room and run this again:" "$(df -h . "${TMPDIR:-/tmp}")"
  elif grep -qsE 'Permission denied|Errno 13' "$log"; then
    die "$1 could not be fetched: no permission, see above. Make the files yours and run this again"
  elif grep -qsE 'from versions: [0-9]' "$log"; then
    die "$1 could not be fetched: the package index has none for this machine ($(uname -m), $(python3 --version))"
  elif no_index; then
    die "$1 could not be fetched: no Python package index can be reached" \
      "Look at the network, the proxy (https_proxy) and pip's settings (pip config list), and run this again;" \
      "or install it yourself: what is there is used."
  fi
  die "$1 could not be fetched; pip's message is above"
}

# The wheels lack three things that nvcc and CMake look for: close_gaps DIRECTORY [COMPILER]
close_gaps() {
  ln -sfn lib "$1/lib64"
  ln -sf libcudart.so.13 "$1/lib/libcudart.so"
  mkdir -p "$1/lib/stubs"
  make_stub "$1/include" "$1/lib/stubs/libcuda.so" "${2:-g++}"
}

# A library to link with where there is no driver: every function of cuda.h, also in its older versions and in those for
# a stream of each thread, answers CUDA_ERROR_STUB_LIBRARY (34).
make_stub() {
  local names
  mapfile -t names < <(for variant in VMM_STUB CUDA_API_PER_THREAD_DEFAULT_STREAM __CUDA_API_VERSION_INTERNAL; do
    echo '#include <cuda.h>' | "$3" -E -P -x c "-I$1" -D$variant - | tr '\n' ' ' |  # some declarations take two lines
      grep -oE '\bCUresult +cu[A-Z]\w* *\(' | grep -oE 'cu[A-Z]\w*'
  done | sort -u)
  [[ " ${names[*]} " == *" cuMemCreate "* ]] || die "no functions found in $1/cuda.h: remove .venv and run this again"
  printf 'int %s(void) { return 34; }\n' "${names[@]}" |
    "$3" -x c -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$2" - || die "no stub of libcuda could be made (above)"
}

# use_fetched [requirements file...]: what was not there is taken from .venv.
use_fetched() {
  local file
  for file in "$@"; do
    case $file in
      *cmake*) PATH="$site/cmake/data/bin:$PATH" ;;
      *ninja*) ninja=$PWD/.venv/bin/ninja ;;
      *cuda*) export CUDACXX="$site/nvidia/cu13/bin/nvcc" ;;
    esac
  done
  hash -r
}
