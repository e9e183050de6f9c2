// The device form of row oracles, without a device: TeamRow, with host threads as its team, gives
// what HostRow gives of the same text. Read next: device/oracle/row.hpp.
#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/element.hpp"
#include "device/oracle/row.hpp"
#include "ops/activation/silu_and_mul/silu_and_mul_ref.hpp"
#include "ops/norm/layer_norm/layer_norm_ref.hpp"
#include "ops/norm/rms_norm/rms_norm_ref.hpp"
#include "ops/norm/softmax/softmax_ref.hpp"
#include "ops/rope/rope/rope_ref.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

constexpr int kThreads = 8;

struct Team {
  int thread() const { return mine; }
  int threads() const { return kThreads; }
  void barrier() const { meeting->arrive_and_wait(); }
  double* scratch() const { return shared; }
  double rounded(DType dtype, double v) const { return round_to(dtype, v); }
  double element(const StridedView& t, std::int64_t index) const {
    std::int64_t at = 0;
    for (int i = t.rank - 1; i >= 0; --i)
      at += index % t.shape[i] * t.strides[i], index /= t.shape[i];
    TensorView view{};
    view.data = t.data, view.dtype = t.dtype;
    return load_element(view, at);
  }
  int mine;
  std::barrier<>* meeting;
  double* shared;
};

/// Inputs of a call and where an oracle writes.
struct Call {
  Args args;
  std::vector<std::vector<float>> memory;
  std::vector<std::int64_t> rows;

  explicit Call(const char* op) {
    args.schema = &Registry::process().at(op).op->schema;
    for (std::size_t i = 0; i < args.schema->scalars.size(); ++i)
      args.scalars[i] = args.schema->scalars[i].default_value;
  }
  /// Tensor i of the schema, its rows `gap` elements longer than they seem; {}: absent.
  TensorView& add(int i, std::vector<std::int64_t> shape, DType dtype = DType::kF32, int gap = 0) {
    TensorView& t = args.tensors[i];
    t = {};
    t.dtype = dtype;
    t.rank = static_cast<std::int32_t>(shape.size());
    std::int64_t stride = 1;
    for (int d = t.rank - 1; d >= 0; --d) {
      t.shape[d] = shape[static_cast<std::size_t>(d)];
      t.strides[d] = stride;
      stride *= t.shape[d] + (d == t.rank - 1 ? gap : 0);
    }
    memory.emplace_back(static_cast<std::size_t>(2 * stride));
    std::mt19937 random(static_cast<unsigned>(i));
    std::normal_distribution<float> normal;
    for (float& v : memory.back()) v = normal(random);
    t.data = memory.back().data();
    args.present |= 1u << i;
    return t;
  }
};

struct Results {
  std::vector<double> values[kMaxJudged], magnitudes[kMaxJudged];
  OracleOut out[kMaxJudged] = {};
  explicit Results(const Call& call) {
    for (int j = 0; j < call.args.schema->num_judged(); ++j) {
      const TensorView& t = call.args.judged(j);
      const std::size_t n = call.rows.size() * static_cast<std::size_t>(t.shape[t.rank - 1]);
      values[j].assign(n, -77), magnitudes[j].assign(n, -77);
      out[j] = {values[j].data(), magnitudes[j].data()};
    }
  }
};

/// Both forms agree but for the order of sums in f64.
template <void (*kHost)(kernels::HostRow&), void (*kTeam)(TeamRow<Team>&)>
void expect_same(const Call& call) {
  const auto num_rows = static_cast<std::int64_t>(call.rows.size());
  Results want(call), got(call);
  kernels::row_reference<kHost>(call.args, call.rows.data(), num_rows, want.out);
  const OracleCall on_device = kernels::oracle_call(call.args, call.rows.data(), got.out);
  std::barrier<> meeting(kThreads);
  std::vector<double> shared(kTeamDoubles * kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        const Team team{i, &meeting, shared.data()};
        for (std::int64_t place = 0; place < num_rows; ++place) {
          TeamRow<Team> row(on_device, team, place);
          kTeam(row);
        }
      });
  }
  for (int j = 0; j < call.args.schema->num_judged(); ++j)
    for (std::size_t i = 0; i < want.values[j].size(); ++i) {
      const double size = 1e-12 * std::abs(want.magnitudes[j][i]);
      EXPECT_NEAR(want.values[j][i], got.values[j][i], size) << "result " << j << ", element " << i;
      EXPECT_NEAR(want.magnitudes[j][i], got.magnitudes[j][i], size) << j << ", " << i;
    }
}

TEST(OracleRow, SumsAndMaximaOfATeam) {
  for (const std::int64_t width : {1, 7, 16, 100, 1000}) {
    Call call("softmax");
    call.add(norm::kSoftmaxX, {5, width}, DType::kF32, 3);
    call.add(norm::kSoftmaxY, {5, width});
    call.args.letters[norm::kSoftmaxT] = 5, call.args.letters[norm::kSoftmaxC] = width;
    call.rows = {4, 0, 2};
    expect_same<norm::softmax_row<kernels::HostRow>, norm::softmax_row<TeamRow<Team>>>(call);
  }
}

TEST(OracleRow, ANanWinsInEachThreadsPart) {
  const std::int64_t zero = 0;
  OracleCall call{};
  call.rows = &zero;
  for (int nan = 0; nan < 40; ++nan) {
    std::barrier<> meeting(kThreads);
    std::vector<double> shared(kTeamDoubles * kThreads), most(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
          const Team team{i, &meeting, shared.data()};
          most[static_cast<std::size_t>(i)] = TeamRow<Team>(call, team, 0).max(40, [&](auto c) {
            return c == nan ? NAN : 1.0 * c;
          });
        });
    }
    for (const double v : most) EXPECT_TRUE(std::isnan(v)) << nan;
  }
}

TEST(OracleRow, StatisticsAndWeights) {
  for (const std::int64_t width : {1, 33, 5000}) {
    Call normed("layer_norm");
    normed.add(norm::kLayerNormX, {3, width});
    normed.add(norm::kLayerNormBias, {width});
    normed.add(norm::kLayerNormY, {3, width});
    normed.args.letters[norm::kLayerNormT] = 3, normed.args.letters[norm::kLayerNormC] = width;
    normed.rows = {2, 1};
    expect_same<norm::layer_norm_row<kernels::HostRow>, norm::layer_norm_row<TeamRow<Team>>>(
        normed);
    Call rms("rms_norm");
    rms.add(norm::kRmsNormX, {3, width});
    rms.add(norm::kRmsNormWeight, {width});
    rms.add(norm::kRmsNormWeight + 1, {3, width});
    rms.args.letters[norm::kT] = 3, rms.args.letters[norm::kC] = width;
    rms.rows = {0, 2};
    expect_same<norm::rms_norm_row<kernels::HostRow>, norm::rms_norm_row<TeamRow<Team>>>(rms);
  }
}

TEST(OracleRow, ColumnsOfTwoHalves) {
  Call call("silu_and_mul");
  call.add(activation::kX, {3, 66}, DType::kBF16);
  call.add(activation::kY, {3, 33}, DType::kBF16);
  call.args.letters[activation::kT] = 3, call.args.letters[activation::kF] = 33;
  call.rows = {0, 1, 2};
  expect_same<activation::silu_and_mul_row<kernels::HostRow>,
              activation::silu_and_mul_row<TeamRow<Team>>>(call);
}

TEST(OracleRow, HeadsAndGatheredRows) {
  constexpr std::int64_t kTokens = 3, kHeads = 4, kKvHeads = 2, kPairs = 6, kRest = 5, kTable = 9;
  for (const std::int64_t style : {0, 1}) {
    Call call("rope");
    call.add(rope::kRopeQ, {kTokens, kHeads, 2 * kPairs + kRest}, DType::kF32, 4);
    call.add(rope::kRopeK, {kTokens, kKvHeads, 2 * kPairs + kRest});
    const TensorView& positions = call.add(rope::kRopePositions, {kTokens}, DType::kI32);
    for (int t = 0; t < kTokens; ++t) static_cast<std::int32_t*>(positions.data)[t] = 7 - 3 * t;
    call.add(rope::kRopeTable, {kTable, 2 * kPairs});
    call.add(rope::kRopeQOut, {kTokens, kHeads, 2 * kPairs + kRest});
    call.add(rope::kRopeKOut, {kTokens, kKvHeads, 2 * kPairs + kRest});
    const std::int64_t letters[] = {kTokens, kHeads, kPairs, kRest, kKvHeads, kTable};
    std::copy(std::begin(letters), std::end(letters), call.args.letters);
    call.args.scalars[0].i = style;
    for (std::int64_t row = 0; row < kTokens * kHeads; ++row) call.rows.push_back(row);
    expect_same<rope::rope_row<kernels::HostRow>, rope::rope_row<TeamRow<Team>>>(call);
  }
}

struct Term {
  std::vector<double> terms;
  double operator()(std::int64_t c) const { return terms[static_cast<std::size_t>(c)]; }
};

TEST(OracleRow, PartsOfAWalkAreTheWalk) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (const int count : {0, 1, 15, 16, 17, 127, 128, 129, 1000, 4096, 4099, 9000}) {
    Term term{std::vector<double>(static_cast<std::size_t>(count))};
    for (double& v : term.terms) v = normal(random);
    kernels::RowWalk whole;
    for (int c = 0; c < count; ++c) whole.add(term(c));
    const std::int64_t zero = 0;
    OracleCall call{};
    call.rows = &zero;
    std::barrier<> meeting(kThreads);
    std::vector<double> shared(kTeamDoubles * kThreads);
    std::vector<kernels::RowWalk> walks(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
          const Team team{i, &meeting, shared.data()};
          walks[static_cast<std::size_t>(i)] = TeamRow<Team>(call, team, 0).walk(count, term);
        });
    }
    for (const kernels::RowWalk& walk : walks) {
      const double size = 1e-12 * (1 + whole.size());
      EXPECT_NEAR(whole.sum(), walk.sum(), size) << count;
      EXPECT_NEAR(whole.size(), walk.size(), size) << count;
      EXPECT_NEAR(whole.roundings(), walk.roundings(), 1e-12 * (1 + whole.roundings())) << count;
    }
  }
}

}  // namespace
}  // namespace dlblas
