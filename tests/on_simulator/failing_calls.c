// SPDX-License-Identifier: MIT-0
// A library to preload: lets one call of the C library fail, of all those of a program's processes. By variables:
//   FAILING_PROGRAM  the name of the program's file; other programs are left alone
//   FAILING_COUNTS   a file of zeros, in which calls are counted: a line of 32 bytes for each name
//   FAILING_CALL     open:2:24, the call, which one of it, and errno
// What it stands before are functions of up to six whole numbers or pointers, which all say -1 where they fail.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define F_OFD_SETLK 37  // fcntl.h declares functions that are here otherwise

#define CALLS                                                                                                     \
  CALL(open)                                                                                                      \
  CALL(open64)                                                                                                    \
  CALL(openat)                                                                                                    \
  CALL(memfd_create) CALL(ftruncate) CALL(mmap) CALL(mmap64) CALL(fallocate) CALL(fallocate64) CALL(fcntl)        \
      CALL(fcntl64) CALL(read) CALL(write) CALL(pipe2) CALL(fork) CALL(waitpid) CALL(socket) CALL(socketpair)     \
          CALL(setsockopt) CALL(bind) CALL(listen) CALL(accept) CALL(accept4) CALL(connect) CALL(poll) CALL(send) \
              CALL(recv) CALL(sendmsg) CALL(recvmsg)
#define CALL(name) of_##name,
enum { CALLS of_all };
#undef CALL

struct Line {
  char name[24];
  unsigned long calls;
};
typedef long Function(long, long, long, long, long, long);
extern char** environ;

static const char* variable(const char* name) {
  const size_t length = strlen(name);
  for (char** each = environ; each && *each; ++each)
    if (!strncmp(*each, name, length) && (*each)[length] == '=') return *each + length + 1;
  return NULL;
}

static Function* next(const char* name) { return (Function*)dlsym(RTLD_NEXT, name); }

// Where calls are counted; null: this program's are not. Called before a constructor could be, so it has none.
static struct Line* counts(void) {
  static struct Line* lines;
  static int is_known;
  if (is_known || !environ) return lines;
  is_known = 1;
  const char *const program = variable("FAILING_PROGRAM"), *const file = variable("FAILING_COUNTS");
  char path[4096] = "";
  if (!program || !file || next("readlink")((long)"/proc/self/exe", (long)path, sizeof path - 1, 0, 0, 0) < 0)
    return NULL;
  if (strcmp(strrchr(path, '/') + 1, program)) return NULL;
  const long fd = (int)next("open")((long)file, 2 /* O_RDWR */, 0, 0, 0, 0);
  lines = (struct Line*)next("mmap")(0, of_all * sizeof(struct Line), 3, 1 /* MAP_SHARED */, fd, 0);
  next("close")(fd, 0, 0, 0, 0, 0);
  return lines;
}

static int fails(int number, const char* name, long command) {
  struct Line* const lines = counts();
  if (!lines || (!strncmp(name, "fcntl", 5) && command != F_OFD_SETLK)) return 0;  // of fcntl's, what can fail
  strcpy(lines[number].name, name);
  const unsigned long count = __atomic_add_fetch(&lines[number].calls, 1, __ATOMIC_RELAXED);
  const char* const wanted = variable("FAILING_CALL");
  char call[24];
  unsigned long which;
  int error;
  if (!wanted || sscanf(wanted, "%23[^:]:%lu:%d", call, &which, &error) != 3) return 0;
  if (strcmp(call, name) || which != count) return 0;
  errno = error;
  return 1;
}

#define CALL(name)                                                          \
  long name(long a, long b, long c, long d, long e, long f) {               \
    return fails(of_##name, #name, b) ? -1 : next(#name)(a, b, c, d, e, f); \
  }
CALLS

long syscall(long number, long a, long b, long c, long d, long e, long f) {
  typedef long Syscall(long, long, long, long, long, long, long);
  if (number == SYS_openat && fails(of_openat, "openat", 0)) return -1;
  return ((Syscall*)next("syscall"))(number, a, b, c, d, e, f);
}
