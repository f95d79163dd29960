// SPDX-License-Identifier: MIT-0
// Clusters: which launches may have them, what a block knows of its cluster, how its blocks wait for one another and
// reach each other's shared memory, and what occupancy and the attributes of kernels say of them. How many clusters of
// more than two blocks fit depends on how the GPU is cut: "large clusters" was asked of one H100 apart.
#include "conformance.h"

#include <algorithm>
#include <vector>

static const char text[] = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry plain() { ret; }
.visible .entry must2() .reqnctapercluster 2 { ret; }
.visible .entry must2x2() .explicitcluster .reqnctapercluster 2, 2 { ret; }
.visible .entry must9() .reqnctapercluster 9 { ret; }
.visible .entry most4() .maxclusterrank 4 { ret; }
.visible .entry must() .explicitcluster { ret; }
.visible .entry most64() .maxntid 64 { ret; }
.visible .entry sharing() {
  .shared .align 4 .b8 room[40000];
  st.shared.u32 [room], 1; ret;
}
// What a block knows of its cluster: 16 words for each block.
.visible .entry knows(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<20>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r1, 64; add.u64 %rd1, %rd1, %rd2;
  mov.u32 %r1, %clusterid.x; mov.u32 %r2, %clusterid.y; mov.u32 %r3, %clusterid.z;
  st.v4.u32 [%rd1], {%r1, %r2, %r3, %r3};
  mov.u32 %r1, %nclusterid.x; mov.u32 %r2, %nclusterid.y; mov.u32 %r3, %nclusterid.z; mov.u32 %r4, %cluster_ctarank;
  st.v4.u32 [%rd1+16], {%r1, %r2, %r3, %r4};
  mov.u32 %r1, %cluster_ctaid.x; mov.u32 %r2, %cluster_ctaid.y; mov.u32 %r3, %cluster_ctaid.z;
  mov.u32 %r4, %cluster_nctarank;
  st.v4.u32 [%rd1+32], {%r1, %r2, %r3, %r4};
  mov.u32 %r1, %cluster_nctaid.x; mov.u32 %r2, %cluster_nctaid.y; mov.u32 %r3, %cluster_nctaid.z;
  mov.pred %p1, %is_explicit_cluster; selp.u32 %r4, 1, 0, %p1;
  st.v4.u32 [%rd1+48], {%r1, %r2, %r3, %r4};
  ret;
}
)";

// Kernels of clusters of one dimension: BODY has in %r1 its rank, in %r2 how many blocks there are, in %r3 the rank of
// the next one, in %r4 its thread, in %r5 the address of its word of shared memory, in %r6 that word, rank * 100; the
// barrier of the cluster has let all through once. What is in %r10 goes to out[block * threads + thread].
#define CLUSTER_KERNEL(name, body)                                                                                  \
  ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry " name                                            \
  "(.param .u64 out) {\n.reg .b64 %rd<12>; .reg .b32 %r<24>; .reg .pred %p<6>; .reg .f32 %f<4>;\n"                  \
  ".shared .align 16 .b8 word[64]; .shared .align 8 .b64 arrivals;\n"                                               \
  "ld.param.u64 %rd1, [out]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank;\n"                      \
  "add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, %r2; mov.u32 %r4, %tid.x; mov.u32 %r5, word; mul.lo.u32 %r6, %r1, 100;\n" \
  "setp.eq.u32 %p1, %r4, 0; mov.u32 %r10, 777;\n@%p1 st.shared.u32 [%r5], %r6;\n"                                   \
  "@%p1 mbarrier.init.shared.b64 [arrivals], 1;\nfence.mbarrier_init.release.cluster;\n"                            \
  "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" body                                            \
  "\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"                                               \
  "mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ntid.x; mad.lo.u32 %r20, %r20, %r21, %r4; mul.wide.u32 %rd2, %r20, 4;\n"  \
  "add.u64 %rd1, %rd1, %rd2; st.u32 [%rd1], %r10; ret; }\n"

static const struct {
  const char *what, *text;
} bodies[] = {
    {"load the next one's word", CLUSTER_KERNEL("k",
                                                "mapa.shared::cluster.u32 %r7, %r5, %r3;"
                                                "ld.shared::cluster.u32 %r10, [%r7];")},
    {"load one's own by its rank", CLUSTER_KERNEL("k",
                                                  "mapa.shared::cluster.u32 %r7, %r5, %r1;"
                                                  "ld.shared::cluster.u32 %r10, [%r7];")},
    {"load one's own as a cluster's", CLUSTER_KERNEL("k", "ld.shared::cluster.u32 %r10, [%r5];")},
    {"load by a generic address", CLUSTER_KERNEL("k",
                                                 "cvt.u64.u32 %rd4, %r5;"
                                                 "cvta.shared.u64 %rd3, %rd4; mapa.u64 %rd5, %rd3, %r3;"
                                                 "ld.u32 %r10, [%rd5];")},
    {"load by a name", CLUSTER_KERNEL("k",
                                      "mapa.shared::cluster.u32 %r7, word, %r3;"
                                      "ld.shared::cluster.u32 %r10, [%r7];")},
    {"load a vector", CLUSTER_KERNEL("k",
                                     "mapa.shared::cluster.u32 %r7, %r5, %r3;"
                                     "ld.shared::cluster.v4.u32 {%r10, %r11, %r12, %r13}, [%r7];")},
    {"rank of an address", CLUSTER_KERNEL("k",
                                          "mapa.shared::cluster.u32 %r7, %r5, %r3;"
                                          "getctarank.shared::cluster.u32 %r10, %r7;")},
    {"rank of one's own address", CLUSTER_KERNEL("k", "getctarank.shared::cluster.u32 %r10, %r5;")},
    {"rank of a generic address", CLUSTER_KERNEL("k",
                                                 "cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd3, %rd4;"
                                                 "mapa.u64 %rd5, %rd3, %r3; getctarank.u64 %r10, %rd5;")},
    {"is another's address shared",
     CLUSTER_KERNEL("k",
                    "cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd3, %rd4; mapa.u64 %rd5, %rd3, %r3;"
                    "isspacep.shared::cta %p2, %rd5; isspacep.shared::cluster %p3, %rd5; selp.u32 %r10, 1, 0, %p2;"
                    "selp.u32 %r11, 2, 0, %p3; add.u32 %r10, %r10, %r11; isspacep.shared %p2, %rd3;"
                    "isspacep.shared::cluster %p3, %rd3; selp.u32 %r12, 4, 0, %p2; selp.u32 %r11, 8, 0, %p3;"
                    "add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r12; isspacep.global %p2, %rd5;"
                    "selp.u32 %r12, 16, 0, %p2; add.u32 %r10, %r10, %r12;")},
    {"store into the next one",
     CLUSTER_KERNEL("k",
                    "mapa.shared::cluster.u32 %r7, %r5, %r3; add.u32 %r8, %r6, 5;"
                    "@%p1 st.shared::cluster.u32 [%r7+4], %r8;"
                    "barrier.cluster.arrive.release; barrier.cluster.wait.acquire; ld.shared.u32 %r10, [%r5+4];")},
    {"store by a generic address",
     CLUSTER_KERNEL("k",
                    "cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd3, %rd4; mapa.u64 %rd5, %rd3, %r3;"
                    "add.u32 %r8, %r6, 6; @%p1 st.u32 [%rd5+4], %r8;"
                    "barrier.cluster.arrive; barrier.cluster.wait; ld.shared.u32 %r10, [%r5+4];")},
    {"all add to the first one's",
     CLUSTER_KERNEL("k",
                    "mapa.shared::cluster.u32 %r7, %r5, 0; atom.shared::cluster.add.u32 %r11, [%r7], 1;"
                    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
                    "ld.shared::cluster.u32 %r10, [%r7];")},
    {"all add to the first one's, red",
     CLUSTER_KERNEL("k",
                    "mapa.shared::cluster.u32 %r7, %r5, 0; red.relaxed.cluster.shared::cluster.add.u32 [%r7], 2;"
                    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
                    "ld.shared::cluster.u32 %r10, [%r7];")},
    {"all add by a generic address",
     CLUSTER_KERNEL("k",
                    "cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd3, %rd4; mapa.u64 %rd5, %rd3, 0;"
                    "atom.add.u32 %r11, [%rd5], 3;"
                    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.u32 %r10, [%rd5];")},
    {"arrive relaxed, wait",
     CLUSTER_KERNEL("k", "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; mov.u32 %r10, 5;")},
    {"one arrives at the next one's mbarrier",
     CLUSTER_KERNEL("k",
                    "mov.u32 %r7, arrivals; mapa.shared::cluster.u32 %r7, %r7, %r3;"
                    "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7]; mov.u32 %r10, 0;\n"
                    "again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [arrivals], 0;\n"
                    "@!%p2 bra again;\nadd.u32 %r10, %r10, 9;")},
    {"st.async into the next one",
     CLUSTER_KERNEL("k",
                    "mov.u32 %r8, arrivals; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [arrivals], 4;"
                    "mapa.shared::cluster.u32 %r7, %r5, %r3; mapa.shared::cluster.u32 %r9, %r8, %r3;"
                    "add.u32 %r11, %r6, 7;\n@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 "
                    "[%r7+8], %r11, [%r9];\n"
                    "again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [arrivals], 0;\n"
                    "@!%p2 bra again;\nld.shared.u32 %r10, [%r5+8];")},
    {"red.async into the next one",
     CLUSTER_KERNEL("k",
                    "mov.u32 %r8, arrivals; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [arrivals], 4;"
                    "mapa.shared::cluster.u32 %r7, %r5, %r3; mapa.shared::cluster.u32 %r9, %r8, %r3;"
                    "\n@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
                    "[%r7], 8, [%r9];\n"
                    "again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [arrivals], 0;\n"
                    "@!%p2 bra again;\nld.shared.u32 %r10, [%r5];")},
    {"a bulk copy into the next one",
     CLUSTER_KERNEL("k",
                    "mov.u32 %r8, arrivals; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [arrivals], 16;"
                    "add.u32 %r12, %r5, 16; mapa.shared::cluster.u32 %r7, %r12, %r3;"
                    "mapa.shared::cluster.u32 %r9, %r8, %r3; fence.proxy.async;\n"
                    "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r5], 16, "
                    "[%r9];\n"
                    "again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [arrivals], 0;\n"
                    "@!%p2 bra again;\nld.shared.u32 %r10, [%r5+16];")},
};
// What faults, or may: each in a process of its own.
static const struct {
  const char *what, *text;
} faults[] = {
    {"the word of a rank that is not there",
     CLUSTER_KERNEL("k", "mapa.shared::cluster.u32 %r7, %r5, 20; ld.shared::cluster.u32 %r10, [%r7];")},
    {"a rank that is not there, without an access", CLUSTER_KERNEL("k", "mapa.shared::cluster.u32 %r7, %r5, 20;")},
    {"a word behind the end of the next one's",
     CLUSTER_KERNEL("k", "mapa.shared::cluster.u32 %r7, %r5, %r3; ld.shared::cluster.u32 %r10, [%r7+65536];")},
    {"a word that is not aligned",
     CLUSTER_KERNEL("k", "mapa.shared::cluster.u32 %r7, %r5, %r3; ld.shared::cluster.u32 %r10, [%r7+1];")},
};

static CUmodule module;
static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cuModuleLoadData(&module, text));
  alarm(40);
}
static CUfunction function(const char* name, CUmodule from = module) {
  CUfunction found;
  CHECK(cuModuleGetFunction(&found, from, name));
  return found;
}

struct Size {
  unsigned x, y, z;
};
static std::string text_of(Size s) {
  return std::to_string(s.x) + "x" + std::to_string(s.y) + "x" + std::to_string(s.z);
}
static std::string named(CUresult result) { return check::name(result); }
static CUlaunchAttribute cluster_of(Size s) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = s.x, attribute.value.clusterDim.y = s.y, attribute.value.clusterDim.z = s.z;
  return attribute;
}
static CUlaunchConfig config_of(Size grid, unsigned threads, std::vector<CUlaunchAttribute>& attributes,
                                unsigned shared = 0) {
  CUlaunchConfig config = {};
  config.gridDimX = grid.x, config.gridDimY = grid.y, config.gridDimZ = grid.z;
  config.blockDimX = threads, config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = shared;
  config.attrs = attributes.data();
  config.numAttrs = unsigned(attributes.size());
  return config;
}
static CUresult launch(CUfunction kernel, Size grid, unsigned threads, std::vector<CUlaunchAttribute> attributes,
                       unsigned shared = 0, void** arguments = nullptr) {
  const CUlaunchConfig config = config_of(grid, threads, attributes, shared);
  return cuLaunchKernelEx(&config, kernel, arguments, nullptr);
}

SECTION("sizes") {
  set_up();
  const struct {
    Size grid, cluster;
    unsigned threads = 32, shared = 0;
  } shapes[] = {{{4, 1, 1}, {1, 1, 1}},
                {{4, 1, 1}, {2, 1, 1}},
                {{4, 1, 1}, {4, 1, 1}},
                {{4, 1, 1}, {3, 1, 1}},
                {{4, 1, 1}, {8, 1, 1}},
                {{4, 1, 1}, {0, 1, 1}},
                {{4, 1, 1}, {0, 0, 0}},
                {{4, 1, 1}, {1, 2, 1}},
                {{4, 4, 1}, {2, 2, 1}},
                {{4, 4, 4}, {2, 2, 2}},
                {{4, 4, 4}, {1, 1, 4}},
                {{8, 1, 1}, {8, 1, 1}},
                {{9, 1, 1}, {9, 1, 1}},
                {{16, 1, 1}, {16, 1, 1}},
                {{32, 1, 1}, {32, 1, 1}},
                {{17, 1, 1}, {17, 1, 1}},
                {{0, 1, 1}, {2, 1, 1}},
                {{5, 1, 1}, {2, 1, 1}},
                {{2, 1, 1}, {2, 1, 1}, 1025},
                {{3, 1, 1}, {2, 1, 1}, 1025},
                {{2, 1, 1}, {2, 1, 1}, 32, 49153},
                {{3, 1, 1}, {2, 1, 1}, 32, 49153},
                {{9, 1, 1}, {9, 1, 1}, 1025},
                {{8, 1, 1}, {8, 1, 1}, 65}};
  for (const bool allowed : {false, true}) {
    section(allowed ? "where sizes that are not portable are allowed" : "as loaded");
    for (const char* const name : {"plain", "must2", "must2x2", "must9", "most4", "must", "most64", "sharing"}) {
      const CUfunction kernel = function(name);
      if (allowed) say(name, cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
      for (const auto& [grid, cluster, threads, shared] : shapes) {
        const CUresult result = launch(kernel, grid, threads, {cluster_of(cluster)}, shared);
        say(std::string(name) + ", " + text_of(grid) + " in clusters of " + text_of(cluster) + ", " +
                std::to_string(threads) + " threads" + (shared ? ", shared memory" : ""),
            named(result) + (result ? "" : ", then " + named(cuCtxSynchronize())));
      }
      for (const Size grid : {Size{4, 1, 1}, Size{4, 4, 1}, Size{3, 1, 1}, Size{9, 1, 1}}) {
        const CUresult result = launch(kernel, grid, 32, {});
        const CUresult plainly = cuLaunchKernel(kernel, grid.x, grid.y, grid.z, 32, 1, 1, 0, nullptr, nullptr, nullptr);
        say(std::string(name) + ", " + text_of(grid) + ", no cluster asked for",
            named(result) + ", " + named(plainly) + ", then " + named(cuCtxSynchronize()));
      }
    }
  }
  section("with other attributes");
  CUlaunchAttribute together = {};
  together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  together.value.cooperative = 1;
  const CUfunction plain = function("plain");
  say("cooperatively", launch(plain, {4, 1, 1}, 32, {cluster_of({2, 1, 1}), together}));
  say("cooperatively, too large", launch(plain, {100000, 1, 1}, 32, {cluster_of({2, 1, 1}), together}));
  say("two sizes, the second does not divide",
      launch(plain, {4, 1, 1}, 32, {cluster_of({2, 1, 1}), cluster_of({3, 1, 1})}));
  say("two sizes, the first does not divide",
      launch(plain, {4, 1, 1}, 32, {cluster_of({3, 1, 1}), cluster_of({2, 1, 1})}));
  CUlaunchAttribute preferred = cluster_of({4, 1, 1});
  preferred.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
  say("a preferred size", launch(plain, {8, 1, 1}, 32, {cluster_of({2, 1, 1}), preferred}));
  say("a preferred size alone", launch(plain, {8, 1, 1}, 32, {preferred}));
  say("and then", cuCtxSynchronize());
}

SECTION("what a block knows") {
  set_up();
  const CUfunction kernel = function("knows");
  CUdeviceptr out;
  CHECK(cuMemAlloc(&out, 64 * 64));
  CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  void* arguments[] = {&out};
  const struct {
    Size grid, cluster;
  } shapes[] = {{{3, 1, 1}, {0, 0, 0}}, {{2, 1, 1}, {1, 1, 1}}, {{6, 1, 1}, {2, 1, 1}},   {{4, 2, 1}, {2, 2, 1}},
                {{2, 4, 2}, {1, 2, 2}}, {{4, 2, 2}, {2, 1, 2}}, {{16, 1, 1}, {16, 1, 1}}, {{1, 6, 1}, {1, 3, 1}}};
  for (const auto& [grid, cluster] : shapes) {
    CHECK(cuMemsetD8(out, 0xff, 64 * 64));
    std::vector<CUlaunchAttribute> attributes;
    if (cluster.x) attributes.push_back(cluster_of(cluster));
    const std::string of = text_of(grid) + " in " + text_of(cluster);
    say(of, launch(kernel, grid, 1, attributes, 0, arguments));
    say(of + ", then", cuCtxSynchronize());
    unsigned words[64][16];
    CHECK(cuMemcpyDtoH(words, out, sizeof words));
    for (unsigned block = 0; block < grid.x * grid.y * grid.z; ++block) {
      std::string told;
      for (unsigned k = 0; k < 16; ++k)
        if (k != 3) told += (told.empty() ? "" : " ") + std::to_string(int(words[block][k]));
      say("  block " + std::to_string(block), told);
    }
  }
}

static std::string values(const char* ptx, unsigned blocks, unsigned size, unsigned threads) {
  CUmodule loaded;
  if (const CUresult result = cuModuleLoadData(&loaded, ptx)) return "load " + named(result);
  const CUfunction kernel = function("k", loaded);
  if (size > 8) CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  CUdeviceptr out;
  std::vector<unsigned> words(blocks * threads);
  CHECK(cuMemAlloc(&out, words.size() * 4));
  CHECK(cuMemsetD32(out, 12345, words.size()));
  void* arguments[] = {&out};
  if (const CUresult result = launch(kernel, {blocks, 1, 1}, threads, {cluster_of({size, 1, 1})}, 0, arguments))
    return "launch " + named(result);
  if (const CUresult result = cuCtxSynchronize()) return "synchronize " + named(result);
  CHECK(cuMemcpyDtoH(words.data(), out, words.size() * 4));
  std::string told;
  for (unsigned block = 0; block < blocks; ++block) {
    const unsigned* const first = &words[block * threads];
    const bool alike = std::all_of(first, first + threads, [&](unsigned word) { return word == *first; });
    told += (block ? " " : "") + std::to_string(*first) + (alike ? "" : "...");
  }
  CHECK(cuMemFree(out));
  return told;
}

SECTION("blocks together") {
  set_up();
  for (const auto& [what, ptx] : bodies)
    for (const auto& [blocks, size, threads] :
         {Size{1, 1, 32}, Size{2, 2, 1}, Size{4, 2, 64}, Size{8, 8, 96}, Size{16, 16, 32}})
      say(std::string(what) + ", " + std::to_string(blocks) + " blocks of " + std::to_string(threads) + " in " +
              std::to_string(size),
          values(ptx, blocks, size, threads));
}

template <int k> void fault() {
  set_up();
  say(faults[k].what, values(faults[k].text, 2, 2, 32));
}
SECTION("a rank that is not there") { fault<0>(); }
SECTION("such a rank alone") { fault<1>(); }
SECTION("behind the end") { fault<2>(); }
SECTION("not aligned") { fault<3>(); }

SECTION("occupancy") {
  set_up();
  for (const char* const name : {"plain", "must2", "must2x2", "must9", "most4", "must", "most64", "sharing"}) {
    const CUfunction kernel = function(name);
    for (const bool allowed : {false, true}) {
      if (allowed) CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
      for (const auto& [threads, shared] :
           {std::pair<unsigned, unsigned>{32, 0}, {1024, 0}, {65, 0}, {32, 49152}, {32, 49153}, {1025, 0}}) {
        std::vector<CUlaunchAttribute> none;
        const CUlaunchConfig config = config_of({1152, 1, 1}, threads, none, shared);
        int size = -7;
        const CUresult result = cuOccupancyMaxPotentialClusterSize(&size, kernel, &config);
        say(std::string(name) + (allowed ? ", not portable, " : ", ") + std::to_string(threads) + " threads, " +
                std::to_string(shared) + ", largest cluster",
            named(result) + (result ? "" : ", " + std::to_string(size)));
        for (const Size cluster : {Size{0, 0, 0}, Size{1, 1, 1}, Size{2, 1, 1}, Size{17, 1, 1}, Size{5, 1, 1}}) {
          std::vector<CUlaunchAttribute> attributes;
          if (cluster.x) attributes.push_back(cluster_of(cluster));
          else if (name == std::string("must9")) continue;
          const CUlaunchConfig asked = config_of({1152, 1, 1}, threads, attributes, shared);
          int count = -7;
          const CUresult active = cuOccupancyMaxActiveClusters(&count, kernel, &asked);
          say("  clusters of " + text_of(cluster), named(active) + (active ? "" : ", " + std::to_string(count)));
        }
      }
    }
  }
}

SECTION("large clusters") {
  set_up();
  const CUfunction kernel = function("plain");
  CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10));
  for (const unsigned threads : {32u, 512u, 1024u})
    for (const unsigned shared : {0u, 40u << 10, 100u << 10, 200u << 10})
      for (const unsigned size : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, 14u, 15u, 16u}) {
        std::vector<CUlaunchAttribute> one = {cluster_of({size, 1, 1})};
        const CUlaunchConfig config = config_of({size * 64, 1, 1}, threads, one, shared);
        int count = -7;
        CHECK(cuOccupancyMaxActiveClusters(&count, kernel, &config));
        say("threads " + std::to_string(threads) + " shared " + std::to_string(shared) + " cluster " +
                std::to_string(size),
            std::to_string(count));
      }
}

SECTION("attributes") {
  set_up();
  const struct {
    CUfunction_attribute what;
    const char* name;
  } all[] = {{CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, "CLUSTER_SIZE_MUST_BE_SET"},
             {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, "REQUIRED_CLUSTER_WIDTH"},
             {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, "REQUIRED_CLUSTER_HEIGHT"},
             {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, "REQUIRED_CLUSTER_DEPTH"},
             {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED"},
             {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, "CLUSTER_SCHEDULING_POLICY_PREFERENCE"}};
  for (const char* const name : {"plain", "must2", "must2x2", "must9", "most4", "must"})
    for (const auto& [what, called] : all) {
      int value = -7;
      const CUresult result = cuFuncGetAttribute(&value, what, function(name));
      say(std::string(called) + " of " + name, named(result) + (result ? "" : ", " + std::to_string(value)));
    }
  for (const char* const name : {"plain", "must2"})
    for (const auto& [what, called] : all)
      for (const int value : {-1, 0, 1, 2, 3}) {
        const CUresult result = cuFuncSetAttribute(function(name), what, value);
        int then = -7;
        CHECK(cuFuncGetAttribute(&then, what, function(name)));
        say(std::string(name) + ", set " + called + " to " + std::to_string(value),
            named(result) + ", then it is " + std::to_string(then));
      }
  section("launches after that");
  for (const char* const name : {"plain", "must2"})
    for (const unsigned size : {0u, 1u, 2u, 3u, 4u, 6u}) {
      std::vector<CUlaunchAttribute> given;
      if (size) given.push_back(cluster_of({size, 1, 1}));
      say(std::string(name) + ", 12 blocks in " + std::to_string(size), launch(function(name), {12, 1, 1}, 32, given));
    }
  say("and then", cuCtxSynchronize());
}

SECTION("wrong arguments of occupancy") {
  set_up();
  std::vector<CUlaunchAttribute> none, two = {cluster_of({2, 1, 1})};
  const CUlaunchConfig config = config_of({4, 1, 1}, 32, none), in_twos = config_of({4, 1, 1}, 32, two),
                       odd = config_of({3, 1, 1}, 32, two), empty = config_of({0, 1, 1}, 32, two),
                       threadless = config_of({4, 1, 1}, 0, two);
  int number = -7;
  const CUfunction plain = function("plain");
  say("largest cluster of null", cuOccupancyMaxPotentialClusterSize(&number, nullptr, &config));
  say("active clusters of null", cuOccupancyMaxActiveClusters(&number, nullptr, &in_twos));
  say("largest cluster, a size is given", cuOccupancyMaxPotentialClusterSize(&number, plain, &in_twos));
  say("active clusters, odd grid", cuOccupancyMaxActiveClusters(&number, plain, &odd));
  say("active clusters, empty grid", cuOccupancyMaxActiveClusters(&number, plain, &empty));
  say("active clusters, no threads", cuOccupancyMaxActiveClusters(&number, plain, &threadless));
  say("largest cluster to null", cuOccupancyMaxPotentialClusterSize(nullptr, plain, &config));
  say("active clusters to null", cuOccupancyMaxActiveClusters(nullptr, plain, &in_twos));
  say("largest cluster of no configuration", cuOccupancyMaxPotentialClusterSize(&number, plain, nullptr));
  say("active clusters of no configuration", cuOccupancyMaxActiveClusters(&number, plain, nullptr));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
