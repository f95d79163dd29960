// SPDX-License-Identifier: MIT-0
// The machine that is simulated.
#pragma once
#include <cstdint>
#include <string>

namespace memory {

// What a machine is: read from a file of lines "key = value", '#' starts a comment (machines/*.conf). Plain data: it
// lies in memory that processes share.
struct Machine {
  char name[64] = "NVIDIA H200";     // key: name
  int gpus = 8;                      // gpus: of one node, 0 to 64
  int nodes = 1;                     // nodes: machines joined by one NVLink domain, 1 to 16
  uint64_t memory = 0;               // memory: bytes of each GPU, a multiple of 2 MiB ("140 GiB")
  int capability = 90;               // compute_capability: 9.0
  int multiprocessors = 132;         // multiprocessors
  int driver = 13000;                // driver: 13.0, as cuDriverGetVersion says it
  int cliques = 1;                   // cliques: parts of a node's GPUs that share no multicast object, 1 to 64
  int multicast_slots = 0;           // multicast_slots: objects that memory is bound to at once, at most; 0: no limit
  int most_peers = 0;                // most_peers: GPUs that a GPU can be joined with at once, 0 to 64; 0: no limit
  uint64_t bar1 = 0;                 // bar1: bytes of a GPU that others see at once, if less than all; 0: all
  uint64_t largest_reservation = 0;  // largest_reservation: bytes; 0: no limit
  // granularity, multicast_granularity: powers of two, 2 MiB at least
  uint64_t granularity = 2 << 20, multicast_granularity = 2 << 20;
  bool vmm = true, fd_handles = true, fabric_handles = true, fabric_channel = true, multicast = true, rdma = true,
       compression = true, peer_access = true, peer_atomics = true, fabric_ready = true, fabric_in_sync = true,
       pool_fds = true,       // yes or no, by these names
      one_way_peers = false;  // a GPU reaches those of higher numbers, and not the other way round

  bool reaches(int gpu, int peer) const { return peer_access && (!one_way_peers || gpu < peer); }
};

// Reads a machine's file. Throws std::runtime_error: "FILE:3: memory: ...".
Machine read_machine(const std::string& file);
// "141 GiB", "512MiB", "1048576" -> bytes. Throws std::runtime_error.
uint64_t read_bytes(const std::string& text);
uint64_t read_size(const std::string& text);  // of memory: likewise, rounded down to 2 MiB

}  // namespace memory
