// The library's own threads: every index exactly once, chunks no smaller than the grain, nested and
// concurrent regions on the calling thread alone, and a forked child that works without the pool.
// Read next: cpu/thread_pool.hpp.
#include "cpu/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace dlblas {
namespace {

template <typename F>
void each(int threads, std::int64_t begin, std::int64_t end, std::int64_t grain, F&& body) {
  using Body = std::remove_reference_t<F>;
  pool_parallel_for(
      threads, begin, end, grain,
      [](std::int64_t b, std::int64_t e, void* ctx) { (*static_cast<Body*>(ctx))(b, e); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// How often each index of [0, n) was visited. Not atomic: two threads on one index are a data race.
struct Visits {
  std::vector<int> seen;
  explicit Visits(std::int64_t n) : seen(static_cast<std::size_t>(n)) {}
  void operator()(std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  }
  bool all(int times) const {
    for (int n : seen)
      if (n != times) return false;
    return true;
  }
};

TEST(ThreadPool, EveryIndexExactlyOnce) {
  for (int threads : {1, 2, 3, 8})
    for (std::int64_t n : {1, 2, 3, 7, 64, 1000, 1023})
      for (std::int64_t grain : {1, 2, 5, 64, 2000}) {
        Visits visits(n);
        each(threads, 0, n, grain, visits);
        EXPECT_TRUE(visits.all(1)) << threads << " threads, " << n << " by " << grain;
      }
}

TEST(ThreadPool, AnyRangeAndNone) {
  std::atomic<std::int64_t> sum{0};
  const auto add = [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i) sum += i;
  };
  each(4, -50, 51, 3, add);
  EXPECT_EQ(sum, 0);
  each(4, 7, 7, 1, add);
  each(4, 9, 7, 1, add);
  EXPECT_EQ(sum, 0);
  each(4, 10, 20, 0, add);  // a grain below 1 counts as 1
  EXPECT_EQ(sum, 145);
  each(4, 10, 20, std::numeric_limits<std::int64_t>::max(), add);
  EXPECT_EQ(sum, 290);
}

TEST(ThreadPool, ChunksHonourTheGrain) {
  for (std::int64_t n : {9, 10, 100, 101, 1000})
    for (std::int64_t grain : {1, 4, 7, 33, 99}) {
      std::mutex mutex;
      std::set<std::pair<std::int64_t, std::int64_t>> chunks;
      each(4, 0, n, grain, [&](std::int64_t b, std::int64_t e) {
        const std::lock_guard lock(mutex);
        chunks.insert({b, e});
      });
      std::int64_t next = 0;
      for (const auto& [b, e] : chunks) {
        EXPECT_EQ(b, next);
        EXPECT_TRUE(e - b >= grain || e == n) << n << " by " << grain << ": " << b << " to " << e;
        next = e;
      }
      EXPECT_EQ(next, n);
      EXPECT_LE(chunks.size(), 16u);  // four per thread at the most
    }
}

TEST(ThreadPool, OtherThreadsTakePart) {
  // Each of two chunks waits for the other, so a single thread would never finish.
  std::atomic<int> inside{0};
  each(2, 0, 2, 1, [&](std::int64_t, std::int64_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(ThreadPool, OneThreadMeansTheCaller) {
  const auto self = std::this_thread::get_id();
  each(1, 0, 100, 1, [&](std::int64_t b, std::int64_t e) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(e - b, 100);
  });
}

TEST(ThreadPool, NestedRegionsRunOnTheirCaller) {
  Visits visits(8 * 50);
  std::atomic<int> elsewhere{0}, pieces{0};
  each(4, 0, 8, 1, [&](std::int64_t b, std::int64_t e) {
    const auto self = std::this_thread::get_id();
    for (std::int64_t outer = b; outer < e; ++outer)
      each(4, outer * 50, (outer + 1) * 50, 1, [&](std::int64_t from, std::int64_t to) {
        elsewhere += std::this_thread::get_id() != self;
        ++pieces;
        visits(from, to);
      });
  });
  EXPECT_TRUE(visits.all(1));
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(pieces, 8);  // each nested region in one piece
}

TEST(ThreadPool, ConcurrentCallersAllFinish) {
  constexpr int kCallers = 6, kRegions = 300, kSize = 97;
  std::vector<std::unique_ptr<Visits>> visits;
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) visits.push_back(std::make_unique<Visits>(kSize));
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&, c] {
      for (int r = 0; r < kRegions; ++r) each(1 + (c + r) % 5, 0, kSize, 1 + r % 9, *visits[c]);
    });
  for (std::thread& t : callers) t.join();
  for (const auto& v : visits) EXPECT_TRUE(v->all(kRegions));
}

// Short regions in a row: a worker that wakes up late finds the next region, with other sizes.
TEST(ThreadPool, RegionsInARowDoNotMix) {
  for (int r = 0; r < 5000; ++r) {
    Visits visits(1 + r % 37);
    each(2 + r % 4, 0, 1 + r % 37, 1, visits);
    ASSERT_TRUE(visits.all(1)) << "region " << r;
    if (r % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // let them sleep
  }
}

// What is written inside is visible after, and what was written before is visible inside.
TEST(ThreadPool, ARegionOrdersMemory) {
  std::int64_t expected = 0;
  for (int r = 0; r < 62; ++r) expected = 2 * (expected + 1);
  std::vector<std::int64_t> data(512, 0);
  for (int r = 0; r < 62; ++r) {
    for (std::int64_t& v : data) v += 1;
    each(4, 0, 512, 8, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t i = b; i < e; ++i) data[static_cast<std::size_t>(i)] *= 2;
    });
  }
  for (std::int64_t v : data) EXPECT_EQ(v, expected);
}

TEST(ThreadPool, AForkedChildWorksAlone) {
  Visits warm(64);
  each(4, 0, 64, 1, warm);  // the workers exist, and will not exist in the child
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that waits for its parent's workers ends by a signal
    Visits visits(1000);
    const auto self = std::this_thread::get_id();
    bool alone = true;
    for (int r = 0; r < 3; ++r)
      each(4, 0, 1000, 1, [&](std::int64_t b, std::int64_t e) {
        alone &= std::this_thread::get_id() == self;
        visits(b, e);
      });
    _exit(visits.all(3) && alone ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  Visits after(1000);
  each(4, 0, 1000, 1, after);  // the parent's threads are as they were
  EXPECT_TRUE(after.all(1));
}

// A fork in the middle of a region: the child has a copy of a pool that stays busy for ever.
TEST(ThreadPool, AForkInsideARegionWorksAlone) {
  std::atomic<int> status{-1};
  each(2, 0, 2, 1, [&](std::int64_t b, std::int64_t) {
    if (b != 0) return;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      Visits visits(100);
      each(4, 0, 100, 1, visits);
      _exit(visits.all(1) ? 0 : 1);
    }
    int s = -1;
    waitpid(child, &s, 0);
    status = s;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace dlblas
