// SPDX-License-Identifier: MIT-0
// What CUDA and NVML say alike of a GPU of the machine. GPUs are numbered through all nodes.
#pragma once
#include <cuda.h>

#include <string>

namespace driver {

CUuuid uuid_of(int gpu);
std::string uuid_text(int gpu);  // "GPU-766d6d73-696d-4000-8000-000000000003"
int bus_of(int gpu);             // of PCI, from 1 on
std::string bus_text(int gpu);   // "0000:01:00.0"
// The bus in domain:bus:device.function, domain:bus:device or bus:device.function, in hexadecimal. -1: the text is none
// of these; 0: no GPU can be there.
int bus_in(const char* text);

}  // namespace driver
