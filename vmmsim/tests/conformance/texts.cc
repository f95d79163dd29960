// SPDX-License-Identifier: MIT-0
// Names of a GPU, with too little room for them and with enough. Not asked: cuDeviceGetName with room for 0 characters,
// where the driver crashes.
#include "conformance.h"

int main() {
  check::require_gpus(1);
  const auto text = [](const char* what, std::initializer_list<int> rooms, auto query) {
    for (const int room : rooms) {
      char to[80] = "untouched";
      const CUresult answer = query(to, room);
      say(std::string(what) + ", room for " + std::to_string(room),
          brief(answer) +
              (!std::strcmp(to, "untouched") ? ", untouched" : ", length " + std::to_string(std::strlen(to))));
    }
    say(std::string(what) + ", no room at all", query(nullptr, 64));
  };
  text("cuDeviceGetName", {-1, 1, 2, 12, 13, 14, 64}, [](char* to, int room) { return cuDeviceGetName(to, room, 0); });
  text("cuDeviceGetPCIBusId", {-1, 0, 1, 2, 12, 13, 14, 64},
       [](char* to, int room) { return cuDeviceGetPCIBusId(to, room, 0); });
  std::puts("OK");
}
