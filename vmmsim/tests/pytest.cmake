# SPDX-License-Identifier: MIT-0
# Tests that pytest runs: those of the tool, and of what stands beside it.
include_guard(GLOBAL)

# pytest_test(NAME FILE[::CASE] [options of pytest...]): FILE as seen from the directory where vmmsim/ is. Status 77 is
# a skip, and its reason is in the output; so is a Python that has no pytest.
function(pytest_test name)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B -m pytest --build ${CMAKE_BINARY_DIR} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
    SKIP_REGULAR_EXPRESSION "^[^\n]*: No module named pytest")
endfunction()

# built(NAME VALUE): what tests know as BUILT["NAME"]; see built.py.
function(built name value)
  set_property(GLOBAL APPEND PROPERTY built_for_tests "  \"${name}\": \"${value}\"")
endfunction()

function(write_built)
  get_property(lines GLOBAL PROPERTY built_for_tests)
  list(REMOVE_DUPLICATES lines)  # what both this tool and what stands beside it name
  list(JOIN lines ",\n" lines)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/tests.json CONTENT "{\n${lines}\n}\n")
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL write_built)
