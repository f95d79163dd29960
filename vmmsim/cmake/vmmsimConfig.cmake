# SPDX-License-Identifier: MIT-0
# find_package(vmmsim), with vmmsim_DIR as `vmmsim --cmake-dir` prints it: vmmsimTest.cmake says what it gives. Of an
# installation; or of a checkout beside its build, as vmmsim's Python takes it.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH vmmsim_package)
foreach(vmmsim_executable ${vmmsim_package}/bin/vmmsim ${vmmsim_package}/../build/bin/vmmsim)
  if(EXISTS ${vmmsim_executable} AND NOT TARGET vmmsim::vmmsim)
    include(${CMAKE_CURRENT_LIST_DIR}/vmmsimTest.cmake)
    add_executable(vmmsim::vmmsim IMPORTED)
    set_property(TARGET vmmsim::vmmsim PROPERTY IMPORTED_LOCATION ${vmmsim_executable})
    vmmsim_built(vmmsim ${vmmsim_executable})
    vmmsim_set_machines(vmmsim::vmmsim ${vmmsim_package}/simulator/machines)
  endif()
endforeach()
if(NOT TARGET vmmsim::vmmsim)
  set(vmmsim_FOUND FALSE)
  set(vmmsim_NOT_FOUND_MESSAGE "there is no ${vmmsim_package}/bin/vmmsim: build it, or install vmmsim")
endif()
