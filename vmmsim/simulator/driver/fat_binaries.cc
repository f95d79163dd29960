// SPDX-License-Identifier: MIT-0
#include "fat_binaries.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "../memory/this_machine.h"
#include "driver.h"

namespace driver {

std::vector<ptx::Image> images_of(const void* fat_binary) {
  return ptx::read_fat_binary({static_cast<const std::byte*>(fat_binary), ptx::fat_binary_size(fat_binary)});
}

unsigned newest_ptx_version() {
  const int version = memory::machine().driver, minor = version % 1000 / 10;
  if (version >= 13000) return unsigned(90 + minor);
  return unsigned(minor > 5 ? 79 + minor : 80 + minor);  // one number was left out
}

unsigned capability() { return unsigned(memory::machine().capability); }

void refuse_code(const std::vector<ptx::Image>& images) {
  const std::string reason = "GPU code that cannot run: " + ptx::why_none(images, capability());
  for (const ptx::Image& image : images)  // on hardware it might have run
    if (!image.is_ptx && image.architecture / 10 == capability() / 10) log_unsupported(reason);
  refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, reason);
}

std::string unpack(const ptx::Image& image) {
  try {
    return ptx::unpacked(image);
  } catch (const ptx::MissingLibrary& missing) {
    std::fflush(stdout);
    log_once(missing.what());
    _exit(125);
  }
}

std::string choose_ptx(const void* fat_binary, size_t most) {
  if (most < 16 || ptx::fat_binary_size(fat_binary) > most) throw ptx::Error("the fat binary is cut off");
  const std::vector<ptx::Image> images = images_of(fat_binary);
  const ptx::Image* const newest = ptx::newest_ptx(images, capability());
  if (!newest) refuse_code(images);
  std::string text = unpack(*newest);
  // PTX may be newer than the driver where machine code stands beside it: the driver takes that.
  const auto is_for_this_gpu = [](const ptx::Image& image) {
    return !image.is_ptx && image.architecture / 10 == capability() / 10 && image.architecture <= capability();
  };
  if (std::none_of(images.begin(), images.end(), is_for_this_gpu)) ptx::need_version(text, newest_ptx_version());
  return text;
}

}  // namespace driver
