// SPDX-License-Identifier: MIT-0
// Where a block's shared memory ends for its accesses: one thread goes on, word by word, until an access faults.
#include "conformance.h"

constexpr unsigned behind = 4096;  // bytes behind the end that are tried

enum class Access : int { load, generic_load, store, load_16 };

__device__ void go_on(const void* begin, unsigned end, Access access, volatile unsigned* reached, unsigned zero) {
  const unsigned first = unsigned(__cvta_generic_to_shared(begin)), step = access == Access::load_16 ? 16 : 4;
  for (unsigned at = 0; at < end; at += step) {
    unsigned value = 0, more[3] = {};
    if (access == Access::load) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(value) : "r"(first + at));
    if (access == Access::generic_load)
      asm volatile("ld.volatile.u32 %0, [%1];" : "=r"(value) : "l"(static_cast<const char*>(begin) + at));
    if (access == Access::store) asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(first + at), "r"(at));
    if (access == Access::store) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(value) : "r"(first + at));
    if (access == Access::load_16)
      asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(value), "=r"(more[0]), "=r"(more[1]), "=r"(more[2])
                   : "r"(first + at));
    *reached = at + step + ((value + more[0] + more[1] + more[2]) & zero);  // only once the value is there
    __threadfence_system();
  }
}

extern __shared__ __align__(16) char dynamic_part[];

template <int size>
__global__ void with_static(unsigned dynamic, Access access, volatile unsigned* reached, unsigned zero) {
  __shared__ __align__(16) char part[size];
  part[threadIdx.x] = 0;
  go_on(part, size + dynamic + behind, access, reached, zero);
}
__global__ void without_static(unsigned dynamic, Access access, volatile unsigned* reached, unsigned zero) {
  go_on(dynamic_part, dynamic + behind, access, reached, zero);
}

static void ask(void (*kernel)(unsigned, Access, volatile unsigned*, unsigned), unsigned dynamic,
                Access access = Access::load) {
  alarm(20);
  unsigned* reached;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMallocHost(&reached, sizeof *reached));
  *reached = 0;
  kernel<<<1, 1, dynamic>>>(dynamic, access, reached, 0);
  CHECK(cudaGetLastError());
  say("ends with", cudaDeviceSynchronize());
  say("what faults is at", std::to_string(*reached));
}
SECTION("none") { ask(without_static, 0); }
SECTION("dynamic 4") { ask(without_static, 4); }
SECTION("dynamic 28") { ask(without_static, 28); }
SECTION("dynamic 28, 16 bytes at once") { ask(without_static, 28, Access::load_16); }
SECTION("dynamic 28, generic") { ask(without_static, 28, Access::generic_load); }
SECTION("dynamic 28, stores") { ask(without_static, 28, Access::store); }
SECTION("dynamic 128") { ask(without_static, 128); }
SECTION("dynamic 132") { ask(without_static, 132); }
SECTION("dynamic 1000") { ask(without_static, 1000); }
SECTION("dynamic 49152") { ask(without_static, 49152); }
SECTION("static 28") { ask(with_static<28>, 0); }
SECTION("static 28, dynamic 4") { ask(with_static<28>, 4); }
SECTION("static 100, dynamic 28") { ask(with_static<100>, 28); }
SECTION("static 1020, dynamic 1020") { ask(with_static<1020>, 1020); }

int main(int argc, char** argv) { return run_sections(argc, argv); }
