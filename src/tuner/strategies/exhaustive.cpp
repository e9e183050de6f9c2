// Every point once, in order of its id: complete, and the default for spaces of up to 64 points.
// Read next: tuner/strategy.hpp.
#include "tuner/strategy.hpp"

namespace dlblas {
namespace {

class Exhaustive : public Strategy {
 public:
  explicit Exhaustive(const SearchSpace& space) : done_(space.points.size(), false) {}

  std::vector<int> ask(int count) override {
    std::vector<int> ids;
    for (; next_ < done_.size() && static_cast<int>(ids.size()) < count; ++next_)
      if (!done_[next_]) ids.push_back(static_cast<int>(next_));
    return ids;
  }
  void tell(int id, double) override { done_[static_cast<std::size_t>(id)] = true; }

 private:
  std::vector<bool> done_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space, std::uint64_t) {
  return std::make_unique<Exhaustive>(space);
}

}  // namespace dlblas
