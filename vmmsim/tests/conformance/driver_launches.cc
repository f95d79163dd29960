// SPDX-License-Identifier: MIT-0
// Unusual calls of the driver and their answers: streams, events, modules, libraries, launches; and what such a call
// answers while a kernel waits.
#include "driver_questions.h"

static std::string function_attribute(CUfunction_attribute what, CUfunction function) {
  int value = 0;
  const CUresult result = cuFuncGetAttribute(&value, what, function);
  return shown(result, value);
}
static std::string launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared = 0, CUstream where = nullptr, void** arguments = nullptr) {
  const CUresult result =
      cuLaunchKernel(function, grid_x, grid_y, 1, block_x, block_y, block_z, shared, where, arguments, nullptr);
  return result ? plain(result) : both(result, cuCtxSynchronize());
}
static std::string blocks(CUfunction function, int size, size_t shared) {
  int count = 0;
  const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, size, shared);
  return shown(result, count);
}
static std::string load(const void* image) {
  CUmodule loaded;
  return plain(cuModuleLoadData(&loaded, image));
}
static void CUDA_CB count_up(void* counter) { ++*static_cast<int*>(counter); }

static void tables() {}  // there are none

static const Question questions[] = {
    // Streams and events.
    CALL("cuStreamCreate, flags 2", cuStreamCreate(&a_stream, 2)),
    ASK("priority of a stream made with -99",
        [] {
          CUstream s;
          int n = 9;
          CHECK(cuStreamCreateWithPriority(&s, 0, -99));
          const CUresult r = cuStreamGetPriority(s, &n);
          return shown(r, n);
        }()),
    ASK("priority of a stream made with 99",
        [] {
          CUstream s;
          int n = 9;
          CHECK(cuStreamCreateWithPriority(&s, 0, 99));
          const CUresult r = cuStreamGetPriority(s, &n);
          return shown(r, n);
        }()),
    VALUE("flags of the null stream", word, cuStreamGetFlags(nullptr, &word)),
    VALUE("flags of a non-blocking stream", word, cuStreamGetFlags(stream, &word)),
    CALL("context of the null stream", cuStreamGetCtx(nullptr, &a_context)),
    CALL("destroy the null stream", cuStreamDestroy(nullptr)),
    CALL("destroy the legacy stream", cuStreamDestroy(CU_STREAM_LEGACY)),
    CALL("destroy the per-thread stream", cuStreamDestroy(CU_STREAM_PER_THREAD)),
    CALL("query an idle stream", (CHECK(cuCtxSynchronize()), cuStreamQuery(stream))),
    CALL("query the null stream", (CHECK(cuCtxSynchronize()), cuStreamQuery(nullptr))),
    CALL("wait for a null event", cuStreamWaitEvent(stream, nullptr, 0)),
    CALL("wait for an event never recorded", cuStreamWaitEvent(stream, never, 0)),
    CALL("wait for an event, flags 2", cuStreamWaitEvent(stream, event, 2)),
    CALL("cuEventCreate, flags 8", cuEventCreate(&an_event, 8)),
    CALL("cuEventCreate, interprocess with timing", cuEventCreate(&an_event, CU_EVENT_INTERPROCESS)),
    CALL("record a null event", cuEventRecord(nullptr, stream)),
    CALL("record an event, flags 2", cuEventRecordWithFlags(event, stream, 2)),
    CALL("query a null event", cuEventQuery(nullptr)),
    CALL("query an event never recorded", cuEventQuery(never)),
    CALL("synchronize an event never recorded", cuEventSynchronize(never)),
    CALL("destroy a null event", cuEventDestroy(nullptr)),
    CALL("time between an event and itself", cuEventElapsedTime(&milliseconds, event, event)),
    CALL("time since an event never recorded", cuEventElapsedTime(&milliseconds, never, event)),
    CALL("time to an event never recorded", cuEventElapsedTime(&milliseconds, event, never)),
    CALL("time to an event without timing", cuEventElapsedTime(&milliseconds, event, untimed)),
    CALL("time to an event without timing, never recorded", cuEventElapsedTime(&milliseconds, never, untimed)),
    CALL("time to a null event", cuEventElapsedTime(&milliseconds, event, nullptr)),
    CALL("time to null", cuEventElapsedTime(nullptr, event, event)),
    CALL("null host function", cuLaunchHostFunc(stream, nullptr, nullptr)),
    ASK("host functions in two streams",
        [] {
          static int n = 0;
          CHECK(cuLaunchHostFunc(stream, count_up, &n));
          CHECK(cuStreamSynchronize(stream));
          CHECK(cuLaunchHostFunc(nullptr, count_up, &n));
          CHECK(cuCtxSynchronize());
          return std::to_string(n);
        }()),
    CALL("write a value to an odd address", cuStreamWriteValue32(stream, memory + 1, 1, 0)),
    CALL("write a value to a host variable", cuStreamWriteValue32(stream, CUdeviceptr(pageable), 1, 0)),
    CALL("write a value, flags 8", cuStreamWriteValue32(stream, memory, 1, 8)),
    ASK("write a value, wait for it",
        [] {
          CHECK(cuStreamWriteValue32(stream, memory, 7, 0));
          const CUresult r = cuStreamWaitValue32(stream, memory, 7, CU_STREAM_WAIT_VALUE_EQ);
          return both(r, cuStreamSynchronize(stream));
        }()),
    // Modules, libraries, launches.
    ASK("load nonsense", load("nonsense, nonsense")),
    ASK("load wrong PTX", load(wrong_ptx)),
    ASK("load PTX for a later GPU", load(late_ptx)),
    ASK("load an ELF that is none", load("\177ELF nonsense")),
    CALL("load a file that is not there", cuModuleLoad(&a_module, "/nonexistent")),
    CALL("load a file of null name", cuModuleLoad(&a_module, nullptr)),
    CALL("a function that is not there", cuModuleGetFunction(&a_function, module, "absent")),
    CALL("a function of null name", cuModuleGetFunction(&a_function, module, nullptr)),
    CALL("a function of the null module", cuModuleGetFunction(&a_function, nullptr, "nothing")),
    CALL("a function that is a variable", cuModuleGetFunction(&a_function, module, "table")),
    VALUE("functions of the module", word, cuModuleGetFunctionCount(&word, module)),
    VALUE("a variable", size, cuModuleGetGlobal(&address, &size, module, "table")),
    VALUE("a constant", size, cuModuleGetGlobal(&address, &size, module, "constant")),
    ASK("the constant's value",
        [] {
          CUdeviceptr p;
          int n = 0;
          CHECK(cuModuleGetGlobal(&p, nullptr, module, "constant"));
          const CUresult r = cuMemcpyDtoH(&n, p, 4);
          return shown(r, n);
        }()),
    CALL("a variable that is not there", cuModuleGetGlobal(&address, nullptr, module, "absent")),
    CALL("a variable to null", cuModuleGetGlobal(nullptr, nullptr, module, "table")),
    CALL("memory type of a variable", (CHECK(cuModuleGetGlobal(&address, nullptr, module, "table")),
                                       cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))),
    CALL("unload the null module", cuModuleUnload(nullptr)),
    CALL("load a null library", cuLibraryLoadData(&a_library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0)),
    CALL("a kernel that is not there", cuLibraryGetKernel(&a_kernel, library, "absent")),
    CALL("a kernel of the null library", cuLibraryGetKernel(&a_kernel, nullptr, "other")),
    VALUE("kernels of the library", word, cuLibraryGetKernelCount(&word, library)),
    CALL("the library's module", cuLibraryGetModule(&a_module, library)),
    CALL("unload the library's module", (CHECK(cuLibraryGetModule(&a_module, library)), cuModuleUnload(a_module))),
    CALL("a variable of the library that is not there", cuLibraryGetGlobal(&address, nullptr, library, "absent")),
    CALL("unload the null library", cuLibraryUnload(nullptr)),
    ASK("name of the kernel",
        [] {
          const char* s = "";
          const CUresult r = cuKernelGetName(&s, kernel);
          return plain(r) + ", " + s;
        }()),
    ASK("name of the function",
        [] {
          const char* s = "";
          const CUresult r = cuFuncGetName(&s, store);
          return plain(r) + ", " + s;
        }()),
    ASK("launch a kernel as a function", launch(CUfunction(kernel), 1, 1, 1, 1, 1)),
    ASK("first parameter",
        [] {
          size_t at = 9, n = 9;
          const CUresult r = cuFuncGetParamInfo(store, 0, &at, &n);
          return shown(r, at) + " of " + std::to_string(n);
        }()),
    ASK("second parameter",
        [] {
          size_t at = 9, n = 9;
          const CUresult r = cuFuncGetParamInfo(store, 1, &at, &n);
          return shown(r, at) + " of " + std::to_string(n);
        }()),
    CALL("third parameter", cuFuncGetParamInfo(store, 2, &size, nullptr)),
    ASK("threads of limited", function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, limited)),
    ASK("threads of nothing", function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nothing)),
    ASK("shared memory of sharing", function_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, sharing)),
    ASK("dynamic shared memory of nothing",
        function_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nothing)),
    ASK("dynamic shared memory of sharing",
        function_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, sharing)),
    ASK("local memory of nothing", function_attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, nothing)),
    ASK("constant memory of nothing", function_attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, nothing)),
    ASK("PTX version of nothing", function_attribute(CU_FUNC_ATTRIBUTE_PTX_VERSION, nothing)),
    ASK("binary version of nothing", function_attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION, nothing)),
    ASK("carveout of nothing", function_attribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, nothing)),
    ASK("attribute 99 of nothing", function_attribute(CUfunction_attribute(99), nothing)),
    ASK("threads of the null function", function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nullptr)),
    CALL("set 227 KiB dynamic", cuFuncSetAttribute(waiting, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448)),
    CALL("set 227 KiB and 1 byte dynamic",
         cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449)),
    CALL("set 227 KiB dynamic beside static",
         cuFuncSetAttribute(sharing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448)),
    CALL("set -1 dynamic", cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1)),
    CALL("set the threads", cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 64)),
    CALL("set a carveout of 101 per cent",
         cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101)),
    ASK("launch", launch(nothing, 1, 1, 1, 1, 1)),
    ASK("launch the null function", launch(nullptr, 1, 1, 1, 1, 1)),
    ASK("launch no blocks", launch(nothing, 0, 1, 1, 1, 1)),
    ASK("launch blocks of no threads", launch(nothing, 1, 1, 0, 1, 1)),
    ASK("launch 1025 threads a block", launch(nothing, 1, 1, 1025, 1, 1)),
    ASK("launch 32 x 33 threads a block", launch(nothing, 1, 1, 32, 33, 1)),
    ASK("launch 65 layers a block", launch(nothing, 1, 1, 1, 1, 65)),
    ASK("launch 65536 rows of blocks", launch(nothing, 1, 65536, 1, 1, 1)),
    ASK("launch 65 threads of limited", launch(limited, 1, 1, 65, 1, 1)),
    ASK("launch 64 threads of limited", launch(limited, 1, 1, 64, 1, 1)),
    ASK("launch with 48 KiB dynamic", launch(nothing, 1, 1, 1, 1, 1, 49152)),
    ASK("launch with 48 KiB and 1 byte dynamic", launch(nothing, 1, 1, 1, 1, 1, 49153)),
    ASK("launch with 10 KiB dynamic beside 40000 bytes", launch(sharing, 1, 1, 1, 1, 1, 10240)),
    ASK("launch with 9 KB dynamic beside 40000 bytes", launch(sharing, 1, 1, 1, 1, 1, 9000)),
    ASK("launch with 64 KiB dynamic, allowed",
        (CHECK(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536)),
         launch(nothing, 1, 1, 1, 1, 1, 65536))),
    ASK("launch without the parameters", launch(store, 1, 1, 1, 1, 1)),
    ASK("launch with parameters",
        [] {
          unsigned value = 3;
          void* arguments[] = {&memory, &value};
          return launch(store, 1, 1, 1, 1, 1, 0, stream, arguments);
        }()),
    ASK("launch with packed parameters",
        [] {
          struct {
            CUdeviceptr where;
            unsigned value;
          } packed = {memory, 4};
          size_t size = 12;
          int result = 0;
          void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                           CU_LAUNCH_PARAM_END};
          const CUresult r = cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
          CHECK(cuMemcpyDtoH(&result, memory, 4));
          return shown(r, result);
        }()),
    ASK("launch with too few packed parameters",
        [] {
          struct {
            CUdeviceptr where;
            unsigned value;
          } packed = {memory, 4};
          size_t size = 8;
          void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                           CU_LAUNCH_PARAM_END};
          return plain(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
        }()),
    ASK("launch with parameters twice",
        [] {
          unsigned value = 3;
          void* arguments[] = {&memory, &value};
          void* extra[] = {CU_LAUNCH_PARAM_END};
          return plain(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra));
        }()),
    CALL("launch cooperatively", cuLaunchCooperativeKernel(nothing, 132, 1, 1, 32, 1, 1, 0, nullptr, nullptr)),
    CALL("launch too many blocks cooperatively",
         cuLaunchCooperativeKernel(nothing, 1000000, 1, 1, 32, 1, 1, 0, nullptr, nullptr)),
    CALL("launch by a null configuration", cuLaunchKernelEx(nullptr, nothing, nullptr, nullptr)),
    ASK("blocks of 128 threads", blocks(nothing, 128, 0)),
    ASK("blocks of 1024 threads", blocks(nothing, 1024, 0)),
    ASK("blocks of 1025 threads", blocks(nothing, 1025, 0)),
    ASK("blocks of 0 threads", blocks(nothing, 0, 0)),
    ASK("blocks of 32 threads with 48 KiB", blocks(nothing, 32, 49152)),
    ASK("blocks of 32 threads beside 40000 bytes", blocks(sharing, 32, 0)),
};

// Each has a process of its own.
static const Question endings[] = {
    ASK("kernel waits, cuModuleLoadData", while_a_kernel_waits([] {
          CUmodule m;
          return cuModuleLoadData(&m, other_ptx);
        })),
    ASK("kernel waits, cuModuleUnload of another", while_a_kernel_waits([] { return cuModuleUnload(spare); })),
    ASK("kernel waits, cuStreamDestroy of its stream", while_a_kernel_waits([] { return cuStreamDestroy(stream); })),
    ASK("kernel waits, cuStreamQuery of its stream", while_a_kernel_waits([] { return cuStreamQuery(stream); })),
    ASK("kernel waits, cuStreamQuery of the null stream", while_a_kernel_waits([] { return cuStreamQuery(nullptr); })),
    ASK("kernel waits, cuEventElapsedTime to an event behind it", while_a_kernel_waits([] {
          float t;
          CHECK(cuEventRecord(never, stream));
          return cuEventElapsedTime(&t, event, never);
        })),
};

int main(int argc, char** argv) { return ask_all(tables, questions, endings, argc, argv); }
