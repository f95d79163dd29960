// SPDX-License-Identifier: MIT-0
#include "host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace host_memory {
namespace {

// The number that follows a word in a file of the kernel, or its first number if the word is "". `otherwise`: it has
// none.
uint64_t number_in(const std::string& file, const std::string& word, uint64_t otherwise) {
  std::ifstream in(file);
  std::string read;
  while (read != word && in >> read) continue;
  uint64_t number = 0;
  return in >> number ? number : otherwise;
}

// What a cgroup's limit leaves; files that are only cached do not count, for they give way.
uint64_t left_in(const std::string& cgroup, bool is_v2) {
  const uint64_t limit = number_in(cgroup + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"), "", UINT64_MAX);
  uint64_t used = number_in(cgroup + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"), "", 0);
  for (const char* kind : {"inactive_file", "active_file"}) {
    const std::string name = is_v2 ? kind : std::string("total_") + kind;
    used -= std::min(used, number_in(cgroup + "/memory.stat", name, 0));
  }
  return limit - std::min(limit, used);
}

}  // namespace

uint64_t available() {
  const auto of_machine = [](const char* name) { return number_in("/proc/meminfo", name, 0) << 10; };
  uint64_t least = of_machine("MemAvailable:") + of_machine("SwapFree:");
  if (number_in("/proc/sys/vm/overcommit_memory", "", 0) == 2) {  // no page is given that was not promised
    const uint64_t limit = of_machine("CommitLimit:"), promised = of_machine("Committed_AS:");
    least = std::min(least, limit - std::min(limit, promised));
  }
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {  // "4:memory:/a/b", or of version 2 "0::/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",memory,") == controllers.npos) continue;
    const std::string root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string path = line.substr(second + 1); !path.empty(); path.resize(path.rfind('/')))
      least = std::min(least, left_in(root + (path == "/" ? "" : path), is_v2));
    least = std::min(least, left_in(root, is_v2));
  }
  return least;
}

uint64_t kills() { return number_in("/proc/vmstat", "oom_kill", 0); }

}  // namespace host_memory
