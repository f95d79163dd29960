// SPDX-License-Identifier: MIT-0
// Random calls of the driver, right and wrong ones, one line each:
//
//   random_calls [--batch N] [--jobs N] [--seconds N] SEED COUNT [KIND...]
//
// The same calls on every machine. Each batch of calls is made by a process of its own, with new objects, so a call
// that ends its process or breaks its context costs one batch. Two batches in three are mostly of two kinds.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "world.h"

namespace {
struct Settings {
  std::uint64_t seed = 1;
  std::size_t count = 0, batch = 100, jobs = 4;
  unsigned seconds = 20;
  std::vector<std::string> kinds;  // all, if none is named
};

Makers all_makers(const Settings& settings) {
  Makers all;
  for (auto makers :
       {stream_makers, event_makers, capture_makers, graph_makers, node_makers, exec_makers, memory_node_makers,
        pool_makers, host_makers, managed_makers, batch_makers, module_makers, launch_makers, occupancy_makers}) {
    for (const Maker& maker : makers()) {
      const auto& wanted = settings.kinds;
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), maker.kind) != wanted.end()) all.push_back(maker);
    }
  }
  return all;
}

std::vector<std::string> kinds_of(const Makers& makers) {
  std::vector<std::string> kinds;
  for (const Maker& maker : makers) {
    if (kinds.empty() || kinds.back() != maker.kind) kinds.push_back(maker.kind);
  }
  return kinds;
}

const Maker& maker_of(const Makers& makers, const std::string& kind, Random& random) {
  std::size_t sum = 0;
  for (const Maker& maker : makers) sum += maker.kind == kind ? maker.weight : 0;
  std::size_t at = random.below(sum);
  for (const Maker& maker : makers) {
    if (maker.kind != kind) continue;
    if (at < maker.weight) return maker;
    at -= maker.weight;
  }
  std::abort();
}

void run_batch(const Settings& settings, std::size_t batch) {
  const Makers makers = all_makers(settings);
  const std::vector<std::string> kinds = kinds_of(makers);
  Random themes(settings.seed * 1000003 + batch);
  const std::string theme[] = {kinds[themes.below(kinds.size())], kinds[themes.below(kinds.size())]};
  const bool has_theme = themes.percent(67);
  set_up();
  const std::size_t end = std::min(settings.count, (batch + 1) * settings.batch);
  for (std::size_t i = batch * settings.batch; i < end && !ended_for_good; ++i) {
    Random random((settings.seed << 40) + i);
    const bool on_theme = has_theme && random.percent(70);
    const std::string kind = on_theme ? theme[random.below(2)] : kinds[random.below(kinds.size())];
    tell(kind + " " + std::to_string(i) + " ");
    maker_of(makers, kind, random).make(random);
    tell("\n");
  }
}

struct Child {
  pid_t process;
  std::FILE* output;
};

Child start(const Settings& settings, std::size_t batch) {
  std::FILE* output = std::tmpfile();
  std::fflush(stdout);
  const pid_t process = output ? fork() : -1;
  if (process < 0) std::perror("random_calls: cannot start a batch"), std::exit(1);
  if (process == 0) {
    alarm(settings.seconds);
    dup2(fileno(output), STDOUT_FILENO);
    run_batch(settings, batch);
    std::fflush(stdout);
    _exit(ended_for_good ? 3 : 0);
  }
  return {process, output};
}

// Prints what the child wrote, and how it ended. Returns whether it ended as it should.
bool finish(const Child& child, std::size_t batch) {
  int status = 0;
  waitpid(child.process, &status, 0);
  std::rewind(child.output);
  char buffer[65536], last = '\n';
  while (const std::size_t size = std::fread(buffer, 1, sizeof buffer, child.output)) {
    std::fwrite(buffer, 1, size, stdout);
    last = buffer[size - 1];
  }
  std::fclose(child.output);
  std::printf("%sbatch %zu ended: %s %d\n", last == '\n' ? "" : "\n", batch, WIFSIGNALED(status) ? "signal" : "exit",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return status == 0;
}

Settings settings_of(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> words;
  const std::map<std::string, std::size_t*> options = {{"--batch", &settings.batch}, {"--jobs", &settings.jobs}};
  for (int i = 1; i < argc; ++i) {
    if (options.count(argv[i]) && i + 1 < argc) {
      const char* option = argv[i];
      *options.at(option) = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      settings.seconds = unsigned(std::strtoul(argv[++i], nullptr, 10));
    } else {
      words.push_back(argv[i]);
    }
  }
  if (words.size() < 2 || settings.batch == 0 || settings.jobs == 0) {
    std::fprintf(stderr, "usage: random_calls [--batch N] [--jobs N] [--seconds N] SEED COUNT [KIND...]\n");
    std::exit(2);
  }
  settings.seed = std::strtoull(words[0].c_str(), nullptr, 10);
  settings.count = std::strtoull(words[1].c_str(), nullptr, 10);
  settings.kinds.assign(words.begin() + 2, words.end());
  const std::vector<std::string> known = kinds_of(all_makers({}));
  for (const std::string& kind : settings.kinds) {
    if (std::find(known.begin(), known.end(), kind) == known.end()) {
      std::fprintf(stderr, "random_calls: no kind %s; there are:", kind.c_str());
      for (const std::string& name : known) std::fprintf(stderr, " %s", name.c_str());
      std::fprintf(stderr, "\n");
      std::exit(2);
    }
  }
  return settings;
}
}  // namespace

int main(int argc, char** argv) {
  const Settings settings = settings_of(argc, argv);
  const std::size_t batches = (settings.count + settings.batch - 1) / settings.batch;
  std::map<std::size_t, Child> running;
  std::size_t started = 0;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    for (; started < batches && started < batch + settings.jobs; ++started) {
      running[started] = start(settings, started);
    }
    finish(running.at(batch), batch);
    running.erase(batch);
  }
}
