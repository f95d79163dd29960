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

// What most tries work with: memory of GPU 0 of one granule, with access for GPU 0.
struct Granule {
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
  size_t size = 0;
};

// How most tries start: checks support, and makes GPU 0 the current device.
inline Granule start_on_gpu_0() {
  Granule granule;
  int supported = 0;
  check::require_gpus(1);
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  REQUIRE(supported, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
  CHECK(cudaSetDevice(0));
  granule.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  granule.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  granule.properties.location.id = 0;
  granule.access.location = granule.properties.location;
  granule.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemGetAllocationGranularity(&granule.size, &granule.properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return granule;
}

// Starts a process that does `work` with what `start` returns there. It is forked before CUDA starts in this one, and a
// signal ends it after so many seconds: nobody waits for ever.
template <class Start, class Work> pid_t begin_process(Start start, Work work, unsigned seconds = 60) {
  std::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, nobody can be waited for
  const pid_t child = fork();
  EXPECT(child >= 0, "there is no new process: %s", std::strerror(errno));
  if (child > 0) return child;
  alarm(seconds);
  work(start());
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

template <class Start, class Work> void in_a_process(Start start, Work work) {
  end_process(begin_process(start, work));
}
