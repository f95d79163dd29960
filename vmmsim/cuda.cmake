# SPDX-License-Identifier: MIT-0
# The headers of CUDA and the runtime whose calls are counted: the toolkit's, or PyPI's where no compiler of CUDA is.
# Sets CUDAToolkit_INCLUDE_DIRS, CUDAToolkit_VERSION_MAJOR, VMM_CUDART, and VMM_PYPI_CUDA, the places of PyPI's parts.
set(VMM_PYPI_CUDA)
foreach(prefix IN LISTS CMAKE_PREFIX_PATH)  # scikit-build-core puts site-packages there
  if(EXISTS ${prefix}/nvidia/cu13/include)
    list(APPEND VMM_PYPI_CUDA ${prefix}/nvidia/cu13)
  endif()
endforeach()
if(VMM_PYPI_CUDA)
  find_path(VMM_CUDA_HEADERS cuda.h PATHS ${VMM_PYPI_CUDA} PATH_SUFFIXES include REQUIRED NO_DEFAULT_PATH)
  find_file(VMM_CUDART libcudart.so.13 PATHS ${VMM_PYPI_CUDA} PATH_SUFFIXES lib REQUIRED NO_DEFAULT_PATH)
  set(CUDAToolkit_INCLUDE_DIRS ${VMM_CUDA_HEADERS})
  set(CUDAToolkit_VERSION_MAJOR 13)
else()
  find_package(CUDAToolkit REQUIRED)
  get_target_property(VMM_CUDART CUDA::cudart IMPORTED_LOCATION)
endif()
