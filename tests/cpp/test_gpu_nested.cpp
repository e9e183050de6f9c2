// A composed operator on a CUDA device: warming it up warms up its parts, and a call can be
// captured. Skipped, with the reason, without a GPU or a compiler. Read next:
// tests/cpp/test_nested.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "core/in_flight.hpp"
#include "tests/cpp/gpu_dummy.hpp"
#include "tests/cpp/norm_linear.hpp"
#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore =
    testing::AddGlobalTestEnvironment(new test::TemporaryStore("gpu_nested"));

constexpr std::int64_t kRows = 33, kWidth = 64, kColumns = 40;

std::vector<float> numbers(std::int64_t n, std::int64_t seed) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i)
    v.push_back(static_cast<float>((i * 37 + seed) % 101 - 50) / 32.0f);
  return v;
}

// One call, and the error it ended with, if any, when it was recorded.
struct Recorded {
  Args* args;
  const Plan* plan;
  Context context;
  std::string error = {};

  static int record(void* self) {
    auto& of = *static_cast<Recorded*>(self);
    of.error =
        error_of([&] { launch(compile(*of.plan, of.context.stream), *of.args, of.context); });
    return 0;
  }
};

TEST(GpuNested, AWarmCallIsCaptured) {
  if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const cuda::CurrentDevice current(0);
  const cuda::Stream stream;
  std::vector<float> x = numbers(kRows * kWidth, 3), weight = numbers(kWidth, 5),
                     w = numbers(kWidth * kColumns, 7), out(kRows * kColumns, -1.0f);
  std::vector<std::pair<std::vector<float>*, std::vector<std::int64_t>>> all{
      {&x, {kRows, kWidth}},
      {&weight, {kWidth}},
      {&w, {kWidth, kColumns}},
      {&out, {kRows, kColumns}}};
  std::vector<cuda::Buffer> buffers;
  Call on_device(norm_linear().forms[0]), on_host(norm_linear().forms[0]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<float>& values = *all[i].first;
    buffers.emplace_back(values.size() * sizeof(float));
    cuda::copy_to_device(buffers[i].data(), values.data(), buffers[i].bytes(), stream.get());
    Array host{all[i].second, {}}, device{all[i].second, {}};
    host.data = values.data(), device.data = buffers[i].data(), device.device = {2, 0};
    i < 3 ? on_host.tensor(host) : on_host.out(host);
    i < 3 ? on_device.tensor(device) : on_device.out(device);
  }
  const InFlight in_flight;
  const Problem problem = on_device.problem();
  const Plan& plan = select(norm_linear(), problem);
  ASSERT_STREQ(plan.implementation->name, "composed_cuda");
  cuda::Buffer workspace(1 << 22);
  Recorded recorded{&on_device.args, &plan, {}};
  recorded.context.device = {DeviceType::kCuda, 0};
  recorded.context.stream = stream.get();
  recorded.context.self = &workspace;
  recorded.context.alloc = [](void* self, std::size_t bytes, std::size_t) {
    const auto& from = *static_cast<cuda::Buffer*>(self);
    return bytes <= from.bytes() ? from.data() : nullptr;
  };
  {
    const cuda::Graph cold(stream.get(), Recorded::record, &recorded);
    EXPECT_NE(recorded.error.find("warmup"), std::string::npos) << recorded.error;
  }
  compile(plan, stream.get());  // as dlblas_warmup
  const cuda::Graph warm(stream.get(), Recorded::record, &recorded);
  ASSERT_EQ(recorded.error, "");
  for (int run = 0; run < 2; ++run) warm.replay(stream.get());
  cuda::copy_to_host(out.data(), buffers[3].data(), buffers[3].bytes(), stream.get());

  const Bound bound = norm_linear().def.bound(on_host.problem(), 0);
  std::vector<double> value(kColumns), magnitude(kColumns);
  OracleOut expected{value.data(), magnitude.data()};
  for (std::int64_t row = 0; row < kRows; ++row) {
    norm_linear_reference(on_host.args, &row, 1, &expected);
    for (std::size_t j = 0; j < value.size(); ++j)
      EXPECT_NEAR(
          out[static_cast<std::size_t>(row * kColumns) + j], value[j],
          bound.magnitude * magnitude[j] + bound.value * std::abs(value[j]) + bound.absolute);
  }
}

}  // namespace
}  // namespace dlblas::test
