// SPDX-License-Identifier: MIT-0
// Printed: does not compile: expected ';' before '\)' token
// Right: compiles
#include <cuda.h>

int exports_fds(CUdevice device) {
  int supported = 0;
#ifdef AS_PRINTED
  cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
#else
  cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
#endif
  return supported;
}
