// SPDX-License-Identifier: MIT-0
#include "activities.h"

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <vector>
#include "../trace/json.h"
#include "../trace/text.h"
#include "recorder.h"

namespace recorder {
namespace {

// CUPTI has a new structure of a record now and then (Kernel9, Kernel10, ... Kernel13), and each begins as the one
// before. These are in the headers of all from 12.0 to 13.5, and lie alike there: whichever of them CUPTI writes, what
// is read here is where these have it.
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy5;
using CopyToPeer = CUpti_ActivityMemcpyPtoP4;
using Memset = CUpti_ActivityMemset4;
constexpr uint32_t first_version = 18, end_of_versions = 14'00'00;  // of CUDA 12.0; they count by toolkit since 13.0

constexpr size_t buffer_size = 64 << 10;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::malloc(buffer_size));
  *size = *buffer ? buffer_size : 0;
  *most_records = 0;  // as many as fit
}

using Work = std::vector<trace::Member>;  // none of what has not ended, or whose times were lost

template <class Record> Work work(const char* kind, const Record& record) {
  if (!record.start || record.end < record.start) return {};
  return {{"correlation", uint32_t(record.correlationId)},
          {"kind", kind},
          {"device", uint32_t(record.deviceId)},
          {"start", uint64_t(record.start)},
          {"end", uint64_t(record.end)}};
}
template <class Record> Work transfer(const char* kind, const CUpti_Activity* record) {
  const auto& transfer = *reinterpret_cast<const Record*>(record);
  Work found = work(kind, transfer);
  if (!found.empty()) found.emplace_back("bytes", uint64_t(transfer.bytes));
  return found;
}

Work work_of(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const Kernel*>(record);
      Work found = work("kernel", kernel);  // a launch's line has its name
      if (!found.empty() && kernel.graphNodeId && kernel.name) found.emplace_back("name", demangled(kernel.name));
      return found;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: return transfer<Copy>("copy", record);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return transfer<CopyToPeer>("copy", record);
    case CUPTI_ACTIVITY_KIND_MEMSET: return transfer<Memset>("memset", record);
    default: return {};
  }
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t size) {
  std::vector<std::string> all;
  for (CUpti_Activity* record = nullptr; cuptiActivityGetNextRecord(buffer, size, &record) == CUPTI_SUCCESS;)
    if (const Work found = work_of(record); !found.empty()) all.push_back(trace::object(found));
  if (!all.empty()) write_executed(all);
  std::free(buffer);
}

uint64_t CUPTIAPI nanoseconds() {  // of the clock of the lines
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

// Not while the program ends, for then CUPTI ends too.
std::mutex& flushing = *new std::mutex;

void flush() {
  if (const std::unique_lock held(flushing, std::try_to_lock); held) cuptiActivityFlushAll(0);
}

}  // namespace

bool knows_activities_of(uint32_t version) { return version >= first_version && version < end_of_versions; }

CUptiResult begin_activities() {
  CUptiResult result = cuptiActivityRegisterTimestampCallback(nanoseconds);
  if (result == CUPTI_SUCCESS) result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                          CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET})
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(kind);
  if (result != CUPTI_SUCCESS) return result;
  static const pid_t process = getpid();
  std::atexit([] {
    if (getpid() != process) return;  // a child has no CUPTI
    flushing.lock();                  // for ever
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  });
  flush_now_and_then(flush);
  return CUPTI_SUCCESS;
}

}  // namespace recorder
