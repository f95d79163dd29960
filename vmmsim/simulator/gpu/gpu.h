// SPDX-License-Identifier: MIT-0
// The GPUs: modules made ready to run, launches, and the threads of this machine that run blocks.
#pragma once
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include "../memory/submission.h"
#include "../ptx/ptx.h"

namespace gpu {

constexpr size_t shared_unit = 128;  // of shared memory: a block has whole units, and an access faults behind the last

class Children;        // what a kernel launches itself: children.h
class Heap;            // what malloc in kernels takes memory from: heap.h
struct LoweredKernel;  // a kernel's instructions, ready to run and bound to addresses: lower.h

// A kernel of a loaded module.
struct Kernel {
  std::string name;
  std::shared_ptr<const LoweredKernel> lowered;  // when it is first asked for
  struct Parameter {
    size_t offset, size;
  };
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0, static_shared = 0, local_bytes = 0;
  unsigned registers = 0, max_threads = 1024;
  std::array<unsigned, 3> required_threads = {}, cluster = {};  // of a launch, {0, 0, 0}: any
  unsigned max_cluster = 0;                                     // blocks, 0: not given
  bool needs_cluster = false;                                   // a launch must name the size
  unsigned target = 0;                                          // 75
  std::string not_simulated;                                    // why it is not lowered: the instruction, in words
};
constexpr char device_runtime[] = "cudaCDP2";  // in the names of the functions that kernels call to launch others

// A module loaded on one GPU.
class Module {
 public:
  // `place` gives each .global and .const variable its address on the GPU. Module writes their initial values there
  // through the page table, but for those that `keeps` is true of. Throws ptx::Error.
  using Place = std::function<uint64_t(const ptx::Variable&)>;
  using Keeps = std::function<bool(const ptx::Variable&)>;
  Module(
      const std::shared_ptr<const ptx::Module>&, int device, const Place& place,
      const Keeps& keeps = [](const ptx::Variable&) { return false; });
  ~Module();
  Kernel* kernel(const std::string& name);  // null: there is none
  Kernel* kernel_at(uint64_t address);      // of a function, as kernels know it; null: there is none
  std::vector<std::string> kernel_names() const;
  struct Global {  // a variable of the module in the GPU's memory
    uint64_t address;
    size_t size;
  };
  const Global* variable(const std::string& name) const;  // null: there is none
  const Global* variable_at(uint64_t address) const;      // that holds it
  int device() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};
inline uint64_t volume(const Dimensions& size) { return uint64_t(size.x) * size.y * size.z; }

// What a kernel did wrong. The whole process's CUDA fails from then on with `error`.
struct Fault {
  CUresult error;          // CUDA_ERROR_ILLEGAL_ADDRESS, _MISALIGNED_ADDRESS, _LAUNCH_FAILED (trap), _ASSERT, ...
  std::string why;         // where, address, what lies there, what mends it
  std::string where = "";  // if a kernel did it: kernel, block and thread, instruction with its line
  std::optional<uint64_t> address = {};  // if that is what is wrong: of memory, not of what a block or thread has
};

// A read that nothing orders after a write: by the thread itself, to another address of the same memory, with no alias
// fence between; or by another thread of its block, for which it has not waited.
struct UnorderedRead {
  std::string where;       // as Fault::where
  uint64_t written, read;  // addresses
  bool by_another;
  unsigned fences;  // alias fences that the reading thread has run
};

// An alias fence, the count-th of its thread behind a store to memory that is mapped at two addresses.
struct AliasFence {
  std::string where;  // as Fault::where
  unsigned count;
};
constexpr unsigned most_told_fences = 2;  // none or one is often right; who runs more may run any number

struct Launch {
  const Kernel* kernel;
  std::shared_ptr<Module> module;  // kept while the kernel runs
  Dimensions grid, block;
  size_t dynamic_shared = 0;
  std::vector<std::byte> parameters;       // laid out as Kernel::parameters says
  std::function<void(const Fault*)> done;  // called once on a worker, null if all went well
  uint64_t order = 0;                      // of the program's operations
  memory::Submission submission = {};
  size_t stack_size = 1024;         // of a thread: cudaLimitStackSize
  Dimensions cluster = {};          // of how many blocks: they divide the grid
  bool has_clusters = false;        // it was asked for: clusters of one block may be, too
  bool is_cooperative = false;      // its blocks may wait for one another: the caller has seen that they all fit
  std::shared_ptr<Heap> heap = {};  // the context's
  std::shared_ptr<Children> children = {};  // if the kernel launches others
  std::function<void()> begun = {};         // called once on a worker, when all blocks have begun
  std::function<void()> triggered = {};  // called once on a worker, when each block has let dependents begin or ended
  std::function<bool()> may_go_on = {};  // what griddepcontrol.wait waits for; none: nothing
  mutable uint64_t grid_workspace = 0;   // of grid.sync(): a cooperative kernel finds it in a window of its addresses
  std::function<void(const UnorderedRead&)> unordered_read = {};  // called for the first
  mutable bool told_of_unordered_read = false;
  std::function<void(const AliasFence&)> alias_fence = {};  // called for the first of each count
  mutable unsigned told_fences = 0;
  mutable bool told_of_multicast = false;  // that it goes there in an ordinary way; by many threads
};

// Starts a kernel and returns at once. Blocks of kernels on one or several GPUs take turns on the machine's cores, so
// that one may spin on another. A kernel with an instruction that is not simulated faults with NOT_SUPPORTED.
void launch(Launch);

// Runs a task (a copy, a memset) on a worker thread.
void run(std::function<void()> task);

// Calls it on worker threads, again and again among all that runs, until it returns true.
void poll(std::function<bool()> has_come);

// Waits until all that runs or waits for a core has had a slice of time or has ended. Returns whether a block of a
// kernel of at most this order has ended meanwhile. One thread at a time.
bool let_all_have_a_turn(uint64_t order);

// Prints on stdout what kernels' printf has left, in this thread. For all that waits for a kernel, when it has waited.
void print_output();

// Stops the workers, at exit: nothing runs afterwards, but for what has not come to an end in a while. Does nothing in
// a forked child, which has no workers.
void stop();

}  // namespace gpu
