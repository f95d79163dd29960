// SPDX-License-Identifier: MIT-0
// A line of a trace and the file that it goes to. README.md says what its members and the kinds of change are.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include "json.h"

namespace trace {

// Of schema.json: the version of a trace, and the kinds of change. A test holds them together.
inline constexpr char version[] = "1";
inline constexpr std::string_view kinds[] = {
    "create", "import", "multicast_create", "retain", "release", "export",   "reserve", "free_reservation", "map",
    "unmap",  "access", "add_device",       "bind",   "unbind",  "allocate", "free",    "open_pool",        "peer",
    "gone"};

struct Kind {
  std::string_view name;
  consteval Kind(const char* name) : name(name) {
    for (const std::string_view known : kinds)
      if (known == name) return;
    throw "no kind of change";  // does not compile
  }
};

// One of a line's changes. `order`: its sequence number in this process.
std::string change(Kind, const std::vector<Member>&, uint64_t order);

uint64_t microseconds();  // of the clock that all processes of a host share, and that only goes forward

// All are JSON, but for `call` and `result`, which are names. The first line of a process has the version, too. It owns
// nothing.
struct Line {
  uint64_t number;
  uint64_t time = microseconds();
  uint64_t began = 0;        // 0: not known
  uint64_t correlation = 0;  // CUPTI's, of a call that may give a GPU work; 0: none
  const char* call;
  uint64_t nth;
  const char* callers = R"(["unknown"])";
  int device = -1;
  const char* arguments = "{}";
  const char* result = "";
  const char* outputs = "{}";
  const char* changes = "[]";
  const char* explanation = R"("")";
  const char* fault = "";  // none
  pid_t process = 0;       // that it is of; 0: the one that writes it
  pid_t thread = 0;        // the same
};

// Of the thread that asks: as much of the line and its end as fits, and a zero. Returns the size of the whole without
// the zero. Async-signal-safe: takes neither memory nor a lock.
size_t write_line(const Line&, char* room, size_t size);
std::string text_of(const Line&);

// Writes all of it, or returns errno. That the other end of a pipe was closed, or a file has become too large, sends
// no signal. Async-signal-safe.
int write_all(int descriptor, std::string_view text);

// Several processes may write to one. It is thread-safe and async-signal-safe.
class File {
 public:
  explicit File(int descriptor);  // opened with O_APPEND; stays open
  // Writes whole lines at once: whatever ends the process, they are in the file, and in one piece, whoever else writes.
  // Returns 0; or, once, errno for why the trace ends here: EBADF if the program has closed the file. Then nothing is
  // written any more.
  int write(std::string_view lines);
  void end() { is_open_ = false; }
  bool is_open() const { return is_open_; }

 private:
  const int descriptor_;
  struct stat identity_ = {};  // the program may close the descriptor and open another with its number
  std::atomic<bool> is_open_;
};

}  // namespace trace
