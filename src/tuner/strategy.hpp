// How a search goes about its space: ask for points, tell what they took. One small file each under
// strategies/; a name in a table finds them, and a user's own registers there as well.
// The implementation is the root categorical: a point is an (implementation, configuration) pair,
// and one search runs over all of them. Flow: race asks and tells.  Read next:
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

/// What is searched: every valid point, implementations in registry order, configurations in the
/// order of their space. An id is an index here.
struct SearchSpace {
  std::vector<Point> points;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Up to `count` ids never told before; fewer, or none, when the strategy has had enough.
  virtual std::vector<int> ask(int count) = 0;
  /// The time of a point, asked for or not (defaults come first, unasked); below 0: it failed.
  virtual void tell(int id, double milliseconds) = 0;
};

/// `space` outlives the strategy. The same seed and the same answers give the same questions.
using StrategyFactory = std::unique_ptr<Strategy> (*)(const SearchSpace& space, std::uint64_t seed);

/// Replaces an earlier one of that name.
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
