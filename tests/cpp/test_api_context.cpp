// The C++ API beyond the call itself: the caller's memory and threads, tuning, pins, and what a
// warm call allocates. Public headers only; see test_api.cpp.
#include <gtest/gtest.h>
#include <dlblas/dlblas.hpp>
#include <dlblas/ops.hpp>

#include <atomic>
#include <cstdlib>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/cpp/api_norm.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace {
std::atomic<long> g_allocations{0};
}  // namespace

// Never inlined: otherwise the compiler would see free() paired with operator new and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++g_allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
// All variants are replaced together: a sanitizer's own nothrow new would not match the delete
// below.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace dlblas;
using namespace dlblas::test;

const auto* const kStore = testing::AddGlobalTestEnvironment(new TemporaryStore("api-context"));

// ---- the caller's context ----------------------------------------

// The caller's own memory and threads; counts the requests for them.
struct Host {
  std::vector<std::vector<float>> results;
  int workspaces = 0;
  int regions = 0;
  std::atomic<std::int64_t> items{0};
  std::vector<std::vector<char>> memory;

  void* new_output(const NewOutput& spec) {
    EXPECT_EQ(spec.device, Device()) << "where the call's tensors are";
    if (spec.bytes > (1u << 26)) throw std::bad_alloc();
    results.emplace_back(spec.bytes / sizeof(float));
    return results.back().data();
  }
  void* alloc(std::size_t bytes, std::size_t align) {
    ++workspaces;
    memory.emplace_back(bytes + align);
    auto at = reinterpret_cast<std::uintptr_t>(memory.back().data());
    return reinterpret_cast<void*>((at + align - 1) / align * align);
  }
  void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t, Body body) {
    ++regions;
    const std::int64_t middle = begin + (end - begin) / 2;
    std::thread first([=] { body(begin, middle); });
    body(middle, end);
    first.join();
    items += end - begin;
  }
};

TEST(Contexts, TheCallersMemoryAndThreadsAreUsed) {
  constexpr std::int64_t kRows = 2048, kWidth = 512;
  const std::vector<float> x = sequence(kRows * kWidth, 17), weight = sequence(kWidth, 5);
  const TensorRef rows(x, {kRows, kWidth});
  Host host;
  const Context context(host, 2);
  const Tensor y = rms_norm(rows, weight, {}, context);
  ASSERT_EQ(host.results.size(), 1u);
  EXPECT_EQ(y.data(), host.results[0].data());
  EXPECT_GT(host.regions, 0);
  const Tensor own = rms_norm(rows, weight);
  EXPECT_TRUE(
      std::equal(host.results[0].begin(), host.results[0].end(), own.span<float>().begin()));

  host.regions = 0;
  rms_norm(rows, weight, {}, Context(host, 1));
  EXPECT_EQ(host.regions, 0) << "one thread needs no parallel region";
}

TEST(Contexts, WorkspaceComesFromTheCaller) {
  const std::vector<float> a = sequence(192 * 256, 7), b = sequence(256 * 192, 5);
  const TensorRef lhs(a, {192, 256}), rhs(b, {256, 192});
  Operator("matmul").pin("cpu_baseline");  // it packs both operands
  Host host;
  const Tensor y = matmul(lhs, rhs, {}, Context(host, 2));
  const Tensor own = matmul(lhs, rhs, {}, Context().threads(2));
  Operator("matmul").unpin();
  EXPECT_TRUE(
      std::equal(own.span<float>().begin(), own.span<float>().end(), y.span<float>().begin()));
  EXPECT_EQ(host.workspaces, 1);
  EXPECT_EQ(host.results.size(), 1u);
}

struct Throwing {
  void* new_output(const NewOutput&) { throw std::runtime_error("no memory here"); }
};

TEST_F(Norm, AThrowingAllocatorIsALaunchError) {
  Throwing host;
  EXPECT_THROW(rms_norm(rows(), weight, {}, Context(host)), LaunchError);
}

// ---- tuning ------------------------------------------------------

TEST(Tuning, MeasuresOnceAndRemembers) {
  const std::vector<float> x = sequence(64 * 256, 17), weight = sequence(256, 5);
  int events = 0;
  TuneOptions options;
  options.seconds = 0.3;
  options.max_evaluations = 6;
  options.on_event = [&](const TuneEvent&) {
    ++events;
    return true;
  };
  const Counters before = counters();
  std::string report;
  const Operator op =
      get_op("rms_norm", {TensorRef(x, {64, 256}), weight}, {}, options, {}, &report);
  const Counters tuned = counters();
  EXPECT_GT(tuned.measured, before.measured);
  EXPECT_GT(tuned.published, before.published);
  EXPECT_GT(events, 1);
  EXPECT_EQ(report.front(), '{');

  const Tensor y = op({TensorRef(x, {64, 256}), weight});
  EXPECT_NEAR(y.span<float>()[7], rms_norm_at(x.data(), 256, weight, 7, 1e-6), 1e-5);
  get_op("rms_norm", {TensorRef(x, {64, 256}), weight}, {}, options);
  EXPECT_EQ(counters().measured, tuned.measured) << "a hit measures nothing";
  EXPECT_NE(op.explain({TensorRef(x, {64, 256}), weight}).find("store"), std::string::npos);
}

TEST(Tuning, WhatACallbackThrowsArrivesHere) {
  const std::vector<float> x = sequence(32 * 128, 17), weight = sequence(128, 5);
  TuneOptions options;
  options.seconds = 0.3;
  options.on_event = [](const TuneEvent&) -> bool { throw std::out_of_range("stop here"); };
  EXPECT_THROW(tune("rms_norm", {TensorRef(x, {32, 128}), weight}, {}, options), std::out_of_range);
}

TEST(Tuning, NarrowingDecidesWhatIsMeasured) {
  const std::vector<float> x = sequence(16 * 128, 17), weight = sequence(128, 5);
  TuneOptions options;
  options.seconds = 0.5;
  options.implementations = "cpu_baseline";
  options.space = {{"cpu_baseline", "store", "streamed"}};
  options.where = [](std::string_view, std::string_view config) {
    return config.find("task_kib=64") != config.npos;
  };
  std::set<std::string> wanted, others;
  options.on_event = [&](const TuneEvent& e) {
    if (e.kind != TuneEvent::Kind::kMeasured) return true;
    const std::string point = std::string(e.implementation) + " " + std::string(e.config);
    const bool inside = e.implementation == "cpu_baseline" &&
                        e.config.find("store=streamed ") != e.config.npos &&
                        e.config.find("task_kib=64") != e.config.npos;
    (inside ? wanted : others).insert(point);
    return true;
  };
  tune("rms_norm", {TensorRef(x, {16, 128}), weight}, {}, options);
  EXPECT_GT(wanted.size(), 1u);
  // The default always runs too: a narrow search must not hide what is faster.
  EXPECT_LE(others.size(), 1u) << testing::PrintToString(others);
}

TEST_F(Norm, APinHoldsUntilItIsTakenBack) {
  const Operator op("rms_norm");
  op.pin("reference");
  const std::string pinned = op.explain({rows(), weight});
  op.unpin();
  EXPECT_NE(pinned.find("pinned"), std::string::npos) << pinned;
  EXPECT_EQ(op.explain({rows(), weight}).find("pinned"), std::string::npos);
  EXPECT_THROW(op.pin("cpu_9000"), Error);
}

// ---- what a warm call costs --------------------------------------

TEST_F(Norm, AWarmCallWithItsDestinationAllocatesNothing) {
  std::vector<float> y(x.size());
  const Operator op("rms_norm");
  auto both = [&] {
    rms_norm_out({y, {kT, kC}}, rows(), weight, {.eps = 1e-5});
    op({rows(), weight}, {{"eps", 1e-5}}, {{y, {kT, kC}}});
  };
  both();
  const long before = g_allocations;
  for (int i = 0; i < 100; ++i) both();
  EXPECT_EQ(g_allocations, before);
}

}  // namespace
