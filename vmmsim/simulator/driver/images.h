// SPDX-License-Identifier: MIT-0
// What programs load as a module or library: PTX text, fat binaries, and what cuLinkComplete has made.
#pragma once
#include <cuda.h>

#include <memory>

#include "../ptx/ptx.h"

namespace driver {

using Code = std::shared_ptr<const ptx::Module>;  // as it was read, not yet on a GPU

// They throw Refused. The first writes what is wrong with the image to where the options say, too.
Code read_image(const void* image, unsigned count, const CUjit_option* names, void** values);
Code read_image(const void* image);
Code read_image_file(const char* name);

}  // namespace driver
