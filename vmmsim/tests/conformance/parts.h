// SPDX-License-Identifier: MIT-0
// Conformance programs whose questions may crash or never be answered: they are asked in parts, each in a process of
// its own, and where one crashes its part is run again without that question.
#pragma once
#include "conformance.h"

#include <map>
#include <sstream>
#include <string>
#include <type_traits>

#include <sys/mman.h>

// What questions of this part ended with when it ran before, by how much it had said until then.
inline std::map<long, int>& crashes() {
  static std::map<long, int> all;
  return all;
}

// Asks what may crash, or wait for ever, in a part that run_part() runs: such a question's answer is the signal.
template <class Call>
void ask(const std::string& what, Call call) {
  std::printf("%s: ", what.c_str());
  std::fflush(stdout);
  const auto crash = crashes().find(lseek(STDOUT_FILENO, 0, SEEK_CUR));
  if (crash != crashes().end()) return void(std::printf("signal %d\n", crash->second));
  alarm(20);
  const auto answer = call();
  alarm(60);  // and what comes next waits for another process at most so long
  if constexpr (std::is_same_v<decltype(answer), const std::string>) std::printf("%s\n", answer.c_str());
  else std::printf("%s\n", check::name(answer));
  if constexpr (std::is_same_v<decltype(answer), const cudaError_t>) cudaGetLastError();
}

// Runs this program again with `part`. If a question of it crashes, the part is run from its begin without asking that.
inline void run_part(const std::string& part) {
  std::string crashed;  // "120 11 400 14"
  for (long said = -1;;) {
    const int output = memfd_create("output", 0);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      dup2(output, STDOUT_FILENO);
      execl("/proc/self/exe", "conformance", part.c_str(), crashed.c_str(), nullptr);
      _exit(126);
    }
    int status = 0;
    EXPECT(output >= 0 && child > 0 && waitpid(child, &status, 0) == child, "no child process");
    const long size = lseek(output, 0, SEEK_END);
    std::string text(size_t(size), 0);
    EXPECT(pread(output, text.data(), text.size(), 0) == size, "no output");
    close(output);
    const bool in_a_question = WIFSIGNALED(status) && size > said && size > 2 && text.substr(size_t(size) - 2) == ": ";
    if (in_a_question) {
      crashed += std::to_string(size) + ' ' + std::to_string(WTERMSIG(status)) + ' ';
      said = size;
      continue;
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (WIFSIGNALED(status)) say("\n" + part, "signal " + std::to_string(WTERMSIG(status)));
    else if (WEXITSTATUS(status)) say("\n" + part, "exit " + std::to_string(WEXITSTATUS(status)));
    return;
  }
}

// What a part finds in its second argument.
inline void note_crashes(const std::string& argument) {
  std::istringstream all(argument);
  for (long said, signal; all >> said >> signal;) crashes()[said] = int(signal);
}

// The sections of a program as such parts, with `set_up` before each.
inline int run_parts(int argc, char** argv, void (*set_up)()) {
  for (const Section& each : sections())
    if (argc > 1 && argv[1] == each.name) return note_crashes(argc > 2 ? argv[2] : ""), set_up(), each.run(), 0;
  check::require_gpus(1);
  for (const Section& each : sections()) section(each.name), run_part(each.name);
  return std::puts("OK"), 0;
}
