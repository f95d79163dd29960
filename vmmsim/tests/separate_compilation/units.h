// SPDX-License-Identifier: MIT-0
// What the units of the program share. Each is compiled by itself and linked with the others on the device, too.
#pragma once
#include <cuda_runtime.h>

extern __device__ int counter;            // in library.cu
extern __constant__ int table[4];         // in library.cu
extern __device__ int* where_counter_is;  // in other.cu
__device__ int scaled(int);               // in library.cu, which calls its own static function
__device__ int sum_of_block(int);         // in other.cu, in shared memory of its own and of the launch

// In each unit that uses it, and once in the program.
template <class T> __device__ T uses = T(100);
template <class T> __global__ void use(T* out) { *out = ++uses<T>; }
inline __device__ int twice(int x) { return 2 * x; }

int from_other();    // what a kernel of other.cu gives
int from_library();  // and of library.cu
int use_in_other();
