// SPDX-License-Identifier: MIT-0
// Writes the calls of this process's threads into a file, as `vmmsim --trace` does. It calls neither the driver nor
// CUPTI, so its test needs neither.
#pragma once
#include <cupti.h>

#include <string>

namespace recorder {

// Begins. Several processes may write to one file. Returns whether it could, and says on stderr why not.
bool open(const char* path);

void log(const std::string& what);  // on stderr, in one piece

// For CUPTI: of each call that is recorded, and of all of the runtime's, for what these call is not the program's.
void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data);

}  // namespace recorder
