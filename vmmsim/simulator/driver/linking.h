// SPDX-License-Identifier: MIT-0
// What cuLinkComplete makes of texts of PTX, and where programs read what is wrong with theirs.
#pragma once
#include <cuda.h>

#include <set>
#include <string>
#include <vector>

#include "../ptx/ptx.h"

namespace driver {

// Where a program wants to read what is wrong with its PTX: among the options of cuLinkCreate or cuModuleLoadDataEx.
class Logs {
 public:
  Logs(unsigned count, const CUjit_option* names, void** values);  // empties them; throws Refused
  void write(const std::string& text, bool counts_end = false);    // of errors, cut to its size

 private:
  char* buffer_ = nullptr;
  unsigned size_ = 0;
  void** written_ = nullptr;  // where the program finds how much that was
};

struct Part {
  std::string name, text;
};

// What cuLinkComplete gives for these texts: no machine code but an image of the simulator's own, a header and for each
// part its name and its text, each ended by a zero.
struct LinkedHeader {
  char magic[8];
  uint64_t size;  // of what follows
};
std::string linked_image(const std::vector<Part>&);
bool is_linked_image(const void* image);
// Of an image of at most this size. Throw ptx::Error.
std::vector<Part> parts_of(const void* image, size_t most);
ptx::Module read_linked_image(const void* image, size_t most);

// What is used and not there, "" for nothing. The driver has some functions itself.
std::string undefined(const ptx::Linker&, std::set<std::string> provided = {});
std::string undefined_but_launches(const ptx::Linker&);

}  // namespace driver
