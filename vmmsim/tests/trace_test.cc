// SPDX-License-Identifier: MIT-0
// What writes a trace, by itself: texts as JSON, a line that does not fit, a file that the program closes, arguments,
// also those that lead nowhere.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include "../trace/arguments.h"
#include "../trace/line.h"
#include "../trace/text.h"
#include "unit_check.h"

namespace {

void check_texts() {
  using trace::json_string;
  CHECK(json_string("a\"b\\c\n\x01") == R"("a\"b\\c\u000a\u0001")");
  CHECK(json_string("\x7f") == R"("\u007f")");
  CHECK(json_string("\xc3\xb6 \xf0\x9f\x98\x80") == "\"\xc3\xb6 \xf0\x9f\x98\x80\"");  // it is UTF-8
  CHECK(json_string("\xf6") == R"("\udcf6")");
  CHECK(json_string("\xc3") == R"("\udcc3")");                      // the begin of a letter
  CHECK(json_string("\xc0\x80") == R"("\udcc0\udc80")");            // a letter in more bytes than it needs
  CHECK(json_string("\xed\xa0\x80") == R"("\udced\udca0\udc80")");  // half a pair
  CHECK(trace::object({{"size", 5}, {"gpu", nullptr}, {"is", true}}) == R"({"size":5,"gpu":null,"is":true})");
  CHECK(trace::list({}) == "[]");
  CHECK(trace::list_of_texts({"a", "b"}) == R"(["a","b"])");
}

void check_line() {
  const trace::Line line{.number = 1, .time = 2, .call = "cuInit", .nth = 3, .result = "CUDA_SUCCESS"};
  const std::string whole = trace::text_of(line);
  CHECK(whole.find(R"("call":"cuInit")") != std::string::npos && whole.back() == '\n');
  CHECK(whole.find('\n') == whole.size() - 1);
  CHECK(whole.ends_with(std::string(R"("explanation":"","version":)") + trace::version + "}\n"));
  const std::string second = trace::text_of({.number = 2, .call = "cuInit", .nth = 4});
  CHECK(second.ends_with("\"explanation\":\"\"}\n"));
  const std::string unnumbered = trace::text_of({.number = 0, .call = "vanished", .nth = 1});
  CHECK(unnumbered.find("\"version\":") != std::string::npos);  // it may be the first that is written
  char room[64];
  std::memset(room, '#', sizeof room);
  CHECK(trace::write_line(line, room, 32) == whole.size());
  CHECK(std::strlen(room) == 31 && room[32] == '#' && whole.starts_with(room));
}

void check_file() {
  char name[] = "/tmp/trace_test.XXXXXX";
  const int descriptor = mkstemp(name);
  trace::File file(descriptor);
  CHECK(file.write("one\n") == 0 && file.is_open());
  const int other = open("/dev/null", O_WRONLY);
  dup2(other, descriptor);  // as a program does that closes all and opens its own
  CHECK(file.write("two\n") == EBADF && !file.is_open());
  CHECK(file.write("three\n") == 0);  // that was told once
  char text[16] = "";
  const int again = open(name, O_RDONLY);
  CHECK(read(again, text, sizeof text) == 4 && !std::memcmp(text, "one\n", 4));
  const int full = open(name, O_WRONLY);
  unlink(name);

  int ends[2];
  CHECK(pipe(ends) == 0);
  close(ends[0]);
  CHECK(trace::write_all(ends[1], "nobody reads this\n") == EPIPE);  // and no SIGPIPE

  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {8, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK(trace::write_all(full, "more than 8 bytes\n") == EFBIG);  // and no SIGXFSZ
  setrlimit(RLIMIT_FSIZE, &before);
}

// Descriptors are shown up to the first that the call refuses.
void check_arguments() {
  const CUmemAccessDesc all[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE},
                                 {{CUmemLocationType(9), 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                 {{CU_MEM_LOCATION_TYPE_DEVICE, 2}, CU_MEM_ACCESS_FLAGS_PROT_READ}};
  const CUmemAccessDesc* const desc = all;
  const size_t count = 3;
  CHECK(trace::value_of(trace::Call("cuMemSetAccess", "desc, count", desc, count), 0, nullptr) ==
        R"([{"location":{"type":"CU_MEM_LOCATION_TYPE_DEVICE","id":0},"flags":"CU_MEM_ACCESS_FLAGS_PROT_NONE"},)"
        R"({"location":{"type":9,"id":1},"flags":"CU_MEM_ACCESS_FLAGS_PROT_READWRITE"}])");
}

// A call that is refused has not read what it was given: where nothing lies, the pointer is shown.
void check_unreadable() {
  const auto value = [](const auto& given, uint64_t count) {
    return trace::value_of(trace::Call("cuCall", "given, count", given, count), 0, nullptr);
  };
  const auto nowhere = [&](auto* pointer) { return value(pointer, 1) == "\"0x10\""; };
  CHECK(nowhere(reinterpret_cast<const CUmemAccessDesc*>(16)));
  CHECK(nowhere(reinterpret_cast<const CUmemAllocationProp*>(16)));
  CHECK(nowhere(reinterpret_cast<CUmemAllocationProp*>(16)));
  CHECK(nowhere(reinterpret_cast<const CUmemLocation*>(16)));
  CHECK(nowhere(reinterpret_cast<const CUmulticastObjectProp*>(16)));
  CHECK(nowhere(reinterpret_cast<const char*>(16)));
  CHECK(nowhere(reinterpret_cast<size_t*>(16)));
  CHECK(nowhere(reinterpret_cast<int*>(16)));
  CHECK(nowhere(reinterpret_cast<void**>(16)));
  CHECK(value(trace::KernelName{reinterpret_cast<const char*>(16)}, 1) == "\"0x10\"");

  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  auto* const end =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) + page;
  CHECK(munmap(end, page) == 0);
  const auto as_address = [](const void* pointer) {
    return '"' + hexadecimal(reinterpret_cast<uint64_t>(pointer)) + '"';
  };
  auto* const last = reinterpret_cast<CUmemAccessDesc*>(end) - 1;
  *last = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READ};
  const CUmemAccessDesc* const descriptors = last;
  CHECK(value(descriptors, 1).starts_with("[{"));
  CHECK(value(descriptors, 2) == as_address(last));
  CHECK(value(descriptors, uint64_t(1) << 60) == as_address(last));
  const std::vector<CUmemAccessDesc> many(4096, *last);
  const CUmemAccessDesc* const first = many.data();
  CHECK(value(first, uint64_t(1) << 60) == as_address(first));  // and no text without end
  const char* const text = end - 4;
  std::memcpy(end - 4, "abc", 4);
  CHECK(value(text, 1) == "\"abc\"");
  end[-1] = 'd';
  CHECK(value(text, 1) == as_address(text));
}

}  // namespace

int main() {
  check_texts();
  check_line();
  check_file();
  check_arguments();
  check_unreadable();
  return end_of_checks();
}
