// SPDX-License-Identifier: MIT-0
#include "process.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include "of_thread.h"

namespace memory {

thread_local std::vector<std::string>* changes = nullptr;
thread_local std::string& current_call = of_thread<std::string, struct CurrentCall>();

namespace {

// A child made by fork shares nothing with CUDA: it would hold its parent's memory, and must not change it.
void leave_in_child() {
  process().is_forked = true;
  leave();
  process().lock.unlock();
}

void make_tables(Process& p, std::vector<int> gpus) {
  p.visible = std::move(gpus);
  p.tables.clear();
  for (size_t i = 0; i < p.visible.size(); ++i) p.tables.push_back(std::make_unique<PageTable>());
}

// Never destroyed: workers may run until the very end.
Process& make_process() {
  Process& made = *new Process;
  std::vector<int> gpus;
  for (int i = 0; i < machine().gpus; ++i) gpus.push_back(node() * machine().gpus + i);
  make_tables(made, gpus);
  pthread_atfork([] { process().lock.lock(); }, [] { process().lock.unlock(); }, leave_in_child);
  return made;
}

}  // namespace

bool has_ended(pid_t process) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd look = {fd, POLLIN, 0};
  const bool ended = poll(&look, 1, 0) > 0;
  close(fd);
  return ended;
}

Process& process() {
  static Process& once = make_process();
  return once;
}

void set_visible(std::vector<int> gpus) {
  std::lock_guard guard(process().lock);
  if (gpus != process().visible) make_tables(process(), std::move(gpus));
}

PageTable& page_table(CUdevice device) { return *process().tables[static_cast<size_t>(device)]; }

std::unique_lock<std::mutex> enter() {
  std::unique_lock guard(process().lock);
  if (process().is_forked)
    refuse(CUDA_ERROR_NOT_INITIALIZED, "this process was forked by one that had initialised CUDA: start it by exec");
  return guard;
}

void change(trace::Kind kind, const std::vector<Member>& members) {
  static std::atomic<uint64_t> order = 0;
  if (changes) changes->push_back(trace::change(kind, members, ++order));
}

void note_gone(uint64_t base, uint64_t size, const char* how) {
  auto& gone = process().gone;
  gone.push_back({base, size, how + (current_call.empty() ? "" : " by " + current_call)});
  if (gone.size() > 256) gone.pop_front();
}

int device_count() { return int(process().visible.size()); }

int gpu_of(CUdevice device) {
  const auto& visible = process().visible;
  if (device < 0 || size_t(device) >= visible.size())
    refuse(CUDA_ERROR_INVALID_DEVICE, "there is no GPU " + std::to_string(device) + ": this process sees " +
                                          std::to_string(visible.size()) + ", the first is 0");
  return visible[size_t(device)];
}

int host_of_node() { return machine().gpus * machine().nodes + node(); }

std::string owner_name(int owner) {
  const int device = device_of(owner);
  if (device >= 0) return "GPU " + std::to_string(device);
  return owner < machine().gpus * machine().nodes ? "a GPU that this process does not see" : "the host";
}

int device_of(int gpu) {
  const auto& visible = process().visible;
  for (size_t i = 0; i < visible.size(); ++i)
    if (visible[i] == gpu) return int(i);
  return -1;
}

}  // namespace memory
