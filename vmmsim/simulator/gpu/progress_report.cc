// SPDX-License-Identifier: MIT-0
#include "progress_report.h"
#include <cassert>
#include <map>
#include "../../trace/text.h"
#include "../memory/this_machine.h"

namespace gpu {

std::shared_ptr<Pace> Pace::kernel(const std::string& name) {
  static auto& all = *new std::map<std::string, std::shared_ptr<Pace>>;
  std::shared_ptr<Pace>& pace = all[name];
  if (!pace) pace = std::make_shared<Pace>(name);
  return pace;
}

void Pace::begun() {
  if (running_ == 0) since_ = Clock::now();
  ++running_;
}

std::string Pace::ended(uint64_t blocks_done, uint64_t blocks) {
  assert(running_ > 0);
  const Clock::time_point now = Clock::now();
  taken_ += now - since_;
  since_ = now;
  --running_;
  if (!has_next_line_) next_line_ = std::chrono::seconds(memory::options().slow_after);
  has_next_line_ = true;
  const bool is_one_of_many = launches_ > 1 && 2 * (taken_ - before_) < taken_;
  if (taken_ < next_line_ || (blocks_done == blocks && !is_one_of_many)) return "";
  next_line_ = 6 * taken_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(taken_).count();
  const std::string where = " in " + std::to_string(launches_) + " launches, each of them a short part of that",
                    how_far = ": of launch " + std::to_string(launches_) + " " + std::to_string(blocks_done) + " of " +
                              std::to_string(blocks) + " blocks are done";
  return "vmmsim: kernel " + demangled(name_) + " has run for " + std::to_string(seconds) + " s" +
         (is_one_of_many ? where : how_far) +
         ". Kernels are interpreted here, thousands of times slower than on a GPU: give the program a "
         "smaller grid or problem, or, if it fills its GPU's memory, vmmsim a smaller one, for instance "
         "--memory 256MiB\n";
}

}  // namespace gpu
