// SPDX-License-Identifier: MIT-0
#include "images.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"
#include "fat_binaries.h"
#include "linking.h"

namespace driver {

namespace {

struct Wrapper {  // around a fat binary in a program
  uint32_t magic, version;
  const void* data;
  // Version 2, of a program built with -rdc=true: the fat binaries of its units, up to a null. `data` is what the
  // compiler has linked of them: machine code.
  const void* const* units;
};

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
Code read_image(const void* image, size_t most) {
  need(image, "the image");
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  const auto code = [](ptx::Module module) { return std::make_shared<const ptx::Module>(std::move(module)); };
  try {
    if (magic == 0x466243b1 && most == SIZE_MAX) {
      const Wrapper& wrapper = *static_cast<const Wrapper*>(image);
      if (wrapper.version == 2 && wrapper.units && *wrapper.units) return code(link_units(wrapper.units));
      need(wrapper.data, "the wrapper's fat binary");
      return code(ptx::parse(choose_ptx(wrapper.data, SIZE_MAX)));
    }
    if (magic == 0xba55ed50) return code(ptx::parse(choose_ptx(image, most)));
    if (std::memcmp(image, "\177ELF\2", 5) == 0) {
      const char* const why =
          "a module's image is machine code of one kind of GPU, which is not simulated: build PTX, with nvcc -ptx";
      say_once(why);
      refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, why);
    }
    if (is_linked_image(image)) return code(read_linked_image(image, most));
    const auto text = static_cast<const char*>(image);
    require(std::strstr(text, ".version"), CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX nor a fat binary");
    return code(read_ptx(text));
  } catch (const ptx::Error& error) {
    if (magic == 0x466243b1) say_once(std::string("GPU code of the program cannot be read: ") + error.what());
    refuse(CUDA_ERROR_INVALID_PTX, error.what());
  }
}

}  // namespace

Code read_image(const void* image) { return read_image(image, SIZE_MAX); }

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

}  // namespace driver
