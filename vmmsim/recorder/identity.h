// SPDX-License-Identifier: MIT-0
// By what an importer's recorder knows an export again: a number that both have.
//
// Device and inode of a driver's descriptor are those of /dev/nvidiactl, whatever was exported, and its number is
// another one in another process. But whoever gets it has the same open file. So the exporter's recorder marks the file
// with what Linux keeps for it: its owner, and the signal that the owner gets where a program asks for signals
// (O_ASYNC), which no driver's file sends. A mark tells the process and its export, of the last 64. kcmp(2) compares
// open files without a mark, but wants the right to trace the exporter, and the exporter's descriptor still open: most
// programs close it once it is sent.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

namespace recorder {

// Marks the file of a descriptor, unless it has a mark or an owner; of the exports of this process the `nth`, from 0.
void mark(int descriptor, uint64_t nth);
std::optional<uint64_t> identity_of(int descriptor);   // its mark: none if there is none, or its process has ended
uint64_t identity_of(const void* bytes, size_t size);  // of what a fabric handle stands for

}  // namespace recorder
