// SPDX-License-Identifier: MIT-0
#include "leaks.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../../trace/text.h"
#include "../lasting.h"
#include "../memory/this_machine.h"
#include "../mutex.h"
#include "callers.h"
#include "driver.h"
#include "graph_memory.h"

namespace driver {
namespace {

using memory::Leak;

// The stacks from which something was made that may be left, each once.
struct Stacks {
  Mutex lock;
  std::map<Callers, unsigned> numbers GUARDED_BY(lock);  // from 1 on
};
Stacks& stacks() { return lasting<Stacks>(); }

unsigned number_of(const memory::Maker& maker) { return maker.place ? maker.place->load() : 0; }

// In words, by their numbers; of places where nothing is left that anybody has made, "".
std::vector<std::string> places_of(const std::vector<Leak>& leaks) {
  std::set<unsigned> used;
  for (const Leak& leak : leaks) used.insert(number_of(leak.made_by));
  const MutexLock held(stacks().lock);
  std::vector<Callers> all(stacks().numbers.size() + 1);
  for (const auto& [stack, number] : stacks().numbers)
    if (used.contains(number)) all[number] = stack;
  return driver::places_of(all);
}

struct Terms {
  const char *singular, *plural, *given_back;
};
Terms terms_of(Leak::Kind kind) {
  switch (kind) {
    case Leak::handle: return {"handle", "handles", "cuMemRelease"};
    case Leak::multicast_object: return {"multicast object", "multicast objects", "cuMemRelease"};
    case Leak::mapping: return {"mapping", "mappings", "cuMemUnmap"};
    case Leak::reservation: return {"reservation", "reservations", "cuMemAddressFree"};
    case Leak::allocation: return {"allocation", "allocations", "free it"};
    case Leak::registration: return {"registration", "registrations", "cudaHostUnregister"};
    case Leak::descriptor: return {"descriptor", "descriptors", "close"};
    default: return {"dma-buf", "dma-bufs", "close"};
  }
}

std::string counted(unsigned count, const char* singular, const char* plural) {
  return std::to_string(count) + " " + (count == 1 ? singular : plural);
}

// How many of something, and how large they are together; `size` is that of each, or 0 if they differ.
struct Sum {
  unsigned count = 0, more = 0;
  uint64_t all = 0, size = 0;
  void add(const Leak& leak) {
    size = !count || size == leak.size ? leak.size : 0;
    all += leak.size;
    more += leak.more;
    ++count;
  }
};

std::string name_of_call(const memory::Maker& maker) { return maker.call.substr(0, maker.call.find(" #")); }

// What leaks at one place is one line: of one kind, memory of one owner, made by one call, and whether it is memory
// that a graph allocates and frees, which lasts as long as the graph.
using Row = std::tuple<Leak::Kind, std::string, std::string, std::string, bool>;

std::string line_of(const Row& row, const Sum& sum) {
  const auto& [kind, place, call, owner, is_of_graph] = row;
  const auto [singular, plural, given_back] = terms_of(kind);
  std::string line =
      sum.count == 1 ? singular : counted(sum.count, singular, plural) + (sum.size ? ", each" : ", together");
  const bool is_of_pool = kind == Leak::descriptor && !sum.all;
  line += is_of_pool ? " of a memory pool" : " of " + size_text(sum.size ? sum.size : sum.all);
  if (!owner.empty()) line += " of " + owner;
  line += call.empty() ? ", received or inherited" : ", made by " + call;
  if (!place.empty()) line += " " + place;
  if (kind == Leak::handle && sum.more > sum.count) line += ", with " + std::to_string(sum.more) + " references";
  const bool is_bound = kind == Leak::multicast_object && sum.more;
  if (is_bound) line += ", with " + counted(sum.more, "binding", "bindings");
  if (is_of_graph) return line + ", a graph's own (cuGraphDestroy, cuGraphExecDestroy)";
  return line + " (" + (is_bound ? "cuMulticastUnbind, " : "") + given_back + ")";
}

// Memory by who has it; then what holds none.
std::string line_of_all(const memory::Leaks& leaks) {
  std::string line = counted(unsigned(leaks.all.size()), "leak", "leaks");
  for (const auto& [owner, bytes] : leaks.held) line += ", " + size_text(bytes) + " of " + owner;
  std::map<std::string, uint64_t> ordinary;
  std::map<Leak::Kind, Sum> sums;
  for (const Leak& leak : leaks.all) {
    if (leak.kind == Leak::allocation) ordinary[leak.owner + " by " + name_of_call(leak.made_by)] += leak.size;
    else if (leak.kind != Leak::handle && leak.kind != Leak::mapping) sums[leak.kind].add(leak);
  }
  for (const auto& [whose, bytes] : ordinary) line += ", " + size_text(bytes) + " of " + whose;
  for (const auto& [kind, sum] : sums) {
    const auto [singular, plural, given_back] = terms_of(kind);
    line += ", " + counted(sum.count, singular, plural);
    if (kind == Leak::reservation || kind == Leak::registration) line += " of " + size_text(sum.all);
  }
  return line;
}

}  // namespace

void note_place() {
  const memory::Place place = std::exchange(memory::caller().place, nullptr);
  if (!place) return;
  Callers here = callers();  // without a lock: the loader has one, too
  const MutexLock held(stacks().lock);
  auto& numbers = stacks().numbers;
  *place = numbers.try_emplace(std::move(here), unsigned(numbers.size() + 1)).first->second;
}

void log_leaks() {
  const memory::Leaks leaks = memory::leaks();
  if (leaks.all.empty()) return;
  const std::vector<std::string> places = places_of(leaks.all);
  std::map<Row, Sum> rows;
  for (const Leak& leak : leaks.all) {
    const bool is_of_graph = leak.kind == Leak::allocation && awaits_launch(leak.address);
    rows[{leak.kind, places[number_of(leak.made_by)], name_of_call(leak.made_by), leak.owner, is_of_graph}].add(leak);
  }
  for (const auto& [row, sum] : rows) log("leak: " + line_of(row, sum));
  log(line_of_all(leaks));
}

}  // namespace driver
