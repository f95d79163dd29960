// SPDX-License-Identifier: MIT-0
// Modules and libraries: from a fat binary or PTX text to kernels.
#include "driver.h"
#include "linking.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

struct CUkern_st {
  CUlibrary library;
  std::string name;
  std::map<CUdevice, int> dynamic_shared;  // what attributes set for its functions
};

struct CUlib_st {
  std::shared_ptr<const ptx::Module> code;
  std::map<CUcontext, CUmodule> modules;  // loaded where it is first asked for
  std::shared_ptr<driver::ManagedVariables> managed = std::make_shared<driver::ManagedVariables>();
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
};

namespace driver {
namespace {

using driver::checked;                            // and beside it those for what is known here
using Code = std::shared_ptr<const ptx::Module>;  // as it was read, not yet on a GPU

// What a handle names. It is kept while a call works on it: another thread may reset the context meanwhile, and with it
// go its modules, those of libraries too.
template <class T> std::shared_ptr<T> named(const Owned<T>& all, T* handle, const char* what) {
  const std::lock_guard held(state().lock);
  const auto found = all.find(handle);
  require(found != all.end(), CUDA_ERROR_INVALID_HANDLE, what);
  return found->second;
}
constexpr char no_module[] = "this is no module, or it has been unloaded";
constexpr char no_library[] = "this is no library, or it has been unloaded";
std::shared_ptr<CUmod_st> checked(CUmodule module) { return named(state().modules, module, no_module); }
std::shared_ptr<CUlib_st> checked(CUlibrary library) { return named(state().libraries, library, no_library); }

// --- Images -------------------------------------------------------------------------------------------------------

struct Wrapper {  // around a fat binary in a program
  uint32_t magic, version;
  const void* data;
  // Version 2, of a program built with -rdc=true: the fat binaries of its units, up to a null. `data` is what the
  // compiler has linked of them: machine code.
  const void* const* units;
};

std::vector<ptx::Image> images_of(const void* fat_binary) {
  return ptx::read_fat_binary({static_cast<const std::byte*>(fat_binary), ptx::fat_binary_size(fat_binary)});
}

unsigned capability() { return unsigned(memory::machine().capability); }

[[noreturn]] void refuse_code(const std::vector<ptx::Image>& images) {
  const std::string why = "GPU code that cannot run: " + ptx::why_none(images, capability());
  for (const ptx::Image& image : images)  // on hardware it might have run
    if (!image.is_ptx && image.architecture / 10 == capability() / 10) say_once(why);
  refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, why);
}

std::string unpack(const ptx::Image& image) {
  try {
    return ptx::unpacked(image);
  } catch (const ptx::MissingLibrary& missing) {
    std::fflush(stdout);
    say_once(missing.what());
    _exit(125);
  }
}

// A unit without PTX for this GPU is left out if nothing needs it: compilers add a library of NVIDIA's.
ptx::Module link_units(const void* const* fat_binaries) {
  ptx::Linker linker;
  std::vector<ptx::Image> left_out;
  for (; *fat_binaries; ++fat_binaries) {
    const std::vector<ptx::Image> images = images_of(*fat_binaries);
    const auto has_ptx = [](const ptx::Image& image) { return image.is_ptx; };
    if (const ptx::Image* const newest = ptx::newest_ptx(images, capability()))
      linker.add(ptx::parse(unpack(*newest)), "a unit");
    else if (std::none_of(images.begin(), images.end(), has_ptx)) refuse_code(images);
    else left_out = images;
  }
  if (!left_out.empty() && !undefined_but_launches(linker).empty()) refuse_code(left_out);
  return linker.finish();
}

// PTX by itself. It may declare a variable with its size that nobody has, but not use a function or array so.
ptx::Module read_ptx(const char* text) {
  ptx::Module module = ptx::parse(text);
  require(module.target <= capability(), CUDA_ERROR_INVALID_PTX, "the PTX is for a later GPU");
  std::set<std::string> sized;
  for (const ptx::Variable& variable : module.variables)
    if (variable.size) sized.insert(variable.name);
  ptx::Linker alone;
  alone.add(std::move(module), "the PTX");
  if (const std::string missing = undefined(alone, sized); !missing.empty()) throw ptx::Error(missing);
  return alone.finish();
}

// Reads an image of at most this size: PTX text, a fat binary, the wrapper of one or several (in memory only), or what
// cuLinkComplete has made.
Code read_image(const void* image, size_t most = SIZE_MAX) {
  need(image, "the image");
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  const auto made = [](ptx::Module module) { return std::make_shared<const ptx::Module>(std::move(module)); };
  try {
    if (magic == 0x466243b1 && most == SIZE_MAX) {
      const Wrapper& wrapper = *static_cast<const Wrapper*>(image);
      if (wrapper.version == 2 && wrapper.units && *wrapper.units) return made(link_units(wrapper.units));
      need(wrapper.data, "the wrapper's fat binary");
      return made(ptx::parse(choose_ptx(wrapper.data, SIZE_MAX)));
    }
    if (magic == 0xba55ed50) return made(ptx::parse(choose_ptx(image, most)));
    if (std::memcmp(image, "\177ELF\2", 5) == 0) {
      const char* const why =
          "a module's image is machine code of one kind of GPU, which is not simulated: build PTX, with nvcc -ptx";
      say_once(why);
      refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, why);
    }
    if (is_linked_image(image)) return made(read_linked_image(image, most));
    const auto text = static_cast<const char*>(image);
    require(std::strstr(text, ".version"), CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX nor a fat binary");
    return made(read_ptx(text));
  } catch (const ptx::Error& error) {
    if (magic == 0x466243b1) say_once(std::string("GPU code of the program cannot be read: ") + error.what());
    refuse(CUDA_ERROR_INVALID_PTX, error.what());
  }
}

// The same for a program that wants to read what is wrong with the image.
Code read_image(const void* image, unsigned count, const CUjit_option* names, void** values) {
  Logs logs(count, names, values);
  try {
    return read_image(image);
  } catch (const memory::Refused& refused) {
    logs.write(refused.why);
    throw;
  }
}

Code read_image_file(const char* name) {
  need(name, "the file's name");
  std::ifstream file(name, std::ios::binary);
  require(bool(file), CUDA_ERROR_FILE_NOT_FOUND, "the file cannot be opened");
  const std::string content(std::istreambuf_iterator<char>(file), {});
  require(content.size() >= 4, CUDA_ERROR_INVALID_IMAGE, "the file is empty");
  return read_image(content.c_str(), content.size());
}

// --- Modules ------------------------------------------------------------------------------------------------------

// Makes the managed variables that are not there. Returns the names of the others.
std::set<std::string> place(const Code& code, ManagedVariables& managed) {
  std::set<std::string> known;
  for (const ptx::Variable& variable : code->variables) {
    if (!variable.is_managed || !variable.size) continue;
    if (managed.all.contains(variable.name)) known.insert(variable.name);
    else
      managed.all[variable.name] = {reinterpret_cast<uint64_t>(memory::allocate_host(variable.size, true)),
                                    variable.size};
  }
  return known;
}

// The module is known from then on.
CUmodule add(const std::shared_ptr<CUmod_st>& module) {
  const std::lock_guard held(state().lock);
  if (const CUlibrary library = module->library) {
    require(state().libraries.contains(library), CUDA_ERROR_INVALID_HANDLE, no_library);  // unloaded meanwhile
    library->modules[module->context] = module.get();
  }
  state().modules[module.get()] = module;
  return module.get();
}

// Loads a module on the GPU of a context.
CUmodule load(const Code& code, CUcontext context, CUlibrary library) {
  const auto made = std::make_shared<CUmod_st>();
  made->managed = library ? library->managed : std::make_shared<ManagedVariables>();
  const std::set<std::string> known = place(code, *made->managed);
  size_t size = 0;
  std::map<std::string, size_t> offsets;
  for (const ptx::Variable& variable : code->variables) {
    if (variable.space != ptx::Space::global && variable.space != ptx::Space::constant) continue;
    if (made->managed->all.contains(variable.name)) continue;
    const size_t alignment = std::max<size_t>(variable.alignment, 256);
    offsets[variable.name] = size;
    size += memory::round_up(variable.size, alignment);
    if (variable.space == ptx::Space::constant) made->constants += int(variable.size);
  }
  made->context = context;
  made->library = library;
  if (size) made->variables = memory::allocate(context->device, size);
  try {
    const auto place = [&](const ptx::Variable& variable) {
      const auto managed = made->managed->all.find(variable.name);
      return managed == made->managed->all.end() ? made->variables + offsets.at(variable.name)
                                                 : managed->second.address;
    };
    const auto keeps = [&](const ptx::Variable& variable) { return known.contains(variable.name); };
    made->module = std::make_shared<gpu::Module>(code, context->device, place, keeps);
  } catch (const ptx::Error& error) {
    refuse(CUDA_ERROR_INVALID_PTX, error.what());
  }
  return add(made);
}

// A module for the calls that load one. They wait for what runs on the GPU, as the driver does.
CUmodule load(const Code& code) {
  synchronize(current());
  return load(code, current(), nullptr);
}

// The state is held. Kernels that still run keep the instructions.
void unload(CUmodule module) {
  std::erase_if(state().functions, [&](CUfunction function) { return function->module == module; });
  if (module->library) module->library->modules.erase(module->context);
  state().modules.erase(module);
}

void unload_module(CUmodule handle) {
  const auto module = checked(handle);
  require(!module->library, CUDA_ERROR_NOT_PERMITTED, "the module is a library's, which is unloaded whole");
  forbid_in_capture();
  synchronize(module->context);
  const std::lock_guard held(state().lock);
  if (state().modules.contains(handle)) unload(handle);  // unless the context was reset meanwhile
}

CUfunction function_of(CUmodule handle, const char* name, CUresult unknown = CUDA_ERROR_NOT_FOUND) {
  const auto module = checked(handle);
  need(name, "name");
  gpu::Kernel* const kernel = module->module->kernel(name);
  if (!kernel) refuse(unknown, std::string("the module has no kernel ") + name);
  const std::lock_guard held(state().lock);
  require(state().modules.contains(handle), CUDA_ERROR_INVALID_HANDLE, no_module);  // unloaded meanwhile
  auto& function = module->functions[name];
  const int dynamic_shared = std::max(0, 49152 - int(kernel->static_shared));
  if (!function) function = std::unique_ptr<CUfunc_st>(new CUfunc_st{handle, name, kernel, dynamic_shared});
  state().functions.insert(function.get());
  return function.get();
}

gpu::Module::Global variable_of(CUmodule handle, const char* name) {
  need(name, "name");
  const auto module = checked(handle);
  const gpu::Module::Global* const found = module->module->variable(name);
  if (!found) refuse(CUDA_ERROR_NOT_FOUND, std::string("the module has no variable ") + name);
  return *found;
}

void give_variable(const gpu::Module::Global& variable, CUdeviceptr* address, size_t* size) {
  require(address || size, CUDA_ERROR_INVALID_VALUE, "both dptr and bytes are null");
  if (address) *address = variable.address;
  if (size) *size = variable.size;
}

// --- Libraries: loaded once, for whatever context asks ------------------------------------------------------------

CUlibrary make_library(const Code& code) {
  auto made = std::make_unique<CUlib_st>();
  made->code = code;
  const std::lock_guard held(state().lock);
  const CUlibrary library = made.get();
  for (const ptx::Function& function : code->functions) {
    if (!function.is_entry || function.is_declared_only) continue;
    auto& kernel = made->kernels[function.name];
    kernel = std::make_unique<CUkern_st>(CUkern_st{library, function.name, {}});
    state().kernels.insert(kernel.get());
  }
  state().libraries[library] = std::move(made);
  return library;
}

CUmodule module_of(CUlibrary handle, CUcontext context = current()) {
  static std::mutex& loading = *new std::mutex;  // or two threads would load it twice
  const auto library = checked(handle);
  const std::lock_guard one(loading);
  {
    const std::lock_guard held(state().lock);
    if (const auto found = library->modules.find(context); found != library->modules.end()) return found->second;
  }
  return load(library->code, context, handle);
}

void unload_library(CUlibrary handle) {
  const auto library = checked(handle);
  std::vector<CUcontext> contexts;
  {
    const std::lock_guard held(state().lock);
    for (const auto& [context, module] : library->modules) contexts.push_back(context);
  }
  for (const CUcontext context : contexts) synchronize(context);
  const std::lock_guard held(state().lock);
  while (!library->modules.empty()) unload(library->modules.begin()->second);
  std::erase_if(state().kernels, [&](CUkernel kernel) { return kernel->library == handle; });
  state().libraries.erase(handle);
}

CUkernel checked(CUkernel kernel) {
  const std::lock_guard held(state().lock);
  require(state().kernels.contains(kernel), CUDA_ERROR_INVALID_HANDLE,
          "this is no kernel, or its library has been unloaded");
  return kernel;
}

CUkernel kernel_named(CUlibrary handle, const char* name) {
  const auto library = checked(handle);
  need(name, "name");
  const auto found = library->kernels.find(name);
  if (found == library->kernels.end()) refuse(CUDA_ERROR_NOT_FOUND, std::string("the library has no kernel ") + name);
  return found->second.get();
}

CUfunction function_of(CUkernel kernel, CUcontext context = current()) {
  const CUmodule module = module_of(checked(kernel)->library, context);
  const CUfunction function = function_of(module, kernel->name.c_str());
  const std::lock_guard held(state().lock);
  if (const auto set = kernel->dynamic_shared.find(context->device); set != kernel->dynamic_shared.end())
    function->dynamic_shared = set->second;
  return function;
}

// --- Attributes ---------------------------------------------------------------------------------------------------

int function_attribute(CUfunction handle, CUfunction_attribute what) {
  const CUfunction function = checked(handle);
  const gpu::Kernel& kernel = *function->kernel;
  switch (what) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return int(kernel.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return int(kernel.static_shared);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return function->module->constants;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return int(kernel.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return int(kernel.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: return int(kernel.target);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return memory::machine().capability;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return function->dynamic_shared;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return function->carveout;
    default: break;
  }
  require(what > 0 && what < CU_FUNC_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE, "there is no such attribute");
  return 0;  // clusters: none
}

int checked_attribute(const gpu::Kernel& kernel, CUfunction_attribute what, int value) {
  if (what == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    require(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE, "the carveout is -1, or 0 to 100 per cent");
    return value;
  }
  require(what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CUDA_ERROR_INVALID_VALUE,
          "this attribute can only be read");
  require(value >= 0 && value + int(kernel.static_shared) <= most_shared, CUDA_ERROR_INVALID_VALUE,
          "static and dynamic shared memory of a block are 227 KiB at most");
  return value;
}

void set_attribute(CUfunction handle, CUfunction_attribute what, int value) {
  const CUfunction function = checked(handle);
  const int fits = checked_attribute(*function->kernel, what, value);
  if (what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) function->dynamic_shared = fits;
  else function->carveout = fits;
}

void set_attribute(CUkernel kernel, CUfunction_attribute what, int value, CUdevice device) {
  checked(device);
  const CUfunction function = function_of(kernel);
  const int fits = checked_attribute(*function->kernel, what, value);
  if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return;
  const std::lock_guard held(state().lock);
  kernel->dynamic_shared[device] = fits;
  for (const auto& [context, module] : kernel->library->modules)
    if (context->device == device && module->functions.contains(kernel->name))
      module->functions[kernel->name]->dynamic_shared = fits;
}

void give_parameter(const gpu::Kernel& kernel, size_t index, size_t* offset, size_t* size) {
  need(offset, "paramOffset");
  require(index < kernel.parameters.size(), CUDA_ERROR_INVALID_VALUE, "the kernel has fewer parameters");
  *offset = kernel.parameters[index].offset;
  if (size) *size = kernel.parameters[index].size;
}

}  // namespace

CUfunction checked(CUfunction function, CUcontext context) {
  require(function, CUDA_ERROR_INVALID_HANDLE,
          "the function is null: get one with cuModuleGetFunction or cuLibraryGetKernel");
  {
    const std::lock_guard held(state().lock);
    if (state().functions.contains(function)) return function;
  }
  const CUkernel kernel = reinterpret_cast<CUkernel>(function);
  return context ? function_of(kernel, context) : function_of(kernel);
}

std::string choose_ptx(const void* fat_binary, size_t most) {
  if (most < 16 || ptx::fat_binary_size(fat_binary) > most) throw ptx::Error("the fat binary is cut off");
  const std::vector<ptx::Image> images = images_of(fat_binary);
  const ptx::Image* const newest = ptx::newest_ptx(images, capability());
  if (!newest) refuse_code(images);
  return unpack(*newest);
}

std::string kernel_name(const void* handle) {
  const std::lock_guard held(state().lock);
  const CUfunction function = static_cast<CUfunction>(const_cast<void*>(handle));
  if (state().functions.contains(function)) return function->name;
  const CUkernel kernel = reinterpret_cast<CUkernel>(function);
  return state().kernels.contains(kernel) ? kernel->name : "";
}

std::optional<gpu::Module::Global> variable_at(uint64_t address) {
  const std::lock_guard held(state().lock);
  for (const auto& [module, owner] : state().modules)
    if (const auto* const found = module->variables ? module->module->variable_at(address) : nullptr) return *found;
  return std::nullopt;
}

}  // namespace driver

CUmod_st::~CUmod_st() {
  if (variables) memory::free_allocation(variables);
}

namespace driver {

ManagedVariables::~ManagedVariables() {
  for (const auto& [name, variable] : all) memory::free_allocation(variable.address);
}

void forget_modules(CUcontext context) {
  const std::lock_guard held(state().lock);
  std::vector<CUmodule> all;
  for (const auto& [module, owner] : state().modules)
    if (!context || module->context == context) all.push_back(module);
  for (const CUmodule module : all) unload(module);
}

}  // namespace driver

using namespace driver;

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  return call(ARGUMENTS(module, fname), [&] {
    need(module, "module");
    current();
    *module = load(read_image_file(fname));
  });
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return call(ARGUMENTS(module, image), [&] {
    need(module, "module");
    current();
    *module = load(read_image(image));
  });
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                            void** optionValues) {
  return call(ARGUMENTS(module, image), [&] {
    need(module, "module");
    current();
    *module = load(read_image(image, numOptions, options, optionValues));
  });
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return call(ARGUMENTS(module, fatCubin), [&] {
    need(module, "module");
    current();
    *module = load(read_image(fatCubin));
  });
}
CUresult cuModuleUnload(CUmodule hmod) {
  return call(ARGUMENTS(hmod), [&] {
    current();
    unload_module(hmod);
  });
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return call(ARGUMENTS(mode), result_to(mode, "mode", [&] { return CU_MODULE_LAZY_LOADING; }));
}
CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  return call(ARGUMENTS(hfunc, hmod, name), result_to(hfunc, "hfunc", [&] { return function_of(hmod, name); }));
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  return call(ARGUMENTS(count, mod),
              result_to(count, "count", [&] { return unsigned(checked(mod)->module->kernel_names().size()); }));
}
CUresult cuModuleEnumerateFunctions(CUfunction* list, unsigned int numFunctions, CUmodule mod) {
  return call(ARGUMENTS(list, numFunctions, mod), [&] {
    need(list, "functions");
    unsigned i = 0;
    const auto module = checked(mod);
    for (const std::string& name : module->module->kernel_names()) {
      if (i < numFunctions) list[i++] = function_of(mod, name.c_str());
    }
  });
}
CUresult cuModuleGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  return call(ARGUMENTS(dptr, bytes, hmod, name), [&] { give_variable(variable_of(hmod, name), dptr, bytes); });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption*, void**, unsigned int) {
  return call(ARGUMENTS(library, code), result_to(library, "library", [&] {
                return make_library(read_image(code, numJitOptions, jitOptions, jitOptionsValues));
              }));
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option*, void**, unsigned int,
                               CUlibraryOption*, void**, unsigned int) {
  return call(ARGUMENTS(library, fileName),
              result_to(library, "library", [&] { return make_library(read_image_file(fileName)); }));
}
CUresult cuLibraryUnload(CUlibrary library) {
  return call(ARGUMENTS(library), [&] { unload_library(library); });
}
CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  return call(ARGUMENTS(pKernel, library, name),
              result_to(pKernel, "pKernel", [&] { return kernel_named(library, name); }));
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  return call(ARGUMENTS(count, lib), result_to(count, "count", [&] { return unsigned(checked(lib)->kernels.size()); }));
}
CUresult cuLibraryEnumerateKernels(CUkernel* list, unsigned int numKernels, CUlibrary lib) {
  return call(ARGUMENTS(list, numKernels, lib), [&] {
    need(list, "kernels");
    unsigned i = 0;
    const auto library = checked(lib);
    for (const auto& [name, kernel] : library->kernels) {
      if (i < numKernels) list[i++] = kernel.get();
    }
  });
}
CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  return call(ARGUMENTS(pMod, library), result_to(pMod, "pMod", [&] { return module_of(library); }));
}
CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return call(ARGUMENTS(dptr, bytes, library, name),
              [&] { give_variable(variable_of(module_of(library), name), dptr, bytes); });
}
CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return call(ARGUMENTS(dptr, bytes, library, name), [&] {
    need(name, "name");
    module_of(library);
    const auto managed = checked(library)->managed;
    const auto found = managed->all.find(name);
    if (found == managed->all.end())
      refuse(CUDA_ERROR_NOT_FOUND, std::string("the library has no managed variable ") + name);
    give_variable(found->second, dptr, bytes);
  });
}
CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  return call(ARGUMENTS(pFunc, kernel), result_to(pFunc, "pFunc", [&] { return function_of(kernel); }));
}
CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  return call(ARGUMENTS(pLib, kernel), result_to(pLib, "pLib", [&] { return checked(kernel)->library; }));
}
CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
  return call(ARGUMENTS(name, hfunc), result_to(name, "name", [&] { return checked(hfunc)->name.c_str(); }));
}
CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  return call(ARGUMENTS(pi, attrib, kernel, dev), [&] {
    need(pi, "pi");
    checked(dev);
    *pi = function_attribute(function_of(kernel), attrib);
  });
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  return call(ARGUMENTS(attrib, val, kernel, dev), [&] { set_attribute(kernel, attrib, val, dev); });
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  return call(ARGUMENTS(kernel, config, dev), [&] {
    checked(dev);
    checked(kernel);
  });
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return call(ARGUMENTS(kernel, paramIndex, paramOffset, paramSize),
              [&] { give_parameter(*function_of(kernel)->kernel, paramIndex, paramOffset, paramSize); });
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return call(ARGUMENTS(pi, attrib, hfunc), result_to(pi, "pi", [&] { return function_attribute(hfunc, attrib); }));
}
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return call(ARGUMENTS(hfunc, attrib, value), [&] { set_attribute(hfunc, attrib, value); });
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return call(ARGUMENTS(hfunc, config), [&] { checked(hfunc); });
}
CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  return call(ARGUMENTS(hmod, hfunc), result_to(hmod, "hmod", [&] { return checked(hfunc)->module; }));
}
CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  return call(ARGUMENTS(name, hfunc), result_to(name, "name", [&] { return checked(hfunc)->name.c_str(); }));
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return call(ARGUMENTS(func, paramIndex, paramOffset, paramSize),
              [&] { give_parameter(*checked(func)->kernel, paramIndex, paramOffset, paramSize); });
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return call(ARGUMENTS(state, function), [&] {
    need(state, "state");
    checked(function);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
  });
}
CUresult cuFuncLoad(CUfunction function) {
  return call(ARGUMENTS(function), [&] { checked(function); });
}
