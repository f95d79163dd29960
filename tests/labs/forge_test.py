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
    "has a child that is not traced": "const long child = syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);\n"
    "    if (child == 0) _exit(0);\n    if (child < 0) std::exit(2);",
    "has a namespace": "if (unshare(CLONE_NEWUSER)) std::exit(2);",
    "runs a second simulator": 'if (std::system("LAB_MAIN=nothing SIMULATOR --trace /dev/null PROGRAM")) std::exit(2);',
}
SOURCE = """#include "../lab.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
const std::string what = std::getenv("LAB_MAIN");
const std::string forged =
    R"({"pid":1,"thread":1,"number":1,"time":1,"call":"forged","nth":1,"callers":[],)"
    R"("device":-1,"arguments":{},"result":"","outputs":{},"changes":[],"explanation":""})"
    "\\n";
char* code() { return static_cast<char*>(dlsym(RTLD_DEFAULT, "cuMemCreate")); }
char* options() {  // of vmmsim, in the memory that it shares with the program: explain, leaks, trace, strict, ...
  unsigned long begin = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line) && !begin;)
    if (line.find("memfd:vmmsim-ledger") != line.npos) begin = std::stoul(line, nullptr, 16);
  const char given[16] = {1, 0, 1, 0, 0, 1};
  return static_cast<char*>(memmem(reinterpret_cast<void*>(begin), 65536, given, sizeof given));
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
        text = SOURCE.replace("CODE", str(code)).replace("WRITER", str(by.writers[1])) + "".join(parts) + BEHIND
        built.source.write_text(text.replace("SIMULATOR", str(VMMSIM)).replace("PROGRAM", str(built.file)))
        built.text = source.read_text()
        assert built.build() == (True, "")
        yield built


def outcome(program, name):
    """In words, what the record of a run is like."""
    run = Runner(program).run({"gpus": 1, "main": name})
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
        ("has a child that is not traced", "whole", "status 2"),
        ("has a namespace", "whole", "status 2"),
        ("runs a second simulator", "whole", "has both programs"),
    ],
)
def test_a_forgery_is_in_vain(name, without, by_witness, program, monkeypatch):
    assert outcome(program, name) == by_witness
    monkeypatch.setattr(sandbox, "witness", lambda *_: None)
    assert outcome(program, name) == without
