// SPDX-License-Identifier: MIT-0
// 05 Fabric over MPI: how bytes get from rank to rank, and what each rank does. fabric.cu includes this file when it is
// built with -DFABRIC_WITH_MPI. Build it alone, with the options that `mpicxx -show` prints in place of the dots:
//   nvcc -std=c++17 -DFABRIC_WITH_MPI fabric.cu -o fabric_mpi -lcuda ...
#pragma once
#include <mpi.h>
#include <unistd.h>
#include <cstring>

static void print_now() {  // mpirun forwards what each rank prints: give it the time to keep the order
  std::fflush(stdout);
  usleep(200000);
}

// `peer` is the rank of the other process.
static void send_bytes(int peer, const void* bytes, size_t size) {
  print_now();
  MPI_Send(bytes, int(size), MPI_BYTE, peer, 0, MPI_COMM_WORLD);
}

static bool receive_bytes(int peer, void* bytes, size_t size) {
  MPI_Recv(bytes, int(size), MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return true;  // if the other rank has ended, MPI ends this one
}

static void end_both(int status, void*) {  // who skips or fails ends the other rank, too
  print_now();
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
}

static int in_two_processes(int, char**, void (*exporter)(int peer), int (*importer)(int peer)) {
  int rank, ranks;
  MPI_Init(nullptr, nullptr);
  on_exit(end_both, nullptr);
  alarm(30);  // ends a rank that waits for one that is silent
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (ranks != 2) check::end(2, "fabric_mpi: needs two ranks, not %d", ranks);
  if (rank == 0) {
    exporter(1);
    std::puts("OK");
  } else {
    importer(0);
  }
  return MPI_Finalize();
}
