// Points in a seeded random order, none twice. The implementation is drawn first, then one of its
// configurations: an implementation with 500 configurations must not drown one with 3.
// Read next: tuner/strategy.hpp.
#include <algorithm>

#include "tuner/strategy.hpp"

namespace dlblas {
namespace {

class Random : public Strategy {
 public:
  Random(const SearchSpace& space, std::uint64_t seed)
      : done_(space.points.size(), false), state_(seed) {
    for (std::size_t id = 0; id < space.points.size(); ++id) {
      const bool first =
          id == 0 || space.points[id].implementation != space.points[id - 1].implementation;
      if (first) decks_.emplace_back();
      decks_.back().push_back(static_cast<int>(id));
    }
    // std::shuffle's order is the library's own: ours must not change with it.
    for (std::vector<int>& deck : decks_)
      for (std::size_t i = deck.size(); i > 1; --i) std::swap(deck[i - 1], deck[draw(i)]);
  }

  std::vector<int> ask(int count) override {
    std::vector<int> ids;
    while (static_cast<int>(ids.size()) < count && !decks_.empty()) {
      const std::size_t d = draw(decks_.size());
      const int id = decks_[d].back();
      decks_[d].pop_back();
      if (decks_[d].empty()) decks_.erase(decks_.begin() + static_cast<std::ptrdiff_t>(d));
      if (!done_[static_cast<std::size_t>(id)]) ids.push_back(id);
    }
    return ids;
  }
  void tell(int id, double) override { done_[static_cast<std::size_t>(id)] = true; }

 private:
  std::size_t draw(std::size_t n) {  // splitmix64
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return static_cast<std::size_t>((x ^ (x >> 31)) % n);
  }

  std::vector<bool> done_;
  std::vector<std::vector<int>> decks_;  // one an implementation, drawn from the back
  std::uint64_t state_;
};

}  // namespace

std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed) {
  return std::make_unique<Random>(space, seed);
}

}  // namespace dlblas
