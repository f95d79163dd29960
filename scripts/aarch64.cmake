# SPDX-License-Identifier: MIT-0
# For programs of 64-bit Arm, cross-compiled: see aarch64.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CUDA_HOST_COMPILER aarch64-linux-gnu-g++)
get_filename_component(toolkit ../build-aarch64/cuda REALPATH BASE_DIR ${CMAKE_CURRENT_LIST_DIR})
set(CMAKE_CUDA_COMPILER ${toolkit}/bin/nvcc)
set(CMAKE_CUDA_FLAGS_INIT "-target-dir aarch64-linux")
# What is found on this machine is for its own processor, but for programs that help to build.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${toolkit}/targets/aarch64-linux)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
