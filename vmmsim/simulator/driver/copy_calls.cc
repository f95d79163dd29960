// SPDX-License-Identifier: MIT-0
// Copies and memsets.

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "../gpu/heap.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "streams.h"

namespace driver {
namespace {

using memory::Range;

// A box of bytes: `height` rows of `width`, each `pitch` after the one before, and so in `depth` layers, each `layer`
// after the one before. A plain range has one row.
struct Area {
  uint64_t address;
  size_t pitch, width, height;
  size_t layer = 0, depth = 1;
};
Area plain(uint64_t address, size_t size) { return {address, size, size, 1}; }

constexpr auto reading = CU_MEM_ACCESS_FLAGS_PROT_READ, writing = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

// The GPU whose rights count for a copy: with memory of cuMemAlloc and its like the one that it is on, else the one
// that copies. Memsets need the rights of their stream's GPU.
CUdevice user_of(const std::optional<Range>& range, CUdevice copying) {
  return range && range->kind == Range::ordinary && range->device >= 0 ? range->device : copying;
}

// The pieces of an area as they lie in this process. Throws Refused if the GPU must not touch all of it.
std::vector<memory::Piece> pieces(CUdevice device, const Area& area, CUmemAccess_flags access) {
  std::vector<memory::Piece> found;
  for (size_t layer = 0; layer < area.depth; ++layer)
    for (size_t row = 0; row < area.height; ++row)
      memory::for_each_piece(device, area.address + layer * area.layer + row * area.pitch, area.width, access,
                             [&](const memory::Piece& piece) { found.push_back(piece); });
  return found;
}

// Refuses what the GPU must not touch, or what an allocation does not hold: when a call is made, for by the time that
// its stream gets there the memory may have been freed in the order of the stream. Returns whether some of it lies at
// multicast addresses.
bool require_access(CUdevice device, const Area& area, CUmemAccess_flags access, const std::optional<Range>& range) {
  require(!range || range->kind == Range::vmm || range->kind == Range::multicast_range ||
              (area.depth - 1) * area.layer + (area.height - 1) * area.pitch + area.width <=
                  range->range_base + range->range_size - area.address,
          "the allocation ends before the range does");
  const auto found = pieces(device, area, access);
  return std::any_of(found.begin(), found.end(), [](const memory::Piece& piece) { return !piece.replicas.empty(); });
}

bool may(CUdevice device, const Area& area, CUmemAccess_flags access) {
  try {
    pieces(device, area, access);
    return true;
  } catch (const memory::Refused&) {
    return false;
  }
}

bool host_reads(const Range& range) { return is_on_host(range) || is_host_vmm(range) || range.kind == Range::managed; }

// Host memory that is not managed.
bool is_of_host(const std::optional<Range>& range) { return !range || is_on_host(*range) || is_host_vmm(*range); }

constexpr char no_arrays[] = "arrays are not simulated";
enum Sides { to_device = 1, from_device = 2, batched = 4 };  // which addresses must be known to the driver

// What an H200 moves in a microsecond, or so: to and from the host, to and from another GPU, and in its own memory.
constexpr size_t to_host = 50'000, to_peer = 350'000, within = 2'000'000, set_within = 3'000'000;

constexpr size_t part = 2 << 20;
// In parts, so that work which is large ends at memory that has been unmapped meanwhile.
void in_parts(size_t size, const std::function<void(size_t done, size_t size)>& work) {
  for (size_t done = 0; done < size; done += part) work(done, std::min(part, size - done));
}

void copy_now(CUdevice to_user, const Area& to, CUdevice from_user, const Area& from) {
  const auto target = pieces(to_user, to, writing), source = pieces(from_user, from, reading);
  size_t t = 0, s = 0, t_done = 0, s_done = 0;
  while (t < target.size() && s < source.size()) {
    const size_t size = std::min(target[t].size - t_done, source[s].size - s_done);
    target[t].write([&](char* bytes) { std::memmove(bytes + t_done, source[s].bytes + s_done, size); });
    t_done += size;
    s_done += size;
    if (t_done == target[t].size) {
      ++t;
      t_done = 0;
    }
    if (s_done == source[s].size) {
      ++s;
      s_done = 0;
    }
  }
}

// Copies plain ranges, which have one row.
void copy_in_parts(CUdevice to_user, const Area& to, CUdevice from_user, const Area& from) {
  pieces(to_user, to, writing), pieces(from_user, from, reading);
  in_parts(to.width, [&](size_t done, size_t size) {
    copy_now(to_user, plain(to.address + done, size), from_user, plain(from.address + done, size));
  });
}

// Where the driver takes an address for one that the host may touch.
void log_crashes(const std::optional<Range>& range, uint64_t address, int sides) {
  const bool is_mapped = range && range->mapped;
  if (is_mapped && is_host_vmm(*range) && !range->host_access)
    log_crash("memory of the host is mapped at " + hexadecimal(address) + ", and not open to the host: give it " +
              "access (cuMemSetAccess)");
  if (range && !is_mapped && !sides)
    log_crash("nothing is mapped at " + hexadecimal(address) + ", which is reserved: map memory there (cuMemMap), " +
              "or give the copy a direction");
}

// As a program gives it: the sides in rows, without offsets.
CUDA_MEMCPY3D as_given(const Area& to, const Area& from, int sides) {
  const auto type = [&](Sides side) {
    return !sides ? CU_MEMORYTYPE_UNIFIED : sides & side ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  };
  CUDA_MEMCPY3D all = {};
  all.dstMemoryType = type(to_device);
  all.srcMemoryType = type(from_device);
  all.dstDevice = to.address;
  all.srcDevice = from.address;
  if (all.dstMemoryType == CU_MEMORYTYPE_HOST) all.dstHost = reinterpret_cast<void*>(to.address);
  if (all.srcMemoryType == CU_MEMORYTYPE_HOST) all.srcHost = reinterpret_cast<void*>(from.address);
  all.dstPitch = to.pitch;
  all.srcPitch = from.pitch;
  all.dstHeight = to.pitch && to.layer ? to.layer / to.pitch : to.height;
  all.srcHeight = from.pitch && from.layer ? from.layer / from.pitch : from.height;
  all.WidthInBytes = from.width;
  all.Height = from.height;
  all.Depth = from.depth;
  return all;
}

// Who copies: a stream's context, and those of the two sides.
struct Copying {
  CUcontext context, to, from;
};

struct CheckedCopy {
  std::shared_ptr<Work> work;  // null: nothing is to be copied
  CUdevice to_user, from_user;
  std::optional<Range> target, source;
};

CheckedCopy checked_copy(const Area& to, const Area& from, int sides, const Copying& who) {
  const auto target = memory::find(to.address), source = memory::find(from.address);
  CUdevice to_user = user_of(target, who.to->device);
  const CUdevice from_user = user_of(source, who.from->device);
  if (!to.width || !to.height || !to.depth) return {};
  require(target || !(sides & to_device), "the destination is no memory of a GPU: is it a host pointer?");
  require(source || !(sides & from_device), "the source is no memory of a GPU: is it a host pointer?");
  require_non_null(reinterpret_cast<void*>(to.address), "the destination");
  require_non_null(reinterpret_cast<void*>(from.address), "the source");
  const auto heap = heap_of(*who.context);
  require(!heap->holds(to.address) && !heap->holds(from.address), "memory of malloc in a kernel: only kernels copy it");
  log_crashes(target, to.address, sides);
  log_crashes(source, from.address, sides);
  const bool to_multicast = require_access(to_user, to, writing, target);
  const bool from_multicast = require_access(from_user, from, reading, source);
  if (to_multicast || from_multicast) memory::log_ordinary_access(memory::caller().call);
  if (to_user != from_user && may(from_user, to, writing)) to_user = from_user;  // the source's GPU copies, if it may
  const auto work = task_work(CU_GRAPH_NODE_TYPE_MEMCPY, who.context, [=] { copy_now(to_user, to, from_user, from); });
  if (to.height == 1 && to.depth == 1) work->task()->run = [=] { copy_in_parts(to_user, to, from_user, from); };
  const bool has_host_side = is_of_host(target) || is_of_host(source);
  // What the engine for copies meets is another fault than what a kernel meets, and within a GPU a kernel copies.
  const bool is_between_gpus = !has_host_side && target->kind != Range::managed && source->kind != Range::managed &&
                               target->device != source->device;
  if (has_host_side || is_between_gpus) work->task()->too_late = CUDA_ERROR_LAUNCH_FAILED;
  const size_t rate = has_host_side ? to_host : target->device != source->device ? to_peer : within;
  work->task()->microseconds = to.width * to.height * to.depth / rate;
  work->given.memcpy.copyCtx = who.context;
  work->given.memcpy.copyParams = as_given(to, from, sides);
  return {work, to_user, from_user, target, source};
}

// Takes a plain range of memory that the driver does not know at once, so that the caller need not wait for the copy.
void stage(const CheckedCopy& made, const Area& to, const Area& from) {
  const auto* const bytes = reinterpret_cast<const char*>(from.address);
  made.work->task()->run = [=, to_user = made.to_user, from_user = made.from_user,
                            staged = std::vector<char>(bytes, bytes + from.width)] {
    copy_now(to_user, to, from_user, plain(reinterpret_cast<uint64_t>(staged.data()), staged.size()));
  };
}

// Puts a copy into a stream. Waits for it if host memory that the driver does not know takes part, or if `waits`.
void copy(const Area& to, const Area& from, CUstream stream_handle, int sides, bool waits,
          CUcontext to_context = nullptr, CUcontext from_context = nullptr) {
  CUstream_st& stream = driver::stream(stream_handle);
  const CheckedCopy made = checked_copy(to, from, sides,
                                        {stream.context, to_context ? checked(to_context) : stream.context,
                                         from_context ? checked(from_context) : stream.context});
  const auto& [work, to_user, from_user, target, source] = made;
  if (!work) return;
  const bool is_small = from.height == 1 && from.depth == 1 && from.width <= 2 << 20;
  if (!source && !waits && is_small && !is_capturing(stream)) {
    stage(made, to, from);
    submit(stream, work);
    return;
  }
  const Operation op = submit(stream, work);
  const bool must_wait = !target || !source || (waits && (is_on_host(*target) || is_on_host(*source)));
  if (op && must_wait) wait_for(op);
}

#if CUDA_VERSION >= 13000
// A copy of a batch, and when its source is read.
struct BatchedCopy {
  Area to, from;
  CUmemcpySrcAccessOrder order;
  unsigned flags;
};

// Of memory that the driver does not know, 64 KiB or less are taken at once; what is larger is read when the stream
// gets there, whatever srcAccessOrder promises, and the call waits for it only where it is to be read in the order of
// the stream. Of memory that the driver knows, a source that is to be read during the call lets the call wait.
void copy_batch(const std::vector<BatchedCopy>& all, CUstream stream_handle) {
  CUstream_st& stream = driver::stream(stream_handle);
  require(!stream.is_legacy, "hStream is the legacy stream: give one of your own, or CU_STREAM_PER_THREAD");
  require(!is_capturing(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "a batch of copies cannot be captured: make the copies one by one");
  std::vector<CheckedCopy> copies;
  for (const auto& [to, from, order, flags] : all) {  // all of them before any is made
    require(order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
            "srcAccessOrder is none of CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, _DURING_API_CALL and _ANY, 1 to 3");
    require(flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE, "there are no such flags of a copy");
    copies.push_back(checked_copy(to, from, batched, {stream.context, stream.context, stream.context}));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [to, from, order, flags] = all[i];
    const CheckedCopy& made = copies[i];
    if (!made.work) continue;
    const bool is_from_pageable = !made.source && from.height == 1 && from.depth == 1;
    const bool is_in_order = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    const bool is_during_call = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    if (is_from_pageable && !is_in_order && from.width <= 64 << 10) stage(made, to, from);
    const Operation op = submit(stream, made.work);
    if (is_from_pageable ? is_in_order : is_during_call) wait_for(op);
  }
}

std::vector<BatchedCopy> batch_of(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* sizes, size_t count,
                                  std::span<const CUmemcpyAttributes> attributes, const size_t* first) {
  require(count, "count is 0");
  for (const auto& [list, name] : {std::pair<const void*, const char*>(to, "dsts"), {from, "srcs"}, {sizes, "sizes"}})
    require_non_null(list, name);
  require(!attributes.empty() && attributes.size() <= count, "numAttrs is 0, or more than count");
  require_non_null(attributes.data(), "attrs");
  require_non_null(first, "attrsIdxs");
  std::vector<BatchedCopy> all;
  size_t of = 0;
  require(!first[0], "attrsIdxs[0] must be 0: each copy has attributes");
  for (size_t k = 1; k < attributes.size(); ++k)
    require(first[k] > first[k - 1] && first[k] < count, "attrsIdxs must rise, and stay below count");
  for (size_t i = 0; i < count; ++i) {
    require(sizes[i], "a size is 0");
    if (of + 1 < attributes.size() && first[of + 1] == i) ++of;
    all.push_back(
        {plain(to[i], sizes[i]), plain(from[i], sizes[i]), attributes[of].srcAccessOrder, attributes[of].flags});
  }
  return all;
}

Area side(const CUmemcpy3DOperand& operand, const CUextent3D& extent) {
  require(operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED, no_arrays);
  require(operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER, "no such type of operand");
  const auto& at = operand.op.ptr;
  const size_t pitch = at.rowLength ? at.rowLength : extent.width;
  const size_t rows = at.layerHeight ? at.layerHeight : extent.height;
  require(pitch >= extent.width && rows >= extent.height, "a row or layer is longer than it says");
  return {at.ptr, pitch, extent.width, extent.height, pitch * rows, extent.depth};
}

std::vector<BatchedCopy> batch_of(const CUDA_MEMCPY3D_BATCH_OP* list, size_t count) {
  require(count, "numOps is 0");
  require_non_null(list, "opList");
  std::vector<BatchedCopy> all;
  for (const CUDA_MEMCPY3D_BATCH_OP& operation : std::span(list, count)) {
    require(operation.extent.width && operation.extent.height && operation.extent.depth, "an extent has a 0");
    all.push_back({side(operation.dst, operation.extent), side(operation.src, operation.extent),
                   operation.srcAccessOrder, operation.flags});
  }
  return all;
}
#endif

// A side of a 2D or 3D copy: memory on the host or a GPU, or the unified type, which says neither.
template <class All>
Area side(CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch, size_t x, size_t y, const All& all) {
  require(type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED, no_arrays);
  require(type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED, "no such memory type");
  if (!pitch) pitch = all.WidthInBytes + x;
  require(pitch >= all.WidthInBytes + x, "a row is longer than the pitch");
  return {(type == CU_MEMORYTYPE_HOST ? bits(host) : device) + y * pitch + x, pitch, all.WidthInBytes, all.Height};
}

template <class All> int sides_of(const All& c) {
  return (c.dstMemoryType == CU_MEMORYTYPE_DEVICE ? to_device : 0) |
         (c.srcMemoryType == CU_MEMORYTYPE_DEVICE ? from_device : 0);
}

void copy_2d(const CUDA_MEMCPY2D* given, CUstream stream_handle, bool waits) {
  require_non_null(given, "pCopy");
  const CUDA_MEMCPY2D& c = *given;
  if (!c.WidthInBytes || !c.Height) return;
  const Area to = side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstXInBytes, c.dstY, c);
  const Area from = side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcXInBytes, c.srcY, c);
  copy(to, from, stream_handle, sides_of(c), waits);
}

// The layers of a side, which have so many rows, from layer z on.
Area layers(Area first, size_t rows, size_t y, size_t z, size_t depth) {
  require(depth == 1 || rows >= first.height + y, "a layer has more rows than its height");
  first.layer = rows * first.pitch;
  first.address += z * first.layer;
  first.depth = depth;
  return first;
}

struct Areas {
  Area to, from;
};
template <class All> Areas areas_of(const All& c) {
  const Area to = side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstXInBytes, c.dstY, c);
  const Area from = side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcXInBytes, c.srcY, c);
  return {layers(to, c.dstHeight, c.dstY, c.dstZ, c.Depth), layers(from, c.srcHeight, c.srcY, c.srcZ, c.Depth)};
}

void copy_3d(const CUDA_MEMCPY3D* given, CUstream stream_handle, bool waits) {
  require_non_null(given, "pCopy");
  if (!given->WidthInBytes || !given->Height || !given->Depth) return;
  const Areas areas = areas_of(*given);
  copy(areas.to, areas.from, stream_handle, sides_of(*given), waits);
}

void log_host_memory(CUdeviceptr to, CUdeviceptr from) {
  for (const CUdeviceptr address : {to, from})
    if (const auto range = memory::find(address); range && is_host_vmm(*range))
      log_crash("memory of the host is mapped at " + hexadecimal(address) +
                ", and cuMemcpyPeer is for that of two GPUs: use cuMemcpyHtoD or cuMemcpyDtoH");
}

// Between two GPUs: in order with what stream 0 of each has, before and after it.
void copy_peer(const Areas& areas, int sides, CUcontext to_context, CUcontext from_context) {
  CUstream_st& own_stream = stream(nullptr);
  log_host_memory(areas.to.address, areas.from.address);
  const std::array contexts = {to_context, from_context};
  for (const CUcontext context : contexts)
    if (context && checked(context) != own_stream.context)
      enqueue(own_stream, nullptr, enqueue(context->legacy, nullptr));
  copy(areas.to, areas.from, nullptr, sides, true, to_context, from_context);
  for (const CUcontext context : contexts)
    if (context && context != own_stream.context) enqueue(context->legacy, nullptr, enqueue(own_stream, nullptr));
}

void fill(const memory::Piece& piece, unsigned value, unsigned element) {
  piece.write([&](char* bytes) {
    if (!value) memory::clear(bytes, piece.size);
    else if (element == 1) std::memset(bytes, int(value), piece.size);
    else if (element == 2) std::fill_n(reinterpret_cast<uint16_t*>(bytes), piece.size / 2, uint16_t(value));
    else std::fill_n(reinterpret_cast<uint32_t*>(bytes), piece.size / 4, value);
  });
}

void set(const CUDA_MEMSET_NODE_PARAMS_v2& given, CUstream stream_handle, bool waits) {
  CUDA_MEMSET_NODE_PARAMS_v2 all = given;
  CUstream_st& stream = driver::stream(stream_handle);
  all.ctx = stream.context;
  const SharedWork work = memset_work(all, is_capturing(stream));
  const Operation op = work ? submit(stream, work) : nullptr;
  if (!op || !waits) return;
  const auto range = memory::find(given.dst);
  if (range && host_reads(*range)) wait_for(op);  // such a memset is synchronous
}

}  // namespace

bool is_mapped(const CUDA_MEMSET_NODE_PARAMS_v2& given) {
  uint64_t known = 0;  // the end of what is known to be mapped
  for (size_t row = 0; row < given.height; ++row) {
    const uint64_t begin = given.dst + row * given.pitch, end = begin + given.width * given.elementSize;
    for (uint64_t at = std::max(begin, known); at < end; at = known) {
      const auto range = memory::find(at);
      if (range && !range->mapped) return false;
      known = range ? range->base + range->size : end;
    }
  }
  return true;
}

SharedWork copy_work(const CUDA_MEMCPY_NODE_PARAMS& given) {
  const CUcontext context = given.copyCtx ? checked(given.copyCtx) : current();
  const Areas areas = areas_of(given.copyParams);
  const auto work = checked_copy(areas.to, areas.from, sides_of(given.copyParams), {context, context, context}).work;
  if (!work) return nullptr;
  work->given.memcpy = given;
  work->given.memcpy.copyCtx = context;
  return work;
}

// The width counts elements.
SharedWork memset_work(const CUDA_MEMSET_NODE_PARAMS_v2& given, bool is_captured) {
  const CUcontext context = given.ctx ? checked(given.ctx) : current();
  const unsigned element = given.elementSize;
  require(element == 1 || element == 2 || element == 4, "elementSize is 1, 2 or 4");
  const Area area = {given.dst, given.pitch, given.width * element, given.height};
  if (!area.width || !area.height) return nullptr;  // the product may overflow to 0: the driver's does
  const bool is_aligned = given.dst % element == 0 && (area.height == 1 || area.pitch % element == 0);
  require(is_aligned, "the address or pitch is no multiple of the element's size");
  require(area.height == 1 || area.pitch >= area.width, "a row is longer than the pitch");
  const auto range = memory::find(given.dst);
  require(range || heap_of(*context)->holds(given.dst),
          "the destination is no memory of a GPU, or has been freed (cuMemFreeAsync)");
  require(given.width <= size_t(1) << memory::address_bits, "the range is too long");
  const CUdevice device = context->device;
  if (!is_captured && require_access(device, area, writing, range)) memory::log_ordinary_access(memory::caller().call);
  const auto set = [=, value = given.value](const Area& area) {
    for (const memory::Piece& piece : pieces(device, area, writing)) fill(piece, value, element);
  };
  const auto work = task_work(CU_GRAPH_NODE_TYPE_MEMSET, context, [=] {
    if (area.height > 1) return set(area);
    pieces(device, area, writing);
    in_parts(area.width, [&](size_t done, size_t size) { set(plain(area.address + done, size)); });
  });
  // The others are kernels. The border lies between 4 KiB and 16 KiB.
  constexpr size_t most_by_engine = 4096;
  if (area.height == 1 && area.width <= most_by_engine) work->task()->too_late = CUDA_ERROR_LAUNCH_FAILED;
  work->task()->microseconds = area.width * area.height / set_within;
  work->given.memset = given;
  work->given.memset.ctx = context;
  return work;
}

}  // namespace driver

using namespace driver;

#define COPIES(name, To, to, From, from, sides)                                                                  \
  CUresult name(To to, From from, size_t ByteCount) {                                                            \
    return call(ARGUMENTS(to, from, ByteCount),                                                                  \
                [&] { copy(plain(bits(to), ByteCount), plain(bits(from), ByteCount), nullptr, sides, true); });  \
  }                                                                                                              \
  CUresult name##Async(To to, From from, size_t ByteCount, CUstream hStream) {                                   \
    return call(ARGUMENTS(to, from, ByteCount, hStream),                                                         \
                [&] { copy(plain(bits(to), ByteCount), plain(bits(from), ByteCount), hStream, sides, false); }); \
  }
COPIES(cuMemcpy, CUdeviceptr, dst, CUdeviceptr, src, 0)
COPIES(cuMemcpyHtoD, CUdeviceptr, dstDevice, const void*, srcHost, to_device)
COPIES(cuMemcpyDtoH, void*, dstHost, CUdeviceptr, srcDevice, from_device)
COPIES(cuMemcpyDtoD, CUdeviceptr, dstDevice, CUdeviceptr, srcDevice, to_device | from_device)
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                      size_t ByteCount) {
  return call(ARGUMENTS(dstDevice, dstContext, srcDevice, srcContext, ByteCount), [&] {
    copy_peer({plain(dstDevice, ByteCount), plain(srcDevice, ByteCount)}, to_device | from_device, dstContext,
              srcContext);
  });
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream) {
  return call(ARGUMENTS(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream), [&] {
    const auto target = memory::find(dstDevice), source = memory::find(srcDevice);
    const bool is_vmm = (target && target->kind == Range::vmm) || (source && source->kind == Range::vmm);
    require(!is_vmm || dstContext == srcContext || !is_capturing(stream(hStream)),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            "of memory of cuMemMap cuMemcpyPeerAsync cannot be captured between two GPUs: use cuMemcpyAsync");
    copy(plain(dstDevice, ByteCount), plain(srcDevice, ByteCount), hStream, to_device | from_device, false, dstContext,
         srcContext);
  });
}
CUresult cuMemcpy2D(const CUDA_MEMCPY2D* pCopy) {
  return call(ARGUMENTS(pCopy), [&] { copy_2d(pCopy, nullptr, true); });
}
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* pCopy) {
  return call(ARGUMENTS(pCopy), [&] { copy_2d(pCopy, nullptr, true); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return call(ARGUMENTS(pCopy, hStream), [&] { copy_2d(pCopy, hStream, false); });
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D* pCopy) {
  return call(ARGUMENTS(pCopy), [&] { copy_3d(pCopy, nullptr, true); });
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return call(ARGUMENTS(pCopy, hStream), [&] { copy_3d(pCopy, hStream, false); });
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  return call(ARGUMENTS(pCopy), [&] {
    require_non_null(pCopy, "pCopy");
    if (!pCopy->WidthInBytes || !pCopy->Height || !pCopy->Depth) return;
    copy_peer(areas_of(*pCopy), sides_of(*pCopy), pCopy->dstContext, pCopy->srcContext);
  });
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return call(ARGUMENTS(pCopy, hStream), [&] {
    require_non_null(pCopy, "pCopy");
    if (!pCopy->WidthInBytes || !pCopy->Height || !pCopy->Depth) return;
    const Areas areas = areas_of(*pCopy);
    copy(areas.to, areas.from, hStream, sides_of(*pCopy), false, pCopy->dstContext, pCopy->srcContext);
  });
}

#if CUDA_VERSION >= 13000
CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
  return call(ARGUMENTS(count, numAttrs, hStream),
              [&] { copy_batch(batch_of(dsts, srcs, sizes, count, {attrs, numAttrs}, attrsIdxs), hStream); });
}
CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                              CUstream hStream) {
  return call(ARGUMENTS(numOps, flags, hStream), [&] {
    require_no_flags(flags);
    copy_batch(batch_of(opList, numOps), hStream);
  });
}
#endif

#define MEMSETS(bits, Element)                                                                                     \
  CUresult cuMemsetD##bits(CUdeviceptr dstDevice, Element value, size_t N) {                                       \
    return call(ARGUMENTS(dstDevice, value, N),                                                                    \
                [&] { set({dstDevice, 0, value, sizeof value, N, 1, nullptr}, nullptr, true); });                  \
  }                                                                                                                \
  CUresult cuMemsetD##bits##Async(CUdeviceptr dstDevice, Element value, size_t N, CUstream hStream) {              \
    return call(ARGUMENTS(dstDevice, value, N, hStream), in_host_function,                                         \
                [&] { set({dstDevice, 0, value, sizeof value, N, 1, nullptr}, hStream, false); });                 \
  }                                                                                                                \
  CUresult cuMemsetD2D##bits(CUdeviceptr dstDevice, size_t dstPitch, Element value, size_t Width, size_t Height) { \
    return call(ARGUMENTS(dstDevice, dstPitch, value, Width, Height),                                              \
                [&] { set({dstDevice, dstPitch, value, sizeof value, Width, Height, nullptr}, nullptr, true); });  \
  }                                                                                                                \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch, Element value, size_t Width,           \
                                    size_t Height, CUstream hStream) {                                             \
    return call(ARGUMENTS(dstDevice, dstPitch, value, Width, Height, hStream), in_host_function,                   \
                [&] { set({dstDevice, dstPitch, value, sizeof value, Width, Height, nullptr}, hStream, false); }); \
  }
MEMSETS(8, unsigned char)
MEMSETS(16, unsigned short)
MEMSETS(32, unsigned int)
