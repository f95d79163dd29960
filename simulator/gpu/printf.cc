// SPDX-License-Identifier: MIT-0
// The functions without a body that kernels call: printf, and what a failed assert calls.
#include <cstdio>
#include <cstring>
#include <mutex>
#include "access.h"

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
struct Reader {
  const Warp& w;
  const Op& op;
  unsigned lane;
  uint64_t read(ptx::Space space, uint64_t address, unsigned size) const {
    return load(locate(w, op, lane, space, address, size, memory::readable).bytes, size);
  }
  uint64_t argument(unsigned k, unsigned size) const {  // of the call
    return read(ptx::Space::local, w.rows[op.rows[k]].lane[lane], size);
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
std::string formatted(const Reader& from, const std::string& format, uint64_t at, int& count) {
  const auto next = [&](unsigned size) {
    at = (at + size - 1) / size * size + size;
    ++count;
    return from.read(ptx::Space::generic, at - size, size);
  };
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') { text += format[i]; continue; }
    std::string one = "%", length;
    for (++i; i < format.size() && std::strchr("-+ #0123456789.*", format[i]); ++i)
      one += format[i] == '*' ? std::to_string(static_cast<int32_t>(next(4))) : std::string(1, format[i]);
    for (; i < format.size() && std::strchr("hljztL", format[i]); ++i) length += format[i];
    const char conversion = i < format.size() ? format[i] : '%';
    const bool is_long = length.find_first_of("ljzt") != length.npos;
    switch (conversion) {
      case 'd': case 'i': {
        const uint64_t value = next(is_long ? 8 : 4);
        const auto number = is_long ? static_cast<long long>(value) : length == "hh" ? static_cast<int8_t>(value)
                          : length == "h" ? static_cast<int16_t>(value) : static_cast<int32_t>(value);
        append(text, one + "lld", number);
        break;
      }
      case 'u': case 'o': case 'x': case 'X': {
        const uint64_t value = next(is_long ? 8 : 4);
        const uint64_t number = length == "hh" ? static_cast<uint8_t>(value)
                              : length == "h" ? static_cast<uint16_t>(value) : value;
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
      case 'a': case 'A': case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        append(text, one + conversion, std::bit_cast<double>(next(8)));
        break;
      case '%': text += '%'; break;
      default: text += one + length + conversion;
    }
  }
  return text;
}

// int vprintf(const char* format, const void* arguments)
void print(Warp& w, const Op& op, Lanes active) {
  for (; active; active &= active - 1) {
    const Reader from{w, op, static_cast<unsigned>(std::countr_zero(active))};
    int count = 0;
    const std::string text = formatted(from, from.text(from.argument(0, 8)), from.argument(1, 8), count);
    {
      const std::lock_guard lock(output().mutex);
      output().text += text;
    }
    if (op.to < 0) continue;
    const uint64_t result = w.rows[op.to].lane[from.lane];
    const Place place = locate(w, op, from.lane, ptx::Space::local, result, 4, memory::writable);
    store(place.bytes, 4, static_cast<uint32_t>(count));
  }
}

// void __assertfail(const char* condition, const char* file, unsigned line, const char* function, size_t char_size)
void fail_assertion(Warp& w, const Op& op, Lanes active) {
  const Dimensions& block = w.block->index;
  const auto first = static_cast<unsigned>(std::countr_zero(active));
  std::string condition;
  for (; active; active &= active - 1) {
    const Reader from{w, op, static_cast<unsigned>(std::countr_zero(active))};
    const Dimensions thread = thread_index(w, from.lane);
    condition = from.text(from.argument(0, 8));
    std::fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                 from.text(from.argument(1, 8)).c_str(), static_cast<unsigned>(from.argument(2, 4)),
                 from.text(from.argument(3, 8)).c_str(), block.x, block.y, block.z, thread.x, thread.y,
                 thread.z, condition.c_str());
  }
  fault(w, op, first, CUDA_ERROR_ASSERT, "assertion `" + condition + "` failed");
}

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
  const bool prints = function == "vprintf";
  if (!prints && function != "__assertfail") return false;
  const std::vector<ptx::Operand>* results = nullptr;
  const std::vector<ptx::Operand>* arguments = nullptr;
  for (const ptx::Operand& operand : i.operands)
    if (operand.kind == ptx::Operand::list) (&operand == &i.operands[0] ? results : arguments) = &operand.elements;
  if (!arguments || arguments->size() != (prints ? 2 : 5)) return false;
  const auto place = [&](const ptx::Operand& operand) { return l.constant(l.place(operand.name).address); };
  std::array<int, 8> rows = {};
  for (size_t k = 0; k < arguments->size(); ++k) rows[k] = place((*arguments)[k]);
  const int to = results && !results->empty() ? place(results->front()) : -1;
  l.emit(prints ? print : fail_assertion, i, to).rows = rows;
  return true;
}

}  // namespace gpu
