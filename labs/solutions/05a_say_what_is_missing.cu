// SPDX-License-Identifier: MIT-0
  // >>> your part: make fabric memory, or say what is missing
  REQUIRE(supported, "GPU 0 has no fabric handles; use GPUs on an NVSwitch, and a driver for them");
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  const CUresult answer = cuMemCreate(&memory, size, &properties, 0);
  REQUIRE(answer != CUDA_ERROR_NOT_PERMITTED, "this process has no channel; ask the administrator for its file");
  CHECK(answer);
  CHECK(cuMemExportToShareableHandle(&handle, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  // <<<
