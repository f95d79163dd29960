// SPDX-License-Identifier: MIT-0
// Printed: does not compile: invalid conversion from 'int' to 'FILE\*'
// Right: compiles
#include <unistd.h>
#include <cstdio>

void done_with(int exported_fd) {
#ifdef AS_PRINTED
  fclose(exported_fd);
#else
  close(exported_fd);
#endif
}
