// SPDX-License-Identifier: MIT-0
// The driver loads the library that CUDA_INJECTION64_PATH names when the program calls cuInit, and begins it here.
#include <cstdlib>
#include <string>
#include "calls.h"
#include "recorder.h"

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
  if (result == CUPTI_SUCCESS) return 1;
  if (subscriber) cuptiUnsubscribe(subscriber);
  const char* why = nullptr;
  cuptiGetResultString(result, &why);
  recorder::log(std::string("CUPTI refuses: ") + (why ? why : "no reason given") + "; nothing is recorded");
  return 0;
}
