// SPDX-License-Identifier: MIT-0
#include "callers.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "../../trace/python_frames.h"
#include "../../trace/text.h"
#include "../elf_file.h"
#include "driver.h"

namespace driver {

std::string text_of(const Caller& caller) {
  const auto& [file, offset] = caller;
  return offset ? file.substr(file.rfind('/') + 1) + "+" + hexadecimal(offset) : file;
}

Callers callers() {
  struct Found {
    const void* file = nullptr;
    Callers all;
  } found;
  auto look = [](_Unwind_Context* frame, void* result) -> _Unwind_Reason_Code {
    Dl_info here, that;
    auto& [file, all] = *static_cast<Found*>(result);
    const uintptr_t address = _Unwind_GetIP(frame);
    if (!address || !dladdr(reinterpret_cast<void*>(&set_fault), &here)) return _URC_END_OF_STACK;
    if (!dladdr(reinterpret_cast<void*>(address - 1), &that)) return _URC_NO_REASON;
    if (that.dli_fbase == here.dli_fbase || (file && that.dli_fbase != file)) return _URC_NO_REASON;
    const std::string_view path = that.dli_fname, name = path.substr(path.rfind('/') + 1);
    if (name.starts_with("libcudart.so") || name.starts_with("libvmmsim_")) return _URC_NO_REASON;
    all.push_back({std::string(path), address - reinterpret_cast<uintptr_t>(that.dli_fbase)});
    file = that.dli_fbase;
    return _URC_NO_REASON;
  };
  _Unwind_Backtrace(look, &found);
  for (const std::string& frame : trace::python_frames()) found.all.push_back({frame});
  return found.all;
}

// --- Lines of sources ------------------------------------------------------------------------------------------------

namespace {

struct Line {
  std::string path;
  std::string number;
};
using Lines = std::map<uint64_t, std::vector<Line>>;  // by address, the innermost of inlined functions first

// What a tool writes that reads these lines, in an environment without vmmsim; "" if it is not there. Through files in
// memory, so that neither waits for the other.
std::string answer_of(std::vector<const char*> command, const std::string& lines) {
  const int in = memfd_create("vmmsim-question", MFD_CLOEXEC), out = memfd_create("vmmsim-answer", MFD_CLOEXEC);
  std::string answer, path = "PATH=";
  if (const char* const ours = std::getenv("PATH")) path += ours;
  char* const environment[] = {path.data(), nullptr};
  command.push_back(nullptr);
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&streams, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  if (in >= 0 && out >= 0 && pwrite(in, lines.data(), lines.size(), 0) == ssize_t(lines.size()) &&
      !posix_spawnp(&child, command[0], &streams, nullptr, const_cast<char**>(command.data()), environment)) {
    (void)TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
    answer.resize(size_t(std::max<off_t>(0, lseek(out, 0, SEEK_END))));
    answer.resize(size_t(std::max<ssize_t>(0, pread(out, answer.data(), answer.size(), 0))));
  }
  posix_spawn_file_actions_destroy(&streams);
  for (const int fd : {in, out})
    if (fd >= 0) close(fd);
  return answer;
}

Lines lines_of(const char* file, const std::set<uint64_t>& addresses) {
  std::string question;
  for (const uint64_t address : addresses) question += hexadecimal(address) + "\n";
  const std::string answer = answer_of({"addr2line", "-a", "-i", "-e", file}, question);
  if (answer.empty()) log_once("no lines of sources can be told: addr2line is missing: install binutils");
  Lines found;
  std::vector<Line>* at = nullptr;
  for (size_t begin = 0, end; (end = answer.find('\n', begin)) != answer.npos; begin = end + 1) {
    const std::string line = answer.substr(begin, end - begin);
    const size_t colon = line.rfind(':', line.find(" (discriminator"));
    if (line.starts_with("0x")) at = &found[std::strtoull(line.c_str(), nullptr, 16)];
    else if (at && colon != line.npos && std::atoi(line.c_str() + colon + 1) > 0)
      at->push_back({line.substr(0, colon), std::to_string(std::atoi(line.c_str() + colon + 1))});
  }
  return found;
}

// The functions at these addresses, as the linker knows them.
std::map<uint64_t, std::string> functions_at(const ElfFile& file, const std::set<uint64_t>& addresses) {
  std::map<uint64_t, std::string> found;
  for (const unsigned table : {SHT_SYMTAB, SHT_DYNSYM})
    file.each_symbol(table, [&](std::string_view name, const Elf64_Sym& symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return;
      const auto end = addresses.lower_bound(symbol.st_value + symbol.st_size);
      for (auto at = addresses.lower_bound(symbol.st_value); at != end; ++at)
        found.emplace(*at, demangled(std::string(name)));
    });
  return found;
}

// What is known of a file's places, by their offsets.
struct Places {
  Lines lines;
  std::map<uint64_t, std::string> functions;
};
Places places_in(const std::string& name, const std::set<uint64_t>& offsets) {
  Dl_info program = {};
  dladdr(reinterpret_cast<const void*>(getauxval(AT_PHDR)), &program);
  const bool is_program = program.dli_fname && name == program.dli_fname;  // that may be relative to where it began
  const std::string path = is_program ? "/proc/" + std::to_string(getpid()) + "/exe" : name;
  const ElfFile file(path.c_str());
  if (!file.is_elf()) return {};
  std::set<uint64_t> addresses;
  for (const uint64_t offset : offsets) addresses.insert(file.first_address() + offset - 1);  // in the call
  Lines lines;
  if (!file.section(".debug_line").empty()) lines = lines_of(path.c_str(), addresses);
  Places found;
  for (const auto& [address, inlined] : lines) found.lines[address + 1 - file.first_address()] = inlined;
  for (const auto& [address, function] : functions_at(file, addresses))
    found.functions[address + 1 - file.first_address()] = function;
  return found;
}

bool is_own_source(const std::string& path) {  // and neither the system's nor a package's, as trace/recording.py has it
  static constexpr std::string_view begins[] = {"/usr/include/", "/usr/lib/", "/usr/local/include/", "/usr/local/cuda"},
                                    parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3", "-linux/include/"};
  return std::ranges::none_of(begins, [&](std::string_view begin) { return path.starts_with(begin); }) &&
         std::ranges::none_of(parts, [&](std::string_view part) { return path.find(part) != path.npos; }) &&
         access(path.c_str(), R_OK) == 0;
}

std::string in_words(const Line& line) { return "at " + std::string(short_path(line.path)) + ":" + line.number; }

std::string place_in_words(const Callers& stack, const std::map<std::string, Places>& known) {
  std::vector<Line> lines;
  std::string function, place;
  for (const Caller& caller : stack) {
    const auto& [file, offset] = caller;
    if (!offset) {  // "/home/me/program.py:12:main"
      const size_t second = file.rfind(':'), first = file.rfind(':', second - 1);
      lines.push_back({file.substr(0, first), file.substr(first + 1, second - first - 1)});
      continue;
    }
    const Places& places = known.at(file);
    if (const auto at = places.lines.find(offset); at != places.lines.end())
      lines.insert(lines.end(), at->second.begin(), at->second.end());
    if (place.empty()) place = "at " + text_of(caller);
    if (const auto at = places.functions.find(offset); function.empty() && at != places.functions.end())
      function = "in " + at->second + " (" + text_of(caller) + ")";
  }
  const auto own = std::ranges::find_if(lines, [](const Line& line) { return is_own_source(line.path); });
  if (own != lines.end()) return in_words(*own);
  if (!lines.empty()) return in_words(lines.front());
  return function.empty() ? place : function;
}

}  // namespace

std::vector<std::string> places_of(const std::vector<Callers>& stacks) {
  std::map<std::string, std::set<uint64_t>> offsets;
  for (const Callers& stack : stacks)
    for (const auto& [file, offset] : stack)
      if (offset) offsets[file].insert(offset);
  std::map<std::string, Places> known;
  for (const auto& [file, all] : offsets) known[file] = places_in(file, all);
  std::vector<std::string> found;
  for (const Callers& stack : stacks) found.push_back(place_in_words(stack, known));
  return found;
}

}  // namespace driver
