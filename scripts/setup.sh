# SPDX-License-Identifier: MIT-0
# shellcheck shell=bash
# The set-up of ./run.sh, ./test.sh and ./lab.sh, which source this file in the checkout and call setup, then build; or
# book. vmmsim/setup.sh says what is used and what is fetched.

package=build/vmmsim/installed
source vmmsim/setup.sh

# build [TARGET...] [-D...]: configures with these options of CMake's, and builds the targets.
build() {
  local in_words="what is missing"
  [[ ${1:-} != all ]] || in_words="the programs and their tests"
  [[ " $* " != *" simulator "* || -x build/bin/vmmsim ]] || in_words="the simulator, once"
  mkdir -p build
  touch build/.began
  make_targets "$in_words" "$@"
  # As old as the beginning: a source that was edited meanwhile is newer.
  [[ " $* " != *" simulator "* ]] || mv build/.began build/simulator_is_ready
  exec 9<&-  # the next set-up may begin
}

# prepare TARGET...: sets up what these need, and builds them. The simulator alone is built only if it is not ready.
prepare() {
  if [[ $* == simulator ]] && simulator_is_ready; then return; fi
  local more=()
  if [[ " $* " == *" vmm_recorder "* ]] && ! has_cupti; then more=(vmmsim/requirements-cupti.txt); fi
  setup "${more[@]}"
  build "$@"
}

# Whether the simulator was built of what is here. That takes no time and writes nothing.
simulator_is_ready() {
  [[ -f build/simulator_is_ready && $(cached CMAKE_HOME_DIRECTORY) -ef . && -x build/bin/vmmsim ]] &&
    command -v "$(cached CMAKE_CUDA_COMPILER)" > /dev/null &&
    [[ -z $(find vmmsim CMakeLists.txt scripts/vmmsim.cmake \( -name 'build*' -o -name .venv \) -prune -o \
      -newer build/simulator_is_ready -print -quit) ]]
}

# What of vmmsim is Python, and tells of arguments before anything is built.
bring_package() {
  if simulator_is_ready || [[ -e $package/vmmsim/recorder/calls.cc && ! -w . ]]; then return; fi
  may_write
  python3 vmmsim/install_python.py "$package/vmmsim"
}

# The book as HTML, in build/book, and the notebooks. Where there is a compiler, the book's views are made first, in
# build/views: see docs/tools/lesson_views.py.
book() {
  may_write
  local status=0 with_boxes=""
  bring_package
  if [[ $(uname -m) != x86_64 && $(uname -m) != aarch64 ]]; then
    say "the simulator runs on 64-bit x86 and Arm, and this is $(uname -m): the book is built without its views"
  elif ! can_compile; then
    say "there is no g++ that works, and the simulator needs one: the book is built without its views"
  else
    choose_boxes
    set +e  # in a shell of its own, which ends at the first thing that fails
    (
      set -e
      setup docs/requirements.txt
      build views
      boxes
    )
    status=$?
    set -e
    ((status == 0)) || ! no_index || exit $status
    ((status == 0)) || say "the simulator and the lessons were not built (above): the book is built without new views"
  fi
  lock
  check_venv
  get_packages venv
  fetch docs/requirements.txt
  env -u PYTHONPATH .venv/bin/python3 -s -B -m sphinx -q -W --keep-going -c docs . build/book ||
    die "the book was not built; Sphinx's message is above"
  python3 -B -m docs.tools.notebooks
  .venv/bin/python3 -s -B -m docs.tools.class_material
  echo "The book is built. Open $PWD/build/book/docs/index.html in a browser."
}

# Whether the book gets what answers in its boxes: with_boxes, of the caller's. 1 GB may have to be installed for it, so
# who sits there is asked, and before all that takes long.
choose_boxes() {
  local answer=${VMM_BOXES:-} as_root=()
  [[ $answer =~ ^(yes|no)?$ ]] || die "VMM_BOXES is $answer: it may be yes or no, or not be set"
  if [[ ! $answer ]] && { command -v em++ > /dev/null || [[ ${CI:-} ]]; }; then answer=yes; fi
  if [[ ! $answer && -t 0 && -t 2 ]] && command -v apt-get > /dev/null && may_install; then
    read -r -p "setup: install emscripten, 1 GB, for the boxes of Try it here? [y/N] " answer || true
    if [[ $answer == [yY]* ]]; then answer=yes; else answer=no; fi
  fi
  with_boxes=$answer
}

# What answers in the book's boxes: see docs/extensions/try_it.py.
boxes() {
  local without="the boxes of Try it here are listings"
  case $with_boxes in
    no) return ;;
    yes) command -v em++ > /dev/null || get_or_do_without "for the book (1 GB)" "$without" emscripten ;;
    *) say "$without: they need emscripten (1 GB), and VMM_BOXES=yes ./run.sh --docs installs it" ;;
  esac
  hash -r
  command -v em++ > /dev/null || return 0
  (lock && build web) || say "what answers in the book's boxes was not built (above): $without"
}

# The lessons as notebooks, in build/notebooks, and what their first cell would bring.
notebooks() {
  notebook
  python3 -B -m docs.tools.notebooks
}

# What the cells of a notebook need: the simulator, and packages in .venv for the process in which they run. A checkout
# that has both may be one that cannot be written.
notebook() {
  local files=(vmmsim/requirements-notebooks.txt labs/requirements.txt) file all=yes
  for file in "${files[@]}"; do cmp -s "$file" ".venv/.installed/${file//\//-}" || all=no; done
  if [[ $all == yes ]] && simulator_is_ready; then return; fi
  setup "${files[@]}"
  build_simulator
}

# Builds the simulator, unless it is ready and only packages were missing.
build_simulator() {
  if simulator_is_ready; then exec 9<&-; else build simulator; fi  # the next set-up may begin
}
