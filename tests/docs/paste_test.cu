// SPDX-License-Identifier: MIT-0
// The snippets of docs/paste at work, each of their calls failing in turn, and several threads at once. With one GPU,
// what needs two is not run. Where there is no IMEX channel, fabric memory must be refused. Makes no multicast object,
// but for: paste_test multicast
#include "paste_failing_calls.h"
#include "paste_test.h"

#include <filesystem>
#include <thread>
#include <type_traits>

#include <fcntl.h>

__global__ void add(int* to, int value) { *to += value; }
__global__ void through_alias(int* here, const int* there, int* read, int* count) {
  if (blockIdx.x == 1) return void(read[2] = wait_and_read(count, 6, there));
  read[0] = *there;  // may stay in a cache, so that the next read would find it again
  read[1] = write_here_read_there(here, there, read[0] + 1);
  cuda::atomic_ref<int, cuda::thread_scope_system>(*count).store(6, cuda::memory_order_release);
}
template <class T> __global__ void to_all(T* mc) {
  broadcast(mc, T(100));
  add_to_all(mc + 1, T(10));
}
template <class T> __global__ void from_all(const T* mc, T* sum) { *sum = sum_of_all(mc); }

static int* pointer(CUdeviceptr address) { return reinterpret_cast<int*>(address); }
static int load(CUdeviceptr address) {
  int value;
  CHECK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}
static void store(CUdeviceptr address, int value) { CHECK(cuMemcpyHtoD(address, &value, sizeof value)); }
static CUresult let_go(CUmemGenericAllocationHandle handle) {  // no call of a snippet
  --handles;
  return cuMemRelease(handle);
}

// Makes something and undoes it, with each call of both failing in turn. What fails leaves nothing behind; an undo that
// failed is called once more.
template <class Make, class Undo> void each_call_fails(const char* what, Make make, Undo undo) {
  failing = calls = 0;
  CHECK(make());  // the driver keeps some things from the first time
  CHECK(undo());
  const int before = handles, reserved = reservations, open = descriptors();
  auto expect_nothing_left = [&] {
    EXPECT(handles == before && reservations == reserved && descriptors() == open,
           "%s, call %d fails: %d handles, %d reservations, %d descriptors are left", what, failing, handles - before,
           reservations - reserved, descriptors() - open);
  };
  for (failing = 1;; ++failing) {
    calls = 0;
    const CUresult result = make();
    if (calls < failing) {
      CHECK(result);
      break;
    }
    EXPECT(result == CUDA_ERROR_UNKNOWN, "%s: %s failed, and it returns %s", what, failed_call, check::name(result));
    expect_nothing_left();
  }
  const int made = failing - 1;
  for (failing = 1;; ++failing) {
    calls = 0;
    const CUresult result = undo();
    if (calls < failing) {
      CHECK(result);
      break;
    }
    EXPECT(result == CUDA_ERROR_UNKNOWN, "%s: %s failed, and its undo returns %s", what, failed_call,
           check::name(result));
  }
  expect_nothing_left();
  std::printf("%s: each of %d calls failed, and of %d to undo it\n", what, made, failing - 1);
  failing = 0;
}

static void expect_undone_failures() {
  const size_t size = 2 << 20;
  CUdeviceptr address = 0, alias = 0;
  size_t taken = 0;
  each_call_fails(
      "allocate", [&] { return taken = 3 << 20, allocate(&address, &taken, 0); },
      [&] { return deallocate(address, taken); });

  CUmemGenericAllocationHandle handle = 0, imported = 0;
  int fd = -1;
  each_call_fails(
      "create_and_export", [&] { return create_and_export(&handle, &fd, size, 0); },
      [&] { return close(fd), let_go(handle); });
  CHECK(create_and_export(&handle, &fd, size, 0));
  each_call_fails(
      "import_and_close", [&] { return import_and_close(&imported, dup(fd)); }, [&] { return let_go(imported); });
  close(fd);
  each_call_fails(
      "map_handle", [&] { return map_handle(&address, handle, size, 0); }, [&] { return unmap_handle(address, size); });
  CHECK(map_handle(&address, handle, size, 0));
  CHECK(let_go(handle));
  each_call_fails(
      "map_again", [&] { return map_again(&alias, address, size, 0); }, [&] { return unmap_again(alias, size); });
  CHECK(unmap_handle(address, size));
  EXPECT(handles == 0 && reservations == 0, "%d, %d", int(handles), int(reservations));
}

// What failed left the caller's variables alone.
static void expect_untouched_results() {
  CUdeviceptr address = 5, alias = 5;
  size_t size = 3 << 20;
  CUmemGenericAllocationHandle handle = 5;
  for (failing = 1; failing < 6; ++failing) {
    calls = 0;
    REFUSED(CUDA_ERROR_UNKNOWN, allocate(&address, &size, 0));
    EXPECT(address == 5 && size == 3 << 20, "%llx, %zu", address, size);
  }
  int fd;
  calls = 0, failing = 2;
  REFUSED(CUDA_ERROR_UNKNOWN, create_and_export(&handle, &fd, 2 << 20, 0));
  EXPECT(handle == 5, "%llx", handle);
  failing = 0;
  CHECK(create_and_export(&handle, &fd, 2 << 20, 0));
  close(fd);
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, map_handle(&address, handle, 4 << 20, 0));  // not its size
  EXPECT(address == 5, "%llx", address);
  CHECK(map_handle(&address, handle, 2 << 20, 0, CU_MEM_ACCESS_FLAGS_PROT_READ, 64 << 20));
  EXPECT(address % (64 << 20) == 0, "%llx", address);
  unsigned long long flags;
  const CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CHECK(cuMemGetAccess(&flags, &gpu, address));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READ, "%llu", flags);
  for (failing = 1; failing < 6; ++failing) {
    calls = 0;
    REFUSED(CUDA_ERROR_UNKNOWN, map_again(&alias, address, 2 << 20, 0));
    EXPECT(alias == 5, "%llx", alias);
  }
  failing = 0;
  CHECK(unmap_handle(address, 2 << 20));
  CHECK(let_go(handle));
}

static void expect_known_attributes() {
  Supported has, old;
  CHECK(supported(0, &has));
  EXPECT(has.vmm && has.fd, "no VMM, or no descriptors");
  unknown = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
  CHECK(supported(0, &old));
  unknown = {};
  EXPECT(old.vmm && old.fd && !old.fabric && old.multicast == has.multicast && old.compression == has.compression,
         "one unknown attribute spoils others");
  for (failing = 1; failing <= 6; ++failing) {
    calls = 0;
    REFUSED(CUDA_ERROR_UNKNOWN, supported(0, &old));
    EXPECT(!old.vmm && !old.fd && !old.fabric && !old.multicast && !old.compression && !old.rdma, "not all 0");
  }
  failing = 0;
  REFUSED(CUDA_ERROR_INVALID_DEVICE, supported(-1, &old));
}

// Several threads at once, each with memory of its own.
static void expect_threads() {
  std::thread threads[4];
  for (auto& thread : threads)
    thread = std::thread([] {
      CHECK(cudaSetDevice(0));  // map_again needs a context
      for (int i = 0; i < 20; ++i) {
        CUdeviceptr address, alias, mapped;
        CUmemGenericAllocationHandle handle, imported;
        int fd;
        size_t size = 1;
        Supported has;
        CHECK(supported(0, &has));
        CHECK(allocate(&address, &size, 0));
        CHECK(grant_to_peer(address, size, 0, 0));
        CHECK(map_again(&alias, address, size, 0));
        store(address, i);
        EXPECT(load(alias) == i, "%d", load(alias));
        CHECK(unmap_again(alias, size));
        CHECK(deallocate(address, size));
        CHECK(create_and_export(&handle, &fd, 2 << 20, 0));
        CHECK(import_and_close(&imported, fd));
        CHECK(map_handle(&mapped, imported, 2 << 20, 0));
        CHECK(let_go(imported));
        CHECK(let_go(handle));
        CHECK(unmap_handle(mapped, 2 << 20));
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT(handles == 0 && reservations == 0, "%d handles, %d reservations", int(handles), int(reservations));
}

static void expect_memory_that_works() {
  CUdeviceptr address;
  size_t size = 3 << 20;
  CHECK(allocate(&address, &size, 0));
  EXPECT(size == 4 << 20, "3 MiB became %zu bytes", size);
  store(address + size - 4, 40);
  add<<<1, 1>>>(pointer(address + size - 4), 2);
  finish();
  EXPECT(load(address + size - 4) == 42, "the last word is %d", load(address + size - 4));
  REFUSED(CUDA_ERROR_INVALID_VALUE, deallocate(address, 3 << 20));  // the size that was wanted
  EXPECT(load(address + size - 4) == 42, "the last word is %d", load(address + size - 4));
  CHECK(deallocate(address, size));
}

// A launch that fails is noticed: the error of the one before it is the example's here.
static void expect_noticed_launch() {
  EXPECT(example_main() == 0, "the example fails");
  add<<<1, 4096>>>(nullptr, 0);
  EXPECT(example_main() != 0, "the example does not notice that its kernel was not launched");
}

static void expect_growth() {
  const size_t chunk = 4 << 20;
  GrowableBuffer buffer;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED, properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  for (const auto& [bytes, unit] : {std::pair{3 * chunk, size_t(0)}, {3 * chunk, size_t(-1)}, {0, chunk}, {-1, chunk}})
    REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.reserve(properties, bytes, unit));
  each_call_fails(
      "GrowableBuffer::reserve", [&] { return buffer.reserve(properties, 1, (2 << 20) + 1); },
      [&] { return EXPECT(buffer.chunk == chunk && buffer.reserved == chunk, "not rounded up"), buffer.destroy(); });
  CHECK(buffer.reserve(properties, 3 * chunk, chunk));
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.reserve(properties, 3 * chunk, chunk));  // it would lose the first one
  CHECK(buffer.grow(1));
  store(buffer.address, 7);
  CHECK(buffer.grow(chunk + 1));
  store(buffer.address + chunk, 8);
  EXPECT(load(buffer.address) == 7 && load(buffer.address + chunk) == 8, "%d and %d", load(buffer.address),
         load(buffer.address + chunk));
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.grow(3 * chunk + 1));  // beyond the reservation
  CHECK(buffer.grow(chunk));                                      // it is larger
  CHECK(buffer.shrink(size_t(-1)));                               // and smaller
  EXPECT(buffer.size == 2 * chunk, "%zu bytes", buffer.size);
  CHECK(buffer.shrink(1));
  EXPECT(buffer.size == chunk && load(buffer.address) == 7, "%zu bytes, the first word %d", buffer.size,
         load(buffer.address));
  CHECK(buffer.destroy());
  CHECK(buffer.destroy());  // of nothing

  // Memory runs out half-way: one such chunk fits, and two do not.
  const size_t before = free_memory();
  CHECK(buffer.reserve(properties, 2 * before, before / 5 * 3 / chunk * chunk));
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, buffer.grow(2 * buffer.chunk));
  EXPECT(buffer.size == 0 && free_memory() == before, "%zu bytes are left", before - free_memory());
  CHECK(buffer.grow(buffer.chunk));
  CHECK(buffer.destroy());

  // Each call of a growth by two chunks fails.
  CHECK(buffer.reserve(properties, 3 * chunk, chunk));
  CHECK(buffer.grow(1));
  store(buffer.address, 7);
  bool done = false;
  for (failing = 1; !done; ++failing) {
    calls = 0;
    const CUresult result = buffer.grow(3 * chunk);
    done = calls < failing;
    EXPECT(done == (result == CUDA_SUCCESS), "%s failed, and it returns %s", failed_call, check::name(result));
    EXPECT(buffer.size == (done ? 3 * chunk : chunk) && buffer.mapped == buffer.size && handles == 0,
           "%zu bytes, %zu mapped, %d handles", buffer.size, buffer.mapped, int(handles));
    calls = failing;  // and no other
    CHECK(buffer.shrink(chunk));
    EXPECT(load(buffer.address) == 7, "%d", load(buffer.address));
  }
  EXPECT(failing - 2 == 7, "%d calls failed", failing - 2);
  // Its undo fails too: size stays, and mapped tells what is left. The next growth opens it, and destroy gives it back.
  for (const bool grows : {true, false}) {
    calls = 0, failing = 7, unmaps_fail = true;  // cuMemSetAccess
    REFUSED(CUDA_ERROR_UNKNOWN, buffer.grow(3 * chunk));
    EXPECT(buffer.size == chunk && buffer.mapped == 3 * chunk, "%zu bytes, %zu mapped", buffer.size, buffer.mapped);
    failing = 0;
    if (grows) {
      CHECK(buffer.grow(2 * chunk));
      store(buffer.address + 2 * chunk, 9);
      EXPECT(buffer.size == 3 * chunk && load(buffer.address + 2 * chunk) == 9, "%zu bytes", buffer.size);
      unmaps_fail = false;
      CHECK(buffer.shrink(chunk));
    }
  }
  REFUSED(CUDA_ERROR_UNKNOWN, buffer.destroy());
  unmaps_fail = false;
  CHECK(buffer.destroy());
  EXPECT(reservations == 0 && free_memory() == before, "%zu bytes are left", before - free_memory());
  static_assert(!std::is_copy_constructible_v<GrowableBuffer> && !std::is_copy_assignable_v<GrowableBuffer>, "");
}

static void expect_peer_access() {
  CUdeviceptr address;
  size_t size = 1;
  unsigned long long flags;
  CHECK(allocate(&address, &size, 0));
  store(address, 1);
  CHECK(grant_to_peer(address, size, 0, 1));
  CHECK(cudaSetDevice(1));
  add<<<1, 1>>>(pointer(address), 1);
  finish();
  CHECK(cudaSetDevice(0));
  EXPECT(load(address) == 2, "the peer left %d", load(address));
  CHECK(grant_to_peer(address, size, 0, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  const CUmemLocation peer = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CHECK(cuMemGetAccess(&flags, &peer, address));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the peer still has %llu", flags);
  no_path = true;
  REFUSED(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, grant_to_peer(address, size, 0, 1));
  CHECK(grant_to_peer(address, size, 0, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE));  // which needs no path
  no_path = false;
  each_call_fails(
      "grant_to_peer", [&] { return grant_to_peer(address, size, 0, 1); },
      [&] { return grant_to_peer(address, size, 0, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE); });
  CHECK(deallocate(address, size));
}

// A GPU reaches its own memory, and can lose that right too.
static void expect_own_access() {
  CUdeviceptr address;
  size_t size = 1;
  unsigned long long flags;
  CHECK(allocate(&address, &size, 0));
  CHECK(grant_to_peer(address, size, 0, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  const CUmemLocation owner = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CHECK(cuMemGetAccess(&flags, &owner, address));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the owner still has %llu", flags);
  CHECK(grant_to_peer(address, size, 0, 0));
  store(address, 3);
  EXPECT(load(address) == 3, "%d", load(address));
  CHECK(deallocate(address, size));
}

// Where a program begins without standard input, a descriptor can be number 0.
static void expect_import_of_0() {
  const auto make_it_0 = [](int fd) {
    if (fd > 0) dup2(fd, 0), close(fd);
  };
  const int input = dup(0);
  int fd;
  CUmemGenericAllocationHandle exported, imported;
  CHECK(create_and_export(&exported, &fd, 2 << 20, 0));
  make_it_0(fd);
  CHECK(import_and_close(&imported, 0));
  EXPECT(fcntl(0, F_GETFD) == -1, "the descriptor is still open");
  CHECK(let_go(imported));
  CHECK(let_go(exported));
  make_it_0(input);
}

static void expect_shared_memory() {
  int sockets[2], fd;
  CUmemGenericAllocationHandle exported, imported;
  CHECK(create_and_export(&exported, &fd, 2 << 20, 0));
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no socket pair");
  EXPECT(send_fd(sockets[0], fd, 2 << 20), "not sent");
  close(fd);
  uint64_t size = 0;
  fd = receive_fd(sockets[1], &size, 1000);
  EXPECT(fd >= 0 && size == 2 << 20, "not received, or with a size of %llu", (unsigned long long)size);
  CHECK(import_and_close(&imported, fd));
  close(sockets[0]);
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1, "an fd from a peer that is gone");
  close(sockets[1]);

  CUdeviceptr at[2];
  CHECK(map_handle(&at[0], exported, 2 << 20, 0));
  CHECK(map_handle(&at[1], imported, 2 << 20, 0));
  CHECK(let_go(exported));  // the mappings keep the memory
  CHECK(let_go(imported));
  store(at[0], 77);
  EXPECT(load(at[1]) == 77, "the import reads %d", load(at[1]));
  for (CUdeviceptr address : at) CHECK(unmap_handle(address, 2 << 20));
}

static void expect_alias() {
  CUdeviceptr address, alias, results;
  size_t size = 4 << 20, results_size = 1;
  CHECK(allocate(&address, &size, 0));
  CHECK(allocate(&results, &results_size, 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, map_again(&alias, address + size / 2, size, 0));  // inside the mapping
  CHECK(map_again(&alias, address, size, 0));
  for (CUdeviceptr each : {address, address + 4}) store(each, 5);
  through_alias<<<2, 1>>>(pointer(address), pointer(alias), pointer(results), pointer(address + 4));
  finish();
  for (int i : {0, 1, 2}) EXPECT(load(results + 4 * i) == 5 + (i > 0), "%d: read %d", i, load(results + 4 * i));
  CHECK(unmap_again(alias, size));
  CHECK(deallocate(results, results_size));
  CHECK(deallocate(address, size));
}

static void expect_fabric() {
  const size_t size = 2 << 20;
  CUmemGenericAllocationHandle exported, imported;
  CUmemFabricHandle bytes;
  CUdeviceptr at[2];
  CHECK(create_and_export_fabric(&exported, &bytes, size, 0));
  CHECK(map_handle(&at[0], exported, size, 0));
  CHECK(import_fabric(&imported, bytes));
  CHECK(map_handle(&at[1], imported, size, 0));
  CHECK(let_go(exported));
  CHECK(let_go(imported));
  store(at[0], 78);
  EXPECT(load(at[1]) == 78, "the import reads %d", load(at[1]));
  for (CUdeviceptr address : at) CHECK(unmap_handle(address, size));
  each_call_fails(
      "create_and_export_fabric", [&] { return create_and_export_fabric(&exported, &bytes, size, 0); },
      [&] { return let_go(exported); });
  each_call_fails("try_fabric", [] { return try_fabric(0); }, [] { return CUDA_SUCCESS; });
  CHECK(create_and_export_fabric(&exported, &bytes, size, 0));
  each_call_fails("import_fabric", [&] { return import_fabric(&imported, bytes); }, [&] { return let_go(imported); });
  CHECK(let_go(exported));
}

// Whether this process can open an IMEX channel. A simulated machine has one without a file.
static bool has_channel() {
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator("/dev/nvidia-caps-imex-channels", none)) {
    const int fd = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0) return close(fd), true;
  }
  return false;
}

template <class T> void expect_sums(const CUdeviceptr mc[2], const CUdeviceptr replica[2]) {
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    const T values[] = {T(0), T(gpu + 1)};
    CHECK(cuMemcpyHtoD(replica[gpu], values, sizeof values));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  to_all<<<1, 1>>>(reinterpret_cast<T*>(mc[0]));
  finish();
  CHECK(cudaSetDevice(1));
  from_all<<<1, 1>>>(reinterpret_cast<T*>(mc[1]) + 1, reinterpret_cast<T*>(replica[1]) + 2);
  finish();
  T values[2][3];
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cuMemcpyDtoH(values[gpu], replica[gpu], sizeof values[gpu]));
    EXPECT(values[gpu][0] == T(100) && values[gpu][1] == T(gpu + 11), "GPU %d has %g and %g", gpu,
           double(values[gpu][0]), double(values[gpu][1]));
  }
  EXPECT(values[1][2] == T(11 + 12), "the sum is %g", double(values[1][2]));
}

static void expect_multicast() {
  const int gpus[] = {0, 1};
  CUmemGenericAllocationHandle object, memory[2];
  CUdeviceptr mc[2], replica[2];
  size_t size = 0, coarse = 0;
  REFUSED(CUDA_ERROR_INVALID_VALUE, multicast_size(&size, SIZE_MAX, 2));  // whole granules are more than a size_t holds
  CHECK(multicast_size(&size, 1, 2));
  CHECK(multicast_size(&coarse, 1, 2, CU_MULTICAST_GRANULARITY_RECOMMENDED));
  EXPECT(size > 0 && size <= coarse && coarse % size == 0, "%zu, and %zu recommended", size, coarse);
  each_call_fails("multicast_size", [&] { return multicast_size(&size, 1, 2); }, [] { return CUDA_SUCCESS; });
  for (int gpu = 0; gpu < 2; ++gpu) {
    size_t taken = size;
    CHECK(allocate(&replica[gpu], &taken, gpu));
    EXPECT(taken == size, "%zu became %zu", size, taken);
    CHECK(cuMemRetainAllocationHandle(&memory[gpu], pointer(replica[gpu])));
  }
  // Each call that makes one fails. Of the undo, each error is told, and what can go has gone.
  const int before = handles;
  bool done = false;
  for (failing = 1; !done; ++failing) {
    calls = 0;
    const CUresult result = make_multicast(&object, gpus, memory, 2, size);
    done = calls < failing;
    EXPECT(result == (done ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN), "%s", check::name(result));
    EXPECT(handles == before + done && bindings == 2 * done, "call %d fails: %d handles more, %d bindings", failing,
           handles - before, int(bindings));
  }
  std::printf("make_multicast: each of %d calls failed\n", failing - 2);
  failing = 0;
  CUdeviceptr odd;  // so that what follows it suits no larger granule
  CHECK(cuMemAddressReserve(&odd, 2 << 20, 0, 0, 0));
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(map_multicast(&mc[gpu], object, size, gpu));
    EXPECT(mc[gpu] % size == 0, "%llx", mc[gpu]);
  }
  CHECK(cuMemAddressFree(odd, 2 << 20));
  CUdeviceptr third = 5;
  each_call_fails(
      "map_multicast", [&] { return map_multicast(&third, object, size, 0); },
      [&] { return unmap_multicast(third, size); });
  expect_sums<int>(mc, replica);
  expect_sums<unsigned>(mc, replica);
  expect_sums<uint64_t>(mc, replica);
  expect_sums<float>(mc, replica);
  for (int gpu = 0; gpu < 2; ++gpu) CHECK(unmap_multicast(mc[gpu], size));
  CHECK(unmake_multicast(object, gpus, 2, size));
  EXPECT(bindings == 0, "%d bindings", int(bindings));
  CHECK(make_multicast(&object, gpus, memory, 2, size));
  failing = 1, calls = 0;
  REFUSED(CUDA_ERROR_UNKNOWN, unmake_multicast(object, gpus, 2, size));  // the first GPU is not unbound
  EXPECT(calls == 3 && handles == before, "%d calls, %d handles more", calls, handles - before);
  failing = 0;
  CHECK(make_multicast(&object, gpus, memory, 2, size));
  failing = 3, calls = 0;
  REFUSED(CUDA_ERROR_UNKNOWN, unmake_multicast(object, gpus, 2, size));  // cuMemRelease
  failing = 0;
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cuMemRelease(memory[gpu]));
    CHECK(deallocate(replica[gpu], size));
  }
}

static void expect_all_else(int used) {
  expect_memory_that_works();
  expect_untouched_results();
  expect_undone_failures();
  expect_known_attributes();
  expect_noticed_launch();
  expect_growth();
  expect_own_access();
  expect_import_of_0();
  expect_shared_memory();
  expect_alias();
  expect_threads();
  if (used < 2) puts("not run: access for a second GPU");
  else expect_peer_access();
  const CUresult fabric = try_fabric(0);
  if (fabric == CUDA_ERROR_NOT_PERMITTED && !has_channel()) {
    puts("not run: fabric memory, which is refused for want of a channel");
  } else {
    CHECK(fabric);
    expect_fabric();
  }
}

int main(int argc, char** argv) {
  const bool multicast = argc > 1 && strcmp(argv[1], "multicast") == 0;
  const char* site = getenv("NCCL_NVLS_ENABLE");
  REQUIRE(!multicast || !site || strcmp(site, "0") != 0, "NCCL_NVLS_ENABLE=0 refuses multicast; unset it");
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // or the first launch of a kernel takes memory
  const int used = check::require_gpus(multicast ? 2 : 1) > 1 ? 2 : 1;
  for (int gpu = used - 1; gpu >= 0; --gpu) {  // what the kernels take is taken before
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());
  }
  const size_t before = free_memory();
  if (multicast) expect_multicast();
  else expect_all_else(used);
  CHECK(cudaSetDevice(0));
  EXPECT(free_memory() == before, "%zu bytes are still taken", before - free_memory());
  EXPECT(handles == 0 && reservations == 0, "%d handles, %d reservations", int(handles), int(reservations));
  puts("OK");
}
