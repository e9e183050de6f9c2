// Stream-K's schedule, as the kernel and the host compute it: every stage of every unit once, whole
// units whole, one owner a unit, givers in order and before their owner, and no circular wait. No
// GPU. Read next: device/gemm/stream_config.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "device/gemm/stream_config.hpp"

namespace dlblas {
namespace {

struct Sizes {
  std::int64_t units, stages, at_once;
};

std::vector<Sizes> sizes() {
  std::vector<Sizes> all;
  for (const std::int64_t at_once : {1, 2, 3, 7, 66, 132})
    for (const std::int64_t units :
         {1, 2, 3, 5, 6, 8, 31, 60, 65, 66, 67, 131, 132, 133, 197, 198, 199, 263, 264, 265, 512})
      for (const std::int64_t stages : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 64, 127, 128, 129, 1000})
        all.push_back({units, stages, at_once});
  std::uint64_t state = 1;
  const auto below = [&](std::uint64_t most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((state >> 33) % most) + 1;
  };
  for (int i = 0; i < 3000; ++i) all.push_back({below(900), below(300), below(160)});
  all.push_back({263, kGemmMaxStages, 132});  // int32 holds the stages of two waves
  all.push_back({131, kGemmMaxStages, 132});
  return all;
}

std::string where(const Sizes& s) { return text(s.units, " ", s.stages, " ", s.at_once); }

/// What one worker does at a time.
struct Piece {
  std::int32_t worker, index;  // in the worker's order
  GemmSegment segment;
};

std::map<std::int32_t, std::vector<Piece>> pieces_of(const GemmStreamPlan& plan) {
  std::map<std::int32_t, std::vector<Piece>> by_unit;
  for (std::int32_t w = 0; w < plan.workers; ++w) {
    const GemmStreamWalk walk{plan.stream, w, plan.workers};
    for (std::int32_t i = 0; i < walk.size(); ++i) by_unit[walk[i].unit].push_back({w, i, walk[i]});
  }
  for (auto& [unit, pieces] : by_unit)
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.segment.first < b.segment.first; });
  return by_unit;
}

TEST(GemmStream, EveryStageOfEveryUnitIsComputedOnce) {
  for (const Sizes& s : sizes()) {
    const GemmStreamPlan plan = plan_stream(s.units, s.stages, s.at_once);
    ASSERT_GE(plan.workers, 1) << where(s);
    ASSERT_LE(plan.workers, s.at_once) << where(s) << ": the device holds all of them";
    const auto by_unit = pieces_of(plan);
    ASSERT_EQ(static_cast<std::int64_t>(by_unit.size()), s.units) << where(s);
    for (const auto& [unit, pieces] : by_unit) {
      ASSERT_GE(unit, 0) << where(s);
      ASSERT_LT(unit, s.units) << where(s);
      std::int64_t at = 0;
      for (const Piece& p : pieces) {
        ASSERT_EQ(p.segment.first, at) << where(s) << ", unit " << unit;
        ASSERT_GT(p.segment.count, 0) << where(s) << ", unit " << unit;
        at += p.segment.count;
      }
      ASSERT_EQ(at, s.stages) << where(s) << ", unit " << unit;
    }
  }
}

// The owner adds what it is given in the order of K, from workers in the order that it assumes: the
// one before it, then the one before that.
TEST(GemmStream, GiversAreTheWorkersBeforeTheOwnerInOrder) {
  for (const Sizes& s : sizes()) {
    const GemmStreamPlan plan = plan_stream(s.units, s.stages, s.at_once);
    bool given = false;
    for (const auto& [unit, pieces] : pieces_of(plan)) {
      const Piece& owner = pieces[0];
      const GemmStreamWalk walk{plan.stream, owner.worker, plan.workers};
      ASSERT_EQ(walk.givers(owner.segment), static_cast<std::int32_t>(pieces.size()) - 1)
          << where(s) << ", unit " << unit;
      for (std::size_t g = 1; g < pieces.size(); ++g) {
        ASSERT_EQ(pieces[g].worker, owner.worker - static_cast<std::int32_t>(g)) << where(s);
        ASSERT_EQ(walk.givers(pieces[g].segment), 0) << where(s);
      }
      given |= pieces.size() > 1;
    }
    ASSERT_EQ(plan.stream.splits(), given) << where(s) << ": counters are zeroed where they serve";
  }
}

// A worker gives one segment at most, so one buffer suffices, and before that it waits for nothing;
// what waits is its last.
TEST(GemmStream, WholeUnitsThenGivingThenWaiting) {
  for (const Sizes& s : sizes()) {
    const GemmStreamPlan plan = plan_stream(s.units, s.stages, s.at_once);
    for (std::int32_t w = 0; w < plan.workers; ++w) {
      const GemmStreamWalk walk{plan.stream, w, plan.workers};
      ASSERT_GE(walk.size(), 1) << where(s) << ": no idle worker";
      for (std::int32_t i = 0; i < walk.size(); ++i) {
        if (walk[i].first > 0) {
          ASSERT_EQ(i, plan.stream.rounds) << where(s);
        }
        if (i < plan.stream.rounds) {
          ASSERT_EQ(walk[i].count, s.stages) << where(s);
        }
        if (walk.givers(walk[i]) > 0) {
          ASSERT_EQ(i, walk.size() - 1) << where(s);
        }
      }
    }
  }
}

/// Runs the schedule with room for `slots` workers, which start in order as others end; false if
/// no worker can go on.
bool ends(const GemmStreamPlan& plan, std::int32_t slots) {
  std::vector<bool> given(static_cast<std::size_t>(plan.workers));
  std::deque<std::pair<std::int32_t, std::int32_t>> running;  // worker, next segment
  std::int32_t started = 0, ended = 0;
  while (ended < plan.workers) {
    while (started < plan.workers && static_cast<std::int32_t>(running.size()) < slots)
      running.emplace_back(started++, 0);
    bool moved = false;
    std::deque<std::pair<std::int32_t, std::int32_t>> left;
    for (auto [w, i] : running) {
      const GemmStreamWalk walk{plan.stream, w, plan.workers};
      if (i == walk.size()) {
        ++ended, moved = true;
        continue;
      }
      bool ready = true;
      for (std::int32_t g = 1; g <= walk.givers(walk[i]); ++g)
        ready &= given[static_cast<std::size_t>(w - g)];
      if (ready) {
        if (walk[i].first > 0) given[static_cast<std::size_t>(w)] = true;
        ++i, moved = true;
      }
      left.emplace_back(w, i);
    }
    running = std::move(left);
    if (!moved) return false;
  }
  return true;
}

TEST(GemmStream, EndsOnAnyNumberOfMultiprocessors) {
  for (const Sizes& s : sizes()) {
    if (s.at_once > 40 && s.units % 5 != 0) continue;  // some of the large ones
    const GemmStreamPlan plan = plan_stream(s.units, s.stages, s.at_once);
    for (const std::int32_t slots : {plan.workers, 1, 2, (plan.workers + 1) / 2})
      ASSERT_TRUE(ends(plan, slots)) << where(s) << " with room for " << slots;
  }
}

// Workers end together: their numbers of stages differ by one where units are split.
TEST(GemmStream, WorkIsEven) {
  for (const Sizes& s : sizes()) {
    const GemmStreamPlan plan = plan_stream(s.units, s.stages, s.at_once);
    std::int64_t least = INT64_MAX, most = 0;
    for (std::int32_t w = 0; w < plan.workers; ++w) {
      const GemmStreamWalk walk{plan.stream, w, plan.workers};
      std::int64_t stages = 0;
      for (std::int32_t i = 0; i < walk.size(); ++i) stages += walk[i].count;
      least = std::min(least, stages), most = std::max(most, stages);
    }
    ASSERT_LE(most - least, 1) << where(s);
    if (s.units < s.at_once && plan.workers > s.units) {
      ASSERT_GE(least, kGemmMinPart) << where(s);
    }
  }
}

}  // namespace
}  // namespace dlblas
