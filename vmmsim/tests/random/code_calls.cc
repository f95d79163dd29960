// SPDX-License-Identifier: MIT-0
// Modules, libraries and kernels; launches; occupancy.
#include "ptx_texts.h"
#include "world.h"

namespace {
using R = Random;

Argument<const void*> any_code(R& random) {
  const Code& code = codes[any_of(random, codes)];
  return {code.text, std::string("\"") + code.what + "\""};
}
// A text that is right, half of the time.
Argument<const void*> usable_code(R& random) {
  const Code& code = random.percent(50) ? codes[random.below(8)] : codes[any_of(random, codes)];
  return {code.text, std::string("\"") + code.what + "\""};
}
Argument<const char*> any_name(R& random) {
  static constexpr const char* names[] = {"other", "nothing", "store", "two_wide", "missing", ""};
  const char* name = random.percent(60) ? "other" : names[random.below(std::size(names))];
  return {name, std::string("\"") + name + "\""};
}
Argument<const char*> any_variable(R& random) {
  static constexpr const char* names[] = {"table", "constant", "shared_word", "other", "missing"};
  const char* name = names[random.below(std::size(names))];
  return {name, std::string("\"") + name + "\""};
}
Argument<CUmodule> any_module(R& random) {
  const std::size_t index = any_of(random, world.modules);
  if (random.percent(15)) return {world.base, "base module"};
  return {world.modules[index], place("module", index)};
}
Argument<CUlibrary> any_library(R& random) {
  const std::size_t index = any_of(random, world.libraries);
  if (random.percent(15)) return {world.base_library, "base library"};
  return {world.libraries[index], place("library", index)};
}

void load(R& random) {
  const std::size_t index = any_of(random, world.modules);
  CUmodule made = nullptr;
  const auto code = usable_code(random);
  const bool fine = random.percent(70) ? FINE(cuModuleLoadData, shown(&made, place("module", index)), code)
                                       : FINE(cuModuleLoadFatBinary, shown(&made, place("module", index)), code);
  if (fine) world.modules[index] = made;
}
void load_with(R& random) {
  const std::size_t index = any_of(random, world.modules);
  CUmodule made = nullptr;
  const auto code = any_code(random);
  static char log[4096];
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL};
  const auto level = choose<unsigned>(random, {0, 4}, {5, 99}, 10);
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), reinterpret_cast<void*>(std::uintptr_t(level.value))};
  if (FINE(cuModuleLoadDataEx, shown(&made, place("module", index)), code, choose<unsigned>(random, {2, 3, 0}),
           shown<CUjit_option*>(options, "log level"), shown<void**>(values, level.text))) {
    world.modules[index] = made;
  }
}
void unload(R& random) {
  const std::size_t index = any_of(random, world.modules);
  if (FINE(cuModuleUnload, shown(world.modules[index], place("module", index)))) world.modules[index] = nullptr;
}
void get_function(R& random) {
  CUfunction found = nullptr;
  const auto module = any_module(random);
  if (!FINE(cuModuleGetFunction, out(found), module, any_name(random))) return;
  int threads = 0;
  tell("; ");
  if (FINE(cuFuncGetAttribute, out(threads), number(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), shown(found, "it"))) {
    tell(" %lld", threads);
  }
}
void function_count(R& random) {
  unsigned count = 0;
  if (FINE(cuModuleGetFunctionCount, out(count), any_module(random))) tell(" %lld", count);
}
void enumerate(R& random) {
  std::array<CUfunction, 16> found = {};
  const auto count = choose<unsigned>(random, {1, 2, 16}, {0}, 10);
  if (!FINE(cuModuleEnumerateFunctions, shown(found.data(), "&"), count, any_module(random))) return;
  long long filled = 0;
  for (CUfunction function : found) filled += function != nullptr;
  tell(" %lld", filled);
}
void get_global(R& random) {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const auto module = any_module(random);
  if (FINE(cuModuleGetGlobal, out(address), out(size), module, any_variable(random))) tell(" %lld", (long long)size);
}
void loading_mode(R&) {
  CUmoduleLoadingMode mode = {};
  if (FINE(cuModuleGetLoadingMode, out(mode))) tell(" %lld", mode);
}

// Libraries.
void library_load(R& random) {
  const std::size_t index = any_of(random, world.libraries);
  CUlibrary made = nullptr;
  const auto code = any_code(random);
  CUlibraryOption options[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  void* values[] = {reinterpret_cast<void*>(1)};
  if (FINE(cuLibraryLoadData, shown(&made, place("library", index)), code, shown<CUjit_option*>(nullptr, "null"),
           shown<void**>(nullptr, "null"), number(0u), shown<CUlibraryOption*>(options, "preserved"),
           shown<void**>(values, "1"), choose<unsigned>(random, {0, 1}))) {
    world.libraries[index] = made;
  }
}
void library_unload(R& random) {
  const std::size_t index = any_of(random, world.libraries);
  if (FINE(cuLibraryUnload, shown(world.libraries[index], place("library", index)))) world.libraries[index] = nullptr;
}
void get_kernel(R& random) {
  CUkernel found = nullptr;
  const auto library = any_library(random);
  if (!FINE(cuLibraryGetKernel, out(found), library, any_name(random))) return;
  CUfunction function = nullptr;
  int value = 0;
  tell("; ");
  switch (random.below(5)) {
    case 0:
      if (FINE(cuKernelGetFunction, out(function), shown(found, "it"))) tell(" %lld", function != nullptr);
      break;
    case 1:
      if (FINE(cuKernelGetAttribute, out(value), number(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), shown(found, "it"),
               shown(world.gpu, "gpu"))) {
        tell(" %lld", value);
      }
      break;
    case 2:
      CALL(cuKernelSetAttribute, number(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), number(1024),
           shown(found, "it"), shown(world.gpu, "gpu"));
      break;
    case 3:
      CALL(cuKernelSetCacheConfig, shown(found, "it"), number(CU_FUNC_CACHE_PREFER_L1), shown(world.gpu, "gpu"));
      break;
    default: {
      std::size_t offset = 0, size = 0;
      if (FINE(cuKernelGetParamInfo, shown(found, "it"), number(random.below(3)), out(offset), out(size))) {
        tell(" %lld", (long long)offset), tell(" %lld", (long long)size);
      }
    }
  }
}
void kernel_count(R& random) {
  unsigned count = 0;
  if (FINE(cuLibraryGetKernelCount, out(count), any_library(random))) tell(" %lld", count);
}
void enumerate_kernels(R& random) {
  std::array<CUkernel, 16> found = {};
  const auto count = choose<unsigned>(random, {1, 2, 16}, {0}, 10);
  if (!FINE(cuLibraryEnumerateKernels, shown(found.data(), "&"), count, any_library(random))) return;
  long long filled = 0;
  for (CUkernel kernel : found) filled += kernel != nullptr;
  tell(" %lld", filled);
}
void get_module(R& random) {
  CUmodule found = nullptr;
  if (FINE(cuLibraryGetModule, out(found), any_library(random))) tell(" %lld", found != nullptr);
}
void library_global(R& random) {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const auto library = any_library(random);
  const auto name = any_variable(random);
  if (random.percent(65) ? FINE(cuLibraryGetGlobal, out(address), out(size), library, name)
                         : FINE(cuLibraryGetManaged, out(address), out(size), library, name)) {
    tell(" %lld", (long long)size);
  }
}
void unified(R& random) {
  void* found = nullptr;
  const auto library = any_library(random);
  CALL(cuLibraryGetUnifiedFunction, out(found), library, any_name(random));
}
void kernel_library(R& random) {
  CUlibrary found = nullptr;
  const std::size_t index = any_of(random, world.kernels);
  if (FINE(cuKernelGetLibrary, out(found), shown(world.kernels[index], place("kernel", index)))) {
    tell(" %lld", found == world.base_library);
  }
}

// Functions.
Argument<CUfunction_attribute> attribute(R& random) {
  const auto id = choose<int>(random, {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {-1, 16, 99}, 6);
  return {CUfunction_attribute(id.value), "attribute " + id.text};
}
void function_get(R& random) {
  int value = -9;
  const auto id = attribute(random);
  if (FINE(cuFuncGetAttribute, out(value), id, any_function(random))) tell(" %lld", value);
}
void function_set(R& random) {
  const auto id =
      random.percent(60) ? shown(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "attribute 8") : attribute(random);
  const auto value = choose<int>(random, {0, 1, 2, 1024, 65536, 100000}, {-1, 187392, 192432, 232448, 232449, 1 << 30});
  CALL(cuFuncSetAttribute, any_function(random), id, value);
}
void function_name(R& random) {
  const char* name = nullptr;
  if (FINE(cuFuncGetName, out(name), any_function(random)) && name) tell(std::string(" ") + name);
}
void parameter(R& random) {
  std::size_t offset = 0, size = 0;
  const auto function = any_function(random);
  if (FINE(cuFuncGetParamInfo, function, number(random.below(3)), out(offset), out(size))) {
    tell(" %lld", (long long)offset), tell(" %lld", (long long)size);
  }
}
void is_loaded(R& random) {
  CUfunctionLoadingState state = {};
  if (FINE(cuFuncIsLoaded, out(state), any_function(random))) tell(" %lld", state);
}
void function_load(R& random) { CALL(cuFuncLoad, any_function(random)); }
void function_module(R& random) {
  CUmodule module = nullptr;
  if (FINE(cuFuncGetModule, out(module), any_function(random))) tell(" %lld", module == world.base);
}
void cache_config(R& random) {
  const auto config = choose<int>(random, {0, 1, 2, 3}, {4, 99}, 15);
  CALL(cuFuncSetCacheConfig, any_function(random), shown(CUfunc_cache(config.value), config.text));
}

// Launches.
#define SHAPE(s)                                                                                                       \
  number(s.grid[0]), number(s.grid[1]), number(s.grid[2]), number(s.block[0]), number(s.block[1]), number(s.block[2]), \
      number(s.shared)

void launch(R& random) {
  const auto function = any_function(random);
  const Shape shape = any_shape(random);
  const auto stream = any_stream(random);
  const auto none = shown<void**>(nullptr, "null");
  if (random.percent(85)) {
    CALL(cuLaunchKernel, function, SHAPE(shape), stream, shown(kernel_arguments(), "arguments"), none);
    return;
  }
  struct {
    CUdeviceptr where;
    unsigned value;
  } packed = {world.memory, 6};
  auto size = choose<std::size_t>(random, {16, 12}, {8, 32}, 30);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size.value,
                   CU_LAUNCH_PARAM_END};
  if (size.value == 32) size.value = 16, size.text = "16 and arguments";
  CALL(cuLaunchKernel, function, SHAPE(shape), stream,
       size.text == "16" || size.text == "12" || size.text == "8" ? none : shown(kernel_arguments(), "arguments"),
       shown<void**>(extra, "buffer " + size.text));
}
void launch_cooperative(R& random) {
  const auto function = any_function(random);
  Shape shape = any_shape(random);
  if (random.percent(30)) shape.grid[0] = choose<unsigned>(random, {132, 1056, 4224}, {4225, 5000}).value;
  const auto stream = any_stream(random);
  CALL(cuLaunchCooperativeKernel, function, SHAPE(shape), stream, shown(kernel_arguments(), "arguments"));
}

struct Config {
  explicit Config(R& random);
  CUlaunchConfig value = {};
  std::array<CUlaunchAttribute, 3> attributes = {};
  Argument<CUstream> stream;
  std::string text;
};
void fill(R& random, CUlaunchAttribute& made, std::string& text) {
  const auto id = choose<int>(random, {4, 4, 4, 2, 8, 6, 10}, {0, 1, 5, 7, 9, 12, 99}, 30);
  made.id = CUlaunchAttributeID(id.value);
  text += " {" + id.text;
  if (id.value == 4) {
    made.value.clusterDim.x = choose<unsigned>(random, {1, 2, 4}, {0, 3, 8, 16, 32}, 30).value;
    made.value.clusterDim.y = choose<unsigned>(random, {1}, {0, 2}, 10).value;
    made.value.clusterDim.z = 1;
    text += " " + std::to_string(made.value.clusterDim.x) + "." + std::to_string(made.value.clusterDim.y);
  } else if (id.value == 12) {
    const auto event = steady_event(random);
    made.value.launchCompletionEvent.event = event.value;
    text += " " + event.text;
  } else if (id.value == 7) {
    const auto event = steady_event(random);
    made.value.programmaticEvent.event = event.value;
    text += " " + event.text;
  } else if (id.value != 1) {
    const auto number = choose<int>(random, {0, 1}, {-1, 2, 5, 99}, 20);
    made.value.cooperative = number.value;
    text += " " + number.text;
  }
  text += "}";
}
Config::Config(R& random) : stream(any_stream(random)) {
  const Shape shape = any_shape(random);
  value = {shape.grid[0],  shape.grid[1], shape.grid[2], shape.block[0],    shape.block[1],
           shape.block[2], shape.shared,  stream.value,  attributes.data(), unsigned(random.below(3))};
  text = shape.text + " " + stream.text;
  for (unsigned i = 0; i < value.numAttrs; ++i) fill(random, attributes[i], text);
}
void launch_ex(R& random) {
  const auto function = any_function(random);
  const Config config(random);
  CALL(cuLaunchKernelEx, shown<const CUlaunchConfig*>(&config.value, config.text), function,
       shown(kernel_arguments(), "arguments"), shown<void**>(nullptr, "null"));
}

// Occupancy.
Argument<int> threads(R& random) { return choose<int>(random, {1, 32, 64, 128, 256, 1024}, {0, -1, 33, 1025, 4096}); }
Argument<std::size_t> shared(R& random) {
  return choose<std::size_t>(random, {0, 0, 1024, 9000, 49152}, {1, 49153, 100000, 232448, 232449, 1u << 31});
}
Argument<unsigned> occupancy_flags(R& random) { return choose<unsigned>(random, {0, 1}, {2, 99}, 10); }

void active_blocks(R& random) {
  int blocks = -9;
  const auto function = any_function(random);
  const auto size = threads(random);
  const auto bytes = shared(random);
  const auto flags = occupancy_flags(random);
  if (random.percent(60)
          ? FINE(cuOccupancyMaxActiveBlocksPerMultiprocessor, out(blocks), function, size, bytes)
          : FINE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, out(blocks), function, size, bytes, flags)) {
    tell(" %lld", blocks);
  }
}
std::size_t bytes_of(int block) { return std::size_t(block) * 16; }
void block_size(R& random) {
  int grid = -9, block = -9;
  const auto function = any_function(random);
  const bool varies = random.percent(25);
  const auto of_size = shown<CUoccupancyB2DSize>(varies ? bytes_of : nullptr, varies ? "16 a thread" : "null");
  const auto bytes = shared(random);
  const auto limit = choose<int>(random, {0, 128, 1024}, {-1, 100, 2048}, 25);
  const auto flags = occupancy_flags(random);
  if (random.percent(60)
          ? FINE(cuOccupancyMaxPotentialBlockSize, out(grid), out(block), function, of_size, bytes, limit)
          : FINE(cuOccupancyMaxPotentialBlockSizeWithFlags, out(grid), out(block), function, of_size, bytes, limit,
                 flags)) {
    tell(" %lld", grid), tell(" %lld", block);
  }
}
void available(R& random) {
  std::size_t bytes = 0;
  const auto function = any_function(random);
  const auto blocks = choose<int>(random, {1, 2, 8, 32}, {0, -1, 33}, 15);
  if (FINE(cuOccupancyAvailableDynamicSMemPerBlock, out(bytes), function, blocks, threads(random))) {
    tell(" %lld", (long long)bytes);
  }
}
void cluster_size(R& random) {
  int size = -9;
  const auto function = any_function(random);
  const Config config(random);
  if (FINE(cuOccupancyMaxPotentialClusterSize, out(size), function,
           shown<const CUlaunchConfig*>(&config.value, config.text))) {
    tell(" %lld", size);
  }
}
void clusters(R& random) {
  int count = -9;
  const auto function = any_function(random);
  const Config config(random);
  if (FINE(cuOccupancyMaxActiveClusters, out(count), function,
           shown<const CUlaunchConfig*>(&config.value, config.text))) {
    tell(" %lld", count);
  }
}
}  // namespace

Makers module_makers() {
  return {{"modules", 8, load},
          {"modules", 5, load_with},
          {"modules", 3, unload},
          {"modules", 7, get_function},
          {"modules", 3, function_count},
          {"modules", 3, enumerate},
          {"modules", 4, get_global},
          {"modules", 1, loading_mode},
          {"modules", 12, library_load},
          {"modules", 3, library_unload},
          {"modules", 12, get_kernel},
          {"modules", 5, kernel_count},
          {"modules", 5, enumerate_kernels},
          {"modules", 4, get_module},
          {"modules", 6, library_global},
          {"modules", 5, unified},
          {"modules", 1, kernel_library},
          {"modules", 4, function_get},
          {"modules", 1, function_name},
          {"modules", 2, parameter},
          {"modules", 2, is_loaded},
          {"modules", 1, function_load},
          {"modules", 1, function_module},
          {"modules", 2, cache_config}};
}

Makers launch_makers() {
  return {{"launches", 12, launch},
          {"launches", 6, launch_cooperative},
          {"launches", 10, launch_ex},
          {"launches", 6, function_set},
          {"launches", 4, function_get}};
}

Makers occupancy_makers() {
  return {{"occupancy", 10, active_blocks}, {"occupancy", 8, block_size}, {"occupancy", 6, available},
          {"occupancy", 6, cluster_size},   {"occupancy", 6, clusters},   {"occupancy", 5, function_set}};
}
