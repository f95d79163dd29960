# SPDX-License-Identifier: MIT-0
# The snippets of docs/paste that are files of several functions, each with a program that tests it: on simulated GPUs,
# with each call of the snippet failing in turn, and on real ones.
foreach(snippet serve growable host_numa sleep share_chunks fabric_or_fd multicast_processes)
  file(GLOB source ${CMAKE_CURRENT_SOURCE_DIR}/paste_${snippet}_test.c[cu])
  cuda_program(paste_${snippet}_test ${source})
  vmmsim_built(paste_${snippet} $<TARGET_FILE:paste_${snippet}_test>)
  vmmsim_pytest(docs.paste.${snippet}.each_call
    "tests/docs/paste_calls_test.py::test_a_snippet_gives_back_when_a_call_fails[${snippet}]")
endforeach()
foreach(snippet serve growable host_numa sleep share_chunks fabric_or_fd)
  foreach(machine h200x8 one_gpu)
    set(options --machine ${machine})
    if(machine STREQUAL "h200x8")
      list(APPEND options --gpus 2)
    endif()
    example_test(docs.paste.${snippet}.${machine} ${vmmsim} --strict --leaks ${options}
      $<TARGET_FILE:paste_${snippet}_test>)
    set_tests_properties(docs.paste.${snippet}.${machine} PROPERTIES FAIL_REGULAR_EXPRESSION "vmmsim: leak")
  endforeach()
  example_test(docs.paste.${snippet}.gpu ${run_program} on_gpus $<TARGET_FILE:paste_${snippet}_test>)
  set_tests_properties(docs.paste.${snippet}.gpu PROPERTIES RESOURCE_LOCK gpu)
  label(gpu docs.paste.${snippet}.gpu)
endforeach()
foreach(machine no_channel no_fabric)
  example_test(docs.paste.fabric_or_fd.${machine} ${vmmsim} --strict --leaks --machine ${machine} --gpus 1
    $<TARGET_FILE:paste_fabric_or_fd_test>)
  set_tests_properties(docs.paste.fabric_or_fd.${machine} PROPERTIES FAIL_REGULAR_EXPRESSION "vmmsim: leak"
    PASS_REGULAR_EXPRESSION "^what the driver grants: by a descriptor\n.*\nOK\n$")
endforeach()
foreach(ranks 2 3)
  example_test(docs.paste.multicast_processes.${ranks} ${vmmsim} --strict --leaks --gpus ${ranks}
    $<TARGET_FILE:paste_multicast_processes_test> ${ranks})
  set_tests_properties(docs.paste.multicast_processes.${ranks} PROPERTIES FAIL_REGULAR_EXPRESSION "vmmsim: leak")
endforeach()

# From Python: with the packages for the driver's CUDA, and with the newest.
example_test(docs.paste.python ${python} tests.docs.paste_python_test ${vmmsim})
example_test(docs.paste.sleep.python ${python} tests.docs.paste_sleep_python_test ${vmmsim})
example_test(docs.paste.python_newest ${python} tests.docs.paste_python_test ${vmmsim} newest)
set_tests_properties(docs.paste.python docs.paste.sleep.python docs.paste.python_newest PROPERTIES
  ENVIRONMENT_MODIFICATION PYTHONPATH=path_list_prepend:${PROJECT_SOURCE_DIR}/docs/paste)
label(long docs.paste.python docs.paste.python_newest)
label(network docs.paste.python_newest)
label(matrix docs.paste.python_newest)
