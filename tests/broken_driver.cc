// SPDX-License-Identifier: MIT-0
// A driver that hangs or crashes as soon as it is started, as BROKEN_DRIVER=hang or crash says.
#include <unistd.h>
#include <cstdlib>
#include <string>

extern "C" int cuInit(unsigned) {
  while (std::getenv("BROKEN_DRIVER") == std::string("hang")) pause();
  std::abort();
}
