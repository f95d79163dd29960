# SPDX-License-Identifier: MIT-0
# Builds vmmsim in build/vmmsim, installs it there, and finds it: with the tools and the options of this build.
set(vmmsim_build ${PROJECT_BINARY_DIR}/vmmsim)
set(options -G ${CMAKE_GENERATOR} -DVMM_VENV=${PROJECT_SOURCE_DIR}/.venv)
foreach(name BUILD_TESTING CMAKE_BUILD_TYPE CMAKE_COMPILE_WARNING_AS_ERROR CMAKE_CUDA_COMPILER
    CMAKE_CUDA_COMPILER_LAUNCHER CMAKE_CUDA_HOST_COMPILER CMAKE_CXX_COMPILER CMAKE_CXX_COMPILER_LAUNCHER
    CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_MAKE_PROGRAM CMAKE_TOOLCHAIN_FILE CMAKE_UNITY_BUILD Python3_EXECUTABLE
    VMM_SIMULATOR)
  if(DEFINED ${name})
    list(APPEND options -D${name}=${${name}})
  endif()
endforeach()
if(NOT vmmsim_is_configured)  # this build begins anew, and so does that
  file(REMOVE_RECURSE ${vmmsim_build}/CMakeCache.txt ${vmmsim_build}/CMakeFiles)
  set(vmmsim_is_configured ON CACHE INTERNAL "")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR}/vmmsim -B ${vmmsim_build} ${options}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${vmmsim_build} --target installed_python OUTPUT_QUIET
  COMMAND_ERROR_IS_FATAL ANY)
find_package(vmmsim REQUIRED PATHS ${vmmsim_build}/installed/vmmsim/cmake NO_DEFAULT_PATH)

# of_vmmsim(NAME targets...): a target that builds these there. Without MAKEFLAGS make takes all cores there, too.
function(of_vmmsim name)
  add_custom_target(${name} USES_TERMINAL VERBATIM COMMENT "vmmsim: ${ARGN}"
    COMMAND ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS --unset=MAKELEVEL
      ${CMAKE_COMMAND} --build ${vmmsim_build} --target ${ARGN})
endfunction()
of_vmmsim(simulator installed_python installed_simulator)
of_vmmsim(vmm_recorder installed_python installed_recorder)
of_vmmsim(web installed_web)
of_vmmsim(vmmsim_and_tests all)
add_dependencies(web simulator)  # no two at once
set_target_properties(vmmsim_and_tests PROPERTIES EXCLUDE_FROM_ALL OFF)

# Pages name the command as build/bin/vmmsim, and ctest runs its tests beside those of the lessons.
if(TARGET vmmsim::vmmsim)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  file(CREATE_LINK ../vmmsim/installed/vmmsim/bin/vmmsim ${PROJECT_BINARY_DIR}/bin/vmmsim SYMBOLIC)
endif()
if(BUILD_TESTING)
  file(WRITE ${PROJECT_BINARY_DIR}/tests_of_vmmsim.cmake "subdirs(vmmsim)\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_BINARY_DIR}/tests_of_vmmsim.cmake)
endif()
