// SPDX-License-Identifier: MIT-0
//
// The headers of the lessons, one promise a case. check_test.py starts each case, and looks at what it prints and how
// it exits.
#include "../common/check.h"

#include <string>

__global__ void nothing() {}

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  std::printf("the story so far\n");
  if (name == "success") {
    CHECK(CUDA_SUCCESS);
    CHECK(cudaSuccess);
    REFUSED(cudaErrorInvalidValue, cudaErrorInvalidValue);
    REQUIRE(argc > 0, "never printed; %d", 1);
    EXPECT(argc > 0, "never printed %d", 1);
  } else if (name == "driver_call_fails") {
    CHECK(CUDA_ERROR_INVALID_VALUE);
  } else if (name == "runtime_call_fails") {
    CHECK(cudaErrorMemoryAllocation);
  } else if (name == "wrong_answer") {
    REFUSED(cudaErrorInvalidValue, cudaErrorNotPermitted);
  } else if (name == "no_refusal") {
    REFUSED(cudaErrorInvalidValue, cudaSuccess);
  } else if (name == "requirement_missing") {
    REQUIRE(argc % 2 == 1, "needs %d of it; get more", 3);
  } else if (name == "expectation_broken") {
    EXPECT(argc % 2 == 1, "%d%% of it is wrong", 50);
  } else if (name == "gate") {
    check::require_gpus(1);
  } else if (name == "launch") {
    CHECK(cudaSetDevice(1));
    nothing<<<1, 1>>>();
    CHECK(cudaGetLastError());
  } else if (name == "no_code") {  // which is told without a context
    CHECK(cuInit(0));
    std::atexit([] {
      unsigned flags;
      int is_there = -1;
      if (cuDevicePrimaryCtxGetState(0, &flags, &is_there) == CUDA_SUCCESS) std::printf("contexts: %d\n", is_there);
    });
    CHECK(CUDA_ERROR_NO_BINARY_FOR_GPU);
  } else if (name == "arguments") {
    long size = 4, full = 0;
    check::arguments(argc - 1, argv + 1, "usage: arguments\n", {{"--size", &size, 1, 9}, {"--full", &full, 0, 0}});
    std::printf("size %ld full %ld\n", size, full);
  } else {
    return 99;
  }
  std::printf("went on\n");
  return 0;
}
