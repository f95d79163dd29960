# SPDX-License-Identifier: MIT-0
"""The record of a program's calls is not the program's: what it does to forge one is in vain, or seen.

Each forgery is tried without the witness as well, where it succeeds: else it would show nothing.
"""

import pytest

from labs.judge import sandbox
from labs.judge.program import VMMSIM, Program
from labs.judge.runner import Runner

pytestmark = pytest.mark.skipif(sandbox.way() != "bubblewrap", reason="this machine allows no sandbox")
CASES = {  # what a program does before it calls cudaMalloc
    "nothing": "",
    "closes all descriptors": "for (int fd = 3; fd < 64; ++fd) close(fd);",
    "silences the simulator": "options()[2] = 0;",
    "writes a line": "write_everywhere();",
    "hands over a line": "hand_over();",
    "changes code": "change_code();",
    "changes code by its file": 'const int fd = open("/proc/self/mem", O_WRONLY);\n'
    "    if (pwrite(fd, code(), 1, off_t(code())) != 1) std::exit(2);",
    "maps other code over it": "map_code();",
    "makes the simulator's tables writable": "open_tables();",
    "reads memory of a process": "char from = 0, to = 0;\n    const iovec there = {&from, 1}, here = {&to, 1};\n"
    "    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) std::exit(2);",
    "has a child that is not traced": "const long child = syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);\n"
    "    if (child == 0) _exit(0);\n    if (child < 0) std::exit(2);",
    "has a namespace": "if (unshare(CLONE_NEWUSER)) std::exit(2);",
    "runs a second simulator": 'if (std::system("LAB_MAIN=nothing SIMULATOR --trace /dev/null PROGRAM")) std::exit(2);',
    "stores into a GPU's memory": 'simulators("memory-0")[4096] ^= 1;',
    "writes a GPU's memory by its file": "write_by_file();",
    "makes the granularity another": "granularity()[0] = 1 << 20;",
    "knows which call will fail": 'if (knows("cudaFree")) std::exit(2);',
}
SOURCE = """#include "../lab.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
const std::string what = std::getenv("LAB_MAIN");
const std::string forged =
    R"({"pid":1,"thread":1,"number":1,"time":1,"call":"forged","nth":1,"callers":[],)"
    R"("device":-1,"arguments":{},"result":"","outputs":{},"changes":[],"explanation":""})"
    "\\n";
char* code() { return static_cast<char*>(dlsym(RTLD_DEFAULT, "cuMemCreate")); }
char* simulators(const std::string& file) {  // a file of vmmsim, in the memory that it shares with the program
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:vmmsim-" + file) != line.npos) return reinterpret_cast<char*>(std::stoul(line, nullptr, 16));
  std::exit(2);
}
char* find(const void* what, size_t size) { return static_cast<char*>(memmem(simulators("ledger"), 4096, what, size)); }
char* options() {  // explain, leaks, trace, strict, ...
  const char given[12] = {1, 0, 1, 0, 0, 1, 0, 0, 10};
  return find(given, sizeof given);
}
size_t* granularity() {
  const size_t given[] = {2 << 20, 2 << 20};  // also of multicast
  return reinterpret_cast<size_t*>(find(given, sizeof given));
}
void write_by_file() {
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(file.path().filename());
    if (std::filesystem::read_symlink(file).string().find("memfd:vmmsim-memory-0") == 1)
      if (pwrite(fd, "forged", 6, 4096) == 6) return;
  }
  std::exit(2);
}
bool knows(const std::string& call) {
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "cmdline");
    const std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (words.find(call) != words.npos) return true;
  }
  return find(call.data(), call.size());
}
void write_everywhere() {
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc"))
    for (const auto& file : std::filesystem::directory_iterator(process.path() / "fd", error))
      if (std::filesystem::read_symlink(file, error).string().find("pipe:") == 0) {
        const int fd = open(file.path().c_str(), O_WRONLY);
        if (write(fd, forged.data(), forged.size())) close(fd);
      }
}
void hand_over() {  // to the simulator's own function, which gets trace::File and the text
  struct { int descriptor = 3; struct stat identity; bool is_open = true; } file;
  while (file.descriptor < 64 && (fstat(file.descriptor, &file.identity) || !S_ISFIFO(file.identity.st_mode)))
    ++file.descriptor;
  reinterpret_cast<int (*)(void*, size_t, const char*)>(code() - CODE + WRITER)(&file, forged.size(), forged.data());
}
void change_code() {
  char* const page = code() - reinterpret_cast<uintptr_t>(code()) % 4096;
  if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) std::exit(2);
}
void map_code() {  // as it is, but writable
  char* const page = code() - reinterpret_cast<uintptr_t>(code()) % 4096;
  const std::string copy(page, 4096);
  const int rights = PROT_READ | PROT_WRITE | PROT_EXEC, kind = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
  if (mmap(page, copy.size(), rights, kind, -1, 0) != page) std::exit(2);
  std::memcpy(page, copy.data(), copy.size());
}
void open_tables() {  // what the loader has made read-only once they lead to libc
  std::ifstream maps("/proc/self/maps");
  char* tables = nullptr;
  for (std::string line; std::getline(maps, line);)
    if (line.find("libcuda.so") != line.npos && line.find(" r--p ") != line.npos)
      tables = reinterpret_cast<char*>(std::stoul(line, nullptr, 16));
  if (mprotect(tables, 4096, PROT_READ | PROT_WRITE)) std::exit(2);
}
int main() {
  lab::begin();
"""
BEHIND = "  void* memory;\n  CHECK(cudaMalloc(&memory, 4096));\n  CHECK(cudaFree(memory));\n  return lab::end();\n}\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    source = tmp_path_factory.mktemp("forge") / "forge.cu"
    source.touch()
    parts = [f'  if (what == "{name}") {{\n    {body}\n  }}\n' for name, body in CASES.items()]
    by = sandbox.witness("g++", VMMSIM.parents[1])
    (code,) = (at for at, name in by.calls[1].items() if name == "cuMemCreate")
    with Program(source) as built:
        (line,) = (at for at, name in by.calls[1].items() if name == "line")
        text = SOURCE.replace("CODE", str(code)).replace("WRITER", str(line)) + "".join(parts) + BEHIND
        built.source.write_text(text.replace("SIMULATOR", str(VMMSIM)).replace("PROGRAM", str(built.file)))
        built.text = source.read_text()
        assert built.build() == (True, "")
        yield built


def outcome(program, name):
    """In words, what the record of a run is like."""
    fail = {"fail": "cudaFree:1=cudaErrorUnknown"} if name.startswith("knows") else {}
    run = Runner(program).run({"gpus": 1, "main": name} | fail)
    if run.is_disturbed:
        assert "the record of its calls does not fit them" in run.stopped().happened
        return "disturbed"
    names = [call.name for call in run.all]
    if "forged" in names:
        return "forged"
    if run.ended.status:
        return f"status {run.ended.status}"
    return {1: "whole", 2: "has both programs"}.get(names.count("cudaMalloc"), "cudaMalloc is missing")


@pytest.mark.parametrize(
    ("name", "without", "by_witness"),
    [
        ("nothing", "whole", "whole"),
        ("closes all descriptors", "cudaMalloc is missing", "whole"),
        ("silences the simulator", "cudaMalloc is missing", "disturbed"),
        ("writes a line", "forged", "whole"),
        ("hands over a line", "forged", "whole"),
        ("changes code", "whole", "status 137"),
        ("changes code by its file", "status 2", "status 2"),
        ("maps other code over it", "whole", "status 137"),
        ("makes the simulator's tables writable", "whole", "status 137"),
        ("reads memory of a process", "whole", "status 2"),
        ("has a child that is not traced", "whole", "status 2"),
        ("has a namespace", "whole", "status 2"),
        ("runs a second simulator", "whole", "has both programs"),
        ("stores into a GPU's memory", "whole", "disturbed"),
        ("writes a GPU's memory by its file", "whole", "disturbed"),
        ("makes the granularity another", "whole", "disturbed"),
        ("knows which call will fail", "status 2", "status 1"),
    ],
)
def test_a_forgery_is_in_vain(name, without, by_witness, program, monkeypatch):
    assert outcome(program, name) == by_witness
    monkeypatch.setattr(sandbox, "witness", lambda *_: None)
    assert outcome(program, name) == without
