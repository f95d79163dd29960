// SPDX-License-Identifier: MIT-0
// The ledger: what all processes of a simulated machine know of its physical memory. It is one file in memory, made by
// vmmsim, and one more for each GPU that holds its bytes. Who holds an allocation holds a lock on its line of the
// ledger through an open file: the kernel takes the lock away with the last copy of the file, in whatever process or
// message it was, so that memory is free again when its last holder is gone, however it went.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include "machine.h"

namespace memory {

// Makes a machine's files. vmmsim keeps them open for as long as it lives; programs find them through the value of the
// environment variable VMMSIM that this returns. Throws std::runtime_error.
std::string create_machine(const Machine&, const Options&, const std::string& trace_file);
// For vmmsim, which has made the machine: bytes of this machine's memory that its frames take, those once touched.
uint64_t touched_bytes();

// The machine that this process runs on. A process that vmmsim did not start ends with a message and status 125.
const Machine& machine();
const Options& options();
// The node of this process: VMMSIM_NODE, or mpirun's PMI_RANK, OMPI_COMM_WORLD_RANK or PMIX_RANK, modulo the nodes.
int node();
int trace_file();  // a descriptor, or -1
// The environment is read and files are opened past libc, whose functions the driver replaces (driver/loaded.cc).
const char* environment(const char* name);  // null: there is no such variable
// Counts the calls named --fail's CALL, over all processes: true for the one that must fail.
bool must_fail(const char* call);

}  // namespace memory
