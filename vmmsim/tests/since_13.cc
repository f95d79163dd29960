// SPDX-License-Identifier: MIT-0
// What drivers after 13.0 brought, asked by name, for these headers may be older: since_13 PART. Each line is an answer
// of the simulator by the headers of 13.1 to 13.5 and the manual of PTX 9.1. No hardware was asked.
#include "check.h"

#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr size_t page = 2 << 20;
using Handle = CUmemGenericAllocationHandle;
enum { device_location = 1, host_numa = 3, locality_domain = 6 };

template <class Call> Call call(const char* name, int version) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status;
  CHECK(cuGetProcAddress(name, &found, version, 0, &status));
  EXPECT(found, "the driver has no %s of %d", name, version);
  return reinterpret_cast<Call>(found);
}
void say(const std::string& what, CUresult answer) { std::printf("%s: %d\n", what.c_str(), int(answer)); }
void say(const std::string& what, const std::string& text) { std::printf("%s: %s\n", what.c_str(), text.c_str()); }

void names() {
  int driver = 0;
  CHECK(cuDriverGetVersion(&driver));
  for (const char* name : {"cuMemCreate", "cuMulticastBindMem", "cuMulticastBindMem_v2", "cuDeviceGetCliqueCount"})
    for (const int version : {12040, 13000, 13010, 13040, 13050}) {
      void* found = nullptr;
      CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
      const CUresult answer = cuGetProcAddress(name, &found, version, 0, &status);
      static void* last = nullptr;
      std::printf("%s, %d: %d, status %d, %s\n", name, version, int(answer), int(status),
                  !found          ? "null"
                  : found == last ? "the same"
                                  : "another");
      last = found;
    }
  for (const int attribute : {139, 147, 148, 149, 152, 160, 161, 162}) {
    int value = -1;
    const CUresult answer = cuDeviceGetAttribute(&value, CUdevice_attribute(attribute), 0);
    say("attribute " + std::to_string(attribute), std::to_string(answer) + ", " + std::to_string(value));
  }
  for (const int error : {47, 919}) {
    const char* name = nullptr;
    const CUresult answer = cuGetErrorName(CUresult(error), &name);
    say("error " + std::to_string(error), std::to_string(answer) + ", " + (name ? name : "null"));
  }
}

void cliques() {
  struct Clique {
    int type;
    unsigned id;
  };
  const auto count = call<CUresult (*)(size_t*, CUdevice)>("cuDeviceGetCliqueCount", 13040);
  const auto info = call<CUresult (*)(Clique*, size_t*, CUdevice)>("cuDeviceGetCliqueInfo", 13040);
  const auto cluster = call<CUresult (*)(CUuuid*, CUdevice)>("cuDeviceGetFabricClusterUuid", 13040);
  int gpus = 0;
  CHECK(cuDeviceGetCount(&gpus));
  CUuuid first = {}, here = {};
  say("cluster", cluster(&first, 0));
  say("another GPU's", cluster(&here, gpus - 1));
  say("is that one", std::memcmp(&first, &here, sizeof here) ? "another" : "the same");
  for (const CUdevice gpu : {0, gpus - 1}) {
    Clique all[9] = {};
    size_t number = 0, written = 9, one = 1;
    CHECK(count(&number, gpu));
    CHECK(info(all, &written, gpu));
    std::string line = std::to_string(number) + " and " + std::to_string(written) + ":";
    for (size_t i = 0; i < written; ++i) line += " " + std::to_string(all[i].type) + "/" + std::to_string(all[i].id);
    say("cliques of " + std::string(gpu ? "the last" : "GPU 0"), line);
    CHECK(info(all, &one, gpu));
    EXPECT(one == 1, "room for one, and %zu were written", one);
  }
  say("no such GPU", count(new size_t, 99));
  CUmulticastObjectProp properties = {2, page, 0, 0};
  Handle object = 0;
  CHECK(cuMulticastCreate(&object, &properties));
  CHECK(cuMulticastAddDevice(object, 0));
  say("a team of the first and the last", cuMulticastAddDevice(object, gpus - 1));
}

Handle make(int type, int id) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CUmemLocationType(type);
  std::memcpy(reinterpret_cast<char*>(&properties.location) + sizeof properties.location.type, &id, sizeof id);
  Handle memory = 0;
  const CUresult answer = cuMemCreate(&memory, page, &properties, 0);
  if (answer != CUDA_SUCCESS) say("memory of " + std::to_string(type) + ", " + std::to_string(id), answer);
  return memory;
}
CUdeviceptr map(Handle handle, int gpus) {
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, page, 0, 0, 0));
  CHECK(cuMemMap(address, page, 0, handle, 0));
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    std::memcpy(reinterpret_cast<char*>(&access.location) + sizeof access.location.type, &gpu, sizeof gpu);
    CHECK(cuMemSetAccess(address, page, &access, 1));
  }
  return address;
}
Handle team_of_two() {
  CUmulticastObjectProp properties = {2, page, 0, 0};
  Handle object = 0;
  const CUresult answer = cuMulticastCreate(&object, &properties);
  if (answer != CUDA_SUCCESS) return say("create", answer), 0;
  for (const CUdevice gpu : {0, 1}) CHECK(cuMulticastAddDevice(object, gpu));
  return object;
}

// A kernel sends 64 bytes of its shared memory, 0, 1, 2 and so on, to all replicas, and then adds them twice.
const char ptx[] = R"(.version 9.1
.target sm_90
.address_size 64
.visible .entry send(.param .u64 where) {
  .reg .b64 %rd<2>; .reg .b32 %r<4>;
  .shared .align 16 .b8 data[64];
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, data; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1;
  bar.sync 0;
  ld.param.u64 %rd1, [where]; mov.u32 %r3, data;
  .reg .pred %p; setp.ne.u32 %p, %r1, 0; @%p bra done;
  multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 64;
  multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r3], 64;
  multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r3], 64;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
done: ret;
})";

void replica_on_host() {
  const auto bind = call<CUresult (*)(Handle, CUdevice, size_t, Handle, size_t, size_t, unsigned long long)>(
      "cuMulticastBindMem", 13010);
  const Handle object = team_of_two(), of_gpu = make(device_location, 0), of_host = make(host_numa, 0);
  say("host memory, no GPU named", cuMulticastBindMem(object, 0, of_host, 0, page, 0));
  say("memory of another GPU", bind(object, 1, 0, of_gpu, 0, page, 0));
  say("a GPU that is not of the team", bind(object, 2, 0, of_host, 0, page, 0));
  say("its own", bind(object, 0, 0, of_gpu, 0, page, 0));
  say("the host's", bind(object, 1, 0, of_host, 0, page, 0));
  const CUdeviceptr all = map(object, 2), first = map(of_gpu, 2), second = map(of_host, 2);
  CUmodule module;
  CUfunction send;
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  const CUresult loaded = cuModuleLoadData(&module, ptx);
  say("PTX 9.1", loaded);
  if (loaded != CUDA_SUCCESS) return;
  CHECK(cuModuleGetFunction(&send, module, "send"));
  void* arguments[] = {const_cast<CUdeviceptr*>(&all)};
  CHECK(cuLaunchKernel(send, 1, 1, 1, 16, 1, 1, 0, nullptr, arguments, nullptr));
  for (const CUdeviceptr replica : {first, second}) {
    unsigned found[16];
    CHECK(cuMemcpyDtoH(found, replica, sizeof found));
    std::string line;
    for (const unsigned each : found) line += std::to_string(each) + " ";
    say(replica == first ? "replica of GPU 0" : "replica on the host", line);
  }
}

void slots() {
  std::vector<Handle> objects;
  for (int i = 0; i < 3; ++i) {
    objects.push_back(team_of_two());
    say("bind " + std::to_string(i), cuMulticastBindMem(objects[i], 0, make(device_location, 0), 0, page, 0));
  }
  CHECK(cuMulticastUnbind(objects[0], 0, 0, page));
  say("after an unbind", cuMulticastBindMem(objects[2], 0, make(device_location, 0), 0, page, 0));
}

void memory() {
  for (const int id : {1, 1 << 8, 200}) make(locality_domain, id);
  const Handle handle = make(locality_domain, 1);
  if (!handle) return;
  CUmemAllocationProp properties = {};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  say("it is of", std::to_string(properties.location.type) + ", GPU " + std::to_string(properties.location.id));
}

void pools() {
  CUmemoryPool pool;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 1));
  for (int attribute = 9; attribute <= 16; ++attribute) {
    long long value = 0;
    const CUresult answer = cuMemPoolGetAttribute(pool, CUmemPool_attribute(attribute), &value);
    say("attribute " + std::to_string(attribute), std::to_string(answer) + ", " + std::to_string(int(value)));
  }
  say("set", cuMemPoolSetAttribute(pool, CUmemPool_attribute(13), new long long(1)));
}

void fabric() {
  team_of_two();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  Handle handle = 0;
  say("memory with a fabric handle", cuMemCreate(&handle, page, &properties, 0));
  make(device_location, 0);
}

}  // namespace

int main(int, char** words) {
  CHECK(cuInit(0));
  const std::string part = words[1];
  if (part == "names") names();
  if (part == "cliques") cliques();
  if (part == "replica_on_host") replica_on_host();
  if (part == "slots") slots();
  if (part == "memory") memory();
  if (part == "pools") pools();
  if (part == "fabric") fabric();
}
