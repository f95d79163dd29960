// SPDX-License-Identifier: MIT-0
// Makes a machine, and joins one.
#include "ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>
#include "../log.h"
#include "page_table.h"

namespace memory {
namespace {

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text + ": " + std::strerror(errno)); }

int make_file(const char* name, uint64_t bytes) {
  struct rlimit files;
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < bytes)  // or a signal would end vmmsim
    throw std::runtime_error("the memory of a GPU is a file of " + std::to_string(bytes) +
                             " bytes, and files here may have " + std::to_string(files.rlim_cur) +
                             ": raise ulimit -f, or give GPUs less (--memory)");
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail("no memory for a simulated machine");
  return fd;
}

int open_in(long process, int descriptor, int flags) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%ld/fd/%d", process, descriptor);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC));
}

struct Joined {
  long vmmsim = 0;            // its process
  int number = 0, file = -1;  // the descriptor there, and here
  Ledger* ledger = nullptr;
  int trace_file = -1;
  std::string reason_against;  // it has no ledger
  bool lacks_memory = false;   // and that is why
};

// `error`: what the system has answered, or 0.
Joined refused(const char* reason, int error = 0) {
  Joined none;
  none.lacks_memory = error == ENOMEM;
  none.reason_against = error ? std::string(reason) + ": " + std::strerror(error) : reason;
  return none;
}

// The machine ends with vmmsim, and a program that uses it with the machine.
void end_with(pid_t vmmsim) {
  if (getppid() != vmmsim) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != vmmsim) kill(getpid(), SIGKILL);  // it was too late
}

Joined join() {
  const char* const value = environment("VMMSIM");
  if (!value) return refused("these are the simulator's libcuda and libcudart: start the program with vmmsim");
  Joined joined;
  uint64_t token = 0;
  if (std::sscanf(value, "%ld:%d:%" SCNx64, &joined.vmmsim, &joined.number, &token) != 3)
    return refused("VMMSIM does not name a machine");
  joined.file = open_in(joined.vmmsim, joined.number, O_RDWR);
  if (joined.file < 0 && errno == EACCES)
    return refused("the machine belongs to another user: start vmmsim as the user of this process");
  if (joined.file < 0 && errno != ENOENT) return refused("the machine's ledger cannot be opened", errno);
  uint64_t found[2] = {};  // Ledger::token and bytes
  if (joined.file < 0 || pread(joined.file, found, sizeof found, 0) != sizeof found || found[0] != token)
    return refused("the machine that VMMSIM names is gone: its vmmsim has ended, or is in another PID namespace");
  void* const at = mmap(nullptr, found[1], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, joined.file, 0);
  if (at == MAP_FAILED) return refused("no memory to map the machine's ledger", errno);
  joined.ledger = static_cast<Ledger*>(at);
  end_with(pid_t(joined.vmmsim));
  if (joined.ledger->trace_file < 0) return joined;
  joined.trace_file = open_in(joined.vmmsim, joined.ledger->trace_file, O_WRONLY | O_APPEND);
  return joined.trace_file < 0 ? refused("the file of --trace cannot be opened", errno) : joined;
}
const Joined& joined() {
  static const Joined machine_joined = join();
  return machine_joined;
}

}  // namespace

std::string create_machine(const Machine& machine, const Options& options, const std::string& trace_file) {
  if (machine.gpus * machine.nodes > int(max_gpus))
    throw std::runtime_error("a machine has " + std::to_string(max_gpus) + " GPUs at most");
  // What the driver keeps for itself, a part in 256, is never free.
  const uint64_t frames = machine.memory / page_size - machine.memory / page_size / 256;
  const uint64_t bytes =
      sizeof(Ledger) + static_cast<uint64_t>((machine.gpus + 1) * machine.nodes) * frames * sizeof(uint32_t);
  const int file = make_file("vmmsim-ledger", bytes);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) fail("no memory for a machine's ledger");
  Ledger& ledger = *static_cast<Ledger*>(at);  // zeros, which are unused records and atomics at 0
  if (getrandom(&ledger.token, sizeof ledger.token, 0) != sizeof ledger.token) fail("no random number");
  ledger.bytes = bytes;
  ledger.machine = machine;
  ledger.options = options;
  ledger.trace_file = -1;
  if (!trace_file.empty()) {
    ledger.trace_file = open(trace_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (ledger.trace_file < 0) fail(trace_file);
  }
  for (int gpu = 0; gpu < ledger.owners(); ++gpu) {  // a host has as much as a GPU
    ledger.memory_file[gpu] = make_file(("vmmsim-memory-" + std::to_string(gpu)).c_str(), machine.memory);
    ledger.gpu[gpu].frames = static_cast<uint32_t>(frames);
  }
  ledger.lock.make();
  (void)ledger.lock.lock();
  rebuild(ledger);
  ledger.lock.unlock();
  char value[96];  // what follows the token is for interposed.cc, which has no ledger
  std::snprintf(value, sizeof value, "%d:%d:%016" PRIx64 ":%d:%s%s%s", getpid(), file, ledger.token, machine.gpus,
                machine.fabric_channel ? "c" : "", machine.multicast ? "m" : "", options.adversarial_timing ? "n" : "");
  munmap(at, bytes);
  return value;
}

uint64_t touched_bytes() {
  if (!joined().ledger) return 0;  // vmmsim itself, where a descriptor more was not to be had
  uint64_t bytes = 0;
  for (int owner = 0; owner < ledger().owners(); ++owner) {
    struct stat about;
    if (fstat(ledger().memory_file[owner], &about) == 0) bytes += uint64_t(about.st_blocks) * 512;
  }
  return bytes;
}

const std::string& reason_without_machine() { return joined().reason_against; }
bool lacks_memory_for_machine() { return joined().lacks_memory; }
Ledger& ledger() { return *joined().ledger; }
const Machine& machine() {
  static const Machine none = [] {
    Machine machine;
    machine.gpus = 0;
    return machine;
  }();
  return joined().ledger ? ledger().machine : none;
}
const Options& options() {
  static const Options none;
  return joined().ledger ? ledger().options : none;
}
int trace_file() { return joined().trace_file; }

const char* environment(const char* name) {
  const size_t length = std::strlen(name);
  for (char** variable = environ; variable && *variable; ++variable)
    if (!std::strncmp(*variable, name, length) && (*variable)[length] == '=') return *variable + length + 1;
  return nullptr;
}

int open_of_vmmsim(int descriptor, int flags) { return open_in(joined().vmmsim, descriptor, flags); }
int ledger_file() { return joined().file; }
int open_ledger(int flags) { return open_of_vmmsim(joined().number, flags); }

int node() {
  static const int number = [] {
    for (const char* name : {"VMMSIM_NODE", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
      if (const char* rank = environment(name))
        return static_cast<int>(std::strtoul(rank, nullptr, 10) % unsigned(machine().nodes));
    return 0;
  }();
  return number;
}

int nth_process() {
  static std::atomic<pid_t> counted = 0;
  static std::atomic<int> place = 0;
  if (counted == getpid()) return place;
  const LedgerLock held;
  if (counted != getpid()) place = ++ledger().processes;
  counted = getpid();
  return place;
}

bool count_for_fail(const char* call) {
  const int process = nth_process(), wanted = options().fail_process;
  const bool is_wanted = !wanted || wanted == process || (wanted < 0 && wanted == -int(syscall(SYS_gettid)));
  if (!is_wanted || std::strcmp(call, options().fail_call)) return false;
  const uint64_t number = ++ledger().calls;
  return number == options().fail_number || (options().fail_later && number > options().fail_number);
}

void note_work(bool begins) { ++(begins ? ledger().work_begun : ledger().work_ended); }

void SharedMutex::make() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
}
bool SharedMutex::lock() {
  const int error = pthread_mutex_lock(&mutex_);
  if (error && error != EOWNERDEAD) {
    log_line("the machine's ledger cannot be locked: %s: start the simulation anew", std::strerror(error));
    _exit(125);
  }
  return !error;
}
void SharedMutex::unlock() { pthread_mutex_unlock(&mutex_); }
void SharedMutex::mend() { pthread_mutex_consistent(&mutex_); }

LedgerLock::LedgerLock() {
  if (ledger().lock.lock()) return;
  rebuild(ledger());
  ledger().lock.mend();
}
LedgerLock::~LedgerLock() { ledger().lock.unlock(); }

void rebuild(Ledger& ledger) {
  // A binding counts if both ends of it are still there.
  ledger.unused = invalid_index;
  for (Record* r = ledger.record; r < ledger.record + ledger.records; ++r) {
    r->bindings = 0;
    r->next = invalid_index;
  }
  for (uint32_t i = 0; i < ledger.records; ++i) {
    Record& r = ledger.record[i];
    if (r.kind == Record::binding) {
      Record &object = ledger.record[r.object], &memory = ledger.record[r.memory];
      if (object.kind == Record::multicast && memory.kind == Record::physical) {
        r.next = object.next;
        object.next = i;
        ++memory.bindings;
        continue;
      }
      r.kind = Record::unused;
    }
    if (r.kind != Record::unused) continue;
    r.next = ledger.unused;
    ledger.unused = i;
  }
  ++ledger.bound;
  // A frame that is in no allocation is free.
  for (int gpu = 0; gpu < ledger.owners(); ++gpu) {
    Ledger::Gpu& state = ledger.gpu[gpu];
    uint32_t* const next = ledger.frames_of(gpu);
    std::vector<bool> taken(state.frames);
    for (const Record* r = ledger.record; r < ledger.record + ledger.records; ++r)
      if (r->kind == Record::physical && r->gpu == gpu)
        for (uint32_t frame = r->first_frame; frame != invalid_index; frame = next[frame]) taken[frame] = true;
    state.first = invalid_index;
    state.free = 0;
    for (uint32_t behind = state.frames; behind > 0; --behind) {
      const uint32_t frame = behind - 1;
      if (taken[frame]) continue;
      next[frame] = state.first;
      state.first = frame;
      ++state.free;
    }
  }
}

}  // namespace memory
