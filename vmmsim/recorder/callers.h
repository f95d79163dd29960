// SPDX-License-Identifier: MIT-0
// Who has called: the frames of this thread, by file and offset.
#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace recorder {

// The files that this process has loaded. One thread at a time.
class Modules {
 public:
  // {"module":...} lines for files that callers() of these addresses names first, and the callers: "growable+0x1234",
  // ..., as JSON, the innermost first. The frames of the driver, of CUPTI, of CUDA's runtime and of this library are
  // left out.
  // Behind them the lines of Python.
  std::string callers(const std::vector<uintptr_t>& frames, const std::vector<std::string>& of_python,
                      std::string& lines);
  void load();  // anew, if files have come or gone

 private:
  struct Module {
    uintptr_t begin, end, base;
    std::string path, name;
    bool is_of_cuda;
  };
  const Module* with(uintptr_t address) const;

  std::vector<Module> modules_;
  std::set<std::string> named_;  // paths
  unsigned long long loaded_ = ~0ull, unloaded_ = ~0ull;
};

// The addresses to which the functions on this thread's stack return: about so many that are not of CUDA. To find one
// takes about a microsecond.
std::vector<uintptr_t> frames(size_t most);

}  // namespace recorder
