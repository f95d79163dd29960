// SPDX-License-Identifier: MIT-0
// A context ends while another thread's call waits for what runs in it, or in another context of the same library. Who
// comes second finds less than there was, and nothing is given back twice.
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "check.h"

namespace {

const char module_text[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .b8 table[4096];\n"
    ".visible .entry empty()\n{\n ret;\n}\n";

// A host function in a stream that ends when it is told to.
class Brake {
 public:
  explicit Brake(CUstream stream) {
    CHECK(
        cuLaunchHostFunc(stream, [](void* brake) { static_cast<Brake*>(brake)->released_.get_future().wait(); }, this));
  }
  void release() { released_.set_value(); }

 private:
  std::promise<void> released_;
};

// A thread that makes one call, and waits in it.
class Caller {
 public:
  template <class Call> explicit Caller(Call call)
      : thread_([this, call] {
          id_ = gettid();
          result_ = call();
        }) {}
  void await_sleep() const {
    char state = 0;
    while (state != 'S') {
      if (!id_) continue;
      FILE* const file = std::fopen(("/proc/self/task/" + std::to_string(id_) + "/stat").c_str(), "r");
      EXPECT(file, "the thread has ended, and was to wait");
      EXPECT(std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1, "/proc has no state of the thread");
      std::fclose(file);
    }
  }
  CUresult result() {
    thread_.join();
    return result_;
  }

 private:
  std::atomic<pid_t> id_ = 0;
  CUresult result_ = CUDA_SUCCESS;
  std::thread thread_;
};

size_t free_memory() {
  size_t free, total;
  CHECK(cuMemGetInfo(&free, &total));
  return free;
}

CUcontext retain() {
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  return context;
}

// A library is loaded in two contexts. While its unloading waits for the one, the other is reset.
void test_library() {
  CUcontext busy;
  CHECK(cuCtxCreate(&busy, nullptr, 0, 0));
  const size_t free_before = free_memory();
  CUlibrary library;
  CUmodule module;
  CHECK(cuLibraryLoadData(&library, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetModule(&module, library));
  CHECK(cuCtxPushCurrent(retain()));
  CHECK(cuLibraryGetModule(&module, library));
  CHECK(cuCtxPopCurrent(nullptr));
  Brake brake(nullptr);
  Caller caller([&] { return cuLibraryUnload(library); });
  caller.await_sleep();
  CHECK(cuDevicePrimaryCtxReset(0));
  brake.release();
  CHECK(caller.result());
  EXPECT(free_memory() == free_before, "%zu bytes of modules are left", free_before - free_memory());
  CHECK(cuCtxDestroy(busy));
}

// A module is unloaded, and its context reset: both wait for the same, and either may come first.
void test_module() {
  for (int i = 0; i < 20; ++i) {
    CHECK(cuCtxPushCurrent(retain()));
    CUmodule module;
    CHECK(cuModuleLoadData(&module, module_text));
    Brake brake(nullptr);
    Caller unloads([&] {
      CHECK(cuCtxSetCurrent(retain()));
      return cuModuleUnload(module);
    });
    unloads.await_sleep();
    Caller resets([] { return cuDevicePrimaryCtxReset(0); });
    resets.await_sleep();
    brake.release();
    const CUresult unloaded = unloads.result();
    EXPECT(unloaded == CUDA_SUCCESS || unloaded == CUDA_ERROR_INVALID_HANDLE, "cuModuleUnload answered %d", unloaded);
    CHECK(resets.result());
    CHECK(cuCtxPopCurrent(nullptr));
  }
}

// What a program has set of stream 0 goes with its context.
void test_stream_0() {
  CHECK(cuCtxPushCurrent(retain()));
  CUstreamAttrValue value = {}, first = {};
  CHECK(cuStreamGetAttribute(nullptr, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &first));
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  CHECK(cuStreamSetAttribute(nullptr, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  CHECK(cuDevicePrimaryCtxReset(0));
  retain();
  CHECK(cuStreamGetAttribute(nullptr, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT(value.syncPolicy == first.syncPolicy, "the policy is %d", int(value.syncPolicy));
  CHECK(cuCtxPopCurrent(nullptr));
}

}  // namespace

int main() {
  CHECK(cuInit(0));
  test_stream_0();
  test_library();
  test_module();
  std::puts("OK");
}
