// Points in a seeded random order, none twice. The implementation is drawn first, then one of its
// configurations: an implementation with 500 configurations must not drown one with 3. One whose
// best takes over twice the best time so far is drawn an eighth as often: its default was tried,
// and the baseline kernel will not overtake AVX-512. Read next: tuner/strategy.hpp.
#include <algorithm>

#include "tuner/strategy.hpp"

namespace dlblas {
namespace {

class Random : public Strategy {
 public:
  Random(const SearchSpace& space, std::uint64_t seed)
      : points_(space.points), done_(space.points.size(), false), state_(seed) {
    for (std::size_t id = 0; id < space.points.size(); ++id) {
      const bool first =
          id == 0 || space.points[id].implementation != space.points[id - 1].implementation;
      if (first) decks_.push_back({space.points[id].implementation, {}, -1});
      decks_.back().ids.push_back(static_cast<int>(id));
    }
    // std::shuffle's order depends on the standard library: ours must not.
    for (Deck& deck : decks_)
      for (std::size_t i = deck.ids.size(); i > 1; --i)
        std::swap(deck.ids[i - 1], deck.ids[draw(i)]);
  }

  std::vector<int> ask(int count) override {
    std::vector<int> ids;
    while (static_cast<int>(ids.size()) < count && !decks_.empty()) {
      const std::size_t d = draw(decks_.size());
      std::vector<int>& left = decks_[d].ids;
      const bool far_behind = best_ms_ > 0 && decks_[d].best_ms > 2 * best_ms_;
      if (far_behind && decks_.size() > 1 && draw(8) != 0) continue;
      const int id = left.back();
      left.pop_back();
      if (left.empty()) decks_.erase(decks_.begin() + static_cast<std::ptrdiff_t>(d));
      if (!done_[static_cast<std::size_t>(id)]) ids.push_back(id);
    }
    return ids;
  }
  void tell(int id, double milliseconds) override {
    done_[static_cast<std::size_t>(id)] = true;
    if (milliseconds < 0) return;
    const auto keep = [milliseconds](double& best) {
      if (best < 0 || milliseconds < best) best = milliseconds;
    };
    keep(best_ms_);
    for (Deck& deck : decks_)
      if (deck.implementation == points_[static_cast<std::size_t>(id)].implementation)
        keep(deck.best_ms);
  }

 private:
  std::size_t draw(std::size_t n) {  // splitmix64
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return static_cast<std::size_t>((x ^ (x >> 31)) % n);
  }

  struct Deck {
    const Implementation* implementation;
    std::vector<int> ids;  // shuffled, drawn from the back
    double best_ms;
  };
  const std::vector<Point>& points_;
  std::vector<bool> done_;
  std::vector<Deck> decks_;
  double best_ms_ = -1;
  std::uint64_t state_;
};

}  // namespace

std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed) {
  return std::make_unique<Random>(space, seed);
}

}  // namespace dlblas
