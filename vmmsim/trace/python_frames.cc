// SPDX-License-Identifier: MIT-0
// Most libraries let go of Python's lock before they call CUDA, so other threads may run Python meanwhile. What
// Python's interface has for frames makes objects and counts references, which needs the lock; and to wait for the lock
// in here could last for ever. But this thread's own frames stay as they are until the call returns. So they are read
// where they lie, and nothing is changed. The offsets are those of Python's headers, the same for all of a minor
// release.
#include "python_frames.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace trace {
namespace {

constexpr int deepest = 256;  // frames that are looked at
constexpr size_t most = 8;    // that are named

// In bytes. none: there is no such member.
constexpr int none = -1;
struct Layout {
  int minor;
  int thread_frame, nested_frame;  // PyThreadState: the innermost frame, or what points to it at nested_frame
  int code, previous, instruction;
  int code_begin;  // PyCodeObject: its instructions. none: `instruction` is the number of one
  int filename, name;
};
constexpr std::array<Layout, 4> layouts = {{
    {10, 24, none, 32, 24, 96, none, 104, 112},
    {11, 56, 8, 32, 48, 56, 184, 112, 120},
    {12, 56, 0, 0, 8, 56, 192, 112, 120},
    {13, 72, none, 0, 8, 56, 200, 112, 120},
}};

// What of Python's own functions needs no lock.
struct Python {
  const Layout* layout = nullptr;
  int (*is_initialized)() = nullptr;
  void* (*thread_state)() = nullptr;
  int (*line)(void* code, int offset) = nullptr;
  ssize_t (*length)(void* text) = nullptr;
  uint32_t (*letter)(void* text, ssize_t index) = nullptr;
  void* type_of_code = nullptr;

  Python() {
    const char* (*version)() = nullptr;
    if (!find("Py_GetVersion", version) || !find("Py_IsInitialized", is_initialized) ||
        !find("PyGILState_GetThisThreadState", thread_state) || !find("PyCode_Addr2Line", line) ||
        !find("PyUnicode_GetLength", length) || !find("PyUnicode_ReadChar", letter) ||
        !find("PyCode_Type", type_of_code) || dlsym(RTLD_DEFAULT, "_Py_NegativeRefcount"))  // of a debug build
      return;
    int minor = 0;
    if (std::sscanf(version(), "3.%d.", &minor) != 1 || std::strstr(version(), "free-threading")) return;
    for (const Layout& known : layouts)
      if (known.minor == minor) layout = &known;
  }
  template <class Pointer> static bool find(const char* name, Pointer& pointer) {
    pointer = reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, name));
    return pointer;
  }
};

template <class Value> Value at(const void* object, int offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

std::string bytes_of(const Python& python, void* text) {
  std::string all;
  const ssize_t length = python.length(text);
  for (ssize_t i = 0; i < length; ++i) {
    const uint32_t letter = python.letter(text, i);
    if (letter < 0x80 || (letter >= 0xdc80 && letter <= 0xdcff)) {  // the second: a byte of a path that is no UTF-8
      all += char(letter & 0xff);
      continue;
    }
    const int more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    all += char((0xff00 >> (more + 1) & 0xff) | letter >> 6 * more);
    for (int byte = more - 1; byte >= 0; --byte) all += char(0x80 | (letter >> 6 * byte & 0x3f));
  }
  return all;
}

bool is_of_a_package(const std::string& path) {
  return path.find("-packages/") != path.npos || path.find("/lib/python3") != path.npos;
}

int line_of(const Python& python, void* frame, void* code) {
  const Layout& layout = *python.layout;
  if (layout.code_begin == none) return python.line(code, at<int>(frame, layout.instruction) * 2);
  const auto begin = reinterpret_cast<intptr_t>(code) + layout.code_begin;
  return python.line(code, int(at<intptr_t>(frame, layout.instruction) - begin));
}

void* innermost(const Python& python) {
  void* const thread = python.layout && python.is_initialized() ? python.thread_state() : nullptr;
  if (!thread) return nullptr;
  void* const frame = at<void*>(thread, python.layout->thread_frame);
  return frame && python.layout->nested_frame != none ? at<void*>(frame, python.layout->nested_frame) : frame;
}

// No static variable's guard: a child forked while another thread looks Python up would wait for that thread for ever.
const Python& python_of_process() {
  static std::atomic<const Python*> shared = nullptr;
  if (const Python* const known = shared) return *known;
  const Python* const found = new Python;
  const Python* first = nullptr;
  if (shared.compare_exchange_strong(first, found)) return *found;
  delete found;
  return *first;
}

}  // namespace

std::vector<std::string> python_frames() {
  const Python& python = python_of_process();
  std::vector<std::string> found;
  void* frame = innermost(python);
  for (int depth = 0; frame && depth < deepest && found.size() < most; ++depth) {
    void* const code = at<void*>(frame, python.layout->code);
    const bool is_code = code && at<void*>(code, sizeof(void*)) == python.type_of_code;  // behind the references
    const std::string path = is_code ? bytes_of(python, at<void*>(code, python.layout->filename)) : "";
    if (path.starts_with('/') && (found.empty() || !is_of_a_package(path)))  // "<stdin>" and the like have no file
      found.push_back(path + ":" + std::to_string(line_of(python, frame, code)) + ":" +
                      bytes_of(python, at<void*>(code, python.layout->name)));
    frame = at<void*>(frame, python.layout->previous);
  }
  return found;
}

}  // namespace trace
