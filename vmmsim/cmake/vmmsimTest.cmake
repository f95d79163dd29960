# SPDX-License-Identifier: MIT-0
# What a project that tests with vmmsim may use, by find_package(vmmsim): the target vmmsim::vmmsim, whose property
# VMMSIM_MACHINES has the names for --machine, and these functions.
include_guard(GLOBAL)

# vmmsim_test(NAME name [OPTIONS options of vmmsim...] COMMAND program [its arguments...]): add_test(), on simulated
# GPUs. The program may be a target. What it needs of CUDA it finds as on a machine with GPUs.
function(vmmsim_test)
  cmake_parse_arguments(PARSE_ARGV 0 its "" "NAME" "OPTIONS;COMMAND")
  if(NOT its_NAME OR NOT its_COMMAND OR DEFINED its_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vmmsim_test: write vmmsim_test(NAME name [OPTIONS options...] COMMAND program [arguments...])")
  endif()
  list(POP_FRONT its_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${its_NAME} COMMAND $<TARGET_FILE:vmmsim::vmmsim> ${its_OPTIONS} ${program} ${its_COMMAND})
endfunction()

# vmmsim_pytest(NAME FILE[::CASE] [options of pytest...]): add_test() of a suite of pytest's, which starts programs and
# vmmsim itself. FILE is as seen from the source directory. Status 77 is a skip, and its reason is in the output; so is
# a Python that has no pytest.
function(vmmsim_pytest name)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B -m pytest -p vmmsim.built --build ${CMAKE_BINARY_DIR} ${ARGN}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
    SKIP_REGULAR_EXPRESSION "^[^\n]*: No module named pytest")
endfunction()

# vmmsim_built(NAME VALUE): what such a suite knows as BUILT["NAME"], by `from vmmsim.built import BUILT`. It knows
# BUILT["vmmsim"], the command, and BUILT["build"], the build tree.
function(vmmsim_built name value)
  set_property(GLOBAL APPEND PROPERTY vmmsim_built "  \"${name}\": \"${value}\"")
endfunction()
function(vmmsim_write_built)
  get_property(lines GLOBAL PROPERTY vmmsim_built)
  list(REMOVE_DUPLICATES lines)  # what several directories name
  list(JOIN lines ",\n" lines)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/vmmsim_built.json CONTENT "{\n${lines}\n}\n")
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL vmmsim_write_built)
