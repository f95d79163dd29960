// SPDX-License-Identifier: MIT-0
// Several texts of PTX made into one module with cuLink*: which symbols find one another, what is refused and by which
// call, whether the error log names the symbol; and what a kernel is told of its shared memory.
#include "conformance.h"

#include <cstring>
#include <fstream>
#include <vector>

namespace {

const std::string head = ".version 7.0\n.target sm_75\n.address_size 64\n";

// A kernel `name` that stores the words which `code` leaves in %r1, %r2 and %r3.
std::string kernel(const std::string& name, const std::string& code) {
  return ".visible .entry " + name +
         "(.param .u64 out) {\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
         "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;\n" +
         code +
         "\nld.param.u64 %rd8, [out];\nst.global.u32 [%rd8], %r1;\nst.global.u32 [%rd8+4], %r2;\n"
         "st.global.u32 [%rd8+8], %r3;\nret;\n}\n";
}
// A function of no parameters that returns a number.
std::string function(const std::string& linkage, const std::string& name, int number) {
  return linkage + " .func (.param .b32 result) " + name + "() {\nst.param.b32 [result], " + std::to_string(number) +
         ";\nret;\n}\n";
}
std::string call(const std::string& name, const std::string& to) {
  return "{ .param .b32 got; call (got), " + name + ", (); ld.param.b32 " + to + ", [got]; }\n";
}
const std::string declared = ".extern .func (.param .b32 result) f();\n";
const std::string uses_f = head + declared + kernel("k", call("f", "%r1"));
const std::string uses_x = head + ".extern .global .u32 x;\n" + kernel("k", "ld.global.u32 %r1, [x];");

const std::string gives_x =
    ".visible .func (.param .b32 result) f() {\n.reg .b32 %r<3>;\nld.global.u32 %r1, [x];\n"
    "st.param.b32 [result], %r1;\nret;\n}\n";

char log_of_errors[4096], log_of_all[4096];
struct Options {
  CUjit_option names[4] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                           CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void* values[4] = {log_of_errors, reinterpret_cast<void*>(sizeof log_of_errors), log_of_all,
                     reinterpret_cast<void*>(sizeof log_of_all)};
};

// Whether the log of errors says something, and whether it names the symbol.
void say_log(const char* symbol) {
  say("  the log of errors", !*log_of_errors                      ? "empty"
                             : std::strstr(log_of_errors, symbol) ? "names " + std::string(symbol)
                                                                  : "says something else");
  *log_of_errors = '\0';
}

CUresult add(CUlinkState state, const std::string& text, CUjitInputType type = CU_JIT_INPUT_PTX) {
  return cuLinkAddData(state, type, const_cast<char*>(text.c_str()), text.size() + 1, "part", 0, nullptr, nullptr);
}

// What the three words are that the kernel k of a module stores.
std::string run(CUmodule module) {
  CUfunction k;
  CUdeviceptr out;
  unsigned words[3] = {};
  if (const CUresult answer = cuModuleGetFunction(&k, module, "k")) return check::name(answer);
  CHECK(cuMemAlloc(&out, sizeof words));
  void* parameters[] = {&out};
  CHECK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 64, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(words, out, sizeof words));
  CHECK(cuMemFree(out));
  return std::to_string(words[0]) + " " + std::to_string(words[1]) + " " + std::to_string(words[2]);
}

// Links the texts and says what the calls answer; if all is well it runs k.
void link(const char* what, const std::vector<std::string>& texts, const char* symbol = "?") {
  say(what, "");
  Options options;
  CUlinkState state;
  CHECK(cuLinkCreate(4, options.names, options.values, &state));
  for (const std::string& text : texts)
    if (say("  add", add(state, text)) != CUDA_SUCCESS) say_log(symbol);
  void* image = nullptr;
  size_t size = 0;
  if (say("  complete", cuLinkComplete(state, &image, &size)) != CUDA_SUCCESS) {
    say_log(symbol);
  } else {
    CUmodule module;
    CHECK(cuModuleLoadData(&module, image));
    say("  k gives", run(module));
    CHECK(cuModuleUnload(module));
  }
  CHECK(cuLinkDestroy(state));
}

void load(const char* what, const std::string& text, const char* symbol) {
  Options options;
  CUmodule module = nullptr;
  if (say(what, cuModuleLoadDataEx(&module, text.c_str(), 4, options.names, options.values)) != CUDA_SUCCESS)
    say_log(symbol);
  else CHECK(cuModuleUnload(module));
}

void names() {
  section("which symbols find one another");
  link("a function of another text", {uses_f, head + function(".visible", "f", 7)});
  link("the other way round", {head + function(".visible", "f", 7), uses_f});
  link("a variable of another text", {uses_x, head + ".visible .global .u32 x = 8;\n"});
  link("a constant of another text", {head + ".extern .const .u32 c;\n" + kernel("k", "ld.const.u32 %r1, [c];"),
                                      head + ".visible .const .u32 c = 9;\n"});
  link("functions and variables of the same name that are not visible",
       {head + ".global .u32 x = 1;\n" + function("", "f", 2) + function(".visible", "g", 6) +
            ".extern .func (.param .b32 result) h();\n" +
            kernel("k", "ld.global.u32 %r1, [x];\n" + call("f", "%r2") + call("h", "%r3")),
        head + ".global .u32 x = 30;\n" + function("", "f", 400) +
            ".visible .func (.param .b32 result) h() {\n.reg .b32 %r<3>;\nld.global.u32 %r1, [x];\n" +
            call("f", "%r2") + "add.u32 %r1, %r1, %r2;\nst.param.b32 [result], %r1;\nret;\n}\n"});
  link("a visible variable, and one of its name that is not",
       {head + ".global .u32 x = 1;\n" + kernel("k", "ld.global.u32 %r1, [x];"),
        head + ".visible .global .u32 x = 2;\n"});
  link("weak functions: the first",
       {head + function(".weak", "f", 1) + kernel("k", call("f", "%r1")), head + function(".weak", "f", 2)});
  link("weak, then visible",
       {head + function(".weak", "f", 1) + kernel("k", call("f", "%r1")), head + function(".visible", "f", 2)});
  link("weak variables", {head + ".weak .global .u32 x = 1;\n" + kernel("k", "ld.global.u32 %r1, [x];"),
                          head + ".weak .global .u32 x = 2;\n"});
  link("weak kernels", {head +
                            [] {
                              auto text = kernel("k", "mov.u32 %r1, 1;");
                              return ".weak" + text.substr(8);
                            }(),
                        head +
                            [] {
                              auto text = kernel("k", "mov.u32 %r1, 2;");
                              return ".weak" + text.substr(8);
                            }()});
  link("a common variable, which the other text declares",
       {head + ".common .global .u32 x;\n" + declared + kernel("k", "st.global.u32 [x], 5;\n" + call("f", "%r1")),
        head + ".extern .global .u32 x;\n" + gives_x});
  link("common variables of two texts",
       {head + ".common .global .u32 x;\n" + declared + kernel("k", "st.global.u32 [x], 5;\n" + call("f", "%r1")),
        head + ".common .global .u32 x;\n" + gives_x});
  link("the address of a variable of another text in an initial value",
       {head + ".extern .global .u32 x;\n.global .u64 p = generic(x);\n" +
            kernel("k", "ld.global.u64 %rd1, [p];\nld.u32 %r1, [%rd1];"),
        head + ".visible .global .u32 x = 8;\n"});
  link("an array whose size the other text says",
       {head + ".extern .global .u32 x[];\n" + kernel("k", "ld.global.u32 %r1, [x+8];"),
        head + ".visible .global .u32 x[3] = {1, 2, 3};\n"});
  link("shared variables: one each, and the launch's own for both",
       {head + declared + ".extern .shared .align 16 .b8 all[];\n.shared .u32 s;\n" +
            kernel("k",
                   "st.shared.u32 [s], 1;\nst.shared.u32 [all], 7;\n" + call("f", "%r1") + "ld.shared.u32 %r2, [s];"),
        head + ".extern .shared .align 16 .b8 all[];\n.shared .u32 s;\n"
               ".visible .func (.param .b32 result) f() {\n.reg .b32 %r<3>;\nst.shared.u32 [s], 2;\n"
               "ld.shared.u32 %r1, [all];\nst.param.b32 [result], %r1;\nret;\n}\n"});
}

void refused() {
  section("what cannot be linked");
  link("a function that no text has", {uses_f}, "f");
  link("a variable that no text has", {uses_x}, "x");
  link("declared and not used", {head + declared + kernel("k", "")}, "f");
  link("two functions", {uses_f, head + function(".visible", "f", 1), head + function(".visible", "f", 2)}, "f");
  link("two variables", {uses_x, head + ".visible .global .u32 x = 1;\n", head + ".visible .global .u32 x = 2;\n"},
       "x");
  link("two kernels", {head + kernel("k", ""), head + kernel("k", "")}, "k");
  link("a variable where a function is wanted", {uses_f, head + ".visible .global .u32 f;\n"}, "f");
  link("the wanted function is not visible", {uses_f, head + function("", "f", 1)}, "f");
  link("a variable of another size", {uses_x, head + ".visible .global .u64 x = 1;\n"}, "x");
  link("a text that is not PTX", {"nothing of the kind"}, "?");
  link("a register that is not declared", {head + kernel("k", "add.u32 %r1, %r1, %q1;")}, "%q1");
  link("a wrong text, then a right one", {head + "bad", head + kernel("k", "")}, "bad");
  section("one text with a declaration that nothing meets");
  load("a function", uses_f, "f");
  load("a variable", uses_x, "x");
  load("an array without a size", head + ".extern .global .u32 x[];\n" + kernel("k", "ld.global.u32 %r1, [x];"), "x");
  load("a function that nothing calls", head + declared + kernel("k", ""), "f");
  load("a variable that nothing uses", head + ".extern .global .u32 x;\n" + kernel("k", ""), "x");
  load("a wrong register", head + kernel("k", "add.u32 %r1, %r1, %q1;"), "%q1");
}

// One question a line; some crash the driver.
void arguments(int from) {
  const std::string good = head + kernel("k", "mov.u32 %r1, 3;");
  const auto state = [] {
    CUlinkState made;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &made));
    return made;
  };
  const auto data = [](const std::string& text) { return const_cast<char*>(text.c_str()); };
  void* image = nullptr;
  size_t size = 0;
  int question = 0;
  const auto ask = [&](const char* what, auto answer) {
    if (question++ < from) return;
    std::printf("%s: ", what);
    std::fflush(stdout);
    std::printf("%s\n", check::name(answer()));
    std::fflush(stdout);
  };
  ask("create without a place for the result", [&] { return cuLinkCreate(0, nullptr, nullptr, nullptr); });
  ask("create with an unknown option", [&] {
    CUjit_option name = CUjit_option(999);
    void* value = nullptr;
    CUlinkState made;
    return cuLinkCreate(1, &name, &value, &made);
  });
  ask("create with options but no names", [&] {
    CUlinkState made;
    return cuLinkCreate(1, nullptr, nullptr, &made);
  });
  ask("add to nothing", [&] { return add(nullptr, good); });
  ask("add no data", [&] { return cuLinkAddData(state(), CU_JIT_INPUT_PTX, nullptr, 8, "part", 0, nullptr, nullptr); });
  ask("add data of size 0",
      [&] { return cuLinkAddData(state(), CU_JIT_INPUT_PTX, data(good), 0, "part", 0, nullptr, nullptr); });
  ask("add without a name", [&] {
    return cuLinkAddData(state(), CU_JIT_INPUT_PTX, data(good), good.size() + 1, nullptr, 0, nullptr, nullptr);
  });
  ask("add a text without its final zero",
      [&] { return cuLinkAddData(state(), CU_JIT_INPUT_PTX, data(good), good.size(), "part", 0, nullptr, nullptr); });
  ask("add data of an unknown kind", [&] { return add(state(), good, CUjitInputType(99)); });
  ask("add PTX as machine code", [&] { return add(state(), good, CU_JIT_INPUT_CUBIN); });
  ask("add PTX as a fat binary", [&] { return add(state(), good, CU_JIT_INPUT_FATBINARY); });
  ask("add PTX as an object", [&] { return add(state(), good, CU_JIT_INPUT_OBJECT); });
  ask("add PTX as a library", [&] { return add(state(), good, CU_JIT_INPUT_LIBRARY); });
  ask("add a file that there is not",
      [&] { return cuLinkAddFile(state(), CU_JIT_INPUT_PTX, "/nonexistent/part.ptx", 0, nullptr, nullptr); });
  ask("add a file without a name",
      [&] { return cuLinkAddFile(state(), CU_JIT_INPUT_PTX, nullptr, 0, nullptr, nullptr); });
  ask("add a file of PTX, and complete", [&] {
    const std::string name = "/tmp/conformance_linking_" + std::to_string(getpid()) + ".ptx";
    std::ofstream(name) << good;
    const CUlinkState it = state();
    CHECK(cuLinkAddFile(it, CU_JIT_INPUT_PTX, name.c_str(), 0, nullptr, nullptr));
    std::remove(name.c_str());
    return cuLinkComplete(it, &image, &size);
  });
  ask("complete nothing", [&] { return cuLinkComplete(nullptr, &image, &size); });
  ask("complete what has no parts", [&] { return cuLinkComplete(state(), &image, &size); });
  ask("complete without a place for the image", [&] {
    const CUlinkState it = state();
    CHECK(add(it, good));
    return cuLinkComplete(it, nullptr, &size);
  });
  ask("complete without a place for its size", [&] {
    const CUlinkState it = state();
    CHECK(add(it, good));
    return cuLinkComplete(it, &image, nullptr);
  });
  ask("complete twice", [&] {
    const CUlinkState it = state();
    CHECK(add(it, good));
    CHECK(cuLinkComplete(it, &image, &size));
    return cuLinkComplete(it, &image, &size);
  });
  ask("add after complete", [&] {
    const CUlinkState it = state();
    CHECK(add(it, good));
    CHECK(cuLinkComplete(it, &image, &size));
    return add(it, head + ".visible .global .u32 x;\n");
  });
  ask("add after a failed complete", [&] {
    const CUlinkState it = state();
    CHECK(add(it, uses_f));
    (void)cuLinkComplete(it, &image, &size);
    return add(it, head + function(".visible", "f", 1));
  });
  ask("complete after a failed complete", [&] {
    const CUlinkState it = state();
    CHECK(add(it, uses_f));
    (void)cuLinkComplete(it, &image, &size);
    return cuLinkComplete(it, &image, &size);
  });
  ask("destroy nothing", [&] { return cuLinkDestroy(nullptr); });
  ask("load a copy of the image after destroy", [&] {
    const CUlinkState it = state();
    CHECK(add(it, good));
    CHECK(cuLinkComplete(it, &image, &size));
    const std::vector<char> copy(static_cast<char*>(image), static_cast<char*>(image) + size);
    CHECK(cuLinkDestroy(it));
    CUlibrary library;
    return cuLibraryLoadData(&library, copy.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  });
  ask("without a context", [&] {
    CUcontext before;
    CHECK(cuCtxPopCurrent(&before));
    CUlinkState made;
    return cuLinkCreate(0, nullptr, nullptr, &made);
  });
}

__global__ void sizes(unsigned* out) {
  __shared__ unsigned mine[3];
  extern __shared__ unsigned launchs[];
  mine[0] = launchs[0] = threadIdx.x;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(out[0]));
  asm volatile("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(out[1]));
  asm volatile("mov.u32 %0, %%reserved_smem_offset_cap;" : "=r"(out[2]));
  asm volatile("mov.u32 %0, %%reserved_smem_offset_0;" : "=r"(out[3]));
  asm volatile("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(out[4]));
  asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(out[5]));
  asm volatile("mov.u32 %0, %%aggr_smem_size;" : "=r"(out[6]));
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(out[7]));
#endif
  out[8] = unsigned(__cvta_generic_to_shared(mine));
  out[9] = unsigned(__cvta_generic_to_shared(launchs));
}

void shared_memory() {
  section("what a kernel is told of its shared memory: 12 bytes of its own, 64 of the launch");
  const char* const words[] = {"reserved: begin",
                               "reserved: end",
                               "reserved: cap",
                               "reserved: 0",
                               "reserved: 1",
                               "total",
                               "total with what is reserved",
                               "the launch's",
                               "where its own begins",
                               "where the launch's begins"};
  CUdeviceptr out;
  unsigned values[10];
  CHECK(cuMemAlloc(&out, sizeof values));
  sizes<<<1, 1, 64>>>(reinterpret_cast<unsigned*>(out));
  CHECK(cuMemcpyDtoH(values, out, sizeof values));
  for (int i = 0; i < 10; ++i) say(words[i], std::to_string(values[i]));
  CHECK(cuMemFree(out));
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(cuInit(0));
  CHECK(cudaSetDevice(0));
  if (argc == 3) {
    arguments(std::atoi(argv[2]));
    return 0;
  }
  shared_memory();
  names();
  refused();
  section("arguments");
  ask_through_crashes("arguments");
  std::printf("OK\n");
}
