// grouped_topk on CPUs: vectorised scores, one implementation per instruction-set level; groups and
// experts are chosen by the ranks that the row skeletons use. Flow: call > validate > [select] >
// [compile] > [launch]. Read next: grouped_topk_simd.hpp, device/row/base.hpp (RowRank).
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "device/row/base.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/grouped_topk/grouped_topk.hpp"

namespace dlblas::moe::grouped {
namespace {

struct Level {
  GroupedTopkPasses (*passes)();
};
constexpr Level kBaseline = {baseline::grouped_topk_passes};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::grouped_topk_passes};
constexpr Level kAvx512 = {avx512::grouped_topk_passes};
#endif

struct Config {
  int grain = 16;  // rows of a task
};
const ConfigTable<Config>& table() {
  static const auto* knobs = new ConfigTable<Config>{field<&Config::grain>("grain", {4, 16, 64})};
  return *knobs;
}

struct State {
  GroupedTopkPasses passes;
  std::int64_t grain;
};

/// The `count` largest of the ranks offered, in any order, kept at `ranks`. A large count is sorted
/// in finish(): `ranks` must then have room for all that are offered.
class Best {
 public:
  Best(std::int64_t count, std::uint64_t* ranks) : count_(count), ranks_(ranks) {}
  static bool sorts(std::int64_t count) { return count > kHeldTopk; }
  void offer(std::uint64_t rank) {
    if (sorts(count_)) {
      ranks_[size_++] = rank;
      return;
    }
    if (size_ == count_ && (count_ == 0 || rank < ranks_[size_ - 1])) return;
    std::int64_t at = size_ < count_ ? size_++ : size_ - 1;
    for (; at > 0 && ranks_[at - 1] < rank; --at) ranks_[at] = ranks_[at - 1];
    ranks_[at] = rank;
  }
  void finish() {
    if (!sorts(count_)) return;
    const std::int64_t kept = std::min(count_, size_);
    std::partial_sort(ranks_, ranks_ + kept, ranks_ + size_, std::greater<>());
    size_ = kept;
  }
  RowPicked operator[](std::int64_t i) const { return RowRank::picked(ranks_[i]); }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t count_, size_ = 0;
  std::uint64_t* ranks_;
};

/// The state of a task.
class Task {
 public:
  Task(const Args& args, const State& state)
      : args_(args),
        state_(state),
        x_(static_cast<std::size_t>(args.letters[kE])),
        biased_(x_.size()),
        best_(Best::sorts(args.letters[kTopk]) ? x_.size() : kHeldTopk),
        powers_(static_cast<std::size_t>(args.letters[kTopk])),
        groups_(args.scalars[kNumGroups].i),
        width_(args.letters[kE] / groups_),
        softmax_(args.scalars[kScoring].i == kSoftmax) {
    if (!args.has(kBias)) return;
    bias_.resize(x_.size());
    widen(args.tensors[kBias], 0, bias_.data());
  }

  void run(std::int64_t t) {
    widen(args_.tensors[kLogits], rows_of(args_.tensors[kLogits]).offset(t), x_.data());
    GroupedScores scores{x_.data(),
                         bias_.empty() ? nullptr : bias_.data(),
                         args_.letters[kE],
                         softmax_,
                         biased_.data(),
                         0,
                         1};
    state_.passes.score(scores);
    Best best(args_.letters[kTopk], best_.data());
    mark_groups();
    for (std::int64_t g = 0; g < groups_; ++g)
      if (kept_[static_cast<std::size_t>(g)])
        for (std::int64_t e = g * width_; e < (g + 1) * width_; ++e)
          best.offer(
              RowRank::of(biased_[static_cast<std::size_t>(e)], static_cast<std::int32_t>(e)));
    best.finish();
    weigh(best, scores, t);
  }

 private:
  void widen(const TensorView& from, std::int64_t at, float* to) const {
    const std::int64_t stride = from.strides[from.rank - 1], count = args_.letters[kE];
    if (stride == 1) {
      const char* row = static_cast<const char*>(from.data) + at * size_of(from.dtype);
      state_.passes.widen(from.dtype, row, count, to);
    }
    for (std::int64_t e = 0; stride != 1 && e < count; ++e)
      to[e] = static_cast<float>(load_element(from, at + e * stride));
  }
  /// Marks the groups with the largest sums of their two best.
  void mark_groups() {
    const std::int64_t most = args_.scalars[kTopkGroups].i;
    kept_.assign(static_cast<std::size_t>(groups_), most == groups_);
    if (most == groups_) return;
    ranks_.clear();
    for (std::int64_t g = 0; g < groups_; ++g) {
      std::uint64_t ranks[2];
      Best two(std::min<std::int64_t>(2, width_), ranks);
      for (std::int64_t e = g * width_; e < (g + 1) * width_; ++e)
        two.offer(RowRank::of(biased_[static_cast<std::size_t>(e)], 0));
      const float sum = two.size() > 1 ? two[0].value + two[1].value : two[0].value;
      ranks_.push_back(RowRank::of(sum, static_cast<std::int32_t>(g)));
    }
    std::partial_sort(ranks_.begin(), ranks_.begin() + most, ranks_.end(), std::greater<>());
    for (std::int64_t i = 0; i < most; ++i)
      kept_[static_cast<std::size_t>(RowRank::picked(ranks_[static_cast<std::size_t>(i)]).column)] =
          true;
  }
  /// σ(x)·e^−shift, or e^(x − shift).
  double power(double x, double shift) const {
    if (softmax_) return std::exp(x - shift);
    const double below = x < 0 || std::isnan(x) ? x : 0;
    return std::exp(below - shift) / (1 + std::exp(-std::abs(x)));
  }
  void weigh(const Best& best, const GroupedScores& scores, std::int64_t t) {
    const bool renormalize = args_.scalars[kRenormalize].i != 0;
    const std::int64_t count = best.size(), shared = args_.letters[kShared];
    double shift = softmax_ ? static_cast<double>(scores.max) : 0, sum = 0;
    const auto logit = [&](std::int64_t r) {
      return static_cast<double>(x_[static_cast<std::size_t>(best[r].column)]);
    };
    for (std::int64_t r = 0; renormalize && r < count; ++r) {
      const double x = logit(r), below = softmax_ || x < 0 || std::isnan(x) ? x : 0;
      if (r == 0 || below > shift || std::isnan(below)) shift = below;
      if (std::isnan(shift)) break;
    }
    for (std::int64_t r = 0; r < count; ++r)
      sum += powers_[static_cast<std::size_t>(r)] = power(logit(r), shift);
    double over = renormalize ? sum : softmax_ ? scores.sum : 1;
    if (softmax_ && std::isnan(scores.sum)) over = scores.sum;
    const TensorView &weights = args_.tensors[kWeights], &ids = args_.tensors[kIds];
    const std::int64_t w = rows_of(weights).offset(t), i = rows_of(ids).offset(t);
    const auto put = [&](std::int64_t r, double weight, std::int64_t id) {
      store_element(weights, w + r * weights.strides[weights.rank - 1], weight);
      store_element(ids, i + r * ids.strides[ids.rank - 1], static_cast<double>(id));
    };
    for (std::int64_t r = 0; r < count; ++r)
      put(r, args_.scalars[kScale].f * powers_[static_cast<std::size_t>(r)] / over, best[r].column);
    for (std::int64_t s = 0; s < shared; ++s) put(count + s, sum / over, args_.letters[kE] + s);
  }

  const Args& args_;
  const State& state_;
  std::vector<float> x_, bias_, biased_;
  std::vector<std::uint64_t> ranks_, best_;
  std::vector<double> powers_;
  std::vector<bool> kept_;
  std::int64_t groups_, width_;
  bool softmax_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  context.run(0, args.letters[kT], state.grain, [&](std::int64_t begin, std::int64_t end) {
    Task task(args, state);
    for (std::int64_t t = begin; t < end; ++t) task.run(t);
  });
  return 0;
}

Kernel prepare(const Query& q, const dlblas::Config& config) {
  return make_kernel({run},
                     State{kernels::code_of<Level>(q).passes(), table().from_config(config).grain});
}

double estimate(const Query& q, const dlblas::Config&) {
  const auto rows = static_cast<double>(q.problem.dims[kT]);
  const auto experts = static_cast<double>(q.problem.dims[kE]);
  const double units = std::max(1.0, std::min<double>(q.problem.threads, rows));
  // Choosing dominates: some 40 scalar operations per expert.
  return 1e3 * launch_s(q.device) + kernels::rates_of(q).roofline_ms(units, rows * experts * 4,
                                                                     rows * experts * 400,
                                                                     DType::kF32);
}

}  // namespace

std::vector<Implementation> cpu() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
  base.supports = [](const Query&) { return Support::yes(); };
  base.heuristic = [](const Query&) { return table().to_config(Config{}); };
  base.estimate = estimate;
  base.prepare = prepare;
  return kernels::per_level(base, "cpu_", {
#if defined(__x86_64__)
    {Isa::kAvx512, source_hash<"ops/moe/grouped_topk/grouped_topk_avx512.cpp">(), &kAvx512},
        {Isa::kAvx2, source_hash<"ops/moe/grouped_topk/grouped_topk_avx2.cpp">(), &kAvx2},
#endif
        {Isa::kBaseline, source_hash<"ops/moe/grouped_topk/grouped_topk_baseline.cpp">(),
         &kBaseline},
  });
}

}  // namespace dlblas::moe::grouped
