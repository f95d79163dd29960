// SPDX-License-Identifier: MIT-0
// The driver loads the library that CUDA_INJECTION64_PATH names when the program calls cuInit, and begins it here.
#include <cstdlib>
#include <string>
#include "activities.h"
#include "calls.h"
#include "recorder.h"

namespace {

std::string text_of(CUptiResult result) {
  const char* words = nullptr;
  cuptiGetResultString(result, &words);
  return words ? words : "no reason given";
}

// Without them the recording goes on.
void begin_durations() {
  uint32_t version = 0;
  cuptiGetVersion(&version);
  if (!recorder::knows_activities_of(version))
    return recorder::log("CUPTI's version " + std::to_string(version) +
                         " is not known: how long kernels and copies took is not recorded");
  if (const CUptiResult result = recorder::begin_activities(); result != CUPTI_SUCCESS)
    recorder::log("CUPTI does not tell how long kernels and copies took: " + text_of(result));
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value && std::string(value) != "0";
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const path = std::getenv("VMM_RECORD");
  if (!path || !*path) {
    recorder::log("VMM_RECORD names no file to write; nothing is recorded");
    return 0;
  }
  if (!recorder::open(path)) return 0;
  CUpti_SubscriberHandle subscriber = nullptr;
  CUptiResult result = cuptiSubscribe(&subscriber, recorder::on_call, nullptr);
  if (result == CUPTI_SUCCESS) result = cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  for (const auto& [id, call] : recorder::recorded_calls(CUPTI_CB_DOMAIN_DRIVER_API))
    if (result == CUPTI_SUCCESS) result = cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
  if (result == CUPTI_SUCCESS) {
    if (is_set("VMM_RECORD_DURATIONS")) begin_durations();
    return 1;
  }
  if (subscriber) cuptiUnsubscribe(subscriber);
  recorder::log("CUPTI refuses: " + text_of(result) + "; nothing is recorded");
  return 0;
}
