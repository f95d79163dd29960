# SPDX-License-Identifier: MIT-0
# How programs are built that run on GPUs and on simulated ones, unchanged: those that test the simulator, and those of
# a project that takes this one in.
include_guard()

# As nvcc builds a program that is told nothing: with the CUDA runtime inside.
function(cuda_executable name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON)
endfunction()

# Of a program of this project besides: PTX stays readable in it, and so do the lines of the host's code, by which a
# trace tells the step of a call.
add_library(program_flags INTERFACE)
target_compile_options(program_flags INTERFACE
  "$<IF:$<COMPILE_LANGUAGE:CUDA>,--no-compress;-Xcompiler=-Wall$<COMMA>-Wextra$<COMMA>-g1,-Wall;-Wextra;-g1>")
target_link_libraries(program_flags INTERFACE CUDA::cuda_driver)
function(cuda_program name source)
  cuda_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE program_flags)
endfunction()

# What runs on the stub of a driver or on the simulator alone is compiled for one kind of GPU. What has no kernels is a
# .cc, which takes a quarter of a .cu's time.
function(test_program name source)
  cuda_program(${name} ${source})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  set_property(TARGET ${name} PROPERTY CUDA_ARCHITECTURES 90)
  if(source MATCHES "[.]cc$")
    target_link_libraries(${name} PRIVATE CUDA::cudart_static)
  endif()
endfunction()
