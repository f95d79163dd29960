// SPDX-License-Identifier: MIT-0
// Where a reservation comes to lie when an address is wished for. Each line of questions begins with no reservation, in
// a process of its own, most without a context. Sizes are in MiB, places in MiB from 2^45 on:
//   34 at 0, 2 by 16 at 48   reserves 34 MiB with the hint 2^45, then 2 MiB with an alignment of 16 MiB and a hint
//   2                        reserves without a hint
//   try 2 at 34              reserves, and frees it again
//   free 64                  frees what was reserved there
#include "conformance.h"

#include <map>
#include <sstream>

static const CUdeviceptr origin = CUdeviceptr(1) << 45;
static std::map<long long, size_t> reserved;  // by place

static std::string where(CUdeviceptr address, CUdeviceptr hint) {
  if (address == hint) return "at the hint";
  const CUdeviceptr block = 32 * MiB, far = CUdeviceptr(1) << 34;
  const std::string place = std::to_string((long long)(address - origin) / (long long)MiB);
  if (hint && address == (hint + block - 1) / block * block) return "rounded up to 32 MiB, " + place;
  return address > origin - far && address < origin + far ? "elsewhere, " + place : "far away";
}

static std::string free_at(long long place) {
  const size_t size = reserved[place];
  reserved.erase(place);
  return check::name(cuMemAddressFree(origin + place * MiB, size));
}

static std::string ask(const std::string& question) {
  std::istringstream words(question);
  std::string word;
  long long size = 0, place = 0, alignment = 0;
  bool has_hint = false, is_trial = false;
  while (words >> word) {
    if (word == "try") is_trial = true;
    else if (word == "by") words >> alignment;
    else if (word == "at" || word == "free") words >> place;
    else size = std::stoll(word);
    if (word == "at") has_hint = true;
    if (word == "free") return free_at(place);
  }
  CUdeviceptr address = 0;
  const CUdeviceptr hint = has_hint ? origin + place * MiB : 0;
  const CUresult answer = cuMemAddressReserve(&address, size * MiB, alignment * MiB, hint, 0);
  if (answer != CUDA_SUCCESS) return check::name(answer);
  if (is_trial) CHECK(cuMemAddressFree(address, size * MiB));
  else reserved[(long long)(address - origin) / (long long)MiB] = size * MiB;
  return where(address, hint);
}

static const struct {
  const char* what;
  bool with_context;
  const char* questions;
} cases[] = {
    {"a free hint", false,
     "try 2 at 0, try 16 at 0, try 30 at 0, try 32 at 0, try 34 at 0, try 2 at 2, try 16 at 16, try 2 at 30, "
     "try 32 at 2, try 34 at 30, try 2 at 32, try 2 at -2"},
    {"a free hint, with a context", true,
     "try 2 at 0, try 16 at 0, try 24 at 0, try 26 at 0, try 30 at 0, try 32 at 0, try 34 at 0, try 2 at 2, "
     "try 32 at 2, 34 at 0, try 2 at 34, try 24 at 34, try 26 at 34, try 30 at 34, try 32 at 34, try 2 at 64, "
     "try 2 at -2, free 0, 32 at 0, try 8 at 32, try 30 at 32, free 0, try 2"},
    {"behind 34 MiB", false,
     "34 at 0, try 2 at 34, try 26 at 34, try 30 at 34, try 32 at 34, try 34 at 34, try 2 at 36, try 2 at 62, "
     "try 4 at 62, try 2 at 64, try 32 at 64, try 30 at 32, try 28 at 36, try 30 at 36"},
    {"behind and before 32 MiB", false,
     "32 at 0, try 2 at 32, try 8 at 32, try 34 at 32, try 2 at -2, try 2 at -32, try 32 at -32, try 34 at -34, "
     "try 34 at -32"},
    {"a hint that is taken", false,
     "40 at 0, try 2 at 0, try 2 at 38, try 4 at 38, try 16 at 10, try 24 at 38, try 26 at 38, try 32 at 0, "
     "try 34 at 30, try 32 at 38, try 32 at -2, try 24 at 40, try 26 at 40, 32 at 64, try 26 at 40, try 32 at 42, "
     "try 2 at 64"},
    {"which block, of several with room", false,
     "2 at 0, 2 at 1024, 2 at 2048, try 2 at 2, try 2 at 1026, try 2 at 2052, try 30 at 2, 28 at 2, try 4 at 2, "
     "try 2 at 2, try 30 at 2, try 2, try 4, 30 at 1026, try 2, free 1024, try 2, try 4, try 2 at 2052"},
    {"which block, after one was used or freed in", false,
     "2 at 0, 2 at 2, 2 at 1024, 2 at 2, free 2, try 2, 28, 26 at 1028, free 0, try 2, try 2 at 0, try 2 at 2"},
    {"which hole of a block", false,
     "2 at 0, 4 at 2, 2 at 6, 2 at 8, 2 at 10, free 2, free 8, try 2, try 4, try 2 at 4, try 4 at 4, try 2 at 6, "
     "try 2 at 8, try 20, try 22"},
    {"two blocks side by side", false,
     "34 at 0, 34 at 64, 2 at 98, free 64, try 40 at 34, try 64 at 34, try 32 at 34, try 34 at 34, try 2 at 34, "
     "try 34"},
    {"alignments", false,
     "34 at 0, try 2 by 2 at 34, try 2 by 4 at 36, try 2 by 16 at 48, try 2 by 8, try 2 by 16, try 4 by 32, "
     "try 2 by 4 at 60, try 32 by 64 at 64, try 32 by 32 at 96, try 32 by 4 at 36"},
    {"a block whose first reservation is gone", false,
     "34 at 0, 2 at 34, free 0, try 2 at 0, try 2 at 30, try 2 at 32, try 30 at 0, try 34 at 0, try 36 at 0, "
     "try 2 at 36, free 34, try 2 at 36, try 2 at 0"},
    {"the last 32 MiB below 2^47", false, "try 2 at 100663264, try 2 at 100663294"},
};

int main(int argc, char** argv) {
  if (argc > 1) {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    const auto& it = cases[atoi(argv[1])];
    CHECK(cuInit(0));
    if (it.with_context) CHECK(cudaSetDevice(0));
    std::istringstream questions(it.questions);
    for (std::string question; std::getline(questions >> std::ws, question, ',');) say(question, ask(question));
    return 0;
  }
  check::require_gpus(1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    section(cases[i].what);
    say("end", run_again(std::to_string(i)));
  }
  std::printf("OK\n");
}
