// SPDX-License-Identifier: MIT-0
// Printed: does not compile: static assertion failed: the union has room
// Right: compiles
#include <sys/socket.h>

union Control {
  cmsghdr align;
#ifdef AS_PRINTED
  char* control;  // points to memory from malloc, which the union neither holds nor aligns
#else
  char control[CMSG_SPACE(sizeof(int))];
#endif
};
static_assert(sizeof(Control) >= CMSG_SPACE(sizeof(int)), "the union has room for a header and one fd");
