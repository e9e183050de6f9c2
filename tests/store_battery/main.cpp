// Runs the battery on results and cubins and prints how much was tried, lost and wrongly used;
// exits with 1 if any count but the first is not 0. `--sample` tries a part of each, chosen by the
// printed seed; `--json FILE` writes the counts for tools/reliability.py; `--list` names the
// faults. Read next: docs/reliability.md.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/json.hpp"
#include "trial.hpp"

namespace dlblas::battery {
namespace {

struct Options {
  bool sample = false, list = false;
  std::uint64_t seed = 0;
  std::string only, json;
};

/// One line of the table.
struct Row {
  std::string fault, of, asserted;
  Trial trial;
  double seconds;
};

class Run {
 public:
  explicit Run(const Options& options) : options_(options) {}

  template <typename Body>
  void add(const char* name, std::string_view of, const char* asserted, const Body& body) {
    if (std::string(name).find(options_.only) == std::string::npos) return;
    if (options_.list) {
      if (std::exchange(last_, name) != name) std::printf("%s\n", name);
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    // Each fault has its own seed, so it does not depend on which faults run before it or are left
    // out.
    Trial trial(!options_.sample, options_.seed + std::hash<std::string_view>()(name));
    body(trial);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    rows_.push_back({name, std::string(of), asserted, std::move(trial), took.count()});
    print(rows_.back());
  }

  bool good() const {
    bool good = !rows_.empty();
    for (const Row& row : rows_)
      good &= row.trial.num_lost() + row.trial.num_wrong() + row.trial.num_stopped() == 0 &&
              (row.trial.num_tried() > 0 || !row.trial.why_not_here().empty());
    return good;
  }

  void write_json() const {
    if (options_.json.empty()) return;
    JsonWriter w;
    w.open_object().field("seed", static_cast<std::int64_t>(options_.seed));
    w.field("sampled", options_.sample).key("rows").open_array();
    for (const Row& r : rows_) {
      w.open_object().field("fault", r.fault).field("of", r.of).field("asserted", r.asserted);
      w.field("tried", r.trial.num_tried()).field("lost", r.trial.num_lost());
      w.field("wrong", r.trial.num_wrong()).field("stopped", r.trial.num_stopped());
      w.field("not_here", r.trial.why_not_here()).close_object();
    }
    w.close_array().close_object();
    spill(options_.json, w.text());
  }

  std::int64_t total(std::int64_t (Trial::*count)() const) const {
    std::int64_t sum = 0;
    for (const Row& row : rows_) sum += (row.trial.*count)();
    return sum;
  }

 private:
  static void print(const Row& r) {
    std::printf(
        "%-7s %-58s %6lld tried, %lld lost, %lld wrongly used, %lld stopped (%.1f s)%s%s\n",
        r.of.c_str(), r.fault.c_str(), static_cast<long long>(r.trial.num_tried()),
        static_cast<long long>(r.trial.num_lost()), static_cast<long long>(r.trial.num_wrong()),
        static_cast<long long>(r.trial.num_stopped()), r.seconds,
        r.trial.why_not_here().empty() ? "" : "; not tried here: ", r.trial.why_not_here().c_str());
    for (const std::string& line : r.trial.complaints()) std::printf("        %s\n", line.c_str());
    std::fflush(stdout);
  }

  const Options options_;
  std::vector<Row> rows_;
  std::string last_;
};

bool parse(int argc, char** argv, Options* options) {
  options->seed = std::random_device()() % 1000000;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--sample")
      options->sample = true;
    else if (word == "--list")
      options->list = true;
    else if (word == "--seed" && more)
      options->seed = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--only" && more)
      options->only = argv[++i];
    else if (word == "--json" && more)
      options->json = argv[++i];
    else
      return false;
  }
  return true;
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(
        stderr,
        "usage: store_battery [--list] [--sample] [--seed N] [--only TEXT] [--json FILE]\n");
    return 2;
  }
  // The environment is read once per process, and children inherit what was read.
  const Scratch own;
  ::setenv("DLBLAS_CACHE", own.path().c_str(), 1);
  if (::chown(own.path().c_str(), kNobody, kNobody) != 0 && ::geteuid() == 0) return 2;
  ::setenv("DLBLAS_LOG", "off", 0);  // thousands of refusals, each as it should be
  if (!options.list)
    std::printf("seed %llu%s\n", static_cast<unsigned long long>(options.seed),
                options.sample ? ", sampled" : "");
  Run all(options);
  for (const std::vector<Fault>& faults : {damage_faults(), surroundings_faults(), trust_faults(),
                                           death_faults(), disk_faults(), crowd_faults()})
    for (const Fault& f : faults)
      for (const Subject* s : {&kResults, &kCubins})
        if (s == &kResults ? f.results : f.cubins)
          all.add(f.name, s->name, f.asserted, [&](Trial& t) { f.run(t, *s); });
  for (const std::vector<Attack>& attacks : {file_attacks(), folder_attacks(), content_attacks()})
    for (const Attack& a : attacks) all.add(a.name, "attack", "nothing of it is used", a.run);
  if (options.list) return 0;
  std::printf("%lld tried, %lld lost, %lld wrongly used, %lld stopped\n",
              static_cast<long long>(all.total(&Trial::num_tried)),
              static_cast<long long>(all.total(&Trial::num_lost)),
              static_cast<long long>(all.total(&Trial::num_wrong)),
              static_cast<long long>(all.total(&Trial::num_stopped)));
  all.write_json();
  return all.good() ? 0 : 1;
}

}  // namespace
}  // namespace dlblas::battery

int main(int argc, char** argv) { return dlblas::battery::run(argc, argv); }
