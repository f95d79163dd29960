// SPDX-License-Identifier: MIT-0
// The machine that this process runs on: what it is, and which options vmmsim was given. Both stand in the ledger, the
// file that vmmsim makes for all processes of a machine; how that is laid out says ledger.h.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include "machine.h"
#include "options.h"

namespace memory {

// Makes a machine's files. vmmsim keeps them open for as long as it lives; programs find them through the value of the
// environment variable VMMSIM that this returns. Throws std::runtime_error.
std::string create_machine(const Machine&, const Options&, const std::string& trace_file);
// For vmmsim, which has made the machine: bytes of this machine's memory that its frames take, those once touched.
uint64_t touched_bytes();

// Why this process is on no machine, for instance because vmmsim did not start it: cuInit says so. Empty: it is on one.
const std::string& reason_without_machine();
bool lacks_memory_for_machine();  // whether that is why
// The machine that this process runs on, or one without GPUs.
const Machine& machine();
const Options& options();
// The node of this process: VMMSIM_NODE, or mpirun's PMI_RANK, OMPI_COMM_WORLD_RANK or PMIX_RANK, modulo the nodes.
int node();
int trace_file();                                // a descriptor, or -1
constexpr char worker_name[] = "vmmsim worker";  // of each thread that runs kernels
// The environment is read and files are opened past libc, whose functions are replaced (interposed.cc).
const char* environment(const char* name);  // null: there is no such variable
// The place of this process in the order of their first calls; a forked child is another.
int nth_process();
// Counts the calls named --fail's CALL, over all processes: true for the one that must fail.
bool count_for_fail(const char* call);
void note_work(bool begins);  // that may write to memory of GPUs; or its end

}  // namespace memory
