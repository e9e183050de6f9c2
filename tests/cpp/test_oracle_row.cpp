// The device form of oracles, without a device: TeamRow, with host threads as its team, gives the
// same as HostRow compiled from the same source; elements of products, walked in the tiles of a
// kernel, are the reference's. Read next: device/oracle/row.hpp, ops/gemm/matmul/matmul_ref.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "core/element.hpp"
#include "device/oracle/fold.hpp"
#include "device/oracle/row.hpp"
#include "ops/activation/silu_and_mul/silu_and_mul_ref.hpp"
#include "ops/gemm/matmul/matmul.hpp"
#include "ops/gemm/matmul/matmul_ref.hpp"
#include "ops/gemm/scaled/scaled.hpp"
#include "ops/gemm/scaled/scaled_ref.hpp"
#include "ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp"
#include "ops/kv_cache/store_mla_heads/store_mla_heads_ref.hpp"
#include "ops/moe/moe_unpermute/moe_unpermute_ref.hpp"
#include "ops/moe/topk_gating_backward/topk_gating_backward_ref.hpp"
#include "ops/norm/layer_norm/layer_norm_ref.hpp"
#include "ops/norm/layer_norm_backward/layer_norm_backward_ref.hpp"
#include "ops/norm/rms_norm/rms_norm_ref.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp"
#include "ops/norm/softmax/softmax_ref.hpp"
#include "ops/quant/quantize_block128/quantize_block128_ref.hpp"
#include "ops/quant/quantize_channel/quantize_channel_ref.hpp"
#include "ops/quant/quantize_tensor/quantize_tensor_ref.hpp"
#include "ops/rope/rope/rope_ref.hpp"
#include "ops/ssm/selective_state_update/selective_state_update_ref.hpp"
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
  void keep_most(double* place, double v) const {
    const std::atomic_ref<double> most(*place);
    double before = most.load();
    while ((v > before || (std::isnan(v) && !std::isnan(before))) &&
           !most.compare_exchange_weak(before, v)) {
    }
  }
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

/// The inputs of a call, and the rows that an oracle writes.
struct Call {
  Args args;
  std::vector<std::vector<float>> memory;
  std::vector<std::int64_t> rows;

  explicit Call(const char* op) {
    args.schema = &Registry::process().at(op).op->schema;
    for (std::size_t i = 0; i < args.schema->scalars.size(); ++i)
      args.scalars[i] = args.schema->scalars[i].default_value;
  }
  /// Adds tensor i of the schema, with a gap of `gap` elements after each row; {}: absent.
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
      const std::int64_t width = t.rank > 0 ? t.shape[t.rank - 1] : 1;
      const std::size_t n = call.rows.size() * static_cast<std::size_t>(width);
      values[j].assign(n, -77), magnitudes[j].assign(n, -77);
      out[j] = {values[j].data(), magnitudes[j].data()};
    }
  }
};

/// Runs a team of threads on places 0, 1, … of a call.
template <void (*kTeam)(TeamRow<Team>&)>
void run_team(const OracleCall& call, std::int64_t places) {
  std::barrier<> meeting(kThreads);
  std::vector<double> shared(kTeamDoubles * kThreads);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      const Team team{i, &meeting, shared.data()};
      for (std::int64_t place = 0; place < places; ++place) {
        TeamRow<Team> row(call, team, place);
        kTeam(row);
      }
    });
  threads.clear();  // joined
}

/// Both forms must agree up to the order of the f64 sums.
void expect_near(const Call& call, const Results& want, const Results& got) {
  for (int j = 0; j < call.args.schema->num_judged(); ++j)
    for (std::size_t i = 0; i < want.values[j].size(); ++i) {
      const double size = 1e-12 * std::abs(want.magnitudes[j][i]);
      const auto near = [size](double a, double b) {
        return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= size;
      };
      EXPECT_PRED2(near, want.values[j][i], got.values[j][i]) << j << ", element " << i;
      EXPECT_PRED2(near, want.magnitudes[j][i], got.magnitudes[j][i]) << j << ", " << i;
    }
}

template <void (*kHost)(kernels::HostRow&), void (*kTeam)(TeamRow<Team>&)>
void expect_same(const Call& call) {
  const auto num_rows = static_cast<std::int64_t>(call.rows.size());
  Results want(call), got(call);
  kernels::row_reference<kHost>(call.args, call.rows.data(), num_rows, want.out);
  run_team<kTeam>(kernels::oracle_call(call.args, call.rows.data(), got.out), num_rows);
  expect_near(call, want, got);
}

/// The same for oracles whose rows share values.
template <void (*kHostShared)(kernels::HostRow&), void (*kHost)(kernels::HostRow&),
          void (*kTeamShared)(TeamRow<Team>&), void (*kTeam)(TeamRow<Team>&),
          kernels::SharedSize (*kSize)(const Args&)>
void expect_same_shared(const Call& call) {
  const auto num_rows = static_cast<std::int64_t>(call.rows.size());
  const kernels::SharedSize size = kSize(call.args);
  Results want(call), got(call);
  kernels::shared_row_reference<kHostShared, kHost, kSize>(call.args, call.rows.data(), num_rows,
                                                           want.out);
  OracleCall on_device = kernels::oracle_call(call.args, nullptr, got.out);
  std::vector<double> shared(static_cast<std::size_t>(size.values));
  on_device.shared = shared.data();
  run_team<kTeamShared>(on_device, size.calls);
  on_device.rows = call.rows.data();
  run_team<kTeam>(on_device, num_rows);
  expect_near(call, want, got);
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

/// x [rows, 300] with a column of zeros and, if there are several scales, a NaN and an infinity.
Call tiles_call(const char* op, std::vector<std::int64_t> scales, std::vector<std::int64_t> rows) {
  constexpr std::int64_t kWidth = 300;
  const std::int64_t count = rows.back() + 1;
  Call call(op);
  const TensorView& x = call.add(quant::tiles::kX, {count, kWidth}, DType::kF32, 2);
  auto* const elements = static_cast<float*>(x.data);
  const auto at = [&](std::int64_t t, std::int64_t c) -> float& {
    return elements[t * x.strides[0] + c];
  };
  if (!scales.empty()) at(3, 7) = NAN, at(count - 1, 299) = INFINITY;
  for (std::int64_t t = 0; t < count; ++t) at(t, 9) = 0;
  call.add(quant::tiles::kQ, {count, kWidth}, DType::kF8E4M3);
  call.add(quant::tiles::kScale, std::move(scales));
  call.args.letters[quant::tiles::kT] = count, call.args.letters[quant::tiles::kK] = kWidth;
  call.rows = std::move(rows);
  return call;
}

TEST(OracleRow, ScalesOverTiles) {
  using namespace quant;
  for (const std::int64_t powers : {0, 1}) {
    Call call = tiles_call("quantize_block128", {3, 3}, {0, 1, 2, 127, 128, 255, 256, 259});
    call.args.scalars[tiles::kScaleDtype].i = powers;
    expect_same_shared<quantize_block128_shared<kernels::HostRow>,
                       quantize_block128_row<kernels::HostRow>,
                       quantize_block128_shared<TeamRow<Team>>,
                       quantize_block128_row<TeamRow<Team>>, tiles::shared_size<QuantTile::kBlock>>(
        call);
    Call channel = tiles_call("quantize_channel", {300}, {0, 1, 19});
    channel.args.scalars[tiles::kScaleDtype].i = powers;
    expect_same_shared<quantize_channel_shared<kernels::HostRow>,
                       quantize_channel_row<kernels::HostRow>,
                       quantize_channel_shared<TeamRow<Team>>, quantize_channel_row<TeamRow<Team>>,
                       tiles::shared_size<QuantTile::kChannel>>(channel);
    Call tensor = tiles_call("quantize_tensor", {}, {0, 1, 9});
    tensor.args.scalars[tiles::kScaleDtype].i = powers;
    expect_same_shared<quantize_tensor_shared<kernels::HostRow>,
                       quantize_tensor_row<kernels::HostRow>, quantize_tensor_shared<TeamRow<Team>>,
                       quantize_tensor_row<TeamRow<Team>>, tiles::shared_size<QuantTile::kTensor>>(
        tensor);
  }
}

TEST(OracleRow, RowsThatAreScattered) {
  using namespace kv_cache;
  constexpr std::int64_t kTokens = 5, kHeads = 3, kWidth = 20, kBlocks = 4, kPageRows = 2;
  const auto fill = [&](Call& call, std::int64_t k_heads, std::int64_t v_heads,
                        std::int64_t v_width) {
    call.add(kK, {kTokens, k_heads, kWidth}, DType::kF32, 3);
    call.add(kV, {kTokens, v_heads, v_width});
    call.add(kKCache, {kBlocks, kPageRows, k_heads, kWidth}, DType::kF8E4M3);
    call.add(kVCache, {kBlocks, kPageRows, v_heads, v_width}, DType::kF8E4M3, 1);
    const TensorView& slots = call.add(kSlots, {kTokens}, DType::kI32);
    const std::int32_t of[kTokens] = {6, -1, 0, 3, 7};
    std::copy(std::begin(of), std::end(of), static_cast<std::int32_t*>(slots.data));
    *static_cast<float*>(call.add(kKScale, {}).data) = 0.37f;
    for (std::int64_t row = 0; row < kBlocks * kPageRows * k_heads; ++row) call.rows.push_back(row);
  };
  for (const std::int64_t v_width : {kWidth, kWidth - 7}) {
    Call call("store_kv_cache");
    fill(call, kHeads, kHeads, v_width);
    const std::int64_t letters[] = {kTokens, kHeads, kWidth, v_width, kBlocks, kPageRows};
    std::copy(std::begin(letters), std::end(letters), call.args.letters);
    expect_same_shared<store_kv_cache_shared<kernels::HostRow>,
                       store_kv_cache_row<kernels::HostRow>, store_kv_cache_shared<TeamRow<Team>>,
                       store_kv_cache_row<TeamRow<Team>>, store_kv_cache_size>(call);
  }
  Call latent("store_mla_heads");
  fill(latent, kHeads, 1, kWidth);
  const std::int64_t mla[] = {kTokens, kHeads, kWidth, 1, kBlocks, kPageRows};
  std::copy(std::begin(mla), std::end(mla), latent.args.letters);
  expect_same_shared<store_mla_heads_shared<kernels::HostRow>,
                     store_mla_heads_row<kernels::HostRow>, store_mla_heads_shared<TeamRow<Team>>,
                     store_mla_heads_row<TeamRow<Team>>, store_mla_heads_size>(latent);
}

TEST(OracleRow, ResultsOverColumns) {
  using namespace norm;
  Call call("layer_norm_backward");
  call.add(kGradDy, {3, 17});
  call.add(kGradX, {3, 17}, DType::kF32, 5);
  call.add(kGradWeight, {17});
  call.add(kGradDx, {3, 17});
  call.add(kGradDx + 1, {17});
  call.add(kGradDx + 2, {17});
  call.args.letters[kLayerNormT] = 3, call.args.letters[kLayerNormC] = 17;
  call.rows = {2, 0};
  expect_same_shared<layer_norm_backward_shared<kernels::HostRow>,
                     layer_norm_backward_row<kernels::HostRow>,
                     layer_norm_backward_shared<TeamRow<Team>>,
                     layer_norm_backward_row<TeamRow<Team>>, layer_norm_backward_size>(call);
}

TEST(OracleRow, ResultsOverColumnsThatAreCast) {
  using namespace norm::backward;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Call call("rms_norm_backward");
    call.add(kDy, {5, 17}, dtype, 2);
    call.add(kX, {5, 17}, dtype);
    call.add(kWeight, {17});
    if (dtype == DType::kBF16) call.add(kDresidual, {5, 17}, dtype);
    call.add(kDx, {5, 17}, dtype);
    call.add(kDweight, {17});
    call.args.letters[norm::kT] = 5, call.args.letters[norm::kC] = 17;
    call.args.scalars[norm::kWeightOffset].f = 1;
    call.args.scalars[norm::kCastBeforeWeight].i = 1;
    call.rows = {0, 4};
    expect_same_shared<norm::rms_norm_backward_shared<kernels::HostRow>,
                       norm::rms_norm_backward_row<kernels::HostRow>,
                       norm::rms_norm_backward_shared<TeamRow<Team>>,
                       norm::rms_norm_backward_row<TeamRow<Team>>, norm::rms_norm_backward_size>(
        call);
  }
}

TEST(OracleRow, GradientsOfChoices) {
  using namespace moe;
  constexpr std::int64_t kChoices = 3, kTokens = 4, kExperts = 21;
  Call call("topk_gating_backward");
  call.add(kGateGradAux, {});
  call.add(kGateGradWeights, {kChoices * kTokens});
  call.add(kGateGradLogits, {kTokens, kExperts}, DType::kF32, 2);
  const TensorView& kept = call.add(kGateGradKept, {kChoices * kTokens}, DType::kI32);
  for (int i = 0; i < kChoices * kTokens; ++i)  // one twice, one of none
    static_cast<std::int32_t*>(kept.data)[i] = i == 5 ? -1 : i == 4 ? 7 : i * 7 % 19;
  const TensorView& first = call.add(kGateGradFirst, {kExperts}, DType::kI32);
  for (int i = 0; i < kExperts; ++i) static_cast<std::int32_t*>(first.data)[i] = i % 3;
  call.add(kGateGradOut, {kTokens, kExperts});
  const std::int64_t letters[] = {kChoices, kTokens, kExperts};
  std::copy(std::begin(letters), std::end(letters), call.args.letters);
  call.rows = {0, 3, 1, 2};
  expect_same<topk_gating_backward_row<kernels::HostRow>, topk_gating_backward_row<TeamRow<Team>>>(
      call);
}

TEST(OracleRow, RowsByNumbers) {
  using namespace moe;
  Call call("moe_unpermute");
  call.add(kUnpermuteRows, {9, 50}, DType::kF32, 1);
  const TensorView& inverse = call.add(kUnpermuteInverse, {4, 3}, DType::kI32);
  for (int i = 0; i < 12; ++i) static_cast<std::int32_t*>(inverse.data)[i] = i * 5 % 11 - 1;
  call.add(kUnpermuteWeights, {4, 3});
  call.add(kUnpermuteY, {4, 50});
  const std::int64_t letters[] = {9, 50, 4, 3};
  std::copy(std::begin(letters), std::end(letters), call.args.letters);
  call.rows = {3, 0, 1};
  expect_same<moe_unpermute_row<kernels::HostRow>, moe_unpermute_row<TeamRow<Team>>>(call);
}

TEST(OracleRow, StatesThatTakeAStep) {
  using namespace ssm::update;
  constexpr std::int64_t kSequences = 2, kGroups = 2, kEach = 3, kChannels = 4, kStates = 21;
  constexpr std::int64_t kHeads = kGroups * kEach;
  for (const bool all : {false, true}) {
    Call call("selective_state_update");
    call.add(kState, {kSequences, kHeads, kChannels, kStates});
    call.add(kX, {kSequences, kHeads, kChannels}, DType::kF32, 2);
    call.add(kDt, {kSequences, kHeads, kChannels});
    call.add(kA, {kHeads, kChannels, kStates});
    call.add(kB, {kSequences, kGroups, kStates}, DType::kF32, 3);
    call.add(kC, {kSequences, kGroups, kStates});
    if (all) {
      for (const int i : {kD, kDtBias}) call.add(i, {kHeads, kChannels});
      call.add(kZ, {kSequences, kHeads, kChannels});
    }
    call.add(kY, {kSequences, kHeads, kChannels});
    const std::int64_t letters[] = {kSequences, kGroups, kEach, kChannels, kStates};
    std::copy(std::begin(letters), std::end(letters), call.args.letters);
    call.args.scalars[kSoftplus].i = all;
    for (std::int64_t row = 0; row < kSequences * kHeads * kChannels; ++row)
      call.rows.push_back(row);
    expect_same<ssm::selective_state_update_row<kernels::HostRow>,
                ssm::selective_state_update_row<TeamRow<Team>>>(call);
  }
}

struct Term {
  std::vector<double> terms;
  double operator()(std::int64_t c) const { return terms[static_cast<std::size_t>(c)]; }
};

// A gradient's column whose partial sums are small in this order alone: a GPU had 2.75 roundings.
TEST(OracleRow, AFoldedColumnAllowsEveryOrder) {
  std::vector<float> terms = {2.4090405F,   -1.6712214F, -0.27051646F,
                              -0.36891428F, 0.29705012F, -0.6507829F};
  kernels::FoldedColumn column;
  for (const float term : terms) column.add(term, 0, 0);
  std::sort(terms.begin(), terms.end());
  double worst = 0;
  do {
    const float sum = std::accumulate(terms.begin(), terms.end(), 0.0F);
    worst = std::max(worst, std::abs(sum - column.sum()) / kRounding);
  } while (std::next_permutation(terms.begin(), terms.end()));
  EXPECT_GT(worst, 2.7);
  EXPECT_GT(column.magnitude(), worst);
  EXPECT_LT(column.magnitude(), 3 * worst);
}

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

/// Element (row, column) of a matrix; 0 past its ends, as in a kernel's tile.
double in_tile(const TensorView& t, std::int64_t row, std::int64_t column) {
  const bool there = row < t.shape[0] && column < t.shape[1];
  return there ? load_element(t, row * t.strides[0] + column * t.strides[1]) : 0;
}
/// The reference of a product equals element(row, column) to the bit.
template <typename Element>
void expect_elements(const Call& call, std::int64_t n, const Element& element) {
  Results want(call);
  Registry::process()
      .at(call.args.schema->name)
      .op->def.reference(call.args, call.rows.data(), static_cast<std::int64_t>(call.rows.size()),
                         want.out);
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (std::size_t r = 0; r < call.rows.size(); ++r)
    for (std::int64_t j = 0; j < n; ++j) {
      const OracleValue of = element(call.rows[r], j);
      const std::size_t at = r * static_cast<std::size_t>(n) + static_cast<std::size_t>(j);
      EXPECT_PRED2(same, want.values[0][at], of.value) << call.rows[r] << ", " << j;
      EXPECT_PRED2(same, want.magnitudes[0][at], of.magnitude) << call.rows[r] << ", " << j;
    }
}

// Random bits of bf16 include NaN, infinities, and numbers below f32's normal range.
TEST(OracleRow, ProductsInTiles) {
  constexpr std::int64_t kM = 5, kN = 11;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (const std::int64_t k : {1, 16, 100, 1003})
      for (const std::int64_t activation : {0, 3}) {
        Call call("matmul");
        const TensorView &a = call.add(gemm::kA, {kM, k}, dtype, 3),
                         &b = call.add(gemm::kB, {k, kN}, dtype);
        const TensorView& bias = call.add(gemm::kBias, {kN});
        call.add(gemm::kOut, {kM, kN}, dtype);
        const std::int64_t letters[] = {kM, k, kN};
        std::copy(std::begin(letters), std::end(letters), call.args.letters);
        call.args.scalars[gemm::kActivation].i = activation;
        call.rows = {4, 0, 1};
        const gemm::MatmulRule rule =
            gemm::matmul_rule(dtype, k, static_cast<gemm::Activation>(activation));
        expect_elements(call, kN, [&](std::int64_t row, std::int64_t column) {
          gemm::ProductSums<gemm::OneColumn, 1> sums;
          double lost = 0;
          for (std::int64_t k0 = 0; k0 < k; k0 += kSumStep)
            sums.add(kSumStep, [&](int i, int) {
              const double x = in_tile(a, row, k0 + i), y = in_tile(b, k0 + i, column);
              if (rule.loses) lost += gemm::lost_of(x, y);
              return x * y;
            });
          return gemm::matmul_element(rule, sums.column(0), lost, load_element(bias, column));
        });
      }
}

TEST(OracleRow, ScaledProductsInTiles) {
  namespace scaled = gemm::scaled;
  constexpr std::int64_t kM = 3, kN = 130, kTile = 16;
  for (const DType dtype : {DType::kI8, DType::kF8E4M3})
    for (const std::int64_t k : {1, 128, 300})
      for (const bool blocks : {false, true}) {
        Call call(blocks ? "scaled_mm_block" : "scaled_mm_channel");
        const TensorView &a = call.add(scaled::kA, {kM, k}, dtype, 3),
                         &b = call.add(scaled::kB, {k, kN}, dtype);
        const std::int64_t groups = blocks ? (k + 127) / 128 : 1;
        const TensorView& a_scale = call.add(scaled::kAScale, {kM, groups});
        const TensorView& b_scale =
            blocks ? call.add(scaled::kBScale, {groups, 2}) : call.add(scaled::kBScale, {kN});
        const TensorView& bias = call.add(scaled::kBias, {kN});
        call.add(scaled::kOut, {kM, kN});
        const std::int64_t letters[] = {kM, k, kN};
        std::copy(std::begin(letters), std::end(letters), call.args.letters);
        call.rows = {2, 0};
        const scaled::ScaledRule rule = scaled::scaled_rule(dtype, k, blocks);
        expect_elements(call, kN, [&](std::int64_t row, std::int64_t column) {
          const auto terms = [&](scaled::ScaledWalk& walk, std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < (end + kTile - 1) / kTile * kTile; ++i)
              walk.add(in_tile(a, row, i) * in_tile(b, i, column));
          };
          const auto factor = [&](std::int64_t group) {
            return scaled::scaled_factor(
                in_tile(a_scale, row, group),
                blocks ? in_tile(b_scale, group, column / 128) : load_element(b_scale, column));
          };
          return scaled::scaled_element(rule, terms, factor, load_element(bias, column));
        });
      }
}

}  // namespace
}  // namespace dlblas
