// SPDX-License-Identifier: MIT-0
// How fast kernels are interpreted: thread-instructions in a second, on one core, with no process around that another
// one could slow down. It is not a test: it prints figures and their conditions.
//
//   benchmark [MiB]   of memory that the kernels touch (default 64)
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "../simulator/gpu/warp.h"
#include "../simulator/memory/memory.h"
#include "../simulator/memory/page_table.h"
#include "../simulator/memory/this_machine.h"

// A machine of one GPU with one page table: all that gpu/ asks of memory/ when nothing goes wrong.
namespace memory {
PageTable& page_table(int) {
  static PageTable table;
  return table;
}
const Machine& machine() {
  static const Machine machine;
  return machine;
}
std::string what_lies_at(CUdevice, uint64_t, bool) { return "nothing"; }
bool is_registered(uint64_t, bool) { return false; }
uint64_t allocate_heap(CUdevice, size_t) { return 0; }
void free_heap(uint64_t) {}
std::span<char* const> replicas(uint64_t) { return {}; }
char* own_replica(uint64_t, CUdevice) { return nullptr; }
void tell_of_ordinary_access(const std::string&) {}
const Options& options() {
  static const Options options;
  return options;
}
}  // namespace memory

static const char text[] = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 data, .param .u64 n, .param .u32 seed)
{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [n];
  ld.param.u32 %r1, [seed];
  cvta.to.global.u64 %rd3, %rd1;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r3, %r2, %r4;
  cvt.u64.u32 %rd4, %r5;
  mov.u32 %r6, %nctaid.x;
  mul.lo.s32 %r6, %r6, %r2;
  cvt.u64.u32 %rd5, %r6;
  setp.ge.u64 %p1, %rd4, %rd2;
  @%p1 bra done;
again:
  cvt.u32.u64 %r7, %rd4;
  add.s32 %r7, %r7, %r1;
  mul.lo.s32 %r7, %r7, -1640531535;
  shl.b64 %rd6, %rd4, 2;
  add.s64 %rd6, %rd3, %rd6;
  st.global.u32 [%rd6], %r7;
  add.s64 %rd4, %rd4, %rd5;
  setp.lt.u64 %p2, %rd4, %rd2;
  @%p2 bra again;
done:
  ret;
}
.visible .entry sum(.param .u64 data, .param .u64 n, .param .u64 total)
{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [n];
  ld.param.u64 %rd7, [total];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd7, %rd7;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r3, %r2, %r4;
  cvt.u64.u32 %rd4, %r5;
  mov.u32 %r6, %nctaid.x;
  mul.lo.s32 %r6, %r6, %r2;
  cvt.u64.u32 %rd5, %r6;
  mov.u32 %r8, 0;
  setp.ge.u64 %p1, %rd4, %rd2;
  @%p1 bra done;
again:
  shl.b64 %rd6, %rd4, 2;
  add.s64 %rd6, %rd3, %rd6;
  ld.global.u32 %r7, [%rd6];
  add.s32 %r8, %r8, %r7;
  add.s64 %rd4, %rd4, %rd5;
  setp.lt.u64 %p2, %rd4, %rd2;
  @%p2 bra again;
done:
  red.global.add.u32 [%rd7], %r8;
  ret;
}
)";

int main(int argc, char** argv) {
  const size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
  if (mib < 2 || mib > 1024 || mib % 2) return std::fputs("usage: benchmark [MiB: 2 to 1024, even]\n", stderr), 2;
  const size_t size = mib << 20, n = size / 4, around = size + 2 * memory::page_size;
  auto* const mapped = static_cast<char*>(
      mmap(nullptr, around, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  if (mapped == MAP_FAILED) return std::perror("mmap"), 1;
  const uint64_t data = (reinterpret_cast<uint64_t>(mapped) / memory::page_size + 1) * memory::page_size;
  const uint64_t total = data + size;  // in a page of its own
  for (uint64_t page = data; page <= total; page += memory::page_size)
    memory::page_table(0).set(page, page | memory::mapped | memory::readable | memory::writable);

  auto ptx = std::make_shared<const ptx::Module>(ptx::parse(text));
  auto module = std::make_shared<gpu::Module>(ptx, 0, [](const ptx::Variable&) { return 0; });
  std::string processor = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) processor = line.substr(line.find(':') + 2);
  std::printf("%s, one core; %zu MiB, 256 blocks of 256 threads; best of 5 runs\n", processor.c_str(), mib);
  for (const auto& [name, of_loop, last] : {std::tuple("fill", 9.0, uint64_t(7)), std::tuple("sum", 7.0, total)}) {
    gpu::Launch launch{module->kernel(name), module, {256, 1, 1}, {256, 1, 1}, 0, std::vector<std::byte>(24), {}};
    for (int i = 0; i < 3; ++i) {
      const uint64_t parameters[] = {data, n, last};
      std::memcpy(launch.parameters.data() + 8 * i, &parameters[i], 8);
    }
    double best = 1e9;
    for (int run = 0; run < 5; ++run) {
      const auto start = std::chrono::steady_clock::now();
      for (unsigned i = 0; i < launch.grid.x; ++i) {
        gpu::ThreadBlock block(launch, 0, {i, 0, 0});
        while (gpu::run(block, 20'000) != gpu::Progress::ended) {
        }
      }
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%s: %.0f million thread-instructions a second, %.0f million elements a second\n", name,
                static_cast<double>(n) * of_loop / best / 1e6, static_cast<double>(n) / best / 1e6);
  }
  unsigned expected = 0, got;
  for (size_t i = 0; i < n; ++i) expected += static_cast<unsigned>(7 + i) * 2654435761u;
  std::memcpy(&got, reinterpret_cast<const void*>(total), 4);
  if (got != 5 * expected) return std::printf("the sum is %u, not %u\n", got, 5 * expected), 1;
}
