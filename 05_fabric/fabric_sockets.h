// SPDX-License-Identifier: MIT-0
// 05 Fabric over sockets: how bytes get from process to process, and how the two processes find each other. fabric.cu
// includes this file, or fabric_mpi.h in its place.
#pragma once
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>

// `peer` is a socket, whose other end is in the other process.
static void send_bytes(int peer, const void* bytes, size_t size) {
  EXPECT(send(peer, bytes, size, MSG_NOSIGNAL) == ssize_t(size), "%s", std::strerror(errno));
}

static bool receive_bytes(int peer, void* bytes, size_t size) {  // false: the other process has ended
  return TEMP_FAILURE_RETRY(recv(peer, bytes, size, MSG_WAITALL)) == ssize_t(size);
}

// On two machines: the exporter waits at a port of its machine, and the importer calls there.
static int wait_at(const char* port) {
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_port = htons(std::strtol(port, nullptr, 10));
  here.sin_addr.s_addr = INADDR_ANY;  // on every network: whoever calls first gets the name. Don't do that in earnest
  const int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  EXPECT(server >= 0, "%s", std::strerror(errno));
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  EXPECT(bind(server, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0, "%s", std::strerror(errno));
  EXPECT(listen(server, 1) == 0, "%s", std::strerror(errno));
  const int peer = accept(server, nullptr, nullptr);
  EXPECT(peer >= 0, "%s", std::strerror(errno));
  return peer;
}

static int call(const char* host, const char* port) {
  addrinfo wanted = {}, *found;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  const int peer = getaddrinfo(host, port, &wanted, &found) == 0 ? socket(AF_INET, SOCK_STREAM, 0) : -1;
  EXPECT(peer >= 0, "there is no way to %s, port %s", host, port);
  bool said = false;
  while (connect(peer, found->ai_addr, found->ai_addrlen) != 0) {
    if (!said) std::fprintf(stderr, "%s: %s; trying again\n", host, std::strerror(errno));
    said = true;
    usleep(100'000);
  }
  freeaddrinfo(found);
  return peer;
}

static void give_up(int) {
  const char words[] = "a minute is over, and the other process is silent\n";
  if (write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(2);  // even that is in vain
  _exit(1);
}

// Runs both roles on this machine, or the one that the arguments name, if the other is run on another machine.
static int in_two_processes(int argc, char** argv, void (*exporter)(int peer), int (*importer)(int peer)) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // so that the lines of both processes come in order
  std::signal(SIGALRM, give_up);
  alarm(60);  // a minute until both are there
  if (argc == 4 && !std::strcmp(argv[1], "import")) {
    const int peer = call(argv[2], argv[3]);
    alarm(60);  // and another, now that they are
    return importer(peer);
  }
  if (argc == 3 && !std::strcmp(argv[1], "export")) {
    const int peer = wait_at(argv[2]);
    alarm(60);
    exporter(peer);
  } else {
    if (argc != 1) check::end(2, "usage: fabric, or fabric export PORT and fabric import HOST PORT");
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "%s", std::strerror(errno));
    const pid_t child = fork();  // before any call of CUDA
    EXPECT(child >= 0, "%s", std::strerror(errno));
    close(sockets[child == 0 ? 0 : 1]);
    alarm(60);  // in each of the two: a child inherits none
    if (child == 0) return importer(sockets[1]);
    exporter(sockets[0]);
    int status;
    if (wait(&status) != child || status != 0) check::end(1, "the importer failed");
  }
  std::puts("OK");
  return 0;
}
