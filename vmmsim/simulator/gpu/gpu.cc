// SPDX-License-Identifier: MIT-0
#include "gpu.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include "../memory/page_table.h"
#include "../memory/this_machine.h"
#include "../terminal.h"
#include "access.h"
#include "children.h"
#include "progress_report.h"

namespace gpu {

using memory::round_up;

// --- Modules ---------------------------------------------------------------------------------------------------------

struct Module::State {
  std::shared_ptr<const ptx::Module> text;
  int device;
  std::map<std::string, Global> variables;
  Mutex mutex;
  std::map<std::string, Kernel> kernels GUARDED_BY(mutex);  // what is lowered stays as it is
  std::vector<std::byte> initial_bytes(const ptx::Variable&) const;
};

namespace {

void write(int device, uint64_t address, const std::byte* from, size_t size) {
  while (size > 0) {
    const size_t piece = std::min<size_t>(size, memory::page_size - address % memory::page_size);
    char* const to = memory::frame(memory::page_table(device).lookup(address)) + address % memory::page_size;
    std::memcpy(to, from, piece);
    address += piece;
    from += piece;
    size -= piece;
  }
}

Kernel kernel_of(const ptx::Module& text, const ptx::Function& function) {
  Kernel kernel;
  kernel.name = function.name;
  kernel.target = text.target;
  // A GPU's compiler gives many of the PTX's registers the same one. How many are left is not known here: no more than
  // let a multiprocessor have all its threads, so that no launch is refused that a GPU takes.
  kernel.registers = static_cast<unsigned>(std::clamp<size_t>(function.registers.size(), 16, 32));
  if (function.max_threads) kernel.max_threads = std::min(function.max_threads, kernel.max_threads);
  kernel.required_threads = function.required_threads;
  kernel.cluster = function.cluster;
  kernel.max_cluster = function.max_cluster;
  kernel.needs_cluster = function.needs_cluster;
  for (const ptx::Variable& parameter : function.parameters) {
    kernel.parameter_bytes = round_up(kernel.parameter_bytes, std::max<uint64_t>(parameter.alignment, 1));
    kernel.parameters.push_back({kernel.parameter_bytes, parameter.size});
    kernel.parameter_bytes += parameter.size;
  }
  return kernel;
}

}  // namespace

// With the addresses of other variables and of functions in their places.
std::vector<std::byte> Module::State::initial_bytes(const ptx::Variable& variable) const {
  std::vector<std::byte> bytes = variable.initial;
  bytes.resize(variable.size);
  for (const ptx::Variable::Relocation& relocation : variable.relocations) {
    const auto target = variables.find(relocation.symbol);
    const uint64_t address =
        target == variables.end() ? function_address(*text, relocation.symbol) : target->second.address;
    if (!address || relocation.at + 8 > bytes.size())
      throw ptx::Error(variable.name + " holds the address of " + relocation.symbol + ", which is no variable");
    const uint64_t value = address + static_cast<uint64_t>(relocation.offset);
    std::memcpy(bytes.data() + relocation.at, &value, sizeof value);
  }
  return bytes;
}

Module::Module(const std::shared_ptr<const ptx::Module>& text, int device, const Place& place, const Keeps& keeps)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.text = text;
  state.device = device;
  for (const ptx::Variable& variable : text->variables) {
    if (variable.space != ptx::Space::global && variable.space != ptx::Space::constant) continue;
    state.variables[variable.name] = {place(variable), variable.size};
  }
  for (const ptx::Variable& variable : text->variables)
    if (const Global* const global = this->variable(variable.name); global && !keeps(variable)) {
      const std::vector<std::byte> bytes = state.initial_bytes(variable);
      write(device, global->address, bytes.data(), bytes.size());
    }
  const MutexLock lock(state.mutex);
  for (const ptx::Function& function : text->functions)
    if (function.is_entry && !function.is_declared_only) state.kernels[function.name] = kernel_of(*text, function);
}

Module::~Module() = default;

Kernel* Module::kernel(const std::string& name) {
  const MutexLock lock(state_->mutex);
  const auto found = state_->kernels.find(name);
  if (found == state_->kernels.end()) return nullptr;
  Kernel& kernel = found->second;
  if (kernel.lowered || !kernel.not_simulated.empty()) return &kernel;
  const auto& functions = state_->text->functions;
  const auto function = std::find_if(functions.begin(), functions.end(), [&](const ptx::Function& candidate) {
    return candidate.is_entry && !candidate.is_declared_only && candidate.name == name;
  });
  try {
    kernel.lowered = lower(state_->text, *function, state_->variables);
    kernel.static_shared = kernel.lowered->static_shared;
    kernel.local_bytes = kernel.lowered->local_bytes;
  } catch (const NotSimulated& found) {
    kernel.not_simulated = found.what;
  } catch (const std::out_of_range&) {  // an operand is missing
    kernel.not_simulated = "kernel " + name + ": malformed PTX";
  }
  return &kernel;
}

Kernel* Module::kernel_at(uint64_t address) {
  for (const std::string& name : kernel_names())
    if (function_address(*state_->text, name) == address) return kernel(name);
  return nullptr;
}

std::vector<std::string> Module::kernel_names() const {
  std::vector<std::string> names;
  const MutexLock lock(state_->mutex);
  for (const auto& [name, kernel] : state_->kernels) names.push_back(name);
  return names;
}

const Module::Global* Module::variable(const std::string& name) const {
  const auto found = state_->variables.find(name);
  return found == state_->variables.end() ? nullptr : &found->second;
}

const Module::Global* Module::variable_at(uint64_t address) const {
  for (const auto& [name, variable] : state_->variables)
    if (address - variable.address < variable.size) return &variable;
  return nullptr;
}

int Module::device() const { return state_->device; }

// --- Who runs when ---------------------------------------------------------------------------------------------------

Mutex workers_lock;
static_assert(std::is_trivially_destructible_v<Mutex>);  // workers may outlive all that is destroyed at exit

namespace {

// The windows of the generic address space: no memory may lie there. ThreadSanitizer lets nothing be mapped there, not
// even this.
#ifndef __SANITIZE_THREAD__
[[maybe_unused]] const bool windows_are_kept = [] {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  for (const uint64_t window : {shared_window, local_window, parameter_window, grid_window, function_window})
    static_cast<void>(mmap(reinterpret_cast<void*>(window), window_size, PROT_NONE, flags, -1, 0));
  return true;
}();
#endif

struct RunningKernel {
  Launch launch;
  uint64_t blocks = 0;  // of the grid; here and below clusters of them, if the launch has clusters
  unsigned limit = 0;   // how many blocks may be under way
  uint64_t begun GUARDED_BY(workers_lock) = 0;
  unsigned under_way GUARDED_BY(workers_lock) = 0;       // blocks that have begun and not ended
  uint64_t triggered GUARDED_BY(workers_lock) = 0;       // blocks that let dependents begin, or have ended
  bool waits_for_room GUARDED_BY(workers_lock) = false;  // it has blocks left, and no turn until one ends
  std::optional<Fault> fault GUARDED_BY(workers_lock);   // the first one
  std::shared_ptr<Pace> pace GUARDED_BY(workers_lock);   // from its first block on
};

// What waits for a core: a task, a cluster of blocks (mostly one) that goes on, or a kernel that begins its next one.
struct Turn {
  std::function<bool()> task;  // false: what it waits for has not come, and it gets another turn
  std::shared_ptr<RunningKernel> kernel;
  std::unique_ptr<Cluster> cluster;
  uint64_t number = 0;
};

// All that may run waits in one queue, and what has had its slice of time goes to the end of it. So a kernel begins
// another block whenever its turn comes: few blocks are under way when they end within a slice, and all that the GPU
// has room for when they wait for something. What waits for something has short turns, in which it looks whether that
// has come: all of them every few milliseconds, and when nothing else is left. If nothing comes, the workers pause, a
// little longer each time.
class Workers {
 public:
  void add(Turn turn) {
    if (owner_ && owner_ != getpid()) return;  // a forked child has no workers, and perhaps a lock that is never let go
    const MutexLock lock(workers_lock);
    if (stopping_) return;
    if (!owner_) begin_threads();
    push(std::move(turn), true);
  }

  bool let_all_have_a_turn(uint64_t order) {
    const MutexLock lock(workers_lock);
    watched_order_ = order;
    a_block_ended_ = false;
    awaited_number_ = last_number_;
    end_pauses();
    while (!stopping_ && !had_their_turn()) had_a_turn_.wait(workers_lock);
    return a_block_ended_;
  }

  void stop() {
    if (owner_ != getpid()) return;
    const MutexLock lock(workers_lock);
    stopping_ = true;
    wake_.notify_all();
    had_a_turn_.notify_all();
    stopped_.wait_for(workers_lock, longest_stop, [&]() REQUIRES(workers_lock) { return working_ == 0; });
  }

 private:
  static constexpr long block_slice = 20'000;  // operations of a warp: a few milliseconds
  static constexpr std::chrono::microseconds least_pause{20}, longest_pause{1000}, between_looks{2000};
  static constexpr std::chrono::seconds longest_stop{5};  // of a block or a task that a worker is at
  Condition wake_;
  std::deque<Turn> turns_ GUARDED_BY(workers_lock);    // what can go on, for all that is known
  std::deque<Turn> waiting_ GUARDED_BY(workers_lock);  // what had a look in vain
  unsigned working_ GUARDED_BY(workers_lock) = 0;      // workers that have not stopped
  Condition stopped_;
  std::atomic<pid_t> owner_ = 0;  // the process whose threads they are
  bool stopping_ GUARDED_BY(workers_lock) = false;
  std::set<uint64_t> due_ GUARDED_BY(workers_lock);  // the turns that have not ended
  uint64_t last_number_ GUARDED_BY(workers_lock) = 0;
  uint64_t awaited_number_ GUARDED_BY(workers_lock) = 0;
  uint64_t watched_order_ GUARDED_BY(workers_lock) = 0;
  bool a_block_ended_ GUARDED_BY(workers_lock) = false;
  Condition had_a_turn_;
  std::chrono::steady_clock::time_point next_look_ GUARDED_BY(workers_lock);
  bool nothing_came_ GUARDED_BY(workers_lock) = false;  // since those that wait last had their turns
  std::chrono::microseconds pause_ GUARDED_BY(workers_lock) = least_pause;

  // All up to the awaited number.
  bool had_their_turn() const REQUIRES(workers_lock) { return due_.empty() || *due_.begin() > awaited_number_; }

  void begin_threads() REQUIRES(workers_lock) {
    owner_ = getpid();
    sigset_t all, before;
    sigfillset(&all);  // signals are for the program's own threads, but for those of what a thread does itself
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&all, own);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const unsigned cores = std::max(2u, std::thread::hardware_concurrency());
    for (; working_ < cores; ++working_) {
      std::thread worker([this] { work(); });
      pthread_setname_np(worker.native_handle(), memory::worker_name);
      worker.detach();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void push(Turn turn, bool can_go_on) REQUIRES(workers_lock) {
    ++last_number_;
    turn.number = last_number_;
    due_.insert(turn.number);
    (can_go_on ? turns_ : waiting_).push_back(std::move(turn));
    if (!can_go_on) return;
    nothing_came_ = false;
    pause_ = least_pause;
    wake_.notify_one();
  }

  // Lets all that wait have a look soon.
  void end_pauses() REQUIRES(workers_lock) {
    nothing_came_ = false;
    next_look_ = {};
    pause_ = least_pause;
    wake_.notify_all();
  }

  // Returns when a turn may be taken, or the workers stop.
  void await_turn() REQUIRES(workers_lock) {
    while (!stopping_) {
      const bool all_wait = turns_.empty();
      const auto now = std::chrono::steady_clock::now();
      if (!waiting_.empty() && (all_wait ? !nothing_came_ : now >= next_look_)) {
        std::ranges::move(waiting_, std::back_inserter(turns_));
        waiting_.clear();
        next_look_ = now + between_looks;
        nothing_came_ = true;
      }
      if (!turns_.empty()) return;
      if (waiting_.empty()) {
        wake_.wait(workers_lock);
      } else {
        wake_.wait_for(workers_lock, pause_);
        pause_ = std::min(2 * pause_, longest_pause);
        nothing_came_ = false;
      }
    }
  }

  void work() {
    const MutexLock lock(workers_lock);
    for (;;) {
      await_turn();
      if (stopping_) break;
      Turn turn = std::move(turns_.front());
      turns_.pop_front();
      const uint64_t number = turn.number;
      if (turn.kernel) {
        run_block(std::move(turn));
      } else {
        run_task(std::move(turn));
      }
      due_.erase(number);
      if (had_their_turn()) had_a_turn_.notify_all();
    }
    --working_;
    stopped_.notify_all();
  }

  void run_task(Turn turn) REQUIRES(workers_lock) {
    workers_lock.unlock();
    const bool has_ended = turn.task();
    if (has_ended) turn.task = nullptr;
    workers_lock.lock();
    if (!has_ended) push(std::move(turn), false);
  }

  // The index in the grid of the kernel's next block, or of the first one of its next cluster, which begins. The kernel
  // gets a turn for the one after it.
  Dimensions begin_block(const std::shared_ptr<RunningKernel>& kernel) REQUIRES(workers_lock) {
    const Dimensions &size = kernel->launch.cluster, &all = kernel->launch.grid;
    const Dimensions grid = {all.x / size.x, all.y / size.y, all.z / size.z};
    const uint64_t number = kernel->begun;
    if (number == 0) {
      kernel->pace = Pace::kernel(kernel->launch.kernel->name);
      kernel->pace->launched();
    }
    assert(number < kernel->blocks && kernel->under_way < kernel->limit);
    ++kernel->begun;
    ++kernel->under_way;
    if (kernel->under_way == kernel->limit) kernel->waits_for_room = true;
    else if (kernel->begun < kernel->blocks) push({{}, kernel, {}}, true);
    return {static_cast<unsigned>(number % grid.x) * size.x, static_cast<unsigned>(number / grid.x % grid.y) * size.y,
            static_cast<unsigned>(number / grid.x / grid.y) * size.z};
  }

  void run_block(Turn turn) REQUIRES(workers_lock) {
    RunningKernel& kernel = *turn.kernel;
    Dimensions index;
    if (!turn.cluster) {
      if (kernel.begun == kernel.blocks) return;  // a fault has ended it
      index = begin_block(turn.kernel);
    }
    Progress progress = kernel.fault ? Progress::ended : Progress::goes_on;
    kernel.pace->begun();
    const bool all_begin = !turn.cluster && kernel.begun == kernel.blocks && kernel.launch.begun;
    workers_lock.unlock();
    if (all_begin) kernel.launch.begun();
    std::optional<Fault> fault;
    try {
      if (progress != Progress::ended && !turn.cluster)
        turn.cluster = std::make_unique<Cluster>(kernel.launch, kernel.launch.module->device(), index);
      if (progress != Progress::ended) progress = run(*turn.cluster, block_slice);
    } catch (Fault& found) {
      fault = std::move(found);
      progress = Progress::ended;
    } catch (const std::bad_alloc&) {
      fault = Fault{CUDA_ERROR_OUT_OF_MEMORY, "this machine has no memory left for a block of kernel " +
                                                  kernel.launch.kernel->name + ": give it fewer or smaller ones"};
      progress = Progress::ended;
    }
    const bool was_counted = turn.cluster && turn.cluster->is_counted;
    const bool triggers = progress == Progress::ended || turn.cluster->triggers();
    if (turn.cluster) turn.cluster->is_counted = triggers;
    if (progress == Progress::ended) turn.cluster.reset();
    workers_lock.lock();
    if (triggers && !was_counted) note_trigger(kernel, progress == Progress::ended);
    const uint64_t blocks_done = kernel.begun - kernel.under_way + (progress == Progress::ended ? 1 : 0);
    const uint64_t each = volume(kernel.launch.cluster);
    const std::string line = kernel.pace->ended(blocks_done * each, kernel.blocks * each);
    if (!line.empty()) {
      workers_lock.unlock();
      log_wrapped(line);
      workers_lock.lock();
    }
    if (progress == Progress::ended) end_block(std::move(turn), std::move(fault));
    else push(std::move(turn), progress == Progress::goes_on);
  }

  void note_trigger(RunningKernel& kernel, bool ends) REQUIRES(workers_lock) {
    const bool is_last = ends && kernel.begun == kernel.blocks && kernel.under_way == 1;  // and tells that it is done
    if (++kernel.triggered < kernel.blocks || !kernel.launch.triggered || is_last) return;
    workers_lock.unlock();
    kernel.launch.triggered();
    workers_lock.lock();
  }

  void end_block(Turn turn, std::optional<Fault> fault) REQUIRES(workers_lock) {
    RunningKernel& kernel = *turn.kernel;
    if (kernel.launch.order <= watched_order_) a_block_ended_ = true;
    if (fault) {
      kernel.begun = kernel.blocks;
      if (!kernel.fault) kernel.fault = std::move(fault);
    }
    assert(kernel.under_way > 0);
    --kernel.under_way;
    if (kernel.begun < kernel.blocks) {
      if (kernel.waits_for_room) push({{}, turn.kernel, {}}, true);
      kernel.waits_for_room = false;
    } else if (kernel.under_way == 0) {
      const std::optional<Fault> first_fault = std::move(kernel.fault);
      workers_lock.unlock();
      kernel.launch.done(first_fault ? &*first_fault : nullptr);
      turn = {};
      workers_lock.lock();
    }
  }
};

Workers& workers() {
  static Workers& workers = *new Workers;  // its threads may outlive all that is destroyed at exit
  return workers;
}

// How many blocks of a kernel a GPU has room for at once.
unsigned resident_blocks(const Launch& launch) {
  const uint64_t threads = round_up(uint64_t(launch.block.x) * launch.block.y * launch.block.z, 32);
  const auto each = static_cast<unsigned>(std::clamp<uint64_t>(2048 / threads, 1, 32));
  return each * static_cast<unsigned>(std::max(1, memory::machine().multiprocessors));
}

}  // namespace

void launch(Launch launch) {
  if (!launch.kernel->lowered) {
    const Fault fault{CUDA_ERROR_NOT_SUPPORTED, "not simulated: " + launch.kernel->not_simulated};
    return launch.done(&fault);
  }
  if (launch.kernel->lowered->launches_others) {
    launch.children = std::make_shared<Children>();
    launch.done = [children = launch.children, done = std::move(launch.done)](const Fault* fault) {
      children->run(fault, done);
    };
  }
  auto kernel = std::make_shared<RunningKernel>();
  kernel->launch = std::move(launch);
  const uint64_t each = volume(kernel->launch.cluster);
  kernel->blocks = volume(kernel->launch.grid) / each;
  kernel->limit = std::max(1u, resident_blocks(kernel->launch) / static_cast<unsigned>(each));
  workers().add({{}, std::move(kernel), {}});
}

void run(std::function<void()> task) {
  const auto once = [task = std::move(task)] { return task(), true; };
  workers().add({once, {}, {}});
}

void poll(std::function<bool()> has_come) { workers().add({std::move(has_come), {}, {}}); }

bool let_all_have_a_turn(uint64_t order) { return workers().let_all_have_a_turn(order); }

void stop() { workers().stop(); }

}  // namespace gpu
