// SPDX-License-Identifier: MIT-0
// Printed: runs under MPI, and prints: rank 1: nothing has come from rank 1
// Right: runs under MPI, and prints: rank 1: the handle of rank 0 is here
#include <cuda.h>
#include <mpi.h>
#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, here = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CUmemFabricHandle handle = {};
  MPI_Request sent = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Isend(&handle, sizeof handle, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &sent);
#ifdef AS_PRINTED
  const int source = 1;  // where the guide's receiver, which is rank 1, waits for ever
#else
  const int source = 0;
#endif
  if (rank == 1) {
    MPI_Status found;
    MPI_Probe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &found);  // the handle has come
    MPI_Iprobe(source, 0, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
    MPI_Recv(&handle, sizeof handle, MPI_BYTE, found.MPI_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (here) printf("rank 1: the handle of rank %d is here\n", source);
    else printf("rank 1: nothing has come from rank %d\n", source);
  }
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Finalize();
}
