// SPDX-License-Identifier: MIT-0
// The instructions of PTX: what ptxas 13.0 takes of them, found out by asking it, and from which target and version on.
#pragma once
#include <string_view>

namespace ptx {

// --- What instructions there are -------------------------------------------------------------------------------------

// The modifiers that an instruction may have, and its operands, each a letter; several ways are divided by a space:
//   t  of the instruction's type        d, s  of its first and its last type      D, S  the same or wider
//   w  twice as wide as its type        r     of 32 bits, an integer               p     a predicate
//   q  one or two predicates            a     an address                           x     anything
// "*" as modifiers: all that there are; as operands: whatever. `types`: how many there are among the modifiers; of
// what has "*" as modifiers it does not count.
struct Form {
  std::string_view opcode, modifiers, operands;
  unsigned types = 1;
};

#define INTEGERS " u16 u32 u64 s16 s32 s64"
#define BITS " b16 b32 b64"
#define HALVES " f16 f16x2 bf16 bf16x2"
#define FLOATS " f32 f64"
#define ROUNDING " rn rz rm rp"
#define COMPARISONS " eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
#define CACHE                                                                                                    \
  " ca cg cs lu cv wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate" \
  " L2::evict_normal L2::evict_first L2::evict_last L2::64B L2::128B L2::256B L2::cache_hint"
#define SPACES " global shared local const param generic shared::cta shared::cluster param::entry param::func"
#define ORDER " weak volatile relaxed acquire release acq_rel sc mmio cta cluster gpu sys"
#define VECTORS " v2 v4 v8"
#define VIDEO " u32 s32 sat add min max"

constexpr Form forms[] = {
    {"abs", "s16 s32 s64 ftz" HALVES FLOATS, "tt"},
    {"activemask", "b32", "t"},
    {"add", "sat cc ftz u16x2 s16x2 f32x2" INTEGERS HALVES FLOATS ROUNDING, "ttt"},
    {"addc", "cc u32 s32 u64 s64", "ttt"},
    {"alloca", "u32 u64", "*"},
    {"and", "pred" BITS, "ttt"},
    {"applypriority", "*", "*", 0},
    {"atom", "*", "*"},
    {"bar", "*", "*"},
    {"barrier", "*", "*"},
    {"bfe", "u32 u64 s32 s64", "ttrr"},
    {"bfi", "b32 b64", "tttrr"},
    {"bfind", "u32 u64 s32 s64 shiftamt", "rt"},
    {"bmsk", "clamp wrap b32", "rrr"},
    {"bra", "uni", "x", 0},
    {"brev", "b32 b64", "tt"},
    {"brkpt", "", " ", 0},
    {"brx", "idx uni", "*", 0},
    {"call", "uni", "*", 0},
    {"clusterlaunchcontrol", "*", "*"},
    {"clz", "b32 b64", "rt"},
    {"cnot", BITS, "tt"},
    {"copysign", FLOATS, "ttt"},
    {"cos", "approx ftz f32", "tt"},
    {"cp", "*", "*"},
    {"createpolicy", "*", "*"},
    {"cvt", "*", "DS xxx xxxx xxxxx", 2},
    {"cvta", "*", "*"},
    {"discard", "*", "*", 0},
    {"div", "approx full ftz" INTEGERS FLOATS ROUNDING, "ttt"},
    {"dp2a", "lo hi u32 s32", "rrrr", 2},
    {"dp4a", "u32 s32", "rrrr", 2},
    {"elect", "sync", "*", 0},
    {"ex2", "approx ftz f32" HALVES, "tt"},
    {"exit", "", " ", 0},
    {"fence", "*", "*", 0},
    {"fma", "ftz sat relu oob f32x2" HALVES FLOATS ROUNDING, "tttt"},
    {"fns", "b32", "rrrr"},
    {"getctarank", "*", "*"},
    {"griddepcontrol", "launch_dependents wait", " ", 0},
    {"isspacep", SPACES, "px", 0},
    {"istypep", "texref samplerref surfref", "px", 0},
    {"ld", CACHE SPACES ORDER VECTORS INTEGERS BITS FLOATS " b8 u8 s8 b128 unified", "Da Dax"},
    {"ldmatrix", "*", "*"},
    {"ldu", "global" VECTORS INTEGERS BITS FLOATS " b8 u8 s8 b128", "Da"},
    {"lg2", "approx ftz f32", "tt"},
    {"lop3", "*", "*"},
    {"mad", "lo hi wide sat cc ftz" INTEGERS FLOATS ROUNDING, "tttt wttw"},
    {"mad24", "lo hi sat u32 s32", "tttt"},
    {"madc", "lo hi cc u32 s32 u64 s64", "tttt"},
    {"mapa", "*", "*"},
    {"match", "any all sync b32 b64", "*"},
    {"max", "relu ftz NaN xorsign abs u16x2 s16x2" INTEGERS HALVES FLOATS, "ttt tttt"},
    {"mbarrier", "*", "*"},
    {"membar", "*", "*", 0},
    {"min", "relu ftz NaN xorsign abs u16x2 s16x2" INTEGERS HALVES FLOATS, "ttt tttt"},
    {"mma", "*", "*"},
    {"mov", "pred b128" VECTORS INTEGERS BITS FLOATS HALVES, "*"},
    {"movmatrix", "*", "*"},
    {"mul", "lo hi wide ftz sat f32x2" INTEGERS HALVES FLOATS ROUNDING, "ttt wtt"},
    {"mul24", "lo hi u32 s32", "ttt"},
    {"multimem", "*", "*"},
    {"nanosleep", "u32", "x"},
    {"neg", "s16 s32 s64 ftz" HALVES FLOATS, "tt"},
    {"not", "pred" BITS, "tt"},
    {"or", "pred" BITS, "ttt"},
    {"pmevent", "mask", "x", 0},
    {"popc", "b32 b64", "rt"},
    {"prefetch", "*", "a", 0},
    {"prefetchu", "L1", "a", 0},
    {"prmt", "b32 f4e b4e rc8 ecl ecr rc16", "rrrr"},
    {"rcp", "approx ftz" FLOATS ROUNDING, "tt"},
    {"red", "*", "*"},
    {"redux", "*", "*"},
    {"rem", INTEGERS, "ttt"},
    {"ret", "uni", " ", 0},
    {"rsqrt", "approx ftz" FLOATS, "tt"},
    {"sad", INTEGERS, "tttt"},
    {"selp", INTEGERS BITS FLOATS, "tttp"},
    {"set", "and or xor ftz" COMPARISONS INTEGERS BITS HALVES FLOATS, "dss dssp", 2},
    {"setmaxnreg", "*", "*"},
    {"setp", "and or xor ftz" COMPARISONS INTEGERS BITS HALVES FLOATS, "qtt qttp"},
    {"shf", "l r clamp wrap b32", "rrrr"},
    {"shfl", "sync up down bfly idx b32", "*"},
    {"shl", BITS, "ttr"},
    {"shr", BITS INTEGERS, "ttr"},
    {"sin", "approx ftz f32", "tt"},
    {"slct", "ftz" INTEGERS BITS FLOATS, "ddds", 2},
    {"sqrt", "approx ftz" FLOATS ROUNDING, "tt"},
    {"st", "*", "aS aSx"},
    {"stackrestore", "u32 u64", "*"},
    {"stacksave", "u32 u64", "*"},
    {"stmatrix", "*", "*"},
    {"sub", "sat cc ftz u16x2 s16x2 f32x2" INTEGERS HALVES FLOATS ROUNDING, "ttt"},
    {"subc", "cc u32 s32 u64 s64", "ttt"},
    {"suld", "*", "*"},
    {"suq", "*", "*"},
    {"sured", "*", "*"},
    {"sust", "*", "*"},
    {"szext", "clamp wrap u32 s32", "rrr"},
    {"tanh", "approx f32" HALVES, "tt"},
    {"tcgen05", "*", "*"},
    {"tensormap", "*", "*"},
    {"testp", "finite infinite number notanumber normal subnormal" FLOATS, "pt"},
    {"tex", "*", "*"},
    {"tld4", "*", "*"},
    {"trap", "", " ", 0},
    {"txq", "*", "*"},
    {"vabsdiff", VIDEO, "*", 3},
    {"vabsdiff2", VIDEO, "*", 3},
    {"vabsdiff4", VIDEO, "*", 3},
    {"vadd", VIDEO, "*", 3},
    {"vadd2", VIDEO, "*", 3},
    {"vadd4", VIDEO, "*", 3},
    {"vavrg2", VIDEO, "*", 3},
    {"vavrg4", VIDEO, "*", 3},
    {"vmad", "sat shr7 shr15 po u32 s32", "*", 3},
    {"vmax", VIDEO, "*", 3},
    {"vmax2", VIDEO, "*", 3},
    {"vmax4", VIDEO, "*", 3},
    {"vmin", VIDEO, "*", 3},
    {"vmin2", VIDEO, "*", 3},
    {"vmin4", VIDEO, "*", 3},
    {"vote", "sync all any uni ballot pred b32", "*"},
    {"vset", VIDEO COMPARISONS, "*", 2},
    {"vset2", VIDEO COMPARISONS, "*", 2},
    {"vset4", VIDEO COMPARISONS, "*", 2},
    {"vshl", VIDEO " clamp wrap", "*", 3},
    {"vshr", VIDEO " clamp wrap", "*", 3},
    {"vsub", VIDEO, "*", 3},
    {"vsub2", VIDEO, "*", 3},
    {"vsub4", VIDEO, "*", 3},
    {"wgmma", "*", "*"},
    {"wmma", "*", "*"},
    {"xor", "pred" BITS, "ttt"},
};

// Modifiers of instructions that have "*", beside those above.
constexpr std::string_view other_words = INTEGERS BITS HALVES FLOATS ROUNDING COMPARISONS CACHE SPACES ORDER VECTORS
    " u8 s8 b8 b128 pred tf32 e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1x2 e2m1x4 e2m3x2 e3m2x2 e2m3x4 e3m2x4 ue8m0x2"
    " u16x2 s16x2 u8x4 s8x4 b1 b6x16_p32 b4x16_p64 u4 s4 u2 s2 e2m1 e2m3 e3m2 f32x2 rna rs rni rzi rmi rpi ftz sat"
    " satfinite relu NaN xorsign abs approx full cc noftz oob scaled lo hi wide clamp wrap l r add sub min max and or "
    "xor"
    " inc dec cas exch popc any all uni ballot sync aligned gl arrive wait warp red to L1 L2 async bulk mbarrier"
    " commit_group wait_group wait_all read bulk_group prefetch tensor 1d 2d 3d 4d 5d a1d a2d acube cube a2dms 2dms "
    "tile"
    " im2col im2col::w im2col::w::128 im2col_no_offs tile::gather4 tile::scatter4 multicast::cluster cp_mask ignore_src"
    " noinc init inval expect_tx complete_tx test_wait try_wait parity pending_count noComplete arrive_drop alias proxy"
    " proxy::async proxy::async.global proxy::tensormap mbarrier_init sync_restrict::shared::cta"
    " sync_restrict::shared::cluster tensormap::generic async.global async::generic fractional range "
    "L2::evict_unchanged"
    " mbarrier::complete_tx::bytes m8n8 m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 "
    "m16n8k128 m16n8k256 m16n16k16"
    " m32n8k16 m8n32k16 m16n16k8 m8n8k128 m16n16 m16n8 x1 x2 x4 x8 x16 x32 x64 x128 trans row col load store mma"
    " ld_reduce st ld cp reduce shift alloc dealloc relinquish_alloc_permit commit fence ws acc::f32 acc::f16 mask "
    "pack explicit"
    " cta_group::1 cta_group::2 inc dec level::eviction_priority replace cp_fenceproxy try_cancel query_cancel"
    " is_canceled get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z b1024 p b trap zero"
    " width height depth channel_data_type channel_order normalized_coords array_size num_mipmap_levels num_samples"
    " filter_mode addr_mode_0 addr_mode_1 addr_mode_2 base level grad unified explicitcluster acquire::cluster"
    " evict_normal evict_first evict_last no_allocate sp sp::ordered_metadata block_scale scale_vec::1X scale_vec::2X"
    " scale_vec::4X kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 kind::f8f6f4 kind::tf32 kind::f16 kind::i8";

// One of the words is required of an instruction whose type is among these (empty: whatever it is).
struct Choice {
  std::string_view opcode, types, words, otherwise;
};
constexpr Choice choices[] = {
    {"mul", INTEGERS, "lo hi wide", "Unexpected instruction types specified for 'mul'"},
    {"mad", INTEGERS, "lo hi wide", "Unexpected instruction types specified for 'mad'"},
    {"div", "f32", "approx full" ROUNDING, "Rounding modifier or '.approx' modifier required for instruction 'div'"},
    {"div", "f64", ROUNDING, "Rounding modifier or '.approx' modifier required for instruction 'div'"},
    {"sqrt", "", "approx" ROUNDING, "Rounding modifier or '.approx' modifier required for instruction 'sqrt'"},
    {"rcp", "", "approx" ROUNDING, "Rounding modifier or '.approx' modifier required for instruction 'rcp'"},
    {"fma", "", ROUNDING, "Rounding modifier required for instruction 'fma'"},
    {"mad", FLOATS, ROUNDING, "Rounding modifier required for instruction 'mad'"},
    {"sin", "", "approx", ".approx modifier required for instruction 'sin'"},
    {"cos", "", "approx", ".approx modifier required for instruction 'cos'"},
    {"lg2", "", "approx", ".approx modifier required for instruction 'lg2'"},
    {"ex2", "", "approx", ".approx modifier required for instruction 'ex2'"},
    {"rsqrt", "", "approx", ".approx modifier required for instruction 'rsqrt'"},
    {"tanh", "", "approx", ".approx modifier required for instruction 'tanh'"},
    {"setp", "", COMPARISONS, "Comparison modifier required for instruction 'setp'"},
    {"set", "", COMPARISONS, "Comparison modifier required for instruction 'set'"},
    {"shfl", "", "up down bfly idx", "Shuffle modifier required for instruction 'shfl'"},
    {"vote", "", "all any uni ballot", "Vote modifier required for instruction 'vote'"},
    {"match", "", "any all", "Match modifier required for instruction 'match'"},
    {"bar", "", "sync arrive red warp", "Barrier modifier required for instruction 'bar'"},
    {"barrier", "", "sync arrive red cluster", "Barrier modifier required for instruction 'barrier'"},
    {"membar", "", "cta gl sys proxy", "Membar level required for instruction 'membar'"},
    {"atom", "", "and or xor cas exch add inc dec min max", "Illegal operation '' for instruction 'atom'"},
    {"red", "", "and or xor add inc dec min max", "Illegal operation '' for instruction 'red'"},
    {"shf", "", "l r", "Shift direction required for instruction 'shf'"},
    {"shf", "", "clamp wrap", "Clamp modifier required for instruction 'shf'"},
    {"szext", "", "clamp wrap", "Clamp modifier required for instruction 'szext'"},
    {"bmsk", "", "clamp wrap", "Clamp modifier required for instruction 'bmsk'"},
    {"dp2a", "", "lo hi", "'.hi/.lo' modifier required for instruction 'dp2a'"},
    {"mul24", "", "lo hi", "Not a name of any known instruction: 'mul24'"},
    {"mad24", "", "lo hi", "Not a name of any known instruction: 'mad24'"},
    {"redux", "", "add min max and or xor", "Reduction operation is required for instruction 'redux'"},
    {"isspacep", "", SPACES, "State space modifier required for instruction 'isspacep'"},
    {"prefetch", "", "L1 L2 L2::evict_last L2::evict_normal tensormap",
     "Cache level modifier required for instruction 'prefetch'"},
    {"fence", "", "cta cluster gpu sys proxy", "Scope modifier required for instruction 'fence'"},
};

// Of the words of a row an instruction has one at most; empty: every instruction.
constexpr struct {
  std::string_view opcodes, words, otherwise;
} alternatives[] = {
    {"", "clamp wrap", "Multiple clamp modifiers specified"},
    {"", "approx full rna rni rzi rmi rpi" ROUNDING, "Multiple rounding modifiers specified"},
    {"mul mad mul24 mad24 dp2a", "lo hi wide", "Comparison qualifier is not allowed"},
    {"setp set", COMPARISONS, "Multiple comparisons set"},
    {"setp set atom red redux", "and or xor cas exch add inc dec min max",
     "Multiple instruction post-operation flags set"},
    {"shfl", "up down bfly idx", "Multiple shuffle modifiers specified"},
    {"vote match", "all any uni ballot", "Multiple .any/.all modifiers specified"},
    {"membar fence ld st atom red", "cta cluster gpu gl sys", "Multiple scope modifiers specified"},
    {"fence ld st atom red", "relaxed acquire release acq_rel sc", "Duplicate modifier"},
    {"ld st atom red", "global shared local const param", "Unexpected number of state spaces specified"},
    {"testp", "finite infinite number notanumber normal subnormal", "Multiple testp operation modifiers specified"},
    {"prmt", "f4e b4e rc8 ecl ecr rc16", "Multiple permute modifiers specified"},
    {"prefetch", "L1 L2", "Multiple cache operation modifiers specified"},
};

// The types of atom and red, by operation.
constexpr struct {
  std::string_view operation, types;
} atomic_types[] = {
    {"add", "u32 s32 u64" HALVES FLOATS},
    {"inc", "u32"},
    {"dec", "u32"},
    {"min", "u32 s32 u64 s64" HALVES},
    {"and", "b32 b64"},
    {"exch", "b32 b64 b128"},
    {"max", "u32 s32 u64 s64" HALVES},
    {"or", "b32 b64"},
    {"cas", "b16 b32 b64 b128"},
    {"xor", "b32 b64"},
};

// Words that are no modifier of these types, though one of others.
constexpr Choice misfits[] = {
    {"", INTEGERS, ROUNDING, "Illegal rounding modifier"},
    {"", FLOATS HALVES " f32x2", "lo hi wide", "Unexpected instruction types specified"},
    {"", "u16 u32 u64 s16 s64", "sat", "Modifier '.sat' does not apply to this type"},
};

// What exists from a target and a version of PTX on. The first word is the opcode, or "." for any; the others are
// modifiers, which it must have all.
struct Need {
  std::string_view words;
  unsigned target, version;
};
constexpr Need needs[] = {
    {"activemask", 30, 62},
    {"alloca", 52, 73},
    {"stacksave", 52, 73},
    {"stackrestore", 52, 73},
    {"applypriority", 80, 74},
    {"atom v2", 90, 81},
    {"atom v4", 90, 81},
    {"atom v8", 90, 81},
    {"atom add f64", 60, 50},
    {"red add f64", 60, 50},
    {"atom f16", 70, 63},
    {"atom cas b16", 70, 63},
    {"atom f16x2", 60, 62},
    {"atom bf16", 90, 78},
    {"atom bf16x2", 90, 78},
    {"atom b128", 90, 83},
    {"atom cta", 60, 50},
    {"atom gpu", 60, 50},
    {"atom sys", 60, 50},
    {"red async", 90, 81},
    {"bar warp", 30, 60},
    {"bar cta", 30, 78},
    {"barrier", 30, 60},
    {"barrier cluster", 90, 78},
    {"bmsk", 70, 76},
    {"szext", 70, 76},
    {"clusterlaunchcontrol", 100, 86},
    {"cp async", 80, 70},
    {"cp async bulk", 90, 80},
    {"cp reduce", 90, 80},
    {"createpolicy", 80, 74},
    {"cvt pack", 72, 65},
    {"cvt f16x2 f32", 80, 70},
    {"cvt e4m3x2", 89, 78},
    {"cvt e5m2x2", 89, 78},
    {"discard", 80, 74},
    {"dp2a", 61, 50},
    {"dp4a", 61, 50},
    {"elect", 90, 80},
    {"ex2 f16", 75, 70},
    {"ex2 f16x2", 75, 70},
    {"ex2 bf16", 90, 78},
    {"ex2 bf16x2", 90, 78},
    {"fence", 70, 60},
    {"fence proxy", 70, 75},
    {"fence proxy async", 90, 80},
    {"fence mbarrier_init", 90, 80},
    {"fns", 30, 60},
    {"getctarank", 90, 78},
    {"griddepcontrol", 90, 78},
    {"ld v8", 100, 88},
    {"ld v4 u64", 100, 88},
    {"ld v4 s64", 100, 88},
    {"ld v4 b64", 100, 88},
    {"ld v4 f64", 100, 88},
    {"st v8", 100, 88},
    {"st async", 90, 81},
    {"st bulk", 100, 86},
    {"ldmatrix", 75, 65},
    {"mapa", 90, 78},
    {"match", 70, 60},
    {"mbarrier", 80, 70},
    {"mbarrier try_wait", 90, 78},
    {"mbarrier expect_tx", 90, 80},
    {"mbarrier complete_tx", 90, 80},
    {"mma", 70, 64},
    {"movmatrix", 75, 78},
    {"multimem", 90, 81},
    {"nanosleep", 70, 62},
    {"redux", 80, 70},
    {"redux f32", 100, 86},
    {"setmaxnreg", 90, 80},
    {"shfl sync", 30, 60},
    {"vote sync", 30, 60},
    {"stmatrix", 90, 78},
    {"tanh", 75, 70},
    {"tanh bf16", 90, 78},
    {"tanh bf16x2", 90, 78},
    {"tcgen05", 100, 86},
    {"tensormap", 90, 83},
    {"wgmma", 90, 80},
    {"wmma", 70, 60},
    {"add bf16", 90, 78},
    {"add bf16x2", 90, 78},
    {"sub bf16", 90, 78},
    {"sub bf16x2", 90, 78},
    {"mul bf16", 90, 78},
    {"mul bf16x2", 90, 78},
    {"setp bf16", 90, 78},
    {"setp bf16x2", 90, 78},
    {"set bf16", 90, 78},
    {"set bf16x2", 90, 78},
    {"add f32x2", 100, 86},
    {"sub f32x2", 100, 86},
    {"mul f32x2", 100, 86},
    {"fma f32x2", 100, 86},
    {"min f16", 80, 70},
    {"min f16x2", 80, 70},
    {"max f16", 80, 70},
    {"max f16x2", 80, 70},
    {"min relu", 90, 80},
    {"max relu", 90, 80},
    {"fma relu", 80, 70},
    {"fma oob", 90, 81},
    {". u16x2", 90, 80},
    {". s16x2", 90, 80},
    {". bf16", 80, 70},
    {". bf16x2", 80, 70},
    {". tf32", 80, 70},
    {"add f16", 53, 42},
    {"add f16x2", 53, 42},
    {"sub f16", 53, 42},
    {"sub f16x2", 53, 42},
    {"mul f16", 53, 42},
    {"mul f16x2", 53, 42},
    {"fma f16", 53, 42},
    {"fma f16x2", 53, 42},
    {"neg f16", 53, 60},
    {"neg f16x2", 53, 60},
    {"abs f16", 53, 65},
    {"abs f16x2", 53, 65},
    {"setp f16", 53, 42},
    {"setp f16x2", 53, 42},
    {"set f16", 53, 42},
    {"set f16x2", 53, 42},
    {". NaN", 80, 70},
    {". xorsign", 86, 72},
    {". weak", 70, 60},
    {". relaxed", 70, 60},
    {". acquire", 70, 60},
    {". release", 70, 60},
    {". acq_rel", 70, 60},
    {". sc", 70, 60},
    {". mmio", 70, 82},
    {". cluster", 90, 78},
    {". shared::cluster", 90, 78},
    {". shared::cta", 30, 78},
    {". param::entry", 30, 83},
    {". param::func", 30, 83},
    {". mbarrier::complete_tx::bytes", 90, 80},
    {". L1::no_allocate", 70, 74},
    {". L1::evict_first", 70, 74},
    {". L1::evict_last", 70, 74},
    {". L1::evict_normal", 70, 74},
    {". L1::evict_unchanged", 70, 74},
    {". L2::cache_hint", 80, 74},
    {". L2::64B", 75, 74},
    {". L2::128B", 75, 74},
    {". L2::256B", 80, 74},
};

constexpr Need special_needs[] = {
    {"%cluster", 90, 78},        {"%nclusterid", 90, 78},           {"%is_explicit_cluster", 90, 78},
    {"%aggr_smem_size", 90, 81}, {"%reserved_smem_offset", 80, 76}, {"%current_graph_exec", 50, 80},
};

// The first version of PTX that has a target.
constexpr Need targets[] = {
    {"", 10, 10}, {"", 11, 10},  {"", 12, 12},  {"", 13, 12},  {"", 20, 20},  {"", 21, 20},  {"", 30, 30}, {"", 32, 40},
    {"", 35, 31}, {"", 37, 41},  {"", 50, 40},  {"", 52, 41},  {"", 53, 42},  {"", 60, 50},  {"", 61, 50}, {"", 62, 50},
    {"", 70, 60}, {"", 72, 61},  {"", 75, 63},  {"", 80, 70},  {"", 86, 71},  {"", 87, 74},  {"", 88, 90}, {"", 89, 78},
    {"", 90, 78}, {"", 100, 86}, {"", 101, 86}, {"", 103, 88}, {"", 110, 90}, {"", 120, 87}, {"", 121, 88}};

#undef INTEGERS
#undef BITS
#undef HALVES
#undef FLOATS
#undef ROUNDING
#undef COMPARISONS
#undef CACHE
#undef SPACES
#undef ORDER
#undef VECTORS
#undef VIDEO

}  // namespace ptx
