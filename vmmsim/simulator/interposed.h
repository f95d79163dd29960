// SPDX-License-Identifier: MIT-0
// What the driver is told by the library that goes before libc (interposed.cc), for --trace.
#pragma once
#include <sys/types.h>

#include <cstddef>

// A simulated dma-buf is the ledger's file at this position and its size: past the ledger's end, and past what tells of
// other exported descriptors (memory/records.cc).
constexpr off_t before_dma_bufs = off_t(1) << 50;

struct Watcher {
  bool (*closes)(int fd);  // before it is closed: whether it holds memory
  void (*closed)();        // one that did
  void (*could_not_close)(int fd);
  void (*sleeps)();  // and the sleep was over at once (--adversarial-timing)
  void (*sends)(const int* fds, size_t count);
  void (*asks)();                           // whether a child has ended, and none has
  void (*reaped)(int process, int status);  // a child of this one has ended
  void (*exits)(int status);
};

// The driver finds this by its name once cuInit has run. It may be missing: a program can have replaced LD_PRELOAD.
constexpr char watch_function[] = "vmmsim_watch";
using WatchFunction = void(const Watcher*);
