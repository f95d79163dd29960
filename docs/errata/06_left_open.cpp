// SPDX-License-Identifier: MIT-0
// Printed: runs, and prints: refused, and left open: 2
// Right: runs, and prints: refused, and left open: 0
#include <fcntl.h>
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
  const int next = dup(0);  // the numbers that what arrives will get
  close(next);

  alignas(cmsghdr) char in[CMSG_SPACE(sizeof(int))] = {};  // meant for one, and rounded up: there is room for two
  message.msg_control = in;
  message.msg_controllen = sizeof in;
  if (recvmsg(pair[1], &message, 0) != 1) return 1;
  header = CMSG_FIRSTHDR(&message);
  const bool is_one = header && header->cmsg_len == CMSG_LEN(sizeof(int)) && header->cmsg_type == SCM_RIGHTS;
#ifndef AS_PRINTED
  if (!is_one && header && header->cmsg_type == SCM_RIGHTS)
    for (unsigned char* at = CMSG_DATA(header); at < (unsigned char*)header + header->cmsg_len; at += sizeof(int)) {
      int fd;
      memcpy(&fd, at, sizeof fd);
      close(fd);
    }
#endif
  int open = 0;
  for (int fd = next; fd < next + 2; ++fd) open += fcntl(fd, F_GETFD) >= 0;
  printf("%s, and left open: %d\n", is_one ? "accepted" : "refused", open);
}
