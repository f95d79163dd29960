// SPDX-License-Identifier: MIT-0
// Writes the calls of this process's threads into a file, as `vmmsim --trace` does. It calls neither the driver nor
// CUPTI, so its test needs neither.
#pragma once
#include <cupti.h>

#include <string>
#include <vector>

namespace recorder {

// Begins. Several processes may write to one file. Returns whether it could, and says on stderr why not.
bool open(const char* path);

void log(const std::string& text);  // on stderr, in one piece

// Called a few times a second, by a thread that is not the program's.
void flush_now_and_then(void (*flush)());
void write_executed(const std::vector<std::string>& work);  // a line of what GPUs have done: objects of JSON

// For CUPTI: of each call that is recorded, and of all of the runtime's, for what these call is not the program's.
void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data);

}  // namespace recorder
