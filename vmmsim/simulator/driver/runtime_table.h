// SPDX-License-Identifier: MIT-0
// What our runtime takes of the driver beside its calls. cuGetExportTable gives it, as NVIDIA's driver gives its own
// runtime such tables: the library shows the names of CUDA, and no others.
#pragma once
#include "call.h"
#include "linking.h"

namespace driver {

struct RuntimeTable {
  decltype(&driver::run) run;
  decltype(&driver::explain) explain;
  decltype(&driver::not_simulated) not_simulated;
  decltype(&driver::kernels_of) kernels_of;
  decltype(&driver::linked_image) linked_image;
};
inline constexpr CUuuid id_of_runtime_table = {
    {'v', 'm', 'm', 's', 'i', 'm', '\'', 's', ' ', 'r', 'u', 'n', 't', 'i', 'm', 'e'}};

}  // namespace driver
