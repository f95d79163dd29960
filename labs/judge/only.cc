// SPDX-License-Identifier: MIT-0
// only PROGRAM [ARGUMENTS]: runs a program, which then can start no other one, nor itself again.
//
// The filter is there before the program, and holds for all its threads and children. It lets one execve through: that
// with numbers which nobody knows any more when the program begins, in arguments that the kernel does not look at.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#ifdef __x86_64__
const uint32_t processor = AUDIT_ARCH_X86_64;
#else
const uint32_t processor = AUDIT_ARCH_AARCH64;
#endif
const uint32_t of_x32 = 0x40000000;  // system calls from here on are those of another set, with an execve of its own

int end(const char* what) {
  std::fprintf(stderr, "only: %s: %s\n", what, std::strerror(errno));
  return 125;
}

int main(int count, char** words) {
  uint32_t secret[4];
  if (count < 2) return 125;
  if (getrandom(secret, sizeof secret, 0) != sizeof secret) return end("getrandom");
  const uint32_t third = offsetof(seccomp_data, args[3]);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, processor, 0, 13),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, of_x32, 11, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 10, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 8),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, secret[0], 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, secret[1], 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third + 8),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, secret[2], 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third + 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, secret[3], 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  uint64_t known[2];
  std::memcpy(known, secret, sizeof known);  // in the order of bytes of both processors
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return end("PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return end("PR_SET_SECCOMP");
  syscall(SYS_execve, words[1], words + 1, environ, known[0], known[1]);
  return end(words[1]);
}
