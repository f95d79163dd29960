// SPDX-License-Identifier: MIT-0
// Printed: does not compile: too few arguments to function 'int MPI_Recv
// Right: compiles
#include <cuda.h>
#include <mpi.h>

void receive(CUmemFabricHandle* shareable, int sender) {
#ifdef AS_PRINTED
  MPI_Recv(shareable, sizeof *shareable, MPI_BYTE, sender, 0, MPI_COMM_WORLD);
#else
  MPI_Recv(shareable, sizeof *shareable, MPI_BYTE, sender, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
}
