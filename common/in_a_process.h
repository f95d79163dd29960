// SPDX-License-Identifier: MIT-0
// For the programs that make mistakes on purpose, NN_name_broken.cu, and for these only: each try has a process of its
// own, because a kernel that faults ends all CUDA work of its process. What the process still holds at its end, the
// driver takes back.
#pragma once
#include "check.h"

#include <cerrno>
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

// What a try works with: memory of GPU 0 of one granule, with access for GPU 0. A process sets these in start(), which
// is the program's own: it first checks support, and often starts with start_on_gpu_0().
inline CUmemAllocationProp properties;
inline CUmemAccessDesc descriptor;
inline size_t size;
static void start();

inline void start_on_gpu_0() {
  int supported = 0;
  check::require_gpus(1);
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  REQUIRE(supported, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
  CHECK(cudaSetDevice(0));
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  descriptor.location = properties.location;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

// Starts a process that does `work`. It is forked before CUDA starts in this one, and a signal ends it after so many
// seconds: nobody waits for ever.
template <class Work> pid_t begin_process(Work work, unsigned seconds = 60) {
  std::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, nobody can be waited for
  const pid_t child = fork();
  EXPECT(child >= 0, "there is no new process: %s", std::strerror(errno));
  if (child > 0) return child;
  alarm(seconds);
  start();
  work();
  std::exit(0);
}

// Waits for the end of a process. Returns its exit status, or 128 and the number of the signal that ended it.
inline int status_of(pid_t child) {
  int status = 0;
  EXPECT(TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) == child, "there is no process to wait for: %s",
         std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The same, and goes on if it ended well.
inline void end_process(pid_t child) {
  const int status = status_of(child);
  EXPECT(status < 128, "a process was ended by signal %d", status - 128);
  if (status != 0) std::exit(status);
}

template <class Work> void in_a_process(Work work) { end_process(begin_process(work)); }
