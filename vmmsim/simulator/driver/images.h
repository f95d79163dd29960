// SPDX-License-Identifier: MIT-0
// What programs load as a module or library: PTX text, fat binaries, and what cuLinkComplete has made.
#pragma once
#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include "../ptx/ptx.h"

namespace driver {

using Code = std::shared_ptr<const ptx::Module>;  // as it was read, not yet on a GPU

// PTX by itself, as the driver's compiler takes it. Throws ptx::Error, and ptx::UnsupportedVersion.
ptx::Module compile(std::string_view text);
CUresult error_of(const ptx::Error&);                     // INVALID_PTX, or UNSUPPORTED_PTX_VERSION
std::string as_compiler_says(const std::string& reason);  // "line 7: ..." as it stands in the driver's logs

// They throw Refused. The first writes what is wrong with the image to where the options say, too.
Code read_image(const void* image, unsigned count, const CUjit_option* names, void** values);
Code read_image(const void* image);
Code read_image_file(const char* name);
Code read_image_of(const std::string& content);  // of a file
std::string content_of(const char* name);

}  // namespace driver
