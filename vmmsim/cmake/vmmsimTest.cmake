# SPDX-License-Identifier: MIT-0
# What a project that tests with vmmsim may use, by find_package(vmmsim) or add_subdirectory: the target
# vmmsim::vmmsim, whose property VMMSIM_MACHINES has the names for --machine, and this function.
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

# Of the target vmmsim or vmmsim::vmmsim, and the directory with the files of machines.
function(vmmsim_set_machines target directory)
  file(GLOB files CONFIGURE_DEPENDS ${directory}/*.conf)
  set(machines)
  foreach(file IN LISTS files)
    cmake_path(GET file STEM machine)
    list(APPEND machines ${machine})
  endforeach()
  set_property(TARGET ${target} PROPERTY VMMSIM_MACHINES ${machines})
endfunction()
