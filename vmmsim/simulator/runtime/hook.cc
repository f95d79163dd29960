// SPDX-License-Identifier: MIT-0
// What leads programs to the simulator's libraries. It is an auditor, a library of its own that vmmsim names in
// LD_AUDIT (man 7 rtld-audit), and the loader asks and tells it before anything of a file runs:
//
// - Which file it shall load for a name, for instance "libcuda.so.1" or "/usr/lib/libcuda.so.1": ours. So nothing of
//   ours is in a process that does not ask for CUDA, and what a program or another preloaded library has of CUDA's
//   names goes before ours, as it does before NVIDIA's.
// - Of each file that it has mapped. nvcc links the CUDA runtime, libcudart_static, into each program and library,
//   unless it is told otherwise. All calls into that lead to our runtime instead: at the head of each function that
//   the symbol table names, a jump is written; in a stripped file they are found by their code. What else is in there
//   is not reached any more. The first of these calls loads ours. NVRTC and nvJitLink, which compile and link kernels
//   while a program runs, are led in the same way: who asks them for machine code gets PTX.
//
// The loader keeps an auditor apart from the program's libraries, so this one finds our runtime's functions in its
// file, and not by dlsym.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <new>
#include <span>
#include "../elf_file.h"
#include "../leads.h"
#include "../log.h"
#include "jit_link.h"
#include "known_runtimes.h"

constexpr unsigned most_calls = 2048;
asm(LEADS
    ".balign 32\n"
    ".globl leads\n"
    ".hidden leads\n"
    "leads:\n"
    ".set index, 0\n"
    ".rept 2048\n"
    "lead index\n"
    ".set index, index + 1\n"
    ".endr\n");
extern "C" [[gnu::visibility("hidden")]] char leads[];
uintptr_t lead_targets[most_calls];

namespace {

using processor::Jump;
using Missing = processor::JumpWith;  // stands for a call that our runtime has not; it gives its name

bool is_simulated = false;          // else nothing is done: VMMSIM was taken out of the environment
const link_map* program = nullptr;  // the first that the loader tells of
char ours[4096] = "";               // the directory of our libraries, with a slash at its end
size_t directory = 0;               // the length of that

// A path of ours, until the next is asked for.
const char* path_of(const char* library) {
  std::snprintf(ours + directory, sizeof ours - directory, "%s", library);
  return ours;
}

// --- Our runtime -----------------------------------------------------------------------------------------------------

struct Call {
  std::string_view name;
  uint64_t place;  // in the file
};
Call room[most_calls];
std::span<Call> calls;            // in the order of their names
size_t calls_of_cuda = 0;         // of these
uint64_t place_of_jit_link = 0;   // where it looks for the functions of nvJitLink
std::atomic<uintptr_t> base = 0;  // where it is, once it is loaded
uintptr_t jit_link_itself[jit_link::call_count] = {};

// Leads to a function of our runtime; 0: it has none of that name.
uintptr_t find_call(std::string_view name) {
  const auto call = std::ranges::lower_bound(calls, name, {}, &Call::name);
  if (call == calls.end() || call->name != name) return 0;
  return reinterpret_cast<uintptr_t>(leads + lead_size * (call - calls.begin()));
}

bool is_call(std::string_view name) { return name.starts_with("cuda") || name.starts_with("__cuda"); }

// Of "nvJitLinkCreate" and "__nvJitLinkCreate_13_0"; -1 of others.
int jit_link_call(std::string_view name) {
  const size_t begin = std::min(name.find("nvJitLink"), name.size());
  const auto* const found = std::ranges::find(jit_link::names, name.substr(begin, name.find('_', begin) - begin));
  return found != std::end(jit_link::names) ? int(found - jit_link::names) : -1;
}

// The names stay mapped.
void read_calls() {
  if (!calls.empty()) return;
  alignas(ElfFile) static char place[sizeof(ElfFile)];
  const auto* const file = new (place) ElfFile(path_of(RUNTIME));
  file->each_symbol(SHT_DYNSYM, [&](std::string_view name, const Elf64_Sym& symbol) {
    if (symbol.st_shndx == SHN_UNDEF || calls.size() == most_calls) return;
    if (name == "vmmsim_jit_link") place_of_jit_link = symbol.st_value;
    room[calls.size()] = {name, symbol.st_value};
    calls_of_cuda += is_call(name);
    calls = {room, calls.size() + 1};
  });
  std::ranges::sort(calls, {}, &Call::name);
}

void give_jit_link() {
  if (base && place_of_jit_link && jit_link_itself[0])
    std::memcpy(reinterpret_cast<void*>(base + place_of_jit_link), jit_link_itself, sizeof jit_link_itself);
}

// A program or library, mapped and not yet run.
class Object {
 public:
  explicit Object(const link_map& map) : map_(map), file_(*map.l_name ? map.l_name : "/proc/self/exe") {}

  // NVRTC keeps the PTX of which it makes machine code, and the calls that give the two out take the same arguments.
  void give_ptx_for_machine_code() {
    lead_function("nvrtcGetCUBIN", address("nvrtcGetPTX"));
    lead_function("nvrtcGetCUBINSize", address("nvrtcGetPTXSize"));
  }

  // Each of its functions is a jump to the one that does the work, which is still called from ours.
  void lead_jit_link_to_ours() {
    if (jit_link_itself[0]) return;
    uintptr_t found[jit_link::call_count] = {};
    each_function(SHT_DYNSYM, [&](std::string_view name, const char* code, size_t) {
      if (const int call = jit_link_call(name); call >= 0) found[call] = processor::target_of_jump(code);
    });
    if (!std::ranges::all_of(found, std::identity())) return;
    std::ranges::copy(found, jit_link_itself);
    give_jit_link();
    read_calls();
    each_function(SHT_DYNSYM, [&](std::string_view name, char* code, size_t) {
      const int call = jit_link_call(name);
      if (call < 0) return;
      char own_name[64] = "vmmsim_";
      jit_link::names[call].copy(own_name + std::strlen(own_name), sizeof own_name - sizeof "vmmsim_");
      lead(code, find_call(own_name));
    });
  }

  void lead_to_ours() {
    if (!file_.has_runtime_inside()) {
      if (!file_.has_nameless_runtime()) return;
      stripped_ = known_runtimes::find(file_);
      if (!stripped_) return cannot_know();
    }
    read_calls();
    survey();
    if (!first_) return;
    if (missing_ && known_ < calls_of_cuda)  // a later minor release has all calls of an earlier one
      return cannot("it is of another major release of CUDA than the simulator's: build both with the same one");
    if (short_ * sizeof(Jump) > (processor::has_short_jump ? unused_.size() : 0))
      return cannot("a function of it is too short");
    if (!write_jumps()) return cannot(strerror(errno));
  }

 private:
  uintptr_t address(std::string_view function) const {
    uintptr_t found = 0;
    each_function(SHT_DYNSYM, [&](std::string_view name, const char* code, size_t) {
      if (name == function) found = reinterpret_cast<uintptr_t>(code);
    });
    return found;
  }
  void lead_function(std::string_view function, uintptr_t to) {
    each_function(SHT_DYNSYM, [&](std::string_view name, char* code, size_t) {
      if (name == function) lead(code, to);
    });
  }
  // What goes wrong here shows when the program loads its code.
  static void lead(char* code, uintptr_t to) {
    const Jump jump = {.to = to};
    char* const begin = begin_of_page(code);
    const size_t size = code + sizeof jump - begin;
    if (!to || mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) return;
    std::memcpy(code, &jump, sizeof jump);
    make_executable(begin, size);
  }

  void survey() {
    each_function([&](std::string_view name, char* code, size_t) {
      if (!find_call(name)) return;
      ++known_;
      first_ = first_ ? std::min(first_, code) : code;
      last_ = std::max(last_, code);
    });
    each_function([&](std::string_view name, char* code, size_t size) {
      const bool is_not_ours = is_missing(name, code);
      missing_ += is_not_ours;
      if (!is_not_ours && !find_call(name)) return;
      short_ += is_short(code, size);
      if (size > unused_.size() && code < last_) unused_ = {code, size};
    });
    unused_ = unused_.subspan(std::min(unused_.size(), sizeof(Jump)));
  }

  // Among the calls that our runtime has. A function of the program's own may be called cudaSomething, too.
  bool is_missing(std::string_view name, const char* code) const {
    return is_call(name) && !find_call(name) && first_ < code && code < last_;
  }
  bool is_short(const char* code, size_t size) const {  // no room even behind its end, where the next one is aligned
    bool is = false;
    if (size < sizeof(Jump))
      each_function(
          [&](std::string_view, const char* next, size_t) { is |= next > code && next < code + sizeof(Jump); });
    return is;
  }

  // Never is a page writable and executable at once.
  bool write_jumps() {
    char* const begin = begin_of_page(first_);
    const size_t size = last_ + sizeof(Jump) - begin, size_of_missing = missing_ * sizeof(Missing);
    Missing* stand_in = nullptr;
    if (missing_) {
      void* const memory = mmap(nullptr, size_of_missing, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return false;
      stand_in = static_cast<Missing*>(memory);
    }
    Missing* const stand_ins = stand_in;
    if (mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) return false;
    each_function([&](std::string_view name, char* code, size_t size_of_function) {
      uintptr_t to = find_call(name);
      if (is_missing(name, code)) {
        *stand_in = {};
        stand_in->argument = strdup(name.data());
        stand_in->jump.to = find_call("vmmsim_not_simulated");
        to = reinterpret_cast<uintptr_t>(stand_in++);
      }
      if (to) write_jump(code, size_of_function, to);
    });
    return make_executable(begin, size) &&
           (!missing_ || make_executable(reinterpret_cast<char*>(stand_ins), size_of_missing));
  }

  // A function that is too short leads to the jump by way of one that is long, and of which nothing else is used.
  void write_jump(char* code, size_t size, uintptr_t to) {
    const Jump jump = {.to = to};
    if (!is_short(code, size)) {
      std::memcpy(code, &jump, sizeof jump);
      return;
    }
    const uint32_t first = processor::short_jump(unused_.data() - code);
    std::memcpy(unused_.data(), &jump, sizeof jump);
    std::memcpy(code, &first, sizeof first);
    unused_ = unused_.subspan(sizeof jump);
  }

  static char* begin_of_page(char* code) {
    return code - reinterpret_cast<uintptr_t>(code) % uintptr_t(sysconf(_SC_PAGESIZE));
  }
  static bool make_executable(char* begin, size_t size) {
    __builtin___clear_cache(begin, begin + size);  // on Arm code that was written is not seen by itself
    return mprotect(begin, size, PROT_READ | PROT_EXEC) == 0;
  }

  // Calls visit(name, code, size). A runtime that is known by its code has room for a jump in each function.
  template <class Visit> void each_function(const Visit& visit) const {
    if (!stripped_) return each_function(SHT_SYMTAB, visit);
    stripped_.each_function([&](std::string_view name, uint64_t address) {
      visit(name, reinterpret_cast<char*>(map_.l_addr + address), sizeof(Jump));
    });
  }
  template <class Visit> void each_function(unsigned table, const Visit& visit) const {
    file_.each_symbol(table, [&](std::string_view name, const Elf64_Sym& symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
        visit(name, reinterpret_cast<char*>(map_.l_addr + symbol.st_value), symbol.st_size);
    });
  }

  // A program may do without the runtime that it has inside, and vmmsim has refused it if it has kernels.
  void cannot_know() const {
    if (&map_ == program) return;
    log_line(
        "%s contains the CUDA runtime, stripped of its names, and not one that is known by its code (CUDA "
        "%s): what it does on GPUs will fail",
        map_.l_name, known_runtimes::all);
  }

  // A program ends; of a library the program may need something else, and is told when it calls CUDA.
  void cannot(const char* reason) const {
    char path[4096] = "";
    if (!*map_.l_name && readlink("/proc/self/exe", path, sizeof path - 1) < 0) path[0] = '\0';
    log_line("%s contains the CUDA runtime, which cannot be replaced there: %s", *map_.l_name ? map_.l_name : path,
             reason);
    if (&map_ == program) _exit(125);
  }

  const link_map& map_;
  const ElfFile file_;
  known_runtimes::Found stripped_;
  char* first_ = nullptr;  // of the functions that are calls
  char* last_ = nullptr;
  size_t known_ = 0, missing_ = 0;  // how many of them our runtime has, and has not
  size_t short_ = 0;                // how many have no room for a jump
  std::span<char> unused_;          // what is left of the longest of them
};

// The library of ours that stands for a file of this name; null: none does.
const char* ours_for(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const std::string_view name(slash ? slash + 1 : path);
  const auto is = [&](std::string_view with) {  // or with a version behind it
    return name.starts_with(with) && (name.size() == with.size() || name[with.size()] == '.');
  };
  if (is("libcuda.so")) return "libcuda.so.1";
  if (is("libnvidia-ml.so")) return "libnvidia-ml.so.1";
  if (is(RUNTIME) || std::strcmp(path, "libcudart.so") == 0) return RUNTIME;
  return nullptr;
}

bool is_our_runtime(const char* path) { return !std::strcmp(path, path_of(RUNTIME)); }

}  // namespace

// The loader takes one thread at a time, and whoever else comes here finds our runtime loaded.
uintptr_t target_of_lead(uint64_t number) {
  char path[sizeof ours];
  std::snprintf(path, sizeof path, "%.*s" RUNTIME, int(directory), ours);
  if (!dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL)) {
    log_line("the simulator's runtime cannot be loaded: %s", dlerror());
    _exit(125);
  }
  return lead_targets[number] = base + calls[number].place;
}

#pragma GCC visibility push(default)
extern "C" {

unsigned la_version(unsigned) {
  Dl_info here;
  is_simulated = std::getenv("VMMSIM") && dladdr(&program, &here);
  if (!is_simulated) return LAV_CURRENT;
  std::snprintf(ours, sizeof ours, "%s", here.dli_fname);
  const char* const slash = std::strrchr(ours, '/');
  directory = slash ? slash + 1 - ours : 0;
  return LAV_CURRENT;
}

char* la_objsearch(const char* name, uintptr_t*, unsigned flag) {
  const char* const library = is_simulated && flag == LA_SER_ORIG ? ours_for(name) : nullptr;
  return const_cast<char*>(library ? path_of(library) : name);
}

unsigned la_objopen(link_map* map, Lmid_t space, uintptr_t*) {
  if (!is_simulated || space != LM_ID_BASE) return 0;
  if (!program) program = map;
  if (is_our_runtime(map->l_name)) {
    read_calls();
    base = map->l_addr;
    give_jit_link();
    return 0;
  }
  Object object(*map);
  object.lead_to_ours();
  object.give_ptx_for_machine_code();
  object.lead_jit_link_to_ours();
  return 0;  // nothing to tell of its symbols
}

}  // extern "C"
#pragma GCC visibility pop
