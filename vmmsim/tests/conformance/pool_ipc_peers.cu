// SPDX-License-Identifier: MIT-0
// Pools that processes share: how they are exported and imported, what the importer may do with a pool and with its
// memory, and what is left when a block is freed, the pool destroyed or its process gone.
#include "parts.h"

#include <csignal>
#include <cstdint>
#include <cstring>

#include "messages.h"

using Pool = cudaMemPool_t;
using Data = cudaMemPoolPtrExportData;
static const auto fd_type = cudaMemHandleTypePosixFileDescriptor;
constexpr int blocks = 8;

__global__ void store(int* to, int value) { *to = value; }

static CUmemPoolProps pool_of(int gpu, unsigned types) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CUmemAllocationHandleType(types);
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  return properties;
}
static Pool make_pool(int gpu, unsigned types) {
  Pool pool;
  const CUmemPoolProps properties = pool_of(gpu, types);
  CHECK(cuMemPoolCreate(&pool, &properties));
  return pool;
}
static void* allocate(Pool pool, size_t size) {
  void* block;
  CHECK(cudaMallocFromPoolAsync(&block, size, pool, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  return block;
}
static std::string word_at(const void* address) {
  int value = -1;
  const cudaError_t answer = cudaMemcpy(&value, address, sizeof value, cudaMemcpyDeviceToHost);
  cudaGetLastError();
  return answer ? check::name(answer) : std::to_string(value);
}
static std::string write_to(void* address, int value) {  // by a kernel
  store<<<1, 1>>>((int*)address, value);
  const cudaError_t answer = cudaDeviceSynchronize();
  return check::name(answer);
}

// --- The exporter: does what it is told, and answers. It says nothing ------------------------------------------------

struct Message {
  char what;
  int number;  // of a pool or a block; for a block also its pool
  int pool;
  size_t size;
  int answer, value, fd;
  Data data;
};
static int peer;  // the socket to the other process

static void send(const Message& message) {
  EXPECT(send_message(peer, &message, sizeof message, message.fd), "nobody is there");
}
static bool receive(Message& message) {
  int fd;
  if (!receive_message(peer, &message, sizeof message, fd)) return false;
  message.fd = fd;
  return true;
}

static void serve() {
  static Pool pools[4];
  static void* held[blocks];
  peer = 3;
  for (Message m; receive(m);) {
    Pool& pool = pools[m.pool];
    void*& block = held[m.number];
    switch (m.what) {
      case 'p':  // a new pool on the GPU `number`, exported
        CHECK(cudaSetDevice(m.number));
        pool = make_pool(m.number, fd_type);
        m.answer = cudaMemPoolExportToShareableHandle(&m.fd, pool, fd_type, 0);
        break;
      case 'a':  // a new block, of words `value`, exported
        block = allocate(pool, m.size);
        CHECK(cuMemsetD32(CUdeviceptr(block), unsigned(m.value), m.size / sizeof(int)));
        CHECK(cudaDeviceSynchronize());
        m.answer = cudaMemPoolExportPointer(&m.data, block);
        break;
      case 'f':
        m.answer = cudaFreeAsync(block, nullptr);
        CHECK(cudaStreamSynchronize(nullptr));
        break;
      case 'r': CHECK(cudaMemcpy(&m.value, block, sizeof m.value, cudaMemcpyDeviceToHost)); break;
      case 'o': {  // open it to GPU 1
        const cudaMemAccessDesc to = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
        m.answer = cudaMemPoolSetAccess(pool, &to, 1);
        break;
      }
      case 't': m.answer = cudaMemPoolTrimTo(pool, 0); break;
      case 'd': m.answer = cudaMemPoolDestroy(pool); break;
    }
    send(m);
    if (m.fd >= 0) close(m.fd);
  }
}

static pid_t exporter;
static void start_exporter() { exporter = start_in_role("exporter", &peer); }
static Message command(char what, int number = 0, int pool = 0, size_t size = 0, int value = 0) {
  Message message = {what, number, pool, size, -1, value, -1, {}};
  send(message);
  EXPECT(receive(message), "the exporter is gone");
  return message;
}
static void say_command(const char* words, char what, int number = 0, int pool = 0) {
  say(std::string("exporter: ") + words, cudaError_t(command(what, number, pool).answer));
}
static void end_exporter(bool kill_it) {
  if (kill_it) kill(exporter, SIGKILL);
  else shutdown(peer, SHUT_RDWR);
  int status;
  EXPECT(waitpid(exporter, &status, 0) == exporter, "no exporter");
  close(peer);
}
static Pool import_pool(int fd) {
  Pool pool = nullptr;
  CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void*)(intptr_t)fd, fd_type, 0));
  return pool;
}
static void* import_block(Pool pool, const Message& from) {
  Data data = from.data;
  void* block = nullptr;
  CHECK(cudaMemPoolImportPointer(&block, pool, &data));
  return block;
}

// --- One process -----------------------------------------------------------------------------------------------------

SECTION("creations") {
  section("pools to be created");
  Pool pool;
  for (const unsigned types : {0u, 1u, 2u, 4u, 8u, 9u, 16u, 17u}) {
    const CUmemPoolProps properties = pool_of(0, types);
    ask("handle types " + std::to_string(types), [&] { return cuMemPoolCreate(&pool, &properties); });
  }
  CUmemPoolProps properties = pool_of(0, 1);
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  ask("of the host", [&] { return cuMemPoolCreate(&pool, &properties); });
}

SECTION("exports") {
  section("exports of pools");
  CHECK(cudaSetDevice(0));
  int fd = -1;
  char bytes[128];
  const Pool shared = make_pool(0, fd_type), own = make_pool(0, 0), gone = make_pool(0, fd_type);
  Pool usual;
  CHECK(cudaDeviceGetDefaultMemPool(&usual, 0));
  CHECK(cudaMemPoolDestroy(gone));
  ask("export", [&] { return cudaMemPoolExportToShareableHandle(&fd, shared, fd_type, 0); });
  say("  is close-on-exec", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "yes" : "no");
  ask("the driver: export",
      [&] { return cuMemPoolExportToShareableHandle(&fd, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0); });
  for (const unsigned type : {0u, 2u, 8u, 9u, 16u})
    ask("export as type " + std::to_string(type),
        [&] { return cuMemPoolExportToShareableHandle(bytes, shared, CUmemAllocationHandleType(type), 0); });
  const Pool of_fabric = make_pool(0, CU_MEM_HANDLE_TYPE_FABRIC);
  for (const unsigned type : {1u, 8u})
    ask("export a pool of type 8 as type " + std::to_string(type),
        [&] { return cuMemPoolExportToShareableHandle(bytes, of_fabric, CUmemAllocationHandleType(type), 0); });
  ask("export with flags", [&] { return cudaMemPoolExportToShareableHandle(&fd, shared, fd_type, 1); });
  ask("export to null", [&] { return cudaMemPoolExportToShareableHandle(nullptr, shared, fd_type, 0); });
  ask("export null", [&] { return cudaMemPoolExportToShareableHandle(&fd, nullptr, fd_type, 0); });
  ask("export a pool without handle types", [&] { return cudaMemPoolExportToShareableHandle(&fd, own, fd_type, 0); });
  ask("export the default pool", [&] { return cudaMemPoolExportToShareableHandle(&fd, usual, fd_type, 0); });
  ask("export a destroyed pool", [&] { return cudaMemPoolExportToShareableHandle(&fd, gone, fd_type, 0); });

  section("exports of blocks");
  Data data;
  char* const block = (char*)allocate(shared, 4096);
  void* ordinary;
  CHECK(cudaMalloc(&ordinary, 4096));
  const CUdeviceptr mapped = reserve(page);
  map_new(mapped, page);
  ask("export", [&] { return cudaMemPoolExportPointer(&data, block); });
  ask("the driver: export", [&] { return cuMemPoolExportPointer((CUmemPoolPtrExportData*)&data, CUdeviceptr(block)); });
  ask("export an inner address", [&] { return cudaMemPoolExportPointer(&data, block + 512); });
  ask("export to null", [&] { return cudaMemPoolExportPointer(nullptr, block); });
  ask("export null", [&] { return cudaMemPoolExportPointer(&data, nullptr); });
  ask("export of a pool without handle types", [&] { return cudaMemPoolExportPointer(&data, allocate(own, 4096)); });
  ask("export of cudaMalloc", [&] { return cudaMemPoolExportPointer(&data, ordinary); });
  ask("export of cuMemMap", [&] { return cudaMemPoolExportPointer(&data, (void*)mapped); });
  ask("export of the host", [&] { return cudaMemPoolExportPointer(&data, &data); });
  cudaIpcMemHandle_t handle;
  ask("cudaIpcGetMemHandle", [&] { return cudaIpcGetMemHandle(&handle, block); });
  unsigned long long types = 99;
  const auto allowed = CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
  ask("attribute ALLOWED_HANDLE_TYPES", [&] { return cuPointerGetAttribute(&types, allowed, CUdeviceptr(block)); });
  say("  is", std::to_string(types));
  CHECK(cudaFreeAsync(block, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  ask("export of a freed block", [&] { return cudaMemPoolExportPointer(&data, block); });
}

SECTION("exports of blocks before and after their pool's") {
  CHECK(cudaSetDevice(0));
  const Pool shared = make_pool(0, fd_type);
  Data data;
  for (const size_t size : {512, 1 << 20}) {
    void* const block = allocate(shared, size);
    ask("before the pool", [&] { return cudaMemPoolExportPointer(&data, block); });
    int fd = -1;
    CHECK(cudaMemPoolExportToShareableHandle(&fd, shared, fd_type, 0));
    ask("after it", [&] { return cudaMemPoolExportPointer(&data, block); });
    ask("made after it", [&] { return cudaMemPoolExportPointer(&data, allocate(shared, 4096)); });
    close(fd);
    ask("when the descriptor is closed", [&] { return cudaMemPoolExportPointer(&data, block); });
  }
}

SECTION("imports") {
  section("imports in the process that made the pool, and wrong ones");
  CHECK(cudaSetDevice(0));
  const Pool shared = make_pool(0, fd_type), other = make_pool(0, fd_type);
  Pool pool = nullptr;
  int fd = -1, memory = -1;
  Data data, nonsense;
  void *p = nullptr, *const block = allocate(shared, 4096);
  CUmemGenericAllocationHandle handle = create(page, 0, fd_type);
  CHECK(cudaMemPoolExportToShareableHandle(&fd, shared, fd_type, 0));
  CHECK(cudaMemPoolExportPointer(&data, block));
  CHECK(cuMemExportToShareableHandle(&memory, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  const auto import_as = [&](int descriptor, cudaMemAllocationHandleType type, unsigned flags) {
    return cudaMemPoolImportFromShareableHandle(&pool, (void*)(intptr_t)descriptor, type, flags);
  };
  ask("import with flags", [&] { return import_as(fd, fd_type, 1); });
  ask("import as type 0", [&] { return import_as(fd, cudaMemHandleTypeNone, 0); });
  ask("import of no descriptor", [&] { return import_as(-1, fd_type, 0); });
  ask("import of a closed descriptor", [&] { return import_as(999, fd_type, 0); });
  ask("import of a file", [&] { return import_as(open("/dev/null", O_RDWR), fd_type, 0); });
  ask("import of memory of cuMemCreate", [&] { return import_as(memory, fd_type, 0); });
  ask("import into null",
      [&] { return cudaMemPoolImportFromShareableHandle(nullptr, (void*)(intptr_t)fd, fd_type, 0); });
  ask("a pool as memory", [&] {
    return cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  });
  ask("import a block into its own pool", [&] { return cudaMemPoolImportPointer(&p, shared, &data); });
  ask("import a block into another pool", [&] { return cudaMemPoolImportPointer(&p, other, &data); });
  ask("import a block into null", [&] { return cudaMemPoolImportPointer(&p, nullptr, &data); });
  ask("import", [&] { return import_as(fd, fd_type, 0); });
  say("  is the pool itself", pool == shared ? "yes" : "no");
  ask("import again", [&] { return import_as(fd, fd_type, 0); });
  std::memset(&nonsense, 0, sizeof nonsense);
  ask("import a block of zeros", [&] { return cudaMemPoolImportPointer(&p, pool, &nonsense); });
  std::memset(&nonsense, 0x5a, sizeof nonsense);
  ask("import a block of nonsense", [&] { return cudaMemPoolImportPointer(&p, pool, &nonsense); });
  ask("import a block of null", [&] { return cudaMemPoolImportPointer(&p, pool, nullptr); });
  ask("import a block to null", [&] { return cudaMemPoolImportPointer(nullptr, pool, &data); });
  ask("import a block", [&] { return cudaMemPoolImportPointer(&p, pool, &data); });
  say("  is at its own address", p == block ? "yes" : "no");
}

// --- Two processes ---------------------------------------------------------------------------------------------------

// A pool of an exporter and two of its blocks, of 11 and 22.
struct Imported {
  Message shared, first, second;
  Pool pool;
  void *a, *b;
};
static Imported import_all() {
  CHECK(cudaSetDevice(0));
  start_exporter();
  Imported all;
  all.shared = command('p');
  all.pool = import_pool(all.shared.fd);
  all.first = command('a', 0, 0, 4096, 11);
  all.second = command('a', 1, 0, 4096, 22);
  all.a = import_block(all.pool, all.first);
  all.b = import_block(all.pool, all.second);
  return all;
}
static cudaError_t import_again(const Imported& all, Pool* pool) {
  return cudaMemPoolImportFromShareableHandle(pool, (void*)(intptr_t)all.shared.fd, fd_type, 0);
}

SECTION("uses") {
  section("an imported pool and its blocks");
  CHECK(cudaSetDevice(0));
  start_exporter();
  const Message shared = command('p');
  command('p', 0, 1);
  Pool pool = nullptr, again = nullptr;
  ask("import", [&] { return cudaMemPoolImportFromShareableHandle(&pool, (void*)(intptr_t)shared.fd, fd_type, 0); });
  ask("import again",
      [&] { return cudaMemPoolImportFromShareableHandle(&again, (void*)(intptr_t)shared.fd, fd_type, 0); });
  say("  is the same", pool == again ? "yes" : "no");
  Message first = command('a', 0, 0, 4096, 11), second = command('a', 1, 0, 4096, 22);
  Message foreign = command('a', 2, 1, 4096, 33), large = command('a', 3, 0, 64 * MiB, 44);
  void *a = nullptr, *b = nullptr, *c = nullptr, *p = nullptr;
  ask("import a block", [&] { return cudaMemPoolImportPointer(&a, pool, &first.data); });
  ask("  reads", [&] { return word_at(a); });
  ask("  write by a kernel", [&] { return write_to(a, 12); });
  say("  exporter reads", std::to_string(command('r', 0).value));
  ask("the same again", [&] { return cudaMemPoolImportPointer(&p, pool, &first.data); });
  say("  is at the same address", p == a ? "yes" : "no");
  ask("a second block", [&] { return cudaMemPoolImportPointer(&b, pool, &second.data); });
  ask("  reads", [&] { return word_at(b); });
  say("  is as far from the first as", std::to_string(long((char*)b - (char*)a)));
  ask("a block of another pool", [&] { return cudaMemPoolImportPointer(&p, pool, &foreign.data); });
  ask("64 MiB made since", [&] { return cudaMemPoolImportPointer(&c, pool, &large.data); });
  ask("  reads at the end", [&] { return word_at((char*)c + 64 * MiB - 4); });
  end_exporter(false);
}

SECTION("asks") {
  section("what else is asked of it");
  Imported all = import_all();
  const Pool pool = all.pool;
  for (int what = 1; what <= 8; ++what) {
    uint64_t value = 0;
    ask("attribute " + std::to_string(what),
        [&] { return cudaMemPoolGetAttribute(pool, cudaMemPoolAttr(what), &value); });
    say("  is", std::to_string(value));
  }
  uint64_t threshold = 1 << 20;
  ask("set the threshold", [&] { return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold); });
  void* p;
  ask("allocate", [&] { return cudaMallocFromPoolAsync(&p, 4096, pool, nullptr); });
  ask("make it the GPU's pool", [&] { return cudaDeviceSetMemPool(0, pool); });
  ask("  allocate", [&] { return cudaMallocAsync(&p, 4096, nullptr); });
  ask("trim", [&] { return cudaMemPoolTrimTo(pool, 0); });
  int fd;
  Data data;
  ask("export it", [&] { return cudaMemPoolExportToShareableHandle(&fd, pool, fd_type, 0); });
  ask("export a block of it", [&] { return cudaMemPoolExportPointer(&data, all.a); });
  const auto attribute = [&](const char* what, CUpointer_attribute which) {
    unsigned long long value = 0;
    ask(std::string("attribute ") + what, [&] { return cuPointerGetAttribute(&value, which, CUdeviceptr(all.a)); });
    return value;
  };
  say("  is its own",
      attribute("MEMPOOL_HANDLE", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) == (uint64_t)pool ? "yes" : "no");
  say("  is", attribute("CONTEXT", CU_POINTER_ATTRIBUTE_CONTEXT) ? "there" : "null");
  say("  is", std::to_string(attribute("RANGE_SIZE", CU_POINTER_ATTRIBUTE_RANGE_SIZE)));
  say("  is", std::to_string(attribute("ALLOWED_HANDLE_TYPES", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)));
  CUdeviceptr base = 0;
  size_t size = 0;
  ask("range", [&] { return cuMemGetAddressRange(&base, &size, CUdeviceptr(all.a) + 8); });
  say("  begins before it, and has", std::to_string(CUdeviceptr(all.a) - base) + ", " + std::to_string(size));
  end_exporter(false);
}

SECTION("frees of imports") {
  section("free");
  Imported all = import_all();
  void* p = nullptr;
  ask("the same again", [&] { return cudaMemPoolImportPointer(&p, all.pool, &all.first.data); });
  ask("free it once", [&] { return cudaFreeAsync(all.a, nullptr); });
  ask("  synchronise", [&] { return cudaStreamSynchronize(nullptr); });
  ask("  reads", [&] { return word_at(all.a); });
  ask("free it twice", [&] { return cudaFreeAsync(all.a, nullptr); });
  ask("import it again", [&] { return cudaMemPoolImportPointer(&p, all.pool, &all.first.data); });
  ask("  reads", [&] { return word_at(p); });
  ask("  cudaFree", [&] { return cudaFree(p); });
  say_command("frees the first", 'f', 0);
  ask("import it then", [&] { return cudaMemPoolImportPointer(&p, all.pool, &all.first.data); });
  ask("  reads", [&] { return word_at(p); });
  say_command("frees the second", 'f', 1);
  say_command("trims", 't');
  ask("  reads", [&] { return word_at(p); });
  ask("  free", [&] { return cudaFreeAsync(p, nullptr); });
  ask("  free the second", [&] { return cudaFreeAsync(all.b, nullptr); });
  ask("  synchronise", [&] { return cudaStreamSynchronize(nullptr); });
  ask("import it when nothing is left", [&] { return cudaMemPoolImportPointer(&p, all.pool, &all.first.data); });
  const Message last = command('a', 2, 0, 8192, 55);
  ask("import a new one", [&] { return cudaMemPoolImportPointer(&p, all.pool, const_cast<Data*>(&last.data)); });
  ask("  reads", [&] { return word_at(p); });
  end_exporter(false);
}

// Pools that are destroyed with so many imports, blocks or none, and then used.
static void destroys(const char* how) {
  section((std::string("destroy an imported pool: ") + how).c_str());
  Imported all = import_all();
  const std::string what = how;
  void* p = nullptr;
  Pool again = nullptr;
  if (what.find("twice") != std::string::npos) ask("import again", [&] { return import_again(all, &again); });
  if (what.find("no blocks") != std::string::npos) CHECK(cudaFree(all.a)), CHECK(cudaFree(all.b));
  if (what.find("exporter") != std::string::npos) end_exporter(false);
  ask("destroy", [&] { return cudaMemPoolDestroy(all.pool); });
  if (what == "no blocks left") return end_exporter(false);  // it is gone, and the driver crashes on its handle
  uint64_t value;
  ask("attribute 4 then", [&] { return cudaMemPoolGetAttribute(all.pool, cudaMemPoolAttrReleaseThreshold, &value); });
  ask("import a block", [&] { return cudaMemPoolImportPointer(&p, all.pool, &all.first.data); });
  ask("  reads", [&] { return word_at(p); });
  ask("destroy again", [&] { return cudaMemPoolDestroy(all.pool); });
  ask("import the pool", [&] { return import_again(all, &again); });
  ask("free the second", [&] { return cudaFree(all.b); });
  ask("free the first", [&] { return cudaFree(all.a); });
  ask("import the pool", [&] { return import_again(all, &again); });
  ask("destroy that", [&] { return cudaMemPoolDestroy(again); });
  ask("destroy that again", [&] { return cudaMemPoolDestroy(again); });
  if (what.find("exporter") == std::string::npos) end_exporter(false);
}
SECTION("destroys") { destroys("imported once"); }
SECTION("destroys 2") { destroys("imported twice"); }
SECTION("destroys 3") { destroys("no blocks left"); }
SECTION("destroys 4") { destroys("imported twice, no blocks left"); }
SECTION("destroys 5") { destroys("the exporter has ended"); }

// The exporter does what it should not, or ends.
SECTION("frees") {
  CHECK(cudaSetDevice(0));
  void* p = nullptr;
  section("the exporter frees first");
  start_exporter();
  Pool pool = import_pool(command('p').fd);
  Message one = command('a', 0, 0, 4096, 11), two = command('a', 1, 0, 4096, 22);
  void *a = import_block(pool, one), *b = import_block(pool, two);
  say_command("frees", 'f', 0);
  ask("reads", [&] { return word_at(a); });
  Message three = command('a', 2, 0, 4096, 33);
  ask("reads, when there is a new block", [&] { return word_at(a); });
  ask("import the freed one again", [&] { return cudaMemPoolImportPointer(&p, pool, &one.data); });
  ask("import the new one", [&] { return cudaMemPoolImportPointer(&p, pool, &three.data); });
  say("  is at the address of the freed one", p == a ? "yes" : "no");
  ask("free the freed one", [&] { return cudaFreeAsync(a, nullptr); });
  ask("synchronise", [&] { return cudaStreamSynchronize(nullptr); });

  section("the exporter destroys the pool first");
  say_command("destroys", 'd');
  ask("reads", [&] { return word_at(b); });
  ask("import a block", [&] { return cudaMemPoolImportPointer(&p, pool, &two.data); });
  say_command("frees the second", 'f', 1);
  say_command("frees the third", 'f', 2);
  ask("reads", [&] { return word_at(b); });
  ask("import a block", [&] { return cudaMemPoolImportPointer(&p, pool, &two.data); });
  ask("free", [&] { return cudaFreeAsync(b, nullptr); });
  ask("synchronise", [&] { return cudaStreamSynchronize(nullptr); });
  end_exporter(false);
}

static void exporter_ends(bool kill_it) {
  CHECK(cudaSetDevice(0));
  section(kill_it ? "the exporter is killed" : "the exporter exits");
  start_exporter();
  const Message shared = command('p');
  const Pool pool = import_pool(shared.fd);
  Message one = command('a', 0, 0, 4096, 11), two = command('a', 1, 0, 4096, 22);
  void *const a = import_block(pool, one), *p = nullptr;
  end_exporter(kill_it);
  ask("reads", [&] { return word_at(a); });
  ask("write by a kernel", [&] { return write_to(a, 12); });
  ask("reads", [&] { return word_at(a); });
  ask("import the second", [&] { return cudaMemPoolImportPointer(&p, pool, &two.data); });
  Pool again = nullptr;
  ask("import the pool again",
      [&] { return cudaMemPoolImportFromShareableHandle(&again, (void*)(intptr_t)shared.fd, fd_type, 0); });
  ask("free", [&] { return cudaFreeAsync(a, nullptr); });
  ask("synchronise", [&] { return cudaStreamSynchronize(nullptr); });
  ask("destroy", [&] { return cudaMemPoolDestroy(pool); });
}
SECTION("exits") { exporter_ends(false); }
SECTION("killed") { exporter_ends(true); }

static std::string rights(Pool pool) {
  std::string all;
  for (int gpu : {0, 1}) {
    cudaMemLocation location = {cudaMemLocationTypeDevice, gpu};
    cudaMemAccessFlags flags = {};
    const cudaError_t answer = cudaMemPoolGetAccess(&flags, pool, &location);
    all += (gpu ? ", " : "") + (answer ? std::string(check::name(answer)) : std::to_string(int(flags)));
    cudaGetLastError();
  }
  return all;
}
static void by_both(const std::string& when, void* at) {
  for (int gpu : {0, 1}) {
    CHECK(cudaSetDevice(gpu));
    ask(when + ", GPU " + std::to_string(gpu) + " copies", [&] { return word_at(at); });
  }
  CHECK(cudaSetDevice(0));
}

SECTION("two GPUs") {
  CHECK(cudaSetDevice(1));
  CHECK(cudaFree(nullptr));
  CHECK(cudaSetDevice(0));
  section("a pool of GPU 0 and two GPUs");
  start_exporter();
  Pool pool = import_pool(command('p').fd);
  void* a = import_block(pool, command('a', 0, 0, 4096, 11));
  ask("rights", [&] { return rights(pool); });
  by_both("imported", a);
  say_command("opens it to GPU 1", 'o');
  ask("rights", [&] { return rights(pool); });
  by_both("opened there", a);
  ask("rights of a new import", [&] { return rights(import_pool(command('p', 0, 1).fd)); });
  const cudaMemAccessDesc to = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  const cudaMemAccessDesc not_to = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtNone};
  ask("open it to GPU 1", [&] { return cudaMemPoolSetAccess(pool, &to, 1); });
  ask("close it to GPU 0", [&] { return cudaMemPoolSetAccess(pool, &not_to, 1); });
  ask("rights", [&] { return rights(pool); });
  by_both("opened here", a);
  void* const b = import_block(pool, command('a', 1, 0, 64 * MiB, 22));
  by_both("a new block", b);
  CHECK(cudaSetDevice(1));
  ask("write by a kernel of GPU 1", [&] { return write_to(a, 13); });
  say("  exporter reads", std::to_string(command('r', 0).value));
  end_exporter(false);
}

SECTION("the other GPU") {
  section("a pool of GPU 1, imported while GPU 0 is current");
  CHECK(cudaSetDevice(0));
  start_exporter();
  const Pool pool = import_pool(command('p', 1).fd);
  void* const a = import_block(pool, command('a', 0, 0, 4096, 11));
  ask("rights", [&] { return rights(pool); });
  by_both("imported", a);
  end_exporter(false);
}

// Each part in a process of its own.

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc > 1 && std::string(argv[1]) == "exporter") return serve(), 0;
  for (const Section& part : sections())
    if (argc > 2 && part.name == argv[1]) return CHECK(cuInit(0)), note_crashes(argv[2]), part.run(), 0;
  check::require_gpus(2);
  for (const Section& part : sections()) run_part(part.name);
}
