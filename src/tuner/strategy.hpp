// How a search explores its space: ask for points, tell their times. Each strategy is one small
// file under strategies/; a table finds it by name, and users' own register there as well. The
// implementation is the root categorical: a point is an (implementation, configuration) pair, and
// one search runs over all of them. Flow: race asks and tells.  Read next:
// tuner/strategies/random.cpp (the shortest).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/implementation.hpp"

namespace dlblas {

struct Point {
  const Implementation* implementation = nullptr;
  Config config;
};

/// The search space: every valid point, implementations in registry order, configurations in the
/// order of their space. An id is an index here.
struct SearchSpace {
  std::vector<Point> points;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Up to `count` ids never told before; fewer, or none, when the strategy is done.
  virtual std::vector<int> ask(int count) = 0;
  /// The time of a point, requested or not (defaults come first, unrequested); below 0: it failed.
  virtual void tell(int id, double milliseconds) = 0;
};

/// `space` outlives the strategy. The same seed and the same answers give the same points.
using StrategyFactory = std::unique_ptr<Strategy> (*)(const SearchSpace& space, std::uint64_t seed);

/// Replaces an earlier strategy of that name.
void register_strategy(std::string_view name, StrategyFactory factory);
/// Throws Error(kArgument) listing the known names.
std::unique_ptr<Strategy> make_strategy(std::string_view name, const SearchSpace& space,
                                        std::uint64_t seed);
/// "exhaustive" up to 64 points, else "random".
std::string_view default_strategy(const SearchSpace& space);

// strategies/
std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed);

}  // namespace dlblas
