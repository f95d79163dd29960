// SPDX-License-Identifier: MIT-0
// Reservations, allocations, mappings and access: what the driver answers, most of all when it refuses.
#include "conformance.h"

#include <vector>

#include <fcntl.h>

using Handle = CUmemGenericAllocationHandle;

// Some of these questions crash the driver. A part that asks them asks from number `first` on, and main() starts it
// again behind the question that it did not survive.
static int first = 0, number = 0;

static CUdeviceptr try_reserve(const std::string& what, size_t size, size_t alignment = 0, CUdeviceptr hint = 0,
                               unsigned long long flags = 0, bool keep = false) {
  CUdeviceptr address = 0;
  const CUresult answer = cuMemAddressReserve(&address, size, alignment, hint, flags);
  std::string more;
  if (answer == CUDA_SUCCESS && hint) more = address == hint ? ", at the hint" : ", elsewhere";
  if (answer == CUDA_SUCCESS && alignment > page) more += address % alignment ? ", not aligned" : ", aligned";
  if (answer == CUDA_SUCCESS) more += address % page ? ", not on a granule" : "";
  say("reserve " + what, std::string(check::name(answer)) + more);
  if (answer == CUDA_SUCCESS && !keep) CHECK(cuMemAddressFree(address, size));
  return answer == CUDA_SUCCESS ? address : 0;
}

// What is told of an address inside a mapping.
static void ask_inside(const std::string& where, CUdeviceptr address) {
  Handle handle = 0;
  if (say("retain " + where, cuMemRetainAllocationHandle(&handle, (void*)address)) == CUDA_SUCCESS)
    CHECK(cuMemRelease(handle));
  const CUmemLocation location = access_of(0).location;
  unsigned long long flags = 99;
  const CUresult got = cuMemGetAccess(&flags, &location, address);
  say("access " + where, got ? check::name(got) : std::to_string(flags));
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUresult found = cuMemGetAddressRange(&base, &size, address);
  say("address range " + where, found ? check::name(found) : mib(size) + " from " + mib(address - base) + " before");
  for (CUpointer_attribute attribute : {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        CU_POINTER_ATTRIBUTE_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS}) {
    unsigned long long value = 0;
    const CUresult answer = cuPointerGetAttribute(&value, attribute, address);
    say("attribute " + std::to_string(attribute) + " " + where, answer ? check::name(answer) : std::to_string(value));
  }
}

static void reservations() {
  section("reservations");
  try_reserve("0 bytes", 0);
  try_reserve("1 byte", 1);
  try_reserve("4 KiB", 4096);
  try_reserve("64 KiB", 65536);
  try_reserve("1 MiB", MiB);
  try_reserve("2 MiB", page);
  try_reserve("3 MiB", 3 * MiB);
  try_reserve("2 MiB + 4 KiB", page + 4096);
  try_reserve("1 TiB", size_t(1) << 40);
  try_reserve("2^46", size_t(1) << 46);
  try_reserve("2^46 + 2 MiB", (size_t(1) << 46) + page);
  try_reserve("2^47", size_t(1) << 47);
  try_reserve("2^48", size_t(1) << 48);
  try_reserve("2^56", size_t(1) << 56);
  try_reserve("2^63", size_t(1) << 63);
  try_reserve("2^64 - 2 MiB", ~size_t(0) - page + 1);
  for (size_t alignment : {size_t(1), size_t(3), size_t(4096), MiB, page, 3 * MiB, 4 * MiB, 6 * MiB, size_t(1) << 30,
                           size_t(1) << 40, size_t(1) << 46, size_t(1) << 47, size_t(1) << 63})
    try_reserve("2 MiB, alignment " + std::to_string(alignment), page, alignment);
  try_reserve("0 bytes, alignment 3 MiB", 0, 3 * MiB);
  try_reserve("2 MiB, flags 1", page, 0, 0, 1);
  try_reserve("2 MiB, flags 2", page, 0, 0, 2);
  try_reserve("0 bytes, flags 1", 0, 0, 0, 1);
  const CUdeviceptr there = try_reserve("8 MiB", 8 * MiB, 0, 0, 0, true);
  try_reserve("2 MiB, hint taken", page, 0, there);
  CHECK(cuMemAddressFree(there, 8 * MiB));
  try_reserve("2 MiB, hint free", page, 0, there);
  try_reserve("2 MiB, hint 1 byte past a granule", page, 0, there + 1);
  try_reserve("2 MiB, hint 1 MiB past a granule", page, 0, there + MiB);
  try_reserve("2 MiB, hint on a granule, alignment 1 GiB", page, size_t(1) << 30,
              (there & ~((size_t(1) << 30) - 1)) + page);
  try_reserve("2 MiB, hint 2^47", page, 0, CUdeviceptr(1) << 47);
  try_reserve("2 MiB, hint 2^60", page, 0, CUdeviceptr(1) << 60);

  section("freeing reservations");
  CUdeviceptr a = reserve(8 * MiB);
  say("free with size 0", cuMemAddressFree(a, 0));
  say("free the first half", cuMemAddressFree(a, 4 * MiB));
  say("free the second half", cuMemAddressFree(a + 4 * MiB, 4 * MiB));
  say("free from 2 MiB on, the whole size", cuMemAddressFree(a + page, 8 * MiB));
  say("free with 1 byte too few", cuMemAddressFree(a, 8 * MiB - 1));
  say("free with 2 MiB too many", cuMemAddressFree(a, 10 * MiB));
  say("free it", cuMemAddressFree(a, 8 * MiB));
  say("free it again", cuMemAddressFree(a, 8 * MiB));
  say("free address 0", cuMemAddressFree(0, page));
  say("free address 0, size 0", cuMemAddressFree(0, 0));
  a = reserve(8 * MiB);
  map_new(a, page);
  say("free while mapped", cuMemAddressFree(a, 8 * MiB));
  CHECK(cuMemUnmap(a, page));
  say("free after unmap", cuMemAddressFree(a, 8 * MiB));

  section("neighbouring reservations");  // 8 MiB, and 8 MiB right behind
  a = reserve(16 * MiB);
  CHECK(cuMemAddressFree(a, 16 * MiB));
  const CUdeviceptr one = try_reserve("8 MiB, hint free", 8 * MiB, 0, a, 0, true);
  const CUdeviceptr two = try_reserve("8 MiB, hint right behind", 8 * MiB, 0, a + 8 * MiB, 0, true);
  say("free both as one", cuMemAddressFree(one, 16 * MiB));
  Handle handle = create(4 * MiB);
  CUmemAccessDesc descriptor = access_of(0);
  if (say("one mapping across both", cuMemMap(one + 6 * MiB, 4 * MiB, 0, handle, 0)) == CUDA_SUCCESS) {
    say("its access", cuMemSetAccess(one + 6 * MiB, 4 * MiB, &descriptor, 1));
    say("its memset", cuMemsetD8(one + 6 * MiB, 1, 4 * MiB));
    ask_inside("in the first", one + 7 * MiB);
    ask_inside("in the second", two + MiB);
    say("free the first below it", cuMemAddressFree(one, 8 * MiB));
    say("free the second below it", cuMemAddressFree(two, 8 * MiB));
    say("unmap its first half", cuMemUnmap(one + 6 * MiB, page));
    say("unmap it", cuMemUnmap(one + 6 * MiB, 4 * MiB));
  }
  if (say("a mapping past the second", cuMemMap(two + 6 * MiB, 4 * MiB, 0, handle, 0)) == CUDA_SUCCESS) {
    say("its access", cuMemSetAccess(two + 6 * MiB, 4 * MiB, &descriptor, 1));
    say("its memset", cuMemsetD8(two + 6 * MiB, 1, 4 * MiB));
    ask_inside("in the second", two + 7 * MiB);
    ask_inside("past the second", two + 9 * MiB);
    say("unmap from past the second", cuMemUnmap(two + 8 * MiB, page));
    say("unmap it", cuMemUnmap(two + 6 * MiB, 4 * MiB));
  }
  if (say("a mapping behind the second", cuMemMap(two + 8 * MiB, 4 * MiB, 0, handle, 0)) == CUDA_SUCCESS)
    say("unmap it", cuMemUnmap(two + 8 * MiB, 4 * MiB));
  if (say("a mapping before the first", cuMemMap(one - 4 * MiB, 4 * MiB, 0, handle, 0)) == CUDA_SUCCESS)
    say("unmap it", cuMemUnmap(one - 4 * MiB, 4 * MiB));
  CHECK(cuMemRelease(handle));
  map_new(one + 6 * MiB, page, 0);
  map_new(two, page, 0);
  say("access across two mappings of both", cuMemSetAccess(one + 6 * MiB, 4 * MiB, &descriptor, 1));
  say("memset across both", cuMemsetD8(one + 6 * MiB, 1, 4 * MiB));
  say("unmap across both", cuMemUnmap(one + 6 * MiB, 4 * MiB));
  say("unmap unmapped addresses of both", cuMemUnmap(one + 4 * MiB, 8 * MiB));
  say("unmap unmapped addresses past the second", cuMemUnmap(two + 4 * MiB, 8 * MiB));
  say("free the first", cuMemAddressFree(one, 8 * MiB));
  say("free the second", cuMemAddressFree(two, 8 * MiB));
}

static void try_create(const std::string& what, size_t size, const CUmemAllocationProp& properties,
                       unsigned long long flags = 0) {
  Handle handle;
  if (number++ < first) return;
  std::printf("create %s: ", what.c_str());
  const CUresult answer = cuMemCreate(&handle, size, &properties, flags);
  std::printf("%s\n", check::name(answer));
  if (answer == CUDA_SUCCESS) CHECK(cuMemRelease(handle));
}
static void try_granularity(const std::string& what, const CUmemAllocationProp& properties, unsigned option = 0) {
  size_t granularity = 0;
  if (number++ < first) return;
  std::printf("granularity %s: ", what.c_str());
  const CUresult answer =
      cuMemGetAllocationGranularity(&granularity, &properties, CUmemAllocationGranularity_flags(option));
  std::printf("%s\n", answer ? check::name(answer) : (std::to_string(granularity >> 10) + " KiB").c_str());
}

static void allocations() {
  size_t free_now, total;
  CHECK(cuMemGetInfo(&free_now, &total));
  const CUmemAllocationProp good = on_gpu(0);
  CUmemAllocationProp p;
  for (size_t size : {size_t(0), size_t(1), size_t(4096), size_t(65536), MiB, page, 3 * MiB, page + 4096})
    try_create(std::to_string(size) + " bytes", size, good);
  try_create("more than the total", (total + 4 * page) / page * page, good);
  try_create("more than the total, odd", total / page * page + 8 * MiB + 1, good);
  try_create("1 PiB", size_t(1) << 50, good);
  try_create("2^63", size_t(1) << 63, good);
  try_create("2^64 - 2 MiB", ~size_t(0) - page + 1, good);
  try_create("flags 1", page, good, 1);
  try_create("flags 1, 0 bytes", 0, good, 1);
  // The same questions to creation and to the granularity.
  auto both = [](const std::string& what, const CUmemAllocationProp& properties) {
    try_create(what, page, properties);
    try_granularity(what, properties);
  };
  both("good", good);
  for (int type : {0, 2, 3, 0x7fffffff})
    p = good, p.type = CUmemAllocationType(type), both("type " + std::to_string(type), p);
  for (int id : {-1, 99}) p = on_gpu(id), both("GPU " + std::to_string(id), p);
  struct {
    const char* name;
    CUmemLocationType type;
    int id;
  } locations[] = {{"invalid", CU_MEM_LOCATION_TYPE_INVALID, 0},
                   {"host", CU_MEM_LOCATION_TYPE_HOST, 0},
                   {"host NUMA node 0", CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
                   {"host NUMA node 99", CU_MEM_LOCATION_TYPE_HOST_NUMA, 99},
                   {"current host NUMA node", CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0},
                   {"unknown", CUmemLocationType(77), 0}};
  for (auto& location : locations)
    p = good, p.location.type = location.type, p.location.id = location.id,
    both(std::string("location ") + location.name, p);
  for (unsigned types :
       {1u, 2u, 4u, 3u, 5u, 8u, 9u, 16u, 0x80000000u})  // 8, fabric, depends on the machine: driver_api
    if (types < 8 || types > 9) p = on_gpu(0, types), both("handle types " + std::to_string(types), p);
  for (unsigned char compression : {1, 2, 255})
    p = good, p.allocFlags.compressionType = compression, both("compression " + std::to_string(compression), p);
  for (unsigned char capable : {1, 2})
    p = good, p.allocFlags.gpuDirectRDMACapable = capable, both("RDMA " + std::to_string(capable), p);
  for (unsigned short usage : {1, 2, 4})
    p = good, p.allocFlags.usage = usage, both("usage " + std::to_string(usage), p);
  p = good, p.allocFlags.reserved[0] = 1, both("reserved byte set", p);
  p = good, p.win32HandleMetaData = &p, both("metadata without a win32 handle", p);
  try_granularity("good, recommended", good, 1);
  try_granularity("good, option 2", good, 2);
  try_granularity("good, option 77", good, 77);
  // Two things wrong.
  p = on_gpu(99), try_create("bad GPU, odd size", 1, p);
  p = on_gpu(99), try_create("bad GPU, flags 1", page, p, 1);
  p = on_gpu(99), p.type = CU_MEM_ALLOCATION_TYPE_INVALID, try_create("bad GPU, bad type", page, p);
  p = on_gpu(0, 2), try_create("win32 handle, odd size", 1, p);
  p = on_gpu(0, 2), try_create("win32 handle, flags 1", page, p, 1);
  p = on_gpu(99, 2), try_create("win32 handle, bad GPU", page, p);
  p = on_gpu(0, 16), try_create("unknown handle, odd size", 1, p);
  p = on_gpu(0, 2), try_create("win32 handle, more than the total", (total + 4 * page) / page * page, p);
}

static void mappings() {
  section("mappings");
  CUmemAccessDesc descriptor = access_of(0);
  const CUdeviceptr a = reserve(16 * MiB), b = reserve(16 * MiB);
  Handle handle = create(4 * MiB);
  say("size 0", cuMemMap(a, 0, 0, handle, 0));
  say("half the size", cuMemMap(a, page, 0, handle, 0));
  say("twice the size", cuMemMap(a, 8 * MiB, 0, handle, 0));
  say("size 1 byte less", cuMemMap(a, 4 * MiB - 1, 0, handle, 0));
  say("size 1 byte more", cuMemMap(a, 4 * MiB + 1, 0, handle, 0));
  say("offset 2 MiB, the rest", cuMemMap(a, page, page, handle, 0));
  say("offset 2 MiB, whole size", cuMemMap(a, 4 * MiB, page, handle, 0));
  say("offset 1", cuMemMap(a, 4 * MiB, 1, handle, 0));
  say("offset 4 MiB", cuMemMap(a, 4 * MiB, 4 * MiB, handle, 0));
  say("flags 1", cuMemMap(a, 4 * MiB, 0, handle, 1));
  say("address 1 byte in", cuMemMap(a + 1, 4 * MiB, 0, handle, 0));
  say("address 4 KiB in", cuMemMap(a + 4096, 4 * MiB, 0, handle, 0));
  say("address 1 MiB in", cuMemMap(a + MiB, 4 * MiB, 0, handle, 0));
  say("address 0", cuMemMap(0, 4 * MiB, 0, handle, 0));
  say("address 0, half the size", cuMemMap(0, page, 0, handle, 0));
  say("address 0, size 0", cuMemMap(0, 0, 0, handle, 0));
  say("address 0, offset 2 MiB", cuMemMap(0, 4 * MiB, page, handle, 0));
  say("address 1, half the size", cuMemMap(1, page, 0, handle, 0));
  say("address 2 MiB, half the size", cuMemMap(page, page, 0, handle, 0));
  say("address 2^60, half the size", cuMemMap(CUdeviceptr(1) << 60, page, 0, handle, 0));
  say("address 1 byte in, half the size", cuMemMap(a + 1, page, 0, handle, 0));
  say("address 2^60", cuMemMap(CUdeviceptr(1) << 60, 4 * MiB, 0, handle, 0));
  const CUdeviceptr gone = reserve(8 * MiB);
  CHECK(cuMemAddressFree(gone, 8 * MiB));
  say("no reservation", cuMemMap(gone, 4 * MiB, 0, handle, 0));
  say("no reservation, bad handle", cuMemMap(gone, 4 * MiB, 0, 0, 0));
  say("no reservation, half the size", cuMemMap(gone, page, 0, handle, 0));
  say("offset 2 MiB, flags 1", cuMemMap(a, page, page, handle, 1));
  say("bad handle, flags 1", cuMemMap(a, page, 0, 0, 1));
  say("map", cuMemMap(a, 4 * MiB, 0, handle, 0));
  say("map again, same place", cuMemMap(a, 4 * MiB, 0, handle, 0));
  say("map again, half over it", cuMemMap(a + page, 4 * MiB, 0, handle, 0));
  say("map again, half over it, half the size", cuMemMap(a + page, page, 0, handle, 0));
  say("map again, right behind", cuMemMap(a + 4 * MiB, 4 * MiB, 0, handle, 0));
  say("map again, another reservation", cuMemMap(b, 4 * MiB, 0, handle, 0));
  say("access of both neighbours in one call", cuMemSetAccess(a, 8 * MiB, &descriptor, 1));
  say("access of the other", cuMemSetAccess(b, 4 * MiB, &descriptor, 1));
  unsigned char byte = 0;
  CHECK(cuMemsetD8(a, 0, 4 * MiB));
  CHECK(cuMemsetD8(a + 4 * MiB + 5, 7, 1));
  CHECK(cuMemcpyDtoH(&byte, b + 5, 1));
  say("what was written through the second, read through the third", std::to_string(byte));
  say("release", cuMemRelease(handle));
  say("map after release, still mapped", cuMemMap(a + 8 * MiB, 4 * MiB, 0, handle, 0));
  say("unmap that", cuMemUnmap(a + 8 * MiB, 4 * MiB));
  CUmemAllocationProp back;
  say("properties after release, still mapped", cuMemGetAllocationPropertiesFromHandle(&back, handle));
  section("unmapping");
  say("the first half", cuMemUnmap(a, page));
  say("the second half", cuMemUnmap(a + page, page));
  say("one and a half", cuMemUnmap(a, 6 * MiB));
  say("half of the first, all of the second", cuMemUnmap(a + page, 6 * MiB));
  say("size 0", cuMemUnmap(a, 0));
  say("odd size", cuMemUnmap(a, 4 * MiB - 1));
  say("are they still mapped: memset", cuMemsetD8(a, 0, 8 * MiB));
  say("only unmapped addresses", cuMemUnmap(a + 12 * MiB, page));
  say("no reservation", cuMemUnmap(gone, page));
  say("address 0", cuMemUnmap(0, page));
  say("both neighbours", cuMemUnmap(a, 8 * MiB));
  say("both again", cuMemUnmap(a, 8 * MiB));
  say("the last", cuMemUnmap(b, 4 * MiB));
  map_new(a, page), map_new(a + 4 * MiB, page);
  say("two with a hole between", cuMemUnmap(a, 6 * MiB));
  say("is the first still mapped: memset", cuMemsetD8(a, 0, 1));
  say("is the last still mapped: memset", cuMemsetD8(a + 4 * MiB, 0, 1));
  map_new(a, page), map_new(a + page, page);
  say("two, and unmapped addresses behind", cuMemUnmap(a, 10 * MiB));
  say("is the first still mapped: memset", cuMemsetD8(a, 0, 1));
  map_new(a + page, page);
  say("unmapped addresses, and one", cuMemUnmap(a, 4 * MiB));
  map_new(a, page);
  say("one, its size odd and more", cuMemUnmap(a, page + 1));
  say("one, from a byte in", cuMemUnmap(a + 1, page));
  say("one, past the reservation", cuMemUnmap(a, 64 * MiB));
  say("one", cuMemUnmap(a, page));
  say("free", cuMemAddressFree(a, 16 * MiB));
  say("free the other", cuMemAddressFree(b, 16 * MiB));
}

static void say_access(const std::string& what, CUdeviceptr address, CUmemLocation location = access_of(0).location) {
  unsigned long long flags = 99;
  const CUresult answer = cuMemGetAccess(&flags, &location, address);
  say("access " + what, answer ? check::name(answer) : std::to_string(flags));
}

static void access() {
  section("access");
  const CUdeviceptr a = reserve(32 * MiB);
  map_new(a, 4 * MiB, 0), map_new(a + 4 * MiB, 4 * MiB, 0), map_new(a + 12 * MiB, 4 * MiB, 0);  // a hole from 8 to 12
  auto set = [&](const std::string& what, size_t offset, size_t size, CUmemAccessDesc d = access_of(0),
                 size_t count = 1) { return say("set " + what, cuMemSetAccess(a + offset, size, &d, count)); };
  say_access("of a new mapping", a);
  say_access("inside a new mapping", a + 4096 + 1);
  say_access("of a hole", a + 8 * MiB);
  say_access("of address 0", 0);
  say_access("of address 2^60", CUdeviceptr(1) << 60);
  CUmemLocation location = {};
  struct {
    const char* name;
    CUmemLocationType type;
    int id;
  } locations[] = {{"of the host", CU_MEM_LOCATION_TYPE_HOST, 0},
                   {"of host NUMA node 0", CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
                   {"of the current NUMA node", CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0},
                   {"of GPU -1", CU_MEM_LOCATION_TYPE_DEVICE, -1},
                   {"of GPU 99", CU_MEM_LOCATION_TYPE_DEVICE, 99},
                   {"of an invalid location", CU_MEM_LOCATION_TYPE_INVALID, 0},
                   {"of an unknown location", CUmemLocationType(77), 0}};
  for (auto& l : locations) location.type = l.type, location.id = l.id, say_access(l.name, a, location);
  for (auto& l : locations) {
    location.type = l.type;
    location.id = l.id;
    say_access(std::string("at address 0 ") + l.name, 0, location);
    say_access(std::string("at address 2 MiB ") + l.name, page, location);
    say_access(std::string("at a hole ") + l.name, a + 8 * MiB, location);
  }
  for (auto& l : locations) {
    CUmemAccessDesc d = access_of(0);
    d.location.type = l.type, d.location.id = l.id;
    set(l.name, 0, 4 * MiB, d);
  }
  say_access("after that", a);
  set("count 0", 0, 4 * MiB, access_of(0), 0);
  say_access("after count 0", a);
  set("flags 2", 0, 4 * MiB, access_of(0, 2));
  set("flags 4", 0, 4 * MiB, access_of(0, 4));
  set("flags 7", 0, 4 * MiB, access_of(0, 7));
  set("size 0", 0, 0);
  set("odd size", 0, 4 * MiB - 1);
  set("address 1 byte in", 1, 4 * MiB);
  set("the first half", 0, page);
  set("the second half", page, page);
  set("one and a half", 0, 6 * MiB);
  set("from the middle of one to the middle of the next", page, 4 * MiB);
  set("two and the hole", 0, 12 * MiB);
  set("with the hole between", 4 * MiB, 12 * MiB);
  set("past the last", 12 * MiB, 8 * MiB);
  set("the hole", 8 * MiB, 4 * MiB);
  set("past the reservation", 12 * MiB, 64 * MiB);
  set("bad GPU, the hole", 8 * MiB, 4 * MiB, access_of(99));
  set("bad flags, the hole", 8 * MiB, 4 * MiB, access_of(0, 7));
  set("bad flags, bad GPU", 0, 4 * MiB, access_of(99, 7));
  say_access("after all that was refused", a);
  set("none, of a new mapping", 0, 4 * MiB, access_of(0, 0));
  set("read", 0, 4 * MiB, access_of(0, 1));
  say_access("after read", a);
  set("read and write", 0, 4 * MiB);
  say_access("after read and write", a);
  set("read again", 0, 4 * MiB, access_of(0, 1));
  say_access("after read again", a);
  set("none", 0, 4 * MiB, access_of(0, 0));
  say_access("after none", a);
  set("both", 0, 8 * MiB);
  say_access("of the first", a);
  say_access("of the second's last byte", a + 8 * MiB - 1);
  say_access("of the third", a + 12 * MiB);
  CUmemAccessDesc twice[2] = {access_of(0, 1), access_of(0, 3)};
  say("set one GPU twice: read, read and write", cuMemSetAccess(a, 4 * MiB, twice, 2));
  say_access("after that", a);
  std::swap(twice[0], twice[1]);
  say("set one GPU twice: read and write, read", cuMemSetAccess(a, 4 * MiB, twice, 2));
  say_access("after that", a);
  twice[0] = access_of(0, 3), twice[1] = access_of(99, 3);
  set("read", 0, 4 * MiB, access_of(0, 1));
  say("set a good GPU and a bad one", cuMemSetAccess(a, 4 * MiB, twice, 2));
  say_access("after that", a);
  CHECK(cuMemUnmap(a, 4 * MiB));
  map_new(a, 4 * MiB, 0);
  say_access("of a place mapped anew", a);
}

// Three mappings of 4 MiB in 32 MiB of addresses, open, read only and without access, with a hole from 8 to 12 MiB.
static CUdeviceptr three_mappings() {
  const CUdeviceptr a = reserve(32 * MiB);
  map_new(a, 4 * MiB, CU_MEM_ACCESS_FLAGS_PROT_READ), map_new(a + 4 * MiB, 4 * MiB), map_new(a + 12 * MiB, 4 * MiB, 0);
  return a;
}

static void copies() {
  section("copies and memsets");
  const CUdeviceptr a = three_mappings();
  std::vector<char> host(16 * MiB);
  auto three = [&](const std::string& what, size_t offset, size_t size) {
    say("memset, " + what, cuMemsetD8(a + offset, 1, size));
    say("copy in, " + what, cuMemcpyHtoD(a + offset, host.data(), size));
    say("copy out, " + what, cuMemcpyDtoH(host.data(), a + offset, size));
    say("cudaMemset, " + what, cudaMemset((void*)(a + offset), 1, size));
    say("cudaMemcpy in, " + what, cudaMemcpy((void*)(a + offset), host.data(), size, cudaMemcpyHostToDevice));
    say("cudaMemcpy out, " + what, cudaMemcpy(host.data(), (void*)(a + offset), size, cudaMemcpyDeviceToHost));
    say("last error, " + what, cudaGetLastError());
    say("synchronize, " + what, cudaDeviceSynchronize());
  };
  three("open", 4 * MiB, 4 * MiB);
  three("read only", 0, 4 * MiB);
  three("no access", 12 * MiB, 4 * MiB);
  three("the hole", 8 * MiB, page);
  three("open, then the hole", 4 * MiB, 8 * MiB);
  three("reserved, past everything mapped", 20 * MiB, page);
  three("0 bytes of the hole", 8 * MiB, 0);
  CUmemAccessDesc descriptor = access_of(0);
  say("open the first", cuMemSetAccess(a, 4 * MiB, &descriptor, 1));
  three("across two neighbours", 3 * MiB, 2 * MiB);
  three("read and write, then no access after it", 7 * MiB, 6 * MiB);
  say("copy device to device, open to open", cuMemcpyDtoD(a, a + 4 * MiB, 4 * MiB));
  say("copy device to device, overlapping", cuMemcpyDtoD(a, a + page, 4 * MiB));
  say("copy device to device, open to the hole", cuMemcpyDtoD(a + 8 * MiB, a, page));
  say("copy device to device, the hole to open", cuMemcpyDtoD(a, a + 8 * MiB, page));
  say("memset D32 on an odd address", cuMemsetD32(a + 1, 1, 4));
  say("memset D16 on an odd address", cuMemsetD16(a + 1, 1, 4));
}

static void lookups() {
  section("looking things up");
  const CUdeviceptr a = three_mappings();
  CUdeviceptr plain;
  CHECK(cuMemAlloc(&plain, page));
  struct {
    const char* name;
    CUdeviceptr address;
  } places[] = {
      {"a mapping", a},          {"inside a mapping", a + 3 * MiB + 1}, {"a mapping without access", a + 12 * MiB},
      {"the hole", a + 8 * MiB}, {"cuMemAlloc's memory", plain},        {"a host variable", CUdeviceptr(&plain)},
      {"address 0", 0}};
  for (auto& place : places) {
    const std::string name = place.name;
    Handle handle = 0;
    if (say("retain " + name, cuMemRetainAllocationHandle(&handle, (void*)place.address)) == CUDA_SUCCESS)
      CHECK(cuMemRelease(handle));
    CUdeviceptr base = 0;
    size_t size = 0;
    const CUresult answer = cuMemGetAddressRange(&base, &size, place.address);
    say("address range of " + name,
        answer ? check::name(answer) : mib(size) + " from " + mib(place.address - base) + " before");
    struct {
      const char* name;
      CUpointer_attribute attribute;
    } attributes[] = {{"memory type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
                      {"device ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
                      {"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
                      {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
                      {"legacy IPC", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
                      {"handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
                      {"access flags", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
                      {"RDMA", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
                      {"range size", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
                      {"mapping size", CU_POINTER_ATTRIBUTE_MAPPING_SIZE}};
    for (auto& attribute : attributes) {
      unsigned long long value = 0;  // some are 4 bytes, some 8, one 1
      const CUresult got = cuPointerGetAttribute(&value, attribute.attribute, place.address);
      say("attribute " + std::string(attribute.name) + " of " + name,
          got ? check::name(got) : std::to_string((long long)value));
    }
    for (CUpointer_attribute attribute : {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                          CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR}) {
      CUdeviceptr value = 0;
      const CUresult got = cuPointerGetAttribute(&value, attribute, place.address);
      say("attribute " + std::to_string(attribute) + " of " + name, got          ? check::name(got)
                                                                    : value == 0 ? "0"
                                                                    : value == place.address
                                                                        ? "the address"
                                                                        : mib(place.address - value) + " before");
    }
    cudaPointerAttributes runtime;
    const cudaError_t error = cudaPointerGetAttributes(&runtime, (void*)place.address);
    say("cudaPointerGetAttributes of " + name,
        error ? check::name(error)
              : "type " + std::to_string(runtime.type) + ", device " + std::to_string(runtime.device) +
                    (runtime.devicePointer ? ", device pointer" : "") + (runtime.hostPointer ? ", host pointer" : ""));
  }
  cudaGetLastError();
  CHECK(cuMemFree(plain));
  say("cuMemFree of a mapping", cuMemFree(a));
  say("cudaFree of a mapping", cudaFree((void*)a));
  say("last error", cudaGetLastError());
  CUipcMemHandle ipc;
  say("cuIpcGetMemHandle of a mapping", cuIpcGetMemHandle(&ipc, a));
  CHECK(cuMemUnmap(a, 8 * MiB));
  CHECK(cuMemUnmap(a + 12 * MiB, 4 * MiB));
  CHECK(cuMemAddressFree(a, 32 * MiB));
}

static void no_context() {
  section("before a context");
  CUdeviceptr address;
  say("reserve", cuMemAddressReserve(&address, page, 0, 0, 0));
  CUmemAllocationProp properties = on_gpu(0);
  size_t free_now, total;
  Handle handle;
  say("granularity", cuMemGetAllocationGranularity(&total, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  say("create", cuMemCreate(&handle, page, &properties, 0));
  say("map", cuMemMap(address, page, 0, handle, 0));
  CUmemAccessDesc descriptor = access_of(0);
  say("set access", cuMemSetAccess(address, page, &descriptor, 1));
  unsigned long long flags;
  say("get access", cuMemGetAccess(&flags, &descriptor.location, address));
  say("retain", cuMemRetainAllocationHandle(&handle, (void*)address));
  say("memset", cuMemsetD8(address, 0, page));
  say("memory info", cuMemGetInfo(&free_now, &total));
  say("unmap", cuMemUnmap(address, page));
  say("release", cuMemRelease(handle));
  say("free", cuMemAddressFree(address, page));
}

// Each part in a process of its own: what goes wrong in one is not carried into the next.
int main(int argc, char** argv) {
  struct {
    const char* name;
    void (*run)();
  } parts[] = {{"no context", no_context},   {"reservations", reservations},
               {"allocations", allocations}, {"mappings", mappings},
               {"access", access},           {"copies", copies},
               {"lookups", lookups}};
  if (argc > 2) {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    first = atoi(argv[2]);
    CHECK(cuInit(0));
    for (auto& part : parts) {
      if (std::strcmp(part.name, argv[1]) != 0) continue;
      if (part.run != no_context) CHECK(cudaSetDevice(0));
      part.run();
    }
    return 0;
  }
  check::require_gpus(1);
  for (auto& part : parts) {
    if (part.run != allocations) {
      say("end", run_again(part.name, "0"));
    } else {
      section(part.name);
      ask_through_crashes(part.name);
    }
  }
  std::printf("OK\n");
}
