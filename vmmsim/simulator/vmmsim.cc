// SPDX-License-Identifier: MIT-0
// vmmsim: starts a program on a simulated machine. It makes the machine, a few files in memory, and keeps them open;
// lets the loader take the simulator's libraries for the driver's and the toolkit's; and never starts a program that
// would get past them.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "../trace/line.h"
#include "elf_file.h"
#include "host_memory.h"
#include "memory/presence.h"
#include "memory/this_machine.h"
#include "ptx/ptx.h"
#include "runtime/known_runtimes.h"
#include "terminal.h"

namespace {

namespace fs = std::filesystem;

const char usage[] =
    "usage: vmmsim [options] [--] program [arguments]\n"
    "Runs a CUDA program on simulated GPUs, as nvcc has built it. What it starts runs on the same machine.\n"
    "  --gpus N             GPUs of a node, 0 to 64\n"
    "  --nodes N            nodes that share an NVLink domain, 1 to 16; ranks of mpirun are dealt out to them\n"
    "  --machine NAME       the machine: a name from below, or the path of a file like simulator/machines/h200x8.conf\n"
    "                       (default h200x8)\n"
    "  --memory SIZE        memory of a GPU, for instance 512MiB or 80GiB\n"
    "  --print-gpus         print how many GPUs a node then has, and run nothing\n"
    "  --strict             an ordinary access to a multicast address is a fault, and not only told\n"
    "  --warn-at SIZE       warn when simulated memory takes more of this machine's than this (default: four fifths\n"
    "                       of what there is)\n"
    "  --slow-after SECONDS say which kernel has run for so long, and how far it is (default 10)\n"
    "  --explain            say in words why a call was refused or a kernel faulted\n"
    "  --trace FILE         write each call, and what it changed, as a line of JSON\n"
    "  --log FILE           write each line of vmmsim on stderr into this file too: a test runner may keep stderr\n"
    "  --leaks              at its end, list what the program has not released, and the lines that made it\n"
    "  --fail CALL:N=ERROR  let the Nth call of CALL fail: cuMemCreate:2=CUDA_ERROR_OUT_OF_MEMORY; CALL:N+: each\n"
    "                       from the Nth on; CALL:N@K: the Nth of the Kth process, in the order of their first calls\n"
    "  --slow-import SECONDS\n"
    "                       let an import wait until the process that made the memory has ended or waits for another,\n"
    "                       SECONDS at most; SECONDS@K: an import of the Kth process, until all others have or do\n"
    "  --late-kernels MILLISECONDS\n"
    "                       let a kernel begin only when the program waits for it, or after so many MILLISECONDS;\n"
    "                       the trace tells of each that begins\n"
    "  --adversarial-timing what a program only hopes for is not so: a sleep, a limit or an alarm is over at once,\n"
    "                       a process ends 0.3 s late, and an exported descriptor has a number of its own\n"
    "  --unsupported fail|exit\n"
    "                       what a launch does of a kernel with an instruction that is not simulated, and the\n"
    "                       loading of machine code alone: answer an error (default), or end the program with 125\n"
    "exit status: the program's, 128 + N if signal N ended it; 2 bad arguments, 125 no simulation, 126 the\n"
    "program cannot be executed, 127 there is no such program\n";

void log(const std::string& text) { log_wrapped("vmmsim: " + text + "\n"); }

[[noreturn]] void end(int status, const std::string& reason) {
  log(reason);
  std::exit(status);
}

[[noreturn]] void bad_argument(const std::string& reason) {
  std::fprintf(stderr, "vmmsim: bad argument: %s (vmmsim --help lists the options)\n", reason.c_str());
  std::exit(2);
}

// Where the libraries and the machines are: beside the directory that holds this program.
fs::path simulator() { return fs::canonical("/proc/self/exe").parent_path().parent_path() / "simulator"; }

std::map<std::string, std::string> machines() {  // what each is, by its name
  std::map<std::string, std::string> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(simulator() / "machines")) {
    if (entry.path().extension() != ".conf") continue;
    std::string line;
    for (std::ifstream file(entry.path()); std::getline(file, line);)
      if (line.starts_with("# ") && line.find("SPDX-") == line.npos) break;
    all[entry.path().stem()] = line.starts_with("# ") ? line.substr(2) : "";
  }
  return all;
}

[[noreturn]] void help() {
  std::printf("%smachines:\n", usage);
  for (const auto& [name, summary] : machines()) std::printf("  %-16s  %s\n", name.c_str(), summary.c_str());
  std::exit(0);
}

// --- the arguments --------------------------------------------------------------------------------------------------

long number(const std::string& text, long least, long most) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    bad_argument("'" + text + "' is no number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

memory::Machine read_machine(const std::string& name) {
  fs::path file = name;
  if (name.find('/') == name.npos) {
    file = simulator() / "machines" / (name + ".conf");
    if (!machines().count(name)) bad_argument("there is no machine '" + name + "'; vmmsim --help names those that are");
  }
  try {
    return memory::read_machine(file);
  } catch (const std::runtime_error& error) {
    bad_argument(error.what());
  }
}

// CALL:N=ERROR, CALL:N+=ERROR, CALL:N@K=ERROR or CALL:N+@K=ERROR. The calls are those that the libraries show, the
// errors those of CUDA's headers.
void read_fail(const std::string& text, memory::Options* options) {
  static const std::map<std::string, int> errors = {
#include "errors.inc"
  };
  const size_t colon = text.find(':'), equals = text.find('=', colon);
  if (colon == text.npos || equals == text.npos) bad_argument("'" + text + "' is not CALL:N=ERROR or CALL:N@K=ERROR");
  const std::string call = text.substr(0, colon), error = text.substr(equals + 1);
  const ElfFile library((simulator() / (call.starts_with("cuda") ? RUNTIME : "libcuda.so.1")).c_str());
  if (call.size() >= sizeof options->fail_call || !call.starts_with("cu") || !library.has_symbol(call))
    bad_argument("there is no call '" + call + "'");
  call.copy(options->fail_call, sizeof options->fail_call - 1);
  const std::string which = text.substr(colon + 1, equals - colon - 1);
  const size_t at = which.find('@');
  std::string nth = which.substr(0, at);
  options->fail_later = nth.ends_with('+');
  if (options->fail_later) nth.pop_back();
  options->fail_number = number(nth, 1, 1 << 30);
  if (at != which.npos) options->fail_process = static_cast<int>(number(which.substr(at + 1), 1, 1 << 30));
  const auto known = errors.find(error);
  if (known == errors.end() && error.find_first_not_of("0123456789") != error.npos)
    bad_argument("there is no error '" + error + "'");
  options->fail_error = known != errors.end() ? known->second : number(error, 1, 9999);
}

// SECONDS or SECONDS@K.
void read_slow_import(const std::string& text, memory::Options* options) {
  const size_t at = text.find('@');
  options->slow_import = static_cast<int>(number(text.substr(0, at), 0, 3600));
  if (at != text.npos) options->slow_process = static_cast<int>(number(text.substr(at + 1), 1, 1 << 30));
}

// All that come after find it by its path, wherever they go.
void begin_log(const std::string& file) {
  const int log = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (log < 0) end(125, file + ": " + std::strerror(errno));
  close(log);
  setenv(log_variable, fs::absolute(file).c_str(), 1);
}

struct Arguments {
  memory::Machine machine;
  memory::Options options;
  std::string trace_file;
  std::optional<uint64_t> warn_at;  // bytes; none: as the machine has them
  char** program = nullptr;         // it and its arguments
};

using Values = std::map<std::string_view, std::string*>;
using Flags = std::map<std::string_view, bool*>;

// How many letters to take away, to add or to change, to make the one of the other.
size_t distance(std::string_view given, std::string_view known) {
  std::vector<size_t> row(known.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < given.size(); ++i) {
    size_t above = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < known.size(); ++j)
      above = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, above + (given[i] != known[j])}));
  }
  return row.back();
}
std::string meant_by(std::string_view word, const Values& options, const Flags& flags) {
  std::vector<std::string_view> all;
  for (const auto& [name, value] : options) all.push_back(name);
  for (const auto& [name, value] : flags) all.push_back(name);
  const auto nearest = std::ranges::min_element(all, {}, [&](auto name) { return distance(word, name); });
  return distance(word, *nearest) > 2 ? "" : "; did you mean " + std::string(*nearest) + "?";
}

// "--gpus 2", "--gpus=2", "--explain": up to the program, or to "--" before it. Returns what follows.
char** read_options(char** words, const Values& options, const Flags& flags) {
  for (; *words && **words == '-'; ++words) {
    const std::string_view given = *words, word = given.substr(0, given.find('='));
    const char* const after_equals = word == given ? nullptr : *words + word.size() + 1;
    if (word == "--") return words + 1;
    if (given == "--help") help();
    if (given == "--version") {
      std::puts("vmmsim " VERSION);
      std::exit(0);
    }
    if (options.count(word)) {
      const char* const value = after_equals ? after_equals : *++words;
      std::string& to = *options.at(word);
      if (!value || !*value) bad_argument(std::string(word) + " lacks its value");
      if (word == "--fail" && !to.empty()) bad_argument("--fail is given twice, and one call can be made to fail");
      to = value;
    } else if (flags.count(word)) {
      if (after_equals) bad_argument(std::string(word) + " takes no value");
      *flags.at(word) = true;
    } else {
      bad_argument("there is no option " + std::string(word) + meant_by(word, options, flags));
    }
  }
  return words;
}

Arguments read_arguments(char** words) {
  Arguments all;
  bool print_gpus = false;
  std::string machine = "h200x8", gpus, nodes, size, warn_at, slow_after, slow_import, late_kernels, unsupported, fail,
              log;
  const Values options = {{"--gpus", &gpus},
                          {"--nodes", &nodes},
                          {"--machine", &machine},
                          {"--memory", &size},
                          {"--trace", &all.trace_file},
                          {"--log", &log},
                          {"--fail", &fail},
                          {"--warn-at", &warn_at},
                          {"--slow-after", &slow_after},
                          {"--slow-import", &slow_import},
                          {"--late-kernels", &late_kernels},
                          {"--unsupported", &unsupported}};
  const Flags flags = {{"--strict", &all.options.strict},
                       {"--explain", &all.options.explain},
                       {"--leaks", &all.options.leaks},
                       {"--adversarial-timing", &all.options.adversarial_timing},
                       {"--print-gpus", &print_gpus}};
  words = read_options(words, options, flags);
  all.machine = read_machine(machine);
  if (!slow_after.empty()) all.options.slow_after = static_cast<int>(number(slow_after, 0, 1'000'000));
  if (!slow_import.empty()) read_slow_import(slow_import, &all.options);
  if (!late_kernels.empty()) all.options.late_kernels = static_cast<int>(number(late_kernels, 0, 3'600'000));
  all.options.unsupported_ends = unsupported == "exit";
  if (!unsupported.empty() && unsupported != "exit" && unsupported != "fail")
    bad_argument("--unsupported is fail or exit, not '" + unsupported + "'");
  if (!gpus.empty()) all.machine.gpus = number(gpus, 0, 64);
  if (!nodes.empty()) all.machine.nodes = number(nodes, 1, 16);
  if (print_gpus) {
    std::printf("%d\n", all.machine.gpus);
    std::exit(0);
  }
  try {
    if (!size.empty()) all.machine.memory = memory::read_size(size);
    if (!warn_at.empty()) all.warn_at = memory::read_bytes(warn_at);
  } catch (const std::runtime_error& error) {
    bad_argument(error.what());
  }
  if (all.machine.memory == 0) bad_argument("a GPU needs memory: 2MiB or more");
  all.options.trace = !all.trace_file.empty();
  if (!fail.empty()) read_fail(fail, &all.options);
  if (!*words || !**words) bad_argument("no program is named");
  if (!log.empty()) begin_log(log);
  all.program = words;
  return all;
}

// --- the program ----------------------------------------------------------------------------------------------------

// The file that a shell would execute. Ends with 127 if there is none, with 126 if it cannot be executed.
std::string find_program(const std::string& name) {
  std::vector<std::string> candidates;
  if (name.find('/') != name.npos) {
    candidates = {name};
  } else {
    const char* path = std::getenv("PATH");
    std::istringstream directories(path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string directory; std::getline(directories, directory, ':');)
      candidates.push_back((directory.empty() ? "." : directory) + "/" + name);
  }
  std::string reason;
  for (const std::string& file : candidates) {
    struct stat is;
    if (stat(file.c_str(), &is) != 0) {
      if (errno == EACCES) reason = std::strerror(errno);
    } else if (S_ISDIR(is.st_mode)) {
      if (candidates.size() == 1) reason = "it is a directory";
    } else if (access(file.c_str(), X_OK) != 0) {
      reason = std::strerror(errno);
    } else {
      return file;
    }
  }
  if (reason.empty()) end(127, name + ": there is no such program");
  end(126, name + " cannot be executed: " + reason);
}

// What the dynamic loader would load for this program, in its own words: a library in each line.
std::string ask_loader(const std::string& program) {
  int from[2];
  if (pipe2(from, O_CLOEXEC) != 0) end(125, std::string("no pipe: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) end(125, std::string("no process: ") + std::strerror(errno));
  if (child == 0) {
    dup2(from[1], STDOUT_FILENO);
    dup2(from[1], STDERR_FILENO);
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);  // it has an interpreter, which reads this and does not start it
    execl(program.c_str(), program.c_str(), nullptr);
    _exit(126);
  }
  close(from[1]);
  std::string output;
  char piece[4096];
  for (;;) {
    const ssize_t n = read(from[0], piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    output.append(piece, n);
  }
  close(from[0]);
  (void)TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
  return output;
}

// What the GPU code in a file holds; nothing where it is damaged, which is said when a program loads it.
std::vector<ptx::Image> gpu_code(const ElfFile& file) {
  std::vector<ptx::Image> all;
  for (const char* name : {".nv_fatbin", "__nv_relfatbin"}) {
    auto bytes = std::as_bytes(std::span(file.section(name)));
    try {
      while (bytes.size() >= 16) {
        if (std::memcmp(bytes.data(), "\x50\xed\x55\xba", 4) != 0) {  // what fills up
          bytes = bytes.subspan(8);
          continue;
        }
        const std::vector<ptx::Image> images = ptx::read_fat_binary(bytes);
        all.insert(all.end(), images.begin(), images.end());
        bytes = bytes.subspan(ptx::fat_binary_size(bytes.data()));
      }
    } catch (const ptx::Error&) {
      continue;  // who loads it is told what is wrong with it
    }
  }
  return all;
}

bool has_kernels(const ElfFile& file) {
  bool has = file.has_symbol("__cudaRegisterFunction");
  file.each_symbol(SHT_SYMTAB, [&](std::string_view name, const Elf64_Sym&) {
    has |= name.find("__device_stub__") != name.npos;  // the host's function that stands for a kernel
  });
  return has;
}
bool has_kernels(const std::vector<ptx::Image>& images) {
  return std::ranges::any_of(images, [](const ptx::Image& image) {
    try {
      return image.is_ptx && ptx::unpacked(image).find(".entry") != std::string::npos;
    } catch (const ptx::Error&) {
      return false;  // damaged
    }
  });
}

// Whether GPU code in a program or in a library of it can run here. Refuses a program whose kernels cannot.
void require_gpu_code(const std::string& path, bool is_program, const memory::Machine& machine) {
  const ElfFile file(path.c_str());
  if (!file.is_elf() || file.section(".nv_fatbin").empty()) return;
  const bool is_nameless = file.has_nameless_runtime(), is_unknown = is_nameless && !known_runtimes::find(file);
  if (is_unknown && !is_program) return;  // the hook says so
  const std::vector<ptx::Image> images = gpu_code(file);
  const auto capability = unsigned(machine.capability);
  try {
    for (const ptx::Image& image : images)
      if (image.is_ptx && image.architecture <= capability) ptx::need_library(image);
  } catch (const ptx::MissingLibrary& missing) {
    end(125, path + ": " + missing.what());
  }
  if (is_unknown) {  // without kernels it need not call the runtime; if it does, cuGetExportTable ends it
    if (has_kernels(images))
      end(125, path +
                   " contains the CUDA runtime, stripped of its names, and not one that is known by its code (CUDA " +
                   known_runtimes::all + "): do not strip it, or build it with nvcc -cudart shared");
    return;
  }
  if (!(is_nameless ? has_kernels(images) : has_kernels(file)) || ptx::newest_ptx(images, capability) || !machine.gpus)
    return;
  const std::string reason = path + " has kernels, and none can run: " + ptx::why_none(images, capability);
  if (is_program) end(125, reason);
  log(reason);
}

struct Library {
  std::string name;
  fs::path file;
};

// From lines like "\tlibm.so.6 => /lib/libm.so.6 (0x7f00)"; "=>" may be missing.
std::vector<Library> libraries_in(const std::string& output) {
  std::vector<Library> all;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find(" (0x"));
    line.erase(0, line.find_first_not_of('\t'));
    const size_t arrow = line.find(" => ");
    all.push_back({fs::path(line.substr(0, arrow)).filename(), arrow == line.npos ? line : line.substr(arrow + 4)});
  }
  return all;
}

// Refuses a program that would run on anything but the simulator's libraries, or whose kernels cannot run. Returns what
// it loads. Scripts and launchers need no look: in each process that they start, the libraries look for themselves
// (runtime/hook.cc, interposed.cc).
std::vector<Library> checked_libraries(const std::string& program, const fs::path& ours,
                                       const memory::Machine& machine) {
  {
    const ElfFile file(program.c_str());
    if (!file.is_readable) end(125, program + " cannot be read, so nobody knows what it would load");
    if (((file.about.st_mode & S_ISUID) && file.about.st_uid != getuid()) ||
        ((file.about.st_mode & S_ISGID) && file.about.st_gid != getgid()))
      end(125, program + " runs with the rights of another user or group: such a program takes no libraries from here");
    if (!file.is_elf()) return {};
    if (!file.is_for_us())
      end(125, program + " is for another processor or has 32 bits: this simulator is for " + processor::name);
    const std::string interpreter(file.interpreter());
    if (interpreter.empty())
      end(125, program + " is a static executable, in which no library can be replaced; link it dynamically");
    // Another one would start the program where it is only asked what it would load.
    if (!ElfFile(interpreter.c_str()).has_symbol("_rtld_global"))
      end(125, program + " is started by " + interpreter + ", which is not there or not the loader of glibc");
  }
  const std::string output = ask_loader(program);  // of glibc
  if (output.find(ours / "libvmmsim_interposed.so") == output.npos)
    end(125, program + " does not load the simulator's libraries; the loader says:\n" + output);
  require_gpu_code(program, true, machine);
  const std::vector<Library> loaded = libraries_in(output);
  for (const auto& [name, file] : loaded)
    if (file.parent_path() != ours && !name.starts_with("libcudart.so") && !name.starts_with("libcuda.so"))
      require_gpu_code(file, false, machine);  // for the others ours is loaded
  return loaded;
}

// --- this machine's memory ------------------------------------------------------------------------------------------

std::string format_bytes(uint64_t bytes) {  // "17.6 GiB"
  char text[32];
  const double MiB = double(bytes) / (1 << 20);
  std::snprintf(text, sizeof text, MiB < 1024 ? "%.0f MiB" : "%.1f GiB", MiB < 1024 ? MiB : MiB / 1024);
  return text;
}

// Frames that were touched take memory of this machine, and where none is left the kernel ends programs without a word.
class MemoryWatch {
 public:
  MemoryWatch(const Arguments& arguments)
      : warn_at_(arguments.warn_at), gpus_(uint64_t(std::max(1, arguments.machine.gpus * arguments.machine.nodes))) {
    struct rlimit addresses;
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur < arguments.machine.memory)
      log("a process has " + format_bytes(addresses.rlim_cur) +
          " of addresses here (ulimit -v), and the memory of a GPU "
          "alone takes " +
          format_bytes(arguments.machine.memory) + ": raise that, or give GPUs less (--memory)");
  }

  void look() {  // now and then; warns once
    if (has_warned_) return;
    const uint64_t touched = memory::touched_bytes();
    if (touched == touched_) return;
    touched_ = touched;
    const uint64_t available = host_memory::available();
    if (warn_at_ ? touched <= *warn_at_ : available >= touched / 4) return;
    has_warned_ = true;
    log("simulated memory takes " + format_bytes(touched) + " of this machine's, and " + format_bytes(available) +
        " are left. " +
        "What a program writes to takes as much here as on a GPU, and where nothing is left the kernel ends "
        "programs: " +
        advice(touched + available));
  }

  void explain_end(int status) const {  // as of a shell
    const uint64_t touched = memory::touched_bytes(), available = host_memory::available();
    const bool has_run_out = host_memory::kills() > kills_ || available < touched / 8;
    if (has_run_out && (status == 128 + SIGKILL || status == 128 + SIGBUS))
      log("a signal ended the program, and meanwhile this machine's memory had run out; simulated memory took " +
          format_bytes(touched) + ": " + advice(touched + available));
  }

 private:
  std::string advice(uint64_t all) const {
    const uint64_t share = std::max<uint64_t>(all / 2 / gpus_ >> 20, 2);
    return "give each GPU less, for instance --memory " + std::to_string(share) + "MiB";
  }

  const std::optional<uint64_t> warn_at_;
  const uint64_t gpus_, kills_ = host_memory::kills();
  uint64_t touched_ = 0;
  bool has_warned_ = false;
};

// --- the run --------------------------------------------------------------------------------------------------------

void prepend(const char* variable, std::string value) {
  const char* old = std::getenv(variable);
  if (old && *old) value += std::string(":") + old;
  setenv(variable, value.c_str(), 1);
}

// Behind those that the user preloads: what they have of libc, or of CUDA, shall see the program's calls.
void append(const char* variable, const std::string& value) {
  const char* old = std::getenv(variable);
  setenv(variable, (old && *old ? old + (":" + value) : value).c_str(), 1);
}

// What goes before libc is preloaded by its path; one with a space cannot stand in LD_PRELOAD, and is searched for.
void set_libraries(const fs::path& libraries) {
  const std::string path = libraries.string();
  if (path.find_first_of(":;$") != path.npos) end(125, path + ": the loader takes no path with ':', ';' or '$' in it");
  append("LD_PRELOAD", (path.find(' ') == path.npos ? path + "/" : "") + "libvmmsim_interposed.so");
  if (*SANITIZER) prepend("LD_PRELOAD", SANITIZER);
  prepend("LD_LIBRARY_PATH", path);
  prepend("ASAN_OPTIONS", "verify_asan_link_order=0");  // it would be the first; it need not be before what is ours
}

// Lets the loader tell the hook of each file that it loads. It then sets memory aside for the variables of threads
// before it knows the libraries that have them: by itself too little for some, for instance jemalloc and sanitizers.
void set_hook(const fs::path& libraries, const std::vector<Library>& loaded) {
  uint64_t size = 4096;  // for what scripts start
  if (*SANITIZER) size += ElfFile(SANITIZER).thread_variables();
  for (const Library& library : loaded) size += ElfFile(library.file.c_str()).thread_variables();
  prepend("LD_AUDIT", (libraries / "libvmmsim_hook.so").string());
  prepend("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=" + std::to_string(size));
}

// In the trace: of processes that ended without a word, the program itself with this status.
void trace_vanished(pid_t reaped = 0, int status = 0) {
  static trace::File trace(memory::trace_file());
  char line[512];
  while (const size_t size = memory::line_of_vanished(line, sizeof line, reaped, status)) trace.write({line, size});
}

// Whether the program has. As the first process of a PID namespace vmmsim has more children than this one: those that
// others have left behind.
bool has_ended(pid_t child, int* status) {
  for (;;) {
    int of_this = 0;
    const pid_t ended = TEMP_FAILURE_RETRY(waitpid(-1, &of_this, WNOHANG));
    if (ended == child) return *status = of_this, true;
    if (ended <= 0) return false;
  }
}

// As SIGTSTP does where it is not blocked; returns when the process goes on.
void stop() {
  sigset_t stops, before;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stops, &before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

// Runs the program to its end, passing signals on. Returns its status as a shell does.
int run(const std::string& program, char** arguments, MemoryWatch watch) {
  sigset_t passed, before;
  sigemptyset(&passed);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP})
    sigaddset(&passed, number);
  signal(SIGCHLD, SIG_DFL);  // ignored, it would leave no status to wait for
  sigprocmask(SIG_BLOCK, &passed, &before);
  const pid_t child = fork();
  if (child < 0) end(125, std::string("no process: ") + std::strerror(errno));
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execv(program.c_str(), arguments);
    const int error = errno;
    log_line("%s cannot be executed: %s", program.c_str(), std::strerror(error));
    _exit(error == ENOENT ? 127 : 126);
  }
  for (;;) {
    siginfo_t about;
    constexpr timespec a_while = {0, 100'000'000};
    const int got = sigtimedwait(&passed, &about, &a_while);
    watch.look();
    trace_vanished();
    if (got < 0) continue;  // nothing came, or interrupted
    if (got != SIGCHLD) {
      if (about.si_code <= 0) kill(child, got);  // what the terminal sends, it sends to both
      if (got == SIGTSTP) stop(), kill(child, SIGCONT);
      continue;
    }
    int status = 0;
    if (!has_ended(child, &status)) continue;  // stopped, or going on
    trace_vanished(child, status);
    const int as_of_shell = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    watch.explain_end(as_of_shell);
    return as_of_shell;
  }
}

}  // namespace

int main(int, char** argv) {
  try {
    const Arguments arguments = read_arguments(argv + 1);
    const std::string_view word = *arguments.program;  // by which the program of a distribution may be meant, too
    if (word == "view" || word == "record")
      bad_argument("this is the launcher alone, and has no " + std::string(word) + ": write python3 -m vmmsim " +
                   std::string(word) + ", or ./" + std::string(word) + " for a program");
    const std::string program = find_program(*arguments.program);
    const fs::path libraries = simulator();
    set_libraries(libraries);
    set_hook(libraries, checked_libraries(program, libraries, arguments.machine));
    setenv("VMMSIM", memory::create_machine(arguments.machine, arguments.options, arguments.trace_file).c_str(), 1);
    return run(program, arguments.program, MemoryWatch(arguments));
  } catch (const std::exception& error) {
    end(125, error.what());
  }
}
