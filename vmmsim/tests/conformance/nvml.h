// SPDX-License-Identifier: MIT-0
// How the programs nvml*.cc ask NVML, whose header is in no package of the toolkit: what it declares stands here.
#pragma once
#include "conformance.h"

#include <dlfcn.h>

using Device = struct nvmlDevice_st*;
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};

template <class... Arguments> int ask(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  EXPECT(library, "%s", dlerror());
  const auto call = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  EXPECT(call, "NVML has no %s", name);
  return call(arguments...);
}
inline const char* words(int error) {
  static const auto call =
      reinterpret_cast<const char* (*)(int)>(dlsym(dlopen("libnvidia-ml.so.1", RTLD_NOW), "nvmlErrorString"));
  return call(error);
}
inline void show(const std::string& what, int answer) { say(what, std::to_string(answer) + ", " + words(answer)); }
inline void show(const std::string& what, bool holds) { say(what, yes(holds)); }
