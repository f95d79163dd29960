// SPDX-License-Identifier: MIT-0
// Reads what a machine is from a file.
#include "machine.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include "page_table.h"

namespace memory {
namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == text.npos ? "" : text.substr(begin, end - begin + 1);
}

int read_number(const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw std::runtime_error("\"" + text + "\" is not a number from " + std::to_string(least) + " to " +
                             std::to_string(most));
  return value;
}

// "9.0" -> 90 with a factor of 10.
int read_version(const std::string& text, int factor, int step) {
  const size_t dot = text.find('.');
  if (dot == text.npos) throw std::runtime_error("\"" + text + "\" is not a version like \"9.0\"");
  return read_number(text.substr(0, dot), 1, 99) * factor + read_number(text.substr(dot + 1), 0, 9) * step;
}

bool read_choice(const std::string& text) {
  if (text != "yes" && text != "no") throw std::runtime_error("\"" + text + "\" is neither \"yes\" nor \"no\"");
  return text == "yes";
}

using Keys = std::map<std::string, std::function<void(const std::string&)>>;  // what reads the value of each

Keys keys_of(Machine& machine) {
  Keys keys = {
      {"name",
       [&](const std::string& text) {
         if (text.empty() || text.size() >= sizeof machine.name)
           throw std::runtime_error("a name has 1 to 63 characters");
         machine.name[text.copy(machine.name, sizeof machine.name - 1)] = 0;
       }},
      {"gpus", [&](const std::string& text) { machine.gpus = read_number(text, 0, 64); }},
      {"nodes", [&](const std::string& text) { machine.nodes = read_number(text, 1, 16); }},
      {"memory",
       [&](const std::string& text) {
         machine.memory = read_size(text);
         if (!machine.memory) throw std::runtime_error("a GPU has 2 MiB of memory at least");
       }},
      {"compute_capability", [&](const std::string& text) { machine.capability = read_version(text, 10, 1); }},
      {"multiprocessors", [&](const std::string& text) { machine.multiprocessors = read_number(text, 1, 1024); }},
      {"driver",
       [&](const std::string& text) {
         machine.driver = read_version(text, 1000, 10);
         if (machine.driver < 12040 || machine.driver > 13050) throw std::runtime_error("a driver is 12.4 to 13.5");
       }},
      {"cliques", [&](const std::string& text) { machine.cliques = read_number(text, 1, 64); }},
      {"multicast_slots", [&](const std::string& text) { machine.multicast_slots = read_number(text, 0, 1 << 20); }},
      {"most_peers", [&](const std::string& text) { machine.most_peers = read_number(text, 0, 64); }},
      {"bar1", [&](const std::string& text) { machine.bar1 = read_bytes(text); }},
      {"largest_reservation", [&](const std::string& text) { machine.largest_reservation = read_bytes(text); }}};
  for (auto [key, value] :
       {std::pair("granularity", &machine.granularity), {"multicast_granularity", &machine.multicast_granularity}})
    keys[key] = [value = value](const std::string& text) {
      *value = read_bytes(text);
      if (!std::has_single_bit(*value) || *value < page_size)
        throw std::runtime_error("a granularity is a power of two, 2 MiB at least");
    };
  for (auto [key, value] : {std::pair("vmm", &machine.vmm),
                            {"fd_handles", &machine.fd_handles},
                            {"fabric_handles", &machine.fabric_handles},
                            {"fabric_channel", &machine.fabric_channel},
                            {"multicast", &machine.multicast},
                            {"rdma", &machine.rdma},
                            {"compression", &machine.compression},
                            {"peer_access", &machine.peer_access},
                            {"peer_atomics", &machine.peer_atomics},
                            {"fabric_ready", &machine.fabric_ready},
                            {"fabric_in_sync", &machine.fabric_in_sync},
                            {"pool_fds", &machine.pool_fds},
                            {"one_way_peers", &machine.one_way_peers}})
    keys[key] = [value = value](const std::string& text) { *value = read_choice(text); };
  return keys;
}

}  // namespace

uint64_t read_bytes(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit = trimmed(std::string(end, text.data() + text.size()));
  const char* const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
  for (unsigned i = 0; i < std::size(units); ++i)
    if (error == std::errc() && unit == units[i] && value <= (uint64_t(1) << 50) >> 10 * i) return value << 10 * i;
  throw std::runtime_error("\"" + text +
                           "\" is not a size like \"141 GiB\", \"512 MiB\" or \"2097152\", at most 1024 TiB");
}

uint64_t read_size(const std::string& text) { return read_bytes(text) / page_size * page_size; }

Machine read_machine(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file + ": cannot be read");
  Machine machine;
  Keys keys = keys_of(machine);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string key = trimmed(line.substr(0, equals)),
                      where = file + ":" + std::to_string(number) + ": " + key + ": ";
    if (equals == line.npos) throw std::runtime_error(where + "a line is \"key = value\"");
    const auto read = keys.find(key);
    if (read == keys.end()) throw std::runtime_error(where + "there is no such key");
    if (!read->second) throw std::runtime_error(where + "this key stands here twice");
    try {
      read->second(trimmed(line.substr(equals + 1)));
    } catch (const std::exception& error) {
      throw std::runtime_error(where + error.what());
    }
    read->second = nullptr;
  }
  if (machine.gpus && !machine.memory) throw std::runtime_error(file + ": memory: how much has a GPU?");
  return machine;
}

}  // namespace memory
