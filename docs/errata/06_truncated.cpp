// SPDX-License-Identifier: MIT-0
// Printed: runs, and prints: one fd accepted, of two that were sent
// Right: runs, and prints: refused: fds were lost
#include <sys/socket.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>

int main() {
  int pair[2], two[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || pipe(two)) return 1;
  char byte = 0;
  iovec data = {&byte, 1};

  alignas(cmsghdr) char out[CMSG_SPACE(sizeof two)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = out;
  message.msg_controllen = sizeof out;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_len = CMSG_LEN(sizeof two);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  memcpy(CMSG_DATA(header), two, sizeof two);
  if (sendmsg(pair[0], &message, 0) != 1) return 1;

  alignas(cmsghdr) char in[CMSG_LEN(sizeof(int))] = {};  // room for one
  message.msg_control = in;
  message.msg_controllen = sizeof in;
  if (recvmsg(pair[1], &message, 0) != 1) return 1;
  header = CMSG_FIRSTHDR(&message);
#ifdef AS_PRINTED
  const bool good = header && header->cmsg_len == CMSG_LEN(sizeof(int)) && header->cmsg_type == SCM_RIGHTS;
#else
  const bool good = header && header->cmsg_len == CMSG_LEN(sizeof(int)) && header->cmsg_type == SCM_RIGHTS &&
                    !(message.msg_flags & MSG_CTRUNC);
#endif
  puts(good ? "one fd accepted, of two that were sent" : "refused: fds were lost");
}
