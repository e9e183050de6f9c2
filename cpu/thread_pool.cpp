// See thread_pool.hpp. Each thread has a share of the range, the same in every region of that size,
// so that it finds in its cache what it wrote in the step before. A thread that is done takes
// chunks of other shares, so one slowed by a neighbour does less (4 chunks per thread).
#include "cpu/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "core/fork.hpp"

namespace dlblas {
namespace {

constexpr int kSpins =
    1000;  // about 10 µs of `pause`: longer than the gap between two steps of a model
constexpr int kChunksPerThread = 4;
constexpr std::int64_t kMaxShares = 64;  // more threads begin in the shares of others

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Pool {
  static constexpr std::uint32_t kClosed = 1u << 31;
  static constexpr std::uint64_t kHelpers =
      0xffff;  // low bits of a ticket: helpers asked for; above: region number

 public:
  void run(int threads, std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFn fn,
           void* ctx) {
    const std::int64_t range = end - begin;
    const std::int64_t most =
        std::min<std::int64_t>((range - 1) / grain + 1, std::int64_t{threads} * kChunksPerThread);
    // A flag, not a mutex: a nested region tests it on the thread that holds it.
    if (most <= 1 || threads <= 1 || busy_.exchange(true, std::memory_order_acquire))
      return fn(begin, end, ctx);
    grow(std::min<std::int64_t>(threads, most) - 1);
    fn_ = fn, ctx_ = ctx, begin_ = begin, end_ = end;
    chunk_ = std::max(grain, (range - 1) / most + 1);
    const std::int64_t chunks = (range - 1) / chunk_ + 1;
    shares_ = std::min<std::int64_t>({threads, chunks, kMaxShares});
    for (std::int64_t i = 0; i < shares_; ++i) {
      share_[i].next.store(chunks * i / shares_, std::memory_order_relaxed);
      share_[i].end = chunks * (i + 1) / shares_;
    }
    left_.store(0, std::memory_order_relaxed);
    entered_.store(0, std::memory_order_release);  // opens the region: publishes the fields above
    const auto helpers = std::min<std::uint64_t>(threads - 1, workers_);
    ticket_.store((ticket_.load(std::memory_order_relaxed) & ~kHelpers) + (kHelpers + 1) + helpers,
                  std::memory_order_release);
    ticket_.notify_all();
    work(0);
    // Closed once the work is handed out: nothing waits on a worker that wakes up late.
    const std::uint32_t inside = entered_.fetch_or(kClosed, std::memory_order_acq_rel);
    for (int spin = 0; left_.load(std::memory_order_acquire) != inside; ++spin) {
      if (spin < kSpins)
        relax();
      else
        std::this_thread::yield();
    }
    busy_.store(false, std::memory_order_release);
  }

 private:
  // If the system gives no more threads, the existing ones do the work.
  void grow(std::int64_t wanted) {
    for (; static_cast<std::int64_t>(workers_) < wanted; ++workers_) {
      const std::uint64_t index = workers_;
      try {
        std::thread([this, index, seen = ticket_.load(std::memory_order_relaxed)] {
          serve(index, seen);
        }).detach();
      } catch (const std::system_error&) {
        return;
      }
    }
  }

  [[noreturn]] void serve(std::uint64_t index, std::uint64_t seen) {
    for (;;) {
      std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
      for (int spin = 0; ticket == seen && spin < kSpins; ++spin) {
        relax();
        ticket = ticket_.load(std::memory_order_acquire);
      }
      if (ticket == seen) {
        ticket_.wait(seen, std::memory_order_acquire);
        continue;
      }
      seen = ticket;
      if (index >= (ticket & kHelpers)) continue;  // this region asked for fewer threads
      if (entered_.fetch_add(1, std::memory_order_acq_rel) & kClosed) continue;
      work(static_cast<std::int64_t>(index) + 1);
      left_.fetch_add(1, std::memory_order_release);
    }
  }

  /// Chunks of the thread's own share, then of those behind it.
  void work(std::int64_t thread) {
    for (std::int64_t i = 0; i < shares_; ++i) {
      Share& share = share_[(thread + i) % shares_];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const std::int64_t at = share.next.fetch_add(1, std::memory_order_relaxed);
        if (at >= share.end) break;
        const std::int64_t from = begin_ + at * chunk_;
        fn_(from, std::min(from + chunk_, end_), ctx_);
      }
    }
  }

  struct alignas(64) Share {  // chunks
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };

  std::atomic<bool> busy_{false};  // a region is open; guards the plain fields
  std::uint64_t workers_ = 0;
  RangeFn fn_ = nullptr;
  void* ctx_ = nullptr;
  std::int64_t begin_ = 0, end_ = 0, chunk_ = 1;
  std::int64_t shares_ = 0;
  Share share_[kMaxShares] = {};
  alignas(64) std::atomic<std::uint32_t> entered_{kClosed};  // workers inside the open region
  std::atomic<std::uint32_t> left_{0};                       // of those, how many are done
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
};

Pool& pool() {
  static Pool* p = new Pool;  // leaks on purpose: workers outlive static destructors
  return *p;
}

}  // namespace

void pool_parallel_for(int threads, std::int64_t begin, std::int64_t end, std::int64_t grain,
                       RangeFn fn, void* ctx) {
  if (begin >= end) return;
  if (forked()) return fn(begin, end, ctx);  // workers did not survive the fork
  pool().run(threads, begin, end, std::max<std::int64_t>(grain, 1), fn, ctx);
}

}  // namespace dlblas
