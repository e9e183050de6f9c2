// Cached state has a limit: plans for ever new problems, for pins that change, and users'
// implementations that are registered again and again. What a call may still hold stays; what none
// can hold is freed. Under AddressSanitizer (`make test-asan`) a plan freed too soon shows here.
// Read next: src/core/in_flight.hpp, src/dispatch/plan_table.cpp.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/handle.hpp"
#include "bindings/c/own.hpp"
#include "core/counters.hpp"
#include "core/in_flight.hpp"
#include "dispatch/dispatch.hpp"
#include "dlblas/dlblas.h"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("memory"));

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapIsCounted = false;  // by the allocator that is replaced there
#else
constexpr bool kHeapIsCounted = true;
#endif

std::int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

dlblas_op_t handle(const char* name) {
  dlblas_op_t op = nullptr;
  EXPECT_EQ(dlblas_op(name, &op), DLBLAS_OK);
  return op;
}

constexpr std::int64_t kWidest = 100'000;
float g_x[kWidest], g_weight[kWidest];

// rms_norm of one row of this width, written to y; true if it was served.
bool norm(std::int64_t width, float* y) {
  std::int64_t shape[] = {1, width};
  const auto tensor = [&](float* data, int rank) {
    return dlblas_tensor{data, {1, 0}, rank, {2, 32, 1}, shape + 2 - rank, nullptr, 0};
  };
  dlblas_tensor x = tensor(g_x, 2), weight = tensor(g_weight, 1), out = tensor(y, 2);
  dlblas_value values[2] = {};
  values[0].kind = values[1].kind = DLBLAS_TENSOR;
  values[0].as.tensor = &x, values[1].as.tensor = &weight;
  const dlblas_args args{sizeof(dlblas_args), values, 2, 0, nullptr, &out, 1, 0};
  static const dlblas_op_t op = handle("rms_norm");
  return dlblas_call(op, &args, nullptr) == DLBLAS_OK;
}

void fill() {
  for (std::int64_t i = 0; i < kWidest; ++i) g_x[i] = 2, g_weight[i] = 3;
}

TEST(InFlight, WhatACallHoldsWaitsForIt) {
  static std::atomic<int> freed;
  freed = 0;
  const auto count = [](void*) { ++freed; };
  int object = 0;
  retire(&object, count);
  EXPECT_EQ(freed, 1);  // nothing is in flight
  {
    const InFlight outer;
    retire(&object, count);
    { const InFlight inner; }
    EXPECT_EQ(freed, 1);
  }
  EXPECT_EQ(freed, 2);  // this thread looks when it leaves
  std::atomic<int> stage{0};
  std::thread other([&] {
    const InFlight in_flight;
    stage = 1;
    while (stage < 2) std::this_thread::yield();
  });
  while (stage < 1) std::this_thread::yield();
  retire(&object, count);
  EXPECT_EQ(freed, 2);
  {
    const InFlight later;  // in another epoch: it cannot hold the object, and holds nothing up
  }
  EXPECT_EQ(reclaim(), 1u);
  stage = 2;
  other.join();
  EXPECT_EQ(reclaim(), 0u);
  EXPECT_EQ(freed, 3);
}

TEST(Memory, OfAHundredThousandProblemsIsBounded) {
  fill();
  std::vector<float> y(kWidest);
  for (std::int64_t width = 1; width <= 100; ++width) ASSERT_TRUE(norm(width, y.data()));
  const std::int64_t before = heap_bytes();
  std::int64_t selected_again = 0;
  for (std::int64_t width = 101; width <= kWidest; ++width) {
    ASSERT_TRUE(norm(width, y.data()));
    ASSERT_NEAR(y[static_cast<std::size_t>(width) - 1], 3, 1e-4) << width;
    if (width % 500 != 0) continue;
    const std::int64_t selected = g_counters.selected;  // one that is used all the time stays
    ASSERT_TRUE(norm(100, y.data()));
    selected_again += g_counters.selected - selected;
  }
  EXPECT_EQ(selected_again, 0);
  const std::int64_t kept = heap_bytes() - before;
  if (kHeapIsCounted) {
    EXPECT_LT(kept, 200 * kWidest);
    EXPECT_LT(kept, 1024 * std::int64_t{kMaxPlans} + (1 << 20));
  }
  RecordProperty("bytes_kept", std::to_string(kept));
  ASSERT_TRUE(norm(101, y.data()));  // what went is decided again
}

TEST(Memory, OfPinsThatChangeIsFreed) {
  fill();
  std::vector<float> y(64);
  const Operator& op = *reinterpret_cast<const Form*>(handle("rms_norm"))->op;
  const auto change = [&](int times) {
    for (int i = 0; i < times; ++i) {
      pin(op, i % 2 ? "reference" : "cpu_baseline", "");
      ASSERT_TRUE(norm(64, y.data()));
    }
  };
  change(100);
  const std::int64_t before = heap_bytes();
  change(5'000);
  if (kHeapIsCounted) {
    EXPECT_LT(heap_bytes() - before, 200'000);
  }
  pin(op, "", "");
}

std::atomic<int> g_released{0};

void register_mine(std::atomic<int>* user) {
  dlblas_implementation own{};
  own.size = sizeof own;
  own.name = "mine";
  own.source_hash = "s1";
  own.device = 1;
  own.step = [](const dlblas_step_args* args, const dlblas_context*, void* counter) -> int32_t {
    ++*static_cast<std::atomic<int>*>(counter);
    const dlblas_tensor& y = args->tensors[args->num_inputs];
    std::fill_n(static_cast<float*>(y.data), y.shape[1], 3.f);
    return 0;
  };
  own.user = user;
  ASSERT_EQ(register_own(handle("rms_norm"), &own,
                         [](void* gone) {
                           delete static_cast<std::atomic<int>*>(gone);
                           ++g_released;
                         }),
            DLBLAS_OK);
}

TEST(Memory, OfImplementationsThatAreRegisteredAgainIsFreed) {
  fill();
  std::vector<float> y(64);
  const Operator& op = *reinterpret_cast<const Form*>(handle("rms_norm"))->op;
  register_mine(new std::atomic<int>);
  pin(op, "mine", "");
  const auto again = [&](int times) {
    for (int i = 0; i < times; ++i) {
      register_mine(new std::atomic<int>);
      ASSERT_TRUE(norm(64, y.data()));
    }
  };
  again(100);
  const int released = g_released;
  EXPECT_GE(released, 99);
  const std::int64_t before = heap_bytes();
  again(2'000);
  EXPECT_EQ(g_released - released, 2'000);
  if (kHeapIsCounted) {
    EXPECT_LT(heap_bytes() - before, 200'000);
  }
  pin(op, "", "");
  EXPECT_EQ(dlblas_unregister(handle("rms_norm"), "mine"), DLBLAS_OK);
  EXPECT_EQ(g_released - released, 2'001);
  // An implementation that is refused is released too.
  dlblas_implementation refused{};
  refused.size = sizeof refused;
  EXPECT_NE(register_own(handle("rms_norm"), &refused, [](void*) { ++g_released; }), DLBLAS_OK);
  EXPECT_EQ(g_released - released, 2'002);
}

TEST(Memory, IsFreedUnderCalls) {
  fill();
  const Operator& op = *reinterpret_cast<const Form*>(handle("rms_norm"))->op;
  register_mine(new std::atomic<int>);
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&, i] {
      std::vector<float> y(20'000);
      for (std::int64_t n = i; !stop; n += 7) {
        const std::int64_t width = i % 2 ? 1 + n % 20'000 : 64;
        ASSERT_TRUE(norm(width, y.data()));
        ASSERT_NEAR(y[static_cast<std::size_t>(width) - 1], 3, 1e-4);
      }
    });
  for (int round = 0; round < 300; ++round) {
    register_mine(new std::atomic<int>);
    pin(op, round % 3 == 0 ? "mine" : round % 3 == 1 ? "cpu_baseline" : "", "");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  pin(op, "", "");
  EXPECT_EQ(dlblas_unregister(handle("rms_norm"), "mine"), DLBLAS_OK);
  stop = true;
  for (std::thread& t : callers) t.join();
}

}  // namespace
}  // namespace dlblas::test
