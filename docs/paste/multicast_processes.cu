// SPDX-License-Identifier: MIT-0
#ifndef VMM_MULTICAST_PROCESSES_CU
#define VMM_MULTICAST_PROCESSES_CU

#include "meet.cu"
#include "multicast.cu"
#include "send_fd.cu"
#include "share_fd.cu"

#include <cstdlib>
#include <thread>
#include <vector>

// A multicast object over one process a GPU: each of n ranks calls join_team, join_multicast, leave_multicast and
// leave_team, and what one of them does every other does too. One thread at a time for a team. No function needs a
// context; cuInit must have been called for join_multicast.
//
// No rank waits for ever. Where the ranks meet they tell each other how it went, so an error of one is returned by all:
// the first rank's that has one. OPERATING_SYSTEM (304) if a rank has gone, or was silent for so long; see errno.
// After an error leave the team: a rank that came late would be taken for one of the next meeting.

struct Team {
  int rank = -1, n = 0, milliseconds = 0, meetings = 0;
  std::vector<int> sockets;  // of rank 0 one to each other rank, of another rank one to rank 0
};

inline void leave_team(Team* team) {
  for (int each : team->sockets) close(each);
  *team = {};
}

// All ranks of one user and machine meet at this path, in a directory that is theirs alone; rank 0 makes the socket,
// and removes it when all are there. milliseconds: how long to wait here, and at each later meeting. False: see errno,
// ETIMEDOUT if a rank is missing, EADDRINUSE if the path is there, EPERM if another user's process listens there;
// nothing stays, and *team is empty.
inline bool join_team(Team* team, const char* path, int rank, int n, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  Team made;
  made.rank = rank, made.n = n, made.milliseconds = milliseconds;
  int error = 0;
  if (rank == 0) {
    const int listener = listen_at(path);
    if (listener < 0) return false;
    while (static_cast<int>(made.sockets.size()) < n - 1 && !error) {
      const int socket = accept_own(listener, milliseconds_until(deadline));
      if (socket >= 0) made.sockets.push_back(socket);
      else if (errno != EPERM) error = errno;  // another user's process was turned away
    }
    unlink(path);
    close(listener);
  } else {
    const int socket = connect_to(path, milliseconds);
    if (socket >= 0) made.sockets.push_back(socket);
    else error = errno;
  }
  if (error) {
    leave_team(&made);
    errno = error;
    return false;
  }
  *team = made;
  return true;
}

// How one rank fares at the meeting of this number; rank 0's answer, how all do.
struct Report {
  int meeting;
  CUresult result;
};

inline bool send_report(int socket, const Report& report) {
  return send(socket, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof report;
}

inline bool receive_report(int socket, Report* report, int meeting, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (!wait_for(socket, deadline)) return false;
    const ssize_t bytes = recv(socket, report, sizeof *report, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes == sizeof *report && report->meeting == meeting) return true;
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (bytes >= 0) errno = bytes == 0 ? ECONNRESET : EPROTO;
    return false;
  }
}

// A barrier that carries errors: waits until each rank has said how it went, and returns SUCCESS if it went well with
// all. Rank 0 waits team->milliseconds for the others, and they twice as long for its answer.
inline CUresult meet(Team* team, CUresult mine) {
  Report all = {++team->meetings, mine}, other;
  const auto patience = std::chrono::milliseconds(team->milliseconds) * (team->rank == 0 ? 1 : 2);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  int error = errno;
  if (team->rank == 0) {
    for (int each : team->sockets) {
      const bool came = receive_report(each, &other, all.meeting, deadline);
      if (!came) error = errno, other.result = CUDA_ERROR_OPERATING_SYSTEM;
      if (all.result == CUDA_SUCCESS) all.result = other.result;
    }
    const Report answer = all;
    for (int each : team->sockets) {
      if (send_report(each, answer) || all.result != CUDA_SUCCESS) continue;
      error = errno, all.result = CUDA_ERROR_OPERATING_SYSTEM;  // the others learn of it at the next meeting
    }
  } else if (send_report(team->sockets[0], all) && receive_report(team->sockets[0], &other, all.meeting, deadline)) {
    all.result = other.result;
  } else {
    error = errno;
    if (mine == CUDA_SUCCESS) all.result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  errno = error;
  return all.result;
}

// What a rank has of it. own: its memory, for ordinary loads and stores. mc: the same bytes of all ranks, for multimem
// instructions alone. size: bytes of each.
struct MulticastPart {
  CUmemGenericAllocationHandle object = 0, memory = 0;
  CUdeviceptr own = 0, mc = 0;
  size_t size = 0;
  int gpu = -1;
  bool bound = false;
};

// Gives back what this rank has, without a word to the others. Goes on after an error, and returns the first; what the
// driver refused to take is still in *part, for another call.
inline CUresult undo_part(MulticastPart* part) {
  CUresult first = CUDA_SUCCESS;
  const auto done = [&](CUresult result) {
    if (first == CUDA_SUCCESS) first = result;
    return result == CUDA_SUCCESS;
  };
  if (part->mc && done(unmap_multicast(part->mc, part->size))) part->mc = 0;
  if (part->own && done(unmap_multicast(part->own, part->size))) part->own = 0;
  if (part->bound && done(cuMulticastUnbind(part->object, part->gpu, 0, part->size))) part->bound = false;
  if (part->bound) return first;  // the driver holds the memory
  if (part->memory && done(cuMemRelease(part->memory))) part->memory = 0;
  if (part->object && done(cuMemRelease(part->object))) part->object = 0;
  return first;
}

// Rank 0: the object for all of them, and a descriptor of it.
inline CUresult create_team_object(MulticastPart* part, int* fd, int n, size_t wanted) {
  CUmulticastObjectProp prop = {};
  CUresult result = multicast_size(&prop.size, wanted, n);
  if (result != CUDA_SUCCESS) return result;
  prop.numDevices = n;
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // it cannot be asked for later
  CUmemGenericAllocationHandle object;
  if ((result = cuMulticastCreate(&object, &prop)) != CUDA_SUCCESS) return result;
  part->object = object;
  part->size = prop.size;
  return cuMemExportToShareableHandle(fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

// Each rank, when all have added their GPUs: memory of its own, bound and mapped.
inline CUresult bind_part(MulticastPart* part) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // like the object's
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = part->gpu;
  CUmemGenericAllocationHandle memory;
  CUresult result = cuMemCreate(&memory, part->size, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  part->memory = memory;
  if ((result = cuMulticastBindMem(part->object, 0, memory, 0, part->size, 0)) != CUDA_SUCCESS) return result;
  part->bound = true;
  result = map_multicast(&part->own, memory, part->size, part->gpu);
  return result != CUDA_SUCCESS ? result : map_multicast(&part->mc, part->object, part->size, part->gpu);
}

// Each rank, with a GPU of its own: takes part in an object over all, for at least `wanted` bytes, which rank 0 says.
// When it returns SUCCESS all have bound their memory, and a store through mc reaches it. What is in the memory is
// undefined. Error: a rank's, NOT_SUPPORTED if a GPU has no multicast, or a rank was started with NCCL_NVLS_ENABLE=0,
// by which a site refuses it: then none has made a multicast call. All is undone, and *part is as before.
inline CUresult join_multicast(MulticastPart* part, Team* team, size_t wanted, int gpu) {
  MulticastPart made;
  made.gpu = gpu;
  const char* site = getenv("NCCL_NVLS_ENABLE");
  int able = 0, fd = -1;
  CUresult mine = CUDA_ERROR_NOT_SUPPORTED;
  if (!site || strtol(site, nullptr, 0)) {
    mine = cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpu);
    if (mine == CUDA_SUCCESS && !able) mine = CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult result = meet(team, mine);
  if (result == CUDA_SUCCESS && team->rank == 0) mine = create_team_object(&made, &fd, team->n, wanted);
  if (result == CUDA_SUCCESS) result = meet(team, mine);
  if (result == CUDA_SUCCESS) {
    if (team->rank == 0) {
      for (int each : team->sockets)
        if (!send_fd(each, fd, made.size)) mine = CUDA_ERROR_OPERATING_SYSTEM;
    } else {
      uint64_t size = 0;
      const int received = receive_fd(team->sockets[0], &size, team->milliseconds);
      mine = received < 0 ? CUDA_ERROR_OPERATING_SYSTEM : import_and_close(&made.object, received);
      made.size = size;
    }
    result = meet(team, mine);
  }
  if (fd >= 0) close(fd);
  if (result == CUDA_SUCCESS) result = meet(team, cuMulticastAddDevice(made.object, gpu));  // before anybody binds
  if (result == CUDA_SUCCESS) result = meet(team, bind_part(&made));                        // before anybody stores
  if (result == CUDA_SUCCESS) *part = made;
  else undo_part(&made);
  return result;
}

// Each rank, when its own kernels are done: waits until all have come, for their kernels may write to its memory, and
// gives all of it back. Error: OPERATING_SYSTEM if a rank did not come, else the driver's; call undo_part for the rest.
inline CUresult leave_multicast(MulticastPart* part, Team* team) {
  const CUresult met = meet(team, CUDA_SUCCESS), undone = undo_part(part);
  return met != CUDA_SUCCESS ? met : undone;
}

#endif
