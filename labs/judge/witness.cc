// SPDX-License-Identifier: MIT-0
// witness NAMES FILE ... -- COMMAND: runs vmmsim and a student's program, and writes the record of the calls.
//
// The first process of a sandbox. All others run under ptrace, and have no way to the record. In the simulator's FILEs
// the judge has put a trap at the beginning of each call and where a line of the trace is handed over (sandbox.py);
// NAMES has "file offset name" of each, and of the last the name "line". A line that code of these files hands over is
// read out of the process into the record. A call that other code makes is "CALL thread name" there, before its line:
// the judge compares. "CHANGED" is there if the simulated machine was changed by what is no call.
#include <elf.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <vector>

const int record = 8, left = 251;        // OF_TRACE of program.py, LEFT of sandbox.py
using Place = std::pair<int, uint64_t>;  // a file, and where in it
std::vector<std::string> files;
std::map<Place, std::string> names;

[[noreturn]] void fail(const char* call) {
  std::fprintf(stderr, "witness: %s: %s\n", call, std::strerror(errno));
  _exit(125);
}

void read_names(const char* path) {
  FILE* const all = std::fopen(path, "re");
  if (!all) fail(path);
  int file = 0;
  unsigned long offset = 0;
  char name[256];
  while (std::fscanf(all, "%d %lu %255s", &file, &offset, name) == 3) names[{file, offset}] = name;
  std::fclose(all);
}

bool read_memory(pid_t thread, uint64_t from, void* to, size_t size) {
  const iovec here = {to, size}, there = {reinterpret_cast<void*>(from), size};
  return process_vm_readv(thread, &here, 1, &there, 1, 0) == ssize_t(size);
}

// Of a stopped thread, at the beginning of a function, which has three arguments at most, or of a system call.
struct Registers {
  uint64_t trap, caller, number, argument[5];
};
#ifdef __x86_64__
const uint32_t processor = AUDIT_ARCH_X86_64;
Registers registers_of(pid_t thread) {
  user_regs_struct user = {};
  iovec room = {&user, sizeof user};
  ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &room);
  uint64_t caller = 0;
  read_memory(thread, user.rsp, &caller, sizeof caller);
  return {user.rip - 1, caller, user.orig_rax, {user.rdi, user.rsi, user.rdx, user.r10, user.r8}};
}
void pass_trap(pid_t) {}
#else
const uint32_t processor = AUDIT_ARCH_AARCH64;
user_regs_struct user_registers_of(pid_t thread) {
  user_regs_struct user = {};
  iovec room = {&user, sizeof user};
  ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &room);
  return user;
}
Registers registers_of(pid_t thread) {
  const user_regs_struct user = user_registers_of(thread);
  const auto& its = user.regs;
  return {user.pc, its[30], its[8], {its[0], its[1], its[2], its[3], its[4]}};
}
void pass_trap(pid_t thread) {
  user_regs_struct user = user_registers_of(thread);
  user.pc += 4;
  iovec room = {&user, sizeof user};
  ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &room);
}
#endif

// Where a file lies in a process.
struct Mapping {
  uint64_t begin, end, offset;
  int file;
};
std::map<pid_t, std::vector<Mapping>> known_mappings;  // as a thread was seen to have them

// Of the files, all but vmmsim itself are there, so there will be no more.
bool is_complete(const std::vector<Mapping>& mappings) {
  std::vector<bool> is_there(files.size());
  for (const Mapping& mapping : mappings) is_there[size_t(mapping.file)] = true;
  return std::count(is_there.begin(), is_there.end(), true) + 1 >= ptrdiff_t(files.size());
}

std::vector<Mapping>& read_mappings(pid_t thread) {
  char path[32], line[4352];
  std::vector<Mapping>& known = known_mappings[thread];
  known.clear();
  std::snprintf(path, sizeof path, "/proc/%d/maps", thread);
  FILE* const maps = std::fopen(path, "re");
  while (maps && std::fgets(line, sizeof line, maps)) {
    unsigned long begin = 0, end = 0, offset = 0;
    int name = 0;
    std::sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &begin, &end, &offset, &name);
    line[std::strcspn(line, "\n")] = '\0';
    const auto found = std::find(files.begin(), files.end(), line + name);
    if (found != files.end()) known.push_back({begin, end, offset, int(found - files.begin())});
  }
  if (maps) std::fclose(maps);
  return known;
}

bool has_link(const char* path, const std::string& to) {
  char name[4096];
  const ssize_t size = readlink(path, name, sizeof name);
  return size == ssize_t(to.size()) && !std::memcmp(name, to.data(), to.size());
}

bool is_still_there(pid_t thread, const Mapping& mapping) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", thread, mapping.begin, mapping.end);
  return has_link(path, files[size_t(mapping.file)]);
}

// The mapping of a file in which an address lies, or nullptr.
const Mapping* mapping_of(pid_t thread, uint64_t address) {
  const auto in = [address](const std::vector<Mapping>& all) -> const Mapping* {
    const auto has = [address](const Mapping& one) { return one.begin <= address && address < one.end; };
    const auto found = std::find_if(all.begin(), all.end(), has);
    return found == all.end() ? nullptr : &*found;
  };
  const std::vector<Mapping>& known = known_mappings[thread];
  const Mapping* const found = in(known);
  return (found ? is_still_there(thread, *found) : is_complete(known)) ? found : in(read_mappings(thread));
}

void write_record(const char* text, size_t size) {
  while (size) {
    const ssize_t written = write(record, text, size);
    if (written < 0 && errno != EINTR) _exit(125);  // the judge has gone
    if (written > 0) text += written, size -= size_t(written);
  }
}

// Whether a call may have ended with this line: it goes on after a `wait`.
bool write_line(pid_t thread, uint64_t size, uint64_t from) {
  static char line[1 << 20];
  static const char wait[] = "\"call\":\"wait\"";
  if (size > sizeof line || !read_memory(thread, from, line, size)) return false;
  write_record(line, size);
  return !memmem(line, std::min(size, uint64_t(200)), wait, sizeof wait - 1);
}

// --- The simulated machine, from outside ----------------------------------------------------------------------------
// Files of vmmsim, the ledger by the layout in vmmsim/simulator/memory/ledger.h. That and the memory of GPUs lie in the
// process, too, so it could write there: but then they are not, when a call begins, what they were after the last.

struct Failure {  // as in Options
  char call[64];
  uint64_t number;
  int32_t process, error;
  uint64_t later;
};
const off_t of_counters = 16, of_failure = of_counters + 8;
using Frames = std::map<uint64_t, uint64_t>;  // of all GPUs: what is written there, in 64 bits

struct Gpu {
  int file;
  const uint64_t* memory;  // all of it
};

struct Machine {
  int ledger = -1;
  std::vector<Gpu> gpus;
  char constants[4096];
  bool is_known = false;  // what memory was after the last call, when this much work had been done
  int64_t work = 0;
  Frames memory;
  std::map<pid_t, std::string> calling;  // threads, and what
  bool was_changed = false;
} machine;

// Fletcher's, in rows that the processor adds at once; a page that was never written is as one of zeros. What is summed
// up is mapped, not copied: a lab may ask hundreds of times for a hundred MiB.
uint64_t sum_of(const Gpu& gpu, off_t begin, off_t end) {
  const ptrdiff_t rows = 16;
  uint64_t sums[rows] = {}, sums_of_sums[rows] = {}, all = 0;
  for (off_t at = begin; at < end;) {
    const off_t data = lseek(gpu.file, at, SEEK_DATA), next = data < 0 ? end : std::min(data, end);
    for (ptrdiff_t row = 0; row < rows; ++row) sums_of_sums[row] += sums[row] * uint64_t((next - at) / (rows * 8));
    at = next < end ? std::min(lseek(gpu.file, next, SEEK_HOLE), end) : end;
    for (const uint64_t* word = gpu.memory + next / 8; word < gpu.memory + at / 8; word += rows)
      for (ptrdiff_t row = 0; row < rows; ++row) sums_of_sums[row] += sums[row] += word[row];
  }
  for (ptrdiff_t row = 0; row < rows; ++row) all = (all + sums[row]) * 0x9e3779b97f4a7c15 + sums_of_sums[row] * 3;
  return all;
}

Frames written_frames() {
  const off_t frame = 2 << 20;
  Frames all;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
    for (off_t at = 0; (at = lseek(machine.gpus[gpu].file, at, SEEK_DATA)) >= 0; at += frame) {
      at -= at % frame;
      if (const uint64_t sum = sum_of(machine.gpus[gpu], at, at + frame)) all[uint64_t(gpu) << 48 | uint64_t(at)] = sum;
    }
  return all;
}

// How much work has begun and ended, or -1: some goes on.
int64_t work_done() {
  uint32_t begun_ended[2] = {0, 1};
  if (pread(machine.ledger, begun_ended, sizeof begun_ended, of_counters) < 0) fail("pread");
  return begun_ended[0] == begun_ended[1] ? int64_t(begun_ended[0]) : -1;  // a condition of both types is unsigned
}

// All that was there is: memory may have been given back, and then it is cleared.
bool is_same(const Frames& before, const Frames& now) {
  for (const auto& [at, sum] : now)
    if (const auto was = before.find(at); was == before.end() || was->second != sum) return false;
  return true;
}

void look_at_constants() {
  static char now[sizeof machine.constants];
  if (pread(machine.ledger, now, sizeof now, 0) < 0) fail("pread");
  std::memcpy(now + of_counters, machine.constants + of_counters, of_failure - of_counters);
  machine.was_changed |= std::memcmp(now, machine.constants, sizeof now) != 0;
}

// Calls that write to no memory of GPUs, but that they may clear it.
bool is_quiet(const std::string& call) {
  for (const char* const begin : {"cuMemAddress", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
                                  "cuMemGetA", "cuMemRelease", "cuMemRetain", "cuMemExport", "cuMemImport",
                                  "cuPointerGet", "cuDeviceGet", "cudaDeviceCanAccess", "cudaGetDevice"})
    if (!call.compare(0, std::strlen(begin), begin)) return true;
  return false;
}

void look_before_call(pid_t thread, const std::string& call) {
  if (machine.ledger < 0) return;
  const bool was_changed = machine.was_changed;
  look_at_constants();
  if (machine.is_known && machine.calling.empty() && !is_quiet(call) && work_done() == machine.work) {
    const bool same = is_same(machine.memory, written_frames());
    machine.was_changed |= !same && work_done() == machine.work;
  }
  if (machine.was_changed && !was_changed) write_record("CHANGED\n", 8);
  machine.calling[thread] = call;
}

void look_after_call(pid_t thread) {
  if (machine.ledger < 0) return;
  const auto call = machine.calling.find(thread);
  const bool was_quiet = call != machine.calling.end() && is_quiet(call->second);
  if (call != machine.calling.end()) machine.calling.erase(call);
  if (was_quiet) return;
  machine.work = work_done();
  machine.is_known = machine.calling.empty() && machine.work >= 0;
  if (machine.is_known) machine.memory = written_frames();
  machine.is_known &= work_done() == machine.work;
}

// --fail, which vmmsim has read: the process is to learn of it in the call that fails, and not before.
struct {
  Failure asked = {};
  uint64_t count = 0;
  std::vector<pid_t> processes;  // in the order of their first calls
} failure;

// Takes the words of a process out of /proc.
void hide_words(pid_t process) {
  char path[32], line[1024] = "";
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE* const stat = std::fopen(path, "re");
  const char* at = stat && std::fgets(line, sizeof line, stat) ? std::strrchr(line, ')') : nullptr;
  if (stat) std::fclose(stat);
  for (int field = 2; at && field < 48; ++field) at = std::strchr(at + 1, ' ');
  unsigned long begin = 0, end = 0;
  if (!at || std::sscanf(at, "%lu %lu", &begin, &end) != 2 || end <= begin) fail("no words to hide");
  std::vector<char> blank(end - begin);
  const iovec here = {blank.data(), blank.size()}, there = {reinterpret_cast<void*>(begin), blank.size()};
  if (process_vm_writev(process, &here, 1, &there, 1, 0) != ssize_t(blank.size())) fail("process_vm_writev");
}

void take_failure(pid_t vmmsim) {
  const Failure none = {};
  if (pread(machine.ledger, &failure.asked, sizeof none, of_failure) < 0) fail("pread");
  if (!failure.asked.number) return;
  if (pwrite(machine.ledger, &none, sizeof none, of_failure) < 0) fail("pwrite");
  for (const pid_t process : {vmmsim, getpid()}) hide_words(process);
}

// Opens the files of vmmsim, if it has them by now.
void open_machine(pid_t vmmsim) {
  char path[64], name[64];
  std::map<int, int> memory;
  for (int fd = 0, owner = 0; fd < 256; ++fd) {
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", vmmsim, fd);
    const ssize_t size = readlink(path, name, sizeof name - 1);
    name[size > 0 ? size : 0] = '\0';
    if (!std::strcmp(name, "/memfd:vmmsim-ledger (deleted)")) machine.ledger = open(path, O_RDWR | O_CLOEXEC);
    if (std::sscanf(name, "/memfd:vmmsim-memory-%d", &owner) == 1) memory[owner] = open(path, O_RDONLY | O_CLOEXEC);
  }
  if (machine.ledger < 0) return;
  memory.erase(std::prev(memory.end()));  // the host's, which a program may write to
  for (const auto& [owner, file] : memory) {
    struct stat about = {};
    if (fstat(file, &about)) fail("fstat");
    void* const mapped = mmap(nullptr, size_t(about.st_size), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) fail("mmap");
    machine.gpus.push_back({file, static_cast<const uint64_t*>(mapped)});
  }
  take_failure(vmmsim);
  if (pread(machine.ledger, machine.constants, sizeof machine.constants, 0) < 0) fail("pread");
}

pid_t process_of(pid_t thread) {
  char path[32], line[128];
  int process = thread;
  std::snprintf(path, sizeof path, "/proc/%d/status", thread);
  FILE* const status = std::fopen(path, "re");
  while (status && std::fgets(line, sizeof line, status) && std::sscanf(line, "Tgid: %d", &process) != 1) {
  }
  if (status) std::fclose(status);
  return process;
}

void let_fail(pid_t thread, const std::string& call) {
  Failure told = failure.asked;
  if (!told.number) return;
  const pid_t process = process_of(thread);
  auto& all = failure.processes;
  if (std::find(all.begin(), all.end(), process) == all.end()) all.push_back(process);
  if (told.process && (size_t(told.process) > all.size() || all[size_t(told.process) - 1] != process)) return;
  if (call != told.call || ++failure.count < told.number || (failure.count > told.number && !told.later)) return;
  told.number = 1;         // the next of this name ...
  told.process = -thread;  // ... that this thread makes
  std::memcpy(machine.constants + of_failure, &told, sizeof told);
  if (pwrite(machine.ledger, &told, sizeof told, of_failure) < 0) fail("pwrite");
}

// Whether a thread has stopped at a trap of the judge's.
bool is_at_trap(pid_t thread) {
  const Registers now = registers_of(thread);
  const Mapping* const mapping = mapping_of(thread, now.trap);
  if (!mapping) return false;
  const std::string& name = names[{mapping->file, now.trap - mapping->begin + mapping->offset}];
  const bool is_called_by_simulator = mapping_of(thread, now.caller);
  const bool is_line = name == "line";
  if (is_line && is_called_by_simulator) {
    if (write_line(thread, now.argument[1], now.argument[2]))  // a string_view: its size and its text
      look_after_call(thread);
  } else if (!is_line && !is_called_by_simulator) {
    look_before_call(thread, name);
    const std::string text = "CALL " + std::to_string(thread) + " " + name + "\n";
    write_record(text.data(), text.size());
    let_fail(thread, name);
  }
  pass_trap(thread);
  return true;
}

// Before a thread makes memory executable, or memory that it could not write: the simulator's stays as it is, but that
// the loader puts a file's own code into its place.
void guard_code(pid_t thread) {
  const Registers now = registers_of(thread);
  const uint64_t first = now.argument[0], last = first + now.argument[1];
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", thread, int(now.argument[4]));
  const std::vector<Mapping>& known = known_mappings[thread];
  for (const Mapping& mapping : is_complete(known) ? known : read_mappings(thread)) {
    const bool is_own = now.number == SYS_mmap && has_link(path, files[size_t(mapping.file)]);
    if (first < mapping.end && mapping.begin < last && !is_own) kill(thread, SIGKILL);
  }
}

// What would lead out of the witness's sight: a child that is not traced, a namespace with another /proc, code that is
// executable without being asked for. And guard_code() sees who makes code executable.
void restrict_calls() {
  const auto low = [](int argument) { return uint32_t(offsetof(seccomp_data, args[0]) + argument * sizeof(uint64_t)); };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, processor, 0, 17),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 15, 0),  // calls of x32
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 16, 0),  // its flags are in memory; libc takes clone then
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 13, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 12, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 11, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 10, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pkey_mprotect, 2, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 7, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC | PROT_WRITE, 5, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(0)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_UNTRACED | CLONE_NEWUSER, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
  };
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) fail("PR_SET_SECCOMP");
}

pid_t start(char** words) {
  int begins[2];
  char byte = 0;
  if (pipe(begins)) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    close(begins[1]);
    if (read(begins[0], &byte, 1) != 1) _exit(125);
    close(begins[0]);
    close(record);
    restrict_calls();
    execv(words[0], words);
    fail(words[0]);
  }
  const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP;
  if (ptrace(PTRACE_SEIZE, child, 0, options)) fail("PTRACE_SEIZE");
  if (prctl(PR_SET_DUMPABLE, 0)) fail("PR_SET_DUMPABLE");  // its descriptors are nobody else's
  if (write(begins[1], &byte, 1) != 1) fail("write");
  close(begins[0]), close(begins[1]);
  return child;
}

void let_go_on(pid_t program, pid_t thread, int status) {
  const int signal = WSTOPSIG(status), event = status >> 16;
  if (event == PTRACE_EVENT_SECCOMP) guard_code(thread);
  if (event == PTRACE_EVENT_EXEC) known_mappings.erase(thread);
  if (event == PTRACE_EVENT_EXEC && machine.ledger < 0) open_machine(program);
  const bool has_stopped = event == PTRACE_EVENT_STOP && signal != SIGTRAP;  // by SIGSTOP or the like
  const bool is_ours = event || (signal == SIGTRAP && is_at_trap(thread));
  ptrace(has_stopped ? PTRACE_LISTEN : PTRACE_CONT, thread, 0, is_ours ? 0 : signal);
}

int main(int, char** words) {
  read_names(*++words);
  for (++words; *words && std::strcmp(*words, "--"); ++words) files.push_back(*words);
  const pid_t program = start(words + 1);
  struct sigaction interrupts = {};
  interrupts.sa_handler = [](int) {};
  sigaction(SIGALRM, &interrupts, nullptr);
  for (int result = 125, status = 0;;) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) return errno == EINTR ? left : result;  // who is left gets a second, and ends with this process
    if (WIFSTOPPED(status)) let_go_on(program, thread, status);
    else machine.calling.erase(thread), known_mappings.erase(thread);
    if (thread != program || WIFSTOPPED(status)) continue;
    result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    alarm(1);
  }
}
