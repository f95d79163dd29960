// SPDX-License-Identifier: MIT-0
// The memory of the simulator without its driver, as far as no program asks for it that ran on hardware too
// (conformance/): files of machines, the frames behind allocations, processes that die in the middle of a change,
// threads that all change something, nodes, and multicast objects. Each case is a process of its own on a machine of
// its own; it starts others by exec.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>
#include <thread>
#include "memory/ledger.h"
#include "memory/memory.h"
#include "memory/page_table.h"
#include "memory/pool.h"
#include "memory/this_machine.h"
#include "memory_case.h"

static std::atomic<int> questions_about_locks = 0;
extern "C" int fcntl(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  const long argument = va_arg(more, long);
  va_end(more);
  questions_about_locks += command == F_OFD_GETLK;
  return int(syscall(SYS_fcntl, fd, command, argument));
}

namespace {

CASE(machine_files) {
  EXPECT(read_size("141 GiB") == 141ull << 30 && read_size("3MiB") == 2 * MiB && read_size("2097153") == 2 * MiB);
  const std::string file = "/proc/self/fd/" + std::to_string(open("/tmp", O_TMPFILE | O_RDWR, 0600));
  auto error_of = [&](const std::string& text) -> std::string {
    std::ofstream(file, std::ios::trunc) << text;
    try {
      (void)read_machine(file);
    } catch (const std::runtime_error& error) {
      return std::string(error.what()).substr(file.size());
    }
    return "none";
  };
  EXPECT(error_of("# comment\n\ngpus = 2\nmemory = 1 GiB # each\ndriver=12.4\nmulticast = no\n") == "none");
  const Machine machine = read_machine(file);
  EXPECT(machine.gpus == 2 && machine.memory == 1 << 30 && machine.driver == 12040 && !machine.multicast &&
         machine.vmm);
  EXPECT(error_of("gpus = 64\nnodes = 16\nmemory = 2 MiB") == "none");  // as much as there may be
  EXPECT(error_of("gpus = 2").starts_with(": memory: "));
  EXPECT(error_of("\ngpus = 65").starts_with(":2: gpus: \"65\""));
  EXPECT(error_of("gpus").starts_with(":1: gpus: a line is"));
  EXPECT(error_of("gups = 1").starts_with(":1: gups: there is no"));
  EXPECT(error_of("nodes = 1\nnodes = 1").starts_with(":2: nodes: this key stands here twice"));
  EXPECT(error_of("vmm = true").starts_with(":1: vmm: \"true\""));
  EXPECT(error_of("driver = 13").starts_with(":1: driver: \"13\""));
  for (const char* driver : {"12.3", "13.6", "1.0"})
    EXPECT(error_of("driver = " + std::string(driver)) == ":1: driver: a driver is 12.4 to 13.5");
  for (const char* size : {"", "x", "1 MB", "-1", "99999999999999999999", "16777217 TiB", "1.5 GiB"})
    EXPECT(error_of(std::string("memory = ") + size).starts_with(":1: memory: \""));
  EXPECT(error_of("memory = 1 MiB").starts_with(":1: memory: a GPU has"));
  for (const char* size : {"0", "1 MiB", "3 MiB", "2097153"})
    EXPECT(error_of(std::string("granularity = ") + size).starts_with(":1: granularity: a granularity is a power"));
  EXPECT(error_of("multicast_granularity = 6 MiB").starts_with(":1: multicast_granularity: a granularity is a power"));
  try {
    (void)read_machine("/nowhere");
    EXPECT(false);
  } catch (const std::runtime_error& error) {
    EXPECT(std::string(error.what()) == "/nowhere: cannot be read");
  }
}

CASE(frames) {
  const uint64_t before = free_of(0);
  // Frames come back in pieces, in any order, and empty.
  std::vector<uint64_t> pieces;
  while (free_of(0) >= page) pieces.push_back(map_new(page)), write(0, pieces.back(), "full");
  for (size_t i = 0; i < pieces.size(); i += 2) remove(pieces[i], page);
  const uint64_t scattered = pieces.size() / 2 * page;
  const uint64_t whole = map_new(scattered);
  EXPECT(read(0, whole, scattered) == std::string(scattered, '\0'));
  write(0, whole, std::string(scattered, 'x'));
  for (size_t i = 1; i < pieces.size(); i += 2) {
    EXPECT(read(0, pieces[i], 5) == std::string("full\0", 5));
    remove(pieces[i], page);
  }
  EXPECT(read(0, whole, scattered) == std::string(scattered, 'x'));
  remove(whole, scattered);
  EXPECT(free_of(0) == before);
}

// A range of the host's memory that wraps round is not the host's, though its first page is.
CASE(host_ranges) {
  alignas(4096) static char bytes[4096];
  const auto address = reinterpret_cast<uint64_t>(bytes);
  std::vector<size_t> sizes;
  const auto note = [&](const Piece& piece) { sizes.push_back(piece.size); };
  for_each_piece(0, address, sizeof bytes, both_rights, note);
  EXPECT(sizes == std::vector<size_t>{sizeof bytes});
  REFUSED(CUDA_ERROR_INVALID_VALUE, "no address of CUDA", (for_each_piece(0, address, SIZE_MAX, both_rights, note), 0));
}

// What a process takes of addresses and of tables for them, and gives back.
CASE(addresses) {
  const uint64_t first = reserve(64 * MiB, 0, 0, 0), second = reserve(64 * MiB, 0, 0, 0);
  EXPECT(first < second);
  free_reservation(first, 64 * MiB);
  void* const at = reinterpret_cast<void*>(first);  // the kernel has it again
  EXPECT(mmap(at, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);

  const Handle handle = create(page, on_gpu(0), 0);
  map(second, page, 0, handle, 0);
  open_to(second, page, {access_of(0)});
  EXPECT(!(page_table(0).lookup(second) & aliased));
  map(second + 2 * page, page, 0, handle, 0);
  EXPECT(page_table(0).lookup(second) & aliased);
  unmap(second + 2 * page, page);
  EXPECT(!(page_table(0).lookup(second) & aliased));

  // 512 stretches of 512 MiB take 2 MiB for their tables. One that cannot be opened for want of them does not count.
  constexpr uint64_t stretch = 512 * MiB;
  const uint64_t wide = reserve(512 * stretch, 0, 0, 0);
  for (uint64_t i = 0; i < 512; ++i) map(wide + i * stretch, page, 0, handle, 0);
  unmap(second, page);
  for (uint64_t i = 1; i < 512; ++i) open_to(wide + i * stretch, page, {access_of(0)});
  const uint64_t left = free_of(0);
  const Handle rest = create(left, on_gpu(0), 0);
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, "left for all processes", (open_to(wide, page, {access_of(0)}), 0));
  release(rest);
  for (auto rights : {CU_MEM_ACCESS_FLAGS_PROT_NONE, both_rights})
    open_to(wide + stretch, page, {access_of(0, rights)});
  EXPECT(free_of(0) == left);
  open_to(wide, page, {access_of(0)});
  EXPECT(free_of(0) == left - page);
}

// What was freed is told until its addresses are reserved anew.
CASE(reserved_anew) {
  const auto is_told = [](uint64_t address, const char* how) {
    return what_lies_at(0, address, true).find(how) != std::string::npos;
  };
  const uint64_t address = map_new(page);
  unmap(address, page);
  EXPECT(is_told(address, "it was unmapped"));
  free_reservation(address, page);
  EXPECT(is_told(address, "it was given back"));
  EXPECT(reserve(page, 0, address, 0) == address);
  EXPECT(is_told(address, "is reserved") && !is_told(address, "it was"));
}

// What was unmapped after a call counts as too early for it, until something is mapped there again.
CASE(unmapped_too_early_for_a_call) {
  const uint64_t address = map_new(page);
  const auto told_after = [&](uint64_t ranges) {
    return unmapped_too_early({"cuLaunchKernel #1", ranges}, address + 5, "launched the kernel");
  };
  const uint64_t earlier = ranges_given_back();
  unmap(address, page);
  EXPECT(told_after(earlier).find("is mapped there; it was unmapped after cuLaunchKernel #1 had launched the kernel") !=
         std::string::npos);
  EXPECT(told_after(ranges_given_back()).empty());
  free_reservation(address, page);
  EXPECT(told_after(earlier).find("is neither mapped nor reserved; it was unmapped after") != std::string::npos);
  map_new(page);
  EXPECT(told_after(earlier).empty());
}

// The driver keeps a part in 256 of each GPU's memory, here two pages.
CASE(kept_by_the_driver, [](Machine& m, Options&) { m.memory = 1024 * MiB; }) {
  for (int gpu : {0, 1}) EXPECT(free_of(gpu) == 1024 * MiB - 2 * page);
}

// A pool that runs out of memory between two units gives back the first.
CASE(pool_without_memory) {
  const Handle most = create(free_of(0) - Pool::unit - page, on_gpu(0), 0);
  const uint64_t left = free_of(0);
  Pool pool(0);
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, "", pool.allocate(2 * Pool::unit, nullptr));
  EXPECT(pool.is_unused() && free_of(0) == left);
  pool.allocate(Pool::unit, nullptr);
  EXPECT(pool.reserved() == Pool::unit && free_of(0) == left - Pool::unit);
  release(most);
}

// Descriptors of ranges for other devices: of one GPU's memory.
CASE(dma_bufs) {
  const uint64_t at = reserve(2 * page, 0, 0, 0);
  for (int gpu : {0, 1}) map(at + uint64_t(gpu) * page, page, 0, create(page, on_gpu(gpu), 0), 0);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "another GPU's", export_dma_buf(at, 2 * page, 0));
  const int fd = export_dma_buf(at + page, page, 0);
  EXPECT(dma_buf_size(fd) == page && !close(fd));
}

// What has been released and is mapped still is told as a mapping alone.
CASE(told_leaks) {
  caller().call = "cuMemCreate #1";
  const Handle handle = create(page, on_gpu(0), 0);
  EXPECT(leaks().all.size() == 1 && leaks().all[0].kind == Leak::handle);
  const uint64_t address = reserve(page, 0, 0, 0);
  map(address, page, 0, handle, 0);
  release(handle);
  const Leaks left = leaks();
  EXPECT(left.all.size() == 2 && left.all[0].kind == Leak::mapping && left.all[1].kind == Leak::reservation);
  EXPECT(left.held == (std::map<std::string, uint64_t>{{"GPU 0", page}}));
}

// Once taken from its owner an allocation is nobody's, though it is still there, and cannot be taken again.
CASE(owners) {
  const auto context = reinterpret_cast<CUcontext>(1);
  const uint64_t owned = allocate(0, 4096, {context});
  EXPECT(find(owned)->owner.context == context && allocations_of(context).size() == 1);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "freed before", take_from_owner(owned, {Range::host, Range::pool}));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "freed before", take_from_owner(owned, {Range::ordinary}, true));
  const Range taken = take_from_owner(owned, {Range::ordinary});
  EXPECT(taken.owner.context == context && taken.range_size == 4096);
  EXPECT(find(owned) && !find(owned)->owner.context && allocations_of(context).empty());
  REFUSED(CUDA_ERROR_INVALID_VALUE, "freed before", take_from_owner(owned, {Range::ordinary}));
  free_allocation(owned);
  EXPECT(!find(owned));
}

// Memory and processes: 's' is said when there is something to see, 'g' is to go on.
CASE(processes) {
  const uint64_t before = free_of(0);

  // Who takes all and is killed leaves all.
  Peer peer = start("taker");
  receive(peer.socket, 's');
  EXPECT(free_of(0) == 0);
  end(peer, SIGKILL);
  release(create(before, on_gpu(0), 0));  // it is found free without asking first

  // A child made by fork holds nothing when its parent is gone.
  peer = start("forker");
  receive(peer.socket, 's');
  EXPECT(free_of(0) == before - 8 * MiB);
  kill(peer.process, SIGKILL);
  EXPECT(wait_for(peer.process) == 128 + SIGKILL && free_of(0) == before);
  close(peer.socket);

  // Who dies in the middle of a change leaves the ledger to be mended.
  const uint64_t mine = map_new(4 * MiB);
  write(0, mine + page, "mine");
  EXPECT(end(start("breaker")) == 128 + SIGKILL);
  EXPECT(free_of(0) == before - 4 * MiB && read(0, mine + page, 4) == "mine");
  const uint64_t rest = map_new(before - 4 * MiB);
  std::set<char*> frames;
  for (uint64_t offset = 0; offset < before - 4 * MiB; offset += page)
    frames.insert(frame(page_table(0).lookup(rest + offset)));
  EXPECT(frames.size() == before / page - 2 && !frames.count(frame(page_table(0).lookup(mine))));
  remove(rest, before - 4 * MiB), remove(mine, 4 * MiB);
  EXPECT(free_of(0) == before);
}
ROLE(taker) {
  create(free_of(0), on_gpu(0), 0);
  send(3, 's');
  receive(3, 'g');
}
ROLE(forker) {
  create(8 * MiB, on_gpu(0), 0);
  if (fork() == 0) {
    char byte;
    send(3, 's');                // the child says so: it has let go of what it inherited
    (void)recv(3, &byte, 1, 0);  // until the other end is closed
    _exit(0);
  }
  pause();
}
ROLE(breaker) {
  free_of(0);
  const LedgerLock locked;
  Ledger& all = ledger();
  all.gpu[0].first = all.frames_of(0)[all.gpu[0].first];  // took a frame, and has not said so
  all.gpu[0].free = 12345;
  kill(getpid(), SIGKILL);
}

// Out of descriptors nothing is held without a lock, which others would take for free, and nothing is given back with
// what was in it.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};
CASE(descriptors) {
  const uint64_t before = free_of(0);
  Peer peer = start("writer");
  const int memory = receive(peer.socket, 's');
  Handle handle;
  {
    const NoDescriptors none;
    REFUSED(CUDA_ERROR_OPERATING_SYSTEM, "descriptor", import_fd(memory));
    REFUSED(CUDA_ERROR_OPERATING_SYSTEM, "descriptor", create(page, on_gpu(1), 0));
    REFUSED(CUDA_ERROR_OPERATING_SYSTEM, "descriptor", Pool(0, fd_type));
    REFUSED(CUDA_ERROR_OPERATING_SYSTEM, "descriptor", make_event());
  }
  EXPECT(free_of(0) == before - 4 * MiB);
  handle = import_fd(memory);
  close(memory);
  const uint64_t address = reserve(4 * MiB, 0, 0, 0);
  send(peer.socket, 'g');
  EXPECT(end(peer) == 0);
  {
    const NoDescriptors none;
    REFUSED(CUDA_ERROR_OPERATING_SYSTEM, "descriptor", (map(address, 4 * MiB, 0, handle, 0), 0));
    release(handle);  // the last one
    EXPECT(free_of(0) == before - 4 * MiB);
  }
  const uint64_t all = map_new(before);  // room for it makes what was not given back at once
  EXPECT(read(0, all, before) == std::string(before, '\0'));
  remove(all, before);
  EXPECT(free_of(0) == before);
}
ROLE(writer) {
  const Handle handle = create(4 * MiB, on_gpu(0, fd_type), 0);
  const uint64_t address = reserve(4 * MiB, 0, 0, 0);
  map(address, 4 * MiB, 0, handle, 0);
  open_to(address, 4 * MiB, {access_of(0)});
  write(0, address, "old");
  send(3, 's', export_fd(handle, 0));
  receive(3, 'g');
}

// Ranks of two nodes: fabric handles cross, descriptors do not.
CASE(two_nodes, [](Machine& m, Options&) { m.nodes = 2; }) {
  EXPECT(node() == 0);
  const Handle handle = create(4 * MiB, on_gpu(1, CU_MEM_HANDLE_TYPE_FABRIC | fd_type), 0);
  const uint64_t before = free_of(1);
  setenv("VMMSIM_NODE", "3", 1);  // modulo 2
  const Peer peer = start("far");
  const CUmemFabricHandle fabric = export_fabric(handle, 0);
  EXPECT(::send(peer.socket, &fabric, sizeof fabric, 0) == sizeof fabric);
  send(peer.socket, 'f', export_fd(handle, 0));
  receive(peer.socket, 'w');
  const uint64_t a = reserve(4 * MiB, 0, 0, 0);
  map(a, 4 * MiB, 0, handle, 0);
  open_to(a, 4 * MiB, {access_of(0), access_of(1)});
  EXPECT(read(0, a + 3 * MiB, 3) == "far" && free_of(1) == before);
  remove(a, 4 * MiB);
  release(handle);
  for (int fd = 4; fd < 64; ++fd)
    if (fd != peer.socket && fcntl(fd, F_GETFD) == FD_CLOEXEC && lseek(fd, 0, SEEK_CUR) > 0) close(fd);
  send(peer.socket, 'g');
  EXPECT(end(peer) == 0 && free_of(1) == before + 4 * MiB);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "gone", import_fabric(fabric));
  for (const size_t at : {size_t(0), sizeof fabric.data - 1}) {
    CUmemFabricHandle broken = fabric;
    broken.data[at] ^= 1;
    REFUSED(CUDA_ERROR_INVALID_VALUE, "not a fabric handle", import_fabric(broken));
  }
}
ROLE(far) {
  EXPECT(node() == 1);
  const uint64_t before = free_of(1);
  CUmemFabricHandle fabric;
  EXPECT(recv(3, &fabric, sizeof fabric, 0) == sizeof fabric);
  REFUSED(CUDA_ERROR_UNKNOWN, "on this node", import_fd(receive(3, 'f')));
  const Handle handle = import_fabric(fabric);
  const uint64_t a = reserve(4 * MiB, 0, 0, 0);
  map(a, 4 * MiB, 0, handle, 0);
  open_to(a, 4 * MiB, {access_of(0)});
  write(0, a + 3 * MiB, "far");
  EXPECT(free_of(1) == before);  // of this node's GPU 1
  send(3, 'w');
  receive(3, 'g');
  EXPECT(read(0, a + 3 * MiB, 3) == "far");
}

void four_gpus(Machine& m, Options& o) { m.gpus = 4, o.unsupported_ends = true; }

CASE(multicast_teams, four_gpus) {
  EXPECT(multicast_granularity(team_of(2, 5), CU_MULTICAST_GRANULARITY_MINIMUM) == page);
  EXPECT(multicast_granularity(team_of(2, 0), CU_MULTICAST_GRANULARITY_MINIMUM) == page);  // before there is a size
  REFUSED(CUDA_ERROR_INVALID_VALUE, "size is 0", multicast_create(team_of(2, 0)));
  EXPECT(multicast_granularity(team_of(2, 5), CU_MULTICAST_GRANULARITY_RECOMMENDED) % page == 0);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "two GPUs at least", multicast_create(team_of(1, page)));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "there are 4", multicast_create(team_of(5, page)));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "round it up", multicast_create(team_of(2, page + 1)));
  const Handle object = multicast_create(team_of(2, 8 * MiB)), memory = create(8 * MiB, on_gpu(0), 0);
  REFUSED(CUDA_ERROR_INVALID_DEVICE, "no GPU 4", (multicast_add_device(object, 4), 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "memory's", (multicast_add_device(memory, 0), 0));
  multicast_add_device(object, 0);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "already", (multicast_add_device(object, 0), 0));

  // A bind in another thread waits for the team.
  std::atomic<bool> started = false, added = false;
  std::thread other([&] {
    started = true;
    multicast_bind(object, {}, 0, memory, 0, 8 * MiB, 0);
    EXPECT(added);
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) free_of(0);  // time enough to go wrong
  added = true;
  multicast_add_device(object, 1);
  other.join();
  REFUSED(CUDA_ERROR_INVALID_VALUE, "complete", (multicast_add_device(object, 2), 0));
}
CASE(multicast_objects, four_gpus) {
  const uint64_t before[] = {free_of(0), free_of(1)};
  const Handle object = multicast_create(team_of(2, 8 * MiB));
  const Handle memory[] = {create(8 * MiB, on_gpu(0), 0), create(4 * MiB, on_gpu(1), 0)},
               stranger = create(page, on_gpu(2), 0);
  for (int gpu : {0, 1}) multicast_add_device(object, gpu);
  auto bind = [&](size_t offset, Handle what, size_t from, size_t size, int flags = 0) {
    return multicast_bind(object, {}, offset, what, from, size, flags), 0;
  };
  bind(0, memory[0], 0, 8 * MiB);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "flags", bind(0, memory[1], 0, page, 1));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "multiples", bind(1, memory[1], 0, page));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "end of the memory", bind(0, memory[1], page, 4 * MiB));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "end of the multicast object", bind(6 * MiB, memory[1], 0, 4 * MiB));
  REFUSED(CUDA_ERROR_INVALID_DEVICE, "not of the team", bind(0, stranger, 0, page));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "another", bind(0, object, 0, page));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "unbind it first", bind(6 * MiB, memory[0], 0, page));
  bind(4 * MiB, memory[1], page, page);
  bind(6 * MiB, memory[1], 0, page), multicast_unbind(object, 1, 6 * MiB, page);  // right behind it

  const uint64_t mc = reserve(8 * MiB, 0, 0, 0), own = reserve(8 * MiB, 0, 0, 0);
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, "from its start", (map(mc, 4 * MiB, 4 * MiB, object, 0), 0));
  map(mc, 4 * MiB, 0, object, 0), unmap(mc, 4 * MiB);
  map(mc, 8 * MiB, 0, object, 0), map(own, 8 * MiB, 0, memory[0], 0);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "team", (open_to(mc, 8 * MiB, {access_of(2)}), 0));
  open_to(mc, 8 * MiB, {access_of(0), access_of(1)}), open_to(own, 8 * MiB, {access_of(0)});
  const Entry entry = page_table(1).lookup(mc + 5 * MiB);
  EXPECT((entry & 31) == (mapped | readable | writable | multicast) && !(page_table(0).lookup(own) & aliased));
  EXPECT(replicas(entry).size() == 2 && replicas(entry)[0] == frame(page_table(0).lookup(own + 5 * MiB)));
  EXPECT(replicas(entry)[1] && !replicas(page_table(0).lookup(mc))[1]);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "GPU 1 of the 2", read(0, mc, 1));
  EXPECT(find(mc)->kind == Range::multicast_range);

  // Memory by its address; the binding keeps it, and the object keeps the binding.
  const uint64_t second = map_new(4 * MiB, 1);
  write(1, second + page, "bound");
  multicast_bind_address(object, {}, 0, second + page, page, 0);
  EXPECT(!std::strcmp(replicas(page_table(0).lookup(mc))[1], "bound"));
  remove(second, 4 * MiB);
  EXPECT(end(start("breaker")) == 128 + SIGKILL);  // whoever finds that counts the bindings anew
  EXPECT(free_of(1) == before[1] - 8 * MiB && !std::strcmp(replicas(page_table(0).lookup(mc))[1], "bound"));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "this offset", (multicast_unbind(object, 0, 0, 4 * MiB), 0));  // a part
  REFUSED(CUDA_ERROR_INVALID_VALUE, "this offset", (multicast_unbind(object, 1, page, page), 0));
  multicast_unbind(object, 1, 0, 4 * MiB);  // what is bound there lies within
  EXPECT(free_of(1) == before[1] - 4 * MiB && !replicas(page_table(0).lookup(mc))[1]);
  release(object), release(memory[0]), release(memory[1]);
  EXPECT(replicas(entry)[1]);
  remove(own, 8 * MiB);
  EXPECT(free_of(0) == before[0] - 8 * MiB && free_of(1) == before[1] - 4 * MiB);
  remove(mc, 8 * MiB);
  EXPECT(free_of(0) == before[0] && free_of(1) == before[1]);
}
CASE(multicast_of_processes, four_gpus) {
  const uint64_t before[] = {free_of(0), free_of(1)};
  // A team in the order of the machine, of GPUs in its middle.
  const Handle others = multicast_create(team_of(2, page));
  for (int gpu : {3, 1}) multicast_add_device(others, gpu);
  const uint64_t third = map_new(page, 3);
  multicast_bind_address(others, {}, 0, third, page, 0);
  const uint64_t to_others = reserve(page, 0, 0, 0);
  map(to_others, page, 0, others, 0);
  release(others);
  const auto slots = replicas(page_table(2).lookup(to_others));
  EXPECT(slots.size() == 2 && !slots[0] && slots[1] == frame(page_table(3).lookup(third)));
  remove(to_others, page);

  // The other process binds its memory and adds the device that is missing, and is killed.
  const Handle shared = multicast_create(team_of(2, 4 * MiB, fd_type)), mine = create(4 * MiB, on_gpu(0, fd_type), 0);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "handle type too",
          (multicast_bind(shared, {}, 0, create(4 * MiB, on_gpu(3), 0), 0, page, 0), 0));
  const int fd = export_fd(shared, 0);
  const Peer peer = start("joiner");
  send(peer.socket, 'f', fd);
  close(fd);
  multicast_add_device(shared, 0);
  multicast_bind(shared, {}, 0, mine, 0, 4 * MiB, 0);  // waits for the other
  const uint64_t to_shared = reserve(4 * MiB, 0, 0, 0);
  map(to_shared, 4 * MiB, 0, shared, 0);
  receive(peer.socket, 'b');
  EXPECT(!std::strcmp(replicas(page_table(0).lookup(to_shared))[1], "joined"));
  end(peer, SIGKILL);
  EXPECT(!std::strcmp(replicas(page_table(0).lookup(to_shared))[1], "joined") && free_of(1) == before[1] - 4 * MiB);
  unmap(to_shared, 4 * MiB);
  release(shared);
  EXPECT(free_of(1) == before[1] && free_of(0) == before[0] - 4 * MiB);

  // Nobody is left to complete the team: an alarm that would end the wait rings at once.
  EXPECT(end(start("hopeless")) == 128 + SIGALRM);
  EXPECT(end(start("hopeless", "no alarm")) == 125);
}
ROLE(joiner) {
  const Handle object = import_fd(receive(3, 'f'));
  REFUSED(CUDA_ERROR_INVALID_VALUE, "import", export_fd(object, 0));
  multicast_add_device(object, 1);
  const uint64_t a = map_new(4 * MiB, 1, fd_type);
  write(1, a, "joined");
  multicast_bind(object, {}, 0, retain(a), 0, 4 * MiB, 0);
  send(3, 'b');
  receive(3, 'g');
}
ROLE(hopeless) {
  if (*more) alarm(0);
  std::atomic<bool> started = false;
  std::thread([&] {
    this_thread_makes_no_calls(), started = true;
    pause();
  }).detach();
  while (!started) std::this_thread::yield();
  const Handle object = multicast_create(team_of(2, page)), memory = create(page, on_gpu(0), 0);
  multicast_add_device(object, 0);
  caller().call = "cuMulticastBindMem #1";
  multicast_bind(object, {}, 0, memory, 0, page, 0);
}

// The program goes on, and so does the wait, where it was not asked to end: somebody adds the device after all.
CASE(hopeful) {
  alarm(0);
  int said[2];
  EXPECT(!pipe(said) && dup2(said[1], STDERR_FILENO) == STDERR_FILENO);
  const Handle object = multicast_create(team_of(2, page)), memory = create(page, on_gpu(0), 0);
  multicast_add_device(object, 0);
  std::thread binder([&] { multicast_bind(object, {}, 0, memory, 0, page, 0); });
  this_thread_makes_no_calls();
  std::string text;
  for (char next = 0; !text.ends_with("waits for ever") && ::read(said[0], &next, 1) == 1;) text += next;
  multicast_add_device(object, 1);
  binder.join();
}

// No wait is hopeless while anybody may import the object from the fabric; an alarm would ring at once.
CASE(on_the_fabric) {
  constexpr auto fabric = CU_MEM_HANDLE_TYPE_FABRIC;
  const Handle object = multicast_create(team_of(2, page, fabric)), memory = create(page, on_gpu(0, fabric), 0);
  multicast_add_device(object, 0);
  export_fabric(object, 0);
  std::atomic<pid_t> id = 0;
  std::thread binder([&] { id = gettid(), multicast_bind(object, {}, 0, memory, 0, page, 0); });
  this_thread_makes_no_calls();
  while (!sleeps(id)) std::this_thread::yield();
  multicast_add_device(object, 1);
  binder.join();
}

// Threads, each with its own memory, while all of them look into the page tables.
CASE(threads) {
  const uint64_t before = free_of(0);
  const uint64_t common = map_new(page);
  const Handle object = multicast_create(team_of(2, page)), replica = create(page, on_gpu(1), 0);
  for (int gpu : {0, 1}) multicast_add_device(object, gpu);
  const uint64_t mc = reserve(page, 0, 0, 0);
  map(mc, page, 0, object, 0);
  std::vector<std::thread> all;
  for (int number = 0; number < 4; ++number)
    all.emplace_back([&, number] {
      for (int round = 0; round < 60; ++round) {
        const Handle handle = create(2 * page, on_gpu(0, fd_type), 0);
        const uint64_t a = reserve(8 * page, 0, 0, 0);
        map(a, 2 * page, 0, handle, 0), map(a + 4 * page, 2 * page, 0, handle, 0);
        open_to(a, 2 * page, {access_of(1)}), open_to(a + 4 * page, 2 * page, {access_of(0)});
        const int fd = export_fd(handle, 0);
        const Handle import = import_fd(fd);
        close(fd);
        const std::string text = std::to_string(number * 1000 + round);
        write(1, a + page - 2, text);
        EXPECT(read(0, a + 5 * page - 2, text.size()) == text && page_table(0).lookup(common) & readable);
        if (number == 0) multicast_bind(object, {}, 0, replica, 0, page, 0);
        for_each_bound(replicas(page_table(0).lookup(mc)), [](const volatile char* frame) { EXPECT(!*frame); });
        if (number == 0) multicast_unbind(object, 1, 0, page);
        const uint64_t ordinary = allocate(1, 1000);
        write(1, ordinary, text);
        release(handle), release(import);
        free_allocation(ordinary);
        remove(a, 6 * page + 2 * page);
      }
    });
  for (std::thread& each : all) each.join();
  EXPECT(free_of(0) == before - page);
}

// Numbers of processes are given again: what tells them apart is when they started.
CASE(numbers) {
  const auto later = [](ProcessIdentity process) {
    return ProcessIdentity(uint64_t(process) + (1u << process_number_bits));
  };
  EXPECT(number_of(this_process()) == getpid() && !has_ended(this_process()) && has_ended(later(this_process())));
  const uint64_t memory = allocate(0, 4 * MiB);
  CUipcMemHandle handle = export_ipc(memory);
  REFUSED(CUDA_ERROR_INVALID_CONTEXT, "own pointer", open_ipc(0, handle));
  uint32_t record = 0;
  while (memory::ledger().record[record].kind != Record::physical) ++record;
  memory::ledger().record[record].maker = later(this_process());
  close_ipc(open_ipc(0, handle));
  free_allocation(memory);
  REFUSED(CUDA_ERROR_INVALID_VALUE, "was freed", open_ipc(0, handle));
  const ProcessIdentity maker = later(this_process());
  std::memcpy(handle.reserved + 48, &maker, sizeof maker);  // the last of what is in it
  REFUSED(CUDA_ERROR_INVALID_HANDLE, "has ended", open_ipc(0, handle));
  const uint32_t event = make_event();
  const uint64_t time = record_event(event);
  EXPECT(!is_reached(event, time));
  memory::ledger().record[event].recorder = later(this_process());
  EXPECT(is_reached(event, time));
}

// A process dies that holds the ledger's lock, and what gets it next does not mend the ledger.
CASE(lost_lock) {
  EXPECT(end(start("dies_with_lock")) == 0);
  EXPECT(!memory::ledger().lock.lock());
  memory::ledger().lock.unlock();
  EXPECT(end(start("taker")) == 125);
}
ROLE(dies_with_lock) {
  EXPECT(memory::ledger().lock.lock());
  _exit(0);
}

// Free memory is asked for often: the system is not asked for each record that another process holds.
CASE(sweeps) {
  const Peer peer = start("crowd");
  receive(peer.socket, 's');
  const uint64_t before = free_of(0);
  questions_about_locks = 0;
  EXPECT(free_of(0) == before && questions_about_locks < 10);
  EXPECT(end(peer, SIGKILL) == 128 + SIGKILL && free_of(0) == before + 80 * page);
}
ROLE(crowd) {
  std::vector<Handle> all;
  for (int i = 0; i < 100; ++i) all.push_back(create(page, on_gpu(0), 0));
  for (int i = 40; i < 60; ++i) release(all[i]);
  send(3, 's');
  receive(3, 'g');
}

CASE(failing_for_ever,
     [](Machine&, Options& o) { std::strcpy(o.fail_call, "cuMemCreate"), o.fail_number = 2, o.fail_later = 1; }) {
  EXPECT(!count_for_fail("cuMemCreate") && count_for_fail("cuMemCreate") && count_for_fail("cuMemCreate"));
}

void lack_most(Machine& m, Options& o) {
  m.fd_handles = m.fabric_handles = m.multicast = m.compression = m.rdma = m.peer_access = false;
  std::strcpy(o.fail_call, "cuMemCreate"), o.fail_number = 2;
}

CASE(lacking, lack_most) {
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, "file descriptor", create(page, on_gpu(0, fd_type), 0));
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, "fabric", create(page, on_gpu(0, CU_MEM_HANDLE_TYPE_FABRIC), 0));
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, "multicast", multicast_create(team_of(2, page)));
  CUmemAllocationProp p = on_gpu(0);
  p.allocFlags.gpuDirectRDMACapable = 1;
  REFUSED(CUDA_ERROR_INVALID_DEVICE, "GPUDirect RDMA", create(page, p, 0));
  p.allocFlags.gpuDirectRDMACapable = 0, p.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
  p = properties(create(page, p, 0));
  EXPECT(p.allocFlags.compressionType == 0);
  const uint64_t a = map_new(page);
  REFUSED(CUDA_ERROR_INVALID_DEVICE, "cannot reach", (open_to(a, page, {access_of(1)}), 0));
  EXPECT(count_for_fail("cuMemMap") == false && count_for_fail("cuMemCreate") == false &&
         count_for_fail("cuMemCreate") == true && count_for_fail("cuMemCreate") == false);
  set_visible({1});
  EXPECT(wait_for(start("blind").process) == 0);
}
ROLE(blind) {  // sees the machine's GPU 1 alone
  set_visible({1});
  REFUSED(CUDA_ERROR_INVALID_DEVICE, "sees 1", memory_info(1));
  EXPECT(count_for_fail("cuMemCreate") == false);
  const uint64_t before = free_of(0);
  map_new(4 * MiB);
  EXPECT(free_of(0) == before - 4 * MiB && memory::ledger().gpu[1].free * page == free_of(0));
}

}  // namespace

int main(int argc, char** argv) { return run_cases(argc, argv); }
