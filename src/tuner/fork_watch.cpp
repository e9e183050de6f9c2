// See fork_watch.hpp.
#include "tuner/fork_watch.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>

#include "core/fork.hpp"

namespace dlblas {

// One page. A candidate reported twice takes two places; reports beyond the last place are dropped.
struct ForkWatch::Seen {
  std::atomic<std::uint32_t> count{0};
  std::atomic<const void*> candidates[500] = {};
};

ForkWatch::ForkWatch() : generation_(generation()), forks_(num_forks()) {
  void* const page =
      mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  seen_ = page == MAP_FAILED ? nullptr : new (page) Seen;
}

ForkWatch::~ForkWatch() {
  if (seen_) munmap(seen_, sizeof(Seen));
}

std::uint64_t ForkWatch::generation() { return fork_generation(); }

// Runs no cleanup: everything in the process belongs to the parent.
void ForkWatch::leave(const void* candidate) const {
  if (seen_) {
    const std::uint32_t at = seen_->count.fetch_add(1, std::memory_order_relaxed);
    if (at < std::size(seen_->candidates))
      seen_->candidates[at].store(candidate, std::memory_order_relaxed);
  }
  _exit(0);
}

bool ForkWatch::is_told(const void* candidate) const {
  if (!seen_) return false;
  const std::uint32_t count = std::min<std::uint32_t>(seen_->count.load(std::memory_order_relaxed),
                                                      std::size(seen_->candidates));
  return std::find(seen_->candidates, seen_->candidates + count, candidate) !=
         seen_->candidates + count;
}

bool ForkWatch::came_back(const void* candidate) {
  constexpr int kWaits = 200, kWaitMicroseconds = 500;
  const std::int64_t forks = num_forks();
  if (forks == forks_) return is_told(candidate);
  forks_ = forks;
  for (int i = 0; i < kWaits && !is_told(candidate); ++i) usleep(kWaitMicroseconds);
  return is_told(candidate);
}

}  // namespace dlblas
