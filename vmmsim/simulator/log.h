// SPDX-License-Identifier: MIT-0
// What the simulator says: a line on stderr, in one piece whatever other processes say, and the same line in the file
// of --log, which a test runner does not capture. Nothing here needs the C++ library (runtime/hook.cc, interposed.cc).
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

constexpr char log_variable[] = "VMMSIM_LOG";  // of the environment: the file's path

// `shown`: the line as the terminal takes it.
inline void write_log(const char* line, size_t size, const char* shown, size_t shown_size) {
  [[maybe_unused]] const auto written =
      TEMP_FAILURE_RETRY(write(STDERR_FILENO, shown, shown_size));  // or nobody listens
  const char* const path = getenv(log_variable);
  const int log = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (log < 0) return;
  [[maybe_unused]] const auto kept = TEMP_FAILURE_RETRY(write(log, line, size));
  close(log);
}

// A line without its end. Takes no memory.
[[gnu::format(printf, 1, 2)]] inline void log_line(const char* format, ...) {
  char line[8192] = "vmmsim: ";
  va_list more;
  va_start(more, format);
  std::vsnprintf(line + 8, sizeof line - 9, format, more);
  va_end(more);
  const size_t size = std::strlen(line);
  line[size] = '\n';
  write_log(line, size + 1, line, size + 1);
}
