// SPDX-License-Identifier: MIT-0
#include "records.h"
#include "../interposed.h"
#include "../lasting.h"
#include "../log.h"
#include "presence.h"
#include "process.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unordered_map>

namespace memory {
namespace {

constexpr char no_descriptor[] = "this process has no file descriptor left";
constexpr char no_lock[] = "this system has no lock of a file left, by which memory is held";
constexpr char no_room[] = "this process has no room for the memory of a GPU: is its address space limited?";

// A descriptor's file position tells the record that it holds. It is past the ledger's end, where nothing can be read.
constexpr off_t first_position = off_t(1) << 40;

// What this process holds.
struct Holds {
  int file = -1;                                // with its locks: an open file of its own, which no mapping keeps open
  std::unordered_map<uint32_t, unsigned> held;  // record -> how often by this process
};
Holds& holds() REQUIRES(process_lock) { return lasting<Holds>(); }

// The memory of a GPU: its file, and where that is mapped, once either was needed. Copies look here without a lock.
struct GpuFile {
  std::atomic<char*> bytes = nullptr;
  int number = -1;  // of the descriptor; set before `bytes`
};
GpuFile& gpu_file(int gpu) {
  static GpuFile* const all = new GpuFile[max_owners];
  return all[gpu];
}

struct flock bytes_of(uint32_t record, uint32_t count, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = record;
  lock.l_len = count;
  return lock;
}
// Read locks get into nobody's way. False: the system has none left.
bool set_lock(int file, uint32_t record, short type) {
  struct flock lock = bytes_of(record, 1, type);
  return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

// Opens a GPU's file, once. False: there is no descriptor left.
bool open_gpu_file(int gpu) REQUIRES(process_lock) {
  if (gpu_file(gpu).number < 0) gpu_file(gpu).number = open_of_vmmsim(ledger().memory_file[gpu], O_RDWR);
  return gpu_file(gpu).number >= 0;
}

// Says on stderr, once, that memory is taken that nobody holds: figures of free memory are less then.
void log_kept(const char* reason) {
  static std::atomic<bool> is_told = false;
  const char* const error = std::strerror(errno);
  if (!is_told.exchange(true)) log_line("memory stays taken for now: %s: %s", reason, error);
}

bool punch(int gpu, uint32_t first, uint32_t frames) REQUIRES(process_lock) {
  const auto begin = static_cast<off_t>(first * page_size), size = static_cast<off_t>(frames * page_size);
  const bool is_done =
      open_gpu_file(gpu) &&
      TEMP_FAILURE_RETRY(fallocate(gpu_file(gpu).number, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, size)) == 0;
  if (!is_done) log_kept("what was written to it cannot be taken out");
  return is_done;
}

// The next that takes these frames finds zeros, and the machine has its memory back at once. False: the old bytes could
// not be taken out. The record keeps its frames then, until the sweep of a process that can.
bool give_back_frames(Record& record) REQUIRES(process_lock, ledger().lock) {
  Ledger::Gpu& gpu = ledger().gpu[record.gpu];
  uint32_t* const next = ledger().frames_of(record.gpu);
  uint32_t run = record.first_frame, last = run, frames = 0;
  for (uint32_t frame = run; frame != invalid_index; last = frame, frame = next[frame], ++frames) {
    if (frame == run || frame == last + 1) continue;
    if (!punch(record.gpu, run, last + 1 - run)) return false;
    run = frame;
  }
  if (!punch(record.gpu, run, last + 1 - run)) return false;
  record.kind = Record::unused;
  next[last] = gpu.first;
  gpu.first = record.first_frame;
  gpu.free += frames;
  return true;
}

void give_back_if_unheld(uint32_t number) REQUIRES(process_lock, ledger().lock) {
  Record& record = ledger().record[number];
  if (record.kind == Record::unused || record.kind == Record::binding || record.kind == Record::event) return;
  if (record.bindings || is_held(number)) return;
  if (record.kind == Record::multicast)
    while (record.next != invalid_index) remove_binding(record.next);
  if (record.kind == Record::physical && !give_back_frames(record)) return;
  if (record.exported) change("gone", {{"identity", hexadecimal(record.key)}});
  drop_record(number);
}

// Handles of events are good even when nobody holds them, as on the H200: until their lines are needed.
void drop_unheld_events() REQUIRES(process_lock, ledger().lock) {
  for (uint32_t number = 0; number < ledger().records; ++number)
    if (ledger().record[number].kind == Record::event && !is_held(number)) drop_record(number);
}

}  // namespace

uint64_t new_key() {
  uint64_t key = ledger().token + 0x9e3779b97f4a7c15 * ++ledger().serial;  // splitmix64: one to one, and looks random
  key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9;
  key = (key ^ key >> 27) * 0x94d049bb133111eb;
  key ^= key >> 31;
  return key ? key : new_key();
}

uint32_t new_record(Record::Kind kind, const char* name) {
  if (ledger().unused == invalid_index && ledger().records == max_records) {
    sweep();
    drop_unheld_events();
  }
  uint32_t number = ledger().unused;
  if (number != invalid_index) ledger().unused = ledger().record[number].next;
  else if (ledger().records < max_records) number = ledger().records++;
  else refuse(CUDA_ERROR_OUT_OF_MEMORY, std::string("the ledger has no line left for ") + name);
  Record& record = ledger().record[number];
  record = {};
  record.next = record.first_frame = record.object = invalid_index;
  record.key = new_key();
  record.node = node();
  record.maker = this_process();
  if (kind == Record::multicast || kind == Record::event || kind == Record::pool)
    record.kind = kind;  // others are unused until they are whole
  return number;
}

void drop_record(uint32_t record) {
  ledger().record[record].kind = Record::unused;
  ledger().record[record].next = ledger().unused;
  ledger().unused = record;
}

bool take_frames(Record& record, int gpu, uint64_t size) {
  Ledger::Gpu& state = ledger().gpu[gpu];
  const uint64_t frames = size / page_size;
  if (state.free < frames) sweep();
  if (state.free < frames) return false;
  uint32_t* const next = ledger().frames_of(gpu);
  uint32_t last = state.first;
  for (uint64_t i = 1; i < frames; ++i) last = next[last];
  record.gpu = gpu;
  record.size = size;
  record.first_frame = state.first;
  state.first = next[last];
  state.free -= static_cast<uint32_t>(frames);
  next[last] = invalid_index;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // who dies before the next line has taken nothing
  record.kind = Record::physical;
  return true;
}

// Asks the system for many records at once: to it locks of one holder side by side are one, and this process's own ones
// are in nobody's way.
static void sweep(uint32_t begin, uint32_t end) REQUIRES(process_lock, ledger().lock) {
  while (begin < end) {
    struct flock lock = bytes_of(begin, end - begin, F_WRLCK);
    fcntl(holds().file >= 0 ? holds().file : ledger_file(), F_OFD_GETLK, &lock);
    if (lock.l_type == F_UNLCK) break;
    const auto held = std::max(uint32_t(lock.l_start), begin);  // one of those that others hold, with its neighbours
    sweep(begin, held);
    begin = uint32_t(lock.l_start + lock.l_len);
  }
  for (; begin < end; ++begin)
    if (!holds().held.count(begin)) give_back_if_unheld(begin);
}

void sweep() { sweep(0, ledger().records); }

void give_back_exported() {
  if (!ledger().has_exported) return;
  const auto guard = lock_process();
  const LedgerLock locked;
  for (uint32_t number = 0; number < ledger().records; ++number)
    if (ledger().record[number].exported) give_back_if_unheld(number);
}

static std::atomic<int> own_place = -1;  // among those that are present

void register_presence() {
  const auto guard = lock_process();
  if (holds().file < 0) holds().file = open_ledger(O_RDWR);
  for (uint32_t place = 0; place < max_present && holds().file >= 0; ++place) {
    int32_t nobody = 0;
    if (!ledger().present[place].compare_exchange_strong(nobody, coming)) continue;
    const bool is_locked = set_lock(holds().file, max_records + place, F_RDLCK);
    if (is_locked) own_place = static_cast<int>(place);
    ledger().present[place] = is_locked ? getpid() : 0;
    return;
  }
}

void unregister_presence() {
  if (own_place >= 0) ledger().present[own_place] = 0;
}

bool is_held(uint32_t record, bool by_others) {
  struct flock lock = bytes_of(record, 1, F_WRLCK);  // nobody could get this if somebody else has a read lock
  fcntl(by_others && holds().file >= 0 ? holds().file : ledger_file(), F_OFD_GETLK, &lock);
  return lock.l_type != F_UNLCK;
}

void acquire_record(uint32_t record) {
  if (holds().file < 0) holds().file = open_ledger(O_RDWR);
  if (holds().file < 0) refuse(CUDA_ERROR_OPERATING_SYSTEM, no_descriptor);
  const auto found = holds().held.find(record);
  if (found == holds().held.end() && !set_lock(holds().file, record, F_RDLCK))
    refuse(CUDA_ERROR_OPERATING_SYSTEM, no_lock);
  ++holds().held[record];
}

void release_record(uint32_t record) {
  const auto found = holds().held.find(record);
  assert(found != holds().held.end());
  if (--found->second) return;
  holds().held.erase(found);
  if (!set_lock(holds().file, record, F_UNLCK)) log_kept("its lock cannot be given back");
  LedgerLock locked;
  give_back_if_unheld(record);
}

void remove_binding(uint32_t number) {
  Record& binding = ledger().record[number];
  uint32_t* link = &ledger().record[binding.object].next;
  while (*link != number) link = &ledger().record[*link].next;
  *link = binding.next;
  --ledger().record[binding.memory].bindings;
  const uint32_t memory = binding.memory;
  drop_record(number);
  ++ledger().bound;
  give_back_if_unheld(memory);
}

// A descriptor under a number that other processes hardly have, for --adversarial-timing.
static int elsewhere(int fd) {
  const int moved = options().adversarial_timing ? fcntl(fd, F_DUPFD_CLOEXEC, 100 + getpid() % 400) : -1;
  if (moved >= 0) close(fd);
  return moved >= 0 ? moved : fd;
}

int export_record(uint32_t record) {
  const int fd = elsewhere(open_ledger(O_RDWR));
  if (fd < 0) refuse(CUDA_ERROR_OPERATING_SYSTEM, no_descriptor);
  if (!set_lock(fd, record, F_RDLCK)) {
    close(fd);
    refuse(CUDA_ERROR_OPERATING_SYSTEM, no_lock);
  }
  lseek(fd, first_position + record, SEEK_SET);
  ledger().record[record].exported = ledger().has_exported = true;
  return fd;
}

static bool is_of_ledger(int fd) {
  struct stat that, ours;
  return fstat(fd, &that) == 0 && fstat(ledger_file(), &ours) == 0 && that.st_dev == ours.st_dev &&
         that.st_ino == ours.st_ino;
}

uint32_t exported_record(int fd) {
  if (!is_of_ledger(fd)) return invalid_index;
  const off_t position = syscall(SYS_lseek, fd, 0, SEEK_CUR) - first_position;
  return position < 0 || position >= max_records ? invalid_index : static_cast<uint32_t>(position);
}

int export_dma_buf(std::span<const uint32_t> records, uint64_t size) {
  const int fd = elsewhere(open_ledger(O_RDONLY));
  if (fd < 0) refuse(CUDA_ERROR_OPERATING_SYSTEM, no_descriptor);
  for (const uint32_t record : records)
    if (!set_lock(fd, record, F_RDLCK)) {
      close(fd);
      refuse(CUDA_ERROR_OPERATING_SYSTEM, no_lock);
    }
  syscall(SYS_lseek, fd, before_dma_bufs + off_t(size), SEEK_SET);
  return fd;
}

uint64_t dma_buf_size(int fd) {  // past libc, whose lseek asks this
  const off_t position = syscall(SYS_lseek, fd, 0, SEEK_CUR);
  return position > before_dma_bufs && is_of_ledger(fd) ? uint64_t(position - before_dma_bufs) : 0;
}

bool show_to_host(const Record& record, uint64_t address, int protection) {
  const char* const bytes = gpu_memory(record.gpu);
  bool all = true;
  for_each_frame(record, [&](char* frame) {
    void* const shown = mmap(reinterpret_cast<void*>(address), page_size, protection,
                             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, gpu_file(record.gpu).number, frame - bytes);
    all = all && shown != MAP_FAILED;
    address += page_size;
  });
  return all;
}

void leave() {
  if (holds().file >= 0) close(holds().file);
  holds().file = -1;
}

char* gpu_memory(int gpu) {
  if (gpu_file(gpu).bytes) return gpu_file(gpu).bytes;
  const uint64_t size = machine().memory;
  if (!open_gpu_file(gpu)) refuse(CUDA_ERROR_OPERATING_SYSTEM, no_descriptor);
  // A page-table entry has flags below its 2 MiB, so a frame must lie on a multiple of it.
  void* const room = mmap(nullptr, size + page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) refuse(CUDA_ERROR_OUT_OF_MEMORY, no_room);
  char* const aligned = reinterpret_cast<char*>(round_up(reinterpret_cast<uint64_t>(room), page_size));
  if (mmap(aligned, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, gpu_file(gpu).number, 0) ==
      MAP_FAILED) {
    munmap(room, size + page_size);
    refuse(CUDA_ERROR_OUT_OF_MEMORY, no_room);
  }
  madvise(aligned, size, MADV_DONTFORK);
  madvise(aligned, size, MADV_DONTDUMP);
  gpu_file(gpu).bytes = aligned;
  return aligned;
}

void clear(char* bytes, size_t size) {
  const auto is_within = [&](const char* memory) {
    return memory && bytes >= memory && bytes < memory + machine().memory;
  };
  int gpu = 0;
  while (gpu < ledger().owners() && !is_within(gpu_file(gpu).bytes)) ++gpu;
  if (gpu == ledger().owners()) {  // memory of the host
    std::memset(bytes, 0, size);
    return;
  }
  const off_t begin = bytes - gpu_file(gpu).bytes, end = begin + off_t(size);
  for (off_t at = begin; at < end;) {  // from what has been written to the hole behind it
    const off_t written = lseek(gpu_file(gpu).number, at, SEEK_DATA);
    if (written < 0 || written >= end) return;
    const off_t hole = lseek(gpu_file(gpu).number, written, SEEK_HOLE);
    at = hole > written ? std::min(hole, end) : end;
    std::memset(gpu_file(gpu).bytes + written, 0, size_t(at - written));
  }
}

}  // namespace memory
