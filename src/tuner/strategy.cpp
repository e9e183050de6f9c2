// The table of strategies; see strategy.hpp.
#include "tuner/strategy.hpp"

#include <map>
#include <mutex>

#include "core/error.hpp"

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
  std::string known;
  {
    std::lock_guard lock(table().mutex);
    for (const auto& [key, value] : table().factories) {
      known += text(known.empty() ? "" : ", ", key);
      if (key == name) factory = value;
    }
  }
  if (!factory)
    throw Error(ErrorKind::kArgument,
                text("tune: strategy is unknown; expected one of ", known, ", got ", name),
                {"tune", "strategy", known, std::string(name)});
  return factory(space, seed);
}

std::string_view default_strategy(const SearchSpace& space) {
  constexpr std::size_t kExhaustiveLimit = 64;
  return space.points.size() <= kExhaustiveLimit ? "exhaustive" : "random";
}

}  // namespace dlblas
