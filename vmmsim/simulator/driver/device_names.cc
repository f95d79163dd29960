// SPDX-License-Identifier: MIT-0
#include <cstdio>

#include "../memory/this_machine.h"
#include "device_names.h"

namespace driver {

CUuuid uuid_of(int gpu) {  // "vmmsim", then the number of the GPU: the same in all processes of the machine
  CUuuid uuid = {{'v', 'm', 'm', 's', 'i', 'm', 0x40, 0, char(0x80)}};
  uuid.bytes[15] = char(gpu);
  uuid.bytes[14] = char(gpu >> 8);
  return uuid;
}

std::string uuid_text(int gpu) {
  const CUuuid uuid = uuid_of(gpu);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    for (int half : {uuid.bytes[i] >> 4 & 15, uuid.bytes[i] & 15}) text += "0123456789abcdef"[half];
  }
  return text;
}

int bus_of(int gpu) { return gpu % memory::machine().gpus + 1; }

std::string bus_text(int gpu) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", unsigned(bus_of(gpu)));
  return text;
}

int bus_in(const char* text) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  int end = 0;
  std::sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &end);
  if (!end) std::sscanf(text, "%x:%x:%x%n", &domain, &bus, &slot, &end);
  if (!end) {
    domain = 0;
    std::sscanf(text, "%x:%x.%x%n", &bus, &slot, &function, &end);
  }
  if (!end || text[end]) return -1;
  return domain || slot || function ? 0 : int(bus);
}

}  // namespace driver
