# SPDX-License-Identifier: MIT-0
# Run when a test program has been built: writes a CTest file with a test for each case that `PROGRAM --list` names.
# Takes PROGRAM, PREFIX of the tests' names, LIBRARIES (for LD_LIBRARY_PATH) and FILE; perhaps LAUNCHER, the words with
# which a test's command begins.
set(ENV{LD_LIBRARY_PATH} ${LIBRARIES})
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE cases RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR cases STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} --list: status ${status}")
endif()
string(REGEX MATCHALL "[^\n]+" cases "${cases}")
set(text "")
list(JOIN LAUNCHER "]] [[" launcher)
if(launcher)
  string(PREPEND launcher "[[")
  string(APPEND launcher "]] ")
endif()
foreach(case ${cases})
  string(APPEND text "add_test([[${PREFIX}.${case}]] ${launcher}[[${PROGRAM}]] [[${case}]])\n"
    "set_tests_properties([[${PREFIX}.${case}]] PROPERTIES TIMEOUT 180 LABELS lessons "
    "ENVIRONMENT [[LD_LIBRARY_PATH=${LIBRARIES}]])\n")
endforeach()
file(WRITE ${FILE} "${text}")
