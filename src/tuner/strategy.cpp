// The table of strategies; see strategy.hpp.
#include "tuner/strategy.hpp"

#include <map>
#include <mutex>

#include "core/error.hpp"
#include "core/spelling.hpp"

namespace dlblas {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, StrategyFactory, std::less<>> factories{{"exhaustive", make_exhaustive},
                                                                {"random", make_random}};
};
Table& table() {
  static auto* t = new Table;  // lives as long as the process: tuning may run in exit handlers
  return *t;
}

}  // namespace

void register_strategy(std::string_view name, StrategyFactory factory) {
  std::lock_guard lock(table().mutex);
  table().factories.insert_or_assign(std::string(name), factory);
}

std::unique_ptr<Strategy> make_strategy(std::string_view name, const SearchSpace& space,
                                        std::uint64_t seed) {
  StrategyFactory factory = nullptr;
  std::string known, hint;
  {
    std::lock_guard lock(table().mutex);
    std::vector<std::string_view> names;
    for (const auto& [key, value] : table().factories) {
      known += text(known.empty() ? "" : ", ", key);
      names.push_back(key);
      if (key == name) factory = value;
    }
    hint = did_you_mean(name, names);
  }
  if (!factory)
    throw Error(ErrorKind::kArgument,
                text("tune: strategy is unknown; expected one of ", known, ", got ", name, hint),
                {"tune", "strategy", known, std::string(name)});
  return factory(space, seed);
}

std::string_view default_strategy(const SearchSpace& space) {
  constexpr std::size_t kExhaustiveLimit = 64;
  return space.points.size() <= kExhaustiveLimit ? "exhaustive" : "random";
}

}  // namespace dlblas
