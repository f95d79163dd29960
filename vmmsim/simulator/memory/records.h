// SPDX-License-Identifier: MIT-0
// Records of the ledger and frames of physical memory: taken, held, and given back with the last holder.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include "ledger.h"
#include "memory.h"
#include "page_table.h"

namespace memory {

// The contents of a handle that programs hand on as so many bytes, and the other way round.
template <class To, class From> To bytes_as(const From& from) {
  To to = {};
  std::memcpy(&to, &from, std::min(sizeof to, sizeof from));
  return to;
}

uint64_t new_key() REQUIRES(ledger().lock);  // unlike any other
// Unheld and still unused. Refuses where the ledger is full: `name` is what it has no line for.
uint32_t new_record(Record::Kind, const char* name) REQUIRES(process_lock, ledger().lock);
void drop_record(uint32_t) REQUIRES(ledger().lock);  // a new one that is not needed
// False: there are not so many.
bool take_frames(Record&, int gpu, uint64_t size) REQUIRES(process_lock, ledger().lock);
void sweep() REQUIRES(process_lock, ledger().lock);                            // gives back what nobody holds any more
bool is_held(uint32_t record, bool by_others = false) REQUIRES(process_lock);  // by a process or an exported descriptor
void acquire_record(uint32_t record) REQUIRES(process_lock);                   // by this process, once more; refuses
// Once less; the last of all holders gives it back.
void release_record(uint32_t record) REQUIRES(process_lock) EXCLUDES(ledger().lock);
void remove_binding(uint32_t binding) REQUIRES(process_lock, ledger().lock);
int export_record(uint32_t record);                                    // a descriptor that holds it; refuses
uint32_t exported_record(int fd);                                      // invalid_index: not of this machine
int export_dma_buf(std::span<const uint32_t> records, uint64_t size);  // a descriptor that holds them all; refuses
void give_back_exported();                                             // what nobody holds any more
void leave() REQUIRES(process_lock);  // in a child made by fork: lets go of the parent's files

// Calls `work` with the bytes in this process of each frame of an allocation, in order. The allocation is held.
char* gpu_memory(int gpu) REQUIRES(process_lock);  // where a GPU's file is mapped; refuses the first time
template <class Work>
void for_each_frame(const Record& record, Work work) REQUIRES(process_lock) {
  char* const bytes = gpu_memory(record.gpu);
  const uint32_t* const next = ledger().frames_of(record.gpu);
  for (uint32_t frame = record.first_frame; frame != invalid_index; frame = next[frame])
    work(bytes + frame * page_size);
}

// Lets the host touch an allocation at an address, as PROT_... says. False where a process has no mapping to spare.
bool show_to_host(const Record&, uint64_t address, int protection) REQUIRES(process_lock);

}  // namespace memory
