# SPDX-License-Identifier: MIT-0
# From recordings to what one sees of them.

# viewer_test(NAME arguments...): vmmsim/tests/NAME_test.py.
function(viewer_test name)
  example_test(viewer.${name} ${python} vmmsim.tests.${name}_test ${ARGN})
  label(viewer viewer.${name})
endfunction()

viewer_test(recording $<TARGET_FILE:vmmsim> $<TARGET_FILE:vmm_basics> ${CMAKE_CXX_COMPILER})

# What ./run.sh --view does beside `vmmsim view`; and views of what has really run.
example_test(viewer.checkout ${python} tests.watch_test ${PROJECT_BINARY_DIR})
example_test(viewer.lessons ${python} tests.views_test $<TARGET_FILE_DIR:vmmsim>)
label(viewer viewer.checkout viewer.lessons)

# The recorder, as CUPTI would call it, against what the simulator traces of the same calls.
if(TARGET vmm_recorder)
  test_program(recorder_calls ../vmmsim/tests/recorder_calls.cu)
  target_include_directories(recorder_calls SYSTEM PRIVATE ${VMM_CUPTI_HEADERS})
  target_sources(recorder_calls PRIVATE $<TARGET_OBJECTS:recorder_parts>)
  viewer_test(recorder $<TARGET_FILE:vmmsim> $<TARGET_FILE:recorder_calls> calls)
  example_test(viewer.recorder_multicast ${python} vmmsim.tests.recorder_test $<TARGET_FILE:vmmsim>
    $<TARGET_FILE:recorder_calls> multicast)
  label(viewer viewer.recorder_multicast)
endif()
