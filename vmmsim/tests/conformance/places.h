// SPDX-License-Identifier: MIT-0
// Where memory may be, right and wrong places, and a process with a context: for questions that go through all places.
#pragma once
#include "conformance.h"

struct Place {
  const char* name;
  CUmemLocation location;
};
inline constexpr Place places[] = {{"the GPU", {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                   {"GPU 99", {CU_MEM_LOCATION_TYPE_DEVICE, 99}},
                                   {"GPU -1", {CU_MEM_LOCATION_TYPE_DEVICE, -1}},
                                   {"the host", {CU_MEM_LOCATION_TYPE_HOST, 0}},
                                   {"the host, id 7", {CU_MEM_LOCATION_TYPE_HOST, 7}},
                                   {"node 0", {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}},
                                   {"node 99", {CU_MEM_LOCATION_TYPE_HOST_NUMA, 99}},
                                   {"node -1", {CU_MEM_LOCATION_TYPE_HOST_NUMA, -1}},
                                   {"its node", {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}},
                                   {"nowhere", {CU_MEM_LOCATION_TYPE_NONE, 0}},
                                   {"type 9", {CUmemLocationType(9), 0}}};

inline CUstream a_stream, another_stream;
inline void begin() {
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&a_stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&another_stream, CU_STREAM_NON_BLOCKING));
}

inline std::string plain(CUresult result) { return check::name(result); }
template <class Value> std::string with(CUresult result, Value value) {
  return plain(result) + (result ? "" : ", " + std::to_string(value));
}
