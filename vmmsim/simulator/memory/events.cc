// SPDX-License-Identifier: MIT-0
// Events that processes share: a line of the ledger counts how often one was recorded, and up to which of these the
// streams have got.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "process.h"

namespace memory {
namespace {

constexpr uint64_t event_magic = 0x746e6576656d6d76;  // "vmmevent"
struct EventHandle {
  uint64_t magic, token, key;
  uint32_t record;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

std::atomic_ref<uint64_t> recorded(uint32_t event) { return std::atomic_ref(ledger().record[event].recorded); }
std::atomic_ref<uint64_t> reached(uint32_t event) { return std::atomic_ref(ledger().record[event].reached); }
std::atomic_ref<ProcessIdentity> recorder(uint32_t event) { return std::atomic_ref(ledger().record[event].recorder); }

}  // namespace

uint32_t make_event() {
  const auto guard = lock_process();
  const LedgerLock locked;
  const uint32_t event = new_record(Record::event, "an event");
  acquire_record(event);
  return event;
}

CUipcEventHandle export_event(uint32_t event) {
  const EventHandle contents = {event_magic, ledger().token, ledger().record[event].key, event};
  return bytes_as<CUipcEventHandle>(contents);
}

uint32_t open_event(const CUipcEventHandle& handle) {
  const auto guard = lock_process();
  const auto contents = bytes_as<EventHandle>(handle);
  if (contents.magic != event_magic || contents.token != ledger().token || contents.record >= max_records)
    refuse(CUDA_ERROR_MAP_FAILED, "these 64 bytes are not a handle of cuIpcGetEventHandle");
  const LedgerLock locked;
  const Record& record = ledger().record[contents.record];
  if (record.kind != Record::event || record.key != contents.key || record.node != node())
    refuse(CUDA_ERROR_MAP_FAILED, "the event of this handle is gone, or on another node");
  if (record.maker == this_process()) refuse(CUDA_ERROR_INVALID_CONTEXT, "this process made the event: use that");
  acquire_record(contents.record);
  return contents.record;
}

void close_event(uint32_t event) {
  const auto guard = lock_process();
  release_record(event);
}

uint64_t times_recorded(uint32_t event) { return recorded(event); }

uint64_t record_event(uint32_t event) {
  recorder(event) = this_process();
  return ++recorded(event);
}

void reach_event(uint32_t event, uint64_t number) {
  const auto so_far = reached(event);
  for (uint64_t now = so_far; now < number && !so_far.compare_exchange_weak(now, number);) {
  }
  ++ledger().reached;
  syscall(SYS_futex, &ledger().reached, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool is_reached(uint32_t event, uint64_t number) {
  return reached(event) >= number || has_ended(recorder(event));  // what a process did ends with it
}

void await_event(uint32_t event, uint64_t number) {
  const uint32_t before = ledger().reached;  // before looking: what is reached after this ends the wait
  const timespec look_again = {0, 200'000'000};
  if (!is_reached(event, number)) syscall(SYS_futex, &ledger().reached, FUTEX_WAIT, before, &look_again, nullptr, 0);
}

}  // namespace memory
