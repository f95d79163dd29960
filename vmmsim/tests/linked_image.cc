// SPDX-License-Identifier: MIT-0
// What cuLinkComplete makes on the simulator is an image of its own: it loads as data and from a file, can be linked
// once more, and where it is cut off or damaged the answer is an error.
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "check.h"

namespace {

const std::string head = ".version 7.0\n.target sm_75\n.address_size 64\n";
const std::string first = head +
                          ".extern .global .u32 x;\n.visible .entry k(.param .u64 to) {\n.reg .b32 %r;\n"
                          ".reg .b64 %rd;\nld.global.u32 %r, [x];\nld.param.u64 %rd, [to];\n"
                          "st.global.u32 [%rd], %r;\nret;\n}\n";
const std::string second = head + ".visible .global .u32 x = 42;\n";

std::string link(const std::vector<std::string>& texts, CUjitInputType type) {
  CUlinkState state;
  void* image;
  size_t size;
  CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
  for (const std::string& text : texts)
    CHECK(cuLinkAddData(state, type, const_cast<char*>(text.data()), text.size(), "part", 0, nullptr, nullptr));
  CHECK(cuLinkComplete(state, &image, &size));
  const std::string copy(static_cast<char*>(image), size);
  CHECK(cuLinkDestroy(state));
  return copy;
}

void run(CUmodule module) {
  CUfunction k;
  CUdeviceptr to;
  unsigned value = 0;
  CHECK(cuModuleGetFunction(&k, module, "k"));
  CHECK(cuMemAlloc(&to, sizeof value));
  void* parameters[] = {&to};
  CHECK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(&value, to, sizeof value));
  EXPECT(value == 42, "the kernel gives %u", value);
  CHECK(cuMemFree(to));
  CHECK(cuModuleUnload(module));
}

CUresult load_file(const std::string& name, const std::string& content, CUmodule* module) {
  std::ofstream(name, std::ios::binary).write(content.data(), std::streamsize(content.size()));
  const CUresult answer = cuModuleLoad(module, name.c_str());
  EXPECT(std::remove(name.c_str()) == 0, "%s is not there", name.c_str());
  return answer;
}

}  // namespace

int main() {
  CHECK(cuInit(0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  const std::string name = "linked_image_" + std::to_string(getpid());
  const std::string image = link({first, second}, CU_JIT_INPUT_PTX);
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image.data()));
  run(module);
  CHECK(load_file(name, image, &module));
  run(module);
  const std::string again = link({image}, CU_JIT_INPUT_CUBIN);
  CHECK(cuModuleLoadData(&module, again.data()));
  run(module);
  for (size_t size = 4; size < image.size(); ++size) {
    const CUresult answer = load_file(name, image.substr(0, size), &module);
    EXPECT(answer == CUDA_ERROR_INVALID_PTX || answer == CUDA_ERROR_INVALID_IMAGE, "cut to %zu: %d", size, answer);
  }
  std::string damaged = image;
  damaged.back() = 'x';  // the zero at the end
  EXPECT(load_file(name, damaged, &module) == CUDA_ERROR_INVALID_PTX, "a text without its end was taken");
  std::puts("OK");
}
