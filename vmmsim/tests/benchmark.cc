// SPDX-License-Identifier: MIT-0
// How fast the kernels of benchmark.cu are interpreted: time of one core for each word that they are given, with no
// process around, so that little else slows them down. It is not a test: it prints figures and their conditions, and
// what the kernels gave, which is always the same.
//
//   benchmark [MiB [KERNEL ...]]   of memory that the kernels touch (default 4)
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

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
std::string unmapped_too_early(const Submission&, uint64_t, const char*) { return ""; }
bool is_registered(uint64_t, bool) { return false; }
uint64_t allocate_heap(CUdevice, size_t) { return 0; }
void free_heap(uint64_t) {}
Replicas replicas(uint64_t) { return {}; }
char* own_replica(uint64_t, CUdevice) { return nullptr; }
void log_ordinary_access(const std::string&) {}
const Options& options() {
  static const Options options;
  return options;
}
}  // namespace memory

namespace {

// One page of all that modules have, and behind it the data.
class Memory {
 public:
  explicit Memory(size_t size) : bytes_(size) {
    const size_t around = size + 2 * memory::page_size;
    auto* const mapped =
        mmap(nullptr, around, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped == MAP_FAILED) std::perror("mmap"), std::exit(1);
    variables_ = memory::round_up(reinterpret_cast<uint64_t>(mapped), memory::page_size);
    for (uint64_t page = variables_; page <= variables_ + size; page += memory::page_size)
      memory::page_table(0).set(page, page | memory::mapped | memory::readable | memory::writable);
  }
  uint64_t place(const ptx::Variable& variable) {
    const uint64_t at = memory::round_up(variables_ + used_, variable.alignment);
    used_ = at + variable.size - variables_;
    return at;
  }
  uint32_t* result() { return reinterpret_cast<uint32_t*>(variables_ + memory::page_size - 64); }
  uint32_t* data() { return reinterpret_cast<uint32_t*>(variables_ + memory::page_size); }
  size_t words() const { return bytes_ / 4; }

 private:
  size_t bytes_, used_ = 0;
  uint64_t variables_;
};

double seconds() {  // of this thread alone
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// All blocks have their turns, as they have on the workers: they may wait for one another.
void run_all(const gpu::Launch& launch) {
  std::vector<std::unique_ptr<gpu::Cluster>> blocks;
  for (unsigned i = 0; i < launch.grid.x; ++i)
    blocks.push_back(std::make_unique<gpu::Cluster>(launch, 0, gpu::Dimensions{i, 0, 0}));
  while (!blocks.empty())
    std::erase_if(blocks, [](auto& block) { return gpu::run(*block, 20'000) == gpu::Progress::ended; });
}

// What each kernel finds: random words; for merge stretches of 256 that are sorted; for hash_table an empty table.
void fill(Memory& memory, const std::string& kernel) {
  std::mt19937 random;
  std::generate_n(memory.data(), memory.words(), std::ref(random));
  const bool sorts = kernel == "merge" || kernel == "search";
  for (size_t i = 0; sorts && i < memory.words(); i += 256) std::sort(memory.data() + i, memory.data() + i + 256);
  if (kernel == "hash_table") std::fill_n(memory.data() + memory.words() / 2, memory.words() / 2, 0);
}

void measure(gpu::Kernel& kernel, const std::shared_ptr<gpu::Module>& module, Memory& memory) {
  if (!kernel.not_simulated.empty()) std::exit((std::fprintf(stderr, "%s\n", kernel.not_simulated.c_str()), 1));
  gpu::Launch launch{&kernel, module, {16, 1, 1}, {256, 1, 1}, 0, std::vector<std::byte>(24), {}};
  const uint64_t parameters[] = {reinterpret_cast<uint64_t>(memory.data()), memory.words(),
                                 reinterpret_cast<uint64_t>(memory.result())};
  std::memcpy(launch.parameters.data(), parameters, sizeof parameters);
  std::vector<double> times;
  for (int run = 0; run < 5; ++run) {
    fill(memory, kernel.name);
    *memory.result() = 0;
    const double start = seconds();
    run_all(launch);
    times.push_back((seconds() - start) * 1e9 / static_cast<double>(memory.words()));
  }
  std::ranges::sort(times);
  std::printf("%-18s %8.2f %8.2f   %08x\n", kernel.name.c_str(), times[0], times[2], *memory.result());
}

}  // namespace

int main(int argc, char** argv) {
  const size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4;
  if (mib < 2 || mib > 1024 || mib % 2)
    return std::fputs("usage: benchmark [MiB [KERNEL ...]]; MiB: 2 to 1024, even\n", stderr), 2;
  Memory memory(mib << 20);
  std::stringstream text;
  text << std::ifstream(BENCHMARK_PTX).rdbuf();
  auto ptx = std::make_shared<const ptx::Module>(ptx::parse(text.str()));
  auto module = std::make_shared<gpu::Module>(ptx, 0, [&](const ptx::Variable& v) { return memory.place(v); });
  std::string processor = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) processor = line.substr(line.find(':') + 2);
  std::printf("%s, one core; %zu MiB, 16 blocks of 256 threads\nnanoseconds of a core for each word, of 5 runs\n",
              processor.c_str(), mib);
  std::printf("%-18s %8s %8s   result\n", "kernel", "best", "median");
  for (const ptx::Function& function : ptx->functions)
    if (argc < 3 || std::find(argv + 2, argv + argc, function.name) != argv + argc)
      measure(*module->kernel(function.name), module, memory);
}
