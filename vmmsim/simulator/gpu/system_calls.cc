// SPDX-License-Identifier: MIT-0
// The functions without a body that kernels call, which CUDA names system calls: vprintf, what a failed assert calls,
// malloc and free, what sets a graph's condition; and those of the runtime, to launch other kernels.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include "access.h"
#include "children.h"
#include "conditions.h"
#include "heap.h"

namespace gpu {

namespace {

struct Output {
  Mutex mutex;
  std::string text GUARDED_BY(mutex);  // printed, and not yet asked for
};
Output& output() {
  static Output& output = *new Output;  // kernels may print until the process ends
  return output;
}

// Memory as one lane of the call sees it.
struct Caller {
  const Warp& w;
  const MicroOp& op;
  unsigned lane;
  uint64_t read(ptx::Space space, uint64_t address, unsigned size) const {
    return load(locate(w, op, lane, space, address, size, memory::readable).bytes, size);
  }
  uint64_t argument(unsigned k, unsigned size, unsigned at = 0) const {  // of the call; a part of a structure
    return read(ptx::Space::local, w.rows[op.rows[k]].lane[lane] + at, size);
  }
  void write(uint64_t address, uint64_t value, unsigned size) const {
    store(locate(w, op, lane, ptx::Space::generic, address, size, memory::writable).bytes, size, value);
  }
  void give(uint64_t result, unsigned size) const {
    if (op.to < 0) return;
    const uint64_t address = w.rows[op.to].lane[lane];
    store(locate(w, op, lane, ptx::Space::local, address, size, memory::writable).bytes, size, result);
  }
  std::string text(uint64_t address) const {
    std::string text;
    for (;; ++address) {
      const auto c = static_cast<char>(read(ptx::Space::generic, address, 1));
      if (!c) return text;
      text += c;
    }
  }
};

template <class Value> void append(std::string& to, const std::string& format, Value value) {
  char small[256];
  const int size = std::snprintf(small, sizeof small, format.c_str(), value);
  if (size < static_cast<int>(sizeof small)) {
    to.append(small, static_cast<size_t>(std::max(size, 0)));
    return;
  }
  std::string large(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(large.data(), large.size(), format.c_str(), value);
  to.append(large.data(), static_cast<size_t>(size));
}

// The arguments of one printf, which lie one after another, each aligned to its size.
class PrintfArguments {
 public:
  PrintfArguments(const Caller& caller, uint64_t address) : caller_(caller), next_(address) {}
  uint64_t take(unsigned size) {
    const uint64_t address = memory::round_up(next_, size);
    next_ = address + size;
    ++taken_;
    return caller_.read(ptx::Space::generic, address, size);
  }
  int taken() const { return taken_; }

 private:
  const Caller& caller_;
  uint64_t next_;
  int taken_ = 0;
};

// The lowest bytes that `length`, as hh or ll, leaves of an integer argument.
unsigned integer_bytes(const std::string& length) {
  if (length.find_first_of("ljzt") != length.npos) return 8;
  if (length == "hh") return 1;
  return length == "h" ? 2 : 4;
}

// One conversion: `flags` is the % with flags, width and precision.
void append_converted(std::string& text, const Caller& caller, const std::string& flags, const std::string& length,
                      char conversion, PrintfArguments& arguments) {
  const unsigned bytes = integer_bytes(length);
  const unsigned unused_bits = 64 - 8 * bytes;
  switch (conversion) {
    case 'd':
    case 'i': {
      const uint64_t value = arguments.take(std::max(4u, bytes)) << unused_bits;
      append(text, flags + "lld", static_cast<long long>(value) >> unused_bits);
      break;
    }
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
      const uint64_t value = arguments.take(std::max(4u, bytes)) << unused_bits;
      append(text, flags + "ll" + conversion, static_cast<unsigned long long>(value >> unused_bits));
      break;
    }
    case 'c': append(text, flags + "c", static_cast<int>(arguments.take(4))); break;
    case 'p': append(text, flags + "p", reinterpret_cast<const void*>(arguments.take(8))); break;
    case 's': {
      const uint64_t address = arguments.take(8);
      const std::string string = address ? caller.text(address) : "(null)";
      append(text, flags + "s", string.c_str());
      break;
    }
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': append(text, flags + conversion, std::bit_cast<double>(arguments.take(8))); break;
    case '%': text += '%'; break;
    default: text += flags + length + conversion;
  }
}

// The text of one printf.
std::string formatted(const Caller& caller, const std::string& format, PrintfArguments& arguments) {
  std::string text;
  size_t at = 0;
  const auto is_one_of = [&](const char* characters) {
    return at < format.size() && std::strchr(characters, format[at]);
  };
  while (at < format.size()) {
    const char c = format[at];
    ++at;
    if (c != '%') {
      text += c;
      continue;
    }
    std::string flags = "%";
    for (; is_one_of("-+ #0123456789.*"); ++at) {
      if (format[at] == '*') flags += std::to_string(static_cast<int32_t>(arguments.take(4)));
      else flags += format[at];
    }
    std::string length;
    for (; is_one_of("hljztL"); ++at) length += format[at];
    const char conversion = at < format.size() ? format[at] : '%';
    ++at;
    append_converted(text, caller, flags, length, conversion, arguments);
  }
  return text;
}

// int vprintf(const char* format, const void* arguments)
void print(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const std::string format = caller.text(caller.argument(0, 8));
    PrintfArguments arguments(caller, caller.argument(1, 8));
    const std::string text = formatted(caller, format, arguments);
    {
      const MutexLock lock(output().mutex);
      output().text += text;
    }
    caller.give(static_cast<uint32_t>(arguments.taken()), 4);
  }
}

// void __assertfail(const char* condition, const char* file, unsigned line, const char* function, size_t char_size)
void fail_assertion(Warp& w, const MicroOp& op, Lanes active) {
  const Dimensions& block = w.block->index;
  const auto first = first_of(active);
  std::string condition;
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const Dimensions thread = thread_index(w, caller.lane);
    condition = caller.text(caller.argument(0, 8));
    std::fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                 caller.text(caller.argument(1, 8)).c_str(), static_cast<unsigned>(caller.argument(2, 4)),
                 caller.text(caller.argument(3, 8)).c_str(), block.x, block.y, block.z, thread.x, thread.y, thread.z,
                 condition.c_str());
  }
  fault(w, op, first, CUDA_ERROR_ASSERT, "assertion `" + condition + "` failed");
}

// void* malloc(size_t size), void* __nv_aligned_device_malloc(size_t size, size_t alignment)
template <bool aligned> void allocate(Warp& w, const MicroOp& op, Lanes active) {
  Heap* const heap = w.block->launch->heap.get();
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const uint64_t size = caller.argument(0, 8), alignment = aligned ? caller.argument(1, 8) : 1;
    caller.give(heap ? heap->allocate(size, alignment) : 0, 8);
  }
}

// void free(void*)
void free_memory(Warp& w, const MicroOp& op, Lanes active) {
  Heap* const heap = w.block->launch->heap.get();
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const uint64_t address = caller.argument(0, 8);
    if (!address || (heap && heap->free(address))) continue;
    const bool is_inside = heap && heap->holds(address);
    fault(w, op, caller.lane, is_inside ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS,
          hexadecimal(address) + (is_inside ? " is not where memory of malloc begins, or it was freed before"
                                            : " is no memory of malloc in a kernel"));
  }
}

// void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value)
void set_condition(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const auto found = condition(caller.argument(0, 8));
    if (!found)
      fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "this is no handle of a conditional node, or its graph is gone");
    found->value = static_cast<unsigned>(caller.argument(1, 4));
  }
}

// --- Of the runtime ------------------------------------------------------------------------------------------------
constexpr uint32_t invalid_value = 1, out_of_memory = 2, invalid_configuration = 9;  // cudaError_t
constexpr uint64_t tail_launch = 3;                                                  // cudaStreamTailLaunch

void set_error(const Caller& caller, uint32_t error) {
  if (error) caller.w.block->launch->children->last_error = error;
  caller.give(error, 4);
}

uint64_t number_of_block(const Caller& caller) {
  const Dimensions &at = caller.w.block->index, &grid = caller.w.block->launch->grid;
  return at.x + uint64_t(grid.x) * (at.y + uint64_t(grid.y) * at.z);
}

// void* cudaGetParameterBufferV2(void* kernel, dim3 grid, dim3 block, unsigned shared)
void prepare_launch(Warp& w, const MicroOp& op, Lanes active) {
  const Launch& parent = *w.block->launch;
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const auto dimensions = [&](unsigned k) {
      const auto one = [&](unsigned at) { return static_cast<unsigned>(caller.argument(k, 4, at)); };
      return Dimensions{one(0), one(4), one(8)};
    };
    const Kernel* const kernel = parent.module->kernel_at(caller.argument(0, 8));
    const Dimensions grid = dimensions(1), block = dimensions(2);
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    uint64_t buffer = 0;
    if (!kernel || !threads || threads > kernel->max_threads || !grid.x || !grid.y || !grid.z)
      parent.children->last_error = invalid_configuration;
    else if (buffer = parent.heap->allocate(std::max<size_t>(kernel->parameter_bytes, 16), 16); !buffer)
      parent.children->last_error = out_of_memory;
    caller.give(buffer, 8);
    if (!buffer) continue;
    Launch child = {kernel, parent.module, grid, block, caller.argument(3, 4), {}, nullptr, parent.order};
    child.heap = parent.heap;
    child.stack_size = parent.stack_size;
    child.submission = parent.submission;
    parent.children->prepare(buffer, std::move(child));
  }
}

// cudaError_t cudaLaunchDeviceV2(void* parameters, cudaStream_t)
void launch_prepared(Warp& w, const MicroOp& op, Lanes active) {
  const Launch& parent = *w.block->launch;
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const uint64_t buffer = caller.argument(0, 8);
    std::optional<Launch> child = parent.children->take(buffer);
    set_error(caller, child ? 0 : invalid_value);
    if (!child) continue;
    for (size_t k = 0; k < child->kernel->parameter_bytes; ++k)
      child->parameters.push_back(static_cast<std::byte>(caller.read(ptx::Space::generic, buffer + k, 1)));
    parent.heap->free(buffer);
    if (caller.argument(1, 8) == tail_launch) parent.children->add_to_tail(std::move(*child));
    else parent.children->add(number_of_block(caller), std::move(*child));
  }
}

char* byte_at(int device, uint64_t address, memory::Entry right) {
  const memory::Entry entry = memory::page_table(device).lookup(address);
  if ((entry & right) != right)
    throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS,
                "a copy that a kernel began: " + memory::what_lies_at(device, address, right & memory::writable), "",
                address};
  return memory::frame(entry) + address % memory::page_size;
}

void copy(int device, uint64_t to, uint64_t from, uint64_t size) {
  while (size) {
    const uint64_t in_page = memory::page_size - std::max(to % memory::page_size, from % memory::page_size);
    const uint64_t piece = std::min(size, in_page);
    std::memmove(byte_at(device, to, memory::writable), byte_at(device, from, memory::readable), piece);
    to += piece;
    from += piece;
    size -= piece;
  }
}

// cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t)
void copy_later(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const uint64_t to = caller.argument(0, 8), from = caller.argument(1, 8), size = caller.argument(2, 8);
    w.block->launch->children->add(number_of_block(caller),
                                   [=, device = w.block->device] { copy(device, to, from, size); });
    caller.give(0, 4);
  }
}

// cudaError_t cudaGetLastError(), cudaPeekAtLastError()
template <bool resets> void give_last_error(Warp& w, const MicroOp& op, Lanes active) {
  std::atomic<uint32_t>& error = w.block->launch->children->last_error;
  for (const unsigned lane : each(active)) Caller{w, op, lane}.give(resets ? error.exchange(0) : error.load(), 4);
}

// const char* cudaGetErrorString(cudaError_t)
void give_error_string(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const auto error = static_cast<unsigned>(caller.argument(0, 4));
    const std::string text = error ? "error " + std::to_string(error) : "no error";
    const uint64_t address = w.block->launch->heap->allocate(text.size() + 1, 1);
    for (size_t k = 0; address && k <= text.size(); ++k)
      caller.write(address + k, static_cast<unsigned char>(text.c_str()[k]), 1);
    caller.give(address, 8);
  }
}

// cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags)
void create_stream(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    caller.write(caller.argument(0, 8), w.block->launch->children->new_stream(), 8);
    caller.give(0, 4);
  }
}

// cudaError_t cudaStreamDestroy(cudaStream_t)
void destroy_stream(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) Caller{w, op, lane}.give(0, 4);
}

// cudaError_t cudaMalloc(void**, size_t)
void allocate_by_runtime(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const uint64_t address = w.block->launch->heap->allocate(caller.argument(1, 8), 256);
    if (address) caller.write(caller.argument(0, 8), address, 8);
    set_error(caller, address ? 0 : out_of_memory);
  }
}

// cudaError_t cudaFree(void*)
void free_by_runtime(Warp& w, const MicroOp& op, Lanes active) {
  for (const unsigned lane : each(active)) {
    const Caller caller{w, op, lane};
    const uint64_t address = caller.argument(0, 8);
    set_error(caller, !address || w.block->launch->heap->free(address) ? 0 : invalid_value);
  }
}

const struct SystemCall {
  std::string_view name;
  Handler handler;
  size_t arguments;
} system_calls[] = {{"vprintf", print, 2},
                    {"__assertfail", fail_assertion, 5},
                    {"malloc", allocate<false>, 1},
                    {"__nv_aligned_device_malloc", allocate<true>, 2},
                    {"free", free_memory, 1},
                    {"cudaGraphSetConditional", set_condition, 2},
                    {"__cudaCDP2GetParameterBufferV2", prepare_launch, 4},
                    {"__cudaCDP2LaunchDeviceV2", launch_prepared, 2},
                    {"__cudaCDP2GetLastError", give_last_error<true>, 0},
                    {"__cudaCDP2PeekAtLastError", give_last_error<false>, 0},
                    {"__cudaCDP2GetErrorString", give_error_string, 1},
                    {"__cudaCDP2StreamCreateWithFlags", create_stream, 2},
                    {"__cudaCDP2StreamDestroy", destroy_stream, 1},
                    {"__cudaCDP2MemcpyAsync", copy_later, 5},
                    {"__cudaCDP2Malloc", allocate_by_runtime, 2},
                    {"__cudaCDP2Free", free_by_runtime, 1}};

}  // namespace

void print_output() {
  std::string text;
  {
    const MutexLock lock(output().mutex);
    text.swap(output().text);
  }
  if (!text.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
}

static const SystemCall* system_call_named(const std::string& name) {
  const auto found = std::find_if(std::begin(system_calls), std::end(system_calls),
                                  [&](const SystemCall& candidate) { return candidate.name == name; });
  return found == std::end(system_calls) ? nullptr : &*found;
}

bool is_system_call(const std::string& function) { return system_call_named(function); }

bool lower_system_call(Lowering& l, const ptx::Decoded& i, const std::string& function, const ptx::Operand* returns,
                       const ptx::Operand* arguments) {
  const SystemCall* const known = system_call_named(function);
  if (!known || (arguments ? arguments->elements.size() : 0) != known->arguments) return false;
  const auto address = [&](const ptx::Operand& operand) { return l.address_row(l.symbol(operand.name)); };
  std::array<int, 8> rows = {};
  for (size_t k = 0; k < known->arguments; ++k) rows[k] = address(arguments->elements[k]);
  const int to = returns && !returns->elements.empty() ? address(returns->elements.front()) : -1;
  l.emit(known->handler, i, to).rows = rows;
  return true;
}

}  // namespace gpu
