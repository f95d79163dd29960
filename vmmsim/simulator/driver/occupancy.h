// SPDX-License-Identifier: MIT-0
// How many blocks of a kernel fit on a multiprocessor, and what clusters of them a launch may have.
#pragma once
#include <optional>

#include "modules.h"
#include "work.h"

namespace driver {

// As many as its threads, registers and shared memory allow.
int blocks_that_fit(const CUfunc_st&, int block_size, size_t dynamic_shared);
int blocks_that_fit(CUfunction, int block_size,
                    size_t dynamic_shared);         // of a size that a program gives; throws Refused
size_t shared_of_multiprocessor(const CUfunc_st&);  // bytes, by the kernel's preferred carveout

Attributes attributes_of(const CUlaunchConfig&);  // of several with one number the last; throws Refused

// The size of a launch's clusters: what its attributes ask for, or what the kernel was compiled for. Throws Refused.
std::optional<gpu::Dimensions> cluster_of(const CUfunc_st&, const Attributes&);
bool lacks_clusters(const CUfunc_st&, const Attributes&);  // the kernel needs a size that is not among these
unsigned most_in_cluster(const CUfunc_st&);
void require_cluster(const CUfunc_st&, const gpu::Dimensions& size, const gpu::Dimensions& grid);  // throws Refused

}  // namespace driver
