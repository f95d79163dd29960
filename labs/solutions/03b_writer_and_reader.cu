// SPDX-License-Identifier: MIT-0
  // >>> your part: skip where GPU 1 does not reach GPU 0
  int reaches = 0;
  CHECK(cudaDeviceCanAccessPeer(&reaches, 1, 0));
  REQUIRE(reaches, "GPU 1 cannot access GPU 0 as a peer; use two GPUs that NVLink or PCIe connects");
  // <<<
  // >>> your part: GPU 1 only reads
  access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  // <<<
  // >>> your part: the stream of GPU 1 waits for the write
  cudaEvent_t written;
  CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  CHECK(cudaEventRecord(written));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(nullptr, written, 0));
  CHECK(cudaEventDestroy(written));
  // <<<
