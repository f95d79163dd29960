// SPDX-License-Identifier: MIT-0
// witness FILE OFFSET ... -- COMMAND: runs vmmsim and a student's program, and writes the record of the calls.
//
// The first process of a sandbox. All others run under ptrace, and have no way to the record. In the simulator's FILEs
// the judge has put a trap at the beginning of each call and, at OFFSET, where a line of the trace is handed over
// (sandbox.py). A line that code of these files hands over is read out of the process into the record. A call that
// other code makes is "CALL thread file offset" there, before its line: the judge compares.
#include <elf.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

const int record = 8, left = 251;  // OF_TRACE of program.py, LEFT of sandbox.py
struct File {
  const char* path;
  uint64_t writer;  // the offset of the function that gets a line; 0: none
};
File files[4];
int file_count = 0;

[[noreturn]] void fail(const char* call) {
  std::fprintf(stderr, "witness: %s: %s\n", call, std::strerror(errno));
  _exit(125);
}

bool read_memory(pid_t thread, uint64_t from, void* to, size_t size) {
  const iovec here = {to, size}, there = {reinterpret_cast<void*>(from), size};
  return process_vm_readv(thread, &here, 1, &there, 1, 0) == ssize_t(size);
}

// Of a stopped thread, at the beginning of a function or of a system call.
struct Registers {
  uint64_t trap, caller, argument[3];
};
#ifdef __x86_64__
const uint32_t processor = AUDIT_ARCH_X86_64;
Registers registers_of(pid_t thread) {
  user_regs_struct user = {};
  iovec room = {&user, sizeof user};
  ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &room);
  uint64_t caller = 0;
  read_memory(thread, user.rsp, &caller, sizeof caller);
  return {user.rip - 1, caller, {user.rdi, user.rsi, user.rdx}};
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
  return {user.pc, user.regs[30], {user.regs[0], user.regs[1], user.regs[2]}};
}
void pass_trap(pid_t thread) {
  user_regs_struct user = user_registers_of(thread);
  user.pc += 4;
  iovec room = {&user, sizeof user};
  ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &room);
}
#endif

// Calls visit(begin, end, offset, file) for each mapping of a file.
template <class Visit> void each_mapping(pid_t thread, const Visit& visit) {
  char path[32], line[4352];
  std::snprintf(path, sizeof path, "/proc/%d/maps", thread);
  FILE* const maps = std::fopen(path, "re");
  while (maps && std::fgets(line, sizeof line, maps)) {
    unsigned long begin = 0, end = 0, offset = 0;
    int name = 0;
    std::sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &begin, &end, &offset, &name);
    line[std::strcspn(line, "\n")] = '\0';
    for (int file = 0; file < file_count; ++file)
      if (!std::strcmp(line + name, files[file].path)) visit(begin, end, offset, file);
  }
  if (maps) std::fclose(maps);
}

void write_record(const char* text, size_t size) {
  while (size) {
    const ssize_t written = write(record, text, size);
    if (written < 0 && errno != EINTR) _exit(125);  // the judge has gone
    if (written > 0) text += written, size -= size_t(written);
  }
}

void write_line(pid_t thread, uint64_t size, uint64_t from) {
  static char line[1 << 20];
  if (size <= sizeof line && read_memory(thread, from, line, size)) write_record(line, size);
}

// Whether a thread has stopped at a trap of the judge's.
bool is_at_trap(pid_t thread) {
  const Registers now = registers_of(thread);
  int file = -1;
  uint64_t offset = 0;
  bool is_called_by_simulator = false;
  each_mapping(thread, [&](uint64_t begin, uint64_t end, uint64_t at, int of) {
    if (begin <= now.trap && now.trap < end) file = of, offset = now.trap - begin + at;
    is_called_by_simulator |= begin <= now.caller && now.caller < end;
  });
  if (file < 0) return false;
  const bool is_line = offset == files[file].writer;
  char text[80];
  if (is_line && is_called_by_simulator) {
    write_line(thread, now.argument[1], now.argument[2]);  // a string_view: its size and its text
  } else if (!is_line && !is_called_by_simulator) {
    write_record(text, size_t(std::snprintf(text, sizeof text, "CALL %d %d %lu\n", thread, file, offset)));
  }
  pass_trap(thread);
  return true;
}

// Before a thread makes memory executable: the simulator's code stays as it is.
void guard_code(pid_t thread) {
  const Registers now = registers_of(thread);
  const uint64_t first = now.argument[0], last = first + now.argument[1];
  each_mapping(thread, [&](uint64_t begin, uint64_t end, uint64_t, int) {
    if (first < end && begin < last) kill(thread, SIGKILL);
  });
}

// What would lead out of the witness's sight: a child that is not traced, a namespace with another /proc, code that is
// executable without being asked for. And guard_code() sees who makes code executable.
void restrict_calls() {
  const auto low = [](int argument) { return uint32_t(offsetof(seccomp_data, args[0]) + argument * sizeof(uint64_t)); };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, processor, 0, 13),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 11, 0),  // calls of x32
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 12, 0),  // its flags are in memory; libc takes clone then
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 9, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 8, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pkey_mprotect, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 5, 3),
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

void let_go_on(pid_t thread, int status) {
  const int signal = WSTOPSIG(status), event = status >> 16;
  if (event == PTRACE_EVENT_SECCOMP) guard_code(thread);
  const bool has_stopped = event == PTRACE_EVENT_STOP && signal != SIGTRAP;  // by SIGSTOP or the like
  const bool is_ours = event || (signal == SIGTRAP && is_at_trap(thread));
  ptrace(has_stopped ? PTRACE_LISTEN : PTRACE_CONT, thread, 0, is_ours ? 0 : signal);
}

int main(int, char** words) {
  for (++words; *words && std::strcmp(*words, "--"); words += 2)
    files[file_count++] = {words[0], std::strtoull(words[1], nullptr, 10)};
  const pid_t program = start(words + 1);
  struct sigaction interrupts = {};
  interrupts.sa_handler = [](int) {};
  sigaction(SIGALRM, &interrupts, nullptr);
  for (int result = 125, status = 0;;) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) return errno == EINTR ? left : result;  // who is left gets a second, and ends with this process
    if (WIFSTOPPED(status)) let_go_on(thread, status);
    if (thread != program || WIFSTOPPED(status)) continue;
    result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    alarm(1);
  }
}
