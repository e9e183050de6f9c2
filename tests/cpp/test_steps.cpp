// What a kernel's steps get: one shared workspace whose first bytes are 0 whatever the memory held,
// and an error for more steps than there is room for. The same on a GPU: test_gpu_tuner.cpp.
// Read next: src/dispatch/launch.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "bindings/c/handle.hpp"
#include "core/element.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("steps"));

constexpr std::size_t kCounters = 8, kWorkspace = 64;

// Step I adds 1 to counters 0 … I; the last step stores all of them and leaves 0xff behind.
template <int I>
int run_step(const Args& args, const Context&, const Kernel& kernel, void* workspace) {
  auto* counters = static_cast<std::uint8_t*>(workspace);
  for (int i = 0; i <= I; ++i) ++counters[i];
  if (kernel.steps[kernel.num_steps - 1] != run_step<I>) return 0;
  for (std::size_t i = 0; i < kCounters; ++i)
    store_element(args.result(0), static_cast<std::int64_t>(i), counters[i]);
  std::memset(workspace, 0xff, kWorkspace);
  return 0;
}

struct Shape {
  std::int32_t num_steps = Kernel::kMaxSteps - 1;  // zeroing is the eighth
  std::size_t zeroed = kCounters;
};
Shape g_shape;

dlblas_op_t make_operator(const std::string& name, const Shape& shape) {
  static auto* const schemas = new std::deque<std::string>;
  g_shape = shape;
  Implementation impl;
  impl.name = "counting";
  impl.source_hash = "s1";
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.prepare = [](const Query&, const Config&) {
    Kernel kernel;
    const StepFn steps[] = {run_step<0>, run_step<1>, run_step<2>, run_step<3>,
                            run_step<4>, run_step<5>, run_step<6>, run_step<7>};
    std::copy(std::begin(steps), std::end(steps), kernel.steps);
    kernel.num_steps = g_shape.num_steps;
    kernel.workspace_bytes = kWorkspace;
    kernel.zeroed_bytes = g_shape.zeroed;
    return kernel;
  };
  OperatorDef def;
  def.family = "test";
  def.schema = schemas->emplace_back(name + "(x: f32[N]) -> y: f32[N]");
  def.reference = [](const Args& args, const std::int64_t*, std::int64_t, OracleOut* out) {
    std::fill_n(out[0].value, args.letters[0], 0.0);
    std::fill_n(out[0].magnitude, args.letters[0], 0.0);
  };
  def.bound = [](const Problem&, int) { return Bound{0, 0, 0}; };
  def.work_per_row = [](const Problem&) { return 1.0; };
  def.implementations = {impl};
  return handle_of(Registry::process().add(std::move(def)).forms[0]);
}

// Uncleared memory, as from a caller's pool.
void* used_memory(void*, std::size_t bytes, std::size_t) {
  alignas(64) static std::byte memory[1024];
  EXPECT_LE(bytes, sizeof memory);
  return memory;
}

dlblas_status call(dlblas_op_t op, std::vector<float>& y) {
  std::vector<float> x(kCounters);
  std::int64_t shape[1] = {kCounters};
  y.assign(kCounters, -1);
  dlblas_tensor in{x.data(), {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  dlblas_tensor out{y.data(), {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  dlblas_value value{};
  value.kind = DLBLAS_TENSOR;
  value.as.tensor = &in;
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, &out, 1, 0};
  dlblas_context context{};
  context.size = sizeof context;
  context.alloc = used_memory;
  std::memset(used_memory(nullptr, 1024, 64), 0x77, 1024);
  return dlblas_call(op, &args, &context);
}

TEST(Steps, EightOfThemStartOnZeros) {
  const dlblas_op_t op = make_operator("steps_eight", {});
  std::vector<float> y;
  for (int run = 0; run < 3; ++run) {
    ASSERT_EQ(call(op, y), DLBLAS_OK);
    EXPECT_EQ(y, (std::vector<float>{7, 6, 5, 4, 3, 2, 1, 0}));
  }
}

TEST(Steps, EightOnWhateverLiesThere) {
  const dlblas_op_t op = make_operator("steps_all", {8, 0});
  std::vector<float> y;
  ASSERT_EQ(call(op, y), DLBLAS_OK);
  EXPECT_EQ(y[0], 0x77 + 8);
  EXPECT_EQ(y[7], 0x77 + 1);
}

TEST(Steps, OnlyWhatIsAskedForIsZeroed) {
  const dlblas_op_t op = make_operator("steps_half", {1, 2});
  std::vector<float> y;
  ASSERT_EQ(call(op, y), DLBLAS_OK);
  EXPECT_EQ(y, (std::vector<float>{1, 0, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77}));
}

TEST(Steps, MoreThanThereIsRoomForIsRefused) {
  std::vector<float> y;
  const auto refused = [&](const char* name, const Shape& shape, const std::string& words) {
    EXPECT_EQ(call(make_operator(name, shape), y), DLBLAS_INTERNAL);
    dlblas_error error{};
    error.size = sizeof error;
    dlblas_last_error(&error);
    EXPECT_EQ(error.message, name + (": counting prepared a kernel that cannot be; " + words));
  };
  refused("steps_nine", {8, 1}, "expected at most 8 steps, zeroing among them, got 9");
  refused("steps_beyond", {1, 65}, "expected at most the workspace's 64 zeroed bytes, got 65");
}

}  // namespace
}  // namespace dlblas::test
