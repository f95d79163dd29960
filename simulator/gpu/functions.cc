// SPDX-License-Identifier: MIT-0
// The functions without a body that kernels call: printf, what a failed assert calls, malloc and free.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include "access.h"
#include "heap.h"

namespace gpu {

namespace {

struct Output {
  std::mutex mutex;
  std::string text;  // printed, and not yet asked for
};
Output& output() {
  static Output& output = *new Output;  // kernels may print until the process ends
  return output;
}

// Memory as one lane of the call sees it.
struct Caller {
  const Warp& w;
  const Op& op;
  unsigned lane;
  uint64_t read(ptx::Space space, uint64_t address, unsigned size) const {
    return load(locate(w, op, lane, space, address, size, memory::readable).bytes, size);
  }
  uint64_t argument(unsigned k, unsigned size) const {  // of the call
    return read(ptx::Space::local, w.rows[op.rows[k]].lane[lane], size);
  }
  void give(uint64_t result, unsigned size) const {
    if (op.to < 0) return;
    const uint64_t address = w.rows[op.to].lane[lane];
    store(locate(w, op, lane, ptx::Space::local, address, size, memory::writable).bytes, size, result);
  }
  std::string text(uint64_t address) const {
    std::string text;
    while (const char c = static_cast<char>(read(ptx::Space::generic, address++, 1))) text += c;
    return text;
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

// The text of one printf, whose arguments lie one after another from `at`, each aligned to its size. Counts them.
std::string formatted(const Caller& from, const std::string& format, uint64_t at, int& count) {
  const auto next = [&](unsigned size) {
    at = (at + size - 1) / size * size + size;
    ++count;
    return from.read(ptx::Space::generic, at - size, size);
  };
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    std::string one = "%", length;
    for (++i; i < format.size() && std::strchr("-+ #0123456789.*", format[i]); ++i)
      one += format[i] == '*' ? std::to_string(static_cast<int32_t>(next(4))) : std::string(1, format[i]);
    for (; i < format.size() && std::strchr("hljztL", format[i]); ++i) length += format[i];
    const char conversion = i < format.size() ? format[i] : '%';
    const bool is_long = length.find_first_of("ljzt") != length.npos;
    switch (conversion) {
      case 'd':
      case 'i': {
        const uint64_t value = next(is_long ? 8 : 4);
        const auto number = is_long          ? static_cast<long long>(value)
                            : length == "hh" ? static_cast<int8_t>(value)
                            : length == "h"  ? static_cast<int16_t>(value)
                                             : static_cast<int32_t>(value);
        append(text, one + "lld", number);
        break;
      }
      case 'u':
      case 'o':
      case 'x':
      case 'X': {
        const uint64_t value = next(is_long ? 8 : 4);
        const uint64_t number = length == "hh"  ? static_cast<uint8_t>(value)
                                : length == "h" ? static_cast<uint16_t>(value)
                                                : value;
        append(text, one + "ll" + conversion, static_cast<unsigned long long>(number));
        break;
      }
      case 'c': append(text, one + "c", static_cast<int>(next(4))); break;
      case 'p': append(text, one + "p", reinterpret_cast<const void*>(next(8))); break;
      case 's': {
        const uint64_t address = next(8);
        append(text, one + "s", address ? from.text(address).c_str() : "(null)");
        break;
      }
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': append(text, one + conversion, std::bit_cast<double>(next(8))); break;
      case '%': text += '%'; break;
      default: text += one + length + conversion;
    }
  }
  return text;
}

// int vprintf(const char* format, const void* arguments)
void print(Warp& w, const Op& op, Lanes active) {
  for (; active; active &= active - 1) {
    const Caller from{w, op, static_cast<unsigned>(std::countr_zero(active))};
    int count = 0;
    const std::string text = formatted(from, from.text(from.argument(0, 8)), from.argument(1, 8), count);
    {
      const std::lock_guard lock(output().mutex);
      output().text += text;
    }
    from.give(static_cast<uint32_t>(count), 4);
  }
}

// void __assertfail(const char* condition, const char* file, unsigned line, const char* function, size_t char_size)
void fail_assertion(Warp& w, const Op& op, Lanes active) {
  const Dimensions& block = w.block->index;
  const auto first = static_cast<unsigned>(std::countr_zero(active));
  std::string condition;
  for (; active; active &= active - 1) {
    const Caller from{w, op, static_cast<unsigned>(std::countr_zero(active))};
    const Dimensions thread = thread_index(w, from.lane);
    condition = from.text(from.argument(0, 8));
    std::fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                 from.text(from.argument(1, 8)).c_str(), static_cast<unsigned>(from.argument(2, 4)),
                 from.text(from.argument(3, 8)).c_str(), block.x, block.y, block.z, thread.x, thread.y, thread.z,
                 condition.c_str());
  }
  fault(w, op, first, CUDA_ERROR_ASSERT, "assertion `" + condition + "` failed");
}

// void* malloc(size_t size), void* __nv_aligned_device_malloc(size_t size, size_t alignment)
template <bool aligned> void allocate(Warp& w, const Op& op, Lanes active) {
  Heap* const heap = w.block->launch->heap.get();
  for (; active; active &= active - 1) {
    const Caller caller{w, op, static_cast<unsigned>(std::countr_zero(active))};
    const uint64_t size = caller.argument(0, 8), alignment = aligned ? caller.argument(1, 8) : 1;
    caller.give(heap ? heap->allocate(size, alignment) : 0, 8);
  }
}

// void free(void*)
void free_memory(Warp& w, const Op& op, Lanes active) {
  Heap* const heap = w.block->launch->heap.get();
  for (; active; active &= active - 1) {
    const Caller caller{w, op, static_cast<unsigned>(std::countr_zero(active))};
    const uint64_t address = caller.argument(0, 8);
    if (!address || (heap && heap->free(address))) continue;
    const bool is_inside = heap && heap->holds(address);
    fault(w, op, caller.lane, is_inside ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS,
          memory::hexadecimal(address) + (is_inside ? " is not where memory of malloc begins, or it was freed before"
                                                    : " is no memory of malloc in a kernel"));
  }
}

const struct Function {
  std::string_view name;
  Handler handler;
  size_t arguments;
} functions[] = {{"vprintf", print, 2},
                 {"__assertfail", fail_assertion, 5},
                 {"malloc", allocate<false>, 1},
                 {"__nv_aligned_device_malloc", allocate<true>, 2},
                 {"free", free_memory, 1}};

}  // namespace

void print_output() {
  std::string text;
  {
    const std::lock_guard lock(output().mutex);
    text.swap(output().text);
  }
  if (!text.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
}

bool lower_call(Lowering& l, const ptx::Instruction& i, const std::string& function) {
  const auto known = std::find_if(std::begin(functions), std::end(functions),
                                  [&](const Function& candidate) { return candidate.name == function; });
  if (known == std::end(functions)) return false;
  const std::vector<ptx::Operand>* results = nullptr;
  const std::vector<ptx::Operand>* arguments = nullptr;
  for (const ptx::Operand& operand : i.operands)
    if (operand.kind == ptx::Operand::list) (&operand == &i.operands[0] ? results : arguments) = &operand.elements;
  if (!arguments || arguments->size() != known->arguments) return false;
  const auto place = [&](const ptx::Operand& operand) { return l.constant(l.place(operand.name).address); };
  std::array<int, 8> rows = {};
  for (size_t k = 0; k < arguments->size(); ++k) rows[k] = place((*arguments)[k]);
  const int to = results && !results->empty() ? place(results->front()) : -1;
  l.emit(known->handler, i, to).rows = rows;
  return true;
}

}  // namespace gpu
