// SPDX-License-Identifier: MIT-0
// Rights of the host, rights that change though the call failed, and RDMA memory that is mapped more than once. Two
// GPUs, each case in a process of its own. Skips on one GPU.
#include "conformance.h"

#include <sstream>
#include <vector>

#include <sys/mman.h>

using Handle = CUmemGenericAllocationHandle;

static CUdeviceptr a;  // 64 MiB of addresses

static CUmemAccessDesc to(CUmemLocationType type, int id, unsigned flags) {
  CUmemAccessDesc descriptor = access_of(id, flags);
  descriptor.location.type = type;
  return descriptor;
}
static CUmemAccessDesc gpu(int id, unsigned flags = 3) { return access_of(id, flags); }
static CUmemAccessDesc host(unsigned flags = 3, int id = 0) { return to(CU_MEM_LOCATION_TYPE_HOST, id, flags); }
static CUmemAccessDesc numa(unsigned flags = 3, int id = 0) { return to(CU_MEM_LOCATION_TYPE_HOST_NUMA, id, flags); }

static CUresult set(CUdeviceptr address, size_t size, const std::vector<CUmemAccessDesc>& descriptors) {
  return cuMemSetAccess(address, size, descriptors.data(), descriptors.size());
}
static std::string right(CUmemLocation location, CUdeviceptr address) {
  unsigned long long flags = 99;
  const CUresult answer = cuMemGetAccess(&flags, &location, address);
  return answer ? check::name(answer) : std::to_string(flags);
}
static std::string rights(CUdeviceptr address) {
  return "GPU 0: " + right(gpu(0).location, address) + ", GPU 1: " + right(gpu(1).location, address) +
         ", HOST: " + right(host().location, address) + ", HOST_NUMA: " + right(numa().location, address);
}
static void try_set(const std::string& what, CUdeviceptr address, const std::vector<CUmemAccessDesc>& descriptors,
                    size_t size = page) {
  say("set " + what, set(address, size, descriptors));
  say("  rights then", rights(address));
}
// Rights for a question to come: says so if they cannot be had.
static void arrange(CUdeviceptr address, const std::vector<CUmemAccessDesc>& descriptors) {
  const CUresult answer = set(address, page, descriptors);
  if (answer) say("  before that", answer);
}
static Handle create_at(CUmemLocationType type, int id, size_t size = page) {
  CUmemAllocationProp properties = on_gpu(id);
  properties.location.type = type;
  Handle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  return handle;
}
static void map_at(CUdeviceptr address, Handle handle, size_t size = page) {
  CHECK(cuMemMap(address, size, 0, handle, 0));
}

// --- The host -------------------------------------------------------------------------------------------------------

static const struct {
  const char* name;
  std::vector<CUmemAccessDesc> descriptors;
} requests[] = {
    {"{GPU 0 3, host 3}", {gpu(0), host()}},
    {"{host 3, GPU 0 3}", {host(), gpu(0)}},
    {"{GPU 0 3, host 3, GPU 1 3}", {gpu(0), host(), gpu(1)}},
    {"{GPU 1 1, host 1}", {gpu(1, 1), host(1)}},
    {"{GPU 0 3, NUMA 3}", {gpu(0), numa()}},
    {"{GPU 0 3, host 0}", {gpu(0), host(0)}},
    {"{host 0, GPU 0 3}", {host(0), gpu(0)}},
    {"{host 0}", {host(0)}},
    {"{host 0, id 7}", {host(0, 7)}},
    {"{NUMA 0}", {numa(0)}},
    {"{NUMA 0, id 7}", {numa(0, 7)}},
    {"{host 0, host 3}", {host(0), host()}},
    {"{host 1}", {host(1)}},
    {"{host 3}", {host()}},
    {"{host 3, id 7}", {host(3, 7)}},
    {"{NUMA 3}", {numa()}},
    {"{NUMA 3, id 7}", {numa(3, 7)}},
    {"{host 3, GPU 99 3}", {host(), gpu(99)}},
    {"{GPU 99 3, host 3}", {gpu(99), host()}},
    {"{GPU 0 3, host 3, GPU 99 3}", {gpu(0), host(), gpu(99)}},
    {"{host 3, GPU 0 7}", {host(), gpu(0, 7)}},
    {"{GPU 0 7, host 3}", {gpu(0, 7), host()}},
    {"{host 7}", {host(7)}},
    {"{host 2}", {host(2)}},
    {"{GPU 0 3, host 7}", {gpu(0), host(7)}},
    {"{GPU 0 0, host 3}", {gpu(0, 0), host()}},
};

// The same requests to memory that nobody may touch at first, or that GPU 0 may read.
static void ask_of(CUmemLocationType type, int id) {
  map_at(a, create_at(type, id));
  for (unsigned before : {0u, 1u})
    for (const auto& request : requests) {
      arrange(a, {gpu(0, before), gpu(1, 0)});
      if (type != CU_MEM_LOCATION_TYPE_DEVICE) arrange(a, {numa(0)});
      try_set(std::string(request.name) + " after GPU 0 had " + std::to_string(before), a, request.descriptors);
    }
}

static void two_mappings() {
  map_at(a, create_at(CU_MEM_LOCATION_TYPE_DEVICE, 0));
  map_at(a + page, create_at(CU_MEM_LOCATION_TYPE_DEVICE, 1));
  try_set("{GPU 0 3, host 3} of two mappings", a, {gpu(0), host()}, 2 * page);
  say("  and of the second", rights(a + page));
  map_at(a + 2 * page, create_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0));
  try_set("{GPU 1 3, host 3} of a GPU's memory and the host's", a + page, {gpu(1), host()}, 2 * page);
  say("  and of the second", rights(a + 2 * page));
  map_at(a + 3 * page, create_at(CU_MEM_LOCATION_TYPE_DEVICE, 0));
  try_set("{GPU 1 1, host 3} of the host's memory and a GPU's", a + 2 * page, {gpu(1, 1), host()}, 2 * page);
  say("  and of the second", rights(a + 3 * page));
}

static void read_rights() {
  const CUmemLocationType types[] = {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA};
  const char* const names[] = {"HOST", "HOST_NUMA"};
  map_at(a, create_at(CU_MEM_LOCATION_TYPE_DEVICE, 0));
  map_at(a + page, create_at(CU_MEM_LOCATION_TYPE_DEVICE, 1));
  map_at(a + 2 * page, create_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0));
  map_at(a + 3 * page, create_at(CU_MEM_LOCATION_TYPE_HOST, 0));
  const char* const memories[] = {"memory of GPU 0", "memory of GPU 1", "memory of HOST_NUMA", "memory of HOST"};
  for (int memory = 0; memory < 4; ++memory)
    for (unsigned of_0 : {0u, 1u, 3u})
      for (unsigned of_host : {0u, 1u, 3u}) {
        const CUdeviceptr address = a + memory * page;
        if (memory < 2 && of_host) continue;
        arrange(address, {gpu(0, of_0), gpu(1, of_0 ? 0 : 3)});
        if (memory >= 2) arrange(address, {numa(of_host)});
        std::string answers;
        for (int type : {0, 1})
          for (int id : {0, -1, 7})
            answers += std::string(type + id ? ", " : "") + names[type] + " " + std::to_string(id) + ": " +
                       right(to(types[type], id, 0).location, address);
        say(std::string(memories[memory]) + ", GPU 0 has " + std::to_string(of_0) + ", GPU 1 " +
                std::to_string(of_0 ? 0 : 3) + ", the host " + std::to_string(of_host),
            answers);
      }
  for (int current : {0, 1}) {
    CHECK(cudaSetDevice(current));
    arrange(a + page, {gpu(0, 1), gpu(1)});
    say("GPU " + std::to_string(current) + " current", rights(a + page));
  }
}

// Is anything left of a mapping that went past the end of its reservation?
static void past_the_end(bool open, bool reserve_there) {
  map_at(a + 62 * MiB, create_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 4 * MiB), 4 * MiB);
  if (open) {
    say("open to the host", set(a + 62 * MiB, 4 * MiB, {numa()}));
    *(volatile char*)(a + 63 * MiB) = 1;
    *(volatile char*)(a + 65 * MiB) = 1;
  }
  say("unmap", cuMemUnmap(a + 62 * MiB, 4 * MiB));
  if (reserve_there) {
    CUdeviceptr behind = 0;
    CHECK(cuMemAddressReserve(&behind, 32 * MiB, 0, a + 64 * MiB, 0));
    say("32 MiB reserved right behind", behind == a + 64 * MiB ? "at the hint" : "elsewhere");
    return;
  }
  void* const there = (void*)(a + 64 * MiB);
  void* const got = mmap(there, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  say("addresses right behind", got == there ? "free" : "taken");
}

// The same where the reservation ends within the 32 MiB that the driver took for it.
static void past_the_end_inside() {
  CUdeviceptr b = 0, behind = 0;
  CHECK(cuMemAddressReserve(&b, 36 * MiB, 0, a + (1 << 30), 0));
  map_at(b + 34 * MiB, create_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 4 * MiB), 4 * MiB);
  say("open to the host", set(b + 34 * MiB, 4 * MiB, {numa()}));
  *(volatile char*)(b + 37 * MiB) = 1;
  say("unmap", cuMemUnmap(b + 34 * MiB, 4 * MiB));
  CHECK(cuMemAddressReserve(&behind, page, 0, b + 36 * MiB, 0));
  say("2 MiB reserved right behind", behind == b + 36 * MiB ? "at the hint" : "elsewhere");
}

// --- RDMA -----------------------------------------------------------------------------------------------------------

// Memory and what is done with it, in turn. There are places 0 to 7, next to one another:
//   map, import, unmap   at a place, by the handle or by an import of it
//   own, read, close     gives its GPU all rights, one to read, none
//   peer, look, shut     the same for the other GPU
//   both, swap           rights for both GPUs; none for its GPU and all for the other, in this order, in one call
//   two, all             rights for the other GPU, for both, at this place and the next, in one call
//   set, copy            a memset and a copy out by its GPU, far: a memset by the other
static const struct {
  const char* memory;
  const char* steps;
} uses[] = {
    {"plain", "map 0, map 1, both 0, own 1, unmap 0, set 1, peer 1, map 2"},
    {"RDMA",
     "map 0, map 1, own 0, own 1, unmap 0, set 1, copy 1, far 1, peer 1, own 1, map 2, read 1, both 1, set 1, "
     "map 2, close 1, own 1, map 3"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, swap 1, own 1, swap 1"},
    {"RDMA",
     "map 0, map 1, both 0, both 1, unmap 0, set 1, far 1, peer 1, far 1, look 1, far 1, shut 1, peer 1, map 2"},
    {"RDMA", "map 0, map 1, both 0, both 1, unmap 0, both 1, swap 1, map 2"},
    {"RDMA", "map 0, map 1, own 0, look 1, unmap 0, peer 1, own 1, map 2"},
    {"RDMA", "map 0, map 1, both 0, both 1, unmap 1, look 0, shut 0, peer 0, map 1, peer 1"},
    {"RDMA",
     "map 0, map 1, own 0, own 1, unmap 0, map 2, peer 1, own 2, peer 2, unmap 2, look 1, map 2, unmap 1, look 2"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, map 2, unmap 1, peer 2, map 1, unmap 2, peer 1"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, own 1, map 2, peer 1"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, read 1, map 2, peer 1, map 0"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, close 1, map 2, peer 1"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, close 1, own 1, map 2, peer 1"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, both 1, map 2, peer 1"},
    {"RDMA", "map 0, map 1, unmap 0, own 1, map 2, unmap 1, map 2, both 2, map 1, both 1"},
    {"RDMA",
     "map 0, map 1, map 2, unmap 0, own 1, map 3, unmap 1, map 3, peer 2, own 2, map 4, unmap 2, map 3, peer 3"},
    {"RDMA", "map 0, map 1, map 2, unmap 0, own 1, map 3, unmap 2, map 3, peer 1"},
    {"RDMA", "map 0, map 1, map 2, unmap 0, own 1, close 1, map 3, peer 1"},
    {"RDMA", "map 0, map 1, map 2, own 1, own 2, unmap 0, unmap 1, peer 2, map 3, peer 2"},
    {"RDMA", "map 0, map 1, map 2, own 1, own 2, unmap 1, peer 0, peer 2, map 3, unmap 0, peer 3, look 2, map 4"},
    {"RDMA", "map 1, map 0, own 0, own 1, unmap 1, peer 0, map 2, peer 0"},
    {"RDMA", "map 1, map 0, own 0, own 1, unmap 0, peer 1, map 2"},
    {"RDMA", "map 0, map 1, unmap 0, unmap 1, map 1, map 0, unmap 1, peer 0, map 2, peer 0"},
    {"RDMA", "map 0, map 1, own 1, map 4, map 5, unmap 0, two 1, two 4, two 0"},
    {"RDMA", "map 0, import 1, own 0, own 1, unmap 0, peer 1, map 0, import 2, unmap 1, own 2, peer 2, import 1"},
    {"RDMA", "map 0, map 1, import 2, own 1, own 2, unmap 0, peer 2, peer 1, import 3, own 3, peer 3"},
    {"RDMA of GPU 1",
     "map 0, map 1, both 0, both 1, unmap 0, set 1, far 1, look 1, far 1, peer 1, map 2, unmap 2, read 1, map 2"},
    {"RDMA", "map 0, map 1, own 0, own 1, unmap 0, all 1, map 2, all 1, own 2"},
    {"RDMA", "map 0, map 1, map 2, unmap 0, all 1, all 1, own 1, own 2, map 3"},
    {"RDMA", "map 0, map 1, map 2, all 0, unmap 1, all 0, own 2, all 1, map 1, all 1"},
    {"RDMA", "map 0, map 1, map 2, unmap 0, own 1, own 2, unmap 1, own 2, read 2, own 2, both 2, peer 2, map 0"},
    {"RDMA", "map 0, map 1, unmap 0, read 1, own 1, close 1, own 1, unmap 1, map 0, both 0"},
    {"compressed RDMA", "map 0, map 1, own 0, own 1, unmap 0, peer 1, map 2, peer 1"},
};

static void use(const std::string& memory, const std::string& steps) {
  const int owner = memory == "RDMA of GPU 1", other = 1 - owner;
  CUmemAllocationProp properties = on_gpu(owner, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (memory != "RDMA for fd" && steps.find("import") == std::string::npos)
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.allocFlags.gpuDirectRDMACapable = memory != "plain";
  properties.allocFlags.compressionType = memory == "compressed RDMA";
  Handle handle, back = 0;
  CHECK(cuMemCreate(&handle, page, &properties, 0));
  std::istringstream all(steps);
  for (std::string step; std::getline(all >> std::ws, step, ',');) {
    std::istringstream words(step);
    std::string what;
    int place = 0;
    words >> what >> place;
    const CUdeviceptr at = a + place * page;
    char byte = 0;
    CHECK(cudaSetDevice(what == "far" ? other : owner));
    if (what == "import" && !back) {
      int fd = -1;
      CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      CHECK(cuMemImportFromShareableHandle(&back, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    }
    const CUresult answer = what == "map"      ? cuMemMap(at, page, 0, handle, 0)
                            : what == "import" ? cuMemMap(at, page, 0, back, 0)
                            : what == "unmap"  ? cuMemUnmap(at, page)
                            : what == "own"    ? set(at, page, {gpu(owner)})
                            : what == "read"   ? set(at, page, {gpu(owner, 1)})
                            : what == "close"  ? set(at, page, {gpu(owner, 0)})
                            : what == "peer"   ? set(at, page, {gpu(other)})
                            : what == "look"   ? set(at, page, {gpu(other, 1)})
                            : what == "shut"   ? set(at, page, {gpu(other, 0)})
                            : what == "both"   ? set(at, page, {gpu(owner), gpu(other)})
                            : what == "swap"   ? set(at, page, {gpu(owner, 0), gpu(other)})
                            : what == "two"    ? set(at, 2 * page, {gpu(other)})
                            : what == "all"    ? set(at, 2 * page, {gpu(owner), gpu(other)})
                            : what == "copy"   ? cuMemcpyDtoH(&byte, at, 1)
                                               : cuMemsetD8(at, 1, page);
    CHECK(cudaDeviceSynchronize());  // a memset has ended before the next step may take its right away
    say(step, std::string(check::name(answer)) + ", rights " + right(gpu(owner).location, at) + " and " +
                  right(gpu(other).location, at));
  }
}

static const struct {
  const char* what;
  void (*run)();
} cases[] = {
    {"the host and memory of GPU 0", [] { ask_of(CU_MEM_LOCATION_TYPE_DEVICE, 0); }},
    {"the host and memory of the host", [] { ask_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0); }},
    {"the host and several mappings", two_mappings},
    {"rights of the host, read", read_rights},
    {"memory of the host, mapped past the end of a reservation", [] { past_the_end(false, false); }},
    {"memory of the host, mapped and opened past the end of a reservation", [] { past_the_end(true, false); }},
    {"the same, and then reserved", [] { past_the_end(true, true); }},
    {"memory of the host, opened past the end of a reservation inside 32 MiB", past_the_end_inside},
};

int main(int argc, char** argv) {
  const int count = sizeof cases / sizeof *cases, in_all = count + sizeof uses / sizeof *uses;
  if (argc > 1) {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    CHECK(cuInit(0));
    for (int device : {1, 0}) CHECK(cudaSetDevice(device));
    CHECK(cuMemAddressReserve(&a, 64 * MiB, 0, CUdeviceptr(1) << 45, 0));
    const int number = atoi(argv[1]);
    if (number < count) cases[number].run();
    else use(uses[number - count].memory, uses[number - count].steps);
    return 0;
  }
  require_peers();
  for (int i = 0; i < in_all; ++i) {
    section(i < count ? cases[i].what : uses[i - count].memory);
    say("end", run_again(std::to_string(i)));
  }
  std::printf("OK\n");
}
