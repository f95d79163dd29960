// SPDX-License-Identifier: MIT-0
// Calls that a recorder is told of in the structures in which CUPTI would.
#pragma once
#include <cuda.h>
#include <cupti.h>

#include <cerrno>
#include <cstdio>

inline CUpti_CallbackFunc subscriber = nullptr;

inline CUcontext current() {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  return context;
}

inline void tell(CUpti_CallbackDomain domain, CUpti_CallbackId id, CUpti_CallbackData& data, void* result) {
  data.callbackSite = result ? CUPTI_API_EXIT : CUPTI_API_ENTER;
  data.functionReturnValue = result;
  data.context = current();
  errno = 42;
  subscriber(nullptr, domain, id, &data);
  if (errno != 42) std::printf("errno has become %d\n", errno);
}

inline uint32_t correlation = 0;  // of the last call that has begun

template <class Parameters, class Work>
auto call_data(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char* name, const char* kernel,
               Parameters parameters, const Work& work) {
  CUpti_CallbackData data = {};
  data.functionName = name;
  data.functionParams = &parameters;
  data.symbolName = kernel;
  data.correlationId = ++correlation;
  tell(domain, id, data, nullptr);
  auto result = work();
  tell(domain, id, data, &result);
  return result;
}

#define DRIVER_AS(function, name, kernel, ...)                                                                     \
  call_data(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, #name, kernel, name##_params{__VA_ARGS__}, \
            [&] { return function(__VA_ARGS__); })
#define DRIVER(name, ...) DRIVER_AS(name, name, nullptr, __VA_ARGS__)
#define RUNTIME_AS(function, version, kernel, ...)                                                        \
  call_data(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##function##version, #function, kernel, \
            function##version##_params{__VA_ARGS__}, [&] { return function(__VA_ARGS__); })
#define RUNTIME(function, version, ...) RUNTIME_AS(function, version, nullptr, __VA_ARGS__)
// Without arguments.
#define BARE(domain, id, function) call_data(domain, id, #function, nullptr, 0, [&] { return function(); })
#define DRIVER_BARE(name) BARE(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, name)
#define RUNTIME_BARE(function, version) \
  BARE(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##function##version, function)
