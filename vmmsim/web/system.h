// SPDX-License-Identifier: MIT-0
// What emscripten lacks of Linux and of the library of 2022, so that ../simulator/memory compiles for a browser as it
// is. There is one process with one thread. Addresses and sizes have 64 bits; pointers have 32, and none of those that
// memory/ hands out is followed: memory has no bytes here, only its addresses, its owners and its rights.
//
// It goes before each file (-include), and its macros come after the headers that they would upset.
#pragma once
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace std::ranges {
template <class Range, class Holds> auto count_if(const Range& range, Holds holds) {
  return std::count_if(range.begin(), range.end(), holds);
}
}  // namespace std::ranges

// A size has 64 bits, and so has a CUdeviceptr, which cuda.h gives to Windows and LP64 alone.
#define size_t uint64_t
#define _WIN64
#include <cuda.h>
#undef _WIN64
#define __x86_64__  // processor.h: addresses of 47 bits

// The ledger is the one file, which lies in memory; what it would share with other processes nobody else has.
constexpr int only_file = 3;
void* map_file(void* wished, uint64_t size, int file);
long read_file(void* to, uint64_t size);
int set_unlocked(int file, int command, ...);
inline long random_bytes(void* to, uint64_t size) {
  std::memset(to, 7, size);  // no other machine's handles come here
  return long(size);
}
inline long system_call(long number, ...) { return number ? -1 : only_file; }

#define mmap(wished, size, protection, flags, file, offset) map_file(wished, size, file)
#define munmap(...) 0
#define msync(...) -1  // the host has memory nowhere
#define madvise(...) 0
#define memfd_create(...) only_file
#define ftruncate(...) 0
#define fallocate(...) 0
#define pread(file, to, size, offset) read_file(to, size)
#define fcntl set_unlocked
#define getrandom(to, size, flags) random_bytes(to, size)
#define prctl(...) 0
#define pthread_atfork(...) 0
#define pthread_mutexattr_setrobust(...) 0
#define pthread_mutex_consistent(...) 0
#define syscall system_call
#define TEMP_FAILURE_RETRY(call) (call)
#define SEEK_DATA 3
#define SEEK_HOLE 4
#define FUTEX_WAIT 0
#define FUTEX_WAKE 0
using dirent64 = dirent;

enum {
  SYS_openat,  // the only one that answers
  SYS_read,
  SYS_recvfrom,
  SYS_recvmsg,
  SYS_poll,
  SYS_select,
  SYS_ppoll,
  SYS_pselect6,
  SYS_epoll_wait,
  SYS_epoll_pwait,
  SYS_futex,
  SYS_wait4,
  SYS_waitid,
  SYS_rt_sigsuspend,
  SYS_nanosleep,
  SYS_lseek,
  SYS_getdents64,
  SYS_gettid,
  SYS_pidfd_open
};
